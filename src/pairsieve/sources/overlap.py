"""Which pairs a language model labels, and the overlap with people's answers that measures it.

A share of the pairs that people answered (the overlap) is put to the model as well. These answers lie
beside the ledger, in `overlap.jsonl`: in the ledger they would be votes, and a model that disagrees with
one person would reopen the question. They belong to one wording of the definition, as another wording
makes another labeller. Examples shown to the model are never taken from the overlap, nor from an audit.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pairsieve.contracts import Answer
from pairsieve.errors import InputError
from pairsieve.files import parse_json
from pairsieve.ledger import Ledger
from pairsieve.pairs import Ids
from pairsieve.sources.prompt import Example

SOURCE = "language model"  # how the ledger tells a model's answers from people's
FOLDER = "language-model"  # in the campaign's folder
OVERLAP_FILE, SPENT_FILE = "overlap.jsonl", "spent.jsonl"  # in that folder


@dataclass(frozen=True)
class KnownAnswers:
    """What is known by pair id: 1, 0, or None for unsure."""

    people: dict[int, int | None]  # their majority; ties are left out
    on_overlap: dict[int, int | None]  # the model's answers that only measure it
    in_ledger: dict[int, int | None]  # the model's answers that count as labels
    by_people: set[int]  # pairs that anybody but a model has answered, ties among them

    @property
    def model(self) -> dict[int, int | None]:
        """All answers of the model, to compare with people."""
        return self.on_overlap | self.in_ledger


@dataclass(frozen=True)
class Plan:
    """What the model is shown and asked; the three have no pair in common."""

    examples: tuple[Example, ...]
    overlap: Ids
    open: Ids


def models_asked(ledger: Ledger) -> set[str]:
    """Names of the models whose answers are in the ledger; an error where a person bears one of them."""
    events = ledger.answers()
    named = set(zip(events.who, events.source))
    models = {who for who, source in named if source == SOURCE}
    refuse_namesakes(models, {who for who, source in named if source != SOURCE})
    return models


def refuse_namesakes(models: set[str], people: set[str]) -> None:
    """An error where a model and a person have one name: the one's answers would pass for the other's."""
    if both := sorted(models & people):
        what = f"a model and somebody else answer under the name {both[0]!r}"
        why, remedy = "whose answer counts would be unclear", "Let that person use another name"
        raise InputError(what, where="ledger", why=why, remedy=remedy)


def known_answers(ledger: Ledger, overlap_file: Path, model: str, definition: str) -> KnownAnswers:
    """What people and the model have answered. Truth counts among people; other models do not."""
    models = models_asked(ledger)
    standing = ledger.answers_by_person()
    refuse_namesakes({model}, standing.keys() - models)
    votes: dict[int, Counter[int | None]] = {}
    for who, answers in standing.items():
        if who not in models:
            for pair, label in answers.items():
                votes.setdefault(pair, Counter())[label] += 1
    on_overlap = read_overlap(overlap_file, model, definition)
    return KnownAnswers(majority(votes), on_overlap, standing.get(model, {}), set(votes))


def majority(votes: Mapping[int, Counter[int | None]]) -> dict[int, int | None]:
    """The majority's label by pair: None where all are unsure; a pair with a tie is left out."""
    settled: dict[int, int | None] = {}
    for pair, counted in votes.items():
        if counted[1] != counted[0]:
            settled[pair] = int(counted[1] > counted[0])
        elif not counted[1]:
            settled[pair] = None
    return settled


def plan(
    ledger: Ledger,
    known: KnownAnswers,
    texts: Callable[[int], tuple[str, str]],
    overlap: float,
    examples: int,
    purpose: str,
    seed: int,
) -> Plan:
    """Choose examples (half of them matches) and overlap, and leave out what the model has answered.

    A pair is drawn for the overlap with chance `overlap`, the same pairs whenever it is asked again.
    """
    trained_on = ledger.questions(purpose="train").ids.tolist()  # an audit is sealed: its pairs stay out
    people = {pair: known.people[pair] for pair in trained_on if pair in known.people}
    chosen = [pair for pair in people if _drawn(pair, seed) < overlap]
    rest = sorted(people.keys() - set(chosen), key=lambda pair: _drawn(pair, seed + 1))
    wanted = {1: examples // 2 + examples % 2, 0: examples // 2}
    shown = [pair for label, few in wanted.items() for pair in [p for p in rest if people[p] == label][:few]]
    shown.sort(key=lambda pair: _drawn(pair, seed + 2))  # so that not all matches come first
    # What people disagree on stays theirs to settle: a model's vote would break the tie unseen.
    taken = known.by_people | known.in_ledger.keys()
    waiting = [pair for pair in ledger.open_questions(purpose=purpose).tolist() if pair not in taken]
    return Plan(
        examples=tuple(Example(*texts(pair), people[pair]) for pair in shown),
        overlap=np.array([p for p in chosen if p not in known.model], np.int64),
        open=np.array(waiting, np.int64),
    )


def overlap_writer(place: Path, model: str, definition: str) -> Callable[[Sequence[Answer]], None]:
    """Keeps each answer as a line of `place`."""

    def keep(answers: Sequence[Answer]) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("ab") as file:
            for answer in answers:
                row = {"model": model, "definition": _digest(definition)}
                line = json.dumps(row | {"pair": answer.id, "label": answer.label})
                file.write(f"\n{line}\n".encode())  # from a new line, whatever a kill left of the last

    return keep


def read_overlap(place: Path, model: str, definition: str) -> dict[int, int | None]:
    """The model's latest answer to each pair under this definition; incomplete lines are passed over."""
    wanted = model, _digest(definition)
    return {pair: label for *under, pair, label in _overlap_rows(place) if tuple(under) == wanted}


def latest_overlaps(place: Path) -> dict[str, dict[int, int | None]]:
    """{model: {pair: label}} of each model under the definition it was asked with last."""
    latest: dict[str, tuple[str, dict[int, int | None]]] = {}
    for model, definition, pair, label in _overlap_rows(place):
        if model not in latest or latest[model][0] != definition:
            latest[model] = (definition, {})
        latest[model][1][pair] = label
    return {model: answers for model, (_, answers) in latest.items()}


def _overlap_rows(place: Path) -> Iterator[tuple[str, str, int, int | None]]:
    """(model, digest of the definition, pair, label), in the order written; incomplete lines are left out."""
    for line in place.read_bytes().splitlines() if place.exists() else []:
        try:
            row = parse_json(line)
            if row["label"] in (0, 1, None):
                yield str(row["model"]), str(row["definition"]), int(row["pair"]), row["label"]
        except (ValueError, KeyError, TypeError):
            continue


def _digest(definition: str) -> str:
    return hashlib.sha256(definition.encode()).hexdigest()[:16]


def _drawn(pair: int, seed: int) -> float:
    """A number in [0, 1) that belongs to the pair for ever."""
    digest = hashlib.blake2b(f"{seed}:{pair}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64

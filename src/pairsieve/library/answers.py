"""Open questions and their answers: in memory, in files, and from a language model."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.audit.run import CHECK, RECALL_CHECK
from pairsieve.campaign import Campaign
from pairsieve.campaign.audits import SplitLedger, split_ledger
from pairsieve.campaign.status import tied
from pairsieve.contracts import Answer, generator_for
from pairsieve.errors import InputError
from pairsieve.files import read_limited
from pairsieve.ledger import Ledger
from pairsieve.ledger.names import person_name
from pairsieve.library.campaigns import Place, open_campaign
from pairsieve.library.records import Folder, ImportedAnswers, Question, QuestionFile
from pairsieve.measure.agreement import OverlapAgreement, overlap_agreement
from pairsieve.pairs import Ids
from pairsieve.reranker.fields import columns_of
from pairsieve.sources.endpoint import Endpoint
from pairsieve.sources.exchange import AskedPairs, QuestionBatch, format_of, read_answers, write_batch
from pairsieve.sources.language_model import LanguageModelSource, ModelReport
from pairsieve.sources.overlap import (
    FOLDER,
    OVERLAP_FILE,
    SOURCE,
    SPENT_FILE,
    known_answers,
    overlap_writer,
    plan,
)
from pairsieve.sources.prompt import DEFINITIONS, Prompt
from pairsieve.sources.spending import SpendBudget, SpendCap, Spent
from pairsieve.tasks import Collection, Split
from pairsieve.tasks.joined import taken_apart, without_gaps
from pairsieve.visible import visible

MOST_DEFINITION = 1 << 20  # bytes of a text on what counts as a match
GUIDELINE = "guideline.md"  # in the campaign folder: what counts as a match, for those who label


def prompt_texts(split: Split) -> tuple[Callable[[int], str], Callable[[int], str]]:
    """What gives the text of a left and of a right row to a language model.

    A record has a line "field: value" for each value that is there; a plain text is as it is.
    """

    def rendered(side: Collection) -> Callable[[int], str]:
        names = [name for name, _ in columns_of(side)]

        def text(row: int) -> str:
            if not names:
                return without_gaps(side.texts[row])
            values = zip(names, taken_apart(side.texts[row]))
            return "\n".join(f"{name}: {value}" for name, value in values if value)

        return text

    left = rendered(split.left)
    return left, left if split.left is split.right else rendered(split.right)


def open_questions(campaign: Place, *, count: int | None = None, split: str | None = None) -> list[Question]:
    """The pairs that wait for a label, in the order of asking; `split`: of an audit of that split."""
    place = _place(campaign, split)
    return _questions(place, place.ledger.open_questions()[:count])


def answer_questions(
    campaign: Place, answers: Mapping[tuple[str, str], bool | None], *, who: str, split: str | None = None
) -> int:
    """Write answers to the ledger, all or none: {(left key, right key): True, False or None for unsure}.

    Returns how many still wait. The latest answer of a person to a pair counts.
    """
    place = _place(campaign, split)
    who = person_name(who, _models(place.ledger), where="`who`")
    asked = _asked(place)
    given = [
        Answer(asked.id(*pair, where="answers"), None if label is None else int(label))
        for pair, label in answers.items()
    ]
    place.ledger.answer(given, who=who, source="python")
    return len(place.ledger.open_questions())


def write_questions(
    campaign: Place,
    out: Folder,
    *,
    format: str | None = None,
    count: int | None = None,
    person: str | None = None,
    split: str | None = None,
) -> QuestionFile:
    """Write open questions to a file for people, who fill in the column `label`.

    format: csv, jsonl, parquet or label-studio; None goes by the name. person: the questions this person has
    not answered, also those that others have.
    """
    format_of(Path(out), format)
    campaign = open_campaign(campaign)
    place = _place(campaign, split)
    ids = _unanswered(place.ledger, person)[:count]
    if not len(ids):
        return QuestionFile((), 0)
    batch = QuestionBatch(ids, *place.split.keys(ids), *place.split.texts(ids))
    note = campaign.folder / GUIDELINE
    guideline = note.read_text(encoding="utf-8") if note.is_file() else ""
    files = tuple(write_batch(Path(out), batch, format, guideline))
    return QuestionFile(files, len(ids), int(np.isin(ids, tied(place.ledger)).sum()))


def import_answers(
    campaign: Place,
    file: Folder,
    *,
    who: str | None = None,
    format: str | None = None,
    split: str | None = None,
) -> ImportedAnswers:
    """Bring answers from a file into the ledger; all rows are checked before the first is written.

    who: answered where the file names nobody. An answer that its person has given already is not written
    again, so that importing twice changes nothing.
    """
    campaign = open_campaign(campaign)
    place = _place(campaign, split)
    if not len(place.ledger.questions()):
        folder = campaign.folder
        next_ = f"run {folder}" if place.own else f"audit {folder} --split {place.name}"
        raise InputError("no question was asked yet", where=str(folder), remedy=f"pairsieve {next_}")
    path = Path(file)
    standing, models = place.ledger.answers_by_person(), _models(place.ledger)
    if who:
        who = person_name(who, models, where="`who`")
    found = read_answers(path, _asked(place), who, format)
    people = found.by_person()
    for person in people:
        person_name(person, models, where=str(path))
    written: dict[str, int] = {}
    source = f"file {visible(path.name, 100)}"
    for person, (given, comments) in people.items():
        known = standing.get(person, {})
        new = [at for at, each in enumerate(given) if known.get(each.id, "nothing") != each.label]
        chosen, notes = [given[at] for at in new], [comments[at] for at in new]
        written[person] = place.ledger.answer(chosen, person, source, comments=notes)
    new_answers, waiting = sum(written.values()), len(place.ledger.open_questions())
    known_before = len(found.answers) - new_answers
    checks = _check_questions(place.ledger)
    answered = np.array([answer.id for answer in found.answers], np.int64)
    return ImportedAnswers(
        path,
        new_answers,
        known_before,
        found.unanswered,
        found.cancelled,
        written,
        waiting,
        len(tied(place.ledger)),
        int(np.isin(answered, checks).sum()),
        int(np.isin(place.ledger.open_questions(), checks).sum()),
    )


@dataclass(frozen=True)
class ModelAnswers:
    """What a language model answered, what it cost, and how far it agrees with people."""

    campaign: Path
    model: str
    definition: str  # where the words on what counts as a match come from
    examples: int
    asked_open: int
    asked_overlap: int
    report: ModelReport
    spent: Spent  # in all runs together
    agreement: OverlapAgreement
    still_open: int

    def as_json(self) -> dict[str, Any]:
        return {
            "campaign": str(self.campaign),
            "model": self.model,
            "definition": self.definition,
            "examples": self.examples,
            "asked": {"open": self.asked_open, "overlap": self.asked_overlap},
            **self.report.as_json(),
            "spent_in_all_runs": self.spent.as_json(),
            "agreement": self.agreement.as_json(),
            "still_open": self.still_open,
        }


def ask_language_model(
    campaign: Place,
    endpoint: Endpoint,
    cap: SpendCap,
    *,
    definition: Folder | None = None,
    count: int | None = None,
    purpose: str = "train",
    overlap: float = 0.1,
    examples: int = 6,
    say: Callable[[str], None] = lambda message: None,
) -> ModelAnswers:
    """Let a language model answer open questions, under a spend cap; answers are written as they come.

    A share `overlap` of the pairs that people answered is asked too, first, and only to measure the model:
    these answers never count as labels. definition: a text file on what counts as a match; None is the
    campaign's guideline.
    """
    endpoint.key()  # a missing key is reported before anything is read
    campaign = open_campaign(campaign)
    ledger, seed, model = campaign.ledger, campaign.settings.seed, endpoint.model
    rng = generator_for(seed, 1, "ask-model")
    guideline, from_where = _definition(campaign, None if definition is None else Path(definition))
    left, right = prompt_texts(campaign.split)
    folder, run = campaign.folder / FOLDER, uuid.uuid4().hex

    def texts(pair: int) -> tuple[str, str]:
        return left(pair >> 32), right(pair & 0xFFFF_FFFF)

    def keep(answers: Sequence[Answer]) -> None:
        tokens = [f"{run}:{answer.id}" for answer in answers]  # handed on twice, it is written once
        ledger.answer(answers, who=model, source=SOURCE, tokens=tokens)

    with SpendBudget(cap, folder / SPENT_FILE) as budget:
        known = known_answers(ledger, folder / OVERLAP_FILE, model, guideline)
        work = plan(ledger, known, texts, overlap, examples, purpose, seed)
        asked = work.open[:count]
        model_source = LanguageModelSource(endpoint, Prompt(guideline, work.examples), texts, budget, rng)
        if len(asked) or len(work.overlap):
            say(
                f"Asking {model} at {endpoint.url} about {len(asked):,} open pairs and {len(work.overlap):,} "
                "that people answered; their texts leave this machine."
            )
        model_source.on_answer = overlap_writer(folder / OVERLAP_FILE, model, guideline)
        model_source.answer(work.overlap)
        if not model_source.report.stopped:
            model_source.on_answer = keep
            model_source.answer(asked)
        report, spent = model_source.report, budget.spent
    known = known_answers(ledger, folder / OVERLAP_FILE, model, guideline)
    return ModelAnswers(
        campaign.folder,
        model,
        from_where,
        len(work.examples),
        len(asked),
        len(work.overlap),
        report,
        spent,
        overlap_agreement(known.model, known.people, rng),
        len(ledger.open_questions(purpose=purpose)),
    )


def _place(campaign: Place, split: str | None) -> SplitLedger:
    return split_ledger(open_campaign(campaign), split)


def _check_questions(ledger: Ledger) -> Ids:
    """The pairs asked to check a list of matches."""
    asked = ledger.questions(purpose="audit")
    of_check = [name.startswith((CHECK, RECALL_CHECK)) for name in asked.strategy]
    return asked.ids[np.array(of_check, bool)]


def _questions(place: SplitLedger, ids: Ids) -> list[Question]:
    return [Question(*each) for each in zip(*place.split.keys(ids), *place.split.texts(ids))]


def _asked(place: SplitLedger) -> AskedPairs:
    """Finds the pair of two keys among the questions asked."""
    asked, split = place.ledger.questions(), place.split
    keys = (asked.left_keys, asked.right_keys, split.left.keys, split.right.keys)
    return AskedPairs.of(asked.ids, *keys, split.space.symmetric)


def _models(ledger: Ledger) -> set[str]:
    """Names under which language models answered."""
    answers = ledger.answers()
    return {who for who, source in zip(answers.who, answers.source) if source == SOURCE}


def _unanswered(ledger: Ledger, person: str | None) -> Ids:
    """Open questions, or all that one person has not answered, in the order of asking."""
    if person is None:
        return ledger.open_questions()
    answered = ledger.answers_by_person().get(person, {})
    return np.array([id for id in ledger.questions().ids.tolist() if id not in answered], np.int64)


def _definition(campaign: Campaign, file: Path | None) -> tuple[str, str]:
    """What counts as a match, and where it is written: the file, the campaign's guideline, or a default."""
    place = file or campaign.folder / GUIDELINE
    if file is not None or place.exists():
        try:
            definition = read_limited(place, MOST_DEFINITION).decode().strip()
        except (OSError, ValueError) as error:
            what, remedy = "the definition cannot be read", "Give a text file in UTF-8"
            raise InputError(what, where=str(place), why=str(error), remedy=remedy) from None
        if definition:
            return definition, str(place)
        if file is not None:
            raise InputError("the definition is empty", where=str(file), remedy="Say what counts as a match")
    return DEFINITIONS[campaign.task.relation], f"default for {campaign.task.relation}"

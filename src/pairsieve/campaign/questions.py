"""The questions of a campaign beyond what its strategy chooses: labels that follow, and labels that measure.

With transitivity some labels follow from others and need not be asked. An inferred label is written with the
chain of pairs it rests on; one that rests on labels which now contradict each other is withdrawn, and written
again once the contradiction is settled, if it still follows.

The measuring share of a batch is drawn from the whole space with known chances. Labels asked where a model is
in doubt cannot tell how good it is. These can: they are drawn over the whole ranking, the ledger keeps the
chance that each had, and no model is trained on them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pairsieve.audit.draws import draw_pairs
from pairsieve.audit.run import ScoredSplit, asked_pairs, estimate_at, plan
from pairsieve.contracts import Answer, generator_for
from pairsieve.errors import LedgerError
from pairsieve.ledger import Ledger
from pairsieve.ledger.records import RoundCount
from pairsieve.pairs import Ids, PairSpace, is_member, pair_rows
from pairsieve.tasks import Split
from pairsieve.transitivity import OPEN, Contradiction, contradictions, grouped, implied

ATTEMPTS = 3  # somebody may change a label between reading and writing; then it is inferred again
NAME = "measure of round "  # how the questions of a measuring share begin their name
WHY = "drawn from all pairs, to measure"

# ── labels that follow ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Inference:
    """What one inference wrote, withdrew and found."""

    inferred: int  # labels written
    withdrawn: int  # inferred labels taken back, as they rest on a contradiction
    contradictions: tuple[Contradiction, ...]  # one for each group of texts that has any


def infer_labels(ledger: Ledger, space: PairSpace, round: int | None = None) -> Inference:
    """Infer the open training questions (of one round, or of all) that follow from labels given, and
    withdraw what rests on a contradiction."""
    for _ in range(ATTEMPTS - 1):
        try:
            return _infer(ledger, space, round)
        except LedgerError:
            continue  # a chain no longer held when it was to be written
    return _infer(ledger, space, round)


def _infer(ledger: Ledger, space: PairSpace, round: int | None) -> Inference:
    ids, labels = ledger.labels(inferred=False)
    if len(ids) == 0:
        return Inference(0, 0, ())
    matches, others = ids[labels], ids[~labels]
    open_pairs = implied(space, ledger.open_questions(round, "train"), matches, others)
    places = np.flatnonzero(open_pairs.inferred).tolist()
    answers = [Answer(int(open_pairs.ids[at]), int(open_pairs.labels[at])) for at in places]
    found: list[Contradiction] = []
    doubtful: list[int] = []
    if open_pairs.groups.torn.any():
        found = contradictions(space, matches, others)
        every, _ = ledger.labels()
        standing = implied(space, every[~is_member(every, ids)], matches, others)
        doubtful = standing.ids[standing.labels == OPEN].tolist()
    written = ledger.infer(answers, [open_pairs.chain(at).tolist() for at in places], doubtful)
    return Inference(written, len(doubtful), tuple(found))


def unaskable_pairs(ledger: Ledger, space: PairSpace, transitivity: bool, through: int | None = None) -> Ids:
    """Pairs that need not be asked: those asked, and with `transitivity` those that follow; sorted."""
    asked = ledger.asked(through)
    if not transitivity:
        return asked
    ids, labels = ledger.labels(through=through, inferred=False)
    return np.union1d(asked, implied_pairs(space, ids[labels], ids[~labels]))


def implied_pairs(space: PairSpace, positives: Ids, negatives: Ids) -> Ids:
    """Every pair whose label follows: inside a group of matches, and between groups kept apart; sorted."""
    groups = grouped(space, positives, negatives)
    order = np.argsort(groups.group, kind="stable")
    starts = np.searchsorted(groups.group[order], np.arange(len(groups.torn) + 1))
    pieces = [np.empty(0, np.int64)]

    def members(group: int) -> Ids:
        return groups.texts[order[starts[group] : starts[group + 1]]]

    for group in np.flatnonzero((np.diff(starts) > 1) & ~groups.torn).tolist():
        texts = members(group)
        one, other = np.triu_indices(len(texts), 1)
        pieces.append(space.ids(texts[one], texts[other]))
    for one_group, other_group in zip(*(side.tolist() for side in pair_rows(groups.apart))):
        if not (groups.torn[one_group] or groups.torn[other_group]):
            left, right = members(one_group), members(other_group)
            pieces.append(space.ids(np.repeat(left, len(right)), np.tile(right, len(left))))
    ids = np.unique(np.concatenate(pieces))
    return ids[space.contains(ids)]


# ── labels that measure ──────────────────────────────────────────────────────────────────────────


def draw_measuring(
    ledger: Ledger, split: Split, scored: ScoredSplit, round: int, count: int, seed: int
) -> None:
    """Ask `count` pairs of a round to measure by, drawn under the scorer of the round before."""
    asked = asked_pairs(ledger, scored.scan)
    strata, expected = plan(scored.scan, asked, count, scored.default_threshold(), scored.probabilities)
    rng = generator_for(seed, round, "measure")
    drawn = draw_pairs(scored.scan, strata, expected, asked, ledger.asked(), rng)
    order = np.argsort(drawn.ids)
    ids = drawn.ids[order]
    rows = zip(pair_rows(ids), (split.left.keys, split.right.keys))
    left, right = ([keys[row] for row in side.tolist()] for side, keys in rows)
    chances = np.minimum(drawn.inclusion_probability[order], 1.0)
    ledger.ask(round, ids, left, right, WHY, f"{NAME}{round}", chances, purpose="audit")


def is_drawn(ledger: Ledger, round: int) -> bool:
    """Whether the measuring share of a round was asked."""
    return f"{NAME}{round}" in ledger.questions(round, "audit").strategy


def open_measuring(ledger: Ledger, round: int) -> Ids:
    """The pairs of a round's measuring share that nobody has answered; sorted."""
    questions = ledger.questions(round, "audit")
    mine = np.array([name == f"{NAME}{round}" for name in questions.strategy], bool)
    return np.intersect1d(questions.ids[mine], ledger.open_questions(round, "audit"))


def counts_with_measuring(ledger: Ledger) -> list[RoundCount]:
    """Where each round stands, its measuring share counted with its batch."""
    questions = ledger.questions(purpose="audit")
    mine = np.array([name.startswith(NAME) for name in questions.strategy], bool)
    if not mine.any():
        return ledger.counts()
    ids, labels = ledger.labels("audit")
    still_open = ledger.open_questions(purpose="audit")
    counts = []
    for count in ledger.counts():
        here = questions.ids[mine & (np.asarray(questions.rounds) == count.round)]
        labelled = np.isin(ids, here)
        waiting = int(np.isin(here, still_open).sum())
        counts.append(
            replace(
                count,
                asked=count.asked + len(here),
                labelled=count.labelled + int(labelled.sum()),
                positives=count.positives + int(labels[labelled].sum()),
                unsure=count.unsure + len(here) - waiting - int(labelled.sum()),
                open=count.open + waiting,
            )
        )
    return counts


def estimated_figures(
    ledger: Ledger, scored: ScoredSplit, round: int, seed: int, fewest: int = 10
) -> dict[str, Any] | None:
    """What drawn labels say of a scorer, as an audit says it; None with fewer than `fewest` of them."""
    asked = asked_pairs(ledger, scored.scan)
    if int(((asked.audit > 0) & (asked.labels >= 0)).sum()) < fewest:
        return None
    rng = generator_for(seed, round, "measure figures")
    return estimate_at(scored.scan, asked, scored.default_threshold(), rng).as_json()

"""Labels inferred by transitivity: which pairs need not be asked, and which labels contradict each other.

All of it is computed from the labels that somebody gave, as often as one likes. An inferred label is written
with the chain of pairs it rests on; one that rests on labels which now contradict each other is withdrawn,
and written again once the contradiction is settled, if it still follows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pairsieve.contracts import Answer
from pairsieve.errors import LedgerError
from pairsieve.ledger import Ledger
from pairsieve.pairs import Ids, PairSpace, is_member, pair_rows
from pairsieve.transitivity import OPEN, Contradiction, contradictions, grouped, implied

ATTEMPTS = 3  # somebody may change a label between reading and writing; then it is inferred again


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

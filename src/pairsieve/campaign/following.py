"""Which open questions need nobody any more, and where do the labels given contradict each other?

Both are read from the labels that somebody gave, at any time, as often as one likes: what follows is written
with the chain it rests on, what followed from labels that now contradict each other is taken back, and once
the contradiction is settled it is written again, if it still follows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pairsieve.contracts import Answer
from pairsieve.errors import LedgerError
from pairsieve.ledger import Ledger
from pairsieve.pairs import PairSpace, is_member
from pairsieve.transitivity import OPEN, Contradiction, implied, one_contradiction_a_group

TRIES = 3  # somebody may change a label between reading and writing; then what follows is read again


@dataclass(frozen=True)
class Followed:
    """What one look at the labels did and found."""

    inferred: int  # labels written
    withdrawn: int  # inferred labels taken back, as they rest on a contradiction
    contradictions: tuple[Contradiction, ...]  # one for each group of texts that has any


def follow(ledger: Ledger, space: PairSpace, number: int | None = None) -> Followed:
    """Infer the open training questions (of round `number`, or of all rounds) that follow; take back what
    rests on a contradiction."""
    for _ in range(TRIES - 1):
        try:
            return _follow(ledger, space, number)
        except LedgerError:
            continue  # a chain no longer held when it was to be written
    return _follow(ledger, space, number)


def _follow(ledger: Ledger, space: PairSpace, number: int | None) -> Followed:
    ids, labels = ledger.labels(inferred=False)
    if len(ids) == 0:
        return Followed(0, 0, ())
    matches, others = ids[labels], ids[~labels]
    said = implied(space, ledger.open_questions(number, "train"), matches, others)
    places = np.flatnonzero(said.inferred).tolist()
    answers = [Answer(int(said.ids[at]), int(said.labels[at])) for at in places]
    contradictions: list[Contradiction] = []
    doubtful: list[int] = []
    if said.groups.torn.any():
        contradictions = one_contradiction_a_group(space, matches, others)
        every, _ = ledger.labels()
        standing = implied(space, every[~is_member(every, ids)], matches, others)
        doubtful = standing.ids[standing.labels == OPEN].tolist()
    written = ledger.infer(answers, [said.chain(at).tolist() for at in places], doubtful)
    return Followed(written, len(doubtful), tuple(contradictions))

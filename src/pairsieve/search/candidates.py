"""The protocol of pair searches, what they return, and candidates kept in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from pairsieve.contracts import Estimate
from pairsieve.errors import PoolExhausted
from pairsieve.pairs import Ids, ScoredPairs, Scores

MAX_HELD = 2_000_000  # candidates held before they are cut to those still wanted


@dataclass(frozen=True)
class Found:
    """Chosen pairs in the order of their ids, how they were searched, and the search's measured recall."""

    pairs: ScoredPairs
    method: str
    recall: Estimate


class PairSearch(Protocol):
    """Finds unasked pairs by score. `asked` is a sorted array of ids to leave out.

    `fewest`: how many pairs will do where there are no more; `count` unless given.
    """

    def best(self, count: int, asked: Ids, fewest: int | None = None) -> Found:
        """The `count` highest scores; ties by smaller id."""

    def closest(self, score: float, count: int, asked: Ids, fewest: int | None = None) -> Found:
        """The `count` scores nearest to `score`; ties by smaller id."""


@dataclass
class TopPairs:
    """The `count` wanted among the pairs handed in so far; `centre` None wants the highest scores."""

    count: int
    asked: Ids
    centre: float | None
    _pieces: list[ScoredPairs] = field(default_factory=list)
    _held: int = 0

    def take(self, ids: Ids, scores: Scores) -> None:
        piece = ScoredPairs.of(ids, scores).without(self.asked)
        self._pieces.append(piece)
        self._held += len(piece)
        if self._held > max(MAX_HELD, 4 * self.count):
            self._cut()

    def kept(self) -> ScoredPairs:
        self._cut()
        return self._pieces[0]

    def _cut(self) -> None:
        together = ScoredPairs.of(
            np.concatenate([piece.ids for piece in self._pieces] or [np.empty(0, np.int64)]),
            np.concatenate([piece.scores for piece in self._pieces] or [np.empty(0, np.float32)]),
        )
        wanted = (
            together.best(self.count) if self.centre is None else together.closest(self.centre, self.count)
        )
        self._pieces, self._held = [wanted], len(wanted)


def check_pool(asked_for: int, free: int, pool: str, remedy: str) -> None:
    """Stop before a search that cannot find enough."""
    if asked_for > free:
        raise PoolExhausted(f"asked for {asked_for:,} pairs, {free:,} unlabelled remain in {pool}. {remedy}")

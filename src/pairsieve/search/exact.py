"""Search for pairs: the protocol, and the exact search over all pairs in two passes.

Pass one counts all pairs by score in fine bins, less those asked, which gives a range sure to hold the
wanted pairs and little more. Pass two collects that range; the rest is a sort of a few pairs. A scan that
can `select` (CUDA) does both in one pass, rough where that is safe and exact where it matters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import Estimate
from pairsieve.errors import PoolExhausted
from pairsieve.pairs import Ids, ScoredPairs, Scores
from pairsieve.scan import Scan

MAX_HELD = 2_000_000  # candidates held before they are cut to those still wanted
BINS = 1 << 14
REMEDY = "Lower the batch, or stop: nearly every pair of the space has been asked."


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
    _farthest: float = np.inf  # what lies farther has as many as are wanted before it

    def take(self, ids: Ids, scores: Scores) -> None:
        if self._farthest < np.inf:
            near = self._distance(scores) <= self._farthest
            ids, scores = ids[near], scores[near]
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
        if len(wanted) == self.count:
            self._farthest = float(self._distance(wanted.scores).max(initial=-np.inf))

    def _distance(self, scores: Scores) -> NDArray[np.float64]:
        """How far scores lie from what is wanted."""
        exact = scores.astype(np.float64)
        return -exact if self.centre is None else np.abs(exact - self.centre)


def check_pool(asked_for: int, free: int, pool: str, remedy: str) -> None:
    """Stop before a search that cannot find enough."""
    if asked_for > free:
        raise PoolExhausted(f"asked for {asked_for:,} pairs, {free:,} unlabelled remain in {pool}. {remedy}")


class ExactSearch:
    """Search over every pair of a scan's space. Pass one runs once and is kept."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        self._edges = np.linspace(-1.001, 1.001, BINS + 1, dtype=np.float32)
        self._reaching: NDArray[np.int64] | None = None

    def best(self, count: int, asked: Ids, fewest: int | None = None) -> Found:
        count = self._at_most(count, asked, fewest)
        if found := self._selected(count, asked, None):
            return found
        free = self._free(asked)
        enough = np.flatnonzero(free >= count)
        low = float(self._edges[enough[-1]]) if len(enough) else -2.0
        return self._collect(low, 2.0, TopPairs(count, asked, None))

    def closest(self, score: float, count: int, asked: Ids, fewest: int | None = None) -> Found:
        count = self._at_most(count, asked, fewest)
        if found := self._selected(count, asked, score):
            return found
        free = self._free(asked)
        reach = _radius(self._edges.astype(np.float64), free, score, count)
        # One float32 step wider: the kernel compares in float32, the radius is float64.
        low = np.nextafter(np.float32(max(score - reach, -2.0)), np.float32(-4))
        high = np.nextafter(np.float32(min(score + reach, 2.0)), np.float32(4))
        return self._collect(float(low), float(high), TopPairs(count, asked, score))

    def _at_most(self, count: int, asked: Ids, fewest: int | None) -> int:
        """`count`, or as many as there are."""
        free = self.scan.space.size - len(asked)
        check_pool(count if fewest is None else fewest, free, "the space", REMEDY)
        return min(count, free)

    def _selected(self, count: int, asked: Ids, centre: float | None) -> Found | None:
        select = getattr(self.scan, "select", None)
        top = TopPairs(count, asked, centre)
        done = select is not None and select(centre, count, len(asked), top.take)
        return self._found(top) if done else None

    def _free(self, asked: Ids) -> NDArray[np.int64]:
        """Unasked pairs at or above each edge."""
        if self._reaching is None:
            self._reaching = self.scan.count_reaching(self._edges, desc="counting all pairs")
        taken = np.sort(self.scan.scores(asked))
        return self._reaching - (len(taken) - np.searchsorted(taken, self._edges, "left"))

    def _collect(self, low: float, high: float, top: TopPairs) -> Found:
        self.scan.collect(low, high, top.take, desc="collecting pairs")
        return self._found(top)

    def _found(self, top: TopPairs) -> Found:
        return Found(top.kept(), "exact over all pairs", Estimate.exact(1.0, self.scan.space.size))


def _radius(edges: NDArray[np.float64], reaching: NDArray[np.int64], score: float, count: int) -> float:
    """The smallest distance to an edge within which at least `count` counted pairs surely lie."""
    radii = np.sort(np.abs(edges - score))

    def inside(radius: float) -> int:
        first = int(np.searchsorted(edges, score - radius, "left"))
        last = int(np.searchsorted(edges, score + radius, "right")) - 1
        return int(reaching[first] - reaching[last]) if last > first else 0

    low, high = 0, len(radii) - 1
    if inside(float(radii[high])) < count:
        return 4.0
    while low < high:
        middle = (low + high) // 2
        if inside(float(radii[middle])) >= count:
            high = middle
        else:
            low = middle + 1
    return float(radii[low])

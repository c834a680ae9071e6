"""A scan of all pairs in which candidates have the re-ranker's scores, the rest the bi-encoder's.

Both are log-odds z, mapped to z / (1 + |z|) so that scores lie between -1 and 1. The bi-encoder's part is a
monotone map of its own score, so counts over all pairs stay exact: those of the underlying scan, less the
candidates there, plus the candidates by their own scores. No pair that is not a candidate is given log-odds
above `HIGHEST`: labels say little of such pairs, and there are millions of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import Ids, PairSpace, Scores, is_member

if TYPE_CHECKING:
    from pairsieve.scan import Scan

_ONE = int(np.float32(2.0).view(np.int32))  # the bits of 2.0: no score of the underlying scan is larger


HIGHEST = -2.0  # log-odds of a pair that is not a candidate


def below_candidates(log_odds: NDArray[Any]) -> NDArray[np.float64]:
    """The log-odds z of a pair that is not a candidate, as they count: `HIGHEST - log(1 + exp(-z))`."""
    lowered: NDArray[np.float64] = HIGHEST - np.logaddexp(0.0, -np.asarray(log_odds, np.float64))
    return lowered


def squash(log_odds: NDArray[Any]) -> Scores:
    """z -> z / (1 + |z|), as float32."""
    values = np.asarray(log_odds, np.float64)
    squashed: Scores = (values / (1.0 + np.abs(values))).astype(np.float32)
    return squashed


class RerankedScan:
    """The `Scan` of a space whose candidates `ids` (sorted) have the re-ranker's `log_odds` (n,)."""

    def __init__(
        self, base: Scan, weight: float, bias: float, ids: Ids, log_odds: NDArray[np.float64]
    ) -> None:
        self.base, self.space, self.device = base, base.space, base.device
        alone = base.scores(ids)  # where candidates would stand by the bi-encoder alone
        self.ids, self.own = ids, squash(log_odds)
        self._weight, self._bias, self._in_base = weight, bias, np.sort(alone)
        self._sorted = np.sort(self.own)

    space: PairSpace

    def scores(self, ids: Ids) -> Scores:
        """Scores of chosen pairs, in any order."""
        scores = self._mapped(self.base.scores(ids))
        reranked = is_member(ids, self.ids)
        scores[reranked] = self.own[np.searchsorted(self.ids, ids[reranked])]
        return scores

    def count_reaching(self, thresholds: NDArray[np.float32], desc: str = "all pairs") -> NDArray[np.int64]:
        """How many pairs score at least each threshold; thresholds in any order."""
        wanted = np.asarray(thresholds, np.float32)
        lowest = self._lowest(wanted)
        distinct, back = np.unique(lowest, return_inverse=True)
        in_base = self.base.count_reaching(distinct, desc)[back]
        less = len(self._in_base) - np.searchsorted(self._in_base, lowest, side="left")
        more = len(self._sorted) - np.searchsorted(self._sorted, wanted, side="left")
        counts: NDArray[np.int64] = in_base - less + more
        return counts

    def collect(
        self, low: float, high: float, take: Callable[[Ids, Scores], None], desc: str = "collecting"
    ) -> None:
        """Hand every pair with low <= score <= high to `take`, in pieces of any order."""
        bottom, top = np.float32(low), np.float32(high)
        first = self._lowest(np.array([bottom]))[0]
        above = np.nextafter(top, np.float32(np.inf))
        last = np.nextafter(self._lowest(np.array([above]))[0], np.float32(-np.inf))

        def pieces(ids: Ids, scores: Scores) -> None:
            rest = ~is_member(ids, self.ids)
            take(ids[rest], self._mapped(scores[rest]))

        if first <= last:
            self.base.collect(float(first), float(last), pieces, desc)
        inside = (self.own >= bottom) & (self.own <= top)
        take(self.ids[inside], self.own[inside])

    def neighbours(
        self, count: int, rows: NDArray[np.int64] | None = None, desc: str = "neighbours"
    ) -> tuple[NDArray[np.int64], Scores]:
        raise TypeError("neighbours are those of the bi-encoder: ask the scan that this one stands on")

    def _mapped(self, scores: Scores) -> Scores:
        """The bi-encoder's scores as scores of this scan; monotone."""
        return squash(below_candidates(self._weight * scores.astype(np.float64) + self._bias))

    def _lowest(self, thresholds: NDArray[np.float32]) -> NDArray[np.float32]:
        """The lowest underlying float32 score from -2 to 2 that maps to each threshold or above; else 2.

        By bisection over the bits of float32, which are ordered like the numbers they stand for.
        """
        low = np.full(thresholds.shape, -_ONE, np.int64)
        high = np.full(thresholds.shape, _ONE, np.int64)
        while (low < high).any():
            middle = (low + high) >> 1
            reached = self._mapped(_from_order(middle)) >= thresholds
            high = np.where(reached, middle, high)
            low = np.where(reached, low, middle + 1)
        return _from_order(low)


def _from_order(order: NDArray[np.int64]) -> NDArray[np.float32]:
    """Float32 numbers in their order, 0 standing for 0.0: negative ones mirror the positive ones' bits."""
    bits = np.abs(order).astype(np.int32).view(np.float32)
    return np.where(order < 0, -bits, bits).astype(np.float32)

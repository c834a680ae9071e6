"""Pair spaces, pair ids, and scored pairs.

A pair space is every pair that could match: all distinct unordered pairs of one collection
(`AllPairs`), those of them between two sources (`AcrossPairs`), or the cross product of two collections
(`CrossPairs`). A pair has one id, `left << 32 | right` as
int64, with `left < right` in `AllPairs`. A rank numbers the pairs of a space from 0 in the order of
their ids. All of it is integer arithmetic on arrays, exact for collections of a billion texts.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.errors import PoolExhausted

Ids: TypeAlias = NDArray[np.int64]
Rows: TypeAlias = NDArray[np.int64]
Scores: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]

MOST_TEXTS = 1 << 31  # a row number fits 31 bits, so that ids stay positive
_LOW = (1 << 32) - 1


def pair_ids(left: ArrayLike, right: ArrayLike) -> Ids:
    """Ids of pairs given as row numbers, in the order given: `left << 32 | right`."""
    return (np.asarray(left, dtype=np.int64) << 32) | np.asarray(right, dtype=np.int64)


def pair_rows(ids: Ids) -> tuple[Rows, Rows]:
    """The (left, right) row numbers of ids."""
    return ids >> 32, ids & _LOW


def is_member(ids: Ids, among: Ids) -> Mask:
    """Which of `ids` stand in the sorted array `among`."""
    if len(among) == 0:
        return np.zeros(len(ids), dtype=bool)
    at = np.minimum(np.searchsorted(among, ids), len(among) - 1)
    return among[at] == ids


@dataclass(frozen=True)
class AllPairs:
    """All distinct unordered pairs of one collection of `texts` texts."""

    texts: int
    symmetric: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_count(self.texts)

    @property
    def size(self) -> int:
        return self.texts * (self.texts - 1) // 2

    @property
    def shape(self) -> tuple[int, int]:
        return self.texts, self.texts

    def ids(self, left: ArrayLike, right: ArrayLike) -> Ids:
        """Canonical ids: the smaller row number becomes `left`."""
        one, other = np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64)
        return pair_ids(np.minimum(one, other), np.maximum(one, other))

    def contains(self, ids: Ids) -> Mask:
        left, right = pair_rows(ids)
        return (left >= 0) & (left < right) & (right < self.texts)

    def ranks(self, ids: Ids) -> Ids:
        """Position of each id in the order of all ids: pairs before row `left`, then within it."""
        left, right = pair_rows(ids)
        return left * (2 * self.texts - left - 1) // 2 + (right - left - 1)

    def unrank(self, ranks: Ids) -> Ids:
        """Inverse of `ranks`: a float guess at the row, then corrected in integers until it fits."""
        n = self.texts
        ranks = np.asarray(ranks, dtype=np.int64)
        from_end = (self.size - 1 - ranks).astype(np.float64)
        left = n - 2 - ((np.sqrt(8.0 * from_end + 1.0) - 1.0) / 2.0).astype(np.int64)
        left = np.clip(left, 0, max(n - 2, 0))
        while True:
            first = left * (2 * n - left - 1) // 2
            step = (ranks >= first + (n - 1 - left)).astype(np.int64) - (ranks < first)
            if not step.any():
                return pair_ids(left, ranks - first + left + 1)
            left = left + step

    def sample(self, count: int, rng: np.random.Generator, outside: Ids | None = None) -> Ids:
        """`count` distinct pairs drawn uniformly from those not in the sorted array `outside`; sorted."""
        return _sample(self, count, rng, outside)


@dataclass(frozen=True, eq=False, repr=False)
class AcrossPairs(AllPairs):
    """The pairs of one collection whose texts are of different sources; `sources` (texts,) numbers them.

    Ranks skip the pairs within a source. Rows of a source, in their order, are found by one sorted array of
    `source * 2**31 + row`.
    """

    sources: Rows

    def __post_init__(self) -> None:
        super().__post_init__()
        codes = np.asarray(self.sources, np.int64)
        if codes.shape != (self.texts,) or (codes < 0).any() or codes.max(initial=0) >= MOST_TEXTS:
            raise ValueError(f"{self.texts:,} texts need as many sources, numbered from 0")
        object.__setattr__(self, "sources", codes)

    def __repr__(self) -> str:
        digest = hashlib.sha256(self.sources.astype("<i8").tobytes()).hexdigest()
        return f"AcrossPairs(texts={self.texts}, sources={digest[:16]})"

    @property
    def size(self) -> int:
        sizes = np.bincount(self.sources, minlength=1).tolist()
        return super().size - int(sum(each * (each - 1) // 2 for each in sizes))

    def across(self, ids: Ids) -> Mask:
        """Which of the pairs are between two sources."""
        left, right = pair_rows(ids)
        return self.sources[left] != self.sources[right]

    def contains(self, ids: Ids) -> Mask:
        inside = super().contains(ids)
        inside[inside] = self.across(ids[inside])
        return inside

    def ranks(self, ids: Ids) -> Ids:
        """Pairs before row `left`, then those within it less the rows of its own source up to `right`."""
        left, right = pair_rows(ids)
        own = self.sources[left]
        same = np.searchsorted(self._keys, own * MOST_TEXTS + right) - self._place[left] - 1
        return self._first[left] + (right - left - 1) - same

    def unrank(self, ranks: Ids) -> Ids:
        """Inverse of `ranks`: the row by bisection, then the n-th later row that is not of its source."""
        ranks = np.asarray(ranks, dtype=np.int64)
        left = np.searchsorted(self._first, ranks, side="right") - 1
        own = self.sources[left]
        # The n-th free row stands behind as many rows of the source as have at most n free rows before them.
        wanted = ranks - self._first[left] + left - self._within[left]
        behind = np.searchsorted(self._gaps, own * MOST_TEXTS + wanted, side="right") - self._place[left] - 1
        return pair_ids(left, ranks - self._first[left] + left + 1 + behind)

    @cached_property
    def _order(self) -> Rows:
        """Rows by source, then by row."""
        return np.argsort(self.sources, kind="stable")

    @cached_property
    def _keys(self) -> Rows:
        return self.sources[self._order] * MOST_TEXTS + self._order

    @cached_property
    def _place(self) -> Rows:
        """(texts,) where each row stands in `_order`."""
        place = np.empty(self.texts, np.int64)
        place[self._order] = np.arange(self.texts)
        return place

    @cached_property
    def _within(self) -> Rows:
        """(texts,) how many rows of its source come before each row."""
        sizes = np.bincount(self.sources, minlength=1)
        starts = np.cumsum(sizes) - sizes
        return self._place - starts[self.sources] if self.texts else self._place

    @cached_property
    def _gaps(self) -> Rows:
        """In `_order`: the source, and how many rows of other sources come before each row."""
        return self.sources[self._order] * MOST_TEXTS + self._order - self._within[self._order]

    @cached_property
    def _first(self) -> Rows:
        """(texts,) the rank of the first pair of each row, as if it had one."""
        sizes = np.bincount(self.sources, minlength=1)
        later_own = sizes[self.sources] - 1 - self._within if self.texts else self._within
        partners = self.texts - 1 - np.arange(self.texts) - later_own
        return np.concatenate([[0], np.cumsum(partners)[:-1]]).astype(np.int64)[: self.texts]


@dataclass(frozen=True)
class CrossPairs:
    """The cross product of two collections."""

    left: int
    right: int
    symmetric: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_count(self.left)
        _check_count(self.right)

    @property
    def size(self) -> int:
        return self.left * self.right

    @property
    def shape(self) -> tuple[int, int]:
        return self.left, self.right

    def ids(self, left: ArrayLike, right: ArrayLike) -> Ids:
        return pair_ids(left, right)

    def contains(self, ids: Ids) -> Mask:
        left, right = pair_rows(ids)
        return (left >= 0) & (left < self.left) & (right < self.right)

    def ranks(self, ids: Ids) -> Ids:
        left, right = pair_rows(ids)
        return left * self.right + right

    def unrank(self, ranks: Ids) -> Ids:
        ranks = np.asarray(ranks, dtype=np.int64)
        return pair_ids(ranks // max(self.right, 1), ranks % max(self.right, 1))

    def sample(self, count: int, rng: np.random.Generator, outside: Ids | None = None) -> Ids:
        """`count` distinct pairs drawn uniformly from those not in the sorted array `outside`; sorted."""
        return _sample(self, count, rng, outside)


PairSpace: TypeAlias = AllPairs | CrossPairs


def same_cluster(cluster: Rows) -> Ids:
    """Sorted ids of all pairs of one collection whose texts have the same `cluster` (n,), a number from 0.

    A cluster of s texts has s(s-1)/2 pairs: each text pairs with those after it in its cluster.
    """
    size, order = np.bincount(cluster, minlength=1), np.argsort(cluster, kind="stable")
    own = cluster[order]
    place = np.arange(len(order)) - (np.cumsum(size) - size)[own]  # 0 for the first text of its cluster
    partners = size[own] - 1 - place
    starts = np.repeat(np.cumsum(partners) - partners, partners)
    later = np.repeat(np.arange(len(order)) + 1, partners) + np.arange(len(starts)) - starts
    return np.sort(pair_ids(np.repeat(order, partners), order[later]))


@dataclass(frozen=True)
class ScoredPairs:
    """Distinct pairs in the order of their ids, each with its score. `ids` and `scores` share every mask."""

    ids: Ids
    scores: Scores

    @staticmethod
    def of(ids: Ids, scores: NDArray[Any]) -> ScoredPairs:
        """From any order and with repeats: sorted, and the first score of a repeated pair kept."""
        unique, first = np.unique(ids, return_index=True)
        return ScoredPairs(unique, np.asarray(scores, dtype=np.float32)[first])

    @staticmethod
    def empty() -> ScoredPairs:
        return ScoredPairs(np.empty(0, np.int64), np.empty(0, np.float32))

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, mask: Mask) -> ScoredPairs:
        return ScoredPairs(self.ids[mask], self.scores[mask])

    def without(self, ids: Ids) -> ScoredPairs:
        """Those not in the sorted array `ids`."""
        return self.where(~is_member(self.ids, ids))

    def best(self, count: int) -> ScoredPairs:
        """The `count` highest scores; equal scores by smaller id. Returned in the order of ids."""
        return self._first(count, -self.scores.astype(np.float64))

    def closest(self, score: float, count: int) -> ScoredPairs:
        """The `count` scores nearest to `score`; equal distances by smaller id. In the order of ids."""
        return self._first(count, np.abs(self.scores.astype(np.float64) - score))

    def _first(self, count: int, cost: NDArray[np.float64]) -> ScoredPairs:
        order = np.argsort(cost, kind="stable")[:count]  # ids ascend, so a stable sort settles ties by id
        order.sort()
        return ScoredPairs(self.ids[order], self.scores[order])


def _check_count(texts: int) -> None:
    if not 0 <= texts <= MOST_TEXTS:
        raise ValueError(f"a collection of {texts:,} texts; at most {MOST_TEXTS:,} have a pair id")


def _sample(space: PairSpace, count: int, rng: np.random.Generator, outside: Ids | None) -> Ids:
    excluded = space.ranks(outside) if outside is not None else np.empty(0, np.int64)
    free = space.size - len(excluded)
    if count > free:
        raise PoolExhausted(
            f"asked for {count:,} pairs, {free:,} remain of {space.size:,} "
            f"({len(excluded):,} are excluded). Lower the number asked for."
        )
    drawn = _distinct(free, count, rng)
    # The r-th free rank stands behind as many excluded ones as have at most r free ranks before them.
    free_before = excluded - np.arange(len(excluded))
    return space.unrank(np.sort(drawn + np.searchsorted(free_before, drawn, side="right")))


def _distinct(free: int, count: int, rng: np.random.Generator) -> Ids:
    """`count` distinct integers below `free`, uniformly; memory grows with `count`, not with `free`."""
    if count * 3 >= free:
        return rng.permutation(free)[:count].astype(np.int64)
    drawn = np.empty(0, np.int64)
    while len(drawn) < count:
        more = np.concatenate([drawn, rng.integers(free, size=int((count - len(drawn)) * 1.2) + 16)])
        _, first = np.unique(more, return_index=True)
        drawn = more[np.sort(first)]  # the order of drawing, so that cutting the surplus favours nobody
    return drawn[:count]

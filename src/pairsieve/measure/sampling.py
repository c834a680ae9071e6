"""Stratified samples of pairs: all positives, all near negatives and a weighted draw of far negatives.

All positives and all near negatives stand for themselves. Of the far negatives a uniform sample is
drawn, and each one stands for (|negatives| - |near|) / |sample| of its kind (paper, appendix on
evaluation). Near negatives come from the neighbour lists of a reference embedding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.errors import InputError
from pairsieve.pairs import Ids, PairSpace, Scores, is_member

POSITIVE, NEAR, RANDOM = 0, 1, 2

Counting: TypeAlias = Literal["unordered", "ordered"]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class PairSample:
    """The pairs to score, and what each one stands for. All arrays: (n,), in the order of `ids`."""

    ids: Ids  # sorted, distinct
    stratum: NDArray[np.int8]  # POSITIVE, NEAR or RANDOM
    inclusion_probability: Floats  # 1 for positives and near negatives
    counted: NDArray[np.float32]  # 2 for a near negative that ordered counting counts twice, else 1
    pairs: int  # size of the space
    near_counting: Counting = "unordered"

    @property
    def weights(self) -> Floats:
        """How many pairs of the space each one counts for."""
        return self.counted / self.inclusion_probability

    def __len__(self) -> int:
        return len(self.ids)


def near_pairs(
    space: PairSpace, neighbours: NDArray[np.integer], positives: Ids, counting: Counting = "unordered"
) -> tuple[Ids, NDArray[np.float32]]:
    """The distinct near negatives of neighbour lists, and how often each is counted.

    neighbours: (n, k) right rows near each left text, -1 where a search found fewer. A text itself and
    positives are left out. "unordered" counts a pair once; "ordered", as the paper's released code does,
    counts a pair of one collection twice when each of its texts is in the other's list.
    """
    if counting not in ("unordered", "ordered"):
        raise InputError(f"unknown counting {counting!r}", remedy='Use "unordered" or "ordered"')
    rows, width = neighbours.shape
    left = np.repeat(np.arange(rows, dtype=np.int64), width)
    right = neighbours.astype(np.int64).ravel()
    kept = right >= 0
    if space.symmetric:
        kept &= left != right
    ids, listed = np.unique(space.ids(left[kept], right[kept]), return_counts=True)
    if not space.contains(ids).all():
        raise InputError(
            f"neighbour lists of {rows:,} rows name texts outside {space}",
            why="they were searched in another collection or split",
            remedy="Search the neighbours of this split again",
        )
    negative = ~is_member(ids, np.unique(positives))
    times = np.minimum(listed, 2) if counting == "ordered" and space.symmetric else np.ones_like(listed)
    return ids[negative], times[negative].astype(np.float32)


def draw(
    space: PairSpace,
    positives: Ids,
    near: Ids,
    sample: int,
    rng: np.random.Generator,
    *,
    near_times: NDArray[np.float32] | None = None,
) -> PairSample:
    """All positives, all near negatives, and `sample` far negatives, uniform without replacement.

    near: near negatives in any order (positives among them are left out); `near_times` are the counts of
    `near_pairs` under ordered counting. Asking for more far negatives than there are takes them all.
    """
    positives = np.unique(positives)
    near, first = np.unique(near, return_index=True)
    times = np.ones(len(near), np.float32) if near_times is None else near_times[first]
    negative = ~is_member(near, positives)
    near, times = near[negative], times[negative]
    for name, ids in (("positives", positives), ("near negatives", near)):
        _check_inside(space, ids, name)
    counted = np.union1d(positives, near)
    far = space.size - len(counted)
    if sample <= 0 < far:
        raise InputError(
            f"a sample of {sample} random negatives",
            why=f"{far:,} negatives are neither near nor positive, and someone must stand for them",
            remedy="Draw at least one; a million is usual",
        )
    random = space.sample(min(sample, far), rng, outside=counted)
    ids = np.concatenate([positives, near, random])
    order = np.argsort(ids)
    sizes = [len(positives), len(near), len(random)]
    ones = [np.ones(len(positives), np.float32), times, np.ones(len(random), np.float32)]
    share = len(random) / far if far else 1.0
    return PairSample(
        ids[order],
        np.repeat(np.array([POSITIVE, NEAR, RANDOM], np.int8), sizes)[order],
        np.repeat([1.0, 1.0, share], sizes)[order],
        np.concatenate(ones)[order],
        space.size,
        "ordered" if (times > 1).any() else "unordered",
    )


def listed_sample(
    space: PairSpace,
    ids: Ids,
    scores: ArrayLike,
    positives: Ids,
    inclusion_probability: ArrayLike | None = None,
    *,
    where: str = "scores",
) -> tuple[PairSample, Scores]:
    """A user's own list of scored pairs as a sample, with its scores in the sample's order.

    ids: (n,) canonical and distinct, in any order; every positive must be among them.
    inclusion_probability: (n,) the chance each pair had of being listed; absent: all 1. The negatives'
    weights 1/p must add up to the negatives of the space, within six standard deviations of a draw.
    """
    order = np.argsort(ids)
    ids, listed = ids[order], np.asarray(scores, np.float32)[order]
    given = np.ones(len(ids)) if inclusion_probability is None else np.asarray(inclusion_probability, float)
    chance = given[order]
    _check_inside(space, ids, "listed pairs", where)
    if (ids[1:] == ids[:-1]).any():
        twice = named_pair(ids[1:][ids[1:] == ids[:-1]][0])
        raise InputError(f"pair {twice} is listed twice", where=where, remedy="Keep one row per pair")
    bad = ~((chance > 0) & (chance <= 1))
    if bad.any():
        raise InputError(
            f"inclusion_probability {chance[bad][0]} of pair {named_pair(ids[bad][0])} is outside (0, 1]",
            where=where,
            remedy="Give the chance with which the pair was drawn; 1 for pairs that were sure to be listed",
        )
    positives = np.unique(positives)
    missing = positives[~is_member(positives, ids)]
    if len(missing):
        raise InputError(
            f"{len(missing):,} of {len(positives):,} positives have no score, first {named_pair(missing[0])}",
            where=where,
            why="recall is counted over all positives",
            remedy="Score every positive of the split as well",
        )
    positive = is_member(ids, positives)
    chance = np.where(positive, 1.0, chance)
    weights = 1.0 / chance[~positive]
    negatives = space.size - len(positives)
    spread = float(np.sqrt(np.sum(weights * (weights - 1.0))))
    if abs(float(weights.sum()) - negatives) > 6.0 * spread + 1e-6 * negatives:
        raise InputError(
            f"the listed negatives stand for {weights.sum():,.0f} pairs, the split has {negatives:,}",
            where=where,
            why="each counts 1/inclusion_probability times, and together they must stand for all negatives",
            remedy="List every pair, or give the column inclusion_probability of the draw",
        )
    stratum = np.where(positive, POSITIVE, np.where(chance < 1.0, RANDOM, NEAR)).astype(np.int8)
    return PairSample(ids, stratum, chance, np.ones(len(ids), np.float32), space.size), listed


def _check_inside(space: PairSpace, ids: Ids, name: str, where: str = "") -> None:
    inside = space.contains(ids)
    if not inside.all():
        raise InputError(
            f"{(~inside).sum():,} {name} lie outside {space}, first {named_pair(ids[~inside][0])}",
            where=where,
            why="a pair's rows must exist, and in one collection left comes before right",
            remedy="Check that the row numbers belong to this split",
        )


def named_pair(pair: int) -> str:
    left, right = int(pair) >> 32, int(pair) & 0xFFFFFFFF
    return f"(left {left}, right {right})"

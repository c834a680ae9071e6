"""Histogram binning by the truth of a split: its match rates over ranges of scores (Zadrozny and Elkan 2001).

A rate is of use only where another split's is near. Pairs are no independent sample: those of one group of
matching texts rank alike. A split is a sample of such groups. So the standard error of a rate counts pairs
that share a group as dependent (Aronow, Samii and Assenova 2015): with e = label - rate,

    variance = (Σ over groups (Σ e of the pairs that touch it)² - Σ e² of pairs between two groups) / pairs²

and as much as one group more would add, whose pairs match as the curve says: else the rate of a few groups
whose pairs are all alike would be known. Non-matches come in families too, such as the products of a brand:
groups with a non-matching pair between them whose probability is in doubt count as one. A rate is known where
two standard errors of the difference of two such splits are at most 0.1 (`STEP_ERROR`). Ranges of scores are
joined until theirs is. A range whose rate is known is not joined with one of another rate; between two of
these may be one whose rate nothing tells. It has no probability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.numeric import sigmoid
from pairsieve.scorer.calibration import DOUBT, Calibration, scaled, scaled_slope
from pairsieve.tasks.truth import components

Floats = NDArray[np.float64]

STEP_ERROR = 0.1 / (2.0 * np.sqrt(2.0))
ALIKE = 0.1  # difference of two rates from which a known one is not joined with another
FIRST_PAIRS, FIRST_SHARE = 50, 0.05  # a range begins as so many pairs, or as that share of all ranked above


@dataclass(frozen=True, eq=False)
class GroupedPairs:
    """The best-ranked pairs of a split: the place of each on the grid, whether it matches, and its groups."""

    places: NDArray[np.int64]  # (n,) ascending
    labels: NDArray[np.bool_]  # (n,)
    groups: NDArray[np.int64]  # (n, 2) of either text; the same twice inside a group

    def variance(self, first: int, last: int, expected: float) -> float:
        """Of the match rate of the pairs from one place to another, both included, squared standard error.

        expected: how likely a pair of one group more would match.
        """
        low, high = np.searchsorted(self.places, (first, last + 1))
        count = int(high - low)
        if not count:
            return 0.0
        labels, groups = self.labels[low:high].astype(np.float64), self.groups[low:high]
        between = groups[:, 0] != groups[:, 1]
        off = labels - labels.mean()
        touched, of = np.unique(np.concatenate([groups[:, 0], groups[between, 1]]), return_inverse=True)
        sums = np.bincount(of, np.concatenate([off, off[between]]), len(touched))
        sizes = np.bincount(of, minlength=len(touched)).astype(np.float64)
        effective = sizes.sum() / (sizes**2).sum() * count  # Kish's number of groups
        spread = max(float((sums**2).sum() - (off[between] ** 2).sum()), float((off**2).sum()))
        return spread / count**2 + expected * (1.0 - expected) / effective**2

    def joined(self, doubtful: NDArray[np.bool_]) -> GroupedPairs:
        """Groups with a doubtful non-matching pair (n,) between them as one."""
        one, other = self.groups[doubtful & ~self.labels].T
        count = int(self.groups.max(initial=-1)) + 1
        return replace(self, groups=components(count, one, other)[self.groups])


@dataclass(frozen=True)
class _Range:
    first: int  # place on the grid
    last: int
    pairs: float
    matches: float
    error: float  # standard error of the rate
    factor: float = 1.0  # non-matches of a match there, over those here

    @property
    def rate(self) -> float:
        return (self.matches + 0.5) / (self.pairs + 1.0)  # never 0 or 1: no number of pairs tells that

    @property
    def stated(self) -> float:
        return float(scaled(self.rate, self.factor))

    @property
    def known(self) -> bool:
        return bool(self.error * scaled_slope(self.rate, self.factor) <= STEP_ERROR)

    @property
    def misfit(self) -> float:
        p = self.rate
        return -float(self.matches * np.log(p) + (self.pairs - self.matches) * np.log1p(-p))


def true_steps(
    curve: Calibration,
    log_odds: ArrayLike,
    pairs: ArrayLike,
    matches: ArrayLike,
    near: GroupedPairs,
    factor: float = 1.0,
) -> Calibration:
    """A curve whose steps are the rates of a split with its truth: (g,) counts at descending log-odds.

    near: those of the pairs that rank best. Below them nearly none matches, and pairs count as independent.
    A step whose rate is not known states none. factor: how many times as many non-matches a match has in the
    split that probabilities are stated for (`tasks.task.non_match_factor`).
    """
    z = np.asarray(log_odds, np.float64)
    curved = sigmoid(curve.log_odds(z))
    near = near.joined(((curved > DOUBT[0]) & (curved < DOUBT[1]))[near.places])
    smooth = curved * np.asarray(pairs, np.float64)
    size, true, expected = (np.cumsum(np.asarray(each, np.float64)) for each in (pairs, matches, smooth))
    reached = int(near.places[-1]) if len(near.places) else -1

    def ranged(first: int, last: int) -> _Range:
        count, found, likely = (
            float(of[last] - (of[first - 1] if first else 0.0)) for of in (size, true, expected)
        )
        rate = (found + 0.5) / (count + 1.0)
        if first <= reached:
            end = min(last, reached)
            inside = float(size[end] - (size[first - 1] if first else 0.0))
            variance = near.variance(first, end, likely / max(count, 1.0)) * (inside / max(count, 1.0)) ** 2
        else:
            variance = rate * (1.0 - rate) / max(count, 1.0)
        return _Range(first, last, count, found, float(np.sqrt(variance)), factor)

    edges = [-1]
    while edges[-1] < len(z) - 1:
        above = size[edges[-1]] if len(edges) > 1 else 0.0
        edges.append(
            min(int(np.searchsorted(size, above + max(FIRST_PAIRS, FIRST_SHARE * above))), len(z) - 1)
        )
    ranges = list[_Range]()
    for first, last in pairwise(edges):
        ranges.append(ranged(first + 1, last))
        while len(ranges) > 1 and ranges[-1].rate >= ranges[-2].rate:  # isotonic regression
            ranges[-2:] = [ranged(ranges[-2].first, ranges[-1].last)]
    ranges = _joined(ranges, ranged)
    ends = [z[0] + 1.0, *(z[each.last] for each in ranges)]
    rates = [each.stated if each.known else None for each in ranges]
    return replace(curve.scaled(factor), edges=tuple(map(float, ends)), steps=tuple(rates))


def _joined(ranges: list[_Range], ranged: Callable[[int, int], _Range]) -> list[_Range]:
    """Neighbours of which one is not known at least are joined where that costs the least likelihood."""
    ranges = list(ranges)
    while True:
        best: tuple[float, int, _Range] | None = None
        for at, (one, other) in enumerate(pairwise(ranges)):
            alike = abs(one.stated - other.stated) <= ALIKE
            if (one.known and other.known) or ((one.known or other.known) and not alike):
                continue
            both = ranged(one.first, other.last)
            cost = both.misfit - one.misfit - other.misfit
            if best is None or cost < best[0]:
                best = cost, at, both
        if best is None:
            return ranges
        ranges[best[1] : best[1] + 2] = [best[2]]

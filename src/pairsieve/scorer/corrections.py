"""The two label-free corrections of a score: neighbour smoothing and hubness correction.

Neighbour smoothing averages the row of a text with the row of its nearest neighbour, which is often the same
thing in other words (database-side augmentation in image retrieval: Turcot and Lowe, ICCV workshops 2009;
Arandjelović and Zisserman, CVPR 2012):

    row(i) ← (row(i) + w · row(nearest of i)), at unit length again

Within one collection matches come in groups, and the weight grows with how near the nearest is:

    w = strength · (cosine with the nearest - floor) / (1 - floor), at least 0 and at most strength

where the floor is the cosine that nine in ten texts of the training collection have with their nearest.
Between two collections the nearest is as often a competitor as the partner, so the weight is small and the
same for all texts of a side.

Hubness correction lets a pair count less where its texts have near neighbours that compete with it (local
scaling: Schnitzer et al., JMLR 13, 2012; CSLS: Conneau et al., ICLR 2018). Here over very few neighbours:

    score(i, j) = cosine(i, j) · lᵢ · lⱼ        l = 1 / density ^ exponent, at most √2

The density of a text is the sum of its cosines with its nearest neighbours: with the nearest one in one
collection, where a text may have many true partners; with the two nearest between two collections, where the
nearest is often the one partner. The score is 1 for equal texts and cosine ^ (1 - 2 exponent) for two texts
of one collection that are each other's nearest. Exponent 0 is the plain cosine.

Either way the score stays a product of two rows, which any scan or index gives. Neither needs a label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import CrossPairs, PairSpace
from pairsieve.scan import MAX_ROW_LENGTH, Scan

Floats = NDArray[np.float32]
Sides = tuple[Floats, Floats | None]  # rows of left and right texts; right None for one collection
ScanOf = Callable[[PairSpace, Floats, Floats | None], Scan]
Arrays = dict[str, NDArray[Any]]
Memo = Callable[[str, Callable[[], Arrays]], Arrays]

SMOOTHING_STRENGTH = 1.0  # chosen on dev splits, as the two below: docs/decisions/0012
ISOLATED = 0.1  # the share of the texts of one collection that are not smoothed
BETWEEN_COLLECTIONS = 0.1  # of the smoothing strength, both sides together
HUBNESS_STRENGTH = 0.25  # chosen on dev splits: docs/decisions/0011

_ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class Corrections:
    """Parameters of both corrections, fixed when the scorer is made. All zero: the plain cosine.

    hubness: exponents of the left and of the right side. smoothing: weights of the nearest of left and right
    texts; in one collection the largest weight, reached at cosine 1, with none at `floor`.
    """

    symmetric: bool
    hubness: tuple[float, float] = (0.0, 0.0)
    smoothing: tuple[float, float] = (0.0, 0.0)
    floor: float = 1.0

    @property
    def none(self) -> bool:
        return not any(self.hubness) and not any(self.smoothing)

    def lengths(self, densities: Floats, side: int) -> Floats:
        """Lengths (n,) of the rows of a side (0 left, 1 right) from the density of each text."""
        return row_lengths(densities, self.hubness[side])

    def weights(self, cosines: Floats, side: int) -> Floats:
        """Smoothing weights (n,) of a side from the cosine of each text with its nearest; -inf is none."""
        if self.symmetric:
            return weights_by_nearness(cosines, self.floor, self.smoothing[0])
        return np.where(np.isfinite(cosines), np.float32(self.smoothing[side]), np.float32(0))


def make_corrections(space: PairSpace, hubness: float, smoothing: float, floor: float = 1.0) -> Corrections:
    """Corrections of a strength for spaces like `space`, the one a scorer is trained on.

    Between two collections a strength is shared between the sides by how many possible partners a text has:
    neighbours among many say more than among few. floor: see `similarity_floor`.
    """
    left, right = space.shape
    if space.symmetric:
        return Corrections(True, (hubness, hubness), (smoothing, smoothing), floor)
    shares = (2 * right / (left + right), 2 * left / (left + right)) if left + right else (1.0, 1.0)
    weight = BETWEEN_COLLECTIONS * smoothing / 2
    return Corrections(
        False, (shares[0] * hubness, shares[1] * hubness), (shares[0] * weight, shares[1] * weight)
    )


class NeighbourFinder(Protocol):
    """Finds what the corrections need of a space: exactly, or by an index."""

    def nearest(self, space: PairSpace, left: Floats, right: Floats | None) -> Arrays:
        """`column-S` and `cosine-S` (n,) of the nearest of each text of side S (0; 1 for two collections)."""

    def densities(self, space: PairSpace, left: Floats, right: Floats | None) -> Arrays:
        """`left` and `right`: the density of each text."""


@dataclass(frozen=True)
class ExactNeighbours:
    """By a scan of every pair; `scan_of(space, left, right)` opens one of unit rows."""

    scan_of: ScanOf

    def nearest(self, space: PairSpace, left: Floats, right: Floats | None) -> Arrays:
        arrays: Arrays = {}
        for side, (columns, cosines) in enumerate(self._lists(space, left, right, 1)):
            arrays |= {f"column-{side}": columns.reshape(-1), f"cosine-{side}": cosines.reshape(-1)}
        return arrays

    def densities(self, space: PairSpace, left: Floats, right: Floats | None) -> Arrays:
        lists = self._lists(space, left, right, competitors(space.symmetric))
        sums = [density(cosines) for _, cosines in lists]
        return {"left": sums[0], "right": sums[-1]}

    def _lists(
        self, space: PairSpace, left: Floats, right: Floats | None, count: int
    ) -> list[tuple[NDArray[np.int64], Floats]]:
        """The `count` nearest of each text of either side (one side in one collection), and their cosines."""
        lists = [self.scan_of(space, left, right).neighbours(count, desc="neighbours")]
        if right is not None:
            turned = CrossPairs(*reversed(space.shape))
            lists.append(self.scan_of(turned, right, left).neighbours(count, desc="neighbours"))
        return lists


@dataclass(frozen=True, eq=False)
class CorrectedRows:
    """Rows of a space after the corrections, and what they were made from.

    unit: rows as embedded (right None for one collection). rows: their product is the score. nearest and
    weights: of each side, the text it is averaged with and by how much. density and lengths: of both sides.
    Empty where a correction is not used.
    """

    space: PairSpace
    unit: Sides
    rows: Sides
    nearest: tuple[NDArray[np.int64], ...] = ()
    weights: tuple[Floats, ...] = ()
    density: tuple[Floats, ...] = ()
    lengths: tuple[Floats, ...] = ()


def compute(kind: str, build: Callable[[], Arrays]) -> Arrays:
    """The memo that keeps nothing."""
    return build()


def smooth_rows(
    corrections: Corrections, space: PairSpace, rows: Sides, finder: NeighbourFinder, memo: Memo = compute
) -> tuple[Floats, Floats | None, tuple[NDArray[np.int64], ...], tuple[Floats, ...]]:
    """Unit rows of both sides after neighbour smoothing, each side's nearest and weights."""
    left, right = rows
    if not any(corrections.smoothing):
        return left, right, (), ()
    found = memo("nearest", lambda: finder.nearest(space, left, right))
    sides = range(1 if space.symmetric else 2)
    nearest = tuple(found[f"column-{side}"] for side in sides)
    weights = tuple(corrections.weights(found[f"cosine-{side}"], side) for side in sides)
    smooth_left = smoothed_all(left, left if right is None else right, nearest[0], weights[0])
    smooth_right = None if right is None else smoothed_all(right, left, nearest[1], weights[1])
    return smooth_left, smooth_right, nearest, weights


def correct_rows(
    corrections: Corrections, space: PairSpace, rows: Sides, finder: NeighbourFinder, memo: Memo = compute
) -> CorrectedRows:
    """Rows whose product is the corrected score, from unit rows of both sides (right None for one).

    `memo(kind, build)` may keep what `build` finds about neighbours ("nearest", "density"), by name.
    """
    left, right, nearest, weights = smooth_rows(corrections, space, rows, finder, memo)
    if not any(corrections.hubness):
        return CorrectedRows(space, rows, (left, right), nearest, weights)
    if not nearest:  # else the rows are a copy already
        left, right = left.copy(), None if right is None else right.copy()
    densities, lengths = lengthen_rows(corrections, space, (left, right), finder, memo)
    return CorrectedRows(space, rows, (left, right), nearest, weights, densities, lengths)


def lengthen_rows(
    corrections: Corrections, space: PairSpace, smooth: Sides, finder: NeighbourFinder, memo: Memo = compute
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Give smoothed rows the lengths of hubness correction, in place: densities and lengths of both sides."""
    found = memo("density", lambda: finder.densities(space, *smooth))
    densities = found["left"], found["right"]
    lengths = corrections.lengths(densities[0], 0), corrections.lengths(densities[1], 1)
    for rows, of_side in zip(smooth, lengths):
        if rows is not None:
            rows *= of_side[:, None]
    return densities, lengths


# ── neighbour smoothing ──────────────────────────────────────────────────────────────────────────


def similarity_floor(cosines: Floats) -> float:
    """The cosine with the nearest below which a text is not smoothed: a quantile of those given (n,)."""
    known = cosines[np.isfinite(cosines)].astype(np.float64)
    return float(np.quantile(known, ISOLATED)) if len(known) else 1.0


def weights_by_nearness(cosines: Floats, floor: float, strength: float) -> Floats:
    """Weights (n,) of the nearest of each text of one collection; -inf stands for no neighbour."""
    known = np.isfinite(cosines)
    share = (np.where(known, cosines, -1.0) - floor) / max(1.0 - floor, 1e-6)
    return np.where(known, strength * np.clip(share, 0.0, 1.0), 0.0).astype(np.float32)


def smoothed(rows: Floats, nearest: Floats, weights: Floats) -> Floats:
    """Unit rows (n, d), each averaged with the row of its nearest (n, d) by its weight (n,)."""
    mixed = rows + weights[:, None] * nearest
    return mixed / np.maximum(np.linalg.norm(mixed, axis=1, keepdims=True), np.float32(1e-12))


def smoothed_all(rows: Floats, others: Floats, nearest: NDArray[np.int64], weights: Floats) -> Floats:
    """The same from all rows that may be a nearest, `nearest` (n,) naming it; always a copy."""
    unit = np.array(rows, np.float32)
    if len(others):
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            at = slice(first, first + _ROWS_AT_ONCE)
            unit[at] = smoothed(rows[at], others[np.maximum(nearest[at], 0)], weights[at])
    return unit


# ── hubness correction ───────────────────────────────────────────────────────────────────────────


def competitors(symmetric: bool) -> int:
    """How many nearest neighbours make the density of a text."""
    return 1 if symmetric else 2


def row_lengths(density: Floats, exponent: float) -> Floats:
    """Lengths of rows from the density of each text, (n,) both."""
    floored = np.maximum(density, 1e-30).astype(np.float64)  # hardly any: the row is as long as may be
    return np.minimum(floored**-exponent, MAX_ROW_LENGTH).astype(np.float32)


def density(cosines: Floats) -> Floats:
    """Cosines (n, k) with the nearest, -inf for none -> their sums (n,); negative cosines count nothing."""
    return np.maximum(cosines, 0).sum(axis=1, dtype=np.float32)


def densities_from_lists(
    space: PairSpace, columns: NDArray[np.int64], cosines: Floats
) -> tuple[Floats, Floats]:
    """The density of each left and right text from lists of neighbours (n, k), best first, as an index
    finds them; -1 is no neighbour. One collection: both are the same array."""
    count = competitors(space.symmetric)
    left = density(cosines[:, :count])
    best = np.zeros((space.shape[1], count), np.float32)  # the highest of each right text so far
    for first in range(0, len(columns), _ROWS_AT_ONCE):
        some, values = columns[first : first + _ROWS_AT_ONCE], cosines[first : first + _ROWS_AT_ONCE]
        listed = some >= 0
        _raise(best, some[listed], values[listed])
    right = best.sum(axis=1, dtype=np.float32)
    if space.symmetric:
        left = right = np.maximum(left, right)
    return left, right


def _raise(best: Floats, places: NDArray[np.int64], cosines: Floats) -> None:
    """Put cosines among the highest (size, count) of their places, as far as they belong there."""
    count = best.shape[1]
    if count == 1:
        np.maximum.at(best[:, 0], places, cosines)
        return
    order = np.lexsort((-cosines, places))
    places, cosines = places[order], cosines[order]
    rank = np.arange(len(places)) - np.searchsorted(places, places, side="left")
    for nth in range(count):
        at = places[rank == nth]  # each at most once
        lowest = np.maximum(best[at, -1], cosines[rank == nth])
        best[at] = -np.sort(-np.column_stack([best[at, :-1], lowest]), axis=1)

"""The two label-free corrections of a score, as fixed parameters and as the rows they make of a space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import CrossPairs, PairSpace
from pairsieve.scorer.hubness import competitors, density, row_lengths
from pairsieve.scorer.smoothing import BETWEEN_COLLECTIONS, smoothed_all, weights_by_nearness

if TYPE_CHECKING:
    from pairsieve.scan import Scan

Floats = NDArray[np.float32]
ScanOf = Callable[[PairSpace, Floats, Floats | None], "Scan"]
Arrays = dict[str, NDArray[Any]]
Memo = Callable[[str, Callable[[], Arrays]], Arrays]


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
    neighbours among many say more than among few. floor: see `smoothing.similarity_floor`.
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
        """`left` and `right`: the density of each text (see `hubness.py`)."""


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
    unit: tuple[Floats, Floats | None]
    rows: tuple[Floats, Floats | None]
    nearest: tuple[NDArray[np.int64], ...] = ()
    weights: tuple[Floats, ...] = ()
    density: tuple[Floats, ...] = ()
    lengths: tuple[Floats, ...] = ()


def compute(kind: str, build: Callable[[], Arrays]) -> Arrays:
    """The memo that keeps nothing."""
    return build()


def smooth_rows(
    corrections: Corrections,
    space: PairSpace,
    left: Floats,
    right: Floats | None,
    finder: NeighbourFinder,
    memo: Memo = compute,
) -> tuple[Floats, Floats | None, tuple[NDArray[np.int64], ...], tuple[Floats, ...]]:
    """Unit rows of both sides after neighbour smoothing, each side's nearest and weights."""
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
    corrections: Corrections,
    space: PairSpace,
    left: Floats,
    right: Floats | None,
    finder: NeighbourFinder,
    memo: Memo = compute,
) -> CorrectedRows:
    """Rows whose product is the corrected score, from unit rows of both sides (right None for one).

    `memo(kind, build)` may keep what `build` finds about neighbours ("nearest", "density"), by name.
    """
    unit = left, right
    left, right, nearest, weights = smooth_rows(corrections, space, left, right, finder, memo)
    if not any(corrections.hubness):
        return CorrectedRows(space, unit, (left, right), nearest, weights)
    smooth = left, right
    found = memo("density", lambda: finder.densities(space, *smooth))
    densities = found["left"], found["right"]
    lengths = corrections.lengths(densities[0], 0), corrections.lengths(densities[1], 1)
    if not nearest:  # else the rows are a copy already
        left, right = left.copy(), None if right is None else right.copy()
    left *= lengths[0][:, None]
    if right is not None:
        right *= lengths[1][:, None]
    return CorrectedRows(space, unit, (left, right), nearest, weights, densities, lengths)

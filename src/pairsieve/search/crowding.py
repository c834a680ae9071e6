"""How near is near, where texts stand close together anyway?

In a crowded corner every text has neighbours that do not match; where texts are sparse, the same cosine tells
more. So a pair is judged beside the best rival of either text. With nᵢ the cosine of text i with its nearest
possible partner,

    score(i, j) = cosine(i, j) · lᵢ · lⱼ        lᵢ = 1 / nᵢ ^ strength, at most √2

which is the product of rows stretched to the lengths l: any scan or index over such rows gives it, and no
pair is left out. It is the cosine, raised where no rival stands near: 1 for texts that are the same, never
above, and cosine ^ (1 - 2 strength) for two texts that are each other's nearest. It needs no label, only the
texts of the pool that is searched. Strength 0 is the plain cosine. The idea is that of local scaling against
hubs (Schnitzer et al., JMLR 13, 2012; CSLS: Conneau et al., ICLR 2018), here over the nearest text alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import CrossPairs, PairSpace
from pairsieve.scan import LONGEST

if TYPE_CHECKING:
    from pairsieve.scan import Scan

Floats = NDArray[np.float32]

STRENGTH = 0.3  # chosen on dev splits: docs/decisions/0011


def lengths(nearest: Floats, strength: float) -> Floats:
    """Lengths of rows from the cosine of each text with its nearest partner (or without one: -inf)."""
    if strength == 0.0:
        return np.ones(len(nearest), np.float32)
    farthest = LONGEST ** (-1.0 / strength)  # beyond, a text stands alone
    clipped = np.clip(np.nan_to_num(nearest, nan=farthest), farthest, 1.0).astype(np.float64)
    made: Floats = (clipped**-strength).astype(np.float32)
    return made


def nearest_cosines(
    scan_of: Callable[[PairSpace, Floats, Floats | None], Scan],
    space: PairSpace,
    left: Floats,
    right: Floats | None,
) -> tuple[Floats, Floats]:
    """Cosine of each left and of each right text with its nearest partner, exactly; -inf without one.

    `scan_of(space, left, right)` opens a scan of plain rows. One collection: both are the same array.
    """
    here = scan_of(space, left, right).neighbours(1, words="nearest")[1][:, 0]
    if space.symmetric:
        return here, here
    assert right is not None
    back = CrossPairs(*reversed(space.shape))
    return here, scan_of(back, right, left).neighbours(1, words="nearest")[1][:, 0]


def nearest_listed(space: PairSpace, columns: NDArray[np.int64], cosines: Floats) -> tuple[Floats, Floats]:
    """The same from lists of neighbours (n, k), best first, as an index finds them; -1 is no neighbour."""
    here = np.where(columns[:, 0] >= 0, cosines[:, 0], -np.inf).astype(np.float32)
    there = np.full(space.shape[1], -np.inf, np.float32)
    listed = columns >= 0
    np.maximum.at(there, columns[listed], cosines[listed])
    if space.symmetric:
        here = np.maximum(here, there)
        return here, here
    return here, there

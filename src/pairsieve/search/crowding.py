"""How near is near, where texts stand close together anyway?

In a crowded corner every text has neighbours that do not match; where texts are sparse, the same cosine tells
more. So a pair is judged beside the best rivals of either text:

    score(i, j) = cosine(i, j) · lᵢ · lⱼ        l = 1 / crowd ^ strength, at most √2

In one collection the crowd of a text is the cosine with its nearest: a text may have many true partners
there. Between two, where the nearest is often the one partner, it is the sum of the cosines with the two
nearest, and the strength is shared between the sides by how many possible partners a text has: a crowd among
many says more than one among few.

The score is the product of rows stretched to the lengths l: any scan or index over such rows gives it, and no
pair is left out. It is never above 1. In one collection it is the cosine, raised where no rival stands near:
1 for equal texts, and cosine ^ (1 - 2 strength) for two texts that are each other's nearest. It needs no
label, only the texts of the pool that is searched. Strength 0 is the plain cosine. The idea is that of local
scaling against hubs (Schnitzer et al., JMLR 13, 2012; CSLS: Conneau et al., ICLR 2018), over very few rivals.
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

STRENGTH = 0.25  # chosen on dev splits: docs/decisions/0011


def rivals(space: PairSpace) -> int:
    """How many of a text's nearest make its crowd."""
    return 1 if space.symmetric else 2


def shared(space: PairSpace, strength: float) -> tuple[float, float]:
    """The strengths of the left and of the right side: the same for equal sizes, `strength` on average."""
    left, right = space.shape
    if space.symmetric or left + right == 0:
        return strength, strength
    return 2 * strength * right / (left + right), 2 * strength * left / (left + right)


def lengths(crowd: Floats, strength: float) -> Floats:
    """Lengths of rows from the crowd of each text."""
    some = np.maximum(crowd, 1e-30).astype(np.float64)  # hardly any: the row is as long as may be
    made: Floats = np.minimum(some**-strength, LONGEST).astype(np.float32)
    return made


def crowds(
    scan_of: Callable[[PairSpace, Floats, Floats | None], Scan],
    space: PairSpace,
    left: Floats,
    right: Floats | None,
) -> tuple[Floats, Floats]:
    """The crowd of each left and of each right text, exactly; 0 without a possible partner.

    `scan_of(space, left, right)` opens a scan of plain rows. One collection: both are the same array.
    """
    count = rivals(space)
    here = _sum(scan_of(space, left, right).neighbours(count, words="rivals")[1])
    if space.symmetric:
        return here, here
    assert right is not None
    back = CrossPairs(*reversed(space.shape))
    return here, _sum(scan_of(back, right, left).neighbours(count, words="rivals")[1])


def crowds_listed(space: PairSpace, columns: NDArray[np.int64], cosines: Floats) -> tuple[Floats, Floats]:
    """The same from lists of neighbours (n, k), best first, as an index finds them; -1 is no neighbour."""
    count = rivals(space)
    listed = columns >= 0
    rows = np.broadcast_to(np.arange(len(columns))[:, None], columns.shape)[listed]
    there = _best(columns[listed], cosines[listed], space.shape[1], count)
    here = _best(rows, cosines[listed], space.shape[0], count)
    if space.symmetric:
        here = np.maximum(here, there)
        return here, here
    return here, there


def _sum(cosines: Floats) -> Floats:
    """Cosines (n, k), -inf for none -> their sums; what points away does not crowd."""
    made: Floats = np.maximum(cosines, 0).sum(axis=1, dtype=np.float32)
    return made


def _best(places: NDArray[np.int64], cosines: Floats, size: int, count: int) -> Floats:
    """The sum of the `count` highest cosines at each of `size` places."""
    order = np.lexsort((-cosines, places))
    places, cosines = places[order], cosines[order]
    first = np.searchsorted(places, places, side="left")
    kept = np.arange(len(places)) - first < count
    return np.bincount(places[kept], np.maximum(cosines[kept], 0), size).astype(np.float32)

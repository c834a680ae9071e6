"""Hubness correction: a pair counts less where its texts have near neighbours that compete with it.

In a dense corner every text has neighbours that do not match; where texts are sparse, the same cosine tells
more (Schnitzer et al., "Local and global scaling reduce hubs in space", JMLR 13, 2012; CSLS: Conneau et al.,
ICLR 2018). Here over very few neighbours:

    score(i, j) = cosine(i, j) · lᵢ · lⱼ        l = 1 / density ^ exponent, at most √2

The density of a text is the sum of its cosines with its nearest neighbours: with the nearest one in one
collection, where a text may have many true partners; with the two nearest between two collections, where the
nearest is often the one partner.

The score is the product of rows stretched to the lengths l, so any scan or index over such rows gives it. It
is 1 for equal texts and cosine ^ (1 - 2 exponent) for two texts of one collection that are each other's
nearest. It needs no label, only the texts of the collections searched. Exponent 0 is the plain cosine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import PairSpace
from pairsieve.scan import MAX_ROW_LENGTH

Floats = NDArray[np.float32]

STRENGTH = 0.25  # chosen on dev splits: docs/decisions/0011


def competitors(symmetric: bool) -> int:
    """How many nearest neighbours make the density of a text."""
    return 1 if symmetric else 2


def row_lengths(density: Floats, exponent: float) -> Floats:
    """Lengths of rows from the density of each text, (n,) both."""
    floored = np.maximum(density, 1e-30).astype(np.float64)  # hardly any: the row is as long as may be
    lengths: Floats = np.minimum(floored**-exponent, MAX_ROW_LENGTH).astype(np.float32)
    return lengths


def density(cosines: Floats) -> Floats:
    """Cosines (n, k) with the nearest, -inf for none -> their sums (n,); negative cosines count nothing."""
    sums: Floats = np.maximum(cosines, 0).sum(axis=1, dtype=np.float32)
    return sums


def densities_from_lists(
    space: PairSpace, columns: NDArray[np.int64], cosines: Floats
) -> tuple[Floats, Floats]:
    """The density of each left and right text from lists of neighbours (n, k), best first, as an index
    finds them; -1 is no neighbour. One collection: both are the same array."""
    count = competitors(space.symmetric)
    listed = columns >= 0
    rows = np.broadcast_to(np.arange(len(columns))[:, None], columns.shape)[listed]
    right = _best(columns[listed], cosines[listed], space.shape[1], count)
    left = _best(rows, cosines[listed], space.shape[0], count)
    if space.symmetric:
        left = right = np.maximum(left, right)
    return left, right


def _best(places: NDArray[np.int64], cosines: Floats, size: int, count: int) -> Floats:
    """The sum of the `count` highest cosines at each of `size` places."""
    order = np.lexsort((-cosines, places))
    places, cosines = places[order], cosines[order]
    first = np.searchsorted(places, places, side="left")
    kept = np.arange(len(places)) - first < count
    return np.bincount(places[kept], np.maximum(cosines[kept], 0), size).astype(np.float32)

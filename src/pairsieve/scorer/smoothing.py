"""Neighbour smoothing: the row of a text is averaged with the row of its nearest neighbour.

The nearest of a text is often the same thing in other words, and the mean of the two says better what both
mean than either alone (database-side augmentation in image retrieval: Turcot and Lowe, ICCV workshops 2009;
Arandjelović and Zisserman, CVPR 2012):

    row(i) ← (row(i) + w · row(nearest of i)), at unit length again

Within one collection matches come in groups, and the weight grows with how near the nearest is:

    w = strength · (cosine with the nearest - floor) / (1 - floor), at least 0 and at most strength

where the floor is the cosine that nine in ten texts of the training collection have with their nearest.
Between two collections the nearest is as often a competitor as the partner, so the weight is small and the
same for all texts of a side. It needs no label; the score of a pair stays a product of two rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

STRENGTH = 1.0  # chosen on dev splits, as the two below: docs/decisions/0012
ISOLATED = 0.1  # the share of the texts of one collection that are not smoothed
BETWEEN_COLLECTIONS = 0.1  # of the strength, both sides together

_ROWS_AT_ONCE = 1 << 14


def similarity_floor(cosines: Floats) -> float:
    """The cosine with the nearest below which a text is not smoothed: a quantile of those given (n,)."""
    known = cosines[np.isfinite(cosines)].astype(np.float64)
    return float(np.quantile(known, ISOLATED)) if len(known) else 1.0


def weights_by_nearness(cosines: Floats, floor: float, strength: float) -> Floats:
    """Weights (n,) of the nearest of each text of one collection; -inf stands for no neighbour."""
    known = np.isfinite(cosines)
    share = (np.where(known, cosines, -1.0) - floor) / max(1.0 - floor, 1e-6)
    weights: Floats = np.where(known, strength * np.clip(share, 0.0, 1.0), 0.0).astype(np.float32)
    return weights


def smoothed(rows: Floats, nearest: Floats, weights: Floats) -> Floats:
    """Unit rows (n, d), each averaged with the row of its nearest (n, d) by its weight (n,)."""
    mixed = rows + weights[:, None] * nearest
    unit: Floats = mixed / np.maximum(np.linalg.norm(mixed, axis=1, keepdims=True), np.float32(1e-12))
    return unit


def smoothed_all(rows: Floats, others: Floats, nearest: NDArray[np.int64], weights: Floats) -> Floats:
    """The same from all rows that may be a nearest, `nearest` (n,) naming it; always a copy."""
    unit = np.array(rows, np.float32)
    if len(others):
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            at = slice(first, first + _ROWS_AT_ONCE)
            unit[at] = smoothed(rows[at], others[np.maximum(nearest[at], 0)], weights[at])
    return unit

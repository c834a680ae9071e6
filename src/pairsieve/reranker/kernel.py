"""The compiled loop over trees; imported when trees are first evaluated, as numba takes a while to load."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True)
def add_leaves(  # type: ignore[no-untyped-def]
    features, roots, column, threshold, missing_left, left, right, value, out
):
    """Add the value of the leaf that each row reaches in each tree to `out` (n,)."""
    for row in range(features.shape[0]):
        for root in roots:
            node = root
            while column[node] >= 0:
                cell = features[row, column[node]]
                low = missing_left[node] if np.isnan(cell) else cell <= threshold[node]
                node = left[node] if low else right[node]
            out[row] += value[node]

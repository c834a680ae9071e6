"""The logistic function and its inverse, without overflow and with both tails exact."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]


def sigmoid(logits: ArrayLike) -> Floats:
    """1 / (1 + exp(-x)) in float64, of any shape; no overflow for any x, no rounding to 0 above -745."""
    x = np.asarray(logits, np.float64)
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def logit(probabilities: ArrayLike) -> Floats:
    """log(p / (1 - p)) in float64, of any shape, for p between 0 and 1 (both excluded)."""
    p = np.asarray(probabilities, np.float64)
    return np.log(p) - np.log1p(-p)

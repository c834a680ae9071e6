"""Bootstrap intervals over texts for an exact average precision.

Over the pairs of one space AP is exact and has no interval. The texts of the space are a sample of the texts
there might be, and pairs that share a text are dependent: so texts are drawn with replacement, and a pair
counts m_left · m_right times (both sides of one collection share m; two collections are drawn separately).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import Estimate
from pairsieve.measure.curve import Curve
from pairsieve.pairs import PairSpace, ScoredPairs, pair_rows


def text_interval(
    space: PairSpace,
    curve: Curve,
    positives: ScoredPairs,
    near: ScoredPairs,
    rng: np.random.Generator,
    repeats: int = 400,
    confidence: float = 0.95,
) -> Estimate:
    """The exact AP of `curve` with a percentile interval from resampled texts, stretched to hold it.

    near: the highest-scoring negatives, resampled with their texts; the false positives below them are so
    many, of so many texts, that their count is kept as it is.
    """
    thresholds = -curve.thresholds.astype(np.float64)
    positive_at, near_at = (
        np.searchsorted(thresholds, -of.scores.astype(np.float64)) for of in (positives, near)
    )
    cells, k = (pair_rows(positives.ids), pair_rows(near.ids)), len(thresholds)
    far = curve.false_positives - np.cumsum(np.bincount(near_at, minlength=k + 1)[:k])
    drawn = []
    for _ in range(repeats):
        left, right = times_drawn(space, rng)
        found, wrong = (
            np.cumsum(np.bincount(at, left[rows] * right[columns], k + 1)[:k])
            for at, (rows, columns) in zip((positive_at, near_at), cells)
        )
        if found[-1] > 0:
            precision = found / np.maximum(found + wrong + far, 1e-300)
            drawn.append(float(np.sum(np.diff(found, prepend=0.0) * precision) / found[-1]))
    value, tail = curve.average_precision(), 50 * (1 - confidence)
    low, high = np.percentile(drawn, [tail, 100 - tail]) if drawn else (0.0, 1.0)
    return Estimate(
        value,
        min(value, float(low)),
        max(value, float(high)),
        space.size,
        f"exact over these pairs; {confidence:.0%} interval from {repeats:,} resamplings of texts",
    )


def times_drawn(
    space: PairSpace, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How often each text of either side is drawn when as many are drawn with replacement."""
    rows, columns = space.shape
    left = np.bincount(rng.integers(rows, size=rows), minlength=rows).astype(np.float64)
    if space.symmetric:
        return left, left
    return left, np.bincount(rng.integers(columns, size=columns), minlength=columns).astype(np.float64)

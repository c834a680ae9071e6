"""Matches left among all unasked pairs, extrapolated by score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.advice.batch_yield import LabelledBatch, fit_logistic, untaught
from pairsieve.advice.learning_curve import QUANTILES, NotKnown
from pairsieve.contracts import Estimate
from pairsieve.numeric import sigmoid

# How the logit of a match rises with the score, in standard deviations of all pairs' scores, and its value at
# their mean. In those units one prior serves every task, round and head weight.
SLOPE, SLOPE_SPREAD = 2.3, 0.4
SHIFT, SHIFT_SPREAD = -16.0, 4.0
MOST_LABELS = 100.0  # that the batches count as at most: the newest model is another one than theirs
MISFIT = 0.6  # what a straight line misses of the total, as a standard deviation of its logarithm
TOO_FAR = 100.0  # matches left for each one found, from which on an estimate is not worth telling


@dataclass(frozen=True, eq=False)
class ScoreCounts:
    """Unasked pairs by the newest model's score: `edges` (k+1,) ascending, `pairs` (k,) between them."""

    edges: NDArray[np.floating]
    pairs: NDArray[np.int64]


def positives_left(unasked: ScoreCounts | None, history: Sequence[LabelledBatch]) -> Estimate:
    """Matches among all unasked pairs: Σ over bins of pairs · sigmoid(slope · u + shift).

    u is the score in standard deviations from the mean of all unasked pairs. Slope and shift are fitted to
    the two newest batches that a model chose, by the scores from before their labels, under a prior; the
    interval is from draws of their posterior. Most unasked pairs lie far below every pair that was asked:
    there the line is extrapolated, and an audit knows better.
    """
    if unasked is None:
        raise NotKnown("the unasked pairs were not counted by score")
    chosen = [(batch.scores, batch.labels) for batch in history if batch.scores is not None][-2:]
    if not chosen:
        raise NotKnown("no batch chosen by a model has been answered yet, so its scores cannot be corrected")
    if why := untaught(history):
        raise NotKnown(why)
    middle, pairs = (unasked.edges[:-1].astype(np.float64) + unasked.edges[1:]) / 2.0, unasked.pairs
    middle, pairs = middle[pairs > 0], pairs[pairs > 0].astype(np.float64)
    if not len(pairs):
        raise NotKnown("every pair has been asked")
    mean = pairs @ middle / pairs.sum()
    spread = np.sqrt(pairs @ (middle - mean) ** 2 / pairs.sum()) or 1.0
    scores, labels = (np.concatenate(column) for column in zip(*chosen))
    design = np.column_stack([(scores.astype(np.float64) - mean) / spread, np.ones(len(scores))])
    weights = np.full(len(labels), min(1.0, MOST_LABELS / max(len(labels), 1)))
    precision = np.diag([SLOPE_SPREAD**-2.0, SHIFT_SPREAD**-2.0])
    mode, curvature = fit_logistic(design, labels, weights, np.array([SLOPE, SHIFT]), precision)
    rng = np.random.default_rng(0)  # the same labels make the same advice
    lines = rng.multivariate_normal(mode, np.linalg.inv(curvature), 500)
    totals = np.array([pairs @ sigmoid(a * (middle - mean) / spread + b) for a, b in lines])
    low, value, high = np.quantile(totals * np.exp(MISFIT * rng.standard_normal(len(totals))), QUANTILES)
    found = sum(batch.positives for batch in history)
    if value > TOO_FAR * max(found, 1):
        raise NotKnown(
            f"extrapolated below the pairs that were asked, the match rates add up to {value:,.0f} matches, "
            f"over {TOO_FAR:.0f} times those found; an audit can tell"
        )
    method = "exact counts by score times match rates fitted to the newest batches, extrapolated below them"
    value, low, high = (min(float(each), float(pairs.sum())) for each in (value, low, high))
    return Estimate(value, low, high, len(labels), f"{method}; 90 % interval")

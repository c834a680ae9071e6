"""The batch-yield model: how many matches the next batch should bring, with an interval.

A model judges badly the batch that it chose: its head was fitted to its training pairs, so summed match
probabilities can be wrong by a factor of a hundred. The yield is predicted instead from text-similarity
features of the chosen pairs (`features.py`), by a logistic regression on all labels so far. What that missed
in earlier rounds, before their answers came, corrects it and gives the interval. While the next batch is not
chosen, the last batch's match rate stands in for the prediction, and the interval is wider.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.advice.learning_curve import QUANTILES, Floats, NotKnown, Prior, forecast
from pairsieve.contracts import Estimate
from pairsieve.numeric import sigmoid
from pairsieve.pairs import Mask

Features = NDArray[np.floating]

# Logit of a batch's match rate less the predicted one. Easy matches are found first, so predictions are high.
BY_SIMILARITY = Prior(coefficient=-0.3, spread=0.7, noise=0.4, rounds=3.0)
BY_LAST_RATE = Prior(coefficient=-0.3, spread=0.3, noise=0.8, rounds=2.0)
UNTAUGHT = 3.0  # how many times wider the interval is while labels of one class are few
# Fewer labels of a class teach no boundary: the nearest pairs come first, with hardly a non-match.
FEWEST_MATCHES, FEWEST_OTHERS = 10, 30
SLOPE_PRECISION, SHIFT_PRECISION = 1.0, 1e-3  # of the logistic regression, per standard deviation of a column
RANDOM_WEIGHT = 0.1  # of all random pairs together, beside all labelled ones


@dataclass(frozen=True, eq=False)
class LabelledBatch:
    """One round's labelled pairs, without the unsure ones, and what was known before they were labelled."""

    labels: Mask  # (n,)
    scores: NDArray[np.floating] | None = None  # (n,) by the model that chose them; None where none did
    predicted_rate: float | None = None  # share of matches by `predicted_rates`

    @property
    def positives(self) -> int:
        return int(np.count_nonzero(self.labels))


def untaught(history: Sequence[LabelledBatch]) -> str:
    """Why the labels so far teach no boundary; empty where they do."""
    positives = sum(batch.positives for batch in history)
    others = sum(len(batch.labels) for batch in history) - positives
    enough = positives >= FEWEST_MATCHES and others >= FEWEST_OTHERS
    return "" if enough else f"{positives:,} matches and {others:,} others so far teach no boundary"


def next_positives(
    history: Sequence[LabelledBatch], size: int, predicted_rate: float | None = None
) -> Estimate:
    """Matches among the next `size` labels.

    With z the logit of a batch's match rate and w that of its prediction (text similarity, or the rate of the
    batch before), z = w + bias + noise, learned from the rounds so far; the count is binomial given z.
    """
    if not history:
        raise NotKnown("no round has been answered yet")
    if size < 1:
        raise NotKnown("no next batch is planned")
    rates = [_logit(batch.positives, len(batch.labels)) for batch in history]
    if predicted_rate is not None:
        expected, prior = _logit(predicted_rate * size, size), BY_SIMILARITY
        missed = [
            rate - _logit(batch.predicted_rate * len(batch.labels), len(batch.labels))
            for rate, batch in zip(rates, history)
            if batch.predicted_rate is not None
        ]
        method = "text similarity by all labels, corrected by what that missed in earlier rounds"
    else:
        expected, prior, missed = rates[-1], BY_LAST_RATE, np.diff(rates).tolist()
        method = "the rates of earlier rounds, as the next batch is not chosen yet"
    if not missed:
        method = "the first round's labels, with no earlier round to judge them by"
    off = forecast(np.ones(len(missed) + 1), missed, prior, (np.arange(4000) + 0.5) / 4000)
    if why := untaught(history):
        method = f"a guess: {why}"
        off = np.median(off) + UNTAUGHT * (off - np.median(off))
    counts = np.random.default_rng(0).binomial(size, sigmoid(expected + off))  # the same for the same labels
    low, value, high = np.quantile(counts, QUANTILES).tolist()
    return Estimate(value, low, high, len(missed), f"{method}; 90 % interval")


def predicted_rates(
    features: Sequence[Features], labels: Sequence[Mask], of_random: Features
) -> list[float | None]:
    """Predicted share of matches in each batch after the first, from the labels of the batches before it.

    features: (n_j, d) of every batch in order, the last perhaps unlabelled. labels: (n_j,) of those labelled.
    of_random: (m, d) of pairs put together at random, nearly all non-matches; without them a regression on
    pairs that are all near does not know the direction. None where a batch is empty, or all before it.
    """
    rates: list[float | None] = []
    for at in range(1, len(features)):
        known, batch = np.concatenate(features[:at]), features[at]
        if len(known) == 0 or len(batch) == 0:
            rates.append(None)
            continue
        columns = np.concatenate([known, of_random]).astype(np.float64)
        answers = np.concatenate([*labels[:at], np.zeros(len(of_random), bool)])
        weights = np.ones(len(columns))
        weights[len(known) :] = RANDOM_WEIGHT * len(known) / max(len(of_random), 1)
        mean, spread = columns.mean(axis=0), columns.std(axis=0)
        spread[spread == 0] = 1.0
        design = np.column_stack([(columns - mean) / spread, np.ones(len(columns))])
        precision = np.diag([*np.full(len(mean), SLOPE_PRECISION), SHIFT_PRECISION])
        line, _ = fit_logistic(design, answers, weights, np.zeros(len(precision)), precision)
        rates.append(float(sigmoid(((batch - mean) / spread) @ line[:-1] + line[-1]).mean()))
    return rates


def fit_logistic(
    design: Floats, labels: Mask, weights: Floats, prior: Floats, precision: Floats
) -> tuple[Floats, Floats]:
    """Logistic regression under a normal prior: mode (d,) and curvature (d, d) of the posterior there.

    design (n, d), labels and weights (n,), prior mean (d,) and precision (d, d).
    """
    from scipy.optimize import minimize

    def cost(at: Floats) -> tuple[float, Floats]:
        logits, away = design @ at, at - prior
        loss = weights @ (np.logaddexp(0.0, logits) - labels * logits)
        gradient = design.T @ (weights * (sigmoid(logits) - labels)) + precision @ away
        return float(loss + away @ precision @ away / 2.0), gradient

    mode = minimize(cost, prior, jac=True, method="BFGS").x
    rates = sigmoid(design @ mode)
    return mode, (design * (weights * rates * (1.0 - rates))[:, None]).T @ design + precision


def _logit(matches: float, labels: int) -> float:
    """logit((matches + ½) / (labels + 1))."""
    return math.log(matches + 0.5) - math.log(labels - matches + 0.5)

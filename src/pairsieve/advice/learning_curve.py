"""Forecasts from a few rounds: Bayesian linear regression, and AP after the next batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.contracts import Estimate
from pairsieve.errors import InputError
from pairsieve.numeric import logit

Floats = NDArray[np.float64]

QUANTILES = (0.05, 0.5, 0.95)  # the ends of a 90 % interval, and its middle
DECAY = 0.7  # what a round counts for beside the one after it: early rounds vary more than late ones


class NotKnown(InputError):
    """A figure that cannot be told yet, and why."""


class Prior(NamedTuple):
    """What is assumed of y = coefficient · x + noise before a campaign has shown it."""

    coefficient: float
    spread: float  # standard deviation of the coefficient, in units of the noise
    noise: float  # standard deviation of y
    rounds: float  # how many rounds the guess at the noise is worth


RISE = Prior(coefficient=0.5, spread=4.0, noise=0.2, rounds=4.0)  # of the logit of AP with log labels


def forecast(x: ArrayLike, y: ArrayLike, prior: Prior, shares: ArrayLike = QUANTILES) -> Floats:
    """Quantiles of the next y, at x[-1], by linear regression through the origin; x (k+1,), y (k,) so far.

    A Student's t, by the normal-inverse-gamma prior (Gelman et al., Bayesian Data Analysis, 14.2), rounds
    weighted by DECAY.
    """
    from scipy.stats import t

    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    past, ahead, weights = x[:-1], x[-1], DECAY ** np.arange(len(y))[::-1]
    precision = prior.spread**-2.0
    gathered = precision + weights @ past**2
    mean = (precision * prior.coefficient + weights @ (past * y)) / gathered
    squares = weights @ y**2 + precision * prior.coefficient**2 - gathered * mean**2
    degrees = prior.rounds + weights.sum()
    variance = (prior.rounds * prior.noise**2 + max(squares, 0.0)) / degrees * (1.0 + ahead**2 / gathered)
    values: Floats = mean * ahead + np.sqrt(variance) * t.ppf(shares, degrees)
    return values


def ap_after(curve: Sequence[tuple[int, float]], labels: int) -> tuple[Estimate, float]:
    """AP after another `labels` labels, and the expected gain, which is never below 0.

    curve: (labels, AP) of each round. The odds AP / (1 - AP) grow as a power of the number of labels: a step
    in their logarithm is rise · (step in log labels) + noise, learned from the steps so far.
    """
    if labels < 1:
        raise NotKnown("no next batch is planned")
    if len(curve) < 3:
        raise NotKnown(f"a learning curve needs 3 measured rounds, there are {len(curve)}")
    counts = [*(count for count, _ in curve), curve[-1][0] + labels]
    values = np.clip([value for _, value in curve], 1e-4, 1.0 - 1e-4)
    logits = logit(values)
    step = forecast(np.diff(np.log(counts)), np.diff(logits), RISE)
    step -= min(step[1], 0.0)  # a dip is noise: more labels do not make a model worse for long
    low, value, high = (1.0 / (1.0 + np.exp(-logits[-1] - step))).tolist()
    method = f"odds of AP as a power of the labels, {len(curve)} rounds, the newest most; 90 % interval"
    return Estimate(value, low, high, len(curve), method), max(value - float(values[-1]), 0.0)

"""The head: a logistic regression from the score of a pair to the probability of a match.

The head of a matcher is `p(match) = σ(w·cos + b)` with w > 0 (paper, section on the model). Once the
embeddings are frozen it is a logistic regression with two parameters. The paper runs gradient descent on
standardised cosines to convergence (rate 1, 10,000 steps); Newton's method reaches the same optimum in
a handful of steps, and the result is folded back so that it applies to raw cosines.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairsieve.numeric import logit, sigmoid

# Where the optimum has w <= 0 the head keeps this much, so that the ranking still follows the cosine and
# the cosine at which p = 1/2, which is -b / w, exists.
SMALLEST_WEIGHT = 1e-6

# Labels that a threshold separates have no finite optimum. There, and only there, the standardised weight
# gets a Gaussian prior with this variance: the loss grows by w² / (2 · variance · n).
PRIOR_VARIANCE = 100.0

# Twice the loss that a Newton step can gain, below which it is the last: it squares what error is left.
# Rounding keeps the gradient itself from falling below any fixed size.
CONVERGED = 1e-12


def fit_head(cosines: NDArray[np.floating], labels: NDArray[np.bool_]) -> tuple[float, float]:
    """The weight and bias that minimise the mean cross-entropy of `σ(w·cos + b)`.

    cosines: (n,) floats; labels: (n,) bool. w is at least `SMALLEST_WEIGHT`. With labels of one class w is
    not determined: it is set to 1 per standard deviation, and b so that the mean cosine is given the
    smoothed rate (positives + 1/2) / (n + 1).
    """
    x: NDArray[np.float64] = np.asarray(cosines, dtype=np.float64)
    labels = np.asarray(labels, dtype=bool)
    if len(x) == 0 or len(x) != len(labels):
        raise ValueError(f"a head needs labelled cosines: {len(x)} cosines, {len(labels)} labels")
    mean, spread = float(x.mean()), float(x.std())
    if spread < 1e-9:  # every cosine the same: only the rate of positives can be learned
        return SMALLEST_WEIGHT, float(logit(_smoothed_rate(labels)))
    z = (x - mean) / spread
    if labels.all() or not labels.any():
        weight, bias = 1.0, float(logit(_smoothed_rate(labels)))
    elif float(z[labels].mean()) <= 0.0:  # the slope of the loss at w = 0: a convex loss falls towards w < 0
        weight, bias = 0.0, 0.0
    else:
        separable = x[~labels].max() <= x[labels].min()
        ridge = 1.0 / (PRIOR_VARIANCE * len(z)) if separable else 0.0
        weight, bias = _newton(z, labels.astype(np.float64), ridge)
    if weight / spread < SMALLEST_WEIGHT:
        return SMALLEST_WEIGHT, float(logit(float(labels.mean()))) - SMALLEST_WEIGHT * mean
    return weight / spread, bias - weight * mean / spread


def head_loss(cosines: NDArray[np.floating], labels: NDArray[np.bool_]) -> float:
    """The mean cross-entropy of labelled cosines (n,) under the head fitted to them."""
    x, y = np.asarray(cosines, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    return _loss(x, y, *fit_head(cosines, labels), 0.0)


def _newton(z: NDArray[np.float64], labels: NDArray[np.float64], ridge: float) -> tuple[float, float]:
    """Minimise mean(softplus(w z + b) - y (w z + b)) + ridge w² / 2; Newton steps, halved until they help."""
    rate = float(labels.mean())
    weight, bias = 0.0, float(logit(rate))
    value = _loss(z, labels, weight, bias, ridge)
    for _ in range(200):
        p = sigmoid(weight * z + bias)
        slack = p * (1.0 - p)
        gradient = np.array([np.mean((p - labels) * z) + ridge * weight, np.mean(p - labels)])
        curve_wz = float(np.mean(slack * z))
        curvature = np.array(
            [[float(np.mean(slack * z * z)) + ridge, curve_wz], [curve_wz, float(np.mean(slack))]]
        )
        curvature += 1e-12 * np.eye(2)  # keeps the system solvable where every p has saturated
        step = np.linalg.solve(curvature, gradient)
        size = 1.0
        while size > 1e-8:
            tried = _loss(z, labels, weight - size * step[0], bias - size * step[1], ridge)
            if tried <= value:
                break
            size /= 2.0
        else:
            break
        weight, bias = weight - size * float(step[0]), bias - size * float(step[1])
        value = tried
        if float(gradient @ step) < CONVERGED:
            break
    return weight, bias


def _loss(
    z: NDArray[np.float64], labels: NDArray[np.float64], weight: float, bias: float, ridge: float
) -> float:
    logits = weight * z + bias
    return float(np.mean(np.logaddexp(0.0, logits) - labels * logits)) + ridge * weight * weight / 2.0


def _smoothed_rate(labels: NDArray[np.bool_]) -> float:
    return (float(labels.sum()) + 0.5) / (len(labels) + 1.0)


# ── cross-fitting ────────────────────────────────────────────────────────────────────────────────


def fold_of(groups: NDArray[np.int64], seed: int, folds: int) -> NDArray[np.int64]:
    """(n,) the fold of each group's pairs: groups (such as left texts) in random order, assigned in turn."""
    distinct, at = np.unique(groups, return_inverse=True)
    fold = np.random.default_rng([seed, 0x5EC0]).permutation(len(distinct)) % folds
    return fold[at]


def cross_fitted_log_odds(
    scores: NDArray[np.floating], labels: NDArray[np.bool_], fold: NDArray[np.int64]
) -> NDArray[np.float64]:
    """(n,) log-odds from out-of-fold scores: each fold's head is fitted to the other folds only.

    Where all labels stand in one fold there is nothing else to fit to, and the smoothed rate stands for all.
    """
    log_odds = np.empty(len(scores), np.float64)
    for one in np.unique(fold):
        out = fold == one
        rest = ~out if (~out).any() else out
        weight, bias = fit_head(np.asarray(scores)[rest], labels[rest])
        log_odds[out] = weight * np.asarray(scores, np.float64)[out] + bias
    return log_odds

"""Logistic regression over the features of pairs, as two arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.reranker.trees import Features, Logits, one_thread

_PENALTY = 0.3  # scikit-learn's C over standardised columns
_MOST = 6.0  # no pair is given log-odds beyond this


@dataclass(frozen=True, eq=False)
class Linear:
    """The logit of a row is `features · weights + bias`."""

    weights: NDArray[np.float64]  # (columns,)
    bias: NDArray[np.float64]  # (1,)

    def logits(self, features: Features) -> Logits:
        return np.clip(features.astype(np.float64) @ self.weights + self.bias[0], -_MOST, _MOST)


def fit_linear(features: Features, labels: NDArray[np.bool_]) -> Linear:
    """Fitted to labelled pairs of both classes; L2 penalty over columns scaled to unit variance."""
    from sklearn.linear_model import LogisticRegression

    values = features.astype(np.float64)
    mean, scale = values.mean(axis=0), values.std(axis=0)
    scale[scale < 1e-9] = np.inf  # a column that is the same everywhere says nothing
    model = LogisticRegression(C=_PENALTY, max_iter=2000)
    with one_thread():
        model.fit((values - mean) / scale, labels)
    slopes = model.coef_[0] / scale
    return Linear(slopes, model.intercept_ - mean @ slopes)

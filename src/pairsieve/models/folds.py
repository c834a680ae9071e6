"""Cross-fitting: folds of labelled pairs by text, and log-odds fitted without a pair's own fold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairsieve.models.head import fit_head


def fold_of(groups: NDArray[np.int64], seed: int, folds: int) -> NDArray[np.int64]:
    """(n,) the fold of each group's pairs: groups (such as left texts) in random order, dealt in turn."""
    distinct, at = np.unique(groups, return_inverse=True)
    dealt = np.random.default_rng([seed, 0x5EC0]).permutation(len(distinct)) % folds
    return dealt[at]


def cross_fitted_log_odds(
    scores: NDArray[np.floating], labels: NDArray[np.bool_], fold: NDArray[np.int64]
) -> NDArray[np.float64]:
    """(n,) log-odds from out-of-fold scores: each fold's calibration is fitted to the other folds only.

    Where all labels stand in one fold there is nothing else to fit to, and the smoothed rate stands for all.
    """
    log_odds = np.empty(len(scores), np.float64)
    for one in np.unique(fold):
        out = fold == one
        rest = ~out if (~out).any() else out
        weight, bias = fit_head(np.asarray(scores)[rest], labels[rest])
        log_odds[out] = weight * np.asarray(scores, np.float64)[out] + bias
    return log_odds

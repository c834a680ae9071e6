"""Exact average precision and score histogram over all pairs.

AP needs the positives' scores and, for each distinct one, the number of negatives at or above it. One
pass over all pairs counts them: nothing is sampled, and memory does not grow with the number of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError
from pairsieve.measure.curve import Curve, curve_from_counts, distinct_descending
from pairsieve.pairs import Ids, Scores
from pairsieve.scan import Scan

BINS = 100  # columns of the histogram of pairs by score


@dataclass(frozen=True)
class Histogram:
    """Pairs by score: `edges` (k+1,) ascending, and the pairs in each interval [edge, next edge)."""

    edges: NDArray[np.float32]
    positives: NDArray[np.int64]
    negatives: NDArray[np.int64]


@dataclass(frozen=True)
class ExactMeasures:
    """Everything one pass over all pairs tells."""

    curve: Curve
    histogram: Histogram
    pairs: int


def measure_exactly(scan: Scan, positives: Ids) -> ExactMeasures:
    """Count every pair of the scan's space against the sorted ids of all positives."""
    check_positives(scan.space.size, positives)
    positive_scores: Scores = scan.scores(positives)
    thresholds, tp = distinct_descending(positive_scores)
    edges = np.linspace(-1.0, 1.0, BINS + 1, dtype=np.float32)
    edges[-1] = np.nextafter(np.float32(2.0), np.float32(3.0))  # rounding may lift a cosine above one
    edges[0] = -2.0
    asked = np.union1d(thresholds, edges)
    reaching = scan.count_reaching(asked, desc="measuring all pairs")
    above = reaching[np.searchsorted(asked, thresholds)]
    all_by_bin = -np.diff(reaching[np.searchsorted(asked, edges)])
    positive_by_bin = -np.diff(
        len(positive_scores) - np.searchsorted(np.sort(positive_scores), edges, side="left")
    )
    return ExactMeasures(
        curve_from_counts(thresholds, tp, above - tp, len(positives)),
        Histogram(edges, positive_by_bin, all_by_bin - positive_by_bin),
        scan.space.size,
    )


def check_positives(pairs: int, positives: Ids) -> None:
    """A space without positives has no precision-recall curve; say so instead of dividing by zero."""
    if len(positives) == 0:
        raise InputError(
            "the split has no positive pairs",
            why=f"average precision over its {pairs:,} pairs is not defined without one",
            remedy="Measure another split, or give the task its known matches",
        )

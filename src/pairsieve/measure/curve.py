"""Precision-recall curves, and the exact one over all pairs: average precision, precision at recall, best F1.

A `Curve` has one point per distinct score of a positive, in descending order: recall changes nowhere
else, so these points carry the whole precision-recall curve. Tied pairs enter together. `measure_exactly`
counts the pairs at or above each point in one pass: nothing is sampled, and memory does not grow with the
number of pairs.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.errors import InputError
from pairsieve.pairs import Ids, Scores
from pairsieve.scan import Scan

BINS = 100  # columns of the histogram of pairs by score


@dataclass(frozen=True)
class BestF1:
    """The highest F1 over all thresholds, and where it stands."""

    value: float
    threshold: float
    precision: float
    recall: float

    def as_json(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class Curve:
    """The precision-recall curve over all pairs; counts are of pairs scoring at or above a threshold."""

    thresholds: NDArray[np.float32]  # (k,) distinct scores of positives, descending
    true_positives: NDArray[np.float64]  # (k,)
    false_positives: NDArray[np.float64]  # (k,) whole numbers where exact, weighted sums where estimated
    positives: float  # all positives of the space

    @property
    def recall(self) -> NDArray[np.float64]:
        return self.true_positives / self.positives

    @property
    def precision(self) -> NDArray[np.float64]:
        return self.true_positives / (self.true_positives + self.false_positives)

    def average_precision(self) -> float:
        """AP = Σ (R_i − R_{i−1}) · P_i over distinct scores (paper, section on evaluation)."""
        steps = np.diff(self.true_positives, prepend=0.0) / self.positives
        return float(np.sum(steps * self.precision))

    def at_recall(self, recall: float) -> int:
        """The point with the highest threshold whose recall is at least `recall`."""
        if not 0 < recall <= 1:
            raise InputError(f"recall {recall} is outside (0, 1]", remedy="Ask for a recall such as 0.2")
        wanted = math.ceil(recall * self.positives - 1e-9)
        return min(int(np.searchsorted(self.true_positives, wanted)), len(self.thresholds) - 1)

    def precision_at_recall(self, recall: float) -> float:
        """Precision at the highest threshold whose recall is at least `recall`."""
        return float(self.precision[self.at_recall(recall)])

    def best_f1(self) -> BestF1:
        """The best F1; it stands at a positive's score, as a negative only lowers it. Ties: higher score."""
        found = self.true_positives + self.false_positives
        f1 = 2 * self.true_positives / (found + self.positives)
        at = int(np.argmax(f1))
        return BestF1(
            float(f1[at]), float(self.thresholds[at]), float(self.precision[at]), float(self.recall[at])
        )


def curve_from_counts(
    thresholds: ArrayLike, true_positives: ArrayLike, false_positives: ArrayLike, positives: float
) -> Curve:
    """A curve from descending thresholds and the counts at or above each."""
    return Curve(
        np.asarray(thresholds, np.float32),
        np.asarray(true_positives, np.float64),
        np.asarray(false_positives, np.float64),
        float(positives),
    )


def curve_from_scores(
    positive_scores: ArrayLike, negative_scores: ArrayLike, negative_weights: ArrayLike | None = None
) -> Curve:
    """A curve from listed scores; `negative_weights` say how many negatives each listed one stands for."""
    positive = np.asarray(positive_scores, np.float32)
    thresholds, tp = distinct_descending(positive)
    others = np.asarray(negative_scores, np.float32)
    order = np.argsort(others, kind="stable")
    if negative_weights is None:
        above = len(others) - np.searchsorted(others[order], thresholds, side="left").astype(np.float64)
    else:
        weights = np.asarray(negative_weights, np.float64)[order]
        from_top = np.concatenate([np.cumsum(weights[::-1])[::-1], [0.0]])
        above = from_top[np.searchsorted(others[order], thresholds, side="left")]
    return curve_from_counts(thresholds, tp, above, len(positive))


def distinct_descending(scores: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Distinct scores, highest first, and how many of `scores` stand at or above each."""
    values, counts = np.unique(scores, return_counts=True)
    return values[::-1], np.cumsum(counts[::-1]).astype(np.float64)


# ── exactly, over all pairs ──────────────────────────────────────────────────────────────────────


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

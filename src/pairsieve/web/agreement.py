"""How far do people agree beyond chance? Krippendorff's alpha for match / no match, with an interval.

"Unsure" is a missing value: it neither agrees nor disagrees. A pair that fewer than two people decided says
nothing about agreement and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import Estimate

Counts = NDArray[np.float64]


def vote_counts(votes: Iterable[Mapping[str, int | None]]) -> Counts:
    """(matches, no matches) of every pair that two or more people decided. Returns (n, 2)."""
    rows = []
    for by_person in votes:
        if len(by_person) < 2:
            continue
        matches = sum(label == 1 for label in by_person.values())
        others = sum(label == 0 for label in by_person.values())
        if matches + others >= 2:
            rows.append((matches, others))
    return np.array(rows, np.float64).reshape(-1, 2)


def alpha(counts: Counts, weights: Counts | None = None) -> float:
    """Krippendorff's alpha for two nominal values; nan where it has no meaning.

    counts: (n, 2) votes per pair, each row with m >= 2 votes. With the coincidences of a pair counted
    1/(m-1) times, the observed disagreement is o = sum(n1 n0 / (m - 1)), the values in all are N1 + N0 = N,
    and alpha = 1 - (N - 1) o / (N1 N0) (Krippendorff, Content Analysis, chapter on reliability).
    Where everybody always said the same thing nothing could have disagreed: nan.
    """
    weight = np.ones(len(counts)) if weights is None else weights
    matches, others = counts[:, 0], counts[:, 1]
    total = matches + others
    observed = float((weight * matches * others / np.maximum(total - 1, 1)).sum())
    all_matches, all_others = float((weight * matches).sum()), float((weight * others).sum())
    if all_matches == 0 or all_others == 0:
        return float("nan")
    return 1 - (all_matches + all_others - 1) * observed / (all_matches * all_others)


def agreement(
    votes: Iterable[Mapping[str, int | None]], draws: int = 400, seed: int = 0, level: float = 0.95
) -> Estimate | None:
    """Alpha with a bootstrap interval over pairs; None where it has no meaning (yet)."""
    counts = vote_counts(votes)
    value = alpha(counts)
    if not np.isfinite(value):
        return None
    rng = np.random.default_rng(seed)
    n = len(counts)
    drawn = np.array(
        [alpha(counts, rng.multinomial(n, np.full(n, 1 / n)).astype(float)) for _ in range(draws)]
    )
    drawn = drawn[np.isfinite(drawn)]
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail]) if len(drawn) else (value, value)
    low, high = min(float(low), value), max(float(high), value)
    return Estimate(value, low, high, n, f"Krippendorff's alpha, {level:.0%} bootstrap over pairs")

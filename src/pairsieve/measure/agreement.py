"""Inter-annotator agreement: raw agreement, Cohen's κ and Krippendorff's α, with intervals.

Answers are nominal: 1 (match), 0 (no match), and unsure, which takes no side. Raw agreement is read
first, but where nearly every pair is a non-match it is high for anybody who says "no"; κ (two labellers) and
α (any number of them, with gaps) take that chance out. Both are 1 for perfect agreement, about 0 for chance,
below 0 for worse, and undefined (nan) where everybody gave one answer only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.contracts import Estimate
from pairsieve.errors import InputError

MISSING = -1  # in a table of ratings: this labeller gave no answer
ANSWERS = ("match", "no_match", "unsure")  # the order of rows and columns of a confusion table

_METHOD = "percentile bootstrap over pairs, widened by the Clopper-Pearson limits of the pairs that differ"

Counts: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class OverlapAgreement:
    """How a model's answers compare with people's on the pairs that both answered."""

    confusion: Counts  # (3, 3): people's answer by the model's, both in the order of ANSWERS
    agreement: Estimate  # share of equal answers among pairs where neither was unsure
    kappa: Estimate  # Cohen's κ on the same pairs
    on_matches: Estimate  # of the pairs people call a match, the share the model does too (unsure: not)
    on_no_matches: Estimate  # likewise for no match

    @property
    def pairs(self) -> int:
        return int(self.confusion.sum())

    def as_json(self) -> dict[str, Any]:
        """Figures for `--json`; what is undefined becomes null."""
        rows = {
            answer: {by: int(count) for by, count in zip(ANSWERS, row)}
            for answer, row in zip(ANSWERS, self.confusion)
        }
        named = ("agreement", "kappa", "on_matches", "on_no_matches")
        return {
            "pairs": self.pairs,
            "confusion": rows,
            **{name: _without_nan(getattr(self, name)) for name in named},
        }

    def as_text(self) -> str:
        """The figures for a person."""
        if not self.pairs:
            return "No pair was answered by both the model and people: their agreement is not known."
        lines = [
            f"Agreement with people on {self.pairs:,} pairs:",
            f"  equal answers        {_as_text(self.agreement)}",
            f"  Cohen's κ            {_as_text(self.kappa)}",
            f"  on people's matches  {_as_text(self.on_matches)}",
            f"  on their no matches  {_as_text(self.on_no_matches)}",
            f"  {'people by model':<16}" + "".join(f"{a:>10}" for a in ANSWERS),
        ]
        for answer, row in zip(ANSWERS, self.confusion):
            lines.append(f"  {answer:<16}" + "".join(f"{int(count):>10,}" for count in row))
        return "\n".join(lines)


def overlap_agreement(
    model_answers: Mapping[int, int | None],
    people_answers: Mapping[int, int | None],
    rng: np.random.Generator,
    repeats: int = 2000,
) -> OverlapAgreement:
    """Compare answers (pair id -> 1, 0, or None for unsure) on the pairs that stand in both."""
    column = {1: 0, 0: 1, None: 2}
    confusion: Counts = np.zeros((3, 3), np.int64)
    for pair in model_answers.keys() & people_answers.keys():
        confusion[column[people_answers[pair]], column[model_answers[pair]]] += 1
    decided = confusion[:2, :2]
    return OverlapAgreement(
        confusion=confusion,
        agreement=share(int(np.trace(decided)), int(decided.sum())),
        kappa=_kappa_estimate(decided, rng, repeats),
        on_matches=share(int(confusion[0, 0]), int(confusion[0].sum())),
        on_no_matches=share(int(confusion[1, 1]), int(confusion[1].sum())),
    )


def share(count: int, total: int) -> Estimate:
    """`count / total` with its exact 95 % interval (Clopper and Pearson 1934), of pairs drawn independently.

    nan in [0, 1] where `total` is 0.
    """
    from scipy.stats import binomtest

    method = "share of pairs, Clopper-Pearson 95 %"
    if total == 0:
        return Estimate(math.nan, 0.0, 1.0, 0, method)
    interval = binomtest(count, total).proportion_ci(method="exact")
    return Estimate(count / total, interval.low, interval.high, total, method)


def alpha_estimate(ratings: ArrayLike, rng: np.random.Generator, repeats: int = 1000) -> Estimate:
    """Krippendorff's α for nominal answers, with a 95 % interval (`_widened`).

    ratings: (pairs, labellers) int, `MISSING` where one gave no answer. α = 1 - D_observed / D_expected. A
    pair with m ≥ 2 answers gives m(m-1) ordered couples, each with weight 1/(m-1); D_observed is the weighted
    share of unequal couples, D_expected that share when all answers are thrown together:
    1 - Σ n_c(n_c - 1) / n(n - 1). Pairs with one answer are left out.
    """
    table = _category_counts(ratings)
    pairs = len(table)
    method = f"Krippendorff's α, {_METHOD} ({repeats:,} repeats)"
    if pairs == 0:
        return Estimate(math.nan, -1.0, 1.0, 0, method)
    value = float(_alphas(table, np.ones((1, pairs)))[0])
    if math.isnan(value):
        return Estimate(value, -1.0, 1.0, pairs, method)
    drawn = rng.multinomial(pairs, np.full(pairs, 1 / pairs), size=repeats)
    differing = int(((table > 0).sum(axis=1) > 1).sum())
    by_category = table.sum(axis=0)
    n = by_category.sum()
    expected = float((n**2 - (by_category**2).sum()) / (n * (n - 1)))
    cost = (1 - value) * pairs / differing if differing else 1 / expected
    return _widened(value, _alphas(table, drawn), (differing, pairs), cost, method)


def _category_counts(ratings: ArrayLike) -> Counts:
    """(pairs, categories): how often each category was given, of pairs with at least two answers."""
    given = np.asarray(ratings, dtype=np.int64)
    if given.ndim != 2 or (given < MISSING).any():
        raise InputError(
            f"ratings of shape {given.shape}",
            where="alpha_estimate",
            why=f"a row per pair, a column per labeller, categories from 0 and {MISSING} for missing",
            remedy="Number the answers from 0",
        )
    categories = np.unique(given[given != MISSING])
    counts: Counts = (given[:, :, None] == categories[None, None, :]).sum(axis=1)
    return counts[counts.sum(axis=1) >= 2]


def _alphas(table: Counts, weights: NDArray[Any]) -> NDArray[np.float64]:
    """α where pair i counts `weights[r, i]` times, for each row r; nan where one category is left."""
    answers = table.sum(axis=1)
    unequal = (answers**2 - (table**2).sum(axis=1)) / np.maximum(answers - 1, 1)
    n = weights @ answers
    by_category = weights @ table
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = (weights @ unequal) / n
        expected = (n**2 - (by_category**2).sum(axis=1)) / (n * (n - 1))
        alphas: NDArray[np.float64] = np.where(expected > 0, 1 - observed / expected, np.nan)
    return alphas


def _kappas(tables: Counts) -> NDArray[np.float64]:
    """Cohen's κ of each (k, k) table of counts; nan where it is empty or only one category was used.

    κ = (observed - expected) / (1 - expected). `expected` is the agreement of two labellers who keep their
    own shares of each category but answer at random: Σ share₁(c)·share₂(c) (Cohen 1960).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = tables / tables.sum(axis=(1, 2), keepdims=True)
        observed = np.trace(shares, axis1=1, axis2=2)
        expected = (shares.sum(axis=1) * shares.sum(axis=2)).sum(axis=1)
        kappas: NDArray[np.float64] = (observed - expected) / (1 - expected)
    kappas[(expected >= 1) | (tables.sum(axis=(1, 2)) == 0)] = np.nan
    return kappas


def _kappa_estimate(table: Counts, rng: np.random.Generator, repeats: int) -> Estimate:
    pairs = int(table.sum())
    method = f"Cohen's κ, {_METHOD} ({repeats:,} repeats)"
    value = float(_kappas(table[None])[0]) if pairs else math.nan
    if math.isnan(value):
        return Estimate(value, -1.0, 1.0, pairs, method)
    drawn = rng.multinomial(pairs, table.ravel() / pairs, size=repeats)
    expected = 1 - float((table.sum(axis=0) * table.sum(axis=1)).sum()) / pairs**2
    differing = pairs - int(np.trace(table))
    return _widened(value, _kappas(drawn.reshape(-1, *table.shape)), (differing, pairs), 1 / expected, method)


def _widened(
    value: float, repeated: NDArray[np.float64], counted: tuple[int, int], cost: float, method: str
) -> Estimate:
    """The middle 95 % of the repeats, widened by the exact limits of the share of pairs that differ.

    counted: pairs that differ, and all. cost: what a share of 1 would take off a value of 1. A bootstrap
    alone sees no error where none was met: without a pair that differs its ends would be 1 and 1.
    """
    low, high = np.percentile(repeated[np.isfinite(repeated)], [2.5, 97.5])
    differ = share(*counted)
    ends = 1 - cost * differ.high, 1 - cost * differ.low
    return Estimate(
        value,
        max(min(float(low), ends[0], value), -1.0),
        max(float(high), ends[1], value),
        counted[1],
        method,
    )


def _without_nan(estimate: Estimate) -> dict[str, Any]:
    figures = estimate.as_json()
    return figures | {"value": None} if math.isnan(estimate.value) else figures


def _as_text(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return f"not defined (on {estimate.n:,} pairs)"
    return f"{estimate.value:.3f}  [{estimate.low:.3f}, {estimate.high:.3f}]  on {estimate.n:,} pairs"

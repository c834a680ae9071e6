"""Precision corrected by manual labels of putative false positives.

A person labels a sample of putative false positives: pairs scoring at or above a threshold whose imputed
label is negative. The share that are real errors, estimated apart for near negatives and for random ones,
corrects the count (paper, appendix on manual labels):

    FP_manual = p_near · FP_near + p_random · FP_random        precision = TP / (TP + FP_manual)

As in the paper, pairs found to be matches leave the false positives but do not join the true ones: recall
stays that of the known positives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.contracts import Estimate
from pairsieve.errors import InputError
from pairsieve.measure.sampling import NEAR, POSITIVE, RANDOM, PairSample
from pairsieve.pairs import Ids


@dataclass(frozen=True)
class ToVerify:
    """Putative false positives to show a person, and the counts that their labels will correct."""

    near: Ids
    random: Ids
    true_positives: float
    false_near: float  # near negatives at or above the threshold
    false_random: float  # weighted count of random ones
    random_weight: float  # what one random negative stands for


def to_verify(
    sample: PairSample,
    scores: ArrayLike,
    threshold: float,
    count_near: int,
    count_random: int,
    rng: np.random.Generator,
) -> ToVerify:
    """Draw putative false positives uniformly from each stratum; all of them where fewer stand there.

    scores: (n,) in the order of `sample.ids`. Ids come back sorted, so that their order tells nothing.
    """
    above, weights = np.asarray(scores, np.float32) >= np.float32(threshold), sample.weights
    of = {stratum: above & (sample.stratum == stratum) for stratum in (POSITIVE, NEAR, RANDOM)}

    def drawn(stratum: int, count: int) -> Ids:
        there = sample.ids[of[stratum]]
        return np.sort(rng.choice(there, size=min(count, len(there)), replace=False))

    far = weights[sample.stratum == RANDOM]
    found, false_near, false_random = (float(weights[mask].sum()) for mask in of.values())
    near, random, weight = drawn(NEAR, count_near), drawn(RANDOM, count_random), far.mean() if len(far) else 1
    return ToVerify(near, random, found, false_near, false_random, float(weight))


def corrected_precision(
    true_positives: float,
    false_near: float,
    false_random: float,
    near_labels: Sequence[int],
    random_labels: Sequence[int],
    rng: np.random.Generator,
    *,
    random_weight: float = 1.0,
    repeats: int = 10_000,
    confidence: float = 0.95,
) -> Estimate:
    """Precision after a person has looked at samples of the putative false positives.

    near_labels, random_labels: 0 where the pair does not match (a real error of the scorer), 1 where it
    matches (the imputed label was wrong). A stratum without false positives needs no labels.

    The interval melds the exact limits of both shares (Clopper and Pearson 1934; Fay, Proschan and Brittain
    2015), for the pairs that nobody looked at: a share is Beta(errors + 1, matches) at most and
    Beta(errors, matches + 1) at least. Near pairs are counted: their errors are binomial draws with it. Give
    the `random_weight` that one random negative stands for, and it also covers which of them were drawn: the
    count is Gamma(k) · weight at least and Gamma(k + 1) · weight at most.
    """
    if true_positives <= 0:
        raise InputError(
            f"{true_positives} true positives",
            why="precision needs at least one pair found",
            remedy="Choose a lower threshold",
        )
    near_errors, near_total = _errors(near_labels, false_near, "near")
    random_errors, random_total = _errors(random_labels, false_random, "random")
    value = true_positives / (
        true_positives
        + false_near * (near_errors / near_total if near_total else 0.0)
        + false_random * (random_errors / random_total if random_total else 0.0)
    )
    near_share = _share_limits(near_errors, near_total, rng, repeats)
    random_share = _share_limits(random_errors, random_total, rng, repeats)
    unlabelled_near = max(round(false_near) - near_total, 0)
    near = [min(near_errors, false_near) + rng.binomial(unlabelled_near, share) for share in near_share]
    drawn_share = 1.0 / random_weight
    hits = false_random * drawn_share
    # As in `estimated`: a hit stands for itself and for the undrawn pairs passed over before it.
    fewest = hits + rng.standard_gamma(hits * (1.0 - drawn_share), repeats) * random_weight
    most = fewest + rng.standard_gamma(1.0 - drawn_share, repeats) * random_weight
    tail = (1.0 - confidence) / 2.0
    low = np.quantile(true_positives / (true_positives + near[1] + random_share[1] * most), tail)
    least = near[0] + random_share[0] * fewest
    high = np.quantile(true_positives / (true_positives + least), 1.0 - tail)
    return Estimate(
        value,
        min(float(low), value),
        max(float(high), value),
        near_total + random_total,
        f"corrected by manual labels: {near_errors} of {near_total} near and {random_errors} of "
        f"{random_total} random putative false positives are errors; {confidence:.0%} exact limits",
    )


def _share_limits(
    errors: int, total: int, rng: np.random.Generator, repeats: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draws with the lower and the upper Clopper-Pearson limits of a share as quantiles, (repeats,) each."""
    others = total - errors
    fewest = rng.beta(errors, others + 1, repeats) if errors else np.zeros(repeats)
    most = rng.beta(errors + 1, others, repeats) if others else np.ones(repeats)
    return fewest, most


def _errors(labels: Sequence[int], false: float, stratum: str) -> tuple[int, int]:
    given = np.asarray(labels, dtype=np.int64)
    outside = given[(given != 0) & (given != 1)]
    if len(outside):
        raise InputError(
            f"label {outside[0]} of a {stratum} pair is outside {{0, 1}}",
            remedy="Give 1 for a match, 0 for none, and leave out pairs nobody was sure of",
        )
    if false < 0:
        raise InputError(f"{false} putative false positives ({stratum})", remedy="Give a count of 0 or more")
    if false > 0 and len(given) == 0:
        raise InputError(
            f"no labels for the {stratum} stratum",
            why=f"it holds {false:,.0f} putative false positives, and their real share is not known",
            remedy=f"Label some of the {stratum} pairs that `to_verify` draws",
        )
    return int((given == 0).sum()), len(given)

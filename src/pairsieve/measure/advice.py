"""Is it worth going on? What the next batch should bring, what is left, what more labels should do to AP.

The next batch is foretold by `next_batch.py`. Every figure is an `Estimate` with a 90 % interval; what cannot
be told yet is None, with the reason in `silent`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import Estimate
from pairsieve.errors import InputError
from pairsieve.measure.next_batch import (
    FEWEST_MATCHES,
    FEWEST_OTHERS,
    SHARES,
    Batch,
    Scored,
    Unasked,
    depth_of,
    foretell,
    kinds,
    logistic_line,
    next_positives,
    sigmoid,
    taught,
)
from pairsieve.pairs import Ids, Mask, PairSpace, pair_rows

__all__ = [
    "FEWEST_MATCHES",
    "FEWEST_OTHERS",
    "Advice",
    "Batch",
    "Scored",
    "Unasked",
    "advise",
    "ap_after",
    "depth_of",
    "next_positives",
    "positives_left",
    "positives_left_at_least",
]

Floats = NDArray[np.float64]

# How the logit of a match rises with the score, in standard deviations of all pairs' scores, when matches
# left are counted. In those units one number does for both tasks above, all rounds and head weights.
SLOPE, SLOPE_SPREAD = 2.3, 0.4
SHIFT, SHIFT_SPREAD = -16.0, 4.0  # at the mean of all pairs' scores
CORRECTED_BY = 100.0  # labels that the batches' word is worth at most: the newest model is another one
TOO_FAR = 100.0  # matches left for each one found, from which on an estimate is not worth telling
LEFT_REST = 0.6  # what a straight line misses of the total, as a standard deviation of its logarithm

# How the logit of AP rises with the logarithm of the labels, likewise.
RISE, RISE_SPREAD = 0.5, 4.0
AP_REST, AP_REST_WEIGHT = 0.2, 4.0


@dataclass(frozen=True)
class Advice:
    """What a round's figures say about going on. `silent` says why a figure is missing."""

    next_positives: Estimate | None  # matches in the next batch
    next_labels: int
    left: Estimate | None  # matches among all unasked pairs
    left_at_least: Estimate | None  # a floor that needs no model
    ap_after: Estimate | None  # AP once the next batch is labelled
    ap_gain: float | None  # expected, by the same curve
    sentence: str
    silent: dict[str, str] = field(default_factory=dict)
    rests_on: str = ""  # names the labels that it was made from, so that a change shows

    def as_json(self) -> dict[str, Any]:
        def shown(figure: Estimate | None) -> dict[str, Any] | None:
            return None if figure is None else figure.as_json()

        return {
            "next_labels": self.next_labels,
            "next_positives": shown(self.next_positives),
            "left": shown(self.left),
            "left_at_least": shown(self.left_at_least),
            "ap_after": shown(self.ap_after),
            "ap_gain": self.ap_gain,
            "sentence": self.sentence,
            "silent": self.silent,
            "rests_on": self.rests_on,
        }


def advise(
    history: Sequence[Batch],
    coming: Scored | None = None,
    next_labels: int = 0,
    unasked: Unasked | None = None,
    space: PairSpace | None = None,
    found: Ids | None = None,
    curve: Sequence[tuple[int, float]] = (),
    foreseen: float | None = None,
) -> Advice:
    """Everything that can be told after a round.

    history: the answered batches in order. coming: the pairs chosen next, scored by the newest model; without
    it `next_labels` says how many will be asked. unasked: the newest model's exact counts. found: ids of the
    matches found so far in `space`. curve: (labels, AP) after each round measured. foreseen: the share of
    matches that the witness expects of the next batch.
    """
    silent: dict[str, str] = {}
    next_labels = next_labels if coming is None else len(coming.scores)
    bring: Estimate | None = None
    if not history:
        silent["next_positives"] = "no round has been answered yet"
    elif next_labels == 0:
        silent["next_positives"] = "no next batch is planned"
    else:
        depth = None if coming is None or unasked is None else depth_of(coming.scores, unasked)
        bring = next_positives(history, next_labels, coming, depth, foreseen)
    left = None
    if unasked is None:
        silent["left"] = "the unasked pairs were not counted by score"
    elif all(batch.scored is None for batch in history):
        silent["left"] = "no batch chosen by a model has been answered yet, so its scores cannot be corrected"
    elif not taught(history):
        silent["left"] = "{:,} matches and {:,} others so far teach no boundary".format(*kinds(history))
    else:
        left = positives_left(unasked, history)
        if carried_too_far(left, history):
            silent["left"] = (
                f"carried below the pairs that were asked, the match rates would add up to {left.value:,.0f} "
                f"matches, over {TOO_FAR:.0f} times those found; an audit can tell"
            )
            left = None
    floor = None
    if space is None or found is None:
        silent["left_at_least"] = "the matches found were not given"
    else:
        floor = positives_left_at_least(space, found, history, bring)
        if left is not None:  # two figures for one thing must not contradict each other
            value, low, high = (max(each, floor.value) for each in (left.value, left.low, left.high))
            left = replace(left, value=value, low=low, high=high)
    after, gain = None, None
    if next_labels == 0:
        silent["ap_after"] = "no next batch is planned"
    elif len(curve) < 3:
        silent["ap_after"] = f"a learning curve needs 3 measured rounds, there are {len(curve)}"
    else:
        after, gain = ap_after(curve, next_labels)
    words = _sentence(bring, next_labels, left, after, gain, curve)
    return Advice(bring, next_labels, left, floor, after, gain, words, silent)


# ── what is left ────────────────────────────────────────────────────────────────────────────────────


def carried_too_far(left: Estimate, history: Sequence[Batch]) -> bool:
    """Whether an estimate of what is left rests on little but a line drawn far beyond what was asked."""
    return left.value > TOO_FAR * max(kinds(history)[0], 1)


def positives_left(unasked: Unasked, history: Sequence[Batch]) -> Estimate:
    """Matches among all unasked pairs: Σ over bins of pairs · sigmoid(slope · u + shift).

    u is the score in standard deviations from the mean of all unasked pairs. Slope and shift are fitted to
    the two newest batches that a model chose, by the scores from before their labels, under a prior. Most
    unasked pairs lie far below every pair that was asked: there the line is extrapolated, and an audit knows
    better.
    """
    judged = [batch for batch in history if batch.scored is not None][-2:]
    pairs = np.maximum(unasked.pairs, 0).astype(np.float64)
    if not judged or pairs.sum() < 1:
        raise InputError("counting what is left needs unasked pairs and an answered batch that a model chose")
    middle = (unasked.edges[:-1].astype(np.float64) + unasked.edges[1:]) / 2.0
    mean = float(pairs @ middle / pairs.sum())
    spread = math.sqrt(float(pairs @ (middle - mean) ** 2 / pairs.sum())) or 1.0
    scores = np.concatenate([batch.scored.scores for batch in judged if batch.scored is not None])
    labels = np.concatenate([batch.labels for batch in judged])
    line, covariance = _calibration((scores.astype(np.float64) - mean) / spread, labels)

    # A grid of lines, each with its weight under the normal approximation of the posterior.
    nodes, weights = np.polynomial.hermite_e.hermegauss(11)
    steps = np.array([[x, y] for x in nodes for y in nodes])
    lines = line + steps @ np.linalg.cholesky(covariance).T
    used = pairs > 0
    u, pairs = (middle[used] - mean) / spread, pairs[used]
    totals = np.array([float(pairs @ sigmoid(slope * u + shift)) for slope, shift in lines])
    missed = np.exp(LEFT_REST * nodes)
    low, value, high = _quantiles(
        np.outer(totals, missed).ravel(), np.outer(np.outer(weights, weights).ravel(), weights).ravel()
    )
    method = "exact counts by score times match rates fitted to the newest batches, extrapolated below them"
    return Estimate(value, low, min(high, float(pairs.sum())), len(labels), f"{method}; 90 % interval")


def _calibration(u: Floats, labels: Mask) -> tuple[Floats, Floats]:
    """Mode (slope, shift) and covariance of a logistic line through labels (n,) at `u` (n,)."""
    prior = np.array([SLOPE, SHIFT])
    precision = np.diag([SLOPE_SPREAD**-2.0, SHIFT_SPREAD**-2.0])
    weights = np.full(len(labels), min(1.0, CORRECTED_BY / len(labels)))
    design = np.column_stack([u, np.ones(len(u))])
    line, curvature = logistic_line(design, labels, weights, prior, precision)
    return line, np.linalg.inv(curvature).astype(np.float64)


def positives_left_at_least(
    space: PairSpace, found: Ids, history: Sequence[Batch], bring: Estimate | None = None
) -> Estimate:
    """A floor on the matches left that asks no model about unasked pairs; the largest of three.

    Matches that follow by transitivity from those found (one collection); what the next batch brings at
    least; and the removal method of capture studies: when taking out (c₁ + c₂) / 2 matches lowers the catch
    per label from r₁ to r₂, r₂ · (c₁ + c₂) / (2 (r₁ - r₂)) were there. The easy ones go first, so this errs
    on the low side; the upper end of r₁ - r₂ is used. The high end is all unasked pairs: it is only a floor.
    """
    asked = sum(len(batch.labels) for batch in history)
    floors = {"by transitivity": _implied(space, found) if space.symmetric else 0.0}
    if bring is not None:
        floors["the next batch"] = bring.low
    if len(history) > 1:
        floors["removal"] = _removal(*history[-2:])
    method = max(floors, key=lambda name: floors[name])
    value = floors[method]
    return Estimate(value, value, float(space.size - asked), len(found), f"lower bound: {method}")


def _implied(space: PairSpace, found: Ids) -> float:
    """Pairs inside the groups that found matches join, less those found."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    texts, places = np.unique(np.concatenate(pair_rows(found)), return_inverse=True)
    if len(texts) == 0:
        return 0.0
    one, other = places[: len(found)], places[len(found) :]
    graph = coo_matrix((np.ones(len(found), np.int8), (one, other)), shape=(len(texts), len(texts)))
    sizes = np.bincount(connected_components(graph, directed=False)[1]).astype(np.int64)
    return float(int((sizes * (sizes - 1) // 2).sum()) - len(np.unique(found)))


def _removal(before: Batch, last: Batch) -> float:
    """Matches left after `last` by the removal method, with the upper end of the fall in the catch."""
    if not len(before.labels) or not len(last.labels):
        return 0.0
    rates = [batch.positives / len(batch.labels) for batch in (before, last)]
    noise = math.sqrt(sum(r * (1.0 - r) / len(b.labels) for r, b in zip(rates, (before, last))))
    fall = rates[0] - rates[1] + 1.645 * noise
    # A catch that does not fall says nothing about the stock; nor does one that only the batch's size limits.
    if rates[1] >= rates[0] or rates[0] > 0.6:
        return 0.0
    there = rates[1] * (before.positives + last.positives) / 2.0 / fall
    return max(there - last.positives / 2.0, 0.0)


# ── the learning curve ──────────────────────────────────────────────────────────────────────────────


def ap_after(curve: Sequence[tuple[int, float]], labels: int) -> tuple[Estimate, float]:
    """AP after another `labels` labels, and the expected gain, which is never below 0.

    The odds AP / (1 - AP) grow as a power of the number of labels: the step in their logarithm is
    rise · (step in log labels) + rest, learned by `foretell` from the steps so far.
    """
    if len(curve) < 3:
        raise InputError(f"a learning curve of {len(curve)} rounds", remedy="Measure 3 rounds or more")
    from scipy.stats import t

    counts = np.array([*(n for n, _ in curve), curve[-1][0] + labels], dtype=np.float64)
    values = np.clip([value for _, value in curve], 1e-4, 1.0 - 1e-4)
    odds = np.log(values) - np.log1p(-values)
    design = np.diff(np.log(counts))[:, None]
    centre, spread, freedom = foretell(
        design, np.diff(odds), (RISE,), (RISE_SPREAD,), AP_REST, AP_REST_WEIGHT
    )
    ahead = odds[-1] + max(centre, 0.0)  # a dip is noise: more labels do not make a model worse for long
    low, value, high = (float(x) for x in sigmoid(ahead + spread * t.ppf(SHARES, freedom)))
    method = f"odds of AP as a power of the labels, {len(curve)} rounds, the newest most; 90 % interval"
    return Estimate(value, low, high, len(curve), method), max(value - float(values[-1]), 0.0)


def _quantiles(values: Floats, weights: Floats) -> tuple[float, float, float]:
    """The ends of the interval around the median, and the median: (low, median, high) of weighted values."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    at = [int(np.searchsorted(reached, share)) for share in SHARES]
    low, median, high = (float(values[order[min(place, len(order) - 1)]]) for place in at)
    return low, median, high


# ── in words, and as rules ──────────────────────────────────────────────────────────────────────────

# Below these the next batch pays little: its gain in AP, AP's newest two steps, its share of matches at best.
LITTLE_GAIN, LITTLE_STEP, LITTLE_SHARE = 0.005, 0.01, 0.1
NOT_KNOWN = 0.7  # an interval over more of the batch than this tells nobody anything


def _sentence(
    coming: Estimate | None,
    labels: int,
    left: Estimate | None,
    after: Estimate | None,
    gain: float | None,
    curve: Sequence[tuple[int, float]],
) -> str:
    """Whether to go on, and the figures that say so."""
    few = coming is not None and coming.high < LITTLE_SHARE * labels
    # One expected gain of nothing may follow from a dip: the curve itself must lie still.
    steps = np.abs(np.diff([value for _, value in curve[-3:]]))
    flat = gain is not None and gain < LITTLE_GAIN and bool((steps < LITTLE_STEP).all())
    if coming is None:
        verdict = "Nothing can be said about the next batch yet"
    elif few and flat:
        verdict = "You can stop"
    elif flat:
        verdict = "Stop unless you want the matches themselves, for the model hardly improves any more"
    elif few and gain is None:
        verdict = "Stop unless every match counts, for the next batch brings few"
    elif few:
        verdict = "Go on for the model's sake, for AP still rises though matches are few"
    else:
        verdict = "Go on"
    reasons = []
    if coming is not None:
        if coming.high - coming.low > NOT_KNOWN * labels:
            ends = f"{_round(coming.low):,} to {_round(coming.high):,}"
            reasons.append(f"what the next {labels:,} labels bring is not known yet ({ends} matches)")
        else:
            reasons.append(f"the next {labels:,} labels should bring {_about(coming)} matches")
    if left is not None:
        reasons.append(f"{_about(left)} are likely left among all unasked pairs")
    if after is not None and gain is not None:
        words = f"AP should then be {after.value:.3f} ({after.low:.3f} to {after.high:.3f})"
        reasons.append(f"{words}, a gain of {gain:.3f}")
    return f"{verdict}: {'; '.join(reasons)}." if reasons else f"{verdict}."


def _about(figure: Estimate) -> str:
    return f"about {_round(figure.value):,} ({_round(figure.low):,} to {_round(figure.high):,})"


def _round(value: float) -> int:
    """To two digits, so that an estimate does not look like a count."""
    size = 10 ** max(len(str(int(value))) - 2, 0)
    return int(round(value / size) * size)

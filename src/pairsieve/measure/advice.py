"""Is it worth going on? What the next batch should bring, what is left, what more labels should do to AP.

A model judges its own batch badly: its head was fitted on the pairs it was trained on, so the summed match
probabilities of a batch can be wrong by a factor of a hundred. So the next batch is predicted from three
witnesses: what the last batch brought, how much deeper in the ranking the next one lies, and what the model
says; the campaign's own rounds say how far to trust each. Without rounds to learn from, the interval is wide.
Every figure is an `Estimate` with a 90 % interval; what cannot be told yet is None, with the reason in
`silent`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import Estimate
from pairsieve.errors import InputError
from pairsieve.pairs import Ids, Mask, PairSpace, pair_rows

Floats = NDArray[np.float64]

SHARES = (0.05, 0.5, 0.95)  # the ends of a 90 % interval, and its middle
POINTS = 400  # places at which a predictive distribution is evaluated

# How the match rate of a batch (in logits) follows from that of the batch before, from the rate that the
# model expects, and from the step in depth, before a campaign has shown it: (start, share of the last, share
# of the model, fall per unit of log rank), their spread in units of the rest, and the rest's standard
# deviation with the rounds that this guess is worth. Set on campaigns over WikiQA and QQP (bench/advice.py).
PRIOR = (0.1, 0.9, 0.1, -1.5)
PRIOR_SPREAD = (0.5, 0.3, 0.3, 2.0)
REST, REST_WEIGHT = 0.45, 3.0
UNTAUGHT = 2.0  # how much wider the rest is while labels of one kind are few
STRIDE = 1.0  # a long step may cross the end of the matches: its rest is 1 + STRIDE · step² times wider
FORGET = 0.7  # what a round counts for beside the one after it: early rounds are wilder than late ones
# Fewer labels of a kind teach no boundary. The nearest pairs come first: hardly a non-match, no boundary yet.
FEWEST_MATCHES, FEWEST_OTHERS = 10, 30

# How the logit of a match rises with the score, in standard deviations of all pairs' scores, when matches
# left are counted. In those units one number does for both tasks above, all rounds and head weights.
SLOPE, SLOPE_SPREAD = 2.3, 0.4
SHIFT, SHIFT_SPREAD = -16.0, 4.0  # at the mean of all pairs' scores
CORRECTED_BY = 100.0  # labels that the batches' word is worth at most: the newest model is another one
LEFT_REST = 0.6  # what a straight line misses of the total, as a standard deviation of its logarithm

# How the logit of AP rises with the logarithm of the labels, likewise.
RISE, RISE_SPREAD = 0.5, 4.0
AP_REST, AP_REST_WEIGHT = 0.2, 4.0


@dataclass(frozen=True, eq=False)
class Scored:
    """What a model says of pairs: `scores` (n,), and the head that makes logits of them."""

    scores: NDArray[np.floating]
    weight: float
    bias: float

    @property
    def logits(self) -> Floats:
        logits: Floats = self.weight * np.asarray(self.scores, dtype=np.float64) + self.bias
        return logits


@dataclass(frozen=True, eq=False)
class Batch:
    """One round's answered pairs: `labels` (n,) bool, and what the model that chose them said of them before.

    `scored` is None where no trained model chose (round 1). Unsure pairs are left out of both.
    """

    labels: Mask
    scored: Scored | None = None
    depth: float | None = None  # log of the unasked pairs that ranked before its middle; None: not ranked

    def __post_init__(self) -> None:
        if self.scored is not None and len(self.scored.scores) != len(self.labels):
            raise ValueError(f"{len(self.scored.scores):,} scores but {len(self.labels):,} labels")

    @property
    def positives(self) -> int:
        return int(np.count_nonzero(self.labels))


@dataclass(frozen=True, eq=False)
class Unasked:
    """All unasked pairs by the newest model's score: `edges` (k+1,) ascending, `pairs` (k,) between them."""

    edges: NDArray[np.floating]
    pairs: NDArray[np.int64]


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
) -> Advice:
    """Everything that can be told after a round.

    history: the answered batches in order. coming: the pairs chosen next, scored by the newest model; without
    it `next_labels` says how many will be asked. unasked: the newest model's exact counts. found: ids of the
    matches found so far in `space`. curve: (labels, AP) after each round measured.
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
        bring = next_positives(history, next_labels, coming, depth)
    left = None
    if unasked is None:
        silent["left"] = "the unasked pairs were not counted by score"
    elif all(batch.scored is None for batch in history):
        silent["left"] = "no batch chosen by a model has been answered yet, so its scores cannot be corrected"
    elif not _taught(history):
        silent["left"] = "{:,} matches and {:,} others so far teach no boundary".format(*_kinds(history))
    else:
        left = positives_left(unasked, history)
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


# ── the next batch ──────────────────────────────────────────────────────────────────────────────────


def next_positives(
    history: Sequence[Batch], labels: int, coming: Scored | None = None, depth: float | None = None
) -> Estimate:
    """How many matches the next batch of `labels` pairs should bring, lying at `depth`.

    With z the logit of a batch's match rate, m that of the rate its model expected and d its depth,
    z' = start + a · z + b · m' + c · (d' - d) + rest, learned by `_foretell` from the rounds so far; the
    count is binomial given z'. A batch that no model scored takes the last rate for m', and one whose depth
    is not known lies as deep as the last.
    """
    if not history or labels < 1:
        raise InputError("a prediction needs an answered batch and a next one", remedy="Label a round first")
    rates = np.array([_logit_rate(batch.positives, len(batch.labels)) for batch in history])
    scored = [*(batch.scored for batch in history[1:]), coming]
    expected = [_expected(by_model, last) for by_model, last in zip(scored, rates)]
    depths = [*(batch.depth for batch in history), depth]
    deeper = [0.0 if a is None or b is None else b - a for a, b in pairwise(depths)]
    design = np.column_stack([np.ones(len(rates)), rates, expected, deeper])
    taught = _taught(history)
    rest = REST if taught else UNTAUGHT * REST
    wider = 1.0 + STRIDE * np.array(deeper) ** 2
    foretold = _foretell(design, rates[1:], PRIOR, PRIOR_SPREAD, rest, REST_WEIGHT, wider)
    method = "last batch, its depth and the model, trusted as far as earlier rounds bear them out"
    if not taught:
        method = "a guess: {:,} matches and {:,} others so far teach no boundary".format(*_kinds(history))
    elif len(rates) == 1:
        method = "seed set, depth and model, no earlier round to judge them by"
    return Estimate(*_count(*foretold, labels), len(rates) - 1, f"{method}; 90 % interval")


def depth_of(scores: NDArray[np.floating], unasked: Unasked) -> float:
    """log(1 + unasked pairs at or above the middle score of a batch)."""
    if len(scores) == 0:
        return 0.0
    reached = np.maximum(unasked.pairs[unasked.edges[:-1] >= np.median(scores)], 0)
    return math.log1p(float(reached.sum()))


def _foretell(
    design: Floats,
    came: Floats,
    prior: Sequence[float],
    prior_spread: Sequence[float],
    rest: float,
    rest_weight: float,
    scale: Floats | None = None,
) -> tuple[float, float, float]:
    """Centre, spread and degrees of freedom of the Student's t that predicts what comes at design[-1].

    A linear model, design (k+1, d) and came (k,), under a normal-inverse-gamma prior: coefficients `prior`
    with `prior_spread` in units of the rest, whose standard deviation is guessed at `rest` with the weight of
    `rest_weight` rounds, `scale` (k+1,) times wider in each row. A round counts `FORGET` times as much as the
    one after it.
    """
    mean0, precision = np.array(prior), np.diag(np.array(prior_spread) ** -2.0)
    past, ahead = design[:-1], design[-1]
    times = np.ones(len(design)) if scale is None else scale
    ages = FORGET ** np.arange(len(came))[::-1]
    counts = ages / times[:-1] ** 2
    gathered = precision + past.T @ (counts[:, None] * past)
    mean = np.linalg.solve(gathered, precision @ mean0 + past.T @ (counts * came))
    freedom = rest_weight + float(ages.sum())
    explained = float(mean @ gathered @ mean - mean0 @ precision @ mean0)
    squares = rest_weight * rest**2 + max(float(counts @ came**2) - explained, 0.0)
    wider = float(times[-1]) ** 2 + float(ahead @ np.linalg.solve(gathered, ahead))
    return float(ahead @ mean), math.sqrt(squares / freedom * wider), freedom


def _count(centre: float, spread: float, freedom: float, labels: int) -> tuple[float, float, float]:
    """Median and interval of a binomial count whose logit rate is Student's t."""
    from scipy.stats import binom, t

    rates = _sigmoid(centre + spread * t.ppf((np.arange(POINTS) + 0.5) / POINTS, freedom))

    def quantile(share: float) -> float:
        low, high = 0, labels  # the smallest count whose distribution function reaches `share`
        while low < high:
            middle = (low + high) // 2
            if float(binom.cdf(middle, labels, rates).mean()) >= share:
                high = middle
            else:
                low = middle + 1
        return float(low)

    low, value, high = map(quantile, SHARES)
    return value, low, high


def _kinds(history: Sequence[Batch]) -> tuple[int, int]:
    """Matches and others among all labels."""
    positives = sum(batch.positives for batch in history)
    return positives, sum(len(batch.labels) for batch in history) - positives


def _taught(history: Sequence[Batch]) -> bool:
    """Whether there are enough labels of both kinds for a boundary."""
    positives, negatives = _kinds(history)
    return positives >= FEWEST_MATCHES and negatives >= FEWEST_OTHERS


def _expected(scored: Scored | None, otherwise: float) -> float:
    """Logit of the match rate that the model expects of a batch."""
    if scored is None or len(scored.scores) == 0:
        return otherwise
    return _logit_rate(float(_sigmoid(scored.logits).sum()), len(scored.scores))


# ── what is left ────────────────────────────────────────────────────────────────────────────────────


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
    totals = np.array([float(pairs @ _sigmoid(slope * u + shift)) for slope, shift in lines])
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
    share = min(1.0, CORRECTED_BY / len(labels))
    design = np.column_stack([u, np.ones(len(u))])

    def cost(at: Floats) -> float:
        raw, away = design @ at, at - prior
        return float(share * np.sum(np.logaddexp(0.0, raw) - labels * raw) + away @ precision @ away / 2.0)

    line: Floats = np.array([SLOPE, _logit_rate(float(labels.sum()), len(labels)) - SLOPE * float(u.mean())])
    curvature: Floats = precision
    for _ in range(100):
        p = _sigmoid(design @ line)
        gradient = share * design.T @ (p - labels) + precision @ (line - prior)
        curvature = share * (design * (p * (1.0 - p))[:, None]).T @ design + precision
        step = np.linalg.solve(curvature, gradient)
        size = 1.0
        while size > 1e-6 and cost(line - size * step) > cost(line):
            size /= 2.0
        line = line - size * step
        if float(np.abs(step).max()) < 1e-8:
            break
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
    rise · (step in log labels) + rest, learned by `_foretell` from the steps so far.
    """
    if len(curve) < 3:
        raise InputError(f"a learning curve of {len(curve)} rounds", remedy="Measure 3 rounds or more")
    from scipy.stats import t

    counts = np.array([*(n for n, _ in curve), curve[-1][0] + labels], dtype=np.float64)
    values = np.clip([value for _, value in curve], 1e-4, 1.0 - 1e-4)
    odds = np.log(values) - np.log1p(-values)
    design = np.diff(np.log(counts))[:, None]
    centre, spread, freedom = _foretell(
        design, np.diff(odds), (RISE,), (RISE_SPREAD,), AP_REST, AP_REST_WEIGHT
    )
    ahead = odds[-1] + max(centre, 0.0)  # a dip is noise: more labels do not make a model worse for long
    low, value, high = (float(x) for x in _sigmoid(ahead + spread * t.ppf(SHARES, freedom)))
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


def _logit_rate(positives: float, labels: int) -> float:
    """logit((positives + ½) / (labels + 1))."""
    return math.log(positives + 0.5) - math.log(labels - positives + 0.5)


def _sigmoid(logits: Floats) -> Floats:
    result: Floats = 0.5 * (1.0 + np.tanh(0.5 * logits))
    return result

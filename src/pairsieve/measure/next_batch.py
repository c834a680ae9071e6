"""How many matches will the next batch bring?

A model judges its own batch badly: its head was fitted on the pairs it was trained on, so the summed match
probabilities of a batch can be wrong by a factor of a hundred. So a witness is asked that is not the model
(`witness.py`): how alike the texts of the chosen pairs are, against all labels so far. What it missed in
earlier rounds, before their answers came, corrects it and makes the interval. Where no witness has seen the
pairs, the last batch, the step in depth and the model are weighed, trusted as far as earlier rounds bear them
out; these move more from round to round, so the interval is wider.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import Estimate
from pairsieve.errors import InputError
from pairsieve.pairs import Mask

Floats = NDArray[np.float64]

SHARES = (0.05, 0.5, 0.95)  # the ends of a 90 % interval, and its middle
POINTS = 400  # places at which a predictive distribution is evaluated

# What the witness misses of a batch's match rate (in logits) before a campaign has shown it: its mean, the
# mean's spread in units of the rest, and the rest's standard deviation. Easy matches are found first, so it
# errs on the high side. Set on half of some 25 campaigns over WikiQA and QQP, checked on the other half
# (bench/advice.py).
MISSED, MISSED_SPREAD, MISSED_REST = -0.3, 0.7, 0.4
THIN = 0.3  # where matches run out a line misses more: 1 + THIN · (thinner than one in four, in logits)
REST_WEIGHT = 3.0  # rounds that a guess at the rest is worth
UNTAUGHT = 3.0  # how much wider the rest is while labels of one kind are few
FORGET = 0.7  # what a round counts for beside the one after it: early rounds are wilder than late ones
# Fewer labels of a kind teach no boundary. The nearest pairs come first: hardly a non-match, no boundary yet.
FEWEST_MATCHES, FEWEST_OTHERS = 10, 30

# Without a witness: how the rate follows from that of the batch before, from the rate that the model expects,
# and from the step in depth: (start, share of the last, share of the model, fall per unit of log rank).
PRIOR = (0.1, 0.9, 0.1, -1.5)
PRIOR_SPREAD = (0.5, 0.3, 0.3, 2.0)
REST = 0.45
UNCHOSEN_START, UNCHOSEN_REST = -0.3, 0.8  # while the batch is not chosen: how far rates alone fall and stray
STRIDE = 1.0  # a long step may cross the end of the matches: its rest is 1 + STRIDE · step² times wider


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
    """One round's answered pairs: `labels` (n,) bool, and what was said of them before they were answered.

    `scored` is None where no trained model chose (round 1). Unsure pairs are left out of both.
    """

    labels: Mask
    scored: Scored | None = None
    depth: float | None = None  # log of the unasked pairs that ranked before its middle; None: not ranked
    foreseen: float | None = None  # the share of matches that the witness expected; None: it was not asked

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


def next_positives(
    history: Sequence[Batch],
    labels: int,
    coming: Scored | None = None,
    depth: float | None = None,
    foreseen: float | None = None,
) -> Estimate:
    """How many matches the next batch of `labels` pairs should bring.

    With z the logit of a batch's match rate and w that of the share `foreseen` by the witness,
    z = w + missed + rest, learned by `foretell` from the rounds so far; the count is binomial given z.
    Without a witness, m being the logit of the rate that the batch's model expected and d its `depth`,
    z' = start + a · z + b · m' + c · (d' - d) + rest. There a batch that no model scored takes the last rate
    for m', and one whose depth is not known lies as deep as the last.
    """
    if not history or labels < 1:
        raise InputError("a prediction needs an answered batch and a next one", remedy="Label a round first")
    if foreseen is not None:
        foretold, rounds = _by_witness(history, foreseen, labels), _witnessed(history)
        method = "how alike the texts are, by all labels, less what that missed in earlier rounds"
        if len(rounds) == 0:
            method = "how alike the texts are, by the seed set's labels; no earlier round to judge this by"
    else:
        foretold, rounds = _by_rates(history, coming, depth), list(history[1:])
        method = "last batch, its depth and the model, trusted as far as earlier rounds bear them out"
        if coming is None and depth is None:
            method = "the rates of earlier rounds, as the next batch is not chosen yet"
        elif len(history) == 1:
            method = "seed set, depth and model, no earlier round to judge them by"
    if not taught(history):
        method = "a guess: {:,} matches and {:,} others so far teach no boundary".format(*kinds(history))
    return Estimate(*_count(*foretold, labels), len(rounds), f"{method}; 90 % interval")


def depth_of(scores: NDArray[np.floating], unasked: Unasked) -> float:
    """log(1 + unasked pairs above the middle score of a batch), a bin's pairs spread evenly over it."""
    if len(scores) == 0:
        return 0.0
    reaching = np.concatenate([np.cumsum(np.maximum(unasked.pairs, 0)[::-1])[::-1], [0]])
    return math.log1p(float(np.interp(np.median(scores), unasked.edges, reaching)))


def _witnessed(history: Sequence[Batch]) -> list[Batch]:
    return [batch for batch in history if batch.foreseen is not None]


def _by_witness(history: Sequence[Batch], foreseen: float, labels: int) -> tuple[float, float, float]:
    """Centre, spread and freedom of the next logit rate, from what the witness missed before."""
    missed, wider = [], []
    for number, batch in enumerate(history):
        if batch.foreseen is not None:
            expected = logit_rate(batch.foreseen * len(batch.labels), len(batch.labels))
            missed.append(logit_rate(batch.positives, len(batch.labels)) - expected)
            wider.append(_wider(history[:number], expected))
    expected = logit_rate(foreseen * labels, labels)
    wider.append(_wider(history, expected))
    centre, spread, freedom = foretell(
        np.ones((len(wider), 1)),
        np.array(missed),
        (MISSED,),
        (MISSED_SPREAD,),
        MISSED_REST,
        REST_WEIGHT,
        np.array(wider),
    )
    return expected + centre, spread, freedom


def _wider(before: Sequence[Batch], expected: float) -> float:
    """How many times wider than usual the rest is, at an expected logit rate after the batches `before`."""
    return (1.0 if taught(before) else UNTAUGHT) * (1.0 + THIN * max(0.0, -1.0 - expected))


def _by_rates(
    history: Sequence[Batch], coming: Scored | None, depth: float | None
) -> tuple[float, float, float]:
    """The same from the last rate, the step in depth and the model's opinion."""
    rates = np.array([logit_rate(batch.positives, len(batch.labels)) for batch in history])
    scored = [*(batch.scored for batch in history[1:]), coming]
    expected = [_expected(by_model, last) for by_model, last in zip(scored, rates)]
    depths = [*(batch.depth for batch in history), depth]
    deeper = [0.0 if a is None or b is None else b - a for a, b in pairwise(depths)]
    design = np.column_stack([np.ones(len(rates)), rates, expected, deeper])
    prior, rest = PRIOR, REST
    if coming is None and depth is None:
        prior, rest = (UNCHOSEN_START, *PRIOR[1:]), UNCHOSEN_REST
    rest *= 1.0 if taught(history) else UNTAUGHT
    wider = 1.0 + STRIDE * np.array(deeper) ** 2
    return foretell(design, rates[1:], prior, PRIOR_SPREAD, rest, REST_WEIGHT, wider)


def foretell(
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

    rates = sigmoid(centre + spread * t.ppf((np.arange(POINTS) + 0.5) / POINTS, freedom))

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


def kinds(history: Sequence[Batch]) -> tuple[int, int]:
    """Matches and others among all labels."""
    positives = sum(batch.positives for batch in history)
    return positives, sum(len(batch.labels) for batch in history) - positives


def taught(history: Sequence[Batch]) -> bool:
    """Whether there are enough labels of both kinds for a boundary."""
    positives, negatives = kinds(history)
    return positives >= FEWEST_MATCHES and negatives >= FEWEST_OTHERS


def _expected(scored: Scored | None, otherwise: float) -> float:
    """Logit of the match rate that the model expects of a batch."""
    if scored is None or len(scored.scores) == 0:
        return otherwise
    return logit_rate(float(sigmoid(scored.logits).sum()), len(scored.scores))


def logit_rate(positives: float, labels: int) -> float:
    """logit((positives + ½) / (labels + 1))."""
    return math.log(positives + 0.5) - math.log(labels - positives + 0.5)


def sigmoid(logits: Floats) -> Floats:
    result: Floats = 0.5 * (1.0 + np.tanh(0.5 * logits))
    return result


def logistic_line(
    design: Floats, labels: NDArray[np.bool_], weights: Floats, prior: Floats, precision: Floats
) -> tuple[Floats, Floats]:
    """The likeliest coefficients (d,) under a normal prior, and the curvature (d, d) there.

    design (n, d), labels and weights (n,). Newton's method; a step that would lose is halved.
    """
    line, curvature = prior, precision

    def cost(at: Floats) -> float:
        raw, away = design @ at, at - prior
        return float(weights @ (np.logaddexp(0.0, raw) - labels * raw) + away @ precision @ away / 2.0)

    for _ in range(100):
        p = sigmoid(design @ line)
        gradient = design.T @ (weights * (p - labels)) + precision @ (line - prior)
        curvature = (design * (weights * p * (1.0 - p))[:, None]).T @ design + precision
        step = np.linalg.solve(curvature, gradient)
        size = 1.0
        while size > 1e-6 and cost(line - size * step) > cost(line):
            size /= 2.0
        line = line - size * step
        if float(np.abs(step).max()) < 1e-8:
            break
    return line, curvature

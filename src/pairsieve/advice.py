"""Advice after a round: matches of the next batch, matches left, AP to come, whether to go on; stop rules.

All of it is computed from the figures of rounds. What is left comes from labels drawn with known chances, AP
from the truth of a measured split or from such labels; the truth of a test split is never read. What cannot
be told yet is None, with the reason in `not_known`.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.audit.estimate import Limits
from pairsieve.contracts import Estimate
from pairsieve.errors import InputError, SettingsError, nearest
from pairsieve.measure.figures import Batch, RoundFigures
from pairsieve.numeric import logit, sigmoid
from pairsieve.settings import TEST_SPLIT

Floats = NDArray[np.float64]

QUANTILES = (0.05, 0.5, 0.95)  # the ends of a 90 % interval, and its middle
DECAY = 0.7  # what a round counts for beside the one after it: early rounds vary more than late ones
# Below these the next batch pays little: its gain in AP, AP's newest two steps, its share of matches at best.
SMALL_GAIN, SMALL_STEP, SMALL_SHARE = 0.005, 0.01, 0.1
UNINFORMATIVE = 0.7  # an interval over more of the batch than this tells nobody anything
UNTAUGHT = 3.0  # how many times wider the interval is while labels of one class are few
# Fewer labels of a class teach no boundary: the nearest pairs come first, with hardly a non-match.
FEWEST_MATCHES, FEWEST_OTHERS = 10, 30

_T = TypeVar("_T")


class NotKnown(InputError):
    """A figure that cannot be told yet, and why."""


class Prior(NamedTuple):
    """What is assumed of y = coefficient · x + noise before a campaign has shown it."""

    coefficient: float
    spread: float  # standard deviation of the coefficient, in units of the noise
    noise: float  # standard deviation of y
    rounds: float  # how many rounds the guess at the noise is worth


FALL = Prior(coefficient=-0.3, spread=0.3, noise=0.8, rounds=2.0)  # of the logit of a batch's match rate
RISE = Prior(coefficient=0.5, spread=4.0, noise=0.2, rounds=4.0)  # of the logit of AP with log labels


@dataclass(frozen=True)
class Advice:
    """What the figures say about going on. `not_known` says why one is missing."""

    next_labels: int
    next_positives: Estimate | None  # matches in the next batch
    left: Limits | None  # matches that nobody labelled
    ap: float | None  # average precision now
    ap_after: Estimate | None  # AP once the next batch is labelled
    ap_gain: float | None  # expected, by the same curve
    sentence: str
    not_known: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def advise(rows: Sequence[RoundFigures], next_labels: int) -> Advice:
    """Every figure that can be told after the last of `rows`, and the sentence.

    rows: the figures of the rounds so far, in order. next_labels: size of the next batch.
    """
    not_known: dict[str, str] = {}

    def known(name: str, figure: Callable[[], _T]) -> _T | None:
        try:
            return figure()
        except NotKnown as why:
            not_known[name] = why.what
            return None

    curve = ap_curve(rows)
    bring = known("next_positives", lambda: next_positives([row.batch for row in rows], next_labels))
    left = known("left", lambda: matches_left(rows))
    after, gain = known("ap_after", lambda: ap_after(curve, next_labels)) or (None, None)

    found = sum(row.batch.positives for row in rows)
    few = bring is not None and bring.high < SMALL_SHARE * next_labels
    # Less than half a match is expected, by matches enough to expect anything from.
    none = bring is not None and bring.value < 0.5 and found >= FEWEST_MATCHES
    none_left = left is not None and left.high < 0.5 and found > 0
    # One expected gain of nothing may follow from a dip: the curve itself must be flat.
    steps = np.abs(np.diff([value for _, value in curve[-3:]]))
    flat = gain is not None and gain < SMALL_GAIN and bool((steps < SMALL_STEP).all())
    # A model that has seen a handful of matches is flat for want of them.
    flat = flat and found >= FEWEST_MATCHES
    rises = gain is not None and gain >= SMALL_GAIN
    if bring is None:
        verdict = "Nothing can be said about the next batch yet"
    elif none_left or (few and flat):
        verdict = "You can stop"
    elif none and not rises:
        some_left = left is not None and left.low >= 0.5
        verdict = "Stop unless every match counts" if some_left else "You can stop"
    elif flat:
        verdict = "Stop unless you want the matches themselves, for the model hardly improves any more"
    elif few and gain is None:
        verdict = "Stop unless every match counts, for the next batch brings few"
    elif few:
        verdict = "Go on for the model's sake, for AP still rises though matches are few"
    else:
        verdict = "Go on"
    reasons = []
    if bring is not None and bring.high - bring.low > UNINFORMATIVE * next_labels:
        reasons.append(
            f"what the next {next_labels:,} labels bring is not known yet ({_ends(bring)} matches)"
        )
    elif bring is not None:
        reasons.append(f"the next {next_labels:,} labels should bring {_about(bring)} matches")
    if left is not None:
        reasons.append(f"{_ends(left)} matches are left within reach of the drawn labels")
    if after is not None and gain is not None:
        ends = f"{after.low:.3f} to {after.high:.3f}"
        reasons.append(f"AP should then be {after.value:.3f} ({ends}), a gain of {gain:.3f}")
    sentence = f"{verdict}: {'; '.join(reasons)}." if reasons else f"{verdict}."
    ap = curve[-1][1] if curve and curve[-1][0] == rows[-1].labels else None
    return Advice(next_labels, bring, left, ap, after, gain, sentence, not_known)


def next_positives(batches: Sequence[Batch], size: int) -> Estimate:
    """Matches among the next `size` labels, from the batches so far.

    The logit of the match rate moves from batch to batch by a step and noise, learned from the rounds so far;
    the count is binomial given it. Easy matches are found first, so rates fall.
    """
    if not batches:
        raise NotKnown("no round has been answered yet")
    if size < 1:
        raise NotKnown("no next batch is planned")
    counts = [(batch.positives, batch.labels) for batch in batches if batch.labels]
    if not counts:
        raise NotKnown('every answer so far is "unsure"')
    rates = [math.log(matches + 0.5) - math.log(labels - matches + 0.5) for matches, labels in counts]
    steps = np.diff(rates)
    method = "the match rates of earlier batches" if len(steps) else "the first batch, with no earlier one"
    off = forecast(np.ones(len(steps) + 1), steps, FALL, (np.arange(4000) + 0.5) / 4000)
    positives = sum(matches for matches, _ in counts)
    others = sum(labels for _, labels in counts) - positives
    if positives < FEWEST_MATCHES or others < FEWEST_OTHERS:
        method = f"a guess: {positives:,} matches and {others:,} others so far teach no boundary"
        off = np.median(off) + UNTAUGHT * (off - np.median(off))
    drawn = np.random.default_rng(0).binomial(size, sigmoid(rates[-1] + off))  # the same for the same labels
    low, value, high = np.quantile(drawn, QUANTILES).tolist()
    return Estimate(value, low, high, len(steps), f"{method}; 90 % interval")


def matches_left(rows: Sequence[RoundFigures]) -> Limits:
    """Limits of the matches that nobody labelled, from labels drawn with known chances."""
    drawn = rows[-1].estimated if rows else None
    if drawn is None:
        raise NotKnown("too few labels were drawn with known chances; an audit can tell")
    return Limits(drawn.left.low, drawn.left.high)


def ap_curve(rows: Sequence[RoundFigures]) -> list[tuple[int, float]]:
    """(labels, AP) after each round: by the truth of a measured split but test, else by drawn labels."""
    curve = []
    for row in rows:
        measured = [figures for split, figures in row.measures.items() if split != TEST_SPLIT]
        source = measured[0] if measured else row.estimated
        if row.labels and source is not None and isinstance(source.average_precision, Estimate):
            curve.append((row.labels, source.average_precision.value))
    return curve


def ap_after(curve: Sequence[tuple[int, float]], labels: int) -> tuple[Estimate, float]:
    """AP after another `labels` labels, and the expected gain, which is never below 0.

    curve: (labels, AP) of each round. The odds AP / (1 - AP) grow as a power of the number of labels: a step
    in their logarithm is rise · (step in log labels) + noise, learned from the steps so far.
    """
    if labels < 1:
        raise NotKnown("no next batch is planned")
    if len(curve) < 3:
        raise NotKnown(f"a learning curve needs 3 measured rounds, there are {len(curve)}")
    counts = [*(count for count, _ in curve), curve[-1][0] + labels]
    values = np.clip([value for _, value in curve], 1e-4, 1.0 - 1e-4)
    logits = logit(values)
    step = forecast(np.diff(np.log(counts)), np.diff(logits), RISE)
    step -= min(step[1], 0.0)  # a dip is noise: more labels do not make a model worse for long
    low, value, high = sigmoid(logits[-1] + step).tolist()
    method = f"odds of AP as a power of the labels, {len(curve)} rounds, the newest most; 90 % interval"
    return Estimate(value, low, high, len(curve), method), max(value - float(values[-1]), 0.0)


def forecast(x: ArrayLike, y: ArrayLike, prior: Prior, shares: ArrayLike = QUANTILES) -> Floats:
    """Quantiles of the next y, at x[-1], by linear regression through the origin; x (k+1,), y (k,) so far.

    A Student's t, by the normal-inverse-gamma prior (Gelman et al., Bayesian Data Analysis, 14.2), rounds
    weighted by DECAY.
    """
    from scipy.special import stdtrit

    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    past, ahead, weights = x[:-1], x[-1], DECAY ** np.arange(len(y))[::-1]
    precision = prior.spread**-2.0
    gathered = precision + weights @ past**2
    mean = (precision * prior.coefficient + weights @ (past * y)) / gathered
    squares = weights @ y**2 + precision * prior.coefficient**2 - gathered * mean**2
    degrees = prior.rounds + weights.sum()
    variance = (prior.rounds * prior.noise**2 + max(squares, 0.0)) / degrees * (1.0 + ahead**2 / gathered)
    return mean * ahead + np.sqrt(variance) * stdtrit(degrees, np.asarray(shares))


def _about(figure: Estimate) -> str:
    return f"about {_two_digits(figure.value):,} ({_ends(figure)})"


def _ends(figure: Estimate | Limits) -> str:
    return f"{_two_digits(figure.low):,} to {_two_digits(figure.high):,}"


def _two_digits(value: float) -> int:
    """Rounded to two digits, so that an estimate does not look like a count."""
    size = 10 ** max(len(str(int(value))) - 2, 0)
    return int(round(value / size) * size)


# ── stop rules ──────────────────────────────────────────────────────────────────────────────────

QUANTITIES = {
    "positives": "matches in the last batch, as a number or a percentage of it",
    "labels": "labels in all",
    "rounds": "rounds finished",
    "ap": "average precision after the last round",
    "ap gain": "gain in average precision expected of the next batch",
    "left": "most matches left, the upper limit by labels drawn with known chances",
}
EXAMPLES = '"positives < 5%", "labels >= 5000", "ap gain < 0.01", "left < 100"'
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_CONDITION = re.compile(r"([a-z ]+?)\s*(<=|>=|<|>)\s*([0-9][0-9,]*\.?[0-9]*|\.[0-9]+)\s*(%?)")
_MAY_BE_SHARES = ("positives", "ap", "ap gain")


@dataclass(frozen=True)
class Condition:
    """One comparison, such as "positives < 5%"; `share` where a percentage was written."""

    quantity: str
    sign: str
    value: float
    share: bool

    def holds(self, row: RoundFigures, advice: Advice) -> bool:
        """Whether it holds after a round; what is not known never does."""
        labelled = row.batch.labels > 0  # else all of it is "unsure"
        facts: dict[str, float | None] = {
            "positives": row.batch.positives / (row.batch.labels if self.share else 1) if labelled else None,
            "labels": row.labels,
            "rounds": row.round,
            "ap": advice.ap,
            "ap gain": advice.ap_gain,
            "left": advice.left.high if advice.left else None,
        }
        known = facts[self.quantity]
        return known is not None and bool(_COMPARE[self.sign](known, self.value))

    def __str__(self) -> str:
        value = f"{self.value * 100:g}%" if self.share else f"{self.value:g}"
        return f"{self.quantity} {self.sign} {value}"


@dataclass(frozen=True)
class StopRule:
    """Conditions joined by "and" inside each of `either`, by "or" between them."""

    either: tuple[tuple[Condition, ...], ...]

    def reason(self, row: RoundFigures, advice: Advice) -> str:
        """The first alternative that holds after a round, as text; empty where none does."""
        held = (every for every in self.either if all(each.holds(row, advice) for each in every))
        return next((" and ".join(map(str, every)) for every in held), "")

    def __str__(self) -> str:
        return " or ".join(" and ".join(map(str, every)) for every in self.either)


def parse_stop_rule(rule: str) -> StopRule:
    """A rule such as "positives < 5% and labels >= 5000 or left < 100"; "and" binds closer than "or"."""
    alternatives = (re.split(r"\band\b", every) for every in re.split(r"\bor\b", rule.lower()))
    return StopRule(tuple(tuple(_condition(text, rule) for text in every) for every in alternatives))


def _condition(text: str, rule: str) -> Condition:
    text = " ".join(text.split())
    found = _CONDITION.fullmatch(text)
    if found is None:
        known = "; ".join(f"{name} ({meaning})" for name, meaning in QUANTITIES.items())
        raise SettingsError(
            f"`stop_when` {rule!r}: {text!r} is not a rule. Write a quantity, one of < <= > >=, and a "
            f'number, for example {EXAMPLES}, joined by "and" or "or". Known quantities: {known}.'
        )
    quantity, sign, value, percent = found.groups()
    if quantity not in QUANTITIES:
        message = f"unknown quantity {quantity!r}. {nearest(quantity, QUANTITIES)}. For example {EXAMPLES}."
        raise SettingsError(f"`stop_when` {rule!r}: {message}")
    if percent and quantity not in _MAY_BE_SHARES:
        raise SettingsError(f"`stop_when` {rule!r}: {quantity} is a count, not a percentage.")
    return Condition(
        quantity, sign, float(value.replace(",", "")) / (100.0 if percent else 1.0), bool(percent)
    )

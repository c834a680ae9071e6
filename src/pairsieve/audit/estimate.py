"""Estimates from labels drawn with known chances: precision, recall, AP and number of matches, with limits.

**Population.** Every pair of the space. Pairs that were asked for other reasons are known and count as they
are. Of the others, drawn labels speak: those of one draw or of several under the ranking that the figures are
of, whose chances the ledger kept. Labels drawn under other rankings: `earlier_draws.py`.

**Values** are Horvitz-Thompson estimates inside strata. Where several draws were made, each draw makes its
own estimate and counts by its size, c = labels of the draw / all drawn labels: where a draw put its labels
may depend on the answers to earlier ones, and pooling by the labels of a stratum would then be biased. A
label of draw k has the weight c_k / chance. Pairs that were bought after a draw were among those that it
spoke for: their matches are taken off (`StratumCounts`).

Recall and AP are ratios of such estimates. What the errors of these add to the mean of a ratio is taken off
(`less_curvature`), and inside a stratum matches that nobody labelled lie as the drawn ones do
(`Layout.as_drawn`). With few labels within reach that is not enough, and limits are given without a value.

**Limits assume nothing** about rates between strata. In each stratum they are those of Clopper and Pearson
(1934), for the finite number of pairs left; over strata they are melded (Fay, Proschan and Brittain 2015): of
x matches among n labels the lower limit's distribution is Beta(x, n - x + 1) and the upper one's
Beta(x + 1, n - x); a figure that grows with the matches of one stratum and falls with those of another takes
draws of its lower end from the former's lower and the latter's upper distribution. Unequal weights count as
Kish's effective number (Σw)²/Σw² of labels.

**Reach.** In a space of millions nearly all pairs lie in a tail where no affordable number of labels can rule
out a match in ten thousand, so over all pairs recall and AP have wide limits and no value. The best-scored
pairs down to a rank fixed beforehand (`draws.reach_rank`) are a population that labels can speak of: recall
and AP *within reach* are those of the matches there.

**Wrong answers.** Without error rates the figures are of the answers as given. With them (`errors.py`) each
rate is corrected (Rogan and Gladen 1978), and limits are the widest over all rates of wrong answers about
non-matches and about matches that may be. There is no value then: the unbiased one falls below 0 or above 1
wherever rates are near these, and cut off it is biased.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pairsieve.audit.draws import TRAIN, AskedPairs, Floats, Strata, StratumCounts, Ties, stratum_counts
from pairsieve.audit.errors import AnswerErrors
from pairsieve.audit.ranked import Layout
from pairsieve.contracts import Estimate
from pairsieve.errors import InputError
from pairsieve.pairs import Mask

STEEPER = 32.0  # how much faster the rate may fall inside a stratum than around it: AP's upper limit
DRAWS = 2000
STEPS = 5  # rates of wrong answers that limits of recall are the widest of
LEAST_RIGHT = 0.02  # 1 - a - b for rates of wrong answers; at 0 answers say nothing
CHOSEN_DRAWS = 5  # times as many for the farther tails of limits that hold for several thresholds
# Drawn labels and labelled matches within reach from which recall and AP have a value.
FEWEST_LABELS, FEWEST_MATCHES = 150, 20
# Labels of equal weights that those within reach must be worth for it; and the share of pairs, and of matches
# expected, that may lie in strata without a label where a figure has a value.
FEWEST_WORTH, UNSEEN = 30.0, 0.05


@dataclass(frozen=True)
class Limits:
    """An interval without a value inside it: nothing between the ends is likelier."""

    low: float
    high: float

    def per(self, pairs: float) -> Limits:
        """As a share."""
        return Limits(self.low / pairs, self.high / pairs)


@dataclass(frozen=True)
class OverAll:
    """What the draws allow for all pairs of the space; None where no match was seen."""

    positives: Limits
    left: Limits  # matches among the pairs without a label
    recall: Limits | None
    average_precision: Limits | None


@dataclass(frozen=True)
class Stratum:
    """What is known of one stratum."""

    from_score: float  # the lowest in it
    pairs: int
    known: int  # labelled for other reasons
    known_matches: int
    labels: int  # drawn
    hits: int  # matches among them
    expected_matches: float


@dataclass(frozen=True)
class AuditResult:
    """Figures without the truth: precision at a threshold; recall, AP and matches within reach; and over all.

    Recall and AP are None where no match within reach was seen: they are undefined, or not known. They are
    limits without a value where few labels lie within reach: no estimate of a ratio is unbiased then. So is
    every figure where answers may be wrong.
    """

    pairs: int
    labels: int  # drawn labels the figures rest on
    unsure: int  # pairs asked that have no label; they are left out of the space
    threshold: float
    reach_pairs: int  # the best-scored pairs that recall, AP and positives speak of
    reach_score: float  # the lowest score among them
    precision: Estimate | Limits  # of the pairs at or above the threshold
    precision_of_new: Estimate | Limits | None  # of those nobody labelled; None where there is none
    positives: Estimate | Limits
    left: Estimate | Limits  # of them, those nobody labelled
    recall: Estimate | Limits | None  # matches at or above the threshold
    average_precision: Estimate | Limits | None
    over_all: OverAll
    recall_of_known: (
        Estimate | None
    )  # share of known matches at or above the threshold (the paper's fallback)
    strata: tuple[Stratum, ...]
    method: str

    def as_json(self) -> dict[str, Any]:
        figures = asdict(self)
        return figures | {"strata": list(figures["strata"])}


def less_curvature(figure: Callable[[Floats], Floats], matches: Floats, spread: Floats) -> float:
    """A figure of (r, k) matches at their estimates (k,), less what their errors add to its mean.

    Where a figure is curved, its mean over errors is not the figure at the mean: a ratio or a product of
    estimates is biased. To second order that is the sum over strata of the mean change by one standard error
    (k,) either way.
    """
    around = matches + np.concatenate([np.diag(spread), -np.diag(spread)])
    here = float(figure(matches[None])[0])
    return here - float(np.nansum(figure(around) - here)) / 2.0


@dataclass(frozen=True)
class _Matches:
    """Matches of each stratum in all: draws of the lower and the upper end, (r, k), and the value (k,)."""

    lower: Floats
    upper: Floats
    value: Floats | None = None  # None: there is no unbiased one

    def less(self, sure: Floats) -> _Matches:
        """Without so many of each stratum that are known to be matches."""
        lower, upper = (np.maximum(each - sure, 0.0) for each in (self.lower, self.upper))
        return _Matches(lower, upper, None if self.value is None else self.value - sure)

    def limits(self, figure: Callable[[Floats], Floats], grows: Mask, tail: float) -> Limits:
        """Of a figure of (r, k) matches, which grows with those of the strata `grows` and else falls."""
        low = figure(np.where(grows, self.lower, self.upper))
        high = figure(np.where(grows, self.upper, self.lower))
        return _quantiles(low, high, tail)


def _quantiles(low: Floats, high: Floats, tail: float) -> Limits:
    """From draws of both ends; a share of no match (nan) may be anything."""
    low, high = np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=1.0)
    return Limits(float(np.quantile(low, tail)), float(np.quantile(high, 1.0 - tail)))


def _rate_limits(held: StratumCounts, count: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """(count, k) draws of the lower and the upper end of the rates of strata; 0 and 1 without labels."""
    n, x = held.effective, held.effective * held.rate
    lower = rng.beta(np.maximum(x, 1e-9), n - x + 1.0, (count, len(x)))
    upper = rng.beta(x + 1.0, np.maximum(n - x, 1e-9), (count, len(x)))
    return np.where(x <= 1e-9, 0.0, lower), np.where(n - x <= 1e-9, 1.0, upper)


def _matches(held: StratumCounts, count: int, rng: np.random.Generator) -> _Matches:
    """With answers as given: labelled matches count, the pairs not labelled have the stratum's rate."""
    undrawn, sure = np.maximum(held.rest - held.seen, 0.0), held.known_matches + held.hits
    ends = _rate_limits(held, count, rng)
    lower, upper = (sure + rng.binomial(undrawn.astype(np.int64), end) for end in ends)
    return _Matches(lower, upper, held.known_matches + held.value)


@dataclass(frozen=True)
class _Worlds:
    """Matches under rates of wrong answers at the ends of what they may be: one where answers are right.

    With more wrong answers about matches there are more of them, by one factor everywhere: it makes no
    difference to recall. With more about non-matches there are fewer, by so many pairs of every stratum.
    """

    fewer: tuple[_Matches, ...]  # fewest wrong answers about matches; from fewest to most about non-matches
    more: tuple[_Matches, ...]  # most wrong answers about matches; fewest and most about non-matches

    @staticmethod
    def only(matches: _Matches) -> _Worlds:
        return _Worlds((matches,), (matches,))

    @property
    def value(self) -> Floats | None:
        return self.fewer[0].value

    def count_limits(self, figure: Callable[[Floats], Floats], grows: Mask, tail: float) -> Limits:
        """Of a figure that grows with matches."""
        low, high = self.fewer[-1], self.more[0]
        return Limits(low.limits(figure, grows, tail).low, high.limits(figure, grows, tail).high)

    def ratio_limits(self, figure: Callable[[Floats], Floats], grows: Mask, tail: float) -> Limits:
        """Of a figure that a factor makes no difference to."""
        return hull(each.limits(figure, grows, tail) for each in self.fewer)


def hull(limits: Iterable[Limits]) -> Limits:
    low, high = zip(*((each.low, each.high) for each in limits))
    return Limits(min(low), max(high))


def _corrected_matches(
    held: StratumCounts, errors: AnswerErrors, groups: tuple[Mask, ...], count: int, rng: np.random.Generator
) -> tuple[_Worlds, _Worlds]:
    """Matches in all and among the pairs nobody labelled, with a share a of answers about non-matches wrong,
    and a share b about matches.

    A share q of answers that say "match" leaves (q - a) / (1 - a - b) matches. That may be below 0 in a
    stratum. Only the sums over `groups` of strata are cut off at 0, since what one stratum has too few
    another has too many.
    """
    undrawn = np.maximum(held.rest - held.seen, 0.0)
    ends, box = _rate_limits(held, count, rng), errors.draw(count, rng)
    away = rng.standard_normal((count, len(undrawn)))

    def cut_off(matches: Floats) -> Floats:
        positive = np.maximum(matches, 0.0)
        for group in groups:
            some = positive[:, group].sum(axis=1, keepdims=True)
            left = np.maximum(matches[:, group].sum(axis=1, keepdims=True), 0.0)
            positive[:, group] *= np.divide(left, some, out=np.zeros_like(some), where=some > 0)
        return positive

    def world(a: Floats, b: Floats) -> tuple[_Matches, _Matches]:
        a, b = a[:, None], b[:, None]
        right = np.maximum(1.0 - a - b, LEAST_RIGHT)
        spread = np.sqrt(held.known_matches * b + (held.known - held.known_matches) * a)
        known = (held.known_matches - held.known * a + away * spread) / right
        shares = [np.minimum((q - a) / right, 1.0) for q in ends]
        every = (cut_off(np.minimum(known, held.known) + held.rest * share) for share in shares)
        return _Matches(*every), _Matches(*(cut_off(undrawn * share) for share in shares))

    (least, most), (fewest, missed) = box.false, box.missed
    steps = np.zeros(1) if np.array_equal(least, most) else np.linspace(0.0, 1.0, STEPS)
    fewer = [world(least + step * (most - least), fewest) for step in steps]
    more = [world(each, missed) for each in (least, most)[: len(steps)]]
    every, unlabelled = (_Worlds(*both) for both in zip(_apart(fewer), _apart(more)))
    return every, unlabelled


def _apart(worlds: list[tuple[_Matches, _Matches]]) -> tuple[tuple[_Matches, ...], tuple[_Matches, ...]]:
    return tuple(each for each, _ in worlds), tuple(each for _, each in worlds)


def estimate(
    strata: Strata,
    asked: AskedPairs,
    threshold: float,
    rng: np.random.Generator,
    *,
    reach: float = -2.0,
    ranks: Floats | None = None,
    ahead: Floats | None = None,
    errors: AnswerErrors | None = None,
    confidence: float = 0.95,
    draws: int = DRAWS,
    chosen_of: int = 1,
) -> AuditResult:
    """Precision and recall at `threshold`, AP and number of matches. `threshold` and `reach`: edges of
    `strata`.

    ranks: (n,) of each asked pair, how many pairs reach its score; None takes the middle of its stratum.
    ahead: (n,) how many pairs score higher; None takes no two scores as equal.
    errors: how often an answer is wrong, where something is known of it.
    chosen_of: of how many thresholds these labels chose this one. If of several, values would be biased, so
    there are none, and limits hold for all of them at once (Bonferroni).
    """
    if chosen_of > 1:
        draws *= CHOSEN_DRAWS
    above, inside = strata.reaching(threshold), strata.reaching(reach)
    inside = inside | above
    held = stratum_counts(strata, asked)
    if held.totals[above].sum() < 1:
        raise no_pair(threshold)
    labelled = held.known_matches + held.hits
    if errors is None:
        found = _matches(held, draws, rng)
        if chosen_of > 1:
            found = replace(found, value=None)
        matches, left = _Worlds.only(found), _Worlds.only(found.less(labelled))
        tail = (1.0 - confidence) / 2.0 / chosen_of
    else:
        groups = (above, inside & ~above, ~inside)
        matches, left = _corrected_matches(held, errors, groups, draws, rng)
        # Sums cut off at 0 are wrong where any of them is: each gets its part of the level.
        tail = (1.0 - confidence) / 2.0 / len(groups) / chosen_of
    labels = int((asked.labels[asked.audit > TRAIN] >= 0).sum())
    method = _method(
        labels, len(np.unique(asked.audit[asked.audit > TRAIN])), len(strata), confidence, errors
    )
    if chosen_of > 1:
        method += f"; for all of {chosen_of} thresholds at once"

    def around(value: float | None, limits: Limits, most: float = np.inf) -> Estimate | Limits:
        """With the value, where there is one."""
        if value is None:
            return limits
        value = float(np.clip(value, 0.0, most))
        return Estimate(value, min(limits.low, value), max(limits.high, value), labels, method)

    def counted(of: _Worlds, where: Mask, per: float = 1.0) -> Estimate | Limits:
        """Matches of some strata, by so many pairs. Limits of a number of matches are whole numbers."""
        known = of.value if labels_tell(held, where) else None
        value = None if known is None else float(known[where].sum()) / per
        limits = of.count_limits(lambda m: m[:, where].sum(axis=1) / per, where, tail)
        if per > 1:
            return around(value, limits, 1.0)
        return around(value, Limits(float(np.floor(limits.low + 1e-9)), float(np.ceil(limits.high - 1e-9))))

    new = float((held.rest - held.seen)[above].sum())
    ties, placed = Ties.of(strata, ahead, ranks), errors is None
    layouts = [Layout.of(strata, held.totals, asked, ranks, placed, ties=ties)]
    if len(ties):  # scores between known ties may be shared too: AP as if each were, and as if none
        layouts.append(Layout.of(strata, held.totals, asked, ranks, placed, ties=ties.with_gaps(strata)))
    drawn = Layout.as_drawn(strata, held.totals, asked, ranks, placed, ties)
    seen = bool(labelled[inside].sum() > 0)
    complete = not (held.rest - held.seen)[inside].sum() > 0
    enough = bool(held.effective[inside].sum() >= FEWEST_LABELS and labelled[inside].sum() >= FEWEST_MATCHES)
    enough = complete or (enough and labels_tell(held, inside, FEWEST_WORTH))

    def ratio(figure: Callable[[Floats], Floats], limits: Limits) -> Estimate | Limits:
        """A figure within reach: no value is given from few labels."""
        if matches.value is None or not enough:
            return limits
        expected = np.clip(matches.value, labelled, np.maximum(held.totals, labelled))
        value = less_curvature(figure, expected, held.spread)
        return around(float(np.clip(value, limits.low, limits.high)), limits)

    def recall(where: Mask) -> Callable[[Floats], Floats]:
        def figure(m: Floats) -> Floats:
            found, every = m[:, where & above].sum(axis=1), m[:, where].sum(axis=1)
            return np.divide(found, every, out=np.full(len(m), np.nan), where=every > 0)

        return figure

    def recall_limits(where: Mask) -> Limits:
        return matches.ratio_limits(recall(where), above, tail)

    def ap_limits(where: Mask) -> Limits:
        fewer = (matches.fewer[0], matches.fewer[-1])[: len(matches.fewer)]
        lowest = [
            layout.lowest(each.lower, each.upper, where, fall)
            for each in fewer
            for layout in layouts
            for fall in (0.0, 1.0)
        ]
        highest = [
            layout.highest(each.lower, each.upper, where, STEEPER)
            for each in matches.more
            for layout in layouts
        ]
        return _quantiles(np.fmin.reduce(lowest), np.fmax.reduce(highest), tail)

    everywhere = np.ones(len(strata), bool)

    def bare(found: Estimate | Limits) -> Limits:
        return Limits(found.low, found.high)

    return AuditResult(
        pairs=int(strata.totals.sum()),
        labels=labels,
        unsure=int((asked.labels < 0).sum()),
        threshold=float(np.float32(threshold)),
        reach_pairs=int(strata.totals[inside].sum()),
        reach_score=float(max(strata.edges[inside][-1], -1.0)),
        precision=counted(matches, above, float(held.totals[above].sum())),
        precision_of_new=counted(left, above, new) if new > 0 else None,
        positives=counted(matches, inside),
        left=counted(left, inside),
        recall=ratio(recall(inside), recall_limits(inside)) if seen else None,
        average_precision=ratio(lambda m: drawn.average_precision(m, inside), ap_limits(inside))
        if seen
        else None,
        over_all=OverAll(
            bare(counted(matches, everywhere)),
            bare(counted(left, everywhere)),
            recall_limits(everywhere) if seen else None,
            ap_limits(everywhere) if seen else None,
        ),
        recall_of_known=known_recall(asked, threshold),
        strata=_rows(strata, held),
        method=method,
    )


def labels_tell(held: StratumCounts, where: Mask, worth: float = 0.0) -> bool:
    """Whether drawn labels tell the number of matches of some strata, so that it has a value.

    They do where few pairs and matches lie in strata without a label, whose rate is that of their neighbours,
    and where they are worth so many labels of equal weights (Kish): one that stands for thousands of pairs
    beside many that stand for themselves makes a value that is mostly too low and rarely far too high.
    """
    rest, matches = held.rest[where], np.maximum(held.rate * held.rest, 0.0)[where]
    left = (held.rest - held.seen)[where]
    if not left.sum() > 0:
        return True
    unseen = held.effective[where] <= 0
    if rest[unseen].sum() > UNSEEN * rest.sum() or matches[unseen].sum() > UNSEEN * matches.sum():
        return False
    seen = ~unseen & (left > 0)
    return bool(rest[seen].sum() ** 2 >= worth * (rest[seen] ** 2 / held.effective[where][seen]).sum())


def no_pair(threshold: float) -> InputError:
    return InputError(
        f"no pair reaches the threshold {threshold:g}",
        why="precision of nothing is not defined",
        remedy="Choose a lower threshold",
    )


def threshold_for_precision(strata: Strata, asked: AskedPairs, precision: float) -> float:
    """The lowest edge at and above which the estimated precision is `precision` or more."""
    held = stratum_counts(strata, asked)
    found = np.cumsum(held.known_matches + held.value) / np.maximum(np.cumsum(held.totals), 1.0)
    good = np.flatnonzero((found >= precision) & (np.cumsum(held.totals) > 0))
    if not len(good):
        raise InputError(
            f"no threshold has an estimated precision of {precision:g}",
            why=f"the best-ranked {int(held.totals[0]):,} pairs have {found[0]:.3f}",
            remedy="Ask for less, or train on more labels",
        )
    return float(strata.edges[good[-1]])


def known_recall(asked: AskedPairs, threshold: float) -> Estimate | None:
    """The paper's fallback: of the matches that are known, the share that reaches the threshold."""
    matches = asked.scores[asked.labels == 1]
    if not len(matches):
        return None
    share = float((matches >= np.float32(threshold)).mean())
    method = "share of the known matches; no interval: they were sought where the scorer pointed"
    return Estimate(share, share, share, len(matches), method)


def _method(labels: int, draws: int, strata: int, confidence: float, errors: AnswerErrors | None) -> str:
    again = f" in {draws} draws" if draws > 1 else ""
    wrong = "of the answers as given" if errors is None else str(errors)
    return (
        f"Horvitz-Thompson from {labels:,} labels{again} in {strata} strata; {confidence:.0%} limits melded "
        f"from exact ones of each stratum, nothing assumed of rates between strata; {wrong}"
    )


def _rows(strata: Strata, held: StratumCounts) -> tuple[Stratum, ...]:
    return tuple(
        Stratum(
            from_score=max(float(strata.edges[at]), -1.0),
            pairs=int(strata.totals[at]),
            known=int(held.known[at]),
            known_matches=int(held.known_matches[at]),
            labels=int(held.seen[at]),
            hits=int(held.hits[at]),
            expected_matches=round(float(held.known_matches[at] + max(held.value[at], 0.0)), 2),
        )
        for at in range(len(strata))
    )

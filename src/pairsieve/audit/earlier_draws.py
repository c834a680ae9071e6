"""Limits from labels that were drawn under earlier rankings: valid however the ranking has moved since.

In a campaign every draw is made under the ranking of its round, and figures are of another one. Drawn pairs
of today's list are then no random sample of it: of the pairs that came up from far below hardly any was
drawn, and nobody knows which pairs came from where. But every drawn pair has the chance that it had, so that
for any set of pairs the sum of 1 / chance over its drawn matches is right on average (Horvitz and Thompson
1952), and so is that over its drawn non-matches. The number of pairs of a set is known. So

    a lower limit of its matches comes from the drawn matches,
    an upper limit from the drawn non-matches: pairs less their lower limit,
    and a ratio of matches is tested by a sum of both: a recall of ρ or less is one inequality.

Each is a lower limit of a total of values z >= 0. **An e-value** tests a total of at most t by betting
against it (Waudby-Smith and Ramdas 2024; of weighted draws without replacement, Shekhar, Xu, Lipton, Liang
and Ramdas 2023). Of draw r, let S be the sum of z over the pairs asked before it, n its labels: each label
multiplies the stake by

    1 - λ + λ · n · z / (chance · (t - S))

whose mean is at most 1 over a draw if the total is t or less. The mean over λ from 0 to 1 (Cover's universal
portfolio) grows beyond 1 / level with a chance of at most `level` (Ville's inequality). Nothing is assumed of
matches, weights or rankings, but that which pairs were drawn has no part in the ranking of now.

There is no value beside these limits. The unbiased one, the sum itself, has a few terms of any size; cut off
at what is possible, or divided by a sum of weights, it is biased.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pairsieve.audit.draws import TRAIN, AskedPairs, Counts, Floats, Strata, Ties
from pairsieve.audit.errors import AnswerErrors, ErrorBox
from pairsieve.audit.estimate import AuditResult, Limits, OverAll, known_recall, no_pair
from pairsieve.pairs import Mask

BETS = np.sin(np.pi * (np.arange(48) + 0.5) / 96) ** 2  # quantiles of Beta(1/2, 1/2)
HALVINGS = 40
MOST_RANKS = 4_000_000  # down to which AP has limits: every rank takes a hundred bytes


@dataclass(frozen=True)
class PairSet:
    """Some pairs of the space: which of those asked, and how many in all, without those of no label."""

    asked: Mask  # (n,)
    pairs: float

    def less(self, other: PairSet) -> PairSet:
        return PairSet(self.asked & ~other.asked, self.pairs - other.pairs)


@dataclass(frozen=True)
class Claim:
    """That `match` per match and `other` per non-match of each pair add up to `most` at the most."""

    match: Floats  # (n,) of the pairs asked
    other: Floats
    most: float
    widths: tuple[float, float]  # the sums of either over all pairs

    @staticmethod
    def of(matches: PairSet, times: float, others: PairSet, times_others: float, most: float) -> Claim:
        """Of the matches of one set and the non-matches of another, each so many times."""
        match, other = np.where(matches.asked, times, 0.0), np.where(others.asked, times_others, 0.0)
        return Claim(match, other, most, (times * matches.pairs, times_others * others.pairs))

    def of_answers(self, errors: ErrorBox) -> float:
        """What the same sum of the answers is at the most, with wrong answers about so many non-matches and
        matches: (1 - a - b) · most + a · width of matches + b · width of non-matches."""
        a, b = (
            most if width > self.most else least
            for (least, most), width in zip((errors.false, errors.missed), self.widths)
        )
        return self.most + a * (self.widths[0] - self.most) + b * (self.widths[1] - self.most)


@dataclass(frozen=True)
class EarlierDraws:
    """Every pair asked, in the order of asking, with the draws among them; how often answers are wrong."""

    asked: AskedPairs
    errors: AnswerErrors | None = None

    @cached_property
    def _draws(self) -> tuple[Counts, Counts, Floats]:
        """Of drawn pairs: their place, the place of the first of their draw, its size over their chance."""
        at = np.flatnonzero(self.asked.audit > TRAIN)
        _, first, draw, size = np.unique(
            self.asked.audit[at], return_index=True, return_inverse=True, return_counts=True
        )
        return at, at[first][draw], size[draw] / self.asked.inclusion_probability[at]

    def _refuted(self, claim: Claim, box: ErrorBox | None, level: float, noise: float) -> bool:
        """With wrong answers at such rates a claim is of the answers that would be given, and the sum over
        pairs asked is off by chance: by so many standard errors at the most.
        """
        labels = self.asked.labels
        z = np.where(labels == 1, claim.match, claim.other) * (labels >= 0)
        most, variance = claim.most, 0.0
        if box is not None:
            most, rate = claim.of_answers(box), min(max(box.false[1], box.missed[1]), 0.5)
            variance = rate * (1.0 - rate)
        spread = np.sqrt(variance * np.cumsum((claim.match - claim.other) ** 2))
        before = np.concatenate([[0.0], np.cumsum(z) - noise * spread])
        if before[-1] > most + 1e-9:
            return True
        at, first, times = self._draws
        gain = times * z[at] / np.maximum(most - before[first], 1e-12)
        logs = np.log1p(BETS[:, None] * (gain - 1.0)).sum(axis=1)
        return bool(np.logaddexp.reduce(logs) - np.log(len(BETS)) > -np.log(level))

    def lowest(self, claim: Callable[[float], Claim], low: float, high: float, level: float) -> float:
        """The lowest figure from `low` to `high` whose claim is not refuted at `level`. The larger the
        figure, the less is against it.
        """
        noise, box = 0.0, None
        if self.errors is not None:  # the level is for the draws, the rates and the noise
            level = level / 3.0
            noise, box = float(np.sqrt(2.0 * np.log(1.0 / level))), self.errors.box(level)
        if not self._refuted(claim(low), box, level, noise):
            return low
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self._refuted(claim(middle), box, level, noise) else (low, middle)
        return high

    def matches(self, of: PairSet, level: float) -> tuple[float, float]:
        """Limits of the matches of a set, each at `level`: whole numbers."""
        none = PairSet(np.zeros(len(self.asked), bool), 0.0)
        low = self.lowest(lambda m: Claim.of(of, 1.0, none, 0.0, m), 0.0, of.pairs, level)
        others = self.lowest(lambda m: Claim.of(none, 0.0, of, 1.0, m), 0.0, of.pairs, level)
        return float(np.ceil(low - 1e-6)), float(np.floor(of.pairs - others + 1e-6))

    def recall(self, of: PairSet, beside: PairSet, sure: float, level: float) -> tuple[float, float]:
        """Limits of the share that a set, and `sure` matches of the pairs beside it, have of the matches of
        both.
        """

        def at_most(recall: float) -> Claim:
            return Claim.of(of, 1.0 - recall, beside, recall, recall * beside.pairs - sure)

        def at_least(missed: float) -> Claim:
            return Claim.of(beside, 1.0 - missed, of, missed, missed * of.pairs + sure)

        low = self.lowest(at_most, 0.0, 1.0, level)
        return low, max(1.0 - self.lowest(at_least, 0.0, 1.0, level), low)

    def average_precision(
        self, ranks: Floats, ends: Counts, sets: list[PairSet], level: float, ties: Ties, gaps: Ties
    ) -> tuple[float, float]:
        """Limits of the AP of the best-ranked pairs. ranks: (n,) of the pairs asked; ends, sets: where nested
        sets of the best-ranked pairs end, the last of them all.

        Matches are at most as many as the upper limits, and as early as these let them be; and at least as
        many as the lower limits, and as late. All limits hold at once (Bonferroni). Labelled pairs stand
        where they are. A match of a score that others share has the precision at their end, of as many
        matches as the limits allow to stand there. Of `gaps` nobody knows whether their pairs share a score.
        """
        limits = [self.matches(each, level / (len(sets) + 1.0)) for each in sets]
        length = int(ends[-1])
        place = np.ceil(ranks).astype(np.int64) - 1
        here = (self.asked.labels >= 0) & (place >= 0) & (place < length)
        if self.errors is not None:
            here &= False
        known, found = (
            np.cumsum(np.bincount(place[here & (self.asked.labels == each)], minlength=length))
            for each in (0, 1)
        )
        rank = np.arange(1, length + 1)
        fewest, most = found.astype(np.float64), (rank - known).astype(np.float64)
        for end, (low, high) in zip(ends.tolist(), limits):
            fewest[end - 1 :] = np.maximum(fewest[end - 1 :], low)
            upto = high - (found[end - 1] - found[:end])
            most[:end] = np.minimum(most[:end], upto)
        fewest = np.maximum.accumulate(fewest)
        most = np.minimum.accumulate(most[::-1])[::-1]
        least, greatest = int(fewest[-1]), max(int(most[-1]), int(fewest[-1]))
        if greatest < 1:
            return 0.0, 1.0
        number = np.arange(1, greatest + 1)
        late = np.minimum(np.searchsorted(fewest, number) + 1, length)
        early = np.minimum(np.searchsorted(most, number) + 1, length)
        late, early = np.maximum(late, number), np.maximum(early, number)
        worst, best = number / late, number / early
        if len(ties):
            worst, best = _with_ties(ties.within(length), gaps.within(length), late, early, fewest, most)
        lower, upper = np.cumsum(worst) / number, np.cumsum(best) / number
        some = number >= max(least, 1)
        return float(lower[some].min()), float(upper[some].max())


def _with_ties(
    ties: Ties, gaps: Ties, late: Counts, early: Counts, fewest: Floats, most: Floats
) -> tuple[Floats, Floats]:
    """Ends of the precision at each match, which stands between the ranks `early` and `late`, (m,).

    At the end of the score of match j stand j matches or more, and as many as `fewest` and `most` (by rank)
    say. Before `late` precision is no lower than it would be at the end of what is ahead.
    """
    number = np.arange(1.0, len(late) + 1.0)
    worst, known, gap = number / late, ties.at(late), gaps.at(late)
    for of, at in ((gaps, gap), (ties, known)):  # the ties are among the gaps
        held = at >= 0
        first, last = of.first[at[held]], of.last[at[held]]
        tied = np.maximum(number[held], fewest[last.astype(np.int64) - 1]) / last
        ahead = np.where(early[held] <= first, number[held] / np.maximum(first, 1.0), 1.0)
        worst[held] = np.minimum(tied, worst[held] if of is gaps else ahead)
    alone = number / early
    held = (at := ties.at(early)) >= 0  # the next rank where it may stand alone
    last = ties.last[at[held]]
    alone[held] = np.where(late[held] > last, number[held] / (last + 1.0), 0.0)
    from_, to = np.searchsorted(gaps.last, early), np.searchsorted(gaps.first, late)
    tied = _greatest(most[gaps.last.astype(np.int64) - 1] / gaps.last, from_, to)
    return np.minimum(worst, 1.0), np.minimum(np.maximum(alone, tied), 1.0)


def _greatest(of: Floats, from_: Counts, to: Counts) -> Floats:
    """The greatest value of each half-open range of places; 0 of none."""
    powers = [of]  # the greatest of 1, 2, 4, … from each place on
    while 2 ** len(powers) <= len(of):
        step = 2 ** (len(powers) - 1)
        powers.append(np.maximum(powers[-1][:-step], powers[-1][step:]))
    found = np.zeros(len(from_))
    for power, values in enumerate(powers):
        here = (to - from_ >= 2**power) & (to - from_ < 2 ** (power + 1))
        found[here] = np.maximum(values[from_[here]], values[to[here] - 2**power])
    return found


def earlier_draws_estimate(
    strata: Strata,
    asked: AskedPairs,
    threshold: float,
    *,
    reach: float = -2.0,
    ranks: Floats | None = None,
    ahead: Floats | None = None,
    errors: AnswerErrors | None = None,
    confidence: float = 0.95,
    chosen_of: int = 1,
) -> AuditResult:
    """The figures of `estimate`, as limits, from draws under other rankings than that of `strata`."""
    draws, level = EarlierDraws(asked, errors), (1.0 - confidence) / 2.0 / chosen_of
    given = asked.labels >= 0
    totals = strata.totals - strata.count(asked.scores[~given])
    stratum = strata.of(asked.scores)
    sets = [PairSet(given & (stratum <= k), totals[: k + 1].sum()) for k in range(len(strata))]
    last = int(strata.reaching(threshold).sum()) - 1
    within = max(int(strata.reaching(reach).sum()) - 1, last)
    listed, inside, everything = sets[last], sets[within], sets[-1]
    if listed.pairs < 1:
        raise no_pair(threshold)
    at = strata.middle_rank[stratum] if ranks is None else ranks
    ends = np.cumsum(strata.totals)
    ties = Ties.of(strata, ahead, ranks)
    gaps = ties.with_gaps(strata)
    seen = bool((asked.labels == 1)[inside.asked].any())
    many = f"; for all of {chosen_of} thresholds at once" if chosen_of > 1 else ""

    def left(of: PairSet, matches: Limits) -> Limits:
        known = float((asked.labels == 1)[of.asked].sum()) if errors is None else 0.0
        unlabelled = of.pairs - of.asked.sum()
        return Limits(*(float(np.clip(each - known, 0.0, unlabelled)) for each in vars(matches).values()))

    def recall(of: PairSet) -> Limits | None:
        return Limits(*draws.recall(listed, of.less(listed), 0.0, level)) if seen else None

    def ap(to: int) -> Limits | None:
        if not seen:
            return None
        if ends[to] > MOST_RANKS:
            return Limits(0.0, 1.0)
        return Limits(*draws.average_precision(at, ends[: to + 1], sets[: to + 1], level, ties, gaps))

    found, positives, every = (Limits(*draws.matches(each, level)) for each in (listed, inside, everything))
    new = listed.pairs - listed.asked.sum()
    labels = int(given[asked.audit > TRAIN].sum())
    return AuditResult(
        pairs=int(strata.totals.sum()),
        labels=labels,
        unsure=int((~given).sum()),
        threshold=float(np.float32(threshold)),
        reach_pairs=int(strata.totals[: within + 1].sum()),
        reach_score=float(max(strata.edges[within], -1.0)),
        precision=found.per(listed.pairs),
        precision_of_new=left(listed, found).per(new) if new > 0 else None,
        positives=positives,
        left=left(inside, positives),
        recall=recall(inside),
        average_precision=ap(within),
        over_all=OverAll(every, left(everything, every), recall(everything), ap(len(strata) - 1)),
        recall_of_known=known_recall(asked, threshold),
        strata=(),
        method=method_of(labels, confidence, errors) + many,
    )


def method_of(labels: int, confidence: float, errors: AnswerErrors | None) -> str:
    wrong = "of the answers as given" if errors is None else str(errors)
    return (
        f"{labels:,} labels drawn under earlier rankings; {confidence:.0%} limits from e-values, which hold "
        f"however the ranking has moved since, and no value; {wrong}"
    )

"""Drawing an audit: strata by score, a pilot sample, the allocation of labels, and the draw itself.

Strata by score double in rank, so that each holds as much doubt as the one before. A third of the labels is a
pilot sample, spread evenly, for nobody knows where the matches end; the others go where the pilot says that
they narrow the figures most (`allocate`). Pairs are drawn uniformly inside each stratum (`draw_audit`), and
`estimate.py` turns the labels into figures. Pairs whose labels were bought before are known and never drawn
again: they count as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.audit.rates import Floats, smooth_rates
from pairsieve.errors import InputError
from pairsieve.numeric import sigmoid
from pairsieve.pairs import Ids, Mask, Scores, is_member
from pairsieve.scan import Scan

Counts: TypeAlias = NDArray[np.int64]
LogOdds: TypeAlias = Callable[[Floats], Floats]  # of a match, from scores

TRAIN = 0  # in `AskedPairs.audit`: asked in order to train
FIRST_STRATUM = 32  # pairs of the best-ranked stratum; each later one doubles the rank
LABELS_PER_STRATUM = 6  # at least this many on average; fewer, wider strata where the budget is small
GATHER_AT_MOST = 1 << 18  # pairs of a stratum that is gathered outright; of larger ones pairs are drawn
TRUSTED = 3.0  # labels that a stratum's training labels are worth when a plan is made
PILOT_ONE_IN = 3  # one label in so many is spread evenly, before anybody knows where the doubt lies
PILOT_FROM = 90  # labels from which a pilot sample pays; below, one draw is all
FOR_PRECISION = 4  # of the others, one in so many serves precision alone
EXPECTED_HITS = 0.15  # a stratum where so many matches would take all its labels is left to the ranking
HOPEFUL = 0.9  # the quantile of its rate that is asked for that
PLANNED_OVER = 400  # draws of the rates that a plan is made over
BATCH = 1 << 16  # uniform draws scored at once, at most

_TOP, _BOTTOM = np.float32(2.0), np.float32(-2.0)  # beyond every cosine, rounding included
_FINE = 8192  # thresholds of the counting pass


@dataclass(frozen=True)
class Strata:
    """The ranking cut by score: stratum k holds edges[k] <= score < edges[k-1], best first."""

    edges: Scores  # (k,) descending; the last lies below every score
    totals: NDArray[np.int64]  # (k,) pairs of the space in each

    def __len__(self) -> int:
        return len(self.edges)

    def of(self, scores: Scores) -> NDArray[np.int64]:
        """The stratum of each score."""
        return np.minimum(np.searchsorted(-self.edges, -scores, side="left"), len(self) - 1)

    def count(self, scores: Scores, weights: ArrayLike | None = None) -> Floats:
        """How many of `scores` (or how much weight) lie in each stratum: (k,)."""
        summed = None if weights is None else np.asarray(weights, np.float64)
        return np.bincount(self.of(scores), summed, len(self)).astype(np.float64)

    def reaching(self, threshold: float) -> Mask:
        """The strata at or above a threshold, which must be an edge."""
        return self.edges >= np.float32(threshold)

    @property
    def middle_rank(self) -> Floats:
        """(k,) the rank halfway through each stratum."""
        after = np.cumsum(self.totals).astype(np.float64)
        return after - self.totals / 2.0


@dataclass(frozen=True)
class AskedPairs:
    """Every pair asked so far, in the order of asking. All columns: (n,)."""

    scores: Scores  # under the scorer that is audited now
    labels: NDArray[np.int8]  # 1, 0, or -1 where nobody has given a label
    audit: NDArray[np.int64]  # TRAIN, or the number of the audit that drew it (ascending in time)
    inclusion_probability: Floats  # of audit pairs; anything for the others

    @staticmethod
    def nothing() -> AskedPairs:
        return AskedPairs(np.empty(0, np.float32), np.empty(0, np.int8), np.empty(0, np.int64), np.empty(0))

    def where(self, mask: Mask) -> AskedPairs:
        return AskedPairs(*(column[mask] for column in vars(self).values()))

    def then(self, scores: Scores, labels: ArrayLike, audit: int, chances: ArrayLike) -> AskedPairs:
        """With more pairs asked afterwards."""
        more: Sequence[NDArray[Any]] = (
            scores,
            np.asarray(labels, np.int8),
            np.full(len(scores), audit),
            np.asarray(chances, np.float64),
        )
        return AskedPairs(*(np.concatenate([old, new]) for old, new in zip(vars(self).values(), more)))

    def __len__(self) -> int:
        return len(self.scores)


@dataclass(frozen=True)
class AuditPlan:
    """How many labels go where. All arrays: (k,)."""

    strata: Strata
    free: NDArray[np.int64]  # pairs nobody was asked about
    labels: NDArray[np.int64]  # to draw from them
    threshold: float


@dataclass(frozen=True)
class AuditDraw:
    """The pairs to label, in random order, so that neither order nor place gives a score away. (n,) each."""

    ids: Ids
    scores: Scores
    stratum: NDArray[np.int64]
    inclusion_probability: Floats


def cut_ranking(scan: Scan, thresholds: ArrayLike, budget: int) -> Strata:
    """Strata whose ranks double, from one exact count of all pairs; every threshold becomes an edge."""
    wanted = np.unique(np.asarray(thresholds, np.float32))
    fine = np.union1d(np.linspace(-1.0, 1.0, _FINE + 1, dtype=np.float32), wanted)
    return strata_from_counts(fine, scan.count_reaching(fine, "audit"), scan.space.size, wanted, budget)


def strata_from_counts(
    scores: Scores, reaching: NDArray[np.int64], pairs: int, thresholds: Scores, budget: int
) -> Strata:
    """From ascending `scores` and how many pairs reach each. Equal scores stay together, so a stratum
    may be larger than wanted; `thresholds` must be among `scores`."""
    if pairs < 1:
        raise InputError("there is no pair to audit", remedy="Audit a split that has pairs")
    most = max(2, budget // LABELS_PER_STRATUM)
    growth = max(2.0, (pairs / FIRST_STRATUM) ** (1.0 / most)) if pairs > FIRST_STRATUM else 2.0
    steps = int(np.ceil(np.log(max(pairs / FIRST_STRATUM, 1.0)) / np.log(growth)))
    ranks = FIRST_STRATUM * growth ** np.arange(steps)
    descending, counts = scores[::-1], reaching[::-1]  # from the best score down, counts grow
    at = np.searchsorted(counts, ranks, side="left")
    at = np.union1d(at[at < len(counts)], len(counts) - 1 - np.searchsorted(scores, thresholds))
    at = at[(counts[at] > 0) & (counts[at] < pairs)] if len(at) else at
    kept = np.isin(descending[at], thresholds)
    # Edges without a pair between them are one edge; of those, a threshold stays.
    order = np.lexsort((~kept, counts[at]))
    _, first = np.unique(counts[at][order], return_index=True)
    at = at[order][first]
    edges = np.append(descending[at], _BOTTOM).astype(np.float32)
    totals = np.diff(np.append(counts[at], pairs), prepend=0)
    return Strata(edges, totals.astype(np.int64))


def pilot_size(budget: int, earlier_labels: int) -> int:
    """Labels of the pilot sample, of a `budget`; 0 where it is too small or earlier audits serve as one."""
    enough = earlier_labels >= PILOT_FROM // PILOT_ONE_IN
    return 0 if budget < PILOT_FROM or enough else budget // PILOT_ONE_IN


def plan_audit(
    scan: Scan,
    budget: int,
    threshold: float,
    asked: AskedPairs,
    log_odds: LogOdds | None = None,
    also: Sequence[float] = (),
    of: int = 0,
    evenly: bool = False,
) -> AuditPlan:
    """Where `budget` labels narrow the figures most, those at `threshold` among them.

    `also`: more thresholds that shall be edges. `of`: the labels of the whole audit where these are a part of
    it. `evenly`: a pilot sample, as many in each stratum.
    """
    if budget < 1:
        what = f"an audit with a budget of {budget}"
        raise InputError(what, remedy="Give at least one label; 300 is usual")
    strata = cut_ranking(scan, [threshold, *also], max(budget, of))
    return plan_in(strata, budget, threshold, asked, log_odds, evenly)


def plan_in(
    strata: Strata,
    budget: int,
    threshold: float,
    asked: AskedPairs,
    log_odds: LogOdds | None = None,
    evenly: bool = False,
) -> AuditPlan:
    """The plan inside given strata; budgets beyond the pairs left are cut to them."""
    free = strata.totals - strata.count(asked.scores).astype(np.int64)
    budget = min(budget, int(free.sum()))
    above = strata.edges >= np.float32(threshold)
    at = float(np.float32(threshold))
    if evenly:
        level = _level(np.ones(len(free)), free.astype(np.float64), budget)
        return AuditPlan(strata, free, _whole(level, free, budget), at)
    known = asked.where(asked.labels >= 0)
    found = strata.count(known.scores, known.labels)
    seen = strata.count(known.scores[known.audit > TRAIN])
    labels = allocate(free, planning_rates(strata, asked, log_odds), found, above, budget, seen)
    return AuditPlan(strata, free, labels, at)


def planning_rates(strata: Strata, asked: AskedPairs, log_odds: LogOdds | None = None) -> Floats:
    """Match rates to plan with, (d, k): draws given labels already given and the scorer, smoothed.

    The model was trained on the bought labels: it scores their matches high and the others low, so they
    flatter it. A stratum's count at most as TRUSTED labels, the scorer as one, audit labels in full.
    Planning with wrong rates costs width, never honesty.
    """
    known = asked.where(asked.labels >= 0)
    train, audit = known.where(known.audit == TRAIN), known.where(known.audit > TRAIN)
    labels, matches = strata.count(train.scores), strata.count(train.scores, train.labels)
    share = np.minimum(1.0, TRUSTED / np.maximum(labels, 1.0))
    labels = labels * share + strata.count(audit.scores)
    matches = matches * share + strata.count(audit.scores, audit.labels)
    if log_odds is not None:
        upper = np.concatenate([[min(1.0, float(strata.edges[0]) + 0.1)], strata.edges[:-1]])
        lower = np.maximum(strata.edges, -1.0)
        logit = np.clip(log_odds((upper + lower) / 2.0), -30.0, 30.0)
        matches, labels = matches + sigmoid(logit), labels + 1.0
    # A plan is not a random thing: the same labels make the same plan.
    return smooth_rates(matches, labels, strata.middle_rank).draw(PLANNED_OVER, np.random.default_rng(0))


def allocate(
    free: Counts, rates: Floats, found: Floats, above: Mask, budget: int, seen: Floats | None = None
) -> Counts:
    """Labels per stratum, (k,), by Neyman's rule over what the rates may be.

    free: (k,) pairs to draw from; rates: (d, k) draws of their match rates; found: (k,) matches known;
    seen: (k,) audit labels that speak for them already. n labels in a stratum of N pairs at rate p leave its
    matches a standard deviation of N·√(p(1-p)/n), so labels belong where s = N·√(p(1-p)) / (all matches) is
    large. Of the draws' s the median is taken: a mean would be ruled by the few draws in which the tail
    holds everything, and no affordable number of labels settles those. For the same reason a stratum whose
    labels would hardly meet a match, even at a hopeful rate, gets few. One label in FOR_PRECISION is laid out
    among the strata above the threshold alone, against the matches there.
    """
    size = free.astype(np.float64)
    have = np.zeros(len(size)) if seen is None else seen
    spread = size * np.sqrt(rates * (1.0 - rates))
    matches = found + size * rates

    def doubt(within: Mask) -> Floats:
        every = np.maximum(matches[:, within].sum(axis=1), 1.0)
        return np.where(within, np.median(spread / every[:, None], axis=0), 0.0)

    least = budget // (PILOT_ONE_IN * max(int((size > 0).sum()), 1))  # every stratum is looked at
    looked = np.clip(least - have, 0.0, size)
    inside = _level(doubt(above), np.where(above, size - looked, 0.0), budget // FOR_PRECISION, have + looked)
    given = looked + inside
    few = EXPECTED_HITS / np.maximum(np.quantile(rates, HOPEFUL, axis=0), 1e-12)
    rest = _level(doubt(size >= 0), size - given, budget - float(given.sum()), have + given + few)
    return _whole(given + rest, free, budget)


def _level(doubt: Floats, free: Floats, budget: float, have: Floats | None = None) -> Floats:
    """(k,) labels so that `have` and they together are in proportion to `doubt`, as far as `free` allows."""
    start = np.zeros(len(doubt)) if have is None else have
    most = float(doubt.max(initial=0.0))
    weight = np.maximum(doubt, 1e-9 * most) if most > 0 else np.ones(len(doubt))

    def given(level: float) -> Floats:
        return np.clip(level * weight - start, 0.0, free)

    low, high = 0.0, (budget + float(start.max(initial=0.0)) + 1.0) / float(weight.min(initial=1.0))
    for _ in range(200):
        level = (low + high) / 2.0
        low, high = (level, high) if given(level).sum() < budget else (low, level)
    return given(high)


def _whole(wanted: Floats, free: Counts, budget: int) -> Counts:
    """Whole numbers that add up to `budget` (at most all that is free): largest remainders first."""
    given = np.minimum(np.floor(wanted + 1e-9).astype(np.int64), free)
    while (surplus := int(given.sum()) - budget) > 0:
        at = np.argsort(-given, kind="stable")[: min(surplus, int((given > 0).sum()))]
        given[at] -= 1
    while (left := budget - int(given.sum())) > 0:
        open_ = np.flatnonzero(given < free)
        if not len(open_):
            break
        order = open_[np.argsort(-(wanted - given)[open_], kind="stable")]
        given[order[:left]] += 1
    return given


def draw_audit(scan: Scan, plan: AuditPlan, exclude: Ids, rng: np.random.Generator) -> AuditDraw:
    """Draw the plan's pairs, uniformly and without repeats inside each stratum, none of the sorted `exclude`.

    The best-ranked strata are gathered by one pass. Further down pairs are drawn uniformly from the whole
    space and kept where their stratum still wants one, which nobody needs to enumerate.
    """
    strata, wanted = plan.strata, plan.labels.copy()
    small = strata.totals <= max(GATHER_AT_MOST, scan.space.size // 10_000)
    ids, scores = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
    for first, last in _runs(small & (wanted > 0)):
        free_ids, free_scores = _gather(scan, strata, first, last, exclude)
        stratum = strata.of(free_scores)
        for k in range(first, last + 1):
            here = np.flatnonzero(stratum == k)
            kept = rng.choice(here, min(int(wanted[k]), len(here)), replace=False)
            ids.append(free_ids[kept])
            scores.append(free_scores[kept])
            wanted[k] = 0
    taken = exclude
    while wanted.any():
        needed = float((wanted / np.maximum(plan.free, 1)).max()) * scan.space.size
        count = min(BATCH, max(1024, int(1.2 * needed)), scan.space.size - len(taken))
        batch = rng.permutation(scan.space.sample(count, rng, outside=taken))
        found = scan.scores(batch)
        stratum = strata.of(found)
        kept = np.zeros(len(batch), bool)
        for k in np.flatnonzero(wanted).tolist():
            here = np.flatnonzero(stratum == k)[: wanted[k]]
            kept[here] = True
            wanted[k] -= len(here)
        ids.append(batch[kept])
        scores.append(found[kept])
        taken = np.union1d(taken, batch[kept])
    drawn, found = np.concatenate(ids), np.concatenate(scores)
    order = rng.permutation(len(drawn))
    stratum = strata.of(found[order])
    return AuditDraw(drawn[order], found[order], stratum, plan.labels[stratum] / plan.free[stratum])


def _runs(mask: Mask) -> list[tuple[int, int]]:
    """(first, last) of every unbroken run of True."""
    change = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return [(int(a), int(b) - 1) for a, b in zip(change[::2], change[1::2])]


def _gather(scan: Scan, strata: Strata, first: int, last: int, exclude: Ids) -> tuple[Ids, Scores]:
    """The free pairs of the strata from `first` to `last`, in the order of their ids."""
    pieces: list[tuple[Ids, Scores]] = []
    high = np.nextafter(strata.edges[first - 1], _BOTTOM) if first else _TOP
    scan.collect(float(strata.edges[last]), float(high), lambda i, s: pieces.append((i, s)), "audit")
    ids = np.concatenate([np.empty(0, np.int64), *(piece[0] for piece in pieces)])
    scores = np.concatenate([np.empty(0, np.float32), *(piece[1] for piece in pieces)])
    order = np.argsort(ids)  # a pass hands pairs over in any order; a seed must not depend on it
    ids, scores = ids[order], scores[order]
    free = ~is_member(ids, exclude)
    return ids[free], scores[free]

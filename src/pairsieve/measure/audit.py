"""Which few hundred labels measure a scorer best, when nobody knows the truth?

Strata by score double in rank, so that each holds as much doubt as the one before. Labels are laid out
to make the figures' intervals narrow (`allocate`), pairs are drawn uniformly inside each stratum
(`draw_audit`), and `audit_estimate.py` turns the labels into figures. Pairs whose labels were bought
before are known and never drawn again: they count as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.errors import InputError
from pairsieve.measure.audit_rates import Floats, smooth_rates
from pairsieve.pairs import Ids, Mask, Scores, is_member
from pairsieve.scan import Scan

TRAIN = 0  # in `Asked.audit`: asked in order to train
FIRST_STRATUM = 32  # pairs of the best-ranked stratum; each later one doubles the rank
LABELS_A_STRATUM = 6  # at least this many on average; fewer, wider strata where the budget is small
GATHER_AT_MOST = 1 << 18  # pairs of a stratum that is gathered outright; of larger ones pairs are drawn
TRUSTED = 3.0  # labels that a stratum's training labels are worth when a plan is made
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
        counted: Floats = np.bincount(
            self.of(scores), None if weights is None else np.asarray(weights, np.float64), len(self)
        ).astype(np.float64)
        return counted

    def reaching(self, threshold: float) -> Mask:
        """The strata at or above a threshold, which must be an edge."""
        reached: Mask = self.edges >= np.float32(threshold)
        return reached

    @property
    def middle_rank(self) -> Floats:
        """(k,) the rank halfway through each stratum."""
        after = np.cumsum(self.totals).astype(np.float64)
        return after - self.totals / 2.0


@dataclass(frozen=True)
class Asked:
    """Every pair asked so far, in the order of asking. All columns: (n,)."""

    scores: Scores  # under the scorer that is audited now
    labels: NDArray[np.int8]  # 1, 0, or -1 where nobody has given a label
    audit: NDArray[np.int64]  # TRAIN, or the number of the audit that drew it (ascending in time)
    inclusion_probability: Floats  # of audit pairs; anything for the others

    @staticmethod
    def nothing() -> Asked:
        return Asked(
            np.empty(0, np.float32), np.empty(0, np.int8), np.empty(0, np.int64), np.empty(0, np.float64)
        )

    def where(self, mask: Mask) -> Asked:
        return Asked(self.scores[mask], self.labels[mask], self.audit[mask], self.inclusion_probability[mask])

    def then(self, scores: Scores, labels: ArrayLike, audit: int, inclusion_probability: ArrayLike) -> Asked:
        """With more pairs asked afterwards."""
        return Asked(
            np.concatenate([self.scores, scores]),
            np.concatenate([self.labels, np.asarray(labels, np.int8)]),
            np.concatenate([self.audit, np.full(len(scores), audit, np.int64)]),
            np.concatenate([self.inclusion_probability, np.asarray(inclusion_probability, np.float64)]),
        )

    def __len__(self) -> int:
        return len(self.scores)


@dataclass(frozen=True)
class AuditPlan:
    """How many labels go where, and what was expected when that was decided. All arrays: (k,)."""

    strata: Strata
    free: NDArray[np.int64]  # pairs nobody was asked about
    labels: NDArray[np.int64]  # to draw from them
    expected_rate: Floats
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
    most = max(2, budget // LABELS_A_STRATUM)
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


def plan_audit(
    scan: Scan,
    budget: int,
    threshold: float,
    asked: Asked,
    head: tuple[float, float] | None = None,
    also: Sequence[float] = (),
) -> AuditPlan:
    """Where `budget` labels narrow the figures most, those at `threshold` above all.

    `head`: (weight, bias) of the matcher's logit. `also`: more thresholds that shall be edges.
    """
    if budget < 1:
        raise InputError(
            f"an audit with a budget of {budget}", remedy="Give at least one label; 300 is usual"
        )
    strata = cut_ranking(scan, [threshold, *also], budget)
    return plan_in(strata, budget, threshold, asked, head)


def plan_in(
    strata: Strata, budget: int, threshold: float, asked: Asked, head: tuple[float, float] | None = None
) -> AuditPlan:
    """The plan inside given strata; budgets beyond the pairs left are cut to them."""
    free = strata.totals - strata.count(asked.scores).astype(np.int64)
    expected = expected_rates(strata, asked, head)
    above = strata.edges >= np.float32(threshold)
    labels = allocate(free, expected, above, min(budget, int(free.sum())))
    return AuditPlan(strata, free, labels, expected, float(np.float32(threshold)))


def expected_rates(strata: Strata, asked: Asked, head: tuple[float, float] | None = None) -> Floats:
    """Match rates to plan with, (k,): from labels already bought and the head, smoothed along the ranking.

    The model was trained on the bought labels: it scores their matches high and the others low, so they
    flatter it. A stratum's count at most as TRUSTED labels, the head as one. Besides, no doubling of the
    rank is taken to hold fewer matches than a tenth of those known, or ten. Planning with wrong rates costs
    width, never honesty.
    """
    known = asked.where(asked.labels >= 0)
    labels, matches = strata.count(known.scores), strata.count(known.scores, known.labels)
    least = max(10.0, float(matches.sum()) / 10.0)
    share = np.minimum(1.0, TRUSTED / np.maximum(labels, 1.0))
    labels, matches = labels * share, matches * share
    if head is not None:
        upper = np.concatenate([[min(1.0, float(strata.edges[0]) + 0.1)], strata.edges[:-1]])
        lower = np.maximum(strata.edges, -1.0)
        logit = np.clip(head[0] * (upper + lower) / 2.0 + head[1], -30.0, 30.0)
        matches, labels = matches + 1.0 / (1.0 + np.exp(-logit)), labels + 1.0
    smoothed = smooth_rates(matches, labels, strata.middle_rank).typical()
    expected: Floats = np.maximum(smoothed, np.minimum(0.5, least / np.maximum(strata.totals, 1)))
    return expected


def allocate(
    free: NDArray[np.int64], expected_rate: Floats, above: Mask, budget: int, shape: float = 0.5
) -> NDArray[np.int64]:
    """Labels per stratum, (k,), that minimise the expected variance; Neyman's rule with a prior.

    With N pairs at rate p, n labels and a Gamma prior of `shape` around p, the matches of a stratum are
    expected to keep the variance N² p(1-p) / (n + shape/p): the prior is worth shape/p labels. So labels
    go where N·√(p(1-p)) is large, and not where so few matches lie that no affordable number of labels
    would meet one. Summed are the squared relative errors of the number of matches and of those `above`
    the threshold, so that precision, recall and average precision narrow together. Every stratum is
    looked at: a third of the budget is spread evenly first, as what was expected may be wrong.
    """
    size, rate = free.astype(np.float64), np.clip(expected_rate, 1e-12, 1 - 1e-6)
    rate = np.where(above, rate.clip(0.1, 0.9), rate)  # near a threshold nobody is surer than that
    matches = size * rate
    influence = 1.0 / max(matches.sum(), 1.0) ** 2 + above / max(matches[above].sum(), 1.0) ** 2
    spread = size * np.sqrt(rate * (1 - rate) * influence)
    worth = shape / rate
    some = int((size > 0).sum())
    floor = np.minimum(size, max(1, budget // (3 * max(some, 1))))
    if floor.sum() >= budget:  # fewer labels than strata: the largest doubts first
        floor = np.zeros_like(size)
    low, high = 0.0, (budget + worth.max() + 1.0) / max(spread[size > 0].min(initial=1.0), 1e-300)
    for _ in range(200):
        level = (low + high) / 2.0
        wanted = np.clip(level * spread - worth, floor, size)
        low, high = (level, high) if wanted.sum() < budget else (low, level)
    return _whole(np.clip(high * spread - worth, floor, size), free, budget)


def _whole(wanted: Floats, free: NDArray[np.int64], budget: int) -> NDArray[np.int64]:
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
        mine, theirs = _gather(scan, strata, first, last, exclude)
        stratum = strata.of(theirs)
        for k in range(first, last + 1):
            here = np.flatnonzero(stratum == k)
            kept = rng.choice(here, min(int(wanted[k]), len(here)), replace=False)
            ids.append(mine[kept])
            scores.append(theirs[kept])
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
    drawn, with_scores = np.concatenate(ids), np.concatenate(scores)
    order = rng.permutation(len(drawn))
    drawn, with_scores = drawn[order], with_scores[order]
    stratum = strata.of(with_scores)
    chance = plan.labels[stratum] / plan.free[stratum]
    return AuditDraw(drawn, with_scores, stratum, chance)


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

"""Drawing pairs with known chances: strata of the ranking, how many labels each gets, and the draw itself.

Strata by score double in rank down to the reach (`reach_rank`), and are sixteen times wider below it. Half of
the labels are spread evenly over strata, for nobody knows where the matches end; the other half goes where
pairs are many and in doubt, within reach (`allocate`, Neyman's rule). Pairs are drawn uniformly inside each
stratum (`draw_pairs`), and `estimate.py` turns the labels into figures. Pairs whose labels were bought before
are known and never drawn again: they count as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.errors import InputError
from pairsieve.pairs import Ids, Mask, Scores, is_member
from pairsieve.scan import Scan

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]

TRAIN = 0  # in `AskedPairs.audit`: asked for other reasons than a draw
TIED = 0.05  # of a stratum: fewer pairs of one score are taken as if each had its own
FIRST_STRATUM = 32  # pairs of the best-ranked stratum; each later one doubles the rank
TAIL_GROWTH = 16.0  # how much the rank grows with each stratum below the reach
LABELS_PER_STRATUM = 10  # at least this many on average; fewer, wider strata where labels are few
GATHER_AT_MOST = 1 << 18  # pairs of a stratum that is gathered outright; of larger ones pairs are drawn
LABELS_PER_REACH = (
    30  # drawn labels that put as many more pairs within reach as are listed; four times, twice
)
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
class DrawnPairs:
    """The pairs to label, in random order, so that neither order nor place gives a score away. (n,) each."""

    ids: Ids
    scores: Scores
    stratum: Counts
    inclusion_probability: Floats


def reach_rank(listed: int, labels: int) -> int:
    """How many of the best-scored pairs so many drawn labels can speak of: listed · (1 + √(labels / 30)).

    N pairs with n labels and no match leave room for 3·N/n matches, so that reach can grow with the labels
    and limits still get narrower. Fixed before any label is drawn: figures within reach are of a population,
    not of a lucky choice.
    """
    return int(max(listed, FIRST_STRATUM) * (1.0 + np.sqrt(labels / LABELS_PER_REACH)))


def cut_ranking(scan: Scan, thresholds: ArrayLike, labels: int) -> tuple[Strata, float]:
    """Strata for so many drawn labels, from one exact count of all pairs, and the lowest score within reach.

    Every threshold becomes an edge; the lowest says which pairs are listed.
    """
    wanted = np.unique(np.asarray(thresholds, np.float32))
    fine = np.union1d(np.linspace(-1.0, 1.0, _FINE + 1, dtype=np.float32), wanted)
    reaching = scan.count_reaching(fine, "draw")
    listed = int(reaching[np.searchsorted(fine, wanted[0])]) if len(wanted) else 0
    return strata_from_counts(fine, reaching, scan.space.size, wanted, labels, reach_rank(listed, labels))


def strata_from_counts(
    scores: Scores, reaching: Counts, pairs: int, thresholds: Scores, labels: int, reach: int | None = None
) -> tuple[Strata, float]:
    """From ascending `scores` and how many pairs reach each: strata, and the lowest score within `reach`
    pairs.

    Equal scores stay together, so a stratum may be larger than wanted; `thresholds` must be among `scores`.
    """
    if pairs < 1:
        raise InputError("there is no pair to draw from", remedy="Take a split that has pairs")
    reach = min(pairs if reach is None else reach, pairs)
    tail = [float(reach)] if reach < pairs else []
    while tail and tail[-1] * TAIL_GROWTH < pairs:
        tail.append(tail[-1] * TAIL_GROWTH)
    most = max(2, labels // LABELS_PER_STRATUM)
    tail = tail[: max(1, most // 2)]
    most = max(1, most - len(tail))
    growth = max(2.0, (reach / FIRST_STRATUM) ** (1.0 / most)) if reach > FIRST_STRATUM else 2.0
    steps = int(np.ceil(np.log(max(reach / FIRST_STRATUM, 1.0)) / np.log(growth) - 1e-9))
    ranks = np.append(FIRST_STRATUM * growth ** np.arange(steps), tail)
    descending, counts = scores[::-1], reaching[::-1]  # from the best score down, counts grow
    places = np.searchsorted(counts, ranks, side="left")
    lowest = places[len(ranks) - len(tail)] if tail else len(counts)
    at = np.union1d(places[places < len(counts)], len(counts) - 1 - np.searchsorted(scores, thresholds))
    at = at[(counts[at] > 0) & (counts[at] < pairs)] if len(at) else at
    kept = np.isin(descending[at], thresholds)
    # Edges without a pair between them are one edge; of those, a threshold stays.
    order = np.lexsort((~kept, counts[at]))
    _, first = np.unique(counts[at][order], return_index=True)
    at = at[order][first]
    # A threshold that every pair reaches is the last edge.
    bottom = max([_BOTTOM, *thresholds[np.isin(thresholds, scores[reaching >= pairs])]])
    edges = np.append(descending[at], bottom).astype(np.float32)
    totals = np.diff(np.append(counts[at], pairs), prepend=0)
    strata = Strata(edges, totals.astype(np.int64))
    if lowest >= len(counts):
        return strata, float(_BOTTOM)
    within = np.searchsorted(np.cumsum(strata.totals), counts[lowest], side="left")
    return strata, float(strata.edges[min(int(within), len(strata) - 1)])


def allocate(
    strata: Strata, asked: AskedPairs, labels: int, reach: float, probability: Floats | None = None
) -> Floats:
    """(k,) expected labels of each stratum, in all at most as many as pairs are free: half spread evenly,
    half within reach in proportion to N·√(p·(1 - p)), N the free pairs and p (k,) their probability of a
    match.
    """
    free = (strata.totals - strata.count(asked.scores)).clip(0).astype(np.float64)
    labels = min(labels, int(free.sum()))
    even = _level((free > 0).astype(np.float64), free, labels / 2.0)
    doubt = np.ones(len(free))
    if probability is not None:
        doubt = free * np.sqrt(np.clip(probability * (1.0 - probability), 1e-6, None))
    doubt = np.where(strata.reaching(reach) & (free > 0), doubt, 0.0)
    given = even + _level(doubt, free - even, labels - float(even.sum()))
    return given + _level((free > given).astype(np.float64), free - given, labels - float(given.sum()))


def _level(weight: Floats, room: Floats, labels: float) -> Floats:
    """(k,) labels in proportion to `weight`, as far as there is `room`."""
    given = np.zeros(len(weight))
    for _ in range(len(weight)):
        left = labels - float(given.sum())
        open_ = np.where(room - given > 1e-9, weight, 0.0)
        if left < 1e-9 or open_.sum() <= 0:
            break
        given = np.minimum(given + left * open_ / open_.sum(), room)
    return given


def whole_labels(expected: Floats, rng: np.random.Generator) -> Counts:
    """Whole numbers with these expectations and their sum: systematic sampling from a random start."""
    ends = np.cumsum(expected) + rng.random()
    return np.diff(np.floor(ends + 1e-9), prepend=0.0).astype(np.int64)


def draw_pairs(
    scan: Scan, strata: Strata, expected: Floats, asked: AskedPairs, exclude: Ids, rng: np.random.Generator
) -> DrawnPairs:
    """Draw about `expected` (k,) pairs, uniformly and without repeats inside each stratum, none of the sorted
    `exclude`; a pair's chance is expected / free pairs of its stratum.

    The best-ranked strata are gathered by one pass. Further down pairs are drawn uniformly from the whole
    space and kept where their stratum still wants one, which nobody needs to enumerate.
    """
    free = strata.totals - strata.count(asked.scores).astype(np.int64)
    wanted = np.minimum(whole_labels(expected, rng), free)
    chance = expected / np.maximum(free, 1)
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
        needed = float((wanted / np.maximum(free, 1)).max()) * scan.space.size
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
    return DrawnPairs(drawn[order], found[order], stratum, np.minimum(chance[stratum], 1.0))


def _runs(mask: Mask) -> list[tuple[int, int]]:
    """(first, last) of every unbroken run of True."""
    change = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return [(int(a), int(b) - 1) for a, b in zip(change[::2], change[1::2])]


def _gather(scan: Scan, strata: Strata, first: int, last: int, exclude: Ids) -> tuple[Ids, Scores]:
    """The free pairs of the strata from `first` to `last`, in the order of their ids."""
    pieces: list[tuple[Ids, Scores]] = []
    high = np.nextafter(strata.edges[first - 1], _BOTTOM) if first else _TOP
    scan.collect(float(strata.edges[last]), float(high), lambda i, s: pieces.append((i, s)), "draw")
    ids = np.concatenate([np.empty(0, np.int64), *(piece[0] for piece in pieces)])
    scores = np.concatenate([np.empty(0, np.float32), *(piece[1] for piece in pieces)])
    order = np.argsort(ids)  # a pass hands pairs over in any order; a seed must not depend on it
    ids, scores = ids[order], scores[order]
    free = ~is_member(ids, exclude)
    return ids[free], scores[free]


@dataclass(frozen=True)
class StratumCounts:
    """What is known of each stratum, (k,) each."""

    totals: Floats  # pairs, without those that were asked and have no label
    known: Floats  # labelled for other reasons
    known_matches: Floats
    seen: Floats  # drawn labels
    hits: Floats  # matches among them
    effective: Floats  # labels that they are worth, for the pairs not known
    rate: Floats  # of matches among the pairs not known; filled in from its neighbours where none was drawn
    uncut: Floats  # the same, which may be below 0 or above 1 where labels were bought since
    expected_hits: Floats  # among the drawn labels, at the share that their weights say

    @property
    def rest(self) -> Floats:
        """Pairs not known, the drawn ones among them."""
        return np.maximum(self.totals - self.known, 0.0)

    @property
    def spread(self) -> Floats:
        """Standard error of the expected matches among the pairs not known."""
        left = 1.0 - np.divide(self.seen, self.rest, out=np.ones(len(self.rest)), where=self.rest > 0)
        rate = self.rate * (1.0 - self.rate) / np.maximum(self.effective - 1.0, 1.0)
        return np.asarray(self.rest * np.sqrt(rate * np.clip(left, 0.0, 1.0)))

    @property
    def value(self) -> Floats:
        """Expected matches among the pairs not known: the drawn ones as they are, the others by the rate.

        In a stratum that may be too few or too many; cut off there, the sum over strata would be biased.
        """
        return self.hits + self.uncut * self.rest - self.expected_hits


def stratum_counts(strata: Strata, asked: AskedPairs) -> StratumCounts:
    """Labels and their weights, sorted into the strata.

    A draw spoke for the F pairs of a stratum that were free then; of these, D have been labelled since for
    other reasons, with d matches. A weighted share r among F leaves the rate (F·r - d) / (F - D) for the
    rest, and of n labels n·((F - D)/F)² are left. F, D and d are averaged over draws by their c.
    """
    totals = strata.totals - strata.count(asked.scores[asked.labels < 0])
    held = asked.where(asked.labels >= 0)
    stratum, size = strata.of(held.scores), len(strata)

    def tally(mask: Mask, weights: Any = None) -> Floats:
        summed = np.bincount(stratum[mask], None if weights is None else weights[mask], size)
        return summed.astype(np.float64)

    drawn = held.audit > TRAIN
    known, known_matches = tally(~drawn), tally(~drawn, held.labels)
    weight = np.zeros(len(held))
    since, since_matches = np.zeros(size), np.zeros(size)
    place = np.arange(len(held))
    for number in np.unique(held.audit[drawn]):
        here = held.audit == number
        share = here.sum() / max(drawn.sum(), 1)
        weight[here] = share / held.inclusion_probability[here]
        bought = ~drawn & (place > int(np.flatnonzero(here)[0]))
        since, since_matches = (
            since + share * tally(bought),
            since_matches + share * tally(bought, held.labels),
        )
    total, matches = tally(drawn, weight), tally(drawn, weight * held.labels)
    share = np.divide(matches, total, out=np.zeros(size), where=total > 0)
    squares = tally(drawn, weight**2)
    effective = np.divide(total**2, squares, out=np.zeros(size), where=squares > 0)
    rest = np.maximum(totals - known, 0.0)
    frame = np.maximum(rest + since, 1.0)
    uncut = np.divide(frame * share - since_matches, rest, out=np.zeros(size), where=rest > 0)
    effective = effective * (rest / frame) ** 2
    spoken = (total > 0) & (rest > 0)
    if spoken.any() and not spoken.all():
        ranks = np.log(np.maximum(strata.middle_rank, 0.5))
        uncut = np.where(spoken, uncut, np.interp(ranks, ranks[spoken], uncut[spoken]))
    seen, hits = tally(drawn), tally(drawn, held.labels)
    rate = uncut.clip(0.0, 1.0)
    return StratumCounts(totals, known, known_matches, seen, hits, effective, rate, uncut, share * seen)


@dataclass(frozen=True)
class Ties:
    """Runs of pairs of one score, best first: the pairs ahead of each and those down to its end, (b,)."""

    first: Floats
    last: Floats
    known: Floats  # where the scores of pairs asked begin and end, ties or not

    @staticmethod
    def of(strata: Strata, ahead: Floats | None, ranks: Floats | None) -> Ties:
        """ahead, ranks: of pairs asked, how many pairs score higher and how many reach their score. Those
        without a label have rank 0.
        """
        if ahead is None or ranks is None:
            return NO_TIES
        first, last = np.unique(np.stack([ahead, ranks]).astype(np.float64), axis=1)
        size = strata.totals[np.minimum(np.searchsorted(np.cumsum(strata.totals), last), len(strata) - 1)]
        shared = (last - first > 1.0) & (last - first > TIED * size)
        return Ties(first[shared], last[shared], np.union1d(first, last))

    def with_gaps(self, strata: Strata) -> Ties:
        """And in the strata that have any, what lies between known scores, as if each run had one score."""
        ends = np.cumsum(strata.totals).astype(np.float64)
        some = np.unique(np.searchsorted(ends, self.last))
        cuts = np.unique(np.concatenate([self.known, (ends - strata.totals)[some], ends[some]]))
        first, last = cuts[:-1], cuts[1:]
        here = np.isin(np.searchsorted(ends, last), some)
        return Ties(first[here], last[here], self.known)

    def within(self, length: int) -> Ties:
        """Those of the best-ranked pairs down to the end of a stratum."""
        here = self.last <= length
        return Ties(self.first[here], self.last[here], self.known)

    def at(self, ranks: Floats | Counts) -> Counts:
        """Which of them holds the pair of each rank; -1 where none does."""
        if not len(self.first):
            return np.full(len(ranks), -1)
        found = np.searchsorted(self.last, ranks)
        inside = found < len(self.last)
        inside &= self.first[np.minimum(found, len(self.last) - 1)] < ranks
        return np.where(inside, found, -1)

    def __len__(self) -> int:
        return len(self.first)


NO_TIES = Ties(np.empty(0), np.empty(0), np.empty(0))

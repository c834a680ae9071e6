"""Lists with a guarantee: with a stated confidence, what nobody labelled in the list has the precision asked
for.

**Nested lists in a fixed sequence.** Candidate lists grow from one that is surely pure to ones that are
surely not (`candidate_sizes`). Each is tested in this order, at the full level 1 - confidence, until one is
not shown to be precise: the list before it is returned. A wrong list is returned only if the first wrong one
passes, so no correction for many lists is needed (fixed-sequence testing; Learn then Test, Angelopoulos et
al. 2021). The anchor, SUPG (Kang et al., VLDB 2020), splits the level over all candidates.

**Labels in one random order.** Every pair has a random number that never changes (permanent random numbers,
Ohlsson 1995). The pairs of a list with the smallest ones are a simple random sample of it, of any size, and
of each smaller list inside it too. So labels serve all lists, and a larger list needs labels only among the
pairs that it adds.

**Evidence that may be looked at after every label.** Drawing without replacement from N pairs, S_t matches
among the first t; if the list has M matches, the next is one with chance p = (M - S_t) / (N - t). Betting a
share c of the stake on "match" multiplies it by 1 + c·(1 - p)/p or by 1 - c. Under any c fixed before the
answer the stake is a martingale, which exceeds 1 / (1 - confidence) with a chance of at most 1 - confidence
(Ville; Waudby-Smith and Ramdas 2020); c = (q - p) / (1 - p) with q the share of matches so far makes it grow
fastest (Kelly 1956). It is computed for the M at which the pairs left would have just the precision asked
for, so the promise is of those pairs and not of the ones that were looked at. So labels can be asked where
they are expected to help most, and whoever asks may stop at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.audit.draws import Counts, Floats
from pairsieve.numeric import logit, sigmoid
from pairsieve.pairs import Ids, Scores

GROWTH = 1.2  # of a candidate list over the one before
LEAST, FIRST, LAST = 0.3, 0.5, 4.0  # candidate lists, as multiples of the guess
CAUTION = 0.7  # by how much the expected log-odds may be too high where the sequence starts
ASKED_AT_ONCE = 10
PRIOR = 10.0  # labels that the expected precision is worth, for what to ask and how much to bet
MORE = 1.2  # labels that a list needs, over what it would need on average

# (threshold, count): ids, random numbers and scores of the list's first pairs in random order
Draw = Callable[[float, int], "tuple[Ids, Floats, Scores]"]
Ask = Callable[
    [Ids], "NDArray[np.int8] | None"
]  # labels (1, 0, or -1: unsure); None while they are waited for


@dataclass(frozen=True)
class CheckedList:
    """What a check found: the longest list shown to be precise enough, if any."""

    certified: int  # how many of the candidate lists, in their order; 0: none
    labels: int  # that were asked for
    wanted: int  # labels more that would probably show the first list; 0 where one is shown
    waiting: int = 0  # labels asked for and not yet given


def evidence(labels: ArrayLike, pairs: int, precision: float, expected: float) -> float:
    """How strongly labels say that the pairs of a list without a label have `precision` or more.

    labels: (n,) bool, of the list's first n pairs in random order; pairs: of the list; expected: a guess at
    its precision, for the first bets. At least 20 is found with a chance of at most 1/20 where it is not so.
    Everything labelled leaves nothing to be wrong: inf.
    """
    match = np.asarray(labels, bool)
    n = len(match)
    if n >= pairs:
        return float("inf")
    if n == 0:
        return 1.0
    seen, before = np.arange(n), np.concatenate([[0.0], np.cumsum(match)[:-1]])
    total = precision * (pairs - n) + match.sum()
    chance = np.clip((total - before) / (pairs - seen), 1e-9, 1.0)
    start = max(expected, precision + 0.5 * (1.0 - precision))
    share = (before + PRIOR * start) / (seen + PRIOR)
    bet = np.clip((share - chance) / np.maximum(1.0 - chance, 1e-9), 0.0, 0.99)
    stake = np.cumsum(np.where(match, np.log1p(bet * (1.0 - chance) / chance), np.log1p(-bet)))
    return float(np.exp(min(float(stake.max()), 700.0)))


def candidate_lists(found: ArrayLike, expected: ArrayLike, precision: float, budget: int) -> Counts:
    """Places of the candidate lists on a grid of thresholds, ascending in size.

    found, expected: (g,) how many unlabelled pairs reach each of descending thresholds, and how precise they
    are expected to be. The sequence goes around a guess at the longest list that is precise enough, and
    starts with one that most of the labels should show even where the expectation is too high.
    """
    size, share = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    some = np.flatnonzero(size >= 1)
    if not len(some):
        return np.empty(0, np.int64)
    good = np.flatnonzero((share >= precision + 0.5 * (1.0 - precision)) & (size >= 1))
    guess = max(size[good[-1]] if len(good) else 0.0, float(budget) / 2.0)
    if guess > budget and budget < labels_needed(1.0, precision):
        return np.empty(0, np.int64)
    cautious = sigmoid(logit(np.clip(share, 1e-6, 1.0 - 1e-6)) - CAUTION)
    need = 1.0 / (1.0 - 0.95)
    cost = np.array([_needed(q, precision, need, n) for q, n in zip(cautious, size)])
    shown = np.flatnonzero((cost <= 0.8 * budget) & (size >= 1) & (size <= FIRST * guess))
    first = size[shown[-1]] if len(shown) else size[some[0]]
    if labels_needed(1.0, precision) <= 0.8 * budget:  # enough for any pure list, so not with the smallest
        first = max(first, size[min(int(np.searchsorted(size, LEAST * guess)), len(size) - 1)])
    wanted = first * GROWTH ** np.arange(int(np.ceil(np.log(LAST * guess / first) / np.log(GROWTH))) + 1)
    places = np.searchsorted(size, wanted, side="right") - 1
    return np.unique(np.maximum(places, some[0])).astype(np.int64)


@dataclass
class _Sample:
    """Labels of nested lists in one random order: each list is known down to a depth of random numbers."""

    band: Counts  # (n,) the first list that holds each labelled pair
    order: Floats  # (n,)
    match: NDArray[np.bool_]  # (n,)
    depth: Floats  # (lists,) every pair of the list with a smaller random number is labelled

    def of(self, at: int) -> NDArray[np.bool_]:
        """Labels of a list's first pairs, in order."""
        here = (self.band <= at) & (self.order <= self.depth[at])
        labels: NDArray[np.bool_] = self.match[here][np.argsort(self.order[here])]
        return labels


def check_precision(
    thresholds: Sequence[float],
    sizes: Sequence[int],
    expected: Sequence[float],
    draw: Draw,
    ask: Ask,
    precision: float,
    budget: int,
    confidence: float = 0.95,
    at_once: int = ASKED_AT_ONCE,
) -> CheckedList:
    """The longest list of the sequence whose unlabelled pairs are shown to have `precision`.

    thresholds, sizes: of the candidate lists, ascending in size, all pairs that had no label before the
    check. expected: precision of each as far as one can guess; it decides what to ask, never what is
    certified. draw, ask: see their types; asking again for a pair costs nothing, so a check that was
    interrupted is run again from its start. At most `budget` labels are asked for, `at_once` together. An
    unsure answer counts as no match.
    """
    need = 1.0 / (1.0 - confidence)
    lists = len(sizes)
    if not lists:
        return CheckedList(0, 0, labels_needed(1.0, precision, confidence))
    total = np.asarray(sizes, np.float64)
    known: dict[int, tuple[int, float, bool]] = {}
    depth, certified = np.zeros(lists), 0
    while True:
        rows = list(known.values())
        sample = _Sample(
            np.array([row[0] for row in rows], np.int64),
            np.array([row[1] for row in rows]),
            np.array([row[2] for row in rows], bool),
            depth,
        )
        while certified < lists:
            if evidence(sample.of(certified), sizes[certified], precision, expected[certified]) < need:
                break
            certified += 1
        room = budget - len(known)
        guess = [_guess(sample.of(at), expected[at]) for at in range(lists)]
        if certified == lists or room <= 0:
            break
        at = _next_list(total, guess, depth, certified, precision, need, room, len(known))
        if at is None:
            break
        # Deeper into that list by a few labels, within the budget.
        count, more = len(sample.of(at)), min(at_once, room)
        ids, order, scores = draw(thresholds[at], min(count + 4 * at_once, sizes[at]))
        fresh = [place for place, pair in enumerate(ids.tolist()) if pair not in known]
        new = fresh[:more]
        if new:
            given = ask(ids[new])
            if given is None:
                return CheckedList(certified, len(known) + len(new), 0, len(new))
            first = np.searchsorted(-np.asarray(thresholds, np.float64), -scores[new].astype(np.float64))
            for place, band, label in zip(new, first.tolist(), given.tolist()):
                known[int(ids[place])] = (band, float(order[place]), label == 1)
        end = fresh[more] if len(fresh) > more else len(ids)
        reached = float(order[end - 1]) if end else 0.0
        if end == sizes[at]:
            reached = 1.0
        depth[: at + 1] = np.maximum(depth[: at + 1], reached)
    wanted = 0
    if not certified:
        wanted = max(labels_needed(guess[0], precision, confidence) - len(sample.of(0)), 1)
    return CheckedList(certified, len(known), wanted)


def _next_list(
    total: Floats,
    guess: Sequence[float],
    depth: Floats,
    certified: int,
    precision: float,
    need: float,
    room: int,
    labelled: int,
) -> int | None:
    """The list to label deeper: towards the longest that the labels left should show; None where none is.

    A list of N pairs with precision q needs about n = log(need) / KL(q, precision) labels, so a depth of n /
    N; the pairs of a band must be labelled as deep as any list of the way asks for.
    """
    lists = len(total)
    if certified == 0:
        hope = guess[0] + 0.5 / np.sqrt(PRIOR + depth[0] * total[0])
        return 0 if hope > precision or total[0] - depth[0] * total[0] <= room else None
    wanted = np.array([_needed(q, precision, need, n) for q, n in zip(guess, total)]) / total
    bands = np.diff(total, prepend=0.0)
    goal = None
    for last in range(certified, lists):
        asked = np.where(np.arange(lists) <= last, np.where(np.arange(lists) >= certified, wanted, 0.0), 0.0)
        deep = np.maximum.accumulate(np.maximum(asked, depth)[::-1])[::-1]
        if float((bands * np.minimum(deep, 1.0)).sum()) - labelled <= room:
            goal = last
    if goal is None:
        hope = guess[certified] + 0.5 / np.sqrt(PRIOR + depth[certified] * total[certified])
        return certified if hope > precision else None
    short = [at for at in range(goal, certified - 1, -1) if depth[at] < wanted[at]]
    return short[0] if short else certified


def _needed(true: float, precision: float, need: float, pairs: float) -> float:
    if true <= precision:
        return pairs
    return min(MORE * float(np.log(need)) / _divergence(true, precision), pairs)


def _divergence(q: float, p: float) -> float:
    q, p = min(q, 1.0 - 1e-6), min(p, 1.0 - 2e-6)  # a precision of 1 is shown by labels of every pair only
    return float(q * np.log(q / p) + (1.0 - q) * np.log((1.0 - q) / (1.0 - p)))


def _guess(labels: NDArray[np.bool_], expected: float) -> float:
    """Precision of a list by its labels and what was expected."""
    return float((labels.sum() + PRIOR * expected) / (len(labels) + PRIOR))


def labels_needed(true_precision: float, precision: float, confidence: float = 0.95) -> int:
    """Labels that would probably show a list of `true_precision` to have `precision`; at least as many as a
    list of some room above it would need."""
    q = max(true_precision, precision + 0.5 * (1.0 - precision))
    return int(np.ceil(MORE * np.log(1.0 / (1.0 - confidence)) / _divergence(q, precision)))


def permanent_order(ids: Ids, seed: int) -> Floats:
    """(n,) the random number of each pair, from 0 to 1, the same whenever it is asked for (SplitMix64)."""
    z = ids.astype(np.uint64) + np.uint64((0x9E3779B97F4A7C15 * (seed + 1)) % 2**64)
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) / 2.0**53

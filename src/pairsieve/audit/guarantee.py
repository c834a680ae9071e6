"""Lists with a guarantee: one that lacks the precision asked for, of its pairs that nobody labelled, or the
recall, is shown with a chance of at most 1 - confidence.

**Nested lists in a fixed sequence.** Candidate lists grow from one that should be shown to be precise to ones
that should not. Each is tested in this order, at the full level 1 - confidence, until one is not shown to be
precise: the list before it is returned. A wrong list is returned only if the first wrong one passes, so no
correction for many lists is needed (fixed-sequence testing; Learn then Test, Angelopoulos et al. 2021). The
anchor, SUPG (Kang et al., VLDB 2020), splits the level over all candidates.

**Labels in one random order.** Every pair has a random number that never changes (permanent random numbers,
Ohlsson 1995). The pairs of a list with the smallest ones are a simple random sample of it. Samples of nested
lists overlap: with n labels each, lists from N₁ to N₂ pairs take n·(1 + log(N₂ / N₁)) labels in all.

**An exact test.** Of N pairs n are labelled, x of them matches. If the pairs left have not the precision P,
there are at most ⌈P·(N - n)⌉ - 1 + x matches, and x or more among n of them are hypergeometric. A list passes
where that has a chance of at most 1 - confidence. The promise is of the pairs left, not of those looked at:
labels given for other lists or by an earlier check, m with y matches, are no longer left either: then it is
⌈P·(N - n - m)⌉ - 1 + x + y (`left_precise`). A pair answered "unsure" is left, and counts as no match.

**The plan** (the first list, and how many non-matches the labels of a list may hold) is fixed before any
label is asked: the one that brings most, on average over what the calibration may be wrong by (`plan_lists`).
Planning decides how long a list is shown, never what is certified.

**Recall** is of the matches among the best-scored pairs down to a rank fixed beforehand (the reach). A
quarter of the labels is drawn from the pairs at the top, which will be listed, and says how many matches
these hold at least. The others are drawn from the pairs between them and the reach, all with one chance, and
say how many matches a list misses at most, and has at least besides those at the top. Where the top ends is
planned for the most precise list (`plan_top`): no list is shorter. Lists are tested from the longest, which
misses nothing within reach, to shorter ones, until one is not shown to have the recall. All limits are exact
(Clopper and Pearson 1934) and melded (Fay, Proschan and Brittain 2015). Fewer, larger groups of pairs bring
more here: the limits of many strata with a few labels each add up.

**Beyond the reach** lie millions of pairs, of which n labels without a match leave room for 3 / n: no limit
that assumes nothing is of use there. Where the drawn labels say that matches do not end within reach, they
are taken to go on, thinning like rank^-1.5 (`matches_beyond`), and count as missed. Then often no list has
the recall, and none is shown. What is promised is of the matches within reach; matches far beyond, of which
nothing near its end gives a sign, nobody sees.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.audit.calibrate import THINNING
from pairsieve.audit.draws import FIRST_STRATUM, Counts, Floats, reach_rank
from pairsieve.measure.curve import Curve
from pairsieve.models.head import fit_head
from pairsieve.numeric import logit, sigmoid
from pairsieve.pairs import Ids, Mask, Scores, is_member

GROWTH = 1.06  # of a candidate list over the one before
SHORTEST, LONGEST = 0.2, 3.0  # first lists tried in planning, as multiples of the guess
FREEDOM = 3.0  # of the error of the expected log-odds, by Student's t
SPREAD, SPREAD_BELOW = 0.5, 0.8  # its scale where lists end, and where matches are rare
SCENARIOS = 60  # of that error, in planning
FLAWS = (0.0, 0.0, 0.01, 0.03)  # share of pairs that do not match however high they score, in these
FAILURES = (0, 1, 2, 4, 7, 11, 16)  # non-matches allowed among the labels of a list: plans that are tried
ASKED_AT_ONCE = 10
TOP_SHARE = 4  # one label in four of a recall's check goes to the pairs that will be listed
PLACES = 80  # at which the shortest list in question may end
LABELS_PER_MISSED, NEAREST = 6.0, 1.5  # how far a recall's check reaches: see `recall_reach`
SURE = 0.9  # of the matches expected in a list: what its labels will show
CANDIDATES = 60  # lists that a recall's check tries
MELDED = 10_000  # draws of limits
NOT_DRAWN = -2
MORE = 1.2  # labels that a list needs, over what it would need on average

# Labels of pairs (1, 0, or -1: unsure); None while they are waited for.
Ask = Callable[[Ids], "NDArray[np.int8] | None"]


@dataclass(frozen=True)
class Plan:
    """Which lists are tested, and by how many labels each."""

    places: Counts  # on the grid of thresholds, ascending in size
    failures: int  # non-matches that the sample of a list may hold; with the list's size that says how large


@dataclass(frozen=True)
class CheckedList:
    """What a check found: the longest list shown to be precise enough, if any."""

    certified: int  # how many of the candidate lists, in their order; 0: none
    labels: int  # that were asked for
    wanted: int  # labels more that would probably show the first list; 0 where one is shown
    waiting: int = 0  # labels asked for and not yet given
    left: int = 0  # pairs of the list shown that have no label
    failed: bool = False  # whether a longer list was not shown; else labels ran out


def _chance(pairs: int, labels: ArrayLike, failures: ArrayLike, precision: float) -> Floats:
    """How likely so few non-matches among the labels are, if the pairs left are just not precise enough."""
    from scipy.stats import hypergeom

    n, x = np.asarray(labels), np.asarray(labels) - np.asarray(failures)
    fewest = np.ceil(precision * (pairs - n) - 1e-9) - 1  # matches left, one too few
    return np.where(n < pairs, hypergeom.sf(x - 1, pairs, np.maximum(fewest, 0) + x, n), 0.0)


@lru_cache(maxsize=4096)
def allowed_failures(pairs: int, sample: int, precision: float, confidence: float = 0.95) -> int:
    """Most non-matches among `sample` labels of a list of `pairs` with which it passes; -1: it cannot."""
    if sample >= pairs:
        return sample
    passes = _chance(pairs, sample, np.arange(sample + 1), precision) <= 1.0 - confidence
    return int(np.argmin(passes)) - 1 if not passes.all() else sample


@lru_cache(maxsize=4096)
def sample_size(pairs: int, failures: int, precision: float, confidence: float = 0.95) -> int:
    """The fewest labels of a list that may hold so many non-matches; all its pairs where it takes them."""
    # Of a very long list; a shorter one takes a few more, as the promise is of the pairs left.
    least = _of_long_list(failures, precision, confidence)
    if least >= pairs:
        return pairs
    labels = np.arange(least, min(pairs, 2 * least + 20) + 1)
    passes = _chance(pairs, labels, failures, precision) <= 1.0 - confidence
    return int(labels[np.argmax(passes)]) if passes.any() else pairs


@lru_cache(maxsize=256)
def _of_long_list(failures: int, precision: float, confidence: float) -> int:
    from scipy.stats import binom

    most = int(min((failures + 5) * 5 / max(1.0 - precision, 1e-6), 10_000_000))
    low, high = failures + 1, most
    while low < high:
        middle = (low + high) // 2
        enough = binom.cdf(failures, middle, 1.0 - precision) <= 1.0 - confidence
        low, high = (low, middle) if enough else (middle + 1, high)
    return low


def plan_lists(
    found: ArrayLike, expected: ArrayLike, precision: float, budget: int, confidence: float = 0.95
) -> Plan:
    """The sequence of lists, on a grid of thresholds, that should show most with `budget` labels.

    found, expected: (g,) how many unlabelled pairs reach each of descending thresholds, and how precise they
    are expected to be. No list where the budget is too small for any.
    """
    size, share = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    some = np.flatnonzero(size >= 1)
    nothing = Plan(np.empty(0, np.int64), 0)
    if not len(some) or budget < 1:
        return nothing
    good = np.flatnonzero((share >= precision) & (size >= 1))
    guess = max(size[good[-1]] if len(good) else 0.0, float(budget))
    best, gain = nothing, 0.0
    for start in guess * np.geomspace(SHORTEST, LONGEST, 16):
        for failures in FAILURES:
            if (sample := sample_size(_rounded(start), failures, precision, confidence)) > budget:
                break
            last = max(start, sample) * np.exp(budget / sample - 1.0)
            steps = int(np.log(max(last / start, 1.0)) / np.log(GROWTH)) + 1
            places = np.searchsorted(size, start * GROWTH ** np.arange(steps), side="right") - 1
            plan = Plan(np.unique(np.maximum(places, some[0])).astype(np.int64), failures)
            if sample_size(int(size[plan.places[0]]), failures, precision, confidence) > budget:
                continue  # sizes were rounded: a first list that cannot be tested shows nothing
            brought = _expected_gain(size, share, plan, precision, confidence)
            if brought > gain:
                best, gain = plan, brought
    return best


def _rounded(pairs: float) -> int:
    """To two digits, so that sizes of samples are found again."""
    step = 10.0 ** max(np.floor(np.log10(max(pairs, 1.0))) - 1.0, 0.0)
    return int(max(np.round(pairs / step) * step, 1.0))


@lru_cache(maxsize=2)
def _errors(scale: float) -> Floats:
    """By how much the expected log-odds may be wrong: quantiles of Student's t."""
    from scipy.stats import t

    return scale * t.ppf((np.arange(SCENARIOS) + 0.5) / SCENARIOS, FREEDOM)


def _expected_gain(size: Floats, share: Floats, plan: Plan, precision: float, confidence: float) -> float:
    """Matches in the list shown over those in the best one: the mean over errors of the expectation."""
    places = plan.places
    error = _errors(SPREAD)
    every = np.unique(np.concatenate([places, np.searchsorted(size, np.geomspace(1, size[-1], 80))]))
    every = every[(every < len(size)) & (size[every] >= 1)]
    width = np.diff(size[every], prepend=0.0)
    rate = np.diff(size[every] * share[every], prepend=0.0) / np.maximum(width, 1e-9)
    rates = sigmoid(logit(np.clip(rate, 1e-4, 1.0 - 1e-4))[None] + error[:, None])  # (scenarios, grid)
    rates = rates * (1.0 - np.resize(FLAWS, SCENARIOS))[:, None]
    matches = np.cumsum(rates * width, axis=1)
    best = np.where(matches / size[every] >= precision, matches, 0.0).max(axis=1)
    lists = np.searchsorted(every, places)
    # Labels: of each list's new pairs as many as its depth asks for, with random numbers below that depth.
    total = size[places]
    samples = [sample_size(_rounded(pairs), plan.failures, precision, confidence) for pairs in total]
    depth = np.minimum.accumulate(np.minimum(np.array(samples) / total, 1.0))
    wanted = np.diff(total, prepend=0.0) * depth
    counts = np.diff(np.floor(np.cumsum(wanted) + 0.5), prepend=0.0).astype(np.int64)
    band = np.repeat(np.arange(len(places)), counts)
    new = np.diff(matches[:, lists], prepend=0.0, axis=1) / np.maximum(np.diff(total, prepend=0.0), 1e-9)
    rng = np.random.default_rng(0)
    wrong = rng.random((SCENARIOS, len(band))) >= new[:, band]
    at = rng.random((SCENARIOS, len(band))) * depth[band]
    passed = np.ones(SCENARIOS, bool)
    gain = np.zeros(SCENARIOS)
    for place in range(len(places)):
        inside = (band <= place) & (at <= depth[place])
        passed &= ((wrong & inside).sum(axis=1) <= plan.failures) | (depth[place] >= 1.0)
        gain = np.where(passed, matches[:, lists[place]], gain)
    return float(np.mean(np.where(best > 0, np.minimum(gain / np.maximum(best, 1e-9), 1.0), 1.0)))


@dataclass(frozen=True, eq=False)
class PairsInQuestion:
    """The pairs that had no label before a check, in the order of their random numbers.

    before: those of them that earlier checks of the same ranking had labelled (sorted), and their labels.
    unanswered: scores of other pairs that were asked and have no label; they are listed and cannot be drawn.
    """

    ids: Ids  # (n,)
    scores: Scores  # (n,)
    before: tuple[Ids, NDArray[np.int8]] = (np.empty(0, np.int64), np.empty(0, np.int8))
    unanswered: Scores = field(default_factory=lambda: np.empty(0, np.float32))

    def sample(self, threshold: float, count: int) -> Ids:
        """The first pairs of a list, in random order."""
        return self.ids[self.scores >= np.float32(threshold)][:count]


def left_precise(
    pairs: int,
    sample: int,
    right: int,
    others: tuple[int, int],
    left: int,
    precision: float,
    confidence: float,
) -> bool:
    """Whether a list is shown to be precise where nobody labelled it.

    pairs: of the list that were in question; sample: drawn from them, right: labelled matches among these.
    others: pairs of the list labelled outside the sample, and matches among them, which say nothing of
    chance, but are no longer left. left: pairs that have no label now. If these have not the precision, there
    are at most ⌈precision · left⌉ - 1 matches among them, so that many and those labelled in all.
    """
    from scipy.stats import hypergeom

    if left <= 0:
        return True
    most = int(np.ceil(precision * left - 1e-9)) - 1 + right + others[1]
    return bool(hypergeom.sf(right - 1, pairs, min(most, pairs), sample) <= 1.0 - confidence)


def check_precision(
    question: PairsInQuestion,
    thresholds: Sequence[float],
    failures: int,
    ask: Ask,
    precision: float,
    budget: int,
    confidence: float = 0.95,
    at_once: int = ASKED_AT_ONCE,
) -> CheckedList:
    """The longest list of the sequence whose unlabelled pairs are shown to have `precision`.

    thresholds: of the candidate lists, ascending in size. failures: that a list's labels may hold, which says
    how many they are. ask: asking again for a pair costs nothing, so an interrupted check is run again from
    its start. At most `budget` labels are asked for, `at_once` together. A pair whose answer is "unsure"
    stays in the list without a label, and counts as no match.
    """
    if not len(thresholds):
        return CheckedList(0, 0, labels_needed(precision, confidence))
    sizes = [int((question.scores >= np.float32(threshold)).sum()) for threshold in thresholds]
    samples = [
        question.sample(threshold, sample_size(size, failures, precision, confidence)).tolist()
        for threshold, size in zip(thresholds, sizes)
    ]
    earlier = dict(zip(question.before[0].tolist(), question.before[1].tolist()))
    known: dict[int, int] = {}
    certified, failed = 0, False
    for at, (sample, size) in enumerate(zip(samples, sizes)):
        allowed = allowed_failures(size, len(sample), precision, confidence)
        while True:
            wrong = sum(pair in known and known[pair] != 1 for pair in sample)
            missing = [pair for pair in sample if pair not in known]
            if wrong > allowed or not missing or len(known) + len(missing) > budget:
                break
            # What the next lists need is asked along, up to a batch.
            ahead = (pair for later in samples[at + 1 :] for pair in later if pair not in known)
            part = list(dict.fromkeys([*missing, *ahead]))[: min(at_once, budget - len(known))]
            given = ask(np.array(part, np.int64))
            if given is None:
                return CheckedList(certified, len(known) + len(part), 0, len(part))
            known.update(zip(part, given.tolist()))
        failed = wrong > allowed
        if failed or missing:
            break
        failed = not _passes(question, thresholds[at], sample, {**earlier, **known}, precision, confidence)
        if failed:
            break
        certified = at + 1
    # Labels asked for longer lists lie in the shorter ones too, and are no longer left there.
    labels = {**earlier, **known}
    tried = zip(thresholds[:certified], samples)
    passes = (_passes(question, *each, labels, precision, confidence) for each in tried)
    certified = sum(itertools.takewhile(bool, passes))
    if certified:
        left = _left(question, thresholds[certified - 1], labels)[2]
        return CheckedList(certified, len(known), 0, left=left, failed=failed)
    right = sum(label == 1 for label in known.values())
    return CheckedList(0, len(known), max(labels_needed(precision, confidence) - right, 10))


def _passes(
    question: PairsInQuestion,
    threshold: float,
    sample: Sequence[int],
    labels: Mapping[int, int],
    precision: float,
    confidence: float,
) -> bool:
    """`left_precise` of one list, by all labels there are now (1, 0, or -1: unsure)."""
    pairs, given, left = _left(question, threshold, labels)
    own = np.isin(given, np.array(sample, np.int64))
    match = np.array([labels[pair] == 1 for pair in given.tolist()], bool)
    others = int((~own).sum()), int((match & ~own).sum())
    return left_precise(pairs, len(sample), int((match & own).sum()), others, left, precision, confidence)


def _left(question: PairsInQuestion, threshold: float, labels: Mapping[int, int]) -> tuple[int, Ids, int]:
    """Of a list: how many pairs were in question, those that have a label now, how many have none."""
    inside = question.scores >= np.float32(threshold)
    given = np.array([pair for pair, label in labels.items() if label >= 0], np.int64)
    given = given[is_member(given, np.sort(question.ids[inside]))]
    unanswered = int((question.unanswered >= np.float32(threshold)).sum())
    return int(inside.sum()), given, int(inside.sum()) - len(given) + unanswered


@dataclass(frozen=True)
class RecallSample:
    """The pairs within reach that nobody had labelled, and the labels of those drawn."""

    scores: Scores  # (n,)
    labels: NDArray[np.int8]  # (n,) 1, 0, -1: unsure, -2: not drawn
    top: float  # pairs that score so much will be listed; the others are in question
    known: int  # labelled matches within reach, listed in any case


def plan_top(
    found: ArrayLike, matches: ArrayLike, known: float, recall: float, labels: int, confidence: float = 0.95
) -> int:
    """Where the shortest list in question ends: a place on a grid of descending thresholds.

    found, matches: (g,) unlabelled pairs at or above each, down to the reach, and the matches expected there.
    labels: that will be drawn below the list. The nearer it ends to the reach, the fewer missed matches can
    be shown; but no list that is shown is shorter. It is the place that brings the most precise list, on
    average over what the expectation may be wrong by and the labels that may be drawn.
    """
    from scipy.stats import gamma

    size, right = np.asarray(found, np.float64), np.asarray(matches, np.float64)
    grid = np.unique(np.searchsorted(size, np.geomspace(1.0, size[-1], PLACES)))
    width = np.diff(size[grid], prepend=0.0)
    rate = np.diff(right[grid], prepend=0.0) / np.maximum(width, 1e-9)
    error = _errors(SPREAD_BELOW)
    rates = sigmoid(logit(np.clip(rate, 1e-6, 1.0 - 1e-6))[None] + error[:, None])  # (scenarios, grid)
    there = rates * width
    upto = np.cumsum(there, axis=1)
    precision = (known + upto) / (known + size[grid])
    enough = known + upto >= recall * (known + upto[:, -1:])
    best = np.take_along_axis(precision, enough.argmax(axis=1)[:, None], axis=1)[:, 0]
    beyond = rates[:, -1] * size[-1] / (THINNING - 1.0)
    counts = np.arange(labels + 2)
    most, fewest = gamma.ppf(confidence, counts + 1.0), gamma.ppf(1.0 - confidence, np.maximum(counts, 1e-9))
    chosen, gain = 0, -1.0
    for top in range(len(grid) - 1):
        chance = min(labels / max(size[-1] - size[grid[top]], 1.0), 1.0)
        hits = np.random.default_rng(0).poisson(chance * there[:, top + 1 :])
        below = np.minimum(np.cumsum(hits[:, ::-1], axis=1)[:, ::-1], labels + 1)  # of lists from `top` on
        between = np.minimum(np.cumsum(hits, axis=1) - hits, labels + 1)
        missed = most[below] / chance * (1.0 - chance)
        shown = known + SURE * upto[:, top : top + 1] + fewest[between] / chance
        far = np.where(hits.any(axis=1), beyond, 0.0)[:, None]
        passes = (missed + far <= (1.0 - recall) / recall * shown)[:, ::-1]
        steps = np.minimum.accumulate(passes, axis=1).sum(axis=1)  # lists shown, from the longest on
        ends = len(grid) - 1 - steps
        brought = np.minimum(precision[np.arange(len(ends)), ends] / np.maximum(best, 1e-9), 1.0)
        brought *= far[:, 0] <= (1.0 - recall) / recall * (known + SURE * upto[:, -1])
        if (mean := float(np.sqrt(brought).mean())) > gain:
            chosen, gain = int(grid[top]), mean
    return chosen


def recall_reach(every: Curve, free: Curve, recall: float, labels: int, drawn: int) -> float:
    """How far a check of `recall` reaches: the lowest score.

    every, free: what is expected of all pairs, and of those without a label. labels: of the check; drawn:
    with known chances before it. The reach is that of an audit with so many labels (`draws.reach_rank`), or
    nearer, where the labels could not show a list of the pairs that should be listed to have the recall:
    1 + labels / 6 · (1 - recall) / recall times these, but half more at least. They are the first that should
    have the recall within that reach, and of the pairs that are more likely matches than not: what a curve
    expects of the millions of pairs beyond is no part of it. Two pairs for each label are within reach.
    """
    right, size = every.true_positives, every.true_positives + every.false_positives
    shown = 1.0 + labels / LABELS_PER_MISSED * (1.0 - recall) / recall
    far = np.array([min(reach_rank(int(each), labels + drawn), max(shown, NEAREST) * each) for each in size])
    likely = np.flatnonzero(np.diff(right, prepend=0.0) >= 0.5 * np.maximum(np.diff(size, prepend=0.0), 1e-9))
    least = right[likely[-1]] if len(likely) else 0.0
    enough = recall * np.maximum(np.interp(far, size, right), least)
    good = np.flatnonzero((right >= enough) & (size >= 1))
    rank = far[good[0]] if len(good) else size[-1]
    place = min(int(np.searchsorted(size, max(rank, float(FIRST_STRATUM)))), len(size) - 1)
    new = free.true_positives + free.false_positives
    least_new = min(int(np.searchsorted(new, 2.0 * labels)), len(new) - 1)
    return float(max(min(every.thresholds[place], free.thresholds[least_new]), -1.0))


def split_labels(labels: int, above: int, below: int) -> tuple[int, int]:
    """How many of `labels` are drawn from the pairs that will be listed, and from those in question."""
    first = min(labels // TOP_SHARE, above)
    return first, min(labels - first, below)


def matches_beyond(sample: RecallSample) -> float:
    """Matches expected beyond the reach: the rate at its end, N·r of which rank^-1.5 leaves twice as many.

    The rate is that of a logistic regression of the labels in question on the logarithm of the rank.
    """
    rank = np.argsort(np.argsort(-sample.scores, kind="stable")) + 1.0
    drawn = (sample.scores < np.float32(sample.top)) & (sample.labels > NOT_DRAWN)
    match = sample.labels[drawn] != 0
    if not match.any():
        return 0.0
    weight, bias = fit_head(-np.log(rank[drawn]), match)
    rate = float(sigmoid(np.array(bias - weight * np.log(len(rank)))))
    return rate * len(rank) / (THINNING - 1.0)


def shortest_list(
    sample: RecallSample, recall: float, rng: np.random.Generator, confidence: float = 0.95
) -> float | None:
    """The threshold of the shortest list that is shown to have `recall`; None where none is.

    Of the matches within reach and those expected beyond it, which no list has. An unsure answer counts as no
    match above `top`, and as a match below.
    """
    top = sample.scores >= np.float32(sample.top)
    seen = sample.labels > NOT_DRAWN
    sure = sample.known + int((~top & (sample.labels == 1)).sum())

    def at_least(pairs: Mask) -> Counts:
        """Draws of the lower limit of the matches among these pairs that nobody labelled."""
        n, x = int((pairs & seen).sum()), int((pairs & (sample.labels == 1)).sum())
        share = rng.beta(x, n - x + 1.0, MELDED) if x else np.zeros(MELDED)
        return rng.binomial(int(pairs.sum()) - n, share)

    listed = sure + int((top & (sample.labels == 1)).sum()) + at_least(top)
    scores, beyond = np.unique(sample.scores[~top]), matches_beyond(sample)
    shown: float | None = None
    if not len(scores):
        return float(sample.scores.min()) if len(sample.scores) else sample.top
    places = np.unique(np.linspace(0, len(scores), CANDIDATES).astype(np.int64))
    for place in places.tolist():  # the first `place` of the scores in question are left out
        threshold = sample.top if place == len(scores) else float(scores[place])
        out = sample.scores < np.float32(threshold)
        n, x = int((out & seen).sum()), int((out & seen & (sample.labels != 0)).sum())
        rate = rng.beta(x + 1.0, n - x, MELDED) if x < n else np.ones(MELDED)
        missed = rng.binomial(int(out.sum()) - n, rate) + beyond
        found = listed + at_least(~top & ~out)
        share = np.divide(found, found + missed, out=np.ones(MELDED), where=found + missed > 0)
        if np.quantile(share, 1.0 - confidence) < recall:
            break
        shown = threshold
    return shown


def labels_needed(precision: float, confidence: float = 0.95) -> int:
    """Labels that would probably show a list that is half as wrong as allowed to have `precision`."""
    q = min(precision + 0.5 * (1.0 - precision), 1.0 - 1e-6)
    p = min(precision, 1.0 - 2e-6)  # a precision of 1 is shown by labels of every pair only
    divergence = q * np.log(q / p) + (1.0 - q) * np.log((1.0 - q) / (1.0 - p))
    return int(np.ceil(MORE * np.log(1.0 / (1.0 - confidence)) / divergence))


def permanent_order(ids: Ids, seed: int) -> Floats:
    """(n,) the random number of each pair, from 0 to 1, the same whenever it is asked for (SplitMix64)."""
    z = ids.astype(np.uint64) + np.uint64((0x9E3779B97F4A7C15 * (seed + 1)) % 2**64)
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) / 2.0**53

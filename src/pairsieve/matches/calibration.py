"""Expected precision and recall at every threshold: from dev's truth, from labels, or from an audit.

**dev**: the truth of the dev split gives exact counts there. The space to be matched may be larger:
non-matches grow with the number of pairs, matches with the number of texts. So each dev false match counts as
(pairs / dev pairs) / (texts / dev texts) of them. The interval draws dev's texts again.

**labels**: the labels of a campaign are no random sample: they were asked where the model was in doubt.
Taken as they are they say nothing of the pairs nobody asked about. But the choice depended on scores, so the
*rate* of matches at a score can be learned from them: a logistic curve σ(a·z + c), fitted to the out-of-fold
log-odds z of the labelled pairs. Expected matches at or above a threshold are then the labelled matches there
plus the sum of that rate over all unlabelled pairs there, which are counted exactly. The curve ends below the
scores at which labels were asked. How many matches stand below any threshold, which recall needs, is
estimated with wide intervals (`remaining.py`); precision's interval resamples left texts and lets the odds of
all unlabelled pairs be off together.

**audit**: labels drawn with known chances; expected matches by strata of the ranking (`audit/estimate.py`).

The test split is never asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import Estimate, generator_for
from pairsieve.errors import InputError
from pairsieve.matches.listing import Known
from pairsieve.matches.ranking import Ranking
from pairsieve.matches.remaining import OFF, drawn_left, rates_off
from pairsieve.matches.threshold import OperatingPoint
from pairsieve.measure.curve import Curve
from pairsieve.measure.intervals import times_drawn
from pairsieve.models.head import fit_head
from pairsieve.numeric import sigmoid
from pairsieve.pairs import Ids, is_member, pair_rows
from pairsieve.tasks import Split

if TYPE_CHECKING:
    from pairsieve.campaign.training import OutOfFold
    from pairsieve.ledger import Ledger

REPEATS = 200  # resamples behind an interval
UNSUPPORTED = 0.02  # below this quantile of the labelled pairs' logits the labels are taken to say nothing
RESAMPLED = 2_000_000  # dev pairs above a line whose texts are drawn again; of more, the count is kept

Logits = NDArray[np.float64]
Labels = NDArray[np.bool_]
Interval = Callable[[OperatingPoint, bool], tuple[Estimate, Estimate]]


@dataclass(frozen=True, eq=False)
class ExpectedCurve:
    """A curve, what it rests on, and, where it was estimated, how to put an interval on a point."""

    curve: Curve
    basis: str  # what it rests on, in words
    source: str  # dev, labels or audit
    listed: Curve | None = None  # of the list as it is written, labelled pairs counting as what they are
    interval: Interval | None = None  # (point, of the list as written or by score alone) -> precision, recall
    trust: str = ""  # how far the figures can be trusted, in a sentence


def from_dev(dev: Ranking, split: Split, seed: int = 0, held_out: bool = True) -> ExpectedCurve:
    """The exact curve of the dev split, its false matches scaled to the space to be matched.

    held_out: whether no pair of dev was among those that could be asked about.
    """
    exact, here, there = dev.curve(), split.space, dev.split.space
    factor = (here.size / there.size) / (sum(here.shape) / sum(there.shape))
    scaled = Curve(exact.thresholds, exact.true_positives, exact.false_positives * factor, exact.positives)
    words = f"the truth of {dev.split.name} ({len(dev.split.positives):,} matches)"
    if abs(factor - 1) > 1e-9:
        words += f", each of its false matches counted {factor:.3g} times"

    def interval(point: OperatingPoint, listed: bool) -> tuple[Estimate, Estimate]:
        """By score alone: dev's pairs count as often as both of their texts are drawn again."""
        pieces: list[Ids] = [np.empty(0, np.int64)]
        at = int((exact.thresholds >= np.float32(point.threshold)).sum()) - 1
        false_there = float(exact.false_positives[at]) if at >= 0 else 0.0
        found = false_there + (float(exact.true_positives[at]) if at >= 0 else 0.0)
        if found <= RESAMPLED:
            dev.collect(point.threshold, 1e30, lambda ids, scores: pieces.append(ids))
        above = np.concatenate(pieces)
        positives = dev.split.positives
        good = is_member(above, positives)
        reached = dev.scores(positives) >= np.float32(point.threshold)
        rows = [pair_rows(ids) for ids in (positives, above[~good])]
        rng = generator_for(seed, 0, "match interval")
        drawn = []
        for _ in range(REPEATS):
            left, right = times_drawn(there, rng)
            weight, wrong = (left[one] * right[other] for one, other in rows)
            true, every = float(weight[reached].sum()), float(weight.sum())
            false = float(wrong.sum()) if found <= RESAMPLED else false_there
            if every > 0 and true + false > 0:
                drawn.append((true / (true + factor * false), true / every))
        how = f"exact on {dev.split.name}; 95 % by {REPEATS} resamplings of its texts"
        return _between_ends(point, drawn, len(positives), how)

    asked = f"Pairs of {dev.split.name} could be asked about and trained on"
    trust = "" if held_out else f"{asked}: these figures are not held out, and too good."
    return ExpectedCurve(scaled, words, "dev", interval=interval, trust=trust)


def from_labels(
    ranking: Ranking, labelled: OutOfFold, known: Known, seed: int, left: Estimate | None = None
) -> ExpectedCurve:
    """Expected matches at every threshold, from the labels given.

    `known`: labelled pairs of the ranked split, which count as what they are; `listed` is the curve of a list
    that holds every known match and no known non-match. `left`: matches among all unlabelled pairs, by the
    word of the batches (`remaining.matches_left`).
    """
    labels = labelled.labels
    if labels.all() or not labels.any():
        what = f"all {len(labels):,} labels given are {'matches' if labels.any() else 'non-matches'}"
        remedy = "Ask for more labels, or give `threshold` or `count`"
        raise InputError(what, why="a threshold lies between the two", remedy=remedy)
    weight, bias = fit_head(labelled.log_odds, labels)
    grid, free, matches, others = _between(ranking, known)
    logits = ranking.log_odds(grid)
    alone = ranking.scorer.reranker is None
    supported = logits >= np.quantile(labelled.log_odds, UNSUPPORTED)
    every_known, unlabelled = float(known.labels.sum()), np.cumsum(free)
    spoken_of = np.where(supported, free, 0.0)  # unlabelled pairs of which the labels say something
    rng = generator_for(seed, 0, "match interval")
    heads = _heads(labelled, rng) or [(weight, bias)]
    off = OFF * rng.standard_normal(len(heads))

    def drawn(down_to: int) -> Logits:
        """(draws,) matches among the unlabelled pairs of the first `down_to` thresholds."""
        z, pairs = logits[:down_to], spoken_of[:down_to]
        sums = [rates_off(a * z + c, by[None])[0] @ pairs for (a, c), by in zip(heads, off)]
        return np.array(sums, np.float64)

    total = drawn(len(grid))
    if left is not None:
        batches = drawn_left(left, len(heads), rng)
        total = batches if alone else np.where(np.arange(len(heads)) % 2, batches, total)
    middle = float(np.median(total))
    expected = np.cumsum(spoken_of * sigmoid(weight * logits + bias))
    expected = np.minimum(expected, middle) if left is not None else expected
    positives = max(middle, float(expected[-1])) + every_known

    def curve(known: NDArray[np.float64] | float, held: NDArray[np.float64] | float) -> Curve:
        """With so many known matches among so many labelled pairs of the list, down to each threshold."""
        true, found = expected + known, unlabelled + held
        use = supported & (found > 0)
        return Curve(grid[use], true[use], (found - true)[use], max(positives, 1e-12))

    def interval(point: OperatingPoint, listed: bool) -> tuple[Estimate, Estimate]:
        """Of the list as it is written, labelled pairs counting as what they are, or by score alone."""
        at = max(int((grid >= np.float32(point.threshold)).sum()), 1)
        sure = every_known if listed else float(matches[:at].sum())
        found = float(unlabelled[at - 1]) + (sure if listed else float((matches + others)[:at].sum()))
        some, here = drawn(at), float(unlabelled[at - 1])
        chance = generator_for(seed, 1, "match interval")  # of the pairs themselves, given their rates
        some = np.maximum(here - chance.poisson(np.maximum(here - some, 0.0)), 0.0)
        precision = (some + sure) / max(found, 1.0)
        recall = (some + sure) / np.maximum(np.maximum(total, some) + every_known, 1e-12)
        how = f"{len(labels):,} labels given, logistic rate; 95 % by bootstrap over left texts, odds off by "
        how += f"a factor of exp(±{OFF:g})"
        return _between_ends(point, list(zip(precision, recall)), len(labels), how)

    words = f"the {len(labels):,} labels given ({int(labels.sum()):,} matches)"
    by_score = curve(np.cumsum(matches), np.cumsum(matches + others))
    listed = curve(every_known, every_known)
    trust = _trust(total, left is not None, alone)
    return ExpectedCurve(by_score, words, "labels", listed, interval, trust)


def from_audit(ranking: Ranking, ledger: Ledger, seed: int) -> ExpectedCurve:
    """Expected matches by strata of the ranking, from audit labels."""
    from pairsieve.audit.draws import TRAIN, cut_ranking
    from pairsieve.audit.estimate import estimate_audit, stratum_counts
    from pairsieve.audit.run import asked_pairs

    if not ledger.rounds("audit"):
        remedy = "Run pairsieve audit first, or take the threshold from labels"
        raise InputError("there is no audit yet", remedy=remedy)
    if ranking.listed is not None:
        remedy = 'Leave `search` out, or use `source` "labels"'
        raise InputError("an audit speaks of all pairs, and an index lists some", remedy=remedy)
    scan = ranking.scored.scan
    asked = asked_pairs(ledger, scan)
    count = int((asked.audit > TRAIN).sum())
    strata = cut_ranking(scan, [], count)
    held = stratum_counts(strata, asked)
    expected = np.cumsum(held.expected(strata))
    found = np.maximum(np.cumsum(held.totals), 1.0)
    curve = Curve(strata.edges, expected, np.maximum(found - expected, 0.0), max(float(expected[-1]), 1e-12))

    def interval(point: OperatingPoint, listed: bool) -> tuple[Estimate, Estimate]:
        """By score alone, from the posterior of match rates along the ranking."""
        cut = cut_ranking(scan, [point.threshold], count)
        found = estimate_audit(cut, asked, point.threshold, generator_for(seed, 0, "match interval"))
        return found.precision, found.recall

    trust = "These figures are of the ranking by score; labels given since only better the list."
    return ExpectedCurve(curve, f"an audit of {count:,} labels", "audit", interval=interval, trust=trust)


def _heads(labelled: OutOfFold, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Logistic curves fitted to labels whose left texts were drawn again."""
    texts, owner = np.unique(pair_rows(labelled.ids)[0], return_inverse=True)
    heads = []
    for _ in range(REPEATS):
        times = np.bincount(rng.integers(len(texts), size=len(texts)), minlength=len(texts))[owner]
        again = np.repeat(np.arange(len(owner)), times)
        labels = labelled.labels[again]
        if labels.any() and not labels.all():
            heads.append(fit_head(labelled.log_odds[again], labels))
    return heads


def _between_ends(
    point: OperatingPoint, drawn: list[tuple[float, float]], count: int, how: str
) -> tuple[Estimate, Estimate]:
    """Precision and recall of a line with the middle 95 % of what was drawn, stretched to hold them."""
    ends = np.quantile(np.array(drawn or [(point.precision, point.recall)]), [0.025, 0.975], axis=0)
    precision, recall = (
        Estimate(value, min(float(low), value), max(min(float(high), 1.0), value), count, how)
        for value, low, high in zip((point.precision, point.recall), ends[0], ends[1])
    )
    return precision, recall


def _trust(total: Logits, by_batches: bool, alone: bool) -> str:
    """What recall rests on: the matches nobody has labelled, and who guessed their number."""
    low, middle, high = np.quantile(total, [0.025, 0.5, 0.975])
    many = f"{_two_digits(middle)} ({_two_digits(low)} to {_two_digits(high)})"
    if by_batches:
        who = "the last batches" if alone else "the last batches and by the list itself, half each"
        words = f"Recall rests on a guess at the matches nobody has labelled, about {many}, by {who}"
    elif alone:
        words = "Matches below the scores at which labels were given are not counted: recall is too high"
    else:
        words = f"Recall rests on about {many} matches that nobody has labelled among the candidates; it is "
        words += "too high by those that are no candidates"
    return f"{words}. An audit measures it."


def _two_digits(value: float) -> str:
    """A count to two digits, so that a guess does not look like one."""
    size = 10 ** max(len(str(int(value))) - 2, 0)
    return f"{round(value / size) * size:,}"


def _between(
    ranking: Ranking, labelled: Known
) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Descending thresholds (k,); unlabelled pairs, labelled matches and labelled non-matches from each on.

    "From each on" is up to the threshold before it, so that sums from the top count what a list holds.
    """
    edges, reaching = ranking.counts()
    scores = ranking.scores(labelled.ids)
    known = [
        (len(of) - np.searchsorted(np.sort(of), edges, side="left")).astype(np.float64)
        for of in (scores[labelled.labels], scores[~labelled.labels])
    ]
    free, matches, others = (
        np.diff(reach[::-1], prepend=0.0) for reach in (reaching - known[0] - known[1], *known)
    )
    return edges[::-1], np.maximum(free, 0.0), matches, others

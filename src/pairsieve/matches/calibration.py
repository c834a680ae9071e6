"""Expected precision and recall at every threshold: from dev's truth, from labels, or from drawn labels
alone.

**dev**: the truth of the dev split gives exact counts there. The space to be matched may be larger:
non-matches grow with the number of pairs, matches with the number of texts. So each dev false match counts as
(pairs / dev pairs) / (texts / dev texts) of them; as one where the splits share a side, for then both grow
alike. The interval draws dev's texts again.

**labels**: a curve from the scorer's log-odds to the probability of a match (`audit/calibrate.py`): its slope
from the labels that the campaign chose, out-of-fold; its height from those that were drawn with known
chances, where there are any. Expected matches at or above a threshold are the labelled ones there plus the
sum of the probability over all unlabelled pairs there, which are counted exactly. Where labels were drawn,
what is printed beside a list is estimated from them alone (`listed.py`).

**audit**: drawn labels alone; expected matches by strata of the ranking.

The truth of the test split is never asked; only a check (`checks.py`) of a list of test draws labels there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.audit.calibrate import calibrate, drawn_weights, expected_curve, expected_rates
from pairsieve.audit.draws import AskedPairs, cut_ranking, stratum_counts
from pairsieve.campaign.training import OutOfFold
from pairsieve.contracts import Estimate, generator_for
from pairsieve.errors import InputError
from pairsieve.matches.listing import Known
from pairsieve.matches.ranking import Ranking
from pairsieve.matches.threshold import OperatingPoint
from pairsieve.measure.curve import Curve
from pairsieve.measure.intervals import times_drawn
from pairsieve.pairs import Ids, is_member, pair_rows
from pairsieve.scorer.calibration import Calibration
from pairsieve.tasks import Split
from pairsieve.tasks.task import non_match_factor

REPEATS = 200  # resamples behind an interval
RESAMPLED = 2_000_000  # dev pairs above a line whose texts are drawn again; of more, the count is kept

Interval = Callable[[OperatingPoint], "tuple[Estimate, Estimate | None]"]


@dataclass(frozen=True, eq=False)
class ExpectedCurve:
    """A curve, what it rests on, and, where something was measured, how to put an interval on a point."""

    curve: Curve  # by score alone
    basis: str  # what it rests on, in words
    source: str  # dev, labels or audit
    listed: Curve | None = None  # of the list as it is written, labelled pairs counting as what they are
    unlabelled: Curve | None = None  # of the pairs without a label alone
    interval: Interval | None = None  # of a point by score alone -> precision, recall; of dev
    calibration: Calibration | None = None
    trust: str = ""  # how far the figures can be trusted, in a sentence


def from_dev(dev: Ranking, split: Split, seed: int = 0, held_out: bool = True) -> ExpectedCurve:
    """The exact curve of the dev split, its false matches scaled to the space to be matched.

    held_out: whether no pair of dev was among those that could be asked about.
    """
    exact, there, factor = dev.curve(), dev.split.space, non_match_factor(split, dev.split)
    scaled = Curve(exact.thresholds, exact.true_positives, exact.false_positives * factor, exact.positives)
    words = f"the truth of {dev.split.name} ({len(dev.split.positives):,} matches)"
    if abs(factor - 1) > 1e-9:
        words += f", each of its false matches counted {factor:.3g} times"

    def interval(point: OperatingPoint) -> tuple[Estimate, Estimate | None]:
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
    ranking: Ranking, labelled: OutOfFold, known: Known, asked: AskedPairs | None = None
) -> ExpectedCurve:
    """Expected matches at every threshold, from the labels given.

    `labelled`: those that the campaign chose, out-of-fold. `known`: labelled pairs of the ranked split, which
    count as what they are; `listed` is the curve of a list that holds every known match and no known
    non-match. `asked`: every pair asked of this split; those drawn with known chances correct the curve.
    """
    measuring = _drawn(asked)
    drawn = ranking.log_odds(measuring.scores), measuring.labels == 1
    labels = np.concatenate([labelled.labels, drawn[1]])
    if labels.all() or not labels.any():
        what = f"all {len(labels):,} labels given are {'matches' if labels.any() else 'non-matches'}"
        remedy = "Ask for more labels, or give `threshold` or `count`"
        why = "a threshold needs at least one match and one non-match"
        raise InputError(what, why=why, remedy=remedy)
    grid, free, matches, others = _between(ranking, known)
    logits = ranking.log_odds(grid)
    chosen_logits = labelled.log_odds
    if len(known.ids):
        # Models that saw four labels may put the fifth anywhere: no further than the scorer itself puts one.
        own = ranking.log_odds(ranking.scores(known.ids))
        chosen_logits = np.clip(chosen_logits, own.min(), own.max())
    weights = drawn_weights(measuring, ranking.scored.scan)
    curve = calibrate((chosen_logits, labelled.labels), drawn, (logits, free), weights)
    rate = expected_rates(curve, logits, free)
    by_score = expected_curve(grid, free, rate, matches, others)
    # As written: every known match is in the list from its first pair on, no known non-match ever is.
    sure = np.zeros(len(grid))
    sure[0] = matches.sum()
    listed = expected_curve(grid, free, rate, sure, np.zeros(len(grid)))
    new = expected_curve(grid, free, rate, np.zeros(len(grid)), np.zeros(len(grid)))
    chosen = f"the {len(labelled.labels):,} labels given ({int(labelled.labels.sum()):,} matches)"
    words = chosen + (f" and {curve.drawn:,} drawn" if curve.drawn else "")
    return ExpectedCurve(by_score, words, "labels", listed, new, None, curve)


def _drawn(asked: AskedPairs | None) -> AskedPairs:
    """Of the pairs asked, those drawn with known chances that have a label."""
    if asked is None:
        return AskedPairs.nothing()
    return asked.where((asked.audit > 0) & (asked.labels >= 0) & np.isfinite(asked.scores))


def from_audit(ranking: Ranking, asked: AskedPairs) -> ExpectedCurve:
    """Expected matches by strata of the ranking, from labels drawn with known chances alone."""
    count = int(((asked.audit > 0) & (asked.labels >= 0)).sum())
    if not count:
        remedy = "Run pairsieve audit first, or take the threshold from labels"
        raise InputError("there is no audit yet", remedy=remedy)
    if ranking.listed is not None:
        remedy = 'Leave `search` out, or use `source` "labels"'
        raise InputError("an audit speaks of all pairs, and an index lists some", remedy=remedy)
    strata, _ = cut_ranking(ranking.scored.scan, [], count)
    held = stratum_counts(strata, asked)
    expected = np.cumsum(held.known_matches + held.value)
    found = np.maximum(np.cumsum(held.totals), 1.0)
    curve = Curve(strata.edges, expected, np.maximum(found - expected, 0.0), max(float(expected[-1]), 1e-12))
    words = f"{count:,} labels drawn with known chances"
    return ExpectedCurve(curve, words, "audit")


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

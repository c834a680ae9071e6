"""Expected precision and recall at every threshold: from dev's truth, from labels, or from drawn labels
alone.

**dev**: the truth of the dev split gives exact counts there. The space to be matched may be larger:
non-matches grow with the number of pairs, matches with the number of texts. So each dev false match counts as
(pairs / dev pairs) / (texts / dev texts) of them; as one where the splits share a side, for then both grow
alike. The figures are exact, and of dev, on which the threshold is chosen: they have no interval.

**labels**: a curve from the scorer's log-odds to the probability of a match (`audit/calibrate.py`): its slope
from the labels that the campaign chose, out-of-fold; its height from those that were drawn with known
chances, where there are any. Expected matches at or above a threshold are the labelled ones there plus the
sum of the probability over all unlabelled pairs there, which are counted exactly. Where labels were drawn,
what is printed beside a list is estimated from them alone (`listed.py`).

**audit**: drawn labels alone: expected matches of each stratum of the ranking, inside it as the scorer says.

The truth of the test split is never asked; only a check (`checks.py`) of a list of test draws labels there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.audit.calibrate import calibrate, drawn_weights, expected_curve, expected_rates
from pairsieve.audit.draws import AskedPairs, cut_ranking, stratum_counts
from pairsieve.audit.guarantee import recall_reach
from pairsieve.campaign.training import OutOfFold
from pairsieve.errors import InputError
from pairsieve.matches.listing import Known
from pairsieve.matches.options import CHECK_LABELS
from pairsieve.matches.ranking import Ranking
from pairsieve.matches.threshold import OperatingPoint, point_through
from pairsieve.measure.curve import Curve
from pairsieve.numeric import sigmoid
from pairsieve.scorer.calibration import Calibration
from pairsieve.tasks import Split
from pairsieve.tasks.task import non_match_factor


@dataclass(frozen=True, eq=False)
class ExpectedCurve:
    """A curve, and what it rests on."""

    curve: Curve  # by score alone
    basis: str  # what it rests on, in words
    source: str  # dev, labels or audit
    listed: Curve | None = None  # of the list as it is written, labelled pairs counting as what they are
    unlabelled: Curve | None = None  # of the pairs without a label alone
    calibration: Calibration | None = None
    trust: str = ""  # how far the figures can be trusted, in a sentence

    def point(self, threshold: float, as_labelled: bool) -> OperatingPoint:
        """What is expected at a threshold, of the list as it is written or by score alone."""
        curve = self.listed if as_labelled and self.listed is not None else self.curve
        return point_through(curve, threshold)

    def within_reach(self, recall: float) -> Curve:
        """The curve down to where a check of `recall` would reach: what it expects far below is a guess that
        a few matches among millions of pairs would bend.
        """
        drawn = self.calibration.drawn if self.calibration is not None else 0
        reach = recall_reach(self.curve, self.unlabelled or self.curve, recall, CHECK_LABELS, drawn)
        inside = self.curve.thresholds >= np.float32(reach)
        right, wrong = self.curve.true_positives[inside], self.curve.false_positives[inside]
        return Curve(self.curve.thresholds[inside], right, wrong, max(float(right[-1]), 1e-12))

    @property
    def has_draws(self) -> bool:
        """Whether it rests on enough labels drawn with known chances to say what a list is worth."""
        return self.source != "dev" and (self.calibration is None or self.calibration.calibrated)


def from_dev(dev: Ranking, split: Split, held_out: bool = True) -> ExpectedCurve:
    """The exact curve of the dev split, its false matches scaled to the space to be matched.

    held_out: whether no pair of dev was among those that could be asked about.
    """
    exact, factor = dev.curve(), non_match_factor(split, dev.split)
    scaled = Curve(exact.thresholds, exact.true_positives, exact.false_positives * factor, exact.positives)
    words = f"the truth of {dev.split.name} ({len(dev.split.positives):,} matches)"
    if abs(factor - 1) > 1e-9:
        words += f", each of its false matches counted {factor:.3g} times"

    asked = f"Pairs of {dev.split.name} could be asked about and trained on"
    trust = "" if held_out else f"{asked}: these figures are not held out, and too good."
    return ExpectedCurve(scaled, words, "dev", trust=trust)


def from_labels(
    ranking: Ranking,
    labelled: OutOfFold,
    known: Known,
    asked: AskedPairs | None = None,
    more_labels: str = "",
) -> ExpectedCurve:
    """Expected matches at every threshold, from the labels given.

    `labelled`: those that the campaign chose, out-of-fold. `known`: labelled pairs of the ranked split, which
    count as what they are; `listed` is the curve of a list that holds every known match and no known
    non-match. `asked`: every pair asked of this split; those drawn with known chances correct the curve.
    `more_labels`: how more of them are come by, in words.
    """
    measuring = _drawn(asked)
    drawn = ranking.log_odds(measuring.scores), measuring.labels == 1
    labels = np.concatenate([labelled.labels, drawn[1]])
    if labels.all() or not labels.any():
        one, many = ("a match", "matches") if labels.any() else ("a non-match", "non-matches")
        what = f"all {len(labels):,} labels given are {many}"
        if len(labels) < 2:
            what = f"the only label given is {one}" if len(labels) else "no label is given"
        how = f" ({more_labels})" if more_labels else ""
        remedy = f"Ask for more labels{how}, or give `threshold` or `count`"
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
    return ExpectedCurve(by_score, words, "labels", listed, new, curve)


def _drawn(asked: AskedPairs | None) -> AskedPairs:
    """Of the pairs asked, those drawn with known chances that have a label."""
    if asked is None:
        return AskedPairs.nothing()
    return asked.where((asked.audit > 0) & (asked.labels >= 0) & np.isfinite(asked.scores))


def from_audit(ranking: Ranking, asked: AskedPairs) -> ExpectedCurve:
    """Expected matches by strata of the ranking, from labels drawn with known chances alone.

    Inside a stratum they lie as the scorer's probabilities do.
    """
    count = int(((asked.audit > 0) & (asked.labels >= 0)).sum())
    if not count:
        remedy = "Run pairsieve audit first, or take the threshold from labels"
        raise InputError("there is no audit yet", remedy=remedy)
    if ranking.listed is not None:
        remedy = 'Leave `search` out, or use `source` "labels"'
        raise InputError("an audit speaks of all pairs, and an index lists some", remedy=remedy)
    strata, _ = cut_ranking(ranking.scored.scan, [], count)
    held = stratum_counts(strata, asked)
    in_stratum = held.known_matches + np.maximum(held.value, held.hits)
    edges, reaching = ranking.counts()
    some = reaching > 0
    thresholds, pairs = edges[some][::-1], np.diff(reaching[some][::-1], prepend=0.0)
    stratum = strata.of(thresholds)
    weight = pairs * np.maximum(sigmoid(ranking.log_odds(thresholds)), 1e-12)
    share = weight / np.maximum(np.bincount(stratum, weight, len(strata)), 1e-12)[stratum]
    right = np.cumsum(np.minimum(in_stratum[stratum] * share, pairs))
    curve = Curve(thresholds, right, np.maximum(np.cumsum(pairs) - right, 0.0), max(float(right[-1]), 1e-12))
    words = f"{count:,} labels drawn with known chances"
    return ExpectedCurve(curve, words, "audit")


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

"""What does a threshold promise, and who says so? Curves from dev, from the labels bought, from an audit.

**dev**: the truth of the dev split gives exact counts there. The space to be matched may be larger:
non-matches grow with the number of pairs, matches with the number of texts. So each dev false match counts as
(pairs / dev pairs) / (texts / dev texts) of them.

**labels**: the labels a campaign bought are no random sample: they were asked where the model was in doubt.
Taken as they are they say nothing of the pairs nobody asked about. But the choice depended on scores, so the
*rate* of matches at a score can be learned from them: a logistic curve σ(a·logit + c), fitted to logits that
each labelled pair has from a model that did not train on its left text (a model is too sure of what it has
seen). Expected matches at or above a threshold are then the labelled matches there plus the sum of that rate
over all unlabelled pairs there, which are counted exactly. In the bi-encoder's ranking of all pairs nothing
is known below the scores at which labels were bought; matches there are not counted, so recall is of what
stands above. The interval resamples left texts. It rests on the logistic shape; an audit does not.

**audit**: labels drawn with known chances; expected matches by strata of the ranking
(`measure/audit_estimate.py`).

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
from pairsieve.matches.wish import Line
from pairsieve.measure.curve import Curve
from pairsieve.models.head import fit_head
from pairsieve.pairs import Ids, ScoredPairs, pair_rows
from pairsieve.tasks import Split

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign

REPEATS = 200  # resamples behind an interval
UNSUPPORTED = 0.02  # below this quantile of the labelled pairs' logits the labels are taken to say nothing

Logits = NDArray[np.float64]
Labels = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Evidence:
    """A curve, in words where it is from, and, where it was estimated, how to put an interval on a line."""

    curve: Curve
    words: str
    source: str  # dev, labels or audit
    listed: Curve | None = None  # of the list as it is written, labelled pairs counting as what they are
    interval: Callable[[Line], tuple[Estimate, Estimate]] | None = None  # (precision, recall)
    calibration: tuple[float, float] | None = None  # probability = σ(a · logit + c)


@dataclass(frozen=True, eq=False)
class Bought:
    """Labelled pairs of the campaign's split, with logits from models that did not see their left text."""

    ids: Ids
    labels: Labels
    held_out: Logits


def from_dev(dev: Ranking, part: Split) -> Evidence:
    """The exact curve of the dev split, its false matches scaled to the space to be matched."""
    exact, here, there = dev.curve(), part.space, dev.part.space
    factor = (here.size / there.size) / (sum(here.shape) / sum(there.shape))
    scaled = Curve(exact.thresholds, exact.true_positives, exact.false_positives * factor, exact.positives)
    words = f"the truth of {dev.part.name} ({len(dev.part.positives):,} matches)"
    if abs(factor - 1) > 1e-9:
        words += f", each of its false matches counted {factor:.3g} times"
    return Evidence(scaled, words, "dev")


def from_labels(ranking: Ranking, bought: Bought, known: Known, seed: int) -> Evidence:
    """Expected matches at every threshold, from the labels bought.

    `known`: labelled pairs of the ranked split, which count as what they are; `listed` is the curve of a list
    that holds every known match and no known non-match.
    """
    labels = bought.labels
    if labels.all() or not labels.any():
        raise InputError(
            f"all {len(labels):,} labels bought are {'matches' if labels.any() else 'non-matches'}",
            why="a threshold lies between the two",
            remedy="Buy more labels, or give --threshold or --count",
        )
    weight, bias = fit_head(bought.held_out, labels)
    grid, free, matches, others = _between(ranking, known)
    logits = ranking.logits(grid)
    # A second look's candidates are few, and labels were bought among all of them; all pairs have a tail.
    by_cosine = ranking.scan is not None or ranking.recall is not None
    supported = (logits >= np.quantile(bought.held_out, UNSUPPORTED)) | (not by_cosine)
    every_known = float(known.labels.sum())
    unlabelled = np.cumsum(free)

    def expected(a: float, c: float) -> NDArray[np.float64]:
        """Expected matches among unlabelled pairs down to each threshold."""
        summed: NDArray[np.float64] = np.cumsum(np.where(supported, free * _sigmoid(a * logits + c), 0.0))
        return summed

    def curve(known: NDArray[np.float64] | float, held: NDArray[np.float64] | float) -> Curve:
        """With so many known matches among so many labelled pairs of the list, down to each threshold."""
        some = expected(weight, bias)
        true, found = some + known, unlabelled + held
        use = supported & (found > 0)
        return Curve(grid[use], true[use], (found - true)[use], max(float(some[-1]) + every_known, 1e-12))

    def interval(line: Line) -> tuple[Estimate, Estimate]:
        """Of the list as it is written: labelled pairs count as what they are."""
        at = max(int((grid >= np.float32(line.threshold)).sum()) - 1, 0)
        rng = generator_for(seed, 0, "match interval")
        texts, owner = np.unique(pair_rows(bought.ids)[0], return_inverse=True)
        made = []
        for _ in range(REPEATS):
            times = np.bincount(rng.integers(len(texts), size=len(texts)), minlength=len(texts))[owner]
            again = np.repeat(np.arange(len(labels)), times)
            if labels[again].all() or not labels[again].any():
                continue
            some = expected(*fit_head(bought.held_out[again], labels[again])) + every_known
            found = max(unlabelled[at] + every_known, 1.0)
            made.append((some[at] / found, some[at] / max(some[-1], 1e-12)))
        ends = np.quantile(np.array(made or [(line.precision, line.recall)]), [0.025, 0.975], axis=0)
        words = f"{len(labels):,} labels bought, logistic rate; 95 % by bootstrap over left texts"
        precision, recall = (
            Estimate(value, min(float(low), value), max(float(high), value), len(labels), words)
            for value, low, high in zip((line.precision, line.recall), ends[0], ends[1])
        )
        return precision, recall

    words = f"the {len(labels):,} labels bought ({int(labels.sum()):,} matches)"
    by_score = curve(np.cumsum(matches), np.cumsum(matches + others))
    listed = curve(every_known, every_known)
    return Evidence(by_score, words, "labels", listed, interval, (weight, bias))


def from_second_look(ranking: Ranking, chances: ScoredPairs, known: Known) -> Evidence:
    """Expected matches down to each cosine, where the labels were chosen by a second look.

    Such labels are hard cases at any cosine, so their rate says little of the others there. But each
    candidate has a calibrated chance by the second look (`chances`), and a labelled pair is what it is; the
    rest counts as no match.
    """
    free = chances.without(known.ids)
    ids = np.concatenate([free.ids, known.ids])
    weight = np.concatenate([free.scores.astype(np.float64), known.labels.astype(np.float64)])
    scores = ranking.scores(ids)
    edges, reaching = ranking.counts()
    order = np.argsort(-scores, kind="stable")
    summed = np.concatenate([[0.0], np.cumsum(weight[order])])
    grid, found = edges[::-1], reaching[::-1].astype(np.float64)
    true = np.minimum(summed[np.searchsorted(-scores[order], -grid, side="right")], found)
    sure = float(known.labels.sum())
    among = np.searchsorted(np.sort(-scores[len(free) :]), -grid, side="right")
    matches = np.searchsorted(np.sort(-scores[len(free) :][known.labels]), -grid, side="right")
    listed_found = found - among + sure
    listed_true = np.minimum(true - matches + sure, listed_found)

    def curve(expected: NDArray[np.float64], pairs: NDArray[np.float64]) -> Curve:
        use = pairs > 0
        return Curve(grid[use], expected[use], (pairs - expected)[use], max(float(weight.sum()), 1e-12))

    words = f"the {len(known.ids):,} labels given ({int(sure):,} matches), by way of the second look"
    return Evidence(curve(true, found), words, "labels", curve(listed_true, listed_found))


def from_audit(campaign: Campaign, number: int, ranking: Ranking) -> Evidence:
    """Expected matches by strata of the ranking, from audit labels."""
    from pairsieve.measure.audit import TRAIN, Asked, cut_ranking
    from pairsieve.measure.audit_estimate import evidence_of

    ledger = campaign.ledger
    if not ledger.rounds("audit"):
        raise InputError(
            "there is no audit yet",
            where=str(campaign.folder),
            remedy=f"pairsieve audit {campaign.folder} --budget 300, or --from labels",
        )
    if ranking.scan is None:
        raise InputError(
            "--from audit goes with the bi-encoder's own ranking of all pairs",
            why="an audit draws its pairs along that ranking",
            remedy="Leave --second-look and --search out, or use --from labels",
        )
    questions = ledger.questions()
    labels = np.full(len(questions), -1, np.int8)
    order = np.argsort(questions.ids)
    for purpose in ("train", "audit"):
        ids, matches = ledger.labels(purpose)
        labels[order[np.searchsorted(questions.ids, ids, sorter=order)]] = matches
    audits = np.where(np.array(questions.purpose) == "audit", questions.rounds, TRAIN)
    scores = ranking.scan.scores(questions.ids)
    asked = Asked(scores, labels, audits, questions.inclusion_probability)
    count = int((audits > TRAIN).sum())
    strata = cut_ranking(ranking.scan, [], count)
    held = evidence_of(strata, asked)
    expected = np.cumsum(held.expected(strata))
    found = np.maximum(np.cumsum(held.totals), 1.0)
    curve = Curve(strata.edges, expected, np.maximum(found - expected, 0.0), max(float(expected[-1]), 1e-12))
    return Evidence(curve, f"an audit of {count:,} labels", "audit")


def probability(ranking: Ranking, evidence: Evidence | None, scores: NDArray[np.float32]) -> Logits:
    """The chance that a pair matches: of its logit, calibrated on held-out labels where those were used."""
    a, c = evidence.calibration if evidence and evidence.calibration else (1.0, 0.0)
    return _sigmoid(a * ranking.logits(scores) + c)


def _between(
    ranking: Ranking, labelled: Known
) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Descending thresholds (k,); unlabelled pairs, labelled matches and labelled non-matches from each on.

    "From each on" is up to the threshold before it, so that sums from the top count what a list holds.
    """
    edges, reaching = ranking.counts()
    scores = ranking.scores(labelled.ids)
    known = [
        (len(mine) - np.searchsorted(np.sort(mine), edges, side="left")).astype(np.float64)
        for mine in (scores[labelled.labels], scores[~labelled.labels])
    ]
    free, matches, others = (
        np.diff(reach[::-1], prepend=0.0) for reach in (reaching - known[0] - known[1], *known)
    )
    return edges[::-1], np.maximum(free, 0.0), matches, others


def _sigmoid(logits: Logits) -> Logits:
    made: Logits = 0.5 * (1.0 + np.tanh(0.5 * logits))
    return made

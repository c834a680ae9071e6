"""Facts of a report: everything it shows about a campaign, gathered once, and what is missing.

Rounds, labels and seconds are read from the ledger and the figures; the latest model is run over one split
whose truth is known, or, where none is, over the labels given. The split called "test" is left alone unless
it is asked for by name: neither its pairs nor figures recorded of it are shown.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.audit.calibrate import Reliability
from pairsieve.audit.estimate import AuditResult
from pairsieve.campaign import Campaign
from pairsieve.campaign.probability import calibrated_scorer, reliability_over_all
from pairsieve.contracts import Estimate, generator_for
from pairsieve.errors import InputError, PairsieveError, nearest
from pairsieve.ledger import RoundCount
from pairsieve.measure.curve import Curve, Histogram, curve_from_scores, measure_exactly
from pairsieve.measure.figures import BalancedFigures, Figures, RoundFigures, balanced_figures, figures_of
from pairsieve.measure.intervals import text_interval
from pairsieve.pairs import Ids, ScoredPairs, Scores
from pairsieve.progress import tracked
from pairsieve.report.listed import Listed, listed
from pairsieve.report.origin import Origin, origin_of
from pairsieve.report.people import People, people_of
from pairsieve.scan import Scan
from pairsieve.scorer import ScoredSpace, Scorer
from pairsieve.search import ExactSearch
from pairsieve.settings import TEST_SPLIT
from pairsieve.tasks import Split
from pairsieve.tasks.task import shared_pairs

MISTAKES = 8  # of either kind
CHEAP = 1e11  # multiply-adds of a pass below which earlier rounds are measured again, for their intervals
NEAR = 10_000  # highest-scoring negatives whose texts are resampled
NO_AUDIT = "no measured split is shown here, and no audit was made"


@dataclass(frozen=True)
class Missing:
    """Something a report would show, why it cannot, and how to get it."""

    what: str
    why: str
    how: str


@dataclass(frozen=True)
class ShownPair:
    """A pair for a person to read."""

    left_key: str
    right_key: str
    left_text: str
    right_text: str
    score: float
    probability: float | None  # None where nothing calibrates the score
    rank: int | None = None  # pairs of the split that score as much or more, where they were counted


@dataclass(frozen=True, eq=False)
class Point:
    """One round on the learning curve."""

    round: int
    labels: int
    ap: Estimate
    audited: bool = False  # from an audit of the pool, not from the truth of the split


@dataclass(frozen=True, eq=False)
class Sample:
    """What the same scores would claim on some pairs only: all matches, and a few of the non-matches."""

    name: str
    what: str
    curve: Curve
    claims: BalancedFigures


@dataclass(frozen=True, eq=False)
class Measured:
    """The latest model over all pairs of a split with truth."""

    figures: Figures
    curve: Curve
    histogram: Histogram
    interval: Estimate  # of AP on other texts; without width where it cannot be told
    samples: tuple[Sample, ...]  # the stated pairs, where there are any, and a balanced sample
    false_positives: tuple[ShownPair, ...]  # highest-scoring non-matches
    false_negatives: tuple[ShownPair, ...]  # lowest-scoring matches
    reliability: tuple[Reliability, ...] = ()  # by bin of stated probability; empty without calibration


@dataclass(frozen=True, eq=False)
class Labelled:
    """The latest model over the labels given, where no truth is known; `unlabelled` None if not counted."""

    edges: NDArray[np.float32]
    matches: NDArray[np.int64]
    others: NDArray[np.int64]
    unlabelled: NDArray[np.int64] | None
    false_positives: tuple[ShownPair, ...]  # labelled no match, highest-scoring
    false_negatives: tuple[ShownPair, ...]  # labelled match, lowest-scoring


@dataclass(frozen=True, eq=False)
class Facts:
    """Everything a report shows."""

    name: str
    state: str  # in words: what was done, and what comes next
    split: str | None  # the split measured; None where there is none to measure
    held_out: bool  # whether no pair of that split could be asked about
    pool: Split
    counts: Sequence[RoundCount]
    budget: int
    model: int  # the round of the model shown; 0 where none is trained
    even_odds: float | None  # the score at which a match is as likely as not
    points: tuple[Point, ...]
    start: float | None  # AP of the encoder before any label
    measured: Measured | None
    labelled: Labelled | None
    audits: Mapping[int, AuditResult]  # of the pool, by round
    seconds: dict[int, dict[str, float]]
    advice: str
    people: People | None
    last_label: str
    origin: Origin
    listed: Listed | None  # the list and the groups; None where there is no model, or too many pairs
    missing: tuple[Missing, ...]

    @property
    def labels(self) -> int:
        return sum(count.labelled for count in self.counts)

    @property
    def positives(self) -> int:
        return sum(count.positives for count in self.counts)


def gather(campaign: Campaign, wanted: str | None = None) -> Facts:
    """Everything a report shows of a campaign in whatever state; `wanted` is the split to measure on."""
    split, missing = _split_to_measure(campaign, wanted)
    status, rows, counts = campaign.status(), campaign.figures(), campaign.counts()
    closed = {count.round for count in counts if not count.open}
    model = max((round_ for round_ in rows if round_ in closed and campaign.labels(round_).round), default=0)
    measured, labelled, points, start, even_odds = None, None, list[Point](), None, None
    folder = shlex.quote(str(campaign.folder))
    run = f"pairsieve run {folder}"
    if not counts:
        missing.append(Missing("Everything", "no pair has been asked yet", run))
    elif model == 0:
        missing.append(Missing("The model", "no round is trained yet", campaign.more_labels()))
    if model:
        points = [] if split is None else _recorded(rows, split)
        try:
            scorer = campaign.scorer(model)
            even_odds = scorer.even_odds
            if split is not None:
                measured, points, start = _measure(campaign, split, model, points)
            else:
                labelled = _by_labels(campaign, model)
        except PairsieveError as error:
            how = "repair that, and report again"
            missing.append(Missing("What the model says of pairs", str(error), how))
    list_found = None
    if model and model == campaign.latest():
        try:
            list_found = listed(campaign)
        except PairsieveError as error:
            missing.append(Missing("The list", str(error), f"pairsieve match {folder}"))
    audits = {row.round: row.audit.result for row in status.rounds if row.audit and row.audit.result}
    if not audits and split is None and model:
        why, how = NO_AUDIT, f"pairsieve audit {folder} --budget 300"
        missing.append(Missing("Precision, recall and AP", why, how))
    if split is None:
        up_to = {count.round: sum(c.labelled for c in counts if c.round <= count.round) for count in counts}
        points = [
            Point(round_, up_to[round_], audit.average_precision, True)
            for round_, audit in audits.items()
            if isinstance(audit.average_precision, Estimate)
        ]
    return Facts(
        name=campaign.folder.resolve().name,
        state=("Not finished. " if status.state == "ready" else "") + status.sentence(run),
        split=split,
        held_out=split is None or not shared_pairs(campaign.split, campaign.task.splits[split]),
        pool=campaign.split,
        counts=counts,
        budget=status.budget,
        model=model,
        even_odds=even_odds,
        points=tuple(points),
        start=start,
        measured=measured,
        labelled=labelled,
        audits=audits,
        seconds={round_: dict(rows[round_].seconds) for round_ in sorted(rows)},
        advice=status.advice,
        people=people_of(campaign),
        last_label=max(campaign.ledger.answers().answered_at, default=""),
        origin=origin_of(campaign, split, model, rows[model].scorer if model else ""),
        listed=list_found,
        missing=tuple(missing),
    )


def _split_to_measure(campaign: Campaign, wanted: str | None) -> tuple[str | None, list[Missing]]:
    """The split asked for; else dev, else one measured each round that is not the test split."""
    splits = campaign.task.splits
    known = [name for name, each in splits.items() if each.has_truth and len(each.positives)]
    if wanted is not None:
        if wanted not in splits:
            where = str(campaign.folder)
            raise InputError(f"no split {wanted!r}", where=where, remedy=nearest(wanted, splits))
        if wanted in known:
            return wanted, []
        what = "no matches" if splits[wanted].has_truth else "no truth"
        return None, [_unmeasured(f"split {wanted!r} has {what}")]
    for name in ("dev", *campaign.settings.measure_splits):
        if name in known and name != TEST_SPLIT:
            return name, []
    if not known:
        return None, [_unmeasured("the task has no split whose matches are all known")]
    choices = " or ".join(f"--split {name}" for name in known)
    why = f"there is no dev split with truth; {', '.join(known)} is not looked at unless asked for"
    how = f"pairsieve report {shlex.quote(str(campaign.folder))} {choices}"
    return None, [Missing("The precision-recall curve and average precision", why, how)]


def _unmeasured(why: str) -> Missing:
    how = (
        "pairsieve data tables --matches FILE makes a task with truth; pairsieve audit measures by labels "
        "drawn with known chances"
    )
    return Missing("The precision-recall curve and exact average precision", why, how)


# ── over a split with truth ─────────────────────────────────────────────────────────────────────────


def _recorded(rows: Mapping[int, RoundFigures], split: str) -> list[Point]:
    """The AP of each round as it was measured then."""
    return [
        Point(round_, found.labels, found.measures[split].average_precision)
        for round_, found in sorted(rows.items())
        if split in found.measures
    ]


def _measure(
    campaign: Campaign, name: str, model: int, recorded: list[Point]
) -> tuple[Measured, list[Point], float | None]:
    """The latest model over all pairs; earlier rounds again, with intervals, where that costs little."""
    split, seed = campaign.task.splits[name], campaign.settings.seed
    scored = campaign.score(split, model)
    known = np.sort(campaign.ledger.asked()) if split is campaign.split else np.empty(0, np.int64)
    scorer = calibrated_scorer(campaign, model, split=split)
    shown = _measured(split, scored, scorer, known, generator_for(seed, model, "report"))
    by_round = {point.round: point for point in recorded}
    of_round = {count.round: count.labelled for count in campaign.counts()}
    labels = {round_: sum(n for r, n in of_round.items() if r <= round_) for round_ in range(model + 1)}
    by_round[model] = Point(model, labels[model], shown.interval)
    start = None
    learner = campaign.trainer.learner  # of a frozen encoder: an earlier round costs a product of matrices
    if learner.uses_frozen_rows and float(split.space.size) * learner.encoder.dimension <= CHEAP:
        for round_ in tracked(range(model), "measuring earlier rounds"):
            earlier = campaign.score(split, round_).scan
            measures = measure_exactly(earlier, split.positives)
            if round_ == 0:
                start = measures.curve.average_precision()
                continue
            near, rng = _nearest(split, earlier), generator_for(seed, round_, "report")
            interval = _interval(split, earlier, measures.curve, near, rng)
            by_round[round_] = Point(round_, labels[round_], interval)
    return shown, [by_round[round_] for round_ in sorted(by_round)], start


def _nearest(split: Split, scan: Scan) -> ScoredPairs:
    """The highest-scoring negatives."""
    count = min(max(NEAR, 5 * len(split.positives)), split.space.size - len(split.positives))
    return ExactSearch(scan).best(count, split.positives).pairs if count else ScoredPairs.empty()


def _interval(
    split: Split, scan: Scan, curve: Curve, near: ScoredPairs, rng: np.random.Generator
) -> Estimate:
    of_positives = ScoredPairs(split.positives, scan.scores(split.positives))
    return text_interval(split.space, curve, of_positives, near, rng)


def _measured(
    split: Split, scored: ScoredSpace, scorer: Scorer, known: Ids, rng: np.random.Generator
) -> Measured:
    """scorer: with its calibration. known: labelled pairs of the split, which no probability speaks of."""
    scan = scored.scan
    measures = measure_exactly(scan, split.positives)
    curve, of_positives = measures.curve, scan.scores(split.positives)
    balanced = min(len(split.positives), split.space.size - len(split.positives))
    drawn = split.space.sample(balanced, rng, outside=split.positives)
    few = {
        ("stated pairs", "the pairs that the data states"): split.stated_negatives,
        ("balanced sample", "every match and as many non-matches, drawn at random"): drawn,
    }
    samples = tuple(
        Sample(name, what, curve_from_scores(of_positives, scan.scores(negatives)), claims)
        for (name, what), negatives in few.items()
        if (claims := balanced_figures(scan, split.positives, negatives)) is not None
    )
    near = _nearest(split, scan)
    wrong = near.best(MISTAKES)
    lost = np.argsort(of_positives, kind="stable")[:MISTAKES]  # ties by smaller id
    missed = ScoredPairs(split.positives[np.sort(lost)], of_positives[np.sort(lost)])
    return Measured(
        figures_of(curve, measures.pairs),
        curve,
        measures.histogram,
        _interval(split, scan, curve, near, rng),
        samples,
        _shown(split, wrong, scorer, True, lambda at: _rank_of_negative(at, of_positives, near.scores)),
        _shown(split, missed, scorer, False, lambda at: _rank_of_match(at, curve)),
        reliability_over_all(scorer, scan, split.positives, known) if scorer.calibrated else (),
    )


def _rank_of_negative(score: float, of_positives: Scores, near: Scores) -> int | None:
    """Pairs scoring as much or more; None where ties reach down to the last of the negatives at hand."""
    if near.min() >= score and len(near) >= NEAR:
        return None
    return int((of_positives >= score).sum() + (near >= score).sum())


def _rank_of_match(score: float, curve: Curve) -> int:
    """Pairs scoring as much or more: a match's score is a point of the curve."""
    at = int(np.flatnonzero(curve.thresholds == np.float32(score))[0])
    return int(curve.true_positives[at] + curve.false_positives[at])


def _shown(
    split: Split,
    pairs: ScoredPairs,
    scorer: Scorer,
    highest: bool,
    rank: Callable[[float], int | None] = lambda score: None,
) -> tuple[ShownPair, ...]:
    """Pairs with their texts, worst first; equal scores by smaller id."""
    order = np.argsort(-pairs.scores if highest else pairs.scores, kind="stable")
    ids, scores = pairs.ids[order], pairs.scores[order]
    words = zip(*split.keys(ids), *split.texts(ids))
    return tuple(
        ShownPair(*shown, score, None if np.isnan(chance) else chance, rank(score))
        for shown, score, chance in zip(words, scores.tolist(), scorer.probabilities(scores).tolist())
    )


# ── without truth ───────────────────────────────────────────────────────────────────────────────────


def _by_labels(campaign: Campaign, model: int) -> Labelled:
    """The latest scorer over the labels given, for training and audit, and over all pairs beside them."""
    split = campaign.split
    ids, labels = campaign.ledger.labels(None)
    edges = np.linspace(-1.0, 1.0, 101, dtype=np.float32)
    edges[0], edges[-1] = -2.0, 2.0
    scored = campaign.score(split, model)
    scores = scored.scan.scores(ids)
    in_all = -np.diff(scored.scan.count_reaching(edges, desc="counting all pairs"))
    scorer = calibrated_scorer(campaign, model)
    threshold = scorer.even_odds
    labelled = ScoredPairs(ids, scores)
    wrong = labelled.where(~labels & (scores >= threshold)).best(MISTAKES)
    missed = labelled.where(labels & (scores < threshold)).closest(-2.0, MISTAKES)
    return Labelled(
        edges,
        np.histogram(scores[labels], edges)[0],
        np.histogram(scores[~labels], edges)[0],
        in_all - np.histogram(scores, edges)[0],
        _shown(split, wrong, scorer, True),
        _shown(split, missed, scorer, False),
    )

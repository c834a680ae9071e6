"""What is there to tell of a campaign? Everything a report shows, gathered once, and what is missing.

Rounds, labels and seconds are read from the ledger and the figures; the latest model is run over one split
whose truth is known, or, where none is, over the labels given. The split called "test" is left alone unless
it is asked for by name: neither its pairs nor figures recorded of it are shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.campaign import Campaign
from pairsieve.contracts import Estimate, generator_for
from pairsieve.errors import InputError, PairsieveError, nearest
from pairsieve.ledger import RoundCount
from pairsieve.measure.curve import Curve, curve_from_scores
from pairsieve.measure.exact import Histogram, measure_exactly
from pairsieve.measure.figures import RECALLS, balanced_figures, figures
from pairsieve.measure.intervals import text_interval
from pairsieve.pairs import Ids, ScoredPairs, Scores, pair_rows
from pairsieve.progress import tracked
from pairsieve.report.origin import Origin, origin_of
from pairsieve.report.people import People, people_of
from pairsieve.scan import Scan
from pairsieve.search import ExactSearch
from pairsieve.tasks import Split
from pairsieve.tasks.task import shared_pairs

if TYPE_CHECKING:
    from pairsieve.campaign.view import Trained

SEALED = "test"  # the split nobody looks at unless asked
MISTAKES = 8  # of either kind
CHEAP = 1e11  # multiply-adds of a pass below which earlier rounds are measured again, for their intervals
FEW_TEXTS = 20_000  # texts that may be embedded for a histogram where the encoder is fine-tuned
NEAR = 10_000  # highest-scoring negatives whose texts are resampled


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
    left_text: str
    right_key: str
    right_text: str
    score: float
    probability: float
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
    claims: dict[str, Any]  # pairs, positives, average_precision, best_f1, accuracy


@dataclass(frozen=True, eq=False)
class Measured:
    """The latest model over all pairs of a split with truth."""

    figures: dict[str, Any]
    curve: Curve
    histogram: Histogram
    interval: Estimate  # of AP, over texts
    samples: tuple[Sample, ...]  # the stated pairs, where there are any, and a balanced sample
    false_positives: tuple[ShownPair, ...]  # highest-scoring non-matches
    false_negatives: tuple[ShownPair, ...]  # lowest-scoring matches


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
    head: tuple[float, float] | None  # weight and bias
    points: tuple[Point, ...]
    start: float | None  # AP of the encoder before any label
    measured: Measured | None
    labelled: Labelled | None
    audits: tuple[dict[str, Any], ...]
    seconds: dict[int, dict[str, float]]
    advice: str
    people: People | None
    last_label: str
    origin: Origin
    missing: tuple[Missing, ...]

    @property
    def labels(self) -> int:
        return sum(count.labelled for count in self.counts)

    @property
    def positives(self) -> int:
        return sum(count.positives for count in self.counts)


def gather(campaign: Campaign, wanted: str | None = None) -> Facts:
    """Everything to tell of a campaign in whatever state; `wanted` is the split to measure on."""
    split, missing = _split_to_measure(campaign, wanted)
    status, rows, counts = campaign.status(), campaign.figures(), campaign.ledger.counts()
    closed = {count.round for count in counts if not count.open}
    model = max((number for number in rows if number in closed), default=0)
    measured, labelled, points, start, head = None, None, list[Point](), None, None
    if not counts:
        missing.append(
            Missing("Everything", "no pair has been asked yet", f"pairsieve run {campaign.folder}")
        )
    elif model == 0:
        missing.append(
            Missing("The model", "no round is trained yet", f"pairsieve run {campaign.folder}, once labelled")
        )
    if model:
        points = _recorded(rows, counts, split)
        try:
            matcher = campaign.matcher(model)
            head = float(matcher.weight), float(matcher.bias)
            if split is not None:
                measured, points, start = _measure(campaign, split, model, matcher, points)
            else:
                labelled = _by_labels(campaign, model, matcher)
        except PairsieveError as error:
            missing.append(
                Missing("What the model says of pairs", str(error), "repair that, and report again")
            )
    audits = tuple(row["audit"] for row in status["rounds"] if "audit" in row)
    if not audits and split is None and model:
        how = f"pairsieve audit {campaign.folder} --budget 300"
        missing.append(
            Missing("Precision, recall and AP", "no measured split is shown here, and no audit was made", how)
        )
    if split is None:
        bought = {count.round: sum(c.labelled for c in counts if c.round <= count.round) for count in counts}
        points = [
            Point(a["round"], bought[a["round"]], _estimate(a["average_precision"]), True) for a in audits
        ]
    answers = campaign.ledger.answers()
    return Facts(
        name=campaign.folder.resolve().name,
        state=_state(status),
        split=split,
        held_out=split is None or not shared_pairs(campaign.split, campaign.task.splits[split]),
        pool=campaign.split,
        counts=counts,
        budget=status["budget"],
        model=model,
        head=head,
        points=tuple(points),
        start=start,
        measured=measured,
        labelled=labelled,
        audits=audits,
        seconds={number: dict(rows[number]["seconds"]) for number in sorted(rows)},
        advice=_advice(campaign, status, split),
        people=people_of(campaign),
        last_label=max(answers.answered_at, default=""),
        origin=origin_of(campaign, split, model, rows.get(model, {}).get("model", "")),
        missing=tuple(missing),
    )


def _split_to_measure(campaign: Campaign, wanted: str | None) -> tuple[str | None, list[Missing]]:
    """The split asked for; else dev, else one measured each round that is not the test split."""
    splits = campaign.task.splits
    known = [name for name, part in splits.items() if part.has_truth and len(part.positives)]
    if wanted is not None:
        if wanted not in splits:
            raise InputError(
                f"no split {wanted!r}", where=str(campaign.folder), remedy=nearest(wanted, splits)
            )
        if wanted in known:
            return wanted, []
        what = "no matches" if splits[wanted].has_truth else "no truth"
        return None, [_unmeasured(f"split {wanted!r} has {what}")]
    for name in ("dev", *campaign.settings.measure_splits):
        if name in known and name != SEALED:
            return name, []
    if not known:
        return None, [_unmeasured("the task has no split whose matches are all known")]
    choices = " or ".join(f"--split {name}" for name in known)
    why = f"there is no dev split with truth; {', '.join(known)} is not looked at unless asked for"
    return None, [Missing("The precision-recall curve and average precision", why, f"Add {choices}")]


def _unmeasured(why: str) -> Missing:
    how = (
        "pairsieve data tables --matches FILE makes a task with truth; pairsieve audit measures by labels "
        "drawn with known chances"
    )
    return Missing("The precision-recall curve and exact average precision", why, how)


# ── over a split with truth ─────────────────────────────────────────────────────────────────────────


def _recorded(rows: dict[int, Any], counts: Sequence[RoundCount], split: str | None) -> list[Point]:
    """The AP of each round as it was measured then."""
    points = []
    for number in sorted(rows):
        measure = rows[number].get("measures", {}).get(split)
        if measure is not None:
            points.append(Point(number, rows[number]["labels"], _estimate(measure["average_precision"])))
    return points


def _measure(
    campaign: Campaign, name: str, model: int, matcher: Trained, recorded: list[Point]
) -> tuple[Measured, list[Point], float | None]:
    """The latest model over all pairs; earlier rounds again, with intervals, where that costs little."""
    part, seed = campaign.task.splits[name], campaign.settings.seed
    scan = _scan(campaign, part, model, matcher)
    shown = _measured(part, scan, matcher, generator_for(seed, model, "report"))
    by_round = {point.round: point for point in recorded}
    bought = {count.round: count.labelled for count in campaign.ledger.counts()}
    labels = {number: sum(n for r, n in bought.items() if r <= number) for number in range(model + 1)}
    by_round[model] = Point(model, labels[model], shown.interval)
    start = None
    if _is_frozen(campaign) and float(part.space.size) * campaign.learner.encoder.dimension <= CHEAP:
        for number in tracked(range(model), "measuring earlier rounds"):
            earlier = _scan(campaign, part, number, campaign.matcher(number))
            measures = measure_exactly(earlier, part.positives)
            if number == 0:
                start = measures.curve.average_precision()
                continue
            rng = generator_for(seed, number, "report")
            by_round[number] = Point(
                number, labels[number], _interval(part, earlier, measures.curve, _nearest(part, earlier), rng)
            )
    return shown, [by_round[number] for number in sorted(by_round)], start


def _is_frozen(campaign: Campaign) -> bool:
    """Whether all rounds share one encoder's embeddings, so that an earlier model costs a product."""
    from pairsieve.models import ProjectionLearner

    return isinstance(campaign.learner, ProjectionLearner)


def _scan(campaign: Campaign, part: Split, number: int, matcher: Trained) -> Scan:
    return campaign.scan(part.space, *campaign.embeddings(matcher, part, number))


def _nearest(part: Split, scan: Scan) -> ScoredPairs:
    """The highest-scoring negatives."""
    count = min(max(NEAR, 5 * len(part.positives)), part.space.size - len(part.positives))
    return ExactSearch(scan).best(count, part.positives).pairs if count else ScoredPairs.empty()


def _interval(part: Split, scan: Scan, curve: Curve, near: ScoredPairs, rng: np.random.Generator) -> Estimate:
    mine = ScoredPairs(part.positives, scan.scores(part.positives))
    return text_interval(part.space, curve, mine, near, rng)


def _measured(part: Split, scan: Scan, matcher: Trained, rng: np.random.Generator) -> Measured:
    measures = measure_exactly(scan, part.positives)
    curve, mine = measures.curve, scan.scores(part.positives)
    exact = {r: Estimate.exact(curve.precision_at_recall(r), measures.pairs) for r in RECALLS}
    found = figures(
        curve, measures.pairs, "exact", Estimate.exact(curve.average_precision(), measures.pairs), exact
    )
    balanced = min(len(part.positives), part.space.size - len(part.positives))
    drawn = part.space.sample(balanced, rng, outside=part.positives)
    few = {
        ("stated pairs", "the pairs that the data states"): part.stated_negatives,
        ("balanced sample", "every match and as many non-matches, drawn at random"): drawn,
    }
    samples = tuple(
        Sample(
            name,
            what,
            curve_from_scores(mine, scan.scores(negatives)),
            balanced_figures(scan, part.positives, negatives),
        )
        for (name, what), negatives in few.items()
        if len(negatives)
    )
    near = _nearest(part, scan)
    wrong = near.best(MISTAKES)
    lost = np.argsort(mine, kind="stable")[:MISTAKES]  # ties by smaller id
    missed = ScoredPairs(part.positives[np.sort(lost)], mine[np.sort(lost)])
    return Measured(
        found,
        curve,
        measures.histogram,
        _interval(part, scan, curve, near, rng),
        samples,
        _shown(part, wrong, matcher, True, lambda score: _rank_of_negative(score, mine, near.scores)),
        _shown(part, missed, matcher, False, lambda score: _rank_of_match(score, curve)),
    )


def _rank_of_negative(score: float, mine: Scores, near: Scores) -> int | None:
    """Pairs scoring as much or more; None where ties reach down to the last of the negatives at hand."""
    if near.min() >= score and len(near) >= NEAR:
        return None
    return int((mine >= score).sum() + (near >= score).sum())


def _rank_of_match(score: float, curve: Curve) -> int:
    """Pairs scoring as much or more: a match's score is a point of the curve."""
    at = int(np.flatnonzero(curve.thresholds == np.float32(score))[0])
    return int(curve.true_positives[at] + curve.false_positives[at])


def _shown(
    part: Split,
    pairs: ScoredPairs,
    matcher: Trained,
    highest: bool,
    rank: Callable[[float], int | None] = lambda score: None,
) -> tuple[ShownPair, ...]:
    """Pairs with their texts, worst first; equal scores by smaller id."""
    order = np.argsort(-pairs.scores if highest else pairs.scores, kind="stable")
    left, right = (side.tolist() for side in pair_rows(pairs.ids[order]))
    return tuple(
        ShownPair(
            part.left.keys[a],
            part.left.texts[a],
            part.right.keys[b],
            part.right.texts[b],
            score,
            probability(matcher.weight * score + matcher.bias),
            rank(score),
        )
        for a, b, score in zip(left, right, pairs.scores[order].tolist())
    )


def probability(logit: float) -> float:
    """1 / (1 + e^-logit), without overflow."""
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))


# ── without truth ───────────────────────────────────────────────────────────────────────────────────


def _by_labels(campaign: Campaign, model: int, matcher: Trained) -> Labelled:
    """The latest model over the labels given, for training and audit; all pairs where that costs little."""
    part = campaign.split
    given = [campaign.ledger.labels(purpose) for purpose in ("train", "audit")]
    ids = np.concatenate([each[0] for each in given])
    labels = np.concatenate([each[1] for each in given])
    order = np.argsort(ids)
    ids, labels = ids[order], labels[order]
    edges = np.linspace(-1.0, 1.0, 101, dtype=np.float32)
    edges[0], edges[-1] = -2.0, 2.0
    unlabelled = None
    if _is_frozen(campaign) or len(part.left) + len(part.right) <= FEW_TEXTS:
        scan = _scan(campaign, part, model, matcher)
        scores = scan.scores(ids)
        in_all = -np.diff(scan.count_reaching(edges, words="counting all pairs"))
        unlabelled = in_all - np.histogram(scores, edges)[0]
    else:
        matcher = campaign.plain_matcher(model)  # rivals would take embedding every text
        scores = _scores_of(part, ids, matcher)
    threshold = -matcher.bias / matcher.weight if matcher.weight > 0 else 1.0
    said = ScoredPairs(ids, scores)
    wrong = said.where(~labels & (scores >= threshold)).best(MISTAKES)
    missed = said.where(labels & (scores < threshold))
    missed = missed.closest(-2.0, MISTAKES)
    return Labelled(
        edges,
        np.histogram(scores[labels], edges)[0],
        np.histogram(scores[~labels], edges)[0],
        unlabelled,
        _shown(part, wrong, matcher, True),
        _shown(part, missed, matcher, False),
    )


def _scores_of(part: Split, ids: Ids, matcher: Trained) -> NDArray[np.float32]:
    """Cosines of some pairs, embedding only their texts."""
    left, right = pair_rows(ids)
    rows, at = np.unique(left, return_inverse=True)
    columns, to = np.unique(right, return_inverse=True)
    mine = matcher.embed([part.left.texts[r] for r in rows.tolist()], "left")
    side = "left" if part.space.symmetric else "right"
    yours = matcher.embed([part.right.texts[c] for c in columns.tolist()], side)
    scores: NDArray[np.float32] = np.einsum("ij,ij->i", mine[at], yours[to]).astype(np.float32)
    return scores


# ── words ────────────────────────────────────────────────────────────────────────────────


def _estimate(row: dict[str, Any]) -> Estimate:
    return Estimate(row["value"], row["low"], row["high"], row["n"], row["method"])


def _state(status: dict[str, Any]) -> str:
    step, folder = status["next"], status["campaign"]
    return {
        "finished": "Finished.",
        "stopped": f"Stopped after round {step['round']}, as asked: {status.get('reason', '')}.",
        "waiting": f"Waiting for {step['waiting']:,} labels of round {step['round']}.",
        "ready": f"Not finished. Next: {step['step']} round {step['round']} (pairsieve run {folder}).",
    }[status["state"]]


def _advice(campaign: Campaign, status: dict[str, Any], split: str | None) -> str:
    """What was said after the last round; without AP where that rests on a test split not asked for."""
    said = [row["advice"] for row in status["rounds"] if "advice" in row]
    if not said:
        return ""
    measured = next(iter(campaign.settings.measure_splits), "")
    if measured != SEALED or split == SEALED:
        return str(said[-1]["sentence"])
    bring = said[-1].get("next_positives")
    if not bring:
        return ""
    return (
        f"The next {said[-1]['next_labels']:,} labels should bring about {bring['value']:,.0f} "
        f"({bring['low']:,.0f} to {bring['high']:,.0f}) matches."
    )

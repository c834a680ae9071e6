"""Evaluation figures as typed records: average precision, precision at recall, best F1 over all pairs.

Beside them figures over the pairs that a dataset states (accuracy, F1, MAP, MRR, answer triggering), to be
set beside published ones: they say little about all pairs. Questions are the left rows of such a task.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.audit.estimate import AuditResult
from pairsieve.contracts import Estimate
from pairsieve.errors import InputError
from pairsieve.files import read_record
from pairsieve.measure.curve import BestF1, Curve, curve_from_scores, measure_exactly
from pairsieve.measure.estimated import EstimatedMeasures
from pairsieve.pairs import Ids, Mask, PairSpace, Scores, is_member, pair_rows
from pairsieve.scan import Scan

RECALLS = (0.1, 0.2, 0.5)


@dataclass(frozen=True)
class PairMeasures:
    """Figures over all stated pairs at one threshold; 0 where a ratio has nothing below the line."""

    accuracy: float
    precision: float
    recall: float
    f1: float
    threshold: float
    pairs: int
    positives: int


@dataclass(frozen=True)
class RankMeasures:
    """Means over clean questions: those with at least one positive and one negative stated pair."""

    mean_average_precision: float
    mean_reciprocal_rank: float
    questions: int


@dataclass(frozen=True)
class TriggerMeasures:
    """Answer triggering: whether the top sentence answers the question, and whether to answer at all."""

    precision: float
    recall: float
    f1: float
    answered: int  # questions whose top score reaches the threshold
    answerable: int  # questions with a positive
    questions: int


@dataclass(frozen=True)
class F1Figure:
    """The best F1 and its threshold; precision and recall where exact, an interval where estimated."""

    value: float
    threshold: float | None  # None: reached only with every pair
    precision: float | None = None
    recall: float | None = None
    interval: Estimate | None = None

    def as_json(self) -> dict[str, Any]:
        figures = asdict(self)
        interval = figures.pop("interval")
        return {**interval, "threshold": self.threshold} if interval else figures


@dataclass(frozen=True)
class BalancedFigures:
    """What an evaluation on the stated pairs alone would claim."""

    pairs: int
    positives: int
    average_precision: float
    best_f1: BestF1
    accuracy: float  # at the threshold of the best F1
    answer_triggering: TriggerMeasures | None = None  # where the left side asks: F1 of answering
    by_question: RankMeasures | None = None  # clean MAP and MRR

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class CorrectedPrecision:
    """Precision at a recall, corrected by manual labels of putative false positives (`measure.manual`)."""

    recall: float
    threshold: float | None
    precision: Estimate

    def as_json(self) -> dict[str, Any]:
        return {"recall": self.recall, "threshold": self.threshold, **self.precision.as_json()}


@dataclass(frozen=True)
class Figures:
    """The figures of one evaluation over all pairs of a split."""

    pairs: int
    positives: int
    method: str  # "exact", "exact, unlisted pairs last" or "estimated"
    average_precision: Estimate
    precision_at_recall: Mapping[float, Estimate]
    best_f1: F1Figure
    balanced: BalancedFigures | None = None
    scored_pairs: int | None = None  # of a sample
    corrected_precision: CorrectedPrecision | None = None

    def as_json(self) -> dict[str, Any]:
        """As `evaluate --json` prints them; what was not measured is left out."""
        at_recall = {f"{r:g}": p.as_json() for r, p in self.precision_at_recall.items()}
        figures = {each.name: getattr(self, each.name) for each in fields(self)}
        figures |= {"precision_at_recall": at_recall}
        figures = {name: figure for name, figure in figures.items() if figure is not None}
        return {name: f.as_json() if hasattr(f, "as_json") else f for name, f in figures.items()}


@dataclass(frozen=True)
class SplitFigures(Figures):
    """Exact figures of a split, and whether none of its pairs could be asked about."""

    held_out: bool = field(kw_only=True)


# ── of the rounds of a campaign ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Batch:
    """The labels of one round."""

    labels: int
    positives: int


@dataclass(frozen=True)
class Head:
    """log-odds = weight · score + bias."""

    weight: float
    bias: float


@dataclass(frozen=True)
class Searched:
    """How pairs were searched, and the share of the best ones that such a search finds."""

    method: str
    recall: Estimate | None  # None of a re-ranker's candidates


@dataclass(frozen=True)
class Basis:
    """What a round was trained with, by its sha256."""

    labels: str
    settings: str | None  # None where the encoder was not at hand


@dataclass(frozen=True)
class RoundFigures:
    """The figures of a round, as they were measured."""

    round: int
    labels: int  # of this round and those before
    positives: int
    batch: Batch
    measures: Mapping[str, SplitFigures]  # by split
    head: Head
    threshold: float  # the score at which a match is as likely as not
    scorer: str  # its fingerprint
    reranked: bool
    search: Searched | None  # for the pairs of the round
    basis: Basis
    seconds: Mapping[str, float]  # by phase
    measuring: bool  # whether a share of the batch measures
    estimated: AuditResult | None = None  # by that share; None while it is too small

    @property
    def measured_on(self) -> str:
        """The first of the measured splits; empty where there is none."""
        return next(iter(self.measures), "")

    @property
    def first(self) -> SplitFigures | None:
        """The figures of that split."""
        return next(iter(self.measures.values()), None)

    @staticmethod
    def of(row: Mapping[str, Any]) -> RoundFigures:
        """What `as_json` gave."""
        return read_record(RoundFigures, {**row, "measuring": "estimated" in row})

    def as_json(self) -> dict[str, Any]:
        """As the file of the round has it."""
        row = asdict(self) | {"measures": {name: each.as_json() for name, each in self.measures.items()}}
        if not row.pop("measuring"):
            del row["estimated"]
        first = row["measures"].get(self.measured_on, {})
        return row | {k: first[k] for k in ("average_precision", "precision_at_recall", "best_f1") if first}


def exact_figures(scan: Scan, positives: Ids, stated_negatives: Ids) -> tuple[Figures, Curve]:
    """Exact figures over all pairs, and beside them what the stated pairs alone would claim."""
    measures = measure_exactly(scan, positives)
    found = figures_of(measures.curve, measures.pairs)
    return replace(found, balanced=balanced_figures(scan, positives, stated_negatives)), measures.curve


def balanced_figures(scan: Scan, positives: Ids, stated_negatives: Ids) -> BalancedFigures | None:
    """What an evaluation on the stated pairs alone would claim; None where no negatives are stated."""
    if len(stated_negatives) == 0:
        return None
    of_positives, of_negatives = scan.scores(positives), scan.scores(stated_negatives)
    curve = curve_from_scores(of_positives, of_negatives)
    best = curve.best_f1()
    ids = np.concatenate([positives, stated_negatives])
    scores = np.concatenate([of_positives, of_negatives])
    labels = np.arange(len(ids)) < len(of_positives)
    accuracy = pair_measures(scores, labels, best.threshold).accuracy
    claims = BalancedFigures(len(ids), len(of_positives), curve.average_precision(), best, accuracy)
    if scan.space.symmetric:
        return claims
    claims = replace(claims, answer_triggering=question_f1(ids, scores, labels, best.threshold))
    with contextlib.suppress(InputError):  # no question has both a positive and a negative stated pair
        claims = replace(claims, by_question=rank_measures(ids, scores, labels))
    return claims


def listed_figures(space: PairSpace, ids: Ids, scores: Scores, positives: Ids) -> tuple[Figures, Curve, int]:
    """Exact figures of a list of scored pairs, and the positives in it; unlisted pairs rank last, tied.

    The threshold of the best F1 is -inf where it is reached only with every pair.
    """
    positive = is_member(ids, positives)
    found = int(positive.sum())
    lost, unlisted = len(positives) - found, space.size - len(ids)
    of_positives = np.concatenate([scores[positive], np.full(lost, -np.inf, np.float32)])
    of_negatives = np.append(scores[~positive], np.float32(-np.inf))
    weights = np.append(np.ones(len(of_negatives) - 1), float(unlisted - lost))
    curve = curve_from_scores(of_positives, of_negatives, negative_weights=weights)
    return figures_of(curve, space.size, "exact, unlisted pairs last" if unlisted else "exact"), curve, found


def estimated_figures(measures: EstimatedMeasures, scored: int) -> Figures:
    """Figures from a sample of `scored` pairs, each with its interval."""
    best = measures.best_f1
    return Figures(
        measures.pairs,
        int(measures.curve.positives),
        "estimated",
        measures.average_precision,
        measures.precision_at_recall,
        F1Figure(best.value, measures.best_f1_threshold, interval=best),
        scored_pairs=scored,
    )


def figures_of(curve: Curve, pairs: int, method: str = "exact") -> Figures:
    """The exact figures that a curve over all `pairs` gives."""
    best = curve.best_f1()
    return Figures(
        pairs,
        int(curve.positives),
        method,
        Estimate.exact(curve.average_precision(), pairs),
        {r: Estimate.exact(curve.precision_at_recall(r), pairs) for r in RECALLS},
        F1Figure(best.value, best.threshold, best.precision, best.recall),
    )


def digits(value: float) -> str:
    """Four decimals; small figures keep two digits instead of turning into zero."""
    return f"{value:.4f}" if value >= 0.001 or value == 0 else f"{value:.1e}"


def figures_table(figures: Figures, task: str, split: str) -> str:
    """The figures as a table for a person."""

    def shown(estimate: Estimate | None, value: float = 0.0) -> str:
        if estimate is None or figures.method != "estimated":
            return digits(value if estimate is None else estimate.value)
        return f"{digits(estimate.value)}   [{digits(estimate.low)}, {digits(estimate.high)}]"

    best, fixed, claims = figures.best_f1, figures.corrected_precision, figures.balanced
    ratio = f"one in {figures.pairs / figures.positives:,.0f}"
    lines = [
        f"{task}, split {split}: {figures.pairs:,} pairs, {figures.positives:,} positive ({ratio}); "
        + figures.method,
        "",
        f"  average precision        {shown(figures.average_precision)}",
    ]
    for recall, estimate in figures.precision_at_recall.items():
        lines.append(f"  precision at recall {recall:<4g} {shown(estimate)}")
    at = "with every pair" if best.threshold is None else f"at score {best.threshold:.4f}"
    if best.precision is not None and best.recall is not None:
        at += f": precision {digits(best.precision)}, recall {digits(best.recall)}"
    lines.append(f"  best F1                  {shown(best.interval, best.value)}   {at}")
    if fixed is not None:
        precision = fixed.precision
        lines.append(
            f"  corrected precision      {digits(precision.value)}   [{digits(precision.low)}, "
            f"{digits(precision.high)}] at recall {fixed.recall:g}, after {precision.n} manual labels"
        )
    if claims is not None:
        lines.append(
            f"\n  On its {claims.pairs:,} stated pairs alone the same scores would claim: "
            f"average precision {claims.average_precision:.4f}, best F1 {claims.best_f1.value:.4f}, "
            f"accuracy {claims.accuracy:.4f}."
        )
        ranks, answers = claims.by_question, claims.answer_triggering
        if ranks is not None and answers is not None:
            lines.append(
                f"  By question: clean MAP {ranks.mean_average_precision:.4f}, MRR "
                f"{ranks.mean_reciprocal_rank:.4f} ({ranks.questions:,} questions), "
                f"F1 of answering {answers.f1:.4f}."
            )
    return "\n".join(lines)


# ── over stated pairs ────────────────────────────────────────────────────────────────────────────


def pair_measures(scores: ArrayLike, labels: ArrayLike, threshold: float) -> PairMeasures:
    """Accuracy, precision, recall and F1 over stated pairs: (n,) scores, (n,) labels in {0, 1}.

    F1 is the paper's a-F1: across all stated pairs, those of unanswerable questions among them.
    """
    given, positive = _checked(scores, labels)
    called = given >= np.float32(threshold)
    positives, accuracy = int(positive.sum()), float((called == positive).mean())
    ratios = _precision_recall_f1(int((called & positive).sum()), int(called.sum()), positives)
    return PairMeasures(accuracy, *ratios, float(threshold), len(given), positives)


def rank_measures(ids: Ids, scores: ArrayLike, labels: ArrayLike) -> RankMeasures:
    """Clean MAP and MRR: rank each question's stated sentences, average over clean questions.

    ids: (n,) stated pairs, the question being the left row. Tied sentences enter together (MAP over
    distinct scores, as everywhere here); for MRR the tied negatives stand before the positive.
    """
    given, positive = _checked(scores, labels, ids)
    question, given, positive, start = _by_question(ids, given, positive)
    positives = np.add.reduceat(positive.astype(np.int64), start)
    sizes = np.diff(np.append(start, len(given)))
    clean = (positives > 0) & (positives < sizes)
    if not clean.any():
        raise InputError(
            f"none of {len(start):,} questions has both a positive and a negative stated pair",
            why="clean MAP and MRR are means over such questions",
            remedy="Give a split whose stated pairs hold both",
        )
    group = np.repeat(np.arange(len(start)), sizes)
    running: NDArray[np.int64] = np.cumsum(positive)
    tp = running - (running[start] - positive[start])[group]
    rank = np.arange(len(given)) - start[group] + 1
    last = np.append((given[1:] != given[:-1]) | (question[1:] != question[:-1]), True)
    end = np.flatnonzero(last)[np.cumsum(last) - last]  # the last pair of each run of ties
    precision = tp[end] / rank[end]
    ap = np.add.reduceat(np.where(positive, precision, 0.0), start)[clean] / positives[clean]
    top = np.maximum.reduceat(np.where(positive, given, -np.inf), start)
    negatives_before = np.add.reduceat(~positive & (given >= top[group]), start, dtype=np.int64)
    return RankMeasures(
        float(ap.mean()), float((1.0 / (1.0 + negatives_before[clean])).mean()), int(clean.sum())
    )


def question_f1(ids: Ids, scores: ArrayLike, labels: ArrayLike, threshold: float) -> TriggerMeasures:
    """WikiQA's own evaluation of answer triggering, over all questions.

    A question is answered with its top sentence if that scores at or above the threshold. Precision: right
    answers over answered questions; recall: right answers over questions that have one. Where sentences
    tie for the top, the answer counts as right only if all of them are.
    """
    given, positive = _checked(scores, labels, ids)
    _, given, positive, start = _by_question(ids, given, positive)
    sizes = np.diff(np.append(start, len(given)))
    top = given[start]
    tied_wrong = np.add.reduceat((given == np.repeat(top, sizes)) & ~positive, start, dtype=np.int64)
    answered = top >= np.float32(threshold)
    right = int((answered & (tied_wrong == 0)).sum())
    answerable = int(np.maximum.reduceat(positive, start).sum())
    asked = int(answered.sum())
    return TriggerMeasures(*_precision_recall_f1(right, asked, answerable), asked, answerable, len(start))


def _by_question(ids: Ids, scores: Scores, positive: Mask) -> tuple[Ids, Scores, Mask, NDArray[np.intp]]:
    """Sorted by question, then falling score; and where each question starts."""
    question, _ = pair_rows(ids)
    order = np.lexsort((-scores, question))
    question = question[order]
    start = np.flatnonzero(np.append(True, question[1:] != question[:-1]))
    return question, scores[order], positive[order], start


def _checked(scores: ArrayLike, labels: ArrayLike, ids: Ids | None = None) -> tuple[Scores, Mask]:
    given, stated = np.asarray(scores, np.float32), np.asarray(labels)
    lengths = {given.shape, stated.shape} | ({ids.shape} if ids is not None else set())
    if len(lengths) > 1 or given.ndim != 1 or len(given) == 0:
        raise InputError(
            f"scores of shape {given.shape} with labels of shape {stated.shape}"
            + (f" and ids of shape {ids.shape}" if ids is not None else ""),
            remedy="Give one score and one label for each of one or more stated pairs",
        )
    if np.isnan(given).any():
        at = int(np.flatnonzero(np.isnan(given))[0])
        raise InputError(f"score {at} is not a number", remedy="Score this pair again")
    outside = np.flatnonzero((stated != 0) & (stated != 1))
    if len(outside):
        raise InputError(f"label {stated[outside[0]]} at {outside[0]} is outside {{0, 1}}")
    return given, stated.astype(bool)


def _precision_recall_f1(right: int, called: int, positives: int) -> tuple[float, float, float]:
    """Of `called` pairs or questions, `right` ones among `positives`; 0 where there is none to divide by."""
    return right / max(called, 1), right / max(positives, 1), 2 * right / max(called + positives, 1)

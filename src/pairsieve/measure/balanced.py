"""Figures over the pairs a dataset states: accuracy, F1, MAP, MRR and answer triggering.

They say little about all pairs, and are here to be set beside published ones. Pairs are called
matches when they score at or above a threshold. Questions are the left rows of a question-answer task.
Nothing is sampled: every figure is a count over the stated pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.errors import InputError
from pairsieve.pairs import Ids, Mask, Scores, pair_rows

Objective: TypeAlias = Literal["f1", "accuracy"]


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


def pair_measures(scores: ArrayLike, labels: ArrayLike, threshold: float) -> PairMeasures:
    """Accuracy, precision, recall and F1 over stated pairs: (n,) scores, (n,) labels in {0, 1}.

    F1 is the paper's a-F1: across all stated pairs, those of unanswerable questions among them.
    """
    given, positive = _checked(scores, labels)
    called = given >= np.float32(threshold)
    positives, accuracy = int(positive.sum()), float((called == positive).mean())
    ratios = _precision_recall_f1(int((called & positive).sum()), int(called.sum()), positives)
    return PairMeasures(accuracy, *ratios, float(threshold), len(given), positives)


def best_threshold(scores: ArrayLike, labels: ArrayLike, objective: Objective = "f1") -> float:
    """The threshold to choose on development pairs: one of their scores, the highest where several tie.

    For accuracy it may be infinite: calling nothing a match can be right most often.
    """
    if objective not in ("f1", "accuracy"):
        raise InputError(f"unknown objective {objective!r}", remedy='Use "f1" or "accuracy"')
    given, positive = _checked(scores, labels)
    order = np.argsort(-given, kind="stable")
    ordered = given[order]
    last = np.append(ordered[1:] != ordered[:-1], True)  # tied pairs are called together
    tp = np.cumsum(positive[order])[last]
    found = np.flatnonzero(last) + 1
    positives = int(positive.sum())
    if objective == "f1":
        return float(ordered[last][np.argmax(2.0 * tp / (found + positives))])
    right = np.append(0, 2 * tp - found)  # correct calls, less those of calling nothing a match
    return float(np.append(np.float32(np.inf), ordered[last])[np.argmax(right)])


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

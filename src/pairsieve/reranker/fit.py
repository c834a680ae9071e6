"""Fits the re-ranker to labelled pairs, with out-of-fold logits to calibrate and to judge it by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairsieve.models.folds import fold_of
from pairsieve.models.head import fit_head
from pairsieve.pairs import Ids, PairSpace, is_member, pair_rows
from pairsieve.reranker import Reranker, find_candidates
from pairsieve.reranker.features import TextReader, count_pieces, describe
from pairsieve.reranker.trees import Features, Logits, fit_trees

if TYPE_CHECKING:
    from pairsieve.models import CrossMatcher
    from pairsieve.reranker import ScanOf

FOLDS = 5
CROSS_FOLDS = 3  # cross-encoders trained, each without a third of the left texts
FEWEST = 20  # labels of either class below which trees would only learn noise

TrainCross = Callable[[Ids, NDArray[np.bool_]], "CrossMatcher"]


@dataclass(frozen=True, eq=False)
class FittedReranker:
    """A re-ranker and its log-odds (n,) of the labelled pairs, each from trees without its left text."""

    reranker: Reranker
    out_of_fold: Logits


def enough_labels(labels: NDArray[np.bool_]) -> bool:
    """Whether there are labels of both classes to learn from."""
    positives = int(labels.sum())
    return min(positives, len(labels) - positives) >= FEWEST


def fit_reranker(
    scan_of: ScanOf,
    space: PairSpace,
    texts: tuple[Sequence[str], Sequence[str]],
    rows: tuple[NDArray[np.float32], NDArray[np.float32] | None],
    labelled: Ids,
    labels: NDArray[np.bool_],
    seed: int,
    train_cross: TrainCross | None = None,
) -> FittedReranker:
    """Trees over the features of labelled pairs beside all candidates of the space.

    rows: unit rows of both sides as embedded. train_cross(ids, labels): trains a cross-encoder, whose logits
    then are a column: those of a labelled pair from one that did not see its left text.
    """
    left = pair_rows(labelled)[0]
    vocabulary = count_pieces(texts[:1] if space.symmetric else texts)
    ids, cosines = find_candidates(scan_of, space, *rows, also=labelled)
    cross: tuple[CrossMatcher, ...] = ()
    columns: list[NDArray[np.float64]] = []
    if train_cross is not None:
        fold = fold_of(left, seed, CROSS_FOLDS)
        cross = tuple(train_cross(labelled[fold != one], labels[fold != one]) for one in range(CROSS_FOLDS))
        each = np.array([one.logits(*texts, ids) for one in cross], np.float64)
        column = each.mean(axis=0)
        known = np.flatnonzero(is_member(ids, labelled))
        column[known] = each[fold[np.searchsorted(labelled, ids[known])], known]
        columns = [column]
    pieces = TextReader(vocabulary).take_apart(space, *texts)
    features = describe(pieces, ids, (cosines, *columns))[np.searchsorted(ids, labelled)]
    raw = out_of_fold_logits(features, labels, left, seed)
    weight, bias = fit_head(raw, labels)
    reranker = Reranker(fit_trees(features, labels, seed), vocabulary, weight, bias, cross_encoders=cross)
    return FittedReranker(reranker, weight * raw + bias)


def out_of_fold_logits(
    features: Features, labels: NDArray[np.bool_], groups: NDArray[np.int64], seed: int, folds: int = FOLDS
) -> Logits:
    """(n,) logits of labelled pairs, each from trees that saw no pair of its group (its left text)."""
    logits = np.empty(len(labels), np.float64)
    fold = fold_of(groups, seed, folds)
    for one in range(folds):
        out = fold == one
        if out.any():
            logits[out] = fit_trees(features[~out], labels[~out], seed).logits(features[out])
    return logits

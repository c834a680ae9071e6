"""Fits the re-ranker to labelled pairs, with out-of-fold logits to weigh and to judge it by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.models import CrossMatcher
from pairsieve.models.head import fold_of
from pairsieve.numeric import logit, sigmoid
from pairsieve.pairs import Ids, PairSpace, is_member, pair_rows
from pairsieve.reranker import MOST_CANDIDATES, Floats, ReadTexts, Reranker, ScanOf, Stack, candidate_scans
from pairsieve.reranker.features import describe
from pairsieve.reranker.linear import Linear, fit_linear
from pairsieve.reranker.trees import COUNT, Features, Logits, Trees, fit_trees

FOLDS = 5
CROSS_FOLDS = 3  # cross-encoders trained, each without a third of the left texts
FEWEST = 6  # labels of either class below which a re-ranker has nothing to learn from
STACK_SPREAD = 0.25  # prior standard deviation of the weights of a stack, around those of `Stack`
CANDIDATES_A_TEXT = 20  # by either cut
FEWEST_CANDIDATES = 150_000

TrainCross = Callable[[Ids, NDArray[np.bool_]], "CrossMatcher"]


@dataclass(frozen=True, eq=False)
class Base:
    """The bi-encoder's word on labelled pairs (n,), by models that did not see their left texts.

    `likely`: how many pairs of the space it thinks more likely matches than not.
    """

    cosines: NDArray[np.floating]
    log_odds: NDArray[np.float64]
    likely: int


@dataclass(frozen=True, eq=False)
class FittedReranker:
    """A re-ranker and its log-odds (n,) of the labelled pairs, each from models without its left text."""

    reranker: Reranker
    out_of_fold: Logits


def enough_labels(labels: NDArray[np.bool_]) -> bool:
    """Whether there are labels of both classes to learn from."""
    positives = int(labels.sum())
    return min(positives, len(labels) - positives) >= FEWEST


def candidates_wanted(space: PairSpace, likely: int) -> int:
    """How many pairs either cut lets through: some for each text, more where more are likely matches."""
    texts = space.shape[0] if space.symmetric else sum(space.shape)
    return min(max(FEWEST_CANDIDATES, CANDIDATES_A_TEXT * texts, 2 * likely), MOST_CANDIDATES)


def fit_reranker(
    scan_of: ScanOf,
    space: PairSpace,
    texts: tuple[Sequence[str], Sequence[str]],
    read: ReadTexts,
    rows: tuple[Floats, Floats | None],
    labelled: Ids,
    labels: NDArray[np.bool_],
    base: Base,
    seed: int,
    train_cross: TrainCross | None = None,
) -> FittedReranker:
    """Both models over the features of labelled pairs beside all candidates of the space.

    read: the texts, as `read_texts` reads them. rows: unit rows of both sides as embedded.
    train_cross(ids, labels): trains a cross-encoder, whose logits then are a column: those of a labelled pair
    from one that did not see its left text.
    """
    left = pair_rows(labelled)[0]
    scans = candidate_scans(scan_of, space, rows, read.lexical)
    cuts = scans.cuts(candidates_wanted(space, base.likely))
    ids = scans.reaching(cuts, also=labelled)
    known = np.searchsorted(ids, labelled)
    cosines = scans.cosine.scores(ids)
    cosines[known] = base.cosines
    cross: tuple[CrossMatcher, ...] = ()
    columns: list[NDArray[np.float64]] = []
    if train_cross is not None:
        fold = fold_of(left, seed, CROSS_FOLDS)
        cross = tuple(train_cross(labelled[fold != one], labels[fold != one]) for one in range(CROSS_FOLDS))
        each = np.array([one.logits(*texts, ids) for one in cross], np.float64)
        column = each.mean(axis=0)
        column[known] = each[fold, known]
        columns = [column]
    wanted = _competing(space, ids, labelled)
    every: list[NDArray[Any]] = [cosines, scans.lexical.scores(ids), *columns]
    among = ids[wanted]
    described = describe(read.pieces, among, [column[wanted] for column in every])
    features = described[np.searchsorted(among, labelled)]
    raw = out_of_fold_logits(features, labels, left, seed)
    stack = fit_stack(raw, base.log_odds, labels)
    models = _fit_models(features, labels, seed)
    reranker = Reranker(*models, read.vocabulary, read.encoder, cuts, stack, cross)
    logits = stack.trees * raw[0] + stack.linear * raw[1]
    return FittedReranker(reranker, reranker.log_odds(logits, base.log_odds))


def out_of_fold_logits(
    features: Features, labels: NDArray[np.bool_], groups: NDArray[np.int64], seed: int, folds: int = FOLDS
) -> Logits:
    """(2, n) logits of labelled pairs by trees and linear model that saw no pair of its group (left text).

    Where the other folds hold one class only, the smoothed rate of all labels stands for what they would
    say.
    """
    rate = (labels.sum() + 0.5) / (len(labels) + 1.0)
    logits = np.full((2, len(labels)), float(logit(rate)))
    fold = fold_of(groups, seed, folds)
    for one in range(folds):
        out = fold == one
        rest = labels[~out]
        if out.any() and rest.any() and not rest.all():
            models = _fit_models(features[~out], rest, seed, COUNT // 2)
            logits[:, out] = [model.logits(features[out]) for model in models]
    return logits


def _fit_models(
    features: Features, labels: NDArray[np.bool_], seed: int, trees: int = COUNT
) -> tuple[Trees, Linear]:
    return fit_trees(features, labels, seed, trees), fit_linear(features, labels)


def fit_stack(logits: Logits, base_log_odds: NDArray[np.float64], labels: NDArray[np.bool_]) -> Stack:
    """Weights of both models' logits (2, n) and of the bi-encoder's log-odds (n,), none negative, and a bias.

    Cross-entropy with a Gaussian prior on the weights around trees and bi-encoder, so that few labels leave
    both their say, and the linear model has one where labels show that it helps.
    """
    from scipy.optimize import minimize

    columns = np.stack([*logits, np.clip(base_log_odds, -20, 20), np.ones(len(labels))], axis=1)
    signs, centre = np.where(labels, 1.0, -1.0), np.array(astuple(Stack()))
    precision = np.array([1.0, 1.0, 1.0, 0.0]) / STACK_SPREAD**2

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margin = signs * (columns @ weights)
        off = weights - centre
        value = float(np.logaddexp(0.0, -margin).sum() + (precision * off * off).sum() / 2)
        slope = -(columns * (signs * sigmoid(-margin))[:, None]).sum(axis=0) + precision * off
        return value, slope

    bounds = [(0.05, 5), (0, 5), (0, 5), (-10, 10)]
    return Stack(*minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=bounds).x.tolist())


def _competing(space: PairSpace, ids: Ids, labelled: Ids) -> NDArray[np.bool_]:
    """Which candidates share a text with a labelled pair: no others matter to its description."""
    left, right = pair_rows(ids)
    texts = [np.unique(side) for side in pair_rows(labelled)]
    if space.symmetric:
        both = np.union1d(*texts)
        return np.asarray(is_member(left, both) | is_member(right, both))
    return np.asarray(is_member(left, texts[0]) | is_member(right, texts[1]))

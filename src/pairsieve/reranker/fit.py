"""Fits the re-ranker to labelled pairs, with out-of-fold logits to weigh and to judge it by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pairsieve.models import CrossMatcher
from pairsieve.models.head import fit_head, fold_of
from pairsieve.numeric import logit, sigmoid
from pairsieve.pairs import Ids, PairSpace, pair_rows
from pairsieve.reranker import MOST_CANDIDATES, Floats, ReadTexts, Reranker, ScanOf, Stack, candidate_scans
from pairsieve.reranker.features import describe
from pairsieve.reranker.linear import Linear, fit_linear
from pairsieve.reranker.trees import COUNT, Features, Logits, Trees, fit_trees

FOLDS = 5
CROSS_FOLDS = 3  # cross-encoders trained, each without a third of the left texts
FEWEST = 3  # labels of either class below which a re-ranker has nothing to learn from
STACK_SPREAD = 0.25  # prior standard deviation of the weights of a stack, around those of `Stack`
CANDIDATES_A_TEXT = 20  # by each cut
FEWEST_CANDIDATES = 150_000
LEAST_WEIGHT = 0.05  # of trees and of the bi-encoder in a stack, and of what calibration leaves of it
FEWEST_RANKED = 20  # labelled matches from which their ranks are looked at
LEFT_OUT = 20  # one match in so many may be a wrong answer
NEARLY = 1.1  # times the best mean of log ranks that is as good, for a smaller share
SHARES = (0.0, 0.125, 0.25, 0.5, 1.0)  # of the models' weight beside the bi-encoder that are tried

TrainCross = Callable[[Ids, NDArray[np.bool_]], "CrossMatcher"]


@dataclass(frozen=True, eq=False)
class Base:
    """The bi-encoder's word on labelled pairs (n,), by models that did not see their left texts.

    `likely`: how many pairs of the space it thinks more likely matches than not. `log_odds_of(ids)`: its
    log-odds of any pairs.
    """

    cosines: NDArray[np.floating]
    log_odds: NDArray[np.float64]
    likely: int
    log_odds_of: Callable[[Ids], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class FittedReranker:
    """A re-ranker and its log-odds (n,) of the labelled pairs, each from models without its left text.

    `helps`: whether matches rank better among all candidates with it than by the bi-encoder alone.
    """

    reranker: Reranker
    out_of_fold: Logits
    helps: bool


def enough_labels(labels: NDArray[np.bool_]) -> bool:
    """Whether there are labels of both classes to learn from."""
    positives = int(labels.sum())
    return min(positives, len(labels) - positives) >= FEWEST


def candidates_wanted(space: PairSpace, likely: int) -> int:
    """How many pairs each cut lets through: some for each text, more where more are likely matches."""
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
    described = describe(read.pieces, ids, [cosines, scans.lexical.scores(ids), *columns])
    features, every_base = described[known], base.log_odds_of(ids)
    presumed = described[presumed_others(every_base, known, base.likely, seed)]
    raw = out_of_fold_logits(features, labels, left, seed, presumed)
    stack = fit_stack(raw, base.log_odds, labels)
    models = _fit_models(features, labels, presumed, seed)
    reranker = Reranker(*models, read.vocabulary, read.encoder, cuts, stack, cross)
    logits = stack.trees * raw[0] + stack.linear * raw[1]
    share = best_share(
        (logits, stack.base * stack.bounded(base.log_odds) + stack.bias),
        (reranker.logits(described), stack.base * stack.bounded(every_base) + stack.bias),
        labels,
    )
    stack = with_share(stack, share or SHARES[1], raw, base.log_odds, labels)
    reranker = replace(reranker, stack=stack)
    logits = stack.trees * raw[0] + stack.linear * raw[1]
    return FittedReranker(reranker, reranker.log_odds(logits, base.log_odds), share > 0)


def presumed_others(
    base_log_odds: NDArray[np.float64], known: NDArray[np.int64], likely: int, seed: int
) -> NDArray[np.int64]:
    """Places of random candidates that are taken for non-matches, as many as there are labels.

    Labels lie where pairs are in doubt, and say nothing of all other candidates, of which nearly none match:
    models that never saw one may lift any of them. `known`: places of the labelled pairs; the candidates
    that the bi-encoder ranks first, twice as many as it thinks are matches, are left out too.
    """
    free = np.ones(len(base_log_odds), bool)
    free[np.argsort(-base_log_odds, kind="stable")[: 2 * likely]] = False
    free[known] = False
    places = np.flatnonzero(free)
    rng = np.random.default_rng([seed, len(known)])
    return rng.choice(places, min(len(known), len(places)), replace=False)


def best_share(
    held_out: tuple[Logits, Logits], among: tuple[Logits, Logits], labels: NDArray[np.bool_]
) -> float:
    """The share of the models' log-odds beside the bi-encoder's with which matches rank best; 0 is none.

    held_out: both summands of the labelled pairs (n,), out of fold; among: those of all candidates (m,).
    Labels chosen in doubt tell how well the models know doubtful pairs. They do not tell how many of the
    millions of others they lift beside them: that is counted. A share is the better, the fewer candidates
    stand at or above a labelled match in the geometric mean; how many do is of no matter up to the number
    of likely matches. The last twentieth of the matches is left out: an answer may be wrong. Labels favour
    the models by which they were chosen, so the smallest share is taken that is worse by less than a tenth.
    Where ranks cannot tell, or matches are few, the cross-entropy of the labels does.
    """
    matches = int(labels.sum())
    with_models, alone = (cross_entropy(z, labels) for z in (held_out[0] + held_out[1], held_out[1]))
    if matches < FEWEST_RANKED:
        return float(with_models <= alone)
    enough = max(int((among[0] + among[1] >= 0).sum()), matches)
    kept = matches - -(-matches // LEFT_OUT)
    ranks = []
    for share in SHARES:
        ranking = np.sort(share * among[0] + among[1])
        above = len(ranking) - np.searchsorted(ranking, (share * held_out[0] + held_out[1])[labels])
        ranks.append(float(np.log(np.maximum(np.sort(above)[:kept] / enough, 1.0)).mean()))
    if min(ranks) > 0:
        return min(share for share, rank in zip(SHARES, ranks) if rank <= NEARLY * min(ranks))
    best = [share for share, rank in zip(SHARES, ranks) if rank == 0]
    return max(best) if with_models <= alone else min(best)


def with_share(
    stack: Stack, share: float, logits: Logits, base_log_odds: NDArray[np.float64], labels: NDArray[np.bool_]
) -> Stack:
    """A stack whose models count a share of what they did, calibrated to the labels again."""
    if share == 1.0:
        return stack
    trees, linear = share * stack.trees, share * stack.linear
    z = trees * logits[0] + linear * logits[1] + stack.base * stack.bounded(base_log_odds)
    weight, bias = fit_head(z, labels)
    if weight < LEAST_WEIGHT:  # the labels contradict this share: all pairs would be as good as tied
        return stack
    return Stack(weight * trees, weight * linear, weight * stack.base, bias, stack.bound)


def cross_entropy(log_odds: NDArray[np.float64], labels: NDArray[np.bool_]) -> float:
    """Mean cross-entropy of labels under log-odds."""
    return float(np.logaddexp(0.0, np.where(labels, -log_odds, log_odds)).mean())


def out_of_fold_logits(
    features: Features, labels: NDArray[np.bool_], groups: NDArray[np.int64], seed: int, presumed: Features
) -> Logits:
    """(2, n) logits of labelled pairs by trees and linear model that saw no pair of its group (left text).

    presumed (m, columns): further pairs, taken for non-matches by all of these models.
    Where the other folds hold one class only, the smoothed rate of all labels stands for what they would
    say.
    """
    rate = (labels.sum() + 0.5) / (len(labels) + 1.0)
    logits = np.full((2, len(labels)), float(logit(rate)))
    fold = fold_of(groups, seed, FOLDS)
    for one in range(FOLDS):
        out = fold == one
        rest = labels[~out]
        if out.any() and rest.any() and not rest.all():
            models = _fit_models(features[~out], rest, presumed, seed, COUNT // 2)
            logits[:, out] = [model.logits(features[out]) for model in models]
    return logits


def _fit_models(
    features: Features, labels: NDArray[np.bool_], presumed: Features, seed: int, trees: int = COUNT
) -> tuple[Trees, Linear]:
    features = np.concatenate([features, presumed])
    labels = np.concatenate([labels, np.zeros(len(presumed), bool)])
    return fit_trees(features, labels, seed, trees), fit_linear(features, labels)


def fit_stack(logits: Logits, base_log_odds: NDArray[np.float64], labels: NDArray[np.bool_]) -> Stack:
    """Weights of both models' logits (2, n) and of the bi-encoder's log-odds (n,), none negative, and a bias.

    Cross-entropy with a Gaussian prior on the weights around trees and bi-encoder, so that few labels leave
    both their say, and the linear model has one where labels show that it helps. n labels of the rarer
    class can show odds of n + 1 to 1 at the most; the bi-encoder's slope, fitted to few, may promise any, and
    would outweigh all else.
    """
    from scipy.optimize import minimize

    rarer = max(min(int(labels.sum()), int((~labels).sum())), 1)
    start = Stack(bound=float(np.log(rarer + 1.0)))
    columns = np.stack([*logits, start.bounded(base_log_odds), np.ones(len(labels))], axis=1)
    signs, centre = np.where(labels, 1.0, -1.0), np.array(astuple(start)[:4])
    precision = np.array([1.0, 1.0, 1.0, 0.0]) / STACK_SPREAD**2

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margin = signs * (columns @ weights)
        off = weights - centre
        value = float(np.logaddexp(0.0, -margin).sum() + (precision * off * off).sum() / 2)
        slope = -(columns * (signs * sigmoid(-margin))[:, None]).sum(axis=0) + precision * off
        return value, slope

    bounds = [(LEAST_WEIGHT, 5), (0, 5), (LEAST_WEIGHT, 5), (-10, 10)]
    weights = minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=bounds).x.tolist()
    return replace(start, **dict(zip(("trees", "linear", "base", "bias"), weights)))

"""The pair scorer: one value that gives every pair its score and its probability.

A `Scorer` is made once per round from the labels, and knows nothing of ledgers or folders. Everything that
needs a score takes it: choosing, measuring, lists, groups, audits, explanations, the page, the report,
serving and export. `score_space` applies it to the texts of a pair space; `out_of_fold_scores` scores
labelled pairs by models that did not see them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError
from pairsieve.models import Learner, Matcher
from pairsieve.numeric import sigmoid
from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, Scores, is_member, pair_rows
from pairsieve.reranker import ReadTexts, Reranker, rerank
from pairsieve.scan import Scan
from pairsieve.scorer.calibration import Calibration
from pairsieve.scorer.corrections import (
    CorrectedRows,
    Corrections,
    ExactNeighbours,
    Floats,
    Memo,
    NeighbourFinder,
    compute,
    correct_rows,
    smoothed,
)

Mask = NDArray[np.bool_]
OpenScan = Callable[[PairSpace, Floats, "Floats | None", bool], "Scan"]

HIGHEST = -2.0  # log-odds of a pair that is not a candidate, at most
_ONE = int(np.float32(2.0).view(np.int32))  # the bits of 2.0: no score of a bi-encoder's scan is larger


@dataclass(frozen=True, eq=False)
class Scorer:
    """Trained matcher, corrections, head (`weight`, `bias`), re-ranker and calibration.

    Without a re-ranker a pair's score is the product of its corrected rows (its cosine, where there are no
    corrections), and its log-odds are `weight · score + bias`. With one, a candidate has the re-ranker's
    log-odds z, which weigh these in, and every other pair z from the bi-encoder alone; the score is
    z / (1 + |z|). It lies between -1 and 1. Above 0 a match is more likely than not, as far as the labels
    tell that it was trained on; only a calibration on labels drawn with known chances gives probabilities.
    """

    matcher: Matcher
    corrections: Corrections
    weight: float
    bias: float
    reranker: Reranker | None = None
    calibration: Calibration | None = None

    def plain(self) -> Scorer:
        """The same matcher without corrections and re-ranker: its cosine, under its own head."""
        corrections = Corrections(self.corrections.symmetric)
        return Scorer(self.matcher, corrections, float(self.matcher.weight), float(self.matcher.bias))

    def bi_encoder(self) -> Scorer:
        """The same scorer without its re-ranker."""
        return replace(self, reranker=None, calibration=None)

    @property
    def fingerprint(self) -> str:
        """Names the scores it gives."""
        parts: list[Any] = [self.matcher.fingerprint, self.corrections, self.weight, self.bias]
        digest = hashlib.sha256(repr(parts).encode())
        if self.reranker is not None:
            for name, array in self.reranker.trees.arrays().items():
                digest.update(name.encode() + array.tobytes())
            digest.update(self.reranker.linear.weights.tobytes() + self.reranker.lexical.rarity.tobytes())
            numbers = [self.reranker.stack, self.reranker.cuts]
            digest.update(repr([*numbers, len(self.reranker.cross_encoders)]).encode())
        return digest.hexdigest()

    def log_odds(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """Log-odds of a match from scores."""
        values = np.asarray(scores, np.float64)
        if self.reranker is None:
            return self.weight * values + self.bias
        return values / np.maximum(1.0 - np.abs(values), 1e-12)

    def score_of(self, log_odds: float) -> float:
        """The score at which a pair has such log-odds."""
        if self.reranker is None:
            return (log_odds - self.bias) / self.weight
        return log_odds / (1.0 + abs(log_odds))

    def head_probability(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """sigmoid(log-odds): how likely a match is by the labels that were trained on, uncalibrated."""
        return sigmoid(self.log_odds(scores))

    @property
    def calibrated(self) -> bool:
        """Whether it has probabilities."""
        return self.calibration is not None and self.calibration.calibrated

    def probabilities(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """Probability of a match from scores; nan where nothing calibrates them."""
        if self.calibration is None or not self.calibration.calibrated:
            return np.full(np.shape(scores), np.nan)
        return self.calibration.probabilities(self.log_odds(scores))

    def scores(
        self, left_texts: Sequence[str], right_texts: Sequence[str] | None = None
    ) -> NDArray[np.float32]:
        """(left, right) scores of all pairs of a small collection, or of two.

        One collection: symmetric, nan on the diagonal, where there is no pair.
        """
        return score_matrix(score_texts(self, left_texts, right_texts))

    @property
    def even_odds(self) -> float:
        """The score at which a match is as likely as not, within the range of scores."""
        return float(np.clip(self.score_of(0.0), -1.0, 1.0))


@dataclass(frozen=True, eq=False)
class ScoredSpace:
    """A scorer applied to a pair space: `scan` gives the score of any pair, of all, or of a range.

    base: the scan of the bi-encoder's corrected rows (the same object without a re-ranker). candidates: the
    pairs that the re-ranker scored, sorted; empty without one.
    """

    scorer: Scorer
    corrected: CorrectedRows
    base: Scan
    scan: Scan
    candidates: Ids

    @property
    def space(self) -> PairSpace:
        return self.corrected.space

    @property
    def method(self) -> str:
        """How the pairs were scored, in words."""
        if self.scorer.reranker is None:
            return "exact over all pairs"
        return f"exact over all pairs, {len(self.candidates):,} candidates re-ranked"


def score_space(
    scorer: Scorer,
    space: PairSpace,
    texts: tuple[Sequence[str], Sequence[str]],
    rows: tuple[Floats, Floats | None],
    open_scan: OpenScan,
    finder: NeighbourFinder | None = None,
    memo: Memo = compute,
    read: Callable[[Reranker], ReadTexts] | None = None,
) -> ScoredSpace:
    """Score a space by its texts and their unit rows (left and right; right None for one collection).

    `open_scan(space, left, right, lengths)`: see `scan.open_scan`. `finder`: None finds neighbours exactly.
    `memo(kind, build)` may keep what was found: "nearest", "density", "candidates". `read`: gives what the
    re-ranker reads from the texts, where it is kept.
    """

    def cosine_scan(space: PairSpace, left: Floats, right: Floats | None) -> Scan:
        return open_scan(space, left, right, False)

    found = finder or ExactNeighbours(cosine_scan)
    corrected = correct_rows(scorer.corrections, space, rows, found, memo)
    base = open_scan(space, *corrected.rows, any(scorer.corrections.hubness))
    if scorer.reranker is None:
        return ScoredSpace(scorer, corrected, base, base, np.empty(0, np.int64))
    reranker = scorer.reranker
    reranked = memo(
        "candidates", lambda: rerank(reranker, cosine_scan, space, texts, rows, read and read(reranker))
    )
    alone = scorer.bi_encoder().log_odds(base.scores(reranked["ids"]))
    log_odds = reranker.log_odds(reranked["logits"], alone)
    scan = RerankedScan(base, scorer.weight, scorer.bias, reranked["ids"], log_odds)
    return ScoredSpace(scorer, corrected, base, scan, reranked["ids"])


def score_texts(
    scorer: Scorer, left_texts: Sequence[str], right_texts: Sequence[str] | None = None
) -> ScoredSpace:
    """Embed and score the pairs of one collection of texts, or of two."""
    from pairsieve.scan import open_scan

    if (right_texts is None) != scorer.corrections.symmetric:
        what, why = "`right_texts` is missing", "the scorer was trained on pairs between two collections"
        remedy = "Give left and right texts"
        if scorer.corrections.symmetric:
            what, why = "`right_texts` is given", "the scorer was trained on pairs within one collection"
            remedy = "Give one list of texts"
        raise InputError(what, why=why, remedy=remedy)
    for name, given in (("left_texts", left_texts), ("right_texts", right_texts)):
        wrong = next((each for each in (() if given is None else given) if not isinstance(each, str)), None)
        if wrong is not None:
            what, why = f"`{name}` holds a {type(wrong).__name__}", "a scorer reads texts: a list of strings"
            remedy = "Give of a record its text in the task (`split.left.texts`): the values joined by ' | '"
            raise InputError(what, why=why, remedy=remedy)
    left = scorer.matcher.embed(left_texts, "left")
    right = None if right_texts is None else scorer.matcher.embed(right_texts, "right")
    space: PairSpace = AllPairs(len(left)) if right is None else CrossPairs(len(left), len(right))
    texts = left_texts, left_texts if right_texts is None else right_texts

    def scan(space: PairSpace, left: Floats, right: Floats | None, lengths: bool) -> Scan:
        return open_scan(space, left, right, lengths=lengths)

    return score_space(scorer, space, texts, (left, right), scan)


def score_matrix(scored: ScoredSpace) -> NDArray[np.float32]:
    """(left, right) scores of all pairs of a small space; one collection: symmetric, nan on the diagonal."""
    rows, columns = scored.space.shape
    if scored.space.symmetric:
        one, other = np.triu_indices(rows, 1)
        matrix = np.full((rows, rows), np.nan, np.float32)
        matrix[one, other] = matrix[other, one] = scored.scan.scores(scored.space.ids(one, other))
        return matrix
    every = scored.space.ids(np.repeat(np.arange(rows), columns), np.tile(np.arange(columns), rows))
    return scored.scan.scores(every).reshape(rows, columns)


# ── the re-ranker's scores over the bi-encoder's ─────────────────────────────────────────────────


def below_candidates(log_odds: NDArray[Any]) -> NDArray[np.float64]:
    """The log-odds z of a pair that is not a candidate, as they count: `HIGHEST - log(1 + exp(-z))`.

    Labels say little of such pairs, and there are millions of them.
    """
    return HIGHEST - np.logaddexp(0.0, -np.asarray(log_odds, np.float64))


def softsign(log_odds: NDArray[Any]) -> Scores:
    """z -> z / (1 + |z|), as float32."""
    values = np.asarray(log_odds, np.float64)
    return (values / (1.0 + np.abs(values))).astype(np.float32)


class RerankedScan:
    """The `Scan` of a space whose candidates `ids` (sorted) have the re-ranker's `log_odds` (n,).

    Every other pair has the bi-encoder's. Both are log-odds z, mapped to z / (1 + |z|). The bi-encoder's part
    is a monotone map of its own score, so counts over all pairs stay exact: those of the underlying scan,
    less the candidates there, plus the candidates by their own scores.
    """

    def __init__(
        self, base: Scan, weight: float, bias: float, ids: Ids, log_odds: NDArray[np.float64]
    ) -> None:
        self.base, self.space, self.device = base, base.space, base.device
        alone = base.scores(ids)  # where candidates would stand by the bi-encoder alone
        self.ids, self.own = ids, softsign(log_odds)
        self._weight, self._bias, self._in_base = weight, bias, np.sort(alone)
        self._sorted = np.sort(self.own)

    space: PairSpace

    def scores(self, ids: Ids) -> Scores:
        """Scores of chosen pairs, in any order."""
        scores = self._mapped(self.base.scores(ids))
        reranked = is_member(ids, self.ids)
        scores[reranked] = self.own[np.searchsorted(self.ids, ids[reranked])]
        return scores

    def count_reaching(self, thresholds: NDArray[np.float32], desc: str = "all pairs") -> NDArray[np.int64]:
        """How many pairs score at least each threshold; thresholds in any order."""
        wanted = np.asarray(thresholds, np.float32)
        lowest = self._lowest(wanted)
        distinct, back = np.unique(lowest, return_inverse=True)
        in_base = self.base.count_reaching(distinct, desc)[back]
        less = len(self._in_base) - np.searchsorted(self._in_base, lowest, side="left")
        more = len(self._sorted) - np.searchsorted(self._sorted, wanted, side="left")
        return in_base - less + more

    def collect(
        self, low: float, high: float, take: Callable[[Ids, Scores], None], desc: str = "collecting"
    ) -> None:
        """Hand every pair with low <= score <= high to `take`, in pieces of any order."""
        bottom, top = np.float32(low), np.float32(high)
        first = self._lowest(np.array([bottom]))[0]
        above = np.nextafter(top, np.float32(np.inf))
        last = np.nextafter(self._lowest(np.array([above]))[0], np.float32(-np.inf))

        def pieces(ids: Ids, scores: Scores) -> None:
            rest = ~is_member(ids, self.ids)
            take(ids[rest], self._mapped(scores[rest]))

        if first <= last:
            self.base.collect(float(first), float(last), pieces, desc)
        inside = (self.own >= bottom) & (self.own <= top)
        take(self.ids[inside], self.own[inside])

    def neighbours(
        self, count: int, rows: NDArray[np.int64] | None = None, desc: str = "neighbours"
    ) -> tuple[NDArray[np.int64], Scores]:
        raise TypeError("neighbours are those of the bi-encoder: ask the scan that this one stands on")

    def _mapped(self, scores: Scores) -> Scores:
        """The bi-encoder's scores as scores of this scan; monotone."""
        return softsign(below_candidates(self._weight * scores.astype(np.float64) + self._bias))

    def _lowest(self, thresholds: NDArray[np.float32]) -> NDArray[np.float32]:
        """The lowest underlying float32 score from -2 to 2 that maps to each threshold or above; else 2.

        By bisection over the bits of float32, which are ordered like the numbers they stand for.
        """
        low = np.full(thresholds.shape, -_ONE, np.int64)
        high = np.full(thresholds.shape, _ONE, np.int64)
        while (low < high).any():
            middle = (low + high) >> 1
            reached = self._mapped(_from_order(middle)) >= thresholds
            high = np.where(reached, middle, high)
            low = np.where(reached, low, middle + 1)
        return _from_order(low)


def _from_order(order: NDArray[np.int64]) -> NDArray[np.float32]:
    """Float32 numbers in their order, 0 standing for 0.0: negative ones mirror the positive ones' bits."""
    bits = np.abs(order).astype(np.int32).view(np.float32)
    return np.where(order < 0, -bits, bits).astype(np.float32)


# ── labelled pairs, out of fold ──────────────────────────────────────────────────────────────────


def out_of_fold_scores(
    learner: Learner,
    texts: tuple[Sequence[str], Sequence[str]],
    frozen: tuple[Floats, Floats] | None,
    corrected: CorrectedRows,
    ids: Ids,
    labels: Mask,
    fold: NDArray[np.int64],
    rng_of: Callable[[int], np.random.Generator],
    also: tuple[Ids, Mask] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(n,) scores of labelled pairs, each from a learner fitted without its fold, and their plain cosines.

    A model is too sure of the pairs it was trained on, so calibration and comparisons rest on these.
    Neighbours and densities are those of the round's own rows: only the matcher is trained again.

    frozen: the frozen encoder's rows of both sides, where the learner learns from these. also: further pairs
    to learn from; those with a left text of the fold left out are left out with it.
    """
    left, right = pair_rows(ids)
    scores, cosines = np.zeros(len(ids)), np.zeros(len(ids))
    for one in np.unique(fold).tolist():
        out = fold == one
        learn_ids, learn_labels = ids[~out], labels[~out]
        if also is not None:
            apart = ~np.isin(pair_rows(also[0])[0], left[out])
            learn_ids = np.concatenate([learn_ids, also[0][apart]])
            learn_labels = np.concatenate([learn_labels, also[1][apart]])
        if len(learn_ids):
            matcher = learner.fit(texts, learn_ids, learn_labels, rng_of(one), rows=frozen)
        else:  # one left text has every label
            matcher = learner.pretrained()
        rows_of = partial(_rows, matcher, texts, frozen, corrected)
        sides = rows_of(left[out], 0).astype(np.float64), rows_of(right[out], 1).astype(np.float64)
        products = np.einsum("nd,nd->n", *sides)
        if corrected.lengths:
            products = products * corrected.lengths[0][left[out]] * corrected.lengths[1][right[out]]
        scores[out] = products
        plain = [rows_of(places, side, plain=True) for side, places in enumerate((left[out], right[out]))]
        cosines[out] = np.einsum("nd,nd->n", *(rows.astype(np.float64) for rows in plain))
    return scores, cosines


def _rows(
    matcher: Matcher,
    texts: tuple[Sequence[str], Sequence[str]],
    frozen: tuple[Floats, Floats] | None,
    corrected: CorrectedRows,
    places: NDArray[np.int64],
    side: int,
    plain: bool = False,
) -> Floats:
    """The rows of some texts of a side: plain, or smoothed with the nearest that the round's rows name."""

    def rows_at(places: NDArray[np.int64], side: int) -> Floats:
        name = "right" if side else "left"
        if frozen is not None:
            return matcher.transform(frozen[side][places], name)
        distinct, back = np.unique(places, return_inverse=True)
        return matcher.embed([texts[side][row] for row in distinct.tolist()], name)[back]

    rows = rows_at(places, side)
    if plain or not corrected.nearest:
        return rows
    two = len(corrected.nearest) == 2  # else both sides are one collection, whose nearest are its own texts
    at = side if two else 0
    nearest = np.maximum(corrected.nearest[at][places], 0)
    return smoothed(rows, rows_at(nearest, 1 - side if two else side), corrected.weights[at][places])

"""The pair scorer: one value that gives every pair its score and its probability.

A `Scorer` is made once per round from the labels, and knows nothing of ledgers or folders. Everything that
needs a score takes it: choosing, measuring, lists, groups, audits, explanations, the page, the report,
serving and export. `score_space` applies it to the texts of a pair space.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError
from pairsieve.numeric import sigmoid
from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace
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
)

if TYPE_CHECKING:
    from pairsieve.models import Matcher
    from pairsieve.reranker import ReadTexts, Reranker
    from pairsieve.scan import Scan

OpenScan = Callable[[PairSpace, Floats, "Floats | None", bool], "Scan"]


@dataclass(frozen=True, eq=False)
class Scorer:
    """Trained matcher, corrections, calibration and re-ranker.

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
        """The same matcher without corrections and re-ranker: its cosine, under its own calibration."""
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
            numbers = [self.reranker.weight, self.reranker.base, self.reranker.bias, self.reranker.cuts]
            digest.update(repr([*numbers, len(self.reranker.cross_encoders)]).encode())
        return digest.hexdigest()

    def log_odds(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """Log-odds of a match from scores."""
        values = np.asarray(scores, np.float64)
        if self.reranker is None:
            return self.weight * values + self.bias
        odds: NDArray[np.float64] = values / np.maximum(1.0 - np.abs(values), 1e-12)
        return odds

    def score_of(self, log_odds: float) -> float:
        """The score at which a pair has such log-odds."""
        if self.reranker is None:
            return (log_odds - self.bias) / self.weight
        return log_odds / (1.0 + abs(log_odds))

    def uncalibrated(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """From 0 to 1: how likely a match is by the labels that were trained on. A guess, no probability."""
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
    corrected = correct_rows(scorer.corrections, space, *rows, found, memo)
    base = open_scan(space, *corrected.rows, any(scorer.corrections.hubness))
    if scorer.reranker is None:
        return ScoredSpace(scorer, corrected, base, base, np.empty(0, np.int64))
    from pairsieve.reranker import rerank
    from pairsieve.scorer.reranked import RerankedScan

    reranker = scorer.reranker
    reranked = memo(
        "candidates", lambda: rerank(reranker, cosine_scan, space, texts, rows, read and read(reranker))
    )
    alone = scorer.bi_encoder().log_odds(base.scores(reranked["ids"]))
    log_odds = reranker.log_odds(reranked["logits"], alone)
    scan = RerankedScan(base, scorer.weight, scorer.bias, reranked["ids"], log_odds)
    return ScoredSpace(scorer, corrected, base, scan, reranked["ids"])


def score_texts(
    scorer: Scorer,
    left_texts: Sequence[str],
    right_texts: Sequence[str] | None = None,
    *,
    device: str = "auto",
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
    left = scorer.matcher.embed(left_texts, "left")
    right = None if right_texts is None else scorer.matcher.embed(right_texts, "right")
    space: PairSpace = AllPairs(len(left)) if right is None else CrossPairs(len(left), len(right))
    texts = left_texts, left_texts if right_texts is None else right_texts

    def scan(space: PairSpace, left: Floats, right: Floats | None, lengths: bool) -> Scan:
        return open_scan(space, left, right, device=device, lengths=lengths)

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

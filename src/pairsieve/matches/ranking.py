"""The pairs of a split by score: all of them, or the neighbours that an index lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import Estimate
from pairsieve.measure.curve import Curve, measure_exactly
from pairsieve.measure.figures import listed_figures
from pairsieve.pairs import Ids, ScoredPairs, Scores, is_member
from pairsieve.scorer import ScoredSpace, Scorer
from pairsieve.search import index_neighbours, neighbour_recall
from pairsieve.tasks import Split

SEARCHES = {"exact": "", "ivf": "ivf", "hnsw": "faiss-hnsw"}
INDEX_NEIGHBOURS = 50  # of each text, where an index is searched
_FINE = 8192  # thresholds over which all pairs are counted


@dataclass(frozen=True, eq=False)
class Ranking:
    """The pairs of a split under a scorer.

    listed: None for every pair; else some pairs, sorted by id, and all others rank below them: where that
    costs recall, the figures show it. recall: of an index's neighbours, measured. unlisted: pairs that no
    list takes, whatever their score, since the encoder can read neither text.
    """

    split: Split
    scored: ScoredSpace
    listed: ScoredPairs | None = None
    recall: Estimate | None = None
    method: str = ""
    unlisted: ScoredPairs = field(default_factory=ScoredPairs.empty)
    unreadable_texts: int = 0

    @property
    def scorer(self) -> Scorer:
        return self.scored.scorer

    def log_odds(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        return self.scorer.log_odds(scores)

    def scores(self, ids: Ids) -> Scores:
        """Scores of chosen pairs, in any order; -inf where a pair is not listed."""
        if self.listed is None:
            return self.scored.scan.scores(ids)
        scores = np.full(len(ids), -np.inf, np.float32)
        there = is_member(ids, self.listed.ids)
        scores[there] = self.listed.scores[np.searchsorted(self.listed.ids, ids[there])]
        return scores

    def collect(self, low: float, high: float, take: Callable[[Ids, Scores], None]) -> None:
        """Hand every pair with low <= score <= high to `take`, in pieces of any order."""
        if self.listed is None:
            drop = len(self.unlisted) > 0

            def take_listed(ids: Ids, scores: Scores) -> None:
                kept = ~is_member(ids, self.unlisted.ids)
                take(ids[kept], scores[kept])

            self.scored.scan.collect(low, high, take_listed if drop else take, desc="collecting matches")
            return
        inside = (self.listed.scores >= np.float32(low)) & (self.listed.scores <= np.float32(high))
        take(self.listed.ids[inside], self.listed.scores[inside])

    def counts(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Ascending thresholds over all scores, and how many pairs reach each."""
        if self.listed is None:
            edges = np.linspace(-1.001, 1.001, _FINE + 1, dtype=np.float32)
            return edges, self.scored.scan.count_reaching(edges, desc="counting all pairs") - self._out(edges)
        values, first = np.unique(np.sort(self.listed.scores), return_index=True)
        return values, len(self.listed) - first

    def count_reaching(self, threshold: float) -> int:
        """How many pairs score at least `threshold`."""
        at = np.array([threshold], np.float32)
        if self.listed is None:
            return int((self.scored.scan.count_reaching(at, desc="counting pairs") - self._out(at))[0])
        return int((self.listed.scores >= at[0]).sum())

    def _out(self, thresholds: NDArray[np.float32]) -> NDArray[np.int64]:
        """How many of the pairs that no list takes reach each threshold."""
        return len(self.unlisted) - np.searchsorted(np.sort(self.unlisted.scores), thresholds, side="left")

    def threshold_for_count(self, count: int) -> float:
        """The score of the pair on place `count`; where fewer pairs are ranked, that of the last."""
        edges, reaching = self.counts()
        enough = np.flatnonzero(reaching >= count)
        low = float(edges[enough[-1]]) if len(enough) else -np.inf
        pieces: list[Scores] = []
        self.collect(max(low, -1e30), 1e30, lambda ids, scores: pieces.append(scores))
        scores = np.concatenate([np.empty(0, np.float32), *pieces])
        if not len(scores):
            return 0.0
        place = min(count, len(scores)) - 1
        return float(-np.partition(-scores, place)[place])

    def curve(self) -> Curve:
        """The exact curve over all pairs of the split, against its truth."""
        if self.listed is None:
            return measure_exactly(self.scored.scan, self.split.positives).curve
        curve = self._listed_curve()
        real = np.isfinite(curve.thresholds)  # "every pair" is no threshold to cut a list at
        return Curve(
            curve.thresholds[real], curve.true_positives[real], curve.false_positives[real], curve.positives
        )

    def average_precision(self) -> float:
        """Exact, over all pairs; pairs that are not listed rank last, tied."""
        return (self.curve() if self.listed is None else self._listed_curve()).average_precision()

    def _listed_curve(self) -> Curve:
        assert self.listed is not None
        space, positives = self.split.space, self.split.positives
        return listed_figures(space, self.listed.ids, self.listed.scores, positives)[1]


def rank(scored: ScoredSpace, split: Split, search: str, rng: np.random.Generator) -> Ranking:
    """A split by its scores: every pair, or each text's nearest by an index over the corrected rows."""
    if search == "exact":
        return Ranking(split, scored, method=scored.method)
    left, right = scored.corrected.rows
    one = np.ascontiguousarray(left, np.float32)
    other = one if right is None else np.ascontiguousarray(right, np.float32)
    count = min(INDEX_NEIGHBOURS, split.space.shape[1] - split.space.symmetric)
    columns, _ = index_neighbours(split.space, one, other, count, SEARCHES[search])
    recall = neighbour_recall(scored.base, columns, rng)
    rows = np.broadcast_to(np.arange(len(columns))[:, None], columns.shape)
    ids = np.unique(split.space.ids(rows[columns >= 0], columns[columns >= 0]))
    # Scored as an exact scan scores them: an index's own sums differ in the last digits.
    listed = ScoredPairs(ids, scored.scan.scores(ids))
    return Ranking(split, scored, listed, recall, f"{search} index, {count} a text")


def without_pairs(ranking: Ranking, ids: Ids, unreadable_texts: int) -> Ranking:
    """The ranking less some pairs (sorted ids) that no list takes."""
    if ranking.listed is not None:
        kept = ~is_member(ranking.listed.ids, ids)
        listed = ScoredPairs(ranking.listed.ids[kept], ranking.listed.scores[kept])
        return replace(ranking, listed=listed, unreadable_texts=unreadable_texts)
    unlisted = ScoredPairs(ids, ranking.scored.scan.scores(ids)) if len(ids) else ScoredPairs.empty()
    return replace(ranking, unlisted=unlisted, unreadable_texts=unreadable_texts)

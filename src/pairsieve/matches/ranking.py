"""In which order do the pairs of a split stand? By the bi-encoder over all pairs, or by a list of some.

A list comes from an index (each text's nearest, cosines) or from a second look (candidates, logits). Pairs
that are not listed rank below all that are; where that costs recall, the figures show it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import Estimate, generator_for
from pairsieve.measure.curve import Curve
from pairsieve.measure.exact import measure_exactly
from pairsieve.measure.figures import listed_figures
from pairsieve.pairs import Ids, ScoredPairs, Scores, is_member
from pairsieve.scan import Scan
from pairsieve.tasks import Split

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign

SEARCHES = {"exact": "", "ivf": "faiss-ivf", "hnsw": "faiss-hnsw"}
INDEX_NEIGHBOURS = 50  # of each text, where an index is searched
_FINE = 8192  # thresholds over which all pairs are counted


@dataclass(frozen=True, eq=False)
class Ranking:
    """The pairs of a split by score; a pair's logit is `weight · score + bias`.

    Either `scan` (every pair) or `listed` (some pairs, sorted by id) holds the scores.
    """

    part: Split
    weight: float
    bias: float
    method: str
    scan: Scan | None = None
    listed: ScoredPairs | None = None
    recall: Estimate | None = None  # of an index's neighbours, measured

    def logits(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        made: NDArray[np.float64] = self.weight * np.asarray(scores, np.float64) + self.bias
        return made

    def scores(self, ids: Ids) -> Scores:
        """Scores of chosen pairs, in any order; -inf where a pair is not listed."""
        if self.scan is not None:
            return self.scan.scores(ids)
        assert self.listed is not None
        made = np.full(len(ids), -np.inf, np.float32)
        there = is_member(ids, self.listed.ids)
        made[there] = self.listed.scores[np.searchsorted(self.listed.ids, ids[there])]
        return made

    def collect(self, low: float, high: float, take: Callable[[Ids, Scores], None]) -> None:
        """Hand every pair with low <= score <= high to `take`, in pieces of any order."""
        if self.scan is not None:
            self.scan.collect(low, high, take, words="collecting matches")
            return
        assert self.listed is not None
        inside = (self.listed.scores >= np.float32(low)) & (self.listed.scores <= np.float32(high))
        take(self.listed.ids[inside], self.listed.scores[inside])

    def counts(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Ascending thresholds over all scores, and how many pairs reach each."""
        if self.scan is not None:
            edges = np.linspace(-1.001, 1.001, _FINE + 1, dtype=np.float32)
            return edges, self.scan.count_reaching(edges, words="counting all pairs")
        assert self.listed is not None
        values, first = np.unique(np.sort(self.listed.scores), return_index=True)
        return values, len(self.listed) - first

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
        if self.scan is not None:
            return measure_exactly(self.scan, self.part.positives).curve
        assert self.listed is not None
        part = self.part
        _, curve, _ = listed_figures(part.space, self.listed.ids, self.listed.scores, part.positives)
        real = np.isfinite(curve.thresholds)  # "every pair" is no threshold to draw a line at
        return Curve(
            curve.thresholds[real],
            curve.true_positives[real],
            curve.false_positives[real],
            curve.positives,
        )

    def average_precision(self) -> float:
        """Exact, over all pairs; pairs that are not listed rank last, tied."""
        if self.scan is not None:
            return self.curve().average_precision()
        assert self.listed is not None
        part = self.part
        _, curve, _ = listed_figures(part.space, self.listed.ids, self.listed.scores, part.positives)
        return curve.average_precision()


def first_look(campaign: Campaign, number: int, part: Split, search: str = "exact") -> Ranking:
    """A split ranked by a round's bi-encoder: every pair, or each text's nearest by an index."""
    matcher = campaign.matcher(number)
    left, right = campaign.embeddings(matcher, part, number)
    scan = campaign.scan(part.space, left, right)
    weight, bias = float(matcher.weight), float(matcher.bias)
    if search == "exact":
        return Ranking(part, weight, bias, "exact over all pairs", scan=scan)
    from pairsieve.search import index_neighbours, neighbour_recall

    mine = np.ascontiguousarray(left, np.float32)
    yours = mine if right is None else np.ascontiguousarray(right, np.float32)
    count = min(INDEX_NEIGHBOURS, part.space.shape[1] - part.space.symmetric)
    columns, _ = index_neighbours(part.space, mine, yours, count, SEARCHES[search])
    recall = neighbour_recall(scan, columns, generator_for(campaign.settings.seed, number, "match recall"))
    rows = np.broadcast_to(np.arange(len(columns))[:, None], columns.shape)
    ids = np.unique(part.space.ids(rows[columns >= 0], columns[columns >= 0]))
    # Scored again as an exact scan scores them: an index's own sums differ in the last digits.
    listed = ScoredPairs(ids, scan.scores(ids))
    return Ranking(part, weight, bias, f"{search} index, {count} a text", listed=listed, recall=recall)

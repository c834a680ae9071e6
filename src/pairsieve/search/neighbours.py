"""Search for pairs among each row's m nearest neighbours, as the paper does, and indexes of them.

The neighbours come from an exact scan, or where that does not pay from an index: our own inverted lists
(`ivf.py`) or Faiss's. An index's recall is measured against an exact scan of sampled rows, never assumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import Estimate
from pairsieve.errors import InputError, nearest
from pairsieve.pairs import AcrossPairs, AllPairs, Ids, PairSpace, Rows, Scores
from pairsieve.progress import tracked
from pairsieve.scan import Neighbours, Scan
from pairsieve.scan.across import foreign_neighbours
from pairsieve.search.exact import Found, TopPairs, check_pool

Matrix: TypeAlias = NDArray[np.float32]  # unit rows (n, d)

INDEXES = ("ivf", "faiss-ivf", "faiss-hnsw")
BATCH = 16384
OVER_SOURCES = 4  # times as many neighbours are asked for where those of the same source are dropped
ROWS_PER_INDEX = 1 << 20  # 1.6 GB of float32 at 384 dimensions


@dataclass(frozen=True)
class NeighbourSearch:
    """Search among each row's nearest: `columns` and `scores` (rows, m), -1 where a row has fewer."""

    space: PairSpace
    columns: Rows
    scores: Scores
    method: str
    recall: Estimate

    @staticmethod
    def exact(scan: Scan, count: int) -> NeighbourSearch:
        """Each row's `count` nearest by an exact scan."""
        count = min(count, scan.space.shape[1] - scan.space.symmetric)
        columns, scores = scan.neighbours(count)
        whole = Estimate.exact(1.0, scan.space.shape[0])
        return NeighbourSearch(scan.space, columns, scores, f"exact, {count} neighbours a row", whole)

    def best(self, count: int, asked: Ids, fewest: int | None = None) -> Found:
        return self._search(TopPairs(count, asked, None), fewest)

    def closest(self, score: float, count: int, asked: Ids, fewest: int | None = None) -> Found:
        return self._search(TopPairs(count, asked, score), fewest)

    def _search(self, top: TopPairs, fewest: int | None) -> Found:
        for ids, scores in self._pairs():
            top.take(ids, scores)
        found, m = top.kept(), self.columns.shape[1]
        remedy = f"Lower the batch, or raise neighbours (now {m:,})."
        check_pool(
            top.count if fewest is None else fewest, len(found), f"the {m:,} nearest of each row", remedy
        )
        return Found(found, self.method, self.recall)

    def _pairs(self) -> Iterator[tuple[Ids, Scores]]:
        for first in range(0, len(self.columns), BATCH):
            columns = self.columns[first : first + BATCH]
            rows = np.broadcast_to(np.arange(first, first + len(columns))[:, None], columns.shape)
            real = (columns >= 0) & ((rows != columns) if self.space.symmetric else True)
            yield self.space.ids(rows[real], columns[real]), self.scores[first : first + BATCH][real]


def index_neighbours(
    space: PairSpace,
    left: Matrix,
    right: Matrix,
    count: int,
    kind: str = "ivf",
    lists: int = 0,
    probes: int = 0,
) -> Neighbours:
    """Each left row's `count` nearest right rows by an index of unit rows, best first; -1 where fewer found.

    An index for every `ROWS_PER_INDEX` right rows; a row's nearest are the best of what the indexes find,
    ties by smaller column. `lists` defaults to 4·√n. `probes` are by default as many as `ivf.RECALL` needs,
    of Faiss's lists 16: `neighbour_recall` says what an index misses.
    """
    if isinstance(space, AcrossPairs):
        wanted = min(OVER_SOURCES * count, space.texts - 1)
        whole = index_neighbours(AllPairs(space.texts), left, right, wanted, kind, lists, probes)
        return foreign_neighbours(space, np.arange(space.texts), *whole, count)
    found: Neighbours | None = None
    for start in range(0, max(len(right), 1), ROWS_PER_INDEX):
        part = right if len(right) <= ROWS_PER_INDEX else right[start : start + ROWS_PER_INDEX]
        index = build_index(part, sampled(left), count, kind, lists, probes)
        more = search_index(index, left, count, space.symmetric, -start)
        more[0][more[0] >= 0] += start
        found = more if found is None else merge_neighbours(found, more)
    assert found is not None
    return found


def merge_neighbours(one: Neighbours, other: Neighbours) -> Neighbours:
    """The best of two neighbour lists (n, k), row by row; ties by smaller column. Written over `one`."""
    for first in range(0, len(one[0]), BATCH):
        part = slice(first, first + BATCH)
        columns = np.concatenate([one[0][part], other[0][part]], axis=1)
        scores = np.concatenate([one[1][part], other[1][part]], axis=1)
        order = np.lexsort((columns, -scores), axis=1)[:, : one[0].shape[1]]
        one[0][part] = np.take_along_axis(columns, order, 1)
        one[1][part] = np.take_along_axis(scores, order, 1)
    return one


def sampled(left: Matrix) -> Matrix:
    """Some of the rows that ask, evenly spread, by which an index chooses its probes."""
    from pairsieve.search import ivf  # it loads torch and numba

    return left[:: max(1, len(left) // ivf.SAMPLED)]


def build_index(
    right: Matrix,
    asking: Matrix,
    count: int,
    kind: str = "ivf",
    lists: int = 0,
    probes: int = 0,
    threads: int = 0,
) -> Any:
    """The index over unit rows (m, d), ready to be asked for `count` nearest by rows like `asking`."""
    if kind not in INDEXES:
        raise InputError(f"unknown index {kind!r}", remedy=nearest(kind, INDEXES))
    if kind == "ivf":
        from pairsieve.search import ivf

        return ivf.build_lists(right, asking, count, lists, probes, threads)
    import faiss

    size, width = right.shape
    index: Any
    if kind == "faiss-ivf":
        lists = min(lists or int(4 * np.sqrt(size)), max(1, size // 39))  # Faiss trains on 39 points a list
        quantiser = faiss.IndexFlatIP(width)
        index = faiss.IndexIVFFlat(quantiser, width, lists, faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = 1234
        sample = np.random.default_rng(0).choice(size, min(size, 64 * lists), replace=False)
        index.train(right[np.sort(sample)])
        index.nprobe = min(probes or 16, lists)
    else:
        index = faiss.IndexHNSWFlat(width, 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = 80
        index.hnsw.efSearch = max(probes or 64, 2 * count)
    for first in tracked(range(0, size, BATCH), "indexing"):
        index.add(right[first : first + BATCH])
    return index


def search_index(
    index: Any, left: Matrix, count: int, symmetric: bool, first_row: int = 0, threads: int = 0
) -> Neighbours:
    """Each left row's `count` nearest in an index; in a symmetric space row i is the index's own row
    `first_row + i`, and not its own neighbour."""
    from pairsieve.search import ivf

    if isinstance(index, ivf.ListIndex):
        return ivf.search_lists(index, left, count, symmetric, first_row, threads)
    columns = np.empty((len(left), count), np.int64)
    scores = np.empty((len(left), count), np.float32)
    for first in tracked(range(0, len(left), BATCH), "searching the index"):
        values, found = index.search(left[first : first + BATCH], count + symmetric)
        own = first_row + np.arange(first, first + len(found))
        found, values = ivf.without_own(found, values, own if symmetric else None)
        columns[first : first + BATCH], scores[first : first + BATCH] = found, values
    scores[columns < 0] = -np.inf
    return columns, scores


def neighbour_recall(scan: Scan, columns: Rows, rng: np.random.Generator, rows: int = 500) -> Estimate:
    """Share of the true nearest that an index found, with a 95 % interval over sampled rows.

    The interval is Gaffke's (2005; Learned-Miller and Thomas 2020): the sampled rows and one more, the worst
    (for the low end) or the best there could be, are weighed by Dirichlet(1, …, 1). For shares of 0 and 1 it
    is that of Clopper and Pearson, so that rare bad rows which no sample met are allowed for.
    """
    picked = np.sort(rng.choice(len(columns), min(rows, len(columns)), replace=False))
    truth, _ = scan.neighbours(columns.shape[1], picked, desc="measuring recall")
    there = [np.isin(true[true >= 0], found) for true, found in zip(truth, columns[picked])]
    shares = np.array([found.mean() if len(found) else 1.0 for found in there])
    value, weights = float(shares.mean()), rng.dirichlet(np.ones(len(shares) + 1), 1000)
    low = float(np.quantile(weights[:, 1:] @ shares, 0.025))
    high = float(np.quantile(weights[:, 1:] @ shares + weights[:, 0], 0.975))
    method = f"{len(picked)} sampled rows against an exact scan, Gaffke's 95 % limits"
    return Estimate(value, min(low, value), min(max(high, value), 1.0), len(picked), method)

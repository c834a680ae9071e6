"""Nearest neighbours by indexes that many workers build and search.

Rows are cut into indexes of `search.neighbours.ROWS_PER_INDEX` as on one machine, so both find the same. The
rows that ask are shared out too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pairsieve.contracts import MapShards
from pairsieve.pairs import AcrossPairs, AllPairs, PairSpace
from pairsieve.scan import Neighbours
from pairsieve.scan.across import foreign_neighbours
from pairsieve.search import neighbours
from pairsieve.search.neighbours import Matrix

SHARES_PER_WORKER = 2  # of the asking rows, so that the last ones find few workers idle


def index_neighbours(
    shards: MapShards | None, space: PairSpace, left: Matrix, right: Matrix, count: int, kind: str = "ivf"
) -> Neighbours:
    """As `search.index_neighbours`. A lost worker costs the share it was searching.

    The same from one process and from many, save for `faiss-hnsw`, whose index depends on how many threads
    build it.
    """
    if shards is None:
        return neighbours.index_neighbours(space, left, right, count, kind)
    if isinstance(space, AcrossPairs):
        wanted = min(neighbours.OVER_SOURCES * count, space.texts - 1)
        whole = index_neighbours(shards, AllPairs(space.texts), left, right, wanted, kind)
        return foreign_neighbours(space, np.arange(space.texts), *whole, count)
    starts = range(0, max(len(right), 1), neighbours.ROWS_PER_INDEX)
    asking = shards.share(neighbours.sampled(left))
    builds = [
        (shards.share(right[start : start + neighbours.ROWS_PER_INDEX]), asking, count, kind, shards.threads)
        for start in starts
    ]
    indexes = {at: shards.share(index) for at, index in shards.map(_build, builds, "indexing")}
    batch = neighbours.BATCH
    share = -(-len(left) // (batch * SHARES_PER_WORKER * shards.workers)) * batch
    queries = [(at, shards.share(left[at : at + share])) for at in range(0, len(left), max(share, 1))]
    jobs = [(first, starts[at]) for at in indexes for first, _ in queries]
    searches = [
        (index, rows, count, space.symmetric, first - starts[at], shards.threads)
        for at, index in indexes.items()
        for first, rows in queries
    ]
    columns = np.full((len(left), count), -1, np.int64)
    scores = np.full((len(left), count), -np.inf, np.float32)
    for job, (found, values) in shards.map(_search, searches, "searching the indexes"):
        first, start = jobs[job]
        rows = slice(first, first + len(found))
        found = np.where(found < 0, -1, found + start)
        neighbours.merge_neighbours((columns[rows], scores[rows]), (found, values))
    return columns, scores


# ── on a worker ─────────────────────────────────────────────────────────────────────────────────────


def _build(rows: Matrix, asking: Matrix, count: int, kind: str, threads: int) -> Any:
    """An index; Faiss's as bytes."""
    if kind.startswith("faiss"):
        import faiss

        if threads:
            faiss.omp_set_num_threads(threads)
        return faiss.serialize_index(neighbours.build_index(rows, asking, count, kind))
    return neighbours.build_index(rows, asking, count, kind, threads=threads)


def _search(
    index: Any, rows: Matrix, count: int, symmetric: bool, first_row: int, threads: int
) -> Neighbours:
    if isinstance(index, np.ndarray):
        import faiss

        if threads:
            faiss.omp_set_num_threads(threads)
        index = faiss.deserialize_index(index)
    return neighbours.search_index(index, rows, count, symmetric, first_row, threads)

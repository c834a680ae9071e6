"""How are neighbours found by indexes that no one machine could hold? An index for each part of the rows.

Rows are cut into parts of `ROWS_AN_INDEX`, whoever searches, so one machine and many find the same. Each part
gets its own Faiss index; a row's nearest are the best of what the indexes find. Up to that many rows there is
one index, as without shards; the search is then shared out by the rows that ask.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import MapShards
from pairsieve.distributed.local import LocalShards
from pairsieve.distributed.scan import best_of
from pairsieve.pairs import PairSpace, Scores
from pairsieve.search.neighbours import BATCH, built_index, found_in

ROWS_AN_INDEX = 1 << 20  # 1.6 GB of float32 at 384 dimensions, on each machine that searches it
ASKERS_A_WORKER = 2  # shares of the asking rows, so that the last ones find few workers idle


def index_by_shards(
    shards: MapShards | None,
    space: PairSpace,
    left: NDArray[np.float32],
    right: NDArray[np.float32],
    count: int,
    kind: str = "faiss-ivf",
) -> tuple[NDArray[np.int64], Scores]:
    """Each left row's `count` nearest right rows by Faiss indexes over unit rows; -1 where fewer were found.

    The same from one process and from many, save for `faiss-hnsw`, whose index depends on how many threads
    build it.
    """
    mapper: MapShards = LocalShards() if shards is None else shards
    local, threads = shards is None, mapper.threads
    starts = range(0, max(len(right), 1), ROWS_AN_INDEX)
    parts = [(mapper.share(right[at : at + ROWS_AN_INDEX]), count, kind, not local, threads) for at in starts]
    indexes: dict[int, Any] = {}
    for at, made in mapper.map(_build, parts, "indexing"):
        indexes[at] = mapper.share(made)
    share = -(-len(left) // (BATCH * (1 if local else ASKERS_A_WORKER * mapper.workers))) * BATCH
    askers = [(at, mapper.share(left[at : at + share])) for at in range(0, len(left), max(share, 1))]
    jobs = [(at, starts[part], rows, part) for part in indexes for at, rows in askers]
    columns = np.full((len(left), count), -1, np.int64)
    scores = np.full((len(left), count), -np.inf, np.float32)
    searches = [
        (indexes[part], rows, count, space.symmetric, at - start, threads) for at, start, rows, part in jobs
    ]
    for job, (found, theirs) in mapper.map(_search, searches, "searching the indexes"):
        at, start = jobs[job][:2]
        found = np.where(found < 0, -1, found + start)
        mine = slice(at, at + len(found))
        columns[mine], scores[mine] = best_of(columns[mine], scores[mine], found, theirs)
    return columns, scores


# ── what a worker does ──────────────────────────────────────────────────────────────────────────────


def _build(rows: NDArray[np.float32], count: int, kind: str, packed: bool, threads: int) -> Any:
    import faiss

    if threads:
        faiss.omp_set_num_threads(threads)
    index = built_index(rows, count, kind)
    return faiss.serialize_index(index) if packed else index


def _search(
    index: Any, rows: NDArray[np.float32], count: int, symmetric: bool, first_row: int, threads: int
) -> tuple[NDArray[np.int64], Scores]:
    import faiss

    if threads:
        faiss.omp_set_num_threads(threads)
    if isinstance(index, np.ndarray):
        index = faiss.deserialize_index(index)
    return found_in(index, rows, count, symmetric, first_row)

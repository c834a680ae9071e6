"""How are all pairs visited on a CPU? Tiles of one matrix product, each consumed while it is in cache.

Every tile has the same shape, zero-padded at the edges, so that the product's arithmetic does not
depend on where a pair stands: equal rows give equal scores to the bit, everywhere, and `scores` of chosen
pairs are those a pass sees. One thread owns one tile at a time (product and kernel), which needs no
synchronisation inside a tile.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import Ids, PairSpace, Scores, pair_rows
from pairsieve.progress import bar

if TYPE_CHECKING:
    import torch

TILE = 1024
GRID = 2.0**30  # float64 cosines are rounded to this grid first: what is zero on paper is zero here
Consume = Callable[["NDArray[np.float32]", int, int, int, int], None]


class CpuScan:
    """All pairs of a space, scored by the cosine of their embeddings, on the machine's cores."""

    device = "cpu"

    def __init__(
        self, space: PairSpace, left: NDArray[Any], right: NDArray[Any], *, double: bool, threads: int = 0
    ) -> None:
        """`left`, `right`: unit rows (n, d); `double` multiplies in float64 and rounds to float32."""
        import torch

        kind = torch.float64 if double else torch.float32
        self.space, self.double = space, double
        self.threads = threads or _cores()
        self._left = torch.as_tensor(np.ascontiguousarray(left)).to(kind)
        self._right = self._left if right is left else torch.as_tensor(np.ascontiguousarray(right)).to(kind)
        self._left_tiles = _Tiles(self._left)
        self._right_tiles = self._left_tiles if right is left else _Tiles(self._right)

    def scores(self, ids: Ids) -> Scores:
        """Scores of chosen pairs, to the bit those of a whole pass. Any order."""
        out = np.empty(len(ids), np.float32)
        order = np.argsort(ids, kind="stable")
        left, right = pair_rows(ids[order])
        product = _Product(self._left.dtype)
        with _single_thread():
            for first, last, rows, columns in _packs(left, right):
                tile = product(_padded(self._left[rows]), _padded(self._right[columns]))
                part = slice(first, last)
                at = np.searchsorted(rows, left[part]), np.searchsorted(columns, right[part])
                out[order[part]] = tile[at]
        return out

    def count_reaching(self, thresholds: NDArray[np.float32], words: str = "all pairs") -> NDArray[np.int64]:
        """For each of the ascending distinct `thresholds`: how many pairs score at or above it."""
        from pairsieve.scan import kernels

        table = kernels.threshold_table(thresholds)
        slots = [np.zeros(len(thresholds) + 1, np.int64) for _ in range(self.threads)]

        def consumer(worker: int) -> Consume:
            mine = slots[worker]

            def consume(tile: NDArray[np.float32], r: int, c: int, r0: int, c0: int) -> None:
                kernels.count_tile(tile, r, c, r0, c0, self.space.symmetric, thresholds, table, mine)

            return consume

        self._visit(self._tiles(), consumer, words)
        between = np.sum(slots, axis=0)
        reached: NDArray[np.int64] = np.cumsum(between[::-1])[::-1][1:]
        return reached

    def collect(
        self, low: float, high: float, take: Callable[[Ids, Scores], None], words: str = "collecting"
    ) -> None:
        """Hand every pair with low <= score <= high to `take`, in pieces of any order, one at a time."""
        from pairsieve.scan import kernels

        lock = threading.Lock()

        def consumer(worker: int) -> Consume:
            ids = np.empty(TILE * TILE, np.int64)
            found = np.empty(TILE * TILE, np.float32)

            def consume(tile: NDArray[np.float32], r: int, c: int, r0: int, c0: int) -> None:
                n = kernels.collect_tile(
                    tile, r, c, r0, c0, self.space.symmetric, np.float32(low), np.float32(high), ids, found
                )
                if n:
                    with lock:
                        take(ids[:n].copy(), found[:n].copy())

            return consume

        self._visit(self._tiles(), consumer, words)

    def neighbours(
        self, count: int, rows: NDArray[np.int64] | None = None, words: str = "neighbours"
    ) -> tuple[NDArray[np.int64], Scores]:
        """The `count` best partners of each left row (all, or the chosen `rows`), best first; ties by
        smaller column; -1 where a row has fewer. A text is no neighbour of itself in a symmetric space."""
        from pairsieve.scan import kernels

        picked = np.arange(self.space.shape[0]) if rows is None else np.asarray(rows, np.int64)
        columns = np.empty((len(picked), count), np.int64)
        bits = np.empty((len(picked), count), np.int32)
        wide = self.space.shape[1]
        capacity = count + max(count, 256)
        starts = list(range(0, len(picked), TILE))
        progress = bar(len(starts), words, "tile")
        local = threading.local()

        def band(first: int) -> None:
            if not hasattr(local, "product"):
                local.product = _Product(self._left.dtype)
            mine = picked[first : first + TILE]
            operand = _padded(self._left[mine])
            keys = np.empty((len(mine), capacity), np.int64)
            held = np.zeros(len(mine), np.int64)
            limit = np.full(len(mine), np.iinfo(np.int64).max)
            with _single_thread():
                for c0 in range(0, wide, TILE):
                    tile = local.product(operand, self._right_tiles[c0 // TILE])
                    if self.space.symmetric:  # a text beside itself: never its own neighbour
                        own = np.flatnonzero((mine >= c0) & (mine < c0 + TILE))
                        tile[own, mine[own] - c0] = -np.inf
                    real = min(TILE, wide - c0)
                    kernels.nearest_tile(tile.view(np.int32), len(mine), real, c0, count, keys, held, limit)
            part = slice(first, first + len(mine))
            kernels.finish_nearest(keys, held, count, columns[part], bits[part])
            progress.update(1)

        try:
            _in_threads(self.threads, starts, band)
        finally:
            progress.close()
        scores = bits.view(np.float32)
        columns[np.isneginf(scores)] = -1
        return columns, scores

    def _tiles(self) -> list[tuple[int, int]]:
        """Corners of the tiles that hold pairs of the space."""
        rows, columns = self.space.shape
        return [
            (r, c)
            for r in range(0, rows, TILE)
            for c in range(r if self.space.symmetric else 0, columns, TILE)
        ]

    def _visit(self, tiles: list[tuple[int, int]], consumer: Callable[[int], Consume], words: str) -> None:
        rows, columns = self.space.shape
        progress = bar(len(tiles), words, "tile")
        local = threading.local()
        workers = iter(range(self.threads))
        lock = threading.Lock()

        def one(corner: tuple[int, int]) -> None:
            if not hasattr(local, "product"):
                with lock:
                    local.consume = consumer(next(workers))
                local.product = _Product(self._left.dtype)
            r0, c0 = corner
            with _single_thread():
                tile = local.product(self._left_tiles[r0 // TILE], self._right_tiles[c0 // TILE])
            local.consume(tile, min(TILE, rows - r0), min(TILE, columns - c0), r0, c0)
            progress.update(1)

        try:
            _in_threads(self.threads, tiles, one)
        finally:
            progress.close()


class _Tiles:
    """A matrix in bands of `TILE` rows; the last one padded with zeros."""

    def __init__(self, matrix: torch.Tensor) -> None:
        self._matrix = matrix
        whole = len(matrix) // TILE
        self._whole = whole
        self._rest = _padded(matrix[whole * TILE :]) if len(matrix) % TILE else None

    def __getitem__(self, band: int) -> torch.Tensor:
        if band < self._whole:
            return self._matrix[band * TILE : (band + 1) * TILE]
        assert self._rest is not None
        return self._rest


class _Product:
    """One thread's tile: `left @ right.T` as float32 numpy, overwritten by the next call."""

    def __init__(self, kind: torch.dtype) -> None:
        import torch

        self._wide = torch.empty(TILE, TILE, dtype=kind)
        self._tile = self._wide if kind == torch.float32 else torch.empty(TILE, TILE)
        self._view = self._tile.numpy()

    def __call__(self, left: torch.Tensor, right: torch.Tensor) -> NDArray[np.float32]:
        import torch

        from pairsieve.scan import kernels

        torch.mm(left, right.T, out=self._wide)
        if self._tile is self._wide:
            kernels.snap_to_one(self._view)
        else:
            self._tile.copy_(self._wide.mul_(GRID).round_().div_(GRID))
        return self._view


def _padded(rows: torch.Tensor) -> torch.Tensor:
    if len(rows) == TILE:
        return rows
    whole = rows.new_zeros(TILE, rows.shape[1])
    whole[: len(rows)] = rows
    return whole


def _packs(left: Ids, right: Ids) -> Iterator[tuple[int, int, Ids, Ids]]:
    """Runs of pairs (sorted by left) whose distinct rows fill at most one tile on either side."""
    first = 0
    while first < len(left):
        for length in (16 * TILE, 4 * TILE, TILE):
            last = min(first + length, len(left))
            rows, columns = np.unique(left[first:last]), np.unique(right[first:last])
            if len(rows) <= TILE and len(columns) <= TILE:
                break
        yield first, last, rows, columns
        first = last


class _single_thread:
    """Products inside run on the calling thread alone: the pool already fills the cores."""

    def __enter__(self) -> None:
        import torch

        self._before = torch.get_num_threads()
        torch.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        import torch

        torch.set_num_threads(self._before)


def _in_threads(threads: int, items: list[Any], work: Callable[[Any], None]) -> None:
    """`work` on every item; the first failure (or Ctrl-C) stops the rest."""
    stop = threading.Event()

    def guarded(item: Any) -> None:
        if not stop.is_set():
            work(item)

    with ThreadPoolExecutor(threads) as pool:
        try:
            for _ in pool.map(guarded, items):
                pass
        except BaseException:
            stop.set()
            raise


def _cores() -> int:
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)

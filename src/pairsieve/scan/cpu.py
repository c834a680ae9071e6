"""Exact scans on the CPU: tiles of one matrix product, each consumed while it is in cache.

In float32 every tile has the same shape, zero-padded at the edges, so that the product's arithmetic does
not depend on where a pair stands: equal rows give equal scores to the bit, everywhere, and `scores` of chosen
pairs are those a pass sees. In float64 the rounding to a grid sees to that. One thread owns one tile at a
time (product and kernel), which needs no synchronisation inside a tile. Nearest neighbours are screened in
integers first where that pays (`screen`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pairsieve.pairs import Ids, PairSpace, Rows, Scores, pair_rows
from pairsieve.progress import bar
from pairsieve.scan import Neighbours, Take, kernels, screen
from pairsieve.scan.threads import cores, in_threads, single_thread

TILE = 1024
FLUSH = 1 << 31  # pairs that a thread counts in 32 bits before it adds them to the total
SCREEN_ROWS = 4096  # rows below which neighbours are not worth preparing all texts as integers
FEW_ROWS = 128  # rows below which sums of single pairs take less time than products of padded tiles
_PAIRS_AT_ONCE = 1 << 13  # pairs that a thread multiplies in float64 before it takes the next
KEEP_BELOW = 1 << 26  # pairs up to which float64 scores are kept (as float32) for the next pass
GRID = 2.0**30  # float64 cosines are rounded to this grid first: what is zero on paper is zero here
Consume = Callable[["NDArray[np.float32]", int, int, int, int], None]


class CpuScan:
    """All pairs of a space, scored by the cosine of their embeddings, on the machine's cores."""

    device = "cpu"

    def __init__(
        self, space: PairSpace, left: NDArray[Any], right: NDArray[Any], *, double: bool, threads: int = 0
    ) -> None:
        """`left`, `right`: unit rows (n, d); `double` multiplies in float64 and rounds to float32."""
        kind = torch.float64 if double else torch.float32
        self.space, self.double = space, double
        self.threads = threads or cores()
        self._left = torch.as_tensor(np.ascontiguousarray(left)).to(kind)
        self._right = self._left if right is left else torch.as_tensor(np.ascontiguousarray(right)).to(kind)
        self._left_tiles = _Tiles(self._left)
        self._right_tiles = self._left_tiles if right is left else _Tiles(self._right)
        self._kept: dict[tuple[int, int], NDArray[np.float32]] | None = None
        if double and space.size <= KEEP_BELOW:
            self._kept = {}

    def scores(self, ids: Ids) -> Scores:
        out = np.empty(len(ids), np.float32)
        order = np.argsort(ids, kind="stable")
        left, right = pair_rows(ids[order])
        if block := self._chain_block():
            found = np.empty(len(ids), np.float32)
            kernels.chain_scores(self._left.numpy(), self._right.numpy(), left, right, block, found)
            out[order] = found
            return out
        if self.double:
            found = np.empty(len(ids), np.float32)
            one, other = self._left.numpy(), self._right.numpy()

            def some(first: int) -> None:
                part = slice(first, first + _PAIRS_AT_ONCE)
                kernels.pair_products(one, other, left[part], right[part], GRID, found[part])

            in_threads(self.threads, range(0, len(ids), _PAIRS_AT_ONCE), some)
            out[order] = found
            return out
        product = _Product(self._left.dtype)
        with single_thread():
            for first, last, rows, columns in _packs(left, right):
                tile = product(_padded(self._left[rows]), _padded(self._right[columns]))
                span = slice(first, last)
                at = np.searchsorted(rows, left[span]), np.searchsorted(columns, right[span])
                out[order[span]] = tile[at]
        return out

    def count_reaching(self, thresholds: NDArray[np.float32], desc: str = "all pairs") -> NDArray[np.int64]:
        table = kernels.threshold_table(thresholds)
        totals = [np.zeros(len(thresholds) + 1, np.int64) for _ in range(self.threads)]

        def consumer(worker: int) -> Consume:
            counts = np.zeros(len(thresholds) + 1, np.uint32)  # half of int64's share of the cache
            seen = 0

            def consume(tile: NDArray[np.float32], r: int, c: int, r0: int, c0: int) -> None:
                nonlocal seen
                kernels.count_tile(tile, r, c, r0, c0, self.space.symmetric, table, counts)
                seen += r * c
                if seen >= FLUSH:
                    settle()

            def settle() -> None:
                nonlocal seen
                totals[worker] += counts
                counts[:] = 0
                seen = 0

            settling.append(settle)
            return consume

        settling: list[Callable[[], None]] = []
        self._visit(self._tiles(), consumer, desc)
        for settle in settling:
            settle()
        between = np.sum(totals, axis=0)
        return np.cumsum(between[::-1])[::-1][1:]

    def collect(self, low: float, high: float, take: Take, desc: str = "collecting") -> None:
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

        self._visit(self._tiles(), consumer, desc)

    def neighbours(self, count: int, rows: Rows | None = None, desc: str = "neighbours") -> Neighbours:
        picked = np.arange(self.space.shape[0]) if rows is None else np.asarray(rows, np.int64)
        columns = np.empty((len(picked), count), np.int64)
        scores = np.empty((len(picked), count), np.float32)
        left_over = np.arange(len(picked))
        if self._screening_pays(len(picked), count):
            left_over = screen.nearest(
                self._left,
                self._right,
                rows if rows is None else picked,
                count,
                columns,
                scores,
                symmetric=self.space.symmetric,
                block=self._chain_block(),
                threads=self.threads,
                desc=desc,
            )
        if len(left_over):
            self._plain(picked, left_over, count, columns, scores, desc)
        return columns, scores

    def _plain(
        self, picked: Rows, positions: Rows, count: int, columns: Rows, scores: Scores, desc: str
    ) -> None:
        """Nearest of the rows `picked[positions]`, by products of all pairs in the scan's precision."""
        wide = self.space.shape[1]
        capacity = count + max(count, 256)
        block = self._chain_block() if len(positions) <= FEW_ROWS else 0
        height = 1 if block else TILE
        starts = list(range(0, len(positions), height))
        local = threading.local()

        def tiles(operand: torch.Tensor) -> Iterator[tuple[NDArray[np.float32], int]]:
            if not hasattr(local, "product"):
                local.product = _Product(self._left.dtype)
            for c0 in range(0, wide, TILE):
                with single_thread():
                    tile = local.product(operand, self._right_tiles[c0 // TILE])
                yield tile, c0

        def single_row(row: np.int64) -> Iterator[tuple[NDArray[np.float32], int]]:
            tile = np.empty((1, wide), np.float32)
            pairs = np.full(wide, row), np.arange(wide)
            kernels.chain_scores(self._left.numpy(), self._right.numpy(), *pairs, block, tile[0])
            yield tile, 0

        def band(first: int) -> None:
            some = positions[first : first + height]
            rows = picked[some]
            own = rows if self.space.symmetric else np.full(len(rows), -1)
            keys = np.empty((len(rows), capacity), np.int64)
            held = np.zeros(len(rows), np.int64)
            limit = np.full(len(rows), -np.inf, np.float32)
            for tile, c0 in single_row(rows[0]) if block else tiles(_band(self._left[rows])):
                real = min(tile.shape[1], wide - c0)
                kernels.nearest_tile(tile, len(rows), real, c0, own, count, keys, held, limit)
            found, values = np.empty((len(rows), count), np.int64), np.empty((len(rows), count), np.float32)
            kernels.finish_nearest(keys, held, count, found, values)
            columns[some], scores[some] = found, values
            progress.update(1)

        with bar(len(starts), desc, "tile") as progress:
            in_threads(self.threads, starts, band)

    def _chain_block(self) -> int:
        """How the tile products add up, where single pairs can be summed to the same bits; 0 where not."""
        if self.double:
            return 0
        with single_thread():
            return screen.chain_block(self._left.shape[1])

    def _screening_pays(self, rows: int, count: int) -> bool:
        """Whether integers are fast here, spare most pairs, and float32 can judge what they leave."""
        if self.double or rows < SCREEN_ROWS or 8 * count > self.space.shape[1] or not self._chain_block():
            return False
        with single_thread():
            return screen.integers_pay(self._left.shape[1])

    def _tiles(self) -> list[tuple[int, int]]:
        """Corners of the tiles that hold pairs of the space."""
        rows, columns = self.space.shape
        return [
            (r, c)
            for r in range(0, rows, TILE)
            for c in range(r if self.space.symmetric else 0, columns, TILE)
        ]

    def _visit(self, tiles: list[tuple[int, int]], consumer: Callable[[int], Consume], desc: str) -> None:
        rows, columns = self.space.shape
        local = threading.local()
        workers = iter(range(self.threads))
        lock = threading.Lock()

        def one(corner: tuple[int, int]) -> None:
            if not hasattr(local, "product"):
                with lock:
                    local.consume = consumer(next(workers))
                local.product = _Product(self._left.dtype)
            r0, c0 = corner
            tile = self._kept.get(corner) if self._kept is not None else None
            if tile is None:
                with single_thread():
                    tile = local.product(self._left_tiles[r0 // TILE], self._right_tiles[c0 // TILE])
                if self._kept is not None:
                    self._kept[corner] = tile.copy()
            local.consume(tile, min(TILE, rows - r0), min(TILE, columns - c0), r0, c0)
            progress.update(1)

        with bar(len(tiles), desc, "tile") as progress:
            in_threads(self.threads, tiles, one)


class _Tiles:
    """A matrix in bands of `TILE` rows; in float32 the last one is padded with zeros."""

    def __init__(self, matrix: torch.Tensor) -> None:
        self._matrix = matrix
        whole = len(matrix) // TILE
        self._whole = whole
        self._rest = _band(matrix[whole * TILE :]) if len(matrix) % TILE else None

    def __getitem__(self, band: int) -> torch.Tensor:
        if band < self._whole:
            return self._matrix[band * TILE : (band + 1) * TILE]
        assert self._rest is not None
        return self._rest


class _Product:
    """One thread's tile: `left @ right.T` as float32 numpy, overwritten by the next call."""

    def __init__(self, kind: torch.dtype) -> None:
        self._kind = kind
        self._wide = torch.empty(TILE * TILE, dtype=kind)
        self._tile = torch.empty(0 if kind == torch.float32 else TILE * TILE)

    def __call__(self, left: torch.Tensor, right: torch.Tensor) -> NDArray[np.float32]:
        shape = len(left), len(right)
        wide = self._wide[: shape[0] * shape[1]].view(shape)
        torch.mm(left, right.T, out=wide)
        if self._kind == torch.float32:
            kernels.snap_to_one(wide.numpy())
            return wide.numpy()
        tile = self._tile[: shape[0] * shape[1]].view(shape)
        return tile.copy_(wide.mul_(GRID).round_().div_(GRID)).numpy()


def _band(rows: torch.Tensor) -> torch.Tensor:
    """At most `TILE` rows as an operand. In float64 sums are rounded to a grid, whatever the shape."""
    return rows if rows.dtype == torch.float64 else _padded(rows)


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

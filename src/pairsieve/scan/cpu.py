"""How are all pairs visited on a CPU? Tiles of one matrix product, each consumed while it is in cache.

Every tile has the same shape, zero-padded at the edges, so that the product's arithmetic does not
depend on where a pair stands: equal rows give equal scores to the bit, everywhere, and `scores` of chosen
pairs are those a pass sees. One thread owns one tile at a time (product and kernel), which needs no
synchronisation inside a tile. Nearest neighbours are screened in integers first where that pays (`screen`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import Ids, PairSpace, Scores, pair_rows
from pairsieve.progress import bar
from pairsieve.scan.threads import cores, in_threads, single_thread

if TYPE_CHECKING:
    import torch

TILE = 1024
FLUSH = 1 << 31  # pairs that a thread counts in 32 bits before it adds them to the total
SCREEN_ROWS = 4096  # rows below which neighbours are not worth preparing all texts as integers
FEW_ROWS = 128  # rows below which sums of single pairs take less time than products of padded tiles
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
        self.threads = threads or cores()
        self._left = torch.as_tensor(np.ascontiguousarray(left)).to(kind)
        self._right = self._left if right is left else torch.as_tensor(np.ascontiguousarray(right)).to(kind)
        self._left_tiles = _Tiles(self._left)
        self._right_tiles = self._left_tiles if right is left else _Tiles(self._right)

    def scores(self, ids: Ids) -> Scores:
        """Scores of chosen pairs, to the bit those of a whole pass. Any order."""
        out = np.empty(len(ids), np.float32)
        order = np.argsort(ids, kind="stable")
        left, right = pair_rows(ids[order])
        if block := self._chain_block():
            from pairsieve.scan import kernels

            found = np.empty(len(ids), np.float32)
            kernels.chain_scores(self._left.numpy(), self._right.numpy(), left, right, block, found)
            out[order] = found
            return out
        product = _Product(self._left.dtype)
        with single_thread():
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
        self._visit(self._tiles(), consumer, words)
        for settle in settling:
            settle()
        between = np.sum(totals, axis=0)
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
        picked = np.arange(self.space.shape[0]) if rows is None else np.asarray(rows, np.int64)
        columns = np.empty((len(picked), count), np.int64)
        scores = np.empty((len(picked), count), np.float32)
        left_over = np.arange(len(picked))
        if self._screening_pays(len(picked), count):
            from pairsieve.scan import screen

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
                words=words,
            )
        if len(left_over):
            self._plain(picked, left_over, count, columns, scores, words)
        return columns, scores

    def _plain(
        self,
        picked: NDArray[np.int64],
        places: NDArray[np.int64],
        count: int,
        columns: NDArray[np.int64],
        scores: Scores,
        words: str,
    ) -> None:
        """Nearest of the rows at `places` of `picked`, by products of all pairs in the scan's precision."""
        from pairsieve.scan import kernels

        wide = self.space.shape[1]
        capacity = count + max(count, 256)
        block = self._chain_block() if len(places) <= FEW_ROWS else 0
        height = 1 if block else TILE
        starts = list(range(0, len(places), height))
        progress = bar(len(starts), words, "tile")
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
            part = places[first : first + height]
            mine = picked[part]
            own = mine if self.space.symmetric else np.full(len(mine), -1)
            keys = np.empty((len(mine), capacity), np.int64)
            held = np.zeros(len(mine), np.int64)
            limit = np.full(len(mine), -np.inf, np.float32)
            for tile, c0 in single_row(mine[0]) if block else tiles(_padded(self._left[mine])):
                real = min(tile.shape[1], wide - c0)
                kernels.nearest_tile(tile, len(mine), real, c0, own, count, keys, held, limit)
            found, theirs = np.empty((len(mine), count), np.int64), np.empty((len(mine), count), np.float32)
            kernels.finish_nearest(keys, held, count, found, theirs)
            columns[part], scores[part] = found, theirs
            progress.update(1)

        try:
            in_threads(self.threads, starts, band)
        finally:
            progress.close()

    def _chain_block(self) -> int:
        """How the tile products add up, where single pairs can be summed to the same bits; 0 where not."""
        if self.double:
            return 0
        from pairsieve.scan import screen

        with single_thread():
            return screen.chain_block(self._left.shape[1])

    def _screening_pays(self, rows: int, count: int) -> bool:
        """Whether integers are fast here, spare most pairs, and float32 can judge what they leave."""
        if self.double or rows < SCREEN_ROWS or 8 * count > self.space.shape[1] or not self._chain_block():
            return False
        from pairsieve.scan import screen

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
            with single_thread():
                tile = local.product(self._left_tiles[r0 // TILE], self._right_tiles[c0 // TILE])
            local.consume(tile, min(TILE, rows - r0), min(TILE, columns - c0), r0, c0)
            progress.update(1)

        try:
            in_threads(self.threads, tiles, one)
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

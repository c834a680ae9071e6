"""Exact scans of every pair by many workers: blocks of two bands of rows, each an ordinary scan.

A pair's score does not depend on where it stands in a scan (every tile has one shape), so a block scores
its pairs as the whole space would, to the bit: counts add up, collected pairs are put together, and the
nearest of a row are the best of its blocks' nearest. A worker holds two bands, never the whole collection.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pairsieve import scan
from pairsieve.contracts import MapShards
from pairsieve.errors import InputError
from pairsieve.pairs import (
    AcrossPairs,
    AllPairs,
    CrossPairs,
    Ids,
    PairSpace,
    Rows,
    Scores,
    pair_ids,
    pair_rows,
)
from pairsieve.scan import Doubled, Neighbours, Scan, Take, few_products, ready_rows
from pairsieve.scan.across import AcrossScan
from pairsieve.search.neighbours import merge_neighbours

Matrix: TypeAlias = NDArray[Any]  # rows of embeddings (n, d)

ALIGN = 1024  # bands end where tiles end, so that little is spent on padding
WIDEST = 1 << 17  # rows of a band at most: 200 MB of float32 at 384 dimensions
BLOCKS_PER_WORKER = 3  # so that the last blocks find few workers idle
MOST_FOUND = 20_000_000  # pairs one block may hand back; a block with more is halved
PIECE = 1 << 16  # chosen pairs scored by one shard


def open_scan(
    shards: MapShards | None,
    space: PairSpace,
    left: Matrix,
    right: Matrix | None = None,
    *,
    device: str = "auto",
    lengths: bool = False,
) -> Scan:
    """As `scan.open_scan`, by the workers of `shards`."""
    if shards is None:
        return scan.open_scan(space, left, right, device=device, lengths=lengths)
    ways: dict[str, Any] = {"device": device, "lengths": lengths}
    if isinstance(space, AcrossPairs):
        ways["alike"] = AllPairs(space.texts)

        def part(space: PairSpace, one: Matrix, other: Matrix) -> Scan:
            sharded = ShardedScan(shards, space, one, other, **ways)
            return Doubled(sharded) if lengths else sharded

        return AcrossScan(space, left, part)
    sharded = ShardedScan(shards, space, left, right, **ways)
    return Doubled(sharded) if lengths else sharded


@dataclass(frozen=True)
class BlockSettings:
    """How a block is scanned; the same for every block, and as the whole space would be."""

    double: bool
    device: str
    threads: int
    tile: int  # CUDA only: its tile grows with the space, so a block is given it
    lengths: bool  # whether the rows' lengths count


class ShardedScan:
    """The `Scan` of a whole space, by the shards of a `MapShards`."""

    def __init__(
        self,
        shards: MapShards,
        space: PairSpace,
        left: Matrix,
        right: Matrix | None = None,
        *,
        device: str = "auto",
        lengths: bool = False,
        alike: PairSpace | None = None,
    ) -> None:
        """`left` (n, d), and `right` (m, d) for two sides, as for `open_scan`.

        alike: a space whose arithmetic is used; None for that of `space` itself.
        """
        other = left if right is None or space.symmetric else right
        if (len(left), len(other)) != space.shape:
            raise InputError(
                f"embeddings of {len(left):,} and {len(other):,} texts",
                why=f"the pair space has {space.shape[0]:,} left and {space.shape[1]:,} right texts",
                remedy="Give one row per text, in the order of the task folder",
            )
        if device == "auto":
            device = "cuda" if shards.gpus else "cpu"
        self.space, self.device, self._shards = space, device, shards
        double = few_products(alike or space, left)
        tile = min(16384, 1 << max(10, (max((alike or space).shape) - 1).bit_length()))
        self._settings = BlockSettings(double, device, shards.threads, tile, lengths)
        self._rows = left, other
        wanted = BLOCKS_PER_WORKER * (shards.gpus if self._gpu else shards.workers)
        sides = math.sqrt(2 * wanted) if space.symmetric else math.sqrt(wanted)
        self._left = self._bands(left, math.ceil(sides))
        self._right = self._left if space.symmetric else self._bands(other, math.ceil(sides))

    def scores(self, ids: Ids) -> Scores:
        out = np.empty(len(ids), np.float32)
        order = np.argsort(ids, kind="stable")
        pieces = [order[first : first + PIECE] for first in range(0, len(ids), PIECE)]
        for first in range(0, len(pieces), 64):  # so many at a time: their rows are copied
            some = pieces[first : first + 64]
            shards = [self._piece(ids[piece]) for piece in some]
            for at, found in self._shards.map(_score, shards, "scoring pairs", self._gpu):
                out[some[at]] = found
        return out

    def count_reaching(self, thresholds: NDArray[np.float32], desc: str = "all pairs") -> NDArray[np.int64]:
        reached = np.zeros(len(thresholds), np.int64)
        asked = self._shards.share(thresholds)
        blocks = [(*self._arguments(*block), asked) for block in self._blocks()]
        for _, found in self._shards.map(_count, blocks, desc, self._gpu):
            reached += found
        return reached

    def collect(self, low: float, high: float, take: Take, desc: str = "collecting") -> None:
        blocks = [(block, (0, block[0].count)) for block in self._blocks()]
        while blocks:
            halved: list[tuple[tuple[Band, Band], tuple[int, int]]] = []
            shards = [(*self._arguments(*block), slice(*rows), low, high) for block, rows in blocks]
            for at, found in self._shards.map(_collect, shards, desc, self._gpu):
                (left, right), (first, last) = blocks[at]
                if found is None:
                    middle = (first + last) // 2
                    halved += [((left, right), (first, middle)), ((left, right), (middle, last))]
                elif len(found[0]):
                    take(found[0] + pair_ids(left.first, right.first), found[1])
            blocks = halved

    def neighbours(self, count: int, rows: Rows | None = None, desc: str = "neighbours") -> Neighbours:
        positions = np.arange(self.space.shape[0]) if rows is None else np.asarray(rows, np.int64)
        bands = self._left if rows is None else self._wide_bands(self._rows[0][positions])
        columns = np.full((len(positions), count), -1, np.int64)
        scores = np.full((len(positions), count), -np.inf, np.float32)
        blocks = [(left, right) for left in bands for right in self._wide]
        shards = []
        for left, right in blocks:
            own = positions[left.first : left.first + left.count] - right.first
            own_rows = own if self.space.symmetric else None
            shards.append((left.rows, right.rows, self._settings, count, own_rows))
        for at, (found, values) in self._shards.map(_nearest, shards, desc, self._gpu):
            left, right = blocks[at]
            span = slice(left.first, left.first + left.count)
            found = np.where(found < 0, -1, found + right.first)
            if len(self._wide) > 1 or found.shape[1] < count:
                merge_neighbours((columns[span], scores[span]), (found, values))
            else:
                columns[span], scores[span] = found, values
        return columns, scores

    # ── bands and blocks ────────────────────────────────────────────────────────────────────────

    @property
    def _gpu(self) -> bool:
        return self.device.startswith("cuda")

    def _unit(self, rows: Matrix) -> Matrix:
        """Rows as a block wants them; CUDA scales them itself."""
        if self._gpu:
            return np.ascontiguousarray(rows, np.float32)
        return ready_rows(rows, np.float64 if self._settings.double else np.float32, self._settings.lengths)

    def _bands(self, rows: Matrix, wanted: int) -> list[Band]:
        tiles = max(1, -(-len(rows) // ALIGN))
        count = min(tiles, max(wanted, -(-len(rows) // WIDEST)))
        size = -(-tiles // count) * ALIGN
        return [self._band(rows[first : first + size], first) for first in range(0, len(rows), size)]

    def _band(self, rows: Matrix, first: int) -> Band:
        return Band(first, len(rows), self._shards.share(self._unit(rows)))

    @cached_property
    def _wide(self) -> list[Band]:
        """The right rows in as few bands as may be: each block of neighbours costs a merge."""
        return self._wide_bands(self._rows[1])

    def _wide_bands(self, rows: Matrix) -> list[Band]:
        return [self._band(rows[first : first + WIDEST], first) for first in range(0, len(rows), WIDEST)]

    def _blocks(self) -> list[tuple[Band, Band]]:
        """The blocks that hold pairs; the largest first, so that no worker is left with one at the end."""
        blocks = [
            (left, right)
            for at, left in enumerate(self._left)
            for right in self._right[at if self.space.symmetric else 0 :]
        ]
        return sorted(blocks, key=lambda block: -_pairs(*block))

    def _arguments(self, left: Band, right: Band) -> tuple[Any, Any, bool, BlockSettings]:
        return left.rows, right.rows, left is right and self.space.symmetric, self._settings

    def _piece(self, ids: Ids) -> tuple[Any, Any, BlockSettings, Ids]:
        left, right = pair_rows(ids)
        used_left, left = np.unique(left, return_inverse=True)
        used_right, right = np.unique(right, return_inverse=True)
        left_rows, right_rows = self._unit(self._rows[0][used_left]), self._unit(self._rows[1][used_right])
        return left_rows, right_rows, self._settings, pair_ids(left, right)


@dataclass(frozen=True, eq=False)
class Band:
    """`count` rows from `first` on, and a handle on them."""

    first: int
    count: int
    rows: Any


def _pairs(left: Band, right: Band) -> int:
    return left.count * (left.count - 1) // 2 if left is right else left.count * right.count


# ── what a worker does ──────────────────────────────────────────────────────────────────────────────


def _scan(left: Matrix, right: Matrix, same: bool, settings: BlockSettings) -> Scan:
    """The ordinary scan of a block: the pairs within one band, or those of two."""
    space: PairSpace = AllPairs(len(left)) if same else CrossPairs(len(left), len(right))
    right = left if same else right
    if settings.device.startswith("cuda"):
        from pairsieve.scan.cuda import CudaScan

        double, tile, lengths = settings.double, settings.tile, settings.lengths
        return CudaScan(space, left, right, double=double, device=settings.device, tile=tile, lengths=lengths)
    from pairsieve.scan.cpu import CpuScan

    with warnings.catch_warnings():
        # Rows in shared memory cannot be written, which torch remarks on; nobody writes them here.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return CpuScan(space, left, right, double=settings.double, threads=settings.threads)


def _score(left: Matrix, right: Matrix, settings: BlockSettings, ids: Ids) -> Scores:
    return _scan(left, right, False, settings).scores(ids)


def _count(
    left: Matrix, right: Matrix, same: bool, settings: BlockSettings, thresholds: Scores
) -> NDArray[np.int64]:
    return _scan(left, right, same, settings).count_reaching(thresholds)


class _TooMany(Exception):
    """More pairs than a block may hand back."""


def _collect(
    left: Matrix, right: Matrix, same: bool, settings: BlockSettings, rows: slice, low: float, high: float
) -> tuple[Ids, Scores] | None:
    """Pairs of a block in a range of scores, some of its rows only; None where they are too many."""
    first, last = rows.start, rows.stop
    found: list[tuple[Ids, Scores]] = [(np.empty(0, np.int64), np.empty(0, np.float32))]
    held = 0

    def taker(row: int, column: int) -> Take:
        def take(ids: Ids, scores: Scores) -> None:
            nonlocal held
            held += len(ids)
            if held > MOST_FOUND and last - first > 1:
                raise _TooMany
            found.append((ids + pair_ids(row, column), scores))

        return take

    some = left[rows]
    try:
        if same:  # the pairs within these rows, then those of these rows with the later ones
            _scan(some, some, True, settings).collect(low, high, taker(first, first))
            if last < len(left):
                _scan(some, left[last:], False, settings).collect(low, high, taker(first, last))
        else:
            _scan(some, right, False, settings).collect(low, high, taker(first, 0))
    except _TooMany:
        return None
    return np.concatenate([piece[0] for piece in found]), np.concatenate([piece[1] for piece in found])


def _nearest(
    left: Matrix, right: Matrix, settings: BlockSettings, count: int, own: Rows | None
) -> Neighbours:
    """Each row's nearest in a band; `own` is where a row finds itself there (outside the band: nowhere)."""
    spare = 0 if own is None else 1  # a row that meets itself is dropped again
    columns, scores = _scan(left, right, False, settings).neighbours(min(count + spare, len(right)))
    if own is None:
        return columns, scores
    itself = columns == own[:, None]
    if columns.shape[1] <= count:  # the whole band: nobody too many
        return np.where(itself, -1, columns), np.where(itself, np.float32(-np.inf), scores)
    itself[~itself.any(axis=1), -1] = True  # a row that did not meet itself drops its farthest
    return columns[~itself].reshape(-1, count), scores[~itself].reshape(-1, count)

"""How is every pair visited by many machines, exactly? Blocks of two bands of rows, each an ordinary scan.

A pair's score does not depend on where it stands in a scan (every tile has one shape), so a block scores
its pairs as the whole space would, to the bit: counts add up, collected pairs are put together, and the
nearest of a row are the best of its blocks' nearest. A worker holds two bands, never the whole collection.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import MapShards
from pairsieve.errors import InputError
from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, Scores, pair_ids, pair_rows
from pairsieve.scan import DOUBLE_BELOW, Doubled, Scan, open_scan, ready_rows

ALIGN = 1024  # bands end where tiles end, so that little is spent on padding
WIDEST = 1 << 17  # rows of a band at most: 200 MB of float32 at 384 dimensions
BLOCKS_A_WORKER = 3  # so that the last blocks find few workers idle
MOST_FOUND = 20_000_000  # pairs one block may hand back; a block with more is halved
PIECE = 1 << 16  # chosen pairs scored by one shard


def scan_by(
    shards: MapShards | None,
    space: PairSpace,
    left: NDArray[Any],
    right: NDArray[Any] | None = None,
    *,
    device: str = "auto",
    lengths: bool = False,
) -> Scan:
    """The scan of a space by its embeddings: by shards, or, without any, on this machine."""
    if shards is None:
        return open_scan(space, left, right, device=device, lengths=lengths)
    scan = ShardedScan(shards, space, left, right, device=device, lengths=lengths)
    return Doubled(scan) if lengths else scan


@dataclass(frozen=True)
class Kind:
    """How a block is scanned; the same for every block, and as the whole space would be."""

    double: bool
    device: str
    threads: int
    tile: int  # CUDA only: its tile grows with the space, so a block is told
    lengths: bool  # whether the rows' lengths count


class ShardedScan:
    """The `Scan` of a whole space, by the shards of a `MapShards`."""

    def __init__(
        self,
        shards: MapShards,
        space: PairSpace,
        left: NDArray[Any],
        right: NDArray[Any] | None = None,
        *,
        device: str = "auto",
        lengths: bool = False,
    ) -> None:
        """`left` (n, d), and `right` (m, d) for two sides, as for `open_scan`."""
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
        double = float(space.size) * left.shape[1] <= DOUBLE_BELOW
        tile = min(16384, 1 << max(10, (max(space.shape) - 1).bit_length()))
        self._kind = Kind(double, device, shards.threads, tile, lengths)
        self._rows = left, other
        wanted = BLOCKS_A_WORKER * (shards.gpus if self._gpu else shards.workers)
        sides = math.sqrt(2 * wanted) if space.symmetric else math.sqrt(wanted)
        self._left = self._bands(left, math.ceil(sides))
        self._right = self._left if space.symmetric else self._bands(other, math.ceil(sides))

    def scores(self, ids: Ids) -> Scores:
        """Scores of chosen pairs, to the bit those of a whole pass. Any order."""
        out = np.empty(len(ids), np.float32)
        order = np.argsort(ids, kind="stable")
        parts = [order[first : first + PIECE] for first in range(0, len(ids), PIECE)]
        for first in range(0, len(parts), 64):  # so many at a time: their rows are copied
            some = parts[first : first + 64]
            pieces = [self._piece(ids[part]) for part in some]
            for at, found in self._shards.map(_score, pieces, "scoring pairs", self._gpu):
                out[some[at]] = found
        return out

    def count_reaching(self, thresholds: NDArray[np.float32], words: str = "all pairs") -> NDArray[np.int64]:
        """For each of the ascending distinct `thresholds`: how many pairs score at or above it."""
        reached = np.zeros(len(thresholds), np.int64)
        asked = self._shards.share(thresholds)
        blocks = [(*self._arguments(*block), asked) for block in self._blocks()]
        for _, found in self._shards.map(_count, blocks, words, self._gpu):
            reached += found
        return reached

    def collect(
        self, low: float, high: float, take: Callable[[Ids, Scores], None], words: str = "collecting"
    ) -> None:
        """Hand every pair with low <= score <= high to `take`, in pieces of any order, one at a time."""
        blocks = [(block, (0, block[0].count)) for block in self._blocks()]
        while blocks:
            crowded: list[tuple[tuple[Band, Band], tuple[int, int]]] = []
            shards = [(*self._arguments(*block), rows, low, high) for block, rows in blocks]
            for at, found in self._shards.map(_collect, shards, words, self._gpu):
                (mine, yours), (first, last) = blocks[at]
                if found is None:
                    middle = (first + last) // 2
                    crowded += [((mine, yours), (first, middle)), ((mine, yours), (middle, last))]
                elif len(found[0]):
                    take(found[0] + pair_ids(mine.first, yours.first), found[1])
            blocks = crowded

    def neighbours(
        self, count: int, rows: NDArray[np.int64] | None = None, words: str = "neighbours"
    ) -> tuple[NDArray[np.int64], Scores]:
        """The `count` best partners of each left row (all, or the chosen `rows`), best first; ties by
        smaller column; -1 where a row has fewer. A text is no neighbour of itself in a symmetric space."""
        if rows is None:
            bands = self._left
            numbers = np.arange(self.space.shape[0])
        else:
            numbers = np.asarray(rows, np.int64)
            bands = self._chosen(numbers)
        columns = np.full((len(numbers), count), -1, np.int64)
        scores = np.full((len(numbers), count), -np.inf, np.float32)
        blocks = [(mine, yours) for mine in bands for yours in self._wide]
        shards = []
        for mine, yours in blocks:
            own = (
                numbers[mine.first : mine.first + mine.count] - yours.first if self.space.symmetric else None
            )
            shards.append((mine.rows, yours.rows, self._kind, count, own))
        for at, (found, theirs) in self._shards.map(_nearest, shards, words, self._gpu):
            mine, yours = blocks[at]
            part = slice(mine.first, mine.first + mine.count)
            found = np.where(found < 0, -1, found + yours.first)
            if len(self._wide) > 1 or found.shape[1] < count:
                found, theirs = best_of(columns[part], scores[part], found, theirs)
            columns[part], scores[part] = found, theirs
        return columns, scores

    # ── bands and blocks ────────────────────────────────────────────────────────────────────────

    @property
    def _gpu(self) -> bool:
        return self.device.startswith("cuda")

    def _unit(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows as a block wants them; CUDA scales them itself."""
        if self._gpu:
            return np.ascontiguousarray(rows, np.float32)
        return ready_rows(rows, np.float64 if self._kind.double else np.float32, self._kind.lengths)

    def _bands(self, rows: NDArray[Any], wanted: int) -> list[Band]:
        tiles = max(1, -(-len(rows) // ALIGN))
        number = min(tiles, max(wanted, -(-len(rows) // WIDEST)))
        size = -(-tiles // number) * ALIGN
        return [self._band(rows[first : first + size], first) for first in range(0, len(rows), size)]

    def _band(self, rows: NDArray[Any], first: int) -> Band:
        return Band(first, len(rows), self._shards.share(self._unit(rows)))

    @cached_property
    def _wide(self) -> list[Band]:
        """The right rows in as few bands as may be: each block of neighbours costs a merge."""
        rows = self._rows[1]
        return [self._band(rows[first : first + WIDEST], first) for first in range(0, len(rows), WIDEST)]

    def _chosen(self, numbers: NDArray[np.int64]) -> list[Band]:
        return [
            self._band(self._rows[0][numbers[first : first + WIDEST]], first)
            for first in range(0, len(numbers), WIDEST)
        ]

    def _blocks(self) -> list[tuple[Band, Band]]:
        """The blocks that hold pairs; the largest first, so that no worker is left with one at the end."""
        blocks = [
            (mine, yours)
            for at, mine in enumerate(self._left)
            for yours in self._right[at if self.space.symmetric else 0 :]
        ]
        return sorted(blocks, key=lambda block: -_pairs(*block))

    def _arguments(self, mine: Band, yours: Band) -> tuple[Any, Any, bool, Kind]:
        return mine.rows, yours.rows, mine is yours and self.space.symmetric, self._kind

    def _piece(self, ids: Ids) -> tuple[Any, Any, Kind, Ids]:
        left, right = pair_rows(ids)
        used_left, left = np.unique(left, return_inverse=True)
        used_right, right = np.unique(right, return_inverse=True)
        mine, yours = self._unit(self._rows[0][used_left]), self._unit(self._rows[1][used_right])
        return mine, yours, self._kind, pair_ids(left, right)


@dataclass(frozen=True, eq=False)
class Band:
    """`count` rows from `first` on, and a handle on them."""

    first: int
    count: int
    rows: Any


def best_of(
    columns: NDArray[np.int64], scores: Scores, more: NDArray[np.int64], theirs: Scores
) -> tuple[NDArray[np.int64], Scores]:
    """The best of two lists of nearest, row by row: (n, k) and (n, j) -> (n, k). Ties by smaller column."""
    both, values = np.concatenate([columns, more], axis=1), np.concatenate([scores, theirs], axis=1)
    order = np.lexsort((both, -values), axis=1)[:, : columns.shape[1]]
    return np.take_along_axis(both, order, 1), np.take_along_axis(values, order, 1)


def _pairs(mine: Band, yours: Band) -> int:
    return mine.count * (mine.count - 1) // 2 if mine is yours else mine.count * yours.count


# ── what a worker does ──────────────────────────────────────────────────────────────────────────────


def _scan(mine: NDArray[Any], yours: NDArray[Any], same: bool, kind: Kind) -> Scan:
    """The ordinary scan of a block: the pairs within one band, or those of two."""
    space: PairSpace = AllPairs(len(mine)) if same else CrossPairs(len(mine), len(yours))
    yours = mine if same else yours
    if kind.device.startswith("cuda"):
        from pairsieve.scan.cuda import CudaScan

        return CudaScan(
            space,
            mine,
            yours,
            double=kind.double,
            device=kind.device,
            tile=kind.tile,
            lengths=kind.lengths,
        )
    from pairsieve.scan.cpu import CpuScan

    with warnings.catch_warnings():
        # Rows in shared memory cannot be written, which torch remarks on; nobody writes them here.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return CpuScan(space, mine, yours, double=kind.double, threads=kind.threads)


def _score(mine: NDArray[Any], yours: NDArray[Any], kind: Kind, ids: Ids) -> Scores:
    return _scan(mine, yours, False, kind).scores(ids)


def _count(
    mine: NDArray[Any], yours: NDArray[Any], same: bool, kind: Kind, thresholds: NDArray[np.float32]
) -> NDArray[np.int64]:
    return _scan(mine, yours, same, kind).count_reaching(thresholds)


class _Crowded(Exception):
    """More pairs than a block may hand back."""


def _collect(
    mine: NDArray[Any],
    yours: NDArray[Any],
    same: bool,
    kind: Kind,
    rows: tuple[int, int],
    low: float,
    high: float,
) -> tuple[Ids, Scores] | None:
    """Pairs of a block in a range of scores, some of its rows only; None where they are too many."""
    first, last = rows
    found: list[tuple[Ids, Scores]] = [(np.empty(0, np.int64), np.empty(0, np.float32))]
    held = 0

    def taker(row: int, column: int) -> Callable[[Ids, Scores], None]:
        def take(ids: Ids, scores: Scores) -> None:
            nonlocal held
            held += len(ids)
            if held > MOST_FOUND and last - first > 1:
                raise _Crowded
            found.append((ids + pair_ids(row, column), scores))

        return take

    part = mine[first:last]
    try:
        if same:  # the pairs within these rows, then those of these rows with the later ones
            _scan(part, part, True, kind).collect(low, high, taker(first, first))
            if last < len(mine):
                _scan(part, mine[last:], False, kind).collect(low, high, taker(first, last))
        else:
            _scan(part, yours, False, kind).collect(low, high, taker(first, 0))
    except _Crowded:
        return None
    return np.concatenate([piece[0] for piece in found]), np.concatenate([piece[1] for piece in found])


def _nearest(
    mine: NDArray[Any], yours: NDArray[Any], kind: Kind, count: int, own: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], Scores]:
    """Each row's nearest in a band; `own` is where a row finds itself there (outside the band: nowhere)."""
    spare = 0 if own is None else 1  # a row that meets itself is dropped again
    columns, scores = _scan(mine, yours, False, kind).neighbours(min(count + spare, len(yours)))
    if own is None:
        return columns, scores
    itself = columns == own[:, None]
    if columns.shape[1] <= count:  # the whole band: nobody too many
        return np.where(itself, -1, columns), np.where(itself, np.float32(-np.inf), scores)
    itself[~itself.any(axis=1), -1] = True  # a row that did not meet itself drops its farthest
    return columns[~itself].reshape(-1, count), scores[~itself].reshape(-1, count)

"""Approximate nearest neighbours by inverted lists (IVF), with as many probes as a wanted recall needs.

Rows are clustered by k-means (Sivic and Zisserman 2003; Jégou, Douze and Schmid 2011). A row is looked for
only in the lists of the centroids nearest to it: as many as hold `RECALL` of the true neighbours of sampled
rows, so that rows without clusters take longer, and are found all the same.

Lists are multiplied whole: all rows that probe a list, as one product of 8-bit integers, which costs an
eighth of float32's and much less than row by row. Candidates within what rounding may hide are scored in
float32, as an exact scan scores them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from pairsieve.pairs import CrossPairs, Rows
from pairsieve.progress import bar
from pairsieve.scan import Neighbours, screen, screen_kernels
from pairsieve.scan.cpu import CpuScan
from pairsieve.scan.threads import cores, in_threads, single_thread

Matrix: TypeAlias = NDArray[np.float32]

RECALL = 0.95  # of the true neighbours of sampled rows that the probed lists must hold
SAMPLED = 1024  # rows whose neighbours are looked for exactly, to choose the probes
LISTS = 4  # times √rows
ROWS_PER_LIST = 40  # that the clustering is trained on
ITERATIONS = 5
NOISE = 3.0  # standard deviations of the integers' rounding within which candidates are scored in float32
TOGETHER = 1 << 14  # asking rows whose candidates are held at once by a thread
TILE = 1024
STEP = 64  # tiles are multiples of this many rows and columns: few shapes, which the library prepares once


@dataclass(frozen=True, eq=False)
class Integers:
    """Rows x as integers: x - centre ≈ scale · ints. Position p is row order[p]."""

    ints: NDArray[Any]  # (n + TILE, d) int8; float32 where this processor has no fast int8 product
    scale: NDArray[np.float32]  # (n,)


@dataclass(frozen=True, eq=False)
class ListIndex:
    """Rows in inverted lists: list k holds the rows order[starts[k] : starts[k + 1]]."""

    rows: Matrix  # (n, d) of length one, as given
    centroids: Matrix  # (lists, d)
    order: Rows  # (n,)
    starts: Rows  # (lists + 1,)
    probes: int
    centre: NDArray[np.float32]  # (d,) subtracted from all rows before they are rounded
    integers: Integers
    shift: NDArray[np.float32]  # (n,) centre · (row - centre), by position


def build_lists(
    rows: Matrix, asking: Matrix, count: int, lists: int = 0, probes: int = 0, threads: int = 0
) -> ListIndex:
    """Lists of unit rows (n, d), ready to be asked for `count` nearest by rows like `asking` (m, d)."""
    threads, n = threads or cores(), len(rows)
    rng = np.random.default_rng(0)
    lists = max(1, min(lists or int(LISTS * np.sqrt(n)), n // 39))
    sample = rows[np.sort(rng.choice(n, min(n, ROWS_PER_LIST * lists), replace=False))]
    centroids = sample[rng.choice(len(sample), lists, replace=False)] if n else rows[:0]
    for _ in range(ITERATIONS):
        nearest = torch.as_tensor(_nearest_lists(sample, centroids, 1, threads, "clustering")[:, 0])
        sums = torch.zeros(centroids.shape).index_add_(0, nearest, torch.as_tensor(sample)).numpy()
        length = np.linalg.norm(sums, axis=1, keepdims=True)
        centroids = np.where(length > 0, sums / np.maximum(length, 1e-12), centroids).astype(np.float32)
    home = _nearest_lists(rows, centroids, 1, threads, "indexing")[:, 0]
    order = np.argsort(home, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(home, minlength=lists))])
    if not probes:
        some = asking[np.sort(rng.choice(len(asking), min(len(asking), SAMPLED), replace=False))]
        probes = _probes_for(some, rows, count, centroids, home, threads)
    centre = rows[order[:: max(1, n // screen.SAMPLE)]].mean(axis=0, dtype=np.float64).astype(np.float32)
    integers = _as_integers(rows, order, centre, threads)
    shift = np.empty(n, np.float32)
    for first in range(0, n, TOGETHER):
        span = slice(first, first + TOGETHER)
        shift[span] = (rows[order[span]] - centre) @ centre
    return ListIndex(rows, centroids, order, starts, min(probes, lists), centre, integers, shift)


def search_lists(
    index: ListIndex, left: Matrix, count: int, symmetric: bool, first_row: int = 0, threads: int = 0
) -> Neighbours:
    """Each left row's `count` nearest rows of an index, best first; -1 where there are fewer.

    In a symmetric space left row i is the index's own row `first_row + i`, and no neighbour of itself. Rows
    for which the lists hold fewer than `count` are looked for everywhere.
    """
    threads = threads or cores()
    columns = np.full((len(left), count), -1, np.int64)
    scores = np.full((len(left), count), -np.inf, np.float32)
    lost = np.zeros(len(left), bool)
    if left is index.rows:
        order, left_ints = index.order, index.integers
    else:
        order = np.argsort(_nearest_lists(left, index.centroids, 1, threads, "sorting")[:, 0], kind="stable")
        left_ints = _as_integers(left, order, index.centre, threads)
    own = first_row + order if symmetric else np.full(len(left), -1)
    together = max(TILE, min(TOGETHER, -(-len(left) // (2 * threads))))
    capacity, block = screen.capacity_for(count), screen.chain_block(left.shape[1]) or left.shape[1]
    spread = float(np.mean(np.square(index.integers.scale, dtype=np.float64)))
    every = np.arange(len(index.rows))
    local = threading.local()

    def piece(first: int) -> None:
        span = slice(first, min(first + together, len(left)))
        asking = order[span]
        noise = np.sqrt((left_ints.scale[span].astype(np.float64) ** 2 + spread) / 12)
        held = (
            np.empty((len(asking), capacity), np.float32),
            np.empty((len(asking), capacity), np.int32),
            np.zeros(len(asking), np.int32),
            np.full(len(asking), -np.inf, np.float32),
            (NOISE * noise * (left_ints.ints.dtype == np.int8)).astype(np.float32),
        )
        probed = _nearest_lists(left[asking], index.centroids, index.probes, 1, "")
        _visit(index, left_ints, first, probed, own[span], count, held, local)
        no_limit = np.full(len(asking), -np.inf, np.float32)
        found = columns, scores, lost
        screen_kernels.settle(left, index.rows, asking, every, no_limit, count, block, held, asking, *found)
        progress.update(len(asking))

    with bar(len(left), "searching the lists", "row") as progress:
        in_threads(threads, range(0, len(left), together), piece)
    if lost.any():
        at = np.flatnonzero(lost)
        scan = CpuScan(
            CrossPairs(len(at), len(index.rows)), left[at], index.rows, double=False, threads=threads
        )
        names = first_row + at if symmetric else None
        columns[at], scores[at] = without_own(*scan.neighbours(count + symmetric), names)
    return columns, scores


def without_own(columns: Rows, scores: NDArray[np.float32], own: Rows | None) -> Neighbours:
    """Neighbours (n, k + 1) less the row itself (n,), or the last where it is not there: (n, k)."""
    if own is None:
        return columns, scores
    drop = columns == own[:, None]
    drop[~drop.any(axis=1), -1] = True
    shape = len(columns), columns.shape[1] - 1
    return columns[~drop].reshape(shape), scores[~drop].reshape(shape)


def _nearest_lists(rows: Matrix, centroids: Matrix, count: int, threads: int, desc: str) -> Rows:
    """The `count` centroids nearest to each row, nearest first."""
    found = np.empty((len(rows), count), np.int64)
    for first in range(0, len(rows), 4 * TOGETHER):
        some = rows[first : first + 4 * TOGETHER]
        scan = CpuScan(CrossPairs(len(some), len(centroids)), some, centroids, double=False, threads=threads)
        found[first : first + 4 * TOGETHER] = scan.neighbours(count, desc=desc)[0]
    return found


def _probes_for(asking: Matrix, rows: Matrix, count: int, centroids: Matrix, home: Rows, threads: int) -> int:
    """The fewest lists that hold `RECALL` of the `count` nearest of the rows that ask, and `count` rows."""
    scan = CpuScan(CrossPairs(len(asking), len(rows)), asking, rows, double=False, threads=threads)
    truth, _ = scan.neighbours(min(count, len(rows)), desc="choosing the probes")
    nearest = np.argsort(-(asking @ centroids.T), axis=1, kind="stable")
    rank = np.empty_like(nearest)
    np.put_along_axis(rank, nearest, np.broadcast_to(np.arange(len(centroids)), nearest.shape), 1)
    needed = np.take_along_axis(rank, home[truth], 1)
    sizes = np.cumsum(np.bincount(home, minlength=len(centroids))[nearest], axis=1)
    enough = (sizes <= min(count, len(rows) - 1)).sum(axis=1)  # a row itself is in its lists too
    return 1 + int(max(np.quantile(needed, RECALL, method="higher"), np.quantile(enough, 0.99)))


def _as_integers(rows: Matrix, order: Rows, centre: NDArray[np.float32], threads: int) -> Integers:
    """Rows less the centre, each rounded to a scale of its own, in the given order."""
    n, width = rows.shape
    fast = screen.integers_pay(width)
    ints = np.zeros((n + TILE, width), np.int8 if fast else np.float32)
    scale = np.ones(n, np.float32)

    def piece(first: int) -> None:
        span = slice(first, min(first + TILE, n))
        centred = rows[order[span]] - centre
        if fast:
            scale[span] = np.maximum(np.abs(centred).max(axis=1), 1e-12) / screen_kernels.LEVELS
            ints[span] = np.rint(centred / scale[span, None])
        else:
            ints[span] = centred

    in_threads(threads, range(0, n, TILE), piece)
    return Integers(ints, scale)


def _visit(
    index: ListIndex,
    left_ints: Integers,
    first: int,
    probed: Rows,
    own: Rows,
    count: int,
    held: Any,
    local: Any,
) -> None:
    """Multiply the rows from position `first` on with the lists that each probes (n, probes)."""
    if not hasattr(local, "tile"):
        local.tile = torch.empty(
            TILE * TILE, dtype=torch.int32 if left_ints.ints.dtype == np.int8 else torch.float32
        )
        local.rows = torch.empty(
            TILE, left_ints.ints.shape[1], dtype=torch.as_tensor(left_ints.ints[:0]).dtype
        )
    asking, listed = torch.as_tensor(left_ints.ints), torch.as_tensor(index.integers.ints)
    product = torch._int_mm if left_ints.ints.dtype == np.int8 else torch.mm
    flat = probed.astype(np.uint16 if len(index.centroids) <= 1 << 16 else np.int64).ravel()
    by_list = np.argsort(flat, kind="stable")
    ends = np.cumsum(np.bincount(flat, minlength=len(index.centroids)))
    for k in np.flatnonzero(np.diff(ends, prepend=0) * np.diff(index.starts)):
        of_list = by_list[ends[k - 1] if k else 0 : ends[k]] // probed.shape[1]
        for r0 in range(0, len(of_list), TILE):
            some = of_list[r0 : r0 + TILE]
            padded = np.append(first + some, np.full(-len(some) % STEP, first))
            rows = local.rows[: len(padded)]
            torch.index_select(asking, 0, torch.as_tensor(padded), out=rows)
            for c0 in range(index.starts[k], index.starts[k + 1], TILE):
                columns = slice(c0, min(c0 + TILE, index.starts[k + 1]))
                wide = -(-(columns.stop - c0) // STEP) * STEP
                tile = local.tile[: len(rows) * wide].view(len(rows), wide)
                with single_thread():
                    product(rows, listed[c0 : c0 + wide].T, out=tile)
                of_columns = index.integers.scale[columns], index.shift[columns], index.order[columns]
                screen_kernels.probe(
                    tile.numpy(), some, own, left_ints.scale[first:], *of_columns, count, held
                )

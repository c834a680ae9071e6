"""What happens to a tile of scores on a CPU, at the speed of memory? Loops that numba compiles, GIL released.

Every kernel takes one tile `scores` (rows × columns, float32) of which `rows` × `columns` are real, the
position of its corner in the whole matrix, and whether the space is symmetric (then only pairs with
row < column count).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

BINS = 1 << 12  # the first guess at where a score stands among the thresholds: one multiply, one look-up
CELLS_PER_THRESHOLD = 8  # the second guess: so many that few cells hold a threshold to compare with
MOST_CELLS = 1 << 22
LOW = np.float32(-1.0)  # scores beyond the range of a cosine share the first or the last bin
SCALE = np.float32((BINS - 1) / 2.0)


class ThresholdTable(NamedTuple):
    """Where a score stands among ascending thresholds: its bin, its cell within, then a comparison or none.

    Bins part the cosines' range evenly; a bin has cells in proportion to its thresholds, so that scores
    that crowd where the thresholds crowd cost no more than others. Bin and cell are float32 arithmetic
    that never decreases as the score grows, the same for thresholds and scores: a threshold in an earlier
    cell is smaller.
    """

    first: NDArray[np.int32]  # (bins,) number of each bin's first cell
    cells: NDArray[np.float32]  # (bins,) how many it has
    start: NDArray[np.int32]  # (cells + 1,) each cell's first threshold


def threshold_table(thresholds: NDArray[np.float32]) -> ThresholdTable:
    """The table of ascending distinct thresholds."""
    place = np.clip((thresholds - LOW) * SCALE, np.float32(0), np.float32(BINS - 1))
    bins = place.astype(np.int64)
    each = max(1, min(CELLS_PER_THRESHOLD, MOST_CELLS // max(1, len(thresholds))))
    cells = np.maximum(1, np.bincount(bins, minlength=BINS) * each)
    first = np.concatenate([[0], np.cumsum(cells)])
    within = (place - bins.astype(np.float32)) * cells[bins].astype(np.float32)
    mine = first[bins] + within.astype(np.int64)
    start = np.searchsorted(mine, np.arange(first[-1] + 1))
    return ThresholdTable(first[:-1].astype(np.int32), cells.astype(np.float32), start.astype(np.int32))


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def snap_to_one(scores: Any) -> None:
    """Cosines within float32 rounding of one become one, so that all pairs of copies tie."""
    near_one = np.float32(1.0 - 1e-6)
    for i in range(scores.shape[0]):
        for j in range(scores.shape[1]):
            if scores[i, j] > near_one:
                scores[i, j] = np.float32(1.0)


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def count_tile(
    scores: Any,
    rows: int,
    columns: int,
    row0: int,
    column0: int,
    symmetric: bool,
    thresholds: Any,
    table: Any,
    counts: Any,
) -> None:
    """counts[k] += scores that reach exactly k thresholds: thresholds[k-1] <= score < thresholds[k]."""
    first_cell, cells, start = table
    last = np.float32(BINS - 1)
    for i in range(rows):
        first = max(0, row0 + i + 1 - column0) if symmetric else 0
        for j in range(first, columns):
            score = scores[i, j]
            place = min(max((score - LOW) * SCALE, np.float32(0)), last)
            bin_ = np.int64(place)
            cell = first_cell[bin_] + np.int64((place - np.float32(bin_)) * cells[bin_])
            k = start[cell]
            end = start[cell + 1]
            while k < end and thresholds[k] <= score:
                k += 1
            counts[k] += 1


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def collect_tile(
    scores: Any,
    rows: int,
    columns: int,
    row0: int,
    column0: int,
    symmetric: bool,
    low: float,
    high: float,
    ids: Any,
    found: Any,
) -> int:
    """Write ids and scores of the pairs with low <= score <= high; returns how many."""
    n = 0
    for i in range(rows):
        first = max(0, row0 + i + 1 - column0) if symmetric else 0
        for j in range(first, columns):
            score = scores[i, j]
            if low <= score <= high:
                ids[n] = (np.int64(row0 + i) << 32) | np.int64(column0 + j)
                found[n] = score
                n += 1
    return n


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def nearest_tile(
    bits: Any,
    rows: int,
    columns: int,
    column0: int,
    wanted: int,
    keys: Any,
    held: Any,
    bar: Any,
) -> None:
    """Keep each row's best columns. A key is the flipped score above, the column below: smaller is better.

    `bits` are the scores' own bits as int32. `keys` (rows, capacity) holds `held[i]` candidates; whenever
    a row is full it is sorted and cut to `wanted`, and `bar[i]` becomes the worst key still wanted.
    """
    capacity = keys.shape[1]
    for i in range(rows):
        limit = bar[i]
        n = held[i]
        for j in range(columns):
            raw = np.int64(bits[i, j])
            ordered = raw if raw >= 0 else np.int64(-2147483648) - raw  # -0.0 becomes 0
            key = ((-ordered) << 32) | np.int64(column0 + j)
            if key < limit:
                keys[i, n] = key
                n += 1
                if n == capacity:
                    row = keys[i]
                    row.sort()
                    n = wanted
                    limit = keys[i, wanted - 1]
        held[i] = n
        bar[i] = limit


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def finish_nearest(keys: Any, held: Any, wanted: int, columns: Any, scores_bits: Any) -> None:
    """Sort what each row holds; write columns and score bits, best first, -1 where fewer were found."""
    for i in range(len(held)):
        n = held[i]
        row = np.sort(keys[i, :n])
        for k in range(wanted):
            if k < n:
                key = row[k]
                columns[i, k] = key & np.int64(0xFFFFFFFF)
                ordered = -(key >> 32)
                raw = ordered if ordered >= 0 else np.int64(-2147483648) - ordered
                scores_bits[i, k] = np.int32(raw)
            else:
                columns[i, k] = -1
                scores_bits[i, k] = np.int32(-8388608)  # minus infinity

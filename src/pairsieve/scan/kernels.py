"""What happens to a tile of scores on a CPU, at the speed of memory? Loops that numba compiles, GIL released.

Every kernel takes one tile `scores` (rows × columns, float32) of which `rows` × `columns` are real, the
position of its corner in the whole matrix, and whether the space is symmetric (then only pairs with
row < column count).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

BINS = 1 << 16  # the first guess at where a score stands among the thresholds: one multiply, one look-up


def threshold_table(thresholds: NDArray[np.float32]) -> tuple[NDArray[np.int32], np.float32, np.float32]:
    """Where each bin's thresholds begin, and the bins' origin and scale.

    A bin is `int((score - low) * scale)` in float32, which never decreases as the score grows, so equal
    arithmetic for thresholds and scores keeps their order: a threshold in an earlier bin is smaller.
    """
    low = np.float32(thresholds[0]) if len(thresholds) else np.float32(0)
    high = np.float32(thresholds[-1]) if len(thresholds) else np.float32(0)
    span = max(float(high) - float(low), 1e-6)
    scale = np.float32((BINS - 1) / span)
    bins = np.clip(((thresholds - low) * scale).astype(np.int64), 0, BINS - 1)
    start = np.searchsorted(bins, np.arange(BINS + 1)).astype(np.int32)
    return start, low, scale


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
    start: Any,
    low: float,
    scale: float,
    counts: Any,
) -> None:
    """counts[k] += scores that reach exactly k thresholds: thresholds[k-1] <= score < thresholds[k]."""
    last = np.int64(len(start) - 2)
    top = np.float32(last + 1)
    for i in range(rows):
        first = max(0, row0 + i + 1 - column0) if symmetric else 0
        for j in range(first, columns):
            score = scores[i, j]
            if score < low:
                counts[0] += 1
                continue
            place = (score - low) * scale
            bin_ = np.int64(place) if place < top else last
            k = start[bin_]
            end = start[bin_ + 1]
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

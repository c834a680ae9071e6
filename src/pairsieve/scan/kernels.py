"""Numba kernels over one tile of scores: count, collect, keep the nearest; the GIL is released.

Every kernel takes one tile `scores` (rows × columns, float32) of which `rows` × `columns` are real, the
position of its corner in the whole matrix, and whether the space is symmetric (then only pairs with
row < column count).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

BINS = 1 << 10  # the first guess at where a score stands among the thresholds: one multiply, one look-up
THRESHOLDS_PER_CELL = 2  # the second guess; so few that one comparison of LANES thresholds settles it
LANES = 8
LOW = np.float32(-1.0)  # scores beyond the range of a cosine share the first or the last bin
SCALE = np.float32((BINS - 1) / 2.0)
NEAR_ONE = np.float32(1.0 - 1e-6)


class ThresholdTable(NamedTuple):
    """Where a score stands among ascending thresholds: its bin, its cell within, then one comparison.

    Bins divide the cosines' range evenly; a bin has cells in proportion to its thresholds, so that scores
    that crowd where the thresholds crowd cost no more than others. Bin and cell are float32 arithmetic
    that never decreases as the score grows, the same for thresholds and scores: a threshold in an earlier
    cell is smaller, one in a later cell larger. So the thresholds that a score reaches are those before its
    cell and those it reaches among the next few, whichever cells they are in. The whole stays in a core's
    second cache at 10⁵ thresholds: a look-up waits for memory, not for arithmetic.
    """

    first: NDArray[np.uint32]  # (bins,) index of each bin's first cell
    cells: NDArray[np.float32]  # (bins,) how many it has
    start: NDArray[np.uint32]  # (cells,) each cell's first threshold
    thresholds: NDArray[np.float32]  # (n + LANES,) the thresholds, then infinities


def threshold_table(thresholds: NDArray[np.float32]) -> ThresholdTable:
    """The table of ascending distinct thresholds."""
    position = np.clip((thresholds - LOW) * SCALE, np.float32(0), np.float32(BINS - 1))
    bins = position.astype(np.int64)
    cells = 1 + np.bincount(bins, minlength=BINS) // THRESHOLDS_PER_CELL
    first = np.concatenate([[0], np.cumsum(cells)])
    within = (position - bins.astype(np.float32)) * cells[bins].astype(np.float32)
    cell_of = first[bins] + within.astype(np.int64)
    start = np.searchsorted(cell_of, np.arange(first[-1] + 1))
    return ThresholdTable(
        first[:-1].astype(np.uint32),
        cells.astype(np.float32),
        start.astype(np.uint32),
        np.append(thresholds, np.full(LANES, np.inf, np.float32)),
    )


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _reached(typing: Any, thresholds: Any, at: Any, score: Any) -> Any:
    """How many of the `LANES` thresholds from `at` on are at or below the score, as one vector comparison.

    Written for LLVM because numba compiles the plain loop to a branch or a set-byte for each threshold,
    which takes three times as long.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        vector = ir.VectorType(ir.FloatType(), LANES)
        address = builder.gep(array.data, [builder.zext(arguments[1], ir.IntType(64))])
        some = builder.load(builder.bitcast(address, vector.as_pointer()), align=4)
        reached = builder.fcmp_ordered("<=", some, repeated(builder, arguments[2], LANES))
        mask = builder.bitcast(reached, ir.IntType(LANES))
        return builder.ctpop(builder.zext(mask, ir.IntType(32)))

    return types.uint32(thresholds, types.uint32, types.float32), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def first_flag(typing: Any, word: Any) -> Any:
    """The index of the first byte of a word of eight that is not zero."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zeros = builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.lshr(zeros, ir.Constant(ir.IntType(64), 3))

    return types.uint64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _chain(typing: Any, row: Any, right: Any, columns: Any, first: Any, last: Any, out: Any) -> Any:
    """out[m] = Σ row[d] · right[columns[m], d] over first <= d < last, one fused multiply-add after another.

    Sixteen columns, each in its own lane of a vector; `last - first` is a multiple of `LANES`. Eight terms
    of eight columns are fetched at a time and exchanged so that a vector holds one term of each.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        long, vector = ir.IntType(64), ir.VectorType(ir.FloatType(), LANES)
        row, right, columns, out = (
            context.make_array(signature.args[k])(context, builder, arguments[k]) for k in (0, 1, 2, 5)
        )
        name = f"llvm.fma.v{LANES}f32"
        kind = ir.FunctionType(vector, [vector] * 3)
        fused = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        width = builder.extract_value(right.shape, 1)
        texts = []
        for lane in range(2 * LANES):
            column = builder.load(builder.gep(columns.data, [ir.Constant(long, lane)]))
            texts.append(builder.gep(right.data, [builder.mul(column, width)]))
        sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * LANES)) for _ in range(2)]
        step = ir.Constant(long, LANES)
        with cgutils.for_range_slice(builder, arguments[3], arguments[4], step, intp=long) as (d, _):
            halves = []
            for half in (texts[:LANES], texts[LANES:]):
                halves.append(_exchanged(builder, [builder.gep(text, [d]) for text in half]))
            for term in range(LANES):
                address = builder.gep(row.data, [builder.add(d, ir.Constant(long, term))])
                factor = repeated(builder, builder.load(address), LANES)
                for half, total in zip(halves, sums):
                    builder.store(builder.call(fused, [factor, half[term], builder.load(total)]), total)
        for at, total in enumerate(sums):
            address = builder.gep(out.data, [ir.Constant(long, at * LANES)])
            builder.store(builder.load(total), builder.bitcast(address, vector.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(row, right, columns, types.int64, types.int64, out), generate


def _exchanged(builder: Any, texts: list[Any]) -> list[Any]:
    """Eight terms of eight texts as eight vectors, one term of every text in each.

    Fours of terms are fetched into the halves of a vector, text k beside text k + 4, which a processor does
    while it loads; then ones and pairs are swapped within the halves.
    """
    four = ir.VectorType(ir.FloatType(), 4)

    def mixed(one: Any, other: Any, *lanes_taken: int) -> Any:
        lanes = ir.VectorType(ir.IntType(32), LANES)
        return builder.shuffle_vector(one, other, ir.Constant(lanes, list(lanes_taken)))

    def fetched(text: Any, first: int) -> Any:
        address = builder.gep(text, [ir.Constant(ir.IntType(64), first)])
        return builder.load(builder.bitcast(address, four.as_pointer()), align=4)

    terms = []
    for first in (0, 4):
        rows = [
            mixed(fetched(texts[k], first), fetched(texts[k + 4], first), 0, 1, 2, 3, 4, 5, 6, 7)
            for k in range(4)
        ]
        low = [mixed(rows[k], rows[k + 1], 0, 8, 1, 9, 4, 12, 5, 13) for k in (0, 2)]
        high = [mixed(rows[k], rows[k + 1], 2, 10, 3, 11, 6, 14, 7, 15) for k in (0, 2)]
        for pair in (low, high):
            terms.append(mixed(*pair, 0, 1, 8, 9, 4, 5, 12, 13))
            terms.append(mixed(*pair, 2, 3, 10, 11, 6, 7, 14, 15))
    return terms


def repeated(builder: Any, value: Any, lanes: int) -> Any:
    """One float in every lane of a vector."""
    undefined = ir.Constant(ir.VectorType(ir.FloatType(), lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(one, undefined, zeros)


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def snap_to_one(scores: Any) -> None:
    """Cosines within float32 rounding of one become one, so that all pairs of copies tie."""
    for i in range(scores.shape[0]):
        for j in range(scores.shape[1]):
            if scores[i, j] > NEAR_ONE:
                scores[i, j] = np.float32(1.0)


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def count_tile(
    scores: Any, rows: int, columns: int, row0: int, column0: int, symmetric: bool, table: Any, counts: Any
) -> None:
    """counts[k] += scores that reach exactly k thresholds: thresholds[k-1] <= score < thresholds[k].

    Unsigned numbers index without numba's test for a negative one.
    """
    first_cell, cells, start, thresholds = table
    last = np.float32(BINS - 1)
    for i in range(rows):
        first = max(0, row0 + i + 1 - column0) if symmetric else 0
        for j in range(first, columns):
            score = scores[i, j]
            position = min(last, max(np.float32(0), (score - LOW) * SCALE))  # in this order: 0 for NaN
            bin_ = np.uint32(np.int32(position))
            cell = first_cell[bin_] + np.uint32(np.int32((position - np.float32(bin_)) * cells[bin_]))
            before = start[cell]
            more = _reached(thresholds, before, score)
            k = np.uint32(before + more)
            if more == LANES:
                while thresholds[k] <= score:
                    k += np.uint32(1)
            counts[k] += np.uint32(1)


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
    scores: Any, rows: int, columns: int, column0: int, own: Any, wanted: int, keys: Any, held: Any, bar: Any
) -> None:
    """Keep each row's best columns, never its `own` one (-1: it has none). Ties by smaller column.

    `keys` (rows, capacity) holds `held[i]` candidates (`pair_key`); whenever a row is full it is sorted and
    cut to `wanted`, and `bar[i]` becomes the worst score still wanted. Scores below the bar are passed over
    sixteen at a time: the flags of a row are set by vector instructions and read as words of eight.
    """
    capacity = keys.shape[1]
    flags = np.zeros((scores.shape[1] + 7) // 8 * 8, np.uint8)
    words = flags.view(np.uint64)
    for i in range(rows):
        limit = bar[i]
        n = held[i]
        row = scores[i]
        for j in range(columns):
            flags[j] = row[j] >= limit
        for w in range(len(words)):
            word = words[w]
            while word != 0:
                at = np.int64(8 * w + first_flag(word))
                word &= word - np.uint64(1)
                if row[at] >= limit and column0 + at != own[i]:
                    keys[i, n] = pair_key(row[at], column0 + at)
                    n += 1
                    if n == capacity:
                        keys[i].sort()
                        n = wanted
                        limit = key_score(keys[i, wanted - 1])
        held[i] = n
        bar[i] = limit


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def finish_nearest(keys: Any, held: Any, wanted: int, columns: Any, scores: Any) -> None:
    """Sort what each row holds; write columns and scores, best first, -1 where fewer were found."""
    for i in range(len(held)):
        n = held[i]
        row = np.sort(keys[i, :n])
        for k in range(wanted):
            if k < n:
                columns[i, k] = row[k] & np.int64(0xFFFFFFFF)
                scores[i, k] = key_score(row[k])
            else:
                columns[i, k] = -1
                scores[i, k] = -np.inf


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def pair_key(score: Any, column: Any) -> Any:
    """The flipped score above, the column below: smaller is better, ties by smaller column."""
    raw = np.int64(np.float32(score).view(np.int32))
    ordered = raw if raw >= 0 else np.int64(-2147483648) - raw  # -0.0 becomes 0
    return ((-ordered) << 32) | np.int64(column)


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def key_score(key: Any) -> Any:
    """The score of a key."""
    ordered = -(key >> 32)
    raw = ordered if ordered >= 0 else np.int64(-2147483648) - ordered
    return np.int32(raw).view(np.float32)


@numba.njit(nogil=True, cache=True, fastmath={"contract"})  # type: ignore[untyped-decorator,unused-ignore]
def chain_scores(left: Any, right: Any, rows: Any, columns: Any, block: int, out: Any) -> None:
    """out[k] = left[rows[k]] · right[columns[k]] in float32, summed as a library's matrix product sums.

    Fused multiply-adds one after the other, in blocks of `block` terms whose sums are added in their order:
    which blocks, if any, give a library's own bits is for `screen.chain_block` to find out. Fastest where
    `rows` repeat: sixteen columns of one row are summed at a time.
    """
    width = left.shape[1]
    some = np.empty(2 * LANES, np.int64)
    total = np.empty(2 * LANES, np.float32)
    partial = np.empty(2 * LANES, np.float32)
    k = 0
    while k < len(rows):
        a = left[rows[k]]
        end = k + 1
        while end < len(rows) and end < k + 2 * LANES and rows[end] == rows[k]:
            end += 1
        for m in range(2 * LANES):
            some[m] = columns[min(k + m, end - 1)]
        for first in range(0, width, block):
            last = min(first + block, width)
            whole = first + (last - first) // LANES * LANES
            _chain(a, right, some, first, whole, partial)
            for m in range(2 * LANES):
                for d in range(whole, last):
                    partial[m] += a[d] * right[some[m], d]
                total[m] = partial[m] if first == 0 else total[m] + partial[m]
        for m in range(end - k):
            out[k + m] = np.float32(1.0) if total[m] > NEAR_ONE else total[m]
        k = end


@numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})  # type: ignore[untyped-decorator,unused-ignore]
def pair_products(left: Any, right: Any, rows: Any, columns: Any, grid: float, out: Any) -> None:
    """out[k] = left[rows[k]] · right[columns[k]], summed in float64 and rounded to the grid.

    So rounded, a sum does not depend on its order: these are the scores of a pass over tiles.
    """
    for k in range(len(rows)):
        row, column = rows[k], columns[k]
        total = 0.0
        for d in range(left.shape[1]):
            total += left[row, d] * right[column, d]
        out[k] = np.float32(np.round(total * grid) / grid)

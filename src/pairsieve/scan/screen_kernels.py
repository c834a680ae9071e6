"""Which pairs of a tile of integer products may still matter? The loops of `screen`, compiled by numba.

`candidates` are the arrays of `screen.Candidates`, for the rows (or the columns) of the tile.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pairsieve.scan import kernels

LEVELS = 127  # integers run from -127 to 127
SPAN = 4096  # columns whose embeddings stay in the cache while many rows are scored against them
LEAST = np.float32(-8)  # below every value
WORD = 64  # columns compared at once: one bit each
COUNTED = 256  # keys up to which counting the smaller ones of each is quicker than sorting
AHEAD = 12  # rows whose candidates are fetched from far away in memory before their turn
NJIT = {"nogil": True, "cache": True}


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _reaching(typing: Any, row: Any, at: Any, mine: Any, scale: Any, offset: Any, limit: Any) -> Any:
    """Which of `WORD` columns from `at` on have row · scale · mine + offset ≥ limit: one bit each.

    Offset and limit are arrays along the columns, or one number for all of them. Written for LLVM because
    numba compiles the plain loop to a byte for each column, which takes three times as long.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        floats = ir.VectorType(ir.FloatType(), WORD)
        bits = ir.IntType(WORD)

        def along(number: int) -> Any:
            kind, value = signature.args[number], arguments[number]
            if not isinstance(kind, types.Array):
                return kernels.repeated(builder, value, WORD)
            array = context.make_array(kind)(context, builder, value)
            vector = ir.VectorType(array.data.type.pointee, WORD)  # of floats, or of the products' integers
            place = builder.gep(array.data, [arguments[1]])
            return builder.load(builder.bitcast(place, vector.as_pointer()), align=4)

        name = f"llvm.fma.v{WORD}f32"
        kind = ir.FunctionType(floats, [floats] * 3)
        fused = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        scaled = builder.fmul(builder.sitofp(along(0), floats), along(3))
        value = builder.call(fused, [scaled, along(2), along(4)])
        return builder.bitcast(builder.fcmp_ordered(">=", value, along(5)), bits)

    return types.uint64(row, types.int64, mine, scale, offset, limit), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _fetch(typing: Any, matrix: Any, row: Any, column: Any) -> Any:
    """Ask for a place of a matrix to be brought near: it will be written soon. No place is too far away."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        step, size = builder.extract_value(array.strides, 0), builder.extract_value(array.strides, 1)
        bytes_ = builder.bitcast(array.data, ir.IntType(8).as_pointer())
        far = builder.add(builder.mul(arguments[1], step), builder.mul(arguments[2], size))
        place = builder.gep(bytes_, [far])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(ask, [place, *(ir.Constant(number, told) for told in (1, 3, 1))])  # to write; keep; data
        return context.get_dummy_value()

    return types.void(matrix, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _first_bit(typing: Any, word: Any) -> Any:
    """The number of the lowest bit that is set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@numba.njit(**NJIT, fastmath={"reassoc"})  # type: ignore[untyped-decorator,unused-ignore]
def round_rows(
    rows: Any,
    centre: Any,
    other: Any,
    signs: Any,
    block: int,
    ints: Any,
    scale: Any,
    shift: Any,
    lost: Any,
    length: Any,
    rounded: Any,
) -> None:
    """Rows less the centre, turned and rounded to integers; their products with `other` as shifts.

    Turned by random signs and a Walsh-Hadamard transform of every `block` (a power of two) dimensions, taken
    from all over the row: log2(block) rounds of sums and differences, each an orthogonal map. Writes the
    integers, their scale, and the lengths of what rounding loses, of the row, and of what rounding keeps.
    """
    width = rows.shape[1]
    blocks = width // block
    here = np.empty(width, np.float32)
    there = np.empty(width, np.float32)
    half = block // 2
    root = np.float32(np.sqrt(0.5))
    for i in range(len(rows)):
        row = rows[i]
        along = np.float32(0)
        for d in range(width):
            along += row[d] * other[d]
            there[d] = (row[d] - centre[d]) * signs[d]
        for b in range(blocks):
            for k in range(block):
                here[b * block + k] = there[k * blocks + b]
        done = 1
        while done < block:
            for b in range(blocks):
                first = b * block
                for k in range(half):
                    one, two = here[first + 2 * k], here[first + 2 * k + 1]
                    there[first + k] = (one + two) * root
                    there[first + half + k] = (one - two) * root
            here, there = there, here
            done *= 2
        largest = np.float32(0)
        for d in range(width):
            largest = max(largest, abs(here[d]))
        step = largest / np.float32(LEVELS) if largest > 0 else np.float32(1)
        inverse = np.float32(1) / step
        away = np.float32(0)
        whole = np.float32(0)
        kept = np.float32(0)
        for d in range(width):
            value = here[d]
            near = np.rint(value * inverse)
            ints[i, d] = np.int8(near)
            back = near * step
            away += (value - back) * (value - back)
            whole += value * value
            kept += back * back
        scale[i] = step
        shift[i] = along
        lost[i] = np.sqrt(away)
        length[i] = np.sqrt(whole)
        rounded[i] = np.sqrt(kept)


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def screen_across(
    products: Any,
    rows: int,
    columns: int,
    column0: int,
    own: Any,
    my_scale: Any,
    scale: Any,
    offset: Any,
    rank: int,
    candidates: Any,
) -> None:
    """Add the tile's columns that may be among each row's wanted; `own[i]` is never one (-1: it has none).

    scale_i · scale_j · product + offset_j is a pair's value. A row without a bar takes its first from this
    tile, at a value that as many as the given rank reach. Pairs are noted first and added afterwards, as a
    row's candidates are far away in memory, and waiting for several at once takes no longer than for one.
    """
    values, found, held, bar, reach = candidates
    some = np.empty(products.shape[1], np.float32)
    scales, offsets = _padded(scale, columns), _padded(offset, columns)
    start = np.zeros(rows + 1, np.int64)
    noted = np.empty(rows * columns, np.int32)
    value = np.empty(rows * columns, np.float32)
    n = 0
    for i in range(rows):
        mine = my_scale[i]
        row = products[i]
        itself = own[i] - column0 if column0 <= own[i] < column0 + columns else -1
        if bar[i] == -np.inf and columns > 4 * rank:
            for j in range(columns):
                some[j] = (np.float32(row[j]) * mine) * scale[j] + offset[j]
            if itself >= 0:
                some[itself] = LEAST
            bar[i] = _first_bar(some, columns, rank, reach[i])
        for first in range(0, columns, WORD):
            word = _reaching(row, first, mine, scales, offsets, bar[i])
            while word != 0:
                at = first + _first_bit(word)
                word &= word - np.uint64(1)
                noted[n] = column0 + at
                value[n] = (np.float32(row[at]) * mine) * scales[at] + offsets[at]
                n += at < columns and at != itself
        start[i + 1] = n
    for i in range(rows):
        ahead = min(i + AHEAD, rows - 1)
        _fetch(values, ahead, held[ahead])
        _fetch(found, ahead, held[ahead])
        first, last = start[i], start[i + 1]
        held[i], bar[i] = _added(
            values[i], found[i], held[i], bar[i], reach[i], rank, value[first:last], noted[first:last]
        )


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def screen_down(
    products: Any,
    rows: int,
    columns: int,
    row0: int,
    my_scale: Any,
    my_offset: Any,
    scale: Any,
    rank: int,
    candidates: Any,
) -> None:
    """The same tile for the texts of its columns: add the rows that may be among each column's wanted."""
    values, found, held, bar, reach = candidates
    scales, limits = _padded(scale, columns), _padded(bar, columns)
    start = np.zeros(columns + 1, np.int64)
    noted = np.empty(rows * columns, np.int32)
    value = np.empty(rows * columns, np.float32)
    n = 0
    for i in range(rows):
        mine = my_scale[i]
        offset = my_offset[i]
        row = products[i]
        for first in range(0, columns, WORD):
            word = _reaching(row, first, mine, scales, offset, limits)
            while word != 0:
                at = first + _first_bit(word)
                word &= word - np.uint64(1)
                if at < columns:
                    noted[n] = (i << 16) | at
                    value[n] = (np.float32(row[at]) * mine) * scales[at] + offset
                    n += 1
                    start[at + 1] += 1
    for j in range(columns):
        start[j + 1] += start[j]
    place = start[:-1].copy()
    mine_noted = np.empty(n, np.int32)
    mine_value = np.empty(n, np.float32)
    for k in range(n):
        at = place[noted[k] & 0xFFFF]
        mine_noted[at] = row0 + (noted[k] >> 16)
        mine_value[at] = value[k]
        place[noted[k] & 0xFFFF] = at + 1
    for j in range(columns):
        ahead = min(j + AHEAD, columns - 1)
        _fetch(values, ahead, held[ahead])
        _fetch(found, ahead, held[ahead])
        first, last = start[j], start[j + 1]
        held[j], bar[j] = _added(
            values[j],
            found[j],
            held[j],
            bar[j],
            reach[j],
            rank,
            mine_value[first:last],
            mine_noted[first:last],
        )


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def _padded(numbers: Any, n: int) -> Any:
    """n numbers and zeros behind them, to whole words."""
    padded = np.zeros((n + WORD - 1) // WORD * WORD, np.float32)
    padded[:n] = numbers[:n]
    return padded


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def _added(values: Any, found: Any, n: Any, bar: Any, reach: Any, rank: int, value: Any, noted: Any) -> Any:
    """One row's new candidates beside those it holds: how many it holds then, and the bar."""
    for k in range(len(value)):
        if value[k] >= bar:
            values[n] = value[k]
            found[n] = noted[k]
            n += 1
            if n == len(values):
                n, bar = _thin(values, found, rank, bar, reach)
    return n, bar


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def _first_bar(values: Any, n: int, rank: int, reach: Any) -> Any:
    """`_cut` by the best of every few values: `rank` of them are reached by at least as many values."""
    best = np.full(max(64, 4 * rank), LEAST, np.float32)
    step = len(best)
    for first in range(0, n, step):
        for k in range(min(step, n - first)):
            best[k] = max(best[k], values[first + k])
    return _cut(best, step, rank, reach)


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def raise_bars(rank: int, candidates: Any) -> None:
    """Set every row's bar by what it holds; what falls below goes when the row is full."""
    values, _, held, bar, reach = candidates
    for i in range(len(held)):
        if held[i] > rank:
            bar[i] = max(bar[i], _cut(values[i], held[i], rank, reach[i]))


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def _thin(values: Any, found: Any, rank: int, bar: Any, reach: Any) -> Any:
    """A full row drops what a higher bar allows: how many it holds then, and the bar."""
    n = len(values)
    limit = max(bar, _cut(values, n, rank, reach))
    n = _keep(values, found, n, limit)
    if 8 * n > 7 * len(values):  # too many lie too close: this row is for the plain way
        return -1, np.float32(np.inf)
    return n, limit


@numba.njit(**NJIT, fastmath={"reassoc", "nnan", "nsz"})  # type: ignore[untyped-decorator,unused-ignore]
def _cut(values: Any, n: int, rank: int, reach: Any) -> Any:
    """A bar below a value that at least `rank` of the n values reach, by the reach.

    Bisection, as counting is a few vector instructions and a partition is a guess for each value.
    """
    low = values[0]
    high = values[0]
    for k in range(n):
        low = min(low, values[k])
        high = max(high, values[k])
    for _ in range(14):
        middle = np.float32(0.5) * (low + high)
        count = np.float32(0)  # as wide as the values: one vector counts as many as it compares
        for k in range(n):
            count += np.float32(1) if values[k] >= middle else np.float32(0)
        if count >= rank:
            low = middle
            if count <= rank + (rank >> 5):
                break
        else:
            high = middle
    return np.float32(low - reach)


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def _keep(values: Any, found: Any, n: int, limit: Any) -> int:
    """Values at or above the limit move to the front, in their order; returns how many."""
    kept = 0
    for k in range(n):
        value, column = values[k], found[k]
        values[kept] = value
        found[kept] = column
        kept += value >= limit
    return kept


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def _ascending(keys: Any, n: int) -> Any:
    """The first n keys, all different, in order. Few are counted, a vector at a time: a sort guesses."""
    if n > COUNTED:
        return np.sort(keys[:n])
    ordered = np.empty(n, np.int64)
    for k in range(n):
        key = keys[k]
        smaller = 0
        for m in range(n):
            smaller += keys[m] < key
        ordered[smaller] = key
    return ordered


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def settle(
    left: Any,
    right: Any,
    mine: Any,
    order: Any,
    ceiling: Any,
    wanted: int,
    block: int,
    candidates: Any,
    places: Any,
    columns: Any,
    scores: Any,
    lost: Any,
) -> None:
    """Score what remains of the rows `mine` of `left`, and write each row's wanted best at its place.

    `order` turns a candidate, a row of `right`, into its column. Every pair that was passed over scores below
    bar + `ceiling`: a row whose last wanted score is no higher is lost, and the plain way must answer.
    Candidates are scored span by span of columns, so that the embeddings of a span, once fetched, serve all
    rows: they lie about in order already, as tiles are visited in order.
    """
    values, found, held, bar, reach = candidates
    total = 0
    for i in range(len(mine)):
        if held[i] > wanted:
            bar[i] = max(bar[i], _cut(values[i], held[i], wanted, reach[i]))
            held[i] = _keep(values[i], found[i], held[i], bar[i])
        total += max(0, held[i])
    rows = np.empty(total, np.int32)
    theirs = np.empty(total, np.int32)
    place = np.zeros(len(mine), np.int32)
    n = 0
    end = 0
    while n < total:
        end += SPAN
        for i in range(len(mine)):
            k = place[i]
            while k < held[i] and found[i, k] < end:
                rows[n] = mine[i]
                theirs[n] = found[i, k]
                n += 1
                k += 1
            place[i] = k
    exact = np.empty(total, np.float32)
    kernels.chain_scores(left, right, rows, theirs, block, exact)
    place[:] = 0
    n = 0
    end = 0
    while n < total:
        end += SPAN
        for i in range(len(mine)):
            k = place[i]
            while k < held[i] and found[i, k] < end:
                values[i, k] = exact[n]
                found[i, k] = order[theirs[n]]
                n += 1
                k += 1
            place[i] = k
    keys = np.empty(values.shape[1], np.int64)
    for i in range(len(mine)):
        at = places[i]
        lost[at] = held[i] < wanted
        if lost[at]:
            continue
        least = _cut(values[i], held[i], wanted, np.float32(0))  # fewer to rank
        n = 0
        for k in range(held[i]):
            keys[n] = kernels.pair_key(values[i, k], found[i, k])
            n += values[i, k] >= least
        best = _ascending(keys, n)
        for k in range(wanted):
            columns[at, k] = best[k] & np.int64(0xFFFFFFFF)
            scores[at, k] = kernels.key_score(best[k])
        lost[at] = scores[at, wanted - 1] < bar[i] + ceiling[i]

"""Numba kernels of `screen`: which pairs of a tile of integer products may still be among the nearest.

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
FEW = 4  # of them that may matter, in most cases
COUNTED = 256  # keys up to which counting the smaller ones of each is quicker than sorting
TOGETHER = 16  # candidates of one row that take no longer to score than one of them
AHEAD = 12  # rows whose candidates are fetched from far away in memory before their turn
NJIT = {"nogil": True, "cache": True}


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _reaching(typing: Any, row: Any, at: Any, of_row: Any, of_columns: Any) -> Any:
    """Which of `WORD` columns from `at` on may matter to this row, or this row to them: one bit each.

    `of_row` is (scale, most, limit) of the row, `of_columns` the same of the columns as three arrays. With
    v = row · scale_j · scale_i a bit is set where v + most_j ≥ limit_i or v + most_i ≥ limit_j.
    Written for LLVM because numba compiles the plain loop to a byte for each column, which takes three times
    as long.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        floats = ir.VectorType(ir.FloatType(), WORD)

        def along(kind: Any, value: Any) -> Any:
            array = context.make_array(kind)(context, builder, value)
            vector = ir.VectorType(array.data.type.pointee, WORD)  # of floats, or of the products' integers
            address = builder.gep(array.data, [arguments[1]])
            return builder.load(builder.bitcast(address, vector.as_pointer()), align=4)

        products = along(signature.args[0], arguments[0])
        if products.type != floats:
            products = builder.sitofp(products, floats)
        of_row = [kernels.repeated(builder, builder.extract_value(arguments[2], k), WORD) for k in range(3)]
        of_columns = [along(signature.args[3][k], builder.extract_value(arguments[3], k)) for k in range(3)]
        value = builder.fmul(builder.fmul(products, of_columns[0]), of_row[0])
        here = builder.fcmp_ordered(">=", builder.fadd(value, of_columns[1]), of_row[2])
        there = builder.fcmp_ordered(">=", builder.fadd(value, of_row[1]), of_columns[2])
        return builder.bitcast(builder.or_(here, there), ir.IntType(WORD))

    return types.uint64(row, types.int64, of_row, of_columns), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _fetch(typing: Any, matrix: Any, row: Any, column: Any) -> Any:
    """Prefetch an entry of a matrix that will be written soon; any index is safe."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        step, size = builder.extract_value(array.strides, 0), builder.extract_value(array.strides, 1)
        bytes_ = builder.bitcast(array.data, ir.IntType(8).as_pointer())
        far = builder.add(builder.mul(arguments[1], step), builder.mul(arguments[2], size))
        address = builder.gep(bytes_, [far])
        integer = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, integer, integer, integer])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        builder.call(
            ask, [address, *(ir.Constant(integer, hint) for hint in (1, 3, 1))]
        )  # to write; keep; data
        return context.get_dummy_value()

    return types.void(matrix, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _bits(typing: Any, word: Any) -> Any:
    """How many bits are set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _first_bit(typing: Any, word: Any) -> Any:
    """The index of the lowest bit that is set; `WORD` where none is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def round_rows(
    rows: Any,
    ints: Any,
    rest: Any,
    scale: Any,
    rest_scale: Any,
    beyond: Any,
    lost: Any,
    length: Any,
    rounded: Any,
) -> None:
    """Rows as integers: the first dimensions and the rest, each to a scale of its own.

    Writes half of the squared length of the rounded rest, which bounds what it adds to a product, and the
    lengths of what rounding loses, of the row, and of what rounding keeps.
    """
    first = ints.shape[1]
    for i in range(len(rows)):
        scale[i], away, whole, kept = _rounded(rows[i, :first], ints[i])
        rest_scale[i], more_away, more_whole, more_kept = _rounded(rows[i, first:], rest[i])
        beyond[i] = np.float32(0.50005) * more_kept
        lost[i] = np.sqrt(away + more_away)
        length[i] = np.sqrt(whole + more_whole)
        rounded[i] = np.sqrt(kept + more_kept)


@numba.njit(**NJIT, fastmath={"reassoc"})  # type: ignore[untyped-decorator,unused-ignore]
def _rounded(row: Any, ints: Any) -> Any:
    """The scale of the integers, and the squared lengths of what they lose, of the row, and of theirs."""
    largest = np.float32(0)
    for d in range(len(row)):
        largest = max(largest, abs(row[d]))
    step = largest / np.float32(LEVELS) if largest > 0 else np.float32(1)
    inverse = np.float32(1) / step
    away = np.float32(0)
    whole = np.float32(0)
    kept = np.float32(0)
    for d in range(len(row)):
        value = row[d]
        near = np.rint(value * inverse)
        ints[d] = np.int8(near)
        back = near * step
        away += (value - back) * (value - back)
        whole += value * value
        kept += back * back
    return step, away, whole, kept


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def _product(one: Any, other: Any) -> Any:
    """The product of two rows of integers."""
    total = np.int32(0)
    for d in range(len(one)):
        total = np.int32(total + np.int32(one[d]) * np.int32(other[d]))
    return np.float32(total)


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def note(
    products: Any,
    own: Any,
    row_texts: Any,
    column_texts: Any,
    my_bar: Any,
    their_bar: Any,
    reach: Any,
    rank: int,
    noted: Any,
    values: Any,
) -> int:
    """Note the tile's pairs that may matter to their row or to their column; returns how many.

    `row_texts` and `column_texts` are what `screen.Side.texts` gives of the rows and the columns; `own[i]` is
    the column of the tile that is row i itself. A pair's value for its row is scale_i · scale_j · product,
    the same of the rest, and above_j; for its column, with above_i. The rest is multiplied only where the
    most that it can add would lift the pair to a bar. What is noted lacks the last term. A row without a bar
    takes its first from this tile, at a value that as many as the given rank reach.
    """
    scale, above, rest, rest_scale, beyond = row_texts
    scales, aboves, rests, rest_scales, beyonds = column_texts
    columns = len(scales)
    some = np.empty(columns, np.float32)
    padded = _padded(scales), _padded(aboves + beyonds), _padded(their_bar - beyonds)
    n = 0
    for i in range(len(scale)):
        row = products[i]
        if my_bar[i] == -np.inf and columns > 4 * rank:
            for j in range(columns):
                some[j] = (np.float32(row[j]) * scales[j]) * scale[i] + aboves[j]
            if 0 <= own[i] < columns:
                some[own[i]] = LEAST
            my_bar[i] = _first_bar(some, columns, rank, reach[i])
        me = scale[i], above[i] + beyond[i], my_bar[i] - beyond[i]
        start = n
        for first in range(0, columns, WORD):
            word = _reaching(row, first, me, padded)
            more = _bits(word)
            for k in range(FEW):  # as many as there seldom are more of, whether or not they are: no guess
                noted[n + k] = first + _first_bit(word)
                word &= word - np.uint64(1)
            for k in range(FEW, more):
                noted[n + k] = first + _first_bit(word)
                word &= word - np.uint64(1)
            n += more
        kept = start
        for k in range(start, n):
            at = noted[k]
            value = (np.float32(row[at]) * padded[0][at]) * scale[i]
            if rest.shape[1]:
                value += _product(rest[i], rests[at]) * (rest_scale[i] * rest_scales[at])
            noted[kept], values[kept] = (i << 16) | at, value
            matters = (value + aboves[at] >= my_bar[i]) | (value + above[i] >= their_bar[at])
            kept += matters & (at != own[i])
        n = kept
    return n


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def add(noted: Any, values: Any, down: bool, above: Any, other0: int, rank: int, candidates: Any) -> None:
    """Add noted pairs to the candidates of their rows, or of their columns (`down`).

    `above` is of the other text of a pair, whose position is `other0` and what is noted. Pairs are sorted
    first, as candidates are far away in memory, and waiting for several at once takes no longer than for one.
    """
    held_values, found, held, bar, reach = candidates
    texts = len(held)
    start = np.zeros(texts + 1, np.int64)
    pairs = np.empty((2, len(noted) + 1), np.int32)
    wholes = np.empty(len(noted) + 1, np.float32)
    n = 0
    for k in range(len(noted)):
        i, j = noted[k] >> 16, noted[k] & 0xFFFF
        at, other = (j, i) if down else (i, j)
        pairs[0, n], pairs[1, n], wholes[n] = at, other0 + other, values[k] + above[other]
        reaches = wholes[n] >= bar[at]
        start[at + 1] += reaches
        n += reaches
    for at in range(texts):
        start[at + 1] += start[at]
    slot = start[:-1].copy()
    others = np.empty(n, np.int32)
    value = np.empty(n, np.float32)
    for k in range(n):
        at = pairs[0, k]
        others[slot[at]], value[slot[at]] = pairs[1, k], wholes[k]
        slot[at] += 1
    for at in range(texts):
        ahead = min(at + AHEAD, texts - 1)
        _fetch(held_values, ahead, held[ahead])
        _fetch(found, ahead, held[ahead])
        span = slice(start[at], start[at + 1])
        held[at], bar[at] = _added(
            held_values[at], found[at], held[at], bar[at], reach[at], rank, value[span], others[span]
        )


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def probe(
    products: Any,
    places: Any,
    own: Any,
    scale: Any,
    scales: Any,
    shifts: Any,
    names: Any,
    wanted: int,
    candidates: Any,
) -> None:
    """Add the pairs of a tile to the candidates of its rows, which are those at `places`.

    A pair's value is scale_i · scale_j · product + shift_j; `names` are the columns' numbers, and `own` the
    row's own. A row that is full drops what lies below its last wanted value by more than the reach; where
    too many lie too close, some of these.
    """
    values, found, held, bar, reach = candidates
    padded = _padded(scales), _padded(shifts), np.full(len(scales) + WORD, np.float32(np.nan))
    for i in range(len(places)):
        at = places[i]
        row = products[i]
        limit, n = bar[at], held[at]
        for first in range(0, len(scales), WORD):
            word = _reaching(row, first, (scale[at], np.float32(0), limit), padded)
            while word != 0:
                j = first + _first_bit(word)
                word &= word - np.uint64(1)
                value = (np.float32(row[j]) * scales[j]) * scale[at] + shifts[j]
                if value < limit or names[j] == own[at]:
                    continue
                values[at, n] = value
                found[at, n] = names[j]
                n += 1
                if n == values.shape[1]:
                    limit = max(limit, _cut(values[at], n, wanted, reach[at]))
                    n = min(_keep(values[at], found[at], n, limit), n - n // 8)
        held[at], bar[at] = n, limit


@numba.njit(**NJIT)  # type: ignore[untyped-decorator,unused-ignore]
def _padded(values: Any) -> Any:
    """The values and behind them, to whole words, what reaches no bar."""
    padded = np.full((len(values) + WORD - 1) // WORD * WORD, np.float32(np.nan))
    padded[: len(values)] = values
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
    some: Any,
    order: Any,
    ceiling: Any,
    wanted: int,
    block: int,
    candidates: Any,
    positions: Any,
    columns: Any,
    scores: Any,
    lost: Any,
) -> None:
    """Score what remains of the rows `some` of `left`, and write each row's wanted best at its slot.

    `order` turns a candidate, a row of `right`, into its column. Every pair that was passed over scores below
    bar + `ceiling`: a row whose last wanted score is no higher is lost, and the plain way must answer.
    Candidates are scored span by span of columns, so that the embeddings of a span, once fetched, serve all
    rows: they lie about in order already, as tiles are visited in order. Those too few to fill a vector wait
    for the next span.
    """
    values, found, held, bar, reach = candidates
    total = 0
    for i in range(len(some)):
        if held[i] > wanted:
            bar[i] = max(bar[i], _cut(values[i], held[i], wanted, reach[i]))
            held[i] = _keep(values[i], found[i], held[i], bar[i])
        total += max(0, held[i])
    rows = np.empty(total, np.int32)
    columns_of = np.empty(total, np.int32)
    slot = np.empty(total, np.int64)
    done = np.zeros(len(some), np.int32)
    n = 0
    end = 0
    while n < total:
        end += SPAN
        for i in range(len(some)):
            first = done[i]
            last = min(first + TOGETHER, held[i])
            while first < last and found[i, last - 1] < end:
                for k in range(first, last):
                    rows[n] = some[i]
                    columns_of[n] = found[i, k]
                    slot[n] = i * values.shape[1] + k
                    n += 1
                first, last = last, min(last + TOGETHER, held[i])
            done[i] = first
    exact = np.empty(total, np.float32)
    kernels.chain_scores(left, right, rows, columns_of, block, exact)
    all_values, all_found = values.reshape(-1), found.reshape(-1)
    for k in range(total):
        all_values[slot[k]] = exact[k]
        all_found[slot[k]] = order[columns_of[k]]
    keys = np.empty(values.shape[1], np.int64)
    for i in range(len(some)):
        at = positions[i]
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

"""Who are a row's nearest, when nearly all pairs are far? Integers say who is not, float32 judges the rest.

Rows are turned (an orthogonal map keeps their products), centred and rounded to int8. The product of the
integers takes a quarter of float32's time and differs from the score by no more than a bound that is known
row by row (`Side`). So most pairs are passed over for good, and what remains, less than two for every true
neighbour, is scored in float32 as the scan's own products score it, to the bit. Every pair of a symmetric
space is multiplied once and serves both of its rows.

Columns are visited in a random order, so that those seen so far are a sample and tell where the bar will
be in the end. That is a guess, checked for each row when its candidates have been scored: all that was
passed over is proven to score below the last that was kept. Rows where it is not, rows with more near ties
than they may hold, processors without a fast int8 product, and libraries that sum in another order than
`kernels.chain_scores` are left to the plain way, which is slower and gives the same bits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import Scores
from pairsieve.progress import bar
from pairsieve.scan import kernels, screen_kernels
from pairsieve.scan.threads import in_threads, single_thread

if TYPE_CHECKING:
    import torch

TILE = 1024
PIECE = 4096
SETTLED = 8192  # rows whose candidates are scored together: the more, the less often a column is fetched
ALL_ROWS_BYTES = 4 << 30  # candidates of all rows at once, so that a symmetric pair is visited once
BLOCKS = (0, 192, 256, 384, 512, 128, 320, 336, 240, 448, 768)  # 0: one chain, unbroken


@dataclass(frozen=True)
class Side:
    """Rows as integers: score(i, j) ≈ scale_i · scale_j · (ints_i · ints_j) + shift_i + shift_j.

    The error is at most slack_i + slack_j. Position p of every array is row `order[p]`.
    """

    order: NDArray[np.int64]  # (n,)
    rows: NDArray[np.float32]  # (n, d) as given, laid in this order: candidates lie close together
    ints: torch.Tensor  # (n padded to whole tiles, d) int8
    scale: NDArray[np.float32]  # (n,)
    shift: NDArray[np.float32]
    slack: NDArray[np.float32]


@dataclass(frozen=True)
class Candidates:
    """Up to `capacity` columns of each row that may be among its wanted ones, and the bar for more.

    A pair's value is an upper bound of its score, less shift and slack of its row. Of the most that integers
    might err they do about 1/√width, so a value lies above the score by very nearly the slack of its two
    texts: a bar set by that and a little more (`reach`) below the last wanted value will hardly ever prove
    too high. A row with held = -1 had more candidates than it may hold.
    """

    values: NDArray[np.float32]  # (n, capacity)
    columns: NDArray[np.int32]  # (n, capacity)
    held: NDArray[np.int32]  # (n,)
    bar: NDArray[np.float32]  # (n,) pairs with a value below are passed over
    reach: NDArray[np.float32]  # (n,) how far below the last wanted value the bar is set

    @staticmethod
    def none(slack: NDArray[np.float32], theirs: float, width: int, capacity: int) -> Candidates:
        """No candidates yet of rows with this slack; that of the columns seldom passes `theirs`."""
        beyond = 1 + 2 / np.sqrt(width)
        n = len(slack)
        return Candidates(
            np.empty((n, capacity), np.float32),
            np.empty((n, capacity), np.int32),
            np.zeros(n, np.int32),
            np.full(n, -np.inf, np.float32),
            (beyond * (slack + np.float32(theirs))).astype(np.float32),
        )

    def arrays(self, first: int = 0, last: int | None = None) -> tuple[NDArray[Any], ...]:
        """The arrays of some rows, as the kernels take them: what they write is written here."""
        whole = (self.values, self.columns, self.held, self.bar, self.reach)
        return tuple(array[first:last] for array in whole)


def capacity_for(wanted: int) -> int:
    """Candidates a row may hold. After a cut 1.4 times the wanted ones remain in real collections, and three
    times where directions are all alike (43,600 random rows of 384 dimensions, 100 wanted)."""
    return 4 * wanted + 128


def rank_for(wanted: int, seen: int, columns: int) -> int:
    """The rank, among `seen` columns drawn at random, that the last wanted one of all will hardly exceed.

    The wanted ones among those seen are hypergeometric: five standard deviations above the mean, and four.
    """
    expected = wanted * seen / columns
    spread = np.sqrt(expected * max(0.0, 1 - seen / columns))
    return min(wanted, int(np.ceil(expected + 5 * spread + 4)))


@cache
def chain_block(width: int) -> int:
    """The length of the sums that a float32 tile product adds up (0: none reproduces its bits).

    Tried on one tile of random rows, at every row and every column of the tile: another order of additions
    differs in most of the last bits.
    """
    import torch

    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((TILE, width), dtype=np.float32) for _ in range(2))
    left /= np.linalg.norm(left, axis=1, keepdims=True)
    right /= np.linalg.norm(right, axis=1, keepdims=True)
    product = torch.mm(torch.as_tensor(left), torch.as_tensor(right).T).numpy()
    every, some = np.arange(TILE), np.append(rng.choice(TILE, 14, replace=False), [0, TILE - 1])
    rows = np.concatenate([np.repeat(some, TILE), np.repeat(every, len(some))])
    columns = np.concatenate([np.tile(every, len(some)), np.tile(some, TILE)])
    found = np.empty(len(rows), np.float32)
    for block in BLOCKS:
        kernels.chain_scores(left, right, rows, columns, block or width, found)
        if np.array_equal(found, product[rows, columns]):
            return block or width
    return 0


@cache
def integers_pay(width: int) -> bool:
    """Whether this processor multiplies int8 tiles exactly, and in well under the time of float32 ones."""
    import torch

    if not hasattr(torch, "_int_mm"):
        return False
    signs = torch.where(
        torch.arange(TILE * width).reshape(TILE, width) % 3 == 0,
        -screen_kernels.LEVELS,
        screen_kernels.LEVELS,
    )
    ints, floats = signs.to(torch.int8), signs.to(torch.float32)
    whole, exact = torch.empty(TILE, TILE, dtype=torch.int32), torch.empty(TILE, TILE)

    def seconds(work: Callable[[], Any]) -> float:
        best = np.inf
        for _ in range(4):
            start = time.thread_time()
            work()
            best = min(best, time.thread_time() - start)
        return best

    try:
        fast = seconds(lambda: torch._int_mm(ints, ints.T, out=whole))
    except RuntimeError:
        return False
    plain = seconds(lambda: torch.mm(floats, floats.T, out=exact))
    # Sums of 127² stay exact in float64; some processors add int8 products in int16 and saturate.
    right = floats[:8].double() @ floats.double().T
    return bool((whole[:8].double() == right).all()) and fast < 0.6 * plain


def quantised(left: torch.Tensor, right: torch.Tensor, threads: int) -> tuple[Side, Side] | None:
    """Both sides as integers, or None where a row is not finite. One collection: give the same tensor twice.

    With x = μ + x', z = ν + z' and y = x'R, w = z'R for an orthogonal R:
    x·z = y·w + ν·x + μ·z - μ·ν, and with ŷ, ŵ the rounded ones |y·w - ŷ·ŵ| ≤ ‖y-ŷ‖‖w‖ + ‖ŷ‖‖w-ŵ‖.
    The right side is in a random order; so is the left one where they are the same.
    """
    import torch

    width = left.shape[1]
    same = right is left
    rng = np.random.default_rng(0)
    signs = rng.choice(np.array([-1, 1], np.float32), width)
    block = width & -width  # the largest power of two that divides it: 128 of 384, 256 of 768
    # Any centre will do: the mean of a sample is near enough to the mean of all.
    mean, theirs = (rows[:: max(1, len(rows) // PIECE)].mean(0).numpy() for rows in (left, right))
    common = np.float32(0.5 * (mean.astype(np.float64) @ theirs.astype(np.float64)))
    unit = 2.0**-24  # float32's relative rounding
    turning = 2 * (block.bit_length() + 4) * unit  # the most that float32 moves a unit row in turning it

    def side(rows: torch.Tensor, shuffled: bool, mine: Any, other: Any) -> tuple[Any, ...]:
        n = len(rows)
        ints = torch.zeros(-(-n // TILE) * TILE, width, dtype=torch.int8)
        whole, texts = ints.numpy(), rows.numpy()
        order = rng.permutation(n) if shuffled else np.arange(n)
        laid = np.empty_like(texts) if shuffled else texts
        arrays = [np.empty(n, np.float32) for _ in range(5)]

        def piece(first: int) -> None:
            part = slice(first, min(first + PIECE, n))
            if shuffled:
                np.take(texts, order[part], 0, out=laid[part])
            written = [array[part] for array in (whole, *arrays)]
            screen_kernels.round_rows(laid[part], mine, other, signs, block, *written)

        in_threads(threads, range(0, n, PIECE), piece)
        scale, shift, lost, length, rounded = arrays
        return lost, length, rounded, order, laid, ints, scale, shift - common

    mine = side(left, same, mean, theirs)
    yours = mine if same else side(right, True, theirs, mean)
    if not (np.isfinite(mine[1]).all() and np.isfinite(yours[1]).all()):
        return None
    # Rounding of the float32 score itself, of the shifts, of a few operations, and of cosines near one.
    rest = 1.6 * (width + 64) * unit + 3e-6

    def finished(mine: tuple[Any, ...], other: tuple[Any, ...]) -> Side:
        lost, length, _, order, laid, ints, scale, shift = mine
        largest = 1.0001 * float(max(other[1].max(), other[2].max())) + turning
        slack = (1.0001 * lost + turning * np.maximum(length, 1)) * largest + rest
        return Side(order, laid, ints, scale, shift, slack.astype(np.float32))

    first = finished(mine, yours)
    return first, first if same else finished(yours, mine)


def nearest(
    left: torch.Tensor,
    right: torch.Tensor,
    picked: NDArray[np.int64] | None,
    wanted: int,
    columns: NDArray[np.int64],
    scores: Scores,
    *,
    symmetric: bool,
    block: int,
    threads: int,
    words: str,
) -> NDArray[np.int64]:
    """Write the `wanted` best columns of the rows `picked` (None: all) and their scores, best first.

    Ties by smaller column. Returns the places of the rows that are left to the plain way.
    """
    sides = quantised(left, right, threads)
    if sides is None:
        return np.arange(len(columns))
    mine, yours = sides
    wide = len(right)
    capacity = capacity_for(wanted)
    theirs = float(yours.slack.mean() + yours.slack.std())
    offset = yours.shift + yours.slack
    ceiling = mine.shift + mine.slack
    lost = np.zeros(len(columns), bool)
    local = threading.local()

    def product(band: torch.Tensor, c0: int) -> NDArray[np.int32]:
        import torch

        if not hasattr(local, "tile"):
            local.tile = torch.empty(TILE, TILE, dtype=torch.int32)
        with single_thread():
            torch._int_mm(band, yours.ints[c0 : c0 + TILE].T, out=local.tile)
        tile: NDArray[np.int32] = local.tile.numpy()
        return tile

    def across(tile: NDArray[np.int32], rows: NDArray[np.int64], c0: int, rank: int, into: Any) -> None:
        own = rows if symmetric else np.full(len(rows), -1)
        end = min(c0 + TILE, wide)
        scale = mine.scale[rows], yours.scale[c0:end]
        screen_kernels.screen_across(tile, len(rows), end - c0, c0, own, *scale, offset[c0:end], rank, into)

    def settle(rows: NDArray[np.int64], places: NDArray[np.int64], into: Any) -> None:
        screen_kernels.settle(
            mine.rows,
            yours.rows,
            rows,
            yours.order,
            ceiling[rows],
            wanted,
            block,
            into,
            places,
            columns,
            scores,
            lost,
        )

    if picked is None and symmetric and 8 * capacity * wide <= ALL_ROWS_BYTES:
        held = Candidates.none(mine.slack, theirs, left.shape[1], capacity)
        _each_pair_once(mine, offset, wanted, held, product, across, threads=threads, words=words)

        many = min(SETTLED, max(TILE, -(-wide // (4 * threads))))

        def finish(first: int) -> None:
            rows = np.arange(first, min(first + many, wide))
            settle(rows, mine.order[rows], held.arrays(first, first + many))

        in_threads(threads, range(0, wide, many), finish)
        return np.flatnonzero(lost)

    at = np.arange(len(left))
    if symmetric:
        at[mine.order] = np.arange(len(left))
    starts = range(0, len(columns), TILE)
    progress = bar(len(starts), words, "tile")

    def band(first: int) -> None:
        places = np.arange(first, min(first + TILE, len(columns)))
        rows = at[places if picked is None else picked[places]]
        ints = mine.ints.new_zeros(TILE, mine.ints.shape[1])
        ints[: len(rows)] = mine.ints[rows]
        into = Candidates.none(mine.slack[rows], theirs, left.shape[1], capacity).arrays()
        for c0 in range(0, wide, TILE):
            rank = rank_for(wanted, min(c0 + TILE, wide), wide)
            across(product(ints, c0), rows, c0, rank, into)
            if _doubled(c0 // TILE + 1):
                screen_kernels.raise_bars(rank, into)
        settle(rows, places, into)
        progress.update(1)

    try:
        in_threads(threads, starts, band)
    finally:
        progress.close()
    return np.flatnonzero(lost)


def _each_pair_once(
    side: Side,
    offset: NDArray[np.float32],
    wanted: int,
    held: Candidates,
    product: Callable[[torch.Tensor, int], NDArray[np.int32]],
    across: Callable[..., None],
    *,
    threads: int,
    words: str,
) -> None:
    """Fill the candidates of all rows of a symmetric space; each tile and its mirror image are one product.

    The first band of columns is multiplied with all rows beforehand, for their first bars. Then row by row
    of tiles, so that every row meets its columns from the first to the last.
    """
    n = len(side.scale)
    starts = range(0, n, TILE)
    tiles = [(r0, 0) for r0 in starts[1:]]
    tiles += [(r0, c0) for r0 in starts[1:] for c0 in range(r0, n, TILE)]
    locks = [threading.Lock() for _ in starts]
    visited = np.zeros(len(starts), np.int64)
    progress = bar(1 + len(tiles), words, "tile")

    def seen(band: int) -> int:
        visited[band] += 1
        return rank_for(wanted, min(int(visited[band]) * TILE, n), n)

    def visit(corner: tuple[int, int]) -> None:
        r0, c0 = corner
        r1, c1 = min(r0 + TILE, n), min(c0 + TILE, n)
        tile = product(side.ints[r0 : r0 + TILE], c0)
        with locks[r0 // TILE]:
            rank = seen(r0 // TILE)
            into = held.arrays(r0, r1)
            across(tile, np.arange(r0, r1), c0, rank, into)
            if _doubled(visited[r0 // TILE]):
                screen_kernels.raise_bars(rank, into)
        if r0 != c0:
            with locks[c0 // TILE]:
                rank = seen(c0 // TILE)
                into = held.arrays(c0, c1)
                screen_kernels.screen_down(
                    tile,
                    r1 - r0,
                    c1 - c0,
                    r0,
                    side.scale[r0:r1],
                    offset[r0:r1],
                    side.scale[c0:c1],
                    rank,
                    into,
                )
                if _doubled(visited[c0 // TILE]):
                    screen_kernels.raise_bars(rank, into)
        progress.update(1)

    try:
        visit((0, 0))  # before the others: a tile below it serves its rows too, which need a bar by then
        in_threads(threads, tiles, visit)
    finally:
        progress.close()


def _doubled(tiles: Any) -> bool:
    """Whether this many tiles is a power of two: often enough to raise the bars."""
    return int(tiles) & (int(tiles) - 1) == 0

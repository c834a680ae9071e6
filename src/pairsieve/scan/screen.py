"""Exact nearest neighbours on the CPU by int8 screening: integers rule out most pairs, float32 scores others.

Rows are centred, turned (an orthogonal map keeps their products) and rounded to int8. The product of the
integers takes a quarter of float32's time and differs from the score by no more than a bound that is known
row by row (`Side`). Where a few principal components hold nearly all of the rows, only these are multiplied
for every pair; what the rest can add is bounded too, and multiplied where it could matter. So most pairs are
passed over for good, and what remains, less than two for every true neighbour, is scored in float32 as the
scan's own products score it, to the bit. Every pair of a symmetric space is multiplied once and serves both
of its rows.

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
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pairsieve.pairs import Rows, Scores
from pairsieve.progress import bar
from pairsieve.scan import kernels, screen_kernels
from pairsieve.scan.threads import in_threads, single_thread

TILE = 1024
SAMPLE = 4096  # rows that tell the centre, and the dimensions that matter
STEP = 64  # the first dimensions are a multiple of this many: whole instructions
# Of how far rows spread about their centre, what other dimensions may hold: with more of it too many pairs
# ask for the rest, which takes longer pair by pair than in a tile.
RESIDUE = 0.02
REPAID = 1000  # pairs for each entry of the turning matrix, which repay a search for those dimensions
SUMMED = 128  # terms of a sum in turning rows: the fewer, the less of its bound does rounding take
SETTLED_BYTES = 32 << 20  # candidates scored together: the more, the less often a column is fetched
ALL_ROWS_BYTES = 4 << 30  # candidates of all rows at once, so that a symmetric pair is visited once
BLOCKS = (0, 192, 256, 384, 512, 128, 320, 336, 240, 448, 768)  # 0: one chain, unbroken


@dataclass(frozen=True)
class Side:
    """Rows as integers: score(i, j) ≈ scale_i · scale_j · (ints_i · ints_j) + the same of the rest + shifts.

    The error is at most slack_i + slack_j; the rest adds no more than beyond_i + beyond_j. Position p of
    every array is row `order[p]`.
    """

    order: NDArray[np.int64]  # (n,)
    rows: NDArray[np.float32]  # (n, d) as given, laid in this order: candidates lie close together
    ints: torch.Tensor  # (n padded to whole tiles, first dimensions) int8
    scale: NDArray[np.float32]  # (n,)
    rest: NDArray[np.int8]  # (n, other dimensions)
    rest_scale: NDArray[np.float32]
    beyond: NDArray[np.float32]
    shift: NDArray[np.float32]
    slack: NDArray[np.float32]
    above: NDArray[np.float32]  # shift + slack

    def texts(self, some: Any) -> tuple[NDArray[Any], ...]:
        """What the kernels need to know of some rows besides the product of their first dimensions."""
        return self.scale[some], self.above[some], self.rest[some], self.rest_scale[some], self.beyond[some]


@dataclass(frozen=True)
class Candidates:
    """Up to `capacity` columns of each row that may be among its wanted ones, and the bar for more.

    A pair's value is an upper bound of its score, less shift and slack of its row. Of the most that integers
    might err they do about 1/√dimensions, so a value lies above the score by very nearly the slack of its two
    texts: a bar set by that and a little more (`reach`) below the last wanted value will hardly ever prove
    too high. A row with held = -1 had more candidates than it may hold.
    """

    values: NDArray[np.float32]  # (n, capacity)
    columns: NDArray[np.int32]  # (n, capacity)
    held: NDArray[np.int32]  # (n,)
    bar: NDArray[np.float32]  # (n,) pairs with a value below are passed over
    reach: NDArray[np.float32]  # (n,) how far below the last wanted value the bar is set

    @staticmethod
    def none(slack: NDArray[np.float32], column_slack: float, first: int, capacity: int) -> Candidates:
        """No candidates yet of rows with this slack; that of the columns seldom passes `column_slack`."""
        beyond = 1 + 2 / np.sqrt(first)
        n = len(slack)
        return Candidates(
            np.empty((n, capacity), np.float32),
            np.empty((n, capacity), np.int32),
            np.zeros(n, np.int32),
            np.full(n, -np.inf, np.float32),
            (beyond * (slack + np.float32(column_slack))).astype(np.float32),
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
    if not hasattr(torch, "_int_mm"):
        return False
    third, levels = torch.arange(TILE * width).reshape(TILE, width) % 3 == 0, screen_kernels.LEVELS
    signs = torch.where(third, -levels, levels)
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


def turn_for(left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, int]:
    """An orthogonal matrix for the rows of both, and how many of its columns make the first dimensions.

    The first dimensions are principal components of a sample, as many as leave `RESIDUE` to the rest. Within
    the first, and within the rest, rows are turned at random. Where pairs are too few to repay the search, or
    no dimensions stand out, all are first, and every `SUMMED` of them are turned among themselves.
    """
    width = left.shape[1]
    sides = (left,) if right is left else (left, right)
    if len(left) * len(right) >= REPAID * width**2:
        spread = torch.zeros(width, width, dtype=torch.float64)
        for rows in sides:
            some = _sample(rows)
            some = some - some.mean(0)
            spread += (some.T @ some).double() / (len(some) * len(sides))
        if spread.isfinite().all():
            variance, vectors = torch.linalg.eigh(spread)
            residue = variance.cumsum(0).flip(0).tolist()  # [k]: what all but the first k dimensions hold
            for first in range(STEP, width, STEP):
                if residue[first] <= RESIDUE * residue[0]:
                    groups = vectors.flip(1).split([first, width - first], 1)
                    turned = [group @ _random_turn(group.shape[1]) for group in groups]
                    return torch.hstack(turned).float(), first
    turn = torch.zeros(width, width)
    for block in _blocks(width):
        turn[block, block] = _random_turn(len(range(width)[block])).float()
    return turn, width


def _blocks(width: int) -> list[slice]:
    """All dimensions, up to `SUMMED` at a time, each taken from all over the row."""
    blocks = -(-width // SUMMED)
    return [slice(k, None, blocks) for k in range(blocks)]


@cache
def _random_turn(width: int) -> torch.Tensor:
    """A random orthogonal matrix (width, width): what it turns lies alike in all dimensions."""
    rng = np.random.default_rng(0)
    return torch.linalg.qr(torch.as_tensor(rng.standard_normal((width, width))))[0]


def _sample(rows: torch.Tensor) -> torch.Tensor:
    """Some rows, evenly spread."""
    return rows[:: max(1, len(rows) // SAMPLE)]


def quantised(left: torch.Tensor, right: torch.Tensor, threads: int) -> tuple[Side, Side] | None:
    """Both sides as integers, or None where a row is not finite. One collection: give the same tensor twice.

    With x = μ + x', z = ν + z' and y = x'R, w = z'R for an orthogonal R:
    x·z = y·w + ν·x + μ·z - μ·ν, and with ŷ, ŵ the rounded ones |y·w - ŷ·ŵ| ≤ ‖y-ŷ‖‖w‖ + ‖ŷ‖‖w-ŵ‖.
    The rest of the dimensions adds at most ½‖rest of ŷ‖² + ½‖rest of ŵ‖².
    The right side is in a random order; so is the left one where they are the same.
    """
    width = left.shape[1]
    same = right is left
    rng = np.random.default_rng(0)
    with single_thread():  # a factorisation may wait for its helpers far longer than it works
        turn, first = turn_for(left, right)
    # Any centre will do: the mean of a sample is near enough to the mean of all.
    left_mean, right_mean = _sample(left).mean(0), _sample(right).mean(0)
    common = np.float32(0.5 * float(left_mean.double() @ right_mean.double()))
    unit = 2.0**-24  # float32's relative rounding
    # The most that float32 moves a unit row in turning it: √width sums of SUMMED terms, and sums of those.
    turning = np.sqrt(width) * (SUMMED + width / SUMMED + 4) * unit

    def side(
        rows: torch.Tensor, shuffled: bool, centre: torch.Tensor, other: torch.Tensor
    ) -> tuple[Any, ...]:
        n = len(rows)
        ints = torch.zeros(-(-n // TILE) * TILE, first, dtype=torch.int8)
        rest = np.empty((n, width - first), np.int8)
        order = rng.permutation(n) if shuffled else np.arange(n)
        laid = torch.empty_like(rows) if shuffled else rows
        arrays = [np.empty(n, np.float32) for _ in range(6)]
        shift = torch.empty(n)

        def piece(start: int) -> None:
            span = slice(start, min(start + TILE, n))
            with single_thread():
                if shuffled:
                    torch.index_select(rows, 0, torch.as_tensor(order[span]), out=laid[span])
                torch.mv(laid[span], other, out=shift[span])
                centred = laid[span] - centre
                turned = torch.zeros_like(centred)
                if first == width:  # the turn is zero beside its blocks
                    for block in _blocks(width):
                        turned[:, block] = centred[:, block] @ turn[block, block]
                else:
                    for k in range(0, width, SUMMED):
                        turned.addmm_(centred[:, k : k + SUMMED], turn[k : k + SUMMED])
            written = [array[span] for array in (ints.numpy(), rest, *arrays)]
            screen_kernels.round_rows(turned.numpy(), *written)

        in_threads(threads, range(0, n, TILE), piece)
        scale, rest_scale, beyond, *lengths = arrays
        fields = {"order": order, "rows": laid.numpy(), "ints": ints, "scale": scale, "rest": rest}
        fields |= {"rest_scale": rest_scale, "beyond": beyond, "shift": shift.numpy() - common}
        return fields, *lengths

    one = side(left, same, left_mean, right_mean)
    two = one if same else side(right, True, right_mean, left_mean)
    if not (np.isfinite(one[2]).all() and np.isfinite(two[2]).all()):
        return None
    # Rounding of the float32 score itself, of the shifts, of a few operations, and of cosines near one.
    other_rounding = 1.6 * (width + 64) * unit + 3e-6

    def finished(own: tuple[Any, ...], other: tuple[Any, ...]) -> Side:
        fields, lost, length, _ = own
        largest = 1.0001 * float(max(other[2].max(), other[3].max())) + turning
        slack = (1.0001 * lost + turning * np.maximum(length, 1)) * largest + other_rounding
        slack = slack.astype(np.float32)
        return Side(**fields, slack=slack, above=fields["shift"] + slack)

    left_side = finished(one, two)
    return left_side, left_side if same else finished(two, one)


def nearest(
    left: torch.Tensor,
    right: torch.Tensor,
    picked: Rows | None,
    wanted: int,
    columns: Rows,
    scores: Scores,
    *,
    symmetric: bool,
    block: int,
    threads: int,
    desc: str,
) -> NDArray[np.int64]:
    """Write the `wanted` best columns of the rows `picked` (None: all) and their scores, best first.

    Ties by smaller column. Returns the positions of the rows that are left to the plain way.
    """
    sides = quantised(left, right, threads)
    if sides is None:
        return np.arange(len(columns))
    left_side, right_side = sides
    wide = len(right)
    capacity = capacity_for(wanted)
    column_slack = float(right_side.slack.mean() + right_side.slack.std())
    lost = np.zeros(len(columns), bool)
    local = threading.local()
    together = max(TILE, min(SETTLED_BYTES // (8 * capacity), -(-len(columns) // (4 * threads))))
    first_rank = rank_for(wanted, min(TILE, wide), wide)

    def note(band: torch.Tensor, texts: Any, own: Any, c0: int, into: Any, bars: Any) -> tuple[Any, ...]:
        """The pairs of a band of rows and one of columns that may matter, until the thread's next."""
        if not hasattr(local, "tile"):
            local.tile = torch.empty(TILE, TILE, dtype=torch.int32)
            room = TILE * TILE + screen_kernels.FEW
            local.noted = np.empty(room, np.int32), np.empty(room, np.float32)
        with single_thread():
            torch._int_mm(band, right_side.ints[c0 : c0 + TILE].T, out=local.tile[: len(band)])
        tile, column_texts = local.tile.numpy(), right_side.texts(slice(c0, min(c0 + TILE, wide)))
        n = screen_kernels.note(
            tile, own - c0, texts, column_texts, into[3], bars, into[4], first_rank, *local.noted
        )
        return tuple(array[:n] for array in local.noted)

    def settle(rows: Rows, positions: Rows, into: Any) -> None:
        sides = left_side.rows, right_side.rows, rows, right_side.order, left_side.above[rows]
        screen_kernels.settle(*sides, wanted, block, into, positions, columns, scores, lost)

    if picked is None and symmetric and 8 * capacity * wide <= ALL_ROWS_BYTES:
        held = Candidates.none(left_side.slack, column_slack, left_side.ints.shape[1], capacity)
        _each_pair_once(left_side, wanted, held, note, threads, desc)

        def finish(first: int) -> None:
            rows = np.arange(first, min(first + together, wide))
            settle(rows, left_side.order[rows], held.arrays(first, first + together))

        in_threads(threads, range(0, wide, together), finish)
        return np.flatnonzero(lost)

    at = np.arange(len(left))
    if symmetric:
        at[left_side.order] = np.arange(len(left))

    def bands(first: int) -> None:
        positions = np.arange(first, min(first + together, len(columns)))
        rows = at[positions if picked is None else picked[positions]]
        held = Candidates.none(left_side.slack[rows], column_slack, left_side.ints.shape[1], capacity)
        for r0 in range(0, len(rows), TILE):
            some, into = rows[r0 : r0 + TILE], held.arrays(r0, r0 + TILE)
            ints, texts = left_side.ints[some], left_side.texts(some)
            own = some if symmetric else np.full(len(some), -1)
            for c0 in range(0, wide, TILE):
                end = min(c0 + TILE, wide)
                rank = rank_for(wanted, end, wide)
                pairs = note(ints, texts, own, c0, into, np.full(end - c0, np.inf, np.float32))
                screen_kernels.add(*pairs, False, right_side.above[c0:end], c0, rank, into)
                if _doubled(c0 // TILE + 1):
                    screen_kernels.raise_bars(rank, into)
            progress.update(len(some))
        settle(rows, positions, held.arrays())

    with bar(len(columns), desc, "row") as progress:
        in_threads(threads, range(0, len(columns), together), bands)
    return np.flatnonzero(lost)


def _each_pair_once(
    side: Side, wanted: int, held: Candidates, note: Callable[..., tuple[Any, ...]], threads: int, desc: str
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

    def add(pairs: tuple[Any, ...], down: bool, rows: slice, other: slice) -> None:
        band = rows.start // TILE
        into = held.arrays(rows.start, rows.stop)
        with locks[band]:
            visited[band] += 1
            rank = rank_for(wanted, min(int(visited[band]) * TILE, n), n)
            screen_kernels.add(*pairs, down, side.above[other], other.start, rank, into)
            if _doubled(visited[band]):
                screen_kernels.raise_bars(rank, into)

    def visit(corner: tuple[int, int]) -> None:
        r0, c0 = corner
        rows, columns = (slice(at, min(at + TILE, n)) for at in corner)
        # A bar may rise in the meantime: what it passes over is noted in vain, and not added.
        bars = held.bar[columns] if r0 != c0 else np.full(columns.stop - c0, np.inf, np.float32)
        own, into = np.arange(rows.start, rows.stop), held.arrays(rows.start, rows.stop)
        pairs = note(side.ints[r0 : r0 + TILE], side.texts(rows), own, c0, into, bars)
        add(pairs, False, rows, columns)
        if r0 != c0:
            add(pairs, True, columns, rows)
        progress.update(1)

    with bar(1 + len(tiles), desc, "tile") as progress:
        visit((0, 0))  # before the others: a tile below it serves its rows too, which need a bar by then
        in_threads(threads, tiles, visit)


def _doubled(tiles: Any) -> bool:
    """Whether this many tiles is a power of two: often enough to raise the bars."""
    return int(tiles) & (int(tiles) - 1) == 0

"""How are all pairs visited on a GPU? Tiles of one matrix product, counted where they are made.

The product: each float32 is the exact sum of three bfloat16, and the six largest of the nine partial
products, laid side by side along the inner dimension, make one bfloat16 product with float32
accumulation. On an H200 that takes less than half the time of the plain float32 product, with twice its
largest error, both a few 1e-6 (`bench/exact_cuda.py` prints them). Every tile has one shape, so a pair's
score does not depend on where it stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import Ids, PairSpace, Scores, pair_rows
from pairsieve.progress import bar

if TYPE_CHECKING:
    import torch

GRID = 2.0**30  # float64 cosines are rounded to this grid first: what is zero on paper is zero here
NO_PAIR = -4.0  # below every cosine: padding, and the half of a symmetric tile that repeats the other
NEAR_ONE = (
    1.0 - 1e-5
)  # cosines within rounding of one are one: copies score down to 1 - 4e-6 at 768 dimensions
BINS = 1 << 16
CROWD = 2e8  # pairs that `select` gives exact scores at most, before two passes are the better way
COPIES = 256  # count arrays; atomic additions to one address would queue
FLUSH = 1_500_000_000  # scores counted in int32 before the sums move to int64


class CudaScan:
    """All pairs of a space, scored by the cosine of their embeddings, on one GPU."""

    def __init__(
        self,
        space: PairSpace,
        left: NDArray[Any],
        right: NDArray[Any],
        *,
        double: bool,
        device: str = "cuda",
        tile: int = 0,
        lengths: bool = False,
    ) -> None:
        """`left`, `right`: rows (n, d), of any length. Where `lengths` says so it counts, and what comes out
        is half of each product (`Doubled`). `double` multiplies in float64, rounded to float32."""
        import torch

        self.space, self.device, self.double = space, device, double
        widest = max(space.shape)
        self.tile = tile or min(16384, 1 << max(10, (widest - 1).bit_length()))
        kind = torch.float64 if double else torch.float32
        ready = rows_on if lengths else unit_rows_on
        self._left = ready(device, left, kind)
        self._right = self._left if right is left else ready(device, right, kind)
        self._ready: dict[tuple[str, int], torch.Tensor] = {}
        self._out = torch.empty(self.tile, self.tile, device=device)

    def scores(self, ids: Ids) -> Scores:
        """Scores of chosen pairs, to the bit those of a whole pass. Any order."""
        out = np.empty(len(ids), np.float32)
        order = np.argsort(ids, kind="stable")
        left, right = pair_rows(ids[order])
        for first, last, rows, columns in self._packs(left, right):
            tile = self._product(self._left_form(rows), self._right_form(columns))
            part = slice(first, last)
            at = np.searchsorted(rows, left[part]), np.searchsorted(columns, right[part])
            out[order[part]] = tile[self._to(at[0]), self._to(at[1])].cpu().numpy()
        return out

    def count_reaching(self, thresholds: NDArray[np.float32], words: str = "all pairs") -> NDArray[np.int64]:
        """For each of the ascending distinct `thresholds`: how many pairs score at or above it."""
        import torch

        counter = _Counter(torch.as_tensor(np.ascontiguousarray(thresholds), device=self.device))
        for tile, _, _ in self._tiles(words):
            counter.add(tile)
        between = counter.total().cpu().numpy()
        reached: NDArray[np.int64] = np.cumsum(between[::-1])[::-1][1:]
        return reached

    def collect(
        self, low: float, high: float, take: Callable[[Ids, Scores], None], words: str = "collecting"
    ) -> None:
        """Hand every pair with low <= score <= high to `take`, in pieces of any order, one at a time."""
        low32, high32 = float(np.float32(low)), float(np.float32(high))
        low32 = max(low32, NO_PAIR / 2)
        for tile, r0, c0 in self._tiles(words):
            rows, columns = ((tile >= low32) & (tile <= high32)).nonzero(as_tuple=True)
            if len(rows):
                ids = ((rows + r0) << 32) | (columns + c0)
                take(ids.cpu().numpy(), tile[rows, columns].cpu().numpy())

    def select(
        self, centre: float | None, count: int, beside: int, take: Callable[[Ids, Scores], None]
    ) -> bool:
        """Hand over pairs that surely include the `count` nearest to `centre` (None: the highest scores).

        One rough pass (a single bfloat16 product, its error bounded by `_slack`) finds every pair that can
        be among them; those get exact scores, summed in float64. `beside` pairs more are included, so that
        as many can be struck out afterwards. Some rows tell how far to reach; where they told too little,
        the pass is made again, further out. False, and nothing handed over, where scores crowd around the
        centre so that most pairs would need exact scores, or where a pass is made in float64 anyway.
        """
        import torch

        if self.double:
            return False
        left = _halved(self._left)
        right = left if self._right is self._left else _halved(self._right)
        slack = self._slack(left, right)
        wanted = min(count + beside, self.space.size)
        sample = self._sampled(left, right, centre)
        reach = sample.reach(1.5 * wanted / self.space.size)
        while True:
            if sample.share(reach + slack) * self.space.size > CROWD:
                return False
            low, high = (1.0 - reach, 4.0) if centre is None else (centre - reach, centre + reach)
            pieces: list[tuple[Ids, Scores]] = []
            sure = 0
            corners = self._corners()
            progress = bar(len(corners), "searching all pairs", "tile")
            for r0, c0 in corners:
                tile = torch.mm(
                    left[r0 : r0 + self.tile], right[c0 : c0 + self.tile].T, out_dtype=torch.float32
                )
                at = ((tile >= low - slack) & (tile <= high + slack)).nonzero()
                mine, yours = at[:, 0] + r0, at[:, 1] + c0
                if self.space.symmetric and r0 == c0:
                    upper = mine < yours
                    mine, yours = mine[upper], yours[upper]
                exact = self._exact(mine, yours)
                away = (1.0 - exact if centre is None else exact - centre).abs()
                sure += int((away < reach - 1e-6).sum())
                near = away <= reach
                pieces.append((((mine[near] << 32) | yours[near]).cpu().numpy(), exact[near].cpu().numpy()))
                progress.update(1)
            progress.close()
            if sure >= wanted or reach >= 4.0:
                for ids, scores in pieces:
                    if len(ids):
                        take(ids, scores)
                return True
            reach *= 2.0

    def pair_scores(self, ids: Ids) -> Scores:
        """Exact scores of chosen pairs, as `select` gives them: within 1e-7 of float64."""
        left, right = pair_rows(ids)
        pieces = [
            self._exact(self._to(left[at : at + (1 << 22)]), self._to(right[at : at + (1 << 22)]))
            .cpu()
            .numpy()
            for at in range(0, len(ids), 1 << 22)
        ]
        return np.concatenate([np.empty(0, np.float32), *pieces])

    def _exact(self, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        from pairsieve.scan.triton_count import pair_cosines

        return pair_cosines(self._left, self._right, rows, columns, GRID, NEAR_ONE)

    def _slack(self, left: torch.Tensor, right: torch.Tensor) -> float:
        """A bound on the error of the bfloat16 product: |ab - a'b'| <= |a - a'| |b| + |a'| |b - b'|; float32
        sums of products that together stay below one err by less than 2e-5."""
        width = self._left.shape[1]
        off = [
            float((half[:, :width].float() - whole).norm(dim=1).max())
            for half, whole in ((left, self._left), (right, self._right))
        ]
        return off[0] + off[1] * (1.0 + off[0]) + 2e-5

    def _sampled(self, left: torch.Tensor, right: torch.Tensor, centre: float | None) -> _Sample:
        """How far from the centre the pairs of some rows lie."""
        import torch

        rows, columns = self.space.shape
        count = min(rows, max(64, (1 << 29) // columns))
        picked = self._to(np.unique(np.linspace(0, rows - 1, count).astype(np.int64)))
        counts = torch.zeros(_Sample.BINS, dtype=torch.int64, device=self.device)
        for first in range(0, len(picked), 1024):
            mine = picked[first : first + 1024]
            tile = torch.mm(left[mine], right.T, out_dtype=torch.float32)
            if self.space.symmetric:
                tile[torch.arange(len(mine), device=self.device), mine] = NO_PAIR
            away = (1.0 - tile if centre is None else tile - centre).abs_()
            counts += torch.histc(away, bins=_Sample.BINS, min=0.0, max=_Sample.FAR).to(torch.int64)
        return _Sample(counts.cumsum(0).cpu().numpy(), len(picked) * columns)

    def _corners(self) -> list[tuple[int, int]]:
        rows, columns = self.space.shape
        return [
            (r, c)
            for r in range(0, rows, self.tile)
            for c in range(r if self.space.symmetric else 0, columns, self.tile)
        ]

    def neighbours(
        self, count: int, rows: NDArray[np.int64] | None = None, words: str = "neighbours"
    ) -> tuple[NDArray[np.int64], Scores]:
        """The `count` best partners of each left row (all, or the chosen `rows`), best first; ties by
        smaller column; -1 where a row has fewer. A text is no neighbour of itself in a symmetric space."""
        import torch

        picked = np.arange(self.space.shape[0]) if rows is None else np.asarray(rows, np.int64)
        wide = self.space.shape[1]
        columns = np.full((len(picked), count), -1, np.int64)
        scores = np.full((len(picked), count), -np.inf, np.float32)
        place = torch.arange(self.tile, device=self.device)
        progress = bar(-(-len(picked) // self.tile), words, "tile")
        for first in range(0, len(picked), self.tile):
            mine = self._to(picked[first : first + self.tile])
            operand = self._left_form(picked[first : first + self.tile])
            best: torch.Tensor | None = None
            for c0 in range(0, wide, self.tile):
                tile = self._product(operand, self._band("right", c0 // self.tile))[: len(mine)]
                real = min(self.tile, wide - c0)
                tile[:, real:] = NO_PAIR
                if self.space.symmetric:
                    tile.masked_fill_(mine[:, None] == place[None, :] + c0, NO_PAIR)
                keys = _keys(tile, place + c0)
                top = keys.topk(min(count, keys.shape[1]), dim=1, sorted=True).values
                best = (
                    top
                    if best is None
                    else torch.cat([best, top], 1)
                    .topk(min(count, best.shape[1] + top.shape[1]), dim=1, sorted=True)
                    .values
                )
            assert best is not None
            found, at = _from_keys(best)
            at[found < NO_PAIR / 2] = -1
            found[found < NO_PAIR / 2] = -torch.inf
            part = slice(first, first + len(mine))
            columns[part, : best.shape[1]] = at.cpu().numpy()
            scores[part, : best.shape[1]] = found.cpu().numpy()
            progress.update(1)
        progress.close()
        return columns, scores

    def _tiles(self, words: str) -> Iterator[tuple[torch.Tensor, int, int]]:
        """Every tile that holds pairs of the space, with what is no pair set to `NO_PAIR`."""
        rows, columns = self.space.shape
        corners = self._corners()
        progress = bar(len(corners), words, "tile")
        for r0, c0 in corners:
            tile = self._product(self._band("left", r0 // self.tile), self._band("right", c0 // self.tile))
            if rows - r0 < self.tile:
                tile[rows - r0 :] = NO_PAIR
            if columns - c0 < self.tile:
                tile[:, columns - c0 :] = NO_PAIR
            if self.space.symmetric and r0 == c0:
                tile.masked_fill_(self._lower(), NO_PAIR)
            yield tile, r0, c0
            progress.update(1)
        progress.close()

    def _lower(self) -> torch.Tensor:
        import torch

        place = torch.arange(self.tile, device=self.device)
        return place[:, None] >= place[None, :]

    def _band(self, side: str, number: int) -> torch.Tensor:
        """A band of rows in the product's form; kept, since a pass meets each band many times."""
        if (side, number) not in self._ready:
            matrix = self._left if side == "left" else self._right
            rows = matrix[number * self.tile : (number + 1) * self.tile]
            self._ready[side, number] = self._form(rows, left=side == "left")
        return self._ready[side, number]

    def _left_form(self, rows: NDArray[np.int64]) -> torch.Tensor:
        return self._form(self._left[self._to(rows)], left=True)

    def _right_form(self, rows: NDArray[np.int64]) -> torch.Tensor:
        return self._form(self._right[self._to(rows)], left=False)

    def _form(self, rows: torch.Tensor, left: bool) -> torch.Tensor:
        """One band, padded to the tile's height, ready for the product."""
        import torch

        whole = rows.new_zeros(self.tile, rows.shape[1])
        whole[: len(rows)] = rows
        if self.double:
            return whole
        high = whole.bfloat16()
        middle = (whole - high.float()).bfloat16()
        low = (whole - high.float() - middle.float()).bfloat16()
        # Smallest products first, so that the accumulator rounds them least. What swaps between (a, b) and
        # (b, a) lies interleaved, so that both are summed in the same groups.
        crossed = ((low, high), (middle, high)) if left else ((high, low), (high, middle))
        far, near = (torch.stack(pair, 2).flatten(1) for pair in crossed)
        return torch.cat((far, middle, near, high), 1)

    def _product(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        import torch

        if self.double:
            self._out.copy_((left @ right.T).mul_(GRID).round_().div_(GRID))
            return self._out
        torch.mm(left, right.T, out_dtype=torch.float32, out=self._out)
        self._out.masked_fill_(self._out > NEAR_ONE, 1.0)
        return self._out

    def _packs(self, left: Ids, right: Ids) -> Iterator[tuple[int, int, Ids, Ids]]:
        first = 0
        while first < len(left):
            last = min(first + self.tile, len(left))
            yield first, last, np.unique(left[first:last]), np.unique(right[first:last])
            first = last

    def _to(self, rows: NDArray[np.int64]) -> torch.Tensor:
        import torch

        return torch.as_tensor(rows, device=self.device)


@dataclass(frozen=True)
class _Sample:
    """Distances of sampled pairs from a score: how many of `total` lie within each of equal steps."""

    within: NDArray[np.int64]
    total: int
    BINS: ClassVar[int] = 1 << 14
    FAR: ClassVar[float] = 4.0

    def reach(self, share: float) -> float:
        """The distance within which this share of all pairs lies, as far as the sample tells."""
        need = max(50, math.ceil(share * self.total))
        return min(self.FAR, (int(np.searchsorted(self.within, need)) + 1) * self.FAR / self.BINS)

    def share(self, reach: float) -> float:
        last = min(self.BINS - 1, int(reach / self.FAR * self.BINS))
        return float(self.within[last]) / self.total


def _halved(rows: torch.Tensor) -> torch.Tensor:
    """Rows in bfloat16, filled up to a width that tensor cores take."""
    import torch

    return torch.nn.functional.pad(rows.bfloat16(), (0, -rows.shape[1] % 8))


def rows_on(device: str, matrix: NDArray[Any], kind: torch.dtype) -> torch.Tensor:
    """`pairsieve.scan.ready_rows` on the device, for rows whose lengths count."""
    import torch

    from pairsieve.scan import LONGEST, check_short

    rows = torch.as_tensor(np.ascontiguousarray(matrix, np.float32), device=device).to(kind) / LONGEST
    if len(rows):
        check_short(float(rows.square().sum(1).max()))
    return rows


def unit_rows_on(device: str, matrix: NDArray[Any], kind: torch.dtype) -> torch.Tensor:
    """`pairsieve.scan.unit_rows` on the device: float64, piece by piece; a row of zeros stays zero."""
    import torch

    out = torch.empty(matrix.shape, dtype=kind, device=device)
    for first in range(0, len(matrix), 65536):
        piece = np.ascontiguousarray(matrix[first : first + 65536])
        part = torch.from_numpy(piece.copy() if not piece.flags.writeable else piece).to(device).double()
        length = part.square().sum(1, keepdim=True).sqrt()
        out[first : first + 65536] = (part / torch.where(length == 0, 1.0, length)).to(kind)
    return out


class _Counter:
    """How many scores reach exactly k of the ascending thresholds, for every k."""

    def __init__(self, thresholds: torch.Tensor) -> None:
        import torch

        self._thresholds = thresholds
        self._sums = torch.zeros(len(thresholds) + 1, dtype=torch.int64, device=thresholds.device)
        low, high = float(thresholds[0]), float(thresholds[-1])
        self._low, self._scale = low, (BINS - 1) / max(high - low, 1e-6)
        # The same float32 arithmetic as the kernel's, so that bins keep the order of scores.
        place = (
            thresholds - torch.tensor(low, dtype=torch.float32, device=thresholds.device)
        ) * torch.tensor(self._scale, dtype=torch.float32, device=thresholds.device)
        bins = place.clamp(0, BINS - 1).to(torch.int32)
        edges = torch.arange(BINS + 1, device=thresholds.device, dtype=torch.int32)
        self._start = torch.searchsorted(bins, edges).to(torch.int32)
        most = int((self._start[1:] - self._start[:-1]).max())
        self._steps = max(1, most.bit_length())
        self._copies = torch.zeros(COPIES, len(thresholds) + 1, dtype=torch.int32, device=thresholds.device)
        self._pending = 0

    def add(self, tile: torch.Tensor) -> None:
        from pairsieve.scan.triton_count import count

        if self._pending + tile.numel() > FLUSH:
            self._flush()
        self._pending += tile.numel()
        count(tile, self._start, self._thresholds, self._low, self._scale, BINS, self._steps, self._copies)

    def total(self) -> torch.Tensor:
        self._flush()
        return self._sums

    def _flush(self) -> None:
        self._sums += self._copies.sum(0)
        self._copies.zero_()
        self._pending = 0


def _keys(tile: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """One int64 per score: larger score first, then smaller column."""
    import torch

    bits = (tile + 0.0).view(torch.int32).to(torch.int64)  # + 0.0 turns -0.0 into 0.0
    ordered = torch.where(bits >= 0, bits, -2147483648 - bits)
    return (ordered << 32) | (0xFFFFFFFF - columns)


def _from_keys(keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    ordered = keys >> 32
    bits = torch.where(ordered >= 0, ordered, -2147483648 - ordered).to(torch.int32)
    return bits.view(torch.float32), 0xFFFFFFFF - (keys & 0xFFFFFFFF)

"""Exact scans on CUDA: tiles of one matrix product, counted where they are computed.

The product: each float32 is the exact sum of three bfloat16, and the six largest of the nine partial
products, laid side by side along the inner dimension, make one bfloat16 product with float32
accumulation. On an H200 that takes less than half the time of the plain float32 product, with twice its
largest error, both a few 1e-6 (`experiments/bench/exact_cuda.py`). Every tile has one shape, so a pair's
score does not depend on where it stands.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from pairsieve.pairs import Ids, PairSpace, Rows, Scores, pair_rows
from pairsieve.progress import tracked
from pairsieve.scan import MAX_ROW_LENGTH, Neighbours, Take, check_short
from pairsieve.scan.triton_count import count_scores, pair_cosines

GRID = 2.0**30  # float64 cosines are rounded to this grid first: what is zero on paper is zero here
NO_PAIR = -4.0  # below every cosine: padding, and the half of a symmetric tile that repeats the other
NEAR_ONE = 1.0 - 1e-5  # from here on a cosine is one: copies score down to 1 - 4e-6 at 768 dimensions
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
        out = np.empty(len(ids), np.float32)
        order = np.argsort(ids, kind="stable")
        left, right = pair_rows(ids[order])
        for first, last, rows, columns in self._packs(left, right):
            tile = self._product(
                self._form(self._left[self._to(rows)], left=True),
                self._form(self._right[self._to(columns)], left=False),
            )
            span = slice(first, last)
            at = np.searchsorted(rows, left[span]), np.searchsorted(columns, right[span])
            out[order[span]] = tile[self._to(at[0]), self._to(at[1])].cpu().numpy()
        return out

    def count_reaching(self, thresholds: NDArray[np.float32], desc: str = "all pairs") -> NDArray[np.int64]:
        counter = _Counter(torch.as_tensor(np.ascontiguousarray(thresholds), device=self.device))
        for tile, _, _ in self._tiles(desc):
            counter.add(tile)
        between = counter.total().cpu().numpy()
        return np.cumsum(between[::-1])[::-1][1:]

    def collect(self, low: float, high: float, take: Take, desc: str = "collecting") -> None:
        low32, high32 = max(float(np.float32(low)), NO_PAIR / 2), float(np.float32(high))
        for tile, r0, c0 in self._tiles(desc):
            rows, columns = ((tile >= low32) & (tile <= high32)).nonzero(as_tuple=True)
            if len(rows):
                ids = ((rows + r0) << 32) | (columns + c0)
                take(ids.cpu().numpy(), tile[rows, columns].cpu().numpy())

    def select(self, centre: float | None, count: int, beside: int, take: Take) -> bool:
        """Hand over pairs that surely include the `count` nearest to `centre` (None: the highest scores).

        One rough pass (a single bfloat16 product, its error bounded by `_slack`) finds every pair that can
        be among them; those get exact scores, summed in float64. `beside` pairs more are included, so that
        as many can be struck out afterwards. Some rows tell how far to reach; where they told too little,
        the pass is made again, further out. False, and nothing handed over, where scores crowd around the
        centre so that most pairs would need exact scores, or where a pass is made in float64 anyway.
        """
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
            for r0, c0 in tracked(self._corners(), "searching all pairs", "tile"):
                band = right[c0 : c0 + self.tile]
                tile = torch.mm(left[r0 : r0 + self.tile], band.T, out_dtype=torch.float32)
                at = ((tile >= low - slack) & (tile <= high + slack)).nonzero()
                rows, columns = at[:, 0] + r0, at[:, 1] + c0
                if self.space.symmetric and r0 == c0:
                    upper = rows < columns
                    rows, columns = rows[upper], columns[upper]
                exact = self._exact(rows, columns)
                away = (1.0 - exact if centre is None else exact - centre).abs()
                sure += int((away < reach - 1e-6).sum())
                near = away <= reach
                pieces.append((((rows[near] << 32) | columns[near]).cpu().numpy(), exact[near].cpu().numpy()))
            if sure >= wanted or reach >= 4.0:
                for ids, scores in pieces:
                    if len(ids):
                        take(ids, scores)
                return True
            reach *= 2.0

    def _exact(self, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """Scores of chosen pairs, as `select` gives them: within 1e-7 of float64."""
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
        rows, columns = self.space.shape
        count = min(rows, max(64, (1 << 29) // columns))
        picked = self._to(np.unique(np.linspace(0, rows - 1, count).astype(np.int64)))
        counts = torch.zeros(_Sample.BINS, dtype=torch.int64, device=self.device)
        for first in range(0, len(picked), 1024):
            some = picked[first : first + 1024]
            tile = torch.mm(left[some], right.T, out_dtype=torch.float32)
            if self.space.symmetric:
                tile[torch.arange(len(some), device=self.device), some] = NO_PAIR
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

    def neighbours(self, count: int, rows: Rows | None = None, desc: str = "neighbours") -> Neighbours:
        picked = np.arange(self.space.shape[0]) if rows is None else np.asarray(rows, np.int64)
        wide = self.space.shape[1]
        columns = np.full((len(picked), count), -1, np.int64)
        scores = np.full((len(picked), count), -np.inf, np.float32)
        position = torch.arange(self.tile, device=self.device)
        for first in tracked(range(0, len(picked), self.tile), desc, "tile"):
            own = self._to(picked[first : first + self.tile])
            operand = self._form(self._left[own], left=True)
            best: torch.Tensor | None = None
            for c0 in range(0, wide, self.tile):
                tile = self._product(operand, self._band("right", c0 // self.tile))[: len(own)]
                real = min(self.tile, wide - c0)
                tile[:, real:] = NO_PAIR
                if self.space.symmetric:
                    tile.masked_fill_(own[:, None] == position[None, :] + c0, NO_PAIR)
                keys = _keys(tile, position + c0)
                top = keys.topk(min(count, keys.shape[1]), dim=1, sorted=True).values
                if best is not None:
                    both = torch.cat([best, top], 1)
                    top = both.topk(min(count, both.shape[1]), dim=1, sorted=True).values
                best = top
            assert best is not None
            found, at = _from_keys(best)
            at[found < NO_PAIR / 2] = -1
            found[found < NO_PAIR / 2] = -torch.inf
            span = slice(first, first + len(own))
            columns[span, : best.shape[1]] = at.cpu().numpy()
            scores[span, : best.shape[1]] = found.cpu().numpy()
        return columns, scores

    def _tiles(self, desc: str) -> Iterator[tuple[torch.Tensor, int, int]]:
        """Every tile that holds pairs of the space, with what is no pair set to `NO_PAIR`."""
        rows, columns = self.space.shape
        for r0, c0 in tracked(self._corners(), desc, "tile"):
            tile = self._product(self._band("left", r0 // self.tile), self._band("right", c0 // self.tile))
            if rows - r0 < self.tile:
                tile[rows - r0 :] = NO_PAIR
            if columns - c0 < self.tile:
                tile[:, columns - c0 :] = NO_PAIR
            if self.space.symmetric and r0 == c0:
                position = torch.arange(self.tile, device=self.device)
                tile.masked_fill_(position[:, None] >= position[None, :], NO_PAIR)
            yield tile, r0, c0

    def _band(self, side: str, band: int) -> torch.Tensor:
        """A band of rows in the product's form; kept, since a pass meets each band many times."""
        if (side, band) not in self._ready:
            matrix = self._left if side == "left" else self._right
            rows = matrix[band * self.tile : (band + 1) * self.tile]
            self._ready[side, band] = self._form(rows, left=side == "left")
        return self._ready[side, band]

    def _form(self, rows: torch.Tensor, left: bool) -> torch.Tensor:
        """One band, padded to the tile's height, ready for the product."""
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
        if self.double:
            self._out.copy_((left @ right.T).mul_(GRID).round_().div_(GRID))
            return self._out
        torch.mm(left, right.T, out_dtype=torch.float32, out=self._out)
        self._out.masked_fill_(self._out > NEAR_ONE, 1.0)
        return self._out

    def _packs(self, left: Ids, right: Ids) -> Iterator[tuple[int, int, Ids, Ids]]:
        for first in range(0, len(left), self.tile):
            last = min(first + self.tile, len(left))
            yield first, last, np.unique(left[first:last]), np.unique(right[first:last])

    def _to(self, rows: NDArray[np.int64]) -> torch.Tensor:
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
    return torch.nn.functional.pad(rows.bfloat16(), (0, -rows.shape[1] % 8))


def rows_on(device: str, matrix: NDArray[Any], kind: torch.dtype) -> torch.Tensor:
    """`pairsieve.scan.ready_rows` on the device, for rows whose lengths count."""

    rows = torch.as_tensor(np.ascontiguousarray(matrix, np.float32), device=device).to(kind) / MAX_ROW_LENGTH
    if len(rows):
        check_short(float(rows.square().sum(1).max()))
    return rows


def unit_rows_on(device: str, matrix: NDArray[Any], kind: torch.dtype) -> torch.Tensor:
    """`pairsieve.scan.unit_rows` on the device: float64, piece by piece; a row of zeros stays zero."""
    out = torch.empty(matrix.shape, dtype=kind, device=device)
    for first in range(0, len(matrix), 65536):
        piece = np.ascontiguousarray(matrix[first : first + 65536])
        rows = torch.from_numpy(piece.copy() if not piece.flags.writeable else piece).to(device).double()
        length = rows.square().sum(1, keepdim=True).sqrt()
        out[first : first + 65536] = (rows / torch.where(length == 0, 1.0, length)).to(kind)
    return out


class _Counter:
    """How many scores reach exactly k of the ascending thresholds, for every k."""

    def __init__(self, thresholds: torch.Tensor) -> None:
        device, self._thresholds = thresholds.device, thresholds
        self._sums = torch.zeros(len(thresholds) + 1, dtype=torch.int64, device=device)
        low, high = float(thresholds[0]), float(thresholds[-1])
        self._low, self._scale = low, (BINS - 1) / max(high - low, 1e-6)
        # The same float32 arithmetic as the kernel's, so that bins keep the order of scores.
        start, scale = (torch.tensor(each, dtype=torch.float32, device=device) for each in (low, self._scale))
        position = (thresholds - start) * scale
        bins = position.clamp(0, BINS - 1).to(torch.int32)
        edges = torch.arange(BINS + 1, device=device, dtype=torch.int32)
        self._start = torch.searchsorted(bins, edges).to(torch.int32)
        most = int((self._start[1:] - self._start[:-1]).max())
        self._steps = max(1, most.bit_length())
        self._copies = torch.zeros(COPIES, len(thresholds) + 1, dtype=torch.int32, device=device)
        self._pending = 0

    def add(self, tile: torch.Tensor) -> None:
        if self._pending + tile.numel() > FLUSH:
            self._flush()
        self._pending += tile.numel()
        found = self._start, self._thresholds, self._low, self._scale
        count_scores(tile, *found, BINS, self._steps, self._copies)

    def total(self) -> torch.Tensor:
        self._flush()
        return self._sums

    def _flush(self) -> None:
        self._sums += self._copies.sum(0)
        self._copies.zero_()
        self._pending = 0


def _keys(tile: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """One int64 per score: larger score first, then smaller column."""
    bits = (tile + 0.0).view(torch.int32).to(torch.int64)  # + 0.0 turns -0.0 into 0.0
    ordered = torch.where(bits >= 0, bits, -2147483648 - bits)
    return (ordered << 32) | (0xFFFFFFFF - columns)


def _from_keys(keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    ordered = keys >> 32
    bits = torch.where(ordered >= 0, ordered, -2147483648 - ordered).to(torch.int32)
    return bits.view(torch.float32), 0xFFFFFFFF - (keys & 0xFFFFFFFF)

"""The kernels of a scan on CUDA: counting all scores, and the exact scores of a few pairs.

Counting: each score finds how many thresholds it reaches, and adds one there.

A look-up by `(score - low) * scale` leaves the few thresholds of one bin; a short binary search settles
the rest. Additions go to one of several copies of the counts, so that the crowded low scores do not queue.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
ROUNDS = 16


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _count_kernel(  # type: ignore[no-untyped-def]
    scores, total, start, thresholds, low, scale, last_bin, copies, slots, counts,
    steps: tl.constexpr, block: tl.constexpr, rounds: tl.constexpr,
):  # Triton reads annotations as code: only constexpr may stand here  # fmt: skip
    program = tl.program_id(0)
    base = program.to(tl.int64) * block * rounds
    own_counts = counts + (program % copies).to(tl.int64) * slots
    for turn in range(rounds):
        offset = base + turn * block + tl.arange(0, block)
        inside = offset < total
        score = tl.load(scores + offset, mask=inside, other=-4.0)
        place = tl.minimum(tl.maximum((score - low) * scale, 0.0), last_bin)
        bin_ = place.to(tl.int32)
        first = tl.load(start + bin_)
        end = tl.load(start + bin_ + 1)
        for _ in tl.static_range(steps):
            middle = (first + end) // 2
            value = tl.load(thresholds + middle, mask=first < end, other=0.0)
            reached = (first < end) & (value <= score)
            end = tl.where((first < end) & (value > score), middle, end)
            first = tl.where(reached, middle + 1, first)
        tl.atomic_add(own_counts + first, 1, mask=inside, sem="relaxed")


def count_scores(
    tile: Tensor,
    start: Tensor,
    thresholds: Tensor,
    low: float,
    scale: float,
    bins: int,
    steps: int,
    copies: Tensor,
) -> None:
    """copies[c, k] += scores of `tile` (contiguous float32) that reach exactly k thresholds."""
    total = tile.numel()
    grid = (triton.cdiv(total, BLOCK * ROUNDS),)
    _count_kernel[grid](
        tile, total, start, thresholds, low, scale, float(bins - 1), *copies.shape, copies,
        steps=steps, block=BLOCK, rounds=ROUNDS, num_warps=4,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _pair_kernel(  # type: ignore[no-untyped-def]
    left, right, rows, columns, out, width, grid, near, block: tl.constexpr
):
    pair = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, block)
    inside = at < width
    row = tl.load(rows + pair)
    column = tl.load(columns + pair)
    one = tl.load(left + row * width + at, mask=inside, other=0.0).to(tl.float64)
    other = tl.load(right + column * width + at, mask=inside, other=0.0).to(tl.float64)
    value = tl.floor(tl.sum(one * other, 0) * grid + 0.5) / grid
    tl.store(out + pair, tl.where(value > near, 1.0, value).to(tl.float32))


def pair_cosines(
    left: Tensor, right: Tensor, rows: Tensor, columns: Tensor, grid: float, near: float
) -> Tensor:
    """Products of chosen rows of `left` and `right` (unit float32), summed in float64 and put on the grid."""
    out = torch.empty(len(rows), dtype=torch.float32, device=left.device)
    if len(rows):
        width = left.shape[1]
        _pair_kernel[(len(rows),)](
            left, right, rows, columns, out, width, grid, near, block=triton.next_power_of_2(width)
        )
    return out

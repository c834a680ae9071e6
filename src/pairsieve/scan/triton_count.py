"""The counting kernel for CUDA: each score finds how many thresholds it reaches, and adds one there.

A look-up by `(score - low) * scale` leaves the few thresholds of one bin; a short binary search settles
the rest. Additions go to one of several copies of the counts, so that the crowded low scores do not queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

BLOCK = 1024
ROUNDS = 16


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _count_kernel(  # type: ignore[no-untyped-def]
    scores,
    total,
    start,
    thresholds,
    low,
    scale,
    last_bin,
    copies,
    slots,
    counts,
    steps: tl.constexpr,
    block: tl.constexpr,
    rounds: tl.constexpr,
):  # Triton reads annotations as code: only constexpr may stand here
    program = tl.program_id(0)
    base = program.to(tl.int64) * block * rounds
    mine = counts + (program % copies).to(tl.int64) * slots
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
        tl.atomic_add(mine + first, 1, mask=inside, sem="relaxed")


def count(
    tile: torch.Tensor,
    start: torch.Tensor,
    thresholds: torch.Tensor,
    low: float,
    scale: float,
    bins: int,
    steps: int,
    copies: torch.Tensor,
) -> None:
    """copies[c, k] += scores of `tile` (contiguous float32) that reach exactly k thresholds."""
    total = tile.numel()
    grid = (triton.cdiv(total, BLOCK * ROUNDS),)
    _count_kernel[grid](
        tile,
        total,
        start,
        thresholds,
        low,
        scale,
        float(bins - 1),
        copies.shape[0],
        copies.shape[1],
        copies,
        steps=steps,
        block=BLOCK,
        rounds=ROUNDS,
        num_warps=4,
    )

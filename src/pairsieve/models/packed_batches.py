"""Texts laid end to end on the device, without padding: the batches of a packed network (`packed.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pairsieve.models.encoder import Tokens

TOKEN_STEPS = (128, 256, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 3072)  # then multiples of 1,024


@dataclass(frozen=True)
class Batch:
    """Texts end to end on the device. Rows beyond the last text are padding that no text sees."""

    ids: Any  # (N,) int32 tokens
    positions: Any  # (N,) int32 position embeddings
    texts: Any  # (N,) int32 which text a token belongs to; padding: as many as there are texts
    starts: Any  # (n + 1,) int32
    tokens: Any  # (N,) int32: ids sorted
    order: Any  # (N,) int32: which row each of those is
    long: int  # power of two, no shorter than the longest text

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.ids), self.long


class PackedSteps:
    """The texts of every training step, packed on the device once: step s is `batch(s)`."""

    def __init__(self, tokens: Tokens, steps: NDArray[np.int64], pad: int, offset: int, device: str) -> None:
        """`steps` (S, n): the texts of each step; `offset`: the position embedding of a first token."""
        count, self.n = steps.shape
        lengths = tokens.lengths[steps]
        real = lengths.sum(1)
        self.sizes = np.array([_rounded(int(size)) for size in real])
        self.longs = np.maximum(16, 1 << np.ceil(np.log2(lengths.max(1))).astype(np.int64))
        self._base = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.sizes)])
        local = np.cumsum(lengths, axis=1)
        starts = np.concatenate([np.zeros((count, 1), np.int64), local], axis=1)
        where = torch.from_numpy((self._base[:-1, None] + starts[:, :-1]).reshape(-1)).to(device)
        source = torch.from_numpy(tokens.starts[:-1][steps].reshape(-1)).to(device)
        flat = torch.from_numpy(lengths.reshape(-1)).to(device)
        total = int(self._base[-1])
        segment = torch.repeat_interleave(torch.arange(len(flat), device=device), flat)
        inside = torch.arange(len(segment), device=device) - (flat.cumsum(0) - flat)[segment]
        to = where[segment] + inside
        whole = torch.from_numpy(tokens.ids).to(device)
        kind = torch.int32
        self._ids = torch.full((total,), pad, dtype=kind, device=device)
        self._ids[to] = whole[source[segment] + inside]
        self._positions = torch.full((total,), offset, dtype=kind, device=device)
        self._positions[to] = (inside + offset).to(kind)
        self._texts = torch.full((total,), self.n, dtype=kind, device=device)
        self._texts[to] = (segment % self.n).to(kind)
        self._starts = torch.from_numpy(starts.astype(np.int32)).to(device)
        step = torch.repeat_interleave(
            torch.arange(count, device=device), torch.from_numpy(self.sizes).to(device)
        )
        order = torch.sort(step * (1 << 32) + self._ids, stable=True).indices
        self._tokens = self._ids[order]
        self._order = (order - torch.from_numpy(self._base[:-1].copy()).to(device)[step]).to(kind)

    def batch(self, step: int) -> Batch:
        span = slice(int(self._base[step]), int(self._base[step + 1]))
        return Batch(
            self._ids[span], self._positions[span], self._texts[span], self._starts[step],
            self._tokens[span], self._order[span], int(self.longs[step]),
        )  # fmt: skip

    @property
    def room(self) -> tuple[int, int]:
        """The number of steps, and the tokens of the largest."""
        return len(self.sizes), int(self.sizes.max())

    def shapes(self) -> list[tuple[int, int]]:
        return [(int(size), int(long)) for size, long in zip(self.sizes, self.longs, strict=True)]


class BatchBuffers:
    """The buffers on the device that every captured step reads its batch from."""

    def __init__(self, steps: PackedSteps) -> None:
        most = int(np.argmax(steps.sizes))
        self._all = tuple(array.clone() for array in _arrays(steps.batch(most)))

    def batch(self, shape: tuple[int, int]) -> Batch:
        size, long = shape
        ids, positions, texts, starts, tokens, order = self._all
        return Batch(ids[:size], positions[:size], texts[:size], starts, tokens[:size], order[:size], long)

    def fill(self, batch: Batch) -> None:
        for to, array in zip(_arrays(self.batch(batch.shape)), _arrays(batch), strict=True):
            to.copy_(array)


def _arrays(batch: Batch) -> tuple[Any, ...]:
    return batch.ids, batch.positions, batch.texts, batch.starts, batch.tokens, batch.order


def _rounded(tokens: int) -> int:
    fitting = [size for size in TOKEN_STEPS if size >= tokens]
    return fitting[0] if fitting else -(-tokens // 1024) * 1024

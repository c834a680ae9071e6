"""Embedding on CUDA over packed tokens, as exactly as float32, by products of bfloat16 halves.

Texts lie end to end without padding (`packed.py`). A float32 is nearly the sum of two bfloat16; three of the
four partial products, laid side by side along the inner dimension, make one bfloat16 product with float32
accumulation. What is left out is 2^-16 of a product. Before a network is used so, sixteen of the texts are
embedded both ways: where a cosine between them is off by more than 5e-6, the network's own forward pass does
the work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pairsieve.models.encoder import Embeddings, Tokens, pooled
from pairsieve.models.packed import PackedNetwork, is_known
from pairsieve.models.packed_batches import Batch
from pairsieve.progress import bar

TOKENS_AT_ONCE = 1 << 17
WORST = 5e-6  # largest error of a cosine; seen: 9e-7 with all-mpnet-base-v2, 7e-7 with e5-small


class PackedEmbedder(PackedNetwork):
    """The packed forward pass in float32, its products summed from bfloat16 halves."""

    split = True

    def __init__(self, network: Any, device: str) -> None:
        super().__init__(network, device, torch.float32)
        self._halves = {name: _halves(weight) for name, weight in self.weight_matrices()}

    def product(self, rows: Any, name: str) -> Any:
        """`rows` (N, 3k): low, high and high halves."""
        return torch.mm(rows, self._halves[name].T, out_dtype=torch.float32)

    def rows(self, tokens: Tokens) -> Any:
        """Unit rows (n, width) of texts in the order given, on the device; the longest texts go first."""
        from pairsieve.models import packed_kernels as k

        order = np.argsort(-tokens.lengths, kind="stable")
        lengths = tokens.lengths[order]
        ends = np.cumsum(lengths)
        ids, sources, counts, places = (
            torch.from_numpy(array).to(self.device)
            for array in (tokens.ids.astype(np.int32), tokens.starts[:-1][order], lengths, order)
        )
        out = torch.empty(len(order), self.width, device=self.device)
        with bar(len(order), "embedding", "text") as shown:
            first = 0
            while first < len(order):
                before = int(ends[first] - lengths[first])
                last = max(first + 1, int(np.searchsorted(ends, before + TOKENS_AT_ONCE, "right")))
                here, size = slice(first, last), int(ends[last - 1]) - before
                batch = self._batch(ids, sources[here], counts[here], size, int(lengths[first]))
                hidden = self.forward(batch, keep=False)
                rows = torch.empty(last - first, self.width, device=self.device)
                grid, block = (last - first,), k.block_for(self.width)
                k.launch(k.pool, grid, hidden, batch.starts, rows, self.width, block=block)
                out[places[here]] = rows
                shown.update(last - first)
                first = last
        return out

    def _batch(self, ids: Any, sources: Any, lengths: Any, size: int, longest: int) -> Batch:
        """Texts whose `size` tokens begin at `sources` (n,) of `ids`; nothing here waits for the GPU."""
        starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        every = torch.arange(len(lengths), device=self.device)
        text = torch.repeat_interleave(every, lengths, output_size=size)
        inside = torch.arange(size, device=self.device) - starts[text]
        own, positions = ids[sources[text] + inside], (inside + self.offset).to(torch.int32)
        long = max(16, 1 << (longest - 1).bit_length())
        return Batch(own, positions, own, starts.to(torch.int32), own, own, long)  # the rest is for training


def embed_packed(
    network: Any, tokens: Tokens, pad: int, device: str, prepared: dict[str, Any] | None = None
) -> Embeddings | None:
    """Unit rows of all texts, or None where the network's own forward pass is to do it.

    `prepared` holds the embedder of this network from one batch of a pass to the next, or that there is none.
    """
    if not is_known(network):
        return None
    with torch.no_grad(), torch.cuda.device(device):
        kept = {} if prepared is None else prepared
        if "packed" not in kept:
            embedder = PackedEmbedder(network, device)
            order = np.argsort(-tokens.lengths, kind="stable")
            some = tokens.take(order[:: max(1, len(order) // 16)][:16])
            kept["packed"] = embedder if _same(embedder, network, some, pad, device) else None
        embedder = kept["packed"]
        return None if embedder is None else embedder.rows(tokens).cpu().numpy()


def _same(embedder: PackedEmbedder, network: Any, some: Tokens, pad: int, device: str) -> bool:
    ids, mask = some.padded(np.arange(len(some.lengths)), int(some.lengths.max()), pad)
    own = pooled(network, torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device))
    rows = embedder.rows(some)
    return float((rows @ rows.T - own @ own.T).abs().max()) < WORST and bool(
        ((rows * own).sum(1) > 0.999).all()
    )


def _halves(weights: Any) -> Any:
    """(m, k) float32 -> (m, 3k) bfloat16, for low·high + high·low + high·high, smallest first."""
    high = weights.bfloat16()
    low = (weights - high.float()).bfloat16()
    return torch.cat((high, low, high), 1)

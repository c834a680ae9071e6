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
from pairsieve.models.packed import Batch, PackedNetwork, is_known
from pairsieve.progress import bar

TOKENS_AT_ONCE = 1 << 17
WORST = 5e-6  # largest error of a cosine; seen: 9e-7 with all-mpnet-base-v2, 7e-7 with e5-small


class PackedEmbedder(PackedNetwork):
    """The packed forward pass in float32, its products summed from bfloat16 halves."""

    def __init__(self, network: Any, device: str) -> None:
        super().__init__(network, device, torch.float32)
        self._halves = {name: _halves(weight, left=False) for name, weight in self.weight_matrices()}

    def product(self, rows: Any, name: str) -> Any:
        return torch.mm(_halves(rows, left=True), self._halves[name].T, out_dtype=torch.float32)

    def rows(self, tokens: Tokens) -> Any:
        """Unit rows (n, width) of texts in the order given, on the device."""
        from pairsieve.models import packed_kernels as k

        batch = self._batch(tokens)
        hidden = self.forward(batch, keep=False)
        out = torch.empty(len(tokens.lengths), self.width, device=self.device)
        k.launch(k.pool, (len(out),), hidden, batch.starts, out, self.width, block=k.block_for(self.width))
        return out

    def _batch(self, tokens: Tokens) -> Batch:
        lengths = tokens.lengths
        positions = np.arange(len(tokens.ids)) - np.repeat(tokens.starts[:-1], lengths) + self.offset
        long = max(16, 1 << (int(lengths.max()) - 1).bit_length())
        ids, at, starts = (
            torch.from_numpy(array.astype(np.int32)).to(self.device)
            for array in (tokens.ids, positions, tokens.starts)
        )
        return Batch(ids, at, ids, starts, ids, ids, long)  # what only training reads is left out


def embed_packed(
    network: Any, tokens: Tokens, pad: int, device: str, prepared: dict[str, Any] | None = None
) -> Embeddings | None:
    """Unit rows of all texts, or None where the network's own forward pass is to do it.

    `prepared` holds the embedder of this network from one batch of a pass to the next, or that there is none.
    """
    if not is_known(network):
        return None
    order = np.argsort(-tokens.lengths, kind="stable")
    lengths = tokens.lengths[order]
    with torch.no_grad(), torch.cuda.device(device):
        kept = {} if prepared is None else prepared
        if "packed" not in kept:
            embedder = PackedEmbedder(network, device)
            some = tokens.take(order[:: max(1, len(order) // 16)][:16])
            kept["packed"] = embedder if _same(embedder, network, some, pad, device) else None
        embedder = kept["packed"]
        if embedder is None:
            return None
        embeddings = np.empty((len(order), embedder.width), dtype=np.float32)
        ends = np.cumsum(lengths)
        with bar(len(order), "embedding", "text") as shown:
            first = 0
            while first < len(order):
                before = ends[first] - lengths[first]
                last = max(first + 1, int(np.searchsorted(ends, before + TOKENS_AT_ONCE, "right")))
                embeddings[order[first:last]] = embedder.rows(tokens.take(order[first:last])).cpu().numpy()
                shown.update(last - first)
                first = last
    return embeddings


def _same(embedder: PackedEmbedder, network: Any, some: Tokens, pad: int, device: str) -> bool:
    ids, mask = some.padded(np.arange(len(some.lengths)), int(some.lengths.max()), pad)
    own = pooled(network, torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device))
    rows = embedder.rows(some)
    return float((rows @ rows.T - own @ own.T).abs().max()) < WORST and bool(
        ((rows * own).sum(1) > 0.999).all()
    )


def _halves(matrix: Any, left: bool) -> Any:
    """(n, k) float32 -> (n, 3k) bfloat16: low·high + high·low + high·high, the smallest products first."""
    high = matrix.bfloat16()
    low = (matrix - high.float()).bfloat16()
    return torch.cat((low, high, high) if left else (high, low, high), 1)

"""Embedding on the CPU over packed tokens: the forward pass of BERT-like networks by oneDNN's products.

Texts lie end to end without padding, and attention takes texts of one length together. oneDNN's float32
products take half the time of PyTorch's own on processors that MKL was not made for, and its bfloat16
products half of that again on processors with the instruction. Norms and residuals are float32.

In float32, rows are those of the network's own forward pass but for rounding. In bfloat16 they are other
embeddings, as the encoder's fingerprint says: a cosine differs by about 0.001. Which of the two a campaign
has is decided once, when it is created (`precision.py`), and stands in its settings. On a processor without
the instruction the same rounded values are multiplied in float32.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import layer_norm, normalize, scaled_dot_product_attention

from pairsieve.models.packed import KNOWN, LAYER, _sources
from pairsieve.models.precision import has_bfloat16

if TYPE_CHECKING:
    from pairsieve.models.encoder import Embeddings, Tokens


def can_pack(network: Any) -> bool:
    """Whether this network's forward pass is written out here, and PyTorch has oneDNN's products."""
    config = network.config
    return bool(
        torch._C._has_mkldnn
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and getattr(config, "model_type", "") in KNOWN
        and getattr(config, "hidden_act", "") == "gelu"
        and getattr(config, "position_embedding_type", "absolute") == "absolute"
        and not getattr(config, "is_decoder", False)
        and not network.training
        and next(network.parameters()).dtype == torch.float32
    )


class PackedCpuNetwork:
    """The network's forward pass and its mean pooling. In float32 its weights are the network's own."""

    def __init__(self, network: Any, precision: str = "float32") -> None:
        config = network.config
        self.width, self.heads = config.hidden_size, config.num_attention_heads
        self.eps = float(config.layer_norm_eps)
        offset = 0 if config.model_type == "bert" else int(config.pad_token_id) + 1
        self.half = torch.bfloat16 if precision == "bfloat16" else torch.float32
        self.product = self.half if has_bfloat16() else torch.float32
        found = {name: [p.detach().cpu() for p in of] for name, of in _sources(network).items()}
        one = {name: of[0] for name, of in found.items()}
        self.word, self.places = one["word"], one["position"][offset:] + one["kind"][0]
        self.norm = one["gain"], one["shift"]
        self.layers = [
            {name: self._part(name, found[f"{layer}.{name}"]) for name in LAYER}
            for layer in range(config.num_hidden_layers)
        ]
        self._relative = one.get("relative")
        self._bucket = getattr(network.encoder, "relative_position_bucket", None)

    def _part(self, name: str, parameters: list[Any]) -> Any:
        """The parameters as the products take them: three of each for query, key and value."""
        if "gain" in name or "shift" in name:
            return parameters[0]
        return [parameter.to(self.half).to(self.product).contiguous() for parameter in parameters]

    def rows(self, tokens: Tokens) -> Embeddings:
        """Unit rows (n, width) of texts that are sorted by length, in the order given."""
        with torch.no_grad():
            groups, first = [], 0
            for length, of in groupby(tokens.lengths.tolist()):
                texts = len([*of])
                groups.append((slice(first, first + texts * length), texts, length))
                first += texts * length
            hidden = self._forward(torch.from_numpy(tokens.ids), groups)
            means = [hidden[span].view(texts, length, -1).mean(1) for span, texts, length in groups]
            return normalize(torch.cat(means), dim=1).numpy()

    def _forward(self, ids: Any, groups: list[tuple[slice, int, int]]) -> Any:
        # Few different numbers of rows: oneDNN prepares each product by its shape.
        rows = _rounded(len(ids))
        x = torch.zeros(rows, self.width)
        for span, texts, length in groups:
            places = self.places[:length].expand(texts, length, -1).reshape(-1, self.width)
            torch.add(self.word[ids[span]], places, out=x[span])
        x = layer_norm(x, (self.width,), *self.norm, self.eps)
        biases = {length: self._relative_biases(length) for _, _, length in groups}
        for own in self.layers:
            query, key, value = self._linear(x, own["qkv"], own["qkv_bias"])
            mixed = torch.zeros(rows, self.width, dtype=self.half)
            for span, texts, length in groups:
                shape = texts, length, self.heads, -1
                q, k, v = (part[span].view(shape).transpose(1, 2) for part in (query, key, value))
                attended = scaled_dot_product_attention(q, k, v, attn_mask=biases[length])
                mixed[span].view(shape).copy_(attended.transpose(1, 2))
            (branch,) = self._linear(mixed, own["out"], own["out_bias"])
            x = layer_norm(branch + x, (self.width,), own["gain1"], own["shift1"], self.eps)
            (inner,) = self._linear(x, own["up"], own["up_bias"], "gelu")
            (branch,) = self._linear(inner, own["down"], own["down_bias"])
            x = layer_norm(branch + x, (self.width,), own["gain2"], own["shift2"], self.eps)
        return x

    def _linear(self, rows: Any, weights: list[Any], biases: list[Any], then: str = "none") -> list[Any]:
        rows, product = rows.to(self.half).to(self.product), torch.ops.mkldnn._linear_pointwise
        both = zip(weights, biases)
        return [product(rows, weight, bias, then, [], "none").to(self.half) for weight, bias in both]

    def _relative_biases(self, length: int) -> Any:
        """MPNet's bias of each distance (heads, length, length); None for others."""
        if self._relative is None or self._bucket is None:
            return None
        at = torch.arange(length)
        bucket = self._bucket(at[None, :] - at[:, None], len(self._relative))
        return self._relative[bucket].permute(2, 0, 1).to(self.half)


def _rounded(tokens: int) -> int:
    """`tokens` or up to a quarter more: a multiple of an eighth of a power of two, at least of 16."""
    step = max(16, 1 << max(0, tokens.bit_length() - 3))
    return -(-tokens // step) * step

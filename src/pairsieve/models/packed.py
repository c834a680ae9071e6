"""Training steps of BERT-like networks on CUDA over packed tokens, without padding, in few kernels.

Texts lie end to end without padding, the three projections of attention are one product, weights are cast to
bfloat16 by the optimiser itself (not again in every step), and the backward pass is written out, so that each
gradient is computed once, where the optimiser reads it. Arithmetic is that of bfloat16 autocast: products in
bfloat16 with float32 accumulation, everything else (residuals, norms, biases, embeddings) in float32.

Takes BERT, RoBERTa and MPNet networks without dropout; `packed_network` returns None for others, and for a
network whose rows come out differently from its own forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pairsieve.models.packed_batches import Batch, PackedSteps

if TYPE_CHECKING:
    from pairsieve.models.encoder import Tokens

KNOWN = ("bert", "roberta", "xlm-roberta", "mpnet")


@dataclass
class Flat:
    """Parameters of one kind in one array, with the optimiser's two moments and the gradient beside it."""

    value: Any  # float32, what is trained
    gradient: Any
    first: Any
    second: Any
    copy: Any  # bfloat16 copy that the products read, or None

    def views(self, of: str, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
        whole, views, at = getattr(self, of), {}, 0
        for name, shape in shapes.items():
            size = int(np.prod(shape))
            views[name] = whole[at : at + size].view(shape)
            at += -(-size // 64) * 64  # aligned for the tensor cores
        return views


Adam = Callable[[Flat, slice], None]


class PackedNetwork:
    """A network's weights in flat arrays, its forward pass, its backward pass, and its AdamW step."""

    split = False  # whether rows to be multiplied are held as halves (`packed_embedding.py`)

    def __init__(self, network: Any, device: str, half: Any = None) -> None:
        """`half`: the type of the products, bfloat16 unless given (a test takes float32)."""
        config = network.config
        self.half = half or torch.bfloat16
        self.network, self.device, self.kind = network, device, config.model_type
        self.width, self.heads = config.hidden_size, config.num_attention_heads
        self.inner, self.layers = config.intermediate_size, config.num_hidden_layers
        self.eps = float(config.layer_norm_eps)
        self.offset = 0 if self.kind == "bert" else int(config.pad_token_id) + 1
        self._sources = _sources(network)
        matrices = {n: _shape(s) for n, s in self._sources.items() if _is_matrix(n)}
        others = {n: _shape(s) for n, s in self._sources.items() if not _is_matrix(n)}
        self.matrices, self.others = _flat(matrices, device, self.half), _flat(others, device, None)
        self.flats = (self.matrices, self.others)
        self._value = self.matrices.views("value", matrices) | self.others.views("value", others)
        self._gradient = self.matrices.views("gradient", matrices) | self.others.views("gradient", others)
        self._weights = self.matrices.views("copy", matrices) | self.others.views("value", others)
        firsts = [self._value[f"{layer}.qkv"].storage_offset() for layer in range(self.layers)]
        self._spans = [slice(*ends) for ends in pairwise([*firsts, len(self.matrices.value)])]
        self._beside: Any = None
        if device.startswith("cuda"):
            self._beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._buckets: dict[int, tuple[Any, Any]] = {}
        self._kept: list[Any] = []
        self.load()

    def weight_matrices(self) -> list[tuple[str, Any]]:
        """The weights that `product` multiplies by, by name."""
        return [(name, self._weights[name]) for name in self._sources if _is_matrix(name)]

    def load(self) -> None:
        """Take the network's weights, and forget the moments."""
        with torch.no_grad():
            for name, sources in self._sources.items():
                self._value[name].copy_(torch.cat([p.detach().float() for p in sources]))
            self.matrices.copy.copy_(self.matrices.value)
            for flat in self.flats:
                for moment in (flat.first, flat.second, flat.gradient):
                    moment.zero_()

    def store(self) -> None:
        """Give the trained weights back to the network."""
        with torch.no_grad():
            for name, sources in self._sources.items():
                at = 0
                for source in sources:
                    source.copy_(self._value[name][at : at + len(source)])
                    at += len(source)

    def forward(self, batch: Batch, keep: bool = True) -> Any:
        """Last hidden states (N, width) float32; `keep` remembers what `backward` needs."""
        from pairsieve.models import packed_kernels as k

        rows, d, w = len(batch.ids), self.width, self._weights
        how = {"block": k.block_for(d), "keep": keep, "split": self.split}
        self._kept = []
        table = self._relative(batch.long)
        all_mixed = self._factors(self.layers if keep else 1, rows, d, zero=keep)

        def normed(make: Any) -> tuple[Any, ...]:
            out, half = self._new(rows, d), self._factors(rows, d)
            added = self._new(rows, d) if keep else out  # not written to where nothing is kept
            mean, scale = (self._new(rows), self._new(rows)) if keep else (out, out)
            make(added, out, half, mean, scale)
            return added, out, half, mean, scale

        added, x, half, mean, scale = normed(
            lambda *to: k.launch(
                k.embed_ln, (rows,), batch.ids, batch.positions, w["word"], w["position"], w["kind"],
                w["gain"], w["shift"], *to, d, self.eps, **how,
            )
        )  # fmt: skip
        if keep:
            self._kept.append((added, mean, scale))
        for layer in range(self.layers):
            own = {n: w[f"{layer}.{n}"] for n in LAYER}
            qkv = self.product(half, f"{layer}.qkv")
            mixed = all_mixed[layer if keep else 0]
            k.launch(
                k.attend, (len(batch.starts) - 1, self.heads), qkv, own["qkv_bias"], batch.starts, table,
                mixed, d, self._factor, has_relative=self.kind == "mpnet", split=self.split,
                long=batch.long, head=d // self.heads,
            )  # fmt: skip
            branch = self.product(mixed, f"{layer}.out")
            first = normed(
                lambda *to, x=x, branch=branch, own=own: k.launch(
                    k.add_ln, (rows,), x, branch, own["out_bias"], own["gain1"], own["shift1"], *to,
                    d, self.eps, **how,
                )
            )  # fmt: skip
            before = self.product(first[2], f"{layer}.up")
            after = self._factors(rows, self.inner)
            k.launch(
                k.gelu, (-(-before.numel() // 1024),), before, own["up_bias"], after,
                before.numel(), self.inner, split=self.split, block=1024,
            )  # fmt: skip
            branch = self.product(after, f"{layer}.down")
            second = normed(
                lambda *to, x=first[1], branch=branch, own=own: k.launch(
                    k.add_ln, (rows,), x, branch, own["down_bias"], own["gain2"], own["shift2"], *to,
                    d, self.eps, **how,
                )
            )  # fmt: skip
            if keep:
                self._kept.append((half, qkv, mixed, first, before, after, second))
            x, half = second[1], second[2]
        return x

    def product(self, rows: Any, name: str) -> Any:
        """rows (N, k), as `_factors` holds them, times the transposed weights (m, k)."""
        return rows @ self._weights[name].T

    def _factors(self, *shape: int, zero: bool = False) -> Any:
        """An array for rows that are to be multiplied."""
        sizes = (*shape[:-1], shape[-1] * (3 if self.split else 1))
        kind = torch.bfloat16 if self.split else self.half
        return (torch.zeros if zero else torch.empty)(sizes, dtype=kind, device=self.device)

    def aside(self, work: Callable[[], object]) -> None:
        """Run work beside what follows, on a stream of its own, until `join`; it waits for what went before.

        A step of few tokens waits for one small kernel after the other; so whatever nothing waits for does
        not stand in their line. What work reads must stay alive until `join`.
        """
        if self._beside is None:
            work()
            return
        self._beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._beside):
            work()

    def join(self) -> None:
        """Wait for what runs aside."""
        if self._beside is not None:
            torch.cuda.current_stream().wait_stream(self._beside)

    def backward(self, batch: Batch, up: Any, adam: Adam = lambda flat, span: None) -> None:
        """From the gradient of the hidden states (N, width) float32 to those of every parameter, in place.

        `adam` moves the parameters of a span, each layer's as soon as nothing reads them any more.
        """
        from pairsieve.models import packed_kernels as k

        rows, d, w, g = len(batch.ids), self.width, self._weights, self._gradient
        block, texts = k.block_for(d), len(batch.starts) - 1
        programs = -(-rows // k.ROWS)
        table = self._relative(batch.long)
        square = (texts, self.heads, batch.long, batch.long)
        of_relative = self._new(*(square if self.kind == "mpnet" else (1,)))
        pulls = self._factors(self.layers, rows, 3 * d, zero=True)
        alive: list[Any] = []  # what runs aside reads these; no other array may take their place before

        def gradient(of: Any, rows: Any, name: str) -> None:
            alive.append(of)
            self.aside(lambda: torch.mm(of.T, rows, out=g[name]))

        def bias_gradient(of: Any, name: str) -> None:
            self.aside(lambda: torch.sum(of, 0, dtype=torch.float32, out=g[name]))

        def clear() -> None:
            g["word"].zero_()
            g["position"].zero_()

        self.aside(clear)

        def norm_back(
            far: Any, near: Any, kept: tuple[Any, Any, Any], gain: str, into: tuple[str, str, str]
        ) -> tuple[Any, Any]:
            added, mean, scale = kept
            down, half = self._new(rows, d), self._new(rows, d, self.half)
            sums = self._new(programs, 3 * d)
            alive.append(sums)
            k.launch(
                k.ln_backward, (programs,), far, far if near is None else near, added, mean, scale, w[gain],
                down, half, sums, d, two=near is not None, turns=k.ROWS, block=block,
            )  # fmt: skip
            self.aside(lambda: self._sums(sums, into))
            return down, half

        far, near = up.contiguous(), None
        for layer in reversed(range(self.layers)):
            half, qkv, mixed, first, before, after, second = self._kept[layer + 1]

            def name(of: str, layer: int = layer) -> str:
                return f"{layer}.{of}"

            far, low = norm_back(
                far, near, (second[0], second[3], second[4]), name("gain2"),
                (name("down_bias"), name("gain2"), name("shift2")),
            )  # fmt: skip
            gradient(low, after, name("down"))
            pull = low @ w[name("down")]
            k.launch(
                k.gelu_backward, (-(-before.numel() // 1024),), before, w[name("up_bias")], pull, pull,
                before.numel(), self.inner, block=1024,
            )  # fmt: skip
            gradient(pull, first[2], name("up"))
            bias_gradient(pull, name("up_bias"))
            far, low = norm_back(
                far, pull @ w[name("up")], (first[0], first[3], first[4]), name("gain1"),
                (name("out_bias"), name("gain1"), name("shift1")),
            )  # fmt: skip
            gradient(low, mixed, name("out"))
            pull, down = low @ w[name("out")], pulls[layer]
            k.launch(
                k.attend_backward, (texts, self.heads), qkv, w[name("qkv_bias")], batch.starts, table, pull,
                down, of_relative, d, self._factor, self.heads, has_relative=self.kind == "mpnet",
                adding=layer < self.layers - 1, long=batch.long, head=d // self.heads,
            )  # fmt: skip
            gradient(down, half, name("qkv"))
            bias_gradient(down, name("qkv_bias"))
            near = down @ w[name("qkv")]
            self.aside(partial(adam, self.matrices, self._spans[layer]))
        far, _ = norm_back(far, near, self._kept[0], "gain", ("kind", "gain", "shift"))
        self.join()
        if self.kind == "mpnet":
            g["kind"].zero_()
        k.launch(
            k.add_by_token, (rows,), batch.tokens, batch.order, far, g["word"], rows, d, block=block
        )  # fmt: skip
        k.launch(
            k.add_by_place, (batch.long,), batch.starts, far, g["position"], texts, self.offset, d,
            block=block,
        )  # fmt: skip
        if self.kind == "mpnet":
            _, once = self._bucket(batch.long)
            g["relative"].copy_(once @ of_relative.sum(0).view(self.heads, -1).T)
        adam(self.others, slice(0, len(self.others.value)))
        self._kept = []

    def adamw(self, hyper: Any, beta1: float, beta2: float, eps: float, decay: float) -> Adam:
        """AdamW by the gradients; hyper (3,) = (rate, the two corrections), on the device."""
        from pairsieve.models import packed_kernels as k

        def adam(flat: Flat, span: slice) -> None:
            size = span.stop - span.start
            parts = (flat.value, flat.first, flat.second, flat.gradient)
            copy = flat.value if flat.copy is None else flat.copy
            k.launch(
                k.adamw, (-(-size // 2048),), *(part[span] for part in parts), copy[span], hyper, size, 1.0,
                beta1, beta2, eps, decay, has_copy=flat.copy is not None, block=2048, num_warps=8,
            )  # fmt: skip

        return adam

    def _sums(self, partial: Any, into: tuple[str, str, str]) -> None:
        """Add up what the programs of a norm's backward pass left, into three gradients."""
        first, d = self._gradient[into[0]], self.width
        at = first.storage_offset()
        if first.dim() == 1 and d % 64 == 0:  # the three lie side by side
            torch.sum(partial, 0, out=self.others.gradient[at : at + 3 * d])
        else:
            for name, value in zip(into, partial.sum(0).view(3, d), strict=True):
                self._gradient[name].view(-1)[:d].copy_(value)

    @property
    def _factor(self) -> float:
        return float((self.width // self.heads) ** -0.5)

    def _new(self, *shape: Any) -> Any:
        kind = shape[-1] if isinstance(shape[-1], torch.dtype) else torch.float32
        sizes = [size for size in shape if not isinstance(size, torch.dtype)]
        return torch.empty(sizes, dtype=kind, device=self.device)

    def _bucket(self, long: int) -> tuple[Any, Any]:
        """MPNet's bucket of every distance (long²,), and the same as rows of ones (buckets, long²)."""
        if long not in self._buckets:
            at = torch.arange(long)
            count = self._weights["relative"].shape[0]
            bucket = self.network.encoder.relative_position_bucket(at[None, :] - at[:, None], count)
            bucket = bucket.reshape(-1)
            ones = torch.nn.functional.one_hot(bucket, count).T.float().contiguous()
            self._buckets[long] = bucket.to(self.device), ones.to(self.device)
        return self._buckets[long]

    def _relative(self, long: int) -> Any:
        """Relative biases (heads, long, long); BERT has none."""
        if self.kind != "mpnet":
            return self._weights["gain"]
        bucket, _ = self._bucket(long)
        return self._weights["relative"][bucket].T.contiguous()


def pooled_rows(hidden: Any, batch: Batch) -> Any:
    """Unit mean of each text's hidden states: (N, width) -> (n, width)."""
    texts = len(batch.starts) - 1
    belongs = batch.texts[None, :] == torch.arange(texts, device=hidden.device, dtype=torch.int32)[:, None]
    lengths = (batch.starts[1:] - batch.starts[:-1]).to(hidden.dtype)
    mean = (belongs.to(hidden.dtype) / lengths[:, None]) @ hidden
    return torch.nn.functional.normalize(mean, dim=1)


def is_known(network: Any) -> bool:
    """Whether the network is of a kind that is written out here, and without dropout."""
    config = network.config
    return bool(
        getattr(config, "model_type", "") in KNOWN
        and not network.training
        and getattr(config, "hidden_act", "") == "gelu"
        and getattr(config, "position_embedding_type", "absolute") == "absolute"
        and not getattr(config, "is_decoder", False)
        and config.hidden_size % config.num_attention_heads == 0
        and config.hidden_size // config.num_attention_heads in (16, 32, 64, 128)
    )


def packed_network(network: Any, device: str, tokens: Tokens, pad: int) -> PackedNetwork | None:
    """The network packed, where its kind is known and its rows come out as those of its own forward pass."""
    if not is_known(network):
        return None
    from pairsieve.models.encoder import pooled

    packed = PackedNetwork(network, device)
    rows = np.linspace(0, len(tokens.lengths) - 1, 16).astype(np.int64)
    batch = PackedSteps(tokens, rows[None, :], pad, packed.offset, device).batch(0)
    ids, mask = tokens.padded(rows, int(tokens.lengths[rows].max()), pad)
    with torch.no_grad():
        packed_rows = pooled_rows(packed.forward(batch, keep=False), batch)
        with torch.autocast(device.split(":")[0], dtype=torch.bfloat16):
            own_rows = pooled(network, torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device))
    return packed if float((packed_rows * own_rows).sum(1).min()) > 0.999 else None


LAYER = (
    "qkv", "qkv_bias", "out", "out_bias", "gain1", "shift1",
    "up", "up_bias", "down", "down_bias", "gain2", "shift2",
)  # fmt: skip


def _is_matrix(name: str) -> bool:
    return name.split(".")[-1] in ("qkv", "out", "up", "down")


def _sources(network: Any) -> dict[str, list[Any]]:
    """Our name of each parameter -> the network's own parameters that lie in it, one after the other."""
    state = dict(network.named_parameters())
    mpnet = network.config.model_type == "mpnet"
    table = {
        "word": ["embeddings.word_embeddings.weight"],
        "position": ["embeddings.position_embeddings.weight"],
        "kind": ["embeddings.token_type_embeddings.weight"],
        "gain": ["embeddings.LayerNorm.weight"],
        "shift": ["embeddings.LayerNorm.bias"],
    }
    if mpnet:
        table["relative"] = ["encoder.relative_attention_bias.weight"]
    for layer in range(network.config.num_hidden_layers):
        at = f"encoder.layer.{layer}."
        own = "attention.attn." if mpnet else "attention.self."
        query_key_value = [at + own + n for n in (("q", "k", "v") if mpnet else ("query", "key", "value"))]
        out = at + ("attention.attn.o" if mpnet else "attention.output.dense")
        norm = at + ("attention.LayerNorm" if mpnet else "attention.output.LayerNorm")
        for weight, bias, of in (
            ("qkv", "qkv_bias", query_key_value),
            ("out", "out_bias", [out]),
            ("gain1", "shift1", [norm]),
            ("up", "up_bias", [at + "intermediate.dense"]),
            ("down", "down_bias", [at + "output.dense"]),
            ("gain2", "shift2", [at + "output.LayerNorm"]),
        ):
            table[f"{layer}.{weight}"] = [module + ".weight" for module in of]
            table[f"{layer}.{bias}"] = [module + ".bias" for module in of]
    found = {name: [state[one] for one in of if one in state] for name, of in table.items()}
    if mpnet:  # it has no kinds of tokens: a row of zeros that never moves is not worth a parameter
        found["kind"] = [torch.zeros(1, network.config.hidden_size, device=found["word"][0].device)]
    return found


def _shape(sources: list[Any]) -> tuple[int, ...]:
    return (sum(len(source) for source in sources), *sources[0].shape[1:])


def _flat(shapes: dict[str, tuple[int, ...]], device: str, copied: Any) -> Flat:
    """`copied`: the type of the copy and of the gradient, or None for float32 without a copy."""
    size = sum(-(-int(np.prod(shape)) // 64) * 64 for shape in shapes.values())
    value, first, second = (torch.zeros(size, device=device) for _ in range(3))
    half = torch.zeros(size, dtype=copied, device=device) if copied else None
    gradient = torch.zeros(size, dtype=copied or torch.float32, device=device)
    return Flat(value, gradient, first, second, half)

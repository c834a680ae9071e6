"""Training steps of BERT-like networks on CUDA over packed tokens, without padding, in few kernels.

Texts lie end to end without padding, the three projections of attention are one product, weights are cast to
bfloat16 by the optimiser itself (not again in every step), and the backward pass is written out, so that each
gradient is computed once, where the optimiser reads it. Arithmetic is that of bfloat16 autocast: products in
bfloat16 with float32 accumulation, everything else (residuals, norms, biases, embeddings) in float32.

Takes BERT, RoBERTa and MPNet networks without dropout; `packed_network` returns None for others, and for a
network whose rows come out differently from its own forward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pairsieve.models.encoder import Tokens

KNOWN = ("bert", "roberta", "xlm-roberta", "mpnet")
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


class PackedNetwork:
    """A network's weights in flat arrays, its forward pass, its backward pass, and its AdamW step."""

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
        block = k.block_for(d)
        self._kept = []
        table = self._relative(batch.long)

        def normed(make: Any) -> tuple[Any, ...]:
            added, out = self._new(rows, d), self._new(rows, d)
            half = self._new(rows, d, self.half)
            mean, scale = self._new(rows), self._new(rows)
            make(added, out, half, mean, scale)
            return added, out, half, mean, scale

        added, x, half, mean, scale = normed(
            lambda *to: k.launch(
                k.embed_ln, (rows,), batch.ids, batch.positions, w["word"], w["position"], w["kind"],
                w["gain"], w["shift"], *to, d, self.eps, block=block,
            )
        )  # fmt: skip
        if keep:
            self._kept.append((added, mean, scale))
        for layer in range(self.layers):
            own = {n: w[f"{layer}.{n}"] for n in LAYER}
            qkv = self.product(half, f"{layer}.qkv")
            mixed = torch.zeros(rows, d, dtype=self.half, device=self.device)
            k.launch(
                k.attend, (len(batch.starts) - 1, self.heads), qkv, own["qkv_bias"], batch.starts, table,
                mixed, d, self._factor, has_relative=self.kind == "mpnet", long=batch.long,
                head=d // self.heads,
            )  # fmt: skip
            branch = self.product(mixed, f"{layer}.out")
            first = normed(
                lambda *to, x=x, branch=branch, own=own: k.launch(
                    k.add_ln, (rows,), x, branch, own["out_bias"], own["gain1"], own["shift1"], *to,
                    d, self.eps, block=block,
                )
            )  # fmt: skip
            before = self.product(first[2], f"{layer}.up")
            after = torch.empty_like(before)
            k.launch(
                k.gelu, (-(-before.numel() // 1024),), before, own["up_bias"], after,
                before.numel(), self.inner, block=1024,
            )  # fmt: skip
            branch = self.product(after, f"{layer}.down")
            second = normed(
                lambda *to, x=first[1], branch=branch, own=own: k.launch(
                    k.add_ln, (rows,), x, branch, own["down_bias"], own["gain2"], own["shift2"], *to,
                    d, self.eps, block=block,
                )
            )  # fmt: skip
            if keep:
                self._kept.append((half, qkv, mixed, first, before, after, second))
            x, half = second[1], second[2]
        return x

    def product(self, rows: Any, name: str) -> Any:
        """rows (N, k) times the transposed weights (m, k)."""
        return rows @ self._weights[name].T

    def backward(self, batch: Batch, up: Any) -> None:
        """From the gradient of the hidden states (N, width) float32 to those of every parameter, in place."""
        from pairsieve.models import packed_kernels as k

        rows, d, w, g = len(batch.ids), self.width, self._weights, self._gradient
        block, texts = k.block_for(d), len(batch.starts) - 1
        programs = -(-rows // k.ROWS)
        partial = self._new(programs, 3 * d)
        table = self._relative(batch.long)
        leans = self._new(texts, self.heads, batch.long, batch.long) if self.kind == "mpnet" else self._new(1)

        def norm_back(
            far: Any, near: Any, kept: tuple[Any, Any, Any], gain: str, into: tuple[str, str, str]
        ) -> tuple[Any, Any]:
            added, mean, scale = kept
            down, half = self._new(rows, d), self._new(rows, d, self.half)
            k.launch(
                k.ln_backward, (programs,), far, far if near is None else near, added, mean, scale, w[gain],
                down, half, partial, d, two=near is not None, turns=k.ROWS, block=block,
            )  # fmt: skip
            self._sums(partial, into)
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
            torch.mm(low.T, after, out=g[name("down")])
            pull = low @ w[name("down")]
            k.launch(
                k.gelu_backward, (-(-before.numel() // 1024),), before, w[name("up_bias")], pull, pull,
                before.numel(), self.inner, block=1024,
            )  # fmt: skip
            torch.mm(pull.T, first[2], out=g[name("up")])
            torch.sum(pull, 0, dtype=torch.float32, out=g[name("up_bias")])
            far, low = norm_back(
                far, pull @ w[name("up")], (first[0], first[3], first[4]), name("gain1"),
                (name("out_bias"), name("gain1"), name("shift1")),
            )  # fmt: skip
            torch.mm(low.T, mixed, out=g[name("out")])
            pull = low @ w[name("out")]
            down = torch.zeros_like(qkv)
            k.launch(
                k.attend_backward, (texts, self.heads), qkv, w[name("qkv_bias")], batch.starts, table, pull,
                down, leans, d, self._factor, self.heads, has_relative=self.kind == "mpnet",
                adding=layer < self.layers - 1, long=batch.long, head=d // self.heads,
            )  # fmt: skip
            torch.mm(down.T, half, out=g[name("qkv")])
            torch.sum(down, 0, dtype=torch.float32, out=g[name("qkv_bias")])
            near = down @ w[name("qkv")]
        far, _ = norm_back(far, near, self._kept[0], "gain", ("kind", "gain", "shift"))
        if self.kind == "mpnet":
            g["kind"].zero_()
        g["word"].zero_()
        g["position"].zero_()
        k.launch(
            k.add_by_token, (rows,), batch.tokens, batch.order, far, g["word"], rows, d, block=block
        )  # fmt: skip
        k.launch(
            k.add_by_place, (batch.long,), batch.starts, far, g["position"], texts, self.offset, d,
            block=block,
        )  # fmt: skip
        if self.kind == "mpnet":
            _, once = self._bucket(batch.long)
            g["relative"].copy_(once @ leans.sum(0).view(self.heads, -1).T)
        self._kept = []

    def step(self, hyper: Any, beta1: float, beta2: float, eps: float, decay: float) -> None:
        """AdamW over both flat arrays; hyper (3,) = (rate, the two corrections), on the device."""
        from pairsieve.models import packed_kernels as k

        for flat in self.flats:
            size = len(flat.value)
            k.launch(
                k.adamw, (-(-size // 2048),), flat.value, flat.first, flat.second, flat.gradient,
                flat.value if flat.copy is None else flat.copy, hyper, size, 1.0, beta1, beta2, eps, decay,
                has_copy=flat.copy is not None, block=2048, num_warps=8,
            )  # fmt: skip

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

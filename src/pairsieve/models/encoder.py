"""Text encoders: a transformer whose last layer is averaged over the tokens and scaled to length one.

An encoder is named by the bundled default, a hub name or a folder (transformers or sentence-transformers
layout). It reads safetensors only, works in float32 on every device unless it was opened in bfloat16 (on the
CPU), and always pools by the mean over tokens, as the paper does, whatever the folder's own pooling says.
Nothing of torch or transformers is imported before a text is embedded, so naming and fingerprinting an
encoder is quick.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError, nearest
from pairsieve.models.folders import (
    NO_CODE,
    check_modules,
    config_of,
    file_sha256,
    folder_named,
    longest_input,
    transformer_folder,
    weight_files,
)
from pairsieve.models.token_cache import TokenCache, Tokens
from pairsieve.pairs import Mask, Rows
from pairsieve.progress import tracked
from pairsieve.tasks.joined import without_gaps

Embeddings = NDArray[np.float32]

TOKENS_PER_BATCH = {"cpu": 4096, "cuda": 65536}  # padding included; more gains nothing on either
POOLING = "mean"

TOKENISER_FILES = {
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model"),
}


def encoder_named(
    name_or_folder: str | Path,
    max_length: int = 128,
    left_prefix: str = "",
    right_prefix: str = "",
    device: str | None = None,
    precision: str = "float32",
) -> Encoder:
    """The encoder called so: the bundled one, a folder, or a name on the model hub.

    Prefixes are put before every text of their side, as some encoders want ("query: ", "passage: ").
    `device` is "cpu", "cuda" or None for CUDA where there is one. precision: "float32" or "bfloat16".
    """
    name = str(name_or_folder)
    folder = folder_named(name)
    check_modules(folder)
    longest = longest_input(config_of(folder))
    if not 3 <= max_length <= longest:
        raise InputError(
            f"max length {max_length} tokens", where=name, why=f"this encoder takes 3 to {longest:,} tokens"
        )
    return Encoder(name, folder, max_length, left_prefix, right_prefix, device, precision)


@dataclass(eq=False)
class Encoder:
    """A named transformer. `trained` is the network of a fine-tuned copy; None means the folder's weights."""

    name: str
    folder: Path
    max_length: int = 128
    left_prefix: str = ""
    right_prefix: str = ""
    requested_device: str | None = None
    precision: str = "float32"  # of the products; bfloat16 is for the CPU, and gives other embeddings
    trained: Any = field(default=None, repr=False)
    token_cache: TokenCache = field(default_factory=TokenCache, repr=False)  # shared with trained copies
    prepared: dict[str, Any] | None = field(default=None, repr=False)  # kept by a pass between `embed` calls

    @contextlib.contextmanager
    def one_pass(self) -> Iterator[None]:
        """Within, what a GPU needs is prepared once, however often `embed` is called, and freed after."""
        self.prepared = {}
        try:
            yield
        finally:
            self.prepared = None

    @cached_property
    def device(self) -> str:
        return usable_device(self.requested_device)

    @cached_property
    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        with quietly(), readable_errors(self.name, "tokeniser"):
            folder = str(transformer_folder(self.folder))
            return AutoTokenizer.from_pretrained(folder, use_fast=True, **NO_CODE)

    @cached_property
    def network(self) -> Any:
        """The transformer, in float32, without dropout, on the device."""
        if self.trained is not None:
            return self.trained.to(self.device).eval()
        import torch
        from transformers import AutoModel

        folder = transformer_folder(self.folder)
        with quietly(), readable_errors(self.name, "weights"), torch.random.fork_rng(devices=[]):
            # Some checkpoints lack the pooler, which we never use: seeded, so that an export has fixed bytes.
            torch.manual_seed(0)
            model = AutoModel.from_pretrained(str(folder), use_safetensors=True, **NO_CODE, **as_float32())
        return model.float().to(self.device).eval()

    @cached_property
    def _reduced(self) -> Any:
        """The network with its weights in the encoder's precision."""
        from pairsieve.models.packed_cpu import PackedCpuNetwork, can_pack

        if not can_pack(self.network):
            raise InputError(
                f"no embedding in {self.precision} by this encoder",
                where=self.name,
                why="it is done for BERT, RoBERTa and MPNet networks, where PyTorch has oneDNN",
                remedy='Set precision to "float32"',
            )
        return PackedCpuNetwork(self.network, self.precision)

    @property
    def config(self) -> dict[str, Any]:
        return config_of(self.folder)

    @property
    def dimension(self) -> int:
        """Length of an embedding."""
        config = self.config
        return int(config.get("hidden_size") or config.get("d_model") or config["dim"])

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of what an embedding depends on: weights, config, tokeniser, length, prefixes, precision."""
        digest = hashlib.sha256(json.dumps(self.config, sort_keys=True).encode())
        digest.update(self._tokeniser_listing)
        if self.trained is None:
            for path in weight_files(self.folder):
                digest.update(f"{path.name} {file_sha256(path)}\n".encode())
        else:
            digest.update(state_sha256(self.trained).encode())
        digest.update(json.dumps([POOLING, self.max_length, self.left_prefix, self.right_prefix]).encode())
        if self.precision != "float32":
            digest.update(self.precision.encode())
        return digest.hexdigest()

    def prefix(self, side: str) -> str:
        if side not in ("left", "right"):
            raise ValueError(f"side {side!r}: a pair has a left and a right")
        return self.left_prefix if side == "left" else self.right_prefix

    def with_network(self, network: Any) -> Encoder:
        """This encoder with other weights: what fine-tuning leaves behind, in float32."""
        return dataclasses.replace(self, trained=network, prepared=None, precision="float32")

    def fresh_network(self) -> Any:
        """A copy of the network to train; the encoder itself stays as it is."""
        return copy.deepcopy(self.network)

    @property
    def pad(self) -> int:
        return int(self.tokenizer.pad_token_id or 0)

    @cached_property
    def tokenizer_fingerprint(self) -> str:
        """sha256 of the tokeniser's files."""
        return hashlib.sha256(self._tokeniser_listing).hexdigest()

    @property
    def _tokeniser_listing(self) -> bytes:
        """Name and sha256 of each of the tokeniser's files."""
        files = sorted(transformer_folder(self.folder).glob("*"))
        listed = (f"{path.name} {file_sha256(path)}\n" for path in files if path.name in TOKENISER_FILES)
        return "".join(listed).encode()

    def tokens(self, texts: Sequence[str], side: str = "left") -> Tokens:
        """The texts of one side, tokenised and cut to the maximum length; a collection is tokenised once."""
        prefix = self.prefix(side)
        return self.token_cache.get(
            self.tokenizer_fingerprint, texts, prefix, self.max_length, lambda: self._tokenised(texts, prefix)
        )

    def _tokenised(self, texts: Sequence[str], prefix: str) -> Tokens:
        rows: list[list[int]] = []
        for first in range(0, len(texts), 20_000):
            chunk = [prefix + without_gaps(text) for text in texts[first : first + 20_000]]
            omitted = {"return_attention_mask": False, "return_token_type_ids": False}
            rows += self.tokenizer(chunk, truncation=True, max_length=self.max_length, **omitted)["input_ids"]
        # A tokeniser without special tokens gives nothing for an empty text.
        return Tokens.of([row or [self.pad] for row in rows])

    def unreadable(self, texts: Sequence[str]) -> Mask:
        """Texts (n,) of which the tokeniser knows no piece, such as a script it was not made for.

        To the encoder all of them are alike: any two have nearly the same row.
        """
        tokeniser, found = self.tokenizer, np.zeros(len(texts), bool)
        meaningless = {*tokeniser.all_special_ids}  # the unknown token among them
        omitted = {
            "return_attention_mask": False,
            "return_token_type_ids": False,
            "add_special_tokens": False,
        }
        for first in range(0, len(texts), 20_000):
            chunk = list(texts[first : first + 20_000])
            rows = tokeniser(chunk, truncation=True, max_length=self.max_length, **omitted)["input_ids"]
            found[first : first + len(chunk)] = [meaningless.issuperset(row) for row in rows]
        return found

    def embed(self, texts: Sequence[str], side: str = "left") -> Embeddings:
        """Unit float32 rows (len(texts), dimension), in the order given; a repeated text is embedded once.

        Texts are sorted by length and batched by tokens, so little is spent on padding. Float32 throughout,
        on CUDA too, unless the encoder was opened in another precision: a row depends on its batch by
        rounding alone (below 1e-6).
        """
        if len(texts) == 0:
            return np.zeros((0, self.dimension), np.float32)
        distinct, at = distinct_texts(texts)
        tokens = self.tokens(distinct, side)
        if self.precision != "float32":
            from pairsieve.models.cpu import embed_packed_on_cpu  # which imports this file

            return embed_packed_on_cpu(self._reduced, tokens)[at]
        return embed_tokens(self.network, tokens, self.pad, self.device, self.prepared)[at]


def distinct_texts(texts: Sequence[str]) -> tuple[list[str], Rows]:
    """The distinct texts in the order of their first appearance, and the position of each text among them."""
    positions: dict[str, int] = {}
    at = [positions.setdefault(text, len(positions)) for text in texts]
    return list(positions), np.array(at, np.int64)


def embed_tokens(
    network: Any, tokens: Tokens, pad: int, device: str, prepared: dict[str, Any] | None = None
) -> Embeddings:
    """Mean-pooled unit rows of tokenised texts, longest first, so that too large a batch fails at once.

    `prepared` keeps what is prepared from the network on CUDA, for the next call with the same weights.
    """
    from pairsieve.models.cpu import batched, embed_on_cpu  # which imports this file

    if device == "cpu":
        return embed_on_cpu(network, tokens, pad)
    from pairsieve.models.packed_embedding import embed_packed  # which imports this file

    packed = embed_packed(network, tokens, pad, device, prepared)
    if packed is not None:
        return packed
    import torch

    batches = batched(tokens.lengths, TOKENS_PER_BATCH[device.split(":")[0]])
    pieces: list[Any] = []
    with torch.no_grad():
        for rows in tracked(batches, "embedding"):
            ids, mask = tokens.padded(rows, int(tokens.lengths[rows[0]]), pad)
            inputs = (torch.from_numpy(array).to(device) for array in (ids, mask))
            pieces.append(pooled(network, *inputs))
        stacked = torch.cat(pieces).cpu().numpy()
    embeddings = np.empty_like(stacked)
    embeddings[np.concatenate(batches)] = stacked
    return embeddings


def pooled(network: Any, ids: Any, mask: Any, attention: Any = None) -> Any:
    """Unit mean of the last layer over the tokens: ids and mask (n, width) -> (n, dimension) float32.

    `attention` replaces the mask inside the transformer where it was prepared beforehand (see training).
    """
    import torch

    hidden = network(input_ids=ids, attention_mask=mask if attention is None else attention)[0].float()
    weights = mask.to(hidden.dtype).unsqueeze(-1)
    mean = (hidden * weights).sum(1) / weights.sum(1)
    return torch.nn.functional.normalize(mean, dim=1)


def usable_device(requested: str | None) -> str:
    """`requested`, or CUDA where there is one, else the CPU."""
    import torch

    if requested is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if requested.split(":")[0] not in TOKENS_PER_BATCH:
        raise InputError(f"unknown device {requested!r}", remedy=nearest(requested, TOKENS_PER_BATCH))
    if requested.startswith("cuda") and not torch.cuda.is_available():
        raise InputError("no CUDA device here", why="PyTorch sees none", remedy='Use device "cpu"')
    return requested


def state_sha256(network: Any) -> str:
    """sha256 over a network's tensors: names, shapes and values."""
    digest = hashlib.sha256()
    for key, tensor in sorted(network.state_dict().items()):
        values = np.ascontiguousarray(tensor.detach().cpu().numpy())
        digest.update(f"{key} {values.dtype} {values.shape}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def as_float32() -> dict[str, Any]:
    """The argument of `from_pretrained` that loads half-precision weights as float32."""
    import torch
    import transformers

    # Renamed in transformers 4.56; the old name warns there, the new one is unknown before.
    version = tuple(int(digits) for digits in re.findall(r"\d+", transformers.__version__)[:2])
    return {"dtype" if version >= (4, 56) else "torch_dtype": torch.float32}


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without the progress bar and the remarks that transformers prints while loading."""
    from transformers.utils import logging

    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


@contextlib.contextmanager
def readable_errors(name: str, what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # damaged files surface as errors of safetensors, tokenizers, json, torch
        raise InputError(
            f"the encoder's {what} cannot be read",
            where=name,
            why=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
            remedy="Copy or download the encoder again",
        ) from error

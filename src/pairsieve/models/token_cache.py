"""A cache of tokenised collections, in memory and, given a store, on disk.

A round that trains the encoder embeds the same texts with other weights: their tokens do not change. What is
kept is named by everything tokens depend on: the tokeniser's files, the texts, the prefix and the maximum
length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pairsieve.artifacts import ArtifactStore, key_digest, load_array, save_array

if TYPE_CHECKING:
    from pairsieve.models.encoder import Tokens

KEPT_FROM = 1_000  # texts; fewer are tokenised faster than they are looked up on a disk
MOST_BYTES = 512 << 20  # kept in memory


class TokenCache:
    """Tokens of collections; the one used longest ago goes first when memory is short."""

    def __init__(self, store: ArtifactStore | None = None) -> None:
        self.store = store
        self._kept: dict[str, Tokens] = {}

    def get(
        self, tokeniser: str, texts: Sequence[str], prefix: str, max_length: int, make: Callable[[], Tokens]
    ) -> Tokens:
        """The tokens of `prefix + text` for every text; `make()` where they are not here yet."""
        if len(texts) < KEPT_FROM:
            return make()
        key: dict[str, str | int] = {"tokeniser": tokeniser, "texts": texts_sha256(texts), "prefix": prefix}
        key["max_length"] = max_length
        name = key_digest(key)
        tokens = self._kept.pop(name, None)
        if tokens is None:
            tokens = make() if self.store is None else self._stored(self.store, key, make)
        self._kept[name] = tokens
        while len(self._kept) > 1 and sum(map(_bytes, self._kept.values())) > MOST_BYTES:
            self._kept.pop(next(iter(self._kept)))
        return tokens

    def _stored(self, store: ArtifactStore, key: dict[str, str | int], make: Callable[[], Tokens]) -> Tokens:
        from pairsieve.models.encoder import Tokens

        def build(folder: Path) -> None:
            tokens = make()
            save_array(folder / "ids.npy", tokens.ids)
            save_array(folder / "starts.npy", tokens.starts)

        folder = store.get("tokens", key, build)
        return Tokens(load_array(folder / "ids.npy"), load_array(folder / "starts.npy"))


def texts_sha256(texts: Sequence[str]) -> str:
    """sha256 over texts in order; each with its length before it, so that no two lists run together alike."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _bytes(tokens: Tokens) -> int:
    return int(tokens.ids.nbytes + np.asarray(tokens.starts).nbytes)

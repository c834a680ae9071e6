"""Tokenised collections, and their cache in memory and, given a store, on disk.

A round that trains the encoder embeds the same texts with other weights: their tokens do not change. What is
kept is named by everything tokens depend on: the tokeniser's files, the texts, the prefix and the maximum
length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairsieve.artifacts import ArtifactStore, key_digest, load_array, save_array
from pairsieve.pairs import Rows

KEPT_FROM = 1_000  # texts; fewer are tokenised faster than they are looked up on a disk
MOST_BYTES = 512 << 20  # kept in memory


@dataclass(frozen=True)
class Tokens:
    """Token ids of texts laid end to end: text i has `ids[starts[i]:starts[i + 1]]`."""

    ids: NDArray[np.int32]
    starts: Rows

    @staticmethod
    def of(rows: Sequence[Sequence[int]]) -> Tokens:
        """The token ids of each text, laid end to end."""
        starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return Tokens(np.fromiter(chain.from_iterable(rows), np.int32, count=int(starts[-1])), starts)

    @property
    def lengths(self) -> Rows:
        return np.diff(self.starts)

    def take(self, rows: Rows) -> Tokens:
        """The texts of some rows, in that order."""
        lengths = self.lengths[rows]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        at = np.repeat(self.starts[:-1][rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return Tokens(self.ids[at], starts)

    def padded(self, rows: Rows, width: int, pad: int) -> tuple[Rows, Rows]:
        """Token ids and attention mask of some texts, both (len(rows), width), filled up with `pad`."""
        columns = np.arange(width)
        mask = columns < self.lengths[rows][:, None]
        at = np.where(mask, self.starts[rows][:, None] + columns, 0)
        return np.where(mask, self.ids[at], pad).astype(np.int64), mask.astype(np.int64)


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

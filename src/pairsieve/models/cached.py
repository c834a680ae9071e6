"""Embeddings of a collection, cached as artifacts and made in shards, so that a killed run resumes.

Distinct texts, in the order in which they first appear, are cut into shards of `TEXTS_PER_SHARD`; each is
embedded by itself and is an artifact once finished. The cut does not depend on who embeds, so one machine
and many give the same rows to the bit (on like hardware), and either resumes where the other stopped.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.artifacts import ArtifactStore, load_array, save_array
from pairsieve.models.encoder import Embeddings, Encoder, distinct_texts
from pairsieve.progress import tracked

TEXTS_PER_SHARD = 1 << 12  # ten to thirty seconds on two cores: what a kill loses at most
TIMES_ON_CUDA = 64  # as many there: two seconds
SHARD = "embedding-shard"

Shards = Sequence[tuple[int, Sequence[str]]]  # position of a shard, and its texts
EmbedShards = Callable[[Encoder, str, Shards], Iterable[tuple[int, Embeddings]]]


def embed_shards(encoder: Encoder, side: str, shards: Shards) -> Iterator[tuple[int, Embeddings]]:
    """(position, unit rows) of each shard, one after the other in this process."""
    with encoder.one_pass():
        for position, texts in tracked(shards, "embedding") if len(shards) > 1 else shards:
            yield position, encoder.embed(texts, side)


def cached_embeddings(
    store: ArtifactStore,
    key: Mapping[str, Any],
    encoder: Encoder,
    texts: Sequence[str],
    side: str,
    embed: EmbedShards = embed_shards,
) -> Embeddings:
    """Unit rows (len(texts), d) of an encoder, memory-mapped.

    `key` names the encoder and the texts. The artifact "embeddings" holds the rows; while it is made, each
    finished shard is an artifact of its own, removed once the whole stands. `embed` embeds the shards that
    are missing, in any order.
    """

    size = TEXTS_PER_SHARD * (TIMES_ON_CUDA if encoder.device.startswith("cuda") else 1)

    def write(folder: Path) -> None:
        distinct, at = distinct_texts(texts)  # a repeated text is embedded once: copies have equal rows
        keys = _shard_keys(key, len(distinct), size)
        missing = [
            (position, distinct[position * size : (position + 1) * size])
            for position, shard_key in enumerate(keys)
            if store.find(SHARD, shard_key) is None
        ]
        embedded: dict[int, Embeddings] = {}
        for position, rows in embed(encoder, side, missing) if missing else ():
            embedded[position] = rows if len(keys) == 1 else _stored(store, keys[position], rows)
        finished = [
            embedded[position] if position in embedded else _rows(store.place(SHARD, shard_key))
            for position, shard_key in enumerate(keys)
        ]
        if len(finished) <= 1:
            rows = finished[0] if finished else np.zeros((0, encoder.dimension), np.float32)
            save_array(folder / "rows.npy", rows[at])
        else:
            _write_in_order(folder / "rows.npy", finished, at, size)

    folder = store.get("embeddings", key, write)
    for shard_key in _shard_keys(key, len(texts), size):
        shutil.rmtree(store.place(SHARD, shard_key), ignore_errors=True)
    return _rows(folder)


def _stored(store: ArtifactStore, key: Mapping[str, Any], rows: Embeddings) -> Embeddings:
    """A finished shard on disk, where a later run finds it; read from there, so that memory stays free."""
    return _rows(store.get(SHARD, key, lambda folder: save_array(folder / "rows.npy", rows)))


def _rows(folder: Path) -> Embeddings:
    return load_array(folder / "rows.npy", mmap=True)


def _write_in_order(path: Path, finished: Sequence[Embeddings], at: NDArray[np.int64], size: int) -> None:
    """One .npy of the distinct rows `at`, in pieces: plain writes, which fail loudly where a disk is full."""
    width = finished[0].shape[1]
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(at), width)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for first in range(0, len(at), size):
            shard, row = np.divmod(at[first : first + size], size)
            piece = np.empty((len(row), width), "<f4")
            for position in np.unique(shard):
                piece[shard == position] = finished[position][row[shard == position]]
            file.write(piece.tobytes())


def _shard_keys(key: Mapping[str, Any], texts: int, size: int) -> list[dict[str, Any]]:
    cut = {"texts_a_shard": size}
    return [{**key, **cut, "shard": position} for position in range(-(-texts // size))]

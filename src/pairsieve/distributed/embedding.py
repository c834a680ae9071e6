"""Embeddings of a collection by many workers, cached as those of one machine (`models/cached.py`)."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve import models
from pairsieve.artifacts import ArtifactStore
from pairsieve.contracts import MapShards, Pieces, Results
from pairsieve.distributed.local import LocalShards
from pairsieve.models import CosineMatcher, Encoder, load_matcher
from pairsieve.models.cpu import CHOICE
from pairsieve.models.encoder import Embeddings


def cached_embeddings(
    shards: MapShards | None,
    store: ArtifactStore,
    key: Mapping[str, Any],
    encoder: Encoder,
    texts: Sequence[str],
    side: str,
) -> Embeddings:
    """As `models.cached_embeddings`: unit rows (len(texts), d). A lost worker costs the shard it embedded."""

    if shards is None:
        return models.cached_embeddings(store, key, encoder, texts, side)

    def embed(encoder: Encoder, side: str, pieces: Pieces) -> Results:
        if isinstance(shards, LocalShards):
            with encoder.one_pass():
                yield from shards.map_texts(
                    lambda model, texts: model.embed(texts, side), encoder, pieces, "embedding"
                )
            return
        gpu = shards.gpus > 0 and encoder.requested_device != "cpu"
        packed = packed_encoder(encoder, "cuda" if gpu else "cpu")
        yield from shards.map_texts(
            lambda model, texts: unpacked_encoder(model).embed(texts, side), packed, pieces, "embedding", gpu
        )

    return models.cached_embeddings(store, key, encoder, texts, side, embed)


# ── on a worker ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class PackedEncoder:
    """An encoder as the files of its folder, for machines that share no disk with this one."""

    files: dict[str, NDArray[np.uint8]]
    sha256: str
    device: str
    backend: str  # of the CPU, where the environment names one: the same on every machine


def packed_encoder(encoder: Encoder, device: str) -> PackedEncoder:
    """The encoder's folder as `save` writes it: safetensors and JSON, prefixes and length included."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        CosineMatcher(encoder, encoder).save(folder)
        names = sorted(path for path in folder.rglob("*") if path.is_file())
        files = {path.relative_to(folder).as_posix(): np.fromfile(path, np.uint8) for path in names}
    digest = hashlib.sha256()
    for name, contents in files.items():
        digest.update(f"{name} {len(contents)}\n".encode() + contents.tobytes())
    return PackedEncoder(files, digest.hexdigest(), device, os.environ.get(CHOICE, ""))


_open: dict[tuple[str, str], Encoder] = {}  # the encoder this process embedded with last


def unpacked_encoder(packed: PackedEncoder) -> Encoder:
    """The encoder of a packed folder, loaded once in a process."""
    key = packed.sha256, packed.device
    if packed.backend:
        os.environ[CHOICE] = packed.backend
    if key not in _open:
        with tempfile.TemporaryDirectory() as folder:
            for name, contents in packed.files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                contents.tofile(path)
            encoder = load_matcher(folder, packed.device).encoder_for("left")
            encoder.embed(["everything that loads late is loaded before the folder goes"])
        encoder.prepared = {}  # this process embeds with it alone, until another comes
        _open.clear()
        _open[key] = encoder
    return _open[key]

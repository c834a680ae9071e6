"""How are texts embedded in shards, so that no kill and no lost machine costs more than one?

Distinct texts, in the order in which they first appear, are cut into shards of `TEXTS_A_SHARD`; each is
embedded by itself and is an artifact once finished. The cut does not depend on who embeds, so one machine
and many give the same rows to the bit (on like hardware), and either goes on where the other stopped.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.artifacts import ArtifactStore, load_array, save_array
from pairsieve.contracts import MapShards
from pairsieve.distributed.local import LocalShards
from pairsieve.models import CosineMatcher, Encoder, load_matcher
from pairsieve.models.cpu import CHOICE

TEXTS_A_SHARD = 1 << 15  # a few minutes on two cores, a second on a GPU; 50 MB of rows at 384 dimensions
SHARD = "embedding-shard"
Rows = NDArray[np.float32]


def embedded_rows(
    store: ArtifactStore,
    key: Mapping[str, Any],
    encoder: Encoder,
    texts: Sequence[str],
    side: str,
    shards: MapShards | None = None,
) -> Rows:
    """Unit rows (len(texts), d) of an encoder, read from disk as they are touched.

    `key` names the encoder and the texts. The artifact "embeddings" holds the rows; while it is made, each
    finished shard is an artifact of its own, removed once the whole stands.
    """
    mapper = LocalShards() if shards is None else shards
    place = store.get(
        "embeddings", key, lambda folder: _write(folder, store, key, encoder, texts, side, mapper)
    )
    for part in _shard_keys(key, len(texts)):
        shutil.rmtree(store.place(SHARD, part), ignore_errors=True)
    rows: Rows = load_array(place / "rows.npy", mmap=True)
    return rows


def _write(
    folder: Path,
    store: ArtifactStore,
    key: Mapping[str, Any],
    encoder: Encoder,
    texts: Sequence[str],
    side: str,
    shards: MapShards,
) -> None:
    """Finish every shard, then write the rows in the order of the texts."""
    places: dict[str, int] = {}
    at = np.fromiter((places.setdefault(text, len(places)) for text in texts), np.int64, count=len(texts))
    distinct = list(places)  # a repeated text is embedded once, so that copies have equal rows
    keys = _shard_keys(key, len(distinct))
    missing = [
        (number, distinct[number * TEXTS_A_SHARD : (number + 1) * TEXTS_A_SHARD])
        for number, part in enumerate(keys)
        if store.find(SHARD, part) is None
    ]
    made: dict[int, Rows] = {}
    for number, rows in _embedded(encoder, side, missing, shards):
        made[number] = rows if len(keys) == 1 else _kept(store, keys[number], rows)
    finished = [
        made[number] if number in made else load_array(store.place(SHARD, part) / "rows.npy", mmap=True)
        for number, part in enumerate(keys)
    ]
    if len(finished) <= 1:
        rows = finished[0] if finished else np.zeros((0, encoder.dimension), np.float32)
        save_array(folder / "rows.npy", rows[at])
    else:
        _write_in_order(folder / "rows.npy", finished, at)


def _kept(store: ArtifactStore, key: Mapping[str, Any], rows: Rows) -> Rows:
    """A finished shard on disk, where a later run finds it; read from there, so that memory stays free."""
    place = store.get(SHARD, key, lambda folder: save_array(folder / "rows.npy", rows))
    kept: Rows = load_array(place / "rows.npy", mmap=True)
    return kept


def _write_in_order(path: Path, finished: Sequence[Rows], at: NDArray[np.int64]) -> None:
    """One .npy of the distinct rows `at`, in pieces: plain writes, which say so where a disk is full."""
    width = finished[0].shape[1]
    about = {"descr": "<f4", "fortran_order": False, "shape": (len(at), width)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, about)
        for first in range(0, len(at), TEXTS_A_SHARD):
            shard, row = np.divmod(at[first : first + TEXTS_A_SHARD], TEXTS_A_SHARD)
            piece = np.empty((len(row), width), "<f4")
            for number in np.unique(shard):
                piece[shard == number] = finished[number][row[shard == number]]
            file.write(piece.tobytes())


def _shard_keys(key: Mapping[str, Any], texts: int) -> list[dict[str, Any]]:
    cut = {"texts_a_shard": TEXTS_A_SHARD}
    return [{**key, **cut, "shard": number} for number in range(-(-texts // TEXTS_A_SHARD))]


# ── what a worker does ──────────────────────────────────────────────────────────────────────────────


def _embedded(
    encoder: Encoder, side: str, pieces: Sequence[tuple[int, Sequence[str]]], shards: MapShards
) -> Iterator[tuple[int, Rows]]:
    if not pieces:
        return
    if isinstance(shards, LocalShards):
        with encoder.one_pass():
            yield from shards.map_texts(
                lambda model, texts: model.embed(texts, side), encoder, pieces, "embedding"
            )
        return
    gpu = shards.gpus > 0 and encoder.requested_device != "cpu"
    model = carried(encoder, "cuda" if gpu else "cpu")
    yield from shards.map_texts(
        lambda model, texts: opened(model).embed(texts, side), model, pieces, "embedding", gpu
    )


@dataclass(frozen=True)
class Carried:
    """An encoder as the files of its folder, for machines that share no disk with this one."""

    files: dict[str, NDArray[np.uint8]]
    sha256: str
    device: str
    backend: str  # of the CPU, where the environment names one: the same on every machine


def carried(encoder: Encoder, device: str) -> Carried:
    """The encoder's folder as `save` writes it: safetensors and JSON, prefixes and length included."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        CosineMatcher(encoder, encoder).save(folder)
        names = sorted(path for path in folder.rglob("*") if path.is_file())
        files = {path.relative_to(folder).as_posix(): np.fromfile(path, np.uint8) for path in names}
    digest = hashlib.sha256()
    for name, contents in files.items():
        digest.update(f"{name} {len(contents)}\n".encode() + contents.tobytes())
    return Carried(files, digest.hexdigest(), device, os.environ.get(CHOICE, ""))


_open: dict[tuple[str, str], Encoder] = {}  # the encoder this process embedded with last


def opened(model: Carried) -> Encoder:
    """The encoder of a carried folder, loaded once in a process."""
    key = model.sha256, model.device
    if model.backend:
        os.environ[CHOICE] = model.backend
    if key not in _open:
        with tempfile.TemporaryDirectory() as place:
            for name, contents in model.files.items():
                path = Path(place) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                contents.tofile(path)
            matcher = load_matcher(place, model.device)
            assert isinstance(matcher, CosineMatcher)
            matcher.embed(["everything that loads late is loaded before the folder goes"])
        matcher.left.prepared = {}  # this process embeds with it alone, until another comes
        _open.clear()
        _open[key] = matcher.left
    return _open[key]

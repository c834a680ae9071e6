"""A content-addressed store of what was computed: models, embeddings, lists, each named by what made it.

An artifact is a folder of files under `<store>/<kind>/<name>`, where the name is the sha256 of the caller's
key, a dict of JSON values that says everything the contents depend on, and of the format number of its kind:
raise that number in `FORMATS` when an algorithm or a file changes, and no older artifact is read.

It is built beside its place, listed in `manifest.json` with the size and sha256 of every file, forced to
disk, and renamed: it is there whole or not at all. On the way out sizes and checksums are compared; what is
incomplete or altered is moved aside and built again, never used.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import ArtifactError, nearest
from pairsieve.files import atomic_folder, load_json, locked

MANIFEST = "manifest.json"
BUILDING, BROKEN = ".building-", ".broken-"  # names of folders that are not artifacts (yet, any more)
# The format number of every kind of artifact. Raise it when what is computed under the same key changes.
FORMATS: dict[str, int] = {
    "nearest": 1,  # of each text, and its cosine
    "density": 1,  # of neighbours around each text
    "candidates": 5,  # of the re-ranker, with their log-odds
    "cross": 1,  # cross-encoders of experiments
    "dev": 1,  # average precision over all pairs of dev, with and without re-ranker
    "embedding-shard": 1,
    "embeddings": 2,
    "head": 1,  # weight and bias of a logistic regression
    "matches": 2,  # bands of a list of matches
    "model": 1,
    "nearby": 1,
    "out-of-fold": 1,
    "reranker": 11,
    "served-neighbours": 5,  # of the texts that a service holds, with candidates and lexical rows
    "selection": 4,  # the pairs that a round asks about
    "tokens": 2,
}
_log = logging.getLogger("pairsieve")
_under_way: set[str] = set()  # names of the folders this process is building, to tell them from stale ones


class ArtifactStore:
    """Artifacts in one folder, open to several processes at once: if two build the same, one result stays."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._checked: dict[Path, tuple[int, int, int]] = {}  # file -> stamp at its last good checksum
        self.folder.mkdir(parents=True, exist_ok=True)
        self._sweep()

    def place(self, kind: str, key: Mapping[str, Any]) -> Path:
        """Where the artifact stands if it is there; touches nothing."""
        return self.folder / kind / key_digest({"format": _format(kind), "key": key})[:32]

    def find(self, kind: str, key: Mapping[str, Any]) -> Path | None:
        """The artifact's folder if it is there whole, else None."""
        place = self.place(kind, key)
        return place if place.is_dir() and self._complaint(place, kind, key) is None else None

    def get(self, kind: str, key: Mapping[str, Any], build: Callable[[Path], None]) -> Path:
        """The folder of the artifact; `build(folder)` fills it where it is missing or no longer whole."""
        place = self.place(kind, key)
        self._drop_if_broken(place, kind, key)
        if not place.is_dir():
            self._build(place, kind, key, build)
        return place

    def arrays(
        self,
        kind: str,
        key: Mapping[str, Any],
        build: Callable[[], Mapping[str, NDArray[Any]]],
        mmap: bool = False,
    ) -> dict[str, NDArray[Any]]:
        """The arrays of the artifact by name; `build()` gives them where it is missing or no longer whole."""

        def write(folder: Path) -> None:
            for name, values in build().items():
                save_array(folder / f"{name}.npy", values)

        place = self.get(kind, key, write)
        return {file.stem: load_array(file, mmap) for file in sorted(place.glob("*.npy"))}

    def _build(self, place: Path, kind: str, key: Mapping[str, Any], build: Callable[[Path], None]) -> None:
        while not place.is_dir():
            name = f"{BUILDING}{place.name}-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
            _under_way.add(name)
            written, free = 0, 0
            try:
                with atomic_folder(place, beside=place.parent / name) as beside:
                    try:
                        build(beside)
                        _write_manifest(beside, kind, key)
                    finally:
                        written, free = _bytes_in(beside), shutil.disk_usage(beside.parent).free
            except Exception as error:
                if disk_is_full(error):
                    raise _disk_full(written, free, kind, place) from error
                if not isinstance(error, FileExistsError) or not place.is_dir():
                    raise
                # Another process was faster. Its work is as good as ours if it is whole; else we begin again.
                self._drop_if_broken(place, kind, key)
            finally:
                _under_way.discard(name)

    def _drop_if_broken(self, place: Path, kind: str, key: Mapping[str, Any]) -> None:
        if not place.is_dir() or self._complaint(place, kind, key) is None:
            return
        with locked(self.folder / ".lock"):
            # Looked at again under the lock: another process may have put a whole one here meanwhile.
            complaint = self._complaint(place, kind, key) if place.is_dir() else None
            if complaint is None:
                return
            _log.warning("%s: %s. It is not used; it is built again.", place, complaint)
            aside = place.parent / f"{BROKEN}{place.name}-{uuid.uuid4().hex[:8]}"
            place.rename(aside)  # away in one step, so that nobody reads what is being deleted
        shutil.rmtree(aside, ignore_errors=True)

    def _complaint(self, place: Path, kind: str, key: Mapping[str, Any]) -> str | None:
        """What is wrong with the artifact, in words; None where it is whole."""
        try:
            manifest = load_json(place / MANIFEST)
            listed = {name: (int(of["size"]), str(of["sha256"])) for name, of in manifest["files"].items()}
            made_by = (manifest["kind"], manifest["key"])
        except FileNotFoundError:
            return f"{MANIFEST} is missing"
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            return f"{MANIFEST} cannot be read ({error})"
        if made_by != (kind, json.loads(_canonical(key))):
            return f"{MANIFEST} names another key than the one asked for"
        present = {name for name in _files(place) if not Path(name).name.startswith(".")}
        for name in sorted(present - listed.keys()):
            return f"the file {name} does not belong to it"
        for name, (size, sha256) in sorted(listed.items()):
            file = place / name
            try:
                about = file.stat()
                if about.st_size != size:
                    return f"the file {name} has {about.st_size:,} bytes instead of {size:,}"
                stamp = (about.st_size, about.st_mtime_ns, about.st_ctime_ns)
                if self._checked.get(file) != stamp:
                    if file_digest(file) != sha256:
                        return f"the contents of the file {name} were altered"
                    self._checked[file] = stamp
            except FileNotFoundError:
                return f"the file {name} is missing"
            except OSError as error:
                return f"the file {name} cannot be read ({error.strerror})"
        return None

    def _sweep(self) -> None:
        """Delete what dead processes of this machine left half built, and what was moved aside."""
        for folder in self.folder.glob("*/.b*-*"):
            broken, building = folder.name.startswith(BROKEN), folder.name.startswith(BUILDING)
            if broken or (building and _is_stale(folder.name)):
                shutil.rmtree(folder, ignore_errors=True)


def key_digest(key: Mapping[str, Any]) -> str:
    """sha256 of a key, written as JSON with sorted names; the same on every machine."""
    return hashlib.sha256(_canonical(key).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """sha256 of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def labels_digest(ids: NDArray[np.int64], labels: NDArray[np.bool_]) -> str:
    """sha256 of labelled pairs, ids and labels (n,): names what models, figures and lists are made from."""
    return hashlib.sha256(ids.tobytes() + b"\0" + labels.tobytes()).hexdigest()


def array_digest(*arrays: NDArray[Any]) -> str:
    """sha256 of arrays: their types, shapes and values."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}\n".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write one array as .npy, without pickle; an array of Python objects is refused."""
    if array.dtype.hasobject:
        raise ArtifactError(f"{path}: an array of Python objects is not stored. Convert it to numbers first.")
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def load_array(path: Path, mmap: bool = False) -> NDArray[Any]:
    """Read one .npy array; with `mmap`, read-only from disk as it is touched."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        what = f"{path}: cannot be read as an array ({error})"
        raise ArtifactError(f"{what}. Delete it; it is computed again.") from None
    return array


def _format(kind: str) -> int:
    if kind not in FORMATS:
        what = f"no artifact is of kind {kind!r}"
        raise ValueError(f"{what}. {nearest(kind, FORMATS)}. A new kind needs a number.")
    return FORMATS[kind]


def _canonical(key: Mapping[str, Any]) -> str:
    try:
        return json.dumps(key, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"an artifact's key holds JSON values only: {error}") from None


def _files(folder: Path) -> Iterator[str]:
    """Every file below `folder` but the manifest, as a relative path with forward slashes."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if name != MANIFEST and (path.is_symlink() or not path.is_dir()):
            yield name


def _write_manifest(folder: Path, kind: str, key: Mapping[str, Any]) -> None:
    listed: dict[str, dict[str, Any]] = {}
    for name in sorted(_files(folder)):
        path = folder / name
        if path.is_symlink():
            raise ArtifactError(
                f"{kind}: the build left a link, {name}; an artifact holds plain files only. "
                "Write a copy of what it points to."
            )
        listed[name] = {"size": path.stat().st_size, "sha256": file_digest(path)}
    manifest = {"format": FORMATS[kind], "kind": kind, "key": dict(key), "files": listed}
    text = json.dumps(manifest, indent=1, sort_keys=True)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def _is_stale(name: str) -> bool:
    """Whether the process that was building here, on this machine, is gone."""
    rest = name.removeprefix(BUILDING).split("-", 1)[1]  # host-pid-random; a host's name may hold dashes
    host, pid, _ = rest.rsplit("-", 2)
    if host != socket.gethostname() or os.name == "nt":  # on Windows asking after a process would end it
        return False
    if int(pid) == os.getpid():
        return name not in _under_way
    try:
        os.kill(int(pid), 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False


def disk_is_full(error: BaseException | None) -> bool:
    """Whether a failed write says so, by number or, as numpy and safetensors do, only in words."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        words = str(error)
        if "No space left on device" in words or ("requested and" in words and "written" in words):
            return True
        error = error.__cause__ or error.__context__
    return False


def _bytes_in(folder: Path) -> int:
    return sum((folder / name).stat().st_size for name in _files(folder) if (folder / name).is_file())


def _disk_full(written: int, free: int, kind: str, place: Path) -> ArtifactError:
    return ArtifactError(
        f"{place}: the disk is full: {written / 2**20:,.1f} MiB of this artifact ({kind}) were written when "
        f"space ran out, and it needs more; {free / 2**20:,.1f} MiB were free beside them. "
        "Nothing half-written is kept. Free some space or move the folder to a larger disk, and run again."
    )

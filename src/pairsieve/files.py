"""Atomic writing of files and folders, reading within limits, records from JSON, checksums, locks on files.

What is written here appears whole or not at all: it is written beside its place, forced to disk, and renamed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from pairsieve.errors import InputError, PairsieveError

_T = TypeVar("_T")

MOST_JSON = 1 << 28  # bytes: the largest that we write ourselves are a hundredth of it
CHECKSUMS = "checksums.json"
TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.EACCES)  # what a folder says that another is to be renamed to


@contextmanager
def atomic_file(path: Path, private: bool = False) -> Iterator[Path]:
    """The name of a file to write, in the folder of `path`; it becomes `path` at the end, or is removed.

    private: only its owner may read it, from the first byte on.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = _beside(path)
    try:
        if private:
            beside.touch(mode=0o600)
        yield beside
        fsync(beside)
        beside.replace(path)
        fsync(path.parent)  # the new name itself is on disk only when the folder is
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, replace: bool = False, beside: Path | None = None) -> Iterator[Path]:
    """A new, empty folder beside `path` to fill; it becomes `path` at the end, or is removed.

    An empty folder at `path` makes way for it, and with `replace` any folder; it comes back if that fails.
    Any other is a FileExistsError, also one that another process put there meanwhile. beside: the name of the
    new folder until then, in the same one as `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = _beside(path) if beside is None else beside
    old = beside.with_name(f"{beside.name}.old")
    try:
        beside.mkdir()
        yield beside
        fsync_tree(beside)
        _install(beside, path, old, replace)
        fsync(path.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _install(beside: Path, path: Path, old: Path, replace: bool) -> None:
    """Rename a folder to `path`; one that is there is put aside as `old`, where it may be."""
    if replace and path.exists():
        path.rename(old)
    try:
        try:
            beside.rename(path)
        except OSError as error:
            if error.errno not in TAKEN or not path.is_dir():
                raise
            if any(path.iterdir()):
                raise FileExistsError(f"{path} exists and is not empty") from error
            path.rename(old)  # on Windows an empty folder does not make way by itself
            beside.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise


def write_bytes(path: Path, contents: bytes, private: bool = False) -> None:
    """Write a file, whole or not at all; `private`: for its owner alone."""
    with atomic_file(path, private) as beside:
        beside.write_bytes(contents)


def write_text(path: Path, text: str, private: bool = False) -> None:
    """Write a UTF-8 file, whole or not at all; line ends stay as they are. `private`: for its owner alone."""
    write_bytes(path, text.encode(), private)


def read_limited(path: Path, most: int) -> bytes:
    """A file's contents; a `ValueError`, in words, where it has more than `most` bytes."""
    with path.open("rb") as file:
        contents = file.read(most + 1)
    if len(contents) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return contents


def parse_json(text: str | bytes) -> Any:
    """A JSON value; a `ValueError` where it is none or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def load_json(path: Path, most: int = MOST_JSON) -> Any:
    """The JSON value in a UTF-8 file; a `ValueError` where it is none, too large or nested too deeply."""
    return parse_json(read_limited(path, most).decode())


def read_record(kind: type[_T], given: Mapping[str, Any]) -> _T:
    """The dataclass that `given` holds as JSON, with those in it; keys that are no fields are left out.

    Of a union, the first dataclass whose fields are all there. A `TypeError` where a field is missing.
    """
    hints = _type_hints(cast(Any, kind))
    return kind(**{name: _read_value(hints[name], given[name]) for name in hints if name in given})


@cache
def _type_hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _read_value(hint: Any, value: Any) -> Any:
    parts = get_args(hint)
    if isinstance(value, list):
        return tuple(_read_value(parts[0], each) for each in value)
    if not isinstance(value, Mapping):
        return value
    if get_origin(hint) is Mapping:
        return {parts[0](key): _read_value(parts[1], each) for key, each in value.items()}
    for kind in filter(is_dataclass, parts or (hint,)):
        if {each.name for each in fields(kind) if each.default is MISSING} <= value.keys():
            return read_record(cast(type[Any], kind), value)
    raise TypeError(f"{sorted(value)} are not the fields of {hint}")


def write_checksums(folder: Path) -> None:
    """List the SHA-256 of every file of a folder but its README.md, which people may edit."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in files}
    kept = {name: path for name, path in names.items() if name not in (CHECKSUMS, "README.md")}
    write_json(folder / CHECKSUMS, {name: _sha256(path) for name, path in kept.items()})


def check_checksums(folder: Path) -> None:
    """An error, in words, where a listed file is missing or altered; a folder without a list passes."""
    place = folder / CHECKSUMS
    if not place.is_file():
        return
    remedy = "Export the scorer again, or copy its folder again"
    try:
        listed = dict(load_json(place))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            "the checksums cannot be read", where=str(place), why=str(error), remedy=remedy
        ) from error
    for name, sha256 in listed.items():
        path = folder / name
        if not path.is_file() or _sha256(path) != sha256:
            what = "the file is not the one that was exported" if path.is_file() else "the file is missing"
            why = (
                f"its SHA-256 is not that of {CHECKSUMS}: it was edited or damaged" if path.is_file() else ""
            )
            raise InputError(what, where=str(path), why=why, remedy=remedy)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, whole or not at all."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


@contextmanager
def write_errors(what: str, path: Path | str, remedy: str = "") -> Iterator[None]:
    """Turn an OSError inside into an InputError: "`path`: `what` cannot be written", why, and the remedy."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{what} cannot be written", where=str(path), why=error.strerror or str(error), remedy=remedy
        ) from error


def fsync(path: Path) -> None:
    """Force a file or a folder's list of names to disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows has no handle on a folder to force
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_tree(folder: Path) -> None:
    """Force everything below a folder to disk, and the folder itself."""
    for path in folder.rglob("*"):
        if not path.is_symlink():
            fsync(path)
    fsync(folder)


def locked(path: Path, refusal: PairsieveError | None = None) -> TextIOWrapper:
    """The file `path`, open for reading and appending, under a lock that one process holds at a time.

    Closing the file gives the lock back, and so does the end of the process, however it ends. Where another
    holds it, `refusal` is raised; without one, this waits. On Windows the file is opened without a lock.
    """
    file = path.open("a+", encoding="utf-8")
    if sys.platform == "win32":
        return file
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if refusal else 0))
    except OSError:
        file.close()
        if refusal is None:
            raise
        raise refusal from None
    return file


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.unfinished")

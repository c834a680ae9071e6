"""Where does a table lie: on this disk, or in an object store? One way to open either, by path or URL.

A URL is anything with a scheme (`s3://bucket/texts.parquet`, `gs://…`, `https://…`, `memory://…`), opened
through fsspec, which needs the store's own package (`s3fs` for S3, `gcsfs` for Google's). Everything else is
a path. What is written appears whole or not at all.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pairsieve.errors import InputError, MissingExtra

# Path("s3://bucket/key") has lost a slash by the time it comes here; a drive letter is no scheme.
_URL = re.compile(r"^([a-z][a-z0-9+.-]+):/+(.*)$", re.DOTALL)
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs", "http": "aiohttp"}


def is_url(place: str | Path) -> bool:
    """Whether a place is named by a URL, not by a path."""
    return _URL.match(str(place)) is not None


@contextmanager
def open_place(place: str | Path, mode: str = "rb") -> Iterator[IO[bytes]]:
    """A path or URL, open for reading ("rb") or writing ("wb"); written whole or not at all.

    A missing file raises FileNotFoundError, as `Path.open` does.
    """
    if mode not in ("rb", "wb"):
        raise ValueError(f"mode {mode!r}: a place is read (rb) or written (wb)")
    found = _URL.match(str(place))
    if found is None or found.group(1) in ("file", "local"):
        with _open_path(Path(place) if found is None else Path("/" + found.group(2)), mode) as file:
            yield file
        return
    system, inside = _store(*found.groups())
    if mode == "rb":
        with system.open(inside, "rb") as file:
            yield file
        return
    with system.transaction, system.open(inside, "wb") as file:  # an error inside discards what was written
        yield file


@contextmanager
def written(place: str | Path) -> Iterator[Path]:
    """A local file to fill, which becomes `place` at the end: renamed on this disk, uploaded to a store."""
    found = _URL.match(str(place))
    if found is None or found.group(1) in ("file", "local"):
        path = Path(place) if found is None else Path("/" + found.group(2))
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.unfinished")
        try:
            yield unfinished
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        filled = Path(folder) / Path(found.group(2)).name
        yield filled
        with filled.open("rb") as source, open_place(place, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)


@contextmanager
def _open_path(path: Path, mode: str) -> Iterator[IO[bytes]]:
    if mode == "rb":
        with path.open("rb") as file:
            yield file
        return
    with written(path) as unfinished, unfinished.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _store(scheme: str, rest: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    import fsspec

    url = f"{scheme}://{rest}"
    try:
        system, inside = fsspec.core.url_to_fs(url)
    except ImportError as error:
        package = _PACKAGES.get(scheme, "")
        if not package:
            raise InputError(
                f"{scheme}:// cannot be opened", where=url, why=str(error), remedy="Install what it names"
            ) from error
        raise MissingExtra(package, f"Reading and writing {scheme}://", f"pip install {package}") from error
    except ValueError as error:
        raise InputError(
            f"{scheme!r} is no kind of place that fsspec knows",
            where=url,
            why=str(error),
            remedy="Give a path, or a URL such as s3://bucket/texts.parquet",
        ) from error
    return system, str(inside)

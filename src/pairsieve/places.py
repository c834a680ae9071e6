"""Files opened by path or URL: on this disk, or in an object store through fsspec.

A URL is anything with a scheme (`s3://bucket/texts.parquet`, `gs://…`, `https://…`, `memory://…`), opened
through fsspec, which needs the store's own package (`s3fs` for S3, `gcsfs` for Google's). Everything else is
a path. What is written appears whole or not at all.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

from pairsieve.errors import InputError, MissingExtra
from pairsieve.files import atomic_file

# Path("s3://bucket/key") has lost a slash by the time it comes here; a drive letter is no scheme.
_URL = re.compile(r"^([a-z][a-z0-9+.-]+):/+(.*)$", re.DOTALL)
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs", "http": "aiohttp"}


@contextmanager
def open_place(place: str | Path, mode: str = "rb") -> Iterator[IO[bytes]]:
    """A path or URL, open for reading ("rb") or writing ("wb"); written whole or not at all.

    A missing file raises FileNotFoundError, as `Path.open` does.
    """
    if mode not in ("rb", "wb"):
        raise ValueError(f"mode {mode!r}: a place is read (rb) or written (wb)")
    path = _local(place)
    if path is None:
        system, inside = _store(str(place))
        # An error inside a transaction discards what was written.
        with system.transaction if mode == "wb" else nullcontext(), system.open(inside, mode) as file:
            yield file
    elif mode == "rb":
        with path.open("rb") as file:
            yield file
    else:
        with written(path) as unfinished, unfinished.open("wb") as file:
            yield file


@contextmanager
def written(place: str | Path) -> Iterator[Path]:
    """A local file to fill, which becomes `place` at the end: renamed on this disk, uploaded to a store."""
    path = _local(place)
    if path is not None:
        with atomic_file(path) as unfinished:
            yield unfinished
        return
    with tempfile.TemporaryDirectory() as folder:
        filled = Path(folder) / Path(place).name
        yield filled
        with filled.open("rb") as source, open_place(place, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)


def _local(place: str | Path) -> Path | None:
    """The path on this disk; None where the place is in a store."""
    found = _URL.match(str(place))
    if found is None:
        return Path(place)
    return Path("/" + found.group(2)) if found.group(1) in ("file", "local") else None


def _store(place: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    import fsspec

    scheme, rest = _URL.findall(place)[0]
    url = f"{scheme}://{rest}"
    try:
        system, inside = fsspec.core.url_to_fs(url)
    except ImportError as error:
        package = _PACKAGES.get(scheme, "")
        if not package:
            what, remedy = f"{scheme}:// cannot be opened", "Install what it names"
            raise InputError(what, where=url, why=str(error), remedy=remedy) from error
        raise MissingExtra(package, f"Reading and writing {scheme}://", f"pip install {package}") from error
    except ValueError as error:
        what = f"{scheme!r} is no kind of place that fsspec knows"
        remedy = "Give a path, or a URL such as s3://bucket/texts.parquet"
        raise InputError(what, where=url, why=str(error), remedy=remedy) from error
    return system, str(inside)

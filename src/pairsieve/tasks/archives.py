"""What bytes does a file hold, once unpacked? Plain, .gz, .bz2, .xz and .zip, told apart by content."""

from __future__ import annotations

import bz2
import difflib
import gzip
import hashlib
import io
import lzma
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pairsieve.errors import InputError
from pairsieve.places import open_place

TABLE_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".jsonl", ".ndjson", ".parquet", ".pq")
_SUFFIX_OF_ARCHIVE = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zip": "zip"}
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"PK\x03\x04": "zip"}
_TORN = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, ValueError)


@dataclass(frozen=True)
class Unpacked:
    """A file's contents, the suffix that says what they are, and the sha256 of the file as it lies there."""

    path: Path
    contents: bytes
    suffix: str
    sha256: str


def unpack(path: Path) -> Unpacked:
    """Read a file whole, unpacked; an empty, missing or torn one is an error in words."""
    packed = _read_bytes(path)
    if not packed:
        raise InputError("the file is empty", where=str(path), remedy="Give a file with a header and rows")
    stated = _SUFFIX_OF_ARCHIVE.get(path.suffix.lower())
    kind = next((kind for magic, kind in _MAGIC.items() if packed.startswith(magic)), None)
    suffix = (Path(path.stem) if stated else path).suffix.lower()
    if stated is not None and kind != stated:
        raise InputError(
            f"the name says {stated}, but the contents are not a {stated} archive",
            where=str(path),
            why=f"it starts with the bytes {packed[:4].hex(' ')}",
            remedy="Rename the file after what it is, or download it again",
        )
    contents = packed
    if kind is not None and (stated or suffix in TABLE_SUFFIXES):  # an .xlsx is a zip too: leave it whole
        try:
            if kind == "zip":
                contents, suffix = _unzip(path, packed)
            else:
                contents = {"gzip": gzip, "bzip2": bz2, "xz": lzma}[kind].decompress(packed)
        except _TORN as error:
            raise InputError(
                f"the {kind} archive is truncated or damaged",
                where=str(path),
                why=str(error),
                remedy="Download or copy the file again and compare its size",
            ) from error
        if not contents:
            raise InputError("the archive holds an empty file", where=str(path), remedy="Pack it again")
    return Unpacked(path, contents, suffix, hashlib.sha256(packed).hexdigest())


def _read_bytes(path: Path) -> bytes:
    try:
        with open_place(path) as file:
            return file.read()
    except FileNotFoundError as error:
        beside = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, beside, n=1)
        raise InputError(
            "there is no such file",
            where=str(path),
            remedy=f"Did you mean {close[0]!r}?" if close else "Check the path",
        ) from error
    except IsADirectoryError as error:
        raise InputError(
            "this is a folder, not a file", where=str(path), remedy="Name the file in it"
        ) from error
    except OSError as error:
        raise InputError(
            "the file cannot be read", where=str(path), why=str(error), remedy="Check its permissions"
        ) from error


def _unzip(path: Path, packed: bytes) -> tuple[bytes, str]:
    """The one table in a zip archive, and its suffix."""
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        members = [
            member
            for member in archive.infolist()
            if PurePosixPath(member.filename).suffix.lower() in TABLE_SUFFIXES
            and not member.filename.startswith("__MACOSX/")
        ]
        if len(members) != 1:
            names = ", ".join(member.filename for member in (members or archive.infolist())[:5]) or "nothing"
            raise InputError(
                f"the zip archive holds {len(members)} tables, not one",
                where=str(path),
                why=f"found: {names}",
                remedy="Unpack the archive and name the file",
            )
        if members[0].flag_bits & 1:
            raise InputError(
                "the zip archive is encrypted", where=str(path), remedy="Unpack it with its password first"
            )
        return archive.read(members[0]), PurePosixPath(members[0].filename).suffix.lower()

"""Decompression of input files: plain, .gz, .bz2, .xz and .zip, recognised by content."""

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
from typing import IO, Any

from pairsieve.errors import InputError
from pairsieve.places import open_place
from pairsieve.tables import LARGE, MOST_RATIO

TABLE_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".jsonl", ".ndjson", ".parquet", ".pq")
_SUFFIX_OF_ARCHIVE = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zip": "zip"}
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"PK\x03\x04": "zip"}
MOST_UNPACKED = 1 << 33
_TORN = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, ValueError)


@dataclass(frozen=True)
class Unpacked:
    """A file's contents, the suffix that says what they are, and the sha256 of the file as it lies there."""

    path: Path
    contents: bytes
    suffix: str
    sha256: str

    def error(self, what: str, row: int | None = None, why: str = "", remedy: str = "") -> InputError:
        """An error that names the file and, where one is given, the row."""
        where = str(self.path) if row is None else f"{self.path}, row {row}"
        return InputError(what, where=where, why=why, remedy=remedy)


def check_folder(folder: Path, remedy: str) -> None:
    """An error where there is no folder of this name."""
    if not folder.is_dir():
        what = "there is no such folder" if not folder.exists() else "this is a file, not a folder"
        raise InputError(what, where=str(folder), remedy=remedy)


def unpacked_suffix(path: Path) -> str:
    """The suffix of a file without that of an archive: .csv of table.csv.gz."""
    return (Path(path.stem) if path.suffix.lower() in _SUFFIX_OF_ARCHIVE else path).suffix.lower()


def unpack(path: Path) -> Unpacked:
    """Read a file whole, unpacked; an empty, missing or incomplete one is an error in words."""
    packed = _read_bytes(path)
    if not packed:
        raise InputError("the file is empty", where=str(path), remedy="Give a file with a header and rows")
    stated, suffix = _SUFFIX_OF_ARCHIVE.get(path.suffix.lower()), unpacked_suffix(path)
    kind = next((kind for magic, kind in _MAGIC.items() if packed.startswith(magic)), None)
    if stated is not None and kind != stated:
        what = f"the name says {stated}, but the contents are not a {stated} archive"
        why = f"it starts with the bytes {packed[:4].hex(' ')}"
        remedy = "Rename the file after what it is, or download it again"
        raise InputError(what, where=str(path), why=why, remedy=remedy)
    contents = packed
    if kind is not None and (stated or suffix in TABLE_SUFFIXES):  # an .xlsx is a zip too: leave it whole
        try:
            if kind == "zip":
                contents, suffix = _unzip(path, packed)
            else:
                files: dict[str, Any] = {"gzip": gzip.GzipFile, "bzip2": bz2.BZ2File, "xz": lzma.LZMAFile}
                source = {"fileobj" if kind == "gzip" else "filename": io.BytesIO(packed)}
                with files[kind](**source) as stream:
                    contents = read_unpacked(path, stream, len(packed))
        except _TORN as error:
            what = f"the {kind} archive is truncated or damaged"
            remedy = "Download or copy the file again and compare its size"
            raise InputError(what, where=str(path), why=str(error), remedy=remedy) from error
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
        remedy = f"Did you mean {close[0]!r}?" if close else "Check the path"
        raise InputError("there is no such file", where=str(path), remedy=remedy) from error
    except IsADirectoryError as error:
        remedy = "Name the file in it"
        raise InputError("this is a folder, not a file", where=str(path), remedy=remedy) from error
    except OSError as error:
        what, remedy = "the file cannot be read", "Check its permissions"
        raise InputError(what, where=str(path), why=str(error), remedy=remedy) from error


def _unzip(path: Path, packed: bytes) -> tuple[bytes, str]:
    """The one table in a zip archive, and its suffix."""
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        ours = [each for each in archive.infolist() if not each.filename.startswith("__MACOSX/")]
        members = [each for each in ours if PurePosixPath(each.filename).suffix.lower() in TABLE_SUFFIXES]
        if len(members) != 1:
            names = ", ".join(member.filename for member in (members or archive.infolist())[:5]) or "nothing"
            what, remedy = (
                f"the zip archive holds {len(members)} tables, not one",
                "Unpack it and name the file",
            )
            raise InputError(what, where=str(path), why=f"found: {names}", remedy=remedy)
        if members[0].flag_bits & 1:
            remedy = "Unpack it with its password first"
            raise InputError("the zip archive is encrypted", where=str(path), remedy=remedy)
        with archive.open(members[0]) as stream:
            contents = read_unpacked(path, stream, members[0].compress_size)
        return contents, PurePosixPath(members[0].filename).suffix.lower()


def read_unpacked(path: Path, stream: IO[bytes], packed: int, held: int = 0) -> bytes:
    """What a stream of a file of `packed` bytes unpacks to; refused where it grows as no table does.

    held: bytes that other streams of the file unpacked to.
    """
    most = min(MOST_UNPACKED, max(LARGE, MOST_RATIO * packed))
    contents = bytearray()
    while piece := stream.read(1 << 20):
        contents += piece
        if held + len(contents) > most:
            raise InputError(
                f"the archive of {packed:,} bytes unpacks to more than {most:,}",
                where=str(path),
                why=f"a table shrinks by less than {MOST_RATIO} times",
                remedy="Unpack it yourself if it is what you expect, and give the unpacked file",
            )
    return bytes(contents)

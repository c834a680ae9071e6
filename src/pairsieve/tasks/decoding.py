"""Decoding of text files: the encoding asked for, or an error that names the row and the likely one."""

from __future__ import annotations

import codecs
import csv
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pairsieve.errors import InputError
from pairsieve.tasks.archives import Unpacked


def decode(file: Unpacked, encoding: str | None, guess: bool) -> tuple[str, str]:
    """The text without a byte-order mark, and the encoding used."""
    contents = file.contents
    if not (encoding or "").lower().startswith(("utf-16", "utf_16", "utf-32", "utf_32")):
        contents = contents.removeprefix(codecs.BOM_UTF8)
    tried = encoding or "utf-8"
    if guess and encoding is None and contents.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        tried = "utf-16"  # a mark leaves no doubt
    try:
        codecs.lookup(tried)
        text = contents.decode(tried)
    except LookupError as error:
        what = f"there is no encoding called {tried!r}"
        remedy = "Common ones are utf-8, cp1252, latin-1, utf-16, gb18030, shift_jis"
        raise InputError(what, where="`encoding`", remedy=remedy) from error
    except UnicodeDecodeError as error:
        likely = _likely_encoding(contents)
        if guess and encoding is None and likely in ("cp1252", "latin-1"):
            return contents.decode(likely), likely
        offset = error.start
        row = _row_at(contents[:offset].decode(tried, errors="replace"), file.suffix)
        raise file.error(
            f"the text is not {tried}",
            row,
            why=f"byte 0x{contents[offset]:02x} at offset {offset:,} does not fit; it looks like {likely}",
            remedy=f"Pass `encoding={likely!r}`, or save the file as UTF-8",
        ) from error
    if "\x00" in text[:1000]:
        raise _zero_bytes(file, text, tried)
    return text, tried


def _zero_bytes(file: Unpacked, text: str, tried: str) -> InputError:
    """The error of a text with zeros: UTF-16 has them at every other place, a damaged file here and there."""
    even, odd = (text[start:1000:2].count("\x00") for start in (0, 1))
    most, least = max(even, odd), min(even, odd)
    many = most >= max(4, len(text[:1000]) // 40) and least <= most // 10
    if many and not tried.lower().startswith(("utf-16", "utf_16", "utf-32", "utf_32")):
        likely, other = ("utf-16-le", "utf-16-be")[:: 1 if odd > even else -1]
        return file.error(
            f"the text holds zero bytes when read as {tried}",
            why="that is how UTF-16 looks",
            remedy=f"Pass `encoding={likely!r}` (or {other}), or save the file as UTF-8",
        )
    line = text.count("\n", 0, text.index("\x00")) + 1
    what, why = f"line {line:,} holds a zero byte", "a text has none; the file may be damaged"
    return file.error(what, why=why, remedy="Remove the byte from the line, or copy the file again")


def _likely_encoding(contents: bytes) -> str:
    """A guess for bytes that are not UTF-8: marks first, then how much of it lies outside ASCII."""
    if contents.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    sample = contents[: 1 << 20]
    high = sum(1 for byte in sample if byte >= 0x80)
    candidates = ["cp1252"]
    if high > len(sample) / 4:  # not a Latin script: about half of its bytes lie above ASCII
        candidates = ["shift_jis", "gb18030", "cp1251", "cp1252"]
    elif not any(0x80 <= byte < 0xA0 for byte in sample):
        return "latin-1"  # both read such bytes alike
    for candidate in candidates:
        try:
            contents.decode(candidate)
        except UnicodeDecodeError:
            continue
        return candidate
    return "latin-1"


def _row_at(before: str, suffix: str) -> int:
    """Number of the row in which a text of this length ends."""
    if suffix in (".jsonl", ".ndjson"):
        return before.count("\n") + 1
    with any_field_size():
        rows = sum(1 for _ in csv.reader(io.StringIO(before, newline="")))
    return max(rows, 1) if not before.endswith(("\n", "\r")) else rows + 1


@contextmanager
def any_field_size() -> Iterator[None]:
    """Let csv read fields of any length; its limit is global, so it is put back."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)

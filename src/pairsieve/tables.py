"""Tables written and read in pieces, as CSV, TSV, JSON Lines, Parquet or Excel, by path or URL.

A table's columns are a mapping from name to Arrow type ("string", "int64", "float32", …), in order. None is
an empty cell in CSV and TSV, and null elsewhere. A table appears whole or not at all.

A spreadsheet runs a text that begins as a formula does. In CSV and TSV such a text has an apostrophe before
it, which reading here takes away again; the other formats hold texts as they are. A number with its sign,
such as -33,9 or +44 20 7946, runs nothing and stays as it is.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pairsieve.errors import InputError, MissingExtra
from pairsieve.places import written

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SUFFIXES = (".parquet", ".csv", ".tsv", ".jsonl", ".xlsx")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
# What begins a formula, also behind apostrophes: every such text gets one more, so that reading is certain.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+\-][0-9 \u00a0\u202f.,()]*")  # a sign and no operator after it
MOST_SHEET_ROWS, MOST_SHEET_LETTERS = 1_048_576, 32_767  # of Excel: rows of a sheet, letters of a cell
_ROWS = 10_000  # rows in memory at a time where they come one by one
LARGE = 1 << 28  # bytes that any packed file may unpack to
MOST_RATIO = 100  # beyond that: how many times its size


def table_suffix(path: Path, where: str = "") -> str:
    """The suffix of a table's file in lower case; an error names `where` (the path) unless it is known."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"unknown kind of file: {path.name}",
            where=where or str(path),
            remedy=f"Let it end in {', '.join(SUFFIXES)}",
        )
    return suffix


@contextmanager
def table_writer(
    path: Path, types: Mapping[str, str], *, suffix: str | None = None, encoding: str = "utf-8"
) -> Iterator[Callable[[Mapping[str, Sequence[Any]]], None]]:
    """A function that takes columns of equal length, piece by piece; `suffix` overrides that of `path`."""
    suffix = suffix or table_suffix(path)
    with written(path) as unfinished:
        if suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in types.items()])
            with pq.ParquetWriter(unfinished, schema, compression="zstd") as parquet:
                yield lambda columns: parquet.write_table(pa.table(dict(columns), schema=schema))
            return
        if suffix == ".xlsx":
            with _sheet_writer(unfinished, types) as append:
                yield append
            return
        with unfinished.open("w", encoding=encoding, newline="") as file:
            if suffix == ".jsonl":

                def write(columns: Mapping[str, Sequence[Any]]) -> None:
                    for row in zip(*(columns[name] for name in types), strict=True):
                        file.write(json.dumps(dict(zip(types, row)), ensure_ascii=False) + "\n")

                yield write
            else:
                table = csv.writer(_UnixLines(file), delimiter=_DELIMITERS[suffix], lineterminator="\r\n")
                table.writerow(map(spreadsheet_safe, types))

                def write_safely(columns: Mapping[str, Sequence[Any]]) -> None:
                    cells = (
                        map(spreadsheet_safe, columns[name]) if kind == "string" else columns[name]
                        for name, kind in types.items()
                    )
                    table.writerows(zip(*cells, strict=True))

                yield write_safely


@contextmanager
def _sheet_writer(
    path: Path, types: Mapping[str, str]
) -> Iterator[Callable[[Mapping[str, Sequence[Any]]], None]]:
    """A function that appends rows to the one sheet of an Excel file.

    A text is never taken for a formula. A carriage return becomes a line feed, as XML has it.
    """
    try:
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    except ModuleNotFoundError:
        raise MissingExtra("openpyxl", "Writing Excel files", "pip install 'pairsieve[excel]'") from None
    book = Workbook(write_only=True)
    sheet = book.create_sheet("pairsieve")
    count = 1

    def cell(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        text_cell = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("\ufffd", value)[:MOST_SHEET_LETTERS])
        text_cell.data_type = "s"
        return text_cell

    def append(columns: Mapping[str, Sequence[Any]]) -> None:
        nonlocal count
        for row in zip(*(columns[name] for name in types), strict=True):
            count += 1
            if count > MOST_SHEET_ROWS:
                why = f"a sheet holds {MOST_SHEET_ROWS:,} rows"
                raise InputError("the list is too long for Excel", why=why, remedy="Write .csv or .parquet")
            sheet.append([cell(value) for value in row])

    try:
        sheet.append([cell(name) for name in types])
        yield append
        book.save(path)
    finally:
        with suppress(Exception):  # what is left open would complain later, without a place
            sheet.close()


def write_table(
    path: Path, types: Mapping[str, str], columns: Mapping[str, Sequence[Any]], *, suffix: str | None = None
) -> None:
    """Write a table that is in memory whole."""
    with table_writer(path, types, suffix=suffix) as write:
        write(columns)


def write_rows(
    path: Path,
    types: Mapping[str, str],
    rows: Iterable[Mapping[str, Any]],
    *,
    suffix: str | None = None,
    encoding: str = "utf-8",
) -> int:
    """Write rows as they come, a few thousand in memory at a time; returns how many there were."""
    count, rows = 0, iter(rows)
    with table_writer(path, types, suffix=suffix, encoding=encoding) as write:
        while piece := list(itertools.islice(rows, _ROWS)):
            write({name: [row[name] for row in piece] for name in types})
            count += len(piece)
    return count


def read_rows(path: Path, types: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The rows of a table that was written here, as a stream; columns not in `types` are strings."""
    suffix = table_suffix(path)
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as parquet:
            for batch in parquet.iter_batches(_ROWS):
                yield from batch.to_pylist()
        return
    if suffix == ".xlsx":
        yield from _sheet_rows(path)
        return
    with path.open(encoding="utf-8", newline="") as file:
        if suffix == ".jsonl":
            yield from map(json.loads, file)
            return
        rows = csv.reader(file, delimiter=_DELIMITERS[suffix])
        names = list(map(from_spreadsheet, next(rows, [])))
        for row in (dict(zip(names, cells)) for cells in rows if cells):
            yield {name: _typed(cell, types.get(name, "string")) for name, cell in row.items()}


def read_columns(
    file: pq.ParquetFile, columns: Sequence[str], packed: int, where: Path, held: int = 0
) -> pa.Table:
    """Columns of an open Parquet file; refused where they unpack to far more than its `packed` bytes.

    A value that repeats is stored once, so a few kilobytes can claim more than any memory. held: bytes of
    the file's columns that were read before.
    """
    import pyarrow as pa

    most, batches = max(LARGE, MOST_RATIO * packed), []
    for batch in file.iter_batches(_ROWS, columns=list(columns)):
        held += batch.nbytes
        if held > most:
            raise InputError(
                f"the file of {packed:,} bytes unpacks to more than {most:,}",
                where=str(where),
                why=f"a table shrinks by less than {MOST_RATIO} times",
                remedy="Write it as CSV if it is what you expect, and give that",
            )
        batches.append(batch)
    empty = pa.schema([each for each in file.schema_arrow if each.name in columns])
    return pa.Table.from_batches(batches, schema=batches[0].schema if batches else empty)


def _sheet_rows(path: Path) -> Iterator[dict[str, Any]]:
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True)
    rows = book.worksheets[0].iter_rows(values_only=True)
    names = next(rows)
    for row in rows:
        yield dict(zip(names, [*row, *[None] * (len(names) - len(row))]))
    book.close()


class _UnixLines:
    """Ends the rows of a CSV writer with a line feed alone.

    The writer must not know: it quotes a carriage return inside a cell only where its rows end in one.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, row: str) -> None:
        self._file.write(row.removesuffix("\r\n") + "\n")


def spreadsheet_safe(cell: Any) -> Any:
    """A text that a spreadsheet shows and never runs; others stay as they are."""
    if not isinstance(cell, str) or not _FORMULA.match(cell) or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def from_spreadsheet(cell: str) -> str:
    """The text that `spreadsheet_safe` was given."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _typed(cell: str, kind: str) -> Any:
    if kind == "string":
        return from_spreadsheet(cell)
    if cell == "":
        return None
    if kind == "bool":
        return cell == "True"
    return float(cell) if kind.startswith("float") else int(cell)

"""Reader of CSV, TSV, JSON Lines, Parquet and Excel tables, with errors that name the row.

Rows are numbered as a spreadsheet shows them: the header of a delimited file is row 1, its first record
row 2. In JSON Lines the row is the line; in Parquet the first record is row 1.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pairsieve.errors import InputError, nearest
from pairsieve.files import parse_json
from pairsieve.tables import read_columns
from pairsieve.tasks.archives import TABLE_SUFFIXES, Unpacked, unpack
from pairsieve.tasks.decoding import any_field_size, decode
from pairsieve.tasks.label_words import ACCEPTED_LABELS, LABEL_WORDS, plain_label
from pairsieve.tasks.spreadsheets import SHEET_SUFFIXES, read_sheet

DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "pipe"}
_HALF = re.compile("[\ud800-\udfff]")
_QUOTED = re.compile(r'"[^"]*"')
_NOTE = re.compile(r"#\w+=[^\n]*\n")
_BY_SUFFIX = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_ONE_OBJECT = 'Write one object per line, as {"id": 1, "text": "…"}'


@dataclass(frozen=True)
class Table:
    """A table read whole: `values(column)` are its cells, `numbers[i]` the number of row i for a person."""

    path: Path
    names: tuple[str, ...]
    numbers: Sequence[int]
    encoding: str  # "" where the format has its own
    delimiter: str  # "" where the format has none
    sha256: str
    cells: Callable[[int], Sequence[Any]]  # by position of the column
    as_texts: bool = False  # cells are texts, as they are in delimited files
    key: str | None = None  # the column that the source itself calls its keys: the index of a frame

    def __post_init__(self) -> None:
        if (half := next(filter(_HALF.search, self.names), None)) is not None:
            what = f"the column name {half!r} holds half a surrogate pair, which is no character"
            raise InputError(what, where=str(self.path), remedy="Rename the column")

    def __len__(self) -> int:
        return len(self.numbers)

    def where(self, row: int | None = None, column: str = "") -> str:
        """The place of a cell in words: file, row, column."""
        place = str(self.path)
        if row is not None:
            place += f", row {self.numbers[row]}"
        return place + (f", column {column!r}" if column else "")

    def error(
        self, what: str, row: int | None = None, column: str = "", why: str = "", remedy: str = ""
    ) -> InputError:
        """An error that names the place of a cell."""
        return InputError(what, where=self.where(row, column), why=why, remedy=remedy)

    def values(self, column: str, option: str = "") -> Sequence[Any]:
        """The cells of a column: strings in delimited files, typed values in JSON Lines and Parquet."""
        found = [position for position, name in enumerate(self.names) if name == column]
        if len(found) == 1:
            return self.cells(found[0])
        if found:
            what = f"{len(found)} columns are called {column!r}"
            raise self.error(what, remedy="Rename them in the header")
        other = _delimiter_that_shows(column, self)
        raise self.error(
            f"there is no column {column!r}" + (f" ({option})" if option else ""),
            why=f"the header looks {DELIMITERS[other]}-separated" if other else "",
            remedy=f"Pass `delimiter={DELIMITERS[other]!r}`" if other else nearest(column, self.names),
        )

    def strings(self, column: str, option: str = "") -> list[str]:
        """The cells of a column as text; empty cells and nulls become ""."""
        cells = self.values(column, option)
        return list(cells) if self.delimiter or self.as_texts else self._as_texts(cells, column)

    def strings_at(self, position: int) -> list[str]:
        """The same of the column at a position, whatever it is called."""
        cells = self.cells(position)
        return list(cells) if self.delimiter or self.as_texts else self._as_texts(cells, self.names[position])

    def _as_texts(self, cells: Sequence[Any], column: str) -> list[str]:
        texts = [_as_text(cell, self, row, column) for row, cell in enumerate(cells)]
        if (half := _HALF.search("".join(texts))) is not None:
            row = next(row for row, text in enumerate(texts) if half.group() in text)
            what = "the text holds half a surrogate pair, which is no character"
            remedy = "Write the text as UTF-8 without \\ud800–\\udfff escapes on their own"
            raise self.error(what, row, column, remedy=remedy)
        return texts

    def provenance(self) -> dict[str, Any]:
        """What a task notes of this file: name, sha256, rows, and how it was decoded."""
        noted: dict[str, Any] = {
            "name": self.path.name.partition("?")[0],
            "sha256": self.sha256,
            "rows": len(self),
        }
        return noted | ({"encoding": self.encoding} if self.encoding else {})


def read_table(
    path: Path,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    quotes: bool = True,
    header: bool | None = None,
    sheet: str | None = None,
    lenient: bool = False,
    pairs: bool = False,
) -> Table:
    """Read a table. Where no delimiter is given, the header tells it.

    lenient: for files whose column names are known beforehand; the encoding is read from the bytes, where
    otherwise all but UTF-8 is an error. header: False where the first row is a record; columns are then
    called "column 1", "column 2", …; None refuses a first row that looks like one. sheet: of a spreadsheet.
    pairs: a single row will do: it may be a pair.
    """
    file = unpack(Path(path))
    known = file.suffix in (*TABLE_SUFFIXES, *SHEET_SUFFIXES)
    if not known and delimiter is None and not _is_parquet(file):
        raise file.error(
            f"cannot tell what kind of table a {file.suffix or 'suffix-less'} file is",
            why=f"known suffixes: {', '.join(TABLE_SUFFIXES)}, each also packed as .gz, .bz2, .xz or .zip; "
            f"spreadsheets: {', '.join(SHEET_SUFFIXES)}",
            remedy="Save it as one of these, or pass `delimiter`",
        )
    table = parse_table(file, encoding, delimiter, quotes, lenient, sniff=True, header=header, sheet=sheet)
    if header is None and not lenient:
        _check_header(table)
    if len(table) == 0 and not (pairs and table.delimiter):
        raise file.error("the table has columns but no rows", remedy="Give a table with at least one row")
    return table


def parse_table(
    file: Unpacked,
    encoding: str | None = None,
    delimiter: str | None = None,
    quotes: bool = True,
    lenient: bool = False,
    sniff: bool = False,
    header: bool | None = None,
    sheet: str | None = None,
) -> Table:
    """The table in an unpacked file; `sniff`: where no delimiter is given, the header tells it."""
    if file.suffix in SHEET_SUFFIXES:
        return _sheet_table(file, sheet, header)
    if _is_parquet(file):
        return _read_parquet(file)
    text, used = decode(file, encoding, guess=lenient)
    if file.suffix in (".jsonl", ".ndjson"):
        return _read_json_lines(file, text, used)
    mark = read_delimiter(delimiter) if delimiter is not None else None
    return _read_delimited(file, text, used, mark, quotes, lenient, sniff, header is not False)


def _is_parquet(file: Unpacked) -> bool:
    return file.suffix in (".parquet", ".pq") or file.contents.startswith(b"PAR1")


def read_labels(table: Table, column: str, words: bool = False) -> list[bool | None]:
    """A column of labels, each 0 or 1; with `words` as people write them too, None for unsure and empty."""
    meaning = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}
    labels: list[bool | None] = []
    for row, cell in enumerate(table.values(column)):
        value = str(cell).strip().lower() if isinstance(cell, (str, int, float)) else ""
        label = meaning.get(value)
        if label is None and words:
            plain = plain_label(value)
            if plain in LABEL_WORDS or plain == "":
                labels.append(LABEL_WORDS.get(plain))
                continue
        if label is None:
            why, remedy = (
                "a label is 1 (match) or 0 (no match)",
                "Correct it, or remove the row if nobody knows",
            )
            if words:
                remedy = f"Write {ACCEPTED_LABELS}; or leave it empty"
            raise table.error(f"the label is {cell!r}", row, column, why, remedy)
        labels.append(label)
    return labels


def read_delimiter(words: str) -> str:
    """A delimiter as a person writes it: one character, or comma, tab, semicolon, pipe."""
    named = {name: mark for mark, name in DELIMITERS.items()} | {"\\t": "\t"}
    mark = named.get(words.lower(), words)
    if len(mark) != 1 or mark in '"\r\n':
        remedy = f"Give one character, or one of {', '.join(DELIMITERS.values())}"
        raise InputError(f"{words!r} is not a delimiter", where="`delimiter`", remedy=remedy)
    return mark


def _read_delimited(
    file: Unpacked,
    text: str,
    encoding: str,
    delimiter: str | None,
    quotes: bool,
    lenient: bool,
    sniff: bool,
    has_header: bool = True,
) -> Table:
    skipped = 0
    while lenient and (noted := _NOTE.match(text)):  # Magellan writes what its columns mean above the header
        text, skipped = text[noted.end() :], skipped + 1
    first_line = text.lstrip("\r\n").split("\n", 1)[0]
    mark = delimiter or _BY_SUFFIX.get(file.suffix)
    if delimiter is None and (sniff or mark is None):
        bare = _QUOTED.sub("", first_line)
        counts = {candidate: bare.count(candidate) for candidate in DELIMITERS}
        best = max(counts, key=lambda candidate: counts[candidate])
        mark = best if counts[best] else mark
    mark = mark or ","
    rows = _parse(file, text, mark, quotes, strict=not lenient)
    while rows and not rows[-1]:
        rows.pop()
    if rows and not has_header:
        rows = [_numbered_names(max(map(len, rows))), *rows]
        skipped -= 1
    if not rows or not any(name.strip() for name in rows[0]):
        what = "the first row is empty, so there is no header"
        raise file.error(what, 1, remedy="Put the column names in the first row")
    header = [name.strip() for name in rows[0]]
    if len(header) == 1:
        second = rows[1][0] if len(rows) > 1 and rows[1] else header[0]
        for other, name in DELIMITERS.items():
            if other != mark and other in header[0] and (delimiter is None or other in second):
                raise file.error(
                    f"the header is a single column, {header[0]!r}",
                    1,
                    why=f"the file is read as {DELIMITERS[mark]}-separated and looks {name}-separated",
                    remedy=f"Pass `delimiter={name!r}`",
                )
    numbers: Sequence[int] = range(2 + skipped, len(rows) + 1 + skipped)
    body = rows[1:]
    if body and all(len(row) == len(header) + 1 and not row[-1] for row in body if row):
        body = [row[:-1] for row in body]  # every record ends in a delimiter, the header does not
    while (
        len(header) > 1
        and not header[-1]
        and all(len(row) == len(header) and not row[-1] for row in body if row)
    ):
        header, body = header[:-1], [row[:-1] for row in body]  # the header ends in one as well
    if not all(body):
        if len(header) == 1:
            body = [row or [""] for row in body]  # in a single column a blank line is an empty cell
        else:
            numbers = [number for number, row in zip(numbers, body) if row]
            body = [row for row in body if row]
    for number, row in zip(numbers, body):
        if len(row) != len(header):
            quoted = f"a {DELIMITERS.get(mark, repr(mark))} or line break inside a text must be quoted"
            short = "it is too short: cells are missing, or a line break inside a text is not quoted"
            raise file.error(
                f"the row has {len(row)} field{'s' * (len(row) != 1)}, the header has {len(header)}",
                number,
                why=short if len(row) < len(header) else quoted,
                remedy='Quote the text with "…", or pass `delimiter` if the file uses another one',
            )
    columns = list(zip(*body)) or [() for _ in header]
    return Table(file.path, tuple(header), numbers, encoding, mark, file.sha256, columns.__getitem__)


def _numbered_names(count: int) -> list[str]:
    return [f"column {place + 1}" for place in range(count)]


_VALUE = re.compile(  # a number, one with a point and a unit, a date: no name of a column
    r"[-+]?\d*\.?\d+|\d+\.\d+ ?\w{1,4}|\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2(\d{4}|\d{2})"
)


def _check_header(table: Table) -> None:
    """Refuse a first row that looks like a record: one of its cells is a number, an amount or a date."""
    if not table.delimiter:
        return
    numbers = [name for name in table.names if _VALUE.fullmatch(name)]
    if numbers:
        raise InputError(
            "the first row looks like a record, not like column names",
            where=f"{table.path}, row 1",
            why=f"it holds {numbers[0]!r}",
            remedy="Pass `header=False` if there is no header, `header=True` if this is one",
        )


def _sheet_table(file: Unpacked, sheet: str | None, header: bool | None) -> Table:
    rows = read_sheet(file, sheet)
    if not rows:
        raise file.error("the sheet is empty", remedy="Name another one with `sheet`")
    names = _numbered_names(len(rows[0]))
    body, first = rows, 1
    if header is not False:
        names = [name if cell is None else str(cell).strip() for name, cell in zip(names, rows[0])]
        body, first = rows[1:], 2
    kept = [at for at, row in enumerate(body) if any(cell is not None for cell in row)]
    columns = [[body[at][place] for at in kept] for place in range(len(names))]
    numbers = [at + first for at in kept]
    return Table(file.path, tuple(names), numbers, "", "", file.sha256, columns.__getitem__)


def _parse(file: Unpacked, text: str, mark: str, quotes: bool, strict: bool) -> list[list[str]]:
    source = io.StringIO(text, newline="")
    rows: list[list[str]] = []
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    with any_field_size():
        reader = csv.reader(source, delimiter=mark, quoting=quoting, strict=strict and quotes)
        try:
            for row in reader:
                rows.append(row)
        except csv.Error as error:
            what, why = "the quotes do not add up", str(error)
            if "unexpected end" in why:
                what, why = "a quoted text is never closed", what
            remedy = (
                'Write a quote in a quoted text twice (""), or pass `quotes=False` if quotes mean nothing'
            )
            raise file.error(what, len(rows) + 1, why, remedy) from error
    return rows


def _read_json_lines(file: Unpacked, text: str, encoding: str) -> Table:
    records: list[dict[str, Any]] = []
    numbers: list[int] = []
    names: dict[str, None] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except ValueError as error:
            raise file.error("the line is not JSON", number, str(error), _ONE_OBJECT) from error
        if not isinstance(record, dict):
            what = f"the line is a JSON {type(record).__name__}, not an object"
            raise file.error(what, number, remedy=_ONE_OBJECT)
        records.append(record)
        numbers.append(number)
        names.update(dict.fromkeys(record))
    columns = tuple(names)

    def cells(position: int) -> Sequence[Any]:
        return [record.get(columns[position]) for record in records]

    return Table(file.path, columns, numbers, encoding, "", file.sha256, cells)


def _read_parquet(file: Unpacked) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        opened = pq.ParquetFile(pa.BufferReader(file.contents))
        names = tuple(opened.schema_arrow.names)
        rows = opened.metadata.num_rows
    except pa.ArrowException as error:
        raise _damaged_parquet(file, error) from error

    sizes: dict[int, int] = {}  # bytes of the columns read

    def cells(position: int) -> Sequence[Any]:
        others = sum(size for column, size in sizes.items() if column != position)
        try:
            table = read_columns(opened, [names[position]], len(file.contents), file.path, others)
            sizes[position] = table.nbytes
            values: Sequence[Any] = table.column(0).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise _damaged_parquet(file, error) from error
        return values

    return Table(file.path, names, range(1, rows + 1), "", "", file.sha256, cells)


def _damaged_parquet(file: Unpacked, error: Exception) -> InputError:
    why = str(error).splitlines()[0]
    return file.error("the file is not whole Parquet", why=why, remedy="Write or copy it again")


def _as_text(cell: Any, table: Table, row: int, column: str) -> str:
    """A typed cell as text: whole numbers without ".0", null and NaN as ""."""
    if isinstance(cell, str):
        return cell
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    kind: Any = type(cell)
    nameless = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__  # an address in memory
    many = isinstance(cell, (list, tuple, set, dict, bytes)) or bool(getattr(cell, "shape", None))
    if many or nameless:
        what = f"the cell holds a {kind.__name__}, not a text"
        raise table.error(what, row, column, remedy="Give a column of texts or numbers")
    text = str(cell)
    return "" if text in ("nan", "NaT", "<NA>") else text  # of numpy and pandas


def _delimiter_that_shows(column: str, table: Table) -> str:
    """Another delimiter under which the header would have that column, or ""."""
    if not table.delimiter:
        return ""
    header = table.delimiter.join(table.names)
    for other in DELIMITERS:
        if other != table.delimiter and column in [name.strip(' "') for name in header.split(other)]:
            return other
    return ""

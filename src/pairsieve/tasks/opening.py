"""Opens a table from whatever holds one: a file, a URL, a database, or any shape in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from pairsieve.errors import InputError
from pairsieve.tasks.canonical import canonical_table
from pairsieve.tasks.databases import is_database, read_query
from pairsieve.tasks.frames import memory_table, pairs_in_memory, table_in_memory
from pairsieve.tasks.reading import Table, read_table


@dataclass(frozen=True)
class Ways:
    """How a file or database is read: what its name does not tell."""

    encoding: str | None = None
    delimiter: str | None = None
    quotes: bool = True
    header: bool | None = None
    sheet: str | None = None
    query: str | None = None


PLAIN = Ways()


def open_table(source: Any, name: str = "table", ways: Ways = PLAIN) -> Table:
    """A table of records, its cells as texts that do not depend on where they came from."""
    return canonical_table(_opened(source, name, ways, pairs=False))


def open_pairs(source: Any, name: str, ways: Ways = PLAIN) -> Table:
    """A table of pairs, by the same ways; in memory also pairs of keys, with or without labels."""
    return canonical_table(_opened(source, name, ways, pairs=True))


def stacked(tables: Sequence[Table], key: str | None) -> tuple[Table, str]:
    """Several tables as one, and the column it gets that names the table of each row.

    Columns are joined by name. Where a key stands in two tables, all keys get the name of their table.
    """
    stems = [table.path.name.split(".", 1)[0] or f"table {at}" for at, table in enumerate(tables, 1)]
    names = [stem if stems.count(stem) == 1 else f"{stem} {at}" for at, stem in enumerate(stems, 1)]
    everything = dict.fromkeys(name for table in tables for name in table.names)
    source = "source"
    while source in everything:
        source += "_"
    columns: dict[str, list[str]] = {
        column: [
            text
            for table in tables
            for text in (table.strings(column) if column in table.names else [""] * len(table))
        ]
        for column in everything
    }
    columns[source] = [name for table, name in zip(tables, names) for _ in range(len(table))]
    if key is not None and len({*columns.get(key, [])}) < len(columns.get(key, [])):
        columns[key] = [f"{name}:{own}" for name, own in zip(columns[source], columns[key])]
    rows = range(len(columns[source]))
    return canonical_table(memory_table(names[0], columns, rows)), source


def is_place(source: Any) -> bool:
    """Whether a source is named by a path or URL."""
    return isinstance(source, (str, PathLike))


def described(source: Any, name: str) -> str:
    """A source in the words of an error: its path, or what it is called."""
    if isinstance(source, Table):
        return str(source.path)
    return str(source) if is_place(source) and not is_database(str(source)) else name


def _opened(source: Any, name: str, ways: Ways, pairs: bool) -> Table:
    if isinstance(source, Table):
        return source
    if not is_place(source):
        if ways.query:
            raise InputError("`query` needs a database's URL", where=name, remedy="Leave `query` out")
        source = list(source) if isinstance(source, Iterator) else source
        return pairs_in_memory(source, name) if pairs else table_in_memory(source, name)
    if is_database(str(source)) or ways.query:
        return read_query(str(source), ways.query)
    return read_table(
        Path(source),
        encoding=ways.encoding,
        delimiter=ways.delimiter,
        quotes=ways.quotes,
        header=ways.header,
        sheet=ways.sheet,
        lenient=pairs,
        pairs=pairs,
    )

"""Tables that are in memory: data frames, Arrow tables, datasets, series, lists of records or pairs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pairsieve.errors import InputError
from pairsieve.tasks.reading import Table

UNNAMED_INDEX = "index"  # the column that such an index of a frame becomes
Columns = Mapping[str, Sequence[Any]]
SHAPES = (
    "a pandas or polars DataFrame, an Arrow table, a Hugging Face Dataset, a list of dictionaries, a "
    "dictionary of columns, or the path of a file"
)


def table_in_memory(source: Any, name: str = "table") -> Table:
    """A table from any shape that holds one; the index of a pandas frame or series becomes its key.

    Rows are counted from 0, as in Python. What holds no table is refused in words.
    """
    columns, key = _columns(source, name)
    lengths = {column: len(cells) for column, cells in columns.items()}
    if len(set(lengths.values())) > 1:
        why = ", ".join(f"{column}: {length:,}" for column, length in list(lengths.items())[:6])
        raise InputError("the columns differ in length", where=name, why=why)
    if not columns or not next(iter(lengths.values())):
        raise InputError("the table has no rows", where=name, remedy="Give a table with at least one row")
    rows = next(iter(lengths.values()))
    return memory_table(name, columns, range(rows), key)


def memory_table(name: str, columns: Columns, numbers: Sequence[int], key: str | None = None) -> Table:
    """Columns as a table called `name`; `numbers` are those of its rows for a person."""
    values = list(columns.values())
    digest = hashlib.sha256(json.dumps({n: list(c) for n, c in columns.items()}, default=str).encode())
    names = tuple(map(str, columns))
    return Table(Path(name), names, numbers, "", "", digest.hexdigest(), values.__getitem__, key=key)


def pairs_in_memory(source: Any, name: str) -> Table:
    """Pairs from any shape of table, from {(key, key): label}, (key, key) or (key, key, label)."""
    if isinstance(source, Mapping) and source and all(isinstance(pair, tuple) for pair in source):
        source = [(*pair, label) for pair, label in source.items()]
    elif not isinstance(source, (Mapping, str)) and _plain_iterable(source):
        source = list(source)
        if not source:  # known matches may be none
            return Table(Path(name), PAIR, [], "", "", hashlib.sha256().hexdigest(), lambda at: [])
    if isinstance(source, list) and not isinstance(source[0], Mapping):
        width = {len(pair) if isinstance(pair, (tuple, list)) else 0 for pair in source}
        if not width <= {2, 3} or len(width) != 1:
            what, why = "the pairs are not pairs of keys", f"the first is {str(source[0])[:60]!r}"
            remedy = "Give (key, key), (key, key, label), a dictionary {(key, key): label}, or " + SHAPES
            raise InputError(what, where=name, why=why, remedy=remedy)
        source = dict(zip(PAIR, map(list, zip(*source))))
    return table_in_memory(source, name)


PAIR = ("left_id", "right_id", "label")


def is_series(source: Any) -> bool:
    """Whether a value is one column of a data frame, with a name of its own but no columns."""
    return _library(source) in ("pandas", "polars", "pyarrow") and not hasattr(source, "columns")


def series_texts(source: Any) -> dict[str, Any] | list[Any]:
    """{index: value} of a pandas series, or the values of a polars or Arrow one."""
    if _library(source) == "pandas":
        if not source.index.is_unique:
            remedy = "Make it unique, or pass series.reset_index(drop=True)"
            raise InputError("the index of the series holds a value twice", where="texts", remedy=remedy)
        return dict(zip(map(str, source.index.tolist()), source.tolist()))
    return source.to_pylist() if hasattr(source, "to_pylist") else source.to_list()


def _columns(source: Any, name: str) -> tuple[Columns, str | None]:
    """The columns of a shape, and its key where the shape itself has one."""
    library = _library(source)
    if library == "pandas":
        return _pandas_columns(source, name)
    if library == "datasets" or (hasattr(source, "column_names") and hasattr(source, "features")):
        return _dataset_columns(source, name), None
    if hasattr(source, "__arrow_c_stream__"):
        return _arrow_columns(source, name), None
    if isinstance(source, Mapping):
        return _mapped_columns(source, name), None
    if (isinstance(source, Sequence) and not isinstance(source, (str, bytes))) or _plain_iterable(source):
        return _record_columns(list(source), name), None
    raise _no_table(source, name)


def _pandas_columns(source: Any, name: str) -> tuple[Columns, str | None]:
    if not hasattr(source, "columns"):  # a series: its index are the keys
        source = source.rename("text").to_frame()
    if source.columns.nlevels > 1:
        remedy = "Flatten them, as frame.columns = ['_'.join(c) for c in frame.columns]"
        raise InputError("the columns of the frame have several levels", where=name, remedy=remedy)
    if not source.columns.is_unique:
        twice = str(source.columns[source.columns.duplicated()][0])
        raise InputError(f"2 columns are called {twice!r}", where=name, remedy="Rename one of them")
    columns = {str(column): _pandas_cells(source[column]) for column in source.columns}
    index = source.index
    counted = index.name is None and index.tolist() == list(range(len(index)))
    if counted or index.nlevels > 1 or not index.is_unique:
        return columns, None
    key = str(index.name or UNNAMED_INDEX)
    return {key: _pandas_cells(index.to_series()), **columns}, key


def _pandas_cells(column: Any) -> list[Any]:
    missing = column.isna().tolist()
    return [None if gone else value for gone, value in zip(missing, column.tolist())]


def _dataset_columns(source: Any, name: str) -> Columns:
    names = getattr(source, "column_names", None)
    if isinstance(names, Mapping) or isinstance(source, Mapping):
        splits = ", ".join(map(str, source))
        what, remedy = f"this is a dictionary of datasets: {splits}", "Choose one, as dataset['train']"
        raise InputError(what, where=name, remedy=remedy)
    if not isinstance(names, list) or not hasattr(source, "__len__"):
        remedy = "Load it without streaming, or pass list(dataset.take(1000))"
        raise InputError("the dataset is a stream", where=name, remedy=remedy)
    plain = source.with_format(None) if hasattr(source, "with_format") else source
    return {column: list(plain[column]) for column in names}


def _arrow_columns(source: Any, name: str) -> Columns:
    import pyarrow as pa

    try:
        table = pa.table(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        if hasattr(source, "to_pylist") or hasattr(source, "to_list"):  # one column, not a table
            raise _no_table(source, name) from error
        why = str(error).splitlines()[0]
        raise InputError("its Arrow stream cannot be read as a table", where=name, why=why) from error
    names = table.column_names
    twice = next((column for column in names if names.count(column) > 1), None)
    if twice is not None:
        raise InputError(f"2 columns are called {twice!r}", where=name, remedy="Rename one of them")
    return {column: table.column(column).to_pylist() for column in names}


def _mapped_columns(source: Mapping[Any, Any], name: str) -> Columns:
    """A dictionary of columns; {key: text} is a collection of texts, not a table."""
    if any(isinstance(cells, (str, bytes)) or not isinstance(cells, Iterable) for cells in source.values()):
        remedy = "Pass {key: text} to task_from_texts; a table is {column: values}"
        raise InputError("the dictionary holds single values, not columns", where=name, remedy=remedy)
    return {str(column): list(cells) for column, cells in source.items()}


def _record_columns(records: list[Any], name: str) -> Columns:
    if not all(isinstance(record, Mapping) for record in records):
        first = next(record for record in records if not isinstance(record, Mapping))
        raise _no_table(first, name, "a list of ")
    columns = dict.fromkeys(str(column) for record in records for column in record)
    return {column: [record.get(column) for record in records] for column in columns}


def _plain_iterable(source: Any) -> bool:
    """A list, a tuple, a set or a generator of rows: what has neither columns nor an Arrow stream."""
    marks = ("__arrow_c_stream__", "columns", "column_names", "__fspath__")
    return isinstance(source, Iterable) and not any(hasattr(source, mark) for mark in marks)


def _library(source: Any) -> str:
    return type(source).__module__.partition(".")[0]


def _no_table(source: Any, name: str, of: str = "") -> InputError:
    kind = type(source).__name__
    remedy = f"Give {SHAPES}; texts alone go to task_from_texts"
    return InputError(f"{of}{kind} is not a table", where=name, remedy=remedy)

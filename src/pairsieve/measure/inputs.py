"""How do a user's own embeddings and scores come in, and what is said when they do not fit?"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError, nearest
from pairsieve.pairs import Ids, PairSpace, Scores


@dataclass(frozen=True)
class ListedScores:
    """Scored pairs from a file: canonical ids in the order of its rows."""

    ids: Ids
    scores: Scores
    inclusion_probability: NDArray[np.float64] | None
    where: str


def read_embeddings(path: Path, space: PairSpace) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """float32 rows from an .npz: `texts` (n, d) for one collection, `left` and `right` for two."""
    where = str(path)
    if not path.is_file():
        raise InputError("no such file", where=where, remedy="Give an .npz file with the embeddings")
    wanted = ("texts",) if space.symmetric else ("left", "right")
    counts = space.shape[:1] if space.symmetric else space.shape
    shape = " and ".join(f"{name!r} ({rows:,} rows)" for name, rows in zip(wanted, counts))
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in wanted if name not in file.files]
            if missing:
                held = ", ".join(sorted(file.files)) or "none"
                raise InputError(
                    f"array {missing[0]!r} is missing; the file holds {held}",
                    where=where,
                    remedy=f"This split needs {shape}, rows as in the task folder",
                )
            arrays = [np.asarray(file[name]) for name in wanted]
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            "cannot be read as .npz",
            where=where,
            why=str(error),
            remedy="Write it with numpy.savez(FILE, left=…, right=…) or numpy.savez(FILE, texts=…)",
        ) from error
    for name, array, rows in zip(wanted, arrays, counts):
        _check_embeddings(f"{where}, array {name!r}", array, rows)
    if len(arrays) == 2 and arrays[0].shape[1] != arrays[1].shape[1]:
        raise InputError(
            f"'left' has {arrays[0].shape[1]} dimensions, 'right' has {arrays[1].shape[1]}",
            where=where,
            remedy="Embed both sides with the same encoder",
        )
    floats = [array.astype(np.float32, copy=False) for array in arrays]
    return floats[0], floats[1] if len(floats) == 2 else None


def _check_embeddings(where: str, array: NDArray[Any], rows: int) -> None:
    if not np.issubdtype(array.dtype, np.floating):
        raise InputError(
            f"holds {array.dtype}, not floating-point numbers", where=where, remedy="Save float32"
        )
    if array.ndim != 2 or len(array) != rows or array.shape[1] == 0:
        raise InputError(
            f"has shape {array.shape}",
            where=where,
            why=f"the split has {rows:,} texts there, one row each",
            remedy="Embed every text of the split, in the order of the task folder",
        )
    for first in range(0, rows, 65536):
        part = array[first : first + 65536]
        finite = np.isfinite(part).all(axis=1)
        if not finite.all():
            row = first + int(np.argmin(finite))
            column = int(np.argmin(np.isfinite(array[row])))
            raise InputError(
                f"row {row}, dimension {column} is {array[row, column]}",
                where=where,
                why="a cosine with it is not a number",
                remedy="Look at that text and at the encoder's precision, and embed it again",
            )
        empty = ~part.any(axis=1)
        if empty.any():
            raise InputError(
                f"row {first + int(np.argmax(empty))} is all zeros",
                where=where,
                why="a vector without length has no cosine",
                remedy="Embed that text again, or leave it out of the task",
            )


def read_scores(path: Path, space: PairSpace) -> ListedScores:
    """`left`, `right`, `score` (and perhaps `inclusion_probability`) from a Parquet file."""
    import pyarrow
    import pyarrow.parquet

    where = str(path)
    if not path.is_file():
        raise InputError("no such file", where=where, remedy="Give a Parquet file with left, right, score")
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise InputError(
            "cannot be read as Parquet", where=where, why=str(error).splitlines()[0], remedy="Write it again"
        ) from error
    for name in ("left", "right", "score"):
        if name not in table.column_names:
            raise InputError(
                f"column {name!r} is missing", where=where, remedy=nearest(name, table.column_names)
            )
    left, right = (_integers(table, name, where) for name in ("left", "right"))
    scores = _numbers(table, "score", where)
    rows, columns = space.shape
    for name, values, count in (("left", left, rows), ("right", right, columns)):
        outside = (values < 0) | (values >= count)
        if outside.any():
            row = int(np.argmax(outside))
            raise InputError(
                f"row {row}, column {name!r}: row number {values[row]} is outside 0..{count - 1}",
                where=where,
                remedy="Use the row numbers of the split's files in the task folder, from 0",
            )
    if space.symmetric and (left == right).any():
        row = int(np.argmax(left == right))
        raise InputError(
            f"row {row} pairs text {left[row]} with itself",
            where=where,
            why="the space holds distinct pairs",
            remedy="Leave such rows out",
        )
    ids = space.ids(left, right)
    order = np.argsort(ids, kind="stable")
    again = np.flatnonzero(np.diff(ids[order]) == 0)
    if len(again):
        one, other = sorted((int(order[again[0]]), int(order[again[0] + 1])))
        raise InputError(
            f"rows {one} and {other} both score the pair ({left[other]}, {right[other]})",
            where=where,
            remedy="Keep one row a pair; in one collection (a, b) and (b, a) are the same pair",
        )
    has_chance = "inclusion_probability" in table.column_names
    chance = _numbers(table, "inclusion_probability", where) if has_chance else None
    return ListedScores(ids, scores.astype(np.float32), chance, where)


def _integers(table: Any, name: str, where: str) -> NDArray[np.int64]:
    import pyarrow.types

    column = table.column(name)
    if not pyarrow.types.is_integer(column.type):
        raise InputError(
            f"column {name!r} holds {column.type}, not whole numbers",
            where=where,
            remedy="Give row numbers of the split's files in the task folder, from 0",
        )
    _no_gaps(column, name, where)
    values: NDArray[np.int64] = column.to_numpy().astype(np.int64)
    return values


def _numbers(table: Any, name: str, where: str) -> NDArray[np.float64]:
    column = table.column(name)
    _no_gaps(column, name, where)
    try:
        values = column.to_numpy().astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"column {name!r} holds {column.type}, not numbers", where=where, remedy="Save it as float"
        ) from error
    bad = np.isnan(values)
    if bad.any():
        raise InputError(
            f"row {int(np.argmax(bad))}, column {name!r} is NaN",
            where=where,
            why="it has no place in a ranking",
            remedy="Score that pair again or leave it out",
        )
    numbers: NDArray[np.float64] = values
    return numbers


def _no_gaps(column: Any, name: str, where: str) -> None:
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null())))
        raise InputError(
            f"row {row}, column {name!r} is empty", where=where, remedy="Fill it or leave the row out"
        )

"""How do a user's own embeddings, scores and labels come in, and what is said when they do not fit?

Rows in messages are counted from 0, as arrays and data frames count them; the messages say so.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.errors import InputError, nearest
from pairsieve.pairs import Ids, PairSpace, Scores

_FIRST_PLACE = 0x3F800000  # the bits of 1.0: from here a billion float32 numbers ascend with their bits


@dataclass(frozen=True)
class ListedScores:
    """Scored pairs from a file: canonical ids in the order of its rows."""

    ids: Ids
    scores: NDArray[np.float64]
    inclusion_probability: NDArray[np.float64] | None
    where: str

    def places(self) -> tuple[Scores, NDArray[np.float64]]:
        """float32 numbers in the order of the scores, and the distinct scores they stand for, ascending.

        Measures only compare scores. As float32 they would tie where a file tells them apart (match
        probabilities of 1 - 1e-9 and 1 - 1e-12), so each distinct score gets a float32 of its own.
        """
        values, at = np.unique(self.scores, return_inverse=True)
        places: Scores = (at.ravel() + _FIRST_PLACE).astype(np.int32).view(np.float32)
        return places, values


def score_of(place: float, values: NDArray[np.float64]) -> float | None:
    """The score that a place of `ListedScores.places` stands for; None for -inf, the unlisted pairs."""
    if np.isneginf(place):
        return None
    return float(values[int(np.float32(place).view(np.int32)) - _FIRST_PLACE])


def read_embeddings(path: Path, space: PairSpace) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """float32 rows from an .npz: `texts` (n, d) for one collection, `left` and `right` for two."""
    wanted = ("texts",) if space.symmetric else ("left", "right")
    counts = space.shape[:1] if space.symmetric else space.shape
    return _checked(_read_arrays(path, wanted, counts), wanted, counts, str(path))


def checked_embeddings(
    left: ArrayLike, right: ArrayLike | None, space: PairSpace
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """float32 rows from arrays in memory: `left` (n, d), and `right` (m, d) for two collections only."""
    if space.symmetric != (right is None):
        raise InputError(
            "embeddings of a right side" if space.symmetric else "no embeddings of the right side",
            why=f"the split has {'one collection' if space.symmetric else 'two collections'}",
            remedy="Leave `right` out" if space.symmetric else "Give `right` as well",
        )
    arrays = [np.asarray(array) for array in (left, right) if array is not None]
    return _checked(arrays, ("left", "right")[: len(arrays)], space.shape[: len(arrays)], "embeddings")


def _checked(
    arrays: Sequence[NDArray[Any]], wanted: Sequence[str], counts: Sequence[int], where: str
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    floats = [
        _floats(f"{where}, array {name!r}", array, rows) for name, array, rows in zip(wanted, arrays, counts)
    ]
    if len(floats) == 2 and floats[0].shape[1] != floats[1].shape[1]:
        raise InputError(
            f"'left' has {floats[0].shape[1]} dimensions, 'right' has {floats[1].shape[1]}",
            where=where,
            remedy="Embed both sides with the same encoder",
        )
    return floats[0], floats[1] if len(floats) == 2 else None


def _read_arrays(path: Path, wanted: tuple[str, ...], counts: tuple[int, ...]) -> list[NDArray[Any]]:
    where = str(path)
    if not path.is_file():
        raise InputError("there is no such file", where=where, remedy="Give an .npz file with the embeddings")
    write_it = f"Write it with numpy.savez(FILE, {', '.join(f'{name}=…' for name in wanted)})"
    if not zipfile.is_zipfile(path):  # numpy would guess at pickles and single arrays
        raise InputError(
            "this is not an .npz file",
            where=where,
            why="an .npz is a zip archive of arrays; this file is something else, or was cut short",
            remedy=write_it,
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in wanted if name not in file.files]
            if missing:
                shape = " and ".join(f"{name!r} ({rows:,} rows)" for name, rows in zip(wanted, counts))
                raise InputError(
                    f"the array {missing[0]!r} is missing; the file holds "
                    f"{', '.join(sorted(file.files)) or 'none'}",
                    where=where,
                    remedy=f"This split needs {shape}, rows as in the task folder",
                )
            return [np.asarray(file[name]) for name in wanted]
    except (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            "the .npz file cannot be read", where=where, why=_first_line(error), remedy=write_it
        ) from error


def _floats(where: str, array: NDArray[Any], rows: int) -> NDArray[np.float32]:
    """The array as float32, or an error that names the row that cannot be used."""
    if not np.issubdtype(array.dtype, np.floating):
        raise InputError(
            f"it holds {array.dtype}, not floating-point numbers", where=where, remedy="Save float32"
        )
    if array.ndim != 2 or len(array) != rows or array.shape[1] == 0:
        raise InputError(
            f"its shape is {array.shape}",
            where=where,
            why=f"the split has {rows:,} texts there, one row of numbers each",
            remedy="Embed every text of the split, in the order of the task folder",
        )
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is named below
        floats: NDArray[np.float32] = array.astype(np.float32, copy=False)
    for first in range(0, rows, 65536):
        part = floats[first : first + 65536]
        finite = np.isfinite(part).all(axis=1)
        if not finite.all():
            row = first + int(np.argmin(finite))
            column = int(np.argmin(np.isfinite(floats[row])))
            raise InputError(
                f"row {row}, dimension {column} (from 0) is {array[row, column]}",
                where=where,
                why="no cosine can be computed with it in float32",
                remedy="Look at that text and at the encoder's precision, and embed it again",
            )
        empty = ~part.any(axis=1)
        if empty.any():
            raise InputError(
                f"row {first + int(np.argmax(empty))} (from 0) is all zeros",
                where=where,
                why="a vector without length has no cosine",
                remedy="Embed that text again, or leave it out of the task",
            )
    return floats


def read_scores(path: Path, space: PairSpace) -> ListedScores:
    """`left`, `right`, `score` (and perhaps `inclusion_probability`) from a Parquet file."""
    where = str(path)
    table = _read_columns(path, ("left", "right", "score"), ("inclusion_probability",))
    ids = _pairs(table, space, where)
    scores = _numbers(table, "score", where)
    chance = None
    if "inclusion_probability" in table.column_names:
        chance = _numbers(table, "inclusion_probability", where)
        outside = (chance <= 0) | (chance > 1)
        if outside.any():
            row = int(np.argmax(outside))
            raise InputError(
                f"row {row} (from 0), column 'inclusion_probability' is {chance[row]:g}, outside (0, 1]",
                where=where,
                remedy="Give the chance with which the pair was drawn; 1 where it was sure to be",
            )
    return ListedScores(ids, scores, chance, where)


def read_labels(path: Path, space: PairSpace) -> tuple[Ids, NDArray[np.int64]]:
    """Labels of pairs from a Parquet file: `left`, `right` and `label`, 1 for a match and 0 for none."""
    where = str(path)
    table = _read_columns(path, ("left", "right", "label"))
    ids = _pairs(table, space, where)
    labels = _integers(table, "label", where, "Give 1 for a match, 0 for none")
    wrong = (labels != 0) & (labels != 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"row {row} (from 0), column 'label' is {labels[row]}, not 0 or 1",
            where=where,
            remedy="Give 1 for a match, 0 for none, and leave out pairs nobody was sure of",
        )
    return ids, labels


def _read_columns(path: Path, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> Any:
    """The columns of a Parquet file that are asked for, and no others."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    where, listed = str(path), ", ".join(needed)
    if not path.is_file():
        raise InputError("there is no such file", where=where, remedy=f"Give a Parquet file with {listed}")
    try:
        with pq.ParquetFile(path) as file:
            known = file.schema_arrow.names
            for name in needed:
                if name not in known:
                    raise InputError(f"there is no column {name!r}", where=where, remedy=nearest(name, known))
            for name in (*needed, *optional):
                if known.count(name) > 1:
                    raise InputError(
                        f"the column {name!r} stands there {known.count(name)} times",
                        where=where,
                        remedy="Keep one of them",
                    )
            return file.read(columns=[*needed, *(name for name in optional if name in known)])
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            "this cannot be read as Parquet",
            where=where,
            why=_first_line(error),
            remedy=f"Write a Parquet file with {listed}",
        ) from error


def _pairs(table: Any, space: PairSpace, where: str) -> Ids:
    """Canonical ids of the columns `left` and `right`: inside the space, and none twice."""
    remedy = "Give row numbers of the split's files in the task folder, from 0"
    left, right = (_integers(table, name, where, remedy) for name in ("left", "right"))
    for name, values, count in zip(("left", "right"), (left, right), space.shape):
        outside = (values < 0) | (values >= count)
        if outside.any():
            row = int(np.argmax(outside))
            raise InputError(
                f"row {row} (from 0), column {name!r}: row number {values[row]} is outside 0..{count - 1}",
                where=where,
                why="the split has no such text: the numbers are of another split, or no row numbers",
                remedy=remedy,
            )
    if space.symmetric and (left == right).any():
        row = int(np.argmax(left == right))
        raise InputError(
            f"row {row} (from 0) pairs text {left[row]} with itself",
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
            f"rows {one} and {other} (from 0) hold the same pair ({left[other]}, {right[other]})",
            where=where,
            remedy="Keep one row a pair; in one collection (a, b) and (b, a) are the same pair",
        )
    return ids


def _integers(table: Any, name: str, where: str, remedy: str) -> NDArray[np.int64]:
    import pyarrow.types

    column = table.column(name)
    if not pyarrow.types.is_integer(column.type):
        raise InputError(
            f"the column {name!r} holds {column.type}, not whole numbers", where=where, remedy=remedy
        )
    _no_gaps(column, name, where)
    values: NDArray[np.int64] = column.to_numpy().astype(np.int64)
    return values


def _numbers(table: Any, name: str, where: str) -> NDArray[np.float64]:
    import pyarrow.types as kinds

    column = table.column(name)
    if not (kinds.is_floating(column.type) or kinds.is_integer(column.type)):
        raise InputError(
            f"the column {name!r} holds {column.type}, not numbers", where=where, remedy="Save it as float"
        )
    _no_gaps(column, name, where)
    values: NDArray[np.float64] = column.to_numpy().astype(np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"row {row} (from 0), column {name!r} is {values[row]}",
            where=where,
            why="only finite numbers have a place in a ranking",
            remedy="Score that pair again, or leave it out",
        )
    return values


def _no_gaps(column: Any, name: str, where: str) -> None:
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null())))
        raise InputError(
            f"row {row} (from 0), column {name!r} is empty",
            where=where,
            remedy="Fill it, or leave the row out",
        )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]

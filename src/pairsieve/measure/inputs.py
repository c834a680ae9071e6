"""Readers of a user's own embeddings, scores and labels, with errors that name the row at fault.

Rows in messages are counted from 0, as arrays and data frames count them; the messages say so.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.errors import InputError, nearest
from pairsieve.pairs import Ids, Mask, PairSpace, Scores
from pairsieve.tables import LARGE, MOST_RATIO, read_columns

Rows: TypeAlias = NDArray[np.float32]  # embeddings (n, d)

_FIRST_RANK = 0x3F800000  # the bits of 1.0: from here a billion float32 numbers ascend with their bits


@dataclass(frozen=True)
class ListedScores:
    """Scored pairs from a file: canonical ids in the order of its rows."""

    ids: Ids
    scores: NDArray[np.float64]
    inclusion_probability: NDArray[np.float64] | None
    where: str

    def ranks(self) -> tuple[Scores, NDArray[np.float64]]:
        """float32 numbers in the order of the scores, and the distinct scores they stand for, ascending.

        Measures only compare scores. As float32 they would tie where a file tells them apart (match
        probabilities of 1 - 1e-9 and 1 - 1e-12), so each distinct score gets a float32 of its own.
        """
        values, at = np.unique(self.scores, return_inverse=True)
        ranks: Scores = (at.ravel() + _FIRST_RANK).astype(np.int32).view(np.float32)
        return ranks, values


def score_of(rank: float, values: NDArray[np.float64]) -> float | None:
    """The score that one of `ListedScores.ranks` stands for; None for -inf, the unlisted pairs."""
    if np.isneginf(rank):
        return None
    return float(values[int(np.float32(rank).view(np.int32)) - _FIRST_RANK])


def read_embeddings(path: Path, space: PairSpace) -> tuple[Rows, Rows | None]:
    """float32 rows from an .npz: `texts` (n, d) for one collection, `left` and `right` for two."""
    wanted = ("texts",) if space.symmetric else ("left", "right")
    counts = space.shape[:1] if space.symmetric else space.shape
    return _checked(_read_arrays(path, wanted, counts), wanted, counts, str(path))


def checked_embeddings(
    left: ArrayLike, right: ArrayLike | None, space: PairSpace
) -> tuple[Rows, Rows | None]:
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
) -> tuple[Rows, Rows | None]:
    named = zip(wanted, arrays, counts)
    floats = [_floats(f"{where}, array {name!r}", array, rows) for name, array, rows in named]
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
        why = "an .npz is a zip archive of arrays; this file is something else, or was cut short"
        raise InputError("this is not an .npz file", where=where, why=why, remedy=write_it)
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in wanted if name not in file.files]
            if missing:
                shape = " and ".join(f"{name!r} ({rows:,} rows)" for name, rows in zip(wanted, counts))
                held = ", ".join(sorted(file.files)) or "none"
                raise InputError(
                    f"the array {missing[0]!r} is missing; the file holds {held}",
                    where=where,
                    remedy=f"This split needs {shape}, rows as in the task folder",
                )
            for name in wanted:
                _check_size(path, f"{name}.npy")
            return [np.asarray(file[name]) for name in wanted]
    except (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        what = "the .npz file cannot be read"
        raise InputError(what, where=where, why=_first_line(error), remedy=write_it) from error


def _check_size(path: Path, member: str) -> None:
    """A `ValueError` where an array claims more than its file holds: numpy would make room for it first."""
    with zipfile.ZipFile(path) as archive, archive.open(member) as file:
        held, packed = archive.getinfo(member).file_size, archive.getinfo(member).compress_size
        if held > max(LARGE, MOST_RATIO * packed):
            raise ValueError(f"{packed:,} bytes that unpack to {held:,}: embeddings do not shrink so far")
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, kind = read(file)
    claimed = math.prod(shape) * kind.itemsize
    if claimed > held:
        raise ValueError(f"the array claims {claimed:,} bytes, the file holds {held:,}")


def _floats(where: str, array: NDArray[Any], rows: int) -> Rows:
    """The array as float32, or an error that names the row that cannot be used."""
    if not np.issubdtype(array.dtype, np.floating):
        what = f"it holds {array.dtype}, not floating-point numbers"
        raise InputError(what, where=where, remedy="Save float32")
    if array.ndim != 2 or len(array) != rows or array.shape[1] == 0:
        raise InputError(
            f"its shape is {array.shape}",
            where=where,
            why=f"the split has {rows:,} texts there, one row of numbers each",
            remedy="Embed every text of the split, in the order of the task folder",
        )
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is named below
        floats: Rows = array.astype(np.float32, copy=False)
    pieces = [floats[first : first + 65536] for first in range(0, rows, 65536)]  # masks of little memory

    def infinite(row: int) -> str:
        column = int(np.argmin(np.isfinite(floats[row])))
        return f", dimension {column} (from 0) is {array[row, column]}"

    _refuse(
        where,
        np.concatenate([~np.isfinite(piece).all(axis=1) for piece in pieces] or [np.zeros(0, bool)]),
        infinite,
        "Look at that text and at the encoder's precision, and embed it again",
        "no cosine can be computed with it in float32",
    )
    _refuse(
        where,
        np.concatenate([~piece.any(axis=1) for piece in pieces] or [np.zeros(0, bool)]),
        lambda row: " (from 0) is all zeros",
        "Embed that text again, or leave it out of the task",
        "a vector without length has no cosine",
    )
    return floats


def read_scores(path: Path, space: PairSpace) -> ListedScores:
    """`left`, `right`, `score` (and perhaps `inclusion_probability`) from a Parquet file."""
    where, chance = str(path), None
    table = _read_columns(path, ("left", "right", "score"), ("inclusion_probability",))
    ids, scores = _pairs(table, space, where), _numbers(table, "score", where)
    if "inclusion_probability" in table.column_names:
        chance = _numbers(table, "inclusion_probability", where)
        _refuse(
            where,
            (chance <= 0) | (chance > 1),
            lambda row: f" (from 0), column 'inclusion_probability' is {chance[row]:g}, outside (0, 1]",
            "Give the chance with which the pair was drawn; 1 where it was sure to be",
        )
    return ListedScores(ids, scores, chance, where)


def read_labels(path: Path, space: PairSpace) -> tuple[Ids, NDArray[np.int64]]:
    """Labels of pairs from a Parquet file: `left`, `right` and `label`, 1 for a match and 0 for none."""
    where, remedy = str(path), "Give 1 for a match, 0 for none"
    table = _read_columns(path, ("left", "right", "label"))
    ids, labels = _pairs(table, space, where), _integers(table, "label", where, remedy)
    _refuse(
        where,
        (labels != 0) & (labels != 1),
        lambda row: f" (from 0), column 'label' is {labels[row]}, not 0 or 1",
        f"{remedy}, and leave out pairs nobody was sure of",
    )
    return ids, labels


def _read_columns(path: Path, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> Any:
    """The columns of a Parquet file that are asked for, and no others."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    where, remedy = str(path), f"a Parquet file with {', '.join(needed)}"
    if not path.is_file():
        raise InputError("there is no such file", where=where, remedy=f"Give {remedy}")
    try:
        with pq.ParquetFile(path) as file:
            known = file.schema_arrow.names
            for name in needed:
                if name not in known:
                    raise InputError(f"there is no column {name!r}", where=where, remedy=nearest(name, known))
            for name in (*needed, *optional):
                if known.count(name) > 1:
                    what = f"the column {name!r} stands there {known.count(name)} times"
                    raise InputError(what, where=where, remedy="Keep one of them")
            wanted = [*needed, *(name for name in optional if name in known)]
            return read_columns(file, wanted, path.stat().st_size, path)
    except (pa.ArrowException, OSError) as error:
        what, why = "this cannot be read as Parquet", _first_line(error)
        raise InputError(what, where=where, why=why, remedy=f"Write {remedy}") from error


def _pairs(table: Any, space: PairSpace, where: str) -> Ids:
    """Canonical ids of the columns `left` and `right`: inside the space, and none twice."""
    remedy = "Give row numbers of the split's files in the task folder, from 0"
    left, right = (_integers(table, name, where, remedy) for name in ("left", "right"))
    for name, values, count in zip(("left", "right"), (left, right), space.shape):

        def outside(row: int, name: str = name, values: Ids = values, last: int = count - 1) -> str:
            return f" (from 0), column {name!r}: row number {values[row]} is outside 0..{last}"

        why = "the split has no such text: the numbers are of another split, or no row numbers"
        _refuse(where, (values < 0) | (values >= count), outside, remedy, why)
    if space.symmetric:
        _refuse(
            where,
            left == right,
            lambda row: f" (from 0) pairs text {left[row]} with itself",
            "Leave such rows out",
            "the space holds distinct pairs",
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
    import pyarrow.types as kinds

    column = _column(table, name, where, kinds.is_integer, "whole numbers", remedy)
    return np.asarray(column.to_numpy(), np.int64)


def _numbers(table: Any, name: str, where: str) -> NDArray[np.float64]:
    import pyarrow.types as kinds

    def is_number(kind: Any) -> bool:
        return bool(kinds.is_floating(kind) or kinds.is_integer(kind))

    column = _column(table, name, where, is_number, "numbers", "Save it as float")
    values = np.asarray(column.to_numpy(), np.float64)
    _refuse(
        where,
        ~np.isfinite(values),
        lambda row: f" (from 0), column {name!r} is {values[row]}",
        "Score that pair again, or leave it out",
        "only finite numbers have a place in a ranking",
    )
    return values


def _column(table: Any, name: str, where: str, fits: Callable[[Any], bool], wanted: str, remedy: str) -> Any:
    """A column of a type that `fits`, without gaps."""
    column = table.column(name)
    if not fits(column.type):
        what = f"the column {name!r} holds {column.type}, not {wanted}"
        raise InputError(what, where=where, remedy=remedy)
    empty, words = np.asarray(column.is_null()), f" (from 0), column {name!r} is empty"
    _refuse(where, empty, lambda row: words, "Fill it, or leave the row out")
    return column


def _refuse(where: str, wrong: Mask, words: Callable[[int], str], remedy: str, why: str = "") -> None:
    """Refuse input with a `wrong` row: an error that names the first one, in the words for it."""
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(f"row {row}{words(row)}", where=where, why=why, remedy=remedy)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]

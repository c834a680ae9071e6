"""Fields of joined texts: which column stands where, and how two values of its kind are compared.

A record's text has its values in their places (`tasks/joined.py`), so a re-ranker that knows the places and
kinds compares field by field, in every collection and in a service, from the texts alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.tasks import Collection
from pairsieve.tasks.fields import guess_kinds, place_columns
from pairsieve.tasks.joined import taken_apart
from pairsieve.tasks.values import column_days, column_numbers, day_first_in, days_since, decimal_comma_in

MOST_FIELDS = 40  # that are compared
UNKNOWN = 0.5  # how alike two values are of which one is missing
SPARSE = {  # how values are compared piece by piece, by kind
    "text": ("words", "letters"),
    "category": ("words", "letters"),
    "name": ("words", "letters", "initials"),
    "code": ("glued", "glued_letters"),
    "date": ("glued_letters",),
}
_WORDED = ("text", "name", "category")
WORDS_SHARED = 0.3  # of the column with fewer words, for two columns to be the same under different names
SPREAD_ALIKE = 0.7  # 1 minus the greatest difference of two columns' cumulative shares, likewise
DENSE = ("number", "date", "place")
FORMATS = ("", "day first", "decimal comma")  # how a side writes its dates or numbers
_EARTH = 6371.0  # km
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Field:
    """One field: its kind, where it stands in left and right texts (a place in two positions), and how either
    side writes it (see `FORMATS`).
    """

    name: str
    kind: str
    left: tuple[int, ...]
    right: tuple[int, ...]
    formats: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Layout:
    """The fields that texts of both sides have, and how many values a left and a right text holds."""

    fields: tuple[Field, ...] = ()
    values: tuple[int, int] = (0, 0)

    @property
    def sparse(self) -> list[tuple[Field, str]]:
        """Each field that is compared by pieces, with each way of taking pieces."""
        return [(field, way) for field in self.fields for way in SPARSE.get(field.kind, ())]

    @property
    def dense(self) -> list[Field]:
        return [field for field in self.fields if field.kind in DENSE]

    @property
    def competing(self) -> int:
        """How many values of fields candidates compete in: one for each way and each dense field."""
        return len(self.sparse) + len(self.dense)

    @property
    def columns(self) -> int:
        """How many columns of a description compare fields."""
        return 3 * self.competing + len(self.shares) + len(self.dense) + len(self.fields)

    @property
    def shares(self) -> list[Field]:
        """The field of each column of shares in common: four by words, and how rare a common category is."""
        worded = [field for field, way in self.sparse if way == "words"]
        return [field for field in worded for _ in range(5 if field.kind == "category" else 4)]

    def as_json(self) -> dict[str, Any]:
        fields = [
            [field.name, field.kind, list(field.left), list(field.right), list(field.formats)]
            for field in self.fields
        ]
        return {"fields": fields, "values": list(self.values)}

    @staticmethod
    def of(words: dict[str, Any]) -> Layout:
        """The layout that `as_json` gave."""
        fields = tuple(
            Field(str(name), str(kind), tuple(map(int, left)), tuple(map(int, right)), (str(one), str(other)))
            for name, kind, left, right, (one, other) in words["fields"]
        )
        known = {*SPARSE, *DENSE}
        left, right = map(int, words["values"])
        for field in fields:
            places = 2 if field.kind == "place" else 1
            fits = len(field.left) == len(field.right) == places and field.kind in known
            fits = fits and {*field.formats} <= {*FORMATS}
            if not fits or not {*field.left} <= {*range(left)} or not {*field.right} <= {*range(right)}:
                raise ValueError(f"the field {field.name!r} is of no known kind, or stands nowhere")
        return Layout(fields, (left, right))


NO_FIELDS = Layout()


def find_layout(left: Collection, right: Collection) -> Layout:
    """The layout of the texts of both sides (one collection given twice), empty for plain texts.

    Where all texts of a side have as many values, each place is a column: the one of the collection's fields
    with just these values, else one of its own whose kind is guessed from the values.
    """
    sides = [left] if left is right else [left, right]
    found = [columns_of(side) for side in sides]
    if not all(found):
        return NO_FIELDS
    names = [[name for name, _ in columns] for columns in found]
    values = (len(found[0]), len(found[-1]))
    kinds = {name: kind for name, kind in found[0] if name in names[-1]}
    places = dict(place_columns(kinds))
    fields = []
    for name, kind in kinds.items():
        columns, kind = ((name, places[name]), "place") if name in places else ((name,), kind)
        if kind in SPARSE or kind in DENSE:
            one, other = (tuple(map(side.index, columns)) for side in (names[0], names[-1]))
            fields.append(Field(", ".join(columns), kind, one, other))
    if len(sides) == 2:
        fields += _other_names(sides, found, {*kinds})
    rows = [[taken_apart(text) for text in side.texts] for side in sides]
    known = [
        replace(
            field,
            formats=(_format(field.kind, rows[0], field.left), _format(field.kind, rows[-1], field.right)),
        )
        for field in fields[:MOST_FIELDS]
    ]
    return Layout(tuple(known), values)


def _format(kind: str, rows: Sequence[Sequence[str]], places: Sequence[int]) -> str:
    """How a side writes a field, by all of its values."""
    if kind not in DENSE:
        return ""
    values = [row[place] for place in places for row in rows]
    if kind == "date":
        return "day first" if day_first_in(values) else ""
    return "decimal comma" if decimal_comma_in(values) else ""


def _other_names(
    sides: Sequence[Collection], found: Sequence[list[tuple[str, str]]], same: set[str]
) -> list[Field]:
    """Fields of two tables under different names: the only date, number or code on either side; of several
    columns the two that are most alike to each other, by words in common or by how their numbers spread.
    """
    rows = [[taken_apart(text) for text in side.texts] for side in sides]
    pairs: list[tuple[int, int]] = []
    for kinds, alike, least in (
        (("date",), _spread_alike, SPREAD_ALIKE),
        (("number",), _spread_alike, SPREAD_ALIKE),
        (("code",), _words_shared, WORDS_SHARED),
        (_WORDED, _words_shared, WORDS_SHARED),
    ):
        at = [
            [place for place, (name, kind) in enumerate(columns) if kind in kinds and name not in same]
            for columns in found
        ]
        if kinds != _WORDED and len(at[0]) == len(at[1]) == 1:
            pairs.append((at[0][0], at[1][0]))
        elif at[0] and at[1]:
            columns = [[[row[place] for row in rows[side]] for place in at[side]] for side in (0, 1)]
            table = np.array([[alike(kinds[0], one, other) for other in columns[1]] for one in columns[0]])
            best = (
                (table == table.max(axis=0)) & (table == table.max(axis=1, keepdims=True)) & (table >= least)
            )
            pairs += [(at[0][one], at[1][other]) for one, other in np.argwhere(best).tolist()]
    taken: tuple[set[int], set[int]] = (set(), set())
    fields = []
    for one, other in pairs:
        if one not in taken[0] and other not in taken[1]:  # equally alike to two: the first
            taken[0].add(one)
            taken[1].add(other)
            name = f"{found[0][one][0]} / {found[1][other][0]}"
            fields.append(Field(name, found[0][one][1], (one,), (other,)))
    return fields


def _words_shared(kind: str, one: Sequence[str], other: Sequence[str]) -> float:
    """The share of the words of two columns that are in both, of the column with fewer."""
    a, b = ({word for value in column for word in words(value)} for column in (one, other))
    return len(a & b) / max(min(len(a), len(b)), 1)


def _spread_alike(kind: str, one: Sequence[str], other: Sequence[str]) -> float:
    """1 minus the distance of Kolmogorov and Smirnov between the numbers or days of two columns."""
    from scipy.stats import ks_2samp

    read = column_days if kind == "date" else column_numbers
    a, b = (values[np.isfinite(values)] for values in (read(one), read(other)))
    return float(1.0 - ks_2samp(a, b, method="asymp").statistic) if len(a) and len(b) else 0.0


def columns_of(side: Collection) -> list[tuple[str, str]]:
    """Name and kind of each place in the texts of a side; empty where these have no places in common."""
    count = len(taken_apart(side.texts[0])) if side.texts else 0
    if count < 2:
        return []
    rows = [taken_apart(text) for text in side.texts]
    if any(len(row) != count for row in rows):
        return []
    values = [list(column) for column in zip(*rows)]
    named: dict[int, str] = {}
    if side.fields is not None:
        kept = {name: [value or "" for value in side.fields.column(name)] for name in side.fields.names}
        for at, column in enumerate(values):
            alike = [name for name, own in kept.items() if name not in named.values() and _same(own, column)]
            if alike:
                named[at] = alike[0]
    names = [named.get(at, f"value {at + 1}") for at in range(count)]
    kinds = guess_kinds(dict(zip(names, values))) | ({} if side.fields is None else dict(side.fields.kinds))
    return [(name, kinds[name]) for name in names]


def _same(own: Sequence[str], column: Sequence[str]) -> bool:
    return all(a.strip() == b or " | " in a or "|" in (a[:1], a[-1:]) for a, b in zip(own, column))


def words(value: str) -> list[str]:
    return _WORD.findall(value.lower())


def letters(value: str) -> list[str]:
    """Runs of three letters over word borders."""
    joined = f" {' '.join(words(value))} "
    return [joined[at : at + 3] for at in range(len(joined) - 2)] if len(joined) > 2 else []


def initials(value: str) -> list[str]:
    return [word[0] for word in words(value)]


def glued(value: str) -> list[str]:
    """The value without spaces and marks, as one piece."""
    whole = "".join(words(value))
    return [whole] if whole else []


def glued_letters(value: str) -> list[str]:
    whole = "".join(words(value))
    return [f" {whole} "[at : at + 3] for at in range(len(whole))] if whole else []


WAYS: dict[str, Callable[[str], list[str]]] = {
    way.__name__: way for way in (words, letters, initials, glued, glued_letters)
}


def field_values(layout: Layout, text: str, side: int) -> list[tuple[str, ...]]:
    """The values of each field of a text of a side (0 left, 1 right); all empty where it has other places."""
    values = taken_apart(text)
    places = [field.right if side else field.left for field in layout.fields]
    if len(values) != layout.values[side]:
        return [("",) * len(at) for at in places]
    return [tuple(values[place] for place in at) for at in places]


def dense_values(layout: Layout, texts: Sequence[str], side: int) -> list[NDArray[np.float64]]:
    """Of each dense field (n, 1) numbers or days, or (n, 2) degrees; nan where missing."""
    wanted = [at for at, field in enumerate(layout.fields) if field.kind in DENSE]
    if not wanted:
        return []
    rows = [field_values(layout, text, side) for text in texts]
    found = []
    for at in wanted:
        field = layout.fields[at]
        written = field.formats[side]
        parts = [[row[at][part] for row in rows] for part in range(len(field.left))]
        if field.kind == "date":
            days = [days_since(value, written == "day first") for value in parts[0]]
            found.append(np.array(days, np.float64).reshape(-1, 1))
        else:
            comma = written == "decimal comma"
            found.append(np.stack([column_numbers(part, comma) for part in parts], axis=1))
    return found


def compare_dense(
    kind: str, left: NDArray[np.float64], right: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(n,) how near values (n, 1 or 2) are, from 0 to 1 on a logarithmic scale, and whether they are equal.

    Numbers by relative difference, dates by days, places by kilometres; `UNKNOWN` where one is missing.
    Places of which one has a latitude or longitude only are compared by what both have.
    """
    missing = (np.isnan(left) | np.isnan(right)).all(axis=1)
    one, other = (
        np.nan_to_num(np.where(np.isnan(own), fallback, own))
        for own, fallback in ((left, right), (right, left))
    )
    if kind == "place":
        apart, most = kilometres(one, other), 20_000.0
    elif kind == "date":
        apart, most = np.abs(one - other)[:, 0], 36_525.0
    else:
        larger = np.maximum(np.abs(one), np.abs(other))[:, 0]
        apart, most = 1e4 * np.abs(one - other)[:, 0] / np.maximum(larger, 1e-300), 1e4
        missing |= ((one == 0) != (other == 0))[:, 0]  # any number is as far from 0: mostly it means "none"
    near = 1.0 - np.minimum(np.log1p(apart) / np.log1p(most), 1.0)
    equal = (one == other).all(axis=1).astype(np.float64)
    near[missing], equal[missing] = UNKNOWN, UNKNOWN
    return near, equal


def kilometres(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Great-circle distances (n,) of latitudes and longitudes (n, 2) in degrees, by the haversine formula."""
    a, b = np.radians(one), np.radians(other)
    part = np.sin((b - a) / 2) ** 2
    chord = part[:, 0] + np.cos(a[:, 0]) * np.cos(b[:, 0]) * part[:, 1]
    return 2 * _EARTH * np.arcsin(np.sqrt(np.clip(chord, 0.0, 1.0)))

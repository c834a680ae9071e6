"""The columns of a table as fields: each with a kind that says how its values are compared.

Values are kept as text, as a person would read them: whole numbers without ".0", dates in ISO order. Missing
is null, never an empty text. So the same table has the same fields whatever it was read from.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pairsieve.errors import InputError, nearest
from pairsieve.pairs import Rows
from pairsieve.tasks.values import Floats, Texts, column_days, column_numbers

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = {
    "text": "words in free order",
    "name": "a person, place, product or organisation",
    "number": "a quantity",
    "date": "a day or a year",
    "latitude": "of a place, in degrees; with a longitude",
    "longitude": "of a place, in degrees; with a latitude",
    "code": "an identifier, a phone number, a model number",
    "category": "one of a few values",
    "key": "names the record; never compared",
    "ignore": "never compared",
}
MOST_DEGREES = (90.0, 360.0)  # of a latitude and of a longitude
MOST_CATEGORIES = 500  # distinct values of a category
MOST_SHOWN = 40  # fields in words
BITS_A_WORD = 1.0  # that a category must say to be read by an encoder
SAMPLE = 5_000  # values of a column that its kind is guessed from
_LATITUDE = re.compile(r"(.*[_ .-])?lat(itude)?([_ .-].*)?", re.IGNORECASE)
_LONGITUDE = re.compile(r"(.*[_ .-])?(lon|lng|long|longitude)([_ .-].*)?", re.IGNORECASE)
_ROW_ID = re.compile(r"(.*[_ .-])?(id|uuid|guid|index|row|key|unnamed: 0)", re.IGNORECASE)
_NAMED = re.compile(r"name|author|artist|editor|person|surname|brand|manufacturer|director|composer", re.I)
_CODE = re.compile(r"(?=.*\d)[A-Za-z0-9][A-Za-z0-9._/#:+-]*")
_PHONE = re.compile(r"[\s()./+-]*(\d[\s()./+-]*){7,15}")
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_FLOAT = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, eq=False)
class Fields:
    """Columns of a collection, in its row order: `table` has one string column per field, null where missing.

    kinds: {column: kind}, in the order of the table; see `KINDS`.
    """

    kinds: Mapping[str, str]
    table: pa.Table

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.kinds)

    @property
    def compared(self) -> tuple[str, ...]:
        """The columns that say something of a match: all but keys and those to ignore."""
        return tuple(name for name, kind in self.kinds.items() if kind not in ("key", "ignore"))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        return f"<Fields of {len(self):,} records: {kinds_in_words(self.kinds)}>"

    def column(self, name: str) -> list[str | None]:
        """The values of a column; None where missing."""
        return self.table.column(name).to_pylist()

    def numbers(self, name: str) -> Floats:
        """(n,) the numbers of a column; nan where missing or no number."""
        return column_numbers(self.column(name))

    def days(self, name: str) -> Floats:
        """(n,) the dates of a column, in days since 1970; nan where missing or no date."""
        return column_days(self.column(name))

    def places(self) -> dict[str, Floats]:
        """{name: (n, 2) latitude and longitude in degrees}; nan where either is missing or no such angle."""
        found = {}
        for latitude, longitude in place_columns(self.kinds):
            place = np.stack([self.numbers(latitude), self.numbers(longitude)], axis=1)
            place[~(np.abs(place) <= MOST_DEGREES).all(axis=1)] = np.nan
            found[f"{latitude}, {longitude}"] = place
        return found

    def take(self, rows: Rows) -> Fields:
        """The rows given, in that order."""
        return Fields(self.kinds, self.table.take(np.asarray(rows, np.int64)))

    @cached_property
    def typed(self) -> pa.Table:
        """The columns as a person wants them back: numbers and truth values where all values are such."""
        import pyarrow as pa

        return pa.table({name: _typed(self.column(name), kind) for name, kind in self.kinds.items()})

    @property
    def types(self) -> dict[str, str]:
        """{column: type} of `typed`: string, bool, int64 or float64."""
        types = {name: str(self.typed.column(name).type) for name in self.names}
        return {name: "float64" if kind == "double" else kind for name, kind in types.items()}

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over names, kinds and values."""
        digest = hashlib.sha256(json.dumps(list(self.kinds.items())).encode())
        for name in self.names:
            encoded = [None if value is None else value.encode() for value in self.column(name)]
            lengths = [len(encoded), *(-1 if value is None else len(value) for value in encoded)]
            digest.update(np.array(lengths, "<i8").tobytes())
            digest.update(b"".join(value for value in encoded if value is not None))
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class StoredFields:
    """Fields that lie on disk: their kinds and fingerprint are known, the values are read when asked for."""

    kinds: Mapping[str, str]
    fingerprint: str
    load: Callable[[], Fields]


def make_fields(
    columns: Mapping[str, Texts], kinds: Mapping[str, str] | None = None, key: str | None = None
) -> Fields:
    """Fields from columns of texts; an empty text is missing. What `kinds` leaves open is guessed."""
    import pyarrow as pa

    values = {
        name: [None if text is None or not text.strip() else text for text in texts]
        for name, texts in columns.items()
    }
    found = guess_kinds(values, key) | dict(kinds or {})
    table = pa.table({name: pa.array(texts, pa.string()) for name, texts in values.items()})
    return Fields({name: found[name] for name in values}, table)


def guess_kinds(columns: Mapping[str, Texts], key: str | None = None) -> dict[str, str]:
    """The kind of each column by its values; a pair of coordinates and row ids also by their names."""
    kinds = {name: _guess_kind(name, texts) for name, texts in columns.items()}
    latitudes = [name for name, kind in kinds.items() if kind == "latitude"]
    longitudes = [name for name, kind in kinds.items() if kind == "longitude"]
    for spare in (*latitudes[len(longitudes) :], *longitudes[len(latitudes) :]):
        kinds[spare] = "number"
    if key is not None and key in kinds:
        kinds[key] = "key"
    return kinds


def read_kinds(words: Sequence[str]) -> dict[str, str]:
    """{column: kind} from "column=kind"."""
    kinds = {}
    for each in words:
        name, equals, kind = each.rpartition("=")
        if not equals:
            raise InputError(f"a kind {each!r}", where="`kinds`", remedy="Write COLUMN=KIND, as year=date")
        kinds[name] = kind
    return kinds


def check_kinds(kinds: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Kinds that a user gives, or an error that names the column or kind that there is not."""
    for name, kind in kinds.items():
        if name not in names:
            raise InputError(f"there is no column {name!r}", where="`kinds`", remedy=nearest(name, names))
        if kind not in KINDS:
            raise InputError(f"there is no kind {kind!r}", where="`kinds`", remedy=nearest(kind, KINDS))
    return dict(kinds)


def check_places(kinds: Mapping[str, str]) -> None:
    """An error where a latitude has no longitude, or the other way round."""
    counts = [sum(kind == side for kind in kinds.values()) for side in ("latitude", "longitude")]
    if counts[0] != counts[1]:
        what = f"{counts[0]} columns are a latitude and {counts[1]} a longitude"
        remedy = "Give both columns of a place their kinds, or make the single one a number"
        raise InputError(what, where="`kinds`", remedy=remedy)


def place_columns(kinds: Mapping[str, str]) -> list[tuple[str, str]]:
    """The columns of each place, latitude first; several places pair up in their order."""
    sides = [[name for name, kind in kinds.items() if kind == side] for side in ("latitude", "longitude")]
    return list(zip(*sides))


def kinds_in_words(kinds: Mapping[str, str]) -> str:
    """The fields for a person: "title text, year date, lat + lon place"; the first `MOST_SHOWN` of them."""
    places = dict(place_columns(kinds))
    words = []
    for name, kind in kinds.items():
        if kind == "latitude" and name in places:
            words.append(f"{name} + {places[name]} place")
        elif kind != "longitude":
            words.append(f"{name} {kind}")
    more = f" and {len(words) - MOST_SHOWN:,} more" if len(words) > MOST_SHOWN else ""
    return ", ".join(words[:MOST_SHOWN]) + more


def says_enough(texts: Texts) -> bool:
    """Whether the values of a category tell records apart by at least `BITS_A_WORD` (Shannon's entropy).

    What an encoder reads makes records alike in proportion to its length. A long value that hundreds of
    records share would outweigh the names beside it.
    """
    values = [text.strip().lower() for text in texts if text is not None and text.strip()]
    shares = np.array([*Counter(values).values()], np.float64) / max(len(values), 1)
    words = sum(len(_WORD.findall(value)) or 1 for value in values)
    return float(-(shares * np.log2(shares)).sum()) * len(values) >= BITS_A_WORD * words


def _guess_kind(name: str, texts: Texts) -> str:
    values = [text.strip() for text in texts if text is not None and text.strip()]
    if not values:
        return "ignore"
    distinct = len(set(values))
    step = max(1, len(values) // SAMPLE)
    some = values[::step][:SAMPLE]
    numbers = column_numbers(some)
    numeric = np.isfinite(numbers).mean() >= 0.95
    if numeric and _ROW_ID.fullmatch(name) and distinct == len(values):
        return "ignore"
    if np.isfinite(column_days(some)).mean() >= 0.9:
        return "date"
    if numeric:
        return _guess_number_kind(name, some, numbers[np.isfinite(numbers)])
    words = [len(_WORD.findall(value)) for value in some]
    if len(values) >= 20 and distinct <= min(MOST_CATEGORIES, 0.15 * len(values)):
        return "category"
    if _share(some, _CODE.fullmatch) >= 0.9 or _share(some, _PHONE.fullmatch) >= 0.9:
        return "code"
    without_digits = _share(some, lambda value: not any(map(str.isdigit, value)))
    if without_digits >= 0.8 and np.mean(words) <= (15 if _NAMED.search(name) else 4):
        return "name"
    return "text"


def _guess_number_kind(name: str, values: Sequence[str], numbers: Floats) -> str:
    """Of a column of numbers: coordinates, a code that looks like a number, or a quantity."""
    degrees = np.percentile(np.abs(numbers), 98)  # a few coordinates have lost their decimal point
    if _LATITUDE.fullmatch(name) and degrees <= MOST_DEGREES[0]:
        return "latitude"
    if _LONGITUDE.fullmatch(name) and degrees <= MOST_DEGREES[1]:
        return "longitude"
    whole = all(value.isdecimal() for value in values)
    padded = any(len(value) > 1 and value[0] == "0" and value[1].isdecimal() for value in values)
    alike = len({len(value) for value in values}) <= 2 and len(values[0]) >= 7
    if whole and (padded or alike):
        return "code"
    return "number"


def _typed(texts: Texts, kind: str) -> pa.Array:
    import pyarrow as pa

    given = [text for text in texts if text is not None]
    if given and kind != "code":
        if all(text in ("true", "false") for text in given):
            return pa.array([None if text is None else text == "true" for text in texts], pa.bool_())
        if all(map(_INTEGER.fullmatch, given)):
            return pa.array([None if text is None else int(text) for text in texts], pa.int64())
        if all(map(_FLOAT.fullmatch, given)):
            return pa.array([None if text is None else float(text) for text in texts], pa.float64())
    return pa.array(texts, pa.string())


def _share(values: Sequence[str], fits: Callable[[str], Any]) -> float:
    return sum(bool(fits(value)) for value in values) / len(values)

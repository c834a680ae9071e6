"""Texts, keys and fields from the rows of a table: templates, joined columns, and their checks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pairsieve.errors import InputError
from pairsieve.pairs import Rows
from pairsieve.tasks.fields import Fields, check_kinds, check_places, guess_kinds, make_fields, says_enough
from pairsieve.tasks.joined import BESIDE, BETWEEN, joined_rows, rendered
from pairsieve.tasks.reading import Table
from pairsieve.tasks.task import Collection

ALL_COLUMNS = "all columns"  # noted in place of a template where a text has every column but the key
_NAME_COLUMNS = 'Name columns in braces, as "{title} by {author}"'
_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True)
class TextColumns:
    """The columns whose values make the text: those that are read, and those that are only compared."""

    read: tuple[str, ...]
    beside: tuple[str, ...] = ()

    @property
    def template(self) -> str:
        """The template that stands for them where a task notes how its texts were rendered."""
        parts = (BETWEEN.join(f"{{{column}}}" for column in each) for each in (self.read, self.beside))
        return BESIDE.join(filter(None, parts))

    @staticmethod
    def of(template: str) -> TextColumns | None:
        """The columns that `template` gave; None for any other template."""
        parts = [tuple(parse_template(part)[1]) for part in template.split(BESIDE)]
        found = TextColumns(*parts) if len(parts) <= 2 else None
        return found if found is not None and found.template == template else None


def joined_columns(table: Table, columns: TextColumns, option: str = "") -> list[str]:
    """The values of the columns, stripped, with " | " between them; a missing one leaves its place empty."""
    parts = ([table.strings(column, option) for column in each] for each in (columns.read, columns.beside))
    return joined_rows(*parts)


def from_template(table: Table, template: str, option: str = "`template`") -> list[str]:
    """Texts from a template such as "{title} by {author}"; `{{` and `}}` are braces.

    Behind each stand the values it was made of, to be compared field by field. A row whose named columns are
    all empty becomes "", whatever else the template says.
    """
    literals, columns = parse_template(template, option)
    cells = [table.strings(column, option) for column in columns]
    once = [columns.index(column) for column in dict.fromkeys(columns)]
    return [
        rendered(
            literals[0] + "".join(value + after for value, after in zip(row, literals[1:])),
            [row[place] for place in once],
        )
        if any(value.strip() for value in row)
        else ""
        for row in zip(*cells)
    ]


def text_columns(
    table: Table,
    text: Sequence[str],
    key: str | None,
    left_out: Sequence[str] = (),
    beside: Sequence[str] = (),
) -> TextColumns:
    """The columns of the text: those named, or with "all" every column but the key and those left out.

    beside: those of "all" that are only compared, unless there is no other. A name with braces names no
    column in a template, and is not among "all"; one that stands twice is an error.
    """
    if list(text) != ["all"] or "all" in table.names:
        return TextColumns(tuple(text))
    if (
        twice := next((name for name in table.names if name and table.names.count(name) > 1), None)
    ) is not None:
        once = [name for name in table.names if name and table.names.count(name) == 1]
        others = ", ".join(name for name in once if name not in (key, *left_out))
        remedy = "Rename them in the header"
        remedy += f", or name others for the text with `text` ({others})" if others else ""
        raise table.error(f"{table.names.count(twice)} columns are called {twice!r}", remedy=remedy)
    plain = [name for name in table.names if name and not {*name} & {*"{}"}]
    columns = tuple(name for name in plain if name not in (key, *left_out))
    if not columns:
        what = f"there is no column for the text besides {', '.join(table.names)}"
        empty = [name for name in plain if name != key and _is_empty(table, name)]
        if empty:
            what = "there is no column for the text"
            why = f"{', '.join(map(repr, empty))} {'is' if len(empty) == 1 else 'are'} empty in every row"
            raise table.error(what, why=why, remedy="Fill it in, or name other columns with `text`")
        raise table.error(what, remedy="Name the columns with `text`")
    read = tuple(name for name in columns if name not in beside)
    return (
        TextColumns(read, tuple(name for name in columns if name in beside)) if read else TextColumns(columns)
    )


def _is_empty(table: Table, column: str) -> bool:
    try:
        return not any(text.strip() for text in table.strings(column))
    except InputError:  # it holds lists, objects or bytes
        return False


def columns_of(table: Table) -> dict[str, list[str]]:
    """Every column of a table as texts, by name; those that hold lists, objects or bytes are left out."""
    columns: dict[str, list[str]] = {}
    for position, name in enumerate(table.names):
        try:
            texts = table.strings_at(position)
        except InputError:
            continue
        plain, times = name or f"column {position + 1}", 2
        while (name := plain if times == 2 else f"{plain} ({times - 1})") in columns:
            times += 1
        columns[name] = texts
    return columns


def shared_columns(tables: Sequence[Table]) -> dict[str, list[str]]:
    """Every column as texts, by name; one of both tables has the values of both."""
    values: dict[str, list[str]] = {}
    for table in tables:
        for name, texts in columns_of(table).items():
            values.setdefault(name, []).extend(texts)
    return values


def shared_kinds(
    values: Mapping[str, Sequence[str]], keys: Sequence[str | None], given: Mapping[str, str]
) -> dict[str, str]:
    """The kind of every one of `shared_columns` but the keys, guessed unless it is given."""
    kinds = guess_kinds(values) | check_kinds(given, list(values))
    check_places(kinds)
    return {name: kind for name, kind in kinds.items() if name not in keys}


def compared_only(values: Mapping[str, Sequence[str]], kinds: Mapping[str, str]) -> list[str]:
    """The categories that say too little for their length to be read by an encoder."""
    return [name for name, kind in kinds.items() if kind == "category" and not says_enough(values[name])]


def fields_of(
    columns: Mapping[str, Sequence[str]], key: str | None, kinds: Mapping[str, str]
) -> Fields | None:
    """The columns as fields; None where there is at most one besides the key: the text is all there is."""
    if len([name for name in columns if name != key]) < 2:
        return None
    return make_fields(columns, {name: kind for name, kind in kinds.items() if name in columns}, key)


def collection_of(
    table: Table,
    text: TextColumns,
    template: str | None,
    key: str | None,
    kinds: Mapping[str, str] | None = None,
    source: str | None = None,
) -> Collection:
    """The keys, texts and fields of a table; texts by a template or else joined columns.

    An empty text is an error. kinds: of the fields; what it leaves open is guessed. source: the column that
    names the source of each row, where pairs within a source are no pairs.
    """
    keys = keys_of(table, key)
    columns = parse_template(template)[1] if template else list(text.read)
    texts = from_template(table, template) if template else joined_columns(table, text, "`text`")
    for row, words in enumerate(texts):
        if not words.strip():
            raise table.error(
                "the text is empty" + (f" (key {keys[row]!r})" if key else ""),
                row,
                columns[0] if len(columns) == 1 else "",
                why="" if len(columns) == 1 else f"the columns {', '.join(columns)} are all empty",
                remedy="Fill the text in, remove the row, or name further columns with "
                + ("`template`" if template else "`text`"),
            )
    sources = None if source is None else sources_of(table, source)
    return Collection(keys, texts, fields_of(columns_of(table), key, kinds or {}), sources)


def sources_of(table: Table, column: str) -> Rows:
    """(n,) the number of each row's source, in the order in which they first appear; none may be missing."""
    names = table.strings(column, "`source`")
    number: dict[str, int] = {}
    for row, name in enumerate(names):
        if not name.strip():
            remedy = "Fill it in, or leave `source` out: then any two rows may match"
            raise table.error("the source is missing", row, column, remedy=remedy)
        number.setdefault(name, len(number))
    if len(number) == 1:
        why, remedy = "pairs within a source are no pairs, so that no pair is left", "Leave `source` out"
        raise table.error(f"every row is of the source {names[0]!r}", None, column, why, remedy)
    return np.array([number[name] for name in names], np.int64)


def parse_template(template: str, option: str = "`template`") -> tuple[list[str], list[str]]:
    """Its literal pieces and, between them, the columns it names."""
    literals, columns, at = [""], [], 0
    for found in _FIELD.finditer(template):
        literals[-1] += template[at : found.start()]
        at = found.end()
        if found.group() in ("{{", "}}"):
            literals[-1] += found.group()[0]
        elif found.group(1):
            columns.append(found.group(1).strip())
            literals.append("")
        else:
            what = f"the template {template!r} has a brace without a column"
            raise InputError(what, where=option, remedy=_NAME_COLUMNS + "; write {{ for a brace")
    literals[-1] += template[at:]
    if not columns:
        raise InputError(f"the template {template!r} names no column", where=option, remedy=_NAME_COLUMNS)
    return literals, columns


def keys_of(table: Table, column: str | None, option: str = "`key`") -> list[str]:
    """Distinct, non-empty keys; without a column the row numbers from 0."""
    if column is None:
        return [str(row) for row in range(len(table))]
    keys = table.strings(column, option)
    seen: dict[str, int] = {}
    for row, key in enumerate(keys):
        if not key.strip():
            remedy = "Give every row a key, or leave `key` out to use row numbers"
            raise table.error("the key is empty", row, column, remedy=remedy)
        if "\x00" in key:
            why, remedy = "not every database can keep it", "Remove the character from the key"
            raise table.error("the key holds a zero character", row, column, why, remedy)
        if seen.setdefault(key, row) != row:
            what = f"the key {key!r} stands in rows {table.numbers[seen[key]]} and {table.numbers[row]}"
            remedy = "Remove or rename one of them, or name another key column"
            raise table.error(what, row, column, "a key names one row", remedy)
    return keys


def rows_of_keys(
    table: Table, column: str, keys: Sequence[str], owner: str, elsewhere: Sequence[str] = ()
) -> Rows:
    """Row numbers, in the collection with these keys, of the keys that a column names.

    `owner` says in an error where the keys are from; `elsewhere` are the keys of the other collection.
    """
    row_of = {key: row for row, key in enumerate(keys)}
    named = table.strings(column)
    for row, key in enumerate(named):
        if key not in row_of:
            what = f"the key {key!r} is not in {owner}" if key.strip() else "the key is empty"
            why = f"keys there look like {', '.join(map(repr, keys[:3]))}"
            remedy = "Correct the key, or remove the row"
            if key in elsewhere:
                why = "it is a key of the other table: the two columns may be swapped"
                remedy = "Swap the two columns"
            raise table.error(what, row, column, why, remedy)
    return np.fromiter((row_of[key] for key in named), np.int64, len(named))

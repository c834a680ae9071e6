"""Texts and keys from the rows of a table: templates, joined columns, and their checks."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from pairsieve.errors import InputError
from pairsieve.pairs import Rows
from pairsieve.tasks.reading import Table
from pairsieve.tasks.task import Collection

BETWEEN = " | "  # stands between the columns of a text where no template is given
ALL_COLUMNS = "all columns"  # noted in place of a template where a text has every column but the key
_NAME_COLUMNS = 'Name columns in braces, as "{title} by {author}"'
_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def joined_columns(table: Table, columns: Sequence[str], option: str = "") -> list[str]:
    """The non-empty values of the columns, stripped, with " | " between them."""
    cells = [table.strings(column, option) for column in columns]
    if len(cells) == 1:
        return cells[0]
    return [BETWEEN.join(value.strip() for value in row if value.strip()) for row in zip(*cells)]


def from_template(table: Table, template: str, option: str = "`template`") -> list[str]:
    """Texts from a template such as "{title} by {author}"; `{{` and `}}` are braces.

    A row whose named columns are all empty becomes "", whatever else the template says.
    """
    literals, columns = parse_template(template, option)
    cells = [table.strings(column, option) for column in columns]
    return [
        literals[0] + "".join(value + after for value, after in zip(row, literals[1:]))
        if any(value.strip() for value in row)
        else ""
        for row in zip(*cells)
    ]


def joined_template(columns: Sequence[str]) -> str:
    """The template that stands for joined columns where a task notes how its texts were rendered."""
    return BETWEEN.join(f"{{{column}}}" for column in columns)


def collection_of(table: Table, text: Sequence[str], template: str | None, key: str | None) -> Collection:
    """The keys and texts of a table, from a template or else joined columns; an empty text is an error."""
    keys = keys_of(table, key)
    columns = parse_template(template)[1] if template else list(text)
    texts = from_template(table, template) if template else joined_columns(table, columns, "`text`")
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
    return Collection(keys, texts)


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

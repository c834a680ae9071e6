"""The records of a group as one: each field takes the value of one of them, by a rule."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pairsieve.errors import InputError, nearest
from pairsieve.matches.clusters import largest_first
from pairsieve.pairs import Rows
from pairsieve.tasks import Collection
from pairsieve.tasks.fields import Fields, make_fields, place_columns

RULES = {
    "longest": "the longest value",
    "most-frequent": "the value that most records of the group have",
    "most-recent": "that of the record with the latest date",
    "source-order": "that of the source that comes first",
}
Choice = Callable[[Sequence[int]], int]  # rows of a group that have a value -> the one whose value is taken


@dataclass(frozen=True)
class MergeRules:
    """A rule for every field, and others for some of them.

    date: column of most-recent (None: the date field with the most values). source: column of source-order
    (None: the task's own). order: of the sources, best first (others after them, as they first appear).
    """

    default: str = "most-frequent"
    by_field: Mapping[str, str] = field(default_factory=dict)
    date: str | None = None
    source: str | None = None
    order: Sequence[str] = ()


def read_rules(
    words: str | Sequence[str], order: Sequence[str] = (), source: str | None = None
) -> MergeRules:
    """Rules from "longest", "price=most-recent", "most-recent:updated" and the like; the last one counts."""
    default, by_field = "most-frequent", {}
    columns: dict[str, str | None] = {"most-recent": None, "source-order": source}
    for each in [words] if isinstance(words, str) else words:
        name, equals, rule = each.rpartition("=")
        rule, colon, column = rule.partition(":")
        if rule not in RULES:
            raise InputError(f"there is no rule {rule!r}", where="`merge`", remedy=nearest(rule, RULES))
        if colon and rule not in columns:
            raise InputError(f"the rule {rule} has no column", where="`merge`", remedy=f"Write {rule} alone")
        if colon:
            columns[rule] = column
        if equals:
            by_field[name] = rule
        else:
            default = rule
    return MergeRules(default, by_field, columns["most-recent"], columns["source-order"], tuple(order))


def record_fields(texts: Collection) -> Fields:
    """The fields of a collection; plain texts have two, their key and the text."""
    if texts.fields is not None:
        return texts.fields
    return make_fields({"key": texts.keys, "text": texts.texts}, {"key": "key", "text": "text"})


def merge_records(
    texts: Collection, group: Rows, chosen: Rows, rules: MergeRules
) -> tuple[dict[str, str], dict[str, Sequence[Any]]]:
    """(types, columns) of one record a group, groups as `group_columns` numbers them, the largest first.

    group: (n,) group of each text; chosen: (groups,) the representative of each, whose key it takes. The two
    columns of a place are taken from one record. members: the keys of the group, as a JSON list.
    """
    fields = record_fields(texts)
    unknown = next((name for name in rules.by_field if name not in fields.names), None)
    if unknown is not None:
        remedy = nearest(unknown, fields.names)
        raise InputError(f"there is no column {unknown!r}", where="`merge`", remedy=remedy)
    number = largest_first(group)
    group, chosen = number[group], chosen[np.argsort(number)]
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))[1:]
    members = [rows.tolist() for rows in np.split(order, starts)] if len(group) else []
    taken: dict[str, list[int | None]] = {}
    for columns in _together(fields):
        values = [fields.column(name) for name in columns]
        joint = [None if None in row else "\x1f".join(map(str, row)) for row in zip(*values)]
        choose = _choice(rules.by_field.get(columns[0], rules.default), fields, joint, rules)
        found: list[int | None] = []
        for rows, first in zip(members, chosen.tolist()):
            given = [row for row in rows if joint[row] is not None]
            keyed = fields.kinds[columns[0]] == "key"
            found.append(first if keyed else choose(given) if given else None)
        taken |= dict.fromkeys(columns, found)
    types = {"cluster": "int64", "size": "int64", "members": "string"}
    merged: dict[str, Sequence[Any]] = {
        "cluster": list(range(len(members))),
        "size": [len(rows) for rows in members],
        "members": [json.dumps([texts.keys[row] for row in rows], ensure_ascii=False) for rows in members],
    }
    for name in fields.names:
        cells = fields.typed.column(name).to_pylist()
        own = free_name(name, merged)
        types[own] = fields.types[name]
        merged[own] = [None if row is None else cells[row] for row in taken[name]]
    return types, merged


def free_name(name: str, taken: Mapping[str, Any]) -> str:
    """A column's name, with an underscore behind it for each time that it is taken."""
    while name in taken:
        name += "_"
    return name


def _together(fields: Fields) -> list[tuple[str, ...]]:
    """The columns that are taken from one record: those of a place, and each other one alone."""
    places = dict(place_columns(fields.kinds))
    second = set(places.values())
    return [
        (name, places[name]) if name in places else (name,) for name in fields.names if name not in second
    ]


def _choice(rule: str, fields: Fields, values: Sequence[str | None], rules: MergeRules) -> Choice:
    """The rule as a function from rows to the row whose value is taken; ties go to the first row."""
    if rule == "longest":
        return lambda rows: max(rows, key=lambda row: (len(str(values[row])), -row))
    if rule == "most-frequent":

        def most_frequent(rows: Sequence[int]) -> int:
            count = Counter(values[row] for row in rows)
            return max(rows, key=lambda row: (count[values[row]], len(str(values[row])), -row))

        return most_frequent
    if rule == "most-recent":
        days = fields.days(_date_column(fields, rules.date))
        latest = np.where(np.isnan(days), -np.inf, days)
        return lambda rows: max(rows, key=lambda row: (latest[row], -row))
    sources = fields.column(_known_column(fields, rules.source, "source-order"))
    names = list(dict.fromkeys([*rules.order, *(source or "" for source in sources)]))
    place = {name: at for at, name in enumerate(names)}
    return lambda rows: min(rows, key=lambda row: (place[sources[row] or ""], row))


def _date_column(fields: Fields, named: str | None) -> str:
    dates = [name for name, kind in fields.kinds.items() if kind == "date"]
    if named is None and not dates:
        what, remedy = "no field is a date", "Name its column, as most-recent:updated, or choose another rule"
        raise InputError(what, where="`merge`", remedy=remedy)
    if named is None:
        return min(dates, key=lambda name: fields.table.column(name).null_count)
    return _known_column(fields, named, "most-recent")


def _known_column(fields: Fields, named: str | None, rule: str) -> str:
    if named is None:
        remedy = f"Name its column, as {rule}:origin"
        raise InputError("the task has no column of sources", where="`merge`", remedy=remedy)
    if named not in fields.names:
        raise InputError(
            f"there is no column {named!r}", where="`merge`", remedy=nearest(named, fields.names)
        )
    return named

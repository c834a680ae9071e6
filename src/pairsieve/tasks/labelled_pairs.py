"""Reader of labelled pairs: under the column names that common tools give them, or recognised by their keys.

A file may have no header; its columns may be called anything if their values are keys; keys are compared as
they are and, where that fails, as numbers ("7.0" and "007" are 7). Read as well: what pairsieve itself writes
(lists of matches, groups, answered batches, exported ledgers).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError
from pairsieve.pairs import Ids, PairSpace, Rows
from pairsieve.tables import from_spreadsheet
from pairsieve.tasks.reading import Table, read_labels
from pairsieve.tasks.records import rows_of_keys

PAIR_COLUMNS = (
    ("id_a", "id_b"),
    ("left_id", "right_id"),
    ("unique_id_l", "unique_id_r"),
    ("qid1", "qid2"),
    ("ltable_id", "rtable_id"),
    ("id1", "id2"),
    ("left_key", "right_key"),
    ("left", "right"),
)
LABEL_COLUMNS = ("label", "is_duplicate", "match", "is_match", "clerical_match_score", "gold")
MOST_COLUMNS = 8  # of a file of pairs that are tried as keys
_LIST = {"left", "right", "score", "probability"}  # columns of pairsieve's own lists,
_GROUPS = {"key", "cluster", "representative"}  # groups
_EVENTS = {"event", "left_key", "right_key", "label", "about", "who"}  # and exported ledgers
_WHOLE = re.compile(r"0*([0-9]+?)(?:\.0+)?")


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs as a file states them, row by row: canonical ids and labels (True is a match)."""

    ids: Ids
    labels: NDArray[np.bool_]
    unlabelled: int = 0  # rows without a label, or unsure
    first_unlabelled: str = ""  # the first of them, as "row 4 ('maybe')"

    @property
    def positives(self) -> Ids:
        return np.unique(self.ids[self.labels])

    @property
    def negatives(self) -> Ids:
        return np.unique(self.ids[~self.labels])

    @staticmethod
    def none() -> LabelledPairs:
        return LabelledPairs(np.empty(0, np.int64), np.empty(0, bool))


def read_labelled_pairs(
    table: Table,
    space: PairSpace,
    left_keys: Sequence[str],
    right_keys: Sequence[str],
    owners: tuple[str, str],
    only_matches: bool = False,
) -> LabelledPairs:
    """The pairs that a file states; without a label column each of them is a match.

    `owners` name the two collections in errors. With `only_matches` a label 0 is an error. Rows without a
    label, and unsure ones, are left out and counted.
    """
    if only_matches and space.symmetric and {*table.names} >= _GROUPS:
        return _pairs_of_groups(table, space, left_keys, owners[0])
    if {*table.names} >= _EVENTS:
        table = _last_word(table)
    table = with_first_row(table, left_keys, right_keys)
    if len(table) == 0 and table.delimiter:
        raise table.error("the file has columns but no pairs", remedy="Give at least one pair")
    columns = _columns(table, left_keys, right_keys, only_matches)
    other = ((), ()) if space.symmetric else (right_keys, left_keys)
    try:
        left = key_rows(table, columns[0], left_keys, owners[0], other[0])
        right = key_rows(table, columns[1], right_keys, owners[1], other[1])
    except InputError as error:
        if pair_columns(table) is not None:
            raise
        taken = f"the columns {columns[0]} and {columns[1]} were taken for the keys"
        why = f"{error.why}; {taken}" if error.why else taken
        raise InputError(error.what, where=error.where, why=why, remedy=error.remedy) from error
    if space.symmetric and (left == right).any():
        row = int(np.flatnonzero(left == right)[0])
        what, why = f"the row pairs {left_keys[left[row]]!r} with itself", "a pair has two different texts"
        raise table.error(what, row, columns[1], why, remedy="Remove the row")
    label = None if only_matches and {*table.names} >= _LIST else label_column(table)
    given = [True] * len(table) if label is None else read_labels(table, label, words=True)
    if only_matches and not all(given):
        row = next(row for row, each in enumerate(given) if not each)
        word = _word(table, label, row)
        unclear = f"the label {word!r} says that nobody is sure" if word else "a row has no label"
        raise table.error(
            "the label 0 stands among the known matches" if given[row] is False else unclear,
            row,
            label or "",
            why="a file of matches lists every match and nothing else",
            remedy="Pass a file of labelled pairs as `labels`",
        )
    known = np.array([each is not None for each in given], bool)
    if len(given) and not known.any():
        raise table.error("no row has a label", None, label or "", remedy="Fill in 1 (match) or 0 (no match)")
    labels = np.array([bool(each) for each in given], bool)
    first = ""
    if not known.all():
        row = int(np.flatnonzero(~known)[0])
        first = f"row {table.numbers[row]} ({repr(word) if (word := _word(table, label, row)) else 'empty'})"
    return LabelledPairs(space.ids(left, right)[known], labels[known], int((~known).sum()), first)


def _word(table: Table, label: str | None, row: int) -> str:
    """The label of a row as it is written; "" where the cell is empty."""
    return "" if label is None else table.strings(label)[row].strip()


def pair_columns(table: Table) -> tuple[str, str] | None:
    """The two columns that name the pairs of a file under one of the names that tools give them."""
    if {*table.names} >= _LIST:
        return "left", "right"
    names = _lowered(table)
    return next(((names[a], names[b]) for a, b in PAIR_COLUMNS if a in names and b in names), None)


def label_column(table: Table) -> str | None:
    """The column that holds labels under one of the names that tools give it."""
    names = _lowered(table)
    return next((names[name] for name in LABEL_COLUMNS if name in names), None)


def with_first_row(table: Table, left_keys: Sequence[str], right_keys: Sequence[str]) -> Table:
    """The table, its first row taken for a pair where there is no header: two of its cells are keys.

    Columns are then called "column 1", "column 2", …; a third and last one of 0 and 1 is "label".
    """
    left, right = {plain_key(key) for key in left_keys}, {plain_key(key) for key in right_keys}
    head = [plain_key(name) for name in table.names[:MOST_COLUMNS]]
    first = next((at for at, name in enumerate(head) if name in left), None)
    if not table.delimiter or first is None or not any(name in right for name in head[first + 1 :]):
        return table
    names, cells = table.names, table.cells

    def with_head(position: int) -> Sequence[Any]:
        return [names[position], *cells(position)]

    numbered = [f"column {place + 1}" for place in range(len(names))]
    if len(names) == 3 and {*with_head(2)} <= {"0", "1", "0.0", "1.0"}:
        numbered[2] = "label"
    return replace(table, names=tuple(numbered), numbers=[1, *table.numbers], cells=with_head)


def names_keys(table: Table, keys: set[str], side: int | None = None) -> bool:
    """Whether two columns of a file of pairs hold keys of one table and nothing else.

    side: 0 or 1 where there are two tables: whether its column of the pairs does.
    """
    plain = {plain_key(key) for key in keys}
    if side is None:
        table = with_first_row(table, list(keys), list(keys))
    label = label_column(table)
    names = [name for name in table.names[:MOST_COLUMNS] if name != label]
    if side is not None:
        names = list((pair_columns(table) or names)[side : side + 1])
    fitting = ({plain_key(value) for value in table.strings(name) if value} <= plain for name in names)
    return sum(fitting) >= (2 if side is None else 1)


def key_rows(
    pairs: Table, column: str, keys: Sequence[str], owner: str, elsewhere: Sequence[str] = ()
) -> Rows:
    """Row numbers of the keys that a column names: as they are, else as numbers where that is unambiguous."""
    exact = {key: row for row, key in enumerate(keys)}
    named = [key if key in exact else from_spreadsheet(key) for key in pairs.strings(column)]
    plain = {plain_key(key): row for row, key in enumerate(keys)}
    for rows, names in ((exact, named), (plain, [plain_key(key) for key in named])):
        if len(rows) == len(keys) and all(key in rows for key in names):
            return np.fromiter((rows[key] for key in names), np.int64, len(names))
    return rows_of_keys(pairs, column, keys, owner, elsewhere)


def plain_key(key: str) -> str:
    """A key without spaces around it; a whole number without leading zeros and without ".0"."""
    key = key.strip()
    return _WHOLE.sub(r"\1", key) if _WHOLE.fullmatch(key) else key


def _columns(
    table: Table, left_keys: Sequence[str], right_keys: Sequence[str], only_matches: bool
) -> tuple[str, str]:
    """The columns of the pair's keys: by their names, or by their values where every one is a key."""
    named = pair_columns(table)
    if named is not None:
        return named
    label = label_column(table)
    tried = [name for name in table.names if name and name != label and table.names.count(name) == 1]
    left, right = {plain_key(key) for key in left_keys}, {plain_key(key) for key in right_keys}
    found = {name: {plain_key(value) for value in table.strings(name)} for name in tried[:MOST_COLUMNS]}
    two = only_matches and len(table.names) == len(tried) == 2
    if two and (not len(table) or any(values & (left | right) for values in found.values())):
        return tried[0], tried[1]  # the key that is none is named later
    fitting = [(a, b) for a, b in combinations(found, 2) if found[a] <= left and found[b] <= right]
    spare = len(table.names) - 2 - (label is not None)
    if len(fitting) == 1 and (label is not None or only_matches or not spare):
        return fitting[0]
    known = "; ".join(f"{one}, {other}" for one, other in PAIR_COLUMNS)
    what, why = "no two columns name the pair's keys", f"the columns are {', '.join(table.names)}"
    if not fitting:
        why += f"; no two of them hold keys alone, such as {', '.join(map(repr, left_keys[:3]))}"
    remedy = f"Name them as one of: {known}"
    if len(fitting) == 1:
        what = f"the columns {fitting[0][0]} and {fitting[0][1]} hold keys, but no column is called a label"
        remedy = f"Name it one of: {', '.join(LABEL_COLUMNS)}"
    raise InputError(what, where=f"{table.path}, row 1", why=why, remedy=remedy)


def _pairs_of_groups(table: Table, space: PairSpace, keys: Sequence[str], owner: str) -> LabelledPairs:
    """Groups as `pairsieve cluster` writes them: each record pairs with the first of its group."""
    rows = key_rows(table, "key", keys, owner)
    first: dict[str, int] = {}
    groups = table.strings("cluster")
    heads = np.array([first.setdefault(group, row) for group, row in zip(groups, rows.tolist())], np.int64)
    ids = space.ids(heads[heads != rows], rows[heads != rows])
    return LabelledPairs(ids, np.ones(len(ids), bool))


def _last_word(table: Table) -> Table:
    """An exported ledger as one row a pair: an adjudication, else the majority of the standing answers."""
    columns = [table.strings(name) for name in ("event", "about", "who", "left_key", "right_key", "label")]
    standing: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    last: dict[tuple[str, str], int] = {}  # the row that spoke last of a pair
    for number, event, about, who, left, right, label in zip(table.numbers, *columns):
        if event != "question":
            answers = standing.setdefault((left, right), {})
            last[left, right] = number
            answers[about, who if about == "answer" else ""] = "" if event == "withdrawal" else label
    rows = []
    for (left, right), answers in standing.items():
        votes = [label for (about, _), label in answers.items() if about == "answer"]
        count = votes.count("1") - votes.count("0")
        label = answers.get(("adjudication", "")) or ("" if count == 0 else str(int(count > 0)))
        if not any(vote in ("0", "1") for vote in votes):
            label = label or answers.get(("inferred", ""), "")
        rows.append((left, right, label))
    cells = [list(column) for column in zip(*rows)] or [[], [], []]
    names = ("left_key", "right_key", "label")
    return replace(table, names=names, numbers=[*last.values()], cells=cells.__getitem__)


def _lowered(table: Table) -> dict[str, str]:
    """The columns of a table by their names in small letters, "_" for "."."""
    return {name.lower().replace(".", "_"): name for name in table.names}

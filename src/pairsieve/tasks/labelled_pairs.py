"""Reader of labelled pairs, under the column names that common tools give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError
from pairsieve.pairs import Ids, PairSpace
from pairsieve.tasks.reading import Table, read_labels
from pairsieve.tasks.records import rows_of_keys

PAIR_COLUMNS = (
    ("id_a", "id_b"),
    ("left_id", "right_id"),
    ("unique_id_l", "unique_id_r"),
    ("qid1", "qid2"),
    ("ltable_id", "rtable_id"),
)
LABEL_COLUMNS = ("label", "is_duplicate", "match", "is_match", "clerical_match_score", "gold")


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs as a file states them, row by row: canonical ids and labels (True is a match)."""

    ids: Ids
    labels: NDArray[np.bool_]

    @property
    def positives(self) -> Ids:
        return np.unique(self.ids[self.labels])

    @property
    def negatives(self) -> Ids:
        return np.unique(self.ids[~self.labels])


def read_labelled_pairs(
    table: Table,
    space: PairSpace,
    left_keys: Sequence[str],
    right_keys: Sequence[str],
    owners: tuple[str, str],
    only_matches: bool = False,
) -> LabelledPairs:
    """The pairs that a file states; without a label column each of them is a match.

    `owners` name the two collections in errors. With `only_matches` a label 0 is an error, and a file with
    exactly two columns may call them anything.
    """
    columns = pair_columns(table)
    if columns is None and only_matches and len(table.names) == 2:
        columns = table.names[0], table.names[1]
    if columns is None:
        known = "; ".join(f"{one}, {other}" for one, other in PAIR_COLUMNS)
        what, why = "no two columns name the pair's keys", f"the columns are {', '.join(table.names)}"
        raise InputError(what, where=f"{table.path}, row 1", why=why, remedy=f"Name them as one of: {known}")
    other = ((), ()) if space.symmetric else (right_keys, left_keys)
    left = rows_of_keys(table, columns[0], left_keys, owners[0], other[0])
    right = rows_of_keys(table, columns[1], right_keys, owners[1], other[1])
    if space.symmetric and (left == right).any():
        row = int(np.flatnonzero(left == right)[0])
        what, why = f"the row pairs {left_keys[left[row]]!r} with itself", "a pair has two different texts"
        raise table.error(what, row, columns[1], why, remedy="Remove the row")
    label = label_column(table)
    labels = np.ones(len(table), dtype=bool) if label is None else np.array(read_labels(table, label), bool)
    if only_matches and not labels.all():
        raise table.error(
            "the label 0 stands among the known matches",
            int(np.flatnonzero(~labels)[0]),
            label or "",
            why="a file of matches lists every match and nothing else",
            remedy="Pass a file of labelled pairs as `labels`",
        )
    return LabelledPairs(space.ids(left, right), labels)


def pair_columns(table: Table) -> tuple[str, str] | None:
    """The two columns that name the pairs of a file under one of the names that tools give them."""
    names = _lowered(table)
    return next(((names[a], names[b]) for a, b in PAIR_COLUMNS if a in names and b in names), None)


def label_column(table: Table) -> str | None:
    """The column that holds labels under one of the names that tools give it."""
    names = _lowered(table)
    return next((names[name] for name in LABEL_COLUMNS if name in names), None)


def _lowered(table: Table) -> dict[str, str]:
    """The columns of a table by their names in small letters, "_" for "."."""
    return {name.lower().replace(".", "_"): name for name in table.names}

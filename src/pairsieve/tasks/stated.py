"""Which pairs did somebody state, and how? Files of labelled pairs under the names that tools give them."""

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
class Stated:
    """Pairs as a file states them, row by row: canonical ids and labels (True is a match)."""

    ids: Ids
    labels: NDArray[np.bool_]

    @property
    def positives(self) -> Ids:
        return np.unique(self.ids[self.labels])

    @property
    def negatives(self) -> Ids:
        return np.unique(self.ids[~self.labels])


def read_stated(
    table: Table,
    space: PairSpace,
    left_keys: Sequence[str],
    right_keys: Sequence[str],
    owners: tuple[str, str],
    only_matches: bool = False,
) -> Stated:
    """The pairs that a file states; without a label column each of them is a match.

    `owners` name the two collections in errors. With `only_matches` a label 0 is an error, and a file with
    exactly two columns may call them anything.
    """
    columns = _pair_columns(table, two_will_do=only_matches)
    other = ((), ()) if space.symmetric else (right_keys, left_keys)
    left = rows_of_keys(table, columns[0], left_keys, owners[0], other[0])
    right = rows_of_keys(table, columns[1], right_keys, owners[1], other[1])
    if space.symmetric and (left == right).any():
        row = int(np.flatnonzero(left == right)[0])
        raise InputError(
            f"the row pairs {left_keys[left[row]]!r} with itself",
            where=table.where(row, columns[1]),
            why="a pair has two different texts",
            remedy="Remove the row",
        )
    names = lowered(table)
    label_column = next((names[name] for name in LABEL_COLUMNS if name in names), None)
    if label_column is None:
        labels = np.ones(len(table), dtype=bool)
    else:
        labels = np.array(read_labels(table, label_column), dtype=bool)
    if only_matches and not labels.all():
        row = int(np.flatnonzero(~labels)[0])
        raise InputError(
            "the label 0 stands among the known matches",
            where=table.where(row, label_column or ""),
            why="a file of matches lists every match and nothing else",
            remedy="Pass a file of labelled pairs as --labels",
        )
    return Stated(space.ids(left, right), labels)


def _pair_columns(table: Table, two_will_do: bool) -> tuple[str, str]:
    names = lowered(table)
    for one, other in PAIR_COLUMNS:
        if one in names and other in names:
            return names[one], names[other]
    if two_will_do and len(table.names) == 2:
        return table.names[0], table.names[1]
    known = "; ".join(f"{one}, {other}" for one, other in PAIR_COLUMNS)
    raise InputError(
        "no two columns name the pair's keys",
        where=f"{table.path}, row 1",
        why=f"the columns are {', '.join(table.names)}",
        remedy=f"Name them as one of: {known}",
    )


def lowered(table: Table) -> dict[str, str]:
    """The columns of a table by their names in small letters, "_" for "."."""
    return {name.lower().replace(".", "_"): name for name in table.names}

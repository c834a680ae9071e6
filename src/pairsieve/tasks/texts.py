"""Loader of texts that are in memory already; the same task and checks as from tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pairsieve.tasks.reading import Table
from pairsieve.tasks.tables import Side, tables_task
from pairsieve.tasks.task import Task

Texts: TypeAlias = Mapping[str, str] | Sequence[str]


def texts_task(
    texts: Texts,
    right: Texts | None = None,
    *,
    matches: Iterable[tuple[str, str]] | None = None,
    labels: Mapping[tuple[str, str], bool] | None = None,
    relation: str | None = None,
    split: str | None = None,
    seed: int = 0,
    name: str = "texts",
) -> Task:
    """A task from texts in memory: {key: text}, or texts whose keys are "0", "1", … in their order.

    One collection (find its duplicates), or two with `right`. matches: every matching pair of keys, the
    truth. labels: some pairs of keys with their labels. The rest is as for `tables_task`.
    """
    known = [] if matches is None else [(*pair, True) for pair in matches]
    labelled = [] if labels is None else [(*pair, label) for pair, label in labels.items()]
    return tables_task(
        _side("texts", texts),
        None if right is None else _side("right texts", right),
        matches=None if matches is None else _pairs("matches", known),
        labels=None if labels is None else _pairs("labels", labelled),
        relation=relation,
        split=split,
        seed=seed,
        name=name,
    )


def _side(name: str, texts: Texts) -> Side:
    if isinstance(texts, Mapping):
        return Side(_table(name, {"key": list(texts), "text": list(texts.values())}), ("text",), key="key")
    return Side(_table(name, {"text": list(texts)}), ("text",))


def _pairs(name: str, rows: Sequence[tuple[str, str, bool]]) -> Table:
    columns = ("left_id", "right_id", "label")
    return _table(name, {column: [row[at] for row in rows] for at, column in enumerate(columns)})


def _table(name: str, columns: dict[str, list[Any]]) -> Table:
    """Columns in memory as a table; rows are counted from 0, as in Python."""
    values = list(columns.values())
    digest = hashlib.sha256(json.dumps(columns, default=str).encode()).hexdigest()
    return Table(Path(name), tuple(columns), range(len(values[0])), "", "", digest, lambda at: values[at])

"""Loader of texts that are in memory already; the same task and checks as from tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pairsieve.errors import InputError
from pairsieve.tasks.frames import is_series, memory_table, series_texts
from pairsieve.tasks.tables import Side, tables_task
from pairsieve.tasks.task import Task

Texts: TypeAlias = Mapping[str, str] | Sequence[str]


def texts_task(
    texts: Texts | Any,
    right: Texts | Any = None,
    *,
    matches: Any = None,
    labels: Any = None,
    relation: str | None = None,
    split: str | None = None,
    seed: int = 0,
    name: str = "texts",
) -> Task:
    """A task from texts in memory: {key: text}, or texts whose keys are "0", "1", … in their order.

    The keys of a pandas Series are its index. One collection (find its duplicates), or two with `right`.
    matches: every matching pair of keys, the truth. labels: some pairs of keys with their labels, as
    {(key, key): label}. Both may have any shape that `tables_task` takes, and so has the rest.
    """
    return tables_task(
        _side("texts", texts),
        None if right is None else _side("right texts", right),
        matches=matches,
        labels=labels,
        relation=relation,
        split=split,
        seed=seed,
        name=name,
    )


def _side(name: str, texts: Any) -> Side:
    if is_series(texts):
        texts = series_texts(texts)
    if hasattr(texts, "columns") or hasattr(texts, "column_names"):
        what, remedy = "this is a table, not texts", "Pass it to task_from_tables, or choose one column"
        raise InputError(what, where=name, remedy=remedy)
    if isinstance(texts, Mapping):
        columns: dict[str, list[Any]] = {"key": list(texts), "text": list(texts.values())}
    elif isinstance(texts, (str, bytes)):
        what, remedy = (
            "this is a single text",
            "Give a list of texts; the path of a table to task_from_tables",
        )
        raise InputError(what, where=name, remedy=remedy)
    else:
        columns = {"text": list(texts)}
    wrong = next((each for each in columns["text"] if isinstance(each, (Mapping, list, tuple))), None)
    if wrong is not None:
        what, remedy = f"a {type(wrong).__name__} is no text", "Pass records to task_from_tables"
        raise InputError(what, where=name, remedy=remedy)
    table = memory_table(name, columns, range(len(columns["text"])))
    return Side(table, ("text",), key="key" if "key" in columns else None)

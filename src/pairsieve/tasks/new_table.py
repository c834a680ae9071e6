"""Reading a new table the way a task's own texts were read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pairsieve.errors import InputError
from pairsieve.tasks.opening import open_table
from pairsieve.tasks.records import ALL_COLUMNS, TextColumns, collection_of
from pairsieve.tasks.task import Collection, Task


def read_like_task(
    task: Task,
    side: int,
    source: Any,
    text: Sequence[str] = (),
    template: str | None = None,
    key: str | None = None,
) -> Collection:
    """The texts of a table, rendered as those of the task's left (0) or right (1) side; options given win."""
    table = open_table(source, "collection")
    provenance = task.provenance
    keys = provenance.get("keys") or [None]
    own_key = keys[min(side, len(keys) - 1)]
    if key is None and own_key in table.names:
        key = own_key
    key = key or table.key
    if text and template:
        raise InputError("`text` and `template` together", remedy="Name the columns in the template")
    columns = TextColumns(tuple(text))
    if not text and template is None:
        recipe = provenance.get("text") or provenance.get("template") or ALL_COLUMNS
        words = recipe if isinstance(recipe, str) else recipe[min(side, len(recipe) - 1)]
        if words == ALL_COLUMNS:
            left_out = (key, *task.report.get("columns_left_out", []))
            columns = TextColumns(tuple(name for name in table.names if name not in left_out))
        elif (noted := TextColumns.of(words)) is not None:
            columns = noted
        else:
            template = words
    own = next(iter(task.splits.values()))
    source = provenance.get("source") if own.left.sources is not None else None
    return collection_of(table, columns, template, key, (own.left, own.right)[side].kinds, source)

"""How is a new table read, so that its texts look like the task's own? By the recipe the task kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pairsieve.errors import InputError
from pairsieve.tasks.reading import read_table
from pairsieve.tasks.records import from_template, joined_columns, keys_of, parse_template
from pairsieve.tasks.task import Collection, Task

ALL_COLUMNS = "all columns"


def like_the_task(
    task: Task,
    side: int,
    path: Path,
    text: Sequence[str] = (),
    template: str | None = None,
    key: str | None = None,
) -> Collection:
    """The texts of a table, made as those of the task's left (0) or right (1) side; options given win."""
    table = read_table(Path(path), lenient=True)
    told = task.provenance
    keys = told.get("keys") or [None]
    own_key = keys[min(side, len(keys) - 1)]
    if key is None and own_key in table.names:
        key = own_key
    if text and template:
        raise InputError("--text and --template together", remedy="Name the columns in the template")
    if not text and template is None:
        recipe = told.get("text") or told.get("template") or ALL_COLUMNS
        words = recipe if isinstance(recipe, str) else recipe[min(side, len(recipe) - 1)]
        if words == ALL_COLUMNS:
            left_out = (key, *task.report.get("columns_left_out", []))
            text = [name for name in table.names if name not in left_out]
        else:
            columns = parse_template(words)[1]
            joined = words == " | ".join(f"{{{column}}}" for column in columns)
            text, template = (columns, None) if joined else ((), words)
    texts = from_template(table, template) if template else joined_columns(table, list(text), "--text")
    for row, words in enumerate(texts):
        if not words.strip():
            raise InputError(
                "the text is empty", where=table.where(row), remedy="Fill it in, or remove the row"
            )
    return Collection(keys_of(table, key), texts)

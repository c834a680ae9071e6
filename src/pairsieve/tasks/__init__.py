"""Which pairs are there, and which of them match? Every loader ends in one `Task`, saved as one folder."""

from __future__ import annotations

from pairsieve.tasks.folder import load_task, save_task
from pairsieve.tasks.matching import matching_task
from pairsieve.tasks.qqp import qqp_task
from pairsieve.tasks.tables import tables_task
from pairsieve.tasks.task import Collection, Split, Task
from pairsieve.tasks.texts import texts_task
from pairsieve.tasks.wikiqa import wikiqa_task

__all__ = [
    "Collection",
    "Split",
    "Task",
    "load_task",
    "matching_task",
    "qqp_task",
    "save_task",
    "tables_task",
    "texts_task",
    "wikiqa_task",
]

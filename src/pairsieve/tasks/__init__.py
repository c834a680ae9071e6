"""Tasks: collections, splits and truth, their loaders, and the folder they are saved in."""

from __future__ import annotations

from pairsieve.tasks.folder import load_task, save_task
from pairsieve.tasks.matching import matching_task
from pairsieve.tasks.qqp import qqp_task
from pairsieve.tasks.tables import tables_task
from pairsieve.tasks.task import Collection, Split, Task
from pairsieve.tasks.texts import texts_task
from pairsieve.tasks.wikiqa import wikiqa_task

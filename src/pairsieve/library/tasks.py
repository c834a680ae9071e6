"""Make a task folder from a loader, and describe the task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pairsieve.library.records import Folder
from pairsieve.tasks import Task, save_task
from pairsieve.tasks.folder import check_replaceable


@dataclass(frozen=True)
class MadeTask:
    """A task and the folder that it was written to."""

    task: Task
    out: Path

    def as_json(self) -> dict[str, Any]:
        task = self.task
        return {
            "task": task.name,
            "relation": task.relation,
            "fingerprint": task.fingerprint,
            "out": str(self.out),
            "splits": {name: split.counts() for name, split in task.splits.items()},
            "fields": fields_of_task(task),
            "report": task.report,
        }


def make_task(load: Callable[[], Task], out: Folder) -> MadeTask:
    """Load a task and write its folder; whether `out` may be written is asked before the work is done."""
    check_replaceable(Path(out))
    task = load()
    save_task(task, out)
    return MadeTask(task, Path(out))


def fields_of_task(task: Task) -> dict[str, dict[str, str]]:
    """{side: {column: kind}} of a task's fields; one side, "texts", where there is one collection."""
    split = next(iter(task.splits.values()))
    both = {"texts": split.left} if split.space.symmetric else {"left": split.left, "right": split.right}
    return {name: side.kinds for name, side in both.items() if side.kinds}

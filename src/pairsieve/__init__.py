"""pairsieve finds the rare matching pairs among billions, with few labels.

    import pairsieve as ps

    campaign = ps.create_campaign("mine", "task", labels=1000)
    campaign.run()
    matches = ps.find_matches(campaign, precision=0.9)

docs/library.md shows all of it. Importing the package loads nothing heavy: each name is fetched from its
room when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pairsieve.errors import InputError, PairsieveError

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign, Step
    from pairsieve.contracts import Estimate
    from pairsieve.demo import made_task
    from pairsieve.library import (
        Evaluation,
        Listed,
        Question,
        Report,
        answer_questions,
        audit_model,
        create_campaign,
        evaluate_embeddings,
        evaluate_model,
        explain_pair,
        export_model,
        find_clusters,
        find_matches,
        open_campaign,
        open_questions,
        write_report,
    )
    from pairsieve.serving import Service
    from pairsieve.tasks import Collection, Split, Task, load_task, save_task
    from pairsieve.tasks import tables_task as task_from_tables
    from pairsieve.tasks import texts_task as task_from_texts

__version__ = "0.1.0"
__all__ = [
    "Campaign",
    "Collection",
    "Estimate",
    "Evaluation",
    "InputError",
    "Listed",
    "PairsieveError",
    "Question",
    "Report",
    "Service",
    "Split",
    "Step",
    "Task",
    "__version__",
    "answer_questions",
    "audit_model",
    "create_campaign",
    "evaluate_embeddings",
    "evaluate_model",
    "explain_pair",
    "export_model",
    "find_clusters",
    "find_matches",
    "load_task",
    "made_task",
    "open_campaign",
    "open_questions",
    "save_task",
    "task_from_tables",
    "task_from_texts",
    "write_report",
]

_ELSEWHERE = {
    "Campaign": "campaign",
    "Collection": "tasks",
    "Estimate": "contracts",
    "Service": "serving",
    "Split": "tasks",
    "Step": "campaign",
    "Task": "tasks",
    "load_task": "tasks",
    "made_task": "demo",
    "save_task": "tasks",
    "task_from_tables": "tasks:tables_task",
    "task_from_texts": "tasks:texts_task",
}  # everything else in __all__ lives in the library


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room, _, there = _ELSEWHERE.get(name, "library").partition(":")
    found = getattr(import_module(f"{__name__}.{room}"), there or name)
    globals()[name] = found  # the next time without a detour
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

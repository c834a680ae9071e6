"""pairsieve finds the rare matching pairs among billions, with few labels.

    import pairsieve as ps

    campaign = ps.create_campaign("mine", "task", labels=1000)
    campaign.run()
    matches = ps.find_matches(campaign, precision=0.9)

docs/library.md shows all of it. Importing the package loads nothing heavy: each name is fetched from its
module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pairsieve.errors import InputError as InputError
from pairsieve.errors import PairsieveError as PairsieveError

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign as Campaign
    from pairsieve.campaign import Step as Step
    from pairsieve.contracts import Estimate as Estimate
    from pairsieve.library.answers import ModelAnswers as ModelAnswers
    from pairsieve.library.answers import answer_questions as answer_questions
    from pairsieve.library.answers import ask_language_model as ask_language_model
    from pairsieve.library.answers import import_answers as import_answers
    from pairsieve.library.answers import open_questions as open_questions
    from pairsieve.library.answers import write_questions as write_questions
    from pairsieve.library.campaigns import campaign_status as campaign_status
    from pairsieve.library.campaigns import create_campaign as create_campaign
    from pairsieve.library.campaigns import extend_campaign as extend_campaign
    from pairsieve.library.campaigns import next_command as next_command
    from pairsieve.library.campaigns import open_campaign as open_campaign
    from pairsieve.library.evaluation import audit_model as audit_model
    from pairsieve.library.evaluation import draw_sample as draw_sample
    from pairsieve.library.evaluation import evaluate_embeddings as evaluate_embeddings
    from pairsieve.library.evaluation import evaluate_model as evaluate_model
    from pairsieve.library.evaluation import evaluate_scores as evaluate_scores
    from pairsieve.library.export import export_model as export_model
    from pairsieve.library.export import write_report as write_report
    from pairsieve.library.matches import explain_pair as explain_pair
    from pairsieve.library.matches import find_clusters as find_clusters
    from pairsieve.library.matches import find_matches as find_matches
    from pairsieve.library.records import Audit as Audit
    from pairsieve.library.records import ClusterList as ClusterList
    from pairsieve.library.records import DrawnSample as DrawnSample
    from pairsieve.library.records import Evaluation as Evaluation
    from pairsieve.library.records import ImportedAnswers as ImportedAnswers
    from pairsieve.library.records import MatchList as MatchList
    from pairsieve.library.records import OperatingPoint as OperatingPoint
    from pairsieve.library.records import Question as Question
    from pairsieve.library.records import QuestionFile as QuestionFile
    from pairsieve.library.records import Report as Report
    from pairsieve.scorer import Scorer as Scorer
    from pairsieve.scorer import load_scorer as load_scorer
    from pairsieve.serving import Service as Service
    from pairsieve.synthetic import synthetic_task as synthetic_task
    from pairsieve.tasks import Collection as Collection
    from pairsieve.tasks import Split as Split
    from pairsieve.tasks import Task as Task
    from pairsieve.tasks import load_task as load_task
    from pairsieve.tasks import save_task as save_task
    from pairsieve.tasks import tables_task, texts_task

    task_from_tables, task_from_texts = tables_task, texts_task

__version__ = "0.2.0"

_NAMES = {  # module: what it gives, as NAME or NAME=ITS_NAME_THERE
    "campaign": "Campaign Step",
    "campaign.status": "RoundStatus Status",
    "contracts": "Estimate",
    "synthetic": "synthetic_task",
    "library.answers": "ModelAnswers answer_questions ask_language_model import_answers open_questions "
    "write_questions",
    "library.campaigns": "campaign_status create_campaign extend_campaign next_command open_campaign",
    "library.evaluation": "audit_model draw_sample evaluate_embeddings evaluate_model evaluate_scores",
    "library.export": "export_model write_report",
    "library.matches": "explain_pair find_clusters find_matches",
    "library.records": "Audit ClusterList DrawnSample Evaluation ImportedAnswers MatchList OperatingPoint "
    "Question QuestionFile Report",
    "scorer": "Scorer load_scorer",
    "serving": "Service",
    "tasks": "Collection Split Task load_task save_task "
    "task_from_tables=tables_task task_from_texts=texts_task",
}
_PLACES = {
    name: (module, there or name)
    for module, names in _NAMES.items()
    for name, _, there in (each.partition("=") for each in names.split())
}
__all__ = sorted(["InputError", "PairsieveError", "__version__", *_PLACES])


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, there = _PLACES[name]
    found = getattr(import_module(f"{__name__}.{module}"), there)
    globals()[name] = found  # the next time without a detour
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

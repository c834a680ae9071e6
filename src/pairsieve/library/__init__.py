"""How does one do in Python what the command line does? The same verbs, as functions with types.

Everything here is reached as `pairsieve.NAME`. A campaign is given as a `Campaign` or as its folder. Figures
are dictionaries with the keys that the command prints with `--json`; arguments are called like its options.

| command            | function                                  | command          | function          |
| ------------------ | ----------------------------------------- | ---------------- | ----------------- |
| data               | task_from_tables, task_from_texts         | match            | find_matches      |
| init               | create_campaign                           | cluster          | find_clusters     |
| run, status        | open_campaign, then .run() and .status()  | explain          | explain_pair      |
| ask, import, label | open_questions, answer_questions          | report           | write_report      |
| audit              | audit_model                               | export           | export_model      |
| evaluate           | evaluate_model, evaluate_embeddings       | serve            | Service.open      |
"""

from pairsieve.library.records import Evaluation, Listed, Question, Report
from pairsieve.library.verbs import (
    answer_questions,
    audit_model,
    create_campaign,
    equal_rounds,
    evaluate_embeddings,
    evaluate_model,
    explain_pair,
    export_model,
    find_clusters,
    find_matches,
    open_campaign,
    open_questions,
    portable_encoder,
    trained_round,
    write_report,
)

__all__ = [
    "Evaluation",
    "Listed",
    "Question",
    "Report",
    "answer_questions",
    "audit_model",
    "create_campaign",
    "equal_rounds",
    "evaluate_embeddings",
    "evaluate_model",
    "explain_pair",
    "export_model",
    "find_clusters",
    "find_matches",
    "open_campaign",
    "open_questions",
    "portable_encoder",
    "trained_round",
    "write_report",
]

"""The commands as Python functions with types; the command line calls them and prints what they return.

Everything here is reached as `pairsieve.NAME`. A campaign is given as a `Campaign` or as its folder. Results
are small records; `as_json()` gives what the command prints with `--json`. Arguments are called like options.

| command            | function                                             | command  | function      |
| ------------------ | ---------------------------------------------------- | -------- | ------------- |
| data               | task_from_tables, task_from_texts                    | match    | find_matches  |
| init               | create_campaign                                      | cluster  | find_clusters |
| run, status        | open_campaign, then .run(); campaign_status          | explain  | explain_pair  |
| ask, import, label | open_questions, answer_questions, write_questions,   | report   | write_report  |
|                    | import_answers                                       | export   | export_model  |
| ask-model          | ask_language_model                                   | draw     | draw_sample   |
| evaluate           | evaluate_model, evaluate_embeddings, evaluate_scores | audit    | audit_model   |
| serve              | Service.open                                         |          |               |

The bodies of label, ledger and data are in `labelling.py`, `ledgers.py` and `tasks.py`; `evaluation.evaluate`
chooses between the three functions of evaluate.
"""

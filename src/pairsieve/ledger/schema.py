"""How does the ledger lie in a database? The tables and views, as queries name them.

meta            one row per schema version this ledger has been brought to, with the task it belongs to
questions       one row per pair asked: who asked for it (strategy), why, when, with what probability
answers         one row per event, of one of four kinds:
                'answer'        somebody said match (1), no match (0) or unsure (null)
                'adjudication'  somebody settled the pair, whatever the votes say
                'inferred'      the label follows from others, those in `rests_on`
                'withdrawal'    one of these was taken back; `about` says which
standing_answers (view)  the latest answer of each person to each pair, the latest adjudication and the
                 latest inference of each pair, unless taken back
current_labels   (view)  one row per question: votes, the label that counts, what it rests on (`basis`),
                 and its state: 'open' (no standing answer, or a tie), 'unsure', 'labelled'

An adjudication counts before the votes; an inferred label counts where nobody said match or no match.
Rows are only ever added: triggers refuse UPDATE and DELETE in SQLite and PostgreSQL alike. Each row of
questions and answers carries `chain`, the digest of its contents and of the row before it, so that a row
altered, removed or slipped in behind the ledger's back is found by `verify`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

meta = sa.table(
    "meta",
    sa.column("schema_version", sa.Integer),
    sa.column("task_fingerprint", sa.Text),
    sa.column("applied_at", sa.Text),
)
questions = sa.table(
    "questions",
    sa.column("number", sa.BigInteger),  # the order of asking
    sa.column("pair", sa.BigInteger),
    sa.column("left_key", sa.Text),
    sa.column("right_key", sa.Text),
    sa.column("round", sa.Integer),
    sa.column("why", sa.Text),
    sa.column("strategy", sa.Text),
    sa.column("inclusion_probability", sa.Double),
    sa.column("purpose", sa.Text),
    sa.column("asked_at", sa.Text),
    sa.column("chain", sa.Text),
)
answers = sa.table(
    "answers",
    sa.column("number", sa.BigInteger),  # the order of answering
    sa.column("pair", sa.BigInteger),
    sa.column("label", sa.Integer),
    sa.column("who", sa.Text),
    sa.column("source", sa.Text),
    sa.column("round", sa.Integer),  # the latest round asked when the answer came
    sa.column("answered_at", sa.Text),
    sa.column("kind", sa.Text),
    sa.column("about", sa.Text),  # the kind, or, of a withdrawal, the kind it takes back
    sa.column("token", sa.Text),  # of the click it came from; a token is written once
    sa.column("rests_on", sa.Text),  # JSON [[pair, label], …] of an inferred label
    sa.column("comment", sa.Text),
    sa.column("chain", sa.Text),
)
standing_answers = sa.table(
    "standing_answers",
    sa.column("pair", sa.BigInteger),
    sa.column("who", sa.Text),
    sa.column("label", sa.Integer),
    sa.column("kind", sa.Text),
    sa.column("rests_on", sa.Text),
)
current_labels = sa.table(
    "current_labels",
    sa.column("number", sa.BigInteger),
    sa.column("pair", sa.BigInteger),
    sa.column("round", sa.Integer),
    sa.column("purpose", sa.Text),
    sa.column("matches", sa.Integer),
    sa.column("no_matches", sa.Integer),
    sa.column("unsure", sa.Integer),
    sa.column("basis", sa.Text),
    sa.column("label", sa.Integer),
    sa.column("state", sa.Text),
)

# What a link is made of, in this order, for ever: a link must come out the same years later.
QUESTION_CHAIN = (
    "pair",
    "left_key",
    "right_key",
    "round",
    "why",
    "strategy",
    "inclusion_probability",
    "purpose",
    "asked_at",
)
ANSWER_CHAIN = (
    "pair",
    "label",
    "who",
    "source",
    "round",
    "answered_at",
    "kind",
    "about",
    "token",
    "rests_on",
    "comment",
)


def link(previous: str, values: Sequence[Any]) -> str:
    """The chain's next link: sha256 of the link before and the row's values as JSON."""
    return hashlib.sha256(f"{previous}{json.dumps(list(values))}".encode()).hexdigest()

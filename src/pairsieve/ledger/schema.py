"""Tables, views and append-only triggers of the ledger's database.

meta            the schema version, an id of this ledger's own, and what it belongs to: task, split, campaign
questions       one row per pair asked: who asked for it (strategy), why, when, with what probability
answers         one row per event, of one of four kinds:
                'answer'        somebody answered match (1), no match (0) or unsure (null)
                'adjudication'  somebody settled the pair, whatever the votes say
                'inferred'      the label follows from others, those in `rests_on`
                'withdrawal'    one of these was taken back; `about` says which
standing_answers (view)  the latest answer of each person to each pair, the latest adjudication and the
                 latest inference of each pair, unless taken back
current_labels   (view)  one row per question: votes, the label that counts, what it rests on (`basis`),
                 and its state: 'open' (no standing answer, or a tie), 'unsure', 'labelled'

An adjudication counts before the votes; an inferred label counts where nobody answered match or no match.
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

VERSION = 3  # raise it when a table, a view or the contents of a link change
TABLES = ("meta", "questions", "answers")
_metadata = sa.MetaData()


def _text(name: str, *more: Any) -> sa.Column[str]:
    return sa.Column(name, sa.Text, *more, nullable=False)


def _number() -> sa.Column[int]:
    """A key that counts upwards and is never given twice: the order of asking or answering."""
    kind = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    return sa.Column("number", kind, sa.Identity(always=True), primary_key=True)


meta = sa.Table(
    "meta",
    _metadata,
    sa.Column("schema_version", sa.Integer, primary_key=True, autoincrement=False),
    _text("ledger"),  # a random id: two ledgers are never mistaken for each other
    _text("task_fingerprint"),
    _text("split"),
    _text("campaign"),
    _text("applied_at"),
)
questions = sa.Table(
    "questions",
    _metadata,
    _number(),
    sa.Column("pair", sa.BigInteger, sa.CheckConstraint("pair >= 0"), nullable=False, unique=True),
    _text("left_key"),
    _text("right_key"),
    sa.Column("round", sa.Integer, sa.CheckConstraint("round >= 1"), nullable=False),
    _text("why"),
    _text("strategy"),
    sa.Column(
        "inclusion_probability",
        sa.Double,
        sa.CheckConstraint("inclusion_probability > 0 AND inclusion_probability <= 1"),
    ),
    _text("purpose", sa.CheckConstraint("purpose IN ('train', 'audit')")),
    _text("asked_at"),
    _text("chain"),
    sa.CheckConstraint("purpose <> 'audit' OR inclusion_probability IS NOT NULL"),
    sa.Index("questions_by_round", "round", "purpose"),
    sqlite_autoincrement=True,
)
answers = sa.Table(
    "answers",
    _metadata,
    _number(),
    sa.Column("pair", sa.BigInteger, sa.ForeignKey("questions.pair"), nullable=False),
    sa.Column("label", sa.Integer, sa.CheckConstraint("label IN (0, 1)")),
    _text("who", sa.CheckConstraint("who <> ''")),
    _text("source", sa.CheckConstraint("source <> ''")),
    sa.Column("round", sa.Integer, nullable=False),  # the latest round asked when the answer came
    _text("answered_at"),
    _text("kind", sa.CheckConstraint("kind IN ('answer', 'withdrawal', 'inferred', 'adjudication')")),
    # The kind, or, of a withdrawal, the kind it takes back.
    _text("about", sa.CheckConstraint("about IN ('answer', 'inferred', 'adjudication')")),
    sa.Column("token", sa.Text, unique=True),  # of the click it came from
    sa.Column("rests_on", sa.Text),  # JSON [[pair, label], …] of an inferred label
    sa.Column("comment", sa.Text),
    _text("chain"),
    sa.CheckConstraint("about = kind OR kind = 'withdrawal'"),
    sa.CheckConstraint("label IS NULL OR kind <> 'withdrawal'"),
    sa.CheckConstraint("kind <> 'inferred' OR (label IS NOT NULL AND rests_on IS NOT NULL)"),
    sa.Index("answers_by_pair", "pair", "about", "who", "number"),
    sqlite_autoincrement=True,
)
_inferred = answers.c.kind == "inferred"
sa.Index("answers_inferred", answers.c.pair, sqlite_where=_inferred, postgresql_where=_inferred)

standing_answers = sa.table("standing_answers", *map(sa.column, ("pair", "who", "label", "kind", "rests_on")))
current_labels = sa.table(
    "current_labels",
    *map(sa.column, ("number", "pair", "round", "purpose", "matches", "no_matches", "unsure")),
    *map(sa.column, ("basis", "label", "state")),
)

# Of each person the latest answer, and of each pair the latest adjudication and the latest inference.
# Written so that a query for a few pairs reaches the index: what a person waits for is such a query.
_LATEST = """a.kind <> 'withdrawal' AND NOT EXISTS (
        SELECT 1 FROM answers later WHERE later.pair = a.pair AND later.about = a.about
            AND later.number > a.number AND (later.who = a.who OR a.about <> 'answer')
    )"""
_STANDING = f"""CREATE VIEW standing_answers AS
    SELECT number, pair, label, who, source, round, answered_at, kind, rests_on, comment
    FROM answers a WHERE {_LATEST}"""
_CURRENT = f"""CREATE VIEW current_labels AS
    SELECT number, pair, left_key, right_key, round, purpose, matches, no_matches, unsure, basis,
        CASE basis WHEN 'adjudication' THEN adjudged
                   WHEN 'inferred' THEN inferred
                   WHEN 'votes' THEN majority END AS label,
        CASE WHEN basis = 'inferred' THEN 'labelled'
             WHEN basis = 'adjudication' THEN CASE WHEN adjudged IS NULL THEN 'unsure' ELSE 'labelled' END
             WHEN majority IS NOT NULL THEN 'labelled'
             WHEN matches = 0 AND unsure > 0 THEN 'unsure'
             ELSE 'open' END AS state
    FROM (
        SELECT counted.*,
            CASE WHEN matches > no_matches THEN 1 WHEN matches < no_matches THEN 0 END AS majority,
            CASE WHEN adjudications > 0 THEN 'adjudication'
                 WHEN matches + no_matches > 0 THEN 'votes'
                 WHEN inferred IS NOT NULL THEN 'inferred'
                 WHEN unsure > 0 THEN 'votes'
                 ELSE '' END AS basis
        FROM (
            SELECT q.number, q.pair, q.left_key, q.right_key, q.round, q.purpose,
                SUM(CASE WHEN a.kind = 'answer' AND a.label = 1 THEN 1 ELSE 0 END) AS matches,
                SUM(CASE WHEN a.kind = 'answer' AND a.label = 0 THEN 1 ELSE 0 END) AS no_matches,
                SUM(CASE WHEN a.kind = 'answer' AND a.label IS NULL THEN 1 ELSE 0 END) AS unsure,
                SUM(CASE WHEN a.kind = 'adjudication' THEN 1 ELSE 0 END) AS adjudications,
                MAX(CASE WHEN a.kind = 'adjudication' THEN a.label END) AS adjudged,
                MAX(CASE WHEN a.kind = 'inferred' THEN a.label END) AS inferred
            FROM questions q LEFT JOIN answers a ON a.pair = q.pair AND {_LATEST}
            GROUP BY q.number, q.pair, q.round, q.purpose, q.left_key, q.right_key
        ) counted
    ) settled"""
_REFUSE = """CREATE FUNCTION pairsieve_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION USING MESSAGE =
            'the ledger is append-only: ' || TG_TABLE_NAME || ' takes no ' || TG_OP;
    END $$"""


def create_schema(connection: sa.Connection) -> None:
    """Create tables, views and triggers in an empty database."""
    _metadata.create_all(connection, checkfirst=False)
    statements = [_STANDING, _CURRENT]
    if connection.dialect.name == "sqlite":
        statements += [
            f"""CREATE TRIGGER {table}_refuse_{event.lower()} BEFORE {event} ON {table}
            BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: {table} takes no {event}'); END"""
            for table in TABLES
            for event in ("UPDATE", "DELETE")
        ]
    else:
        statements += [_REFUSE] + [
            f"""CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
            FOR EACH STATEMENT EXECUTE FUNCTION pairsieve_append_only()"""
            for table in TABLES
        ]
    for statement in statements:
        connection.exec_driver_sql(statement)


def written_schema(connection: sa.Connection) -> dict[str, str]:
    """{name: statement} of every table, view, index and trigger of a SQLite database, as it keeps them."""
    query = "SELECT name, sql FROM sqlite_master WHERE substr(name, 1, 7) <> 'sqlite_'"
    return {str(row[0]): str(row[1]) for row in connection.exec_driver_sql(query)}


def contents(table: sa.Table) -> list[sa.Column[Any]]:
    """The columns that a row's link is made of, in this order: all but its number and the link itself."""
    return [column for column in table.c if column.name not in ("number", "chain")]


def link(previous: str, values: Sequence[Any]) -> str:
    """The chain's next link: sha256 of the link before and the row's values as JSON."""
    return hashlib.sha256(f"{previous}{json.dumps(list(values))}".encode()).hexdigest()

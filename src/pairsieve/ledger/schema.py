"""How does the ledger lie in a database? Tables, views, guards, and the steps from version to version.

meta            one row per schema version this ledger has been brought to, with the task it belongs to
questions       one row per pair asked: who asked for it (strategy), why, when, with what probability
answers         one row per event: somebody said match (1), no match (0), unsure (null), or took it back
standing_answers (view)  the latest answer of each person to each pair, unless taken back
current_labels   (view)  one row per question: votes, the majority's label, and its state:
                 'open' (no standing answer, or a tie), 'unsure' (only unsure), 'labelled'

Rows are only ever added: triggers refuse UPDATE and DELETE in SQLite and PostgreSQL alike. Migrations
are a list that only grows; each is frozen as text, so that an old ledger takes the same steps for ever.
"""

from __future__ import annotations

from collections.abc import Callable

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
)
standing_answers = sa.table(
    "standing_answers",
    sa.column("pair", sa.BigInteger),
    sa.column("who", sa.Text),
    sa.column("label", sa.Integer),
)
current_labels = sa.table(
    "current_labels",
    sa.column("number", sa.BigInteger),
    sa.column("pair", sa.BigInteger),
    sa.column("round", sa.Integer),
    sa.column("purpose", sa.Text),
    sa.column("label", sa.Integer),
    sa.column("state", sa.Text),
)

Migration = Callable[[sa.Connection], None]


def _first_tables(connection: sa.Connection) -> None:
    sqlite = connection.dialect.name == "sqlite"
    # Both count upwards and keep a number once given.
    numbered = (
        "INTEGER PRIMARY KEY AUTOINCREMENT" if sqlite else "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    )
    statements = [
        """CREATE TABLE meta (
            schema_version INTEGER PRIMARY KEY,
            task_fingerprint TEXT NOT NULL,
            applied_at TEXT NOT NULL
        )""",
        f"""CREATE TABLE questions (
            number {numbered},
            pair BIGINT NOT NULL UNIQUE CHECK (pair >= 0),
            left_key TEXT NOT NULL,
            right_key TEXT NOT NULL,
            round INTEGER NOT NULL CHECK (round >= 1),
            why TEXT NOT NULL,
            strategy TEXT NOT NULL,
            inclusion_probability DOUBLE PRECISION
                CHECK (inclusion_probability > 0 AND inclusion_probability <= 1),
            purpose TEXT NOT NULL CHECK (purpose IN ('train', 'audit')),
            asked_at TEXT NOT NULL,
            CHECK (purpose <> 'audit' OR inclusion_probability IS NOT NULL)
        )""",
        "CREATE INDEX questions_by_round ON questions (round, purpose)",
        f"""CREATE TABLE answers (
            number {numbered},
            pair BIGINT NOT NULL REFERENCES questions (pair),
            label INTEGER CHECK (label IN (0, 1)),
            who TEXT NOT NULL CHECK (who <> ''),
            source TEXT NOT NULL CHECK (source <> ''),
            round INTEGER NOT NULL,
            answered_at TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('label', 'withdrawal')),
            CHECK (kind = 'label' OR label IS NULL)
        )""",
        "CREATE INDEX answers_by_pair ON answers (pair, who, number)",
        """CREATE VIEW standing_answers AS
            SELECT number, pair, label, who, source, round, answered_at FROM (
                SELECT a.*, ROW_NUMBER() OVER (PARTITION BY a.pair, a.who ORDER BY a.number DESC) AS back
                FROM answers a
            ) latest
            WHERE back = 1 AND kind = 'label'""",
        """CREATE VIEW current_labels AS
            SELECT number, pair, left_key, right_key, round, purpose, matches, no_matches, unsure,
                CASE WHEN matches > no_matches THEN 1 WHEN matches < no_matches THEN 0 END AS label,
                CASE WHEN matches <> no_matches THEN 'labelled'
                     WHEN matches = 0 AND unsure > 0 THEN 'unsure'
                     ELSE 'open' END AS state
            FROM (
                SELECT q.number, q.pair, q.left_key, q.right_key, q.round, q.purpose,
                    COALESCE(votes.matches, 0) AS matches,
                    COALESCE(votes.no_matches, 0) AS no_matches,
                    COALESCE(votes.unsure, 0) AS unsure
                FROM questions q LEFT JOIN (
                    SELECT pair,
                        SUM(CASE WHEN label = 1 THEN 1 ELSE 0 END) AS matches,
                        SUM(CASE WHEN label = 0 THEN 1 ELSE 0 END) AS no_matches,
                        SUM(CASE WHEN label IS NULL THEN 1 ELSE 0 END) AS unsure
                    FROM standing_answers GROUP BY pair
                ) votes ON votes.pair = q.pair
            ) counted""",
        *(_sqlite_guards() if sqlite else _postgresql_guards()),
    ]
    for statement in statements:
        connection.exec_driver_sql(statement)


def _sqlite_guards() -> list[str]:
    return [
        f"""CREATE TRIGGER {table}_refuse_{event.lower()} BEFORE {event} ON {table}
            BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: {table} takes no {event}'); END"""
        for table in ("meta", "questions", "answers")
        for event in ("UPDATE", "DELETE")
    ]


def _postgresql_guards() -> list[str]:
    refuse = """CREATE FUNCTION pairsieve_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION USING MESSAGE =
                'the ledger is append-only: ' || TG_TABLE_NAME || ' takes no ' || TG_OP;
        END $$"""
    return [refuse] + [
        f"""CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
            FOR EACH STATEMENT EXECUTE FUNCTION pairsieve_append_only()"""
        for table in ("meta", "questions", "answers")
    ]


MIGRATIONS: tuple[Migration, ...] = (_first_tables,)  # the n-th brings a ledger to version n; append only

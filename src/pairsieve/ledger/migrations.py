"""How does an old ledger become a new one? The steps from version to version, frozen as text.

The list only grows: the n-th step brings a ledger to version n, and an old ledger takes the same steps for
ever. A step runs in one transaction with the row in `meta` that records it.

1  questions, answers, the two views, and the guards that refuse UPDATE and DELETE
2  events of four kinds (answer, withdrawal, inferred, adjudication) with token, comment and grounds; every
   row is linked to the one before it by a digest; an adjudication outvotes, an inference only fills in
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from pairsieve.ledger.schema import ANSWER_CHAIN, QUESTION_CHAIN, link

Migration = Callable[[sa.Connection], None]


def _first_tables(connection: sa.Connection) -> None:
    sqlite = connection.dialect.name == "sqlite"
    numbered = _NUMBERED[connection.dialect.name]
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
        *_guards(sqlite, "meta"),
        *_guards(sqlite, "questions"),
        *_guards(sqlite, "answers"),
    ]
    if not sqlite:
        connection.exec_driver_sql(_REFUSE)
    for statement in statements:
        connection.exec_driver_sql(statement)


def _kinds_of_events(connection: sa.Connection) -> None:
    sqlite = connection.dialect.name == "sqlite"
    run = connection.exec_driver_sql
    run("DROP VIEW current_labels")
    run("DROP VIEW standing_answers")
    old = connection.execute(
        sa.text(
            "SELECT number, pair, label, who, source, round, answered_at, kind FROM answers ORDER BY number"
        )
    ).all()
    _link_questions(connection, sqlite)
    run("DROP TABLE answers")  # its rows are in `old`; a CHECK cannot be widened in place
    run(
        f"""CREATE TABLE answers (
            number {_NUMBERED[connection.dialect.name]},
            pair BIGINT NOT NULL REFERENCES questions (pair),
            label INTEGER CHECK (label IN (0, 1)),
            who TEXT NOT NULL CHECK (who <> ''),
            source TEXT NOT NULL CHECK (source <> ''),
            round INTEGER NOT NULL,
            answered_at TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('answer', 'withdrawal', 'inferred', 'adjudication')),
            about TEXT NOT NULL CHECK (about IN ('answer', 'inferred', 'adjudication')),
            token TEXT UNIQUE,
            rests_on TEXT,
            comment TEXT,
            chain TEXT NOT NULL,
            CHECK (about = kind OR kind = 'withdrawal'),
            CHECK (label IS NULL OR kind <> 'withdrawal'),
            CHECK (kind <> 'inferred' OR (label IS NOT NULL AND rests_on IS NOT NULL))
        )"""
    )
    run("CREATE INDEX answers_by_pair ON answers (pair, about, who, number)")
    run("CREATE INDEX answers_inferred ON answers (pair) WHERE kind = 'inferred'")
    rows: list[dict[str, Any]] = []
    chain = ""
    for number, pair, label, who, source, round, at, kind in old:
        now = "answer" if kind == "label" else kind
        row: dict[str, Any] = {"number": number, "pair": pair, "label": label, "who": who, "source": source}
        row |= {"round": round, "answered_at": at, "kind": now, "about": "answer"}
        row |= {"token": None, "rests_on": None, "comment": None}
        chain = link(chain, [row[name] for name in ANSWER_CHAIN])
        rows.append(row | {"chain": chain})
    if rows:
        names = ", ".join(rows[0])
        values = ", ".join(f":{name}" for name in rows[0])
        overriding = "" if sqlite else "OVERRIDING SYSTEM VALUE "
        connection.execute(sa.text(f"INSERT INTO answers ({names}) {overriding}VALUES ({values})"), rows)
        if not sqlite:
            run(f"ALTER TABLE answers ALTER COLUMN number RESTART WITH {rows[-1]['number'] + 1}")
    for statement in (*_guards(sqlite, "answers"), _STANDING_2, _CURRENT_2):
        run(statement)


def _link_questions(connection: sa.Connection, sqlite: bool) -> None:
    """Give every question its link; the guard stands aside for it, inside the transaction."""
    run = connection.exec_driver_sql
    if sqlite:
        run("DROP TRIGGER questions_refuse_update")
        run("DROP TRIGGER questions_refuse_delete")
    else:
        run("DROP TRIGGER questions_append_only ON questions")
    run("ALTER TABLE questions ADD COLUMN chain TEXT NOT NULL DEFAULT ''")
    asked = connection.execute(
        sa.text(f"SELECT number, {', '.join(QUESTION_CHAIN)} FROM questions ORDER BY number")
    ).all()
    rows, chain = [], ""
    for number, *values in asked:
        chain = link(chain, values)
        rows.append({"number": number, "chain": chain})
    if rows:
        connection.execute(sa.text("UPDATE questions SET chain = :chain WHERE number = :number"), rows)
    for statement in _guards(sqlite, "questions"):
        run(statement)


_NUMBERED = {  # both count upwards and keep a number once given
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "postgresql": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
}
# Of each person the latest answer, and of each pair the latest adjudication and the latest inference.
# Written so that a query for a few pairs reaches the index: what a person waits for is such a query.
_LATEST_2 = """a.kind <> 'withdrawal' AND NOT EXISTS (
        SELECT 1 FROM answers later WHERE later.pair = a.pair AND later.about = a.about
            AND later.number > a.number AND (later.who = a.who OR a.about <> 'answer')
    )"""
_STANDING_2 = f"""CREATE VIEW standing_answers AS
    SELECT number, pair, label, who, source, round, answered_at, kind, rests_on, comment
    FROM answers a WHERE {_LATEST_2}"""
_CURRENT_2 = f"""CREATE VIEW current_labels AS
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
            FROM questions q LEFT JOIN answers a ON a.pair = q.pair AND {_LATEST_2}
            GROUP BY q.number, q.pair, q.round, q.purpose, q.left_key, q.right_key
        ) counted
    ) settled"""

_REFUSE = """CREATE FUNCTION pairsieve_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION USING MESSAGE =
            'the ledger is append-only: ' || TG_TABLE_NAME || ' takes no ' || TG_OP;
    END $$"""


def _guards(sqlite: bool, table: str) -> list[str]:
    if not sqlite:
        return [
            f"""CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
            FOR EACH STATEMENT EXECUTE FUNCTION pairsieve_append_only()"""
        ]
    return [
        f"""CREATE TRIGGER {table}_refuse_{event.lower()} BEFORE {event} ON {table}
            BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: {table} takes no {event}'); END"""
        for event in ("UPDATE", "DELETE")
    ]


MIGRATIONS: tuple[Migration, ...] = (_first_tables, _kinds_of_events)

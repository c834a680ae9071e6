"""Verification, export, vacuum and digest of a ledger."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from pairsieve.files import write_errors
from pairsieve.ledger.engine import explained
from pairsieve.ledger.inference import unsupported_inferences
from pairsieve.ledger.schema import (
    TABLES,
    answers,
    contents,
    create_schema,
    current_labels,
    link,
    meta,
    questions,
    written_schema,
)
from pairsieve.tables import table_suffix, write_rows

EVENT_TYPES = {
    "event": "string",  # question, answer, withdrawal, inferred, adjudication
    "number": "int64",
    **dict.fromkeys(("left_key", "right_key"), "string"),
    "pair": "int64",
    "round": "int32",
    **dict.fromkeys(("purpose", "why", "strategy"), "string"),
    "inclusion_probability": "float64",
    "label": "int8",
    **dict.fromkeys(("who", "source", "at", "about", "token", "rests_on", "comment"), "string"),
}


@dataclass(frozen=True)
class Check:
    """One thing looked at: what, whether it is as it should be, and what was found."""

    name: str
    ok: bool
    found: str


@dataclass(frozen=True)
class Verification:
    """All checks, the number of rows, and the last link of each chain, by which a copy is compared."""

    checks: tuple[Check, ...]
    questions: int
    answers: int
    questions_head: str
    answers_head: str

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "questions": self.questions,
            "answers": self.answers,
            "heads": {"questions": self.questions_head, "answers": self.answers_head},
            "checks": [asdict(check) for check in self.checks],
        }


def verify(connection: sa.Connection, thorough: bool = True) -> Verification:
    """Read everything once and compare it with what it must be; changes nothing.

    Not `thorough`: only whether database, tables, views and rows are those that were written.
    """
    asked, asked_link, asked_breaks = _chain(connection, questions)
    given, given_link, given_breaks = _chain(connection, answers)
    altered, guards = _altered_schema(connection), _missing_guards(connection)
    version = connection.execute(sa.select(sa.func.max(meta.c.schema_version))).scalar()
    checks: tuple[Check, ...] = (
        _database(connection),
        Check("schema", version is not None and not altered, f"version {version}{altered}"),
        Check("guards", not guards, f"missing or off: {', '.join(guards)}" if guards else "all in place"),
        Check("questions", not asked_breaks, _breaks(asked, asked_breaks)),
        Check("answers", not given_breaks, _breaks(given, given_breaks)),
    )
    if thorough:
        try:
            checks += _consequences(connection)
        except (ValueError, TypeError) as error:  # a damaged cell that holds what no column may hold
            checks += (Check("labels", False, f"cannot be counted: {error}"),)
    return Verification(checks, asked, given, asked_link, given_link)


def _consequences(connection: sa.Connection) -> tuple[Check, ...]:
    """Whether views and inferred labels agree with the rows."""

    def count(what: str) -> int:
        return int(connection.execute(sa.text(f"SELECT count(*) FROM {what}")).scalar_one())

    orphans = count("answers a LEFT JOIN questions q ON q.pair = a.pair WHERE q.pair IS NULL")
    leaks = count("answers a JOIN questions q USING (pair) WHERE purpose = 'audit' AND kind = 'inferred'")
    uncertain = count("questions WHERE purpose = 'audit' AND inclusion_probability IS NULL")
    wrong = _wrong_labels(connection)
    invalid = unsupported_inferences(connection)
    return (
        Check("orphans", orphans == 0, f"{orphans:,} answers without a question"),
        Check(
            "audit seal",
            leaks + uncertain == 0,
            f"{leaks:,} inferred labels in audits, {uncertain:,} audit pairs without a probability",
        ),
        Check("labels", not wrong, f"{len(wrong):,} current labels differ from a recount of the events"),
        Check("inferred", not invalid, f"{len(invalid):,} inferred labels rest on what no longer holds"),
    )


def _chain(connection: sa.Connection, table: sa.Table) -> tuple[int, str, list[int]]:
    """(rows, last link, numbers of the rows whose link does not follow from the row before)."""
    names = ", ".join(column.name for column in contents(table))
    query = f"SELECT number, chain, {names} FROM {table.name} ORDER BY number"
    rows, before, breaks = 0, "", []
    for number, chain, *values in connection.exec_driver_sql(query):
        if not _follows(before, values, chain):
            breaks.append(int(number))
        rows, before = rows + 1, chain
    return rows, before, breaks


def _follows(before: Any, values: list[Any], chain: Any) -> bool:
    try:
        return bool(link(before, values) == chain)
    except TypeError:  # a damaged cell may hold bytes
        return False


def _breaks(rows: int, breaks: list[int]) -> str:
    if not breaks:
        return f"{rows:,} rows, each linked to the one before"
    found = f"{len(breaks):,} of {rows:,} rows were altered, removed or slipped in"
    return f"{found}; first at number {breaks[0]}"


def _missing_guards(connection: sa.Connection) -> list[str]:
    if connection.dialect.name == "sqlite":
        wanted = {f"{table}_refuse_{event}" for table in TABLES for event in ("update", "delete")}
        query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    else:
        wanted = {f"{table}_append_only" for table in TABLES}
        query = (
            "SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
            "WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' AND pg_table_is_visible(c.oid)"
        )
    return sorted(wanted - set(connection.execute(sa.text(query)).scalars()))


def _altered_schema(connection: sa.Connection) -> str:
    """Tables, views, indexes and triggers of a SQLite ledger that are not as we write them, in words."""
    if connection.dialect.name != "sqlite":
        return ""  # the server keeps them parsed, and guards its own files
    with sa.create_engine("sqlite://").begin() as fresh:
        create_schema(fresh)
        wanted = written_schema(fresh)
    found = written_schema(connection)
    names = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    return f", altered: {', '.join(names)}" if names else ""


def _database(connection: sa.Connection) -> Check:
    if connection.dialect.name == "sqlite":
        found = str(connection.exec_driver_sql("PRAGMA integrity_check").scalar())
        return Check("database", found == "ok", found)
    query = (
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "JOIN pg_class t ON t.oid = i.indrelid WHERE NOT i.indisvalid AND pg_table_is_visible(t.oid)"
    )
    broken = list(connection.execute(sa.text(query)).scalars())
    return Check("database", not broken, f"invalid indexes: {', '.join(broken)}" if broken else "ok")


def _wrong_labels(connection: sa.Connection) -> list[int]:
    """Pairs whose label in the view is not the one that the events give, counted here once more."""
    standing: dict[tuple[int, str, str], tuple[str, int | None]] = {}
    c = answers.c
    for pair, about, who, kind, label in connection.execute(
        sa.select(c.pair, c.about, c.who, c.kind, c.label).order_by(c.number)
    ):
        standing[pair, about, who if about == "answer" else ""] = (kind, label)
    labels: dict[int, dict[str, list[int | None]]] = defaultdict(lambda: defaultdict(list))
    for (pair, about, _), (kind, label) in standing.items():
        if kind != "withdrawal":
            labels[pair][about].append(label)
    current = connection.execute(sa.select(current_labels.c.pair, current_labels.c.label))
    return [pair for pair, label in current if label != _recount(labels[pair])]


def _recount(labels: dict[str, list[int | None]]) -> int | None:
    if labels["adjudication"]:
        return labels["adjudication"][0]
    matches, no_matches = labels["answer"].count(1), labels["answer"].count(0)
    if matches + no_matches == 0 and labels["inferred"]:
        return labels["inferred"][0]
    return None if matches == no_matches else int(matches > no_matches)


# ── taking it elsewhere ─────────────────────────────────────────────────────────────────────────


def export_events(connection: sa.Connection, path: Path) -> int:
    """Write all questions, then all answer events, one row each with the keys of its pair."""
    table_suffix(path)
    with write_errors("the file", path):
        return write_rows(path, EVENT_TYPES, _events(connection))


def _events(connection: sa.Connection) -> Iterator[dict[str, Any]]:
    empty: dict[str, Any] = dict.fromkeys(EVENT_TYPES)
    q, a = questions.c, answers.c
    for row in connection.execute(sa.select(questions).order_by(q.number)).mappings():
        yield {**empty, **row, "event": "question", "at": row["asked_at"]}
    joined = sa.select(answers, q.left_key, q.right_key, q.purpose).where(q.pair == a.pair)
    for row in connection.execute(joined.order_by(a.number)).mappings():
        yield {**empty, **row, "event": row["kind"], "at": row["answered_at"]}


# ── keeping it small ────────────────────────────────────────────────────────────────────────────


def vacuum(engine: sa.Engine) -> tuple[int, int]:
    """Rewrite the database without its unused pages and refresh what its planner knows."""
    before = _bytes(engine)
    rewrite = ["VACUUM (ANALYZE) questions", "VACUUM (ANALYZE) answers"]
    if engine.dialect.name == "sqlite":
        checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)"
        rewrite = [checkpoint, "VACUUM", "ANALYZE", checkpoint]
    with explained(engine), engine.connect() as connection:
        connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        for statement in rewrite:  # VACUUM refuses to run inside a transaction
            connection.exec_driver_sql(statement)
    return before, _bytes(engine)


def _bytes(engine: sa.Engine) -> int:
    if engine.dialect.name == "sqlite":
        files = [Path(f"{engine.url.database}{more}") for more in ("", "-wal")]
        return sum(file.stat().st_size for file in files if file.exists())
    with engine.connect() as connection:
        tables = "pg_total_relation_size('questions') + pg_total_relation_size('answers')"
        return int(connection.execute(sa.text(f"SELECT {tables}")).scalar_one())


def digest(connection: sa.Connection) -> str:
    """sha256 of all questions and answers in order, without times: equal for equal histories."""
    total = hashlib.sha256()
    for table in (questions, answers):
        skipped = ("number", "asked_at", "answered_at", "token", "chain")
        kept = [each for each in table.c if each.name not in skipped]
        total.update(f"{table.name}\n".encode())
        for row in connection.execute(sa.select(*kept).order_by(table.c.number)):
            total.update(json.dumps(list(row)).encode() + b"\n")
    return total.hexdigest()

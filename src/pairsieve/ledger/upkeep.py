"""Is the ledger whole, how does one take it elsewhere, and how does one keep it small?"""

from __future__ import annotations

import csv
import hashlib
import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from pairsieve.errors import InputError
from pairsieve.ledger.engine import explained
from pairsieve.ledger.inference import fallen_inferences
from pairsieve.ledger.schema import (
    ANSWER_CHAIN,
    QUESTION_CHAIN,
    answers,
    current_labels,
    link,
    meta,
    questions,
)

EVENT_COLUMNS = (
    "event",  # question, answer, withdrawal, inferred, adjudication
    "number",
    "left_key",
    "right_key",
    "pair",
    "round",
    "purpose",
    "why",
    "strategy",
    "inclusion_probability",
    "label",
    "who",
    "source",
    "at",
    "about",
    "token",
    "rests_on",
    "comment",
)
_BATCH = 10_000  # events in memory at a time


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
            "checks": [{"name": c.name, "ok": c.ok, "found": c.found} for c in self.checks],
        }


def verify(connection: sa.Connection) -> Verification:
    """Read everything once and compare it with what it must be; changes nothing."""
    asked, asked_link, asked_breaks = _chain(connection, questions, QUESTION_CHAIN)
    said, said_link, said_breaks = _chain(connection, answers, ANSWER_CHAIN)
    version = connection.execute(sa.select(sa.func.max(meta.c.schema_version))).scalar()
    orphans = _count(
        connection,
        "SELECT count(*) FROM answers a LEFT JOIN questions q ON q.pair = a.pair WHERE q.pair IS NULL",
    )
    leaks = _count(
        connection,
        "SELECT count(*) FROM answers a JOIN questions q ON q.pair = a.pair "
        "WHERE q.purpose = 'audit' AND a.kind = 'inferred'",
    )
    uncertain = _count(
        connection,
        "SELECT count(*) FROM questions WHERE purpose = 'audit' AND inclusion_probability IS NULL",
    )
    guards = _missing_guards(connection)
    wrong = _wrong_labels(connection)
    fallen = fallen_inferences(connection)
    checks = (
        _database(connection),
        Check("schema", version is not None, f"version {version}"),
        Check("guards", not guards, f"missing or off: {', '.join(guards)}" if guards else "all in place"),
        Check("questions", not asked_breaks, _breaks(asked, asked_breaks)),
        Check("answers", not said_breaks, _breaks(said, said_breaks)),
        Check("orphans", orphans == 0, f"{orphans:,} answers without a question"),
        Check(
            "audit seal",
            leaks + uncertain == 0,
            f"{leaks:,} inferred labels in audits, {uncertain:,} audit pairs without a probability",
        ),
        Check("labels", not wrong, f"{len(wrong):,} current labels differ from a recount of the events"),
        Check("inferred", not fallen, f"{len(fallen):,} inferred labels rest on what no longer holds"),
    )
    return Verification(checks, asked, said, asked_link, said_link)


def _chain(
    connection: sa.Connection, table: sa.TableClause, names: tuple[str, ...]
) -> tuple[int, str, list[int]]:
    """(rows, last link, numbers of the rows whose link does not follow from the row before)."""
    query = sa.select(table.c.number, table.c.chain, *[table.c[name] for name in names])
    rows, before, breaks = 0, "", []
    for number, chain, *values in connection.execute(query.order_by(table.c.number)):
        if link(before, values) != chain:
            breaks.append(int(number))
        rows, before = rows + 1, chain
    return rows, before, breaks


def _breaks(rows: int, breaks: list[int]) -> str:
    if not breaks:
        return f"{rows:,} rows, each linked to the one before"
    return (
        f"{len(breaks):,} of {rows:,} rows were altered, removed or slipped in; first at number {breaks[0]}"
    )


def _count(connection: sa.Connection, query: str) -> int:
    return int(connection.execute(sa.text(query)).scalar_one())


def _missing_guards(connection: sa.Connection) -> list[str]:
    tables = ("meta", "questions", "answers")
    if connection.dialect.name == "sqlite":
        wanted = {f"{table}_refuse_{event}" for table in tables for event in ("update", "delete")}
        query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    else:
        wanted = {f"{table}_append_only" for table in tables}
        query = (
            "SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
            "WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' AND pg_table_is_visible(c.oid)"
        )
    return sorted(wanted - set(connection.execute(sa.text(query)).scalars()))


def _database(connection: sa.Connection) -> Check:
    if connection.dialect.name == "sqlite":
        found = str(connection.exec_driver_sql("PRAGMA integrity_check").scalar())
        return Check("database", found == "ok", found)
    broken = list(
        connection.execute(
            sa.text(
                "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
                "JOIN pg_class t ON t.oid = i.indrelid WHERE NOT i.indisvalid AND pg_table_is_visible(t.oid)"
            )
        ).scalars()
    )
    return Check("database", not broken, f"invalid indexes: {', '.join(broken)}" if broken else "ok")


def _wrong_labels(connection: sa.Connection) -> list[int]:
    """Pairs whose label in the view is not the one that the events give, counted here once more."""
    standing: dict[tuple[int, str, str], tuple[str, int | None]] = {}
    c = answers.c
    for pair, about, who, kind, label in connection.execute(
        sa.select(c.pair, c.about, c.who, c.kind, c.label).order_by(c.number)
    ):
        standing[pair, about, who if about == "answer" else ""] = (kind, label)
    said: dict[int, dict[str, list[int | None]]] = defaultdict(lambda: defaultdict(list))
    for (pair, about, _), (kind, label) in standing.items():
        if kind != "withdrawal":
            said[pair][about].append(label)
    wrong = []
    for pair, label in connection.execute(sa.select(current_labels.c.pair, current_labels.c.label)):
        if label != _recount(said[pair]):
            wrong.append(int(pair))
    return wrong


def _recount(said: dict[str, list[int | None]]) -> int | None:
    if said["adjudication"]:
        return said["adjudication"][0]
    matches, no_matches = said["answer"].count(1), said["answer"].count(0)
    if matches + no_matches == 0 and said["inferred"]:
        return said["inferred"][0]
    return None if matches == no_matches else int(matches > no_matches)


# ── taking it elsewhere ─────────────────────────────────────────────────────────────────────────


def export_events(connection: sa.Connection, path: Path) -> int:
    """Write all questions, then all answer events, one row each with the keys of its pair."""
    writers: dict[str, Callable[[Path, Iterator[dict[str, Any]]], int]] = {
        ".jsonl": _write_jsonl,
        ".csv": _write_csv,
        ".parquet": _write_parquet,
    }
    if path.suffix not in writers:
        raise InputError(
            f"cannot tell how to write a {path.suffix or 'suffix-less'} file",
            where=str(path),
            remedy=f"Choose a name that ends in {', '.join(writers)}",
        )
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")
    try:
        written = writers[path.suffix](beside, _events(connection))
        beside.replace(path)
    except OSError as error:
        raise InputError(
            "the file cannot be written", where=str(path), why=error.strerror or str(error)
        ) from error
    finally:
        beside.unlink(missing_ok=True)
    return written


def _events(connection: sa.Connection) -> Iterator[dict[str, Any]]:
    empty = dict.fromkeys(EVENT_COLUMNS)
    q, a = questions.c, answers.c
    for row in connection.execute(sa.select(questions).order_by(q.number)).mappings():
        told = {name: row[name] for name in EVENT_COLUMNS if name in row}
        yield empty | told | {"event": "question", "at": row["asked_at"]}
    joined = sa.select(answers, q.left_key, q.right_key, q.purpose).where(q.pair == a.pair)
    for row in connection.execute(joined.order_by(a.number)).mappings():
        told = {name: row[name] for name in EVENT_COLUMNS if name in row}
        yield empty | told | {"event": row["kind"], "at": row["answered_at"]}


def _write_jsonl(path: Path, events: Iterator[dict[str, Any]]) -> int:
    written = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for event in events:
            file.write(json.dumps(event, ensure_ascii=False) + "\n")
            written += 1
    return written


def _write_csv(path: Path, events: Iterator[dict[str, Any]]) -> int:
    written = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, EVENT_COLUMNS)
        table.writeheader()
        for event in events:
            table.writerow(event)
            written += 1
    return written


def _write_parquet(path: Path, events: Iterator[dict[str, Any]]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"number": pa.int64(), "pair": pa.int64(), "round": pa.int32(), "label": pa.int8()}
    kinds["inclusion_probability"] = pa.float64()
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in EVENT_COLUMNS])
    written = 0
    with pq.ParquetWriter(path, schema) as file:
        batch: list[dict[str, Any]] = []
        for event in events:
            batch.append(event)
            written += 1
            if len(batch) == _BATCH:
                file.write_table(pa.Table.from_pylist(batch, schema=schema))
                batch = []
        file.write_table(pa.Table.from_pylist(batch, schema=schema))
    return written


# ── keeping it small ────────────────────────────────────────────────────────────────────────────


def vacuum(engine: sa.Engine) -> tuple[int, int]:
    """Rewrite the database without its unused pages and refresh what its planner knows."""
    with explained(engine):
        lite = engine.dialect.name == "sqlite"
        before = _bytes(engine)
        raw = engine.raw_connection()
        try:
            driver: Any = raw.driver_connection
            if not lite:
                driver.autocommit = True  # VACUUM refuses to run inside a transaction
            cursor = driver.cursor()
            try:
                for statement in (
                    (
                        "PRAGMA wal_checkpoint(TRUNCATE)",
                        "VACUUM",
                        "ANALYZE",
                        "PRAGMA wal_checkpoint(TRUNCATE)",
                    )
                    if lite
                    else ("VACUUM (ANALYZE) questions", "VACUUM (ANALYZE) answers")
                ):
                    cursor.execute(statement)
            except Exception as error:
                raise sa.exc.DBAPIError.instance(
                    "VACUUM", None, error, engine.dialect.loaded_dbapi.Error, dialect=engine.dialect
                ) from error
            finally:
                cursor.close()
                if not lite:
                    driver.autocommit = False
        finally:
            raw.close()
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
        told = [each for each in table.c if each.name not in skipped]
        total.update(f"{table.name}\n".encode())
        for row in connection.execute(sa.select(*told).order_by(table.c.number)):
            total.update(json.dumps(list(row)).encode() + b"\n")
    return total.hexdigest()

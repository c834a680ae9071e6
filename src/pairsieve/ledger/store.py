"""What was asked, who answered, and what is the label now? Questions and answers that outlive any crash.

Everything is a transaction: it is there whole once the call has returned, and not at all if it has not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from pairsieve.contracts import Answer
from pairsieve.errors import LedgerError, MissingExtra
from pairsieve.ledger.schema import MIGRATIONS, answers, current_labels, meta, questions, standing_answers
from pairsieve.pairs import Ids, Mask, is_member

Clock: TypeAlias = Callable[[], datetime]
WRITER_LOCK = 0x7061_6972  # PostgreSQL's advisory lock that lets one writer in at a time
WAIT_SECONDS = 60  # for another writer to finish
_READ = "pairsieve_read"


@dataclass(frozen=True)
class Questions:
    """Questions in the order of asking; all columns have the same length."""

    ids: Ids
    left_keys: list[str]
    right_keys: list[str]
    rounds: NDArray[np.int64]
    why: list[str]
    strategy: list[str]
    inclusion_probability: NDArray[np.float64]  # nan where there is none
    purpose: list[str]
    asked_at: list[str]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Answers:
    """Answer events in the order they came; all columns have the same length."""

    ids: Ids
    labels: list[int | None]
    who: list[str]
    source: list[str]
    rounds: NDArray[np.int64]
    answered_at: list[str]
    kind: list[str]  # "label", or "withdrawal" of the person's answer

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class RoundCount:
    """Where one round stands. asked = labelled + unsure + open; positives are among the labelled."""

    round: int
    asked: int
    labelled: int
    positives: int
    unsure: int
    open: int

    @property
    def answered(self) -> int:
        return self.labelled + self.unsure


def utc_now() -> datetime:
    return datetime.now(UTC)


def open_ledger(place: str | Path, task_fingerprint: str, clock: Clock = utc_now) -> Ledger:
    """The ledger in a SQLite file, or behind a database URL (`postgresql://…`); made where there is none."""
    ledger = Ledger(place, clock)
    try:
        ledger._prepare(task_fingerprint)
    except BaseException:
        ledger.close()
        raise
    return ledger


class Ledger:
    """Append-only questions and answers. Get one from `open_ledger`; safe for threads and processes."""

    def __init__(self, place: str | Path, clock: Clock = utc_now) -> None:
        self._clock = clock
        self._engine = _engine(place)
        self.place = self._engine.url.render_as_string(hide_password=True)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    def ask(
        self,
        round: int,
        ids: Ids,
        left_keys: Sequence[str],
        right_keys: Sequence[str],
        why: str | Sequence[str],
        strategy: str,
        inclusion_probability: NDArray[np.float64] | None = None,
        purpose: str = "train",
    ) -> int:
        """Write the questions of one round and purpose, all or none; returns how many are new.

        Asking a round again with the same pairs changes nothing and returns 0; with other pairs it is
        refused, as is a pair that was asked before. ids: (n,) distinct int64; the rest row by row.
        """
        wanted = np.asarray(ids, dtype=np.int64)
        reasons = [why] * len(wanted) if isinstance(why, str) else list(why)
        chances = [None] * len(wanted) if inclusion_probability is None else list(inclusion_probability)
        what = f"round {round} ({purpose})"
        if not len(wanted):
            raise LedgerError(f"{what}: no pairs to ask about. A round has at least one question.")
        if {len(wanted)} != {len(left_keys), len(right_keys), len(reasons), len(chances)}:
            raise LedgerError(
                f"{what}: {len(wanted):,} ids with {len(left_keys):,} left keys, {len(right_keys):,} right "
                f"keys, {len(reasons):,} reasons, {len(chances):,} probabilities. Give one of each per id."
            )
        in_order = np.sort(wanted)
        if (in_order[1:] == in_order[:-1]).any():
            raise LedgerError(f"{what}: a pair occurs twice in the batch. Ask about distinct pairs.")
        if purpose not in ("train", "audit") or round < 1:
            raise LedgerError(f"{what}: a round is 1 or more, and its purpose is 'train' or 'audit'.")
        if purpose == "audit" and inclusion_probability is None:
            raise LedgerError(f"{what}: an audit needs the probability with which each pair was drawn.")
        with self._writing() as connection:
            now = self._now()
            before = _column(
                connection,
                sa.select(questions.c.pair)
                .where(questions.c.round == round, questions.c.purpose == purpose)
                .order_by(questions.c.pair),
            )
            if len(before):
                if np.array_equal(before, in_order):
                    return 0
                raise LedgerError(
                    f"{self.place}: {what} was asked already, about {len(before):,} pairs, of which "
                    f"{int(is_member(in_order, before).sum()):,} are among the {len(wanted):,} asked now. "
                    "A round is asked once; ask under the next round's number."
                )
            taken = in_order[_known(connection, in_order)]
            if len(taken):
                raise LedgerError(
                    f"{self.place}: {what} holds {len(taken):,} pairs that were asked before, the first "
                    f"{taken[0]}. A pair is asked once; leave out `asked()`."
                )
            connection.execute(
                sa.insert(questions),
                [
                    {
                        "pair": pair,
                        "left_key": str(left),
                        "right_key": str(right),
                        "round": round,
                        "why": reason,
                        "strategy": strategy,
                        "inclusion_probability": None if chance is None else float(chance),
                        "purpose": purpose,
                        "asked_at": now,
                    }
                    for pair, left, right, reason, chance in zip(
                        wanted.tolist(), left_keys, right_keys, reasons, chances, strict=True
                    )
                ],
            )
        return len(wanted)

    def answer(self, given: Sequence[Answer], who: str, source: str) -> int:
        """Write one person's answers, all or none; the latest answer of a person counts. Returns how many."""
        for each in given:
            if each.label is not None and each.label not in (0, 1):
                raise LedgerError(f"pair {each.id}: the label {each.label!r}. Allowed: 1, 0, None (unsure).")
        labels = [None if each.label is None else int(each.label) for each in given]
        return self._append([each.id for each in given], labels, who, source, "label")

    def withdraw(self, ids: Ids, who: str, source: str) -> int:
        """Take back what `who` last said about these pairs; the events stay, the answers no longer count."""
        wanted = np.asarray(ids, dtype=np.int64)
        return self._append(wanted.tolist(), [None] * len(wanted), who, source, "withdrawal")

    def _append(
        self, pairs: list[int], labels: Sequence[int | None], who: str, source: str, kind: str
    ) -> int:
        if not who.strip() or not source.strip():
            raise LedgerError(f"an answer names who gave it and its source, not {who!r} and {source!r}.")
        wanted = np.sort(np.asarray(pairs, dtype=np.int64))
        if (wanted[1:] == wanted[:-1]).any():
            raise LedgerError(f"{who} answers a pair twice in one batch. Send each pair once.")
        if not len(wanted):
            return 0
        with self._writing() as connection:
            now = self._now()
            strangers = wanted[~_known(connection, wanted)]
            if len(strangers):
                raise LedgerError(
                    f"{self.place}: {len(strangers):,} of {len(wanted):,} answers are to pairs never asked, "
                    f"the first {strangers[0]}. None was written; answer only what was asked."
                )
            if kind == "withdrawal":
                standing = _column(
                    connection,
                    sa.select(standing_answers.c.pair)
                    .where(standing_answers.c.who == who)
                    .order_by(standing_answers.c.pair),
                )
                if not is_member(wanted, standing).all():
                    raise LedgerError(f"{who} has no answer to take back on some of these pairs.")
            latest_round = connection.execute(sa.select(sa.func.max(questions.c.round))).scalar_one()
            same = {"who": who, "source": source, "round": latest_round, "answered_at": now, "kind": kind}
            connection.execute(
                sa.insert(answers),
                [
                    {"pair": int(pair), "label": label, **same}
                    for pair, label in zip(pairs, labels, strict=True)
                ],
            )
        return len(wanted)

    def questions(self, round: int | None = None, purpose: str | None = None) -> Questions:
        """All questions, or those of one round or purpose, in the order of asking."""
        query = sa.select(*[column for column in questions.c if column.name != "number"])
        query = _narrow(query, questions, round, purpose).order_by(questions.c.number)
        with self._reading() as connection:
            ids, left, right, rounds, why, strategy, chance, of_purpose, at = _columns(connection, query, 9)
        return Questions(
            ids=np.array(ids, np.int64),
            left_keys=left,
            right_keys=right,
            rounds=np.array(rounds, np.int64),
            why=why,
            strategy=strategy,
            inclusion_probability=np.array([np.nan if p is None else p for p in chance], np.float64),
            purpose=of_purpose,
            asked_at=at,
        )

    def answers(self) -> Answers:
        """Every answer event, in the order they came."""
        query = sa.select(*[column for column in answers.c if column.name != "number"])
        with self._reading() as connection:
            columns = _columns(connection, query.order_by(answers.c.number), 7)
        ids, labels, who, source, rounds, at, kind = columns
        return Answers(np.array(ids, np.int64), labels, who, source, np.array(rounds, np.int64), at, kind)

    def asked(self, through: int | None = None) -> Ids:
        """Sorted ids of every pair asked, for training and audit, in rounds up to and with `through`."""
        query = sa.select(questions.c.pair).order_by(questions.c.pair)
        if through is not None:
            query = query.where(questions.c.round <= through)
        with self._reading() as connection:
            return _column(connection, query)

    def open_questions(self, round: int | None = None, purpose: str | None = None) -> Ids:
        """Pairs that wait, in the order of asking: nobody's answer stands, or the votes are tied."""
        query = sa.select(current_labels.c.pair).where(current_labels.c.state == "open")
        with self._reading() as connection:
            return _column(
                connection,
                _narrow(query, current_labels, round, purpose).order_by(current_labels.c.number),
            )

    def labels(self, purpose: str = "train", through: int | None = None) -> tuple[Ids, Mask]:
        """(sorted ids, match or not) of the pairs labelled now, asked in rounds up to and with `through`.

        The latest answer of each person counts, then the majority; ties and "unsure" give no label.
        """
        view = current_labels.c
        query = sa.select(view.pair, view.label).where(view.state == "labelled", view.purpose == purpose)
        if through is not None:
            query = query.where(view.round <= through)
        with self._reading() as connection:
            ids, labels = _columns(connection, query.order_by(view.pair), 2)
        return np.array(ids, np.int64), np.array(labels, np.int64).astype(bool)

    def rounds(self, purpose: str = "train") -> list[int]:
        """Numbers of the rounds asked, ascending."""
        query = sa.select(questions.c.round).where(questions.c.purpose == purpose).distinct()
        with self._reading() as connection:
            return [int(number) for number in _column(connection, query.order_by(questions.c.round))]

    def counts(self, purpose: str = "train") -> list[RoundCount]:
        """Where each round stands, ascending."""
        view = current_labels.c

        def number_of(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
            return sa.func.sum(sa.case((condition, 1), else_=0))

        query = (
            sa.select(
                view.round,
                sa.func.count(),
                number_of(view.state == "labelled"),
                number_of(view.label == 1),
                number_of(view.state == "unsure"),
                number_of(view.state == "open"),
            )
            .where(view.purpose == purpose)
            .group_by(view.round)
            .order_by(view.round)
        )
        with self._reading() as connection:
            return [RoundCount(*map(int, row)) for row in connection.execute(query)]

    def digest(self) -> str:
        """sha256 of all questions and answers in order, without their times: equal for equal histories."""
        total = hashlib.sha256()
        with self._reading() as connection:
            for table, skipped in ((questions, "asked_at"), (answers, "answered_at")):
                columns = [column for column in table.c if column.name not in ("number", skipped)]
                total.update(f"{table.name}\n".encode())
                for row in connection.execute(sa.select(*columns).order_by(table.c.number)):
                    total.update(json.dumps(list(row)).encode() + b"\n")
        return total.hexdigest()

    def _prepare(self, task_fingerprint: str) -> None:
        """Create or bring forward the tables, and refuse the ledger of another task or a newer pairsieve."""
        with self._reading() as connection:
            version, owner = _version_and_task(connection)
        if version < len(MIGRATIONS):
            with self._writing() as connection:
                version, owner = _version_and_task(connection)  # another process may have been faster
                if owner in (None, task_fingerprint):
                    for step in range(version, len(MIGRATIONS)):
                        MIGRATIONS[step](connection)
                        row = {"task_fingerprint": task_fingerprint, "applied_at": self._now()}
                        connection.execute(sa.insert(meta), {"schema_version": step + 1, **row})
                    owner = task_fingerprint
        if version > len(MIGRATIONS):
            raise LedgerError(
                f"{self.place}: the ledger has schema version {version}, this pairsieve knows up to "
                f"{len(MIGRATIONS)}. Upgrade pairsieve; nothing was changed."
            )
        if owner != task_fingerprint:
            raise LedgerError(
                f"{self.place}: the ledger belongs to the task {owner}, the campaign's task is "
                f"{task_fingerprint}. Use the task it was begun with, or begin a new campaign folder."
            )

    def _now(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="microseconds")

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """One transaction that holds the writers' lock from its start, so that a check stays true."""
        with self._explained(), self._engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(WRITER_LOCK)))
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        """One transaction that sees a single moment and stops nobody."""
        with self._explained(), self._engine.connect() as connection:
            connection = connection.execution_options(**{_READ: True})
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            raise LedgerError(
                f"{self.place}: the database refused: {cause}. "
                f"Nothing of this step was written; {_next(cause)}"
            ) from error


def _next(cause: str) -> str:
    if "full" in cause or "No space" in cause:
        return "make room on the disk and run again."
    if "locked" in cause:
        return "another process holds the ledger; wait for it or stop it, and run again."
    if "unable to open" in cause:
        return "check that the folder exists and may be written."
    if "not a database" in cause or "malformed" in cause:
        return "the file is not a ledger or is damaged; restore it from a copy."
    return "correct the cause and run again."


def _engine(place: str | Path) -> sa.Engine:
    if isinstance(place, Path) or "://" not in place:
        url = sa.URL.create("sqlite", database=str(place))
    else:
        try:
            url = sa.make_url(place)
        except ArgumentError:
            raise LedgerError(
                "the ledger's URL cannot be understood. Write a file's path, or "
                "postgresql://USER:PASSWORD@HOST/DATABASE"
            ) from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise LedgerError(f"a ledger in {url.drivername}. Supported: sqlite, postgresql.")
    if url.get_backend_name() == "postgresql":
        try:
            return sa.create_engine(url, pool_pre_ping=True)
        except ModuleNotFoundError:
            raise MissingExtra("psycopg", "A ledger in PostgreSQL", "pip install 'psycopg[binary]'") from None
    engine = sa.create_engine(url, connect_args={"timeout": WAIT_SECONDS})
    sa.event.listen(engine, "connect", _set_up_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves; the driver would say it too late
    for pragma in (
        "journal_mode = WAL",  # readers do not wait for the writer
        # FULL forces the log to disk before a commit returns: an acknowledged answer outlives a kill and
        # a power cut. One flush per transaction is little, as answers come at human speed or in batches.
        "synchronous = FULL",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: sa.Connection) -> None:
    # A writer takes the lock at once: a lock taken later, after reading, could fail without waiting.
    deferred = connection.get_execution_options().get(_READ, False)
    connection.exec_driver_sql("BEGIN" if deferred else "BEGIN IMMEDIATE")


def _version_and_task(connection: sa.Connection) -> tuple[int, str | None]:
    if not sa.inspect(connection).has_table("meta"):
        return 0, None
    rows = connection.execute(
        sa.select(meta.c.schema_version, meta.c.task_fingerprint).order_by(meta.c.schema_version)
    ).all()
    return (int(rows[-1][0]), str(rows[-1][1])) if rows else (0, None)


def _known(connection: sa.Connection, wanted: Ids) -> Mask:
    """Which of the sorted ids were asked; a few are looked up, many are compared with all."""
    query = sa.select(questions.c.pair).order_by(questions.c.pair)
    if len(wanted) <= 500:
        query = query.where(questions.c.pair.in_(wanted.tolist()))
    return is_member(wanted, _column(connection, query))


def _narrow(query: Any, table: sa.TableClause, round: int | None, purpose: str | None) -> Any:
    if round is not None:
        query = query.where(table.c.round == round)
    return query if purpose is None else query.where(table.c.purpose == purpose)


def _column(connection: sa.Connection, query: Any) -> Ids:
    return np.fromiter(connection.execute(query).scalars(), np.int64)


def _columns(connection: sa.Connection, query: Any, count: int) -> list[list[Any]]:
    rows = connection.execute(query).all()
    return [list(column) for column in zip(*rows)] if rows else [[] for _ in range(count)]

"""Connections and transactions of the ledger: SQLite with a write-ahead log, or PostgreSQL by its URL.

A SQLite file in a folder that cannot be written is opened to be looked at: as it stands, or, where a
write-ahead log lies beside it, as a private copy of both.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DataError, IntegrityError, ProgrammingError, SQLAlchemyError

from pairsieve.errors import LedgerError, LedgerUnavailable, MissingExtra

WRITER_LOCK = 0x7061_6972  # PostgreSQL's advisory lock that lets one writer in at a time
WAIT_SECONDS = 60  # for another writer to finish
CONNECT_SECONDS = 10  # for a database server to answer at all
_READ = "pairsieve_read"
# A server that vanished (no reset, no answer) is noticed, not waited for.
_NETWORK = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_DAMAGED = "the file is not a ledger or is damaged; restore it from a copy."
_REMEDIES = {  # by words of the database's complaint, the first that fit
    **dict.fromkeys(("full", "No space"), "make room on the disk and run again."),
    **dict.fromkeys(
        ("readonly", "read-only"), "allow writing in its folder, or copy the campaign elsewhere."
    ),
    "locked": "another process holds the ledger; wait for it or stop it, and run again.",
    "disk I/O error": "its disk fails or is full: make room there, or look at a copy elsewhere.",
    "unable to open": "check that the folder exists and may be written.",
    **dict.fromkeys(("not a database", "malformed"), _DAMAGED),
    "connection": "check that the database server runs and is reached by this URL, and run again.",
}


def make_engine(place: str | Path) -> sa.Engine:
    """The engine of a SQLite file's path or of a database URL."""
    if isinstance(place, Path) or "://" not in place:
        url = sa.URL.create("sqlite", database=str(place))
    else:
        try:
            url = sa.make_url(place)
        except ArgumentError:
            allowed = "a file's path, or postgresql://USER:PASSWORD@HOST/DATABASE"
            raise LedgerError(f"the ledger's URL cannot be understood. Write {allowed}") from None
    if "@" in (url.host or ""):
        raise LedgerError(
            "the ledger's URL holds a password with an @ in it, so it is unclear where the host begins. "
            "Write %40 in place of @, or leave the password out and keep it in ~/.pgpass."
        )
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise LedgerError(f"a ledger in {url.drivername}. Supported: sqlite, postgresql.")
    if url.get_backend_name() == "postgresql":
        try:
            network = {name: value for name, value in _NETWORK.items() if name not in url.query}
            return sa.create_engine(url, pool_pre_ping=True, connect_args=network)
        except ModuleNotFoundError:
            raise MissingExtra("psycopg", "A ledger in PostgreSQL", "pip install 'psycopg[binary]'") from None
    file = Path(url.database or "")
    if file.is_file() and not os.access(file.parent, os.W_OK):
        return _read_only_engine(file)
    engine = sa.create_engine(url, connect_args={"timeout": WAIT_SECONDS})
    sa.event.listen(engine, "connect", _set_up_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _read_only_engine(file: Path) -> sa.Engine:
    """The engine of a SQLite file whose folder cannot be written, where SQLite could not even read its log.

    Without a log the file holds everything, and nobody changes it. With one, what was committed last is in
    the log: both are copied, and the copy is put together as after a crash.
    """
    log = file.with_name(f"{file.name}-wal")
    copied: str | None = None
    if log.is_file() and log.stat().st_size:
        copied = tempfile.mkdtemp(prefix="pairsieve-ledger-")
        for each in (file, log):
            shutil.copyfile(each, Path(copied) / each.name)
        file = Path(copied) / file.name
        whole = sa.create_engine(sa.URL.create("sqlite", database=str(file)))
        with explained(whole), whole.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = DELETE")
        whole.dispose()
    query = {"mode": "ro", "immutable": "1", "uri": "true"}
    url = sa.URL.create("sqlite", database=f"file:{quote(str(file.resolve()))}", query=query)
    engine = sa.create_engine(url)
    if copied:
        weakref.finalize(engine, shutil.rmtree, copied, ignore_errors=True)
    sa.event.listen(engine, "connect", _hold_transactions)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One transaction that holds the writers' lock from its start, so that a check stays true."""
    with explained(engine), engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(WRITER_LOCK)))
        yield connection


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One transaction that sees a single moment and stops nobody."""
    with explained(engine), engine.connect() as connection:
        connection = connection.execution_options(**{_READ: True})
        if connection.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            yield connection


@contextmanager
def explained(engine: sa.Engine) -> Iterator[None]:
    """Turn what the database says into a `LedgerError` in words; `LedgerUnavailable` where it may pass."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        refused = isinstance(error, IntegrityError | DataError | ProgrammingError) or "append-only" in cause
        kind = LedgerError if refused else LedgerUnavailable
        raise kind(
            f"{shown_place(engine)}: the database refused: {cause}. "
            f"Nothing of this step was written; {_next(cause)}"
        ) from error


def shown_place(engine: sa.Engine) -> str:
    """Where a ledger is, for people: without its password, also where that stands in the query."""
    url = engine.url
    secret = [name for name in url.query if "password" in name.lower()]
    return url.difference_update_query(secret).render_as_string(hide_password=True)


def _next(cause: str) -> str:
    for words, remedy in _REMEDIES.items():
        if words in cause:
            return remedy
    return "correct the cause and run again."


def _hold_transactions(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves; the driver would say it too late


def _set_up_sqlite(connection: Any, record: Any) -> None:
    _hold_transactions(connection, record)
    for pragma in (
        "journal_mode = WAL",  # readers do not wait for the writer
        # FULL forces the log to disk before a commit returns: an acknowledged answer outlives a kill and
        # a power cut. One flush per transaction is little, as answers come at human speed or in batches.
        "synchronous = FULL",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: sa.Connection) -> None:
    options = connection.get_execution_options()
    if options.get("isolation_level") != "AUTOCOMMIT":
        # A writer takes the lock at once: a lock taken later, after reading, could fail without waiting.
        connection.exec_driver_sql("BEGIN" if options.get(_READ) else "BEGIN IMMEDIATE")

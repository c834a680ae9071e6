"""Connections and transactions of the ledger: SQLite with a write-ahead log, or PostgreSQL by its URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from pairsieve.errors import LedgerError, MissingExtra

WRITER_LOCK = 0x7061_6972  # PostgreSQL's advisory lock that lets one writer in at a time
WAIT_SECONDS = 60  # for another writer to finish
_READ = "pairsieve_read"
_DAMAGED = "the file is not a ledger or is damaged; restore it from a copy."
_REMEDIES = {  # by words of the database's complaint, the first that fit
    **dict.fromkeys(("full", "No space"), "make room on the disk and run again."),
    "locked": "another process holds the ledger; wait for it or stop it, and run again.",
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
    """Turn what the database says into a `LedgerError` in words."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise LedgerError(
            f"{engine.url.render_as_string(hide_password=True)}: the database refused: {cause}. "
            f"Nothing of this step was written; {_next(cause)}"
        ) from error


def _next(cause: str) -> str:
    for words, remedy in _REMEDIES.items():
        if words in cause:
            return remedy
    return "correct the cause and run again."


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
    options = connection.get_execution_options()
    if options.get("isolation_level") != "AUTOCOMMIT":
        # A writer takes the lock at once: a lock taken later, after reading, could fail without waiting.
        connection.exec_driver_sql("BEGIN" if options.get(_READ) else "BEGIN IMMEDIATE")

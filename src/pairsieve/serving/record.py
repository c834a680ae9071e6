"""The record of texts added and removed while serving: one SQLite file, written before they are acknowledged.

The collection itself is never changed. A key stands here once, with its text as it is now or as removed;
opening the service lays these over the collection, in the order in which they were last changed. An added
text that is removed again leaves nothing. The row lies beside the text under the fingerprint of the model
that made it; another model embeds the text again. Each row carries a digest of its contents: a damaged file
is refused, never served.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError, PairsieveError
from pairsieve.files import locked

FILE = "texts.sqlite"
VERSION = 3  # 1: without sources; 2: without digests
_TABLE = """
CREATE TABLE IF NOT EXISTS texts (
  number INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of the last change
  key TEXT NOT NULL UNIQUE,
  text TEXT,    -- NULL: removed
  model TEXT,   -- fingerprint of the matcher that made `row`
  row BLOB,     -- float32, little-endian
  source TEXT,  -- NULL: none
  digest TEXT   -- of the others but the number
)
"""


class RecordError(PairsieveError):
    """The change could not be written; nothing of it counts."""


@dataclass(frozen=True)
class Change:
    """A text as it is now under its key; `text` None: removed.

    number: of the order of changes. forget: nothing need be kept of a removal. source: where it is from.
    """

    key: str
    text: str | None
    row: NDArray[np.float32] | None = None
    model: str | None = None
    number: int = 0
    forget: bool = False
    source: str | None = None


class Record:
    """The changes of one served collection; one process at a time, the lock goes with the process."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        what, why = "this collection is being served by another process", "additions would not be shared"
        remedy = "Stop the other, or serve with another `state` folder"
        self._lock = locked(folder / ".lock", InputError(what, where=str(folder), why=why, remedy=remedy))
        self._one_at_a_time = threading.Lock()
        self._base = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        try:
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute("PRAGMA synchronous = FULL")  # a commit is on disk, not only with the system
            version = self._base.execute("PRAGMA user_version").fetchone()[0]
            if version in range(VERSION + 1):
                self._base.execute(_TABLE)
                with self._transaction():
                    self._upgrade(version)
                found = self._base.execute("PRAGMA integrity_check(1)").fetchone()[0]
                if found != "ok":
                    raise self._damaged(found)
                return
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from error
        what, why = f"version {version} of the file of additions", f"this pairsieve writes version {VERSION}"
        remedy = "Open it with the pairsieve that wrote it"
        raise InputError(what, where=str(self.path), why=why, remedy=remedy)

    def _upgrade(self, version: int) -> None:
        """Give an older file the columns it lacks."""
        for column, since in (("source", 2), ("digest", 3)):
            if 0 < version < since:
                self._base.execute(f"ALTER TABLE texts ADD COLUMN {column} TEXT")
        if 0 < version < 3:
            cells = self._base.execute("SELECT text, model, row, key, source, number FROM texts").fetchall()
            digests = [(_digest(*each[:5]), each[5]) for each in cells]
            self._base.executemany("UPDATE texts SET digest = ? WHERE number = ?", digests)
        self._base.execute(f"PRAGMA user_version = {VERSION}")

    def _damaged(self, why: str) -> InputError:
        what = "the file of additions cannot be read"
        remedy = "Put back a copy of it, or move it away to serve the collection without additions"
        return InputError(what, where=str(self.path), why=why, remedy=remedy)

    def write(self, changes: Iterable[Change]) -> None:
        """All of them or none; on disk when this returns."""
        columns = "text, model, row, key, source, digest"
        insert = f"INSERT OR REPLACE INTO texts ({columns}) VALUES (?, ?, ?, ?, ?, ?)"
        try:
            with self._transaction():
                for change in changes:
                    if change.forget:
                        self._base.execute("DELETE FROM texts WHERE key = ?", (change.key,))
                    else:
                        cells = (*_cells(change), change.source)
                        self._base.execute(insert, (*cells, _digest(*cells)))
        except sqlite3.Error as error:
            remedy = "Nothing of it was kept. Look after the disk, then send it again."
            raise RecordError(f"{self.path}: the change could not be written ({error}). {remedy}") from error

    def read(self, after: int = 0) -> list[Change]:
        """Every change that counts, in the order in which they were made; those after a number only."""
        columns = "key, text, row, model, number, source, digest"
        query = f"SELECT {columns} FROM texts WHERE number > ? ORDER BY number"
        with self._one_at_a_time:
            try:
                found = self._base.execute(query, (after,)).fetchall()
            except sqlite3.DatabaseError as error:
                raise self._damaged(str(error)) from error
        for key, text, row, model, number, source, digest in found:
            if _digest(text, model, row, key, source) != digest:
                raise self._damaged(f"what stands under number {number} is not what was written")
        return [
            Change(key, text, _row(row), model, number, source=source)
            for key, text, row, model, number, source, _ in found
        ]

    def keys(self) -> set[str]:
        """Keys that have a change."""
        with self._one_at_a_time:
            return {key for (key,) in self._base.execute("SELECT key FROM texts")}

    def set_rows(self, changes: Iterable[Change]) -> None:
        """Rows of another model for texts that are here still as they were; their order stays."""
        update = "UPDATE texts SET text = ?, model = ?, row = ?, digest = ? WHERE key = ? AND number = ?"
        with self._transaction():
            for change in changes:
                text, model, row, key = _cells(change)
                digest = _digest(text, model, row, key, change.source)
                self._base.execute(update, (text, model, row, digest, key, change.number))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All that is executed inside, or nothing."""
        with self._one_at_a_time:
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._base.execute("COMMIT")
            except BaseException:
                if self._base.in_transaction:
                    self._base.execute("ROLLBACK")
                raise

    def close(self) -> None:
        self._base.close()
        self._lock.close()


def _row(cells: bytes | None) -> NDArray[np.float32] | None:
    return None if cells is None else np.frombuffer(cells, "<f4").astype(np.float32)


def _cells(change: Change) -> tuple[str | None, str | None, bytes | None, str]:
    """(text, model, row, key) as the table keeps them."""
    row = None if change.row is None else change.row.astype("<f4").tobytes()
    return change.text, change.model, row, change.key


def _digest(text: Any, model: Any, row: Any, key: Any, source: Any) -> str:
    """Of one row; a damaged cell may hold anything."""
    words = json.dumps([text, model, key, source], default=str).encode()
    cells = row if isinstance(row, bytes) else str(row).encode()
    return hashlib.blake2b(words + b"\0" + cells, digest_size=16).hexdigest()

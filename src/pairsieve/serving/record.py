"""The record of texts added and removed while serving: one SQLite file, written before they are acknowledged.

The collection itself is never changed. A key stands here once, with its text as it is now or as removed;
opening the service lays these over the collection, in the order in which they were last changed. The row
lies beside the text under the fingerprint of the model that made it; another model embeds the text again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError, PairsieveError
from pairsieve.files import locked

FILE = "texts.sqlite"
VERSION = 1
_TABLE = """
CREATE TABLE IF NOT EXISTS texts (
  number INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of the last change
  key TEXT NOT NULL UNIQUE,
  text TEXT,    -- NULL: removed
  model TEXT,   -- fingerprint of the matcher that made `row`
  row BLOB      -- float32, little-endian
)
"""


class RecordError(PairsieveError):
    """The change could not be written; nothing of it counts."""


@dataclass(frozen=True)
class Change:
    """A text as it is now under its key; `text` None: removed."""

    key: str
    text: str | None
    row: NDArray[np.float32] | None = None
    model: str | None = None


class Record:
    """The changes of one served collection; one process at a time, the lock goes with the process."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        what, why = "this collection is being served by another process", "additions would not be shared"
        remedy = "Stop the other, or serve with another `state` folder"
        self._lock = locked(folder / ".lock", InputError(what, where=str(folder), why=why, remedy=remedy))
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
            if version in (0, VERSION):
                self._base.execute(_TABLE)
                self._base.execute(f"PRAGMA user_version = {VERSION}")
                return
        except sqlite3.DatabaseError as error:
            what = "the file of additions cannot be read"
            remedy = "Put back a copy of it, or move it away to serve the collection without additions"
            raise InputError(what, where=str(self.path), why=str(error), remedy=remedy) from error
        what, why = f"version {version} of the file of additions", f"this pairsieve writes version {VERSION}"
        remedy = "Open it with the pairsieve that wrote it"
        raise InputError(what, where=str(self.path), why=why, remedy=remedy)

    def write(self, changes: Iterable[Change]) -> None:
        """All of them or none; on disk when this returns."""
        try:
            self._each("INSERT OR REPLACE INTO texts (text, model, row, key) VALUES (?, ?, ?, ?)", changes)
        except sqlite3.Error as error:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            remedy = "Nothing of it was kept. Look after the disk, then send it again."
            raise RecordError(f"{self.path}: the change could not be written ({error}). {remedy}") from error

    def read(self) -> list[Change]:
        """Every change that counts, in the order in which they were made."""
        found = self._base.execute("SELECT key, text, model, row FROM texts ORDER BY number")
        return [
            Change(key, text, None if row is None else np.frombuffer(row, "<f4").astype(np.float32), model)
            for key, text, model, row in found
        ]

    def set_rows(self, changes: Iterable[Change]) -> None:
        """Rows of another model for texts that are already here; their order stays."""
        self._each("UPDATE texts SET text = ?, model = ?, row = ? WHERE key = ?", changes)

    def _each(self, statement: str, changes: Iterable[Change]) -> None:
        """Run a statement with (text, model, row, key) of each change, in one transaction."""
        blobs = ((c, None if c.row is None else c.row.astype("<f4").tobytes()) for c in changes)
        self._base.execute("BEGIN IMMEDIATE")
        self._base.executemany(statement, [(c.text, c.model, blob, c.key) for c, blob in blobs])
        self._base.execute("COMMIT")

    def close(self) -> None:
        self._base.close()
        self._lock.close()

"""What was added and removed while serving, and is it on disk? One SQLite file, written before we say so.

The collection itself is never changed. A key stands here once, with its text as it is now or as removed;
opening the service lays these over the collection, in the order in which they were last changed. The row
lies beside the text under the fingerprint of the model that made it; another model embeds the text again.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError, PairsieveError

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
        self._lock = _locked(folder / ".lock", folder)
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
            raise InputError(
                "the file of additions cannot be read",
                where=str(self.path),
                why=str(error),
                remedy="Put back a copy of it, or move it away to serve the collection without additions",
            ) from error
        raise InputError(
            f"version {version} of the file of additions",
            where=str(self.path),
            why=f"this pairsieve writes version {VERSION}",
            remedy="Open it with the pairsieve that wrote it",
        )

    def write(self, changes: Iterable[Change]) -> None:
        """All of them or none; on disk when this returns."""
        values = [
            (c.key, c.text, c.model, None if c.row is None else c.row.astype("<f4").tobytes())
            for c in changes
        ]
        try:
            self._base.execute("BEGIN IMMEDIATE")
            self._base.executemany(
                "INSERT OR REPLACE INTO texts (key, text, model, row) VALUES (?, ?, ?, ?)", values
            )
            self._base.execute("COMMIT")
        except sqlite3.Error as error:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            raise RecordError(
                f"{self.path}: the change could not be written ({error}). Nothing of it was kept. "
                "Look after the disk, then send it again."
            ) from error

    def read(self) -> list[Change]:
        """Every change that counts, in the order in which they were made."""
        found = self._base.execute("SELECT key, text, model, row FROM texts ORDER BY number")
        return [
            Change(key, text, None if row is None else np.frombuffer(row, "<f4").astype(np.float32), model)
            for key, text, model, row in found
        ]

    def set_rows(self, changes: Iterable[Change]) -> None:
        """Rows of another model for texts that are already here; their order stays."""
        self._base.execute("BEGIN IMMEDIATE")
        self._base.executemany(
            "UPDATE texts SET model = ?, row = ? WHERE key = ?",
            [(c.model, None if c.row is None else c.row.astype("<f4").tobytes(), c.key) for c in changes],
        )
        self._base.execute("COMMIT")

    def close(self) -> None:
        self._base.close()
        self._lock.close()


def _locked(path: Path, folder: Path) -> IO[str]:
    """The lock of a folder, held; closing it, or the end of the process, gives it back."""
    file = path.open("a")
    if sys.platform == "win32":
        return file
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise InputError(
            "this collection is being served by another process",
            where=str(folder),
            why="additions to one would not be seen by the other",
            remedy="Stop the other, or serve with another --state folder",
        ) from None
    return file

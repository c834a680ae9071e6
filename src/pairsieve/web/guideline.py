"""The labelling guideline of a campaign: what counts as a match, a text that everybody may edit."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

from pairsieve.errors import InputError
from pairsieve.files import write_text

LONGEST_GUIDELINE = 20_000


class Guideline:
    """`guideline.md` of a campaign's folder. Safe for threads."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "guideline.md"
        self._lock = threading.Lock()

    def read(self) -> dict[str, str]:
        """The text, empty where nothing is written yet; `version` changes with it."""
        try:
            with self._file.open(encoding="utf-8", errors="replace", newline="") as file:
                text = file.read(LONGEST_GUIDELINE)
        except FileNotFoundError:
            text = ""
        return {"text": text, "version": hashlib.sha256(text.encode()).hexdigest()[:16]}

    def write(self, text: str, version: str) -> dict[str, str]:
        """Replace the text, unless somebody else changed it since `version` was read."""
        with self._lock:
            if self.read()["version"] != version:
                raise InputError(
                    "somebody else changed the guideline meanwhile",
                    why="your change would undo theirs",
                    remedy="Copy your text, load the guideline again, and put both together",
                )
            write_text(self._file, text)
            return self.read()

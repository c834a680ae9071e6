"""The exceptions of pairsieve: every message names what, where, why, and what to do next.

PairsieveError                 anything pairsieve reports in words; the command line exits with 2
├── InputError                 a file, table, array or option that cannot be used as it is
├── SettingsError              a campaign's settings that contradict themselves or the task
├── PoolExhausted              fewer unlabelled pairs remain than were asked for
├── LedgerError                a question or answer the ledger must refuse
│   └── LedgerUnavailable      the database cannot be reached or written now; the same call may succeed later
├── ArtifactError              a stored artifact that is missing, incomplete or altered and cannot be rebuilt
└── MissingExtra               an optional package is needed; names the install line
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_WORD = re.compile(r"(?!pairsieve )[a-z][a-z-]*(?=[ ,;:]|$)")  # no argument, file or command


class PairsieveError(Exception):
    """A failure that the user can act on. `exit_code` is what the command line returns."""

    exit_code = 2


class InputError(PairsieveError):
    """Input that cannot be used: `InputError(what, where=…, why=…, remedy=…)`."""

    def __init__(self, what: str, *, where: str = "", why: str = "", remedy: str = "") -> None:
        self.what, self.where, self.why, self.remedy = what, where, why, remedy
        head = f"{where}: {what}" if where else what
        sentences = [_closed(head), sentence(why), sentence(remedy)]
        super().__init__(" ".join(each for each in sentences if each))


class SettingsError(PairsieveError):
    """Settings that contradict themselves, the task, or what is installed."""


class PoolExhausted(PairsieveError):
    """Fewer unlabelled pairs remain than were asked for."""


class LedgerError(PairsieveError):
    """A question or answer that the ledger must refuse."""


class LedgerUnavailable(LedgerError):
    """The database cannot be reached, read or written now; nothing of the step was written."""


class ArtifactError(PairsieveError):
    """A stored artifact that is missing, incomplete or altered and cannot be rebuilt from what is here."""


class MissingExtra(PairsieveError):
    """An optional package is needed."""

    def __init__(self, package: str, purpose: str, install: str) -> None:
        super().__init__(f"{purpose} needs the package {package}, which is not installed. Run: {install}")


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Around imports: a missing package of an optional extra becomes an error with its install line."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "pairsieve").startswith("pairsieve"):
            raise
        raise MissingExtra(str(error.name), purpose, f"pip install 'pairsieve[{extra}]'") from None


def sentence(words: str) -> str:
    """`words` with a capital, where they begin with a plain word, and closed with a full stop."""
    words = _closed(words)
    return words[:1].upper() + words[1:] if _WORD.match(words) else words


def _closed(words: str) -> str:
    """`words` closed with a full stop, unless empty or closed already."""
    words = words.strip()
    return words if not words or words[-1] in ".!?" else words + "."


def nearest(name: str, known: Iterable[str]) -> str:
    """A remedy for an unknown name: the closest known one, then all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    guess = f"Did you mean {close[0]!r}? " if close else ""
    return f"{guess}Known: {', '.join(names)}"

"""Names under which answers are kept: one check for the page, files, Python and language models."""

from __future__ import annotations

import unicodedata
from collections.abc import Set

from pairsieve.errors import InputError

LONGEST_NAME = 64  # of a person
TASK_LABELS = "the task's labels"  # who answers the pairs that a task states without its whole truth
RESERVED = {"truth", "transitivity", TASK_LABELS}  # names under which others answer


def person_name(who: str, models: Set[str] = frozenset(), where: str = "") -> str:
    """A person's name as the ledger keeps it, or an error in words.

    models: names of language models that answer here. where: what the error names as its place, such as a
    row of a file, or an argument in backticks.
    """
    name = unicodedata.normalize("NFC", " ".join(who.split()))  # one person, however a keyboard writes é
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        what = f"{len(name):,} characters" if name.isprintable() else "unprintable characters"
        remedy = f"Give a name of 1 to {LONGEST_NAME} printable characters"
        raise InputError(f"a name of {what}", where=where, remedy=remedy)
    if unicodedata.normalize("NFKC", name).casefold() in RESERVED:
        what = f"the name {name!r} is kept for pairsieve itself"
        raise InputError(what, where=where, remedy="Choose another name")
    if name in models:
        raise InputError(
            f"the name {name!r} belongs to a language model that answers here",
            where=where,
            why="its answers and yours could not be told apart",
            remedy="Choose another name",
        )
    return name

"""The values of a record joined into one text, each in its place, and taken apart again.

A missing value leaves its place empty, so that the second value of every text is of the second column. What
reads a text as words (an encoder, n-grams) reads it without the gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

BETWEEN = " | "  # stands between the values


def joined(values: Iterable[str]) -> str:
    """One text of the values, stripped; "" where all of them are empty."""
    kept = [value.strip().replace(BETWEEN, " / ").strip("|").strip() for value in values]
    return BETWEEN.join(kept) if any(kept) else ""


def joined_rows(columns: Sequence[Sequence[str]]) -> list[str]:
    """The texts of a table given by its columns; those of a single column as they are."""
    return list(columns[0]) if len(columns) == 1 else [joined(row) for row in zip(*columns)]


def taken_apart(text: str) -> list[str]:
    """The values of a joined text, "" where one is missing; a plain text is one value."""
    return [value.strip() for value in f" {text} ".split(BETWEEN)]


def without_gaps(text: str) -> str:
    """A joined text without the places of missing values; any other text as it is."""
    if BETWEEN.strip() not in text:
        return text
    values = taken_apart(text)
    return text if all(values) else BETWEEN.join(filter(None, values))

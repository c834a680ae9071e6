"""Counts in words: "1 row", "2,048 rows"."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """`count` with its noun in the singular or plural; `many` where the plural is not `one` and an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"

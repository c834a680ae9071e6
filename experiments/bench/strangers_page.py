"""The table, the picture and the page of the bench of strangers (docs/strangers.md), from stored rows."""

from __future__ import annotations


def as_text(rows):
    return f"{len(rows)} rows"


def write(rows): ...

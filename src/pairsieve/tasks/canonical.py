"""Cells as texts that do not depend on the kind of table they came from.

A frame holds 30.0 where its CSV file has "30.0" and a spreadsheet 30: all are "30" here. A column is
rewritten only where each of its values is a number, a truth value or a time as programs write them; "007",
"1.10" and every other text stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from pairsieve.tasks.reading import Table

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.(?:0|\d*[1-9]))?(?:[eE][+-]?\d+)?|-?inf")
_WRITTEN_BY_PROGRAM = re.compile(r"\.0$|[eE]|^-0")
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(?:\.(\d*?)0*)?")


def canonical_table(table: Table) -> Table:
    """The same table with texts for cells; a column is read and rewritten when it is first asked for."""

    @cache
    def cells(position: int) -> Sequence[str]:
        return canonical(table.strings_at(position))

    return replace(table, cells=cells, as_texts=True)


def canonical(texts: Sequence[str]) -> list[str]:
    """The texts of a column, rewritten where all of them are numbers, truth values or times; "" is none."""
    given = [text for text in texts if text]
    if not given:
        return list(texts)
    if all(text in ("True", "False") for text in given):
        return [text.lower() for text in texts]
    if all(map(_NUMBER.fullmatch, given)):
        return [_number(text) if _WRITTEN_BY_PROGRAM.search(text) else text for text in texts]
    times = [_TIME.fullmatch(text) for text in texts]
    if all(found for found, text in zip(times, texts) if text):
        midnight = all(found[2] == "00:00:00" and not found[3] for found in times if found)
        return ["" if found is None else _time(found, midnight) for found in times]
    return list(texts)


def _number(text: str) -> str:
    value = float(text)
    return str(int(value)) if value.is_integer() else repr(value)


def _time(found: re.Match[str], midnight: bool) -> str:
    if midnight:
        return found[1]
    return f"{found[1]} {found[2]}" + (f".{found[3]}" if found[3] else "")

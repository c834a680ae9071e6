"""How alike two records are, field by field: a figure from 0 to 1, and plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.reranker.fields import (
    SPARSE,
    WAYS,
    Layout,
    compare_dense,
    dense_values,
    field_values,
    kilometres,
)


@dataclass(frozen=True)
class ComparedField:
    """One field of both records; "" and None where a value is missing."""

    name: str
    left: str
    right: str
    alike: float | None
    words: str


def compare_fields(layout: Layout, left: str, right: str) -> tuple[ComparedField, ...]:
    """The fields of two joined texts. Numbers, dates and places as the re-ranker has them, other values by
    their runs of three letters: 2 · common / (left + right) (Dice 1945)."""
    values = list(zip(field_values(layout, left, 0), field_values(layout, right, 1)))
    dense = iter(zip(dense_values(layout, [left], 0), dense_values(layout, [right], 1)))
    quantities = {field.name: next(dense) for field in layout.dense}
    found = []
    for field, (one, other) in zip(layout.fields, values):
        known = all(one) and all(other)
        one_words, other_words = (", ".join(filter(None, side)) for side in (one, other))
        if not known:
            alike, words = None, _missing(one, other)
        elif one == other:
            alike, words = 1.0, "same"
        elif field.name in quantities and not np.isnan(quantities[field.name]).any():
            alike = float(compare_dense(field.kind, *quantities[field.name])[0][0])
            words = _apart(field.kind, *quantities[field.name])
        else:
            alike, words = _letters(field.kind, one_words, other_words)
        found.append(ComparedField(field.name, one_words, other_words, alike, words))
    return tuple(found)


def _missing(one: Sequence[str], other: Sequence[str]) -> str:
    lacking = [side for side, values in (("left", one), ("right", other)) if not all(values)]
    return "missing in both" if len(lacking) == 2 else f"missing {lacking[0]}"


def _apart(kind: str, one: NDArray[np.float64], other: NDArray[np.float64]) -> str:
    """How far two numbers, days or places are apart."""
    if (one == other).all():
        return "same, written differently"
    if kind == "place":
        return f"{kilometres(one, other)[0]:.3g} km apart"
    if kind == "date":
        days = abs(float(one[0, 0] - other[0, 0]))
        return f"{days:,.0f} {'day' if days == 1 else 'days'} apart"
    larger = max(abs(one[0, 0]), abs(other[0, 0]))
    percent = 100 * abs(one[0, 0] - other[0, 0]) / larger
    return f"{percent:{'.0f' if percent >= 10 else '.2g'}} % apart"


def _letters(kind: str, one: str, other: str) -> tuple[float, str]:
    way = WAYS["glued_letters" if "words" not in SPARSE.get(kind, ("words",)) else "letters"]
    a, b = set(way(one)), set(way(other))
    if not a or not b:
        return 0.0, "different"
    alike = 2 * len(a & b) / (len(a) + len(b))
    if way(one) == way(other):
        return 1.0, "same but for case and marks"
    return alike, f"{100 * alike:.0f} % of letters alike" if a & b else "different"

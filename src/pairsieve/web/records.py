"""The values of two records side by side, column by column, as the page shows them."""

from __future__ import annotations

from dataclasses import dataclass

from pairsieve.reranker.fields import columns_of
from pairsieve.tasks import Collection
from pairsieve.tasks.joined import taken_apart


@dataclass(frozen=True)
class Columns:
    """The column of each value of a left and of a right text; both empty where texts are no records."""

    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every column once: those of the left in their order, then those that only the right has."""
        return tuple(dict.fromkeys((*self.left, *self.right)))

    def rows(self, left_text: str, right_text: str) -> list[dict[str, str | None]]:
        """{"name", "left", "right"} of each column; None is a missing value, no entry is no such column."""
        values = {
            side: dict(zip(columns, taken_apart(text), strict=True))
            for side, columns, text in (("left", self.left, left_text), ("right", self.right, right_text))
        }
        return [
            {"name": name, **{side: held[name] or None for side, held in values.items() if name in held}}
            for name in self.names
        ]


NO_COLUMNS = Columns()


def find_columns(left: Collection, right: Collection) -> Columns:
    """The columns of the texts of both sides; none where these are plain texts, or share no column."""
    first = tuple(name for name, _ in columns_of(left))
    second = first if left is right else tuple(name for name, _ in columns_of(right))
    return Columns(first, second) if {*first} & {*second} else NO_COLUMNS

"""Was anything written since it was read? What a ledger told is kept for as long as nothing was."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

Value = TypeVar("Value")
Mark = tuple[int, int]  # the numbers of the last question and of the last answer


class Memo:
    """Answers to questions about a ledger, each under the mark that was read before it."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Mark, Hashable], object] = {}

    def get(self, mark: Mark, key: Hashable, make: Callable[[], Value]) -> Value:
        """What `make()` gives, made once a mark. Whoever writes in between only makes it newer than told."""
        if (mark, key) not in self._kept:
            value = make()
            self._kept = {at: kept for at, kept in self._kept.items() if at[0] == mark} | {(mark, key): value}
            return value
        return self._kept[mark, key]  # type: ignore[return-value]

"""How does long work show itself? One bar on stderr, silent where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class Bar(Protocol):
    """What long work may do with its bar."""

    def update(self, n: float = 1) -> object: ...

    def close(self) -> None: ...


def bar(total: int, words: str, unit: str = "it") -> Bar:
    """A progress bar on stderr; shown only on a terminal, so that logs and pipes stay clean."""
    from tqdm import tqdm

    made: Bar = tqdm(
        total=total,
        desc=words,
        unit=unit,
        unit_scale=True,
        file=sys.stderr,
        disable=not sys.stderr.isatty(),
        delay=0.5,  # work that is done at once, as each batch of a service, shows nothing
        leave=False,
    )
    return made


def tracked(items: Iterable[Item], words: str, total: int | None = None) -> Iterable[Item]:
    """`items`, with a bar that moves as they are taken."""
    from tqdm import tqdm

    shown: Iterable[Item] = tqdm(
        items, desc=words, total=total, file=sys.stderr, disable=not sys.stderr.isatty(), leave=False
    )
    return shown

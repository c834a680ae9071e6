"""Progress bars on stderr, silent where stderr is no terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item")


class Bar(Protocol):
    """What long work may do with its bar."""

    def update(self, n: float = 1) -> object: ...
    def __enter__(self) -> Bar: ...
    def __exit__(self, *error: Any) -> None: ...
    def close(self) -> None: ...


def bar(total: int, words: str, unit: str = "it") -> Bar:
    """A progress bar on stderr; shown only on a terminal, so that logs and pipes stay clean."""
    return _tqdm(None, words, unit, total)


def tracked(items: Iterable[Item], words: str, unit: str = "it") -> Iterable[Item]:
    """`items`, with a bar that moves as they are taken."""
    return _tqdm(items, words, unit)


def _tqdm(items: Any, words: str, unit: str, total: int | None = None) -> Any:
    from tqdm import tqdm

    size = shutil.get_terminal_size()
    return tqdm(
        items,
        desc=words,
        total=total,
        unit=unit,
        unit_scale=True,
        file=sys.stderr,
        ncols=size.columns,  # given: tqdm shows nothing where a terminal does not tell its size
        nrows=size.lines,
        disable=not sys.stderr.isatty(),
        delay=0.5,  # work that is done at once, as each batch of a service, shows nothing
        leave=False,
    )

"""Progress bars on stderr, silent where stderr is no terminal."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
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
    shown = _tqdm(None, words, unit, total)
    return shown if _listener is None else _ReportedBar(shown, total, words, unit, _listener)


def listen(listener: Callable[[str], None] | None) -> None:
    """Tell what bars show also in words, twice a second, such as "embedding: 4,000 of 10,000 texts"."""
    global _listener
    _listener = listener


_listener: Callable[[str], None] | None = None


class _ReportedBar:
    """A bar that is told to the listener too; the words are empty at its end."""

    def __init__(self, shown: Bar, total: int, words: str, unit: str, tell: Callable[[str], None]) -> None:
        self._shown, self._total, self._words, self._unit, self._tell = shown, total, words, unit, tell
        self._done, self._last = 0.0, time.monotonic()

    def update(self, n: float = 1) -> None:
        self._shown.update(n)
        self._done += n
        if time.monotonic() - self._last > 0.5:
            self._last = time.monotonic()
            self._tell(f"{self._words}: {self._done:,.0f} of {self._total:,} {self._unit}s")

    def __enter__(self) -> _ReportedBar:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        self._shown.close()
        self._tell("")


def tracked(items: Iterable[Item], words: str, unit: str = "it") -> Iterable[Item]:
    """`items`, with a bar that moves as they are taken."""
    return _tqdm(items, words, unit)


@contextmanager
def doing(words: str, where: str = "", took: dict[str, float] | None = None) -> Iterator[None]:
    """Show what is being done and for how long, above any bars and while none moves.

    took: seconds by words. What took so long the last time is expected to take as long again.
    """
    took = {} if took is None else took
    about = f" of about {took[words]:.0f} s" if took.get(words, 0.0) >= 1.0 else ""
    began, over = time.monotonic(), threading.Event()
    line = _tqdm(None, f"{where}: {words}" if where else words, "", form="{desc}, {elapsed}" + about)

    def tick() -> None:
        while not over.wait(1.0):
            line.update(0)

    ticker = threading.Thread(target=tick, daemon=True)
    if not line.disable:
        ticker.start()
    try:
        yield
    finally:
        over.set()
        if not line.disable:
            ticker.join()
        line.close()
        took[words] = time.monotonic() - began


def above_bars() -> AbstractContextManager[None]:
    """Around printing: bars make room for it."""
    from tqdm import tqdm

    return tqdm.external_write_mode(file=sys.stderr)


def _tqdm(items: Any, words: str, unit: str, total: int | None = None, form: str | None = None) -> Any:
    from tqdm import tqdm

    size = shutil.get_terminal_size()
    return tqdm(
        items,
        desc=words,
        total=total,
        bar_format=form,
        unit=unit,
        unit_scale=True,
        file=sys.stderr,
        ncols=size.columns,  # given: tqdm shows nothing where a terminal does not tell its size
        nrows=size.lines,
        disable=not sys.stderr.isatty(),
        delay=0.5,  # work that is done at once, as each batch of a service, shows nothing
        leave=False,
    )

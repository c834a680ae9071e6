"""Bars and lines about long work: shown on a terminal of any size, and nowhere else."""

from __future__ import annotations

import fcntl
import io
import os
import re
import struct
import sys
import termios
import threading

import pytest

from pairsieve import progress


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, rows: int, columns: int) -> tuple[int, io.TextIOWrapper]:
    """stderr becomes a terminal of this size; what it shows is read from the other end."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    terminal = os.fdopen(theirs, "w")
    monkeypatch.setattr(sys, "stderr", terminal)
    return ours, terminal


@pytest.mark.parametrize(("rows", "columns"), [(40, 120), (0, 0)])
def test_a_bar_is_shown_also_where_a_terminal_does_not_tell_its_size(
    rows: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, terminal = on_a_terminal(monkeypatch, rows, columns)
    with terminal, progress.bar(4, "embedding", "text") as bar:
        bar.start_t -= 1  # type: ignore[attr-defined]  # half a second passes before a bar is shown
        bar.last_print_t -= 1  # type: ignore[attr-defined]
        bar.update(1)
        shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert "embedding:  25%" in shown


def test_what_is_done_is_shown_with_its_time_and_what_it_took_before(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, terminal = on_a_terminal(monkeypatch, 40, 120)
    took = {"training": 12.4}
    with terminal:
        with progress.doing("training", "round 2 of 10", took):
            shown = os.read(ours, 10_000).decode()  # waits for the first tick
            with progress.above_bars():
                print("a message", file=terminal, flush=True)
        print("the end", file=terminal, flush=True)
        while "the end\r\n" not in shown:
            shown += os.read(ours, 10_000).decode()
    os.close(ours)
    assert re.search(r"^\rround 2 of 10: training, \d\d:\d\d of about 12 s", shown)
    assert "\ra message\r\n" in shown, "the line makes room"
    assert re.search(r"\r +\rthe end", shown), "and is gone at the end"
    assert 0 < took["training"] != 12.4


def test_nothing_is_shown_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    before, took = threading.active_count(), {"training": 12.4}
    with progress.doing("training", "round 2 of 10", took), progress.bar(4, "embedding") as bar:
        bar.update(4)
        assert threading.active_count() == before
    assert capsys.readouterr() == ("", "")


def test_what_a_bar_shows_is_told_in_words_too(monkeypatch: pytest.MonkeyPatch) -> None:
    now, told = [0.0], list[str]()
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    progress.listen(told.append)
    try:
        with progress.bar(10_000, "embedding", "text") as bar:
            for seconds in (0.1, 0.4, 0.6, 0.7):  # not more often than twice a second
                now[0] = seconds
                bar.update(1_000)
    finally:
        progress.listen(None)
    assert told == ["embedding: 3,000 of 10,000 texts", ""]
    with progress.bar(1, "embedding", "text") as bar:
        bar.update(1)
    assert len(told) == 2  # nobody listens any more

"""Background training: a process of its own that goes on with the rounds when answers are in.

The process is started once and kept: its imports stay warm. It speaks lines of JSON on its stdout:
{"message": text} and {"progress": text}, then {"stopped": step}, {"error": text} or, where it may pass,
{"wait": text}. If the page's server dies, its stdin ends and it ends after the step at hand; the campaign
keeps what it finished.

A fault that may pass (the database or the disk is away, another process runs the campaign, the process was
killed) is tried again by itself, after longer and longer pauses. Any other waits for a person.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pairsieve.artifacts import disk_is_full
from pairsieve.campaign import Campaign
from pairsieve.errors import LedgerUnavailable, PairsieveError
from pairsieve.progress import listen
from pairsieve.web.predictions import write_predictions

log = logging.getLogger("pairsieve")
LOOK_SECONDS = 0.5  # how often the thread looks whether a round is ready
BUSY = "is being run by another process"  # the campaign's own words when somebody else runs it
FIRST_PAUSE, LONGEST_PAUSE = 3.0, 60.0  # seconds before a fault that may pass is tried again
MOST_KILLS = 3  # times in a row that a killed process is started again


class Rounds:
    """Goes on with the campaign whenever `ready()`; calls `done()` after each run."""

    def __init__(
        self,
        folder: Path,
        ready: Callable[[], bool],
        done: Callable[[], None],
        trains: bool = True,
        cache: Path | None = None,
    ) -> None:
        self._ready, self._done, self.trains = ready, done, trains
        self._folders = [str(folder)] + ([str(cache)] if cache else [])
        self._process: subprocess.Popen[str] | None = None
        self._wake, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rounds", daemon=True)
        self.busy = False
        self.words = ""  # what the process said last
        self.progress = ""  # how far it is, such as "embedding: 4,000 of 10,000 texts"
        self.error = ""  # why it stopped, until somebody says try again
        self._not_before = 0.0
        self._faults = self._kills = 0  # in a row

    def start(self) -> None:
        if self.trains:
            self._spawn()  # its imports warm up while people read the first pair
            self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._wake.set()
        process = self._process
        end_process(process)
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        close_pipes(process)

    def wake(self) -> None:
        """Look now, not at the next tick."""
        self._wake.set()

    def retry(self) -> None:
        """Try again after an error, now."""
        self.error, self._not_before = "", 0.0
        self._faults = self._kills = 0
        self._wake.set()

    def report(self) -> dict[str, Any]:
        """For the page: whether training is on, at work and how far, its last words, its error."""
        names = ("trains", "busy", "progress", "words", "error")
        return {name: getattr(self, name) for name in names}

    def _watch(self) -> None:
        while not self._ending.is_set():
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()
            if self._ending.is_set() or self.error or time.monotonic() < self._not_before:
                continue
            try:
                if not self._ready():
                    continue
                self.busy = True
                try:
                    self._go_on()
                finally:
                    self.busy, self.progress = False, ""
                self._done()
            except (LedgerUnavailable, OSError) as error:
                log.warning("%s", error)
                self._wait("The database of answers cannot be reached or written now; waiting for it.")
            except Exception as error:  # the thread must live: the page shows the words
                log.exception("the rounds' thread met an error")
                self.error = str(error)

    def _wait(self, words: str) -> None:
        """Try again by itself after a pause, twice as long each time."""
        self.words = words
        self._not_before = time.monotonic() + min(FIRST_PAUSE * 2**self._faults, LONGEST_PAUSE)
        self._faults += 1

    def _spawn(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pairsieve.web.rounds", *self._folders],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        return self._process

    def _go_on(self) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            close_pipes(process)
            process = self._spawn()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write("go\n")
            process.stdin.flush()
        except OSError:
            pass  # it died; the missing line below tells how
        for line in process.stdout:
            report = json.loads(line)
            if "message" in report:
                self.words = report["message"]
            elif "progress" in report:
                self.progress = report["progress"]
            elif "stopped" in report:
                self._faults = self._kills = 0
                return
            elif "wait" in report:
                self._wait(report["wait"])
                return
            else:
                self.error = report["error"]
                return
        code = process.wait()
        if self._ending.is_set():
            return
        self._kills += 1
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        if self._kills <= MOST_KILLS:
            self._wait(f"The process that trains {how}; it is started again.")
        else:
            self.error = (
                f"The process that trains {how}, {self._kills} times in a row, perhaps for want of memory. "
                "Nothing that was finished is lost. Look at the terminal, then try again."
            )


def end_process(process: subprocess.Popen[str] | None) -> None:
    """Ask a process to end, if it is at work, and end it where it does not."""
    if process is None or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def close_pipes(process: subprocess.Popen[str] | None) -> None:
    """Close our ends of the lines to a process that has ended."""
    for pipe in (process.stdin, process.stdout) if process is not None else ():
        try:
            if pipe is not None:
                pipe.close()
        except OSError:
            pass  # a last word that nobody can hear any more


def in_background() -> Callable[..., None]:
    """Make this process one behind the page; returns what writes a line of JSON to it, from keywords."""
    speak = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints goes to the terminal, not into our lines
    if hasattr(os, "nice"):
        os.nice(5)  # an answer on the page comes first
    speaking = threading.Lock()

    def tell(**words: Any) -> None:
        with speaking:
            print(json.dumps(words), file=speak, flush=True)

    return tell


def main(folder: Path, cache: Path | None = None) -> None:
    """The process: for each line on stdin, run the campaign until people owe answers or it is finished."""
    tell = in_background()
    listen(lambda words: tell(progress=words))
    for _ in sys.stdin:
        try:
            campaign = Campaign(folder, cache)
            step = campaign.run(lambda message: tell(message=message))
            tell(message=f"{write_predictions(campaign):,} predictions written")
            campaign.ledger.close()
            tell(stopped=step.name)
        except Exception as error:
            if BUSY in str(error):
                tell(wait="Another process is running this campaign; waiting for it.")
                continue
            if isinstance(error, LedgerUnavailable | OSError) or disk_is_full(error):
                log.warning("%s", error)
                what = "The database of answers or the disk"
                if isinstance(error, OSError) and error.filename and not disk_is_full(error):
                    what = f"{Path(str(error.filename)).name} ({error.strerror})"
                tell(wait=f"{what} cannot be used now; waiting for it.")
                continue
            if isinstance(error, PairsieveError):
                tell(error=str(error))
                continue
            log.exception("the rounds' process met an error")
            tell(error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    main(*map(Path, sys.argv[1:]))

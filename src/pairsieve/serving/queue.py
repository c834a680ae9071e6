"""The queue of requests in front of the worker thread, which takes all that has gathered as one batch.

Nobody waits for a batch to fill: while one is worked on, the next gathers. What does not fit is refused at
once with the seconds after which it is worth asking again. Closing finishes everything that was accepted.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from pairsieve.errors import PairsieveError

LONGEST_WAIT = 60  # seconds: more is a guess nobody can make


class Busy(PairsieveError):
    """More waits than may wait; nothing was done. `retry_seconds` says when to ask again."""

    def __init__(self, waiting: int, most: int, retry_seconds: int) -> None:
        self.retry_seconds = retry_seconds
        remedy = f"Ask again in {retry_seconds} s, with fewer requests at once."
        super().__init__(f"{waiting:,} texts wait and at most {most:,} may. {remedy}")


class Closed(PairsieveError):
    """The service is stopping and takes no more."""

    def __init__(self) -> None:
        super().__init__("The service is stopping. Ask again when it is back.")


@dataclass(eq=False)
class Job:
    """One request: matches of texts or of a held key, or (`count` 0) the text to put under a key, or none.

    source: where the texts are from, None for none. call: something else to do in the worker, between
    batches; what it returns is the answer.
    """

    texts: list[str]
    key: str | None = None
    count: int = 0
    threshold: float | None = None
    source: str | None = None
    call: Callable[[], Any] | None = None
    future: Future[Any] = field(default_factory=Future)

    @property
    def size(self) -> int:
        return max(1, len(self.texts))


class Queue:
    """Jobs in the order they came, worked on in batches of at most `most_at_once` texts."""

    def __init__(self, work: Callable[[list[Job]], None], most_waiting: int, most_at_once: int) -> None:
        self._work, self.most_waiting, self.most_at_once = work, most_waiting, most_at_once
        self._jobs: deque[Job] = deque()
        self._here = threading.Condition()
        self.closed = False
        self._texts_a_second = 0.0
        self.waiting = 0  # texts, those being worked on not counted
        self.refused = 0  # requests
        self._thread = threading.Thread(target=self._run, name="pairsieve serving", daemon=True)
        self._thread.start()

    def put(self, job: Job) -> Future[Any]:
        """Accept a job or refuse it now (`Busy`, `Closed`); an empty queue takes one of any size."""
        with self._here:
            if self.closed:
                raise Closed
            if self.waiting and self.waiting + job.size > self.most_waiting:
                self.refused += 1
                # What waits will take so long by the speed so far.
                seconds = math.ceil(self.waiting / self._texts_a_second) if self._texts_a_second else 1
                raise Busy(self.waiting, self.most_waiting, min(LONGEST_WAIT, max(1, seconds)))
            self._jobs.append(job)
            self.waiting += job.size
            self._here.notify()
        return job.future

    def close(self) -> None:
        """Take no more, finish what was accepted, then return."""
        with self._here:
            self.closed = True
            self._here.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._take():
            began = time.perf_counter()
            self._finish([job for job in batch if job.future.set_running_or_notify_cancel()])
            speed = sum(job.size for job in batch) / max(time.perf_counter() - began, 1e-6)
            self._texts_a_second = 0.8 * self._texts_a_second + 0.2 * speed if self._texts_a_second else speed

    def _take(self) -> list[Job]:
        """What has gathered, at least one job; empty when closed and nothing is left."""
        with self._here:
            while not self._jobs and not self.closed:
                self._here.wait()
            batch, size = list[Job](), 0
            while self._jobs and (not batch or size + self._jobs[0].size <= self.most_at_once):
                batch.append(self._jobs.popleft())
                size += batch[-1].size
            self.waiting -= size
            return batch

    def _finish(self, batch: list[Job]) -> None:
        """Work on a batch; if it fails, on each job alone, so that nobody fails for another."""
        try:
            if batch:
                self._work(batch)
        except Exception as error:
            for job in [job for job in batch if not job.future.done()]:
                if len(batch) == 1:
                    job.future.set_exception(error)
                else:
                    self._finish([job])

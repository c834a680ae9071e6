"""A label source that asks a language model at any OpenAI-compatible endpoint, under a spend cap.

Off unless somebody builds one: nothing here is asked by default. Pairs are asked by several threads; each
reply is handed on as it comes (`on_answer`), so that a stop loses nothing that was paid for. What the model
refuses, garbles or mislabels even after retries stays open; no answer is ever guessed.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pairsieve.contracts import Answer
from pairsieve.errors import InputError
from pairsieve.pairs import Ids
from pairsieve.progress import bar
from pairsieve.sources.endpoint import Dialect, Endpoint, Reply, open_client, post, presentable, worst_case
from pairsieve.sources.prompt import Prompt, read_reply
from pairsieve.sources.spending import SpendBudget, Spent

if TYPE_CHECKING:
    import httpx

Texts: TypeAlias = Callable[[int], tuple[str, str]]
OnAnswer: TypeAlias = Callable[[Sequence[Answer]], object]
Jobs: TypeAlias = "queue.SimpleQueue[list[int]]"

GIVE_UP_AFTER = 10  # questions in a row without an answer: it is not the questions
CAPPED = "the spend cap leaves no room for another request"


@dataclass(frozen=True)
class ModelReport:
    """What came of asking a model, over all calls of `answer`."""

    answered: int  # pairs; with those it was unsure of
    unsure: int
    left_open: dict[str, int]  # pairs that are "refused", "unparsable", "unreachable" or "not reached"
    retries: int
    spent: Spent  # in this run
    stopped: str = ""  # why it ended before the last pair; empty where it did not

    def as_json(self) -> dict[str, Any]:
        return {
            "answered": self.answered,
            "unsure": self.unsure,
            "left_open": self.left_open,
            "retries": self.retries,
            **self.spent.as_json(),
            "stopped": self.stopped or None,
        }

    def words(self) -> str:
        spent = self.spent
        lines = [
            f"{self.answered:,} pairs answered ({self.unsure:,} unsure) with {spent.requests:,} requests, "
            f"{self.retries:,} of them retries; {spent.prompt_tokens:,} tokens in, "
            f"{spent.completion_tokens:,} out, {spent.money:.4f} spent"
            + (f" (of it {spent.assumed:.4f} assumed, as no cost was reported)." if spent.assumed else ".")
        ]
        if self.left_open:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.left_open.items()))
            lines.append(f"Left open: {reasons}.")
        if self.stopped:
            lines.append(f"Stopped early: {self.stopped}.")
        return "\n".join(lines)


class LanguageModelSource:
    """A label source that asks a model; `answer` returns what it got, in the order of the ids."""

    def __init__(
        self,
        endpoint: Endpoint,
        prompt: Prompt,
        texts: Texts,
        budget: SpendBudget,
        rng: np.random.Generator,
        on_answer: OnAnswer | None = None,
    ) -> None:
        """`texts`: pair id -> (left, right). `rng`: the jitter of waits.

        `on_answer` gets each reply's answers, in the caller's thread; after an interruption in the midst of
        such a call, once more, so it must accept the same answers twice (the ledger does).
        """
        self.name = endpoint.model
        self.endpoint, self.prompt, self.texts, self.budget = endpoint, prompt, texts, budget
        self.on_answer = on_answer
        self._rng = rng
        self._before = budget.spent
        self._dialect = Dialect()
        self._counted = ModelReport(0, 0, {}, 0, Spent())

    @property
    def report(self) -> ModelReport:
        return replace(self._counted, spent=self.budget.spent.since(self._before))

    def answer(self, ids: Ids) -> Sequence[Answer]:
        """Ask about each pair; those without a believable answer are left out. ids: (n,) distinct int64.

        Where it is stopped (Ctrl-C, an error of `on_answer`), requests under way are waited for and their
        answers handed on first. An endpoint that never gave one answer is an InputError.
        """
        if not len(ids):
            return []
        wanted = [int(pair) for pair in ids]
        step = self.endpoint.pairs_per_request
        jobs: Jobs = queue.SimpleQueue()
        for at in range(0, len(wanted), step):
            jobs.put(wanted[at : at + step])
        found: dict[int, Answer] = {}

        def deliver(answers: list[Answer], pairs: int) -> None:
            found.update({answer.id: answer for answer in answers})
            if answers and self.on_answer is not None:
                self.on_answer(answers)
            shown.update(pairs)

        with open_client(self.endpoint) as client:
            asking = _Asking(self, client, jobs)
            shown = bar(len(wanted), f"asking {self.name}", unit="pair")
            try:
                asking.start()
                asking.hand_on(deliver)
            except BaseException:
                asking.stop("interrupted")
                asking.hand_on(deliver)  # waits for what is under way; a second Ctrl-C ends that too
                raise
            finally:
                shown.close()
                self._note(found, asking, len(wanted))
        if asking.failed and not found:
            what, where = f"the model {self.name} gave no answer", self.endpoint.url
            remedy = "Check the address, the model's name and the key; nothing was labelled"
            raise InputError(what, where=where, why=asking.stopped, remedy=remedy)
        return [found[pair] for pair in wanted if pair in found]

    def _note(self, found: dict[int, Answer], asking: _Asking, wanted: int) -> None:
        left = Counter(asking.left_open)
        left["not reached"] = wanted - len(found) - left.total()
        before = self._counted
        self._counted = ModelReport(
            answered=before.answered + len(found),
            unsure=before.unsure + sum(answer.label is None for answer in found.values()),
            left_open=dict(Counter(before.left_open) + left),  # drops what is zero
            retries=before.retries + asking.retries,
            spent=Spent(),
            stopped=asking.stopped,
        )
        self._dialect = asking.dialect


@dataclass(frozen=True)
class _Outcome:
    """What one try brought: labels by number within the request, or why there are none."""

    labels: dict[int, int | None] = field(default_factory=dict)
    why_not: str = ""  # "refused", "unparsable", "unreachable", "stopped"
    words: str = ""
    wait_seconds: float | None = None  # as the server asked


class _Asking:
    """The threads of one call of `answer`, and what they share."""

    def __init__(self, source: LanguageModelSource, client: httpx.Client, jobs: Jobs) -> None:
        self.endpoint, self.prompt, self.budget = source.endpoint, source.prompt, source.budget
        self.texts, self.client, self.jobs = source.texts, client, jobs
        self.dialect, self._rng = source._dialect, source._rng
        self.stopped = ""  # why, in words
        self.failed = False  # stopped by a failure, not by the cap or a person
        self.retries = 0
        self.left_open: Counter[str] = Counter()
        self._threads: list[threading.Thread] = []
        self._ended: set[threading.Thread] = set()
        self._events: list[tuple[list[Answer], int]] = []  # answers, and pairs done with, answered or not
        self._handed_on = 0  # of the events
        self._news = threading.Condition()
        self._error: BaseException | None = None  # of a thread
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._worked = source.report.answered > 0  # one request has brought an answer
        self._in_a_row = 0  # questions without an answer since the last one with
        self._not_before = 0.0  # time.monotonic() before which the server wants no request
        self._secret = source.endpoint.key()

    def start(self) -> None:
        # Daemons, so that a second Ctrl-C need not wait for a reply.
        count = min(self.endpoint.concurrency, self.jobs.qsize())
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def hand_on(self, deliver: Callable[[list[Answer], int], None]) -> None:
        """Hand on the threads' news in this thread until all have ended.

        News stay in the list until handed on to the end: an exception anywhere in here loses none, and
        calling again goes on with the one that was under way.
        """
        while True:
            with self._news:
                while len(self._events) == self._handed_on and self._under_way():
                    self._news.wait(1.0)
                if len(self._events) == self._handed_on:
                    break
            deliver(*self._events[self._handed_on])
            self._handed_on += 1
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _under_way(self) -> bool:
        # Asked of the threads themselves: an interrupted `start` may have left some unstarted.
        return any(thread.is_alive() and thread not in self._ended for thread in self._threads)

    def _work(self) -> None:
        """One thread: take questions until there are none, or the asking stops."""
        try:
            while not self._stop.is_set():
                try:
                    pairs = self.jobs.get_nowait()
                except queue.Empty:
                    break
                self._ask(pairs)
        except BaseException as error:  # raised again in the caller's thread
            self._error = error
            self._stop.set()
        finally:
            with self._news:
                self._ended.add(threading.current_thread())
                self._news.notify()

    def _tell(self, answers: list[Answer], pairs: int) -> None:
        with self._news:
            self._events.append((answers, pairs))
            self._news.notify()

    def stop(self, words: str = "", failed: bool = False) -> None:
        with self._lock:
            if not self.stopped and words:
                self.stopped, self.failed = words, failed
        self._stop.set()

    def _ask(self, pairs: list[int]) -> None:
        """Ask until every pair of the request has its answer, or retries are used up."""
        waiting = pairs
        for attempt in range(self.endpoint.retries + 1):
            self._wait_for_rate_limit()
            if self._stop.is_set():
                return  # nothing under way: these pairs were not asked, or not to the end
            if attempt:
                with self._lock:
                    self.retries += 1
            outcome = self._try(waiting)
            answers = [Answer(waiting[number - 1], label) for number, label in sorted(outcome.labels.items())]
            if answers:
                with self._lock:
                    self._in_a_row, self._worked = 0, True
                self._tell(answers, len(answers))
                given = {answer.id for answer in answers}
                waiting = [pair for pair in waiting if pair not in given]
            if not waiting or outcome.why_not == "stopped":
                return
            if outcome.why_not == "refused" or attempt == self.endpoint.retries:
                break
            if outcome.why_not == "unreachable":  # a garbled reply is no sign of a busy server
                self._back_off(attempt, outcome)
        self._leave_open(waiting, outcome)

    def _leave_open(self, pairs: list[int], outcome: _Outcome) -> None:
        with self._lock:
            self.left_open[outcome.why_not or "unparsable"] += len(pairs)
            self._in_a_row += 1
            hopeless = self._in_a_row >= GIVE_UP_AFTER
        self._tell([], len(pairs))
        if hopeless:
            words = f"{GIVE_UP_AFTER} questions in a row brought no answer; the last: {outcome.words}"
            self.stop(words, failed=True)

    def _try(self, pairs: list[int]) -> _Outcome:
        """One request that counts as a try; a dialect the server does not know is mended on the way."""
        messages = self.prompt.messages([self.texts(pair) for pair in pairs])
        most_tokens = self.endpoint.answer_tokens * len(pairs)
        while True:
            dialect = self.dialect
            body = dialect.body(self.endpoint.model, messages, len(pairs), most_tokens)
            reservation = self.budget.reserve(worst_case(body, len(messages), most_tokens))
            if reservation is None:
                overdrawn = "the endpoint used more tokens than it was allowed, so no cap could be kept"
                self.stop(overdrawn if self.budget.overdrawn else CAPPED)
                return _Outcome(why_not="stopped")
            if self._stop.is_set():  # while it waited for room
                self.budget.cancel(reservation)
                return _Outcome(why_not="stopped")
            cost = None
            try:
                reply = post(self.client, self.endpoint, body)
                cost = reply.cost
            except ConnectionError as error:
                return _Outcome(why_not="unreachable", words=presentable(str(error), self._secret))
            finally:
                self.budget.settle(reservation, cost)
            if reply.status in (400, 422) and self._mended(dialect, reply):
                continue
            return self._judge(reply, len(pairs))

    def _mended(self, dialect: Dialect, reply: Reply) -> bool:
        """Whether there is another dialect to try. Once one has worked, a complaint is about the pair."""
        with self._lock:
            if self.dialect == dialect:
                milder = None if self._worked else dialect.milder(json.dumps(reply.body))
                self.dialect = milder or dialect
            return self.dialect != dialect

    def _judge(self, reply: Reply, pairs: int) -> _Outcome:
        """What a reply is worth."""
        status = reply.status
        if 200 <= status < 300:
            try:
                return _Outcome(read_reply(reply.content(), pairs))
            except PermissionError as error:
                return _Outcome(why_not="refused", words=str(error))
            except ValueError as error:
                return _Outcome(why_not="unparsable", words=presentable(str(error), self._secret))
        words = presentable(f"HTTP {status}: {reply.complaint()}", self._secret)
        if status in (408, 409, 425, 429) or status >= 500:
            return _Outcome(why_not="unreachable", words=words, wait_seconds=reply.retry_after_seconds)
        if status in (401, 402) or (not self._worked and status in (*range(300, 400), 403, 404, 405)):
            self.stop(words, failed=True)
            return _Outcome(why_not="stopped")
        return _Outcome(why_not="refused", words=words)

    def _back_off(self, attempt: int, outcome: _Outcome) -> None:
        """Wait before a retry: first · 2^attempt with jitter; all threads wait as long as the server asks."""
        wait = outcome.wait_seconds
        if wait is not None and wait > self.endpoint.longest_wait_seconds:
            self.stop(f"the endpoint asks to wait {wait:,.0f} seconds; {outcome.words}", failed=True)
            return
        with self._lock:
            jitter = float(self._rng.uniform(0.5, 1.0))
            if wait is not None:
                self._not_before = max(self._not_before, time.monotonic() + wait)
        wait = min(self.endpoint.first_wait_seconds * 2**attempt, self.endpoint.longest_wait_seconds) * jitter
        self._stop.wait(wait)

    def _wait_for_rate_limit(self) -> None:
        while not self._stop.is_set():
            left = self._not_before - time.monotonic()
            if left <= 0:
                return
            self._stop.wait(left)

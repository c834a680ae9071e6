"""How does one ask from Python? `Service.open(folder)`, then `match`, `match_many`, `add`, `remove`.

Every request goes through one worker: what waits together is embedded together, changes are on disk before
they are acknowledged and in the index before the next search, so that the next request sees them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError, PairsieveError
from pairsieve.serving.index import Index, Match
from pairsieve.serving.opening import (
    LEAST_AGREEMENT,
    STATE,
    Served,
    agreement,
    encoder_of,
    open_served,
    tells_sides_apart,
)
from pairsieve.serving.queue import Job, Queue
from pairsieve.serving.record import Change, Record

if TYPE_CHECKING:
    from pairsieve.tasks import Collection

Vectors = NDArray[np.float32]

MOST_MATCHES = 1000  # of one text
LONGEST_TEXT = 100_000  # characters; an encoder reads the first few hundred
LONGEST_KEY = 500  # characters
MOST_WAITING = 1024  # texts that may wait before requests are refused
MOST_AT_ONCE = 256  # texts of one batch: enough for every core to have some


class UnknownKey(PairsieveError):
    """There is no text under this key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"There is no text with the key {key[:200]!r}.")


@dataclass(frozen=True)
class Answer:
    """The matches of one text, best first. `cut`: the encoder did not read all of it, only its beginning."""

    matches: list[Match]
    cut: bool


@dataclass(frozen=True)
class Added:
    """`replaced`: the key was there before, and its earlier text is gone. `cut`: as in `Answer`."""

    replaced: bool
    cut: bool


@dataclass(frozen=True)
class BatchDone:
    """What one batch cost: texts embedded, queries searched, changes written, and seconds of each."""

    texts: int
    queries: int
    changes: int
    embed_seconds: float
    search_seconds: float
    write_seconds: float


class Service:
    """A matcher over a collection that grows. Safe to use from several threads; close it when done."""

    def __init__(
        self,
        served: Served,
        state: Path,
        *,
        most_waiting: int = MOST_WAITING,
        most_at_once: int = MOST_AT_ONCE,
        note: Callable[[BatchDone], None] = lambda done: None,
    ) -> None:
        if most_waiting < 1 or most_at_once < 1:
            raise InputError("a queue for no texts", remedy="Let at least one wait")
        self.served = served
        self.matcher = served.matcher
        self.note = note  # called by the worker after each batch
        self._fingerprint = served.matcher.fingerprint
        self._alike = served.side == served.asking_side or not tells_sides_apart(served.matcher)
        self._record = Record(state)
        try:
            self._index = Index(served.texts.keys, served.texts.texts, served.rows)
            self.replayed = self._replay()
        except BaseException:
            self._record.close()
            raise
        self.queue = Queue(self._work, most_waiting, most_at_once)

    @staticmethod
    def open(
        folder: Path | str,
        collection: Collection | Path | str | None = None,
        *,
        key: str | None = None,
        text: Sequence[str] = (),
        side: str | None = None,
        round: int | None = None,
        state: Path | None = None,
        cache: Path | None = None,
        device: str | None = None,
        most_waiting: int = MOST_WAITING,
        most_at_once: int = MOST_AT_ONCE,
    ) -> Service:
        """Serve a campaign's model, or an exported one.

        collection: what to search: a `Collection`, a task folder, a table (with its `key` and `text`
        columns) or the name of a split; without one, all texts of the campaign, or none for an exported
        model. side: the collection's side of a pair where the sides differ ("right": a new text asks, the
        collection answers). state: the folder that keeps additions and removals, `folder/serving` if None.
        """
        folder = Path(folder)
        served = open_served(
            folder,
            collection,
            key=key,
            text=text,
            side=side,
            round=round,
            state=state,
            cache=cache,
            device=device,
        )
        return Service(served, state or folder / STATE, most_waiting=most_waiting, most_at_once=most_at_once)

    # ── asking ──────────────────────────────────────────────────────────────────────────────────

    def match(self, text: str, count: int = 10, threshold: float | None = None) -> list[Match]:
        """The `count` nearest texts, best first; with `threshold` only those whose cosine reaches it.

        Of equal scores (to six decimals) the text that has been there longer is first.
        """
        return self.match_many([text], count, threshold)[0]

    def match_many(
        self, texts: Sequence[str], count: int = 10, threshold: float | None = None
    ) -> list[list[Match]]:
        """`match` of each text, in order."""
        found: list[list[Match]] = []
        size = self.queue.most_at_once
        for first in range(0, len(texts), size):
            answers = self.ask(texts[first : first + size], count, threshold).result()
            found += [answer.matches for answer in answers]
        return found

    def add(self, key: str, text: str) -> Added:
        """Put a text in; an earlier one with the same key is replaced. It is on disk when this returns."""
        return self.put(key, text).result()

    def remove(self, key: str) -> None:
        """Take a text out for good; `UnknownKey` where there is none."""
        self.drop(key).result()

    def ask(
        self, texts: Sequence[str], count: int = 10, threshold: float | None = None
    ) -> Future[list[Answer]]:
        """`match_many` without waiting for it; `Busy` where too much waits already."""
        if not 1 <= count <= MOST_MATCHES:
            raise InputError(f"{count:,} matches asked for", remedy=f"Ask for 1 to {MOST_MATCHES:,}")
        if threshold is not None and not math.isfinite(threshold):
            raise InputError(f"threshold {threshold}", remedy="Give a cosine between -1 and 1")
        for text in texts:
            check_text(text)
        return self.queue.put(Job("match", list(texts), count=count, threshold=threshold))

    def put(self, key: str, text: str) -> Future[Added]:
        """`add` without waiting for it."""
        check_key(key)
        check_text(text)
        return self.queue.put(Job("add", [text], key=key))

    def drop(self, key: str) -> Future[None]:
        """`remove` without waiting for it."""
        return self.queue.put(Job("remove", [], key=key))

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, key: str) -> bool:
        return key in self._index

    def about(self) -> dict[str, Any]:
        """What is served, for people and for /health."""
        return {
            "serving": self.served.name,
            "texts": len(self),
            "waiting": self.queue.waiting,
            "model": self._fingerprint[:16],
            "encoder": encoder_of(self.matcher, self.served.side).name,
            "weight": self.matcher.weight,
            "bias": self.matcher.bias,
        }

    def close(self) -> None:
        """Finish what was accepted, then stop."""
        self.queue.close()
        self._record.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ── the worker ──────────────────────────────────────────────────────────────────────────────

    def _work(self, batch: list[Job]) -> None:
        """Embed everything at once, write and apply the changes, then search."""
        began = time.perf_counter()
        asking, adding = self.served.asking_side, self.served.side
        asks = [job for job in batch if job.ask == "match"]
        changes = [job for job in batch if job.ask != "match"]
        queries, rows = self._embed(
            [text for job in asks for text in job.texts], [text for job in changes for text in job.texts]
        )
        embedded = time.perf_counter()
        self._change(changes, rows, adding)
        written = time.perf_counter()
        first = 0
        found = self._index.find(queries, max((job.count for job in asks), default=0))
        for job in asks:
            answers = [
                Answer(self._matches(near, job.count, job.threshold), self._is_cut(text, asking))
                for text, near in zip(job.texts, found[first : first + len(job.texts)])
            ]
            first += len(job.texts)
            job.future.set_result(answers)
        self.note(
            BatchDone(
                len(queries) + len(rows),
                len(queries),
                len(changes),
                embedded - began,
                time.perf_counter() - written,
                written - embedded,
            )
        )

    def _embed(self, queries: list[str], added: list[str]) -> tuple[Vectors, Vectors]:
        """Rows of new texts and of added ones: in one call where both sides read alike."""
        asking, adding = self.served.asking_side, self.served.side
        if self._alike:
            rows = self.matcher.embed([*queries, *added], adding)
            return rows[: len(queries)], rows[len(queries) :]
        return self.matcher.embed(queries, asking), self.matcher.embed(added, adding)

    def _change(self, jobs: list[Job], rows: Vectors, side: str) -> None:
        """Write changes to disk, then to the index, then say so; those that cannot be are answered here."""
        present: dict[str, bool] = {}
        changes: list[Change] = []
        said: list[tuple[Job, Added | None]] = []
        at = 0
        for job in jobs:
            there = present.get(job.key, job.key in self._index)
            if job.ask == "add":
                changes.append(Change(job.key, job.texts[0], rows[at], self._fingerprint))
                said.append((job, Added(there, self._is_cut(job.texts[0], side))))
                at += 1
            elif there:
                changes.append(Change(job.key, None))
                said.append((job, None))
            else:
                job.future.set_exception(UnknownKey(job.key))
            present[job.key] = job.ask == "add"
        if changes:
            self._record.write(changes)
            self._apply(changes)
        for job, result in said:
            job.future.set_result(result)

    def _apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.text is None:
                self._index.remove(change.key)
            else:
                assert change.row is not None
                self._index.add(change.key, change.text, change.row)

    def _replay(self) -> int:
        """Lay the recorded changes over the collection; what another model embedded is embedded anew."""
        changes = self._record.read()
        stale = [c for c in changes if c.text is not None and not self._is_ours(c)]
        if not stale:  # a fingerprint is what a folder says of itself: a few rows are compared as well
            held = [(c.text, c.row) for c in changes if c.text is not None and c.row is not None]
            rows = np.stack([row for _, row in held]) if held else self.served.rows[:0]
            texts = [text for text, _ in held]
            if agreement(self.matcher, texts, rows, self.served.side) < LEAST_AGREEMENT:
                stale = [c for c in changes if c.text is not None]
        if stale:
            rows = self.matcher.embed([c.text or "" for c in stale], self.served.side)
            fresh = {c.key: Change(c.key, c.text, row, self._fingerprint) for c, row in zip(stale, rows)}
            self._record.set_rows(fresh.values())
            changes = [fresh.get(c.key, c) for c in changes]
        self._apply(changes)
        return len(changes)

    def _is_ours(self, change: Change) -> bool:
        row = change.row
        return change.model == self._fingerprint and row is not None and len(row) == self._index.width

    def _matches(
        self, near: list[tuple[str, str, float]], count: int, threshold: float | None
    ) -> list[Match]:
        weight, bias = self.matcher.weight, self.matcher.bias
        return [
            Match(key, text, score, _sigmoid(weight * score + bias))
            for key, text, score in near[:count]
            if threshold is None or score >= threshold
        ]

    def _is_cut(self, text: str, side: str) -> bool:
        """Whether the encoder reads less than the whole text; a token is at least one byte long."""
        encoder = encoder_of(self.matcher, side)
        whole = encoder.prefix(side) + text
        if len(whole.encode()) <= encoder.max_length - 2:
            return False
        return len(encoder.tokenizer(whole, verbose=False)["input_ids"]) > encoder.max_length


def check_text(text: str) -> None:
    """Refuse a text that cannot be matched: nothing to read, too long, or not Unicode."""
    if len(text) > LONGEST_TEXT:
        raise TooLong(len(text))
    if not any(character.isprintable() and not character.isspace() for character in text):
        raise InputError("the text is empty", why="there is nothing to match", remedy="Give some words")
    _check_unicode(text, "text")


def check_key(key: str) -> None:
    """Refuse a key that cannot name a text."""
    if not 1 <= len(key) <= LONGEST_KEY:
        raise InputError(
            f"a key of {len(key):,} characters", remedy=f"Give a key of 1 to {LONGEST_KEY} characters"
        )
    _check_unicode(key, "key")


class TooLong(InputError):
    """A text that is longer than any encoder would read."""

    def __init__(self, length: int) -> None:
        super().__init__(
            f"a text of {length:,} characters",
            why=f"at most {LONGEST_TEXT:,} are taken, and an encoder reads only the first few hundred words",
            remedy="Send the part that matters",
        )


def _check_unicode(words: str, what: str) -> None:
    try:
        words.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"the {what} holds half a surrogate pair, which is no character", remedy="Send UTF-8"
        ) from None


def _sigmoid(logit: float) -> float:
    small = math.exp(-abs(logit))
    return (1.0 if logit >= 0 else small) / (1.0 + small)

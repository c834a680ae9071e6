"""The matching service from Python: `Service.open(folder)`, then `match`, `match_key`, `add`, `remove`.

Every request goes through one worker: what waits together is embedded together, changes are on disk before
they are acknowledged and in the index before the next search, so that the next request sees them. `reload`
takes up a new model beside the old one, which answers until the new one is ready.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError, PairsieveError
from pairsieve.models import Matcher
from pairsieve.scorer import Scorer
from pairsieve.serving.checks import check_key, check_text
from pairsieve.serving.index import Index, Match, Query
from pairsieve.serving.loading import Loaded, embedded, load
from pairsieve.serving.of_sources import check_source
from pairsieve.serving.opening import STATE, Served, Source, Wanted, finite, open_served
from pairsieve.serving.queue import Job, Queue
from pairsieve.serving.record import Change, Record

Vectors = NDArray[np.float32]

MOST_MATCHES = 50_000  # of one text
LONGEST_PAGE = 1 << 20  # characters of the texts of a page
MOST_WAITING = 1024  # texts that may wait before requests are refused
MOST_AT_ONCE = 256  # texts of one batch: enough for every core to have some


class UnknownKey(PairsieveError):
    """There is no text under this key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"There is no text with the key {key[:200]!r}.")


class Reloading(PairsieveError):
    """A new model is being loaded already."""

    def __init__(self) -> None:
        super().__init__("A new model is being loaded already. Ask again when that is done.")


class Unreadable(InputError):
    """A text of which the encoder knows no piece."""

    def __init__(self) -> None:
        super().__init__(
            "the encoder cannot read this text",
            why="it knows none of its characters, so all such texts would match each other",
            remedy="Use an encoder made for this script, or leave the text out",
        )


@dataclass(frozen=True)
class Answer:
    """The matches of one text, best first; of equal scores the older first. `cut`: its end was not read."""

    matches: list[Match]
    cut: bool


@dataclass(frozen=True)
class Changed:
    """`replaced`: the key was there before, and its earlier text is gone. `cut`: as in `Answer`."""

    replaced: bool
    cut: bool = False


@dataclass(frozen=True)
class BatchDone:
    """What one batch cost: texts embedded, changes written, seconds by phase (embed, write, search)."""

    texts: int
    changes: int
    seconds: dict[str, float]


@dataclass(frozen=True)
class TextPage:
    """Some held texts in the order of their keys; `next`: where the next page begins, None at the end."""

    texts: list[tuple[str, str, str | None]]  # key, text, source
    next: str | None


class Service:
    """A scorer over a collection that grows. Safe to use from several threads; close it when done."""

    def __init__(
        self,
        served: Served,
        state: Path,
        *,
        most_waiting: int = MOST_WAITING,
        most_at_once: int = MOST_AT_ONCE,
        reopen: Callable[[], Served] | None = None,
    ) -> None:
        """reopen: opens what is served as it is by then; without it there is no `reload`."""
        if most_waiting < 1 or most_at_once < 1:
            raise InputError("a queue for no texts", remedy="Let at least one wait")
        self._reopen, self._reloading = reopen, threading.Lock()
        self.note: Callable[[BatchDone], None] = lambda done: None  # called by the worker after each batch
        self._record = Record(state)
        try:
            self._loaded = load(served, self._record)
        except BaseException:
            self._record.close()
            raise
        self.queue = Queue(self._work, most_waiting, most_at_once)

    @staticmethod
    def open(
        folder: Path | str,
        collection: Source = None,
        *,
        key: str | None = None,
        text: Sequence[str] = (),
        source: str | None = None,
        side: str | None = None,
        queries: Source = None,
        round: int | None = None,
        state: Path | None = None,
        cache: Path | None = None,
        device: str | None = None,
        most_waiting: int = MOST_WAITING,
        most_at_once: int = MOST_AT_ONCE,
    ) -> Service:
        """Serve a campaign's scorer, or an exported one.

        collection: what to search: a `Collection`, a task folder, a table (with its `key`, `text` and
        `source` columns) or the name of a split; without one, all texts of the campaign, or none for an
        exported model. side: the collection's side of a pair between two collections ("right": a left text
        asks, the right collection answers). queries: known texts of the other side, in the same forms;
        without them, those of the splits or the task that the collection is from. Without any, the
        collection's own rows are not corrected. state: the folder that keeps additions and removals,
        `folder/serving` if None.
        """
        folder = Path(folder)
        wanted = Wanted(collection, key, text, source, side, queries, round, state, cache, device)
        reopen = partial(open_served, folder, wanted)
        return Service(
            reopen(),
            state or folder / STATE,
            most_waiting=most_waiting,
            most_at_once=most_at_once,
            reopen=reopen,
        )

    @property
    def served(self) -> Served:
        return self._loaded.served

    @property
    def scorer(self) -> Scorer:
        return self.served.scorer

    @property
    def matcher(self) -> Matcher:
        return self.scorer.matcher

    @property
    def replayed(self) -> int:
        """How many earlier additions and removals were laid over the collection."""
        return self._loaded.changes[0]

    @property
    def _index(self) -> Index:
        return self._loaded.index

    # ── asking ──────────────────────────────────────────────────────────────────────────────────

    def match(
        self, text: str, count: int = 10, threshold: float | None = None, *, source: str | None = None
    ) -> list[Match]:
        """The `count` best texts, best first; with `threshold` only those whose score reaches it.

        Of equal scores (to six decimals) the text that has been there longer is first. A text that is held
        is asked as the held one: within one collection it is the first answer, with score 1. source: where
        the text is from; texts of that source are no answers. Without one, all texts are compared.
        """
        return self.match_many([text], count, threshold, source=source)[0]

    def match_key(self, key: str, count: int = 10, threshold: float | None = None) -> list[Match]:
        """The best partners of a held text by its key: in one collection any, between two a known query."""
        return self.ask([], count, threshold, key).result()[0].matches

    def match_many(
        self,
        texts: Sequence[str],
        count: int = 10,
        threshold: float | None = None,
        *,
        source: str | None = None,
    ) -> list[list[Match]]:
        """`match` of each text, in order; all of one source."""
        size = self.queue.most_at_once
        batches = (texts[first : first + size] for first in range(0, len(texts), size))
        asked = [self.ask(batch, count, threshold, source=source).result() for batch in batches]
        return [answer.matches for answers in asked for answer in answers]

    def add(self, key: str, text: str, *, source: str | None = None) -> Changed:
        """Put a text in; an earlier one with the same key is replaced. It is on disk when this returns.

        source: where it is from; it is then no partner of texts of that source.
        """
        return self.change(key, text, source).result()

    def remove(self, key: str) -> None:
        """Take a text out for good; `UnknownKey` where there is none."""
        self.change(key, None).result()

    def ask(
        self,
        texts: Sequence[str],
        count: int = 10,
        threshold: float | None = None,
        key: str | None = None,
        source: str | None = None,
    ) -> Future[list[Answer]]:
        """`match_many`, or `match_key` with a key and no texts, without waiting; `Busy` if too much waits."""
        if not 1 <= count <= MOST_MATCHES:
            raise InputError(f"{count:,} matches asked for", remedy=f"Ask for 1 to {MOST_MATCHES:,}")
        if threshold is not None and not math.isfinite(threshold):
            raise InputError(f"threshold {threshold}", remedy="Give a score between -1 and 1")
        for text in texts:
            check_text(text)
        check_source(source, self._index.one)
        return self.queue.put(Job(list(texts), key, count, threshold, source))

    def change(self, key: str, text: str | None, source: str | None = None) -> Future[Changed]:
        """`add`, or `remove` for None, without waiting for it."""
        if text is not None:
            check_key(key)
            check_text(text)
            check_source(source, self._index.one)
        return self.queue.put(Job([] if text is None else [text], key, source=source))

    # ── what is held ────────────────────────────────────────────────────────────────────────────

    def text(self, key: str) -> str:
        """A held text by its key; `UnknownKey` where there is none."""
        return self.look_up(key).result()[0]

    def look_up(self, key: str) -> Future[tuple[str, str | None]]:
        """A held text and its source by its key, without waiting for it."""

        def found() -> tuple[str, str | None]:
            held = self._index.answering
            row = held.row_of.get(key)
            if row is None:
                raise UnknownKey(key)
            return held.texts[row], held.source_of(row)

        return self.queue.put(Job([], call=found))

    def page(self, after: str | None = None, count: int = 100) -> Future[TextPage]:
        """Up to `count` held texts whose keys come after `after`, by code point; fewer if they are long."""

        def found() -> TextPage:
            held = self._index.answering
            later = held.row_of if after is None else (key for key in held.row_of if key > after)
            texts, size = list[tuple[str, str, str | None]](), 0
            for key in heapq.nsmallest(count + 1, later):
                row = held.row_of[key]
                text = held.texts[row]
                size += len(text)
                if texts and (len(texts) == count or size > LONGEST_PAGE):
                    return TextPage(texts, texts[-1][0])
                texts.append((key, text, held.source_of(row)))
            return TextPage(texts, None)

        return self.queue.put(Job([], call=found))

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, key: str) -> bool:
        return key in self._index

    # ── another model ───────────────────────────────────────────────────────────────────────────

    def reload(self) -> bool:
        """Take up the campaign's latest round, or the export as it is now; whether anything is another.

        The old model answers until the new one is ready. What is added and removed meanwhile is in both. An
        error leaves the old one in place.
        """
        if self._reopen is None:
            raise InputError("this service has nothing to reload", remedy="Open it with Service.open")
        if not self._reloading.acquire(blocking=False):
            raise Reloading
        try:
            served = self._reopen()
            before = self.served
            same = (served.scorer.fingerprint, served.texts.fingerprint, served.queries.fingerprint)
            if same == (before.scorer.fingerprint, before.texts.fingerprint, before.queries.fingerprint):
                return False
            fresh = load(served, self._record)
            self.queue.put(Job([], call=partial(self._take_up, fresh))).result()
            return True
        finally:
            self._reloading.release()

    def _take_up(self, fresh: Loaded) -> None:
        """In the worker: lay over the new model what changed while it was loaded, and answer by it."""
        _, last, added = fresh.changes
        gone = added - self._record.keys()  # added before, removed since, so that nothing is kept of them
        later = embedded(self._record.read(after=last), fresh.served, fresh.fingerprint, self._record)
        fresh.index.apply([*(Change(key, None) for key in sorted(gone) if key in fresh.index), *later])
        self._loaded = fresh

    def about(self) -> dict[str, Any]:
        """What is served, for people and for /health."""
        return {
            "serving": self.served.name,
            "texts": len(self),
            "queries": len(self.served.queries),
            "waiting": self.queue.waiting,
            "model": self.scorer.fingerprint[:16],
            "encoder": self.matcher.encoder_for(self.served.side).name,
            "corrections": self._corrections_in_words(),
            "reranker": self._reranker_in_words(),
            "weight": self.scorer.weight,
            "bias": self.scorer.bias,
        }

    def _corrections_in_words(self) -> str:
        corrections = self.scorer.corrections
        names = {"hubness correction": corrections.hubness, "neighbour smoothing": corrections.smoothing}
        used = " and ".join(name for name, strengths in names.items() if any(strengths))
        if not used:
            return "none: scores are plain cosines"
        if not corrections.symmetric and not len(self.served.queries):
            return f"{used} of queries alone: no known queries, so the collection's rows are not corrected"
        return used

    def _reranker_in_words(self) -> str:
        reranker = self.scorer.reranker
        if reranker is None:
            return "none"
        cross = f" with {len(reranker.cross_encoders)} cross-encoders" if reranker.cross_encoders else ""
        cuts = reranker.cuts
        return (
            f"randomised trees and logistic regression{cross} over pairs with a cosine of {cuts.cosine:.3f}, "
            f"a lexical cosine of {cuts.lexical:.3f} or a mean of both of {cuts.mean:.3f}"
        )

    def close(self) -> None:
        """Finish what was accepted, then stop."""
        self.queue.close()
        self._record.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ── the worker ──────────────────────────────────────────────────────────────────────────────

    def _work(self, batch: list[Job]) -> None:
        """Embed everything at once, write and apply the changes, then search."""
        for job in batch:
            if job.call is not None:
                try:
                    job.future.set_result(job.call())
                except Exception as error:
                    job.future.set_exception(error)
        batch = self._readable([job for job in batch if job.call is None])
        times = [time.perf_counter()]
        asks = [job for job in batch if job.count]
        changes = [job for job in batch if not job.count]
        queries, added = ([text for job in jobs for text in job.texts] for jobs in (asks, changes))
        if self._loaded.alike:
            rows = self._rows([*queries, *added], self.served.side)
            query_rows, added_rows = rows[: len(queries)], rows[len(queries) :]
        else:
            query_rows = self._rows(queries, self.served.query_side)
            added_rows = self._rows(added, self.served.side)
        times.append(time.perf_counter())
        self._change(changes, added_rows)
        times.append(time.perf_counter())
        self._answer(asks, query_rows)
        times.append(time.perf_counter())
        seconds = dict(zip(("embed", "write", "search"), np.diff(times).tolist()))
        self.note(BatchDone(len(queries) + len(added), len(changes), seconds))

    def _readable(self, batch: list[Job]) -> list[Job]:
        """The jobs whose texts the encoder can read; the others are refused."""
        texts = [text for job in batch for text in job.texts]
        if not texts:
            return batch
        unreadable = iter(self.matcher.encoder_for(self.served.side).unreadable(texts).tolist())
        fine = []
        for job in batch:
            if sum(next(unreadable) for _ in job.texts):
                job.future.set_exception(Unreadable())
            else:
                fine.append(job)
        return fine

    def _rows(self, texts: list[str], side: str) -> Vectors:
        """Unit rows of texts; an error where one has a value that is no number."""
        rows = self.matcher.embed(texts, side)
        if not finite(rows):
            raise InputError("the model gives no embedding of this text", why="a value in it is no number")
        return rows

    def _answer(self, jobs: list[Job], rows: Vectors) -> None:
        """Search for what was asked, by text (the rows are those of all texts, in order) or by key."""
        queries: list[Query] = []
        owners: list[Job] = []
        remaining = iter(rows)
        for job in jobs:
            asked = [self._index.query(text, next(remaining), job.source) for text in job.texts]
            if job.key is not None:
                held = self._index.query_by_key(job.key)
                if held is None:
                    job.future.set_exception(UnknownKey(job.key))
                    continue
                encoder = self.matcher.encoder_for(self.served.query_side)
                if encoder.unreadable([held.text])[0]:
                    job.future.set_exception(Unreadable())
                    continue
                asked.append(held)
            queries += asked
            owners += [job] * len(asked)
        found = self._index.find(queries, max((job.count for job in owners), default=0))
        answers: dict[Job, list[Answer]] = {job: [] for job in jobs if not job.future.done()}
        for job, query, near in zip(owners, queries, found):
            cut = self._is_cut(query.text, self.served.query_side)
            answers[job].append(Answer(self._matches(near[: job.count], job.threshold), cut))
        for job, given in answers.items():
            job.future.set_result(given)

    def _matches(self, near: list[tuple[str, str, float]], threshold: float | None) -> list[Match]:
        """Those that reach the threshold, compared in float32 as a scan of all pairs compares."""
        least = -np.inf if threshold is None else float(np.float32(threshold))
        reached = [match for match in near if match[2] >= least]
        chances = self.scorer.probabilities(np.array([score for _, _, score in reached]))
        source_of = self._index.source_of
        return [  # nan: nothing calibrates the score
            Match(*match, chance if chance == chance else None, source_of(match[0]))
            for match, chance in zip(reached, chances.tolist())
        ]

    def _change(self, jobs: list[Job], rows: Vectors) -> None:
        """Write changes to disk, then to the index, then acknowledge them; a key nobody holds is refused."""
        present: dict[str, bool] = {}
        changes: list[Change] = []
        results: dict[Job, Changed] = {}
        remaining = iter(rows)
        for job in jobs:
            key, text = job.key or "", job.texts[0] if job.texts else None
            there = present.get(key, key in self._index)
            present[key] = text is not None
            if text is not None:
                row, model = next(remaining), self._loaded.fingerprint
                changes.append(Change(key, text, row, model, source=job.source))
                results[job] = Changed(there, self._is_cut(text, self.served.side))
            elif there:
                changes.append(Change(key, None, forget=key not in self._loaded.own_keys))
                results[job] = Changed(replaced=True)
            else:
                job.future.set_exception(UnknownKey(key))
        if changes:
            self._record.write(changes)
            self._index.apply(changes)
        for job, result in results.items():
            job.future.set_result(result)

    def _is_cut(self, text: str, side: str) -> bool:
        """Whether the encoder reads less than the whole text; a token is at least one byte long."""
        encoder = self.matcher.encoder_for(side)
        whole = encoder.prefix(side) + text
        if len(whole.encode()) <= encoder.max_length - 2:
            return False
        return len(encoder.tokenizer(whole, verbose=False)["input_ids"]) > encoder.max_length

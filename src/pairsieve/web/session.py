"""Labelling session: which pair each person gets next, their answers, undo, skip and adjudication.

A pair given to somebody is theirs for a while (a lease), so that two people do not read the same pair; a
share of the pairs (`overlap`) is meant for two, to measure agreement. Where people disagree, or answers
contradict each other, pairs wait in the adjudication queue until somebody decides. With transitivity, what
follows from the answers is inferred as they come, and not asked. Leases and skips live in memory: losing them
costs nothing but an answer too many. An answer is confirmed once it is in the ledger.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from pairsieve.audit.run import ask_to_review
from pairsieve.campaign import Campaign, Step
from pairsieve.campaign.audits import split_ledger
from pairsieve.campaign.questions import infer_labels
from pairsieve.campaign.selecting import chosen_labels
from pairsieve.contracts import Answer
from pairsieve.errors import InputError, LedgerError, LedgerUnavailable, PairsieveError
from pairsieve.http.errors import log_seldom
from pairsieve.ledger.names import RESERVED, person_name
from pairsieve.tasks.joined import without_gaps
from pairsieve.transitivity import Contradiction
from pairsieve.web import disagreements
from pairsieve.web.answer_cache import WORDS, AnswerCache
from pairsieve.web.guideline import Guideline
from pairsieve.web.predictions import Predictions
from pairsieve.web.records import find_columns

LEASE_SECONDS = 180.0  # without a sign of life for so long, a person's pairs go to others
MOST_PEOPLE = 1000  # remembered at once; names cost nothing, so anybody could invent them without end
PAGE = "page"  # the ledger's `source` of what people say here


class OtherLedger(PairsieveError):
    """A click from a page of another campaign; its pair numbers would mean other texts here."""


@dataclass(frozen=True)
class PageAnswer:
    """One answer from the page. `token` is made by the browser: the same click sent twice counts once."""

    pair: int
    label: int | None
    token: str


class LabellingSession:
    """A campaign as people on the page see it. Safe for threads."""

    def __init__(
        self,
        campaign: Campaign,
        overlap: float = 0.0,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        split: str | None = None,
    ) -> None:
        """`split`: the audit of another split than the campaign's own, which has pairs and a ledger apart."""
        if not 0 <= overlap <= 1:
            raise InputError(f"an overlap of {overlap:g}", remedy="Give a share from 0 to 1")
        self.campaign, self.overlap, self.lease_seconds = campaign, overlap, lease_seconds
        self._clock = clock
        self._lock = threading.RLock()
        self.place = split_ledger(campaign, split)
        self._ledger = self.place.ledger
        self._cache = AnswerCache(self._ledger, self.wanted)
        self._leases: dict[int, set[str]] = {}
        self._held: dict[str, dict[int, None]] = {}
        self._skipped: dict[str, dict[int, None]] = {}
        self._seen: dict[str, float] = {}
        self.guideline, self._predictions = Guideline(campaign.folder), Predictions(campaign.folder)
        self._contradictions: tuple[Contradiction, ...] = ()
        self._following = threading.Lock()
        self._followed, self._follow_after = -1, 0.0  # the cache's version when we looked last, and when next
        self._step = (-1, 0.0, Step("", 0))
        self._reading = False
        self._server = secrets.token_hex(4)  # versions count from here; after a restart they begin anew
        self._split = self.place.split  # reads the texts now, not at the first click
        self.columns = find_columns(self._split.left, self._split.right)
        self._cache.refresh()

    # ── what to ask ─────────────────────────────────────────────────────────────────────────────

    def wanted(self, pair: int) -> int:
        """How many people a pair is for: 2 for the overlap share, by a hash of the pair, else 1."""
        if self.overlap in (0.0, 1.0):
            return 1 + int(self.overlap)
        digest = hashlib.blake2b(pair.to_bytes(8, "big"), digest_size=8).digest()
        return 1 + (int.from_bytes(digest, "big") / 2**64 < self.overlap)

    def next_pairs(self, who: str, count: int, prediction: bool = False) -> dict[str, Any]:
        """Up to `count` pairs for a person, theirs from now on; with what the page shows around them."""
        self._freshen()
        with self._person(who) as who:
            pairs = [self._shown(pair, prediction) for pair in self._choose(who, count)]
            return {"pairs": pairs, **self._state(who)}

    def _choose(self, who: str, count: int) -> list[int]:
        cache, skipped, active = self._cache, self._skipped.setdefault(who, {}), self._active()
        others = len(active - {who})
        if others:  # near the end of a round, leave some for the others
            count = max(2, min(count, len(cache.wanting) // (others + 1)))
        kept = [p for p in self._held.get(who, {}) if p not in skipped and self._is_for(p, who, active)]
        chosen = dict.fromkeys(kept[:count])
        # What a contradiction made doubtful is likely to follow again once it is settled: it is asked last.
        doubtful = cache.retracted if self._contradictions else set()
        for late in (False, True) if doubtful else (False,):
            for pair in cache.wanting:
                if len(chosen) >= count:
                    break
                free = pair not in chosen and pair not in skipped and (pair in doubtful) == late
                if free and self._is_for(pair, who, active):
                    chosen[pair] = None
        for pair in skipped:  # the first skipped comes back first, behind everything else
            if len(chosen) >= count:
                break
            if self._is_for(pair, who, active):
                chosen[pair] = None
        for pair in self._held.get(who, {}):
            self._leases.get(pair, set()).discard(who)
        self._held[who] = chosen
        for pair in chosen:
            self._leases.setdefault(pair, set()).add(who)
        return list(chosen)

    def _is_for(self, pair: int, who: str, active: Set[str]) -> bool:
        """Whether `who` may be asked: not answered by them, and not promised to enough others."""
        votes = self._cache.votes.get(pair, {})
        if pair not in self._cache.wanting or who in votes:
            return False
        promised = sum(1 for name in self._leases.get(pair, ()) if name != who and name in active)
        return len(votes) + promised < self.wanted(pair)

    def _shown(self, pair: int, prediction: bool) -> dict[str, Any]:
        """One pair for the page. The model's prediction is not even sent unless asked for."""
        question = self._cache.questions[pair]
        # The pair is a text: a browser's numbers end at 2**53.
        shown: dict[str, Any] = {"pair": str(pair), "round": question.round, **self._texts(pair)}
        if prediction:
            shown |= {"why": question.why, **(self._predictions.of(pair) if self.place.own else {})}
        return shown

    def pair_texts(self, pair: int) -> dict[str, Any]:
        """A pair, asked or not, as the page draws it."""
        return {"pair": str(pair), **self._texts(pair)}

    def _texts(self, pair: int) -> dict[str, Any]:
        """Keys and texts of both sides; of records also `rows`, their values column by column."""
        sides = ("left", self._split.left, pair >> 32), ("right", self._split.right, pair & 0xFFFF_FFFF)
        texts = [side.texts[row] for _, side, row in sides]
        shown: dict[str, Any] = {
            name: {"key": side.keys[row], "text": without_gaps(text)}
            for (name, side, row), text in zip(sides, texts)
        }
        return {**shown, "rows": self.columns.rows(*texts)} if self.columns.names else shown

    # ── answers ─────────────────────────────────────────────────────────────────────────────────

    def answer(self, who: str, answers: Sequence[PageAnswer]) -> dict[str, Any]:
        """Write answers; when this returns they are in the ledger. The same token again changes nothing."""
        with self._person(who) as who:
            last = {each.pair: each for each in answers}  # the last word on a pair counts
            self._check_asked(last)
            given = [Answer(each.pair, each.label) for each in last.values()]
            tokens = [each.token for each in last.values()]
            written = self._ledger.answer(given, who, PAGE, tokens=tokens)
            if written == len(last):
                for each in last.values():
                    self._cache.record(each.pair, who, each.label)
            else:  # some had come before: the ledger knows which
                self._cache.refresh()
            for pair in last:
                self._drop(who, pair)
            return {"written": written, **self._state(who)}

    def review(self, who: str, answers: Sequence[PageAnswer]) -> dict[str, Any]:
        """Write what a person says of pairs that they picked from the list, asked before or not.

        It is their answer; where others answered too, it settles the pair. A pair that nobody asked is asked
        now, and is no draw: its label counts in lists and groups, and trains nothing.
        """
        with self._person(who) as who:
            last = {each.pair: each for each in answers}
            cache = self._cache
            if any(pair not in cache.questions for pair in last):
                cache.refresh()
            if new := sorted(last.keys() - cache.questions.keys()):
                ask_to_review(self._ledger, self._split, np.array(new, np.int64), answers[0].token)
                cache.refresh()
            others = {p for p in last if p in cache.settled or cache.votes.get(p, {}).keys() - {who}}
            written = 0
            for about, write in (("answer", self._ledger.answer), ("adjudication", self._ledger.adjudicate)):
                chosen = [each for each in last.values() if (each.pair in others) == (about != "answer")]
                given = [Answer(each.pair, each.label) for each in chosen]
                written += write(given, who, PAGE, tokens=[each.token for each in chosen])
            self._cache.refresh()
            for pair in last:
                self._drop(who, pair)
        self._follow(at_once=True)
        with self._lock:
            return {"written": written, **self._state(who)}

    def adjudicate(self, who: str, answer: PageAnswer) -> dict[str, Any]:
        """Settle a pair on which people disagree, or one of a contradiction, whatever the votes say."""
        with self._person(who) as who:
            self._check_asked([answer.pair])
            given = [Answer(answer.pair, answer.label)]
            written = self._ledger.adjudicate(given, who, PAGE, tokens=[answer.token])
            if written:
                self._cache.record(answer.pair, who, answer.label, "adjudication")
        self._follow(at_once=True)
        with self._lock:
            return {"written": written, **self._state(who)}

    def unsettle(self, who: str, pair: int, token: str) -> dict[str, Any]:
        """Take back what was settled about a pair, whoever settled it; the votes count again."""
        with self._person(who) as who:
            ids, kind = np.array([pair], np.int64), "adjudication"
            undone = pair in self._cache.settled
            undone = undone and bool(self._ledger.withdraw(ids, who, PAGE, tokens=[token], kind=kind))
            if undone:
                self._cache.record(pair, who, None, kind, taken_back=True)
        self._follow(at_once=True)
        with self._lock:
            return {"undone": undone, **self._state(who)}

    def check_ledger(self, ledger: str | None) -> None:
        """Refuse a click that was made for another ledger, such as that of a server that was here before."""
        if ledger is not None and ledger != self._ledger.id:
            raise OtherLedger(
                "This page was opened for another campaign than the one served here. Reload it."
            )

    def _check_asked(self, pairs: Iterable[int]) -> None:
        for pair in pairs:
            if pair not in self._cache.questions:
                self._cache.refresh()
            if pair not in self._cache.questions:
                raise InputError(f"pair {pair} was never asked", remedy="Reload the page")

    def undo(self, who: str, pair: int | None, token: str) -> dict[str, Any]:
        """Take back what a person said about a pair, or said last; again, as far back as it goes."""
        with self._person(who) as who:
            standing = self._cache.history.get(who, {})
            pair = next(reversed(standing), None) if pair is None else pair
            if pair is None or pair not in standing:
                return {"undone": None, **self._state(who)}
            label = standing[pair]
            ids = np.array([pair], np.int64)
            if not self._ledger.withdraw(ids, who, PAGE, tokens=[token]):
                return {"undone": None, **self._state(who)}  # this very click came before
            self._cache.record(pair, who, None, taken_back=True)
            self._skipped.get(who, {}).pop(pair, None)
            self._held[who] = {pair: None, **self._held.get(who, {})}
            self._leases.setdefault(pair, set()).add(who)
            undone = {**self._shown(pair, False), "answer": WORDS[label]}
            return {"undone": undone, **self._state(who)}

    def skip(self, who: str, pair: int) -> dict[str, Any]:
        """Put a pair at the back of this person's queue, and let others have it."""
        with self._person(who) as who:
            self._drop(who, pair)
            if pair in self._cache.wanting:
                self._skipped.setdefault(who, {})[pair] = None
            return self._state(who)

    def _drop(self, who: str, pair: int) -> None:
        self._held.get(who, {}).pop(pair, None)
        self._skipped.get(who, {}).pop(pair, None)
        if pair in self._leases:
            self._leases[pair].discard(who)
            if not self._leases[pair]:
                del self._leases[pair]

    # ── where things stand ──────────────────────────────────────────────────────────────────────

    def state(self, who: str) -> dict[str, Any]:
        """Progress in the round and in the budget, and whether something waits for this person."""
        who = self.named(who)
        self._freshen()
        with self._lock:
            return self._state(who)

    def _state(self, who: str) -> dict[str, Any]:
        cache = self._cache
        batch = cache.current_batch()
        asked, waiting = (cache.asked[batch], cache.open[batch]) if batch else (0, 0)
        answered = asked - waiting
        asked = chosen_labels(self.campaign.settings, 1) if cache.has_first_part_only() else asked
        counted = [p for p in cache.asked if p[0] == "train" or not self.place.own]
        undecided, mark = disagreements.waiting(cache, self._contradictions)
        return {
            "server": self._server,
            "split": self.place.name,
            "apart": not self.place.own,  # the audit of another split: nothing is trained
            "version": cache.version,
            "round": {
                "number": batch[1] if batch else 0,
                "of": self.campaign.settings.schedule.rounds,
                "audit": not self.place.own or bool(batch and batch[0] == "audit"),
                "asked": asked,
                "answered": answered,
            },
            "budget": {
                "labels": self.campaign.settings.schedule.budget() if self.place.own else cache.asked.total(),
                "answered": sum(cache.asked[p] - cache.open[p] for p in counted)
                + (cache.measured if self.place.own else 0),
            },
            "own_answers": len(cache.history.get(who, {})),
            "inferred": cache.follows,
            "undecided": undecided,
            "queue": mark,
        }

    def busy_with_people(self) -> bool:
        """Whether the round must wait: open questions, or a second answer that somebody here could give."""
        self._freshen()
        with self._lock:
            cache = self._cache
            batch = cache.current_batch()
            if batch is None:
                return False
            if any(cache.open[p] for p in cache.open if p[0] == "train" or not self.place.own):
                return True
            active = self._active()
            return any(
                cache.questions[pair].batch == batch and active - cache.votes.get(pair, {}).keys()
                for pair in cache.wanting
            )

    def look_again(self) -> None:
        """Read the ledger now; somebody else wrote to it."""
        with self._lock:
            self._cache.refresh()
            self._cache.version += 1
            self._step = (-1, 0.0, Step("", 0))

    def _freshen(self) -> None:
        """Read the ledger again if the cache is old: one thread reads, the others go on meanwhile."""
        with self._lock:
            old = not self._reading and self._cache.is_old()
            self._reading, version = self._reading or old, self._cache.version
        if old:
            try:
                found = self._cache.read()
                with self._lock:
                    if self._cache.version == version:  # else somebody answered meanwhile: this is old
                        self._cache.install(found)
            except LedgerUnavailable as error:  # what is known is shown until it can be read again
                log_seldom(error)
                self._cache.read_later()
            finally:
                self._reading = False
        self._follow()

    def _follow(self, at_once: bool = False) -> None:
        """With transitivity: infer what follows from the answers so far, and find what contradicts itself.

        Not at every click: an answer must not wait for it. `at_once`: after a decision, whose effect whoever
        decided wants to see.
        """
        wanted = self.campaign.settings.transitivity and self.place.own
        if not wanted or self._followed == self._cache.version:
            return
        if not at_once and time.monotonic() < self._follow_after:
            return
        if not self._following.acquire(blocking=at_once):
            return  # another thread is at it
        try:
            began, version = time.monotonic(), self._cache.version
            found = infer_labels(self._ledger, self._split.space)
            with self._lock:
                news = found.inferred or found.withdrawn or found.contradictions != self._contradictions
                self._contradictions, self._followed = found.contradictions, version
                if news:  # the ledger is ahead of the cache
                    self._cache.refresh()
            self._follow_after = time.monotonic() + max(0.5, 10 * (time.monotonic() - began))
        except LedgerError:
            pass  # somebody changed an answer each time we looked: the next look comes soon
        finally:
            self._following.release()

    def step(self) -> Step:
        """What comes next; asked of the campaign only when people owe nothing and something happened.

        A campaign that ended is trained again where its rounds are stale, also after this server restarted.
        """
        if self.busy_with_people() and not self._cache.has_first_part_only():
            return Step("label", 0)
        if not self.place.own:
            again = f"pairsieve audit {self.campaign.folder} --split {self.place.name}"
            return Step("audited", 0, reason=again)
        version, now = self._cache.version, time.monotonic()
        if self._step[0] != version or now - self._step[1] > 5:
            try:
                step = self.campaign.step()
                if step.name in ("finished", "stopped") and (stale := self.campaign.stale_rounds()):
                    step = Step("train", min(stale))
            except LedgerUnavailable:
                step = Step("label", 0)  # nothing can be begun while the ledger cannot be read
            self._step = (version, now, step)
        return self._step[2]

    def disputes(self) -> dict[str, Any]:
        """What waits for a decision: pairs on which people disagree, and chains that cannot all be right."""
        self._freshen()

        def shown(pair: int) -> dict[str, Any]:
            return self._shown(pair, False)

        with self._lock:
            cache, found = self._cache, self._contradictions
            return {
                "disputes": disagreements.disagreements(cache, shown),
                "contradictions": disagreements.contradictions(cache, found, shown),
                "queue": disagreements.waiting(cache, found)[1],
            }

    def undecided(self) -> int:
        """How many disagreements and contradictions nobody has decided."""
        with self._lock:
            return disagreements.waiting(self._cache, self._contradictions)[0]

    def people(self) -> list[str]:
        """Names that have answered, for the page to offer."""
        self._freshen()
        with self._lock:
            return sorted(self._cache.history.keys() - RESERVED - self._cache.models)

    def unseen_matches(self, most: int = 12) -> list[dict[str, Any]] | None:
        """Pairs nobody was asked about that the latest model is surest match; None where it did not look."""
        with self._lock:
            found = self._predictions.unseen() if self.place.own else None
            if found is None:
                return None
            free = [each for each in found if each[0] not in self._cache.questions]
            return [
                {"pair": str(pair), **self._texts(pair), **self._predictions.shown(match_score, calibrated)}
                for pair, match_score, calibrated in free[:most]
            ]

    def mistakes(self, most: int = 12) -> list[dict[str, Any]]:
        """Labelled pairs of which the latest model is surest that the label is wrong, the surest first."""
        with self._lock:
            found = []
            for pair, match_score in self._predictions.by_pair().items() if self.place.own else ():
                state = self._cache.state(pair) if pair in self._cache.questions else "open"
                wrong = {"match": 1 - match_score, "no match": match_score}.get(state, 0.0)
                if wrong > 0.5:
                    found.append((-wrong, pair, state))
            return [
                {**self._shown(pair, False), "label": state, **self._predictions.of(pair)}
                for _, pair, state in sorted(found)[:most]
            ]

    def look(self, at: Callable[[AnswerCache], Any]) -> Any:
        """What `at` makes of the cache, while nobody changes it."""
        self._freshen()
        with self._lock:
            return at(self._cache)

    def named(self, who: str) -> str:
        """A person's name as the ledger keeps it; not one under which a language model answers."""
        return person_name(who, self._cache.models)

    @contextmanager
    def _person(self, who: str) -> Iterator[str]:
        """Under the lock: a person who was here just now, by the name that the ledger keeps."""
        name = self.named(who)
        with self._lock:
            self._seen.pop(name, None)
            self._seen[name] = self._clock()  # the last seen stands last
            while len(self._seen) > MOST_PEOPLE:
                self._forget(next(iter(self._seen)))
            yield name

    def _forget(self, who: str) -> None:
        """Somebody's leases and skips, which they can do without; what they answered stays."""
        self._seen.pop(who, None)
        self._skipped.pop(who, None)
        for pair in self._held.pop(who, {}):
            self._leases.get(pair, set()).discard(who)

    def _active(self) -> set[str]:
        now = self._clock()
        return {who for who, at in self._seen.items() if now - at < self.lease_seconds}

"""Answer cache: the ledger's questions and standing answers, held in memory for a quick page.

The ledger is the record. The cache repeats what this server wrote, and reads the ledger again every few
seconds, because files, a language model or another server may have answered meanwhile.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pairsieve.campaign.questions import WHY as MEASURING
from pairsieve.campaign.selecting import FIRST_WHY, MOST_FIRST
from pairsieve.ledger import Answers, Ledger, Questions
from pairsieve.sources.overlap import SOURCE as LANGUAGE_MODEL

READ_AGAIN_SECONDS = 2.0  # how old the cache may be; longer where reading itself takes long
BatchKey = tuple[str, int]  # (purpose, round)


@dataclass(frozen=True)
class Asked:
    """One question."""

    position: int  # in the order of asking
    pair: int
    left_key: str
    right_key: str
    round: int
    purpose: str
    why: str

    @property
    def batch(self) -> BatchKey:
        return self.purpose, self.round


@dataclass(frozen=True)
class Event:
    """Somebody answered, settled a disagreement, or an answer was inferred; `taken_back`: no longer so."""

    at: str
    pair: int
    who: str
    label: int | None
    about: str  # "answer", "adjudication" or "inferred"
    taken_back: bool = False


WORDS: dict[int | None, str] = {1: "match", 0: "no match", None: "unsure"}


class AnswerCache:
    """All questions and standing answers. Not for several threads at once: the session holds the lock."""

    def __init__(self, ledger: Ledger, wanted: Callable[[int], int]) -> None:
        """`wanted(pair)`: how many people should answer a pair."""
        self._ledger, self._wanted = ledger, wanted
        self._read_at, self._read_took = -1e9, 0.0
        self.version = 0  # counts every change that anybody could see
        self._clear()

    def _clear(self) -> None:
        self.questions: dict[int, Asked] = {}  # in the order of asking
        self.votes: dict[int, dict[str, int | None]] = {}  # what each person says now
        self.settled: dict[int, int | None] = {}  # adjudicated: counts before the votes
        self.adjudicators: dict[int, str] = {}  # who settled it
        self.inferred: dict[int, int | None] = {}  # counts where nobody said match or no match
        self.retracted: set[int] = set()  # inferred once, taken back since
        self.models: set[str] = set()  # names under which language models answer
        self.history: dict[str, dict[int, int | None]] = {}  # standing answers, the latest last
        self.events: list[Event] = []
        self.wanting: dict[int, None] = {}  # pairs with fewer answers than they should have
        self.disputes: dict[int, None] = {}  # some say match, some say no match, nobody has settled it
        self.asked: Counter[BatchKey] = Counter()
        self.open: Counter[BatchKey] = Counter()
        self.positives: Counter[BatchKey] = Counter()
        self.measured = 0  # questions of the rounds' measuring shares that are answered
        self.follows = 0  # pairs whose label is inferred, as nobody said match or no match

    def is_old(self) -> bool:
        """Whether it is time to read the ledger again."""
        return time.monotonic() - self._read_at > max(READ_AGAIN_SECONDS, 20 * self._read_took)

    def read_later(self) -> None:
        """The ledger could not be read: look again after the usual while."""
        self._read_at = time.monotonic()

    def read(self) -> tuple[Questions, Answers] | None:
        """What the ledger holds now, None where nothing is new. Changes nothing here: others may use the
        cache meanwhile."""
        began = time.monotonic()
        # Rows are only ever added: as many as before are the same as before. Else whoever sends nonsense
        # would have the whole ledger read each time.
        if self._ledger.sizes() == (len(self.questions), len(self.events)):
            self._read_at = time.monotonic()
            return None
        found = self._ledger.questions(), self._ledger.answers()
        self._read_at = time.monotonic()
        self._read_took = self._read_at - began
        return found

    def refresh(self) -> None:
        """Read the ledger and show it."""
        self.install(self.read())

    def install(self, found: tuple[Questions, Answers] | None) -> None:
        """Show what was read."""
        if found is None:
            return
        asked, answers = found
        self._clear()
        rows = zip(asked.ids.tolist(), asked.left_keys, asked.right_keys, asked.rounds.tolist())
        for (pair, left, right, round_), purpose, why in zip(rows, asked.purpose, asked.why):
            question = Asked(len(self.questions), pair, left, right, round_, purpose, why)
            self.questions[pair] = question
            self.asked[question.batch] += 1
        self.models = {who for who, source in zip(answers.who, answers.source) if source == LANGUAGE_MODEL}
        given = zip(answers.answered_at, answers.ids.tolist(), answers.who, answers.labels)
        for event, kind, about in zip(given, answers.kind, answers.about):
            self._apply(Event(*event, about, kind == "withdrawal"))
        for pair in self.questions:
            self._place(pair)
        self.version += 1

    def record(
        self, pair: int, who: str, label: int | None, about: str = "answer", taken_back: bool = False
    ) -> None:
        """Repeat here what was just written to the ledger."""
        self._count(pair, -1)
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        self._apply(Event(at, pair, who, label, about, taken_back))
        self._place(pair)
        self.version += 1

    def _apply(self, event: Event) -> None:
        self.events.append(event)
        if event.about == "adjudication":
            _keep(self.settled, event.pair, event.label, event.taken_back)
            _keep(self.adjudicators, event.pair, event.who, event.taken_back)
            return
        if event.about == "inferred":
            _keep(self.inferred, event.pair, event.label, event.taken_back)
            (self.retracted.add if event.taken_back else self.retracted.discard)(event.pair)
            return
        standing = self.history.setdefault(event.who, {})
        votes = self.votes.setdefault(event.pair, {})
        standing.pop(event.pair, None)
        if event.taken_back:
            votes.pop(event.who, None)
        else:
            votes[event.who] = standing[event.pair] = event.label

    def state(self, pair: int) -> str:
        """The ledger's rule: `open` (no answer, or a tie), `unsure`, `match` or `no match`."""
        if pair in self.settled:
            return WORDS[self.settled[pair]]
        votes = self.votes.get(pair, {})
        matches, others = _for_and_against(votes)
        if matches != others:
            return "match" if matches > others else "no match"
        if not matches and pair in self.inferred:
            return WORDS[self.inferred[pair]]
        return "unsure" if votes and not matches else "open"

    def _place(self, pair: int) -> None:
        """Put a pair where its votes say it belongs; one that stays keeps its turn."""
        self._count(pair, 1)
        votes, settled = self.votes.get(pair, {}), pair in self.settled
        disputed = not settled and all(_for_and_against(votes))
        wanting = not settled and not disputed and len(votes) < self._wanted(pair)
        wanting = wanting and bool(votes or pair not in self.inferred)
        for belongs, place in ((disputed, self.disputes), (wanting, self.wanting)):
            if not belongs:
                place.pop(pair, None)
            elif pair not in place:
                last = next(reversed(place), pair)
                late = self.questions[last].position > self.questions[pair].position
                place[pair] = None
                if late:  # it comes back, after an undo: to its old turn, not to the end
                    ordered = sorted(place, key=lambda each: self.questions[each].position)
                    place.clear()
                    place.update(dict.fromkeys(ordered))

    def _count(self, pair: int, step: int) -> None:
        batch, state = self.questions[pair].batch, self.state(pair)
        self.open[batch] += step * (state == "open")
        self.positives[batch] += step * (state == "match")
        self.measured += step * (self.questions[pair].why == MEASURING and state != "open")
        nobody = pair not in self.settled and not any(_for_and_against(self.votes.get(pair, {})))
        self.follows += step * (nobody and pair in self.inferred)

    def by_people(self) -> dict[int, dict[str, int | None]]:
        """What each person says now, by pair; language models left out."""
        if not self.models:
            return self.votes
        return {
            pair: {who: label for who, label in votes.items() if who not in self.models}
            for pair, votes in self.votes.items()
        }

    def has_first_part_only(self) -> bool:
        """Whether more pairs of round 1 are to come, however many of the first ones are answered."""
        asked = self.questions.values()
        return 0 < len(asked) <= MOST_FIRST and all(question.why == FIRST_WHY for question in asked)

    def current_batch(self) -> BatchKey | None:
        """The first round with open questions, the oldest first; else the last one asked."""
        batches = sorted(self.asked, key=lambda batch: (batch[1], batch[0]))
        waiting = [batch for batch in batches if self.open[batch] > 0]
        return waiting[0] if waiting else (batches[-1] if batches else None)


def _keep(held: dict[int, Any], pair: int, value: Any, taken_back: bool) -> None:
    if taken_back:
        held.pop(pair, None)
    else:
        held[pair] = value


def _for_and_against(votes: dict[str, int | None]) -> tuple[int, int]:
    labels = list(votes.values())
    return labels.count(1), labels.count(0)

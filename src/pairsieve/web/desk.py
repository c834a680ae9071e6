"""Who gets which pair next, and what happens to an answer? Several people at one campaign, under names.

A pair given to somebody is theirs for a while (a lease), so that two people do not read the same pair; a
share of the pairs (`overlap`) is meant for two, to measure agreement. Where people disagree, the pair waits
in the adjudication queue until somebody settles it. Leases and skips live in memory: losing them costs
nothing but an opinion too many. Answers live in the ledger before anybody is told so.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.campaign import Campaign
from pairsieve.contracts import Answer
from pairsieve.errors import InputError
from pairsieve.pairs import pair_rows
from pairsieve.settings import write_atomically
from pairsieve.web.agreement import agreement
from pairsieve.web.board import WORDS, Board
from pairsieve.web.opinions import Opinions

LEASE_SECONDS = 180.0  # without a sign of life for so long, a person's pairs go to others
LONGEST_NAME = 64
LONGEST_GUIDELINE = 20_000
PAGE = "page"  # the ledger's `source` of what people say here
_RESERVED = {"truth", "transitivity"}  # names under which others answer


@dataclass(frozen=True)
class Said:
    """One answer from the page. `token` is made by the browser: the same click sent twice counts once."""

    pair: int
    label: int | None
    token: str


class Desk:
    """A campaign as people on the page see it. Safe for threads."""

    def __init__(
        self,
        campaign: Campaign,
        overlap: float = 0.0,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 <= overlap <= 1:
            raise InputError(f"an overlap of {overlap:g}", remedy="Give a share from 0 to 1")
        self.campaign, self.overlap, self.lease_seconds = campaign, overlap, lease_seconds
        self._clock = clock
        self._lock = threading.RLock()
        self._board = Board(campaign.ledger, self.wanted)
        self._leases: dict[int, set[str]] = {}
        self._held: dict[str, dict[int, None]] = {}
        self._skipped: dict[str, dict[int, None]] = {}
        self._seen: dict[str, float] = {}
        self._opinions = Opinions(campaign.folder)
        self._agreement: tuple[int, Any] = (-1, None)
        self._step = (-1, 0.0, "")
        self._reading = False
        self._server = secrets.token_hex(4)  # versions count from here; after a restart they begin anew
        self._split = campaign.split  # reads the texts now, not at the first click
        self._board.install(*self._board.read())

    # ── what to ask ─────────────────────────────────────────────────────────────────────────────

    def wanted(self, pair: int) -> int:
        """How many people a pair is for: 2 for the overlap share, by a hash of the pair, else 1."""
        if self.overlap in (0.0, 1.0):
            return 1 + int(self.overlap)
        digest = hashlib.blake2b(pair.to_bytes(8, "big"), digest_size=8).digest()
        return 1 + (int.from_bytes(digest, "big") / 2**64 < self.overlap)

    def next_pairs(self, who: str, count: int, opinion: bool = False) -> dict[str, Any]:
        """Up to `count` pairs for a person, theirs from now on; with what the page shows around them."""
        who = checked_name(who)
        self._freshen()
        with self._lock:
            self._here(who)
            chosen = self._choose(who, count)
            pairs = [self._shown(pair, opinion) for pair in chosen]
            return {"pairs": pairs, **self._state(who)}

    def _choose(self, who: str, count: int) -> list[int]:
        board, skipped = self._board, self._skipped.setdefault(who, {})
        others = sum(1 for name in self._active() if name != who)
        if others:  # near the end of a round, leave some for the others
            count = max(2, min(count, len(board.wanting) // (others + 1)))
        mine = [p for p in self._held.get(who, {}) if p not in skipped and self._is_for(p, who)]
        chosen = dict.fromkeys(mine[:count])
        for pair in board.wanting:
            if len(chosen) >= count:
                break
            if pair not in chosen and pair not in skipped and self._is_for(pair, who):
                chosen[pair] = None
        for pair in skipped:  # the first skipped comes back first, behind everything else
            if len(chosen) >= count:
                break
            if self._is_for(pair, who):
                chosen[pair] = None
        for pair in self._held.get(who, {}):
            self._leases.get(pair, set()).discard(who)
        self._held[who] = chosen
        for pair in chosen:
            self._leases.setdefault(pair, set()).add(who)
        return list(chosen)

    def _is_for(self, pair: int, who: str) -> bool:
        """Whether `who` may be asked: not answered by them, and not promised to enough others."""
        votes = self._board.votes.get(pair, {})
        if pair not in self._board.wanting or who in votes:
            return False
        active = self._active()
        promised = sum(1 for name in self._leases.get(pair, ()) if name != who and name in active)
        return len(votes) + promised < self.wanted(pair)

    def _shown(self, pair: int, opinion: bool) -> dict[str, Any]:
        """One pair for the page. What the model thinks is not even sent unless asked for."""
        question = self._board.questions[pair]
        left, right = (int(row[0]) for row in pair_rows(np.array([pair], np.int64)))
        shown: dict[str, Any] = {
            "pair": str(pair),  # a text: a browser's numbers end at 2**53
            "round": question.round,
            "left": {"key": question.left_key, "text": self._split.left.texts[left]},
            "right": {"key": question.right_key, "text": self._split.right.texts[right]},
        }
        if opinion:
            shown |= {"why": question.why, "probability": self._opinions.of(pair)}
        return shown

    # ── what is said ────────────────────────────────────────────────────────────────────────────

    def answer(self, who: str, said: Sequence[Said]) -> dict[str, Any]:
        """Write answers; when this returns they are in the ledger. The same token again changes nothing."""
        who = checked_name(who)
        with self._lock:
            self._here(who)
            last = {each.pair: each for each in said}  # the last word on a pair counts
            self._check_asked(last)
            given = [Answer(each.pair, each.label) for each in last.values()]
            tokens = [each.token for each in last.values()]
            written = self.campaign.ledger.answer(given, who, PAGE, tokens=tokens)
            if written == len(last):
                for each in last.values():
                    self._board.record(each.pair, who, each.label)
            else:  # some had come before: the ledger knows which
                self._board.install(*self._board.read())
            for pair in last:
                self._drop(who, pair)
            return {"written": written, **self._state(who)}

    def adjudicate(self, who: str, said: Said) -> dict[str, Any]:
        """Settle a pair about which people disagree, whatever the votes say."""
        who = checked_name(who)
        with self._lock:
            self._here(who)
            self._check_asked([said.pair])
            given = [Answer(said.pair, said.label)]
            written = self.campaign.ledger.adjudicate(given, who, PAGE, tokens=[said.token])
            if written:
                self._board.record(said.pair, who, said.label, "adjudication")
            return {"written": written, **self._state(who)}

    def _check_asked(self, pairs: Iterable[int]) -> None:
        for pair in pairs:
            if pair not in self._board.questions:
                self._board.install(*self._board.read())
            if pair not in self._board.questions:
                raise InputError(f"pair {pair} was never asked", remedy="Reload the page")

    def undo(self, who: str, pair: int | None, token: str) -> dict[str, Any]:
        """Take back what a person said about a pair, or said last; again, as far back as it goes."""
        who = checked_name(who)
        with self._lock:
            self._here(who)
            mine = self._board.history.get(who, {})
            pair = next(reversed(mine), None) if pair is None else pair
            if pair is None or pair not in mine:
                return {"undone": None, **self._state(who)}
            said = mine[pair]
            ids = np.array([pair], np.int64)
            if not self.campaign.ledger.withdraw(ids, who, PAGE, tokens=[token]):
                return {"undone": None, **self._state(who)}  # this very click came before
            self._board.record(pair, who, None, taken_back=True)
            self._skipped.get(who, {}).pop(pair, None)
            self._held[who] = {pair: None, **self._held.get(who, {})}
            self._leases.setdefault(pair, set()).add(who)
            undone = {**self._shown(pair, False), "said": WORDS[said]}
            return {"undone": undone, **self._state(who)}

    def skip(self, who: str, pair: int) -> dict[str, Any]:
        """Put a pair at the back of this person's queue, and let others have it."""
        who = checked_name(who)
        with self._lock:
            self._here(who)
            if pair in self._board.wanting:
                skipped = self._skipped.setdefault(who, {})
                skipped.pop(pair, None)
                skipped[pair] = None
            self._held.get(who, {}).pop(pair, None)
            self._leases.get(pair, set()).discard(who)
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
        who = checked_name(who)
        self._freshen()
        with self._lock:
            return self._state(who)

    def _state(self, who: str) -> dict[str, Any]:
        board = self._board
        part = board.current_part()
        asked, waiting = (board.asked[part], board.open[part]) if part else (0, 0)
        trains = [p for p in board.asked if p[0] == "train"]
        return {
            "server": self._server,
            "version": board.version,
            "round": {
                "number": part[1] if part else 0,
                "of": self.campaign.settings.schedule.rounds,
                "audit": bool(part and part[0] == "audit"),
                "asked": asked,
                "answered": asked - waiting,
            },
            "budget": {
                "labels": self.campaign.settings.schedule.budget(),
                "answered": sum(board.asked[p] - board.open[p] for p in trains),
            },
            "mine": len(board.history.get(who, {})),
            "disputes": len(board.disputes),
        }

    def busy_with_people(self) -> bool:
        """Whether the round must wait: open questions, or a second opinion that somebody here could give."""
        self._freshen()
        with self._lock:
            board = self._board
            part = board.current_part()
            if part is None:
                return False
            if any(board.open[p] for p in board.open if p[0] == "train"):
                return True
            active = self._active()
            return any(
                board.questions[pair].part == part and active - board.votes.get(pair, {}).keys()
                for pair in board.wanting
            )

    def look_again(self) -> None:
        """Read the ledger now; somebody else wrote to it."""
        with self._lock:
            self._board.install(*self._board.read())
            self._board.version += 1

    def _freshen(self) -> None:
        """Read the ledger again if the board is old: one thread reads, the others go on meanwhile."""
        with self._lock:
            if self._reading or not self._board.is_old():
                return
            self._reading, version = True, self._board.version
        try:
            found = self._board.read()
            with self._lock:
                if self._board.version == version:  # else somebody answered meanwhile: what was read is old
                    self._board.install(*found)
        finally:
            self._reading = False

    def step(self) -> str:
        """What comes next; asked of the campaign only when people owe nothing and something happened."""
        if self.busy_with_people():
            return "label"
        version, now = self._board.version, time.monotonic()
        if self._step[0] != version or now - self._step[1] > 5:
            self._step = (version, now, self.campaign.step().name)
        return self._step[2]

    def disputes(self, most: int = 200) -> list[dict[str, Any]]:
        """Pairs about which people disagree, ties first, with who said what."""
        self._freshen()
        with self._lock:
            order = sorted(self._board.disputes, key=lambda pair: self._board.state(pair) != "open")
            return [
                {
                    **self._shown(pair, False),
                    "tie": self._board.state(pair) == "open",
                    "votes": [
                        {"who": name, "label": WORDS[label]}
                        for name, label in self._board.votes[pair].items()
                    ],
                }
                for pair in order[:most]
            ]

    def people(self) -> list[str]:
        """Names that have answered, for the page to offer."""
        self._freshen()
        with self._lock:
            return sorted(name for name in self._board.history if name not in _RESERVED)

    def agreement(self) -> dict[str, Any] | None:
        """Krippendorff's alpha with its interval, or None while no pair has two opinions to compare."""
        with self._lock:
            if self._agreement[0] != self._board.version:
                found = agreement(self._board.votes.values())
                self._agreement = (self._board.version, found.as_json() if found else None)
            held: dict[str, Any] | None = self._agreement[1]
            return held

    def mistakes(self, most: int = 12) -> list[dict[str, Any]]:
        """Labelled pairs of which the latest model is surest that the label is wrong, the surest first."""
        with self._lock:
            found = []
            for pair, probability in self._opinions.by_pair().items():
                state = self._board.state(pair) if pair in self._board.questions else "open"
                if state not in ("match", "no match"):
                    continue
                wrong = 1 - probability if state == "match" else probability
                if wrong > 0.5:
                    found.append((-wrong, pair, state, probability))
            found.sort()
            return [
                {**self._shown(pair, False), "label": state, "probability": probability}
                for _, pair, state, probability in found[:most]
            ]

    def look(self, at: Callable[[Board], Any]) -> Any:
        """What `at` makes of the board, while nobody changes it."""
        self._freshen()
        with self._lock:
            return at(self._board)

    def _here(self, who: str) -> None:
        self._seen[who] = self._clock()

    def _active(self) -> set[str]:
        now = self._clock()
        return {who for who, at in self._seen.items() if now - at < self.lease_seconds}

    # ── the guideline ───────────────────────────────────────────────────────────────────────────

    @property
    def _guideline_file(self) -> Path:
        return self.campaign.folder / "guideline.md"

    def guideline(self) -> dict[str, str]:
        """What counts as a match here, in the campaign's own words; `version` changes with the text."""
        try:
            text = self._guideline_file.read_text(encoding="utf-8", errors="replace")[:LONGEST_GUIDELINE]
        except FileNotFoundError:
            text = ""
        return {"text": text, "version": hashlib.sha256(text.encode()).hexdigest()[:16]}

    def write_guideline(self, text: str, version: str) -> dict[str, str]:
        """Replace the guideline, unless somebody else changed it since `version` was read."""
        with self._lock:
            if self.guideline()["version"] != version:
                raise InputError(
                    "somebody else changed the guideline meanwhile",
                    why="your change would undo theirs",
                    remedy="Copy your text, load the guideline again, and put both together",
                )
            write_atomically(self._guideline_file, text)
            return self.guideline()


def checked_name(who: str) -> str:
    """A person's name as the ledger keeps it, or an error in words."""
    name = " ".join(who.split())
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        raise InputError(
            f"a name of {len(name)} characters"
            if name.isprintable()
            else "a name with unprintable characters",
            remedy=f"Give a name of 1 to {LONGEST_NAME} printable characters",
        )
    if name.casefold() in _RESERVED:
        raise InputError(f"the name {name!r} is kept for pairsieve itself", remedy="Choose another name")
    return name

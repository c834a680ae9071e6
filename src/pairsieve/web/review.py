"""Review of the list: predicted matches and groups by doubt, and earlier answers, for people to change.

The page's own process loads no model. A process of its own makes the list (`matches/review.py`) when somebody
asks for it, and writes one file; the answers shown beside it come from the ledger and are always of now.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.campaign.figures import ChecksummedFile, write_checksummed
from pairsieve.errors import InputError, PairsieveError
from pairsieve.tasks.joined import without_gaps
from pairsieve.web.answer_cache import WORDS, AnswerCache
from pairsieve.web.disagreements import votes_on
from pairsieve.web.rounds import close_pipes, end_process, in_background
from pairsieve.web.session import LabellingSession

SHOWN = ("all", "listed", "left out", "open")
PAGE_SIZE = 20
EXPLAINED = 200  # pairs of which the page can tell what made their score


def review_file(folder: Path) -> Path:
    return folder / "rounds" / "review.json"


@dataclass(frozen=True)
class Wanted:
    """Which part of a view is asked for: words that a text or key holds, a kind, and a page of it."""

    words: str = ""
    show: str = "all"
    offset: int = 0
    count: int = PAGE_SIZE


class Review:
    """The list of a session's campaign, as people look through it."""

    def __init__(self, session: LabellingSession, cache: Path | None = None) -> None:
        self._session, self._cache_folder = session, cache
        self._file = ChecksummedFile(review_file(session.campaign.folder))
        self._process: subprocess.Popen[str] | None = None
        self._error = ""
        self._starting = threading.RLock()  # several requests at once ask how far it is

    # ── the list ────────────────────────────────────────────────────────────────────────────────

    def prepare(self) -> dict[str, Any]:
        """Make the list of the latest round and of the labels so far, in a process of its own."""
        with self._starting:
            if not self._busy():
                self._error = ""
                folders = [str(each) for each in (self._session.campaign.folder, self._cache_folder) if each]
                command = [sys.executable, "-m", "pairsieve.web.review", *folders]
                self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        return self.state()

    def state(self) -> dict[str, Any]:
        """Whether there is a list, of what, whether it is old, and whether one is being made."""
        busy, row = self._busy(), self._list()
        latest = max(self._session.campaign.figures(), default=0)
        labels = self._session.look(lambda cache: len(cache.events))
        return {
            "own": self._session.place.own,
            "ready": bool(row),
            "busy": busy,
            "made": "-".join(map(str, self._file.stamp or ())),  # changes with the list
            "error": self._error,
            "round": row.get("round", 0),
            "matches": row.get("matches", 0),
            "pairs": len(row.get("pairs", ())),
            "groups": row.get("all_groups", 0),
            "one_collection": self._session.place.split.space.symmetric,
            "old": bool(row) and (row["round"] != latest or row["events"] != labels),
        }

    def _busy(self) -> bool:
        with self._starting:
            process = self._process
            if process is None:
                return False
            if process.poll() is None:
                return True
            assert process.stdout is not None
            last = process.stdout.read().strip().rpartition("\n")[2]
            process.stdout.close()
            self._process = None
        try:
            self._error = json.loads(last).get("error", "")
        except ValueError:
            self._error = f"The process that makes the list ended with code {process.returncode}."
        return False

    def _list(self) -> dict[str, Any]:
        row = self._file.row()
        known = row.get("task") == self._session.campaign.task.fingerprint
        # A list of an earlier form is made again.
        return row if known and isinstance(row.get("calibrated"), list) else {}

    def stop(self) -> None:
        """End the process that makes the list, if one is at work."""
        process = self._process
        end_process(process)
        close_pipes(process)

    # ── views ───────────────────────────────────────────────────────────────────────────────────

    def pairs(self, who: str, wanted: Wanted) -> dict[str, Any]:
        """Pairs of the list and just below it, the most doubtful first."""
        row = self._list()
        every = zip(row.get("pairs", ()), self._match_scores(row).values(), row.get("listed", ()))
        steps = dict(zip(row.get("pairs", ()), row.get("waterfalls", ())))
        found = []
        states = self._session.look(lambda cache: dict(_states(cache, row.get("pairs", ()))))
        for pair, scored, listed in every:
            fits = {"listed": listed, "left out": not listed, "open": states[pair] == "open"}
            if fits.get(wanted.show, True) and self._holds(pair, wanted.words):
                more = {"listed": listed, "waterfall": steps.get(pair, [])}
                found.append((pair, {**scored, **more}))
        return self._page(who, found, wanted)

    def answers(self, who: str, wanted: Wanted) -> dict[str, Any]:
        """Labelled pairs, the latest answer first. `show`: all, mine, match, no match or unsure."""
        name = self._session.named(who)

        def fits(cache: AnswerCache, pair: int) -> bool:
            state = cache.state(pair)
            if state == "open" or wanted.show == "all":
                return state != "open"
            return pair in cache.history.get(name, {}) if wanted.show == "mine" else state == wanted.show

        def labelled(cache: AnswerCache) -> list[int]:
            order = dict.fromkeys(event.pair for event in reversed(cache.events) if event.about != "inferred")
            return [pair for pair in order if fits(cache, pair)]

        every: list[int] = self._session.look(labelled)
        found: list[tuple[int, dict[str, Any]]] = [
            (pair, {}) for pair in every if self._holds(pair, wanted.words)
        ]
        return self._page(who, found, wanted)

    def groups(self, wanted: Wanted) -> dict[str, Any]:
        """Groups by their least sure pair, the least sure first."""
        row, split = self._list(), self._session.place.split
        texts = split.left
        held = wanted.words.casefold()
        found = [
            group
            for group in row.get("groups", ())
            if not held or any(held in f"{texts.keys[at]} {texts.texts[at]}".casefold() for at in group[0])
        ]
        page = found[wanted.offset : wanted.offset + wanted.count]
        return {"total": len(found), "groups": [self._group(row, *group) for group in page]}

    def _group(
        self, row: dict[str, Any], members: list[int], weakest: int, outside: int | None
    ) -> dict[str, Any]:
        from pairsieve.matches.review import MOST_MEMBERS

        session, match_scores = self._session, self._match_scores(row)
        columns, texts = session.columns, session.place.split.left

        def record(at: int) -> dict[str, Any]:
            shown: dict[str, Any] = {"row": at, "key": texts.keys[at], "text": without_gaps(texts.texts[at])}
            if columns.names:
                shown["values"] = [each["left"] for each in columns.rows(texts.texts[at], texts.texts[at])]
            return shown

        shown_group = {
            "members": [record(at) for at in members[:MOST_MEMBERS]],
            "size": len(members),
            "columns": list(columns.names),
            "weakest": {**session.pair_texts(weakest), **match_scores.get(weakest, {})},
            "outside": None,
            "links": self._links(members[:MOST_MEMBERS]),
        }
        if outside is not None:
            one, other = outside >> 32, outside & 0xFFFF_FFFF
            nearest = other if one in members else one
            shown_group["outside"] = {
                "pair": str(outside),
                **record(nearest),
                **match_scores.get(outside, {}),
                "label": session.look(lambda cache: _state(cache, outside)),
            }
        return shown_group

    def _links(self, members: list[int]) -> dict[str, int]:
        """How many pairs inside a group are labelled: match, no match, unsure."""

        def count(cache: AnswerCache) -> dict[str, int]:
            counts = {"match": 0, "no match": 0, "unsure": 0}
            for at, one in enumerate(members):
                for other in members[at + 1 :]:
                    pair = (one << 32) | other
                    if pair in cache.questions and (state := cache.state(pair)) in counts:
                        counts[state] += 1
            return counts

        found: dict[str, int] = self._session.look(count)
        return found

    def _page(self, who: str, found: list[tuple[int, dict[str, Any]]], wanted: Wanted) -> dict[str, Any]:
        name = self._session.named(who)

        def about(cache: AnswerCache) -> list[dict[str, Any]]:
            return [
                {
                    **self._session.pair_texts(pair),
                    **more,
                    "label": _state(cache, pair),
                    "own": WORDS[cache.history[name][pair]] if pair in cache.history.get(name, {}) else None,
                    "votes": votes_on(cache, pair),
                    "settled_by": cache.adjudicators.get(pair),
                }
                for pair, more in found[wanted.offset : wanted.offset + wanted.count]
            ]

        return {"total": len(found), "pairs": self._session.look(about)}

    def _holds(self, pair: int, words: str) -> bool:
        if not words:
            return True
        split, held = self._session.place.split, words.casefold()
        sides = (split.left, pair >> 32), (split.right, pair & 0xFFFF_FFFF)
        return any(held in f"{side.keys[row]} {side.texts[row]}".casefold() for side, row in sides)

    def _match_scores(self, row: dict[str, Any]) -> dict[int, dict[str, float]]:
        """Of every pair of the list, its probability, or, where none is stated, a score from 0 to 1."""
        kinds = ("probability" if each else "model_score" for each in row.get("calibrated", ()))
        every = zip(row.get("pairs", ()), kinds, row.get("match_score", ()))
        return {pair: {kind: match_score} for pair, kind, match_score in every}

    # ── groups into answers ─────────────────────────────────────────────────────────────────────

    def group_pairs(self, rows: Iterable[int], apart: Iterable[int]) -> list[tuple[int, int]]:
        """(pair, label) that say of texts: all of them are one thing, or those of `apart` are not the others.

        One thing: each with the first. Apart: each of `apart` with each of the others. Pairs within a source
        are no pairs, and say nothing.
        """
        every, out = sorted(set(rows)), sorted(set(apart))
        texts, space = self._session.place.split.left, self._session.place.split.space
        if not space.symmetric:
            raise InputError("groups of two collections", why="only duplicates have groups")
        if len(every) < 2 or min(every) < 0 or max(every) >= len(texts) or not set(out) < set(every):
            raise InputError("no such texts", remedy="Reload the page")
        if out:
            rest = [row for row in every if row not in set(out)]
            pairs = [(min(one, other) << 32) | max(one, other) for one in out for other in rest]
        else:
            pairs = [(every[0] << 32) | other for other in every[1:]]
        ids = np.array(pairs, np.int64)
        return [(pair, 0 if out else 1) for pair in ids[space.contains(ids)].tolist()]


def _state(cache: AnswerCache, pair: int) -> str:
    return cache.state(pair) if pair in cache.questions else "open"


def _states(cache: AnswerCache, pairs: Iterable[int]) -> Iterable[tuple[int, str]]:
    return ((pair, _state(cache, pair)) for pair in pairs)


def write_review(folder: Path, cache: Path | None = None) -> None:
    """Make the list of a campaign and write it for the page."""
    from pairsieve.campaign import Campaign
    from pairsieve.matches.review import review_list
    from pairsieve.scorer.waterfall import waterfalls

    campaign = Campaign(folder, cache)
    events = len(campaign.ledger.answers())
    found = review_list(campaign)
    steps = waterfalls(found.scored, campaign.split, found.ids[:EXPLAINED])
    row = {
        **found.as_json(),
        "waterfalls": [[[step.name, round(step.log_odds, 3)] for step in each] for each in steps],
        "task": campaign.task.fingerprint,
        "events": events,
    }
    write_checksummed(review_file(folder), row)
    campaign.ledger.close()


def main(folder: Path, cache: Path | None = None) -> None:
    """The process: make the list and write it; the last line on stdout is JSON with an error, or empty."""
    tell = in_background()
    try:
        write_review(folder, cache)
        tell()
    except PairsieveError as error:
        tell(error=str(error))
    except Exception as error:
        tell(error=f"{type(error).__name__}: {error}")
        raise


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

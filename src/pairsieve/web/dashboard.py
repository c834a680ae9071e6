"""The figures of the dashboard, from the answer cache and the rounds' figures."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.campaign import Campaign
from pairsieve.campaign.figures import not_held_out
from pairsieve.campaign.status import RoundStatus
from pairsieve.contracts import generator_for
from pairsieve.measure.agreement import alpha_estimate, overlap_agreement
from pairsieve.report.people import KINDS, ratings_table
from pairsieve.sources.overlap import FOLDER, OVERLAP_FILE, latest_overlaps, majority
from pairsieve.web.answer_cache import AnswerCache
from pairsieve.web.session import LabellingSession

MOST_POINTS = 300  # of a curve; more cannot be seen
REPEATS = 400  # of the bootstrap behind an agreement's interval
PAUSE_SECONDS = 120.0  # a longer gap between two answers is a pause, not work
Votes = list[tuple[int, dict[str, int | None]]]  # of each pair: who said what


class Dashboard:
    """The figures of a session's campaign, made again only when something happened."""

    def __init__(self, session: LabellingSession) -> None:
        self._session = session
        self._made: tuple[Any, dict[str, Any]] | None = None
        self._not_before = 0.0

    def figures(self, training: dict[str, Any]) -> dict[str, Any]:
        """Everything the dashboard draws. `training`: what the process that trains reports."""
        version = self._session.look(lambda cache: cache.version)
        now = (version, training, _files(self._session.campaign.folder))
        if self._made is None or (self._made[0] != now and time.monotonic() > self._not_before):
            began = time.monotonic()
            self._made = (now, dashboard(self._session, training))
            self._not_before = time.monotonic() + 10 * (time.monotonic() - began)  # leave time for answers
        return self._made[1]


def _files(folder: Path) -> list[tuple[str, int]]:
    """What changes when another process writes a round, an audit, a model's predictions or answers."""
    found = [*(folder / "rounds").glob("*.json"), folder / FOLDER / OVERLAP_FILE]
    return sorted((path.name, path.stat().st_mtime_ns) for path in found if path.exists())


def dashboard(session: LabellingSession, training: dict[str, Any]) -> dict[str, Any]:
    """Everything the dashboard draws, made now."""
    status = session.campaign.status()
    shown, votes, models = session.look(_from_cache)
    return {
        **shown,
        "campaign": session.campaign.folder.resolve().name,
        "strategy": status.settings.strategy,
        "state": status.state,
        "next": {"step": status.step, "round": status.round, "waiting": status.waiting},
        "reason": status.reason,
        "budget": status.budget,
        "rounds": [_round(row) for row in status.rounds],
        "batches": _batches(session.campaign),
        "inferred": sum(row.inferred for row in status.rounds),
        "advice": "" if status.rounds and status.rounds[-1].open else status.advice,
        "agreement": agreement(votes, session.campaign.settings.seed),
        "models": model_agreement(votes, models, session.campaign),
        "undecided": session.undecided(),
        "mistakes": session.mistakes(),
        "unseen": session.unseen_matches(),
        "training": training,
    }


def agreement(votes: Votes, seed: int) -> dict[str, Any] | None:
    """Krippendorff's alpha among people with its interval; None while it has no meaning."""
    ratings = ratings_table([given for _, given in votes if len(given) > 1])
    found = alpha_estimate(ratings, generator_for(seed, 1, "agreement"), REPEATS)
    return found.as_json() if np.isfinite(found.value) else None


def model_agreement(
    votes: Votes, models: dict[str, dict[int, int | None]], campaign: Campaign
) -> list[dict[str, Any]]:
    """How far each language model agrees with people, where both answered; by name.

    People's word is their majority. A model's is what it said on the overlap, under the definition it was
    asked with last, and in the ledger.
    """
    overlaps = latest_overlaps(campaign.folder / FOLDER / OVERLAP_FILE)
    names = sorted(overlaps.keys() | models.keys())
    if not names:
        return []
    people = majority({pair: Counter(given.values()) for pair, given in votes if given})
    rng = generator_for(campaign.settings.seed, 1, "model agreement")
    rows = []
    for name in names:
        answers = models.get(name, {})
        found = overlap_agreement(overlaps.get(name, {}) | answers, people, rng, REPEATS)
        rows.append({"model": name, "answers": len(answers), **found.as_json()})
    return rows


def _round(row: RoundStatus) -> dict[str, Any]:
    """The figures of a round that the dashboard shows, and no more."""
    names = ("round", "labels", "positives", "open", "average_precision", "audit", "seconds")
    figures = row.as_json()
    shown = {name: figures[name] for name in names if name in figures}
    return shown | {"measured_on": row.measured_on, "warning": not_held_out(row.figures)}


def _batches(campaign: Campaign) -> list[dict[str, Any]]:
    """Matches among the labels of each round: where they dry up, little is left to find."""
    names = ("round", "asked", "labelled", "unsure", "positives")
    return [{name: getattr(count, name) for name in names} for count in campaign.ledger.counts()]


def _from_cache(cache: AnswerCache) -> tuple[dict[str, Any], Votes, dict[str, dict[int, int | None]]]:
    """What is drawn of the cache, and standing answers: of people by pair, of language models by name."""
    shown = {"version": cache.version, "over_time": over_time(cache), "people": pace(cache)}
    people = [(pair, dict(votes)) for pair, votes in cache.by_people().items()]
    return shown, people, {name: dict(cache.history.get(name, {})) for name in cache.models}


def over_time(cache: AnswerCache) -> list[dict[str, Any]]:
    """Pairs answered and matches among them after each event, thinned to `MOST_POINTS`, the last one kept."""
    stands: dict[int, dict[str, int | None]] = defaultdict(dict)
    points: list[tuple[str, int, int]] = []
    answered = positives = 0
    for event in cache.events:
        votes = stands[event.pair]
        before = (bool(votes), _is_match(votes))
        name = event.who if event.about == "answer" else f"\0{event.about}"
        if event.taken_back:
            votes.pop(name, None)
        else:
            votes[name] = event.label
        after = (bool(votes), _is_match(votes))
        answered += after[0] - before[0]
        positives += after[1] - before[1]
        points.append((event.at, answered, positives))
    step = max(1, -(-len(points) // MOST_POINTS))
    kept = points[::step] + (points[-1:] if points and (len(points) - 1) % step else [])
    return [{"at": at, "answered": a, "positives": p} for at, a, p in kept]


def _is_match(votes: dict[str, int | None]) -> bool:
    settled = votes.get("\0adjudication", -1)
    if settled != -1:
        return settled == 1
    labels = [label for name, label in votes.items() if name != "\0inferred"]
    if 1 not in labels and 0 not in labels:  # an inferred label counts where nobody decided
        return votes.get("\0inferred") == 1
    return labels.count(1) > labels.count(0)


def pace(cache: AnswerCache) -> list[dict[str, Any]]:
    """Answers and labels per hour of work of each person; gaps above `PAUSE_SECONDS` are not work."""
    times: dict[str, list[float]] = defaultdict(list)
    for event in cache.events:
        if event.about == "answer" and not event.taken_back:
            times[event.who].append(datetime.fromisoformat(event.at).timestamp())
    rows = []
    for who, when in sorted(times.items()):
        gaps = [b - a for a, b in pairwise(when)]
        work = [gap for gap in gaps if gap <= PAUSE_SECONDS]
        rate = 3600 * len(work) / sum(work) if sum(work) > 0 else None
        standing = list(cache.history.get(who, {}).values())
        counts = {kind: standing.count(label) for kind, label in KINDS.items()}
        about = {"who": who, "model": who in cache.models, "answers": len(standing)}
        rows.append({**about, **counts, "per_hour": rate})
    return rows

"""Small synthetic tasks with the whole truth, and campaigns on them, for story tests: built in milliseconds.

A split holds questions of its own: 120 in train, 60 in dev and in test, so that train has 7,140 pairs
(two collections: 60 × 60 = 3,600). Stated negatives are made by a rule that can be checked by eye: each
text is stated not to match the next two in the circle of its collection.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments.synthetic import synthetic_questions
from pairsieve.campaign import Campaign, create_campaign
from pairsieve.pairs import AllPairs, CrossPairs, Ids
from pairsieve.settings import Schedule
from pairsieve.tasks import Collection, Split, Task, save_task
from pairsieve.tasks.task import one_collection, two_collections

SIZES = {"train": 120, "dev": 60, "test": 60}
NOTHING: Ids = np.empty(0, np.int64)
LEARNERS = ("projection", "full")


def synthetic_task(
    folder: Path,
    seed: int = 0,
    two: bool = False,
    truth: bool = True,
    stated: bool = True,
    sizes: dict[str, int] = SIZES,
) -> Path:
    """Write a synthetic task: one collection a split, or `two` (its even and its odd rows)."""
    splits = {
        name: _split(name, size, seed + at, two, truth, stated)
        for at, (name, size) in enumerate(sizes.items())
    }
    relation = "match" if two else "equivalence"
    save_task(Task("made", relation, splits, {"made": True, "seed": seed}, {}), folder)
    return folder


def _split(name: str, size: int, seed: int, two: bool, truth: bool, stated: bool) -> Split:
    made = synthetic_questions(size, seed=seed)
    texts = Collection([f"{name}-{key}" for key in made.keys], made.texts)
    same = made.cluster[:, None] == made.cluster[None, :]
    row = np.arange(size)
    if not two:
        space = AllPairs(size)
        positives = space.ids(*np.nonzero(np.triu(same, 1)))
        near = np.unique(np.concatenate([space.ids(row, (row + step) % size) for step in (1, 2)]))
        negatives = near[~np.isin(near, positives)] if stated else NOTHING
        return one_collection(name, texts, *((positives, negatives) if truth else (NOTHING, NOTHING)), truth)
    even, odd = row[::2], row[1::2]
    cross, half = CrossPairs(len(even), len(odd)), np.arange(size // 2)
    positives = cross.ids(*np.nonzero(same[np.ix_(even, odd)]))
    near = np.unique(np.concatenate([cross.ids(half, (half + step) % len(odd)) for step in (0, 1)]))
    negatives = near[~np.isin(near, positives)] if stated else NOTHING
    known = (positives, negatives) if truth else (NOTHING, NOTHING)
    return two_collections(name, texts.take(even), texts.take(odd), *known, truth)


def begin(folder: Path, task: Path, encoder: Path | str, **settings: Any) -> Campaign:
    """A campaign that buys 20, then 30, then 45 labels on the CPU, unless `settings` say otherwise."""
    sizes = {name: settings.pop(name) for name in ("first_batch", "rounds") if name in settings}
    schedule = Schedule(**{"first_batch": 20, "growth": 1.5, "rounds": 3} | sizes)
    usual = {"encoder": str(encoder), "learner": "projection", "device": "cpu", "schedule": schedule}
    usual["measuring_share"] = 0.0  # every label of a batch is chosen, and trains
    if settings.get("learner") == "full":
        usual["max_length"] = 48  # the tiny tokeniser makes 65 tokens of a question, letter by letter
    return create_campaign(folder, task, **(usual | settings))


def picture(folder: Path) -> dict[str, Any]:
    """What equal campaigns have in common: every question and answer, every figure but the seconds."""
    campaign = Campaign(folder)
    figures = {
        number: {key: value for key, value in found.as_json().items() if key != "seconds"}
        for number, found in campaign.figures().items()
    }
    return {"ledger": campaign.ledger.digest(), "figures": figures}

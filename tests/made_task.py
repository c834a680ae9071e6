"""Small made tasks with the whole truth, for story tests of campaigns: built in milliseconds, never random.

The questions come from `pairsieve.made`; a cluster never crosses a split. The splits have 120, 60 and 60
texts: 7,140 pairs in train, 1,770 in dev and in test.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pairsieve.made import made_questions
from pairsieve.pairs import AllPairs, CrossPairs, Ids
from pairsieve.tasks import Collection, Split, Task, save_task
from pairsieve.tasks.task import one_collection, two_collections

SIZES = {"train": 120, "dev": 60, "test": 60}


def made_task(folder: Path, seed: int = 0, two: bool = False, truth: bool = True) -> Path:
    """Write a made task: one collection, or `two` (odd and even rows of it); without `truth` nothing is known."""
    splits = {name: _split(name, size, seed + at, two, truth) for at, (name, size) in enumerate(SIZES.items())}
    relation = "match" if two else "equivalence"
    save_task(Task("made", relation, splits, {"made": True, "seed": seed}, {}), folder)
    return folder


def _split(name: str, size: int, seed: int, two: bool, truth: bool) -> Split:
    """A split of its own made questions; other seeds mean other things, so no cluster is in two splits."""
    made = made_questions(size, seed=seed)
    same = made.cluster[:, None] == made.cluster[None, :]
    stated = np.array(made.stated_negatives, dtype=np.int64).reshape(-1, 2)
    texts = Collection([f"{name}-{key}" for key in made.keys], made.texts)
    nothing: Ids = np.empty(0, np.int64)
    if not two:
        space = AllPairs(size)
        positives = space.ids(*np.nonzero(np.triu(same, 1)))
        negatives = np.unique(space.ids(stated[:, 0], stated[:, 1]))
        known = (positives, negatives) if truth else (nothing, nothing)
        return one_collection(name, texts, *known, truth)
    left, right = np.arange(0, size, 2), np.arange(1, size, 2)
    cross = CrossPairs(len(left), len(right))
    positives = cross.ids(*np.nonzero(same[np.ix_(left, right)]))
    mixed = np.sort(stated[stated.sum(axis=1) % 2 == 1] % 2 * 0 + stated[stated.sum(axis=1) % 2 == 1], axis=1)
    even, odd = np.where(mixed % 2 == 0, mixed, 0).sum(axis=1), np.where(mixed % 2 == 1, mixed, 0).sum(axis=1)
    negatives = np.unique(cross.ids(even // 2, odd // 2))
    known = (positives, negatives) if truth else (nothing, nothing)
    return two_collections(name, texts.take(left), texts.take(right), *known, truth)

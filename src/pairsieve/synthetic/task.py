"""Tasks of synthetic questions and of synthetic records, with the whole truth."""

from __future__ import annotations

import numpy as np

from pairsieve.pairs import AllPairs, Ids
from pairsieve.synthetic import SyntheticQuestions, synthetic_questions
from pairsieve.synthetic.records import SyntheticRecords
from pairsieve.tasks import Collection, Split, Task


def synthetic_task(texts: int, seed: int) -> Task:
    """The synthetic questions as a task: clusters shuffled, half of the questions each for train and test."""
    questions = synthetic_questions(texts, seed)
    clusters = np.random.default_rng([seed, 1]).permutation(int(questions.cluster.max()) + 1)
    place = np.empty(len(clusters), np.int64)
    place[clusters] = np.arange(len(clusters))
    sizes = np.bincount(questions.cluster, minlength=len(clusters))[clusters]
    in_train = (np.cumsum(sizes) - sizes / 2 <= len(questions.texts) / 2)[place][questions.cluster]
    splits = {
        "train": _split("train", questions, np.flatnonzero(in_train)),
        "test": _split("test", questions, np.flatnonzero(~in_train)),
    }
    provenance = {"source": "pairsieve.synthetic", "texts": len(questions.texts), "seed": seed}
    return Task("synthetic-questions", "equivalence", splits, provenance, {})


def records_task(name: str, table: SyntheticRecords, truth: bool = True) -> Task:
    """The duplicates of one table of records: one split `all`, with its truth or without."""
    side = Collection([f"r{row:05d}" for row in range(len(table.entity))], table.texts())
    nothing = np.empty(0, np.int64)
    positives = same_cluster(table.entity) if truth else nothing
    split = Split("all", AllPairs(len(side)), side, side, positives, nothing, truth)
    return Task(name, "equivalence", {"all": split}, {"source": "pairsieve.synthetic"}, {})


def same_cluster(cluster: Ids) -> Ids:
    """Sorted ids of all pairs of one collection whose texts share a cluster."""
    order = np.argsort(cluster, kind="stable")
    starts = np.flatnonzero(np.diff(cluster[order], prepend=-1))
    pieces = [np.empty(0, np.int64)]
    for members in np.split(order, starts[1:]):
        one, other = np.triu_indices(len(members), 1)
        pieces.append(AllPairs(len(cluster)).ids(members[one], members[other]))
    return np.sort(np.concatenate(pieces))


def _split(name: str, questions: SyntheticQuestions, rows: Ids) -> Split:
    keys, texts = ([column[row] for row in rows.tolist()] for column in (questions.keys, questions.texts))
    side = Collection(keys, texts)
    space = AllPairs(len(rows))
    at = np.full(len(questions.texts), -1)
    at[rows] = np.arange(len(rows))
    stated = at[np.array(questions.stated_negatives)]
    inside = (stated >= 0).all(axis=1)
    negatives = np.unique(space.ids(*stated[inside].T))
    return Split(name, space, side, side, same_cluster(questions.cluster[rows]), negatives, True)

"""Loader of Quora Question Pairs: its duplicates, closed transitively, and split by components.

The truth is the transitive closure of the positive pairs; every other pair of a split is a negative. The
splits follow the paper (section on datasets): components of all paired questions, whatever their label, are
shuffled and dealt 50/25/25 by questions, so that every stated pair lies inside one split.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pairsieve.contracts import generator_for
from pairsieve.pairs import AllPairs
from pairsieve.tasks.reading import read_labels, read_table
from pairsieve.tasks.task import Collection, Task
from pairsieve.tasks.truth import closure, need_positives, resolve, split_by_components

SHARES = (50, 25, 25)


def qqp_task(path: Path, seed: int = 0, name: str = "qqp") -> Task:
    """A task from the original 2017 TSV or Kaggle's train.csv, plain or packed.

    A question id that comes with several spellings keeps the first; a pair stated both ways, or stated
    negative inside a closure, is positive. All of it is counted in the report.
    """
    table = read_table(Path(path), lenient=True)
    first, second = table.strings("qid1"), table.strings("qid2")
    labels = np.array(read_labels(table, "is_duplicate"), dtype=bool)
    spelling: dict[str, str] = {}
    respelled: set[str] = set()
    for column, question_ids in (("qid1", first), ("qid2", second)):
        if "" in question_ids:
            remedy = "Give each question an id, or remove the row"
            raise table.error("the question id is empty", question_ids.index(""), column, remedy=remedy)
    # Row by row, so that the spelling that stands is the first in the file.
    for row in zip(first, second, table.strings("question1"), table.strings("question2")):
        for question, text in (row[::2], row[1::2]):
            if spelling.setdefault(question, text) != text:
                respelled.add(question)
    questions = Collection(list(spelling), list(spelling.values()))
    row_of = {question: row for row, question in enumerate(spelling)}
    left = np.fromiter((row_of[question] for question in first), np.int64, len(first))
    right = np.fromiter((row_of[question] for question in second), np.int64, len(second))

    other = left != right
    ids = AllPairs(len(questions)).ids(left, right)[other]
    positives, negatives = np.unique(ids[labels[other]]), np.unique(ids[~labels[other]])
    closed = closure(len(questions), positives, where=str(path))
    stated_negatives, contradictions = resolve(positives, negatives, closed)
    joined = np.union1d(positives, negatives)
    rng = generator_for(seed, 0, "split")
    # Not stratified: the paper deals all components alike.
    splits, found = split_by_components(
        [questions], closed, stated_negatives, joined, SHARES, rng, stratify=False
    )
    need_positives(splits, str(path), "Give the whole file; a few rows cannot be split in three")
    report = {
        "rows": len(table),
        "questions": len(questions),
        "stated_positives": len(positives),
        "stated_negatives": len(negatives),
        "positives_after_closure": len(closed),
        **contradictions,
        "repeated_rows": int(other.sum()) - len(positives) - len(negatives),
        "self_pairs_dropped": int((~other).sum()),
        "questions_with_other_spellings": len(respelled),
        "empty_texts": sum(1 for text in questions.texts if not text.strip()),
        **found,
    }
    provenance = {
        "loader": "qqp",
        "seed": seed,
        "split": "50/25/25 of the questions, by components of all paired questions",
        "files": [table.provenance()],
    }
    return Task(name, "equivalence", splits, provenance, report)

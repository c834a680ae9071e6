"""Which questions of Quora Question Pairs ask the same? Its pairs, closed, and split by components.

The truth is the transitive closure of the positive pairs; every other pair of a split is a negative. The
splits follow the paper (section on datasets): components of all paired questions, whatever their label, are
shuffled and dealt 50/25/25 by questions, so that every stated pair lies inside one split.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pairsieve.contracts import generator_for
from pairsieve.errors import InputError
from pairsieve.pairs import AllPairs
from pairsieve.tasks.reading import Table, read_labels, read_table
from pairsieve.tasks.task import Collection, Task
from pairsieve.tasks.truth import closure, need_positives, resolve, split_one

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
    _check_ids(table, first, second)
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
    splits, found = split_one(
        questions,
        closed,
        stated_negatives,
        joined,
        SHARES,
        generator_for(seed, 0, "split"),
        stratify=False,  # the paper deals all components alike
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


def _check_ids(table: Table, first: list[str], second: list[str]) -> None:
    for column, ids in (("qid1", first), ("qid2", second)):
        if "" in ids:
            raise InputError(
                "the question id is empty",
                where=table.where(ids.index(""), column),
                remedy="Give each question an id, or remove the row",
            )

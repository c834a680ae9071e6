"""Loader of WikiQA: the questions of a split × every sentence of the corpus."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pairsieve.errors import InputError
from pairsieve.pairs import pair_ids
from pairsieve.tasks.archives import check_folder
from pairsieve.tasks.reading import Table, read_labels, read_table
from pairsieve.tasks.task import Collection, Task, split_of
from pairsieve.tasks.truth import need_positives, resolve

SPLITS = ("train", "dev", "test")


def wikiqa_task(folder: Path, name: str = "wikiqa") -> Task:
    """A task from the original folder, which holds WikiQA-train.tsv, WikiQA-dev.tsv and WikiQA-test.tsv.

    left: the questions of the split; right: all sentence ids of the three splits in the order of their first
    appearance in train, dev, test, as `title . sentence`. Unstated pairs are negatives, as in the paper.
    """
    folder = Path(folder)
    tables = {split: read_table(_split_file(folder, split), quotes=False) for split in SPLITS}
    sentences: dict[str, str] = {}
    other_spellings: set[str] = set()
    for table in tables.values():
        columns = [table.strings(column) for column in ("SentenceID", "DocumentTitle", "Sentence")]
        for key, title, sentence in zip(*columns):
            text = f"{title} . {sentence}"
            if sentences.setdefault(key, text) != text:
                other_spellings.add(key)
    right = Collection(list(sentences), list(sentences.values()))
    row_of = {key: row for row, key in enumerate(sentences)}

    splits = {}
    questions_seen: dict[str, str] = {}
    report = {"rows": sum(map(len, tables.values())), "sentences": len(right), "repeated_rows": 0}
    report |= {"pairs_stated_both_ways": 0, "sentences_with_other_spellings": len(other_spellings)}
    for split, table in tables.items():
        left = _questions(table, split, questions_seen)
        question_row = {key: row for row, key in enumerate(left.keys)}
        ids = pair_ids(
            [question_row[key] for key in table.strings("QuestionID")],
            [row_of[key] for key in table.strings("SentenceID")],
        )
        labels = np.array(read_labels(table, "Label"), dtype=bool)
        positives, negatives = np.unique(ids[labels]), np.unique(ids[~labels])
        stated, contradictions = resolve(positives, negatives, positives)
        splits[split] = split_of(split, [left, right], positives, stated, True)
        report["repeated_rows"] += len(ids) - len(positives) - len(negatives)
        report["pairs_stated_both_ways"] += contradictions["pairs_stated_both_ways"]
    need_positives(splits, str(folder), "Give the original splits, each of which has answers")
    provenance = {
        "loader": "wikiqa",
        "split": "the original splits",
        "template": "{DocumentTitle} . {Sentence}",
        "files": [table.provenance() for table in tables.values()],
    }
    return Task(name, "directed", splits, provenance, report)


def _split_file(folder: Path, split: str) -> Path:
    files = {name: folder / f"WikiQA-{name}.tsv" for name in SPLITS}
    remedy = "Name the unpacked folder of the original WikiQA corpus"
    check_folder(folder, remedy)
    if missing := [file.name for file in files.values() if not file.is_file()]:
        what, why = f"the split {', '.join(missing)} is missing", "the task has the three original splits"
        raise InputError(what, where=str(folder), why=why, remedy=remedy)
    return files[split]


def _questions(table: Table, split: str, seen: dict[str, str]) -> Collection:
    """The questions of a split in order; one that another split has too would leak between splits."""
    questions: dict[str, str] = {}
    for row, (key, text) in enumerate(zip(table.strings("QuestionID"), table.strings("Question"))):
        questions.setdefault(key, text)
        if seen.setdefault(key, split) != split:
            what = f"question {key} stands in {seen[key]} and in {split}"
            remedy = "Give the original splits, which share no question"
            raise table.error(what, row, "QuestionID", remedy=remedy)
    return Collection(list(questions), list(questions.values()))

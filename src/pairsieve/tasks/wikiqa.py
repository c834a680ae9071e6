"""Which sentence answers which question of WikiQA? Questions of a split × every sentence of the corpus."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pairsieve.errors import InputError
from pairsieve.pairs import pair_ids
from pairsieve.tasks.reading import Table, read_labels, read_table
from pairsieve.tasks.task import Collection, Task, two_collections
from pairsieve.tasks.truth import need_positives, resolve

PARTS = ("train", "dev", "test")


def wikiqa_task(folder: Path, name: str = "wikiqa") -> Task:
    """A task from the original folder, which holds WikiQA-train.tsv, WikiQA-dev.tsv and WikiQA-test.tsv.

    left: the questions of the part; right: all sentence ids of the three parts in the order of their first
    appearance in train, dev, test, as `title . sentence`. Unstated pairs are negatives, as in the paper.
    """
    folder = Path(folder)
    tables = {part: read_table(_part(folder, part), quotes=False) for part in PARTS}
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
    for part, table in tables.items():
        left = _questions(table, part, questions_seen)
        question_row = {key: row for row, key in enumerate(left.keys)}
        ids = pair_ids(
            [question_row[key] for key in table.strings("QuestionID")],
            [row_of[key] for key in table.strings("SentenceID")],
        )
        labels = np.array(read_labels(table, "Label"), dtype=bool)
        positives, negatives = np.unique(ids[labels]), np.unique(ids[~labels])
        stated, contradictions = resolve(positives, negatives, positives)
        splits[part] = two_collections(part, left, right, positives, stated, True)
        report["repeated_rows"] += len(ids) - len(positives) - len(negatives)
        report["pairs_stated_both_ways"] += contradictions["pairs_stated_both_ways"]
    need_positives(splits, str(folder), "Give the original parts, each of which has answers")
    provenance = {
        "loader": "wikiqa",
        "split": "the original parts",
        "template": "{DocumentTitle} . {Sentence}",
        "files": [table.provenance() for table in tables.values()],
    }
    return Task(name, "directed", splits, provenance, report)


def _part(folder: Path, part: str) -> Path:
    path = folder / f"WikiQA-{part}.tsv"
    if not folder.is_dir():
        raise InputError(
            "there is no such folder" if not folder.exists() else "this is a file, not a folder",
            where=str(folder),
            remedy="Name the unpacked folder of the original WikiQA corpus",
        )
    if not path.is_file():
        missing = [name for name in PARTS if not (folder / f"WikiQA-{name}.tsv").is_file()]
        raise InputError(
            f"the part {', '.join(f'WikiQA-{name}.tsv' for name in missing)} is missing",
            where=str(folder),
            why="the three original parts make the splits",
            remedy="Name the unpacked folder of the original WikiQA corpus",
        )
    return path


def _questions(table: Table, part: str, seen: dict[str, str]) -> Collection:
    """The questions of a part in order; one that another part has too would leak between splits."""
    questions: dict[str, str] = {}
    for row, (key, text) in enumerate(zip(table.strings("QuestionID"), table.strings("Question"))):
        questions.setdefault(key, text)
        if seen.setdefault(key, part) != part:
            raise InputError(
                f"question {key} stands in {seen[key]} and in {part}",
                where=table.where(row, "QuestionID"),
                remedy="Give the original parts, which share no question",
            )
    return Collection(list(questions), list(questions.values()))

"""AP before any label by how a record is rendered for the encoder: its values alone, or with column names.

    python -m experiments.bench.renderings [--tables cora,settlements,…] [--data FOLDER] [--cache FOLDER]

*plain* joins the values of a record by " | ", *named* writes "column: value; column: value". The same columns
are in both. AP is over all pairs, with the corrections by neighbours, by the bundled encoder. Real tables are
those of the bench of strangers; the others are synthetic.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.bench.strangers_tables import NOTHING, SHARED, TABLES
from experiments.synthetic.records import table_of
from pairsieve import create_campaign
from pairsieve.measure.figures import exact_figures
from pairsieve.pairs import AllPairs
from pairsieve.reranker.fields import columns_of
from pairsieve.synthetic import Roughness, group_sizes, same_cluster
from pairsieve.tasks import Collection, Split, Task
from pairsieve.tasks.fields import make_fields
from pairsieve.tasks.joined import joined_rows, taken_apart

REAL = ("abt-buy", "amazon-google", "dblp-acm", "fodors-zagats", "cora", "settlements")
SYNTHETIC = ("products", "people", "places", "citations")


def synthetic_table(kind: str, records: int = 2_000) -> Task:
    """A synthetic table that keeps its columns."""
    sizes = group_sizes(records, {2: 0.4, 4: 0.2})
    table = table_of(kind, sizes, 15, Roughness(typo=0.3, missing=0.2))
    keys = [f"r{row}" for row in range(records)]
    side = Collection(keys, joined_rows(list(table.columns.values())), make_fields(table.columns))
    split = Split("all", AllPairs(records), side, side, same_cluster(table.entity), NOTHING, True)
    return Task(kind, "equivalence", {"all": split}, {"source": "synthetic"}, {})


def named(side: Collection) -> Collection:
    """The same records as "column: value", without the missing ones."""
    names = [name for name, _ in columns_of(side)]
    rows = [zip(names, taken_apart(text)) for text in side.texts]
    texts = ["; ".join(f"{name}: {value}" for name, value in row if value) for row in rows]
    return Collection(side.keys, texts)


def average_precision(task: Task, split: Split, folder: Path, cache: Path) -> float:
    whole = Task(task.name, task.relation, {"all": replace(split, name="all")}, task.provenance, task.report)
    campaign = create_campaign(folder, whole, labels=100, cache=cache)
    own = campaign.task.splits["all"]
    figures, _ = exact_figures(campaign.score(own, 0).scan, split.positives, split.stated_negatives)
    return float(figures.as_json()["average_precision"]["value"])


def compare(name: str, data: Path, folder: Path, cache: Path) -> tuple[float, float]:
    """AP of the plain and of the named rendering."""
    task = TABLES[name].make(data) if name in REAL else synthetic_table(name)
    split = task.splits["all"]
    left = named(split.left)
    right = left if split.left is split.right else named(split.right)
    plain = average_precision(task, split, folder / "plain", cache)
    return plain, average_precision(task, replace(split, left=left, right=right), folder / "named", cache)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", default=",".join((*REAL, *SYNTHETIC)))
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--cache", type=Path)
    asked = parser.parse_args(words)
    print("| table | plain | named |\n| --- | ---: | ---: |", flush=True)
    for name in asked.tables.split(","):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            plain, other = compare(name, asked.data, place, asked.cache or place / "cache")
        print(f"| {name} | {plain:.3f} | {other:.3f} |", flush=True)


if __name__ == "__main__":
    main()

"""Campaigns on tables of the bench of strangers that are split 50/25/25, for `reliability`.

    python -m experiments.bench.split_campaigns --out FOLDER [--tables settlements cora] [--labels 400]
        [--seeds 0 1 2] [--data FOLDER] [--cache FOLDER]

Each seed is a split of its own: groups of matches are drawn into train, dev and test, as `pairsieve data
tables` does. Labels are bought in train with default options. A campaign that is there is not made again.
`reliability --campaign FOLDER/*/campaign --cache FOLDER/cache` looks at them.
"""

from __future__ import annotations

import argparse
import shutil
from itertools import product
from pathlib import Path

import numpy as np

from experiments.bench.strangers_tables import SHARED, TABLES
from pairsieve import create_campaign, save_task
from pairsieve.contracts import generator_for
from pairsieve.tasks import Task
from pairsieve.tasks.truth import split_by_components

SHARES = (50, 25, 25)


def split_task(table: str, seed: int, data: Path) -> Task:
    """A table in three splits, in none of which a group of matches is torn apart."""
    task = TABLES[table].task(data)
    every = task.splits["all"]
    sides = [every.left] if every.space.symmetric else [every.left, every.right]
    nothing, rng = np.empty(0, np.int64), generator_for(seed, 0, "split")
    splits, _ = split_by_components(sides, every.positives, nothing, every.positives, SHARES, rng)
    return Task(task.name, task.relation, splits, task.provenance, {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", default=["settlements", "cora"])
    parser.add_argument("--labels", type=int, default=400)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--cache", type=Path, default=None)
    asked = parser.parse_args()
    for seed, table in product(asked.seeds, asked.tables):
        folder = asked.out / f"{table}-split.{asked.labels}.{seed}"
        if (folder / "done").exists():
            continue
        shutil.rmtree(folder, ignore_errors=True)
        save_task(split_task(table, seed, asked.data), folder / "task")
        settings = {"labels": asked.labels, "seed": seed, "cache": asked.cache or asked.out / "cache"}
        create_campaign(folder / "campaign", folder / "task", **settings).run()
        (folder / "done").touch()
        print(folder.name, flush=True)


if __name__ == "__main__":
    main()

"""Records compared field by field beside the same records by their texts alone: F1 of the list, defaults.

    python -m experiments.bench.fields [--ways fields,text,named,source] [--tables cora,…] [--labels 100]
        [--seeds 0,1,2] [--data FOLDER] [--cache FOLDER]
    python -m experiments.bench.fields --page

The encoder reads the same texts in the ways *fields* and *text*; with *text* the re-ranker knows no fields.
In the way *named* the encoder reads "column: value; column: value" (a template) and fields are compared.
*source* is settlements told by --source that no source holds duplicates. F1 is counted from the list's file.
A row goes to experiments/bench/results/fields.jsonl when its cell is done; a cell with a row is not run
again. Rows of *fields* that the bench of strangers has stored are taken from there. --page writes the table
of docs/tables.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from experiments.bench.renderings import REAL, named, synthetic_table
from experiments.bench.strangers import list_figures, revision
from experiments.bench.strangers_page import KEPT as STRANGERS
from experiments.bench.strangers_tables import SHARED, TABLES
from pairsieve import create_campaign, find_matches
from pairsieve.files import write_text
from pairsieve.reranker.fields import NO_FIELDS
from pairsieve.tasks import Task, tables_task

HERE = Path(__file__).resolve().parent
ROWS, PAGE = HERE / "results" / "fields.jsonl", HERE.parents[1] / "docs" / "tables.md"
OTHER_WAYS = {"source": "with `--source ontology`", "named": "with column names in the text"}
SYNTHETIC = ("people", "products", "places")
BEGIN, END = "<!-- python -m experiments.bench.fields --page -->", "<!-- end -->"
Row = dict[str, Any]


def task_of(name: str, way: str, data: Path) -> Task:
    if way == "source":
        table, truth = (data / name / f"{file}.csv" for file in (name, "ground_truth"))
        return tables_task(table, key="id", source="ontology", matches=truth, split="none")
    task = TABLES[name].make(data) if name in REAL else synthetic_table(name)
    if way != "named":
        return task
    split = task.splits["all"]
    left = named(split.left)
    right = left if split.left is split.right else named(split.right)
    return replace(task, splits={"all": replace(split, left=left, right=right)})


def run_cell(name: str, way: str, labels: int, seed: int, data: Path, cache: Path | None) -> Row:
    """One campaign with default options, and its list against the truth."""
    task = task_of(name, way, data)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        patches = [
            mock.patch(f"pairsieve.campaign.{module}.find_layout", return_value=NO_FIELDS)
            for module in ("training", "scoring")
        ]
        for patch in patches if way == "text" else ():
            patch.start()
        try:
            campaign = create_campaign(place / "campaign", task, labels=labels, seed=seed, cache=cache)
            campaign.run()
            found = find_matches(campaign, place / "matches.csv")
        finally:
            mock.patch.stopall()
        figures = list_figures(place / "matches.csv", task.splits["all"])
    reranked = bool(found.as_json().get("scorer", {}).get("reranked"))
    row = {
        "table": name,
        "way": way,
        "labels": labels,
        "seed": seed,
        "code": revision(),
        "reranked": reranked,
    }
    return row | figures | {"seconds": round(time.perf_counter() - began, 1)}


def stored() -> list[Row]:
    """Rows of this bench, and those of the bench of strangers as *fields*."""
    own = [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []
    others = [json.loads(line) for line in STRANGERS.read_text().splitlines()] if STRANGERS.exists() else []
    return own + [
        row | {"way": "fields"} for row in others if row["table"] in REAL and row["outcome"] == "ok"
    ]


def page(rows: Sequence[Row]) -> str:
    """The table: mean F1 of each way, and the difference with two standard errors."""
    lines = [
        "| table | labels | seeds | fields | text alone | difference ± 2 standard errors |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    cells = sorted({(row["labels"], row["table"]) for row in rows if row["way"] == "text"})
    order = [*REAL, *SYNTHETIC]
    for labels, name in sorted(cells, key=lambda cell: (cell[0], order.index(cell[1]))):
        f1 = {
            way: {
                row["seed"]: row["f1"]
                for row in rows
                if (row["table"], row["labels"], row["way"]) == (name, labels, way)
            }
            for way in ("fields", "text")
        }
        seeds = sorted({*f1["fields"]} & {*f1["text"]})
        if not seeds:
            continue
        one, other = ([f1[way][seed] for seed in seeds] for way in ("fields", "text"))
        gap = statistics.mean(one) - statistics.mean(other)
        apart = [a - b for a, b in zip(one, other)]
        error = f" ± {2 * statistics.stdev(apart) / len(apart) ** 0.5:.3f}" if len(seeds) > 1 else ""
        means = f"{statistics.mean(one):.3f} | {statistics.mean(other):.3f}"
        lines.append(f"| {name} | {labels} | {len(seeds)} | {means} | {gap:+.3f}{error} |")
    for way, words in OTHER_WAYS.items():
        told = [row for row in rows if row["way"] == way]
        for name, labels in sorted({(row["table"], row["labels"]) for row in told}):
            own = [row["f1"] for row in told if (row["table"], row["labels"]) == (name, labels)]
            values = ", ".join(f"{value:.3f}" for value in own)
            lines += ["", f"{name} {words}, {labels} labels, by seed: F1 {values}."]
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ways", default="fields,text")
    parser.add_argument("--tables", default=",".join((*REAL, *SYNTHETIC)))
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--page", action="store_true", help="write the table of docs/tables.md, run nothing")
    asked = parser.parse_args(words)
    if asked.page:
        head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        write_text(PAGE, f"{head}{BEGIN}\n{page(stored())}\n{END}{rest.partition(END)[2]}")
        return
    for seed in map(int, asked.seeds.split(",")):
        for name in asked.tables.split(","):
            for way in asked.ways.split(","):
                cell = {"table": name, "way": way, "labels": asked.labels, "seed": seed}
                if any(cell.items() <= row.items() for row in stored()):
                    continue
                row = run_cell(name, way, asked.labels, seed, asked.data, asked.cache)
                with ROWS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"{name} {way} {seed}: F1 {row['f1']:.3f}, {row['seconds']} s", flush=True)
    print(page(stored()))


if __name__ == "__main__":
    main()

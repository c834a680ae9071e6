"""A bench of strangers: default options on tables the product was not built with; AP, F1, batches, seconds.

    python -m experiments.bench.strangers --out FOLDER [--tables cora,people] [--labels 50,100,200,400,800]
        [--seeds 0,1,2] [--jobs 1] [--cache FOLDER] [--data FOLDER] [--held-out FOLDER] [--limit SECONDS]
        [--keep] [--share S]
    python -m experiments.bench.strangers --list
    python -m experiments.bench.strangers --out FOLDER --show
    python -m experiments.bench.strangers --out FOLDER --page

A cell is one table, one number of labels and one seed. It runs in a process of its own, as a new user would:
`create_campaign(folder, task, labels=N)`, `run()`, `find_matches()`, nothing else set but the seed. Its row
is stored as FOLDER/cells/TABLE.LABELS.SEED.json; a cell with a row is not run again (one that failed is, with
--again). F1 is counted from the list's file against the truth, by code that shares nothing with the product.
A table whose files are not there is skipped and named; --held-out is the folder that `held_out_tables` made
[held-out in --data]. --share sets the measuring share, for a folder of its
own: what the share costs is the difference (`measuring_cost`). --show prints the rows stored so far. --page
keeps the rows in experiments/bench/results/strangers and writes docs/strangers.md and its picture from them;
without --out from those kept. Rows of held-out tables are kept in a file of their own, each until its cell
has another.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.bench.strangers_tables import SHARED, TABLES, StrangerTable, without_truth, wrong_answers
from pairsieve.files import write_text

if TYPE_CHECKING:
    from pairsieve import Campaign
    from pairsieve.tasks import Split, Task

ROOT = Path(__file__).resolve().parents[2]
BUDGETS = (50, 100, 200, 400, 800)
ABSURD = 10_000.0  # no score of ours is that far from nought


@dataclass(frozen=True)
class Cell:
    """One table, one number of labels, one seed."""

    table: str
    labels: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.table}.{self.labels}.{self.seed}"


# ── one cell ────────────────────────────────────────────────────────────────────────────────────


def run_cell(
    cell: Cell,
    out: Path,
    cache: Path,
    data: Path,
    keep: bool,
    share: float | None = None,
    held_out: Path | None = None,
) -> dict[str, Any]:
    """Make the task, run the campaign, list its matches; the row to store. Whatever fails is in the row."""
    from pairsieve import PairsieveError

    table = TABLES[cell.table]
    row: dict[str, Any] = {"table": cell.table, "labels": cell.labels, "seed": cell.seed, "edge": table.edge}
    row |= {"code": revision(), **({} if share is None else {"share": share})}
    folder = out / "campaigns" / cell.name
    shutil.rmtree(folder, ignore_errors=True)
    began = time.perf_counter()
    try:
        row |= _measured(cell, table, table.task(data, held_out), folder, cache, row, share)
        row["outcome"] = complaint(row) or "ok"
    except PairsieveError as error:
        row |= {"outcome": "refused", "words": str(error).replace(f"{folder.parent}/", "")}
    except Exception as error:
        row |= {"outcome": "traceback", "words": repr(error), "traceback": traceback.format_exc()}
    row["seconds"] = round(time.perf_counter() - began, 2)
    row["peak_gib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3)
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    return row


def revision() -> str:
    """The commit that the bench runs on, in short: of the clone, or as PAIRSIEVE_COMMIT says of a copy."""
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or os.environ.get("PAIRSIEVE_COMMIT", "")


def _measured(
    cell: Cell,
    table: StrangerTable,
    task: Task,
    folder: Path,
    cache: Path,
    row: dict[str, Any],
    share: float | None,
) -> dict[str, Any]:
    """The figures of a cell. `row` is filled on the way, so that a failure leaves what came before it."""
    from pairsieve import create_campaign, find_matches, save_task

    split = task.splits.get("all") or task.splits["train"]
    measured = task.splits.get("dev", split)  # where there is a dev split, AP is over its pairs
    row |= {"texts": [len(split.left), len(split.right)], "one_table": split.space.symmetric}
    row |= {"pairs": split.space.size, "matches": len(split.positives)}
    save_task(task if table.answers == "truth" else without_truth(task), folder / "task")
    began = time.perf_counter()
    campaign = create_campaign(
        folder / "campaign",
        folder / "task",
        labels=cell.labels,
        seed=cell.seed,
        cache=cache,
        measuring_share=share,
    )
    _run(campaign, table, split, cell.seed)
    row["run_seconds"] = round(time.perf_counter() - began, 2)
    row["batches"] = [[count.labelled, count.positives] for count in campaign.ledger.counts()]
    own = campaign.task.splits[measured.name]
    row["ap_before"] = _average_precision(campaign, own, measured, 0)
    row["ap_after"] = _average_precision(campaign, own, measured, campaign.latest())
    began = time.perf_counter()
    found = find_matches(campaign, folder / "matches.csv")
    row["match_seconds"] = round(time.perf_counter() - began, 2)
    said = found.as_json()
    row["threshold"] = said["threshold"]["threshold"]
    row["reranked"] = bool(said.get("scorer", {}).get("reranked"))
    for figure in ("precision", "recall"):
        expected = said["threshold"].get(figure)
        row[f"expected_{figure}"] = expected.get("value") if isinstance(expected, dict) else expected
        if isinstance(expected, dict) and "low" in expected:
            row[f"{figure}_limits"] = [expected["low"], expected["high"]]
    return list_figures(folder / "matches.csv", split)


def _run(campaign: Campaign, table: StrangerTable, split: Split, seed: int) -> None:
    """Run to the end; where the campaign has no truth, answer its questions as the table says."""
    from pairsieve import answer_questions, open_questions
    from pairsieve.pairs import pair_ids

    step = campaign.run()
    while step.name == "label":
        asked = open_questions(campaign)
        rows = [{key: at for at, key in enumerate(side.keys)} for side in (split.left, split.right)]
        ids = pair_ids(
            [rows[0][each.left_key] for each in asked], [rows[1][each.right_key] for each in asked]
        )
        given: Sequence[bool | None] = [None] * len(asked)
        if table.answers == "wrong":
            given = wrong_answers(ids, split.positives, seed)
        pairs = [(each.left_key, each.right_key) for each in asked]
        answer_questions(campaign, dict(zip(pairs, given)), who="simulated")
        step = campaign.run()


def _average_precision(campaign: Campaign, own: Split, truth: Split, round: int) -> float | None:
    """AP over all pairs of a split by the scorer of a round; the campaign's `own` may lack the truth."""
    from pairsieve.measure.figures import exact_figures

    if not len(truth.positives):
        return None
    figures, _ = exact_figures(campaign.score(own, round).scan, truth.positives, truth.stated_negatives)
    return figures.average_precision.value


def list_figures(path: Path, split: Split) -> dict[str, Any]:
    """Precision, recall and F1 of a list of matches, read from its file and compared key by key."""
    with path.open(encoding="utf-8", newline="") as file:
        listed = {(row["left"], row["right"]) for row in csv.DictReader(file)}
    left, right = split.left.keys, split.right.keys
    truth = {(left[i >> 32], right[i & 0xFFFFFFFF]) for i in split.positives.tolist()}
    if split.space.symmetric:
        listed, truth = ({(min(pair), max(pair)) for pair in pairs} for pairs in (listed, truth))
    hits = len(listed & truth)
    return {
        "listed": len(listed),
        "precision": hits / len(listed) if listed else None,
        "recall": hits / len(truth) if truth else None,
        "f1": 2 * hits / (len(listed) + len(truth)) if listed or truth else None,
    }


def complaint(row: dict[str, Any]) -> str:
    """What must never be: an absurd threshold, or a list of nearly all pairs where few of them match."""
    if row["threshold"] is not None and abs(row["threshold"]) > ABSURD:
        return "absurd threshold"
    if row["listed"] > row["pairs"] / 10 and (row["precision"] or 0.0) < 0.1:
        return "list of all pairs"
    return ""


# ── many cells ──────────────────────────────────────────────────────────────────────────────────


def cells(tables: Sequence[str], labels: Sequence[int], seeds: Sequence[int]) -> list[Cell]:
    """Every cell; neighbours in the order are of different tables, so that few embed the same."""
    asked = [
        Cell(name, count, seed)
        for seed, count, name in product(seeds, labels, tables)
        if not TABLES[name].budgets
    ]
    own = [Cell(name, count, seed) for seed in seeds for name in tables for count in TABLES[name].budgets]
    return asked + own


def stored(out: Path) -> list[dict[str, Any]]:
    """The rows stored so far, in the order of tables, labels and seeds."""
    order = {name: at for at, name in enumerate(TABLES)}
    rows = [json.loads(path.read_text(encoding="utf-8")) for path in (out / "cells").glob("*.json")]
    known = [row for row in rows if row["table"] in order]
    return sorted(known, key=lambda row: (order[row["table"]], row["labels"], row["seed"]))


def _run_all(asked: argparse.Namespace, wanted: Sequence[Cell]) -> None:
    """The cells without a row, each in a process of its own, so many at once."""
    cores = os.cpu_count() or 1
    threads = str(max(1, cores // asked.jobs))
    limits = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    environment = {**os.environ, **limits, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    base = [sys.executable, "-m", "experiments.bench.strangers", "--out", str(asked.out)]
    base += ["--cache", str(asked.cache), "--data", str(asked.data), *(["--keep"] if asked.keep else [])]
    base += [] if asked.held_out is None else ["--held-out", str(asked.held_out)]
    base += [] if asked.share is None else ["--share", str(asked.share)]

    def run(cell: Cell) -> None:
        path = asked.out / "cells" / f"{cell.name}.json"
        began = time.perf_counter()
        words = ""
        try:
            done = subprocess.run(
                [*base, "--cell", cell.name],
                cwd=ROOT,
                env=environment,
                timeout=asked.limit,
                capture_output=True,
            )
            if done.returncode:
                words = f"exit {done.returncode}: " + done.stderr.decode(errors="replace")[-2000:]
        except subprocess.TimeoutExpired:
            words = f"not done after {asked.limit:,.0f} seconds"
            shutil.rmtree(asked.out / "campaigns" / cell.name, ignore_errors=True)
        if words:
            row = {
                "table": cell.table,
                "labels": cell.labels,
                "seed": cell.seed,
                "edge": TABLES[cell.table].edge,
            }
            row |= {"outcome": "crash", "words": words, "seconds": round(time.perf_counter() - began, 2)}
            write_text(path, json.dumps(row))
        print(_line(json.loads(path.read_text(encoding="utf-8"))), flush=True)

    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(run, wanted))


def _line(row: dict[str, Any]) -> str:
    """A finished cell, for a person who waits."""
    name = f"{row['table']:<22}{row['labels']:>5} labels, seed {row['seed']}: "
    words = row["outcome"]
    if row.get("f1") is not None:
        before, after = (
            f"{row[key]:.3f}" if row[key] is not None else "-" for key in ("ap_before", "ap_after")
        )
        words += f", F1 {row['f1']:.3f}, AP {before} to {after}, batches {shares(row)}"
    if row.get("words"):
        words += f" ({row['words'].splitlines()[0][:160]})"
    return f"{name}{words}, {row['seconds']:,.0f} s"


def shares(row: dict[str, Any]) -> str:
    """Share of matches in each batch, in percent; `?` where no label counts."""
    return " ".join(f"{100 * found / count:.0f}" if count else "?" for count, found in row.get("batches", ()))


def _missing(names: Sequence[str], data: Path, held_out: Path | None = None) -> set[str]:
    """Tables whose files are not there, each named in a line."""
    absent = set()
    for name in names:
        place = TABLES[name].place(data, held_out)
        if place is not None and not place.exists():
            print(f"{name}: skipped, {place} is not there.", flush=True)
            absent.add(name)
    return absent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--labels", default=",".join(map(str, BUDGETS)))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cache", type=Path, help="embeddings shared by all cells [OUT/cache]")
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--held-out", type=Path, help="what held_out_tables made [DATA/held-out]")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds of a cell")
    parser.add_argument("--keep", action="store_true", help="keep the campaigns' folders")
    parser.add_argument("--share", type=float, help="of each batch that is drawn to measure by")
    parser.add_argument("--again", action="store_true", help="run cells again whose outcome was not ok")
    parser.add_argument("--list", action="store_true", help="the tables")
    parser.add_argument("--show", action="store_true", help="print what is stored, run nothing")
    parser.add_argument("--page", action="store_true", help="write docs/strangers.md, run nothing")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    from experiments.bench import strangers_page as page

    if asked.list:
        for table in TABLES.values():
            print(f"{table.name:<22}{table.kind:<11}{table.about}")
        return
    if asked.page:
        page.write(stored(asked.out) if asked.out else None)
        return
    if asked.out is None:
        parser.error("--out is missing: the folder of the rows")
    asked.out = asked.out.resolve()
    asked.cache = (asked.cache or asked.out / "cache").resolve()
    asked.data = asked.data.resolve()
    asked.held_out = asked.held_out and asked.held_out.resolve()
    if asked.cell:
        table, labels, seed = asked.cell.rsplit(".", 2)
        cell = Cell(table, int(labels), int(seed))
        row = run_cell(cell, asked.out, asked.cache, asked.data, asked.keep, asked.share, asked.held_out)
        write_text(asked.out / "cells" / f"{asked.cell}.json", json.dumps(row))
        return
    if not asked.show:
        names = asked.tables.split(",")
        unknown = [name for name in names if name not in TABLES]
        if unknown:
            parser.error(f"no table {unknown[0]!r}; --list prints them")
        absent = _missing(names, asked.data, asked.held_out)
        (asked.out / "cells").mkdir(parents=True, exist_ok=True)
        done = {
            f"{row['table']}.{row['labels']}.{row['seed']}"
            for row in stored(asked.out)
            if not asked.again or row["outcome"] == "ok"
        }
        numbers = [[int(each) for each in words.split(",")] for words in (asked.labels, asked.seeds)]
        every = cells([name for name in names if name not in absent], *numbers)
        wanted = [cell for cell in every if cell.name not in done]
        print(f"{len(every):,} cells, {len(every) - len(wanted):,} of them stored.", flush=True)
        _run_all(asked, wanted)
    print(page.as_text(stored(asked.out)))


if __name__ == "__main__":
    main()

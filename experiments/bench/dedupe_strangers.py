"""dedupe on the tables of the bench of strangers: labels by its own active learner, F1 over all pairs.

    python -m experiments.bench.dedupe_strangers [--tables abt-buy,people] [--labels 400] [--seeds 0]
        [--limit SECONDS] [--memory GIB] [--data FOLDER] [--held-out FOLDER]

dedupe asks (`uncertain_pairs`), the truth answers; then it trains and joins with its default options and a
threshold of one half: groups in one table, one to one between two. Each column is a String that may be
missing, a Text where its values have over 60 characters on average. Each table runs in a process of its own,
within so many seconds and so much memory. Rows are kept in experiments/bench/results/strangers/dedupe.jsonl,
one for each table, number of labels and seed, and stand on docs/strangers.md. --held-out is the folder that
`held_out_tables` made. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.strangers_tables import SHARED, TABLES
from pairsieve.files import write_text
from pairsieve.tasks import Split
from pairsieve.tasks.joined import taken_apart

KEPT = Path(__file__).resolve().parent / "results" / "strangers" / "dedupe.jsonl"
LONG = 60  # characters of a value on average from which a column is compared as a Text
THRESHOLD = 0.5
DEFAULT = "abt-buy,amazon-google,dblp-acm,fodors-zagats,cora,settlements,products,people,places,short-names"
Records = dict[int, dict[str, Any]]


def records_of(texts: tuple[str, ...], columns: int) -> Records:
    """The records of a side: a value for each column, None where it is missing, and the row's number."""
    found = {}
    for row, text in enumerate(texts):
        values = [value.lower() or None for value in taken_apart(text)]
        values += [None] * (columns - len(values))
        found[row] = {f"c{at}": value for at, value in enumerate(values[:columns])} | {"row": row}
    return found


def variables_of(records: Records, columns: int) -> list[Any]:
    from dedupe import variables

    found = []
    for at in range(columns):
        lengths = [len(record[f"c{at}"]) for record in records.values() if record[f"c{at}"]]
        if lengths:
            kind = variables.Text if np.mean(lengths) > LONG else variables.String
            found.append(kind(f"c{at}", has_missing=True))
    return found


def run_table(name: str, labels: int, seed: int, data: Path, held_out: Path | None) -> dict[str, Any]:
    """Ask, train, join: the row to keep."""
    import dedupe

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the one that dedupe draws from
    task = TABLES[name].task(data, held_out)
    split: Split = task.splits.get("all") or task.splits["train"]
    left, right = tuple(split.left.texts), tuple(split.right.texts)
    columns = max(len(taken_apart(text)) for text in (*left[:50], *right[:50]))
    sides = [records_of(left, columns)]
    symmetric = split.space.symmetric
    if not symmetric:
        sides.append(records_of(right, columns))
    truth = set(split.positives.tolist())
    kind = dedupe.Dedupe if symmetric else dedupe.RecordLink
    began = time.perf_counter()
    model = kind(variables_of({**sides[0]}, columns), num_cores=1)
    model.prepare_training(*sides)

    def is_match(one: int, other: int) -> bool:
        first, second = (min(one, other), max(one, other)) if symmetric else (one, other)
        return first << 32 | second in truth

    counts = {"match": 0, "distinct": 0}
    while sum(counts.values()) < labels:
        try:
            asked = model.uncertain_pairs()
        except IndexError:  # nothing is left to ask about
            break
        for one, other in asked:
            answer = "match" if is_match(one["row"], other["row"]) else "distinct"
            counts[answer] += 1
            given: dict[str, list[Any]] = {"match": [], "distinct": []}
            given[answer].append((one, other))
            model.mark_pairs(given)
    model.train()
    if symmetric:
        groups = [rows for rows, _ in model.partition(*sides, threshold=THRESHOLD)]
        listed = {min(p) << 32 | max(p) for rows in groups for p in combinations(map(int, rows), 2)}
    else:
        joined = model.join(*sides, threshold=THRESHOLD, constraint="one-to-one")
        listed = {int(pair[0]) << 32 | int(pair[1]) for pair, _ in joined}
    hits = len(listed & truth)
    return {
        "precision": hits / max(len(listed), 1),
        "recall": hits / len(truth),
        "f1": 2 * hits / (len(listed) + len(truth)),
        "asked": sum(counts.values()),
        "matches_asked": counts["match"],
        "seconds": round(time.perf_counter() - began, 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def kept() -> list[dict[str, Any]]:
    """The rows stored so far."""
    if not KEPT.exists():
        return []
    return [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()]


def keep(row: dict[str, Any]) -> None:
    """Store a row in place of the one of the same table, number of labels and seed."""
    names = ("table", "labels", "seed")
    others = [one for one in kept() if any(one[name] != row[name] for name in names)]
    order = list(TABLES)
    rows = sorted([*others, row], key=lambda one: (order.index(one["table"]), one["labels"], one["seed"]))
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    write_text(KEPT, "".join(json.dumps(one) + "\n" for one in rows))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", default=DEFAULT)
    parser.add_argument("--labels", type=int, default=400)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of a table")
    parser.add_argument("--memory", type=float, default=8.0, help="GiB of a table")
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--held-out", type=Path, help="what held_out_tables made [DATA/held-out]")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        most = int(asked.memory * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        done = run_table(asked.tables, asked.labels, int(asked.seeds), asked.data, asked.held_out)
        print(json.dumps(done))
        return
    for name in asked.tables.split(","):
        for seed in asked.seeds.split(","):
            own = ["--tables", name, "--labels", str(asked.labels), "--seeds", seed]
            limits = ["--memory", str(asked.memory), "--data", str(asked.data), "--one"]
            limits += [] if asked.held_out is None else ["--held-out", str(asked.held_out)]
            command = [sys.executable, "-m", "experiments.bench.dedupe_strangers", *own, *limits]
            row: dict[str, Any] = {"table": name, "labels": asked.labels, "seed": int(seed)}
            row["program"] = f"dedupe {version('dedupe')}"
            try:
                ran = subprocess.run(command, timeout=asked.limit, capture_output=True, text=True)
                lines = ran.stdout.splitlines()
                row |= json.loads(lines[-1]) if not ran.returncode and lines else {"words": "failed"}
                if ran.returncode:
                    print(ran.stderr[-800:], file=sys.stderr)
            except subprocess.TimeoutExpired:
                row["words"] = f"not done after {asked.limit:,.0f} seconds"
            keep(row)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

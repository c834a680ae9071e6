"""What the measuring share costs: F1 and AP of cells with it beside the same budget without it.

    python -m experiments.bench.measuring_cost --share FOLDER --without FOLDER [--out FILE.json]

The folders are those of two runs of the bench of strangers, the second with `--share 0`: same tables, labels
and seeds. Printed by table: how many seeds, mean F1 and AP with and without the share, and their difference;
at the end the mean difference over tables with its standard error.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.strangers import stored
from pairsieve.files import write_text

FIGURES = {"f1": "f1", "ap": "ap_after"}


def compared(share: list[dict[str, Any]], without: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a table and number of labels, over the seeds that both have."""
    cells: dict[tuple[str, int], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    other = {(row["table"], row["labels"], row["seed"]): row for row in without if _measured(row)}
    for row in share:
        key = (row["table"], row["labels"], row["seed"])
        if _measured(row) and key in other:
            cells.setdefault(key[:2], []).append((row, other[key]))
    return [
        {
            "table": table,
            "labels": labels,
            "seeds": len(pairs),
            **{
                f"{name}{suffix}": float(np.mean([pair[at][key] for pair in pairs]))
                for name, key in FIGURES.items()
                for at, suffix in enumerate(("", "_without"))
            },
        }
        for (table, labels), pairs in cells.items()
    ]


def _measured(row: dict[str, Any]) -> bool:
    return row["outcome"] == "ok" and not row["edge"] and row["f1"] is not None and bool(row["ap_after"])


def mean_cost(rows: list[dict[str, Any]], figure: str) -> tuple[float, float]:
    """The mean difference over tables, with the share less without, and its standard error."""
    differences = np.array([row[figure] - row[f"{figure}_without"] for row in rows])
    error = differences.std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.nan
    return float(differences.mean()), float(error)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--share", type=Path, required=True)
    parser.add_argument("--without", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    rows = compared(stored(asked.share), stored(asked.without))
    print(f"{'table':22}{'labels':>7}{'seeds':>6}{'F1':>8}{'without':>9}{'AP':>8}{'without':>9}")
    for row in rows:
        figures = f"{row['f1']:8.3f}{row['f1_without']:9.3f}{row['ap']:8.3f}{row['ap_without']:9.3f}"
        print(f"{row['table']:22}{row['labels']:7,}{row['seeds']:6}{figures}")
    for figure in FIGURES if rows else ():
        mean, error = mean_cost(rows, figure)
        print(f"{figure.upper()} with the share less without it: {mean:+.4f} ± {error:.4f}")
    if asked.out:
        write_text(asked.out, json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Coverage and width of the advice's predictions: what it said after each round, and what came.

    python -m experiments.bench.advice CAMPAIGN... [--verbose] [--json FILE]

Reads the figures of finished campaigns. After each round but the last it asks for advice from the figures so
far, and compares: matches of the next batch (90 % interval; at least 85 % should lie within), matches left
where the truth is known (95 %), and AP after the next batch (90 %). Beside the coverage of the next batch it
prints the median width of its interval as a share of the batch.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.advice import advise
from pairsieve.campaign import Campaign
from pairsieve.measure.figures import RoundFigures


def compare(rows: list[RoundFigures], positives: int | None) -> list[dict[str, Any]]:
    """For every round but the last: the advice after it, and what came; `positives`: all, where known."""
    found = []
    for at in range(1, len(rows)):
        before, after = rows[:at], rows[at]
        advice = advise(before, after.batch.labels)
        left = None if positives is None else positives - before[-1].positives
        ap = advise(rows[: at + 1], 0).ap
        row: dict[str, Any] = {"round": after.round, "labels": advice.next_labels}
        for name, said, came in (
            ("next", advice.next_positives, after.batch.positives),
            ("left", advice.left, left),
            ("ap", advice.ap_after, ap),
        ):
            if said is not None and came is not None:
                within = said.low <= came <= said.high
                row[name] = {"low": said.low, "high": said.high, "came": came, "within": within}
        found.append({**row, "sentence": advice.sentence})
    return found


def _coverage(rows: list[dict[str, Any]], name: str) -> str:
    known = [row[name]["within"] for row in rows if name in row]
    return f"{100 * np.mean(known):.0f} % of {len(known)}" if known else "-"


def _columns(rows: list[dict[str, Any]]) -> str:
    widths = [(row["next"]["high"] - row["next"]["low"]) / max(row["labels"], 1) for row in rows]
    cells = [_coverage(rows, "next"), f"{np.median(widths):.0%}" if widths else "-"]
    return "".join(f"{cell:>15}" for cell in (*cells, _coverage(rows, "left"), _coverage(rows, "ap")))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("campaigns", type=Path, nargs="+", help="campaign folders")
    parser.add_argument("--verbose", action="store_true", help="print each sentence and what came")
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    every: list[dict[str, Any]] = []
    print(f"{'campaign':<34}" + "".join(f"{head:>15}" for head in ("next batch", "width", "left", "AP")))
    for folder in args.campaigns:
        campaign = Campaign(folder)
        split = campaign.split
        figures = [row for _, row in sorted(campaign.figures().items())]
        rows = compare(figures, len(split.positives) if split.has_truth else None)
        print(f"{folder.name:<34}{_columns(rows)}", flush=True)
        for row in rows if args.verbose else ():
            print(f"  round {row['round']}: {row['next']['came']:g} matches came. Said: {row['sentence']}")
        every += [{"campaign": folder.name, **row} for row in rows]
    print(f"{'together':<34}{_columns(every)}")
    if args.json:
        args.json.write_text(json.dumps(every, indent=1))


if __name__ == "__main__":
    main()

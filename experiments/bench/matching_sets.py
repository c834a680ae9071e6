"""Matching benchmarks: F1 of a list of matches over the whole product of two tables, with few labels.

    python -m experiments.bench.matching_sets [--data FOLDER] [--set abt-buy ...] [--labels 1400]
        [--rounds 10] [--encoder FOLDER] [--left-prefix "query: "] [--right-prefix "query: "] [--learner auto]
        [--strategy uncertainty] [--seeds 1] [--cross] [--device auto] [--out FOLDER] [--json FILE]

As DIAL (Jain, Sarawagi and Sen, 2021) measures: the pool of questions is the whole product of both tables,
and F1 is over all its pairs. The threshold is chosen from the labels bought; no truth is looked at before the
figures are. For each set one campaign is run, and its matches are listed several ways:

    bi-encoder      the bi-encoder's scores of all pairs, whatever the labels say of a pair
    re-ranker       with the re-ranker, where out-of-fold labels rank better with it
    with labels     the same, labelled pairs listed as labelled: what a user gets
    one to one      the same, at most one partner a text
    cross-encoder   a re-ranker that reads both texts with a cross-encoder (--cross; wants a GPU)

F1 is over all pairs, labelled ones included (they are in the pool); `unasked` is F1 over the pairs nobody was
asked about, and `best F1` that of the best threshold, which looks at the truth.

Each campaign stays in --out and is resumed by running again. --data holds one folder a set, of any layout
that `pairsieve data matching` knows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.campaign import Campaign, create_campaign
from pairsieve.matches.find import find_matches, split_named
from pairsieve.matches.listing import read_list
from pairsieve.matches.options import ListOptions
from pairsieve.pairs import is_member
from pairsieve.settings import Schedule
from pairsieve.tasks import matching_task, save_task

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "matching"
DIAL = {"abt-buy": 0.923, "amazon-google": 0.821, "dblp-acm": 0.991}  # F1, as its authors report
GOALS = {"abt-buy": 0.85, "amazon-google": 0.75, "dblp-acm": 0.985}
CROSS = "cross-encoder"
WAYS = {  # the setting `reranker`, and how the list is made
    "bi-encoder": ("off", ListOptions("labels", known=False)),
    "re-ranker": ("auto", ListOptions("labels", known=False)),
    "with labels": ("auto", ListOptions("labels")),
    "one to one": ("auto", ListOptions("labels", one_to_one=True)),
    CROSS: (CROSS, ListOptions("labels", known=False)),
}


def one_set(args: argparse.Namespace, source: Path, seed: int) -> list[dict[str, Any]]:
    """A campaign on one set, and its lists."""
    task_folder = args.out / f"{source.name}-task"
    if not (task_folder / "task.json").exists():
        save_task(matching_task(source), task_folder)
    folder = args.out / f"{source.name}-{args.strategy}-{seed}"
    began = time.perf_counter()
    if not (folder / "campaign.toml").exists():
        create_campaign(
            folder,
            task_folder,
            split="all",
            measure_splits=(),
            strategy=args.strategy,
            encoder=args.encoder,
            learner=args.learner,
            left_prefix=args.left_prefix,
            right_prefix=args.right_prefix,
            learning_rate=args.learning_rate,
            device=args.device,
            seed=seed,
            schedule=Schedule(first_batch=args.labels // args.rounds, growth=1.0, rounds=args.rounds),
        )
    campaign = Campaign(folder, args.cache or args.out / "cache")
    campaign.run(lambda words: print(f"  {folder.name}: {words}", flush=True))
    seconds = time.perf_counter() - began
    bought = campaign.status().rounds[-1]
    rows = []
    for name, (reranker, options) in WAYS.items():
        if name == CROSS and not args.cross:
            continue
        began = time.perf_counter()
        scored = Campaign(folder, args.cache or args.out / "cache")
        scored.settings = replace(scored.settings, reranker=reranker)
        out = folder / f"{name.replace(' ', '-')}.csv"
        found = find_matches(scored, split_named(scored, "all"), out, options=options)
        assert found.written is not None and found.written.truth is not None
        truth = found.written.truth
        listed = truth.listed.as_json()
        rows.append(
            {
                "set": source.name,
                "seed": seed,
                "way": name,
                "reranked": found.ranked.reranked,
                "labels": bought.labels,
                "positives": bought.positives,
                "average_precision": truth.average_precision,
                **{figure: listed.get(figure, 0.0) for figure in ("precision", "recall", "f1")},
                "unasked_f1": unasked_f1(campaign, out),
                "best_f1": truth.best_f1.value,
                "campaign_seconds": seconds,
                "match_seconds": time.perf_counter() - began,
            }
        )
        print(f"  {folder.name}, {name}: F1 {rows[-1]['f1']:.4f}", flush=True)
    return rows


def unasked_f1(campaign: Campaign, out: Path) -> float:
    """F1 of a list over the pairs nobody was asked about: labels bought neither help nor count."""
    part, asked = campaign.split, campaign.ledger.asked()
    left = {key: row for row, key in enumerate(part.left.keys)}
    right = {key: row for row, key in enumerate(part.right.keys)}
    rows = [(left[row["left"]], right[row["right"]]) for row in read_list(out)]
    ids = np.sort(part.space.ids(*zip(*rows))) if rows else np.empty(0, np.int64)
    listed, true = (some[~is_member(some, asked)] for some in (ids, part.positives))
    found = int(is_member(listed, true).sum())
    return 2 * found / max(len(listed) + len(true), 1)


def table(rows: list[dict[str, Any]]) -> str:
    """Means over seeds, a line a set and way."""
    figures_shown = ("AP", "precision", "recall", "F1", "unasked", "best F1", "goal", "DIAL")
    head = ("set", "way", "labels", "positives", *figures_shown)
    lines = [f"{head[0]:<15}{head[1]:<15}" + "".join(f"{word:>10}" for word in head[2:])]
    for name, way in dict.fromkeys((row["set"], row["way"]) for row in rows):
        matching_rows = [row for row in rows if (row["set"], row["way"]) == (name, way)]

        def mean(figure: str, matching_rows: list[dict[str, Any]] = matching_rows) -> float:
            return float(statistics.mean(row[figure] for row in matching_rows))

        figures = ("average_precision", "precision", "recall", "f1", "unasked_f1", "best_f1")
        known = [f"{known[name]:.3f}" if name in known else "-" for known in (GOALS, DIAL)]
        lines.append(
            f"{name:<15}{way:<15}{mean('labels'):>10,.0f}{mean('positives'):>10,.0f}"
            + "".join(f"{mean(figure):>10.4f}" for figure in figures)
            + "".join(f"{word:>10}" for word in known)
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=SHARED, help="a folder with one folder a set")
    parser.add_argument("--set", action="append", default=[], dest="sets", help="[the three of DIAL]")
    parser.add_argument("--labels", type=int, default=1400)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--left-prefix", default="")
    parser.add_argument("--right-prefix", default="")
    parser.add_argument("--learner", default="auto")
    parser.add_argument("--learning-rate", type=float, default=None)
    parser.add_argument("--strategy", default="uncertainty")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--cross", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cache", type=Path, default=None, help="embeddings shared with other runs")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--json", type=Path, default=None, help="also write the rows here")
    args = parser.parse_args()
    args.out = args.out or Path(tempfile.mkdtemp(prefix="matching-"))
    args.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for name in args.sets or list(DIAL):
        for seed in range(args.seeds):
            rows += one_set(args, args.data / name, seed)
            if args.json:
                args.json.write_text(json.dumps(rows, indent=1))
    encoder = Path(args.encoder).name
    print(f"\nencoder {encoder}, learner {args.learner}, {args.labels:,} labels in {args.rounds} rounds")
    print(table(rows))


if __name__ == "__main__":
    main()

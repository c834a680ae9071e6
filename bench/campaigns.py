"""How good is a whole campaign, over several seeds? Test AP over all pairs after every label is bought.

    python bench/campaigns.py --task TASK --encoder FOLDER --seeds 3 [--strategy uncertainty] [--rounds 4]
        [--learner full] [--recipe best|paper] [--crowding 0] [--leaning 0] [--split dev]
        [--left-prefix P] [--right-prefix P] [--out FOLDER]
    python bench/campaigns.py --task TASK --encoder NAME --recipe paper --rows-of FILE.json --results results
        [--claims bench/results/NAME.json --limit SECONDS --machine WORDS]

`pairsieve experiment recipes` (ten rounds: `whole-budget`) has the same cells and keeps more of each; the
second form puts figures that this bench printed (`--json`) among the stored results of experiments, and its
seconds among the claims that `performance.py` makes a page of.

Each seed is a campaign of its own in --out, resumable like any other; the test split is measured exactly,
once, after the last round. Prints one row a strategy: mean and standard error over seeds, positives
found, seconds by phase, and the untrained encoder's AP beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from pairsieve.campaign import Campaign, create_campaign, round_line
from pairsieve.experiments.results import Row, latest, write_rows
from pairsieve.measure.figures import exact_figures
from pairsieve.settings import Schedule


def one_campaign(args: argparse.Namespace, strategy: str, seed: int, cache: Path) -> dict:
    folder = args.out / f"{args.task.name}-{strategy.replace(':', '-').replace('/', '-')}-{seed}"
    began = time.perf_counter()
    if not (folder / "campaign.toml").exists():
        create_campaign(
            folder,
            args.task,
            strategy=strategy,
            encoder=str(args.encoder),
            learner=args.learner,
            seed=seed,
            search=args.search,
            left_prefix=args.left_prefix,
            right_prefix=args.right_prefix,
            schedule=Schedule(first_batch=args.first_batch, growth=args.growth, rounds=args.rounds),
            device=args.device,
            learning_rate=args.learning_rate,
            recipe=args.recipe,
            crowding=args.crowding,
            leaning=args.leaning,
        )
    campaign = Campaign(folder, cache)
    campaign.run(lambda words: print(f"  {folder.name}: {words}", flush=True))
    rounds = campaign.status()["rounds"]
    seconds = time.perf_counter() - began
    part = campaign.task.splits[args.split]
    last = campaign.latest()
    plain = campaign.plain_scan(part.space, *campaign.plain_embeddings(campaign.matcher(0), part, 0))
    frozen, _ = exact_figures(plain, part.positives, part.stated_negatives)
    test = campaign.measure(campaign.matcher(last), part, last)
    print(
        f"  {folder.name}: {args.split} AP {test['average_precision']['value']:.4f}, "
        f"{seconds:.1f} s for the campaign; {round_line(rounds[-1])}",
        flush=True,
    )
    return {
        "strategy": strategy,
        "seed": seed,
        "labels": rounds[-1]["labels"],
        "asked": [row["labels"] for row in rounds],
        "positives": rounds[-1]["positives"],
        "positives_by_round": [row["positives"] for row in rounds],
        "average_precision": test["average_precision"]["value"],
        "precision_at_recall_0.2": test["precision_at_recall"]["0.2"]["value"],
        "frozen_average_precision": frozen["average_precision"]["value"],
        "dev_by_round": [row.get("average_precision", {}).get("value") for row in rounds],
        "seconds": seconds,
        "seconds_by_phase": {
            phase: round(sum(row["seconds"].get(phase, 0.0) for row in rounds), 1)
            for phase in ("embed", "select", "train", "measure")
        },
    }


def rows_of(path: Path, task: str, encoder: str, recipe: str, device: str) -> list[Row]:
    """Figures that this bench wrote with --json, as rows of `recipes`, or of `whole-budget`."""
    made = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    found = []
    for run in json.loads(path.read_text()):

        def add(model: str, number: int, split: str, measure: str, value: float, run: dict = run) -> None:
            cosine = model == "cosine"
            found.append(
                Row(
                    experiment="recipes" if len(run["asked"]) == 4 else "whole-budget",
                    task=task,
                    task_fingerprint="",
                    encoder=encoder,
                    encoder_fingerprint="",
                    model=model,
                    learner="full" if cosine else "",
                    recipe=recipe if cosine else "",
                    strategy=run["strategy"] if cosine else "",
                    seed_set="static" if cosine else "",
                    schedule=f"2048x1.5x{len(run['asked'])}" if cosine else "",
                    seed=run["seed"] if cosine else 0,
                    round=number,
                    labels=run["asked"][number - 1] if number else 0,
                    split=split,
                    measure=measure,
                    counting="distinct",
                    value=value,
                    low=value,
                    high=value,
                    n=0,
                    method="exact",
                    device=device,
                    made_at=made,
                    source=f"python bench/campaigns.py --task {task} --encoder {encoder} --recipe {recipe}"
                    + (f" --rounds {len(run['asked'])}" if len(run["asked"]) != 4 else ""),
                )
            )

        last = len(run["asked"])
        if run["asked"] != np.cumsum(Schedule(rounds=last).batches()).tolist() or last not in (4, 10):
            raise SystemExit(f"{path}: not four or ten rounds from 2048 with growth 1.5")
        if recipe == "paper":  # plain cosines, as the encoder comes
            add("untrained", 0, "test", "average_precision", run["frozen_average_precision"])
        for number, (ap, positives) in enumerate(zip(run["dev_by_round"], run["positives_by_round"]), 1):
            add("cosine", number, "dev", "average_precision", ap)
            add("cosine", number, "train", "positives_found", positives)
        add("cosine", last, "test", "average_precision", run["average_precision"])
        add("cosine", last, "test", "precision_at_recall_0.2", run["precision_at_recall_0.2"])
    return latest(found)


def claim_of(run: dict, task: str, encoder: str, limit: float, machine: str) -> dict:
    """The seconds of one campaign beside the limit set for it, as `claims.py` writes them."""
    spent = run["seconds_by_phase"]
    rest = run["seconds"] - sum(spent.values())
    phases = ", ".join(f"{phase} {seconds:.0f} s" for phase, seconds in spent.items())
    return {
        "claim": f"the paper's whole campaign: {run['labels']:,} labels, {len(run['asked'])} rounds",
        "ours": "every phase, ledger and advice included",
        "ours_s": run["seconds"],
        "peer": "the limit",
        "peer_s": limit,
        "ratio": limit / run["seconds"],
        "asked": f"under {limit / 60:g} min",
        "peak_gib": None,
        "size": f"{task}, {encoder}, batch 16, 2 epochs, afresh every round",
        "note": f"{phases}, the rest {rest:.0f} s; test AP {run['average_precision']:.4f}",
        "machine": machine,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", type=Path, required=True)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--strategy", action="append", default=[])
    parser.add_argument("--learner", default="auto")
    parser.add_argument("--recipe", default="best", choices=("best", "paper"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--first-batch", type=int, default=2048)
    parser.add_argument("--growth", type=float, default=1.5)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--search", default="exact")
    parser.add_argument("--split", default="test")
    parser.add_argument("--left-prefix", default="")
    parser.add_argument("--right-prefix", default="")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--learning-rate", type=float, default=None)
    parser.add_argument("--crowding", type=float, default=None, help="how much rivals count; 0: not at all")
    parser.add_argument("--leaning", type=float, default=None, help="how much texts lean; 0: not at all")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--json", type=Path, default=None, help="also write the rows here")
    parser.add_argument("--rows-of", type=Path, default=None, help="only convert what --json wrote before")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--claims", type=Path, default=None, help="with --rows-of: a file of claims")
    parser.add_argument("--limit", type=float, default=480.0, help="with --claims: seconds")
    parser.add_argument("--machine", default="NVIDIA H200", help="with --claims: where it was run")
    args = parser.parse_args()
    if args.rows_of:
        encoder = Path(str(args.encoder)).name
        rows = rows_of(args.rows_of, args.task.name, encoder, args.recipe, args.device)
        name = f"bench-campaigns.{args.task.name}.{encoder}.{args.recipe}"
        target = args.results / f"{name}{'' if rows[0].experiment == 'recipes' else '.whole'}.parquet"
        write_rows(target, rows)
        print(target)
        if args.claims:
            old = json.loads(args.claims.read_text()) if args.claims.exists() else []
            made = [
                claim_of(run, args.task.name, encoder, args.limit, args.machine)
                for run in json.loads(args.rows_of.read_text())
            ]
            kept = [claim for claim in old if claim["size"] not in {each["size"] for each in made}]
            args.claims.write_text(json.dumps([*kept, *made], indent=1) + "\n")
        return
    args.out = args.out or Path(tempfile.mkdtemp(prefix="campaigns-"))
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for strategy in args.strategy or ["uncertainty"]:
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            rows.append(one_campaign(args, strategy, seed, args.out / "cache"))
            if args.json:
                args.json.write_text(json.dumps(rows, indent=1))
    print(f"\n{args.task.name}, {args.split}, encoder {Path(str(args.encoder)).name}, learner {args.learner}")
    print(
        f"{'strategy':<24}{'labels':>9}{'positives':>11}{'AP':>9}{'s.e.':>8}{'P@R20':>8}{'frozen':>8}{'seconds':>9}"
    )
    for strategy in dict.fromkeys(row["strategy"] for row in rows):
        mine = [row for row in rows if row["strategy"] == strategy]
        ap = [row["average_precision"] for row in mine]
        error = statistics.stdev(ap) / len(ap) ** 0.5 if len(ap) > 1 else float("nan")
        mean = statistics.mean
        print(
            f"{strategy:<24}{mine[0]['labels']:>9,}{mean([r['positives'] for r in mine]):>11,.0f}"
            f"{mean(ap):>9.4f}"
            f"{error:>8.4f}{mean([r['precision_at_recall_0.2'] for r in mine]):>8.4f}"
            f"{mine[0]['frozen_average_precision']:>8.4f}{mean([r['seconds'] for r in mine]):>9.1f}"
        )


if __name__ == "__main__":
    main()

"""Does another way of choosing than plain uncertainty pay? One change at a time, several seeds, on dev.

    python bench/choosing.py --task TASK [--encoder NAME] [--learner projection] [--seeds 3] [--ways NAME ...]
        [--first-batch 50] [--growth 1.66] [--rounds 7] [--cache FOLDER] [--out FOLDER]

Ways, each a strategy of a few lines:
  uncertainty  nearest one half, as the product has it
  spread       nearest one half, but no text in more than a few pairs of a batch
  half-top     half of each batch nearest one half, half those surest to match
  lower        nearest a probability of one quarter
  second-look  nearest one half by words and rivals, as the product has it

Prints AP over all pairs of dev after every round, mean and standard error over seeds, and the difference to
uncertainty of the same seeds. The test split is never read.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from pathlib import Path

import numpy as np

from pairsieve import strategies
from pairsieve.campaign import Campaign, create_campaign
from pairsieve.contracts import RoundView, Selection, Strategy
from pairsieve.pairs import is_member, pair_rows
from pairsieve.settings import Schedule

QUARTER = -math.log(3)  # the logit of one quarter


def spread(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    near = view.closest(view.boundary, min(4 * budget, view.space.size - len(view.asked)))
    order = near.ids[np.argsort(np.abs(near.scores - view.boundary), kind="stable")]
    most = max(1, math.ceil(2 * budget / min(view.space.shape)))
    kept, seen = [], {}
    for id_, *sides in zip(order.tolist(), *(side.tolist() for side in pair_rows(order)), strict=True):
        names = [("left", sides[0]), ("left" if view.space.symmetric else "right", sides[1])]
        if all(seen.get(name, 0) < most for name in names):
            kept.append(id_)
            for name in names:
                seen[name] = seen.get(name, 0) + 1
    chosen = np.array(kept[:budget], np.int64)
    rest = order[~is_member(order, np.sort(chosen))][: budget - len(chosen)]
    return Selection(np.sort(np.concatenate([chosen, rest])), "uncertain, spread over texts")


def half_top(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    top = view.best(budget // 2).ids
    near = view.closest(view.boundary, budget).ids
    return Selection(
        np.sort(np.concatenate([top, near[~is_member(near, top)][: budget - len(top)]])), "top and uncertain"
    )


def lower(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    return Selection(view.closest(view.boundary + QUARTER, budget).ids, "nearest one quarter")


TRIED: dict[str, Strategy] = {"spread": spread, "half-top": half_top, "lower": lower}
WAYS = ("uncertainty", *TRIED, "second-look")


def by_round(args: argparse.Namespace, way: str, seed: int) -> dict[int, float]:
    """Labels bought -> AP over all pairs of dev."""
    folder = args.out / f"{args.task.name}-{way}-{seed}"
    if not (folder / "campaign.toml").exists():
        create_campaign(
            folder,
            args.task,
            strategy=way,
            encoder=args.encoder,
            learner=args.learner,
            seed=seed,
            schedule=Schedule(first_batch=args.first_batch, growth=args.growth, rounds=args.rounds),
        )
    campaign = Campaign(folder, args.cache)
    campaign.run()
    return {row["labels"]: row["average_precision"]["value"] for row in campaign.status()["rounds"]}


def mean(values: list[float]) -> str:
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):+.4f} ± {error:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", type=Path, required=True)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--learner", default="projection")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--first-batch", type=int, default=50)
    parser.add_argument("--growth", type=float, default=1.66)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    args.out = args.out or Path(tempfile.mkdtemp(prefix="choosing-"))
    strategies.BUILT_IN.update({name: (way, True) for name, way in TRIED.items()})

    seeds = range(args.seeds)
    base = [by_round(args, "uncertainty", seed) for seed in seeds]
    labels = list(base[0])
    print(f"{'labels':<12} " + " ".join(f"{at:>17,}" for at in labels), flush=True)
    print(f"{'uncertainty':<12} " + " ".join(f"{mean([run[at] for run in base]):>17}" for at in labels))
    for way in args.ways:
        if way == "uncertainty":
            continue
        runs = [by_round(args, way, seed) for seed in seeds]
        gains = [[run[at] - plain[at] for run, plain in zip(runs, base, strict=True)] for at in labels]
        print(f"{way:<12} " + " ".join(f"{mean(each):>17}" for each in gains), flush=True)


if __name__ == "__main__":
    main()

"""Query strategies beside plain uncertainty sampling: gain in AP over all dev pairs, paired by seed.

    python -m experiments.bench.query_strategies --task TASK [--encoder NAME] [--learner projection]
        [--seeds 3] [--strategy NAME ...] [--first-batch 50] [--growth 1.66] [--rounds 7] [--cache FOLDER]
        [--out FOLDER]

Each is a strategy of a few lines:
  uncertainty  nearest one half, as `pairsieve run` has it
  half-top     half of each batch nearest one half, half those surest to match
  lower        nearest a probability of one quarter

Prints AP over all pairs of dev after every round, mean and standard error over seeds, and the difference to
uncertainty with the same seeds. The test split is never read. The runs are those of `python -m experiments`.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments.definitions import SMALL_SCHEDULE, Experiment, schedule_label
from experiments.results import file_for, read_file
from experiments.runner import run_experiments
from experiments.setup import Setup
from pairsieve import strategies
from pairsieve.contracts import RoundView, Selection, Strategy
from pairsieve.pairs import is_member
from pairsieve.settings import Schedule

DEV_AP = ("dev", "average_precision", "distinct")
QUARTER = -math.log(3)  # the logit of one quarter


def half_top(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    top = view.best(budget // 2).ids
    near = view.closest(view.boundary, budget).ids
    return Selection(
        np.sort(np.concatenate([top, near[~is_member(near, top)][: budget - len(top)]])), "top and uncertain"
    )


def lower(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    return Selection(view.closest(view.boundary + QUARTER, budget).ids, "nearest one quarter")


TRIED: dict[str, Strategy] = {"half-top": half_top, "lower": lower}
EXPERIMENT = Experiment(
    name="query-strategies",
    shows="ours",
    question="Does another query strategy gain on uncertainty sampling?",
    layout="curves",
    strategies=("uncertainty", *TRIED),
    recipes=("best",),
    schedules=(SMALL_SCHEDULE,),
    untrained=False,
    split="dev",
)


def dev_ap(setup: Setup, strategy: str, schedule: Schedule) -> dict[int, dict[int, float]]:
    """Labels bought -> seed -> AP over all pairs of dev."""
    stored = read_file(file_for(setup.out, EXPERIMENT.name, setup.task.name, setup.encoder_label))
    wanted = (strategy, setup.learner_name, schedule_label(schedule), *DEV_AP)
    found: dict[int, dict[int, float]] = {}
    for row in sorted(stored, key=lambda row: (row.labels, row.seed)):
        if (row.strategy, row.learner, row.schedule, row.split, row.measure, row.counting) == wanted:
            found.setdefault(row.labels, {})[row.seed] = row.value
    return found


def mean(values: list[float]) -> str:
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):+.4f} ± {error:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = EXPERIMENT.strategies[1:]
    parser.add_argument("--task", type=Path, required=True)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--learner", default="projection")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--strategy", nargs="+", choices=names, default=names)
    parser.add_argument("--first-batch", type=int, default=SMALL_SCHEDULE.first_batch)
    parser.add_argument("--growth", type=float, default=SMALL_SCHEDULE.growth)
    parser.add_argument("--rounds", type=int, default=SMALL_SCHEDULE.rounds)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="[a temporary folder]")
    args = parser.parse_args()
    strategies.BUILT_IN.update({name: (strategy, True) for name, strategy in TRIED.items()})
    setup = Setup(
        task_folder=args.task,
        encoder_name=args.encoder,
        out=args.out or Path(tempfile.mkdtemp(prefix="query-strategies-")),
        measured_splits=("dev",),
        learner=args.learner,
        cache=args.cache,
        device=args.device,
        source=f"python -m experiments.bench.query_strategies --task {args.task.name}",
    )
    schedule = replace(SMALL_SCHEDULE, first_batch=args.first_batch, growth=args.growth, rounds=args.rounds)
    for strategy in ("uncertainty", *args.strategy):
        experiment = replace(EXPERIMENT, strategies=(strategy,), schedules=(schedule,))
        outcome = run_experiments([experiment], [setup], args.seeds)
        if outcome.refused:
            raise SystemExit("\n".join(outcome.refused.values()))
        aps = dev_ap(setup, strategy, schedule)
        if strategy == "uncertainty":
            base = aps
            print(f"{'labels':<20} " + " ".join(f"{labels:>17,}" for labels in base), flush=True)
            rows = [list(by_seed.values()) for by_seed in base.values()]
        else:
            rows = [
                [aps[labels][seed] - by_seed[seed] for seed in by_seed] for labels, by_seed in base.items()
            ]
        print(f"{strategy:<20} " + " ".join(f"{mean(values):>17}" for values in rows), flush=True)


if __name__ == "__main__":
    main()

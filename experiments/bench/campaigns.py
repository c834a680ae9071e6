"""Seconds of a whole campaign, by phase, beside a limit: the paper's ten rounds (experiment `whole-budget`).

    python -m experiments.bench.campaigns --task TASK --encoder NAME [NAME ...] [--recipe paper] [--limit 480]
        [--rounds 10] [--first-batch 2048] [--growth 1.5] [--left-prefix P] [--right-prefix P] [--seed 0]
        [--out FOLDER] [--json FILE]

Each encoder is one run of the experiment, in a new folder below --out. The clock runs from the first choice
to the last measurement; the run's figures are then stored in --out, as `python -m experiments` stores them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from experiments.bench.claims import Claim, finish
from experiments.definitions import WHOLE_SCHEDULE, experiment_named
from experiments.results import add_rows, file_for
from experiments.runner import rows_of
from experiments.runs import execute, open_campaign, run_folder
from experiments.setup import Setup
from pairsieve.settings import Schedule

PHASES = ("embed", "select", "train", "measure")


def timed(setup: Setup, schedule: Schedule, recipe: str, seed: int, limit: float) -> Claim:
    """One campaign's seconds beside the limit."""
    experiment = replace(
        experiment_named("whole-budget"),
        strategies=("uncertainty",),
        recipes=(recipe,),
        schedules=(schedule,),
        untrained=False,
    )
    (run,) = experiment.runs([seed])
    campaign = open_campaign(run, setup, run_folder(run, setup))
    start = time.perf_counter()
    campaign.run(lambda words: print(f"  {setup.encoder_label}: {words}", flush=True))
    seconds = time.perf_counter() - start
    rounds = campaign.status().rounds
    spent = {phase: sum(row.seconds.get(phase, 0.0) for row in rounds) for phase in PHASES}
    result = execute(run, setup, print)
    path = file_for(setup.out, experiment.name, setup.task.name, setup.encoder_label)
    add_rows(path, rows_of(experiment, setup, run, result))
    wanted = ("average_precision", "test", "distinct")
    aps = [f["value"] for f in result["figures"] if (f["measure"], f["split"], f["counting"]) == wanted]
    phases = ", ".join(f"{phase} {value:.0f} s" for phase, value in spent.items())
    note = f"{phases}, the rest {seconds - sum(spent.values()):.0f} s"
    return Claim(
        claim=f"the paper's whole campaign: {rounds[-1].labels:,} labels, {len(rounds)} rounds",
        ours="every phase, ledger and advice included",
        ours_s=seconds,
        peer="the limit",
        peer_s=limit,
        ratio=limit / seconds,
        asked=f"under {limit / 60:g} min",
        peak_gib=None,
        size=f"{setup.task.name}, {setup.encoder_label}, recipe {recipe}",
        note=note + (f"; test AP {aps[-1]:.4f}" if aps else ""),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", type=Path, required=True)
    parser.add_argument("--encoder", nargs="+", default=["all-MiniLM-L6-v2"])
    parser.add_argument("--recipe", default="paper", help="best or paper, or either with changed settings")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=WHOLE_SCHEDULE.rounds)
    parser.add_argument("--first-batch", type=int, default=WHOLE_SCHEDULE.first_batch)
    parser.add_argument("--growth", type=float, default=WHOLE_SCHEDULE.growth)
    parser.add_argument("--limit", type=float, default=480.0, help="seconds")
    parser.add_argument("--left-prefix", default=None)
    parser.add_argument("--right-prefix", default=None)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="[a temporary folder]")
    parser.add_argument("--json", type=Path, help="write the claims to this file")
    args = parser.parse_args()
    out = args.out or Path(tempfile.mkdtemp(prefix="campaigns-"))
    setups = [
        Setup(
            task_folder=args.task,
            encoder_name=encoder,
            out=out,
            left_prefix=args.left_prefix,
            right_prefix=args.right_prefix,
            device=args.device,
            source=f"python -m experiments.bench.campaigns --task {args.task.name} "
            f"--encoder {Path(encoder).name} --recipe {args.recipe}",
        )
        for encoder in args.encoder
    ]
    schedule = Schedule(first_batch=args.first_batch, growth=args.growth, rounds=args.rounds)
    finish([timed(setup, schedule, args.recipe, args.seed, args.limit) for setup in setups], args.json)


if __name__ == "__main__":
    main()

"""Runner of experiments: all their runs in order, each stored when it is finished, so that they resume."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from experiments.definitions import Experiment, Run, schedule_label, with_dependencies
from experiments.results import Row, add_rows, file_for
from experiments.runs import FIGURES, execute, finished, run_folder, summary
from experiments.setup import Setup
from pairsieve.errors import PairsieveError


class Outcome:
    """Names of the runs that are finished (now or before), refused with the reason, and remaining."""

    def __init__(self) -> None:
        self.finished: list[str] = []
        self.refused: dict[str, str] = {}
        self.remaining: list[str] = []

    def as_json(self) -> dict[str, Any]:
        return {"finished": self.finished, "refused": self.refused, "remaining": self.remaining}


def run_experiments(
    experiments: Sequence[Experiment],
    setups: Sequence[Setup],
    seeds: int | None = None,
    until: float | None = None,
    say: Callable[[str], None] = lambda words: None,
    have: Sequence[Row] = (),
    first_seed: int = 0,
) -> Outcome:
    """Execute all runs of the experiments with every setup, seed by seed; each one's rows are stored at once.

    `until`: begin no run after so many seconds. `have`: rows stored elsewhere, whose runs are not executed,
    unless another one depends on their labels. A run that refuses its data is reported; the others go on.
    """
    began, outcome = time.perf_counter(), Outcome()
    stored = {_key_of_row(row) for row in have}
    for experiment, setup, run in in_order(experiments, setups, seeds, first_seed):
        name = f"{setup.task.name}/{setup.encoder_label}/{run.name}"
        done = finished(run, setup)
        if done is None:
            if _key_of_run(run, setup) in stored:
                if name not in outcome.finished:
                    outcome.finished.append(name)
                continue
            if name in outcome.refused:
                continue
            if until is not None and time.perf_counter() - began >= until:
                if name not in outcome.remaining:
                    outcome.remaining.append(name)
                continue
            started = time.perf_counter()
            try:
                results = [execute(each, setup, say) for each in with_dependencies(run)]
                done = results[-1]
            except PairsieveError as error:
                outcome.refused[name] = str(error)
                say(f"{name}: {error}")
                continue
            say(f"{name}: {summary(done)}, {time.perf_counter() - started:.1f} s")
            _free_memory()
        if name not in outcome.finished:
            outcome.finished.append(name)
        rows = rows_of(experiment, setup, run, done)
        add_rows(file_for(setup.out, experiment.name, setup.task.name, setup.encoder_label), rows)
    return outcome


def _key_of_row(row: Row) -> tuple[Any, ...]:
    """The run of a row and its data, to compare with `_key_of_run`."""
    on = (row.task_fingerprint, row.encoder_fingerprint, row.learner)
    return (*on, row.model, row.strategy, row.recipe, row.seed_set, row.schedule, row.seed)


def _key_of_run(run: Run, setup: Setup) -> tuple[Any, ...]:
    learners = {"cosine": setup.learner_name, "manual": setup.learner_name, "concat": "cross"}
    on = (setup.task.fingerprint, setup.encoder.fingerprint, learners.get(run.model, ""))
    schedule = schedule_label(run.schedule)
    return (*on, run.model, run.strategy, run.recipe, run.seed_set, schedule, run.seed)


def in_order(
    experiments: Sequence[Experiment], setups: Sequence[Setup], seeds: int | None, first_seed: int = 0
) -> list[tuple[Experiment, Setup, Run]]:
    """Seed by seed, and within a seed experiment by experiment: whole tables first."""
    listed = [
        (run.seed, at, setup, experiment, run)
        for at, experiment in enumerate(experiments)
        for setup in setups
        for run in experiment.runs(
            range(first_seed, first_seed + (experiment.seeds if seeds is None else seeds))
        )
    ]
    listed.sort(key=lambda one: one[:2])  # stable: the order of runs within stays
    return [(experiment, setup, run) for _, _, setup, experiment, run in listed]


def rows_of(experiment: Experiment, setup: Setup, run: Run, done: dict[str, Any]) -> list[Row]:
    """A finished run as rows of the results."""
    finished_at = datetime.fromtimestamp((run_folder(run, setup) / FIGURES).stat().st_mtime, UTC)
    return [
        Row(
            experiment=experiment.name,
            task=setup.task.name,
            task_fingerprint=setup.task.fingerprint,
            encoder=setup.encoder_label,
            encoder_fingerprint=setup.encoder.fingerprint,
            model=run.model,
            learner=done["learner"],
            recipe=run.recipe,
            strategy=run.strategy,
            seed_set=run.seed_set,
            schedule=schedule_label(run.schedule),
            seed=run.seed,
            device=done["device"],
            made_at=finished_at.isoformat(timespec="seconds"),
            source=setup.source,
            **figure,
        )
        for figure in done["figures"]
    ]


def _free_memory() -> None:
    """Free the GPU memory of a finished run before the next one begins."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()

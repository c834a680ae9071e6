"""How are experiments run? Cell after cell, the most useful first, each kept; stopping loses nothing."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from pairsieve.errors import PairsieveError
from pairsieve.experiments.cells import FIGURES, cell_folder, finished, in_a_line, run_cell
from pairsieve.experiments.declared import Cell, Experiment, schedule_words
from pairsieve.experiments.ground import Ground
from pairsieve.experiments.results import Row, add_rows, file_for


class Outcome:
    """What a run came to: cells finished (now or before), refused with the reason, and not begun."""

    def __init__(self) -> None:
        self.finished: list[str] = []
        self.refused: dict[str, str] = {}
        self.left: list[str] = []

    def as_json(self) -> dict[str, Any]:
        return {"finished": self.finished, "refused": self.refused, "left": self.left}


def run_experiments(
    experiments: Sequence[Experiment],
    grounds: Sequence[Ground],
    seeds: int | None = None,
    until: float | None = None,
    say: Callable[[str], None] = lambda words: None,
    have: Sequence[Row] = (),
) -> Outcome:
    """Run every cell of the experiments on every ground, seed by seed, and write their rows after each.

    `until`: begin no cell after so many seconds. `have`: rows stored elsewhere, whose cells are not run,
    unless another one needs what they bought. A cell that refuses its data is said, and the others go on.
    """
    began, outcome = time.perf_counter(), Outcome()
    stored = {_ran(row) for row in have}
    for experiment, ground, cell in in_order(experiments, grounds, seeds):
        name = f"{ground.task.name}/{ground.encoder_label}/{cell.name}"
        done = finished(cell, ground)
        if done is None:
            if _would_run(cell, ground) in stored:
                if name not in outcome.finished:
                    outcome.finished.append(name)
                continue
            if name in outcome.refused:
                continue
            if until is not None and time.perf_counter() - began >= until:
                if name not in outcome.left:
                    outcome.left.append(name)
                continue
            started = time.perf_counter()
            try:
                for need in _all_needs(cell):
                    run_cell(need, ground, say)
                done = run_cell(cell, ground, say)
            except PairsieveError as error:
                outcome.refused[name] = str(error)
                say(f"{name}: {error}")
                continue
            say(f"{name}: {in_a_line(done)}, {time.perf_counter() - started:.1f} s")
            _free_memory()
        if name not in outcome.finished:
            outcome.finished.append(name)
        rows = rows_of(experiment, ground, cell, done)
        add_rows(file_for(ground.out, experiment.name, ground.task.name, ground.encoder_label), rows)
    return outcome


def _all_needs(cell: Cell) -> list[Cell]:
    """What must be there first, the farthest need first."""
    return [each for need in cell.needs() for each in (*_all_needs(need), need)]


def _ran(row: Row) -> tuple[Any, ...]:
    """What a row's cell was, on which data: to tell whether another one would be the same."""
    on = (row.task_fingerprint, row.encoder_fingerprint, row.learner)
    return (*on, row.model, row.strategy, row.recipe, row.seed_set, row.schedule, row.seed)


def _would_run(cell: Cell, ground: Ground) -> tuple[Any, ...]:
    learners = {"cosine": ground.trained_by, "manual": ground.trained_by, "concat": "cross"}
    on = (ground.task.fingerprint, ground.encoder.fingerprint, learners.get(cell.model, ""))
    schedule = schedule_words(cell.schedule)
    return (*on, cell.model, cell.strategy, cell.recipe, cell.seed_set, schedule, cell.seed)


def in_order(
    experiments: Sequence[Experiment], grounds: Sequence[Ground], seeds: int | None
) -> list[tuple[Experiment, Ground, Cell]]:
    """Seed by seed, and within a seed experiment by experiment as declared: whole tables first."""
    listed = [
        (cell.seed, at, ground, experiment, cell)
        for at, experiment in enumerate(experiments)
        for ground in grounds
        for cell in experiment.cells(range(experiment.seeds if seeds is None else seeds))
    ]
    listed.sort(key=lambda one: one[:2])  # stable: the order of cells within stays
    return [(experiment, ground, cell) for _, _, ground, experiment, cell in listed]


def rows_of(experiment: Experiment, ground: Ground, cell: Cell, done: dict[str, Any]) -> list[Row]:
    """A finished cell as rows of the results."""
    sealed = cell_folder(cell, ground) / FIGURES
    made = datetime.fromtimestamp(sealed.stat().st_mtime, UTC).isoformat(timespec="seconds")
    return [
        Row(
            experiment=experiment.name,
            task=ground.task.name,
            task_fingerprint=ground.task.fingerprint,
            encoder=ground.encoder_label,
            encoder_fingerprint=ground.encoder.fingerprint,
            model=cell.model,
            learner=done["learner"],
            recipe=cell.recipe,
            strategy=cell.strategy,
            seed_set=cell.seed_set,
            schedule=schedule_words(cell.schedule),
            seed=cell.seed,
            device=done["device"],
            made_at=made,
            source=ground.source,
            **figure,
        )
        for figure in done["figures"]
    ]


def _free_memory() -> None:
    """Models of a finished cell go from the GPU before the next one begins."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()

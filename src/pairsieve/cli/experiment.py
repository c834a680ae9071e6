"""`pairsieve experiment NAME`: the paper's tables and figures, run, resumed, printed from stored results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pairsieve.cli import app, say, show
from pairsieve.errors import InputError

if TYPE_CHECKING:
    from pairsieve.experiments import Experiment, Ground

NEAR, RANDOM = 100, 1_000_000  # pairs that a slow model scores, unless told otherwise


@app.command()
def experiment(
    name: str = typer.Argument(..., help="An experiment, or all, list, table, page."),
    of: str | None = typer.Argument(None, help="With table: which experiment."),
    task: list[Path] = typer.Option([], "--task", help="A task folder; repeatable."),
    encoder: list[str] = typer.Option([], "--encoder", help="A name or a folder; repeatable."),
    seeds: int | None = typer.Option(None, "--seeds", min=1, help="Seeds of each cell. [as declared]"),
    out: Path = typer.Option(Path("results"), "--out", help="Results, and the cells below them."),
    recipe: list[str] = typer.Option([], "--recipe", help="best or paper; repeatable. [as declared]"),
    strategy: list[str] = typer.Option([], "--strategy", help="Only these; repeatable. [as declared]"),
    first_batch: int | None = typer.Option(None, "--first-batch", min=1, help="[as declared]"),
    growth: float | None = typer.Option(None, "--growth", min=1, help="[as declared]"),
    rounds: int | None = typer.Option(None, "--rounds", min=1, help="[as declared]"),
    learner: str = typer.Option("auto", "--learner", help="auto, full or projection."),
    left_prefix: str | None = typer.Option(None, "--left-prefix", help="[as encoders named e5-… want it]"),
    right_prefix: str | None = typer.Option(None, "--right-prefix", help="[as encoders named e5-… want it]"),
    near: int = typer.Option(NEAR, "--near", min=1, help="Nearest texts of each that a slow model scores."),
    random: int = typer.Option(RANDOM, "--random", min=1, help="Random negatives a slow model scores."),
    labels: Path | None = typer.Option(None, "--labels", help="With manual: a person's labels (CSV)."),
    have: Path | None = typer.Option(None, "--have", help="Stored results; their cells are not run again."),
    until: float | None = typer.Option(None, "--until", help="Begin no cell after so many seconds."),
    cache: Path | None = typer.Option(
        None, "--cache", envvar="PAIRSIEVE_CACHE", help="Embeddings shared with campaigns. [OUT/shared]"
    ),
    device: str = typer.Option("auto", "--device", help="auto, cpu or cuda."),
    keep_models: bool = typer.Option(False, "--keep-models", help="Keep the models of finished cells."),
    page: Path = typer.Option(Path("docs/results.md"), "--page", help="With page: the file to write."),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Repeat the paper's tables and figures, and ours.

    `experiment list` names them. `experiment NAME` runs what is not finished yet and prints its tables.

    `experiment table NAME` and `experiment page` only read what is stored: nothing is trained.
    """
    from pairsieve.experiments import DECLARED, experiment_named, read_results, run_experiments, write_page

    if name == "list":
        listed = [
            {"name": each.name, "shows": each.shows, "question": each.question, "seeds": each.seeds}
            for each in DECLARED
        ]
        words = "\n".join(f"{each.name:<15} {each.question} ({each.shows})" for each in DECLARED)
        show(listed, as_json, words)
        return
    if name == "page":
        written = write_page(_stored(out, read_results(out)), out / "notes", page)
        show([str(path) for path in written], as_json, "\n".join(map(str, written)))
        return
    if name == "table":
        if of is None:
            raise InputError("table of which experiment?", remedy="pairsieve experiment table NAME")
        wanted = list(DECLARED) if of == "all" else [experiment_named(of)]
        _print(wanted, _stored(out, read_results(out)), as_json, {})
        return
    if of is not None:
        raise InputError(f"{of!r} after experiment {name}", remedy=f"Did you mean: experiment table {of}")
    if name == "all":  # but what a person must label
        wanted = [each for each in DECLARED if each.name != "manual"]
        wanted = [each for each in wanted if not strategy or set(strategy) & {*each.strategies}]
    else:
        wanted = [experiment_named(name)]
    if not task or not encoder:
        raise InputError(
            f"experiment {name} needs --task and --encoder",
            remedy="Give a task folder, made by pairsieve data, and an encoder such as all-MiniLM-L6-v2",
        )
    wanted = [_changed(each, recipe, strategy, first_batch, growth, rounds) for each in wanted]
    more: dict[str, Any] = {
        "out": out,
        "left_prefix": left_prefix,
        "right_prefix": right_prefix,
        "learner": learner,
        "device": device,
        "cache": cache,
        "near": near,
        "random": random,
        "labels": labels,
        "keep_models": keep_models,
    }
    told = {"--seeds": seeds, "--first-batch": first_batch, "--growth": growth, "--rounds": rounds}
    told |= {"--near": None if near == NEAR else near, "--random": None if random == RANDOM else random}
    said = [f"{option} {value}" for option, value in told.items() if value is not None]
    said += [f"--labels {labels.name}"] if labels is not None else []
    said += [f"--recipe {each}" for each in recipe] + [f"--strategy {each}" for each in strategy]
    grounds = [_ground(name, folder, each, said, more) for folder in task for each in encoder]
    stored = _stored(have, read_results(have)) if have is not None else []
    outcome = run_experiments(wanted, grounds, seeds, until, say, stored)
    if outcome.left:
        say(f"{len(outcome.left):,} cells are left; the same command goes on.")
    _print(wanted, [*stored, *read_results(out)], as_json, outcome.as_json())
    if outcome.refused:  # said above; what could be run was
        raise typer.Exit(2)


def _ground(name: str, task: Path, encoder: str, said: list[str], more: dict[str, Any]) -> Ground:
    from pairsieve.experiments import Ground

    # Names only: the figures go where the folders of this machine mean nothing.
    words = [f"pairsieve experiment {name} --task {task.name} --encoder {Path(encoder).name}", *said]
    return Ground(task_folder=task, encoder_name=encoder, source=" ".join(words), **more)


def _changed(
    experiment: Experiment,
    recipes: list[str],
    strategies: list[str],
    first_batch: int | None,
    growth: float | None,
    rounds: int | None,
) -> Experiment:
    """As declared, but for what was told otherwise."""
    changes = {"first_batch": first_batch, "growth": growth, "rounds": rounds}
    told = {key: value for key, value in changes.items() if value is not None}
    return replace(
        experiment,
        schedules=tuple(dict.fromkeys(replace(each, **told) for each in experiment.schedules)),  # type: ignore[arg-type]
        recipes=tuple(recipes) or experiment.recipes,
        strategies=_told_of(experiment.strategies, strategies),
    )


def _told_of(declared: tuple[str, ...], told: list[str]) -> tuple[str, ...]:
    """Of the strategies told, those declared; where none is, all of them: a comparison of somebody's own."""
    kept = tuple(name for name in declared if name in told)
    return kept or (tuple(told) if told and declared else declared)


def _stored(out: Path, rows: list[Any]) -> list[Any]:
    if not rows:
        raise InputError(
            "there are no stored results",
            where=str(out),
            remedy="Run an experiment first, or name the folder of its results with --out",
        )
    return rows


def _print(wanted: list[Experiment], rows: list[Any], as_json: bool, outcome: dict[str, Any]) -> None:
    from pairsieve.experiments import tables

    made = [(each, table) for each in wanted for table in tables(each, rows)]
    data = {**outcome, "tables": [{"experiment": each.name, **table.as_json()} for each, table in made]}
    words = "\n\n".join(table.as_markdown() for _, table in made)
    show(data, as_json, words or "No figures yet.")

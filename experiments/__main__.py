"""Command line of the experiments: `python -m experiments NAME` runs, resumes and prints them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from experiments.definitions import EXPERIMENTS, Experiment, experiment_named
from pairsieve.cli import main, say, show
from pairsieve.errors import InputError

if TYPE_CHECKING:
    from experiments.results import Row
    from experiments.setup import Setup

RESULTS = Path(__file__).parent / "results"
NEAR, RANDOM = 100, 1_000_000  # pairs that a slow model scores

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def experiment(
    name: str = typer.Argument(..., help="An experiment, or all, list, table, page."),
    of: str | None = typer.Argument(None, help="With table: which experiment."),
    task: list[Path] = typer.Option([], "--task", help="A task folder; repeatable."),
    encoder: list[str] = typer.Option([], "--encoder", help="A name or a folder; repeatable."),
    seeds: int | None = typer.Option(None, "--seeds", min=1, help="Seeds of each variant. [as defined]"),
    first_seed: int = typer.Option(
        0, "--first-seed", min=0, help="Seeds are counted from this one, so that processes can share them."
    ),
    out: Path = typer.Option(
        RESULTS, "--out", help="Folder of the results and runs.", show_default="experiments/results"
    ),
    recipe: list[str] = typer.Option(
        [],
        "--recipe",
        help="best or paper, or with changed settings (best:hubness_correction=0); repeatable. [as defined]",
    ),
    strategy: list[str] = typer.Option([], "--strategy", help="Only these; repeatable. [as defined]"),
    seed_set: list[str] = typer.Option([], "--seed-set", help="Only these; repeatable. [as defined]"),
    first_batch: int | None = typer.Option(None, "--first-batch", min=1, help="[as defined]"),
    growth: float | None = typer.Option(None, "--growth", min=1, help="[as defined]"),
    rounds: int | None = typer.Option(None, "--rounds", min=1, help="[as defined]"),
    learner: str = typer.Option("auto", "--learner", help="auto, full or projection."),
    left_prefix: str | None = typer.Option(None, "--left-prefix", help="[as encoders named e5-… want it]"),
    right_prefix: str | None = typer.Option(None, "--right-prefix", help="[as encoders named e5-… want it]"),
    near: int = typer.Option(NEAR, "--near", min=1, help="Nearest texts of each that a slow model scores."),
    random: int = typer.Option(RANDOM, "--random", min=1, help="Random negatives a slow model scores."),
    labels: Path | None = typer.Option(None, "--labels", help="With manual: a person's labels (CSV)."),
    have: Path | None = typer.Option(
        None, "--have", help="Stored results; their runs are not executed again."
    ),
    until: float | None = typer.Option(None, "--until", help="Begin no run after so many seconds."),
    cache: Path | None = typer.Option(
        None, "--cache", envvar="PAIRSIEVE_CACHE", help="Embeddings shared with campaigns. [OUT/shared]"
    ),
    split: list[str] = typer.Option([], "--split", help="Measured splits; repeatable. [dev, test]"),
    device: str = typer.Option("auto", "--device", help="auto, cpu or cuda."),
    keep_models: bool = typer.Option(False, "--keep-models", help="Keep the models of finished runs."),
    page: Path = typer.Option(Path("docs/results.md"), "--page", help="With page: the file to write."),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Repeat the paper's tables and figures, and ours.

    `list` names them. `NAME` executes the runs that are not finished yet and prints its tables.

    `table NAME` and `page` only read what is stored: nothing is trained.
    """
    from experiments.page import write_page
    from experiments.results import read_results
    from experiments.runner import run_experiments

    if name == "list":
        listed = [
            {"name": each.name, "shows": each.shows, "question": each.question, "seeds": each.seeds}
            for each in EXPERIMENTS
        ]
        words = "\n".join(f"{each.name:<15} {each.question} ({each.shows})" for each in EXPERIMENTS)
        show(listed, as_json, words)
        return
    if name == "page":
        written = write_page(_stored(out, read_results(out)), out / "notes", page)
        show([str(path) for path in written], as_json, "\n".join(map(str, written)))
        return
    if name == "table":
        if of is None:
            raise InputError("table of which experiment?", remedy="python -m experiments table NAME")
        wanted = list(EXPERIMENTS) if of == "all" else [experiment_named(of)]
        _print(wanted, _stored(out, read_results(out)), as_json, {})
        return
    if of is not None:
        raise InputError(f"{of!r} after experiment {name}", remedy=f"Did you mean: experiment table {of}")
    if name == "all":  # except what a person must label
        wanted = [each for each in EXPERIMENTS if each.name != "manual"]
        wanted = [each for each in wanted if not strategy or set(strategy) & {*each.strategies}]
    else:
        wanted = [experiment_named(name)]
    if not task or not encoder:
        raise InputError(
            f"experiment {name} needs --task and --encoder",
            remedy="Give a task folder, written by pairsieve data, and an encoder such as all-MiniLM-L6-v2",
        )
    wanted = [_changed(each, recipe, strategy, seed_set, first_batch, growth, rounds) for each in wanted]
    options: dict[str, Any] = {
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
    if split:
        options["measured_splits"] = tuple(split)
    given = {"--seeds": seeds, "--first-batch": first_batch, "--growth": growth, "--rounds": rounds}
    given |= {"--near": None if near == NEAR else near, "--random": None if random == RANDOM else random}
    given |= {"--first-seed": first_seed or None}
    arguments = [f"{option} {value}" for option, value in given.items() if value is not None]
    arguments += [f"--labels {labels.name}"] if labels is not None else []
    repeatable = {"--recipe": recipe, "--strategy": strategy, "--seed-set": seed_set, "--split": split}
    arguments += [f"{option} {value}" for option, values in repeatable.items() for value in values]
    setups = [_setup(name, folder, each, arguments, options) for folder in task for each in encoder]
    stored = _stored(have, read_results(have)) if have is not None else []
    outcome = run_experiments(wanted, setups, seeds, until, say, stored, first_seed)
    if outcome.remaining:
        say(f"{len(outcome.remaining):,} runs remain; the same command goes on.")
    _print(wanted, [*stored, *read_results(out)], as_json, outcome.as_json())
    if outcome.refused:  # already reported; the other runs are finished
        raise typer.Exit(2)


def _setup(name: str, task: Path, encoder: str, arguments: list[str], options: dict[str, Any]) -> Setup:
    from experiments.setup import Setup

    # Names only: the rows are read on machines that have other folders.
    command = [f"python -m experiments {name} --task {task.name} --encoder {Path(encoder).name}", *arguments]
    return Setup(task_folder=task, encoder_name=encoder, source=" ".join(command), **options)


def _changed(
    experiment: Experiment,
    recipes: list[str],
    strategies: list[str],
    seed_sets: list[str],
    first_batch: int | None,
    growth: float | None,
    rounds: int | None,
) -> Experiment:
    """The experiment as defined, with the options given."""
    changes = {"first_batch": first_batch, "growth": growth, "rounds": rounds}
    given = {key: value for key, value in changes.items() if value is not None}
    return replace(
        experiment,
        schedules=tuple(dict.fromkeys(replace(each, **given) for each in experiment.schedules)),  # type: ignore[arg-type]
        recipes=tuple(recipes) or experiment.recipes,
        strategies=_chosen(experiment.strategies, strategies),
        seed_sets=tuple(seed_sets) or experiment.seed_sets,
    )


def _chosen(defined: tuple[str, ...], given: list[str]) -> tuple[str, ...]:
    """Those given that the experiment defines; where it defines none of them, all that are given."""
    kept = tuple(name for name in defined if name in given)
    return kept or (tuple(given) if given and defined else defined)


def _stored(out: Path, rows: list[Row]) -> list[Row]:
    if not rows:
        raise InputError(
            "there are no stored results",
            where=str(out),
            remedy="Run an experiment first, or name the folder of its results with --out",
        )
    return rows


def _print(wanted: list[Experiment], rows: list[Row], as_json: bool, outcome: dict[str, Any]) -> None:
    from experiments.tables import tables

    found = [(each, table) for each in wanted for table in tables(each, rows)]
    data = {**outcome, "tables": [{"experiment": each.name, **table.as_json()} for each, table in found]}
    words = "\n\n".join(table.as_markdown() for _, table in found)
    show(data, as_json, words or "No figures yet.")


if __name__ == "__main__":
    main(app)

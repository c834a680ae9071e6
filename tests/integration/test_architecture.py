"""ARCHITECTURE.md is true: its map is the import contract, its walk is what a traced round runs."""

import inspect
import json
import re
import sys
import threading
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pairsieve
from pairsieve.cli import all_commands
from pairsieve.synthetic import CITATIONS, group_sizes, records_task, synthetic_records
from pairsieve.tasks import save_task
from synthetic_task import begin

ROOT = Path(__file__).parents[2]
PACKAGE = Path(pairsieve.__file__).parent
PAGE = (ROOT / "ARCHITECTURE.md").read_text()


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def first_table(text: str) -> list[list[str]]:
    """The cells of the first table, without its head."""
    lines = text[text.index("\n| ") + 1 :].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def contract_rows() -> list[set[str]]:
    """The packages of each row of the import contract, the top row first."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    return [set(re.findall(r"pairsieve\.(\w+)", layer)) for layer in contract["layers"]]


def walked_files() -> list[str]:
    """The files of the walk, once each, in order of first mention."""
    walk = first_table(section("One round, from the command to the figure"))
    return list(dict.fromkeys(row[1].strip("`") for row in walk))


def test_the_map_names_every_package_of_the_contract_in_its_order():
    named = [set(re.findall(r"`(\w+)`", row[1])) for row in first_table(section("The map"))]
    rows = contract_rows()
    assert set.union(*named) == set.union(*rows)
    places = [max(at for at, row in enumerate(rows) if row & cell) for cell in named]
    assert places == sorted(places)


def test_every_file_named_exists():
    packages = "|".join(sorted(set.union(*contract_rows())))
    for path in re.findall(rf"`((?:{packages})(?:/\w+)*\.py)`", PAGE):
        assert (PACKAGE / path).is_file(), f"ARCHITECTURE.md names {path}, which is not there"
    for path in re.findall(r"`((?:tests|docs|experiments)/[\w/.-]+)`", PAGE):
        assert (ROOT / path).exists(), f"ARCHITECTURE.md names {path}, which is not there"


@pytest.fixture(scope="module")
def traced(tmp_path_factory, task, tiny_encoder):
    """The files in which a function ran from `pairsieve run` until the figures of round 2 were written."""
    folder = tmp_path_factory.mktemp("traced") / "mine"
    table = synthetic_records(CITATIONS, group_sizes(100, {5: 0.5}), seed=0)
    save_task(records_task("citations", table), folder.parent / "task")
    begin(folder, folder.parent / "task", tiny_encoder, rounds=2, first_batch=70, measuring_share=0.3)
    begin(folder.parent / "first", task, tiny_encoder, rounds=1, reranker="off").run()  # imports, untraced
    ran: set[str] = set()
    inside, measured = f"{PACKAGE}/", folder / "rounds" / "round-002.json"

    def note(frame, event, argument):
        code = frame.f_code
        if not code.co_filename.startswith(inside) or not code.co_flags & inspect.CO_OPTIMIZED:
            return None  # bodies of modules and classes run on import: not a step of the round
        ran.add(code.co_filename)
        return until_measured if code.co_name == "write_checksummed" else None

    def until_measured(frame, event, argument):
        if event == "return" and measured.exists():
            sys.settrace(None)
        return until_measured

    app = all_commands()
    threading.settrace(note)  # sees calls of Python alone, at a third of a profiler's cost
    sys.settrace(note)
    try:
        done = CliRunner().invoke(app, ["run", str(folder)], catch_exceptions=False)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    assert done.exit_code == 0 and "round 2" in done.stderr
    row = json.loads(measured.read_text())["figures"]
    assert row["reranked"] and row["estimated"], (
        row["reranked"],
        row["estimated"],
        row["positives"],
        row["labels"],
    )
    return {path.removeprefix(inside) for path in ran}


def test_the_walk_is_what_a_traced_round_runs(traced):
    rows = contract_rows()
    models = next(at for at, row in enumerate(rows) if "models" in row)
    above = set.union(*rows[:models])
    ran = {path for path in traced if path.removesuffix(".py").split("/")[0] in above}
    after_the_figure = {"advice.py"}  # traced after round 1; the page names it below the walk
    assert ran == set(walked_files()) | after_the_figure, "bring the walk of ARCHITECTURE.md up to date"


def test_the_walk_is_short():
    walk = walked_files()
    assert len(walk) <= 20
    assert f"these {len(walk)} files" in PAGE

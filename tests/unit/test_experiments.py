"""Experiments as data: definitions, stored rows, tables, the page. Nothing is trained."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from experiments.aggregate import grouped, mean_of
from experiments.bench.__main__ import benches
from experiments.bench.projection_round import training
from experiments.definitions import (
    ALL_STATED,
    EQUAL_SCHEDULE,
    EXPERIMENTS,
    MATCHED,
    SMALL_SCHEDULE,
    WHOLE_SCHEDULE,
    Run,
    experiment_named,
    schedule_label,
    split_recipe,
)
from experiments.page import line_styles, page_text, write_page
from experiments.paper import counterpart, differences
from experiments.results import Row, add_rows, latest, read_file, read_results, write_rows
from experiments.runner import in_order
from experiments.runs import _mirrored
from experiments.setup import Setup
from experiments.tables import TABLE_LAYOUTS, tables
from pairsieve.errors import InputError
from pairsieve.pairs import AllPairs
from pairsieve.scan import open_scan
from pairsieve.strategies import strategy_named
from pairsieve.tasks.task import Collection, one_collection

ROOT = Path(__file__).parents[2]
SCHEDULE = "2048x1.5x4"


def row(**told) -> Row:
    """A figure of WikiQA, fine-tuned e5-small, uncertainty by the paper's recipe, seed 0, round 1."""
    usual = {
        "experiment": "strategies",
        "task": "wikiqa",
        "task_fingerprint": "t",
        "encoder": "e5-small",
        "encoder_fingerprint": "e",
        "model": "cosine",
        "learner": "full",
        "recipe": "paper",
        "strategy": "uncertainty",
        "seed_set": "static",
        "schedule": SCHEDULE,
        "seed": 0,
        "round": 1,
        "labels": 2048,
        "split": "test",
        "measure": "average_precision",
        "counting": "distinct",
        "value": 0.5,
        "n": 100,
        "method": "exact",
        "device": "cpu",
        "made_at": "2026-01-01T00:00:00+00:00",
        "source": "python -m experiments strategies --task wikiqa --encoder e5-small",
    }
    made = usual | told
    return Row(**({"low": made["value"], "high": made["value"]} | made))


# ── definitions ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.name)
def test_what_is_defined_can_be_run_and_shown(experiment):
    assert experiment.layout in TABLE_LAYOUTS
    assert experiment.question.endswith("?")
    for strategy in set(experiment.strategies) - {MATCHED, ALL_STATED}:
        assert strategy_named(strategy).name == strategy


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.name)
def test_a_run_comes_after_its_dependencies(experiment):
    runs = experiment.runs(range(2))
    assert len(runs) == len(set(runs))
    for at, run in enumerate(runs):
        assert set(run.dependencies()) <= set(runs[:at])


def test_budgets_pass_where_people_ask_for_them():
    assert list(accumulate(SMALL_SCHEDULE.batches())) == [50, 133, 271, 500, 880, 1510, 2556]
    assert WHOLE_SCHEDULE.budget() == 232_100
    assert EQUAL_SCHEDULE.budget() == 2048


def test_the_first_seed_of_everything_comes_before_the_second_of_anything():
    order = [run.seed for _, _, run in in_order([experiment_named("strategies")], [None], seeds=3)]
    assert order == sorted(order) and set(order) == {0, 1, 2}


def test_processes_share_the_seeds_of_an_experiment():
    runs = [run for _, _, run in in_order([experiment_named("cold-start")], [None], seeds=1, first_seed=2)]
    assert {run.seed for run in runs} == {2}


def test_an_unknown_experiment_is_told_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'strategies'"):
        experiment_named("strategy")


def test_a_part_of_qqp_is_not_called_qqp():
    assert counterpart("wikiqa").task == "WikiQA" and not counterpart("wikiqa").data
    assert "not comparable" in differences("qqp-174k", "e5-small", "full")
    assert "not comparable" not in differences("qqp", "e5-small", "full")
    assert counterpart("mine").task == ""


# ── rows ────────────────────────────────────────────────────────────────────────────────────────

figures = st.builds(
    row,
    seed=st.integers(0, 3),
    round=st.integers(0, 4),
    value=st.floats(0, 1),
    strategy=st.sampled_from(["static", "uncertainty"]),
    made_at=st.sampled_from(["2026-01-01", "2026-01-02"]),
)


@settings(max_examples=examples(30))
@given(st.lists(figures, max_size=12))
def test_rows_come_back_as_they_were_and_adding_twice_is_adding_once(tmp_path_factory, rows):
    rows = latest(rows)
    path = tmp_path_factory.mktemp("rows") / "strategies.wikiqa.e5.parquet"
    write_rows(path, rows)
    assert set(read_file(path)) == set(rows)
    before = path.read_bytes()
    add_rows(path, rows)
    assert path.read_bytes() == before


def test_a_run_executed_again_takes_the_place_of_all_its_older_rows(tmp_path):
    path = tmp_path / "x.parquet"
    write_rows(path, [row(round=1), row(round=2), row(strategy="static")])
    add_rows(path, [row(round=1, value=0.6, task_fingerprint="altered")])
    found = {(r.strategy, r.round): r.value for r in read_file(path)}
    assert found == {("uncertainty", 1): 0.6, ("static", 1): 0.5}


def test_of_the_same_figure_the_one_made_last_counts():
    old, new = row(value=0.1, made_at="2026-01-01"), row(value=0.2, made_at="2026-02-01")
    assert latest([new, old]) == latest([old, new]) == [new]


def test_another_parquet_file_is_refused_by_name(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(InputError, match=r"other\.parquet.*no results"):
        read_results(tmp_path)
    (tmp_path / "other.parquet").write_bytes(b"torn")
    with pytest.raises(InputError, match=r"other\.parquet.*cannot be read"):
        read_results(tmp_path)


# ── tables ──────────────────────────────────────────────────────────────────────────────────────


def test_mean_and_standard_error_over_three_seeds():
    mean = mean_of([row(seed=s, value=v) for s, v in enumerate([0.4, 0.5, 0.6])])
    assert mean.value == pytest.approx(0.5)
    assert mean.error == pytest.approx(0.1 / 3**0.5)
    assert mean.text() == "0.5000 ± 0.0577"


def test_one_seed_has_no_error_and_an_estimate_has_its_interval():
    assert mean_of([row(value=0.25)]).text() == "0.2500"
    assert mean_of([row(value=0.25, low=0.2, high=0.3)]).text() == "0.2500 [0.2000, 0.3000]"


def test_the_strategies_table_has_the_papers_column_and_says_what_differs():
    rows = [row(round=r, labels=n, value=v) for r, n, v in [(1, 2048, 0.4), (2, 5120, 0.45)]]
    rows += [row(round=2, labels=5120, measure="precision_at_recall_0.2", value=0.7)]
    rows += [row(round=2, labels=5120, split="train", measure="positives_found", value=800)]
    (table,) = tables(experiment_named("strategies"), rows)
    (line,) = table.as_json()["rows"]
    assert line == {
        "strategy": "uncertainty",
        "labels": "5,120",
        "seeds": "1",
        "AP": "0.4500",
        "P@R20": "0.7000",
        "paper: labels": "16,640",
        "paper: AP": "0.201",
        "paper: P@R20": "0.324",
    }
    assert "instead of BERT-base" in table.notes[0] and "mirrored pairs" in table.notes[0]
    assert "python -m experiments strategies --task wikiqa" in table.notes[-1]


def test_one_collection_is_shown_in_both_countings():
    told = {"task": "qqp-174k", "strategy": "static", "labels": 100}
    rows = [row(**told, split="train", measure="positives_found", value=40)]
    rows += [row(**told, counting=c, value=v) for c, v in (("distinct", 0.6), ("mirrored", 0.55))]
    (table,) = tables(experiment_named("positives"), rows)
    (line,) = table.as_json()["rows"]
    assert (line["labels"], line["positives found"]) == ("100", "40")
    assert (line["mirrored: labels"], line["mirrored: positives"]) == ("200", "80")
    assert (line["paper: labels"], line["paper: positives"]) == ("232,100", "16,422")
    (table,) = tables(experiment_named("strategies"), rows)
    assert table.as_json()["rows"][0]["AP, mirrored"] == "0.5500"


def test_data_efficiency_counts_labels_until_static_retrievals_best_is_passed():
    dev = {"split": "dev"}
    static = [(1, 100, 0.30), (2, 200, 0.40), (3, 400, 0.38)]
    chosen = [(1, 100, 0.30), (2, 200, 0.35), (3, 400, 0.50)]
    rows = [row(**dev, strategy="static", round=r, labels=n, value=v) for r, n, v in static]
    rows += [row(**dev, strategy="uncertainty", round=r, labels=n, value=v) for r, n, v in chosen]
    (table,) = tables(experiment_named("efficiency"), rows)
    assert table.rows[0] == ("paper", "0.4000", "200", "400", "0.5000", "0.5")
    (table,) = tables(experiment_named("efficiency"), rows[:-1])
    assert table.rows[0][3] == "not within 200"


def test_a_gain_counts_only_outside_two_standard_errors():
    def seeds(recipe, values):
        return [row(recipe=recipe, seed=s, value=v) for s, v in enumerate(values)]

    def sure(best):
        (table,) = tables(
            experiment_named("recipes"), seeds("paper", [0.40, 0.42, 0.44]) + seeds("best", best)
        )
        return table.as_json()["rows"][0]["gain"], table.as_json()["rows"][0]["outside two standard errors"]

    # Both have a standard error of 0.02 / √3 = 0.0115, the difference √2 times that: two are 0.0327.
    assert sure([0.43, 0.45, 0.47]) == ("+0.0300", "no")
    assert sure([0.44, 0.46, 0.48]) == ("+0.0400", "yes")


def test_a_first_batch_counts_as_worse_only_outside_two_standard_errors():
    def seeds(seed_set, values, **told):
        told = {"recipe": "best", "seed_set": seed_set, **told}
        return [row(**told, seed=s, value=v) for s, v in enumerate(values)]

    def line(now, **told):
        rows = seeds("static", [0.40, 0.42, 0.44]) + seeds("auto", now, **told)
        (table,) = tables(experiment_named("cold-start"), rows)
        (found,) = table.as_json()["rows"]
        return found["change"], found["worse"]

    # Both have a standard error of 0.02 / √3 = 0.0115, the difference √2 times that: two are 0.0327.
    assert line([0.37, 0.39, 0.41]) == ("-0.0300", "no")
    assert line([0.36, 0.38, 0.40]) == ("-0.0400", "yes")
    assert line([0.46, 0.48, 0.50]) == ("+0.0600", "no")
    assert line([0.36]) == ("-0.0600", "one seed")
    assert line([0.36], schedule=schedule_label(EQUAL_SCHEDULE)) == ("-", "-")


def test_recipes_are_drawn_where_both_were_run_a_colour_each_and_dashes_for_schedules(tmp_path):
    def curve(recipe, schedule, labels):
        told = {"recipe": recipe, "schedule": schedule, "experiment": "recipes"}
        return [row(**told, round=r, labels=n) for r, n in enumerate(labels, 1)]

    def pictures(rows):
        written = write_page(rows, tmp_path / "notes", tmp_path / "page.md")
        return [path.name for path in written if path.name.startswith("results-recipes")]

    small = schedule_label(SMALL_SCHEDULE)
    paper = curve("paper", SCHEDULE, [2048, 5120]) + curve("paper", small, [50, 133])
    best = curve("best", SCHEDULE, [2048, 5120]) + curve("best", small, [50, 133])
    assert pictures(paper) == []
    assert pictures(paper + best) == ["results-recipes-wikiqa-e5-small-full.png"]
    (group,) = grouped(experiment_named("recipes"), paper + best)
    looks = {variant[1::2]: look for variant, look in line_styles(group).items()}  # by recipe and schedule
    assert len({ink for ink, _ in looks.values()}) == 2 and len(set(looks.values())) == 4
    assert looks["best", small][0] == looks["best", SCHEDULE][0]


def test_a_run_of_one_experiment_serves_the_others():
    rows = [row(experiment="strategies", split="dev", round=r, labels=r * 10) for r in (1, 2)]
    assert tables(experiment_named("curves"), rows)
    assert not tables(experiment_named("small-budgets"), rows)  # another schedule and recipe


def test_mirrored_counting_adds_a_near_negative_that_both_texts_list(tmp_path):
    # Four directions in a plane: pairs (0,1) at 5°, (2,3) at 20°; (2,3) is the match, (0,1) the worse rival.
    angles = np.deg2rad([0, 5, 90, 110])
    rows = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    space = AllPairs(4)
    part = one_collection(
        "test", Collection("abcd", "abcd"), space.ids([2], [3]), np.empty(0, np.int64), has_truth=True
    )
    scan = open_scan(space, rows, device="cpu")

    class Listed(Setup):
        def nearby(self, part):
            return space.ids([0], [1]), np.array([2], np.float32)  # each is in the other's list

    setup = Listed(task_folder=tmp_path, encoder_name="none", out=tmp_path)
    found = {f["measure"]: f["value"] for f in _mirrored(setup, part, scan, 0, 0)}
    assert found["average_precision"] == pytest.approx(1 / 3)  # one match behind one negative, counted twice


def test_a_runs_name_tells_what_it_is():
    run = Run(model="cosine", strategy="static", recipe="best", seed_set="static", schedule=SMALL_SCHEDULE)
    assert run.name == "cosine-static-best-static-50x1.66x7-seed0"
    odd = Run(model="cosine", strategy="stratified:1/3", recipe="best:hubness_correction=0")
    assert (
        odd.name == "cosine-stratified_1_3-best_hubness_correction_0-seed0"
    )  # one folder, whatever it is called


def test_a_recipe_carries_changed_settings():
    assert split_recipe("best") == ("best", {})
    assert split_recipe("paper:learning_rate=6e-5,search=index") == (
        "paper",
        {"learning_rate": 6e-5, "search": "index"},
    )


def test_every_bench_says_what_it_measures_and_how_it_is_run():
    for name, (what, commands) in benches().items():
        assert what.endswith(".") and "?" not in what, name
        assert commands and all(f"-m experiments.bench.{name}" in command for command in commands), name


def test_what_experiments_import_exists():
    """Also inside functions, which importing a module does not run; the types are checked by mypy."""
    for path in (ROOT / "experiments").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pairsieve":
                module = importlib.import_module(node.module)
                for name in (each.name for each in node.names):
                    found = hasattr(module, name) or importlib.util.find_spec(f"{node.module}.{name}")
                    assert found, f"{path.name}: {node.module}.{name}"


def test_the_bench_of_a_projection_round_trains_on_every_label():
    labels, cosine = training(texts=500, labels=60, threads=1)()
    assert labels == 60 and -1.0 <= cosine <= 1.0


# ── the page in this repository ─────────────────────────────────────────────────────────────────


def test_the_results_page_is_what_its_stored_rows_make():
    rows = read_results(ROOT / "experiments" / "results")
    assert rows
    fresh = page_text(rows, ROOT / "experiments" / "results" / "notes")
    assert (ROOT / "docs" / "results.md").read_text() == fresh, "stale: run python -m experiments page"

"""Experiments from the command line at toy size: run, killed, resumed, and shown without any model."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments.__main__ import app
from experiments.bench import campaigns, query_strategies
from experiments.definitions import EXPERIMENTS
from experiments.manual_verification import TO_VERIFY
from experiments.results import read_results, write_rows
from experiments.setup import Setup
from pairsieve import strategies
from pairsieve.errors import InputError
from synthetic_task import synthetic_task

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SIZES = {"train": 60, "dev": 30, "test": 30}
TOY = [
    *("--first-batch", "8", "--rounds", "2", "--growth", "1.5", "--seeds", "1", "--recipe", "paper"),
    *("--near", "4", "--random", "60", "--device", "cpu"),
]


def experiment(*words: object):
    """`python -m experiments …` in this process; a failure in words is raised as it is."""
    told = CliRunner().invoke(app, [*map(str, words)])
    if told.exception is not None and not isinstance(told.exception, SystemExit):
        raise told.exception
    return told


def figures(folder: Path) -> dict:
    """Every figure but the seconds, by what it is of."""
    return {r.figure_key: r.value for r in read_results(folder) if not r.measure.startswith("seconds")}


@pytest.fixture(scope="module")
def ran(tmp_path_factory, tiny_encoder) -> tuple[Path, list]:
    """Everything but a person's look, run once on a synthetic task of one collection."""
    place = tmp_path_factory.mktemp("experiments")
    task = synthetic_task(place / "made", sizes=SIZES)
    there = ["--task", task, "--encoder", tiny_encoder, *TOY]
    told = experiment("all", *there, "--out", place / "out", "--json")
    answer = json.loads(told.stdout)
    assert answer["refused"] == {} and answer["remaining"] == []
    return place, there


def test_every_defined_experiment_has_a_table(ran):
    place, _ = ran
    for each in EXPERIMENTS:
        if each.name != "manual" and each.recipes != ("best",):  # `ran` asks for the paper's recipe
            told = experiment("table", each.name, "--out", place / "out")
            assert "tiny-bert" in told.stdout and "Made by `python -m experiments all" in told.stdout, (
                each.name
            )


def test_running_again_trains_nothing_and_says_the_same(ran):
    place, there = ran
    before = {path: path.stat().st_mtime_ns for path in (place / "out" / "runs").rglob("figures.json")}
    assert len(before) >= 14
    rows = figures(place / "out")
    told = experiment("strategies", *there, "--out", place / "out")
    assert "uncertainty" in told.stdout
    assert {p: p.stat().st_mtime_ns for p in (place / "out" / "runs").rglob("figures.json")} == before
    assert figures(place / "out") == rows


def test_both_recipes_of_the_fine_tuned_encoder_stand_side_by_side(ran, tmp_path):
    _, there = ran
    words = ["--learner", "full", "--recipe", "best", "--out", tmp_path, "--keep-models", "--json"]
    answer = json.loads(experiment("recipes", *there, *words).stdout)  # `there` asks for the paper's as well
    (table,) = answer["tables"]
    assert [(row["labels"], row["split"]) for row in table["rows"]] == [
        *(("0", "dev"), ("0", "test")),  # what the score is worth without a label
        *(("8", "dev"), ("20", "dev"), ("8", "test"), ("20", "test")),
    ]
    assert {row["outside two standard errors"] for row in table["rows"][2:]} == {"one seed"}
    assert len(list((tmp_path / "runs").rglob("campaign/artifacts/model/*/model.safetensors"))) == 4


def test_a_finished_run_keeps_no_model(ran):
    place, _ = ran
    assert not list((place / "out" / "runs").rglob("*.safetensors"))


def test_figures_rest_on_what_is_there(ran):
    place, _ = ran
    rows = read_results(place / "out")
    counts = {r.measure: r.value for r in rows if r.model == "data" and r.split == "train"}
    assert counts["pairs"] == 60 * 59 / 2
    assert {r.task_fingerprint for r in rows} == {rows[0].task_fingerprint} != {""}
    estimated = [r for r in rows if r.model == "concat" and r.measure == "average_precision"]
    assert estimated and all(r.low <= r.value <= r.high and r.method != "exact" for r in estimated)
    assert {r.counting for r in estimated} == {"distinct", "mirrored"}
    twice = {r.counting: r.value for r in rows if r.measure == "positives_found" and r.strategy == "static"}
    assert twice["mirrored"] == 2 * twice["distinct"]


def test_the_matched_sample_has_the_balance_of_the_uncertain_one(ran):
    place, _ = ran
    found = {
        r.strategy: r.value
        for r in read_results(place / "out")
        if r.measure == "positives_found" and r.counting == "distinct" and r.round == 2
    }
    assert found["stratified-match"] == found["uncertainty"]


def test_the_page_is_made_again_when_every_model_is_gone(ran, tmp_path):
    place, _ = ran
    alone = tmp_path / "stored"
    alone.mkdir()
    for path in (place / "out").glob("*.parquet"):
        shutil.copy(path, alone)
    (alone / "notes").mkdir()
    (alone / "notes" / "strategies.md").write_text("A person's remark.")
    for page in ("one.md", "two.md"):
        experiment("page", "--out", alone, "--page", tmp_path / page)
    text = (tmp_path / "one.md").read_text()
    assert text == (tmp_path / "two.md").read_text()
    assert "A person's remark." in text and "## strategies" in text
    for picture in [line.split("](")[1].rstrip(")") for line in text.splitlines() if line.startswith("![")]:
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


def test_killed_in_the_middle_and_run_again_it_ends_the_same(ran, tmp_path):
    place, there = ran
    words = ["strategies", *map(str, there), "--out", str(tmp_path / "out"), "--strategy", "static"]
    began = subprocess.Popen(
        [sys.executable, "-m", "experiments", *words],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )
    assert began.stderr is not None
    for line in began.stderr:
        if "round 1" in line:
            began.send_signal(signal.SIGKILL)
            break
    began.stderr.close()
    assert began.wait() == -signal.SIGKILL
    assert not any("cosine" in str(path) for path in (tmp_path / "out" / "runs").rglob("figures.json"))
    experiment(*words)
    mine, whole = figures(tmp_path / "out"), figures(place / "out")
    assert len(mine) > 10 and mine.items() <= whole.items()


def test_no_run_is_begun_after_the_time_given(ran, tmp_path):
    _, there = ran
    answer = json.loads(experiment("strategies", *there, "--out", tmp_path, "--until", 0, "--json").stdout)
    assert answer["finished"] == [] and len(answer["remaining"]) == 6 and answer["tables"] == []


def test_a_run_that_is_refused_is_reported_and_the_others_go_on(tmp_path, tiny_encoder):
    task = synthetic_task(tmp_path / "task", stated=False, two=True, sizes=SIZES)
    there = ["--task", task, "--encoder", tiny_encoder, *TOY, "--out", tmp_path / "out"]
    words = ["--strategy", "stated", "--strategy", "static", "--first-batch", 40, "--json"]
    told = experiment("strategies", *there, *words)
    answer = json.loads(told.stdout)
    assert told.exit_code == 2
    ((refused, why),) = answer["refused"].items()
    assert "cosine-stated" in refused and "states no negative" in why and why in told.stderr
    assert [row["strategy"] for row in answer["tables"][0]["rows"]] == ["untrained encoder", "static"]
    told = experiment("concatenation", *there)
    assert told.exit_code == 2 and "states no negatives" in told.stderr


def test_a_person_looks_at_putative_false_positives(ran):
    place, there = ran
    told = experiment("manual", *there, "--out", place / "out")
    assert "nobody has labelled yet" in told.stdout
    (asked,) = (place / "out" / "runs").rglob(TO_VERIFY)
    with asked.open(newline="") as file:
        questions = list(csv.DictReader(file))
    assert questions and set(questions[0]) == {"left", "right", "left_text", "right_text", "label"}
    answered = place / "answered.csv"

    def answer(label):
        with answered.open("w", newline="") as file:
            writer = csv.DictWriter(file, questions[0].keys())
            writer.writeheader()
            writer.writerows({**each, "label": label} for each in questions)

    answer("1")  # every one was a match that nobody had stated: the model made no error
    experiment("manual", *there, "--out", place / "out", "--labels", answered)
    rows = [r for r in read_results(place / "out") if r.model == "manual"]
    (corrected,) = [r for r in rows if r.measure.endswith("corrected")]
    assert corrected.low <= corrected.value == 1.0 and corrected.n == len(questions)
    answer("perhaps")
    told = experiment("manual", *there, "--out", place / "out", "--labels", answered)
    assert told.exit_code == 2 and "row 2" in told.stderr and "'perhaps'" in told.stderr


def test_what_another_machine_has_stored_is_not_run_again(ran, tmp_path):
    place, there = ran
    words = [*there, "--have", place / "out", "--out", tmp_path, "--json"]
    answer = json.loads(experiment("strategies", *words, "--until", 0).stdout)
    assert answer["remaining"] == [] and len(answer["finished"]) == 6 and answer["tables"]
    answer = json.loads(experiment("strategies", *words, "--until", 0, "--first-batch", 9).stdout)
    assert len(answer["remaining"]) == 5  # another budget is another run; the untrained encoder is the same


def test_a_run_executes_what_it_needs_where_only_the_figures_of_that_are_stored(ran, tmp_path):
    place, there = ran
    stored = tmp_path / "stored"
    write_rows(stored / "x.parquet", [r for r in read_results(place / "out") if r.strategy == "uncertainty"])
    words = [*there, "--have", stored, "--out", tmp_path / "out", "--strategy", "stratified-match", "--json"]
    answer = json.loads(experiment("stratified", *words).stdout)
    assert answer["refused"] == {}
    mine, whole = figures(tmp_path / "out"), figures(place / "out")
    assert mine and mine.items() <= whole.items()


def test_encoders_of_the_e5_family_get_their_prefixes(ran, tmp_path):
    place, _ = ran
    setup = Setup(task_folder=place / "made", encoder_name="some/where/e5-small", out=tmp_path)
    assert setup.prefixes == ("query: ", "query: ")  # one collection: both sides ask
    assert replace(setup, right_prefix="").prefixes == ("query: ", "")
    assert replace(setup, encoder_name="all-MiniLM-L6-v2").prefixes == ("", "")


def test_all_with_a_strategy_runs_only_what_compares_it(ran, tmp_path):
    _, there = ran
    told = experiment("all", *there, "--strategy", "adaptive", "--out", tmp_path, "--until", 0, "--json")
    left = {name.rpartition("/")[2] for name in json.loads(told.stdout)["remaining"]}
    assert left == {"untrained-seed0", "cosine-adaptive-paper-static-8x1.5x2-seed0"}


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(InputError, match="no stored results"):
        experiment("page", "--out", tmp_path)
    with pytest.raises(InputError, match="needs --task and --encoder"):
        experiment("strategies")
    with pytest.raises(InputError, match="table of which"):
        experiment("table")
    assert [each["name"] for each in json.loads(experiment("list", "--json").stdout)] == [
        each.name for each in EXPERIMENTS
    ]


def test_a_recipe_with_changed_settings_is_another_run(ran, tmp_path):
    _, there = ran
    words = ["--recipe", "paper:max_length=8", "--strategy", "static", "--split", "dev", "--out", tmp_path]
    experiment("strategies", *there, *words)
    rows = [row for row in read_results(tmp_path) if row.model == "cosine" and row.round]
    assert {row.recipe for row in rows} == {"paper", "paper:max_length=8"}
    assert {row.split for row in rows} == {"train", "dev"}
    changed = {path.parts[-3]: path.read_text() for path in tmp_path.rglob("campaign.toml")}
    assert {name for name, text in changed.items() if "max_length = 8" in text} == {
        name for name in changed if "paper_max_length_8" in name
    }
    assert len(changed) == 2


def test_benches_of_campaigns_use_the_runs_of_the_experiments(ran, tmp_path, monkeypatch, capsys):
    place, there = ran
    toy = ["--task", there[1], "--encoder", there[3], "--first-batch", 8, "--growth", 1.5, "--rounds", 2]
    toy += ["--device", "cpu", "--out", tmp_path / "out"]
    monkeypatch.setattr(sys, "argv", ["campaigns", *map(str, [*toy, "--json", tmp_path / "claims.json"])])
    campaigns.main()
    (claim,) = json.loads((tmp_path / "claims.json").read_text())
    assert "20 labels, 2 rounds" in claim["claim"] and "test AP" in claim["note"]
    mine, whole = figures(tmp_path / "out"), figures(place / "out")
    assert len(mine) > 10 and mine.items() <= whole.items()

    words = [*toy, "--strategy", "lower", "--seeds", 1]
    monkeypatch.setattr(sys, "argv", ["query_strategies", *map(str, words)])
    monkeypatch.setattr(strategies, "BUILT_IN", dict(strategies.BUILT_IN))
    query_strategies.main()
    head, uncertainty, lower = capsys.readouterr().out.splitlines()[-3:]
    assert head.split() == ["labels", "8", "20"]
    assert uncertainty.startswith("uncertainty") and lower.split()[:2] == ["lower", "+0.0000"]  # one seed set

"""The library: the same verbs as the command line, typed, light to import, shown by code that runs."""

from __future__ import annotations

import json
import pkgutil
import re
import runpy
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import pairsieve as ps
from pairsieve.campaign.notebook import html_table
from pairsieve.cli import all_commands
from pairsieve.errors import InputError, SettingsError
from pairsieve.library.campaigns import OWN_ARGUMENTS, Options
from pairsieve.settings import CampaignSettings, Schedule
from synthetic_task import begin, synthetic_task

pytestmark = pytest.mark.xdist_group("library")  # one campaign serves the module: made once

ROOT = Path(__file__).parents[2]
DOCS = runpy.run_path(str(ROOT / "docs" / "generate.py"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_encoder):
    """A finished campaign of three rounds: 20, 30 and 45 labels."""
    folder = tmp_path_factory.mktemp("library")
    campaign = begin(folder / "mine", synthetic_task(folder / "task"), tiny_encoder)
    campaign.run()
    return campaign


def by_command(*words: object) -> dict:
    """What a command prints with --json."""
    done = CliRunner().invoke(all_commands(), [*map(str, words), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


# ── the names ───────────────────────────────────────────────────────────────────────────────────────


def test_every_promised_name_is_there_and_described():
    for name in ps.__all__:
        thing = getattr(ps, name)
        assert name == "__version__" or thing.__doc__, f"{name} has no docstring"
    assert set(ps.__all__) <= set(dir(ps))


def test_no_name_is_that_of_a_room():
    """`import pairsieve.report` would put the module where the function was."""
    rooms = {module.name for module in pkgutil.iter_modules(ps.__path__)}
    assert not rooms & set(ps.__all__)


def test_an_unknown_name_is_refused_as_python_does():
    with pytest.raises(AttributeError, match="no attribute 'find_matchs'"):
        ps.find_matchs  # noqa: B018


def test_importing_loads_no_package_beyond_the_standard_library():
    code = "import pairsieve, sys; print(sorted({'numpy', 'torch', 'faiss', 'pyarrow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_the_types_are_shipped():
    assert (Path(ps.__file__).parent / "py.typed").is_file()


# ── the page ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCS["EXECUTED"])
def test_the_examples_of_the_page_print_what_it_shows(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / name).read_text()
    printed = DOCS["with_outputs"](page)
    assert DOCS["nearly_equal"](page, printed), f"stale: run `make docs`. Now it reads:\n{printed}"


def test_the_page_names_every_function():
    page = (ROOT / "docs" / "library.md").read_text()
    functions = [name for name in ps.__all__ if name.islower() and not name.startswith("_")]
    assert [name for name in functions if name not in page] == []


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("AP 0.800, 1,000 pairs", "AP 0.821, 1,040 pairs", True),
        ("AP 0.800", "AP 0.850", False),
        ("AP 0.800", "P 0.800", False),
        ("3 groups", "3 groups of 2", False),
    ],
)
def test_words_are_compared_exactly_and_numbers_nearly(one, other, equal):
    assert DOCS["nearly_equal"](one, other) is equal


def test_an_example_that_prints_must_show_it():
    with pytest.raises(ValueError, match="does not show it"):
        DOCS["with_outputs"]("```python\nprint(1)\n```\n")


# ── tasks ───────────────────────────────────────────────────────────────────────────────────────────


def test_texts_in_memory_make_the_same_task_as_the_same_texts_in_files(tmp_path):
    texts = {"a": "red, round", "b": "a red ball", "c": "blue", "d": "the sea"}
    (tmp_path / "texts.csv").write_text('key,text\na,"red, round"\nb,a red ball\nc,blue\nd,the sea\n')
    (tmp_path / "pairs.csv").write_text("left_id,right_id,label\na,b,1\nc,d,0\n")
    filed = ps.task_from_tables(
        str(tmp_path / "texts.csv"), key="key", text=["text"], labels=str(tmp_path / "pairs.csv")
    )
    kept = ps.task_from_texts(texts, labels={("a", "b"): True, ("c", "d"): False})
    assert kept.fingerprint == filed.fingerprint
    assert kept.splits["all"].counts()["positives"] == 1


def test_two_collections_of_texts_without_keys_are_numbered_from_0():
    task = ps.task_from_texts(
        ["red", "blue"], ["rot", "blau", "grün"], matches=[("0", "0"), ("1", "1")], split="none"
    )
    part = task.splits["all"]
    assert (task.relation, part.space.size, part.has_truth) == ("match", 6, True)
    assert part.positives.tolist() == [0 << 32 | 0, 1 << 32 | 1]


@pytest.mark.parametrize(
    ("texts", "more", "words"),
    [
        ({"a": "red", "b": " "}, {}, r"texts, row 1.*the text is empty \(key 'b'\)"),
        ({"a": "red", "b": "blue"}, {"matches": [("a", "x")]}, "matches, row 0.*'x'"),
        ({"a": "red", "b": "blue"}, {"labels": {("a", "a"): True}}, "labels, row 0.*with itself"),
    ],
)
def test_texts_that_cannot_be_used_are_named(texts, more, words):
    with pytest.raises(InputError, match=words):
        ps.task_from_texts(texts, **more)


# ── campaigns ───────────────────────────────────────────────────────────────────────────────────────


def test_the_typed_options_are_the_settings():
    assert set(Options.__annotations__) | OWN_ARGUMENTS == {field.name for field in fields(CampaignSettings)}


def test_a_budget_is_said_in_labels_or_in_batches(tmp_path):
    task = synthetic_task(tmp_path / "task")
    equal = ps.create_campaign(tmp_path / "equal", task, labels=90, rounds=3)
    growing = ps.create_campaign(str(tmp_path / "growing"), str(task), first_batch=20, growth=2.0, rounds=3)
    assert equal.settings.schedule.batches() == (30, 30, 30)
    assert growing.settings.schedule.batches() == (20, 40, 80)
    assert growing.settings.measure_splits == ("dev",)
    measured = ps.create_campaign(
        tmp_path / "m", task, measure=["test"], labels=30, strategy="random", seed=3
    )
    told = measured.settings
    assert (told.measure_splits, told.strategy, told.seed) == (("test",), "random", 3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"stratgy": "random"}, "no setting 'stratgy'. Did you mean 'strategy'"),
        ({"labels": 10, "growth": 2.0}, "`labels` with `first_batch` or `growth`"),
        ({"labels": 2, "rounds": 3}, "`labels=2` in 3 rounds"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_created(tmp_path, settings, words):
    task = synthetic_task(tmp_path / "task")
    with pytest.raises((SettingsError, InputError), match=words):
        ps.create_campaign(tmp_path / "mine", task, **settings)
    assert not (tmp_path / "mine").exists()


def test_people_answer_from_python(tmp_path, tiny_encoder):
    task = synthetic_task(tmp_path / "task", truth=False)
    made = ps.create_campaign(
        tmp_path / "mine", task, first_batch=4, rounds=2, growth=1.0, encoder=str(tiny_encoder), device="cpu"
    )
    assert (made.run().name, made.step().waiting) == ("label", 4)
    first, second, third, fourth = ps.open_questions(made)
    assert first.left_text == made.split.left.texts[made.split.left.keys.index(first.left_key)]
    with pytest.raises(InputError, match="never asked"):
        ps.answer_questions(made, {first.pair: True, (first.left_key, first.left_key): True}, who="ann")
    assert len(ps.open_questions(made, count=3)) == 3, "all or none: the good answer was not written either"

    turned = (second.right_key, second.left_key)
    assert ps.answer_questions(made, {first.pair: True, turned: False, third.pair: None}, who="ann") == 1
    assert [question.pair for question in ps.open_questions(tmp_path / "mine")] == [fourth.pair]
    assert ps.answer_questions(made, {fourth.pair: False}, who="ann") == 0
    assert (made.run().name, made.step().round) == ("label", 2)
    assert made.status().rounds[0].labels == 3, "unsure is an answer, and no label"


# ── the same figures as the commands ────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_figures_are_those_of_the_commands(trained):
    folder = trained.folder
    assert ps.evaluate_model(folder, "test").as_json() == by_command("evaluate", folder, "--split", "test")
    listed = ps.find_matches(folder, folder / "list.csv", count=7, scores_only=True)
    assert listed.as_json() == by_command(
        "match", folder, "--out", folder / "list.csv", "--count", 7, "--scores-only"
    )
    groups = ps.find_clusters(folder, threshold=0.9)
    assert groups.as_json() == by_command("cluster", folder, "--threshold", 0.9)
    assert ps.audit_model(trained, 30).as_json() == by_command("audit", folder)
    told = ps.explain_pair(trained, *[listed.rows(1).__next__()[side] for side in ("left", "right")])
    assert json.loads(json.dumps(told.as_json())) == by_command(
        "explain", folder, told.left_key, told.right_key
    )
    assert "Nearest labelled pairs" in str(told)
    assert str(ps.write_report(trained).page) == by_command("report", folder)["report"]


def test_new_texts_are_matched_in_place_of_the_tasks(trained, tmp_path):
    texts = ps.Collection(["x", "y", "z"], ["how do i reset my password"] * 2 + ["a glacier"])
    listed = ps.find_matches(trained, tmp_path / "new.jsonl", collection=texts, count=1)
    [(left, right, score)] = [(row["left"], row["right"], row["score"]) for row in listed]
    assert (left, right) == ("x", "y")
    assert (listed.split, listed.pairs) == ("new", 3)
    groups = ps.find_clusters(trained, tmp_path / "new.parquet", collection=texts, threshold=score)
    assert {row["key"]: row["size"] for row in groups} == {"x": 2, "y": 2, "z": 1}
    with pytest.raises(InputError, match="`split` and `collection` together"):
        ps.find_matches(trained, split="test", collection=texts)
    with pytest.raises(InputError, match="Add `collection`"):
        ps.find_matches(trained, right=texts)


@pytest.mark.parametrize(
    ("labels", "batches"), [(400, (40,) * 10), (50, (5,) * 10), (49, (5,) * 9), (12, (6, 6)), (3, (3,))]
)
def test_labels_are_asked_in_ten_equal_rounds_of_five_or_more(labels, batches, trained, tmp_path):
    task = trained.settings.task_folder(trained.folder)
    made = ps.create_campaign(tmp_path / "c", task, labels=labels, encoder=trained.settings.encoder)
    assert made.settings.schedule.batches() == batches
    with pytest.raises(InputError, match="at least one label more"):
        ps.extend_campaign(made, 0)
    more = ps.extend_campaign(made.folder, 1)
    assert more.settings.schedule.batches() == (*batches, batches[-1])


def test_an_evaluation_prints_as_a_table_and_draws_its_curve(trained, tmp_path):
    found = ps.evaluate_model(trained, "test", round=1)
    ap = found.average_precision
    assert ap.low == ap.value == ap.high == found.curve.average_precision()
    assert str(found).startswith("After round 1. made, split test: 1,770 pairs")
    assert found.plot(tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="no model of round 9"):
        ps.evaluate_model(trained, round=9)
    with pytest.raises(InputError, match="no split 'tst'"):
        ps.evaluate_model(trained, "tst")


def test_ones_own_embeddings_are_measured_exactly():
    task = ps.task_from_texts(["a", "b", "c", "d"], matches=[("0", "1"), ("2", "3")], split="none")
    rows = np.array([[1, 0], [1, 0.1], [0.6, 0.8], [0, 1]])
    # Cosines: (0,1) 0.995 match, (2,3) 0.8 match, (1,2) 0.676, (0,2) 0.6, (1,3) 0.1, (0,3) 0.
    assert ps.evaluate_embeddings(task, "all", rows, device="cpu").average_precision.value == 1.0
    # With 2 turned towards 1: (0,1) match, then (1,2) and (0,2), then (2,3) match: (1/1 + 2/4) / 2.
    rows[2] = [0.9, 0.5]
    assert ps.evaluate_embeddings(task, "all", rows, device="cpu").average_precision.value == 0.75
    with pytest.raises(InputError, match="right side"):
        ps.evaluate_embeddings(task, "all", rows, rows)
    with pytest.raises(InputError, match=r"its shape is \(3, 2\)"):
        ps.evaluate_embeddings(task, "all", rows[:3])


def test_a_model_is_written_whole_or_not_at_all(trained, tmp_path):
    place = ps.export_model(trained, tmp_path / "deep" / "model").path
    assert json.loads((place / "head.json").read_text())
    with pytest.raises(InputError, match="exists and is not empty"):
        ps.export_model(trained, place)
    assert [path.name for path in place.parent.iterdir()] == ["model"]


def test_what_needs_a_model_says_so_before_there_is_one(tmp_path, tiny_encoder):
    made = begin(tmp_path / "mine", synthetic_task(tmp_path / "task"), tiny_encoder)
    for ask in (ps.evaluate_model, ps.find_matches, ps.audit_model):
        with pytest.raises(InputError, match="no round is complete yet"):
            ask(made)


# ── in a notebook ───────────────────────────────────────────────────────────────────────────────────


def cells(html: str) -> list[list[str]]:
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]


def test_a_campaign_shows_its_rounds(trained):
    html = trained._repr_html_()
    rows = cells(html)
    assert rows[0] == ["round", "labels", "positives", "AP"]
    assert [row[:2] for row in rows[1:]] == [["1", "20"], ["2", "50"], ["3", "95"]]
    assert rows[3][3] == f"{trained.figures()[3].first.average_precision.value:.4f}"
    assert "Finished." in html
    assert "AP: exact, over all pairs of dev." in html
    assert not re.search("src=|href=|<script|url\\(", html), "nothing is loaded from anywhere"
    assert repr(trained) == f"Campaign({str(trained.folder)!r})"


def test_a_campaign_that_has_not_begun_shows_itself_too(tmp_path, tiny_encoder):
    made = begin(tmp_path / "<b>mine</b>", synthetic_task(tmp_path / "task"), tiny_encoder)
    html = made._repr_html_()
    assert len(cells(html)) == 1, "the heading only"
    assert "Next: choose round 1." in html
    assert "&lt;b&gt;mine&lt;/b&gt;" in html
    assert "<b>" not in html


@pytest.mark.parametrize(("step", "words"), [("label", "Waiting for 312 labels"), ("stopped", "a &lt; b")])
def test_where_a_campaign_stands_is_told_in_words(step, words):
    settings = SimpleNamespace(strategy="random", task="task", schedule=Schedule())
    now = ps.Status(Path("mine"), settings, step, 2, 312, "a < b", None, ())
    assert words in now._repr_html_()


def test_a_list_shows_its_first_rows_and_no_text_of_it_is_markup(tmp_path):
    lines = [f'k{at},"<script>x</script>",{at / 10}' for at in range(12)]
    (tmp_path / "list.csv").write_text("left,left_text,score\n" + "\n".join(lines) + "\n")
    html = ps.MatchList(tmp_path / "list.csv", SimpleNamespace(rows=12, columns={}))._repr_html_()
    assert len(cells(html)) == 1 + 10
    assert cells(html)[1] == ["k0", "&lt;script&gt;x&lt;/script&gt;", "0.0000"]
    assert "The first 10." in html
    assert "<script" not in html


def test_long_and_invisible_texts_stay_small_and_visible():
    html = html_table("h", ["text"], [["x" * 1000], ["a\x1b[31m\u202eb"]])
    assert "(1,000 characters)" in html
    assert "\x1b" not in html
    assert "\u202e" not in html

"""Errors name arguments in Python and flags at the terminal; one function names the next command."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

import pairsieve as ps
import pairsieve.library.evaluation
import pairsieve.library.labelling
from evaluating import Pairsieve
from evaluating import runner as make_runner
from pairsieve import library
from pairsieve.campaign.training import Tried
from pairsieve.cli import all_commands, campaign, evaluate, labels, match, serve
from pairsieve.cli import data as data_commands
from pairsieve.cli.flags import command_of, in_flags
from pairsieve.library import ledgers, tasks
from pairsieve.library.campaigns import Options
from pairsieve.matches.figures import MatchFigures, RankedSplit, ThresholdFigures, WrittenMatches
from pairsieve.matches.threshold import OperatingPoint, Target
from pairsieve.reranker.fit import FEWEST
from pairsieve.sources.endpoint import Endpoint
from pairsieve.tasks import matching_task, tables_task
from synthetic_task import begin, synthetic_task

SOURCE = Path(ps.__file__).parent


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pairsieve:
    return make_runner(monkeypatch, capsys)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """A finished campaign."""
    folder = tmp_path_factory.mktemp("flags")
    campaign = begin(folder / "mine", synthetic_task(folder / "task"), tiny_encoder, rounds=1, reranker="off")
    campaign.run()
    return campaign.folder


@pytest.mark.parametrize(
    ("command", "message", "shown"),
    [
        ("match", "`precision=1.5`. Give one", "--precision 1.5. Give one"),
        ("match", "use `source='audit'` or `one_to_one`", "use --from audit or --one-to-one"),
        ("data tables", "pass `quotes=False` or `delimiter`", "pass --no-quotes or --delimiter"),
        ("explain", "`left` and `split`", "LEFT and --split"),
        ("import", "pass `who` or `format`", "pass --who or --format"),
        ("status", "`precision` means nothing here", "`precision` means nothing here"),
        ("cluster", "give `threshold` or `count`", "give --threshold"),
        ("cluster", "say `count` or `threshold`", "say --threshold"),
        ("match", "give `threshold` or `count`", "give --threshold or --count"),
    ],
)
def test_arguments_become_the_flags_of_the_command(command: str, message: str, shown: str) -> None:
    group = typer.main.get_command(all_commands())
    assert in_flags(message, command_of(group, [*command.split(), "--json"])) == shown


WIDER = {
    "Folder": "Path | str",
    "Place": "Campaign | Path | str",
    "Sequence[str]": "list[str]",
    "Source": "Collection | Path | str | None",
}
CALLS = [  # command, the functions that get its options by name, the options it uses itself
    (match.match, [ps.find_matches], {"folder", "cache", "distributed", "as_json"}),
    (match.cluster, [ps.find_clusters], {"folder", "cache", "distributed", "as_json"}),
    (evaluate.draw, [ps.draw_sample], {"folder", "as_json"}),
    (evaluate.evaluate, [library.evaluation.evaluate], {"folder", "as_json"}),
    (labels.label, [library.labelling.serve_labelling_page], {"folder", "no_train", "as_json"}),
    (data_commands.matching, [matching_task], {"source", "out", "as_json", "kinds"}),
    (
        data_commands.tables,
        [tables_task],
        {"table", "out", "as_json", "no_quotes", "kinds", "right_sheet", "right_query"}
        | {"right_encoding", "right_delimiter"}
        | {f"{side}_{of}" for side in ("left", "right") for of in ("text", "template", "key")},
    ),
    (
        labels.ask_model,
        [ps.ask_language_model, Endpoint],
        {"folder", "as_json", "spend_cap", "price_in", "price_out", "token_cap", "request_cap"},
    ),
    (
        serve.serve,
        [ps.Service.open],
        {"folder", "host", "port", "token", "waiting", "batch", "as_json"} | {"public_url", "trusted_proxy"},
    ),
    (campaign.init, [ps.create_campaign, Options], {"folder", "run_now", "as_json"}),
]


def arguments(function: Callable[..., Any]) -> dict[str, set[str]]:
    """The types of each argument, unions taken apart."""
    if function is Options:
        found = {name: each.__forward_arg__ for name, each in Options.__annotations__.items()}
    else:
        found = {name: each.annotation for name, each in inspect.signature(function).parameters.items()}
    for name, words in found.items():
        for short, long in WIDER.items():
            words = words.replace(short, long)
        found[name] = set(words.split(" | "))
    return {name.rstrip("_"): types for name, types in found.items()}


@pytest.mark.parametrize(
    ("command", "functions", "own"), CALLS, ids=lambda each: getattr(each, "__name__", "")
)
def test_options_given_by_name_reach_an_argument_of_their_type(command, functions, own) -> None:
    """`call` passes them on, where mypy does not see the types."""
    options = arguments(command)
    taken = [arguments(function) for function in functions]
    assert options.keys() - set().union(*taken) == own - set().union(*taken)
    for arguments_of in taken:
        for name in options.keys() & arguments_of.keys() - own:
            if name == "split" and functions[0] is ps.create_campaign:
                continue  # None is left out: the default stands in the settings
            if name != "endpoint":  # the command's is the URL of the function's
                assert "Any" in arguments_of[name] or options[name] <= arguments_of[name], name


def test_the_same_slip_through_both_doors(done: Path, runner: Pairsieve) -> None:
    with pytest.raises(ps.InputError, match=r"^`precision=1.5`\. Give a share"):
        ps.find_matches(done, precision=1.5)
    assert runner("match", done, "--precision", 1.5).err.startswith(
        "pairsieve: --precision 1.5. Give a share"
    )
    with pytest.raises(ps.InputError, match=r"Lower `rounds`, or raise `labels`"):
        ps.create_campaign(done.parent / "none", done.parent / "task", labels=2, rounds=3)
    refused = runner(
        "init", done.parent / "none", "--task", done.parent / "task", "--labels", 2, "--rounds", 3
    )
    assert (refused.code, "--labels 2 in 3 rounds" in refused.err) == (2, True)
    assert "Lower --rounds, or raise --labels." in refused.err


SLIPS = [  # what is asked for in Python and what the error says; the same at the terminal
    (
        lambda done: ps.find_matches(done, precision=0.9, confidence=2.0),
        r"^`confidence=2`\. Give a share above 0 and below 1, such as 0\.95\.$",
        ("match", "--precision", 0.9, "--confidence", 2),
        "--confidence 2. Give a share",
    ),
    (
        lambda done: ps.find_matches(done, precision=0.9, confidence=0.0),
        "^`confidence=0`",
        ("match", "--precision", 0.9, "--confidence", 0),
        "--confidence 0. Give a share",
    ),
    (
        lambda done: ps.find_matches(done, precision=0.9, check_labels=-5),
        "^`check_labels=-5`. Give how many",
        ("match", "--precision", 0.9, "--check-labels", -5),
        "--check-labels -5. Give how many",
    ),
    (
        lambda done: ps.audit_model(done, budget=-7),
        "^`budget=-7`. Give a number of labels, or 0",
        ("audit", "--budget", -7),
        "--budget -7. Give a number",
    ),
    (
        lambda done: ps.find_matches(done, f1=True, precision=0.9),
        "^`f1` and `precision` together.* Give one of them",
        ("match", "--f1", "--precision", 0.9),
        "--f1 and --precision together",
    ),
    (
        lambda done: library.evaluation.evaluate(done, to_verify="x.parquet"),
        "this is a campaign folder.* with `embeddings` or `scores`",
        ("evaluate", "--to-verify", "x.parquet"),
        "",
    ),
    (
        lambda done: library.evaluation.evaluate(done.parent / "task"),
        "^give either `embeddings` or `scores`\\. ",
        ("evaluate", "../task"),
        "give either --embeddings or --scores. ",
    ),
    (
        lambda done: ps.find_clusters(done, precision=0.9, recall=0.5),
        "^`precision` and `recall` together",
        ("cluster", "--precision", 0.9, "--recall", 0.5),
        "--precision and --recall together",
    ),
]


@pytest.mark.parametrize(("python", "said", "command", "shown"), SLIPS)
def test_one_rule_for_both_doors(python, said, command, shown, done: Path, runner: Pairsieve) -> None:
    with pytest.raises(ps.InputError, match=said):
        python(done)
    place = done.parent / "task" if "../task" in command else done
    refused = runner(command[0], place, *(word for word in command[1:] if word != "../task"))
    assert refused.code == 2 and refused.err.startswith(f"pairsieve: {shown}"), refused.err


@pytest.mark.parametrize(
    ("given", "said", "shown"),
    [
        ({"rounds": 0}, "`rounds=0`. Allowed: a whole number from 1", "--rounds 0. Allowed"),
        ({"labels": 5, "rounds": 0}, "`rounds=0`. Allowed: a whole", "--rounds 0. Allowed"),
        ({"first_batch": 0}, "`first_batch=0`. Allowed", "--first-batch 0. Allowed"),
        (
            {"measuring_share": 2.0},
            "`measuring_share=2.0`. Allowed: a number",
            "--measuring-share 2.0. Allowed",
        ),
        ({"stop_when": "foo"}, "`stop_when` 'foo': 'foo' is not a rule", "--stop-when 'foo': 'foo' is"),
        (
            {"precision": "nope"},
            "`precision='nope'`. Allowed: one of 'auto', 'float32', 'bfloat16'.",
            "--precision nope. Allowed: one of 'auto', 'float32'",
        ),
        (
            {"first_batch": 10**9, "growth": 100.0},
            "Lower `rounds`, `growth` or `first_batch`.",
            "Lower --rounds, --growth or --first-batch.",
        ),
    ],
)
def test_a_setting_is_named_as_it_was_given(given, said, shown, done: Path, runner: Pairsieve) -> None:
    task, folder = done.parent / "task", done.parent / "none"
    with pytest.raises(ps.PairsieveError, match=re.escape(said)):
        ps.create_campaign(folder, task, **given)
    flags = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]
    refused = runner("init", folder, "--task", task, *flags)
    assert refused.code == 2 and shown in refused.err, refused.err


def test_what_a_campaign_cannot_begin_with_is_said_as_it_is(done: Path) -> None:
    task, folder = done.parent / "task", done.parent / "none"
    with pytest.raises(ps.InputError, match=r"^`labels=0`\. Ask for at least one label\.$"):
        ps.create_campaign(folder, task, labels=0)
    with pytest.raises(ps.InputError, match="'uncertainty' has no balance to set"):
        ps.create_campaign(folder, task, match=done)


def test_the_record_of_answers_from_python(done: Path, runner: Pairsieve, tmp_path: Path) -> None:
    """What `pairsieve ledger` prints is what the functions return."""
    out = tmp_path / "ledger.csv"
    written = ledgers.export_ledger(done, out)
    assert written.as_json() == runner("ledger", "export", done, "--out", out, "--json").json
    verified = ledgers.verify_ledger(done)
    assert verified.ok and verified.as_json() == runner("ledger", "verify", done, "--json").json
    compacted = ledgers.compact_ledger(done)
    assert compacted.ledger == runner("ledger", "vacuum", done, "--json").json["ledger"]


def test_a_task_folder_from_python(done: Path, tmp_path: Path) -> None:
    task = ps.load_task(done.parent / "task")
    made = tasks.make_task(lambda: task, tmp_path / "again")
    assert made.as_json()["fingerprint"] == ps.load_task(tmp_path / "again").fingerprint
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear", encoding="utf-8")
    loaded: list[ps.Task] = []
    with pytest.raises(ps.InputError, match="something other than a task"):  # before the work is done
        tasks.make_task(lambda: loaded.append(task) or task, tmp_path / "mine")
    assert not loaded


def test_arguments_of_names_sides_and_endpoints(done: Path, runner: Pairsieve, tmp_path: Path) -> None:
    with pytest.raises(ps.InputError, match=r"^`side='up'`\. A pair has a left and a right\. Give left"):
        ps.Service.open(done, side="up")
    assert "--side up. A pair has" in runner("serve", done, "--side", "up").err
    with pytest.raises(ps.InputError, match=r"^`retries=-1`\. Give a number from 0"):
        Endpoint(url="http://127.0.0.1:1/v1", model="m", retries=-1)
    asked = ("ask-model", done, "--endpoint", "http://127.0.0.1:1/v1", "--model", "m", "--request-cap", 1)
    assert "--retries -1. Give a number" in runner(*asked, "--retries", -1).err
    with pytest.raises(ps.InputError, match=r"^`who`: a name of 65 characters"):
        ps.answer_questions(done, {}, who="x" * 65)
    file = tmp_path / "batch.csv"
    file.write_text("left,right,label\n", encoding="utf-8")
    assert "--who: a name of 65 characters" in runner("import", done, file, "--who", "x" * 65).err


def test_groups_of_a_precision_say_that_it_is_not_checked(done: Path, runner: Pairsieve) -> None:
    said = runner("cluster", done, "--precision", 0.2, "--from", "dev", "--out", done / "groups.csv")
    assert "That is expected of the pairs by score, not checked." in said.out, said.err
    assert "not checked" not in runner("cluster", done, "--threshold", 0.9, "--out", done / "groups.csv").out
    for command in ("cluster", "audit"):
        assert "not checked" in " ".join(runner(command, "--help").out.split())
    assert "--f1" not in runner("cluster", "--help").out
    with pytest.raises(ps.InputError, match="a precision of 1 cannot be reached"):
        ps.find_clusters(done, done / "groups.csv", precision=1.0)  # a guess is good to begin a check with


def test_the_fewest_labels_of_the_re_ranker_are_its_own() -> None:
    ranked = RankedSplit(Path("c"), "t", "all", 1, False, "on", 40, Tried(), 0, "exact", None)
    threshold = ThresholdFigures(Target("threshold", 1.0), None, "", OperatingPoint(1.0, 0.5, 0.5), None, "")
    written = WrittenMatches(threshold, None, Path("m.csv"), {}, 0, 0, False, False, None)
    found = MatchFigures(ranked, 1, None, written)
    assert f"(it needs {FEWEST} of either class)" in match.match_words(found)


def test_no_library_module_speaks_of_flags() -> None:
    """Whole command lines (pairsieve …, pip …, ray …) are for a shell, whoever reads them."""
    elsewhere = {"cli", "experiments", "report"}  # report/ prints the commands that made a campaign
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] in elsewhere:
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            named = re.search(r"(?<![\w`-])--[a-z][a-z-]+", line)
            shell = re.search(r"\b(pairsieve|pip|ray|audit|evaluate) .*--|--json", line)
            assert not named or shell, f"{path.name}: {line.strip()}"


def test_the_version(runner: Pairsieve) -> None:
    assert runner("--version").out == f"pairsieve {ps.__version__}\n"


def test_a_threshold_that_was_given_is_not_said_twice(done: Path, runner: Pairsieve) -> None:
    found = runner("match", done, "--threshold", 0.8, "--out", done / "list.csv").out
    assert "Threshold 0.8 as given.\n" in found or "Threshold 0.8 as given; by " in found
    assert "for a threshold of" not in found


def test_a_list_without_pairs_has_no_precision(done: Path, runner: Pairsieve) -> None:
    """What dev says of a threshold is said of pairs that are listed."""
    dev = ps.find_matches(done, done / "dev.csv", split="dev", source="dev", count=1)
    assert dev.operating_point.precision is not None
    two = ps.Collection(["x", "y"], ["how do i reset my password", "a glacier is a river of ice"])
    threshold = dev.operating_point.threshold
    none = ps.find_matches(done, done / "none.csv", collection=two, source="dev", threshold=threshold)
    assert len(none) == 0
    assert (none.operating_point.precision, none.operating_point.recall) == (None, None)
    shown = runner("match", done, "--threshold", 2, "--scores-only", "--out", done / "none.csv").out
    assert "expected" not in shown and "none.csv: no pair is listed." in shown
    assert "the list         no pair" in shown and "by score alone   no pair" in shown


def test_init_run_and_status_name_the_same_next_command(
    runner: Pairsieve, tiny_encoder: Path, tmp_path: Path
) -> None:
    synthetic_task(tmp_path / "task", truth=False)
    folder = tmp_path / "my campaign"
    how = (
        "--encoder",
        tiny_encoder,
        "--learner",
        "projection",
        "--device",
        "cpu",
        "--labels",
        4,
        "--rounds",
        1,
    )
    created = runner("init", folder, "--task", tmp_path / "task", *how).out
    named = f"'{folder}'"  # as a shell reads it
    assert created.splitlines()[-1] == f"Next: pairsieve run {named}"
    assert runner("status", folder).out.splitlines()[-1] == f"Next: pairsieve run {named}"
    waiting = runner("run", folder).out.splitlines()[-1]
    by_file = f"pairsieve ask {named} --out batch.csv"
    assert waiting == f"Next: pairsieve label {named} (in the browser), or by file: {by_file}"
    assert runner("status", folder).out.splitlines()[-1] == waiting


def test_the_command_that_ask_prints_brings_the_answers_back(
    runner: Pairsieve, tiny_encoder: Path, tmp_path: Path
) -> None:
    campaign = begin(tmp_path / "c", synthetic_task(tmp_path / "task", truth=False), tiny_encoder)
    campaign.run()
    batch = tmp_path / "batch.jsonl"
    printed = runner("ask", campaign.folder, "--out", batch, "--count", 2).out
    rows = [json.loads(line) | {"label": 1} for line in batch.read_text(encoding="utf-8").splitlines()]
    batch.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    command = shlex.split(printed.strip().partition("back with: pairsieve ")[2])
    assert runner(*command).out.startswith("2 answers written (NAME 2)")
    assert "batch.jsonl: 1 question. When" in runner("ask", campaign.folder, "--out", batch, "--count", 1).out
    rows = [json.loads(batch.read_text(encoding="utf-8"))]
    batch.write_text(json.dumps(rows[0] | {"label": "no"}), encoding="utf-8")
    assert runner(*command).out.startswith("1 answer written (NAME 1), 0 known already, 0 rows without")


def test_an_edit_is_refused_until_run_is_told_to_accept_it(
    done: Path, runner: Pairsieve, tmp_path: Path
) -> None:
    shutil.copytree(done.parent, tmp_path / "copy")
    folder = tmp_path / "copy" / "mine"
    assert "\nFinished.\nNext: pairsieve match" in runner("status", folder).out
    settings = folder / "campaign.toml"
    text = settings.read_text(encoding="utf-8")
    assert 'recipe = "best"' in text
    settings.write_text(text.replace('recipe = "best"', 'recipe = "paper"'), encoding="utf-8")
    refusal = (
        "campaign.toml changed since the last run: recipe was 'best', is 'paper'. Put back what was there. "
        f"Or, if the change is meant, accept it: pairsieve run {folder} --accept-settings (in Python "
        "accept_settings=True)"
    )
    with pytest.raises(ps.PairsieveError, match="in Python accept_settings=True"):
        ps.open_campaign(folder)
    for command in ("status", "run", "match", "cluster", "report", "audit", "label", "serve", "extend"):
        refused = runner(command, folder)
        assert refused.code == 2 and refused.err.rstrip().endswith(refusal), command
    now = ps.open_campaign(folder, accept_settings=True)
    assert ps.next_command(now) == f"pairsieve run {folder}"
    assert "campaign.toml says otherwise" in ps.campaign_status(now).stale[1]
    taken = runner("run", folder, "--accept-settings")
    assert taken.err.startswith(
        "campaign.toml changed since the last run, and is accepted: recipe was 'best'"
    )
    assert "\nFinished.\nNext: pairsieve match" in runner("status", folder).out
    sealed = (folder / "rounds" / "settings.json").read_text(encoding="utf-8")
    assert '"recipe": "paper"' in sealed

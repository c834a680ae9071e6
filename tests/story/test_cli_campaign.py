"""`pairsieve init | run | status | evaluate | export` as a person uses them; bad input exits 2, in words."""

from __future__ import annotations

import csv
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.synthetic import synthetic_questions
from pairsieve import cli
from pairsieve.campaign import Campaign
from pairsieve.campaign.training import Trainer
from pairsieve.files import locked
from synthetic_task import begin, picture, synthetic_task


class Person:
    """Somebody at the terminal: `type` runs a command and keeps its exit code, stdout and stderr."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def type(self, *words: object) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["pairsieve", *map(str, words)])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        printed = self._capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    def json(self, *words: object) -> dict[str, Any]:
        """What a command that succeeds prints with --json."""
        code, out, err = self.type(*words, "--json")
        assert code == 0, err
        read: dict[str, Any] = json.loads(out)
        return read

    def refused(self, *words: object) -> str:
        """What a command that fails says: one remark, no data, no traceback."""
        code, out, err = self.type(*words)
        assert (code, out) == (2, "")
        assert err.startswith("pairsieve: ") and err.count("\n") == 1 and "Traceback" not in err
        return err.removeprefix("pairsieve: ").strip()


def what_next(folder: object) -> str:
    return f"Next: pairsieve match {folder}, or more labels: pairsieve extend {folder} --labels 200"


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Person:
    return Person(monkeypatch, capsys)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, task: Path, tiny_encoder: Path) -> Path:
    """A finished campaign of one round."""
    folder = tmp_path_factory.mktemp("campaigns") / "done"
    begin(folder, task, tiny_encoder, rounds=1).run()
    return folder


def write_csv(path: Path, *rows: tuple[object, ...]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def test_from_a_table_to_a_model(person: Person, tiny_encoder: Path, tmp_path: Path) -> None:
    """data → init → run → status → evaluate → export: the whole story of one campaign."""
    made = synthetic_questions(160, seed=3)
    table = write_csv(tmp_path / "questions.csv", ("id", "text"), *zip(made.keys, made.texts))
    one, other = np.nonzero(np.triu(made.cluster[:, None] == made.cluster, 1))
    matches = [(made.keys[a], made.keys[b]) for a, b in zip(one, other)]
    known = write_csv(tmp_path / "matches.csv", ("id_a", "id_b"), *matches)
    task, folder = tmp_path / "task", tmp_path / "campaign"
    table_options = ("--key", "id", "--matches", known)
    counts = person.json("data", "tables", "--from", table, *table_options, "--out", task)
    pairs = {name: split["pairs"] for name, split in counts["splits"].items()}
    assert set(pairs) == {"train", "dev", "test"}

    schedule = ("--first-batch", 20, "--growth", 1.5, "--rounds", 3)
    how = ("--encoder", tiny_encoder, "--learner", "projection", "--device", "cpu")
    code, out, _ = person.type("init", folder, "--task", task, *schedule, *how)
    assert code == 0
    assert out.splitlines() == [
        f"{folder}: uncertainty on {task}, 95 labels in rounds of 20, 30, 45.",
        f"Next: pairsieve run {folder}",
    ]
    before = person.json("status", folder)
    assert (before["state"], before["rounds"]) == ("ready", [])
    assert before["next"] == {"step": "choose", "round": 1, "waiting": 0}
    code, out, _ = person.type("status", folder)
    assert out.splitlines()[-1] == f"Next: pairsieve run {folder}"

    code, out, err = person.type("run", folder)
    assert code == 0
    assert [line.split(",")[0] for line in err.splitlines()] == [
        "round 1: 20 labels",
        "round 2: 50 labels",
        "round 3: 95 labels",
    ]
    assert out.split()[:6] == ["round", "labels", "positives", "AP", "P@R20", "seconds"]
    assert [line.split()[:2] for line in out.splitlines()[1:4]] == [["1", "20"], ["2", "50"], ["3", "95"]]
    assert out.splitlines()[-2:] == ["Finished: 95 labels.", what_next(folder)]

    after = person.json("status", folder)
    assert (after["state"], after["budget"], after["strategy"]) == ("finished", 95, "uncertainty")
    assert [row["round"] for row in after["rounds"]] == [1, 2, 3]
    assert [row["labels"] for row in after["rounds"]] == [20, 50, 95]
    for row in after["rounds"]:
        assert 0 <= row["positives"] <= row["labels"]
        assert row["average_precision"] == row["measures"]["dev"]["average_precision"]
        assert row["average_precision"]["method"] == "exact"
        assert row["average_precision"]["n"] == pairs["dev"]
        assert set(row["precision_at_recall"]) == {"0.1", "0.2", "0.5"}
        if not row["search"]["method"].startswith("re-ranker over"):
            assert row["search"]["recall"]["value"] == 1.0
        assert set(row["seconds"]) == {"embed", "select", "train", "measure"}
        alone = np.clip(-row["head"]["bias"] / row["head"]["weight"], -1, 1)
        assert row["threshold"] == (0.0 if row["reranked"] else alone)

    code, out, _ = person.type("run", folder)
    assert code == 0
    assert out.splitlines()[-2:] == ["This campaign is finished; nothing was left to do.", what_next(folder)]
    assert person.json("run", folder) == after

    measured = person.json("evaluate", folder, "--split", "dev")
    assert measured["average_precision"] == after["rounds"][-1]["average_precision"]
    test = person.json("evaluate", folder, "--split", "test")
    assert (test["round"], test["split"], test["method"]) == (3, "test", "exact")
    assert test["pairs"] == pairs["test"]
    code, out, _ = person.type("evaluate", folder, "--plot", tmp_path / "curve.png")
    assert out.startswith("After round 3.") and (tmp_path / "curve.png").stat().st_size > 1000

    exported = person.json("export", folder, "--out", tmp_path / "model")
    assert exported["round"] == 3
    from sentence_transformers import SentenceTransformer

    campaign = Campaign(folder)
    scorer = campaign.scorer(3)
    assert (exported["weight"], exported["bias"]) == (scorer.weight, scorer.bias)
    assert exported["average_precision"] == measured["average_precision"]["value"]
    rows, _ = campaign.score(campaign.split, 3).corrected.unit
    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(
        list(campaign.split.left.texts)
    )
    assert np.abs(theirs @ theirs.T - np.asarray(rows) @ np.asarray(rows).T).max() < 1e-5
    card = (tmp_path / "model" / "README.md").read_text()
    assert "probability" in card and "known chances" in card


@pytest.mark.slow
def test_matching_the_balance_of_another_run(
    person: Person, task: Path, done: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    found = person.json("status", done)["rounds"][-1]["positives"]
    options = ("--task", task, "--encoder", tiny_encoder, "--learner", "projection", "--first-batch", 20)
    made = person.json(
        "init", tmp_path / "c", *options, "--rounds", 1, "--strategy", "stratified", "--match", done
    )
    assert made["strategy"] == f"stratified:{found}/20"
    assert person.json("run", tmp_path / "c")["rounds"][0]["positives"] == found
    words = person.refused("init", tmp_path / "d", *options, "--match", done)
    assert words.startswith("--match goes with --strategy stratified")


def test_a_task_without_truth_waits_for_people(person: Person, tiny_encoder: Path, tmp_path: Path) -> None:
    synthetic_task(tmp_path / "task", truth=False)
    for labels, words in ((100, "Only 9 of them measure. Below 20, match gives no prob"), (400, "Next:")):
        how = ("--encoder", tiny_encoder, "--labels", labels)
        _, out, _ = person.type("init", tmp_path / f"{labels}", "--task", tmp_path / "task", *how)
        assert words in out and ("measure." in out) == (labels == 100)
    begin(tmp_path / "c", tmp_path / "task", tiny_encoder)
    for _ in range(2):  # asking again asks nothing new
        code, out, err = person.type("run", tmp_path / "c")
        assert (code, err) == (0, "")
        assert "Waiting for 20 labels of round 1. Nothing is lost; run again later." in out
        assert "pairsieve label" in out.splitlines()[-1]
    now = person.json("status", tmp_path / "c")
    assert (now["state"], now["next"]) == ("waiting", {"step": "label", "round": 1, "waiting": 20})
    assert now["rounds"] == [{"round": 1, "labels": 0, "positives": 0, "open": 20, "inferred": 0}]
    code, out, _ = person.type("status", tmp_path / "c")
    assert (code, out.splitlines()[-2]) == (0, "Waiting for 20 labels of round 1.")
    assert "no round is complete yet" in person.refused("evaluate", tmp_path / "c", "--split", "test")
    _, out, _ = person.type("init", tmp_path / "few", "--task", tmp_path / "task", *how[:2], "--labels", 3)
    assert "One person needs about a minute for them." in out


def test_pairs_with_a_label_in_the_task_are_asked_of_nobody(
    person: Person, tiny_encoder: Path, tmp_path: Path
) -> None:
    """40 of 40 labels stand in the file: a trained round without an answer. Exported, they serve again."""
    made = synthetic_questions(40)
    pairs = [(one, other) for one in range(40) for other in range(one)]
    same = [pair for pair in pairs if made.cluster[pair[0]] == made.cluster[pair[1]]]
    other = [pair for pair in pairs if made.cluster[pair[0]] != made.cluster[pair[1]]]
    stated = [*same[:10], *other[: 40 - len(same[:10])]]
    table = write_csv(tmp_path / "t.csv", ("id", "text"), *zip(made.keys, made.texts))
    rows = [(made.keys[one], made.keys[two], int((one, two) in same)) for one, two in stated]
    labels = write_csv(tmp_path / "l.csv", ("left", "right", "label"), *rows)
    for folder in ("a", "b"):
        task = tmp_path / f"task-{folder}"
        person.json("data", "tables", "--from", table, "--key", "id", "--labels", labels, "--out", task)
        how = ("--encoder", tiny_encoder, "--learner", "projection", "--device", "cpu", "--labels", 40)
        how = (*how, "--strategy", "stated", "--measuring-share", 0, "--rounds", 1)
        _, out, _ = person.type("init", tmp_path / folder, "--task", task, *how)
        assert "40 pairs have a label in the task: nobody is asked about these." in out
        code, out, err = person.type("run", tmp_path / folder)
        assert code == 0 and "Finished: 40 labels." in out, err
        assert "40 questions were answered from the task's own labels." in out
        now = person.json("status", tmp_path / folder)
        assert (now["state"], now["answered_by_task"]) == ("finished", 40)
        labels = tmp_path / "old.csv"
        person.json("ledger", "export", tmp_path / folder, "--out", labels)


def test_people_who_disagree_are_told_and_told_what_to_do(
    person: Person, tiny_encoder: Path, tmp_path: Path
) -> None:
    """Two answers of 20 differ: every command says so, and a third person settles them."""
    folder = tmp_path / "c"
    begin(folder, synthetic_task(tmp_path / "task", truth=False), tiny_encoder, rounds=1, reranker="off")
    person.type("run", folder)
    person.json("ask", folder, "--out", tmp_path / "b.csv")
    with (tmp_path / "b.csv").open(newline="", encoding="utf-8-sig") as file:
        header, *rows = csv.reader(file)
    for who, first in (("anna", 0), ("ben", 2), ("cleo", 2)):
        label = header.index("label")
        answered = [(*row[:label], int(at >= first), *row[label + 1 :]) for at, row in enumerate(rows)]
        write_csv(tmp_path / f"{who}.csv", header, *answered)
    words = "2 pairs wait because people disagree: decide on the page (pairsieve label "
    words += f"{folder}, Open decisions), or let one more person answer."
    _, out, _ = person.type("import", folder, tmp_path / "anna.csv", "--who", "anna")
    assert "people disagree" not in out
    for who in ("ben", "anna"):
        assert words in person.type("import", folder, tmp_path / f"{who}.csv", "--who", who)[1]
    for command in (("run", folder), ("status", folder), ("ask", folder, "--out", tmp_path / "again.csv")):
        assert words in person.type(*command)[1], command
    assert words in person.refused("match", folder, "--out", tmp_path / "m.csv")
    assert person.json("status", folder)["disagreements"] == 2
    found = person.json("import", folder, tmp_path / "cleo.csv", "--who", "cleo")
    assert (found["waiting"], found["disagreements"]) == (0, 0)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--strategy", "uncertanty", "unknown strategy 'uncertanty'. Did you mean 'uncertainty'?"),
        ("--strategy", "stratified", "the balance is missing or wrong. Write stratified:POSITIVES/LABELS"),
        ("--strategy", "stratified:9/4", "for example stratified:742/16640"),
        ("--learner", "ful", "unknown learner 'ful'. Did you mean 'full'? Known: auto, full, projection"),
        ("--encoder", "all-MiniLM-L6-v3", "unknown encoder 'all-MiniLM-L6-v3'"),
        ("--encoder", "all-MiniLM-L6-v3", "Did you mean 'all-MiniLM-L6-v2'?"),
        ("--search", "faiss-ivv", "Allowed: one of 'exact', 'neighbours', 'ivf', 'faiss-ivf', 'faiss-hnsw'"),
        ("--seed-set", "uncertainty", "Allowed: one of 'auto', 'spread', 'static', 'stated', 'random'"),
        (
            "--split",
            "trian",
            "task 'made' has no split 'trian'. Did you mean 'train'? Known: dev, test, train",
        ),
        ("--measure", "tset", "task 'made' has no split 'tset'. Did you mean 'test'?"),
        ("--first-batch", 9000, "the schedule asks for 9,000 distinct pairs, 7,140 are in train"),
        ("--first-batch", 0, "--first-batch 0. Allowed: a whole number"),
        ("--growth", 0.5, "--growth 0.5. Allowed: a number"),
        ("--seed", -1, "--seed -1. Allowed: a whole number"),
        ("--device", "gpu", "--device gpu. Allowed: 'auto'"),
    ],
)
def test_a_campaign_that_cannot_work_is_refused_and_leaves_nothing(
    option: str, value: object, words: str, person: Person, task: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    usual = {"--encoder": tiny_encoder, "--first-batch": 20, "--rounds": 1, "--learner": "projection"}
    options = [word for pair in (usual | {option: value}).items() for word in pair]
    assert words in person.refused("init", tmp_path / "c", "--task", task, *options)
    assert not (tmp_path / "c").exists()


def test_an_encoder_folder_without_weights(
    person: Person, task: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(tiny_encoder, bare)
    (bare / "model.safetensors").unlink()
    words = person.refused("init", tmp_path / "c", "--task", task, "--encoder", bare, "--first-batch", 20)
    assert f"{bare}: an encoder folder without weights" in words and "save_pretrained" in words
    (bare / "pytorch_model.bin").write_bytes(b"pickled")
    words = person.refused("init", tmp_path / "c", "--task", task, "--encoder", bare, "--first-batch", 20)
    assert "It has pickled weights, which can run code and are never read" in words
    near = str(tiny_encoder)[:-1]
    words = person.refused("init", tmp_path / "c", "--task", task, "--encoder", near, "--first-batch", 20)
    assert "Did you mean 'tiny-bert'?" in words
    assert not (tmp_path / "c").exists()


def test_an_encoder_that_went_away_between_two_runs(
    person: Person, task: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "encoder"
    shutil.copytree(tiny_encoder, mine)
    begin(tmp_path / "c", task, mine, rounds=1)
    mine.rename(tmp_path / "moved")
    assert "no encoder folder" in person.refused("run", tmp_path / "c")
    (tmp_path / "moved").rename(mine)
    assert person.json("run", tmp_path / "c")["state"] == "finished"


def test_extend_plans_more_rounds(person: Person, task: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    folder, how = tmp_path / "c", ("--encoder", tiny_encoder, "--labels", 20, "--rounds", 2)
    assert person.json("init", folder, "--task", task, *how)["budget"] == 20
    code, out, _ = person.type("extend", folder, "--labels", 15)
    assert (code, out.splitlines()) == (
        0,
        [
            f"{folder}: 4 rounds, 40 labels in all. 20 more, for a round is as large as the last.",
            f"Next: pairsieve run {folder}",
        ],
    )
    assert "This is a task folder" in person.refused("run", task)
    words = person.refused("extend", folder, "--labels", 9000)
    assert "7,140 are in train" in words and "Lower --labels" in words
    assert person.json("status", folder)["budget"] == 40


def test_init_twice(person: Person, task: Path, done: Path, tiny_encoder: Path) -> None:
    before = picture(done)
    words = person.refused("init", done, "--task", task, "--encoder", tiny_encoder, "--first-batch", 20)
    assert words.startswith(f"{done} already holds a campaign. Go on with: pairsieve run {done}")
    assert picture(done) == before


def test_folders_that_are_no_campaigns_and_no_tasks(person: Person, task: Path, tmp_path: Path) -> None:
    for verb in ("run", "status"):
        words = person.refused(verb, tmp_path / "nowhere")
        assert "there is no campaign file. Create a campaign with: pairsieve init" in words
    assert not (tmp_path / "nowhere").exists()
    words = person.refused("init", tmp_path / "c", "--task", tmp_path / "nothing")
    assert "there is no such task folder" in words
    assert "there is no campaign file" in person.refused("run", task)


def test_evaluate_asks_for_what_is_there(
    person: Person, task: Path, done: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    assert "no split 'tets'. Did you mean 'test'?" in person.refused("evaluate", done, "--split", "tets")
    begin(tmp_path / "fresh", task, tiny_encoder)
    words = person.refused("evaluate", tmp_path / "fresh", "--split", "test")
    assert words == f"{tmp_path / 'fresh'}: no round is complete yet. pairsieve run {tmp_path / 'fresh'}."
    words = person.refused("export", tmp_path / "fresh", "--out", tmp_path / "model")
    assert "no round is complete yet" in words and not (tmp_path / "model").exists()


def test_export_writes_whole_or_not_at_all(
    person: Person, done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pairsieve.models import ProjectionMatcher

    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    assert "exists and is not empty" in person.refused("export", done, "--out", tmp_path / "taken")
    words = person.refused("export", done, "--out", tmp_path / "model", "--round", 4)
    assert words == "there is no model of round 4. Choose a round from 1 to 1."

    real = ProjectionMatcher.save

    def half(self: ProjectionMatcher, folder: Path) -> None:
        real(self, folder)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(ProjectionMatcher, "save", half)
        words = person.refused("export", done, "--out", tmp_path / "model")
    assert "the model cannot be written. No space left on device" in words
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken"]
    assert person.json("export", done, "--out", tmp_path / "model")["round"] == 1


def test_a_campaign_of_another_task(person: Person, task: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    shutil.copytree(task, tmp_path / "task")
    begin(tmp_path / "c", tmp_path / "task", tiny_encoder, rounds=1)
    synthetic_task(tmp_path / "task", seed=9)
    words = person.refused("run", tmp_path / "c")
    assert "belongs to another task" in words
    assert f"pairsieve ledger export {tmp_path / 'c'} --out old.csv" in words
    assert "pairsieve data tables --labels old.csv" in words


def test_a_full_disk_is_said_in_words(
    person: Person, task: Path, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    begin(tmp_path / "c", task, tiny_encoder, rounds=1)
    with monkeypatch.context() as patch:
        patch.setattr("pairsieve.artifacts.np.save", full)
        words = person.refused("run", tmp_path / "c")
    assert "the disk is full" in words and words.endswith("and run again.")
    assert person.json("run", tmp_path / "c")["state"] == "finished"


def test_another_process_is_running_it(
    person: Person, task: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    campaign = begin(tmp_path / "c", task, tiny_encoder)
    with locked(campaign.folder / ".lock"):
        assert "is being run by another process" in person.refused("run", tmp_path / "c")
        assert person.json("status", tmp_path / "c")["state"] == "ready"  # looking is always allowed


@pytest.mark.slow
def test_ctrl_c_in_the_middle_of_a_step(
    person: Person, task: Path, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path / "whole", task, tiny_encoder, rounds=1).run()
    begin(tmp_path / "c", task, tiny_encoder, rounds=1)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_fit", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        code, out, err = person.type("run", tmp_path / "c")
    assert (code, out) == (130, "")
    assert err == "pairsieve: stopped. What was finished is kept; run the same command again to go on.\n"
    assert person.json("run", tmp_path / "c")["state"] == "finished"
    assert picture(tmp_path / "c") == picture(tmp_path / "whole")


def test_ctrl_c_while_an_encoder_is_being_read_is_no_damaged_encoder(
    person: Person, task: Path, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    begin(tmp_path / "c", task, tiny_encoder, rounds=1)
    with monkeypatch.context() as patch:
        patch.setattr(
            transformers.AutoModel, "from_pretrained", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)
        )
        code, _, err = person.type("run", tmp_path / "c")
    assert (code, err.split(".")[0]) == (130, "pairsieve: stopped")


@pytest.mark.slow
@pytest.mark.xdist_group("slow-campaign")
def test_ctrl_c_to_a_process_of_its_own(
    person: Person, task: Path, tiny_encoder: Path, tmp_path: Path, finished: dict[str, Path]
) -> None:
    """`python -m pairsieve run`, stopped after round 1, then run to the end."""
    folder = tmp_path / "c"
    begin(folder, task, tiny_encoder, learner="full")
    process = subprocess.Popen(
        [sys.executable, "-m", "pairsieve", "run", str(folder)], stderr=subprocess.PIPE, text=True
    )
    while not (folder / "rounds" / "round-001.json").is_file():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert said.splitlines()[-1].startswith("pairsieve: stopped. What was finished is kept")
    assert "Traceback" not in said
    assert person.json("run", folder)["state"] == "finished"
    assert picture(folder) == picture(finished["full"])

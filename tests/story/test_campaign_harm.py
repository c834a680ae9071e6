"""Stopped, killed, incomplete: whatever happens to a campaign, run it again and it is the same."""

from __future__ import annotations

import itertools
import json
import logging
import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pairsieve import files, settings
from pairsieve.campaign import Campaign, Step, loop
from pairsieve.errors import PoolExhausted, SettingsError
from pairsieve.ledger import Ledger
from synthetic_task import LEARNERS, begin, picture

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("PAIRSIEVE_KILLS", "8"))  # 50 for the whole story


@pytest.fixture
def copied(finished: dict[str, Path], task: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a finished campaign, to be damaged; the task stands beside it as in the original."""

    def copy(learner: str) -> Path:
        folder = shutil.copytree(finished[learner], tmp_path / "copy")
        file = folder / "campaign.toml"
        written = json.dumps(settings.load_settings(file).task)
        file.write_text(file.read_text().replace(written, json.dumps(str(task.resolve()))))
        return folder

    return copy


# ── stopped and gone on ─────────────────────────────────────────────────────────────────────────────


class Tripwire:
    """Stops the work at the `at`-th moment: each watched call has one moment before it and one after."""

    def __init__(self, at: int) -> None:
        self.at, self.moment = at, 0

    def watch(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def watched(*args: Any, **more: Any) -> Any:
            self.pass_by()
            made = real(*args, **more)
            self.pass_by()
            return made

        monkeypatch.setattr(owner, name, watched)

    def pass_by(self) -> None:
        self.moment += 1
        if self.moment == self.at:
            raise KeyboardInterrupt


def run_until(folder: Path, moment: int) -> int:
    """Run a campaign and stop it at that moment of writing; how many moments there were until then."""
    wire = Tripwire(moment)
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (
            (files, "_install"),
            (Ledger, "ask"),
            (Ledger, "answer"),
            (loop, "write_checksummed"),
        ):
            wire.watch(patch, owner, name)
        try:
            Campaign(folder).run()
        except KeyboardInterrupt:
            assert wire.moment == moment
    return wire.moment


def test_stopped_at_every_moment_of_writing_in_turn_it_is_the_same_campaign(
    task: Path, tiny_encoder: Path, finished: dict[str, Path], tmp_path: Path
) -> None:
    """One campaign, run again and again: stopped before and after its first write, its second."""
    folder = tmp_path / "c"
    begin(folder, task, tiny_encoder)
    stops = 0
    for moment in itertools.cycle((1, 2, 3, 4)):
        if run_until(folder, moment) < moment:
            break
        stops += 1
    assert stops >= 20
    assert Campaign(folder).step() == Step("finished", 3)
    assert picture(folder) == picture(finished["projection"])


@pytest.mark.parametrize("learner", LEARNERS)
def test_stopped_after_each_step_in_turn(
    learner: str, task: Path, tiny_encoder: Path, finished: dict[str, Path], tmp_path: Path
) -> None:
    begin(tmp_path / "c", task, tiny_encoder, learner=learner)
    steps = []
    real = loop.next_step
    while True:
        looks = iter(range(2))

        def one_step_only(*args: Any, looks: Iterator[int] = looks) -> Step:
            step = real(*args)
            if next(looks) == 1 and step.name != "finished":
                raise KeyboardInterrupt
            steps.append(step.name)
            return step

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "next_step", one_step_only)
            try:
                Campaign(tmp_path / "c").run()  # opened afresh: nothing but the folder is remembered
                break
            except KeyboardInterrupt:
                continue
    assert steps == ["choose", "label", "train"] * 3 + ["finished"]
    assert picture(tmp_path / "c") == picture(finished[learner])


def test_a_campaign_can_be_given_more_rounds(
    task: Path, tiny_encoder: Path, finished: dict[str, Path], tmp_path: Path
) -> None:
    begin(tmp_path / "c", task, tiny_encoder, rounds=2).run()
    file = tmp_path / "c" / "campaign.toml"
    file.write_text(file.read_text().replace("\nrounds = 2", "\nrounds = 3"))
    assert Campaign(tmp_path / "c", accept_settings=True).run() == Step("finished", 3)
    assert picture(tmp_path / "c") == picture(finished["projection"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('recipe = "best"', 'recipe = "best"\nhubness_correction = 0.5'),
        ("max_length = 128", "max_length = 4"),
    ],
)
def test_a_finished_campaign_with_other_settings_says_that_it_trains_or_measures_again(
    old: str, new: str, copied: Callable[[str], Path]
) -> None:
    folder = copied("projection")
    before, said, file = Campaign(folder).figures(), [], folder / "campaign.toml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(SettingsError, match=r"changed since the last run: .*run \S+ --accept-settings"):
        Campaign(folder)
    changed = Campaign(folder, accept_settings=True)
    bought = len(changed.ledger.labels()[0])
    assert changed.run(said.append).name == "finished"
    assert said[0].startswith("campaign.toml changed since the last run, and is accepted: ")
    assert said[1].startswith("rounds 1 to 3: trained and measured again, for campaign.toml says otherwise")
    assert [words[:8] for words in said[2:]] == ["round 1:", "round 2:", "round 3:"]
    after = Campaign(folder).figures()
    assert all(before[n].first.average_precision != after[n].first.average_precision for n in after)
    assert len(Campaign(folder).ledger.labels()[0]) == bought
    said.clear()
    Campaign(folder).run(said.append)
    assert said == []


def test_settings_edited_into_nonsense_are_refused_in_words(
    task: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    begin(tmp_path / "c", task, tiny_encoder)
    file = tmp_path / "c" / "campaign.toml"
    good = file.read_text()
    for old, new, words in (
        ('split = "train"', 'split = "trian"', r"no split 'trian'\. Did you mean 'train'"),
        ('measure_splits = ["dev"]', 'measure_splits = ["tests"]', "Did you mean 'test'"),
        ('learner = "projection"', 'learner = "projektion"', "Did you mean 'projection'"),
        ("separate_encoders = false", "separate_encoders = true", "no left and right"),
        ('left_prefix = ""', 'left_prefix = "query: "', "has one collection"),
        ("\nrounds = 3", "\nrounds = 30", r"asks for [\d,]+ distinct pairs, 7,140 are in train"),
    ):
        assert f"\n{old.strip()}" in good
        file.write_text(good.replace(old, new))
        with pytest.raises((SettingsError, PoolExhausted), match=words):
            Campaign(tmp_path / "c").run()
    file.write_text(good)
    assert Campaign(tmp_path / "c").step() == Step("choose", 1)


# The server warms up (imports, compiled kernels, a few texts embedded) and then forks a child per run: a kill
# costs a fraction of a second, not an interpreter's start. Lines {"folder", "seconds"} in, what happened out.
KILL_SERVER = """
import json, os, signal, sys, time
from pathlib import Path
import numpy as np
import pyarrow.parquet, sqlalchemy.dialects.sqlite, torch
import pairsieve.measure.figures, pairsieve.search
from pairsieve.campaign import Campaign
from pairsieve.models import encoder_named
from pairsieve.pairs import AllPairs
from pairsieve.scan import open_scan
rows = encoder_named(sys.argv[1], device="cpu").embed(["one", "two", "three"])
pairsieve.measure.figures.exact_figures(open_scan(AllPairs(3), rows), np.array([1]), np.array([2]))
pairsieve.search.ExactSearch(open_scan(AllPairs(3), rows)).closest(0.5, 1, np.array([1]))
open_scan(AllPairs(3), rows).neighbours(1)
for line in sys.stdin:
    order = json.loads(line)
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            Campaign(Path(order["folder"])).run()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    answer = "killed"
    while time.monotonic() - began < order["seconds"]:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            answer = "finished" if status == 0 else "failed"
            break
        time.sleep(0.002)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    print(json.dumps([answer, time.monotonic() - began]), flush=True)
"""


@pytest.fixture
def run_and_kill(tiny_encoder: Path) -> Iterator[Callable[[Path, float], tuple[str, float]]]:
    """Runs a campaign in a process of its own and kills it after some seconds: (what happened, seconds)."""
    server = subprocess.Popen(
        [sys.executable, "-c", KILL_SERVER, str(tiny_encoder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TOKENIZERS_PARALLELISM": "false"},  # no threads before the fork
    )
    assert server.stdin is not None and server.stdout is not None

    def run(folder: Path, seconds: float) -> tuple[str, float]:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps({"folder": str(folder), "seconds": seconds}) + "\n")
        server.stdin.flush()
        answer, spent = json.loads(server.stdout.readline())
        return answer, spent

    yield run
    server.stdin.close()
    server.stdout.close()
    assert server.wait() == 0


@pytest.mark.xdist_group("slow-campaign")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_random_moments_and_run_to_the_end(
    run_and_kill: Callable[[Path, float], tuple[str, float]],
    task: Path,
    tiny_encoder: Path,
    finished: dict[str, Path],
    tmp_path: Path,
) -> None:
    dice = random.Random(7)
    kills = 0
    seen: set[str] = set()
    for learner, wanted in (("projection", KILLS * 7 // 10), ("full", KILLS)):
        folder = tmp_path / f"{learner}-0"
        begin(folder, task, tiny_encoder, learner=learner)
        answer, whole = run_and_kill(folder, 120.0)
        assert answer == "finished"
        assert picture(folder) == picture(finished[learner])
        campaigns = 0
        while kills < wanted:
            campaigns += 1
            folder = tmp_path / f"{learner}-{campaigns}"
            begin(folder, task, tiny_encoder, learner=learner)
            answer, spent = run_and_kill(folder, dice.uniform(0.1, 0.9) * whole)
            if answer == "finished":
                whole = spent  # the machine was busier before
            while answer == "killed":
                kills += 1
                seen.add(Campaign(folder).step().name)
                if kills == wanted:
                    break
                answer, _ = run_and_kill(folder, dice.uniform(0.1, 0.9) * whole)
            assert answer != "failed"
            assert Campaign(folder).run() == Step("finished", 3)
            assert picture(folder) == picture(finished[learner])
            assert not list(folder.rglob(".building-*"))
    assert kills == KILLS
    assert seen - {"choose"}, "the kills all fell before the first question"


# ── incomplete and altered ────────────────────────────────────────────────────────────────────────────────


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1 - len(data) // 3] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("harm", [flip, cut, Path.unlink])
@pytest.mark.parametrize(
    ("learner", "files"),
    [
        ("projection", "artifacts/model/*/map.safetensors"),
        ("projection", "artifacts/model/*/map.json"),
        ("projection", "artifacts/embeddings/*/rows.npy"),
        ("projection", "artifacts/selection/*/ids.npy"),
        ("projection", "artifacts/selection/*/selection.json"),
        ("projection", "artifacts/*/*/manifest.json"),
        ("full", "artifacts/model/*/model.safetensors"),
        ("full", "artifacts/embeddings/*/rows.npy"),
    ],
)
def test_a_damaged_artifact_is_noticed_and_built_again(
    learner: str,
    files: str,
    harm: Callable[[Path], None],
    copied: Callable[[str], Path],
    finished: dict[str, Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = copied(learner)
    harmed = sorted(folder.glob(files))
    assert len(harmed) >= 2
    for path in harmed if learner == "projection" else harmed[:1]:  # full training takes a second
        harm(path)
    shutil.rmtree(folder / "rounds")  # so that everything is needed again
    with caplog.at_level(logging.WARNING, "pairsieve"):
        assert Campaign(folder).run() == Step("finished", 3)
    if learner == "projection":
        assert "It is not used; it is built again." in caplog.text
    assert picture(folder) == picture(finished[learner])


@pytest.mark.parametrize("harm", [flip, cut, Path.unlink])
@pytest.mark.parametrize("file", ["round-001.json", "round-003.json", "selection-002.json"])
def test_damaged_figures_are_measured_again(
    file: str,
    harm: Callable[[Path], None],
    copied: Callable[[str], Path],
    finished: dict[str, Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = copied("projection")
    harm(folder / "rounds" / file)
    if file.startswith("selection"):
        (folder / "rounds" / "round-002.json").unlink()  # else nobody would read it
    assert Campaign(folder).step().name == "train"
    with caplog.at_level(logging.WARNING, "pairsieve"):
        assert Campaign(folder).run() == Step("finished", 3)
    assert (f"{file} is incomplete or altered" in caplog.text) == (harm is not Path.unlink)
    assert picture(folder) == picture(finished["projection"])


def test_a_figure_changed_by_hand_is_not_believed(
    copied: Callable[[str], Path], finished: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    folder = copied("projection")
    file = folder / "rounds" / "round-003.json"
    row = json.loads(file.read_text())
    row["figures"]["average_precision"]["value"] = 0.99
    file.write_text(json.dumps(row))
    assert 3 not in Campaign(folder).figures()
    Campaign(folder).run()
    assert picture(folder) == picture(finished["projection"])


def test_a_selection_torn_before_it_was_asked(
    task: Path,
    tiny_encoder: Path,
    finished: dict[str, Path],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = tmp_path / "c"
    begin(folder, task, tiny_encoder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "ask", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            Campaign(folder).run()
    (chosen,) = folder.glob("artifacts/selection/*/ids.npy")
    flip(chosen)
    with caplog.at_level(logging.WARNING, "pairsieve"):
        Campaign(folder).run()
    assert "the contents of the file ids.npy were altered" in caplog.text
    assert picture(folder) == picture(finished["projection"])


def test_what_was_left_half_written_is_swept_away_and_never_used(
    task: Path, tiny_encoder: Path, finished: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "c"
    begin(folder, task, tiny_encoder)
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True)
    host, pid = socket.gethostname(), int(gone.stdout)
    for kind, name in (
        ("model", f".building-{'0' * 32}-{host}-{pid}-aaaaaaaa"),
        ("embeddings", f".building-{'1' * 32}-{host}-{pid}-bbbbbbbb"),
        ("selection", f".broken-{'2' * 32}-cccccccc"),
    ):
        place = folder / "artifacts" / kind / name
        place.mkdir(parents=True)
        (place / "rows.npy").write_bytes(b"half of an arr")
    (folder / "rounds").mkdir()
    (folder / "rounds" / ".round-001.json.abcdef").write_text('{"sha256": "0')
    assert Campaign(folder).run() == Step("finished", 3)
    assert picture(folder) == picture(finished["projection"])
    assert not list(folder.glob("artifacts/*/.b*"))

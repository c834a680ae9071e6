"""Rounds in the background: errors are told, a dead process is noticed, and a killed server loses nothing."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pairsieve.web.rounds as rounds_module
from pairsieve.campaign import Campaign
from pairsieve.campaign.figures import read_checksummed
from pairsieve.campaign.questions import unaskable_pairs
from pairsieve.contracts import Answer
from pairsieve.errors import LedgerUnavailable
from pairsieve.web.predictions import UNSEEN, predictions_file, write_predictions
from pairsieve.web.rounds import Rounds
from web_campaign import Page, asked_campaign, until


class FakeRounds(Rounds):
    """The same thread with a process that only prints the lines it is given, one more per run."""

    def __init__(self, script: str) -> None:
        self.ready_now, self.finished = False, 0
        self._script = script
        super().__init__(Path("nowhere"), lambda: self.ready_now, self._note)

    def _note(self) -> None:
        self.finished += 1
        self.ready_now = False

    def _spawn(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", self._script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self._process


def run_once(rounds: FakeRounds) -> None:
    before = rounds.finished
    rounds.ready_now = True
    rounds.wake()
    until(lambda: rounds.finished > before)


def test_what_the_process_says_is_told_and_its_error_stops_it_until_somebody_says_again() -> None:
    script = """
import json, sys
for n, _ in enumerate(sys.stdin):
    print(json.dumps({"message": f"run {n}"}), flush=True)
    print(json.dumps({"error": "the disk is full"} if n == 1 else {"stopped": "label"}), flush=True)
"""
    rounds = FakeRounds(script)
    rounds.start()
    try:
        run_once(rounds)
        told = {"trains": True, "busy": False, "progress": "", "words": "run 0", "error": ""}
        assert rounds.report() == told
        run_once(rounds)
        assert rounds.report()["error"] == "the disk is full"
        rounds.ready_now = True
        rounds.wake()
        time.sleep(0.2)
        assert rounds.finished == 2, "it waits for somebody"
        rounds.retry()
        until(lambda: rounds.finished == 3)
        assert rounds.report()["error"] == "" and rounds.words == "run 2"
    finally:
        rounds.stop()


def test_the_page_is_told_how_far_embedding_is_while_it_goes_on() -> None:
    script = """
import json, sys
for _ in sys.stdin:
    print(json.dumps({"progress": "embedding: 4,000 of 10,000 texts"}), flush=True)
    sys.stdin.readline()  # a second line: the test has seen it
    print(json.dumps({"stopped": "label"}), flush=True)
"""
    rounds = FakeRounds(script)
    rounds.start()
    try:
        rounds.ready_now = True
        rounds.wake()
        until(lambda: rounds.report()["progress"] == "embedding: 4,000 of 10,000 texts")
        assert rounds.report()["busy"] and rounds._process is not None and rounds._process.stdin is not None
        rounds._process.stdin.write("seen\n")
        rounds._process.stdin.flush()
        until(lambda: rounds.finished == 1)
        assert rounds.report()["progress"] == ""
    finally:
        rounds.stop()


@pytest.mark.slow
def test_a_process_that_dies_again_and_again_is_told_and_a_new_one_takes_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds_module, "FIRST_PAUSE", 0.02)
    rounds = FakeRounds("import os, sys; sys.stdin.readline(); os.kill(os.getpid(), 9)")
    rounds.start()
    try:
        for times in range(1, rounds_module.MOST_KILLS + 1):
            run_once(rounds)
            assert rounds.error == "" and "signal 9; it is started again" in rounds.words, times
        run_once(rounds)
        assert "signal 9, 4 times in a row" in rounds.error
        rounds._script = 'import sys\nfor _ in sys.stdin: print(\'{"stopped": "label"}\', flush=True)'
        rounds.retry()
        run_once(rounds)
        assert rounds.error == ""
    finally:
        rounds.stop()


def test_a_campaign_run_by_somebody_else_is_waited_for() -> None:
    line = json.dumps({"wait": "Another process is running this campaign; waiting for it."})
    rounds = FakeRounds(f"import sys\nfor _ in sys.stdin: print({line!r}, flush=True)")
    rounds.start()
    try:
        run_once(rounds)
        assert rounds.error == "" and "waiting" in rounds.words
    finally:
        rounds.stop()


@pytest.mark.slow
def test_a_ledger_that_is_away_is_waited_for_without_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_module, "FIRST_PAUSE", 0.02)
    rounds = FakeRounds('import sys\nfor _ in sys.stdin: print(\'{"stopped": "label"}\', flush=True)')
    away = {"ready": 3, "done": 2}  # so often each of them cannot read the ledger

    def read(what: str) -> None:
        if away[what] > 0:
            away[what] -= 1
            raise LedgerUnavailable("the server closed the connection")

    def ready() -> bool:
        read("ready")
        return rounds.ready_now

    def done() -> None:
        read("done")
        rounds._note()

    rounds._ready, rounds._done = ready, done
    rounds.ready_now = True
    rounds.start()
    try:
        until(lambda: rounds.finished == 1)
        assert rounds._thread.is_alive() and rounds.error == "" and away == {"ready": 0, "done": 0}
    finally:
        rounds.stop()


AWAY = """
import sys
from pathlib import Path
import pairsieve.campaign
from pairsieve.errors import ArtifactError, LedgerUnavailable, SettingsError
faults = [
    LedgerUnavailable("the server closed the connection"),
    PermissionError(13, "Permission denied", "/srv/inside/model.safetensors"),
    ArtifactError("No space left on device"),
    SettingsError("c is being run by another process."),
    SettingsError("no such split"),
]
class Faulty:
    def __init__(self, *_):
        raise faults.pop(0)
pairsieve.campaign.Campaign = Faulty
from pairsieve.web.rounds import main
main(Path("c"))
"""


def test_the_process_tells_what_may_pass_from_what_needs_somebody() -> None:
    told = subprocess.run([sys.executable, "-c", AWAY], input="go\n" * 5, capture_output=True, text=True)
    kinds = [next(iter(json.loads(line))) for line in told.stdout.splitlines()]
    assert kinds == ["wait"] * 4 + ["error"], told.stdout + told.stderr
    assert "model.safetensors (Permission denied) cannot be used now" in told.stdout
    assert "/srv/inside" not in told.stdout, "where files lie is for the terminal"


def test_training_off_means_no_process(tmp_path: Path, tiny_encoder: Path) -> None:
    page = Page(asked_campaign(tmp_path, tiny_encoder, questions=2))
    with page.client:
        for pair in page.pairs("Ann"):
            page.answer("Ann", pair)
        training = page.next("Ann")["training"]
    assert training == {
        "trains": False,
        "busy": False,
        "progress": "",
        "words": "",
        "error": "",
        "step": "train",
        "reason": "",
    }


def finished_page(folder: Path, encoder: Path) -> tuple[Page, list[str]]:
    """A campaign of one round of four labels, two of them matches, trained to its end."""
    page = Page(asked_campaign(folder, encoder, questions=4, rounds=1))
    pairs = page.pairs("Ann")
    for pair, label in zip(pairs, ("match", "match", "no match", "no match")):
        page.answer("Ann", pair, label)
    assert page.session.step().name == "train"
    go_on(page)
    return page, pairs


def go_on(page: Page) -> None:
    """What the background process does, and what the page does when it has ended."""
    page.session.campaign.run()
    page.session.look_again()
    assert page.session.step().name == "finished"


def test_labels_changed_after_the_end_are_trained_on_again(tmp_path: Path, tiny_encoder: Path) -> None:
    page, pairs = finished_page(tmp_path, tiny_encoder)
    page.undo("Ann")
    assert page.session.step().name == "label"
    page.answer("Ann", pairs[3], "match")
    assert page.session.step().name == "train", "the model was made of other labels"
    folder = page.session.campaign.folder
    assert Page(Campaign(folder)).session.step().name == "train", "3 matches now, 2 in the figures"
    go_on(page)


def test_corrections_that_cancel_in_counts_are_trained_on_after_a_restart(
    tmp_path: Path, tiny_encoder: Path
) -> None:
    page, pairs = finished_page(tmp_path, tiny_encoder)
    page.answer("Ann", pairs[0], "no match")
    page.answer("Ann", pairs[3], "match")
    again = Page(Campaign(page.session.campaign.folder))
    assert again.session.step().name == "train", "as many labels and matches as before, but others"


def test_predictions_hold_every_pair_asked_and_the_surest_matches_nobody_was_asked_about(
    tmp_path: Path, tiny_encoder: Path
) -> None:
    campaign = asked_campaign(tmp_path, tiny_encoder, questions=20, rounds=1, transitivity=True)
    given = campaign.ledger.asked().tolist()
    # Text 0 matches texts 1 to 3, of which it follows that 1, 2 and 3 match each other; no others do.
    campaign.ledger.answer([Answer(pair, int(pair <= given[2])) for pair in given], "Ann", "page")
    campaign.run()
    assert write_predictions(campaign) == 20
    row = read_checksummed(predictions_file(campaign.folder), dict)
    assert row is not None
    assert sorted(row["pairs"]) == given
    seen, space = {pair: match_score for pair, match_score, _ in row["unseen"]}, campaign.split.space
    assert not any(calibrated for *_, calibrated in row["unseen"]), "no label was drawn"
    follows = {int(space.ids(a, b)) for a in range(4) for b in range(a + 1, 4)}
    assert not seen.keys() & (set(given) | follows), "neither asked nor following from what was said"
    # The same pairs, found by scoring every pair.
    scored = campaign.score(campaign.split, 1)
    every = space.unrank(np.arange(space.size))
    logit = scored.scorer.log_odds(scored.scan.scores(every))
    known = unaskable_pairs(campaign.ledger, space, True)
    likely = [(-p, i) for i, p in zip(every.tolist(), logit.tolist()) if p > 0 and i not in known]
    assert len(seen) == min(UNSEEN, len(likely)) > 0
    assert list(seen.values()) == sorted(seen.values(), reverse=True)
    shown = Page(campaign).get("/api/dashboard")["unseen"]
    assert [int(pair["pair"]) for pair in shown] == list(seen)[:12]
    best = max(likely, key=lambda each: -each[0])
    assert max(seen.values()) == pytest.approx(1 / (1 + np.exp(best[0])), abs=1e-3)


class Killed:
    """The real server in a process of its own, to be killed."""

    def __init__(self, folder: Path) -> None:
        start = "import pairsieve.cli.labels; from pairsieve.cli import main; main()"
        words = ["label", str(folder), "--no-train", "--json"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", start, *words], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-Pairsieve": "1", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.mark.slow
def test_ctrl_c_is_how_it_ends_and_says_how_to_go_on(tmp_path: Path, tiny_encoder: Path) -> None:
    campaign = asked_campaign(tmp_path, tiny_encoder)
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "from pairsieve.cli import main; main()"
    server = subprocess.Popen(
        [sys.executable, "-c", start, "label", str(campaign.folder), "--no-train", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    url = json.loads(server.stdout.readline())["url"]
    urllib.request.urlopen(f"{url}api/campaign", timeout=30).close()  # it serves
    server.send_signal(signal.SIGINT)
    _, told = server.communicate(timeout=30)
    assert server.returncode == 0
    assert "every answer is kept. Go on with: pairsieve label" in told and "Traceback" not in told


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no kill -9 on Windows")
def test_no_acknowledged_answer_is_lost_or_doubled_by_kill_9(tmp_path: Path, tiny_encoder: Path) -> None:
    campaign = asked_campaign(tmp_path, tiny_encoder, questions=40)
    acknowledged: dict[str, str] = {}
    last: dict[str, Any] = {}
    for _ in range(3):
        server = Killed(campaign.folder)
        try:
            if last:  # the browser does not know whether it arrived: it sends the same click again
                server.ask("api/answers", last)
            for pair in server.ask("api/next?who=Ann&count=8")["pairs"]:
                given = {"pair": pair["pair"], "label": "match", "token": secrets.token_hex(8)}
                last = {"who": "Ann", "answers": [given]}
                server.ask("api/answers", last)
                acknowledged[pair["pair"]] = given["token"]
        finally:
            server.kill()
    kept = Campaign(campaign.folder).ledger.answers()
    assert len(acknowledged) == 24
    assert sorted(map(str, kept.ids)) == sorted(acknowledged), "each once"
    assert sorted(map(str, kept.tokens)) == sorted(acknowledged.values())

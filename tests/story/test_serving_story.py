"""`pairsieve serve` as a process: a day of its life over HTTP, a stop and kill -9 under load.

One kill by default; PAIRSIEVE_KILLS=10 for more.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from pairsieve import cli
from pairsieve.campaign import Campaign
from pairsieve.serving import Service
from pairsieve.serving.app import serve
from serving_campaign import Client, Server, finished_campaign

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serving-story")]
CLIENTS = 6
KILLS = int(os.environ.get("PAIRSIEVE_KILLS", "1"))


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    return finished_campaign(tmp_path_factory.mktemp("story"), tiny_encoder)


class Adder(threading.Thread):
    """Adds text after text until told to end, and asks for each at once; notes what was acknowledged."""

    def __init__(self, name: str, port: int, end: threading.Event) -> None:
        super().__init__(name=name)
        self.port, self.end, self.acknowledged = port, end, list[str]()
        self.missed: list[str] = []
        self.refused: list[str] = []

    def run(self) -> None:
        client, number = Client(self.port), 0
        while not self.end.is_set():
            key = f"{self.name}-{number}"
            try:
                status, told = client.ask("PUT", f"/texts/{key}", {"text": text_of(key)})
                if status != 201:
                    self.refused.append(f"{status} {told}")
                    break
                self.acknowledged.append(key)
                number += 1
                if key not in [m["key"] for m in client.match(text_of(key), 20)]:
                    self.missed.append(key)
            except (OSError, http.client.HTTPException, ValueError):  # killed: half an answer is none
                client.close()
                time.sleep(0.02)
                client, number = Client(self.port), number + 1
        client.close()


def text_of(key: str) -> str:
    return " ".join(f"{letter}{ord(letter)}" for letter in key)


def crew(port: int) -> tuple[list[Adder], threading.Event]:
    end = threading.Event()
    people = [Adder(f"c{number}", port, end) for number in range(CLIENTS)]
    for person in people:
        person.start()
    return people, end


def until(people: list[Adder], count: int) -> None:
    while sum(len(person.acknowledged) for person in people) < count:
        assert any(person.is_alive() for person in people), [person.refused for person in people]
        time.sleep(0.01)


def test_kill_9_under_load_loses_no_acknowledged_addition(campaign: Path, tmp_path: Path) -> None:
    server = Server(campaign, "--state", tmp_path)
    people, end = crew(server.port)
    try:
        for kill in range(1, KILLS + 1):
            until(people, 40 * kill)
            server.end(signal.SIGKILL)
            server.start()
        until(people, 40 * (KILLS + 1))
    finally:
        end.set()
        server.end(signal.SIGKILL)
        for person in people:
            person.join(60)
    said = [key for person in people for key in person.acknowledged]
    assert not any(person.missed for person in people), "an addition is found by the next request"
    with Service.open(campaign, state=tmp_path) as service:
        lost = [key for key in said if key not in service]
        assert len(said) >= 40 * (KILLS + 1) and not lost, (
            f"{len(lost)} of {len(said)} acknowledged additions are gone"
        )
        best = service.match(text_of(said[0]), 1)[0]
        assert best.score == 1.0


def test_a_day_that_ends_with_a_stop_under_load(campaign: Path, tmp_path: Path) -> None:
    """At the stop a request is answered, or its connection is refused or closed without an answer."""
    server = Server(campaign, "--state", tmp_path)
    client, known = server.client(), Campaign(campaign).split.left
    people, end = list[Adder](), threading.Event()
    try:
        assert server.told["texts"] == 240
        assert client.ask("GET", "/health")[1]["status"] == "ok"
        first = client.match(known.texts[0], 1)[0]
        assert (first["text"], first["score"]) == (known.texts[0], 1.0)
        status, told = client.ask("PUT", "/texts/new%2F1", {"text": "my 😀 password, عاجل"})
        assert (status, told["key"]) == (201, "new/1")
        assert client.match("my 😀 password, عاجل", 1)[0]["key"] == "new/1", "found by the next request"
        assert client.ask("DELETE", f"/texts/{known.keys[0]}")[0] == 200
        assert known.keys[0] not in [m["key"] for m in client.match(known.texts[0], 100)]
        assert client.ask("POST", "/match", b'{"text": "' + b"x" * 2**20 + b'"}')[0] == 413
        people, end = crew(server.port)
        until(people, 30)
    finally:
        client.close()
        status = server.end(signal.SIGTERM)
        end.set()
        for person in people:
            person.join(60)
    assert status == 0, "being asked to stop is no failure"
    assert not any(person.refused or person.missed for person in people)
    with Service.open(campaign, state=tmp_path) as service:
        assert "new/1" in service and known.keys[0] not in service
        assert all(key in service for person in people for key in person.acknowledged)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "0.0.0.0"], "without a token"),
        (["--token", "short"], "a token of 5 characters"),
        (["--collection", "tset"], "Did you mean 'test'"),
        (["--round", "7"], "Choose a round from 1 to 1"),
        (["--side", "middle"], "Give left or right"),
    ],
)
def test_what_cannot_be_served_is_said_in_words(
    campaign: Path,
    options: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["pairsieve", "serve", str(campaign), *options])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2 and words in capsys.readouterr().err


def test_a_port_in_use_is_said_in_words(
    campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        told = ["pairsieve", "serve", str(campaign), "--state", str(tmp_path), "--port", port]
        monkeypatch.setattr(sys, "argv", told)
        with pytest.raises(SystemExit) as stopped:
            cli.main()
    assert stopped.value.code == 2 and f"cannot serve at 127.0.0.1:{port}" in capsys.readouterr().err
    Service.open(campaign, state=tmp_path).close()  # nothing is left locked


def test_a_stop_at_the_first_moment_is_heard(campaign: Path, tmp_path: Path) -> None:
    """SIGTERM comes while the address is being printed, before the server has begun to listen for it."""
    late = threading.Event()

    def again() -> None:
        late.set()
        os.kill(os.getpid(), signal.SIGTERM)

    watch = threading.Timer(60, again)
    watch.start()
    with Service.open(campaign, state=tmp_path) as service:
        serve(service, "127.0.0.1", 0, "", lambda url: os.kill(os.getpid(), signal.SIGTERM))
    watch.cancel()
    assert not late.is_set(), "only the second signal was heard"


def test_the_example_of_the_docs_runs(
    campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    shutil.copytree(campaign.parent, tmp_path / "all")
    monkeypatch.chdir(tmp_path / "all")
    Path("campaign").rename("mine")
    exec(compile(example, "docs/serving.md", "exec"), {})
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 3
    stated = [line.split()[2] for line in shown]  # None where too little is known of such scores
    assert all(each == "None" or 0 <= float(each) <= 1 for each in stated)

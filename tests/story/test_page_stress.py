"""Eight people click while the server is killed with -9: each acknowledged answer is kept, once.

1,000 clicks and 3 kills by default; PAIRSIEVE_CLICKS=10000 PAIRSIEVE_KILLS=10 for the whole story.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pairsieve.campaign import Campaign
from synthetic_task import begin, synthetic_task
from web_campaign import ask

pytest_plugins = ("postgres",)
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page-stress")]

CLICKS = int(os.environ.get("PAIRSIEVE_CLICKS", "1000"))
KILLS = int(os.environ.get("PAIRSIEVE_KILLS", "3"))
PEOPLE = 8


class Server:
    """`pairsieve label` in a process of its own, on one port however often it is started."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder = folder
        self.start()

    def start(self) -> None:
        words = ["label", str(self.folder), "--port", str(self.port), "--no-train", "--json"]
        self.process = subprocess.Popen([sys.executable, "-m", "pairsieve", *words], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.process.stdout.readline()  # it says where it is once it listens

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Person(threading.Thread):
    """Answers pair after pair; what was not acknowledged is sent again with the same token."""

    def __init__(self, name: str, port: int, clicks: int, end: threading.Event) -> None:
        super().__init__(name=name)
        self.url, self.clicks, self.end = f"http://127.0.0.1:{port}/", clicks, end
        self.acknowledged: dict[str, str] = {}  # token -> pair
        self.retried = 0

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        headers = {"X-Pairsieve": "1", "Content-Type": "application/json"}
        while not self.end.is_set():
            data = None if body is None else json.dumps(body).encode()
            try:
                request = urllib.request.Request(self.url + path, data, headers)
                with urllib.request.urlopen(request, timeout=20) as answer:
                    found: dict[str, Any] = json.loads(answer.read())
                    return found
            except urllib.error.HTTPError as error:  # the server answered: a refusal is not a crash
                raise AssertionError(f"{path}: {error.code} {error.read()[:300]!r}") from error
            except (OSError, http.client.HTTPException):  # refused, cut off, or half an answer
                self.retried += 1
                time.sleep(0.05)
        return {}

    def run(self) -> None:
        while len(self.acknowledged) < self.clicks and not self.end.is_set():
            for pair in self.ask(f"api/next?who={self.name}&count=8").get("pairs", []):
                token = secrets.token_hex(8)
                given = {"pair": pair["pair"], "label": random.choice(["match", "no match"]), "token": token}
                if self.ask("api/answers", {"who": self.name, "answers": [given]}):
                    self.acknowledged[token] = pair["pair"]
                if len(self.acknowledged) == self.clicks:
                    return


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_place(request: pytest.FixtureRequest) -> Callable[[], str] | None:
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_place")


def test_no_acknowledged_answer_is_lost_or_doubled(
    tmp_path: Path, tiny_encoder: Path, ledger_place: Callable[[], str] | None
) -> None:
    task = synthetic_task(tmp_path / "task", truth=False, stated=False, sizes={"train": 160})  # 12,720 pairs
    more = {"ledger": str(ledger_place())} if ledger_place else {}
    campaign = begin(tmp_path / "campaign", task, tiny_encoder, measure_splits=(), **more)
    ask(campaign, 1, np.arange(CLICKS + 400))
    campaign.ledger.close()
    server, end = Server(campaign.folder), threading.Event()
    people = [Person(f"person{n}", server.port, CLICKS // PEOPLE, end) for n in range(PEOPLE)]
    for person in people:
        person.start()
    done = 0
    try:
        for kill in range(1, KILLS + 1):  # spread over the clicks
            while done < CLICKS * kill // (KILLS + 1) and any(p.is_alive() for p in people):
                time.sleep(0.01)
                done = sum(len(person.acknowledged) for person in people)
            server.kill()
            server.start()
        for person in people:
            person.join(timeout=600)
            assert not person.is_alive(), f"{person.name} is still waiting"
    finally:
        end.set()
        server.kill()
    said = {token: pair for person in people for token, pair in person.acknowledged.items()}
    with Campaign(campaign.folder).ledger as ledger:
        kept = ledger.answers()
    tokens = list(map(str, kept.tokens))
    assert len(said) == CLICKS // PEOPLE * PEOPLE
    assert len(set(tokens)) == len(tokens), "a click was written twice"
    there = dict(zip(tokens, map(str, kept.ids)))
    lost = [token for token, pair in said.items() if there.get(token) != pair]
    assert not lost, f"{len(lost)} acknowledged answers are gone"
    assert len(tokens) == len(said), "every answer was acknowledged in the end, so there are no others"

"""Eight people click while the server is killed with -9 and its database goes away: each click is kept, once.

1,000 clicks, 3 kills and 3 outages by default; PAIRSIEVE_CLICKS=10000 PAIRSIEVE_KILLS=10 PAIRSIEVE_OUTAGES=10
for the whole story.
"""

from __future__ import annotations

import contextlib
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pairsieve.campaign import Campaign
from small_disk import small_disk
from synthetic_task import begin, synthetic_task
from web_campaign import ask, until

pytest_plugins = ("postgres",)
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page-stress")]

CLICKS = int(os.environ.get("PAIRSIEVE_CLICKS", "1000"))
KILLS = int(os.environ.get("PAIRSIEVE_KILLS", "3"))
OUTAGES = int(os.environ.get("PAIRSIEVE_OUTAGES", "3"))
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
        words = ["label", str(self.folder), "--port", str(self.port), "--json"]
        while True:  # as a supervisor does: without its database it ends in words
            started = subprocess.Popen([sys.executable, "-m", "pairsieve", *words], stdout=subprocess.PIPE)
            self.process = started
            assert started.stdout is not None
            if started.stdout.readline():  # it says where it is once it listens
                return
            assert started.wait() == 2
            started.stdout.close()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Person(threading.Thread):
    """Answers pair after pair; what was not acknowledged is sent again with the same token."""

    def __init__(self, name: str, port: int, end: threading.Event) -> None:
        super().__init__(name=name)
        self.url, self.end = f"http://127.0.0.1:{port}/", end
        self.acknowledged: dict[str, str] = {}  # token -> pair
        self.retried = self.refused = 0

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        headers = {"X-Pairsieve": "1", "Content-Type": "application/json"}
        while not self.end.is_set():
            data, words = None if body is None else json.dumps(body).encode(), b""
            try:
                request = urllib.request.Request(self.url + path, data, headers)
                with urllib.request.urlopen(request, timeout=20) as answer:
                    found: dict[str, Any] = json.loads(answer.read())
                    return found
            except urllib.error.HTTPError as error:  # the server answered: a refusal is not a crash
                with error, contextlib.suppress(http.client.HTTPException):  # killed while it answered
                    words = error.read()[:300]
                assert error.code == 503 and error.headers["Retry-After"], f"{path}: {error.code} {words!r}"
                self.refused += 1
                time.sleep(0.1)
            except (OSError, http.client.HTTPException):  # refused, cut off, or half an answer
                self.retried += 1
                time.sleep(0.05)
        return {}

    def run(self) -> None:
        while not self.end.is_set():  # also when there is nothing to do: who goes keeps pairs for a while
            for pair in self.ask(f"api/next?who={self.name}&count=8").get("pairs", []):
                token = secrets.token_hex(8)
                given = {"pair": pair["pair"], "label": random.choice(["match", "no match"]), "token": token}
                if self.ask("api/answers", {"who": self.name, "answers": [given]}):
                    self.acknowledged[token] = pair["pair"]
            time.sleep(0.01)


@dataclass
class Database:
    """Where a campaign and its ledger are, and how the ledger goes away and comes back."""

    folder: Path
    settings: dict[str, Any]
    away: Callable[[], None]
    back: Callable[[], None]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        with small_disk(tmp_path / "disk", 64) as disk:
            yield Database(disk.folder, {}, disk.fill, disk.empty)
    else:
        server = request.getfixturevalue("own_postgres")
        yield Database(tmp_path, {"ledger": server.url}, server.stop, server.start)


def test_no_click_is_lost_or_doubled_and_training_goes_on(database: Database, tiny_encoder: Path) -> None:
    clicks = CLICKS // PEOPLE * PEOPLE
    sizes = {"train": 160}  # 12,720 pairs
    task = synthetic_task(database.folder / "task", truth=False, stated=False, sizes=sizes)
    campaign = begin(
        database.folder / "campaign", task, tiny_encoder, measure_splits=(), rounds=2, **database.settings
    )
    ask(campaign, 1, np.arange(clicks))
    campaign.ledger.close()
    server, end = Server(campaign.folder), threading.Event()
    people = [Person(f"person{n}", server.port, end) for n in range(PEOPLE)]
    for person in people:
        person.start()

    def acknowledged() -> int:
        return sum(len(person.acknowledged) for person in people)

    harm = random.Random(0).sample(["kill"] * KILLS + ["outage"] * OUTAGES, KILLS + OUTAGES)
    try:
        for number, kind in enumerate(harm, 1):  # spread over the clicks
            share = clicks * number // (len(harm) + 1)
            until(lambda least=share: acknowledged() >= least, 600)  # type: ignore[misc]
            if kind == "outage":
                refused = sum(person.refused for person in people)
                database.away()
                # A full disk has room in the write-ahead log for a few clicks more.
                for _ in range(500):
                    if sum(p.refused for p in people) > refused + PEOPLE:
                        break
                    time.sleep(0.01)
                if number % 2:
                    server.kill()  # and nobody can start it before the database is back
                database.back()
                if number % 2:
                    server.start()
            else:
                server.kill()
                server.start()
        until(lambda: acknowledged() >= clicks, 600)
        database.away()  # once more, while the next round is trained and chosen
        time.sleep(3)
        database.back()
        until(lambda: acknowledged() >= clicks + 30, 600)  # all of the second round
    finally:
        end.set()
        for person in people:
            person.join()
        server.kill()
    said = {token: pair for person in people for token, pair in person.acknowledged.items()}
    with Campaign(campaign.folder).ledger as ledger:
        kept = ledger.answers()
        assert ledger.verify().ok
    tokens = list(map(str, kept.tokens))
    assert len(said) >= clicks + 30, "training went on"
    assert len(set(tokens)) == len(tokens), "a click was written twice"
    there = dict(zip(tokens, map(str, kept.ids)))
    lost = [token for token, pair in said.items() if there.get(token) != pair]
    assert not lost, f"{len(lost)} acknowledged answers are gone"
    assert len(tokens) == len(said), "every answer was acknowledged in the end, so there are no others"
    assert not OUTAGES or any(person.refused for person in people), "the outages were felt"
    refused, retried = sum(p.refused for p in people), sum(p.retried for p in people)
    print(
        f"{clicks:,} clicks, {KILLS} kills, {OUTAGES + 1} outages: {refused:,} times 503, {retried:,} cut off"
    )

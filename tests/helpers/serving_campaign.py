"""A small finished campaign for tests of the service, and `pairsieve serve` as a process of its own."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from synthetic_task import begin, synthetic_task

OURS = {"X-Pairsieve": "1", "Content-Type": "application/json"}


def finished_campaign(folder: Path, encoder: Path, **more: Any) -> Path:
    """One round of 20 stated pairs over 120 + 60 + 60 questions; `two`: 60 × 60, 30 × 30, 30 × 30."""
    task = synthetic_task(folder / "task", two=more.pop("two", False))
    campaign = begin(
        folder / "campaign", task, encoder, rounds=1, measure_splits=(), strategy="stated", **more
    )
    campaign.run()
    campaign.ledger.close()
    return campaign.folder


class Server:
    """`pairsieve serve` on one port, however often it is started."""

    def __init__(self, folder: Path, *options: Any) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.words = ["serve", str(folder), "--port", str(self.port), "--json", *map(str, options)]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pairsieve", *self.words], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.told = json.loads(self.process.stdout.readline())  # it says where it is once it listens

    def end(self, how: int = signal.SIGTERM) -> int:
        """Stop it by a signal and wait; its exit status."""
        self.process.send_signal(how)
        status = self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    def client(self) -> Client:
        return Client(self.port)


class Client:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self._wire = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, headers: Any = OURS) -> tuple[int, Any]:
        """Status and the JSON of an answer (its text where it is none)."""
        sent = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        self._wire.request(method, path, sent, headers)
        answer = self._wire.getresponse()
        words = answer.read()
        self.headers = dict(answer.getheaders())
        kind = self.headers.get("content-type", "")
        return answer.status, json.loads(words) if kind.startswith("application/json") else words.decode()

    def match(self, text: str, count: int = 10) -> list[dict[str, Any]]:
        status, told = self.ask("POST", "/match", {"text": text, "count": count})
        assert status == 200, f"{status}: {told}"
        found: list[dict[str, Any]] = told["matches"]
        return found

    def close(self) -> None:
        self._wire.close()

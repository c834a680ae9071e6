"""Requests made of noise (raw sockets) and of the OpenAPI document (schemathesis) against both servers.

No 500, no hang, no growth of memory. 800 requests each by default; PAIRSIEVE_FUZZ=50000 for the whole story
(100,000 of either kind).
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fuzzing import fuzz_by_schema
from serving_campaign import finished_campaign
from web_campaign import asked_campaign

pytestmark = pytest.mark.slow
REQUESTS = int(os.environ.get("PAIRSIEVE_FUZZ", "800"))
TOKEN = "a-token-of-23-characters"
PATHS = {
    "label": [
        *("/", "/login", "/api/next?who=Ann&count=3", "/api/state?who=%F0%9F%98%80", "/api/campaign"),
        *("/api/answers", "/api/undo", "/api/skip", "/api/disputes", "/api/guideline", "/api/rounds/retry"),
        *("/api/dashboard", "/static/label.js", "/static/../x", "/api/login", "/api/openapi.json"),
        *("/review", "/api/review", "/api/review/pairs?who=Ann&words=%00", "/api/review/pairs"),
        *("/api/review/groups?offset=9", "/api/review/groups", "/api/review/answers?who=Ann&show=mine"),
    ],
    "serve": [
        *(
            "/match",
            "/match/batch",
            "/texts",
            "/texts/k",
            "/texts?after=k&count=3",
            "/texts/%ff%00",
            "/health",
        ),
        *("/metrics", "/docs", "/openapi.json", "/texts/" + "k" * 600, "/reload/x"),
    ],
}
BODIES: list[Any] = [
    {"who": "Ann", "answers": [{"pair": "1", "label": "match", "token": "aaaaaaaa"}]},
    {"who": "Ann", "answers": [{"pair": "9" * 19, "label": "unsure", "token": "bbbbbbbb"}], "ledger": "x"},
    {"who": "Ann", "pair": "4294967298", "label": "match", "token": "dddddddd"},
    {"who": "Ann", "rows": [0, 1, 2], "apart": [1], "token": "eeeeeeee"},
    {"who": "\u202e", "pair": "1", "token": "cccccccc"},
    {"text": "what is a bank", "version": ""},
    {"text": "how can i find it", "count": 3},
    {"texts": ["how", "what", ""], "threshold": 0.5},
    {"text": "what is a bank", "source": "shop"},
    {"key": "k", "count": 100},
    {"token": "wrong"},
    [],
    None,
    "[" * 5000,
]


def request(dice: random.Random, paths: list[str]) -> bytes:
    """One request: nearly right, with a piece of it changed, doubled, cut or replaced by noise."""
    method = dice.choice(["GET", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "GE\x01T"])
    body = dice.choice(BODIES)
    sent = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    if dice.random() < 0.2 and sent:
        at = dice.randrange(len(sent))
        sent = sent[:at] + dice.randbytes(dice.randrange(8)) + sent[at + 1 :]
    if dice.random() < 0.01:
        sent = b'"' + b"x" * 200_000
    headers = {
        "Host": dice.choice(["127.0.0.1"] * 20 + ["evil.example", "", "[::1]:80"]),
        "Content-Type": dice.choice(["application/json"] * 4 + ["text/plain", "\xff"]),
        "X-Pairsieve": "1",
        "Authorization": dice.choice([f"Bearer {TOKEN}"] * 6 + ["Bearer x", "Basic \xe9"]),
        "Content-Length": dice.choice([str(len(sent))] * 20 + ["-1", "x", "9" * 30]),
        "Origin": dice.choice(["http://127.0.0.1"] * 40 + ["null", "http://evil.example"]),
        "X-Forwarded-For": dice.choice(["1.2.3.4", "x, y", "," * 100]),
        "Cookie": dice.choice(["pairsieve=x", "a=b; \xff=;;", "=" * 50]),
    }
    if dice.random() < 0.3:
        headers.pop(dice.choice(list(headers)))
    if dice.random() < 0.02:
        headers["X-Long"] = "y" * dice.choice([100, 70_000, 300_000])
    lines = [f"{method} {dice.choice(paths)} HTTP/1.{dice.choice('1110')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    whole = "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1", "replace") + sent
    return dice.randbytes(dice.randrange(1, 400)) + b"\r\n\r\n" if dice.random() < 0.02 else whole


def status_of(port: int, sent: bytes) -> int:
    """The status of the answer; 0 where the connection was closed without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        try:
            connection.sendall(sent)
            answer = connection.recv(64)
            while connection.recv(1 << 16):
                pass
        except TimeoutError:  # a hang
            raise
        except OSError:  # closed while we were still sending
            return 0
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0


@contextmanager
def serving(*words: Any) -> Iterator[tuple[int, int]]:
    start = [sys.executable, "-m", "pairsieve", *map(str, words), "--token", TOKEN, "--json"]
    server = subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    try:
        yield server.pid, int(json.loads(server.stdout.readline())["url"].rstrip("/").rpartition(":")[2])
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=90)
        server.stdout.close()


def memory(pid: int) -> int:
    """Resident bytes of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024


def command(door: str, tmp_path: Path, tiny_encoder: Path) -> list[Any]:
    """What serves at a door."""
    if door == "serve":
        return ["serve", finished_campaign(tmp_path, tiny_encoder)]
    campaign = asked_campaign(tmp_path, tiny_encoder)
    campaign.ledger.close()
    return ["label", campaign.folder, "--no-train"]


class Memory:
    """Resident bytes of a process at the start, after half of the requests and after all."""

    def __init__(self, pid: int) -> None:
        self.pid, self.half, self.started = pid, 0, time.monotonic()
        self.first = memory(pid)

    def note(self, asked: int) -> None:
        if asked == REQUESTS // 2:
            self.half = memory(self.pid)

    def report(self, door: str, seen: Counter[int]) -> str:
        ended, spent = memory(self.pid), time.monotonic() - self.started
        assert ended <= 1.1 * self.half
        return (
            f"\n{door}: {seen.total():,} requests in {spent:.0f} s: {dict(sorted(seen.items()))}; "
            f"memory {self.first >> 20} MiB at the start, {self.half >> 20} MiB after half of them, "
            f"{ended >> 20} MiB after all"
        )


def known_values(door: str, client: httpx2.Client, url: str) -> dict[str, list[Any]]:
    """Values that mean something to a server, by the name of a field or parameter."""
    if door == "serve":
        keys = [each["key"] for each in client.get(f"{url}/texts").json()["texts"]]
        return {"key": [*keys, "new"], "after": keys, "text": ["how can i find a bank", "what is it?"]}
    pairs = [each["pair"] for each in client.get(f"{url}/api/next?who=Ann&count=50").json()["pairs"]]
    return {
        "who": ["Ann", "Ben"],
        "pair": [*pairs, str(3 << 32 | 9)],
        "ledger": [client.get(f"{url}/api/campaign").json()["ledger"], None],
        "version": [client.get(f"{url}/api/guideline").json()["version"]],
        "rows": [[0, 1], [4, 2, 3], list(range(30))],
        "apart": [[], [0], [2, 3], list(range(15))],
    }


def check_alive(door: str, port: int) -> None:
    alive = status_of(port, b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert alive == (200 if door == "label" else 401)


@pytest.mark.parametrize("door", ["label", "serve"])
def test_noise_breaks_nothing(
    door: str, tmp_path: Path, tiny_encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dice, seen = random.Random(door), Counter[int]()
    with serving(*command(door, tmp_path, tiny_encoder)) as (pid, port):
        grown = Memory(pid)
        for number in range(REQUESTS):
            sent = request(dice, PATHS[door])
            status = status_of(port, sent)
            seen[status] += 1
            grown.note(number + 1)
            assert status < 500 or status == 503, (status, sent[:500])
        words = grown.report(door, seen)
        check_alive(door, port)
    with capsys.disabled():
        print(words)
    assert seen[200]


@pytest.mark.parametrize(("door", "document"), [("label", "/api/openapi.json"), ("serve", "/openapi.json")])
def test_what_the_schema_allows_and_a_little_more_breaks_nothing(
    door: str, document: str, tmp_path: Path, tiny_encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(*command(door, tmp_path, tiny_encoder)) as (pid, port):
        url, token = f"http://127.0.0.1:{port}", {"Authorization": f"Bearer {TOKEN}"}
        with httpx2.Client(headers=token, timeout=60) as client:
            schema, grown = client.get(url + document).json(), Memory(pid)
            seen = fuzz_by_schema(client, schema, url, REQUESTS, grown.note, known_values(door, client, url))
        words = grown.report(f"{door}, by its schema", seen)
        check_alive(door, port)
    with capsys.disabled():
        print(words)
    assert seen[200]

"""Slow and many clients: half-sent requests lock nobody out, and are let go."""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pairsieve.http.access import BODY_SECONDS
from pairsieve.http.connections import HEAD_SECONDS
from serving_campaign import finished_campaign
from web_campaign import asked_campaign

pytestmark = pytest.mark.slow
TOKEN = "a-token-of-23-characters"
HALF_OPEN = 2000


@contextlib.contextmanager
def serving(*words: Any) -> Iterator[int]:
    """A command that serves, in a process of its own; gives its port."""
    start = [sys.executable, "-m", "pairsieve", *map(str, words), "--token", TOKEN, "--json"]
    server = subprocess.Popen(start, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield int(json.loads(server.stdout.readline())["url"].rstrip("/").rpartition(":")[2])
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=90)
        server.stdout.close()


@contextlib.contextmanager
def half_open(port: int, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Connections that sent the beginning of a request and then nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count + 500)), hard))
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(count):
            one = stack.enter_context(socket.socket())
            one.connect(("127.0.0.1", port))
            with contextlib.suppress(OSError):  # closed already, to make way
                one.sendall(sent)
            made.append(one)
        yield made


def ask(port: int, path: str, cookie: str = "", body: Any = None) -> tuple[int, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        headers = {"X-Pairsieve": "1", "Content-Type": "application/json", "Cookie": cookie}
        sent = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, sent, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer
    finally:
        connection.close()


def test_half_open_connections_leave_a_logged_in_person_served(tmp_path: Path, tiny_encoder: Path) -> None:
    campaign = asked_campaign(tmp_path, tiny_encoder)
    campaign.ledger.close()
    with serving("label", campaign.folder, "--no-train") as port:
        status, answer = ask(port, "/api/login", body={"token": TOKEN})
        assert status == 200
        cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
        with half_open(port, HALF_OPEN, b"GET /api/next?who=Eve HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "):
            for _ in range(5):
                assert ask(port, "/api/next?who=Ann", cookie)[0] == 200
                assert ask(port, "/login")[0] == 200


def test_half_open_connections_leave_the_service_healthy(tmp_path: Path, tiny_encoder: Path) -> None:
    campaign = finished_campaign(tmp_path, tiny_encoder)
    with serving("serve", campaign) as port:
        head = b"POST /match HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n"
        with half_open(port, HALF_OPEN, head):
            for _ in range(5):
                assert ask(port, "/health")[0] == 200


def test_what_never_arrives_is_let_go(tmp_path: Path, tiny_encoder: Path) -> None:
    campaign = asked_campaign(tmp_path, tiny_encoder)
    campaign.ledger.close()
    head = b"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Pairsieve: 1\r\n"
    body = b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    with (
        serving("label", campaign.folder, "--no-train") as port,
        half_open(port, 1, head) as (unfinished,),
        half_open(port, 1, head + body) as (started,),
    ):
        unfinished.settimeout(4 * HEAD_SECONDS)
        began = time.monotonic()
        while True:  # it drips on, as an attacker would
            try:
                unfinished.sendall(b"X-Drop: 1\r\n")
                time.sleep(0.5)
            except OSError:
                break
            assert time.monotonic() - began < 4 * HEAD_SECONDS, "the head may drip for ever"
        started.settimeout(4 * BODY_SECONDS)
        assert started.recv(100).startswith(b"HTTP/1.1 408 ")

"""A local OpenAI-compatible server for tests: honest by default, and as slow, broken or lying as it is told.

It keeps its own books: `billed` is what a provider would charge, counted on this side of the wire, whether
or not the reply arrives. By default a token is four bytes in and out.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    number: int  # from 1, in the order of arrival
    body: dict[str, Any]
    bytes: int
    headers: dict[str, str]

    @property
    def pairs(self) -> list[dict[str, Any]]:
        """The pairs asked about: the JSON document of the last message."""
        return json.loads(self.body["messages"][-1]["content"])

    @property
    def most_tokens(self) -> int:
        return self.body.get("max_tokens") or self.body["max_completion_tokens"]


@dataclass(frozen=True)
class Sent:
    """One reply. `body` is sent as it is when bytes, else as JSON."""

    body: Any = field(default_factory=dict)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    drop: str = ""  # "before" any byte, or in the "middle" of the body
    drip_seconds: float = 0.0  # one byte at a time, with this pause
    tokens: tuple[int, int] | None = None  # what is billed; None: nothing


Behaviour = Callable[[Asked], Sent]


def label_of(pair: dict[str, Any]) -> str:
    """The truth of these tests: a pair matches when the numbers in its two texts have an even sum."""
    numbers = [int(re.findall(r"\d+", pair[side])[0]) for side in ("left", "right")]
    return "match" if sum(numbers) % 2 == 0 else "no_match"


def completion(asked: Asked, content: Any, tokens: tuple[int, int] | None = None, **more: Any) -> Sent:
    """A reply with this content (text as it is, else as JSON) and the usage that is billed."""
    text = content if isinstance(content, str) else json.dumps(content)
    prompt, out = tokens or (asked.bytes // 4, min(len(text) // 4 + 1, asked.most_tokens))
    usage = {"prompt_tokens": prompt, "completion_tokens": out, "total_tokens": prompt + out}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    body = {"object": "chat.completion", "choices": [choice], "usage": usage}
    return Sent(body, tokens=(prompt, out), **more)


def answers(asked: Asked) -> dict[str, Any]:
    return {"answers": [{"pair": pair["pair"], "label": label_of(pair)} for pair in asked.pairs]}


def honest(asked: Asked) -> Sent:
    return completion(asked, answers(asked))


class OpenAIServer:
    """`with OpenAIServer(behaviour) as server:` serves on a free port of the loopback."""

    def __init__(self, behave: Behaviour = honest) -> None:
        self.behave = behave
        self.asked: list[Asked] = []
        self.times: list[float] = []
        self.billed = [0, 0]  # tokens in, tokens out
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> OpenAIServer:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _take(self, path: str, headers: dict[str, str], raw: bytes) -> Sent:
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            asked = Asked(len(self.asked) + 1, json.loads(raw), len(raw), headers)
            self.asked.append(asked)
            self.times.append(time.monotonic())
        try:
            sent = self.behave(asked) if path == "/v1/chat/completions" else Sent("no such path", 404)
            with self._lock:
                if sent.tokens is not None:
                    self.billed[0] += sent.tokens[0]
                    self.billed[1] += sent.tokens[1]
            time.sleep(sent.delay_seconds)
            return sent
        finally:
            with self._lock:
                self._at_once -= 1

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                sent = server._take(self.path, headers, raw)
                body = sent.body if isinstance(sent.body, bytes) else json.dumps(sent.body).encode()
                try:
                    self._reply(sent, body)
                except OSError:  # the client has hung up, as it may
                    self.close_connection = True

            def _reply(self, sent: Sent, body: bytes) -> None:
                if sent.drop:
                    self.close_connection = True
                if sent.drop == "before":
                    return
                self.send_response(sent.status)
                for name, value in sent.headers.items():
                    self.send_header(name, value)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                if sent.drop == "middle":
                    body = body[: len(body) // 2]
                if sent.drip_seconds:
                    for byte in body:
                        self.wfile.write(bytes([byte]))
                        self.wfile.flush()
                        time.sleep(sent.drip_seconds)
                else:
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

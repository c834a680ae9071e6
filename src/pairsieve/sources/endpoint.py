"""Client of OpenAI-compatible chat endpoints: settings, request, reply.

The key is read from the environment when it is needed; it is in no setting, no message and no log. Servers
differ in what they understand, so a request starts with everything (`Dialect`) and leaves out, step by
step, what the server says it does not know.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pairsieve.errors import InputError, MissingExtra
from pairsieve.sources.prompt import reply_schema
from pairsieve.sources.spending import Tokens

if TYPE_CHECKING:
    import httpx

LONGEST_REPLY = 1 << 20  # bytes; a label needs a hundred
AROUND_A_MESSAGE = 16  # tokens, at most, that a chat template puts around one message
NOTHING = Tokens(0, 0)


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a model is asked, and how patiently."""

    url: str  # up to and with /v1; /chat/completions is added
    model: str
    key_variable: str | None = None  # the environment variable that holds the key; None: no key is sent
    concurrency: int = 4  # requests under way at once
    timeout_seconds: float = 60.0  # for one reply
    retries: int = 4  # after the first try
    first_wait_seconds: float = 1.0  # before the first retry; doubles with each, with jitter
    longest_wait_seconds: float = 60.0  # a server that asks for more patience ends the asking
    pairs_per_request: int = 1  # more is cheaper, as definition and examples are paid for once
    answer_tokens: int = 64  # allowed for each pair's answer; raise it for models that think aloud

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is no number, a bracket that does not close
            usable = False
        if not usable or not self.url.isascii() or not self.url.isprintable():
            remedy = "Write it as https://api.example.com/v1"
            raise InputError("the endpoint is not an http address", remedy=remedy)
        if parts.username or parts.password or parts.query:
            what = "the endpoint's address holds a name, a password or a query"
            why, where = "addresses are shown and logged", str(parts.hostname)
            remedy = "Put the key into an environment variable and name that variable"
            raise InputError(what, where=where, why=why, remedy=remedy)
        if not self.model.strip():
            raise InputError("the model has no name", remedy="Name it as the endpoint knows it")
        least = {"concurrency": 1, "timeout_seconds": 0.001, "retries": 0, "pairs_per_request": 1}
        for name, low in {**least, "answer_tokens": 1, "first_wait_seconds": 0}.items():
            if not getattr(self, name) >= low:
                raise InputError(f"`{name}={getattr(self, name):g}`", remedy=f"Give a number from {low:g}")

    @property
    def address(self) -> str:
        base = self.url.rstrip("/")
        return base if base.endswith("/chat/completions") else f"{base}/chat/completions"

    def key(self) -> str | None:
        """The key, from the environment."""
        if self.key_variable is None:
            return None
        key = os.environ.get(self.key_variable, "").strip()
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            what = f"the environment variable {self.key_variable} holds no usable key"
            why = "it is unset or empty" if not key else "a key is one word of plain characters"
            remedy = "Set it in the environment, or leave the variable's name out where no key is needed"
            raise InputError(what, why=why, remedy=remedy)
        parts = urlsplit(self.url)
        if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
            remedy = "Use https, or leave the key variable out"
            raise InputError("the key would travel in the clear", where=self.url, remedy=remedy)
        return key


@dataclass(frozen=True)
class Dialect:
    """What the server is believed to understand."""

    schema: bool = True  # response_format with a JSON schema
    temperature: bool = True  # 0, for the same answer each time
    limit: str = "max_tokens"  # or its newer name

    def milder(self, complaint: str) -> Dialect | None:
        """The next dialect to try after a complaint; None where nothing is left to leave out."""
        if self.limit in complaint and "max_completion_tokens" in complaint and self.limit == "max_tokens":
            return replace(self, limit="max_completion_tokens")
        if self.temperature and "temperature" in complaint:
            return replace(self, temperature=False)
        return replace(self, schema=False) if self.schema else None

    def body(self, model: str, messages: Sequence[dict[str, str]], pairs: int, most_tokens: int) -> bytes:
        request: dict[str, Any] = {"model": model, "messages": list(messages), self.limit: most_tokens}
        if self.temperature:
            request["temperature"] = 0
        if self.schema:
            request["response_format"] = reply_schema(pairs)
        return json.dumps(request, ensure_ascii=False).encode()


def worst_case(body: bytes, messages: int, most_tokens: int) -> Tokens:
    """The most a request can cost: no token is shorter than a byte, and the answer has its limit."""
    return Tokens(len(body) + AROUND_A_MESSAGE * messages, most_tokens)


@dataclass(frozen=True)
class Reply:
    """What came back: the HTTP status, the body as JSON (None where it is none), and how long to wait."""

    status: int
    body: Any
    retry_after_seconds: float | None = None

    @property
    def cost(self) -> Tokens | None:
        """What was billed: the usage reported; nothing where the request was turned away; None: not known."""
        if 300 <= self.status < 500:
            return NOTHING
        usage = self.body.get("usage") if isinstance(self.body, dict) and self.status < 300 else None
        if not isinstance(usage, dict):
            return None
        prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if type(prompt) is int and type(completion) is int and prompt > 0 and completion >= 0:
            return Tokens(prompt, completion)
        return None  # no honest request is free of tokens

    def content(self) -> str:
        """What the model answered; PermissionError where it refused, ValueError where it cannot be read."""
        choices = self.body.get("choices") if isinstance(self.body, dict) else None
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            raise ValueError("a reply without a message")
        if message.get("refusal") or choice.get("finish_reason") == "content_filter":
            raise PermissionError("the model refused")
        if choice.get("finish_reason") == "length":
            raise ValueError("an answer cut at its token limit")
        content = message.get("content")
        if isinstance(content, list):  # some servers send it in pieces
            content = "".join(str(each.get("text", "")) for each in content if isinstance(each, dict))
        if not isinstance(content, str):
            raise ValueError("a message without text")
        return content

    def complaint(self) -> str:
        """What the server says went wrong."""
        error = self.body.get("error", self.body) if isinstance(self.body, dict) else self.body
        message = error.get("message", error) if isinstance(error, dict) else error
        return message if isinstance(message, str) else json.dumps(message)


def open_client(endpoint: Endpoint) -> httpx.Client:
    """An HTTP client for the endpoint, with its key. It follows no redirect, so the key goes nowhere else."""
    try:
        import httpx
    except ModuleNotFoundError:
        raise MissingExtra("httpx", "Asking a language model", "pip install httpx") from None
    key = endpoint.key()
    headers = {"content-type": "application/json", "accept-encoding": "identity"}
    return httpx.Client(
        headers=headers | ({"authorization": f"Bearer {key}"} if key else {}),
        timeout=endpoint.timeout_seconds,
        follow_redirects=False,
        # A connection for each request, so that it can be cut when the request's time is up.
        limits=httpx.Limits(max_connections=endpoint.concurrency, max_keepalive_connections=0),
    )


class Deadline:
    """Cuts a request's connection when its time is up, however slowly the reply drips in."""

    def __init__(self, seconds: float) -> None:
        self._stream: Any = None
        self.over = False
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Told by httpx what happens: a connection is made, then perhaps encrypted."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._stream = info["return_value"]
            if self.over:
                self._cut()

    def _cut(self) -> None:
        self.over = True
        connection = self._stream.get_extra_info("socket") if self._stream is not None else None
        if connection is not None:
            with contextlib.suppress(OSError):  # closed already
                connection.shutdown(socket.SHUT_RDWR)


def post(client: httpx.Client, endpoint: Endpoint, body: bytes) -> Reply:
    """Send one request; ConnectionError, in words, where no whole reply came in time."""
    import httpx

    late = f"no whole reply in {endpoint.timeout_seconds:g} seconds"
    # The client's own limit is for each piece of the reply: drops would go on for ever.
    with Deadline(endpoint.timeout_seconds) as deadline:
        try:
            more = {"trace": deadline.trace}
            with client.stream("POST", endpoint.address, content=body, extensions=more) as response:
                received = bytearray()
                for piece in response.iter_bytes():
                    received += piece
                    if len(received) > LONGEST_REPLY:
                        raise ConnectionError("a reply without end")
        except httpx.TimeoutException:
            raise ConnectionError(f"no reply in {endpoint.timeout_seconds:g} seconds") from None
        except httpx.HTTPError as error:
            raise ConnectionError(late if deadline.over else f"{type(error).__name__}: {error}") from None
    if deadline.over:  # a reply without a stated length ends where it was cut
        raise ConnectionError(late)
    try:
        contents = json.loads(received)
    except (ValueError, RecursionError):
        contents = received[:500].decode("utf-8", "replace") if response.status_code >= 300 else None
    return Reply(response.status_code, contents, _seconds(response.headers.get("retry-after")))


def presentable(words: str, secret: str | None) -> str:
    """A server's words, fit for a terminal: one short line, without control characters or the key."""
    if secret:
        words = words.replace(secret, "[the key]")
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in words).split())
    return line if len(line) <= 200 else line[:200] + " …"


def _seconds(retry_after: str | None) -> float | None:
    """The Retry-After header, which is a number of seconds or a date."""
    if retry_after is None:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

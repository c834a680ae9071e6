"""Access control for an HTTP application: host and origin checks, tokens, throttling, limits, headers.

On loopback without a token only requests that name this very address are answered, so that a foreign web
page cannot reach in through a name of its own that points here. With a token a browser needs the cookie it
got for the token. Every write needs a header that a foreign page cannot send, and our own origin. What a
foreign page makes a browser ask for is refused also where it changes nothing; a link to a page is followed.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping, Set
from typing import Any

from pairsieve.errors import InputError
from pairsieve.http.proxy import Proxy, Scope, neighbourhood

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "pairsieve"
OUR_HEADER = "x-pairsieve"  # a foreign page cannot send it without asking first, and we never allow it
LARGEST_BODY = 128 * 1024
BODY_SECONDS = 20.0  # for a body to arrive
SHORTEST_TOKEN = 16
FAILURES, WINDOW_SECONDS = 10, 60.0  # wrong tokens from one address before it must wait
MOST_ADDRESSES = 10_000
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
Refusal = tuple[int, str, dict[str, str]]  # status, detail, further headers


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_host(host: str, token: str, proxy: Proxy | None = None) -> None:
    """Refuse to be reachable from elsewhere without a token, and a token that is easy to guess."""
    public = proxy.public_url if proxy else ""
    if not token and (public or not is_loopback(host)):
        raise InputError(
            f"the public URL {public!r} without a token" if public else f"the host {host!r} without a token",
            why="everybody who can reach that address could read the texts and answer",
            remedy="Give a `token` (or set PAIRSIEVE_TOKEN), or leave `host` out to serve this machine only",
        )
    if token and len(token) < SHORTEST_TOKEN:
        raise InputError(
            f"a token of {len(token)} characters",
            why="short tokens are guessed",
            remedy=f"Give at least {SHORTEST_TOKEN} characters, for example from: openssl rand -hex 16",
        )


class Failures:
    """How often an address showed a wrong token lately."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._when: dict[str, deque[float]] = {}

    def wait_seconds(self, address: str) -> float:
        """How long the address must wait; 0 if it may try."""
        when = self._when.get(address)
        if not when or len(when) < FAILURES:
            return 0.0
        return max(0.0, when[0] + WINDOW_SECONDS - self._clock())

    def note(self, address: str) -> None:
        """One more wrong token."""
        if address not in self._when and len(self._when) >= MOST_ADDRESSES:
            self._when.pop(next(iter(self._when)))
        self._when.setdefault(address, deque(maxlen=FAILURES)).append(self._clock())


class AccessControl:
    """ASGI middleware: host, token, origin, size, and the headers of every answer."""

    def __init__(
        self,
        app: App,
        token: str = "",
        failures: Failures | None = None,
        *,
        open_paths: Set[str] = frozenset(),
        login_path: str = "",
        pages: Set[str] = frozenset(),
        reading_paths: Set[str] = frozenset(),
        proxy: Proxy | None = None,
    ) -> None:
        """open_paths: answered without the token. login_path: where a browser without it is sent. pages: may
        be linked to from elsewhere. reading_paths: a POST there changes nothing, and needs no header of ours.
        """
        self._app, self._token, self._failures = app, token, failures or Failures()
        self._open_paths, self._login_path = open_paths, login_path
        self._pages, self._reading_paths = pages, reading_paths
        self._proxy = proxy or Proxy()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        received, late = 0, False

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                if received > LARGEST_BODY or late:  # whatever the framework made of it
                    message = {**message, "status": 408 if late else 413}
                held = list(message.get("headers", []))
                names = {name.lower() for name, _ in held}
                held += [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in names]
                message = {**message, "headers": held}
            await send(message)

        headers = _headers(scope)
        refusal = self._refuse(scope, headers)
        if refusal is not None:
            await _answer(send_safely, *refusal)
            return
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 20 or int(length) > LARGEST_BODY:
            await _answer(send_safely, 413, f"A request may have {LARGEST_BODY:,} bytes.")
            return

        arriving, late_at = True, asyncio.get_running_loop().time() + BODY_SECONDS

        async def receive_little() -> Message:
            nonlocal received, arriving, late
            try:
                async with asyncio.timeout_at(late_at if arriving else None):
                    message = await receive()
            except TimeoutError:
                late = True
                raise
            arriving = arriving and bool(message.get("more_body"))
            received += len(message.get("body", b""))
            if received > LARGEST_BODY:
                raise TooLarge
            return message

        try:
            await self._app(scope, receive_little, send_safely)
        except TooLarge:
            await _answer(send_safely, 413, f"A request may have {LARGEST_BODY:,} bytes.")

    def _refuse(self, scope: Scope, headers: dict[str, str]) -> Refusal | None:
        """Why a request is not answered, or None."""
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy in front may count the body by the other one, and take its rest for a second request.
            return 400, "A request has a length or comes in chunks, not both.", {"connection": "close"}
        host = headers.get("host", "")
        elsewhere = not is_loopback(_without_port(host))
        if elsewhere and (not self._token or self._proxy.host not in ("", host)):
            return 421, f"This server does not answer to the name {host[:80]!r}.", {}
        reads = scope["method"] in ("GET", "HEAD")
        if not reads and OUR_HEADER not in headers and scope["path"] not in self._reading_paths:
            return 403, "A write needs the header X-Pairsieve: 1.", {}
        linked = reads and scope["path"] in self._pages and headers.get("sec-fetch-mode") == "navigate"
        if not linked and self._is_foreign(scope, headers, host):
            return 403, "That request comes from a foreign page.", {}
        if not self._token or scope["path"] in self._open_paths:
            return None
        return self._check_token(scope, headers)

    def _is_foreign(self, scope: Scope, headers: dict[str, str], host: str) -> bool:
        """Whether a page of somebody else's made the browser send this."""
        ours = {self._proxy.origin, f"{self._proxy.scheme(scope, headers)}://{host}"} - {""}
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "same-origin")
        return (origin is not None and origin not in ours) or site not in ("same-origin", "none")

    def _check_token(self, scope: Scope, headers: dict[str, str]) -> Refusal | None:
        shown = headers.get("authorization", "").removeprefix("Bearer ").strip()
        cookie = _cookie(headers.get("cookie", ""))
        if cookie and same(cookie, cookie_for(self._token)):
            return None  # nobody guesses it, so a neighbour's wrong tokens need not keep it out
        if shown and same(shown, self._token):
            return None  # compared first: who knows the token is never kept out by who guesses
        if shown or cookie:
            wait = self._note_failure(scope, headers)
            if wait:
                return 429, "Too many wrong tokens. Wait a minute.", {"retry-after": str(int(wait) + 1)}
            if shown and self._login_path:
                return 401, "That token is wrong.", {}
        if not self._login_path:
            detail = "This service needs its token: send the header Authorization: Bearer TOKEN."
            return 401, detail, {"www-authenticate": "Bearer"}
        if scope["method"] == "GET" and not scope["path"].startswith("/api/"):
            return 303, "Give the token first.", {"location": self._login_path}
        return 401, f"This page needs a token. Open {self._login_path} and give it.", {}

    def log_in(self, scope: Scope, token: str) -> tuple[bool, float]:
        """(whether the token is right, seconds to wait before the next try)."""
        if not self._token or same(token, self._token):
            return True, 0.0
        return False, self._note_failure(scope, _headers(scope))

    def uses_tls(self, scope: Scope) -> bool:
        """Whether the browser that sent this speaks TLS with who is in front, so cookies must be Secure."""
        headers = _headers(scope)
        origin = headers.get("origin") or f"{self._proxy.scheme(scope, headers)}://"
        return origin.startswith("https://")

    def _note_failure(self, scope: Scope, headers: dict[str, str]) -> float:
        """Count a wrong token of a client; the seconds it must wait, 0 while it may go on."""
        client = neighbourhood(self._proxy.client(scope, headers))
        wait = self._failures.wait_seconds(client)
        if not wait:
            self._failures.note(client)
        return wait


class TooLarge(Exception):
    """A body that grew beyond the limit while it was read."""


def cookie_for(token: str) -> str:
    """What a browser keeps in place of the token: it opens the page and does not tell the token."""
    return hmac.new(token.encode(), b"pairsieve page", hashlib.sha256).hexdigest()


def same(one: str, other: str) -> bool:
    """Whether two secrets are equal, in a time that tells nothing."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def _headers(scope: Scope) -> dict[str, str]:
    """By lower-case name; of a header that comes twice the last counts, but lists go on."""
    found: dict[str, str] = {}
    for raw_name, raw in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw.decode("latin-1")
        found[name] = f"{found[name]},{value}" if name == "x-forwarded-for" and name in found else value
    return found


def _cookie(header: str) -> str:
    """Our cookie's value, or "". Not by http.cookies: a long quoted value costs it quadratic time."""
    held = (part.strip().partition("=") for part in header.split(";"))
    return next((value for name, _, value in held if name == COOKIE), "")


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


async def _answer(send: Send, status: int, detail: str, more: dict[str, str] | None = None) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in (more or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

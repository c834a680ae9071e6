"""Limits on connections: how long a request may take to arrive, and how many connections are held.

A connection that has sent no whole request head yet, or none since the last answer, is *waiting*. It is
closed after `HEAD_SECONDS`, and earlier where its client or everybody together has too many: then the one
that has waited longest makes way for the new one. So half-sent requests only displace each other, and
whoever sends a whole request is answered. A client that does not take its answer waits, too, and is closed
after `TAKE_SECONDS`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from pairsieve.http.proxy import Proxy, neighbourhood

HEAD_SECONDS = 10.0  # for the head of a request to arrive
TAKE_SECONDS = 120.0  # for an answer to be taken: what is left of it when the system's buffers are full
MOST_HEAD = 256 * 1024  # bytes that arrive before a request has begun: its head, and perhaps its body
MOST_CONNECTIONS = 1000  # in all; beside them, a process has files open
MOST_OF_ONE_CLIENT = 200  # from one address; not of a trusted proxy, behind which are many


class Connections:
    """The open connections of a server, oldest first. Used by one event loop."""

    def __init__(
        self, proxy: Proxy, most: int = MOST_CONNECTIONS, most_of_one: int = MOST_OF_ONE_CLIENT
    ) -> None:
        self._proxy, self._most, self._most_of_one = proxy, most, most_of_one
        self._open: dict[Any, str] = {}  # protocol -> client
        self._count: Counter[str] = Counter()
        self._sweeping: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, protocol: Any) -> None:
        """Take a new connection in; where there are too many, one that waits is closed, or else this one."""
        client = neighbourhood(protocol.client[0] if protocol.client else "unknown")
        if self._proxy.trusts(client):
            client = ""  # many people behind one address
        self._open[protocol] = client
        self._count[client] += 1
        if client and self._count[client] > self._most_of_one:
            self._make_way(client)
        if len(self._open) > self._most:
            self._make_way(None)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(1.0, self._sweep)

    def leave(self, protocol: Any) -> None:
        client = self._open.pop(protocol, None)
        if client is not None:
            self._count[client] -= 1
            if not self._count[client]:
                del self._count[client]

    def _make_way(self, client: str | None) -> None:
        of_client = (each for each, of in self._open.items() if client in (None, of))
        now = time.monotonic()
        waiting = [
            each for each in of_client if not is_answering(each) or now - each.waiting_since > HEAD_SECONDS
        ]
        newest = next(reversed(self._open))
        self._close(min(waiting, key=lambda each: float(each.waiting_since), default=newest))

    def _sweep(self) -> None:
        """Close what has waited too long."""
        now = time.monotonic()
        for each in list(self._open):
            each.note_requests(now)
            answering = is_answering(each)
            if answering and not each.transport.get_write_buffer_size():
                each.waiting_since = now
            elif now - each.waiting_since > (TAKE_SECONDS if answering else HEAD_SECONDS):
                self._close(each)
        again = asyncio.get_running_loop().call_later(1.0, self._sweep) if self._open else None
        self._sweeping = again

    def _close(self, protocol: Any) -> None:
        self.leave(protocol)
        protocol.transport.abort()


def is_answering(protocol: Any) -> bool:
    """Whether a whole head has arrived and its answer is not complete."""
    return protocol.cycle is not None and not protocol.cycle.response_complete


def limited_protocol(connections: Connections) -> type[Any]:
    """uvicorn's HTTP protocol, whose connections are counted and timed."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class Limited(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        waiting_since = 0.0
        head_bytes = 0  # that came since the last request began
        last_request: Any = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self.waiting_since = time.monotonic()
            connections.enter(self)

        def note_requests(self, now: float) -> None:
            """Begin to count anew where another request has begun since the last look."""
            if self.cycle is not self.last_request:
                self.last_request, self.head_bytes = self.cycle, 0
                if not self.transport.get_write_buffer_size():  # else the last answer is not taken yet
                    self.waiting_since = now

        def data_received(self, data: bytes) -> None:
            self.note_requests(time.monotonic())
            self.head_bytes += 0 if is_answering(self) else len(data)
            if self.head_bytes > MOST_HEAD:
                self.transport.abort()
                return
            super().data_received(data)

        def connection_lost(self, exc: Exception | None) -> None:
            connections.leave(self)
            super().connection_lost(exc)

    return Limited

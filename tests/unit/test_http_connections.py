"""Clients that do not take their answers make way, and are closed in the end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from pairsieve.http.connections import HEAD_SECONDS, MOST_HEAD, TAKE_SECONDS, Connections, limited_protocol
from pairsieve.http.proxy import Proxy
from pairsieve.http.server import run_server


def answering(unsent: int, seconds: float) -> Any:
    """A connection whose answer is not complete, with so many bytes unsent for so many seconds."""
    transport = Mock()
    transport.get_write_buffer_size.return_value = unsent
    return Mock(
        client=("192.0.2.1", 1),
        cycle=SimpleNamespace(response_complete=False),
        transport=transport,
        waiting_since=time.monotonic() - seconds,
    )


async def make_way(first: Any, second: Any) -> None:
    connections = Connections(Proxy(), most_of_one=1)
    connections.enter(first)
    connections.enter(second)


async def sweep(one: Any) -> None:
    connections = Connections(Proxy())
    connections.enter(one)
    connections._sweep()


@pytest.mark.parametrize(
    ("unsent", "seconds", "closed"),
    [(1, TAKE_SECONDS + 1, True), (1, TAKE_SECONDS - 9, False), (0, TAKE_SECONDS + 1, False)],
)
def test_an_answer_that_nobody_takes_is_given_up(unsent: int, seconds: float, closed: bool) -> None:
    one = answering(unsent, seconds)
    asyncio.run(sweep(one))
    assert one.transport.abort.called is closed


def test_who_does_not_take_an_answer_makes_way_for_others() -> None:
    stuck, new = answering(1, HEAD_SECONDS + 1), answering(0, 0)
    asyncio.run(make_way(stuck, new))
    assert stuck.transport.abort.called and not new.transport.abort.called
    busy, late = answering(0, 0), answering(0, 0)
    asyncio.run(make_way(busy, late))
    assert late.transport.abort.called and not busy.transport.abort.called, "who is being answered stays"


def waiting(address: str, seconds: float) -> Any:
    """A connection that has sent no whole request for so many seconds."""
    return Mock(client=(address, 1), cycle=None, waiting_since=time.monotonic() - seconds)


async def enter(connections: Connections, *all_of_them: Any) -> list[int]:
    """Let connections in one after the other; the places of those that were closed."""
    for each in all_of_them:
        connections.enter(each)
    return [at for at, each in enumerate(all_of_them) if each.transport.abort.called]


def test_of_too_many_clients_the_one_that_waits_longest_makes_way() -> None:
    crowd = [waiting(f"192.0.2.{n}", 5 - n) for n in range(5)]
    assert asyncio.run(enter(Connections(Proxy(), most=3), *crowd)) == [0, 1]


def test_one_address_has_a_limit_unless_it_is_the_proxy() -> None:
    proxy = Proxy("https://label.example.org", ("10.0.0.5",))
    crowd = [waiting("10.0.0.5", 0), waiting("10.0.0.5", 0), waiting("10.0.0.6", 2), waiting("10.0.0.6", 1)]
    assert asyncio.run(enter(Connections(proxy, most_of_one=1), *crowd)) == [2]


@pytest.mark.parametrize(("seconds", "closed"), [(HEAD_SECONDS + 1, True), (HEAD_SECONDS - 5, False)])
def test_a_head_that_does_not_come_is_given_up(seconds: float, closed: bool) -> None:
    late = waiting("192.0.2.1", seconds)
    asyncio.run(sweep(late))
    assert late.transport.abort.called is closed


async def send_head(size: int) -> bool:
    import uvicorn

    config = uvicorn.Config(
        lambda *_: None, http=limited_protocol(Connections(Proxy())), log_level="critical"
    )
    config.load()
    state = uvicorn.server.ServerState()
    protocol = config.http_protocol_class(config=config, server_state=state, app_state={})  # type: ignore[call-arg, operator]
    transport = Mock()
    transport.get_extra_info.return_value = None
    transport.get_write_buffer_size.return_value = 0
    protocol.connection_made(transport)
    protocol.data_received(b"GET / HTTP/1.1\r\nX: ".ljust(size, b"x"))
    return bool(transport.abort.called)


def test_a_head_without_end_is_cut_off() -> None:
    assert asyncio.run(send_head(MOST_HEAD + 1))
    assert not asyncio.run(send_head(4096))


def test_the_body_of_an_answer_is_not_held_back_until_its_head_is_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With Nagle's algorithm on, each request after the first of a connection waits 40 ms for its answer."""
    clients: list[socket.socket] = []
    no_delay: list[int] = []

    def connect(url: str) -> None:
        clients.append(socket.create_connection(("127.0.0.1", int(url.rstrip("/").rpartition(":")[2]))))

    def look(_: Connections, protocol: Any) -> None:
        accepted = protocol.transport.get_extra_info("socket")
        no_delay.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Connections, "enter", look)
    limits = {"most_connections": 5, "graceful_seconds": 1}
    run_server(Mock(), "127.0.0.1", 0, "", connect, proxy=Proxy(), lifespan="off", **limits)
    clients[0].close()
    assert no_delay and all(no_delay)

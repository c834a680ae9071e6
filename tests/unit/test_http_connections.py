"""Clients that do not take their answers make way, and are closed in the end."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from pairsieve.http.connections import HEAD_SECONDS, TAKE_SECONDS, Connections
from pairsieve.http.proxy import Proxy


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

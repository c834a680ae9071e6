"""Requests that schemathesis makes from a server's own OpenAPI document, sent by any client."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

AT_ONCE = 500  # requests of one operation before the next one's turn


def fuzz_by_schema(
    client: Any,
    document: dict[str, Any],
    base_url: str,
    requests: int,
    note: Callable[[int], None] = lambda asked: None,
    known: Mapping[str, Sequence[Any]] | None = None,
) -> Counter[int]:
    """Send about so many requests, each operation in turn; no answer may be a 500. Statuses by number.

    note: called with the number of requests so far, after each. 503 is an answer: the queue is full.
    known: values by name of a field or parameter, of which half of the requests have one: what a schema alone
    makes names no pair, no text and no ledger that there is, and is refused before anything is done.
    """
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    operations = [each.ok() for each in schemathesis.openapi.from_dict(document).get_all_operations()]
    seen: Counter[int] = Counter()
    each = max(1, min(AT_ONCE, requests // len(operations)))
    limits = settings(
        max_examples=each,
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    dice, turn = random.Random(0), 0
    while seen.total() < requests:
        turn += 1
        for operation in operations:

            @seed(turn)
            @limits
            @given(case=operation.as_strategy())
            def check(case: Any) -> None:
                if known and dice.random() < 0.5:
                    for part in (case.body, case.query, case.path_parameters):
                        put_known(part, known, dice)
                sent = case.as_transport_kwargs(base_url=base_url)
                sent.pop("cookies", None)
                headers = {**dict(sent.pop("headers", {}) or {}), "X-Pairsieve": "1"}
                try:
                    response = client.request(**sent, headers=headers)
                except (httpx2.LocalProtocolError, httpx2.InvalidURL, UnicodeError):
                    return  # no client can send it
                seen[response.status_code] += 1
                note(seen.total())
                assert response.status_code < 500 or response.status_code == 503, f"{sent}"

            check()
    return seen


def put_known(part: Any, known: Mapping[str, Sequence[Any]], dice: random.Random) -> None:
    """Replace the values of known names, also inside lists and objects."""
    if isinstance(part, list):
        for each in part:
            put_known(each, known, dice)
    elif isinstance(part, dict):
        for name, value in part.items():
            if name in known:
                part[name] = dice.choice(known[name])
            else:
                put_known(value, known, dice)

"""Requests that schemathesis makes from a server's own OpenAPI document, sent by any client."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

MADE = 200  # requests of one operation that schemathesis makes; further ones are put together from these
STRANGE = (
    "",
    "\0",
    "\u202e",
    "\ud800",
    "é" * 300,
    "-1",
    "9" * 19,
    "=1+1",
    "<b>",
    "../..",
    "%00",
    None,
    True,
    0.5,
)


def fuzz_by_schema(
    client: Any,
    document: dict[str, Any],
    base_url: str,
    requests: int,
    note: Callable[[int], None] = lambda asked: None,
    known: Mapping[str, Sequence[Any]] | None = None,
) -> Counter[int]:
    """Send about so many requests to all operations; no answer may be a 500. Statuses by number.

    note: called with the number of requests so far, after each. 503 is an answer: the queue is full.
    known: values by name of a field or parameter, of which half of the requests have one: what a schema alone
    makes names no pair, no text and no ledger that there is, and is refused before anything is done.
    """
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    operations = [each.ok() for each in schemathesis.openapi.from_dict(document).get_all_operations()]
    seen: Counter[int] = Counter()
    limits = settings(
        max_examples=max(1, min(MADE, requests // len(operations))),
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    dice, made = random.Random(0), [list[dict[str, Any]]() for _ in operations]

    def send(sent: dict[str, Any]) -> None:
        if known and dice.random() < 0.5:
            for part in ("json", "params"):
                put_known(sent.get(part), known, dice)
        try:
            response = client.request(**sent)
        except (httpx2.LocalProtocolError, httpx2.InvalidURL, UnicodeError):
            return  # no client can send it
        seen[response.status_code] += 1
        note(seen.total())
        assert response.status_code < 500 or response.status_code == 503, f"{sent}"

    def make(operation: Any, cases: list[dict[str, Any]]) -> None:
        @seed(0)
        @limits
        @given(case=operation.as_strategy())
        def check(case: Any) -> None:
            if known and case.path_parameters and dice.random() < 0.5:
                put_known(case.path_parameters, known, dice)
            sent = case.as_transport_kwargs(base_url=base_url)
            sent.pop("cookies", None)
            sent["headers"] = {**dict(sent.get("headers") or {}), "X-Pairsieve": "1"}
            cases.append(copy.deepcopy(sent))
            send(sent)

        check()

    for operation, cases in zip(operations, made):
        make(operation, cases)
    while seen.total() < requests:
        (cases,) = dice.choices(made, [len(each) for each in made])  # one without parameters: seldom
        send(crossed(dice.choice(cases), dice.choice(cases), dice))
    return seen


def crossed(one: dict[str, Any], other: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """A request with some fields of another to the same operation, and now and then a strange value."""
    sent = copy.deepcopy(one)
    for part in ("json", "params"):
        mine, theirs = sent.get(part), other.get(part)
        if isinstance(mine, dict) and isinstance(theirs, dict):
            mine |= {name: copy.deepcopy(value) for name, value in theirs.items() if dice.random() < 0.4}
            if mine and dice.random() < 0.2:
                mine[dice.choice(list(mine))] = dice.choice(STRANGE)
    return sent


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

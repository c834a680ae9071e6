"""Requests that schemathesis makes from a server's own OpenAPI document, sent by any client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings

AT_ONCE = 500  # requests of one operation before the next one's turn


def fuzz_by_schema(
    client: Any,
    document: dict[str, Any],
    base_url: str,
    requests: int,
    note: Callable[[int], None] = lambda asked: None,
) -> Counter[int]:
    """Send about so many requests, each operation in turn; no answer may be a 500. Statuses by number.

    note: called with the number of requests so far, after each. 503 is an answer: the queue is full.
    """
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    operations = [each.ok() for each in schemathesis.openapi.from_dict(document).get_all_operations()]
    seen: Counter[int] = Counter()
    each = max(1, min(AT_ONCE, requests // len(operations)))
    limits = settings(
        max_examples=each, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    while seen.total() < requests:
        for operation in operations:

            @limits
            @given(case=operation.as_strategy())
            def check(case: Any) -> None:
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

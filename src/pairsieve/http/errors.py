"""JSON error responses: a PairsieveError, an OSError or an invalid request as a status and a `detail`."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response

from pairsieve.errors import PairsieveError

log = logging.getLogger("pairsieve")
SELDOM = 10.0  # seconds
_logged: dict[str, float] = {}  # words -> when


@dataclass(frozen=True)
class Refusal:
    """What a client is told of an error: status, words (empty: the error's own), further headers."""

    status: int
    words: str = ""
    headers: dict[str, str] = field(default_factory=dict)


RefusalOf = Callable[[PairsieveError], Refusal]
LATER = {"Retry-After": "2"}  # seconds after which it is worth trying again
DISK = Refusal(503, "The server's disk fails or is full. Nothing was done; try again later.", LATER)


def add_error_handlers(app: FastAPI, refusal_of: RefusalOf, too_long: int = 422) -> None:
    """Answer a PairsieveError by `refusal_of`, an invalid request with 422, a long text with `too_long`."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        # Only where and why: what was sent is not sent back, as it may not even be valid text.
        found = [{"loc": [str(step) for step in e["loc"]], "msg": e["msg"]} for e in error.errors()]
        long = any(e["type"] == "string_too_long" and e["loc"][0] == "body" for e in error.errors())
        return _response(found, too_long if long else 422)

    @app.exception_handler(PairsieveError)
    async def refused(_: Request, error: PairsieveError) -> Response:
        refusal = refusal_of(error)
        if refusal.status >= 500:
            log_seldom(error)
        return _response(refusal.words or str(error), refusal.status, refusal.headers)

    @app.exception_handler(OSError)
    async def failed(_: Request, error: OSError) -> Response:
        log_seldom(error)
        return _response(DISK.words, DISK.status, DISK.headers)


def log_seldom(error: Exception) -> None:
    """Log an error, the same words once in ten seconds: in an outage each request meets it."""
    words, now = str(error), time.monotonic()
    if now - _logged.get(words, -SELDOM) >= SELDOM:
        if len(_logged) > 100:
            _logged.clear()
        _logged[words] = now
        log.warning("%s", words)


def _response(detail: object, status: int, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps({"detail": detail})  # escaped: a name may hold what is not valid UTF-8
    return Response(body, status, headers, media_type="application/json")

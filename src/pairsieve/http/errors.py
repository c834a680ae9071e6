"""JSON error responses: a PairsieveError or an invalid request becomes a status and a `detail`."""

from __future__ import annotations

import json
from collections.abc import Callable

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response

from pairsieve.errors import PairsieveError

StatusOf = Callable[[PairsieveError], tuple[int, dict[str, str]]]  # error -> (status, further headers)


def add_error_handlers(app: FastAPI, status_of: StatusOf, too_long: int = 422) -> None:
    """Answer a PairsieveError by `status_of`, an invalid request with 422, a long text with `too_long`."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        # Only where and why: what was sent is not sent back, as it may not even be valid text.
        found = [{"loc": [str(step) for step in e["loc"]], "msg": e["msg"]} for e in error.errors()]
        long = any(e["type"] == "string_too_long" and e["loc"][0] == "body" for e in error.errors())
        return _response(found, too_long if long else 422)

    @app.exception_handler(PairsieveError)
    async def refused(_: Request, error: PairsieveError) -> Response:
        return _response(str(error), *status_of(error))


def _response(detail: object, status: int, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps({"detail": detail})  # escaped: a name may hold what is not valid UTF-8
    return Response(body, status, headers, media_type="application/json")

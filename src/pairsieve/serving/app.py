"""The HTTP door of a service: parse, ask the service, answer in JSON. The same gate as the labelling page's.

`make_app(service)` is an ASGI application; `serve` runs it until stopped. The description of every path is
at /openapi.json, and as a page at /docs; neither loads anything from elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from fastapi import FastAPI, Request
from fastapi import Path as PathPart
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

import pairsieve
from pairsieve.errors import InputError, PairsieveError
from pairsieve.serving.guide import STYLE, page
from pairsieve.serving.metrics import Meter
from pairsieve.serving.queue import Busy, Closed
from pairsieve.serving.record import RecordError
from pairsieve.serving.service import LONGEST_KEY, LONGEST_TEXT, Answer, Service, TooLong, UnknownKey
from pairsieve.web.safety import LARGEST_BODY, Failures, Gate, Scope, check_host, is_loopback

log = logging.getLogger("pairsieve")
MOST_IN_BATCH = 100  # texts of one /match/batch
MOST_ASKED = 100  # matches of one text
STOP_SECONDS = 60  # how long a stop waits for the requests that were accepted
OPEN_TO_ALL = {"/health", "/docs", "/docs/style.css", "/openapi.json"}  # they show no text

Text = Annotated[str, Field(max_length=LONGEST_TEXT, description="An encoder reads its first tokens.")]
Count = Annotated[int, Field(ge=1, le=MOST_ASKED, description="The most matches to give.")]
Threshold = Annotated[float | None, Field(ge=-1, le=1, description="The least cosine a match may have.")]
Key = Annotated[str, PathPart(min_length=1, max_length=LONGEST_KEY)]


class Sent(BaseModel):
    """What a client sends; a field nobody knows is an error."""

    model_config = ConfigDict(extra="forbid")


class MatchSent(Sent):
    text: Text
    count: Count = 10
    threshold: Threshold = None


class BatchSent(Sent):
    texts: list[Text] = Field(min_length=1, max_length=MOST_IN_BATCH)
    count: Count = 10
    threshold: Threshold = None


class TextSent(Sent):
    text: Text


class MatchGiven(BaseModel):
    key: str
    text: str
    score: float = Field(description="The cosine, from -1 to 1.")
    probability: float = Field(description="Of a match, by the model's head: sigmoid(weight · score + bias).")


class AnswerGiven(BaseModel):
    matches: list[MatchGiven] = Field(description="Best first; of equal scores the older text first.")
    cut: bool = Field(description="The text is longer than the encoder reads; its end had no part in this.")


class BatchGiven(BaseModel):
    answers: list[AnswerGiven] = Field(description="One for each text, in the order sent.")


class TextGiven(BaseModel):
    key: str
    replaced: bool = Field(description="There was a text with this key, which is gone now.")
    cut: bool


class RemovedGiven(BaseModel):
    key: str
    removed: bool


class HealthGiven(BaseModel):
    status: str
    texts: int
    waiting: int
    model: str
    version: str


class Door(Gate):
    """The page's gate, for programs: no login page, and some paths that show nothing are open."""

    def _refuse_stranger(
        self, scope: Scope, headers: dict[str, str]
    ) -> tuple[int, str, dict[str, str]] | None:
        if scope["path"] in OPEN_TO_ALL:
            return None
        refusal = super()._refuse_stranger(scope, headers)
        if refusal is None or refusal[0] == 429:
            return refusal
        words = "This service needs its token: send the header Authorization: Bearer TOKEN."
        return 401, words, {"www-authenticate": "Bearer"}


def make_app(service: Service, token: str = "", failures: Failures | None = None) -> Meter:
    """The HTTP application of a service; its metrics begin at nought."""
    app = FastAPI(
        title="pairsieve serve",
        version=pairsieve.__version__,
        description="Match a new text against a collection; add and remove texts while serving. "
        "Every request that is not a GET needs the header X-Pairsieve: 1.",
        docs_url=None,
        redoc_url=None,
    )
    meter = Meter(Door(app, token, failures), service)
    _add_errors(app)
    _add_matching(app, service)
    _add_texts(app, service)

    @app.get("/health", responses=_refusals(503), response_model=HealthGiven)
    async def health() -> Response:
        """Whether the service answers, and how much it holds."""
        told = {key: value for key, value in service.about().items() if key in ("texts", "waiting", "model")}
        stopping = service.queue.closed
        told |= {"status": "stopping" if stopping else "ok", "version": pairsieve.__version__}
        return JSONResponse(told, 503 if stopping else 200)

    @app.get("/metrics", responses={**_refusals(401), 200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Counts and times in the text format of Prometheus."""
        words, kind = meter.read()
        return Response(words, headers={"content-type": kind})

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(page(app.openapi()), media_type="text/html; charset=utf-8")

    @app.get("/docs/style.css", include_in_schema=False)
    async def style() -> Response:
        return Response(STYLE, media_type="text/css; charset=utf-8")

    return meter


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a path may refuse with, for the description."""
    words = {
        400: "The words say what is wrong",
        401: "The token is missing or wrong",
        403: "The header X-Pairsieve is missing, or the request is from a foreign page",
        404: "There is no text with this key",
        413: f"The body has more than {LARGEST_BODY:,} bytes, or the text too many characters",
        429: "Too much waits; the header Retry-After says when to ask again",
        503: "The service is stopping, or its disk fails; nothing was done",
    }
    return {status: {"description": words[status]} for status in statuses}


_WRITES = (400, 401, 403, 413, 429, 503)


def _add_matching(app: FastAPI, service: Service) -> None:
    async def asked(texts: Sequence[str], count: int, threshold: float | None) -> list[dict[str, Any]]:
        found = await asyncio.wrap_future(service.ask(texts, count, threshold))
        return [_as_json(answer) for answer in found]

    @app.post("/match", responses=_refusals(*_WRITES), response_model=AnswerGiven)
    async def match(sent: MatchSent) -> Response:
        """The earlier texts nearest to a new one."""
        return JSONResponse((await asked([sent.text], sent.count, sent.threshold))[0])

    @app.post("/match/batch", responses=_refusals(*_WRITES), response_model=BatchGiven)
    async def match_batch(sent: BatchSent) -> Response:
        """The same for several texts at once."""
        return JSONResponse({"answers": await asked(sent.texts, sent.count, sent.threshold)})


def _add_texts(app: FastAPI, service: Service) -> None:
    replaced: dict[int | str, dict[str, Any]] = {
        200: {"description": "Replaced"},
        201: {"description": "Added", "model": TextGiven},
    }

    @app.put("/texts/{key:path}", responses={**_refusals(*_WRITES), **replaced}, response_model=TextGiven)
    async def put(key: Key, sent: TextSent, request: Request) -> Response:
        """Add a text, or replace the one with this key. Once this is answered it is on disk, and found."""
        key = _key(request, key)
        made = await asyncio.wrap_future(service.put(key, sent.text))
        told = {"key": key, "replaced": made.replaced, "cut": made.cut}
        return JSONResponse(told, 200 if made.replaced else 201)

    @app.delete("/texts/{key:path}", responses=_refusals(*_WRITES, 404), response_model=RemovedGiven)
    async def delete(key: Key, request: Request) -> Response:
        """Take a text out, for good."""
        key = _key(request, key)
        await asyncio.wrap_future(service.drop(key))
        return JSONResponse({"key": key, "removed": True})


def _as_json(answer: Answer) -> dict[str, Any]:
    rows = [
        {"key": m.key, "text": m.text, "score": m.score, "probability": m.probability} for m in answer.matches
    ]
    return {"matches": rows, "cut": answer.cut}


def _key(request: Request, key: str) -> str:
    """The key of a path, from its raw bytes: what is not UTF-8 would otherwise become another key."""
    raw: bytes = request.scope.get("raw_path") or b""
    try:
        return unquote_to_bytes(raw.partition(b"?")[0].partition(b"/texts/")[2]).decode() or key
    except UnicodeDecodeError:
        raise InputError(
            "the key in the path is not UTF-8", remedy="Percent-encode its UTF-8 bytes"
        ) from None


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def unfit(_: Request, error: RequestValidationError) -> Response:
        # Only where and why: what was sent is not sent back, as it may not even be valid text.
        found = [{"loc": [str(part) for part in e["loc"]], "msg": e["msg"]} for e in error.errors()]
        long = any(e["type"] == "string_too_long" and e["loc"][0] == "body" for e in error.errors())
        return Response(json.dumps({"detail": found}), 413 if long else 422, media_type="application/json")

    @app.exception_handler(PairsieveError)
    async def refused(_: Request, error: PairsieveError) -> Response:
        status, headers = _status(error)
        return JSONResponse({"detail": str(error)}, status, headers)


def _status(error: PairsieveError) -> tuple[int, dict[str, str]]:
    if isinstance(error, Busy):
        return 429, {"Retry-After": str(error.retry_seconds)}
    if isinstance(error, Closed | RecordError):
        return 503, {"Retry-After": "10"}
    return 404 if isinstance(error, UnknownKey) else 413 if isinstance(error, TooLong) else 400, {}


def serve(service: Service, host: str, port: int, token: str, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish what was accepted. Port 0 takes a free one."""
    import uvicorn

    check_host(host, token)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((host, port))
        config = uvicorn.Config(
            make_app(service, token),
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="off",
            limit_concurrency=service.queue.most_waiting
            + 1000,  # beyond the queue's own limit, which explains
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        server = uvicorn.Server(config)

        def stop(*_: object) -> None:
            server.should_exit = True

        # Until uvicorn has its own handler, and when it raises the signal again after it has stopped: being
        # asked to stop is no failure.
        before = signal.signal(signal.SIGTERM, stop)
        try:
            door.listen(2048)
            shown = f"[{host}]" if ":" in host else host
            announce(f"http://{shown}:{door.getsockname()[1]}/")
            if not is_loopback(host):
                log.warning("the service can be reached from elsewhere, without encryption; it has a token")
            server.run(sockets=[door])
        finally:
            signal.signal(signal.SIGTERM, before)

"""The HTTP API of a matching service: parse a request, ask the service, answer in JSON.

`make_app(service)` is an ASGI application; `serve` runs it until stopped. The description of every path is
at /openapi.json, and as a page at /docs; neither loads anything from elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from fastapi import FastAPI, Query, Request
from fastapi import Path as PathPart
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

import pairsieve
from pairsieve.errors import ArtifactError, InputError, LedgerUnavailable, PairsieveError
from pairsieve.http.access import LARGEST_BODY, AccessControl, Failures
from pairsieve.http.connections import MOST_CONNECTIONS
from pairsieve.http.errors import Refusal, add_error_handlers
from pairsieve.http.proxy import Proxy
from pairsieve.http.server import run_server
from pairsieve.serving.checks import LONGEST_KEY, LONGEST_TEXT, TooLong
from pairsieve.serving.guide import STYLE, page
from pairsieve.serving.metrics import Meter
from pairsieve.serving.of_sources import LONGEST_SOURCE
from pairsieve.serving.queue import Busy, Closed
from pairsieve.serving.record import RecordError
from pairsieve.serving.service import Answer, Reloading, Service, UnknownKey

MOST_IN_BATCH = 100  # texts of one /match/batch
MOST_LISTED = 100  # texts of one page
MOST_ASKED = 100  # matches of one text
STOP_SECONDS = 60  # how long a stop waits for the requests that were accepted
OPEN_PATHS = {"/health", "/docs", "/docs/style.css", "/openapi.json"}  # they show no text

Text = Annotated[str, Field(max_length=LONGEST_TEXT, description="An encoder reads its first tokens.")]
Count = Annotated[int, Field(ge=1, le=MOST_ASKED, description="The most matches to give.")]
Threshold = Annotated[float | None, Field(ge=-1, le=1, description="The least score a match may have.")]
Origin = Annotated[
    str | None,
    Field(max_length=LONGEST_SOURCE, description="Where the text is from; texts of one source are no pair."),
]
Key = Annotated[str, PathPart(min_length=1, max_length=LONGEST_KEY)]


class Sent(BaseModel):
    """What a client sends; a field nobody knows is an error."""

    model_config = ConfigDict(extra="forbid")


class MatchSent(Sent):
    text: Text | None = None
    key: str | None = Field(None, max_length=LONGEST_KEY, description="Of a held text, in place of a text.")
    source: Origin = None
    count: Count = 10
    threshold: Threshold = None

    @model_validator(mode="after")
    def _one_of_both(self) -> MatchSent:
        if (self.text is None) == (self.key is None):
            raise ValueError("one of text and key is required, and not both")
        if self.key is not None and self.source is not None:
            raise ValueError("a held text has its own source: leave source out")
        return self


class BatchSent(Sent):
    texts: list[Text] = Field(min_length=1, max_length=MOST_IN_BATCH)
    source: Origin = None
    count: Count = 10
    threshold: Threshold = None


class TextSent(Sent):
    text: Text
    source: Origin = None


class BatchGiven(BaseModel):
    answers: list[Answer] = Field(description="One for each text, in the order sent.")


class HeldGiven(BaseModel):
    key: str
    text: str
    source: str | None = Field(description="Where it is from; null where that was not said.")


class TextsGiven(BaseModel):
    texts: list[HeldGiven]
    next: str | None = Field(description="The `after` of the next page; null at the end.")


class ReloadGiven(BaseModel):
    changed: bool = Field(description="Whether another model, or another collection, answers now.")
    model: str
    texts: int


class TextGiven(BaseModel):
    key: str
    replaced: bool = Field(description="There was a text with this key, which is gone now.")
    cut: bool = Field(description="The text is longer than the encoder reads; its end had no part in this.")


class RemovedGiven(BaseModel):
    key: str
    removed: bool


class HealthGiven(BaseModel):
    status: str
    texts: int
    queries: int = Field(description="Known texts of the side that asks, where there are two collections.")
    waiting: int
    model: str
    corrections: str
    reranker: str
    version: str


def make_app(
    service: Service, token: str = "", failures: Failures | None = None, proxy: Proxy | None = None
) -> Meter:
    """The HTTP application of a service; its metrics begin at nought."""
    app = FastAPI(
        title="pairsieve serve",
        version=pairsieve.__version__,
        description="Match a new text against a collection; add and remove texts while serving. "
        "Every change (PUT, DELETE) needs the header X-Pairsieve: 1.",
        docs_url=None,
        redoc_url=None,
    )
    access = AccessControl(
        app,
        token,
        failures,
        open_paths=OPEN_PATHS,
        pages=OPEN_PATHS,
        reading_paths={"/match", "/match/batch"},
        proxy=proxy,
    )
    meter = Meter(access, service)
    add_error_handlers(app, _refusal_of, too_long=413)
    _add_matching(app, service)
    _add_texts(app, service)

    @app.get("/health", responses=_refusals(503), response_model=HealthGiven)
    async def health() -> Response:
        """Whether the service answers, and how much it holds."""
        state = {key: value for key, value in service.about().items() if key in HealthGiven.model_fields}
        stopping = service.queue.closed
        state |= {"status": "stopping" if stopping else "ok", "version": pairsieve.__version__}
        return JSONResponse(state, 503 if stopping else 200)

    @app.post("/reload", responses=_refusals(400, 401, 403, 409, 503), response_model=ReloadGiven)
    async def reload() -> Response:
        """Take up the latest round of the campaign, or the export as it is now, without a stop."""
        changed = await asyncio.to_thread(service.reload)
        return JSONResponse({"changed": changed, "model": service.about()["model"], "texts": len(service)})

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
        409: "A new model is being loaded already",
        413: f"The body has more than {LARGEST_BODY:,} bytes, or the text too many characters",
        429: "Too much waits; the header Retry-After says when to ask again",
        503: "The service is stopping, or its disk fails; nothing was done",
    }
    return {status: {"description": words[status]} for status in statuses}


_WRITES = (400, 401, 403, 413, 429, 503)


def _add_matching(app: FastAPI, service: Service) -> None:
    async def answers(found: Future[list[Answer]]) -> list[dict[str, Any]]:
        return [asdict(answer) for answer in await asyncio.wrap_future(found)]

    @app.post("/match", responses=_refusals(*_WRITES, 404), response_model=Answer)
    async def match(sent: MatchSent) -> Response:
        """The earlier texts that match a text best, or the partners of a held text by its key."""
        texts = [] if sent.text is None else [sent.text]
        found = service.ask(texts, sent.count, sent.threshold, sent.key, sent.source)
        return JSONResponse((await answers(found))[0])

    @app.post("/match/batch", responses=_refusals(*_WRITES), response_model=BatchGiven)
    async def match_batch(sent: BatchSent) -> Response:
        """The same for several texts at once."""
        found = service.ask(sent.texts, sent.count, sent.threshold, source=sent.source)
        return JSONResponse({"answers": await answers(found)})


def _add_texts(app: FastAPI, service: Service) -> None:
    @app.get("/texts", responses=_refusals(401, 403, 429, 503), response_model=TextsGiven)
    async def texts(
        after: Annotated[str | None, Query(max_length=LONGEST_KEY)] = None,
        count: Annotated[int, Query(ge=1, le=MOST_LISTED)] = MOST_LISTED,
    ) -> Response:
        """Held texts in the order of their keys, a page at a time; `next` is the `after` of the next page."""
        page = await asyncio.wrap_future(service.page(after, count))
        listed = [{"key": key, "text": text, "source": source} for key, text, source in page.texts]
        return JSONResponse({"texts": listed, "next": page.next})

    @app.get("/texts/{key:path}", responses=_refusals(401, 403, 404, 429, 503), response_model=HeldGiven)
    async def get(key: Key, request: Request) -> Response:
        """A held text by its key."""
        key = _key(request, key)
        text, source = await asyncio.wrap_future(service.look_up(key))
        return JSONResponse({"key": key, "text": text, "source": source})

    replaced: dict[int | str, dict[str, Any]] = {
        200: {"description": "Replaced"},
        201: {"description": "Added", "model": TextGiven},
    }

    @app.put("/texts/{key:path}", responses={**_refusals(*_WRITES), **replaced}, response_model=TextGiven)
    async def put(key: Key, sent: TextSent, request: Request) -> Response:
        """Add a text, or replace the one with this key. Once this is answered it is on disk, and found."""
        key = _key(request, key)
        change = await asyncio.wrap_future(service.change(key, sent.text, sent.source))
        return JSONResponse({"key": key, **asdict(change)}, 200 if change.replaced else 201)

    @app.delete("/texts/{key:path}", responses=_refusals(*_WRITES, 404), response_model=RemovedGiven)
    async def delete(key: Key, request: Request) -> Response:
        """Take a text out, for good."""
        key = _key(request, key)
        await asyncio.wrap_future(service.change(key, None))
        return JSONResponse({"key": key, "removed": True})


def _key(request: Request, key: str) -> str:
    """The key of a path, from its raw bytes: what is not UTF-8 would otherwise become another key."""
    raw: bytes = request.scope.get("raw_path") or b""
    try:
        return unquote_to_bytes(raw.partition(b"?")[0].partition(b"/texts/")[2]).decode() or key
    except UnicodeDecodeError:
        remedy = "Percent-encode its UTF-8 bytes"
        raise InputError("the key in the path is not UTF-8", remedy=remedy) from None


def _refusal_of(error: PairsieveError) -> Refusal:
    if isinstance(error, Busy):
        return Refusal(429, headers={"Retry-After": str(error.retry_seconds)})
    if isinstance(error, RecordError):
        words = "The change could not be written to disk. Nothing of it was kept; send it again later."
        return Refusal(503, words, {"Retry-After": "10"})
    if isinstance(error, Closed):
        return Refusal(503, headers={"Retry-After": "10"})
    if isinstance(error, Reloading):
        return Refusal(409, headers={"Retry-After": "10"})
    if isinstance(error, LedgerUnavailable | ArtifactError):  # while a new model is loaded
        return Refusal(503, "The new model cannot be read now. The old one answers.", {"Retry-After": "10"})
    return Refusal(404 if isinstance(error, UnknownKey) else 413 if isinstance(error, TooLong) else 400)


def serve(
    service: Service,
    host: str,
    port: int,
    token: str,
    announce: Callable[[str], None],
    proxy: Proxy | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish what was accepted. Port 0 takes a free one."""
    proxy = proxy or Proxy()
    most = service.queue.most_waiting + MOST_CONNECTIONS  # beyond the queue's own limit, which explains
    run_server(
        make_app(service, token, proxy=proxy),
        host,
        port,
        token,
        announce,
        proxy=proxy,
        most_connections=most,
        graceful_seconds=STOP_SECONDS,
        lifespan="off",
    )

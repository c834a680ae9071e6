"""The HTTP door of the labelling page: parse, ask the desk, answer in JSON. All decisions are the desk's.

`make_app(desk)` is an ASGI application; `serve` runs it. The OpenAPI description is at /api/openapi.json.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from pairsieve.errors import LedgerError, PairsieveError
from pairsieve.web.dashboard import Dashboard
from pairsieve.web.desk import Desk, Said
from pairsieve.web.guideline import LONGEST_GUIDELINE
from pairsieve.web.rounds import Rounds
from pairsieve.web.safety import COOKIE, Failures, Gate, check_host, cookie_for, is_loopback

log = logging.getLogger("pairsieve")
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
LABELS: dict[str, int | None] = {"match": 1, "no match": 0, "unsure": None}

Who = Annotated[str, Field(min_length=1, max_length=200)]
PairId = Annotated[str, Field(pattern=r"^[0-9]{1,19}$")]
Token = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$")]
Label = Literal["match", "no match", "unsure"]


class Sent(BaseModel):
    """What a browser sends; a field nobody knows is an error."""

    model_config = ConfigDict(extra="forbid")
    who: Who


class OneAnswer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    pair: PairId
    label: Label
    token: Token

    def said(self) -> Said:
        return Said(_number(self.pair), LABELS[self.label], self.token)


class AnswersSent(Sent):
    answers: list[OneAnswer] = Field(min_length=1, max_length=100)


class SkipSent(Sent):
    pair: PairId


class UndoSent(Sent):
    pair: PairId | None = None
    token: Token


class DecisionUndoSent(Sent):
    pair: PairId
    token: Token


class AdjudicationSent(Sent):
    answer: OneAnswer


class GuidelineSent(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: Annotated[str, Field(max_length=LONGEST_GUIDELINE)]
    version: Annotated[str, Field(max_length=64)]


class LoginSent(BaseModel):
    model_config = ConfigDict(extra="forbid")
    token: Annotated[str, Field(max_length=500)]


def make_app(
    desk: Desk,
    token: str = "",
    trains: bool = False,
    cache: Path | None = None,
    failures: Failures | None = None,
) -> Gate:
    """The page of a desk. `trains`: go on with the rounds in the background while the page is served."""

    def ready() -> bool:
        if desk.step().name not in ("choose", "train"):
            return False
        desk.trains_now()
        return True

    # An audit of another split has no rounds to go on with.
    rounds = Rounds(desk.campaign.folder, ready, desk.look_again, trains and desk.place.own, cache)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        rounds.start()
        yield
        rounds.stop()

    app = FastAPI(
        title="pairsieve labelling page",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    gate = Gate(app, token, failures)
    _add_errors(app)
    _add_pages(app)
    _add_labelling(app, desk, rounds)
    _add_overview(app, desk, rounds)

    @app.post("/api/login", responses=_REFUSALS)
    def login(sent: LoginSent, request: Request) -> Response:
        """Give the token, get the cookie."""
        right, wait = gate.log_in(request.scope, sent.token)
        if wait:
            words = {"detail": "Too many wrong tokens. Wait a minute."}
            return JSONResponse(words, 429, {"Retry-After": str(int(wait) + 1)})
        if not right:
            return JSONResponse({"detail": "That token is wrong."}, 401)
        answer = JSONResponse({"ok": True})
        if token:
            secure = request.url.scheme == "https"
            answer.set_cookie(
                COOKIE, cookie_for(token), httponly=True, samesite="strict", secure=secure, max_age=30 * 86400
            )
        return answer

    return gate


_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The words say what is wrong"},
    401: {"description": "The token is missing or wrong"},
    403: {"description": "Not from this page"},
    409: {"description": "The ledger refuses; the words say why"},
    413: {"description": "Too large"},
    429: {"description": "Too many wrong tokens"},
}


def _add_labelling(app: FastAPI, desk: Desk, rounds: Rounds) -> None:
    def with_training(made: dict[str, Any]) -> dict[str, Any]:
        step = desk.step()
        return {**made, "training": {**rounds.report(), "step": step.name, "reason": step.reason}}

    @app.get("/api/next", responses=_REFUSALS)
    def next_pairs(
        who: Annotated[str, Query(min_length=1, max_length=200)],
        count: Annotated[int, Query(ge=1, le=50)] = 8,
        opinion: bool = False,
    ) -> dict[str, Any]:
        """Pairs for a person, theirs for a while."""
        return with_training(desk.next_pairs(who, count, opinion))

    @app.post("/api/answers", responses=_REFUSALS)
    def answers(sent: AnswersSent) -> dict[str, Any]:
        """Answers; once this returns they are kept. Sending them again changes nothing."""
        made = desk.answer(sent.who, [each.said() for each in sent.answers])
        rounds.poke()
        return made

    @app.post("/api/undo", responses=_REFUSALS)
    def undo(sent: UndoSent) -> dict[str, Any]:
        """Take back what was said about a pair, or said last."""
        return desk.undo(sent.who, None if sent.pair is None else _number(sent.pair), sent.token)

    @app.post("/api/skip", responses=_REFUSALS)
    def skip(sent: SkipSent) -> dict[str, Any]:
        """Put a pair at the back of this person's queue."""
        return desk.skip(sent.who, _number(sent.pair))

    @app.get("/api/state", responses=_REFUSALS)
    def state(who: Annotated[str, Query(min_length=1, max_length=200)]) -> dict[str, Any]:
        """Progress, and what the rounds' process is doing."""
        return with_training(desk.state(who))

    @app.get("/api/disputes", responses=_REFUSALS)
    def disputes() -> dict[str, Any]:
        """What waits for a decision: disagreements, and answers that cannot all be right."""
        return desk.disputes()

    @app.post("/api/disputes", responses=_REFUSALS)
    def settle(sent: AdjudicationSent) -> dict[str, Any]:
        """Settle a pair, whatever the votes say."""
        made = desk.adjudicate(sent.who, sent.answer.said())
        rounds.poke()
        return made

    @app.post("/api/disputes/undo", responses=_REFUSALS)
    def unsettle(sent: DecisionUndoSent) -> dict[str, Any]:
        """Take back what was settled about a pair."""
        return desk.unsettle(sent.who, _number(sent.pair), sent.token)


def _add_overview(app: FastAPI, desk: Desk, rounds: Rounds) -> None:
    drawn = Dashboard(desk)

    @app.get("/api/campaign", responses=_REFUSALS)
    def campaign() -> dict[str, Any]:
        """What the page says before anybody has given a name."""
        told, name = desk.campaign.settings, desk.campaign.folder.resolve().name
        return {
            "campaign": name if desk.place.own else f"{name}, audit of {desk.place.name}",
            "relation": desk.campaign.task.relation,
            "budget": told.schedule.budget(),
            "people": desk.people(),
        }

    @app.get("/api/dashboard", responses=_REFUSALS)
    def overview() -> dict[str, Any]:
        """The figures of the dashboard."""
        return drawn.figures(rounds.report())

    @app.post("/api/rounds/retry", responses=_REFUSALS)
    def retry() -> dict[str, Any]:
        """Try again after an error in the background."""
        desk.train_again()
        rounds.retry()
        return rounds.report()

    @app.get("/api/guideline", responses=_REFUSALS)
    def guideline() -> dict[str, str]:
        """What counts as a match here."""
        return desk.guideline.read()

    @app.put("/api/guideline", responses=_REFUSALS)
    def write_guideline(sent: GuidelineSent) -> dict[str, str]:
        """Replace the guideline, unless it changed since it was read."""
        return desk.guideline.write(sent.text, sent.version)


def _add_pages(app: FastAPI) -> None:
    """The pages and what they load: read once, by fixed names, so that no path leads anywhere else."""
    assets = {item.name: item.read_bytes() for item in files("pairsieve.web").joinpath("assets").iterdir()}

    def page(name: str) -> Callable[[], Response]:
        return lambda: _asset(name, assets[name])

    for path, name in (("/", "label.html"), ("/dashboard", "dashboard.html"), ("/login", "login.html")):
        app.add_api_route(path, page(name), methods=["GET"], include_in_schema=False)

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        if name not in assets or name.endswith(".html"):
            return JSONResponse({"detail": "There is no such file."}, 404)
        return _asset(name, assets[name])


def _asset(name: str, body: bytes) -> Response:
    kind = KINDS[name.rpartition(".")[2]]
    return Response(body, media_type=f"{kind}; charset=utf-8", headers={"Cache-Control": "no-cache"})


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def unfit(_: Request, error: RequestValidationError) -> Response:
        # Only where and why: what was sent is not sent back, as it may not even be valid text.
        found = [{"loc": [str(part) for part in e["loc"]], "msg": e["msg"]} for e in error.errors()]
        return Response(json.dumps({"detail": found}), 422, media_type="application/json")

    @app.exception_handler(PairsieveError)
    async def refused(_: Request, error: PairsieveError) -> Response:
        status = 409 if isinstance(error, LedgerError) else 400
        return Response(json.dumps({"detail": str(error)}), status, media_type="application/json")


def _number(pair: str) -> int:
    return min(int(pair), 2**63 - 1)  # beyond int64 there is no pair, and the desk says so


def serve(
    desk: Desk,
    host: str,
    port: int,
    token: str,
    trains: bool,
    announce: Callable[[str], None],
    cache: Path | None = None,
) -> None:
    """Serve until stopped; port 0 takes a free one. `announce(url)` is called once the door is open."""
    import uvicorn

    check_host(host, token)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((host, port))
        shown = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
        config = uvicorn.Config(
            make_app(desk, token, trains, cache),
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=500,
            timeout_graceful_shutdown=3,
        )
        door.listen(128)
        announce(f"http://{shown}:{door.getsockname()[1]}/")
        if not is_loopback(host):
            log.warning(
                "the page can be reached from other machines, without encryption; the token is needed"
            )
        uvicorn.Server(config).run(sockets=[door])

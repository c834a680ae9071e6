"""The HTTP API of the labelling page: parse a request, ask the labelling session, answer in JSON.

`make_app(session)` is an ASGI application; `serve` runs it. The OpenAPI description is at /api/openapi.json.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from pairsieve.errors import LedgerError, LedgerUnavailable, PairsieveError
from pairsieve.http.access import COOKIE, AccessControl, Failures, cookie_for
from pairsieve.http.connections import MOST_CONNECTIONS
from pairsieve.http.errors import LATER, Refusal, add_error_handlers
from pairsieve.http.proxy import Proxy
from pairsieve.http.server import run_server
from pairsieve.web.dashboard import Dashboard
from pairsieve.web.guideline import LONGEST_GUIDELINE
from pairsieve.web.review import Review
from pairsieve.web.review_api import add_review
from pairsieve.web.rounds import Rounds
from pairsieve.web.session import LabellingSession, OtherLedger, PageAnswer

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
LABELS: dict[str, int | None] = {"match": 1, "no match": 0, "unsure": None}
PAGES = {"/": "label.html", "/review": "review.html", "/dashboard": "dashboard.html", "/login": "login.html"}
OPEN_PATHS = {"/login", "/api/login", "/static/style.css", "/static/login.js", "/static/icon.svg"}

REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The words say what is wrong"},
    401: {"description": "The token is missing or wrong"},
    403: {"description": "Not from this page"},
    409: {"description": "The ledger refuses; the words say why"},
    412: {"description": "The page in the browser belongs to another campaign"},
    413: {"description": "Too large"},
    429: {"description": "Too many wrong tokens"},
    503: {
        "description": "The ledger cannot be written now; nothing was done, and Retry-After says when to try"
    },
}

Who = Annotated[str, Field(min_length=1, max_length=200)]
PairId = Annotated[str, Field(pattern=r"^[0-9]{1,19}$")]
Token = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$")]
Label = Literal["match", "no match", "unsure"]


class Strict(BaseModel):
    """What a browser sends; a field nobody knows is an error."""

    model_config = ConfigDict(extra="forbid")


class Sent(Strict):
    who: Who
    ledger: Annotated[str, Field(max_length=64)] | None = None  # which one the browser believes to write to


class OneAnswer(Strict):
    pair: PairId
    label: Label
    token: Token

    def given(self) -> PageAnswer:
        return PageAnswer(_pair_id(self.pair), LABELS[self.label], self.token)


class AnswersSent(Sent):
    answers: list[OneAnswer] = Field(min_length=1, max_length=100)


class SkipSent(Sent):
    pair: PairId


class UndoSent(Sent):
    pair: PairId | None = None
    token: Token


class DecisionUndoSent(SkipSent):
    token: Token


class AdjudicationSent(Sent):
    answer: OneAnswer


class GuidelineSent(Strict):
    text: Annotated[str, Field(max_length=LONGEST_GUIDELINE)]
    version: Annotated[str, Field(max_length=64)]


class LoginSent(Strict):
    token: Annotated[str, Field(max_length=500)]


def make_app(
    session: LabellingSession,
    token: str = "",
    trains: bool = False,
    cache: Path | None = None,
    failures: Failures | None = None,
    proxy: Proxy | None = None,
) -> AccessControl:
    """The page of a session. `trains`: go on with the rounds in the background while the page is served."""

    def ready() -> bool:
        return session.step().name in ("choose", "train")

    # An audit of another split has no rounds to go on with.
    rounds = Rounds(session.campaign.folder, ready, session.look_again, trains and session.place.own, cache)

    review = Review(session, cache)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        rounds.start()
        yield
        rounds.stop()
        review.stop()

    app = FastAPI(
        title="pairsieve labelling page",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        responses=REFUSALS,
        lifespan=lifespan,
    )
    access = AccessControl(
        app, token, failures, open_paths=OPEN_PATHS, login_path="/login", pages=PAGES.keys(), proxy=proxy
    )
    add_error_handlers(app, partial(_refusal_of, session.place.ledger.place))
    _add_pages(app)
    _add_labelling(app, session, rounds)
    _add_overview(app, session, rounds)
    add_review(app, session, rounds, review)

    @app.post("/api/login")
    def login(sent: LoginSent, request: Request) -> Response:
        """Give the token, get the cookie."""
        right, wait = access.log_in(request.scope, sent.token)
        if wait:
            later = {"Retry-After": str(int(wait) + 1)}
            return JSONResponse({"detail": "Too many wrong tokens. Wait a minute."}, 429, later)
        if not right:
            return JSONResponse({"detail": "That token is wrong."}, 401)
        answer = JSONResponse({"ok": True})
        if token:
            secure = access.uses_tls(request.scope)
            answer.set_cookie(
                COOKIE, cookie_for(token), httponly=True, samesite="strict", secure=secure, max_age=30 * 86400
            )
        return answer

    return access


def _add_labelling(app: FastAPI, session: LabellingSession, rounds: Rounds) -> None:
    def with_training(state: dict[str, Any]) -> dict[str, Any]:
        step = session.step()
        return {**state, "training": {**rounds.report(), "step": step.name, "reason": step.reason}}

    @app.get("/api/next")
    def next_pairs(
        who: Annotated[str, Query(min_length=1, max_length=200)],
        count: Annotated[int, Query(ge=1, le=50)] = 8,
        prediction: bool = False,
    ) -> dict[str, Any]:
        """Pairs for a person, theirs for a while."""
        return with_training(session.next_pairs(who, count, prediction))

    @app.post("/api/answers")
    def answers(sent: AnswersSent) -> dict[str, Any]:
        """Answers; once this returns they are kept. Sending them again changes nothing."""
        session.check_ledger(sent.ledger)
        state = session.answer(sent.who, [each.given() for each in sent.answers])
        rounds.wake()
        return state

    @app.post("/api/undo")
    def undo(sent: UndoSent) -> dict[str, Any]:
        """Take back what was said about a pair, or said last."""
        session.check_ledger(sent.ledger)
        return session.undo(sent.who, None if sent.pair is None else _pair_id(sent.pair), sent.token)

    @app.post("/api/skip")
    def skip(sent: SkipSent) -> dict[str, Any]:
        """Put a pair at the back of this person's queue."""
        session.check_ledger(sent.ledger)
        return session.skip(sent.who, _pair_id(sent.pair))

    @app.get("/api/state")
    def state(who: Annotated[str, Query(min_length=1, max_length=200)]) -> dict[str, Any]:
        """Progress, and what the rounds' process is doing."""
        return with_training(session.state(who))

    @app.get("/api/disputes")
    def disputes() -> dict[str, Any]:
        """What waits for a decision: disagreements, and answers that cannot all be right."""
        return session.disputes()

    @app.post("/api/disputes")
    def settle(sent: AdjudicationSent) -> dict[str, Any]:
        """Settle a pair, whatever the votes say."""
        session.check_ledger(sent.ledger)
        state = session.adjudicate(sent.who, sent.answer.given())
        rounds.wake()
        return state

    @app.post("/api/disputes/undo")
    def unsettle(sent: DecisionUndoSent) -> dict[str, Any]:
        """Take back what was settled about a pair."""
        session.check_ledger(sent.ledger)
        return session.unsettle(sent.who, _pair_id(sent.pair), sent.token)


def _add_overview(app: FastAPI, session: LabellingSession, rounds: Rounds) -> None:
    drawn = Dashboard(session)

    @app.get("/api/campaign")
    def campaign() -> dict[str, Any]:
        """What the page says before anybody has given a name."""
        name = session.campaign.folder.resolve().name
        return {
            "ledger": session.place.ledger.id,
            "campaign": name if session.place.own else f"{name}, audit of {session.place.name}",
            "relation": session.campaign.task.relation,
            "budget": session.campaign.settings.schedule.budget(),
            "people": session.people(),
        }

    @app.get("/api/dashboard")
    def overview() -> dict[str, Any]:
        """The figures of the dashboard."""
        return drawn.figures(rounds.report())

    @app.post("/api/rounds/retry")
    def retry() -> dict[str, Any]:
        """Try again after an error in the background."""
        rounds.retry()
        return rounds.report()

    @app.get("/api/guideline")
    def guideline() -> dict[str, str]:
        """What counts as a match here."""
        return session.guideline.read()

    @app.put("/api/guideline")
    def write_guideline(sent: GuidelineSent) -> dict[str, str]:
        """Replace the guideline, unless it changed since it was read."""
        return session.guideline.write(sent.text, sent.version)


def _add_pages(app: FastAPI) -> None:
    """The pages and what they load: read once, by fixed names, so that no path leads anywhere else."""
    assets = {item.name: item.read_bytes() for item in files("pairsieve.web").joinpath("assets").iterdir()}

    def page(name: str) -> Callable[[], Response]:
        return lambda: _asset(name, assets[name])

    for path, name in PAGES.items():
        app.add_api_route(path, page(name), methods=["GET"], include_in_schema=False)

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        if name not in assets or name.endswith(".html"):
            return JSONResponse({"detail": "There is no such file."}, 404)
        return _asset(name, assets[name])


def _asset(name: str, body: bytes) -> Response:
    kind = KINDS[name.rpartition(".")[2]]
    return Response(body, media_type=f"{kind}; charset=utf-8", headers={"Cache-Control": "no-cache"})


def _refusal_of(place: str, error: PairsieveError) -> Refusal:
    """What the browser is told: not where the database is, nor as whom it is opened."""
    if isinstance(error, LedgerUnavailable):
        words = "The database of answers cannot be reached or written now. Nothing was written; try again."
        return Refusal(503, words, LATER)
    if isinstance(error, OtherLedger):
        return Refusal(412)
    if isinstance(error, LedgerError):
        return Refusal(409, str(error).replace(f"{place}: ", ""))
    return Refusal(400)


def _pair_id(pair: str) -> int:
    return min(int(pair), 2**63 - 1)  # beyond int64 there is no pair, and the session says so


def serve(
    session: LabellingSession,
    host: str,
    port: int,
    token: str,
    trains: bool,
    announce: Callable[[str], None],
    cache: Path | None = None,
    proxy: Proxy | None = None,
) -> None:
    """Serve until stopped; port 0 takes a free one. `announce(url)` is called once it can be reached."""
    proxy = proxy or Proxy()
    app = make_app(session, token, trains, cache, proxy=proxy)
    limits = {"most_connections": MOST_CONNECTIONS, "graceful_seconds": 3}
    run_server(app, host, port, token, announce, proxy=proxy, **limits)

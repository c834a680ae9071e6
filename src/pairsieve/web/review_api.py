"""The HTTP paths of the review page: the list, the groups and earlier answers, and what is said of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query
from pydantic import BaseModel, ConfigDict, Field

from pairsieve.errors import InputError
from pairsieve.web.review import PAGE_SIZE, Review, Wanted
from pairsieve.web.rounds import Rounds
from pairsieve.web.session import LabellingSession, PageAnswer

MOST_AT_ONCE = 400  # answers of one click: a group that is split has as many as pairs between its parts
LABELS: dict[str, int | None] = {"match": 1, "no match": 0, "unsure": None}

Who = Annotated[str, Query(min_length=1, max_length=200)]
Words = Annotated[str, Query(max_length=200)]
Offset = Annotated[int, Query(ge=0, le=1_000_000)]
Count = Annotated[int, Query(ge=1, le=100)]
Token = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{8,60}$")]  # each answer adds its number: at most 64


class Sent(BaseModel):
    """What a browser sends; a field nobody knows is an error."""

    model_config = ConfigDict(extra="forbid")
    who: Annotated[str, Field(min_length=1, max_length=200)]
    ledger: Annotated[str, Field(max_length=64)] | None = None
    token: Token


class PairSent(Sent):
    pair: Annotated[str, Field(pattern=r"^[0-9]{1,19}$")]
    label: Literal["match", "no match", "unsure"]


class GroupSent(Sent):
    rows: list[Annotated[int, Field(ge=0, lt=1 << 31)]] = Field(min_length=2, max_length=200)
    apart: list[Annotated[int, Field(ge=0, lt=1 << 31)]] = Field(default_factory=list, max_length=200)


def add_review(app: FastAPI, session: LabellingSession, rounds: Rounds, review: Review) -> None:
    """Put the paths into the application."""

    def write(sent: Sent, given: list[tuple[int, int | None]]) -> dict[str, Any]:
        session.check_ledger(sent.ledger)
        if not session.place.own:
            raise InputError("an audit of another split has no list", remedy="Open the campaign's own page")
        if not given:
            raise InputError("these texts are of one source", why="pairs within a source are no pairs")
        if len(given) > MOST_AT_ONCE:
            remedy = f"Pick fewer texts: at most {MOST_AT_ONCE} pairs are answered at once"
            raise InputError(f"{len(given):,} pairs at once", remedy=remedy)
        many = [PageAnswer(pair, label, f"{sent.token}-{at}") for at, (pair, label) in enumerate(given)]
        state = session.review(sent.who, many)
        rounds.wake()
        return {**state, "pairs_answered": len(given)}

    @app.get("/api/review")
    def state() -> dict[str, Any]:
        """Whether there is a list to look through, and whether it is of now."""
        return review.state()

    @app.post("/api/review/list")
    def prepare() -> dict[str, Any]:
        """Make the list anew."""
        return review.prepare()

    @app.get("/api/review/pairs")
    def pairs(
        who: Who,
        words: Words = "",
        show: Literal["all", "listed", "left out", "open"] = "all",
        offset: Offset = 0,
        count: Count = PAGE_SIZE,
    ) -> dict[str, Any]:
        """Pairs of the list and just below it, the most doubtful first."""
        return review.pairs(who, Wanted(words, show, offset, count))

    @app.get("/api/review/groups")
    def groups(words: Words = "", offset: Offset = 0, count: Count = PAGE_SIZE) -> dict[str, Any]:
        """Groups, the least sure first."""
        return review.groups(Wanted(words, "all", offset, count))

    @app.get("/api/review/answers")
    def answers(
        who: Who,
        words: Words = "",
        show: Literal["all", "mine", "match", "no match", "unsure"] = "all",
        offset: Offset = 0,
        count: Count = PAGE_SIZE,
    ) -> dict[str, Any]:
        """Labelled pairs, the latest answer first."""
        return review.answers(who, Wanted(words, show, offset, count))

    @app.post("/api/review/pairs")
    def answer(sent: PairSent) -> dict[str, Any]:
        """Say of a pair what it is; one that was never asked is asked now."""
        return write(sent, [(min(int(sent.pair), 2**63 - 1), LABELS[sent.label])])

    @app.post("/api/review/groups")
    def answer_group(sent: GroupSent) -> dict[str, Any]:
        """Say that texts are one thing, or that some of them (`apart`) are not what the others are."""
        return write(sent, list(review.group_pairs(sent.rows, sent.apart)))

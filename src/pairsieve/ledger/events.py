"""How is a row of the ledger written, and found again? The few queries that the ledger is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from pairsieve.contracts import Answer
from pairsieve.errors import LedgerError
from pairsieve.ledger.schema import ANSWER_CHAIN, QUESTION_CHAIN, answers, link, meta, questions
from pairsieve.pairs import Ids, Mask, is_member

PURPOSES = ("train", "audit")
FEW = 500  # so many values are looked up one by one; more are compared with all


@dataclass(frozen=True)
class Tail:
    """Where the ledger ends: the latest round asked, the last answer's link, and whether any is inferred."""

    round: int
    chain: str
    any_inferred: bool


def tail(connection: sa.Connection) -> Tail:
    """In one query, as every click waits for it."""
    row = connection.execute(
        sa.text(
            "SELECT (SELECT MAX(round) FROM questions), "
            "(SELECT chain FROM answers ORDER BY number DESC LIMIT 1), "
            "(SELECT pair FROM answers WHERE kind = 'inferred' LIMIT 1)"
        )
    ).one()
    return Tail(int(row[0] or 0), row[1] or "", row[2] is not None)


def append_questions(connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
    """Add questions, each linked to the one before. Needs the writers' lock."""
    last = sa.select(questions.c.chain).order_by(questions.c.number.desc()).limit(1)
    _linked(rows, QUESTION_CHAIN, connection.execute(last).scalar() or "")
    connection.execute(sa.insert(questions), rows)


def append_answers(connection: sa.Connection, rows: list[dict[str, Any]], chain: str) -> str:
    """Add answer events after the link `chain`; returns the new last link. Needs the writers' lock."""
    end = _linked(rows, ANSWER_CHAIN, chain)
    connection.execute(sa.insert(answers), rows)
    return end


def _linked(rows: list[dict[str, Any]], names: tuple[str, ...], chain: str) -> str:
    for row in rows:
        chain = link(chain, [row[name] for name in names])
        row["chain"] = chain
    return chain


def new_tokens(
    connection: sa.Connection, events: Sequence[tuple[str, int, int | None]], who: str, kind: str
) -> Mask:
    """Which of the (token, pair, label) events are not in the ledger yet; another event under a token it
    holds is refused. (n,) bool."""
    tokens = [token for token, _, _ in events]
    if len(set(tokens)) != len(tokens) or not all(isinstance(t, str) and t.strip() for t in tokens):
        raise LedgerError("tokens are texts that differ from click to click, and none is empty.")
    held: dict[str, tuple[int, int | None, str, str]] = {}
    for some in chunks(tokens):
        query = sa.select(answers.c.token, answers.c.pair, answers.c.label, answers.c.who, answers.c.kind)
        for token, *event in connection.execute(query.where(answers.c.token.in_(some))):
            held[token] = (event[0], event[1], event[2], event[3])
    for token, pair, label in events:
        if token in held and held[token] != (pair, label, who, kind):
            raise LedgerError(
                f"pair {pair}: the token {token!r} was used for another click, by {held[token][2]} on pair "
                f"{held[token][0]}. A token names one click; make a new one for each."
            )
    return np.array([token not in held for token in tokens], dtype=bool)


def pairs_and_labels(given: Sequence[Answer]) -> tuple[list[int], list[int | None]]:
    """Two columns of plain numbers; a label that nobody knows is refused."""
    for each in given:
        if each.label is not None and each.label not in (0, 1):
            raise LedgerError(f"pair {each.id}: the label {each.label!r}. Allowed: 1, 0, None (unsure).")
    return [int(each.id) for each in given], [None if e.label is None else int(e.label) for e in given]


def asked_as(connection: sa.Connection, pairs: Ids) -> dict[int, str]:
    """The purpose of each of these pairs that was asked."""
    query = sa.select(questions.c.pair, questions.c.purpose)
    found: dict[int, str] = {}
    for some in chunks(pairs.tolist()):
        asked = connection.execute(query.where(questions.c.pair.in_(some)))
        found |= {int(row[0]): str(row[1]) for row in asked}
    return found


def known(connection: sa.Connection, wanted: Ids) -> Mask:
    """Which of the sorted ids were asked; a few are looked up, many are compared with all."""
    query = sa.select(questions.c.pair).order_by(questions.c.pair)
    if len(wanted) <= FEW:
        query = query.where(questions.c.pair.in_(wanted.tolist()))
    return is_member(wanted, column(connection, query))


def narrow(query: Any, table: sa.TableClause, round: int | None, purpose: str | None) -> Any:
    """The query, of one round or purpose only where one is named."""
    if round is not None:
        query = query.where(table.c.round == round)
    return query if purpose is None else query.where(table.c.purpose == known_purpose(purpose))


def known_purpose(purpose: str) -> str:
    if purpose not in PURPOSES:
        raise LedgerError(f"the purpose {purpose!r}. A question is asked to 'train' or to 'audit'.")
    return purpose


def chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """The values, as many at a time as a database takes as parameters."""
    return (values[start : start + FEW] for start in range(0, len(values), FEW))


def column(connection: sa.Connection, query: Any) -> Ids:
    return np.fromiter(connection.execute(query).scalars(), np.int64)


def columns(connection: sa.Connection, query: Any, count: int) -> list[list[Any]]:
    rows = connection.execute(query).all()
    return [list(each) for each in zip(*rows)] if rows else [[] for _ in range(count)]


def version_and_task(connection: sa.Connection) -> tuple[int, str | None]:
    """The schema version and the task of this database; (0, None) where there is no ledger yet."""
    if not sa.inspect(connection).has_table("meta"):
        return 0, None
    rows = connection.execute(
        sa.select(meta.c.schema_version, meta.c.task_fingerprint).order_by(meta.c.schema_version)
    ).all()
    return (int(rows[-1][0]), str(rows[-1][1])) if rows else (0, None)


def mark(connection: sa.Connection) -> tuple[int, int]:
    """The numbers of the last question and the last answer: whatever is written moves one of them."""
    last = (sa.select(sa.func.coalesce(sa.func.max(t.c.number), 0)) for t in (questions, answers))
    question, answer = (int(connection.execute(one).scalar_one()) for one in last)
    return question, answer

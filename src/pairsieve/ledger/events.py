"""Queries that append questions and answers to the ledger and look them up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from pairsieve.contracts import Answer
from pairsieve.errors import LedgerError
from pairsieve.ledger.schema import VERSION, answers, contents, link, meta, questions
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


def append(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]], chain: str) -> str:
    """Add rows after the link `chain`; returns the new last link. Needs the writers' lock."""
    names = [column.name for column in contents(table)]
    for row in rows:
        chain = row["chain"] = link(chain, [row.get(name) for name in names])
    connection.execute(sa.insert(table), rows)
    return chain


def new_tokens(
    connection: sa.Connection, events: Sequence[tuple[str, int, int | None]], who: str, kind: str
) -> Mask:
    """Which of the (token, pair, label) events are not in the ledger yet; another event under a token it
    holds is refused. (n,) bool."""
    tokens = [token for token, _, _ in events]
    if len(set(tokens)) != len(tokens) or not all(isinstance(t, str) and t.strip() for t in tokens):
        raise LedgerError("tokens are texts that differ from click to click, and none is empty.")
    c = answers.c
    query = sa.select(c.token, c.pair, c.label, c.who, c.kind)
    held = {token: tuple(event) for token, *event in rows_with(connection, query, c.token, tokens)}
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
    return {row[0]: row[1] for row in rows_with(connection, query, questions.c.pair, pairs.tolist())}


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


def rows_with(connection: sa.Connection, query: Any, key: Any, wanted: Sequence[Any]) -> list[Any]:
    """Rows whose `key`, the query's first column, is wanted; a few are looked up, many picked from all."""
    if len(wanted) > 4 * FEW:
        held = set(wanted)
        return [row for row in connection.execute(query) if row[0] in held]
    some = (wanted[start : start + FEW] for start in range(0, len(wanted), FEW))
    return [row for few in some for row in connection.execute(query.where(key.in_(few)))]


def column(connection: sa.Connection, query: Any) -> Ids:
    return np.fromiter(connection.execute(query).scalars(), np.int64)


def columns(rows: Iterable[Sequence[Any]], count: int) -> list[list[Any]]:
    """Rows turned into `count` columns."""
    return [list(each) for each in zip(*rows)] or [[] for _ in range(count)]


@dataclass(frozen=True)
class Owner:
    """What a ledger belongs to: the contents of its task, the split its pairs are rows of, its campaign."""

    task: str
    split: str = ""
    campaign: str = ""

    def difference(self, other: Owner) -> str:
        """What another owner has differently, in words with what to do; empty where nothing."""
        if self.task != other.task:
            return (
                f"belongs to the task {self.task}, the campaign's task is {other.task}. "
                "Use the task it was begun with, or begin a new campaign folder."
            )
        if self.split != other.split:
            return (
                f"has questions about the split {self.split!r}, the campaign asks about {other.split!r}: its "
                f"answers would be read as answers to other texts. Set `split` to {self.split!r} again, or "
                "begin a new campaign folder."
            )
        if self.campaign != other.campaign:
            return (
                "belongs to another campaign of the same task. Give each campaign a database, or a schema, "
                "of its own (`ledger` in campaign.toml)."
            )
        return ""


@dataclass(frozen=True)
class Identity:
    """The schema version of a database (0: it holds no ledger), the ledger's own id, and its owner."""

    version: int = 0
    ledger: str = ""
    owner: Owner = Owner("")


def identity(connection: sa.Connection) -> Identity:
    """Which ledger this is."""
    if not sa.inspect(connection).has_table("meta"):
        return Identity()
    version = int(connection.execute(sa.select(sa.func.max(meta.c.schema_version))).scalar() or 0)
    if version != VERSION:  # the other columns of another version are not known
        return Identity(version)
    c = meta.c
    query = sa.select(c.ledger, c.task_fingerprint, c.split, c.campaign).where(c.schema_version == version)
    ledger, *owner = connection.execute(query).one()
    return Identity(version, ledger, Owner(*owner))


def mark(connection: sa.Connection) -> tuple[int, int]:
    """The numbers of the last question and the last answer: whatever is written moves one of them."""
    last = (sa.select(sa.func.coalesce(sa.func.max(t.c.number), 0)) for t in (questions, answers))
    question, answer = (int(connection.execute(one).scalar_one()) for one in last)
    return question, answer

"""Labels inferred by transitivity: what each rests on, and when it is withdrawn.

An inferred label rests on a path of labelled pairs from its left text to its right text: a match on
matches alone, a no match on matches and exactly one no match. It is written with that path, and taken back
in the same transaction in which a label on the path changes; also while the labels around it contradict
each other, which whoever infers must tell. It rests only on labels that people, files, models or the truth
gave, never on other inferred ones, and never touches an audit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from pairsieve.contracts import Answer
from pairsieve.errors import LedgerError
from pairsieve.ledger.events import Tail, append, asked_as, column, rows_with
from pairsieve.ledger.schema import answers, current_labels, standing_answers
from pairsieve.pairs import Ids

BY_RULE = "transitivity"  # who and source of an inferred label; no person may bear this name
_MOST_SEARCHED = 20  # changed pairs looked for one by one in what inferences rest on


def write_inferred(
    connection: sa.Connection,
    given: Sequence[Answer],
    rests_on: Sequence[Sequence[int]],
    at_end: Tail,
    now: str,
) -> int:
    """Write the inferred labels that do not stand already; refused unless each follows from its path."""
    pairs = np.array([each.id for each in given], np.int64)
    purposes = asked_as(connection, pairs)
    holds = ground_labels(connection, {pair for path in rests_on for pair in path})
    stands = {pair: (label, why) for pair, label, why in _standing(connection, pairs)}
    rows = []
    for each, path in zip(given, rests_on, strict=True):
        if purposes.get(each.id) != "train":
            why = "it is sealed for the audit" if each.id in purposes else "it was never asked"
            raise LedgerError(f"pair {each.id}: no label may be inferred, {why}. None was written.")
        grounds = [(pair, holds.get(pair)) for pair in path]
        fault = _fault(each, grounds)
        if fault:
            raise LedgerError(f"pair {each.id}: {each.label} does not follow, {fault}. None was written.")
        text = json.dumps(grounds, separators=(",", ":"))
        if stands.get(each.id) != (each.label, text):
            row = {"pair": each.id, "label": each.label, "rests_on": text}
            rows.append(row | _by_rule("inferred", at_end, now))
    if rows:
        append(connection, answers, rows, at_end.chain)
    return len(rows)


def _by_rule(kind: str, at_end: Tail, now: str) -> dict[str, Any]:
    """What every event that no person causes has in common."""
    event = {"who": BY_RULE, "source": BY_RULE, "round": at_end.round, "answered_at": now}
    return event | {"kind": kind, "about": "inferred"}


def retract_unsupported(connection: sa.Connection, changed: Ids, at_end: Tail, now: str) -> int:
    """Take back the inferred labels that rested on what a changed pair no longer says."""
    # Written out, as a parameter would hide from SQLite that its partial index serves.
    is_inferred = answers.c.kind == sa.literal_column("'inferred'")
    inferred = sa.select(answers.c.pair).where(is_inferred)
    if len(changed) <= _MOST_SEARCHED:
        inferred = inferred.where(
            sa.or_(*[answers.c.rests_on.like(f"%[{pair},%") for pair in changed.tolist()])
        )
    touched = np.unique(column(connection, inferred))
    unsupported = unsupported_inferences(connection, touched)
    _take_back(connection, unsupported, "a label it rested on changed", at_end, now)
    return len(unsupported)


def retract_contradicted(connection: sa.Connection, pairs: Sequence[int], at_end: Tail, now: str) -> Tail:
    """Take back the inferred labels among `pairs` that still stand: what they rest on contradicts itself."""
    standing = sorted(row[0] for row in _standing(connection, np.array(sorted(set(pairs)), np.int64)))
    chain = _take_back(connection, standing, "the labels it rested on contradict each other", at_end, now)
    return replace(at_end, chain=chain)


def _take_back(connection: sa.Connection, pairs: list[int], why: str, at_end: Tail, now: str) -> str:
    """Write the withdrawals; returns the last link."""
    if not pairs:
        return at_end.chain
    row = {"comment": why, **_by_rule("withdrawal", at_end, now)}
    return append(connection, answers, [{"pair": pair, **row} for pair in pairs], at_end.chain)


def unsupported_inferences(connection: sa.Connection, among: Ids | None = None) -> list[int]:
    """Pairs whose standing inferred label rests on something that no longer holds, ascending."""
    standing = {pair: json.loads(path) for pair, _, path in _standing(connection, among)}
    holds = ground_labels(connection, {pair for path in standing.values() for pair, _ in path})
    return sorted(
        pair for pair, path in standing.items() if any(holds.get(ground) != label for ground, label in path)
    )


def ground_labels(connection: sa.Connection, pairs: set[int]) -> dict[int, int]:
    """The labels that an inference may rest on: given for training, not inferred themselves."""
    view = current_labels.c
    query = sa.select(view.pair, view.label).where(
        view.state == "labelled", view.basis != "inferred", view.purpose == "train"
    )
    return {row[0]: row[1] for row in rows_with(connection, query, view.pair, sorted(pairs))}


def _standing(connection: sa.Connection, among: Ids | None) -> list[Any]:
    view = standing_answers.c
    query = sa.select(view.pair, view.label, view.rests_on).where(view.kind == "inferred")
    if among is None:
        return list(connection.execute(query))
    return rows_with(connection, query, view.pair, among.tolist())


def _fault(each: Answer, grounds: list[tuple[int, int | None]]) -> str:
    """Why the label does not follow from the path; empty where it does."""
    missing = [pair for pair, label in grounds if label is None]
    if each.label not in (0, 1) or not grounds:
        return "an inferred label is 1 or 0 and rests on at least one pair"
    if missing:
        return f"pair {missing[0]} on its path has no training label"
    against = sum(label == 0 for _, label in grounds)
    if against != 1 - each.label:
        return f"its path holds {against} no matches; a match rests on none, a no match on exactly one"
    ends: set[int] = set()
    for pair, _ in grounds:  # on a path every text but the two ends is met twice
        ends ^= {pair >> 32} ^ {pair & 0xFFFFFFFF}
    if ends != {each.id >> 32, each.id & 0xFFFFFFFF}:
        return "its path does not lead from one text to the other"
    return ""

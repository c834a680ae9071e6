"""Does a ledger keep its promises on this database? The conformance kit, told as one story."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from pairsieve.contracts import Answer
from pairsieve.errors import LedgerError
from pairsieve.pairs import Ids, pair_ids

if TYPE_CHECKING:
    from pairsieve.ledger.store import Ledger


def check_ledger(make_ledger: Callable[[str], Ledger]) -> None:
    """Raise AssertionError, in words, where the ledger breaks its promises.

    `make_ledger(task_fingerprint)` opens the same place each time it is called; empty the first time.
    """
    first, second, audit = pair_ids([0, 0, 1], [7, 3, 2]), pair_ids([4, 5], [9, 9]), pair_ids([6], [8])
    with make_ledger("task-a") as ledger:
        assert len(ledger.asked()) == 0 and ledger.rounds() == [], "a new ledger is empty"
        assert _ask(ledger, 1, first) == 3, "three questions are new"
        asked_once = ledger.digest()
        assert _ask(ledger, 1, first[::-1]) == 0, "asking the same round again writes nothing"
        assert ledger.digest() == asked_once, "asking the same round again changes nothing"
        _refused("another batch under the same round", lambda: _ask(ledger, 1, second))
        _refused("a pair asked before", lambda: _ask(ledger, 2, np.append(second, first[0])))
        _refused("a pair twice in one batch", lambda: _ask(ledger, 2, second[[0, 0]]))
        _refused("an audit without probabilities", lambda: _ask(ledger, 2, audit, purpose="audit"))
        assert ledger.digest() == asked_once, "what is refused leaves no trace"

        _ask(ledger, 2, second)
        ledger.ask(2, audit, ["k6"], ["k8"], "stratum 1", "audit", np.array([0.25]), "audit")
        assert np.array_equal(ledger.asked(), np.sort(np.concatenate([first, second, audit]))), "all asked"
        assert np.array_equal(ledger.asked(through=1), np.sort(first)), "asked through round 1"
        assert np.array_equal(ledger.open_questions(1), first), "open questions come in the order of asking"
        told = ledger.questions(1)
        assert np.array_equal(told.ids, first) and told.left_keys == ["k0", "k0", "k1"], "keys stay with ids"
        assert np.isnan(told.inclusion_probability).all(), "no probability where none was given"
        drawn = ledger.questions(purpose="audit")
        assert drawn.inclusion_probability.tolist() == [0.25] and drawn.why == ["stratum 1"], "why and chance"

        a, b, c = (int(id) for id in first)
        ledger.answer([Answer(a, 1), Answer(b, 0), Answer(c, None)], who="ann", source="page")
        assert _labels(ledger) == {a: True, b: False}, "unsure is an answer, and no label"
        assert len(ledger.open_questions(1)) == 0, "an unsure pair does not wait"
        ledger.answer([Answer(a, 0), Answer(b, 0)], who="bob", source="page")
        assert _labels(ledger) == {b: False}, "a tie gives no label"
        assert ledger.open_questions(1).tolist() == [a], "a tie is open"
        ledger.answer([Answer(a, 1)], who="eve", source="page")
        assert _labels(ledger) == {a: True, b: False}, "the majority decides"
        ledger.answer([Answer(a, 0)], who="ann", source="page")
        assert _labels(ledger) == {a: False, b: False}, "the latest answer of a person counts"
        ledger.withdraw(np.array([a]), who="ann", source="page")
        assert ledger.open_questions(1).tolist() == [a], "an answer taken back no longer counts"
        _refused("taking back twice", lambda: ledger.withdraw(np.array([a]), who="ann", source="page"))
        ledger.answer([Answer(int(audit[0]), 1)], who="ann", source="page")
        assert _labels(ledger) == {b: False}, "audit labels never reach training"
        assert _labels(ledger, "audit") == {int(audit[0]): True}, "audit labels are found as such"

        before = ledger.digest()
        stranger = int(pair_ids(1, 9))
        _refused(
            "an answer to a pair never asked",
            lambda: ledger.answer([Answer(b, 1), Answer(stranger, 1)], who="ann", source="page"),
        )
        _refused("a label of 2", lambda: ledger.answer([Answer(b, 2)], who="ann", source="page"))
        _refused("a nameless answer", lambda: ledger.answer([Answer(b, 1)], who=" ", source="page"))
        for statement in ("UPDATE answers SET label = 1", "DELETE FROM questions", "DELETE FROM meta"):
            _refused(statement, partial(_raw, ledger, statement), because="append-only")
        assert ledger.digest() == before, "what is refused leaves no trace"
        one, two = ledger.counts()
        assert (one.asked, one.labelled, one.positives, one.unsure, one.open) == (3, 1, 0, 1, 1), "round 1"
        assert (two.asked, two.answered, two.open) == (2, 0, 2), "round 2"
    with make_ledger("task-a") as ledger:
        assert ledger.digest() == before and ledger.rounds() == [1, 2], "closing and opening loses nothing"
        events = ledger.answers()
        assert events.kind.count("withdrawal") == 1 and len(events) == 9, "every event is kept"
    _refused("the ledger of another task", lambda: make_ledger("task-b"))


def _ask(ledger: Ledger, round: int, ids: Ids, purpose: str = "train") -> int:
    left, right = [f"k{id >> 32}" for id in ids.tolist()], [f"k{id & 0xFFFFFFFF}" for id in ids.tolist()]
    return ledger.ask(round, ids, left, right, "because", "check", purpose=purpose)


def _labels(ledger: Ledger, purpose: str = "train") -> dict[int, bool]:
    ids, labels = ledger.labels(purpose)
    return dict(zip(ids.tolist(), labels.tolist()))


def _raw(ledger: Ledger, statement: str) -> None:
    with ledger._writing() as connection:
        connection.execute(sa.text(statement))


def _refused(what: str, attempt: Callable[[], Any], because: str = "") -> None:
    try:
        attempt()
    except LedgerError as error:
        assert because in str(error), f"{what} is refused, but not because {because}: {error}"
        return
    raise AssertionError(f"the ledger must refuse {what}")

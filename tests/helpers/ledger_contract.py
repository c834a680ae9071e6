"""What a ledger promises, checked on every database it can be kept in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import sqlalchemy as sa

from pairsieve.contracts import Answer
from pairsieve.errors import LedgerError
from pairsieve.ledger.store import Ledger
from pairsieve.pairs import Ids, pair_ids


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
        first_round = ledger.questions(1)
        assert np.array_equal(first_round.ids, first), "ids stay in the order of asking"
        assert first_round.left_keys == ["k0", "k0", "k1"], "keys stay with ids"
        assert np.isnan(first_round.inclusion_probability).all(), "no probability where none was given"
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
        both = [Answer(b, 1), Answer(stranger, 1)]
        _refused("an answer to a pair never asked", lambda: ledger.answer(both, who="ann", source="page"))
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
        _check_tokens(ledger, b)
    with make_ledger("task-a") as ledger:
        assert ledger.answer([Answer(b, 1)], "gus", "page", ["click-1"]) == 0, "a token outlives a restart"
        _check_adjudication(ledger, a)
        _check_inference(ledger, int(audit[0]))
        report = ledger.verify()
        assert report.ok, f"a ledger that was only used is whole: {report.as_json()}"
        digest = ledger.digest()
        ledger.vacuum()
        assert ledger.digest() == digest and ledger.verify().ok, "tidying up changes nothing"
    _refused("the ledger of another task", lambda: make_ledger("task-b"))


def _check_tokens(ledger: Ledger, pair: int) -> None:
    assert ledger.answer([Answer(pair, 1)], "gus", "page", ["click-1"], ["sure?"]) == 1, "a click is written"
    digest = ledger.digest()
    assert ledger.answer([Answer(pair, 1)], "gus", "page", ["click-1"]) == 0, "the same click again is not"
    assert ledger.digest() == digest, "the same click again leaves no trace"
    for what, label, who in (("on another label", 0, "gus"), ("of somebody else", 1, "ann")):
        given = [Answer(pair, label)]
        _refused(f"a used token {what}", partial(ledger.answer, given, who, "page", ["click-1"]))
    _refused("one token for two answers", lambda: ledger.answer([Answer(pair, 1)], "gus", "page", ["a", "b"]))
    assert ledger.withdraw(np.array([pair]), "gus", "page", ["click-2"]) == 1, "an undo has a token too"
    assert ledger.withdraw(np.array([pair]), "gus", "page", ["click-2"]) == 0, "and is taken once"
    assert ledger.answer([Answer(pair, 1)], "gus", "page", ["click-1"]) == 0, "a late copy changes nothing"
    assert "gus" not in ledger.answers_by_person(), "what was taken back stays so"
    assert ledger.answers().comments[-2:] == ["sure?", None], "a comment stays with its answer"


def _check_adjudication(ledger: Ledger, pair: int) -> None:
    votes = ledger.votes(np.array([pair]))
    assert (votes.matches[0], votes.no_matches[0], votes.state) == (1, 1, ["open"]), "bob 0, eve 1: a tie"
    assert ledger.disputed().tolist() == [pair], "who disagree are found"
    ledger.adjudicate([Answer(pair, 0)], who="zoe", source="page")
    assert _labels(ledger)[pair] is False, "settled"
    assert ledger.votes(np.array([pair])).basis == ["adjudication"], "and by whom"
    ledger.answer([Answer(pair, 1)], who="ann", source="page")
    assert _labels(ledger)[pair] is False, "an adjudication outvotes whatever comes later"
    assert len(ledger.disputed()) == 0, "what is adjudicated waits for nobody"
    ledger.adjudicate([Answer(pair, None)], who="max", source="page")
    assert pair not in _labels(ledger) and len(ledger.open_questions(1)) == 0, "it may settle on unsure"
    ledger.withdraw(np.array([pair]), who="zoe", source="page", kind="adjudication")
    assert _labels(ledger)[pair] is True, "taken back, the votes count again: eve and ann against bob"
    assert ledger.answers_by_person()["ann"][pair] == 1, "the person's own answer is still there"


def _check_inference(ledger: Ledger, audit: int) -> None:
    # 10 = 11 and 11 = 12 make 10 = 12; 12 ≠ 13 makes 10 ≠ 13.
    ids = pair_ids([10, 11, 12, 10, 10], [11, 12, 13, 12, 13])
    one, two, three, same, other = (int(id) for id in ids)
    _ask(ledger, 3, ids)
    ledger.answer([Answer(one, 1), Answer(two, 1), Answer(three, 0)], who="ann", source="page")
    _refused("what does not follow", lambda: ledger.infer([Answer(same, 0)], [[one, two]]))
    _refused("a path that leads elsewhere", lambda: ledger.infer([Answer(same, 1)], [[one]]))
    _refused("a path nobody labelled", lambda: ledger.infer([Answer(other, 0)], [[same, three]]))
    _refused("inference into an audit", lambda: ledger.infer([Answer(audit, 1)], [[one, two]]))
    _refused("a person called as the rule", lambda: ledger.answer([Answer(same, 1)], "transitivity", "page"))
    implied = [Answer(same, 1), Answer(other, 0)], [[one, two], [one, two, three]]
    assert ledger.infer(*implied) == 2 and ledger.infer(*implied) == 0, "inferred once"
    assert len(ledger.open_questions(3)) == 0 and _labels(ledger)[same], "nobody needs to be asked"
    ledger.infer([], [], doubtful=[other, one])
    assert ledger.open_questions(3).tolist() == [other], "doubted, it is open; what somebody gave stays"
    assert ledger.infer(*implied) == 1 and len(ledger.open_questions(3)) == 0, "and it can come back"
    given = ledger.labels(inferred=False)[0].tolist()
    assert same not in given and one in given, "what was given can be had without what was inferred"
    _refused("inference from inference", lambda: ledger.infer([Answer(other, 0)], [[same, three]]))
    (count,) = [count for count in ledger.counts() if count.round == 3]
    assert (count.labelled, count.inferred, count.positives) == (5, 2, 3), "inferred labels are counted apart"
    ledger.answer([Answer(same, 0)], who="bob", source="page")
    assert _labels(ledger)[same] is False, "what a person says counts before what follows"
    ledger.withdraw(np.array([same]), who="bob", source="page")
    ledger.answer([Answer(three, 1)], who="ann", source="page")
    assert ledger.open_questions(3).tolist() == [other], "what rested on a changed label is taken back"
    ledger.withdraw(np.array([one]), who="ann", source="page")
    assert ledger.open_questions(3).tolist() == [one, same, other], "and so on a label taken back"
    path = [path for path in ledger.answers().rests_on if path is not None][-1]
    assert path == [(one, 1), (two, 1), (three, 0)], "an inferred label keeps the path it rested on"


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

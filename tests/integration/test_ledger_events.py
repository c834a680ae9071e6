"""What the ledger keeps besides answers: adjudications, inferences, old versions, and proof of itself."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from pairsieve.contracts import Answer
from pairsieve.errors import InputError, LedgerError
from pairsieve.ledger import Ledger, open_ledger
from pairsieve.pairs import Ids, pair_ids

pytest_plugins = ("postgres",)
TASK = "f00d"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place on each database."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.sqlite")
    fresh: Callable[[], str] = request.getfixturevalue("postgres_place")
    return fresh()


def ask(ledger: Ledger, round: int, ids: Ids, purpose: str = "train") -> None:
    keys = [f"q{id >> 32}" for id in ids.tolist()], [f"s{id & 0xFFFFFFFF}" for id in ids.tolist()]
    chance = np.full(len(ids), 0.5) if purpose == "audit" else None
    ledger.ask(round, ids, *keys, "uncertain", "uncertainty", chance, purpose)


def used(ledger: Ledger) -> None:
    """A round of three, a dispute, an adjudication, an inference and an audit."""
    ids = pair_ids([1, 2, 1], [2, 3, 3])
    ask(ledger, 1, ids)
    ask(ledger, 1, pair_ids([7], [8]), "audit")
    a, b, c = ids.tolist()
    ledger.answer([Answer(a, 1), Answer(b, 0)], "ann", "page", ["t1", "t2"], ["same town", ""])
    ledger.answer([Answer(b, 1)], "bob", "file")
    ledger.adjudicate([Answer(b, 1)], "zoe", "page")
    ledger.infer([Answer(c, 1)], [[a, b]])
    ledger.answer([Answer(int(pair_ids(7, 8)), 0)], "ann", "page")


def test_an_audit_stays_sealed(place: str) -> None:
    with open_ledger(place, TASK) as ledger:
        used(ledger)
        audit = int(pair_ids(7, 8))
        assert audit not in ledger.labels("train")[0] and ledger.labels("audit")[0].tolist() == [audit]
        with pytest.raises(LedgerError, match="1 of them in an audit, which is sealed"):
            ask(ledger, 2, pair_ids([7, 7], [8, 9]))
        with pytest.raises(LedgerError, match="asked before"):
            ask(ledger, 2, pair_ids([1], [2]), "audit")  # a training pair is no audit either
        with pytest.raises(LedgerError, match="the purpose 'trian'"):
            ledger.labels("trian")
        (counted,) = ledger.counts("audit")
        assert (counted.asked, counted.labelled) == (1, 1)
        assert ledger.answers_by_person("audit") == {"ann": {audit: 0}}


def test_an_unharmed_ledger_verifies_and_exports_every_event(place: str, tmp_path: Path) -> None:
    with open_ledger(place, TASK) as ledger:
        used(ledger)
        report = ledger.verify()
        assert report.ok and (report.questions, report.answers) == (4, 6)
        for suffix in ("jsonl", "csv", "parquet"):
            assert ledger.export(tmp_path / f"events.{suffix}") == 10
        with pytest.raises(InputError, match=r"kind of file: events\.png.*\.parquet, \.csv, \.tsv, \.jsonl"):
            ledger.export(tmp_path / "events.png")
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["question"] * 4 + [
        *["answer", "answer", "answer", "adjudication", "inferred", "answer"]
    ]
    first = lines[4]
    assert (first["left_key"], first["right_key"], first["label"], first["who"]) == ("q1", "s2", 1, "ann")
    assert (first["token"], first["comment"], first["round"]) == ("t1", "same town", 1)
    assert json.loads(lines[8]["rests_on"]) == [[int(pair_ids(1, 2)), 1], [int(pair_ids(2, 3)), 1]]
    with (tmp_path / "events.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows[4:]] == ["1", "0", "1", "1", "1", "0"]
    import pyarrow.parquet as pq

    assert pq.read_table(tmp_path / "events.parquet").to_pylist() == lines
    assert sorted(path.name for path in tmp_path.iterdir() if "events" in path.name) == [
        *["events.csv", "events.jsonl", "events.parquet"]
    ]


TAMPERING = {  # what somebody does behind the ledger's back: which check must notice
    "UPDATE answers SET label = 0 WHERE who = 'ann' AND label = 1": "answers",
    "UPDATE questions SET why = 'chosen by hand' WHERE round = 1": "questions",
    "DELETE FROM answers WHERE number = 2": "answers",
    "INSERT INTO answers (pair, label, who, source, round, answered_at, kind, about, chain) "
    "SELECT pair, 1, 'mallory', 'page', 1, 'now', 'answer', 'answer', 'x' FROM questions": "answers",
    "INSERT INTO answers (pair, label, who, source, round, answered_at, kind, about, chain) "
    "VALUES (404, 1, 'mallory', 'page', 1, 'now', 'answer', 'answer', 'x')": "orphans",
    "INSERT INTO answers (pair, label, who, source, round, answered_at, kind, about, rests_on, chain) "
    "SELECT pair, 1, 'm', 'm', 1, 'now', 'inferred', 'inferred', '[]', 'x' FROM questions "
    "WHERE purpose = 'audit'": "audit seal",
    "DROP TRIGGER answers_refuse_delete": "guards",
}


@pytest.mark.parametrize("statement", TAMPERING)
def test_tampering_is_found(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "ledger.sqlite"
    with open_ledger(path, TASK) as ledger:
        used(ledger)
    raw = sqlite3.connect(path)
    guards = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in guards:
        raw.execute(f"DROP TRIGGER {name}")
    if statement.startswith("DROP"):
        guards = [(name, words) for name, words in guards if name not in statement]
    else:
        raw.execute(statement)
    for _, words in guards:
        raw.execute(words)
    raw.commit()
    raw.close()
    with open_ledger(path, TASK) as ledger:
        report = ledger.verify()
    assert TAMPERING[statement] in {check.name for check in report.checks if not check.ok}, report.as_json()


def test_a_view_that_lies_is_found(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with open_ledger(path, TASK) as ledger:
        used(ledger)
    raw = sqlite3.connect(path)
    (words,) = raw.execute("SELECT sql FROM sqlite_master WHERE name = 'current_labels'").fetchone()
    raw.execute("DROP VIEW current_labels")
    raw.execute(words.replace("adjudications > 0", "adjudications > 9"))
    raw.commit()
    raw.close()
    with open_ledger(path, TASK) as ledger:
        assert [check.name for check in ledger.verify().checks if not check.ok] == [
            "schema",
            "labels",
            "inferred",
        ]


steps = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob"]), st.integers(0, 2), st.sampled_from([1, 0, None, "undo", "judge"])
    ),
    max_size=15,
)


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_an_inferred_label_stands_exactly_while_its_path_holds(
    tmp_path: Path, changes: list[tuple[str, int, int | str | None]]
) -> None:
    ids = pair_ids([1, 2, 1], [2, 3, 3])
    a, b, c = ids.tolist()
    path = tmp_path / "ledger.sqlite"
    path.unlink(missing_ok=True)
    with open_ledger(path, TASK) as ledger:
        ask(ledger, 1, ids)
        ledger.answer([Answer(a, 1), Answer(b, 1)], "ann", "page")
        assert ledger.infer([Answer(c, 1)], [[a, b]]) == 1
        fell = False
        for who, row, what in changes:
            pair = (a, b, a)[row]
            if what == "undo":
                if pair not in ledger.answers_by_person().get(who, {}):
                    continue
                ledger.withdraw(np.array([pair]), who, "page")
            elif what == "judge":
                ledger.adjudicate([Answer(pair, row % 2)], who, "page")
            else:
                assert not isinstance(what, str)
                ledger.answer([Answer(pair, what)], who, "page")
            holds = ledger.votes(ids[:2]).labels == [1, 1]
            fell = fell or not holds
            assert ledger.votes(ids[2:]).basis == ([""] if fell else ["inferred"])
        if fell and ledger.votes(ids[:2]).labels == [1, 1]:
            assert ledger.infer([Answer(c, 1)], [[a, b]]) == 1
        assert ledger.verify().ok


@pytest.mark.slow
def test_vacuum_gives_room_back(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with open_ledger(path, TASK) as ledger:
        ids = np.arange(20_000, dtype=np.int64)
        ask(ledger, 1, ids)
        ledger.answer([Answer(id, 1) for id in range(20_000)], "truth", "truth")
        before, after = ledger.vacuum()
        assert after < before and after == path.stat().st_size
        assert len(ledger.labels()[0]) == 20_000

"""The ledger: append-only, one transaction a step, whole after kill -9, the same on every database."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pairsieve.ledger.store as store_module
from examples import examples
from ledger_contract import check_ledger
from pairsieve.contracts import Answer
from pairsieve.errors import LedgerError, MissingExtra
from pairsieve.ledger import Ledger, open_ledger
from pairsieve.ledger.schema import VERSION, create_schema
from pairsieve.pairs import Ids, pair_ids

pytest_plugins = ("postgres",)
TASK = "f00d"


def keys(ids: Ids) -> tuple[list[str], list[str]]:
    return [f"q{id >> 32}" for id in ids.tolist()], [f"s{id & 0xFFFFFFFF}" for id in ids.tolist()]


def ask(ledger: Ledger, round: int, ids: Ids) -> int:
    return ledger.ask(round, ids, *keys(ids), "uncertain", "uncertainty")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with open_ledger(tmp_path / "ledger.sqlite", TASK) as opened:
        yield opened


def test_sqlite_keeps_the_promises(tmp_path: Path) -> None:
    check_ledger(lambda task: open_ledger(tmp_path / "ledger.sqlite", task))


@pytest.mark.slow
def test_postgresql_keeps_the_promises(postgres_place: Callable[[], str]) -> None:
    place = postgres_place()
    check_ledger(lambda task: open_ledger(place, task))


def test_one_round_from_question_to_label(ledger: Ledger) -> None:
    ids = pair_ids([0, 0, 2], [5, 1, 3])
    assert ask(ledger, 1, ids) == 3
    assert ledger.open_questions(1).tolist() == ids.tolist()
    ledger.answer([Answer(int(ids[0]), 1), Answer(int(ids[1]), 0)], who="truth", source="truth")
    found, labels = ledger.labels()
    assert found.tolist() == pair_ids([0, 0], [1, 5]).tolist()  # sorted: (0,1) before (0,5)
    assert labels.tolist() == [False, True]
    (count,) = ledger.counts()
    assert (count.round, count.asked, count.answered, count.positives, count.open) == (1, 3, 2, 1, 1)
    asked = ledger.questions()
    assert (asked.left_keys[2], asked.right_keys[2], asked.why[2]) == ("q2", "s3", "uncertain")


def test_labels_as_they_were_when_an_earlier_round_was_trained(ledger: Ledger) -> None:
    for round, row in ((1, 0), (2, 1)):
        ids = pair_ids([row, row], [8, 9])
        ask(ledger, round, ids)
        ledger.answer([Answer(int(id), 1) for id in ids], who="truth", source="truth")
    assert len(ledger.labels()[0]) == 4
    assert ledger.labels(through=1)[0].tolist() == pair_ids([0, 0], [8, 9]).tolist()
    assert ledger.asked(through=1).tolist() == pair_ids([0, 0], [8, 9]).tolist()


def test_an_answer_remembers_the_round_it_came_in(ledger: Ledger) -> None:
    early, late = pair_ids([0], [1]), pair_ids([0], [2])
    ask(ledger, 1, early)
    ask(ledger, 2, late)
    ledger.answer([Answer(int(early[0]), 1)], who="ann", source="page")  # round 1's question, during round 2
    assert ledger.answers().rounds.tolist() == [2]
    assert ledger.questions().rounds.tolist() == [1, 2]


event = st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.sampled_from([1, 0, None, "withdraw"]))


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(event, max_size=25))
def test_the_current_label_is_the_majority_of_everybodys_latest(
    tmp_path: Path, events: list[tuple[str, int, int | str | None]]
) -> None:
    ids = pair_ids([0, 0, 0], [1, 2, 3])
    says: dict[tuple[str, int], int | str | None] = {}
    with open_ledger(tmp_path / f"{uuid.uuid4().hex}.sqlite", TASK) as ledger:
        ask(ledger, 1, ids)
        for who, row, label in events:
            if label == "withdraw":
                if (who, row) not in says:
                    continue
                ledger.withdraw(ids[[row]], who, "page")
                del says[who, row]
            else:
                assert not isinstance(label, str)
                ledger.answer([Answer(int(ids[row]), label)], who, "page")
                says[who, row] = label
        expected, waiting = {}, []
        for row, id in enumerate(ids.tolist()):
            votes = Counter(label for (_, of), label in says.items() if of == row)
            if votes[1] != votes[0]:
                expected[id] = votes[1] > votes[0]
            elif votes[1] or not votes[None]:
                waiting.append(id)
        found, labels = ledger.labels()
        assert dict(zip(found.tolist(), labels.tolist())) == expected
        assert ledger.open_questions().tolist() == waiting


def test_refusals_say_what_and_what_next(ledger: Ledger) -> None:
    ids = pair_ids([0, 0], [1, 2])
    ask(ledger, 1, ids)
    with pytest.raises(
        LedgerError, match=r"round 1 \(train\) was asked already, about 2 pairs, of which 1 are"
    ):
        ask(ledger, 1, pair_ids([0, 0, 0], [2, 3, 4]))
    with pytest.raises(LedgerError, match=rf"1 pairs that were asked before, the first {ids[1]}"):
        ask(ledger, 2, pair_ids([0, 0], [2, 3]))
    with pytest.raises(LedgerError, match="2 ids with 1 left keys"):
        ledger.ask(2, pair_ids([0, 0], [3, 4]), ["a"], ["b", "c"], "w", "s")
    with pytest.raises(LedgerError, match="no pairs to ask about"):
        ask(ledger, 2, ids[:0])
    with pytest.raises(LedgerError, match=r"1 of 2 answers are to pairs never asked.*None was written"):
        ledger.answer([Answer(int(ids[0]), 1), Answer(99, 1)], who="ann", source="page")
    with pytest.raises(LedgerError, match="twice in one batch"):
        ledger.answer([Answer(int(ids[0]), 1), Answer(int(ids[0]), 0)], who="ann", source="page")
    with pytest.raises(LedgerError, match=r"the label 0\.5"):
        ledger.answer([Answer(int(ids[0]), 0.5)], who="ann", source="page")  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="inclusion_probability"):
        ledger.ask(2, pair_ids([5], [6]), ["a"], ["b"], "w", "s", np.array([1.5]))
    assert len(ledger.answers()) == 0 and len(ledger.questions()) == 2


def test_the_ledger_of_another_task_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    open_ledger(path, TASK).close()
    with pytest.raises(
        LedgerError, match=r"belongs to the task f00d, the campaign's task is beef\. Use the task"
    ):
        open_ledger(path, "beef")


def test_a_newer_schema_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    open_ledger(path, TASK).close()
    with sqlite3.connect(path) as raw:
        raw.execute("INSERT INTO meta VALUES (99, 'id', 'f00d', '', '', 'tomorrow')")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=rf"version 99, this pairsieve reads {VERSION}\. Upgrade pairsieve"):
        open_ledger(path, TASK)
    assert path.read_bytes() == before


def test_an_older_schema_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE meta (schema_version INTEGER, task_fingerprint TEXT, applied_at TEXT)")
        raw.execute("INSERT INTO meta VALUES (1, 'f00d', 'long ago')")
    raw.close()
    with pytest.raises(
        LedgerError, match=r"version 1, .* Export its events with the pairsieve that wrote it"
    ):
        open_ledger(path, TASK)
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT name FROM sqlite_master").fetchall() == [("meta",)]
    raw.close()


def test_a_schema_that_cannot_be_created_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.sqlite"

    def broken(connection: sa.Connection) -> None:
        create_schema(connection)
        connection.exec_driver_sql("CREATE TABLE answers (twice TEXT)")

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "create_schema", broken)
        with pytest.raises(LedgerError, match="answers already exists"):
            open_ledger(path, TASK)
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    raw.close()
    open_ledger(path, TASK).close()


def test_files_that_are_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(
        "these are notes, not a database, and long enough to have a header " * 9
    )
    with pytest.raises(LedgerError, match=r"notes.txt: the database refused: file is not a database"):
        open_ledger(tmp_path / "notes.txt", TASK)
    with pytest.raises(LedgerError, match="check that the folder exists"):
        open_ledger(tmp_path / "nowhere" / "ledger.sqlite", TASK)


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_ledger(f"sqlite:///{tmp_path / 'by-url.sqlite'}", TASK) as ledger:
        assert ledger.rounds() == []
    with pytest.raises(LedgerError, match=r"mysql\. Supported: sqlite, postgresql"):
        open_ledger("mysql://somewhere/else", TASK)
    with pytest.raises(LedgerError, match="cannot be understood"):
        open_ledger("://", TASK)
    monkeypatch.setitem(sys.modules, "psycopg", None)  # as if it were not installed
    with pytest.raises(MissingExtra, match="pip install 'psycopg"):
        open_ledger("postgresql://user:secret@host/labels", TASK)


def test_equal_histories_have_equal_digests_whatever_the_clock_says(tmp_path: Path) -> None:
    digests = []
    for year in (2001, 2002):
        clock = datetime(year, 1, 2, 3, 4, 5, tzinfo=UTC)
        with open_ledger(tmp_path / f"{year}.sqlite", TASK, clock=lambda clock=clock: clock) as ledger:  # type: ignore[misc]
            ask(ledger, 1, pair_ids([0, 0], [1, 2]))
            ledger.answer([Answer(1, 1)], who="truth", source="truth")
            assert ledger.questions().asked_at[0] == f"{year}-01-02T03:04:05.000000+00:00"
            digests.append(ledger.digest())
            ledger.answer([Answer(2, 1)], who="truth", source="truth")
            assert ledger.digest() != digests[-1]
    assert digests[0] == digests[1]


@pytest.mark.slow
def test_many_at_once_stay_in_order(ledger: Ledger) -> None:
    # more than the 500 that are looked up one by one
    ids = np.random.default_rng(0).permutation(20_000).astype(np.int64)
    ask(ledger, 1, ids)
    ledger.answer([Answer(id, id % 2) for id in ids.tolist()], who="truth", source="truth")
    assert ledger.questions().ids.tolist() == ids.tolist()
    found, labels = ledger.labels()
    assert np.array_equal(found, np.arange(20_000)) and np.array_equal(labels, found % 2 == 1)


def test_several_people_answer_at_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with open_ledger(path, TASK) as ledger:
        ask(ledger, 1, np.arange(40, dtype=np.int64))
    failures: list[Exception] = []

    def person(name: str) -> None:
        try:
            with open_ledger(path, TASK) as own:
                for id in range(40):
                    own.answer([Answer(id, id % 2)], who=name, source="page")
        except Exception as error:
            failures.append(error)

    people = [threading.Thread(target=person, args=(name,)) for name in ("ann", "bob", "eve")]
    for each in people:
        each.start()
    for each in people:
        each.join()
    assert failures == []
    with open_ledger(path, TASK) as ledger:
        assert Counter(ledger.answers().who) == {"ann": 40, "bob": 40, "eve": 40}
        assert ledger.labels()[1].sum() == 20


LABELLER = """
import sys
import numpy as np
from pairsieve.contracts import Answer
from pairsieve.ledger import open_ledger

ledger = open_ledger(sys.argv[1], "f00d")
while True:
    waiting = ledger.open_questions()
    if not len(waiting):
        round = max(ledger.rounds(), default=0) + 1
        waiting = np.arange(50, dtype=np.int64) + round * 50
        keys = [str(id) for id in waiting]
        ledger.ask(round, waiting, keys, keys, "next", "loop")
        print("asked", round, flush=True)
    else:
        round = int(waiting[0]) // 50
    ledger.answer([Answer(int(id), int(id) % 2) for id in waiting], "loop", "truth")
    print("answered", round, flush=True)
"""


@pytest.mark.slow
def test_kill_9_loses_nothing_acknowledged_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    rng = np.random.default_rng(0)
    acknowledged: set[tuple[str, int]] = set()
    for _ in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", LABELLER, str(path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline()]  # it is at work: kill it somewhere in what follows
            time.sleep(float(rng.uniform(0, 0.15)))
            process.kill()
            lines += process.stdout.readlines()
        acknowledged |= {(line.split()[0], int(line.split()[1])) for line in lines if line.endswith("\n")}
        with open_ledger(path, TASK) as ledger:
            counts = {count.round: count for count in ledger.counts()}
            events = Counter(ledger.answers().ids.tolist())
        assert all(count.asked == 50 for count in counts.values())  # whole rounds only
        assert all(count.labelled in (0, 50) for count in counts.values())  # whole batches of answers only
        assert set(events.values()) == {1}  # and each answer once
        for what, round in acknowledged:
            assert round in counts, f"{what} {round} was acknowledged and is gone"
            assert what == "asked" or counts[round].labelled == 50
    assert len(acknowledged) >= 6

"""Eight people, many clicks, kills with -9: every acknowledged answer is in the ledger once.

2,000 clicks and 4 kills by default; PAIRSIEVE_CLICKS=10000 PAIRSIEVE_KILLS=10 for the whole story.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ledger_crew import PAIRS, pair_of
from pairsieve.ledger import open_ledger

pytest_plugins = ("postgres",)
pytestmark = pytest.mark.slow
PEOPLE = 8
CLICKS = int(os.environ.get("PAIRSIEVE_CLICKS", "2000")) // PEOPLE
KILLS = int(os.environ.get("PAIRSIEVE_KILLS", "4"))


@pytest.mark.xdist_group("ledger-stress")
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_kills_lose_and_double_nothing(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    place = str(tmp_path / "ledger.sqlite")
    if database == "postgresql":
        fresh: Callable[[], str] = request.getfixturevalue("postgres_place")
        place = fresh()
    notes = tmp_path / "notes"
    notes.mkdir()
    crew = Path(__file__).parents[1] / "helpers" / "ledger_crew.py"
    told = subprocess.run(
        [sys.executable, crew, place, notes, *map(str, (PEOPLE, CLICKS, KILLS))],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.splitlines()
    lives = [json.loads(line) for line in told]
    killed = sum(code == 9 for life in lives for code in life["codes"])
    assert len(lives) == KILLS + 1 and killed >= KILLS * PEOPLE // 2
    assert lives[0]["noted"] < lives[KILLS // 2]["noted"] < PEOPLE * CLICKS  # they died at work
    assert lives[-1]["codes"] == [0] * PEOPLE

    clicks = {f"person{p}-{n}" for p in range(PEOPLE) for n in range(CLICKS)}
    acknowledged = [line for file in notes.iterdir() for line in file.read_text().split()]
    with open_ledger(place, "stress") as ledger:
        events = ledger.answers()
        assert Counter(events.tokens) == Counter(clicks)  # each once, none lost, none doubled
        assert set(acknowledged) == clicks
        for person in range(PEOPLE):  # and in the order in which its person made them
            mine = [t for t, who in zip(events.tokens, events.who) if who == f"person{person}"]
            assert mine == [f"person{person}-{n}" for n in range(CLICKS)]
        report = ledger.verify()
        assert report.ok, report.as_json()
        assert (report.questions, report.answers) == (PAIRS, PEOPLE * CLICKS)
        assert pair_of("person0", CLICKS - 2) not in ledger.answers_by_person()["person0"]  # the last undo
        assert np.array_equal(ledger.asked(), np.arange(PAIRS))

"""A crew of people who click, in processes that get killed: run by test_ledger_stress.py, not by pytest.

    python ledger_crew.py PLACE FOLDER PEOPLE CLICKS KILLS

Person p makes CLICKS clicks in a fixed order, each with its own token, sends up to three at a time, and
notes a token in FOLDER/p once the ledger has acknowledged it. All processes are killed with -9 KILLS times;
the next ones begin with the first click that nobody has noted, which may be in the ledger already. Prints
one JSON line after each life.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from pairsieve.contracts import Answer
from pairsieve.ledger import Ledger, open_ledger

PAIRS = 400
LABELS = (1, 0, None)


def send(ledger: Ledger, person: str, numbers: range) -> None:
    """Send the clicks with these numbers as the page does: answers that queued up together, or one undo."""
    tokens = [f"{person}-{number}" for number in numbers]
    if is_undo(numbers[0]):
        ledger.withdraw(np.array([pair_of(person, numbers[0] - 1)]), person, "page", tokens)
    else:
        given = [Answer(pair_of(person, n), random.Random(f"{person} {n}").choice(LABELS)) for n in numbers]
        ledger.answer(given, person, "page", tokens)


def is_undo(number: int) -> bool:
    """Nine answers, then an undo of the ninth, then nine answers …"""
    return number % 10 == 9


def pair_of(person: str, number: int) -> int:
    return (int(person.removeprefix("person")) * 29 + number * 13) % PAIRS


def work(place: str, notes: Path, person: str, clicks: int) -> None:
    at = len(notes.read_bytes().split()) if notes.exists() else 0
    notebook = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with open_ledger(place, "stress") as ledger:
        while at < clicks:
            end = at + 1 if is_undo(at) else min(at + 3, at - at % 10 + 9, clicks)
            send(ledger, person, range(at, end))
            os.write(notebook, "".join(f"{person}-{number}\n" for number in range(at, end)).encode())
            at = end


def main(place: str, folder: Path, people: int, clicks: int, kills: int) -> None:
    names = [f"person{number}" for number in range(people)]
    with open_ledger(place, "stress") as ledger:
        ids = np.arange(PAIRS, dtype=np.int64)
        keys = [f"k{id}" for id in ids]
        ledger.ask(1, ids, keys, keys, "stress", "stress")
    rng = random.Random(0)
    for life in range(kills + 1):
        children = []
        before = noted(folder, names)
        for name in names:
            pid = os.fork()
            if pid == 0:
                work(place, folder / name, name, clicks)
                os._exit(0)
            children.append(pid)
        if life < kills:  # let them do about a twelfth of the clicks, then kill them in the middle of it
            goal = min(before + people * clicks // (kills + 2), people * clicks - people)
            while noted(folder, names) < goal:
                time.sleep(0.05)
            time.sleep(rng.uniform(0, 0.02))
            for pid in children:
                os.kill(pid, signal.SIGKILL)
        codes = [os.waitpid(pid, 0)[1] for pid in children]
        print(json.dumps({"life": life, "noted": noted(folder, names), "codes": codes}), flush=True)


def noted(folder: Path, names: list[str]) -> int:
    return sum((folder / name).read_bytes().count(b"\n") for name in names if (folder / name).exists())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:6]))

"""What the tests of `pairsieve evaluate` share: the command in this process, and tasks made by hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pairsieve import cli
from pairsieve.pairs import AllPairs, PairSpace, pair_rows
from pairsieve.tasks import Collection, Task, save_task
from pairsieve.tasks.task import one_collection, two_collections

NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Said:
    """What one command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        assert self.code == 0, self.err
        found: dict[str, Any] = json.loads(self.out)
        return found


Pairsieve = Callable[..., Said]


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pairsieve:
    """`pairsieve` with words for arguments, run in this process."""

    def run(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["pairsieve", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        printed = capsys.readouterr()
        return Said(int(stopped.value.code or 0), printed.out, printed.err)

    return run


def texts(count: int, side: str = "text") -> Collection:
    return Collection([str(i) for i in range(count)], [f"{side} {i}" for i in range(count)])


def write_task(folder: Path, space: PairSpace, positives: Any, negatives: Any = NONE) -> Path:
    """A task with the split `test`, and two that cannot be measured: `bare` (no positives) and `open`."""
    known = {
        "test": (np.sort(positives), np.sort(negatives), True),
        "bare": (NONE, NONE, True),
        "open": (np.sort(positives), NONE, False),
    }
    if isinstance(space, AllPairs):
        one = texts(space.texts)
        splits = {name: one_collection(name, one, *given) for name, given in known.items()}
    else:
        two = texts(space.left, "left"), texts(space.right, "right")
        splits = {name: two_collections(name, *two, *given) for name, given in known.items()}
    save_task(Task("made", "equivalence" if space.symmetric else "directed", splits, {}, {}), folder)
    return folder


def write_scores(path: Path, ids: Any, scores: Any, **more: Any) -> Path:
    left, right = pair_rows(np.asarray(ids))
    pq.write_table(pa.table({"left": left, "right": right, "score": scores, **more}), path)
    return path

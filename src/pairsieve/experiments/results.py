"""Where are results kept, and what is one? Rows in long format, one figure each, in small Parquet files.

A file is named `EXPERIMENT.TASK.ENCODER.parquet`. Tables and pages are made from these files alone. Where
two files hold the same figure, the one made later counts.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pairsieve.errors import InputError

SCHEMA = {str: "string", int: "int64", float: "float64"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure: where it belongs, what it is, what it rests on, and where it came from."""

    experiment: str
    task: str
    task_fingerprint: str
    encoder: str
    encoder_fingerprint: str
    model: str  # "data", "untrained", "cosine", "concat" or "manual"
    learner: str  # how it was trained: "full", "projection", "cross"; empty for none
    recipe: str
    strategy: str
    seed_set: str
    schedule: str  # first batch x growth x rounds
    seed: int
    round: int  # 0 before any label
    labels: int  # bought up to that round
    split: str
    measure: str
    counting: str  # "distinct", or "mirrored" as the paper's released code counts
    value: float
    low: float
    high: float
    n: int  # pairs or labels that it rests on
    method: str
    device: str
    made_at: str  # UTC, ISO 8601
    source: str  # the command that made it

    @property
    def cell(self) -> tuple[Any, ...]:
        """What was run, for whichever experiment; a run on altered data takes the older one's place."""
        ran = (self.model, self.learner, self.recipe, self.strategy, self.seed_set, self.schedule, self.seed)
        return (self.task, self.encoder, *ran)

    @property
    def figure(self) -> tuple[Any, ...]:
        """What was measured of it."""
        return (*self.cell, self.round, self.split, self.measure, self.counting)


NAMES = tuple(each.name for each in fields(Row))
_TYPES = {"seed": int, "round": int, "labels": int, "n": int, "value": float, "low": float, "high": float}


def file_for(folder: Path, experiment: str, task: str, encoder: str) -> Path:
    """Where the rows of one experiment on one task with one encoder stand."""
    plain = ["".join(c if c.isalnum() or c in "-_" else "_" for c in word) for word in (task, encoder)]
    return folder / f"{experiment}.{plain[0]}.{plain[1]}.parquet"


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write a file whole or not at all, in a fixed order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    ordered = sorted(rows, key=lambda row: tuple(map(str, row.figure)))
    schema = pa.schema([(name, SCHEMA[_TYPES.get(name, str)]) for name in NAMES])
    columns = {name: [getattr(row, name) for row in ordered] for name in NAMES}
    table = pa.table(columns, schema=schema)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}")
    try:
        pq.write_table(table, beside, compression="zstd")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def add_rows(path: Path, rows: Sequence[Row]) -> None:
    """Put finished cells into a file; the same cells' older rows there go."""
    cells = {row.cell for row in rows}
    old = [row for row in read_file(path) if row.cell not in cells] if path.exists() else []
    write_rows(path, [*old, *rows])


def read_file(path: Path) -> list[Row]:
    """The rows of one file, checked for their columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            "these results cannot be read", where=str(path), why=str(error), remedy="Run the experiment again"
        ) from error
    if tuple(table.column_names) != NAMES:
        odd = sorted(set(table.column_names) ^ set(NAMES))
        raise InputError(
            "these are no results of an experiment",
            where=str(path),
            why=f"columns that differ: {', '.join(odd) or 'their order'}",
            remedy="Move the file away, or run the experiment again",
        )
    return [Row(**row) for row in table.to_pylist()]


def read_results(folder: Path) -> list[Row]:
    """Every row of the files in `folder`; cells that experiments share are there once for each."""
    return [row for path in sorted(folder.glob("*.parquet")) for row in read_file(path)]


def latest(rows: Iterable[Row]) -> list[Row]:
    """Each figure once: the one made last; of equals, the one read last."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        held = found.get(row.figure)
        if held is None or held.made_at <= row.made_at:
            found[row.figure] = row
    return list(found.values())

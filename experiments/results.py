"""Storage of results: rows in long format, one figure each, in small Parquet files.

A file is named `EXPERIMENT.TASK.ENCODER.parquet`. Tables and the page are made from these files alone.
Where two files hold the same figure, the later one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pairsieve.errors import InputError
from pairsieve.tables import write_table

SCHEMA = {str: "string", int: "int64", float: "float64"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure: the run, the round and split, the measure, its value and interval, and its source."""

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
    n: int  # pairs or labels that it is computed from
    method: str
    device: str
    made_at: str  # UTC, ISO 8601
    source: str  # the command

    @property
    def run_key(self) -> tuple[Any, ...]:
        """Identity of the run, whichever experiment it is for; on altered data it replaces the older one."""
        run = (self.model, self.learner, self.recipe, self.strategy, self.seed_set, self.schedule, self.seed)
        return (self.task, self.encoder, *run)

    @property
    def figure_key(self) -> tuple[Any, ...]:
        """Identity of the figure: the run, round, split, measure and counting."""
        return (*self.run_key, self.round, self.split, self.measure, self.counting)


NAMES = tuple(each.name for each in fields(Row))
_TYPES = {"seed": int, "round": int, "labels": int, "n": int, "value": float, "low": float, "high": float}


def file_for(folder: Path, experiment: str, task: str, encoder: str) -> Path:
    """Where the rows of one experiment on one task with one encoder stand."""
    plain = ["".join(c if c.isalnum() or c in "-_" else "_" for c in word) for word in (task, encoder)]
    return folder / f"{experiment}.{plain[0]}.{plain[1]}.parquet"


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write a file whole or not at all, in a fixed order."""
    ordered = sorted(rows, key=lambda row: tuple(map(str, row.figure_key)))
    types = {name: SCHEMA[_TYPES.get(name, str)] for name in NAMES}
    columns = {name: [getattr(row, name) for row in ordered] for name in NAMES}
    write_table(path, types, columns)


def add_rows(path: Path, rows: Sequence[Row]) -> None:
    """Add finished runs to a file; older rows of the same runs are removed."""
    runs = {row.run_key for row in rows}
    old = [row for row in read_file(path) if row.run_key not in runs] if path.exists() else []
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
    """Every row of the files in `folder`; runs that experiments share are in it once for each."""
    return [row for path in sorted(folder.glob("*.parquet")) for row in read_file(path)]


def latest(rows: Iterable[Row]) -> list[Row]:
    """Each figure once: the latest; of equals, the one read last."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        held = found.get(row.figure_key)
        if held is None or held.made_at <= row.made_at:
            found[row.figure_key] = row
    return list(found.values())

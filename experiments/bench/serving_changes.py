"""Memory and disk of the matching service's index under additions and removals, and the time of a restart.

    python -m experiments.bench.serving_changes [--operations 1000000] [--held 1000] [--additions 100000]

Texts with random rows of 384 numbers are added and removed again, 256 changes at a time, as the service does
it (record on disk, then index), with about `held` texts held at any time. Then `additions` texts are added
and the index is opened again from the record. Exit status 1 if memory grew by more than a tenth after the
first tenth.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pairsieve.serving.held import HeldTexts
from pairsieve.serving.index import Index
from pairsieve.serving.record import FILE, Change, Record

DIMENSION = 384
AT_ONCE = 256


def resident() -> int:
    """Resident MiB of this process."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024


def unit_rows(rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    rows = rng.standard_normal((count, DIMENSION)).astype(np.float32)
    unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def empty_index() -> Index:
    return Index(HeldTexts([], [], np.empty((0, DIMENSION), np.float32)))


def changes_bench(folder: Path, operations: int, held: int) -> tuple[int, int]:
    """Add and remove; returns the MiB after a tenth and after all."""
    rng, record, index = np.random.default_rng(0), Record(folder), empty_index()
    number, oldest, done, first = 0, 0, 0, 0
    while done < operations:
        rows = unit_rows(rng, AT_ONCE // 2)
        batch = [
            Change(f"key-{number + at}", f"text {number + at} " * 8, row, "m") for at, row in enumerate(rows)
        ]
        number += len(batch)
        while number - oldest > held:
            batch.append(Change(f"key-{oldest}", None, forget=True))
            oldest += 1
        record.write(batch)
        index.apply(batch)
        before, done = done, done + len(batch)
        if before < operations // 10 <= done:
            first = resident()
    print(
        f"{done:,} changes, {len(index):,} texts held: {first} MiB after a tenth, {resident()} MiB after all"
    )
    print(f"  on disk {(folder / FILE).stat().st_size / 2**20:.1f} MiB with {len(record.keys()):,} keys")
    record.close()
    return first, resident()


def restart_bench(folder: Path, additions: int) -> None:
    rng, record = np.random.default_rng(1), Record(folder)
    for first in range(0, additions, 10_000):
        rows = unit_rows(rng, min(10_000, additions - first))
        record.write(
            Change(f"key-{first + at}", f"text {first + at}", row, "m") for at, row in enumerate(rows)
        )
    record.close()
    began = time.perf_counter()
    again, index = Record(folder), empty_index()
    index.apply(again.read())
    print(f"restart with {len(index):,} additions: {time.perf_counter() - began:.1f} s, {resident()} MiB")
    again.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--held", type=int, default=1000)
    parser.add_argument("--additions", type=int, default=100_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        first, last = changes_bench(Path(folder) / "changes", given.operations, given.held)
        restart_bench(Path(folder) / "restart", given.additions)
    return int(last > 1.1 * first)


if __name__ == "__main__":
    raise SystemExit(main())

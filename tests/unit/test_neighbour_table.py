"""Lists of nearest neighbours under random changes, against lists made from nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from pairsieve.pairs import CrossPairs
from pairsieve.scan import open_scan
from pairsieve.serving.held import Matrix, NeighbourTable
from pairsieve.serving.of_sources import NO_SOURCE, space_of


def directions(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Unit rows of few dimensions on a coarse grid, so that many cosines are equal."""
    made = rng.integers(-2, 3, (rows, 3)).astype(np.float64)
    made[~made.any(axis=1), 0] = 1
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def check(table: NeighbourTable, a: Matrix, b: Matrix) -> None:
    """The first `count` of each list are those of a brute-force pass; all that is listed is right."""
    unit = [side.rows / np.linalg.norm(side.rows.astype(np.float64), axis=1)[:, None] for side in (a, b)]
    every = np.round(unit[0] @ unit[1].T, 8)  # rounded: equal on paper is equal here
    every[:, ~b.alive] = -np.inf
    if table.same:
        np.fill_diagonal(every, -np.inf)
        for one in range(len(every)):
            for other in range(len(every)):
                if a.sources[one] == a.sources[other] != NO_SOURCE:
                    every[one, other] = -np.inf
    for row in np.flatnonzero(a.alive):
        listed = int((table.columns[row] >= 0).sum())
        assert listed >= min(table.count, np.isfinite(every[row]).sum())
        best = np.argsort(-every[row], kind="stable")[:listed]  # ties by smaller row
        assert table.columns[row, :listed].tolist() == best.tolist()
        assert table.cosines[row, :listed] == pytest.approx(every[row, best], abs=1e-7)


@settings(max_examples=examples(150))
@given(
    seed=st.integers(0, 10_000),
    count=st.sampled_from([1, 2, 10]),
    same=st.booleans(),
    sources=st.sampled_from([0, 1, 2, 5]),
)
def test_lists_are_right_after_any_changes(seed: int, count: int, same: bool, sources: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(NO_SOURCE, sources, 60) if sources else np.full(60, NO_SOURCE)
    sizes = [int(rng.integers(0, 30)) for _ in range(2)]
    sides = [directions(rng, 60) for _ in range(2)]
    alive = [np.zeros(60, bool) for _ in range(2)]
    used = [0, 0]
    table = NeighbourTable(count, same)
    for step in range(8):
        changed = []
        for side in range(2):
            size = sizes[side] if step == 0 else int(rng.integers(0, 4))
            new = np.arange(used[side], min(60, used[side] + size))
            used[side] += len(new)
            there = np.flatnonzero(alive[side])
            gone = rng.choice(there, min(len(there), int(rng.integers(0, 4))), replace=False)
            alive[side][new], alive[side][gone] = True, False
            moved = rng.choice(there, min(len(there), int(rng.integers(0, 3))), replace=False)
            sides[side][moved] = directions(rng, len(moved))
            changed.append(np.unique(np.concatenate([new, gone, moved])))
        first = 1 if same else 0
        a, b = (
            Matrix(sides[at][: used[at]], alive[at][: used[at]], numbers[: used[at]]) for at in (first, 1)
        )
        table.update(a, b, changed[first], changed[1])
        check(table, a, b)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("sources", [1, 3])
def test_lists_of_a_scan_are_taken_and_updated(same: bool, sources: int) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(NO_SOURCE, sources, 50)
    left, right = directions(rng, 50), directions(rng, 40)
    alive = [np.ones(50, bool), np.ones(40, bool)]
    space = space_of(numbers) if same else CrossPairs(50, 40)
    table = NeighbourTable(3, same)
    scan = open_scan(space, left, None if same else right, device="cpu")
    a = Matrix(left, alive[0], numbers)
    b = a if same else Matrix(right, alive[1], numbers[:40])
    table.fill(*scan.neighbours(table.width), a, b)
    check(table, a, b)
    b.alive[:5] = False
    table.update(a, b, np.arange(5) if same else np.empty(0, np.int64), np.arange(5))
    check(table, a, b)

"""A text leans on its nearest: two ways to say a thing, taken together, say it better."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairsieve.pairs import AllPairs, CrossPairs
from pairsieve.scan import open_scan
from pairsieve.search.leaning import leans, nearest


def turned(degrees: list[float]) -> np.ndarray:
    """Unit rows in the plane: the cosine of two is the cosine of the angle between them."""
    angle = np.deg2rad(degrees)
    return np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32)


def angles(rows: np.ndarray) -> np.ndarray:
    return np.rad2deg(np.arctan2(rows[:, 1], rows[:, 0]))


def test_how_much_by_hand() -> None:
    # The lowest of eleven is the tenth part: it leans on nobody, and who has a twin leans on it fully.
    cosines = np.linspace(0.5, 1.0, 11).astype(np.float32)  # 0.5, 0.55, ..., 1
    (told,) = leans(AllPairs(11), [(np.arange(11)[::-1], cosines)], 1.0)
    alone = 0.55  # the 10 % quantile of eleven values is the second one
    assert told.by == pytest.approx(np.maximum(0, (cosines - alone) / (1 - alone)), abs=1e-6)
    assert told.by[[0, 1, 10]] == pytest.approx([0, 0, 1], abs=1e-6)
    (half,) = leans(AllPairs(11), [(np.arange(11)[::-1], cosines)], 0.5)
    assert half.by == pytest.approx(told.by / 2)


def test_twins_move_towards_each_other_and_who_stands_alone_stays() -> None:
    rows = turned([0, 10, 90])
    space = AllPairs(3)
    near = nearest(open_scan, space, rows, None)
    assert near[0][0].tolist() == [1, 0, 1]
    (told,) = leans(space, near, 1.0)
    made = angles(told.all_mixed(rows, rows))
    assert 0 < made[0] < made[1] < 10
    assert made[0] == pytest.approx(10 - made[1], abs=1e-4)  # each by as much
    assert made[2] == pytest.approx(90, abs=1e-4)


def test_a_third_way_to_say_it_is_pulled_along() -> None:
    # 0 and 6 degrees are each other's nearest; 14 leans on 6, so that it nears 0 as well.
    rows = turned([0, 6, 14, 60, 120, 200])
    space = AllPairs(6)
    (told,) = leans(space, nearest(open_scan, space, rows, None), 1.0)
    made = angles(told.all_mixed(rows, rows))
    assert made[2] - made[0] < 14 - 1


def test_between_two_collections_a_text_with_many_possible_partners_leans_more() -> None:
    left, right = turned([0]), turned([10, 40, 80])
    space = CrossPairs(1, 3)
    near = nearest(open_scan, space, left, right)
    assert [side[0].tolist() for side in near] == [[0], [0, 0, 0]]
    mine, yours = leans(space, near, 1.0)
    assert mine.by == pytest.approx([0.1 * 3 / 4])
    assert yours.by == pytest.approx([0.1 * 1 / 4] * 3)
    assert 0 < angles(mine.all_mixed(left, right))[0] < 1


def test_nobody_to_lean_on() -> None:
    lonely = turned([30])
    (told,) = leans(AllPairs(1), nearest(open_scan, AllPairs(1), lonely, None), 1.0)
    assert told.on.tolist() == [-1]
    assert told.all_mixed(lonely, lonely) == pytest.approx(lonely)
    none = np.empty((0, 2), np.float32)
    mine, yours = leans(CrossPairs(1, 0), nearest(open_scan, CrossPairs(1, 0), lonely, none), 1.0)
    assert mine.all_mixed(lonely, none) == pytest.approx(lonely)
    assert yours.all_mixed(none, lonely).shape == (0, 2)


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.floats(0, 2))
def test_rows_stay_unit_rows_and_equal_texts_stay_equal(seed: int, count: int, strength: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, 4)).astype(np.float32)
    rows[1] = rows[0]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    space = AllPairs(count)
    (told,) = leans(space, nearest(open_scan, space, rows, None), strength)
    made = told.all_mixed(rows, rows)
    assert np.linalg.norm(made, axis=1) == pytest.approx(1, abs=1e-5)
    assert float(made[0] @ made[1]) == pytest.approx(1, abs=1e-5)
    assert (told.by >= 0).all() and (told.by <= strength + 1e-6).all()

"""Neighbour smoothing: two ways to say a thing, taken together, say it better."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairsieve.pairs import AllPairs, CrossPairs, PairSpace
from pairsieve.scan import open_scan
from pairsieve.scorer import ExactNeighbours, make_corrections, smooth_rows
from pairsieve.scorer.corrections import similarity_floor, weights_by_nearness


def turned(degrees: list[float]) -> np.ndarray:
    """Unit rows in the plane: the cosine of two is the cosine of the angle between them."""
    angle = np.deg2rad(degrees)
    return np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32)


def angles(rows: np.ndarray) -> np.ndarray:
    return np.rad2deg(np.arctan2(rows[:, 1], rows[:, 0]))


def smoothed(space: PairSpace, left: np.ndarray, right: np.ndarray | None = None, strength: float = 1.0):
    """Rows of both sides, nearest and weights, with the floor of this very collection."""
    finder = ExactNeighbours(open_scan)
    floor = similarity_floor(finder.nearest(space, left, right)["cosine-0"])
    return smooth_rows(make_corrections(space, 0.0, strength, floor), space, (left, right), finder)


def test_how_much_by_hand() -> None:
    # The lowest of eleven is the tenth part: it is not smoothed, and who has a twin is, fully.
    cosines = np.linspace(0.5, 1.0, 11).astype(np.float32)  # 0.5, 0.55, ..., 1
    floor = similarity_floor(cosines)
    assert floor == pytest.approx(0.55)  # the 10 % quantile of eleven values is the second one
    weights = weights_by_nearness(cosines, floor, 1.0)
    assert weights == pytest.approx(np.maximum(0, (cosines - floor) / (1 - floor)), abs=1e-6)
    assert weights[[0, 1, 10]] == pytest.approx([0, 0, 1], abs=1e-6)
    assert weights_by_nearness(cosines, floor, 0.5) == pytest.approx(weights / 2)


def test_twins_move_towards_each_other_and_who_stands_alone_stays() -> None:
    rows, _, nearest, _ = smoothed(AllPairs(3), turned([0, 10, 90]))
    assert nearest[0].tolist() == [1, 0, 1]
    after = angles(rows)
    assert 0 < after[0] < after[1] < 10
    assert after[0] == pytest.approx(10 - after[1], abs=1e-4)  # each by as much
    assert after[2] == pytest.approx(90, abs=1e-4)


def test_a_third_way_to_say_it_is_pulled_along() -> None:
    # 0 and 6 degrees are each other's nearest; 14 is averaged with 6, so that it nears 0 as well.
    rows, *_ = smoothed(AllPairs(6), turned([0, 6, 14, 60, 120, 200]))
    after = angles(rows)
    assert after[2] - after[0] < 14 - 1


def test_the_floor_is_fixed_with_the_scorer_and_not_by_the_collection_it_is_applied_to() -> None:
    space, rows = AllPairs(3), turned([0, 10, 90])
    finder = ExactNeighbours(open_scan)
    strict = make_corrections(space, 0.0, 1.0, floor=0.999)
    assert angles(smooth_rows(strict, space, (rows, None), finder)[0]) == pytest.approx([0, 10, 90], abs=1e-4)


def test_between_two_collections_a_text_with_many_possible_partners_is_smoothed_more() -> None:
    left, _, nearest, weights = smoothed(CrossPairs(1, 3), turned([0]), turned([10, 40, 80]))
    assert [side.tolist() for side in nearest] == [[0], [0, 0, 0]]
    assert weights[0] == pytest.approx([0.1 * 3 / 4])
    assert weights[1] == pytest.approx([0.1 * 1 / 4] * 3)
    assert 0 < angles(left)[0] < 1


def test_no_neighbour() -> None:
    lonely = turned([30])
    rows, _, nearest, _ = smoothed(AllPairs(1), lonely)
    assert nearest[0].tolist() == [-1]
    assert rows == pytest.approx(lonely)
    left, right, *_ = smoothed(CrossPairs(1, 0), lonely, np.empty((0, 2), np.float32))
    assert left == pytest.approx(lonely)
    assert right.shape == (0, 2)


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.floats(0.01, 2))
def test_rows_stay_unit_rows_and_equal_texts_stay_equal(seed: int, count: int, strength: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, 4)).astype(np.float32)
    rows[1] = rows[0]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    after, _, _, weights = smoothed(AllPairs(count), rows, strength=strength)
    assert np.linalg.norm(after, axis=1) == pytest.approx(1, abs=1e-5)
    assert float(after[0] @ after[1]) == pytest.approx(1, abs=1e-5)
    assert (weights[0] >= 0).all() and (weights[0] <= strength + 1e-6).all()

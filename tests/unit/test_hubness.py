"""Hubness correction: a pair with near competitors needs a higher cosine than one without."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairsieve.errors import InputError
from pairsieve.pairs import AllPairs, CrossPairs, pair_rows
from pairsieve.scan import open_scan
from pairsieve.scorer import ExactNeighbours, make_corrections
from pairsieve.scorer.corrections import densities_from_lists, row_lengths
from pairsieve.search import ExactSearch


def densities(space, left, right):
    found = ExactNeighbours(open_scan).densities(space, left, right)
    return found["left"], found["right"]


def test_lengths_by_hand() -> None:
    # Densities of 1 and 1.44 (two collections), 0.81, and 0.5 or less: all alone.
    made = row_lengths(np.array([1.0, 1.44, 0.81, 0.5, 0.04, 0.0], np.float32), 0.5)
    assert made == pytest.approx([1.0, 1 / 1.2, 1 / 0.9, 2**0.5, 2**0.5, 2**0.5])
    assert row_lengths(np.array([0.9, 0.3], np.float32), 0.0) == pytest.approx([1.0, 1.0])


def test_the_side_with_more_possible_partners_counts_more() -> None:
    def exponents(space):
        return make_corrections(space, 0.3, 0.0).hubness

    assert exponents(AllPairs(50)) == (0.3, 0.3)
    assert exponents(CrossPairs(40, 40)) == pytest.approx((0.3, 0.3))
    assert exponents(CrossPairs(100, 900)) == pytest.approx((0.54, 0.06))  # 900 partners of a left text


def turned(degrees: list[float]) -> np.ndarray:
    """Unit rows in the plane: the cosine of two is the cosine of the angle between them."""
    angle = np.deg2rad(degrees)
    return np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32)


def test_a_lonely_pair_overtakes_a_crowded_one() -> None:
    # Texts 0, 1, 2 stand within 12 degrees; 3 and 4 stand alone, 14 degrees apart.
    rows = turned([0, 2, 12, 100, 114])
    space = AllPairs(5)
    near, same = densities(space, rows, None)
    assert (near == same).all()
    assert near == pytest.approx(np.cos(np.deg2rad([2, 2, 10, 14, 14])), abs=1e-6)
    stretched = rows * row_lengths(near, 0.3)[:, None]
    scan = open_scan(space, stretched, lengths=True)
    pairs = [space.ids([0], [2]), space.ids([3], [4])]
    crowded, alone = (float(scan.scores(pair)[0]) for pair in pairs)
    # cos 12° = 0.978 is above cos 14° = 0.970, but text 0 has a competitor at cos 2° = 0.999.
    assert alone > crowded
    assert alone == pytest.approx(np.cos(np.deg2rad(14)) ** 0.4, abs=1e-6)
    twins = turned([30, 30, 120])
    same, _ = densities(AllPairs(3), twins, None)
    scan = open_scan(AllPairs(3), twins * row_lengths(same, 0.3)[:, None], lengths=True)
    assert scan.scores(AllPairs(3).ids([0], [1]))[0] == pytest.approx(1.0, abs=1e-6)


def test_each_side_of_two_collections_has_its_own_two_competitors() -> None:
    left, right = turned([0, 90]), turned([10, 30, 85])
    near, far = densities(CrossPairs(2, 3), left, right)
    cosine = {angle: np.cos(np.deg2rad(angle)) for angle in (5, 10, 30, 60, 80, 85)}
    assert near == pytest.approx([cosine[10] + cosine[30], cosine[5] + cosine[60]], abs=1e-6)
    assert far == pytest.approx(
        [cosine[10] + cosine[80], cosine[30] + cosine[60], cosine[5] + cosine[85]], abs=1e-6
    )
    one, _ = densities(CrossPairs(2, 1), left, right[:1])  # no second partner: the first alone
    assert one == pytest.approx([cosine[10], cosine[80]], abs=1e-6)


def test_lists_of_an_index_tell_the_same_where_they_are_whole() -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((40, 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    space = AllPairs(40)
    listed = densities_from_lists(space, *open_scan(space, rows).neighbours(39))
    assert listed[0] == pytest.approx(densities(space, rows, None)[0], abs=1e-6)
    two = CrossPairs(15, 25)
    columns, cosines = open_scan(two, rows[:15], rows[15:]).neighbours(25)
    for found, exact in zip(
        densities_from_lists(two, columns, cosines), densities(two, rows[:15], rows[15:])
    ):
        assert found == pytest.approx(exact, abs=1e-6)
    nobody = densities_from_lists(two, np.full((15, 2), -1), np.full((15, 2), -np.inf, np.float32))
    assert not nobody[0].any() and not nobody[1].any()


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.3, 0.5]))
def test_selection_over_stretched_rows_equals_brute_force(seed: int, strength: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((30, 6))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    space = AllPairs(30)
    near, _ = densities(space, rows, None)
    stretched = rows * row_lengths(near, strength)[:, None]
    found = (
        ExactSearch(open_scan(space, stretched, lengths=True)).closest(0.3, 20, np.empty(0, np.int64)).pairs
    )
    every = space.unrank(np.arange(space.size))
    one, other = pair_rows(every)
    scores = np.einsum("ij,ij->i", stretched[one].astype(np.float64), stretched[other].astype(np.float64))
    away = np.sort(np.abs(scores - 0.3))
    mine = np.abs(scores[np.searchsorted(every, found.ids)] - 0.3)
    assert np.sort(mine) == pytest.approx(away[:20], abs=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(1, 30), st.floats(0.0, 0.5))
def test_no_pair_of_two_collections_scores_above_one(seed: int, n: int, m: int, strength: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n + m, 3)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    space = CrossPairs(n, m)
    near = densities(space, rows[:n], rows[n:])
    one, other = (
        side * row_lengths(crowd, power)[:, None]
        for side, crowd, power in zip(
            (rows[:n], rows[n:]), near, make_corrections(space, strength, 0.0).hubness
        )
    )
    assert (one @ other.T).max() <= 1 + 1e-5


def test_rows_longer_than_root_two_are_refused() -> None:
    with pytest.raises(InputError, match="length 2"):
        open_scan(AllPairs(2), np.array([[2.0, 0.0], [0.0, 1.0]], np.float32), lengths=True)

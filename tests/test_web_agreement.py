"""Krippendorff's alpha: numbers worked by hand, properties, and the interval around it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairsieve.web.agreement import agreement, alpha, vote_counts


def votes(*columns: tuple[int | None, ...]) -> list[dict[str, int | None]]:
    """Per pair, what persons 0, 1, … said; "." is nobody's answer."""
    return [{str(person): label for person, label in enumerate(column)} for column in columns]


def test_two_people_and_four_pairs_by_hand() -> None:
    # One disagreement among four pairs: observed 1·1/(2-1) = 1. Of 8 values 3 are matches and 5 are not.
    # alpha = 1 - (8 - 1) · 1 / (3 · 5) = 1 - 7/15 = 8/15.
    said = votes((1, 1), (1, 0), (0, 0), (0, 0))
    assert alpha(vote_counts(said)) == pytest.approx(8 / 15)


def test_ten_pairs_and_two_people_as_in_the_definition_with_a_coincidence_matrix() -> None:
    # Ten pairs, four disagreements; 6 of the 20 values are 1. The matrix of coincidences counts each
    # disagreement in both orders: o01 = o10 = 4, o11 = 2, o00 = 10. Expected: n1·n0/(n-1) = 6·14/19.
    # alpha = 1 - 4 / (84/19) = 1 - 76/84 = 2/21 = 0.095.
    first, second = (0, 1, 0, 0, 0, 0, 0, 0, 1, 0), (1, 1, 1, 0, 0, 1, 0, 0, 0, 0)
    assert alpha(vote_counts(votes(*zip(first, second)))) == pytest.approx(2 / 21)


def test_missing_values_and_more_than_two_people_by_hand() -> None:
    # Pair 1: 1 1 0 (three people): 2·1/(3-1) = 1. Pair 2: 0 0 and one unsure: 0. Pair 3: 1 alone: left out.
    # Pair 4: 1 1: 0. Values: matches 2 + 2 = 4, no matches 1 + 2 = 3, 7 in all.
    # alpha = 1 - (7 - 1) · 1 / (4 · 3) = 1/2.
    said = votes((1, 1, 0), (0, None, 0), (1,), (1, 1))
    assert vote_counts(said).tolist() == [[2, 1], [0, 2], [2, 0]]
    assert alpha(vote_counts(said)) == pytest.approx(0.5)


def test_it_says_nothing_where_nothing_could_disagree() -> None:
    assert agreement([]) is None
    assert agreement(votes((1, 1), (1, 1))) is None, "only matches: chance alone would agree as well"
    assert agreement(votes((1,), (0,))) is None, "nobody looked twice"


def test_the_interval_holds_the_value_and_is_the_same_every_time() -> None:
    said = votes(*[(1, 1)] * 20, *[(0, 0)] * 60, *[(1, 0)] * 10)
    found, again = agreement(said), agreement(said)
    assert found is not None and found == again and found.n == 90
    assert found.low < found.value < found.high < 1


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda c: sum(c) >= 2), min_size=1))
def test_alpha_is_symmetric_and_perfect_only_without_disagreement(rows: list[tuple[int, int]]) -> None:
    counts = np.array(rows, float)
    one, other = alpha(counts), alpha(counts[:, ::-1])
    if np.isnan(one):
        assert np.isnan(other)
        return
    assert one == pytest.approx(other)
    assert (one == pytest.approx(1)) == (not (counts.min(axis=1) > 0).any())

"""Pair spaces: one id per pair, exact up to a billion texts, uniform draws."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairsieve.errors import PoolExhausted
from pairsieve.pairs import AllPairs, CrossPairs, ScoredPairs, is_member, pair_ids, pair_rows

spaces = st.one_of(
    st.builds(AllPairs, st.integers(2, 40)), st.builds(CrossPairs, st.integers(1, 30), st.integers(1, 30))
)


def test_three_texts_have_three_pairs():
    space = AllPairs(3)
    assert space.size == 3
    ids = space.ids([1, 2, 2], [0, 0, 1])  # any order in, smaller row first out
    assert [tuple(map(int, pair)) for pair in zip(*pair_rows(ids))] == [(0, 1), (0, 2), (1, 2)]
    assert ids.tolist() == [1, 2, (1 << 32) | 2]


@given(spaces)
def test_ranks_number_the_pairs_in_the_order_of_their_ids(space):
    rows, columns = space.shape
    if space.symmetric:
        listed = list(itertools.combinations(range(rows), 2))
    else:
        listed = list(itertools.product(range(rows), range(columns)))
    ids = space.ids(*np.array(listed).T)
    assert space.size == len(listed)
    assert np.array_equal(space.ranks(ids), np.arange(space.size))
    assert np.array_equal(space.unrank(np.arange(space.size)), ids)
    assert np.array_equal(np.sort(ids), ids)
    assert space.contains(ids).all()


@given(st.integers(0, 2**32), st.sampled_from([AllPairs(10**9), CrossPairs(10**9, 10**9), AllPairs(2**31)]))
def test_a_billion_texts_round_trip(seed, space):
    rng = np.random.default_rng(seed)
    ids = space.sample(1000, rng)
    ends = np.array([0, 1, space.size - 2, space.size - 1])
    assert len(np.unique(ids)) == 1000
    assert space.contains(ids).all()
    assert np.array_equal(space.unrank(space.ranks(ids)), ids)
    assert np.array_equal(space.ranks(space.unrank(ends)), ends)


def test_what_is_no_pair_is_not_contained():
    space = AllPairs(5)
    assert space.contains(pair_ids([0, 1, 2, 0, -1], [4, 1, 1, 5, 3])).tolist() == [
        True,
        False,
        False,
        False,
        False,
    ]
    assert CrossPairs(2, 3).contains(pair_ids([0, 1, 2, 1], [0, 2, 0, 3])).tolist() == [
        True,
        True,
        False,
        False,
    ]


@given(spaces, st.integers(0, 2**32), st.data())
def test_samples_are_distinct_and_outside_what_was_asked(space, seed, data):
    rng = np.random.default_rng(seed)
    outside = space.unrank(np.flatnonzero(rng.random(space.size) < data.draw(st.sampled_from([0, 0.3, 0.9]))))
    count = data.draw(st.integers(0, space.size - len(outside)))
    drawn = space.sample(count, rng, outside)
    assert len(np.unique(drawn)) == count
    assert space.contains(drawn).all()
    assert not is_member(drawn, outside).any()


@pytest.mark.parametrize("count", [2, 6])  # a sparse draw and a dense one take different roads
def test_every_free_pair_is_equally_likely(count):
    space, rng = AllPairs(5), np.random.default_rng(0)
    outside = space.ids([0], [1])
    hits = np.zeros(space.size)
    for _ in range(6000):
        hits[space.ranks(space.sample(count, rng, outside))] += 1
    share = hits / 6000
    assert share[0] == 0
    assert np.abs(share[1:] - count / 9).max() < 4 * np.sqrt(count / 9 * (1 - count / 9) / 6000)


def test_more_than_there_are_is_refused_with_the_numbers():
    with pytest.raises(PoolExhausted, match=r"asked for 4 pairs, 3 remain of 3"):
        AllPairs(3).sample(4, np.random.default_rng(0))


def test_scored_pairs_keep_ids_and_scores_together():
    pairs = ScoredPairs.of(np.array([5, 3, 5, 9]), np.array([0.5, 0.3, 0.7, 0.5]))
    assert pairs.ids.tolist() == [3, 5, 9]
    assert pairs.scores.tolist() == pytest.approx([0.3, 0.5, 0.5])
    assert pairs.best(2).ids.tolist() == [5, 9]
    assert pairs.best(1).ids.tolist() == [5]  # a tie goes to the smaller id
    assert pairs.closest(0.35, 1).ids.tolist() == [3]
    assert pairs.without(np.array([3, 4])).ids.tolist() == [5, 9]

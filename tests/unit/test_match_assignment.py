"""One partner a text: the greatest sum, checked against every possible choice."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairsieve.errors import InputError
from pairsieve.matches import assignment
from pairsieve.matches.assignment import one_to_one
from pairsieve.pairs import AllPairs, CrossPairs, pair_rows

NOTHING = np.empty(0, np.int64)


def test_two_good_pairs_beat_one_better_one():
    """a-x 5, a-y 4, b-x 4: greedily a-x (5) leaves b alone; a-y and b-x together weigh 8."""
    space = CrossPairs(2, 2)
    ids = space.ids([0, 0, 1], [0, 1, 0])
    assert one_to_one(space, ids, np.array([5.0, 4.0, 4.0]), NOTHING).tolist() == [False, True, True]


def test_a_labelled_match_stands_and_takes_its_texts_out():
    space = CrossPairs(2, 2)
    ids = space.ids([0, 0, 1], [0, 1, 0])
    chosen = one_to_one(space, ids, np.array([5.0, 4.0, 4.0]), fixed=ids[:1])
    assert chosen.tolist() == [True, False, False]


def test_within_one_collection_it_is_refused():
    with pytest.raises(InputError, match="pairsieve cluster"):
        one_to_one(AllPairs(3), NOTHING, np.empty(0), NOTHING)


edges = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(0, 3)), st.integers(0, 20), min_size=1, max_size=9
)


@given(edges)
@pytest.mark.parametrize("dense", [True, False])
def test_no_other_choice_weighs_more(dense, weighed):
    space = CrossPairs(4, 4)
    pairs = sorted(weighed)
    ids = space.ids(*zip(*pairs))
    weights = np.array([weighed[pair] for pair in pairs], float)
    before = assignment.DENSE_AT_MOST
    assignment.DENSE_AT_MOST = before if dense else 0
    try:
        chosen = one_to_one(space, ids, weights, NOTHING)
    finally:
        assignment.DENSE_AT_MOST = before
    left, right = pair_rows(ids[chosen])
    assert len(set(left)) == len(left) and len(set(right)) == len(right)
    best = 0.0
    for size in range(1, len(pairs) + 1):
        for some in combinations(range(len(pairs)), size):
            one, other = zip(*(pairs[at] for at in some))
            if len(set(one)) == len(one) and len(set(other)) == len(other):
                best = max(best, weights[list(some)].sum())
    assert weights[chosen].sum() == pytest.approx(best)

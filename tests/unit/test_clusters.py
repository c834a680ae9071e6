"""Groups that a weak bridge does not merge, their representatives, and figures counted by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairsieve.errors import InputError
from pairsieve.matches.clusters import (
    _Averages,
    _remove_outliers,
    against_labels,
    against_truth,
    check_equivalence,
    components,
    constrained_average_linkage,
    representatives,
)
from pairsieve.pairs import AllPairs, CrossPairs


def at_angles(*degrees):
    """Unit rows in the plane: the cosine of two is that of the angle between them."""
    turned = np.radians(degrees)
    return np.stack([np.cos(turned), np.sin(turned)], axis=1)


def above(rows, threshold):
    space = AllPairs(len(rows))
    one, other = np.nonzero(np.triu(rows @ rows.T >= threshold, 1))
    return space.ids(one, other)


def test_a_weak_bridge_does_not_merge_two_groups():
    """Texts at 0, 1, 2 and at 30, 31, 32 degrees, and one bridge at 16. Threshold: 15 degrees apart.

    Each neighbour is within reach, so the component holds all seven. But on average the two ends are 30
    apart, and the bridge is 14, 15 and 16 from either: a mean cosine of 0.96586, below cos 15° = 0.96593.
    """
    rows, threshold = at_angles(0, 1, 2, 16, 30, 31, 32), np.cos(np.radians(15))
    pairs = above(rows, threshold)
    assert components(7, pairs).max() == 0
    assert constrained_average_linkage(rows, pairs, threshold).tolist() == [0, 0, 0, 1, 2, 2, 2]


def test_a_group_that_holds_together_is_not_split():
    rows, threshold = at_angles(0, 2, 4, 6, 8), np.cos(np.radians(8))
    assert constrained_average_linkage(rows, above(rows, threshold), threshold).max() == 0


def test_labels_are_kept_whatever_the_cosines_say():
    """0 and 1 degree would be one group, a label says no; 0 and 90 would not, a label says yes."""
    rows, threshold, space = at_angles(0, 1, 90), np.cos(np.radians(5)), AllPairs(3)
    group = constrained_average_linkage(
        rows, above(rows, threshold), threshold, matches=space.ids([0], [2]), others=space.ids([0], [1])
    )
    assert group[0] == group[2] != group[1]


def test_one_text_in_the_wrong_group_does_not_keep_two_groups_apart():
    """Texts at 0, 1, 2 and 3 to 6 degrees; labels say that the one at 2.5 matches none of the latter.

    It joined the first group, as it is near. All labels between the groups are of that text: it goes out.
    """
    rows, threshold, space = at_angles(0, 1, 2, 2.5, 4, 5, 6), np.cos(np.radians(10)), AllPairs(7)
    others = space.ids([3, 3], [5, 6])
    group = constrained_average_linkage(rows, above(rows, threshold), threshold, others=others)
    assert group.tolist() == [0, 0, 0, 1, 0, 0, 0]
    # Labels of two texts are believed: the groups stay apart.
    more = np.union1d(others, space.ids([1], [6]))
    group = constrained_average_linkage(rows, above(rows, threshold), threshold, others=more)
    assert not {*group[[1, 3]].tolist()} & {*group[[5, 6]].tolist()}


def test_a_text_that_was_taken_out_keeps_no_third_group_apart():
    """Texts at 0 to 2, 10 to 12 and 20 to 22 degrees are three groups; the first text of the first matches
    neither of the others. It goes out for the second group; then no label is left about the third."""
    rows, space = at_angles(2, 1, 0, 10, 11, 12, 20, 21, 22), AllPairs(9)
    group = np.repeat([0, 1, 2], 3)
    apart, none = space.ids([0, 0], [3, 6]), np.empty(0, np.int64)
    _remove_outliers(_Averages(rows, None), group, np.cos(np.radians(15)), none, apart)
    assert group.tolist() == [3, 0, 0, 0, 0, 0, 2, 2, 2]


def test_two_labelled_matches_join_groups_that_one_does_not():
    """Texts at 0 to 3 degrees and at 30 to 33: one labelled match between them moves a text at most.

    With a second one two texts of the first group belong to the second by their scores: the groups are one.
    """
    rows, threshold, space = at_angles(0, 1, 2, 3, 30, 31, 32, 33), np.cos(np.radians(22)), AllPairs(8)
    pairs = above(rows, threshold)
    one, two = space.ids([0], [4]), space.ids([0, 1], [4, 5])
    assert constrained_average_linkage(rows, pairs, threshold, matches=one).max() == 1
    assert constrained_average_linkage(rows, pairs, threshold, matches=two).max() == 0
    # Not where another label says that they are apart.
    apart = constrained_average_linkage(rows, pairs, threshold, matches=two, others=space.ids([2], [6]))
    assert apart[2] != apart[6]


def test_the_representative_is_the_middle_one():
    """Of 0, 10 and 40 degrees, 10 is nearest to the others; a text alone stands for itself."""
    rows = at_angles(0, 10, 40, 180)
    assert representatives(rows, np.array([0, 0, 0, 1])).tolist() == [1, 3]


def test_figures_by_hand():
    """Made {a b c} {d}, true {a b} {c d}: of 3 pairs put together 1 is right, of 2 true pairs 1 is found.

    B³ precision: a, b, c have 2/3, 2/3, 1/3 of their group right, d all: (2/3 + 2/3 + 1/3 + 1) / 4 = 2/3.
    B³ recall: a and b have both of theirs, c and d half: (1 + 1 + 1/2 + 1/2) / 4 = 3/4.
    """
    figures = against_truth(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]))
    assert figures.pair_precision == pytest.approx(1 / 3)
    assert figures.pair_recall == pytest.approx(1 / 2)
    assert figures.b3_precision == pytest.approx(2 / 3)
    assert figures.b3_recall == pytest.approx(3 / 4)
    assert figures.as_json()["pairwise"]["f1"] == pytest.approx(0.4)


groupings = st.integers(2, 9).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(0, 3), min_size=n, max_size=n) for _ in range(2)))
)


@given(groupings)
def test_with_every_pair_labelled_labels_say_what_the_truth_says(both):
    made, true = (np.unique(np.array(side), return_inverse=True)[1] for side in both)
    space = AllPairs(len(made))
    ids = space.unrank(np.arange(space.size))
    left, right = ids >> 32, ids & 0xFFFFFFFF
    same = true[left] == true[right]
    one, other = against_truth(made, true), against_labels(made, ids[same], ids[~same])
    assert (one.pair_precision, one.pair_recall) == pytest.approx((other.pair_precision, other.pair_recall))
    assert (one.b3_precision, one.b3_recall) == pytest.approx((other.b3_precision, other.b3_recall))


@given(st.lists(st.integers(0, 359), min_size=2, max_size=14), st.integers(5, 40))
def test_groups_only_split_components_and_none_could_still_merge(degrees, reach):
    rows, threshold = at_angles(*degrees), float(np.cos(np.radians(reach)))
    pairs = above(rows, threshold)
    group, component = constrained_average_linkage(rows, pairs, threshold), components(len(rows), pairs)
    for number in range(group.max() + 1):
        assert len(set(component[group == number])) == 1
    for one in range(group.max() + 1):
        for other in range(one):
            average = (rows[group == one] @ rows[group == other].T).mean()
            assert average < threshold + 1e-6
    order = np.random.default_rng(0).permutation(len(pairs))
    assert np.array_equal(group, constrained_average_linkage(rows, pairs[order], threshold))


def test_directed_and_two_collections_have_no_groups():
    for space, relation in ((CrossPairs(2, 2), "match"), (CrossPairs(2, 2), "directed")):
        with pytest.raises(InputError, match=r"has no groups.*its --one-to-one gives"):
            check_equivalence(space, relation, "here")

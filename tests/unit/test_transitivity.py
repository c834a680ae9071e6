"""Labels that follow from labels: worked groups, chains, contradictions, and a true oracle left in peace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from pairsieve.errors import InputError, SettingsError
from pairsieve.pairs import AllPairs, CrossPairs, Ids, is_member, pair_rows
from pairsieve.transitivity import Contradiction, contradictions, implied

SPACE = AllPairs(8)


def ids(*pairs: tuple[int, int]) -> Ids:
    return SPACE.ids([left for left, _ in pairs], [right for _, right in pairs])


# 0–1–2 match, 3–4 match, 2 is not 3: so {0, 1, 2} and {3, 4} are two different things. 5 is not 6; 7 unknown.
MATCHES, OTHERS = ids((0, 1), (1, 2), (3, 4)), ids((2, 3), (5, 6))


@pytest.mark.parametrize(
    ("pair", "label", "chain"),
    [
        ((0, 2), 1, [(0, 1), (1, 2)]),
        ((0, 3), 0, [(0, 1), (1, 2), (2, 3)]),
        ((0, 4), 0, [(0, 1), (1, 2), (2, 3), (3, 4)]),
        ((2, 4), 0, [(2, 3), (3, 4)]),
        ((0, 1), 1, [(0, 1)]),  # labelled itself
        ((2, 3), 0, [(2, 3)]),
        ((0, 5), -1, []),
        ((4, 5), -1, []),
        ((0, 7), -1, []),
    ],
)
def test_a_label_and_the_chain_it_rests_on(
    pair: tuple[int, int], label: int, chain: list[tuple[int, int]]
) -> None:
    said = implied(SPACE, ids(pair), MATCHES, OTHERS, min_negatives=1)
    assert said.labels.tolist() == [label]
    assert said.chain(0).tolist() == (ids(*chain).tolist() if chain else [])
    assert said.inferred.tolist() == [label != -1 and pair not in [(0, 1), (2, 3)]]


def test_it_takes_two_negatives_to_keep_groups_apart() -> None:
    """One "no match" between {0, 1, 2} and {3, 4} may be wrong; a second one speaks for the other four."""
    between = ids((0, 3), (0, 4), (1, 3), (1, 4), (2, 4))
    assert implied(SPACE, between, MATCHES, OTHERS).labels.tolist() == [-1] * 5
    two = implied(SPACE, between, MATCHES, np.append(OTHERS, ids((1, 4))))
    assert two.labels.tolist() == [0] * 5 and two.inferred.sum() == 4
    assert implied(SPACE, ids((0, 2)), MATCHES, OTHERS).labels.tolist() == [1]  # matches need none


def test_the_chain_is_the_shortest_of_two() -> None:
    said = implied(SPACE, ids((0, 3)), ids((0, 1), (1, 2), (2, 3), (0, 4), (3, 4)), ids())
    assert said.chain(0).tolist() == ids((0, 4), (3, 4)).tolist()


def test_a_no_match_inside_a_group_is_a_contradiction_and_the_group_falls_silent() -> None:
    matches, others = ids((0, 1), (1, 2), (3, 4)), ids((0, 2), (2, 5), (3, 6))
    assert contradictions(SPACE, matches, others) == [
        Contradiction(int(ids((0, 2))[0]), tuple(ids((0, 1), (1, 2)).tolist()))
    ]
    wanted = ids((0, 5), (1, 5), (4, 6), (0, 1))
    assert implied(SPACE, wanted, matches, others, min_negatives=1).labels.tolist() == [-1, -1, 0, 1]


def test_no_labels_say_nothing() -> None:
    assert implied(SPACE, ids((0, 1)), ids(), ids()).labels.tolist() == [-1]
    assert contradictions(SPACE, ids(), ids()) == []


def test_refusals() -> None:
    with pytest.raises(SettingsError, match="two collections"):
        implied(CrossPairs(3, 3), ids((0, 1)), ids(), ids())
    with pytest.raises(InputError, match="both as a match and as no match"):
        implied(SPACE, ids((0, 1)), ids((0, 1)), ids((0, 1)))
    with pytest.raises(InputError, match="not pairs of the space"):
        implied(SPACE, ids((0, 1)), np.array([8 << 32 | 9]), ids())


@st.composite
def oracles(draw: st.DrawFn) -> tuple[AllPairs, Ids, np.ndarray]:
    """A collection cut into things, and its pairs in some order with their true labels."""
    thing = np.array(draw(st.lists(st.integers(0, 4), min_size=2, max_size=12)))
    space = AllPairs(len(thing))
    order = np.array(draw(st.permutations(range(space.size))))
    pairs = space.unrank(order)
    left, right = pair_rows(pairs)
    return space, pairs, thing[left] == thing[right]


@given(oracles(), st.data())
@settings(max_examples=examples(200))
def test_a_consistent_oracle_is_never_contradicted(
    oracle: tuple[AllPairs, Ids, np.ndarray], data: st.DataObject
) -> None:
    space, pairs, truth = oracle
    asked = data.draw(st.integers(0, len(pairs)))
    matches, others = pairs[:asked][truth[:asked]], pairs[:asked][~truth[:asked]]
    said = implied(space, pairs, matches, others)
    known = said.labels != -1
    assert (said.labels[known] == truth[known]).all()
    assert known[:asked].all()
    assert contradictions(space, matches, others) == []


@given(oracles(), st.data())
@settings(max_examples=examples(100))
def test_a_chain_alone_proves_its_label(
    oracle: tuple[AllPairs, Ids, np.ndarray], data: st.DataObject
) -> None:
    """A label follows from its chain without any other label, and no chain has a link to spare."""
    space, pairs, truth = oracle
    asked = data.draw(st.integers(0, len(pairs)))
    matches, others = np.sort(pairs[:asked][truth[:asked]]), np.sort(pairs[:asked][~truth[:asked]])
    said = implied(space, pairs, matches, others, min_negatives=1)
    for place in np.flatnonzero(said.inferred):
        chain = said.chain(place)
        mine, against = chain[is_member(chain, matches)], chain[is_member(chain, others)]
        assert len(mine) + len(against) == len(chain)
        assert len(against) == (said.labels[place] == 0)
        alone = implied(space, pairs[place : place + 1], mine, against, min_negatives=1)
        assert alone.labels[0] == said.labels[place]
        for link in range(len(chain)):
            rest = np.delete(chain, link)
            kept = rest[is_member(rest, matches)], rest[is_member(rest, others)]
            fewer = implied(space, pairs[place : place + 1], *kept, min_negatives=1)
            assert fewer.labels[0] == -1


@given(oracles(), st.data())
@settings(max_examples=examples(100))
def test_one_wrong_answer_is_found_or_harmless_where_it_stands(
    oracle: tuple[AllPairs, Ids, np.ndarray], data: st.DataObject
) -> None:
    """With everything labelled, a match turned into "no match" is found iff a third text can tell."""
    space, pairs, truth = oracle
    if not truth.any():
        return
    wrong = data.draw(st.sampled_from(np.flatnonzero(truth).tolist()))
    matches = np.delete(pairs[truth], np.flatnonzero(np.flatnonzero(truth) == wrong))
    others = np.append(pairs[~truth], pairs[wrong])
    found = contradictions(space, matches, others)
    left, right = (int(side[0]) for side in pair_rows(pairs[wrong : wrong + 1]))
    alike = {id for pair in matches.tolist() for id in (pair >> 32, pair & 0xFFFFFFFF)}
    a_third = bool({left, right} <= alike)
    assert [each.negative for each in found] == ([int(pairs[wrong])] if a_third else [])
    assert all(len(each.chain) == 2 for each in found)

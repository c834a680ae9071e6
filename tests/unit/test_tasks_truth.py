"""Closure, contradictions and splits, on numbers small enough to check by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from pairsieve.errors import InputError
from pairsieve.pairs import AllPairs, CrossPairs, pair_rows
from pairsieve.tasks import Collection, Split, truth
from pairsieve.tasks.truth import assign_splits, closure, read_shares, resolve, split_by_components


def ids_of(pairs: list[tuple[int, int]], texts: int = 100) -> np.ndarray:
    if not pairs:
        return np.empty(0, np.int64)
    return np.unique(AllPairs(texts).ids(*zip(*pairs)))


def pairs_of(ids: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(*(side.tolist() for side in pair_rows(ids))))


def test_a_chain_of_three_matches_implies_the_third() -> None:
    assert pairs_of(closure(6, ids_of([(4, 1), (1, 5), (0, 3)]))) == [(0, 3), (1, 4), (1, 5), (4, 5)]


def test_no_matches_close_to_none() -> None:
    assert len(closure(5, ids_of([]))) == 0
    assert len(closure(0, ids_of([]))) == 0


pair_lists = st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)).filter(lambda p: p[0] != p[1]))


@given(pair_lists)
def test_closure_is_what_union_find_says(pairs: list[tuple[int, int]]) -> None:
    group = list(range(20))
    for one, other in pairs:
        group = [group[other] if g == group[one] else g for g in group]
    expected = [(a, b) for a, b in combinations(range(20), 2) if group[a] == group[b]]
    assert pairs_of(closure(20, ids_of(pairs, 20))) == expected


def test_matches_that_join_everything_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "MOST_CLOSED_PAIRS", 9)
    chain = ids_of([(i, i + 1) for i in range(4)])  # 5 texts, 10 pairs
    with pytest.raises(InputError, match=r"m\.csv: the matches join 5 texts .* imply 10 matching pairs"):
        closure(5, chain, where="m.csv")


def test_positives_win_over_both_kinds_of_contradiction() -> None:
    positives = ids_of([(0, 1), (1, 2)])
    negatives = ids_of([(0, 1), (0, 2), (0, 3)])  # stated both ways; inside the closure; fine
    left, counted = resolve(positives, negatives, closure(4, positives))
    assert pairs_of(left) == [(0, 3)]
    assert counted == {"pairs_stated_both_ways": 1, "negatives_inside_closure": 1}


def test_components_are_dealt_by_where_their_middle_falls() -> None:
    # Four components of two: middles at 1/8, 3/8, 5/8, 7/8, so 2, 1 and 1 of them.
    label = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    part = assign_splits(label, np.zeros(4, np.int64), (50, 25, 25), np.random.default_rng(3))
    assert np.bincount(part).tolist() == [4, 2, 2]
    assert (part[::2] == part[1::2]).all()


@settings(max_examples=examples(50))
@given(pair_lists, pair_lists, st.integers(0, 5))
def test_splits_of_one_collection_part_no_stated_pair(
    matches: list[tuple[int, int]], others: list[tuple[int, int]], seed: int
) -> None:
    texts = Collection([f"k{i}" for i in range(20)], [f"t{i}" for i in range(20)])
    positives = closure(20, ids_of(matches, 20))
    negatives, _ = resolve(ids_of(matches, 20), ids_of(others, 20), positives)
    joined = np.union1d(ids_of(matches, 20), ids_of(others, 20))
    rng = np.random.default_rng(seed)
    splits, _ = split_by_components([texts], positives, negatives, joined, (50, 25, 25), rng)
    assert sorted(key for split in splits.values() for key in split.left.keys) == sorted(texts.keys)
    assert keyed(splits, "positives") == {(f"k{a}", f"k{b}") for a, b in pairs_of(positives)}
    assert keyed(splits, "stated_negatives") == {(f"k{a}", f"k{b}") for a, b in pairs_of(negatives)}


def keyed(splits: dict[str, Split], field: str) -> set[tuple[str, str]]:
    return {
        (split.left.keys[a], split.right.keys[b])
        for split in splits.values()
        for a, b in pairs_of(getattr(split, field))
    }


def test_splits_of_two_collections_deal_matches_and_single_records_apart() -> None:
    left = Collection([f"l{i}" for i in range(16)], ["x"] * 16)
    right = Collection([f"r{i}" for i in range(24)], ["y"] * 24)
    matches = CrossPairs(16, 24).ids(range(8), range(8))
    negatives = np.sort(CrossPairs(16, 24).ids([0] * 7, range(1, 8)))
    splits, found = split_by_components(
        [left, right], matches, negatives, matches, (50, 25, 25), np.random.default_rng(0)
    )
    assert [len(split.positives) for split in splits.values()] == [4, 2, 2]
    assert [len(split.left) for split in splits.values()] == [8, 4, 4]
    assert [len(split.right) for split in splits.values()] == [12, 6, 6]
    assert keyed(splits, "positives") == {(f"l{i}", f"r{i}") for i in range(8)}
    assert found["stated_negatives_between_splits"] + len(keyed(splits, "stated_negatives")) == 7


@pytest.mark.parametrize("words", ["50/50/50", "100", "a/b", "50/50/0", "25/25/25/25", "", "-50/150"])
def test_shares_that_make_no_split(words: str) -> None:
    with pytest.raises(InputError, match=r"`split`: cannot split .* Write 50/25/25"):
        read_shares(words)


def test_shares() -> None:
    assert read_shares("50/25/25") == (50, 25, 25)
    assert read_shares("80/20") == (80, 20)


def test_a_split_refuses_pairs_that_are_not_its_own() -> None:
    texts = Collection(["a", "b"], ["x", "y"])
    none = np.empty(0, np.int64)
    with pytest.raises(ValueError, match="positives must be sorted, distinct pairs"):
        Split("all", AllPairs(2), texts, texts, AllPairs(9).ids([0], [5]), none, True)
    with pytest.raises(ValueError, match="in positives and in stated_negatives"):
        Split("all", AllPairs(2), texts, texts, ids_of([(0, 1)]), ids_of([(0, 1)]), True)
    with pytest.raises(ValueError, match="need one collection"):
        Split("all", AllPairs(2), texts, Collection(["a", "b"], ["x", "y"]), none, none, True)
    with pytest.raises(ValueError, match="a space of 3 × 3 over 2 × 2 texts"):
        Split("all", AllPairs(3), texts, texts, none, none, True)
    with pytest.raises(ValueError, match="cannot name a folder"):
        Split("../up", AllPairs(2), texts, texts, none, none, True)

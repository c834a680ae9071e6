"""How far an exact AP would be off on other texts: resampled by hand, and against many made worlds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from pairsieve.measure import intervals
from pairsieve.measure.curve import Curve, curve_from_scores
from pairsieve.measure.intervals import text_interval
from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, ScoredPairs


def split_by_truth(
    space: PairSpace, scores: np.ndarray, positive: np.ndarray
) -> tuple[ScoredPairs, ScoredPairs]:
    ids = space.unrank(np.arange(space.size))
    return tuple(ScoredPairs(ids[mask], scores[mask].astype(np.float32)) for mask in (positive, ~positive))


def curve_of(mine: ScoredPairs, others: ScoredPairs) -> Curve:
    return curve_from_scores(mine.scores, others.scores)


@contextmanager
def few_groups_will_do() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "FEWEST_GROUPS", 0)
        patch.setattr(intervals, "FEWEST_WITH_ERRORS", 0)
        yield


def test_resampled_by_hand() -> None:
    """Texts 0, 1, 2; (0,1) matches and scores 0.9, (1,2) does not and scores 0.95, (0,2) scores 0.1.

    AP is 1/2. A draw with text multiplicities m counts the match m0·m1 times and the non-match above it
    m1·m2 times: AP = m0 m1 / (m0 m1 + m1 m2) = m0 / (m0 + m2), from m = (2, 1, 0): 1 to (1, 1, 1): 1/2.
    Draws without the match count for nothing. So every replicate is 1/2 or 1. Drawn as the groups {0, 1} and
    {2}: 1 of (2, 0), 1/2 of (1, 1), nothing of (0, 2).
    """
    space = AllPairs(3)
    mine, others = split_by_truth(space, np.array([0.9, 0.1, 0.95]), np.array([True, False, False]))
    with few_groups_will_do():
        found = text_interval(space, curve_of(mine, others), mine, others, np.random.default_rng(0))
    assert found.value == found.low == 0.5
    assert found.high == 1.0
    assert found.n == 3 and "resamplings of texts" in found.method


def test_a_group_counts_as_a_whole() -> None:
    """Groups {0, 1, 2} and {3}: whatever is drawn, the three matches of the first count alike."""
    space = AllPairs(4)
    positive = np.isin(space.unrank(np.arange(6)), space.ids([0, 0, 1], [1, 2, 2]))
    mine, others = split_by_truth(space, np.where(positive, 0.5, 0.9), positive)
    groups = intervals.groups_of_matches(space, mine)
    assert groups[0].tolist() == [0, 0, 0, 1]
    drawn = intervals._resampled(
        space, curve_of(mine, others), mine, others, groups, np.random.default_rng(0), 50
    )
    # (2, 0): 6 matches and no non-match; (1, 1): 3 and 3, all non-matches above; (0, 2): nothing.
    assert set(np.round(drawn, 6)) == {1.0, 0.5}


@pytest.mark.parametrize(
    ("groups", "below", "words"),
    [
        ([2] * 99, 50, "like 99 groups of one size, and 100 are needed"),
        (
            [2] * 100 + [20],
            50,
            "like 2 groups of one size, and 100 are needed",
        ),  # (100 + 190)² / (100 + 190²)
        ([2] * 100, 19, "19 groups have a match below a non-match, and 20 are needed"),
        ([2] * 100, 20, ""),
    ],
)
def test_where_an_interval_cannot_be_trusted_there_is_none(groups: list[int], below: int, words: str) -> None:
    """The first `below` groups score below a non-match."""
    of = np.repeat(np.arange(len(groups)), groups)
    space = AllPairs(len(of))
    left, right = np.triu_indices(len(of), 1)
    positive = of[left] == of[right]
    scores = np.where(positive, np.where(of[left] < below, 0.5, 0.9), 0.1)
    scores[np.flatnonzero(~positive)[0]] = 0.7
    mine, others = split_by_truth(space, scores, positive)
    curve = curve_of(mine, others)
    found = text_interval(space, curve, mine, others.best(50), np.random.default_rng(0), repeats=40)
    if words:
        assert words in found.method and found.low == found.value == found.high
    else:
        assert "resamplings" in found.method and found.low < found.value < found.high


@settings(max_examples=examples(30))
@given(seed=st.integers(0, 10**6), texts=st.integers(3, 12), symmetric=st.booleans())
def test_the_interval_holds_the_value(seed: int, texts: int, symmetric: bool) -> None:
    rng = np.random.default_rng(seed)
    space: PairSpace = AllPairs(texts) if symmetric else CrossPairs(texts, texts + 1)
    positive = rng.random(space.size) < 0.3
    positive[rng.integers(space.size)] = True
    scores = rng.integers(0, 6, space.size) / 6  # with ties
    mine, others = split_by_truth(space, scores, positive)
    curve = curve_of(mine, others)
    with few_groups_will_do():
        found = text_interval(space, curve, mine, others, rng, repeats=20)
    assert found.value == pytest.approx(curve.average_precision())
    assert 0 <= found.low <= found.value <= found.high <= 1


def made_world(rng: np.random.Generator) -> tuple[PairSpace, ScoredPairs, ScoredPairs]:
    """100 groups of two texts; each text has a part in the score of all its pairs."""
    cluster, habit = np.arange(200) // 2, rng.normal(size=200)
    left, right = np.triu_indices(200, 1)
    positive = cluster[left] == cluster[right]
    scores = 4 * positive + 0.5 * (habit[left] + habit[right]) + rng.normal(size=len(left))
    space = AllPairs(200)
    mine, others = split_by_truth(space, scores / 20, positive)
    return space, mine, others


def test_it_covers_other_texts_of_the_same_kind() -> None:
    """In 60 worlds the interval should hold the average of such worlds about 57 times."""
    rng = np.random.default_rng(7)
    worlds = [made_world(rng) for _ in range(60)]
    typical = np.mean([curve_of(mine, others).average_precision() for _, mine, others in worlds])
    held = []
    for space, mine, others in worlds:
        near = others.best(600)  # of about 19,800: the rest is counted as it is
        found = text_interval(space, curve_of(mine, others), mine, near, rng, repeats=60)
        held.append(found.low < found.high and found.low <= typical <= found.high)
    assert np.mean(held) >= 0.93


def test_the_far_pairs_hardly_matter() -> None:
    space, mine, others = made_world(np.random.default_rng(1))
    curve = curve_of(mine, others)
    every: list[tuple[float, float]] = []
    for near in (others, others.best(2000)):
        found = text_interval(space, curve, mine, near, np.random.default_rng(2), repeats=100)
        every.append((found.low, found.high))
    assert every[0][0] < every[0][1]
    assert every[0] == pytest.approx(every[1], abs=0.02)


def test_two_collections_are_drawn_apart() -> None:
    """Left i matches right i, at 0.5; (0, 1) does not, at 0.9. AP is 4/5; in draws without left 0 it is 1."""
    space = CrossPairs(4, 4)
    ids: Ids = space.unrank(np.arange(16))
    positive = np.isin(ids, space.ids(np.arange(4), np.arange(4)))
    scores = np.where(positive, 0.5, 0.1)
    scores[ids == space.ids([0], [1])[0]] = 0.9
    mine, others = split_by_truth(space, scores, positive)
    with few_groups_will_do():
        found = text_interval(space, curve_of(mine, others), mine, others, np.random.default_rng(0))
    assert found.value == pytest.approx(4 / 5)
    assert found.low < 4 / 5 and found.high == 1.0

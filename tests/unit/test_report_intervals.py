"""How far an exact AP would be off on other texts: resampled by hand, and against many made worlds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
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


def test_resampled_by_hand() -> None:
    """Texts 0, 1, 2; (0,1) matches and scores 0.9, (1,2) does not and scores 0.95, (0,2) scores 0.1.

    AP is 1/2. A draw with text multiplicities m counts the match m0·m1 times and the non-match above it
    m1·m2 times: AP = m0 m1 / (m0 m1 + m1 m2) = m0 / (m0 + m2), from m = (2, 1, 0): 1 to (1, 1, 1): 1/2.
    Draws without the match count for nothing. So every replicate is 1/2 or 1.
    """
    space = AllPairs(3)
    mine, others = split_by_truth(space, np.array([0.9, 0.1, 0.95]), np.array([True, False, False]))
    found = text_interval(space, curve_of(mine, others), mine, others, np.random.default_rng(0))
    assert found.value == found.low == 0.5
    assert found.high == 1.0
    assert found.n == 3 and "resamplings of texts" in found.method


def test_a_perfect_ranking_stays_perfect() -> None:
    space = CrossPairs(5, 5)
    positive = np.arange(25) % 6 == 0
    mine, others = split_by_truth(space, np.where(positive, 0.9, 0.1), positive)
    found = text_interval(space, curve_of(mine, others), mine, others, np.random.default_rng(0))
    assert (found.low, found.value, found.high) == (1.0, 1.0, 1.0)


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
    found = text_interval(space, curve, mine, others, rng, repeats=20)
    assert found.value == pytest.approx(curve.average_precision())
    assert 0 <= found.low <= found.value <= found.high <= 1


def made_world(rng: np.random.Generator, texts: int) -> tuple[PairSpace, ScoredPairs, ScoredPairs]:
    """Texts in clusters of about four; each text has a part in the score of all its pairs."""
    cluster = rng.integers(texts // 4, size=texts)
    habit = rng.normal(size=texts)
    left, right = np.triu_indices(texts, 1)
    positive = cluster[left] == cluster[right]
    scores = 1.5 * positive + 0.5 * (habit[left] + habit[right]) + rng.normal(size=len(left)) * 0.5
    space = AllPairs(texts)
    mine, others = split_by_truth(space, scores / 10, positive)
    return space, mine, others


def test_it_covers_other_texts_of_the_same_kind() -> None:
    """In 60 worlds of 80 texts the interval should hold the average of such worlds about 57 times."""
    rng = np.random.default_rng(7)
    worlds = [made_world(rng, 80) for _ in range(60)]
    typical = np.mean([curve_of(mine, others).average_precision() for _, mine, others in worlds])
    held = 0
    for space, mine, others in worlds:
        near = others.best(600)  # of about 3,100: the rest is counted as it is
        found = text_interval(space, curve_of(mine, others), mine, near, rng, repeats=100)
        held += found.low <= typical <= found.high
    assert held >= 50


def test_the_far_pairs_hardly_matter() -> None:
    rng = np.random.default_rng(1)
    space, mine, others = made_world(rng, 80)
    curve = curve_of(mine, others)
    every: list[tuple[float, float]] = []
    for near in (others, others.best(600)):
        found = text_interval(space, curve, mine, near, np.random.default_rng(2), repeats=200)
        every.append((found.low, found.high))
    assert every[0] == pytest.approx(every[1], abs=0.02)


def test_two_collections_are_drawn_apart() -> None:
    """Left i matches right i, at 0.5; (0, 1) does not, at 0.9. AP is 4/5; in draws without left 0 it is 1."""
    space = CrossPairs(4, 4)
    ids: Ids = space.unrank(np.arange(16))
    positive = np.isin(ids, space.ids(np.arange(4), np.arange(4)))
    scores = np.where(positive, 0.5, 0.1)
    scores[ids == space.ids([0], [1])[0]] = 0.9
    mine, others = split_by_truth(space, scores, positive)
    found = text_interval(space, curve_of(mine, others), mine, others, np.random.default_rng(0))
    assert found.value == pytest.approx(4 / 5)
    assert found.low < 4 / 5 and found.high == 1.0

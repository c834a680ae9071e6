"""A list with a guarantee: shown lists have the precision asked for, and labels are asked where they help."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pairsieve.audit.guarantee import (
    candidate_lists,
    check_precision,
    evidence,
    labels_needed,
    permanent_order,
)
from pairsieve.numeric import logit, sigmoid


def test_evidence_by_hand() -> None:
    """Each clean label multiplies the stake; an error costs most of it; everything labelled is sure."""
    clean = evidence(np.ones(40), 10**6, 0.9, 0.98)
    assert clean >= 20 > evidence(np.ones(25), 10**6, 0.9, 0.98)
    assert evidence(np.arange(40) != 20, 10**6, 0.9, 0.98) < clean / 3
    assert evidence(np.zeros(10), 10, 0.9, 0.5) == np.inf and evidence([], 10, 0.9, 0.5) == 1.0


def test_the_promise_is_of_the_pairs_that_are_left() -> None:
    """Of 60 pairs 50 are labelled, all matches: that shows the list, and says little of the ten left."""
    assert evidence(np.ones(50), 60, 0.9, 0.95) < 20


def test_evidence_is_honest() -> None:
    """Lists just short of the precision are shown in at most one of twenty cases, however often one looks."""
    wrong = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        labels = rng.permutation(np.arange(400) < 356)  # 0.89
        wrong += any(
            evidence(labels[:n], 400, 0.9, 0.97) >= 20 and labels[n:].mean() < 0.9 for n in range(10, 120, 10)
        )
    assert wrong <= 300 * 0.05 + 3 * np.sqrt(300 * 0.05 * 0.95)


def checked(match: Any, rate: Any, precision: float, budget: int, seed: int, waits: bool = False) -> Any:
    """A check of a ranking, best pair first, whose expected rates are given."""
    size = np.arange(1, len(match) + 1)
    expected = np.cumsum(rate) / size
    places = candidate_lists(size, expected, precision, budget)
    order = permanent_order(np.arange(len(match)), seed)
    asked: list[int] = []

    def draw(threshold: float, count: int) -> Any:
        first = np.argsort(order[: int(-threshold)])[:count]
        return first, order[first], -(first + 1.0).astype(np.float32)

    def ask(ids: Any) -> Any:
        asked.extend(ids.tolist())
        return None if waits else match[ids].astype(np.int8)

    sizes = size[places].tolist()
    found = check_precision([-float(n) for n in sizes], sizes, expected[places], draw, ask, precision, budget)
    return found, sizes[found.certified - 1] if found.certified else 0, asked


def ranking(seed: int, slope: float = 5.0) -> tuple[Any, Any]:
    rate = 1 / (1 + (np.arange(1, 4001) / 800) ** slope)
    return np.random.default_rng(seed).random(4000) < rate, rate


@pytest.mark.parametrize("off", [0.0, 1.5])
def test_lists_have_the_precision_and_labels_are_within_the_budget(off: float) -> None:
    """Expected rates right, or far too high: what is promised holds on the pairs nobody labelled."""
    kept, sizes = [], []
    for seed in range(40):
        match, rate = ranking(seed)
        found, size, asked = checked(match, sigmoid(logit(rate) + off), 0.9, 100, seed)
        assert len(set(asked)) == len(asked) == found.labels <= 100
        left = np.setdiff1d(np.arange(size), asked)
        kept.append(size == 0 or match[left].mean() >= 0.9)
        sizes.append(size)
    assert np.mean(kept) >= 0.9
    assert np.median(sizes) > (450 if off == 0 else 0)


def test_a_check_waits_and_says_what_is_missing() -> None:
    match, rate = ranking(0)
    waiting, _, asked = checked(match, rate, 0.9, 100, 0, waits=True)
    assert waiting.waiting == len(asked) > 0
    _, size, asked = checked(match, rate, 0.9, 10, 0)
    assert size == 0 and not asked  # ten labels show nothing: they are not asked for
    nothing, size, _ = checked(np.zeros(4000, bool), rate, 0.9, 100, 0)
    assert size == 0 and nothing.labels < 100  # given up before the budget is spent


def test_small_lists_are_labelled_outright() -> None:
    match = np.arange(200) % 3 == 0
    found, size, _ = checked(match, np.full(200, 0.33), 0.9, 60, 0)
    assert found.labels <= 60 and size <= 60


def test_the_random_order_is_fixed_and_even() -> None:
    ids = np.arange(10_000, dtype=np.int64) << 32
    one = permanent_order(ids, 3)
    assert np.array_equal(one, permanent_order(ids, 3)) and not np.array_equal(one, permanent_order(ids, 4))
    assert np.histogram(one, 10, (0, 1))[0].min() > 900
    assert labels_needed(0.99, 0.9) < labels_needed(0.95, 0.9) < labels_needed(0.95, 0.92)
    assert labels_needed(1.0, 1.0) > 1_000_000  # only labels of every pair show it

"""Limits from labels drawn under earlier rankings."""

from __future__ import annotations

import numpy as np
import pytest

from pairsieve.audit.draws import AskedPairs, Strata
from pairsieve.audit.earlier_draws import EarlierDraws, PairSet, earlier_draws_estimate
from pairsieve.audit.errors import AnswerErrors
from pairsieve.audit.estimate import Limits, estimate

PAIRS, MATCHES = 2000, 100


def drawn_then_moved(rng: np.random.Generator) -> tuple[Strata, AskedPairs, np.ndarray, np.ndarray]:
    """Of 2,000 pairs the best 100 match. 20 of the best 150 are drawn, and 20 of the others. Then a scorer
    puts 100 of the others among the best 200: strata and asked pairs under it, scores and truth."""
    match = np.arange(PAIRS) < MATCHES
    drawn = np.append(rng.choice(150, 20, replace=False), 150 + rng.choice(PAIRS - 150, 20, replace=False))
    chance = np.repeat([20 / 150, 20 / (PAIRS - 150)], 20)
    best = np.append(np.arange(100), 150 + rng.choice(PAIRS - 150, 100, replace=False))
    order = np.append(rng.permutation(best), np.setdiff1d(np.arange(PAIRS), best))
    scores = np.empty(PAIRS, np.float32)
    scores[order] = np.linspace(1.0, -1.0, PAIRS + 1, dtype=np.float32)[:-1]
    strata = Strata(np.array([scores[order[199]], -2.0], np.float32), np.array([200, PAIRS - 200]))
    asked = AskedPairs.nothing().then(scores[drawn], match[drawn], 1, chance)
    return strata, asked, scores, match


def test_limits_hold_where_others_came_up_from_below() -> None:
    """Half of the list is right. Its drawn pairs nearly all match, for the others were hardly ever drawn."""
    rng, held, fooled = np.random.default_rng(0), 0, 0
    for _ in range(100):
        strata, asked, _, _ = drawn_then_moved(rng)
        at = float(strata.edges[0])
        found = earlier_draws_estimate(strata, asked, at, reach=at)
        held += found.precision.low <= 0.5 <= found.precision.high
        same = estimate(strata, asked, at, rng, reach=at, draws=200)
        fooled += same.precision.low > 0.5
    assert held >= 93 and fooled > 20  # what takes the draws for a sample of the list is wrong


def test_limits_are_of_use() -> None:
    """54 of 60 pairs drawn from a list of 600 match: most of it does, wherever its pairs came from."""
    listed = PairSet(np.ones(60, bool), 600.0)
    asked = AskedPairs.nothing().then(np.zeros(60, np.float32), np.arange(60) < 54, 1, np.full(60, 0.1))
    low, high = EarlierDraws(asked).matches(listed, 0.025)
    assert 350 < low < 540 < high < 594
    told = EarlierDraws(asked, AnswerErrors(0.05)).matches(listed, 0.025)
    assert told[0] < 570 < told[1] == 600  # 0.9 = 0.95 · p + 0.05 · (1 - p)


def test_nothing_is_known_without_draws_but_what_was_asked() -> None:
    asked = AskedPairs.nothing().then(np.zeros(10, np.float32), np.arange(10) < 4, 0, np.ones(10))
    every = PairSet(np.ones(10, bool), 100.0)
    assert EarlierDraws(asked).matches(every, 0.025) == (4.0, 94.0)
    best = PairSet(np.arange(10) < 4, 50.0)
    assert EarlierDraws(asked).recall(best, every.less(best), 0.0, 0.025) == pytest.approx((4 / 48, 1.0))


def test_billions_of_pairs_take_no_more_memory_than_those_within_reach() -> None:
    """Of 15 billion pairs 200 are listed. An array of all ranks would take 120 GB."""
    strata = Strata(np.array([0.9, -2.0], np.float32), np.array([200, 15 * 10**9]))
    scores = np.concatenate([np.linspace(1.0, 0.9, 20), np.linspace(0.5, -0.5, 20)]).astype(np.float32)
    chance = np.repeat([0.1, 20 / 15e9], 20)
    asked = AskedPairs.nothing().then(scores, np.arange(40) < 18, 1, chance)
    found = earlier_draws_estimate(strata, asked, 0.9, reach=0.9)
    assert found.average_precision is not None and found.average_precision.low > 0
    assert found.over_all.average_precision == Limits(0.0, 1.0)

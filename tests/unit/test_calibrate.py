"""Calibration by drawn labels: monotone, sane with any number of them, right where chosen ones are not."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import experiments.bench.calibration as bench
from examples import examples
from pairsieve.audit.calibrate import calibrate, drawn_weights, expected_curve, highest_known, reliability
from pairsieve.audit.draws import AskedPairs
from pairsieve.numeric import sigmoid
from pairsieve.scorer.calibration import FEWEST, Calibration

NOTHING = np.empty(0), np.empty(0, bool)


def test_without_drawn_labels_the_chosen_ones_speak_and_nothing_is_called_a_probability() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, 2000)
    curve = calibrate((z, rng.random(2000) < sigmoid(1.5 * z + 1)), NOTHING)
    assert curve.probabilities([0.0]) == pytest.approx([sigmoid(1.0)], abs=0.05)
    assert not curve.calibrated and curve.drawn == 0


def test_drawn_labels_correct_a_curve_that_is_far_too_high() -> None:
    """Chosen labels say one half at 0; of 60 pairs drawn between 0 and 3 none matches, of 20 above 5 all."""
    rng = np.random.default_rng(0)
    chosen = rng.normal(0, 1.5, 300)
    labels = rng.random(300) < sigmoid(chosen)
    drawn = np.concatenate([np.linspace(0, 3, 60), np.linspace(5, 7, 20)]), np.arange(80) >= 60
    curve = calibrate((chosen, labels), drawn)
    low, high = curve.probabilities([1.0, 6.0])
    assert low < 0.05 and high > 0.9 and curve.calibrated
    assert curve.inverse(0.0) == pytest.approx(4.0, abs=1.0)


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.floats(-30, 30), st.booleans()), max_size=40), st.booleans())
def test_any_labels_give_a_monotone_curve(drawn: list[tuple[float, bool]], one_class: bool) -> None:
    z, labels = np.array([z for z, _ in drawn]), np.array([label for _, label in drawn], bool)
    chosen = (np.array([1.0, 2.0]), np.array([True, one_class]))
    curve = calibrate(chosen, (z, labels), (np.linspace(10, -10, 50), np.geomspace(1, 1e7, 50)))
    p = curve.probabilities(np.linspace(-40, 40, 200))
    p = p[~np.isnan(p)]
    assert len(p) and np.isfinite(p).all() and (np.diff(p) >= 0).all()
    assert curve.calibrated == (len(z) >= FEWEST)


def test_one_answer_where_nobody_would_look_does_not_bend_the_curve() -> None:
    """A match among pairs with log-odds of -10 (or a wrong answer) beside 99 plain ones."""
    rng = np.random.default_rng(1)
    z = rng.uniform(-6, 6, 99)
    labels = rng.random(99) < sigmoid(2 * z)
    with_it = calibrate(NOTHING, (np.append(z, -10.0), np.append(labels, True)))
    assert with_it.probabilities([-4.0]) < 0.05


@pytest.mark.slow
def test_the_list_of_a_far_too_optimistic_scorer_is_cut_where_it_belongs() -> None:
    """56 million pairs, of which the chosen labels promise far too many: a useless list without draws."""
    space = next(each for each in bench.SPACES if each.name == "far too optimistic")
    before = bench.once(space, 0, np.random.default_rng(0))
    after = [bench.once(space, 100, np.random.default_rng(seed)) for seed in range(5)]
    assert before["precision"] < 0.1 and before["f1"] < 0.3
    assert np.median([row["f1"] for row in after]) > 0.75


def test_as_many_steps_are_stated_as_drawn_labels_tell_of() -> None:
    """Two standard errors of a step's rate are at most 0.1: of a half, 100 labels in it tell.

    With fewer none is stated between 0.05 and 0.95. Below the curve is, and above what is known.
    """
    rng = np.random.default_rng(2)
    grid, counts = np.linspace(8, -8, 400), np.full(400, 50.0)
    chosen = rng.normal(0, 1.5, 300)
    labels = rng.random(300) < sigmoid(chosen)
    z = rng.uniform(-6, 6, 3000)
    y = rng.random(3000) < sigmoid(z)
    seen = []
    for number in (60, 300, 3000):
        curve = calibrate((chosen, labels), (z[:number], y[:number]), (grid, counts))
        p, smooth = curve.probabilities(grid), sigmoid(curve.log_odds(grid))
        middle = (smooth >= 0.05) & (smooth < 0.95)
        top, told = smooth >= 0.95, sigmoid(curve.log_odds(z[:number]))
        highest = highest_known(y[:number][told > 0.95])
        assert np.array_equal(p[smooth < 0.05], smooth[smooth < 0.05])
        assert np.array_equal(p[top], np.minimum(smooth[top], np.float64(highest)), equal_nan=True)
        for step in np.unique(p[middle & ~np.isnan(p)]):
            inside = smooth[p == step]
            labels_there = int(((told >= inside.min()) & (told <= inside.max())).sum())
            assert step * (1 - step) / labels_there <= 1.05 * 0.05**2
        seen.append(0 if np.isnan(p[middle]).all() else len(np.unique(p[middle])))
        if seen[-1]:
            assert not np.isnan(p).any()
            assert (p * counts)[middle].sum() == pytest.approx((smooth * counts)[middle].sum())
        again = Calibration(**json.loads(json.dumps(asdict(curve))))
        assert np.array_equal(again.probabilities(grid), p, equal_nan=True)
    assert seen[0] == 0 and 1 <= seen[1] < seen[2]


def test_drawn_labels_that_have_moved_tell_less() -> None:
    """150 labels in doubt tell of one step; where ten weigh a hundred times the others they are few."""
    grid, counts = np.linspace(8, -8, 400), np.full(400, 50.0)
    z = np.linspace(-2, 2, 150)
    drawn = z, np.random.default_rng(0).random(150) < sigmoid(z)
    plain = calibrate(NOTHING, drawn, (grid, counts))
    assert not np.isnan(plain.probabilities([0.0])).any()
    weights = np.where(np.arange(150) % 15 == 0, 10.0, 0.1)
    moved = calibrate(NOTHING, drawn, (grid, counts), weights)
    assert np.isnan(moved.probabilities([0.0])).all()


def test_the_highest_probability_is_the_middle_of_what_the_labels_above_the_steps_allow() -> None:
    """All of n labels match: the lower limit is 0.05^(1/n), 0.8 or more from 14 labels on."""
    assert highest_known(np.ones(13)) is None and highest_known(np.empty(0)) is None
    assert highest_known(np.ones(14)) == pytest.approx((1 + 0.05 ** (1 / 14)) / 2)
    assert highest_known(np.ones(300)) == pytest.approx(0.995, abs=1e-3)
    assert highest_known(np.arange(21) > 0) is None and highest_known(np.arange(22) > 0) is not None
    # With four times as many non-matches a match, odds of 4 are odds of 1: a limit of 0.94 is one of 0.8.
    assert highest_known(np.ones(48), 4.0) is None and highest_known(np.ones(50), 4.0) is not None


def drawn_of(rates: np.ndarray, scale: float, drawn: int, seed: int) -> tuple[Calibration, np.ndarray]:
    """A calibration of 20,000 pairs by labels drawn evenly over the logarithm of the rank, and by 360 chosen
    near rank 600; and the log-odds of the pairs."""
    rng, z = np.random.default_rng(seed), log_odds_of(scale)
    chosen, at = (
        np.clip(np.exp(logs), 1, 20_000).astype(int) - 1
        for logs in (np.log(600) + 0.4 * rng.standard_normal(360), rng.uniform(0.0, np.log(20_000), drawn))
    )
    match = rng.random(20_000) < rates
    return calibrate((z[chosen], match[chosen]), (z[at], match[at]), (z, np.ones(20_000))), z


def log_odds_of(scale: float) -> np.ndarray:
    return -scale * np.log(np.arange(1, 20_001) / 600)


def test_a_rate_that_levels_off_is_not_stated_as_that_of_the_curve() -> None:
    """From some score on 0.8 match, however high the score; by few drawn labels the curve rises to 1."""
    logistic, sure, off = sigmoid(log_odds_of(8.0)), 0, 0
    for seed in range(8):
        curve, z = drawn_of(0.8 * logistic, 8.0, 60, seed)
        sure += (sigmoid(curve.log_odds(z)) > 0.95).sum() >= 50
        off += (curve.probabilities(z) > 0.9).any()
        curve, z = drawn_of(logistic, 8.0, 60, seed)
        assert (np.abs(curve.probabilities(z)[:300] - 1.0) <= 0.1).all(), "what rises to 1 is stated"
    assert sure >= 4 and off <= 1


def test_a_step_that_its_drawn_labels_contradict_is_not_stated() -> None:
    """The best 150 pairs match less often than those after them; no curve does that."""
    rates = np.where(np.arange(20_000) < 150, 0.3, sigmoid(log_odds_of(4.0)))
    for seed in range(4):
        curve, z = drawn_of(rates, 4.0, 1000, seed)
        rows = reliability(curve.probabilities(z), np.ones(len(z)), rates)
        assert all(abs(row.stated - row.true) <= 0.1 for row in rows if row.pairs >= 100)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_drawn_labels_of_a_smaller_collection_speak_of_a_larger_one(factor: float) -> None:
    """Of one with twice as many non-matches a match, one of two is one of three."""
    z, y = np.linspace(-6, 6, 2000), np.random.default_rng(0).random(2000) < sigmoid(np.linspace(-6, 6, 2000))
    population = np.linspace(8, -8, 400), np.full(400, 50.0)
    curve = calibrate(NOTHING, (z, y), population, None, factor)
    p, known = curve.probabilities(z), sigmoid(z - np.log(factor))
    assert not np.isnan(p).any()
    rows = reliability(p, np.ones(len(z)), known)
    assert len(rows) >= 4 and all(abs(row.stated - row.true) < 0.08 for row in rows)


def test_expected_matches_and_reliability() -> None:
    curve = expected_curve([0.9, 0.5], [10, 100], [0.8, 0.1], [1, 0], [0, 2])
    assert curve.true_positives == pytest.approx([9, 19])
    assert curve.false_positives == pytest.approx([2, 94])
    rows = reliability(
        [0.95, 0.91, 0.05, np.nan], [1, 3, 5, 7], [1, 0, 0, 7]
    )  # of the last nothing is stated
    assert [row.pairs for row in rows] == [5, 4] and rows[1].true == 0.25
    assert rows[1].stated == pytest.approx((0.95 + 3 * 0.91) / 4)


def test_labels_drawn_under_an_earlier_ranking_are_weighted_by_how_far_their_pairs_have_moved() -> None:
    """1,000 pairs, scores 1,000 down to 1: a score s has rank 1,001 - s. Three pairs at rank 10 now.

    Drawn with chance 1 / rank: two when they stood at rank 10, one at rank 100. The third stands for ten
    times as many of the pairs that are there now. Their sum is 12² / (1 + 1 + 100) labels.
    """

    class Ranked:
        def count_reaching(self, thresholds: np.ndarray, desc: str = "") -> np.ndarray:
            return (1001 - thresholds).astype(np.int64)

    asked = AskedPairs.nothing().then(np.full(3, 991, np.float32), [1, 1, 0], 1, [1 / 10, 1 / 10, 1 / 100])
    weights = drawn_weights(asked, Ranked())
    assert weights[2] / weights[0] == pytest.approx(10) and weights[0] == weights[1]
    assert weights.sum() == pytest.approx(12**2 / 102)
    # A draw of a hundred times as many labels has a hundred times the chances: its labels count the same.
    more = asked.then(np.full(300, 991, np.float32), [1] * 300, 2, np.full(300, 10.0))
    assert drawn_weights(more, Ranked())[-1] == pytest.approx(drawn_weights(more, Ranked())[0])


def test_the_curve_of_labels_drawn_under_an_earlier_ranking_is_not_too_high() -> None:
    """Matches ranked better once than non-matches of the same score now, so that they were drawn more often:
    of the pairs at log-odds 0 half match, of the drawn ones four in five."""
    z, labels = np.zeros(50), np.arange(50) < 40
    weights = np.where(labels, 1.0, 4.0) * 50 / 80
    plain, weighted = (calibrate(NOTHING, (z, labels), None, each) for each in (None, weights))
    assert plain.probabilities([0.0])[0] > 0.7
    assert abs(weighted.probabilities([0.0])[0] - 0.5) < 0.05

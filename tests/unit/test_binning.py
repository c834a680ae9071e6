"""Rates of a split with its truth: known where groups of dependent pairs are many, else not stated."""

from __future__ import annotations

import numpy as np
import pytest

from pairsieve.audit.binning import STEP_ERROR, GroupedPairs, true_steps
from pairsieve.audit.calibrate import reliability
from pairsieve.scorer.calibration import Calibration

CURVE = Calibration(0.0, 0.0, 1.0, 1.0, 2000)
GRID = np.linspace(12.0, -12.0, 1200)


def grouped(labels: np.ndarray, groups: np.ndarray) -> GroupedPairs:
    """One pair at each place, both texts of one group."""
    return GroupedPairs(np.arange(len(labels)), labels, np.stack([groups, groups], axis=1))


def stated(labels: np.ndarray, groups: np.ndarray) -> np.ndarray:
    z = np.linspace(8.0, -8.0, len(labels))
    steps = true_steps(CURVE, z, np.ones(len(z)), labels, grouped(labels, groups))
    return steps.probabilities(z)


def test_the_standard_error_of_pairs_that_are_groups_of_their_own_is_the_binomial_one() -> None:
    """400 pairs, half of them match: 0.5 / 20. One group more adds 0.25 / 400²."""
    labels = np.arange(400) % 2 == 0
    variance = grouped(labels, np.arange(400)).variance(0, 399, 0.5)
    assert variance == pytest.approx(0.25 / 400 + 0.25 / 400**2)


def test_pairs_of_one_group_count_once_where_they_are_alike() -> None:
    """400 pairs in 40 groups of ten that are all matches or all not: as of 40 pairs."""
    labels, groups = np.repeat(np.arange(40) % 2 == 0, 10), np.repeat(np.arange(40), 10)
    assert grouped(labels, groups).variance(0, 399, 0.5) == pytest.approx(0.25 / 40 + 0.25 / 40**2)
    # Two groups that are mistaken for each other: ten pairs between them are no ten pairs of their own.
    between = GroupedPairs(np.arange(400), labels, np.stack([groups, groups + 40], axis=1))
    assert between.variance(0, 399, 0.5) > 0.25 / 40


def test_the_variance_is_that_of_other_draws_of_groups() -> None:
    """Groups of one to eight pairs, each with a rate of its own: simulated many times."""
    rng = np.random.default_rng(0)

    def draw() -> tuple[np.ndarray, np.ndarray]:
        sizes = rng.integers(1, 9, 150)
        groups = np.repeat(np.arange(150), sizes)
        return rng.random(len(groups)) < np.repeat(rng.beta(0.5, 0.5, 150), sizes), groups

    drawn = [draw() for _ in range(400)]
    true = np.var([labels.mean() for labels, _ in drawn])
    found = np.mean([grouped(*each).variance(0, len(each[0]) - 1, 0.5) for each in drawn])
    assert found == pytest.approx(true, rel=0.2)


def test_a_plateau_of_many_groups_is_stated_and_one_of_few_is_not() -> None:
    """Between 400 matches and 2,000 others 600 pairs of which 60 % match: no logistic curve follows that."""
    labels = np.concatenate([np.ones(400), np.tile([1, 1, 1, 0, 0], 120), np.zeros(2000)]) == 1
    p = stated(labels, np.arange(3000))
    assert p[:350] == pytest.approx(1.0, abs=0.02) and p[450:950] == pytest.approx(0.6, abs=0.05)
    assert p[1200:] == pytest.approx(0.0, abs=0.02) and (np.diff(p) <= 0).all()
    assert (p > 0).all() and (p < 1).all()  # no number of pairs tells that
    # The same in groups of fifty alike: twelve of them say little of a rate.
    groups, few = np.arange(3000), labels.copy()
    few[400:1000] = np.repeat([1, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 1], 50) == 1
    groups[400:1000] = 10_000 + np.repeat(np.arange(12), 50)
    p = stated(few, groups)
    assert np.isnan(p[550:900]).all()
    assert p[:350] == pytest.approx(1.0, abs=0.02) and p[1200:] == pytest.approx(0.0, abs=0.02)


def test_a_few_groups_that_all_match_are_not_known_to_match_where_the_curve_is_in_doubt() -> None:
    pairs, labels = np.full(len(GRID), 0.0), np.full(60, True)
    pairs[600:660] = 1.0  # log-odds just below 0
    near = GroupedPairs(np.arange(600, 660), labels, np.repeat(np.arange(3), 20)[:, None].repeat(2, axis=1))
    matches = pairs.copy()
    assert np.isnan(true_steps(CURVE, GRID, pairs, matches, near).probabilities([-0.2])).all()
    sure = Calibration(-9.0, 0.0, 1.0, 1.0, 2000)  # the same pairs, of which the curve is sure
    assert true_steps(sure, GRID, pairs, matches, near).probabilities([-0.2]) == pytest.approx(
        [1.0], abs=0.02
    )


def split_of(rng: np.random.Generator, groups: int) -> tuple[np.ndarray, np.ndarray, GroupedPairs]:
    """Pairs of groups of two to nine texts, whose log-odds go up and down together; others between groups."""
    sizes = rng.integers(2, 10, groups)
    inside = sizes * (sizes - 1) // 2
    z = [np.repeat(rng.normal(2.5, 2.0, groups), inside) + rng.normal(0.0, 1.0, inside.sum())]
    of = [np.repeat(np.arange(groups), inside)]
    beside = rng.integers(0, 12, groups)  # pairs with a group it is mistaken for
    z.append(np.repeat(rng.normal(-1.0, 2.0, groups), beside) + rng.normal(0.0, 0.7, beside.sum()))
    of.append(np.repeat(np.arange(groups), beside))
    z.append(-4.0 - rng.exponential(1.0, 20_000))
    of.append(rng.integers(0, groups, 20_000))
    left, labels = np.concatenate(of), np.arange(len(np.concatenate(of))) < inside.sum()
    places = np.clip(np.searchsorted(-GRID, -np.concatenate(z)), 0, len(GRID) - 1)
    right = np.where(labels, left, (left + 1) % groups)
    order = np.argsort(places, kind="stable")
    near = GroupedPairs(places[order], labels[order], np.stack([left, right], axis=1)[order])
    pairs, matches = (np.bincount(places, each, len(GRID)) for each in (np.ones(len(places)), labels))
    return pairs, matches, near


@pytest.mark.parametrize("groups", [40, 200, 800])
def test_what_one_split_states_holds_in_another(groups: int) -> None:
    """In nine of ten draws no bin of 100 pairs is off by more than 0.1; of more groups more is stated."""
    rng, good, some = np.random.default_rng(groups), 0, 0.0
    for _ in range(20):
        (pairs, matches, near), (others, their_matches, _) = split_of(rng, groups), split_of(rng, groups)
        p = true_steps(CURVE, GRID, pairs, matches, near).probabilities(GRID)
        rows = reliability(p, others, their_matches)
        good += all(abs(row.stated - row.true) <= 0.1 for row in rows if row.pairs >= 100)
        some += float(their_matches[~np.isnan(p)].sum() / their_matches.sum()) / 20
    assert good >= 18
    assert some > {40: 0.0, 200: 0.2, 800: 0.9}[groups]
    assert abs(STEP_ERROR - 0.0354) < 1e-4


def test_a_split_of_twice_the_texts_has_twice_the_non_matches_a_match() -> None:
    """400 matches, 600 pairs of which 300 match, 2,000 others: a rate of 1/2 is one of 1/3 there."""
    labels, z = (
        np.concatenate([np.ones(400), np.tile([1, 0], 300), np.zeros(2000)]) == 1,
        np.linspace(8, -8, 3000),
    )
    near = grouped(labels, np.arange(3000))
    for factor, rate in ((1.0, 1 / 2), (2.0, 1 / 3), (0.5, 2 / 3)):
        p = true_steps(CURVE, z, np.ones(3000), labels, near, factor).probabilities(z)
        assert p[450:950] == pytest.approx(rate, abs=0.05)
    # 120 such pairs have a standard error of 0.046, too much; of a rate of 1/5 it is 0.029.
    few = np.concatenate([np.ones(400), np.tile([1, 0], 60), np.zeros(2000)]) == 1
    pairs, z = grouped(few, np.arange(2520)), np.linspace(8, -8, 2520)
    p, scaled = (true_steps(CURVE, z, np.ones(2520), few, pairs, by).probabilities(z) for by in (1.0, 4.0))
    assert np.isnan(p[430:490]).all() and scaled[430:490] == pytest.approx(0.2, abs=0.06)


def test_non_matches_of_a_family_count_once() -> None:
    """400 matches, 600 pairs in doubt, 2,000 others. Half of the pairs in doubt match. The others are of two
    brands, each 150 pairs between one product and the next: no more than two of them share a product."""
    labels, z = (
        np.concatenate([np.ones(400), np.tile([1, 0], 300), np.zeros(2000)]) == 1,
        np.linspace(8, -8, 3000),
    )
    groups = np.arange(3000)[:, None].repeat(2, axis=1)
    others = np.flatnonzero(~labels[:1000])
    groups[others] = 10_000 + np.arange(300)[:, None] + [0, 1]
    groups[others[150:]] += 1000
    pairs = GroupedPairs(np.arange(3000), labels, groups)
    joined = pairs.joined(np.arange(3000) < 1000)
    assert len(np.unique(joined.groups[others])) == 2
    assert pairs.variance(400, 999, 0.5) == pytest.approx(3 * 0.25 / 1200, rel=0.5)
    assert joined.variance(400, 999, 0.5) > 2 * (150 * 0.5) ** 2 / 600**2
    assert np.isnan(true_steps(CURVE, z, np.ones(3000), labels, pairs).probabilities(z)[450:950]).all()
    assert not np.isnan(stated(labels, np.arange(3000))[450:950]).any(), "as pairs of 3,000 products"

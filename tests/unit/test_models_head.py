"""The head: two parameters, fitted to convergence, usable whatever the labels look like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from examples import examples
from pairsieve.models.head import SMALLEST_WEIGHT, fit_head


def mean_loss(cosines: np.ndarray, labels: np.ndarray, weight: float, bias: float) -> float:
    logits = weight * cosines + bias
    return float(np.mean(np.logaddexp(0.0, logits) - labels * logits))


def test_two_values_have_a_closed_form() -> None:
    # At cosine 0.2 one pair in four matches, at 0.8 three in four: the logits must be -ln 3 and +ln 3.
    cosines = np.array([0.2] * 4 + [0.8] * 4)
    labels = np.array([1, 0, 0, 0, 1, 1, 1, 0], dtype=bool)
    weight, bias = fit_head(cosines, labels)
    assert weight * 0.2 + bias == pytest.approx(-np.log(3), abs=1e-9)
    assert weight * 0.8 + bias == pytest.approx(np.log(3), abs=1e-9)


def test_newton_reaches_the_optimum_of_gradient_descent() -> None:
    """The paper's way: standardised cosines, gradient descent at rate 1, 10,000 steps."""
    rng = np.random.default_rng(0)
    cosines = rng.normal(0.7, 0.05, size=400)
    labels = rng.random(400) < 1 / (1 + np.exp(-40 * (cosines - 0.75)))
    z = (cosines - cosines.mean()) / cosines.std()
    w = b = 0.0
    for _ in range(10_000):
        error = 1 / (1 + np.exp(-(w * z + b))) - labels
        w, b = w - np.mean(error * z), b - np.mean(error)
    weight, bias = fit_head(cosines, labels)
    assert weight == pytest.approx(w / cosines.std(), rel=1e-6)
    assert bias == pytest.approx(b - w * cosines.mean() / cosines.std(), rel=1e-6)


@settings(max_examples=examples(50))
@given(st.integers(0, 10_000), st.integers(20, 200))
@example(1410, 20)  # cosines say nothing: the weight is the smallest, to the bit
def test_no_nearby_head_is_better(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    cosines = rng.uniform(-1, 1, size=count)
    labels = rng.random(count) < 0.5
    labels[:2] = True, False
    weight, bias = fit_head(cosines, labels)
    assert weight >= SMALLEST_WEIGHT
    separable = cosines[~labels].max() <= cosines[labels].min()
    if separable or weight == SMALLEST_WEIGHT:
        return
    best = mean_loss(cosines, labels, weight, bias)
    for dw, db in [(0.01, 0), (-0.01, 0), (0, 0.01), (0, -0.01)]:
        assert best <= mean_loss(cosines, labels, weight * (1 + dw), bias + db) + 1e-12


def test_separable_labels_get_a_finite_head_that_separates() -> None:
    cosines = np.array([0.1, 0.2, 0.3, 0.7, 0.8])
    labels = np.array([0, 0, 0, 1, 1], dtype=bool)
    weight, bias = fit_head(cosines, labels)
    assert np.isfinite([weight, bias]).all()
    assert 0.3 < -bias / weight < 0.7


def test_labels_against_the_cosine_leave_a_flat_head_that_still_ranks_by_it() -> None:
    cosines = np.array([0.1, 0.2, 0.8, 0.9])
    labels = np.array([1, 1, 0, 0], dtype=bool)
    weight, bias = fit_head(cosines, labels)
    assert weight == pytest.approx(SMALLEST_WEIGHT)
    assert bias == pytest.approx(0.0, abs=1e-5)  # half of the labels are positive


@pytest.mark.parametrize(("label", "rate"), [(False, 0.5 / 5), (True, 4.5 / 5)])
def test_labels_of_one_class_keep_the_ranking_and_a_smoothed_rate(label: bool, rate: float) -> None:
    cosines = np.array([0.1, 0.2, 0.3, 0.4])
    weight, bias = fit_head(cosines, np.full(4, label))
    assert weight == pytest.approx(1 / cosines.std())
    assert weight * 0.25 + bias == pytest.approx(np.log(rate / (1 - rate)))


def test_equal_cosines_teach_only_the_rate() -> None:
    weight, bias = fit_head(np.full(9, 0.5), np.array([1] * 4 + [0] * 5, dtype=bool))
    assert weight == SMALLEST_WEIGHT
    assert bias == pytest.approx(np.log(4.5 / 5.5))


def test_no_labels_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 cosines"):
        fit_head(np.empty(0), np.empty(0, dtype=bool))

"""The stack: what trees, linear model and bi-encoder are worth, by labels that none of them saw."""

import numpy as np
import pytest

from pairsieve.reranker.fit import fit_stack


def test_the_stack_weighs_by_what_out_of_fold_logits_are_worth():
    """Separable labels: more weight, but bounded. Noise: little. The bi-encoder's where it knows more."""
    rng = np.random.default_rng(0)
    labels, noise = rng.random(400) < 0.3, rng.normal(size=400)
    signal, nothing = np.where(labels, 2.0, -2.0), np.zeros(400)
    found = fit_stack(np.stack([signal, nothing]), nothing, labels)
    assert 1 < found.trees <= 5 and abs(found.bias) < 2
    assert (found.linear, found.base) == pytest.approx((0, 1), abs=1e-3), "zeros tell nothing"
    found = fit_stack(np.stack([noise, signal]), nothing, labels)
    assert found.linear > 1 > found.trees, "the linear model has its say where it knows more"
    found = fit_stack(np.stack([noise, nothing]), signal, labels)
    assert found.base > 1 > found.trees
    found = fit_stack(np.stack([-signal, -signal]), -signal, labels)
    weights = found.trees, found.linear, found.base
    assert weights == pytest.approx((0.05, 0, 0)), "none counts against the labels"


@pytest.mark.parametrize("value", [False, True])
def test_a_stack_of_labels_of_one_class_stays_finite(value):
    labels, scores = np.full(30, value), np.linspace(-3, 3, 30)
    found = fit_stack(np.stack([scores, scores]), scores, labels)
    assert 0.05 <= found.trees <= 5 and 0 <= found.linear <= 5 and 0 <= found.base <= 5
    assert 1 < abs(found.bias) <= 10 and (found.bias > 0) == value

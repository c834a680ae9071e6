"""The stack: what trees, linear model and bi-encoder are worth, by labels that none of them saw."""

import numpy as np
import pytest

from pairsieve.reranker.fit import best_share, cross_entropy, fit_stack, presumed_others, with_share


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
    assert weights == pytest.approx((0.05, 0, 0.05)), "none counts against the labels"


@pytest.mark.parametrize("value", [False, True])
def test_a_stack_of_labels_of_one_class_stays_finite(value):
    labels, scores = np.full(30, value), np.linspace(-3, 3, 30)
    found = fit_stack(np.stack([scores, scores]), scores, labels)
    assert 0.05 <= found.trees <= 5 and 0 <= found.linear <= 5 and 0 <= found.base <= 5
    assert 1 < abs(found.bias) <= 10 and (found.bias > 0) == value


def test_a_steep_bi_encoder_does_not_outweigh_the_trees():
    """Log-odds in the hundreds, fitted to few labels, count for what so many labels can show."""
    labels = np.arange(40) < 10
    trees = np.where(labels, 3.0, -3.0)
    steep = np.where(np.arange(40) % 10 == 0, -300.0, 300.0) * np.where(labels, 1.0, -1.0)
    found = fit_stack(np.stack([trees, np.zeros(40)]), steep, labels)
    assert found.bound == pytest.approx(np.log(11))
    whole = found.trees * trees + found.base * found.bounded(steep) + found.bias
    assert ((whole > 0) == labels).all(), "the trees know the pairs of which it is wrongly sure"
    order = np.linspace(-3, 3, 50)
    assert (np.diff(found.bounded(order)) > 0).all() and found.bounded(np.array([0.1]))[0] > 0.099


def test_presumed_non_matches_are_neither_labelled_nor_likely_matches():
    log_odds = np.random.default_rng(1).normal(size=500)
    known = np.arange(0, 500, 10)
    found = presumed_others(log_odds, known, 60, 7)
    assert len(found) == len(np.unique(found)) == len(known)
    assert not np.isin(found, known).any()
    assert log_odds[found].max() < np.sort(log_odds)[-120]
    assert found.tolist() == presumed_others(log_odds, known, 60, 7).tolist()
    assert len(presumed_others(log_odds, known, 240, 7)) <= 20, "nearly all candidates may be matches"
    assert not len(presumed_others(log_odds, known, 300, 7))


@pytest.fixture
def rare_matches():
    """20 labelled matches and 20 non-matches in doubt, that models tell apart a little out of fold, among
    100,000 candidates of which the bi-encoder puts few near them."""
    rng = np.random.default_rng(0)
    labels = np.arange(40) < 20
    held_out = np.where(labels, 1.0, -1.0) + rng.normal(0, 1.0, 40), rng.normal(0, 0.5, 40)
    return labels, held_out, -rng.exponential(0.3, 100_000) - 1.0


def test_models_that_lift_thousands_of_other_pairs_count_little(rare_matches):
    """Both sets of models are as good on the labelled pairs. One gives all other pairs log-odds around -1,
    give or take 1.5, and puts thousands above the labelled matches; the other knows them as non-matches."""
    labels, held_out, base = rare_matches
    rng = np.random.default_rng(1)
    assert cross_entropy(held_out[0] + held_out[1], labels) < cross_entropy(held_out[1], labels)
    noisy, sure = rng.normal(-1.0, 1.5, len(base)), np.full(len(base), -4.0)
    assert best_share(held_out, (noisy, base), labels) < 1.0
    assert best_share(held_out, (sure, base), labels) == 1.0


def test_one_wrong_answer_far_down_does_not_decide_whether_models_count(rare_matches):
    """One answer of 40 is wrong, and its pair is the last of all by the models, but not by the bi-encoder."""
    labels, held_out, base = rare_matches
    models = held_out[0].copy()
    models[0] = -9.0
    among = np.full(len(base), -4.0), base
    assert best_share((models, held_out[1]), among, labels) >= 0.5


def test_where_ranks_cannot_tell_cross_entropy_does():
    """No candidate beside the labelled ones: any share is as good, and models that mislead are left out."""
    labels = np.arange(20) < 10
    good, nothing = np.where(labels, 2.0, -2.0), np.zeros(20)
    for models, share in ((good, 1.0), (-good, 0.0)):
        assert best_share((models, nothing), (np.full(50, -9.0), np.full(50, -9.0)), labels) == share


def test_a_share_that_contradicts_the_labels_is_not_taken():
    """Log-odds that fall where labels rise: calibrated they would be one number, and every pair a tie."""
    labels = np.arange(20) < 10
    base = np.where(labels, -1.0, 1.0)
    stack = fit_stack(np.zeros((2, 20)), base, labels)
    assert with_share(stack, 0.5, np.zeros((2, 20)), base, labels) == stack


def test_with_few_matches_their_ranks_are_not_looked_at(rare_matches):
    """Models that lift thousands of other pairs: 20 matches show it, 19 are too few to tell."""
    labels, held_out, base = rare_matches
    noisy = np.random.default_rng(1).normal(-1.0, 1.5, len(base))
    assert best_share(held_out, (noisy, base), labels) < 1.0
    fewer = (held_out[0][1:], held_out[1][1:])
    assert best_share(fewer, (noisy, base), labels[1:]) == 1.0

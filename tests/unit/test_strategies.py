"""Strategies buy exactly their budget, and what each one buys is what it says."""

import numpy as np
import pytest

from pairsieve.contracts import Selection
from pairsieve.errors import PoolExhausted, SettingsError
from pairsieve.pairs import AllPairs, is_member
from pairsieve.strategies import BUILT_IN, strategy_named
from pairsieve.testing import SyntheticView, check_strategy


@pytest.mark.parametrize("name", [*BUILT_IN, "stratified:3/10"])
def test_every_built_in_keeps_the_contract(name):
    check_strategy(strategy_named(name).run)


def test_the_kit_catches_who_breaks_it():
    with pytest.raises(AssertionError, match="asked for 1 pairs, got 2"):
        check_strategy(lambda view, budget, rng: Selection(view.best(budget + 1).ids, "greedy"))
    with pytest.raises(AssertionError, match="asked before"):
        check_strategy(lambda view, budget, rng: Selection(view.logits.best(budget).ids, "forgetful"))
    with pytest.raises(AssertionError, match="same generator"):
        fresh = np.random.default_rng()
        check_strategy(
            lambda view, budget, rng: Selection(view.space.sample(budget, fresh, view.asked), "moody")
        )


def test_uncertain_pairs_lie_on_both_sides_of_one_half():
    view = SyntheticView(AllPairs(60))
    ids = strategy_named("uncertainty").run(view, 50, np.random.default_rng(0)).ids
    chosen = np.abs(view.logits.where(is_member(view.logits.ids, ids)).scores)
    others = np.abs(view.logits.without(ids).scores)
    assert chosen.max() <= others.min()


def test_adaptive_takes_the_top_and_static_ignores_the_model():
    view, rng = SyntheticView(AllPairs(60)), np.random.default_rng(0)
    assert np.array_equal(strategy_named("adaptive").run(view, 50, rng).ids, view.logits.best(50).ids)
    assert np.array_equal(strategy_named("static").run(view, 50, rng).ids, view.cosines.best(50).ids)


def test_random_knows_each_pairs_chance():
    view = SyntheticView(AllPairs(40), asked=AllPairs(40).unrank(np.arange(80)))  # 780 pairs, 80 asked
    chosen = strategy_named("random").run(view, 70, np.random.default_rng(0))
    assert np.allclose(chosen.inclusion_probability, 0.1)


def test_stratified_matches_a_runs_balance_however_the_rounds_cut_it():
    """A run found 7 positives in 30 labels: rounds of 10, 10 and 10 buy 2 + 2 + 3."""
    view, found = SyntheticView(AllPairs(60)), []
    for _ in range(3):
        ids = strategy_named("stratified:7/30").run(view, 10, np.random.default_rng(0)).ids
        found.append(int(is_member(ids, view.positives).sum()))
        view = SyntheticView(AllPairs(60), asked=np.union1d(view.asked, ids))
    assert found == [2, 2, 3]


def test_stratified_all_buys_every_positive_then_negatives():
    view = SyntheticView(AllPairs(60))
    total = len(view.positives)
    ids = strategy_named("stratified-all").run(view, 2 * total, np.random.default_rng(0)).ids
    assert is_member(view.positives, ids).all()
    after = SyntheticView(AllPairs(60), asked=ids)
    more = strategy_named("stratified-all").run(after, 20, np.random.default_rng(0)).ids
    assert not is_member(more, view.positives).any()


def test_an_unknown_name_brings_the_nearest():
    with pytest.raises(SettingsError, match=r"unknown strategy 'uncertanty'\. Did you mean 'uncertainty'"):
        strategy_named("uncertanty")
    with pytest.raises(SettingsError, match="stratified:742/16640"):
        strategy_named("stratified")


def test_stated_pairs_run_out_in_words():
    view = SyntheticView(AllPairs(10))
    with pytest.raises(PoolExhausted, match="asked for 45 pairs, 22 unlabelled stated pairs remain"):
        strategy_named("stated").run(view, 45, np.random.default_rng(0))


def test_a_plug_in_is_found_by_its_entry_point(monkeypatch):
    class Point:
        name = "mine"

        @staticmethod
        def load():
            return BUILT_IN["random"][0]

    monkeypatch.setattr("pairsieve.strategies.entry_points", lambda group: [Point])
    check_strategy(strategy_named("mine").run)
    assert strategy_named("mine").needs_model

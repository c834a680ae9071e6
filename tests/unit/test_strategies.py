"""Strategies buy exactly their budget, and what each one buys is what it says."""

import numpy as np
import pytest

from pairsieve.contracts import Selection
from pairsieve.errors import PoolExhausted, SettingsError
from pairsieve.pairs import AllPairs, CrossPairs, is_member, pair_rows
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


def choose(name, view, budget):
    return strategy_named(name).run(view, budget, np.random.default_rng(0)).ids


def test_under_the_papers_recipe_the_pairs_nearest_one_half_are_asked():
    view = SyntheticView(AllPairs(60), varied=False)
    ids = choose("uncertainty", view, 50)
    chosen = np.abs(view.logits.where(is_member(view.logits.ids, ids)).scores)
    others = np.abs(view.logits.without(ids).scores)
    assert chosen.max() <= others.min()


def test_uncertain_pairs_come_from_either_side_of_the_boundary_in_turn():
    """Also where the pairs nearest the boundary lie on its one side."""
    view = SyntheticView(AllPairs(200))
    view.logits.scores[(view.logits.scores > 0) & (view.logits.scores < 0.03)] = -0.01
    for view.varied, matches in ((False, 0), (True, 15)):
        ids = choose("uncertainty", view, 30)
        assert np.sum(view.logits.where(is_member(view.logits.ids, ids)).scores >= 0) == matches


def test_a_quarter_each_is_asked_a_margin_above_and_below_the_boundary():
    """Of 40 pairs 20 lie around 0, 10 around 2 and 10 around -2."""
    view = SyntheticView(AllPairs(200), margin=2.0)
    ids = choose("uncertainty", view, 40)
    scores = view.logits.where(is_member(view.logits.ids, ids)).scores
    assert [int((np.abs(scores - at) < 0.5).sum()) for at in (-2, 0, 2)] == [10, 20, 10]


@pytest.mark.parametrize("margin", [0.0, 2.0])
def test_no_text_fills_a_batch(margin):
    """A hub is near one half with every text; it is asked about three times, whichever side it stands on."""
    for space in (AllPairs(60), CrossPairs(60, 60)):
        for at in (0, 1):
            view = SyntheticView(space, margin=margin)
            hub = pair_rows(view.logits.ids)[at] == 30
            view.logits.scores[:] = np.where(hub, 0.01, view.logits.scores)
            rows = np.stack(pair_rows(choose("uncertainty", view, 20)))
            assert np.sum(rows[at] == 30) <= 3 and (margin or np.sum(rows[at] == 30) == 3)


class Groups(SyntheticView):
    """Sixty texts in three groups of twenty, of which the scorer is sure."""

    def sure_matches(self):
        ids = self.logits.ids
        left, right = pair_rows(ids)
        return ids[left // 20 == right // 20]


def test_two_groups_are_asked_about_once_in_a_batch_and_twice_in_a_campaign():
    """Three groups make six kinds of question. A scorer in doubt would ask the same one 36 times."""
    view = Groups(AllPairs(60))
    for _ in range(2):
        ids = choose("uncertainty", view, 6)
        kinds = {tuple(sorted((left // 20, right // 20))) for left, right in zip(*pair_rows(ids))}
        assert len(kinds) == 6
        view.asked = np.union1d(view.asked, ids)
    # Everything was asked twice: the batch is filled all the same.
    assert len(choose("uncertainty", view, 6)) == 6


def test_half_of_a_batch_is_asked_where_an_answer_speaks_of_most_pairs():
    """Texts 0 to 29 are one thing, all others are alone: an answer about one of the thirty speaks of 30."""
    view = SyntheticView(AllPairs(200))
    large = pair_rows(view.logits.ids)[1] < 30
    view.sure_matches = lambda: view.logits.ids[large]
    ids = choose("uncertainty", view, 20)
    assert sum(left < 30 for left in pair_rows(ids)[0].tolist()) >= 10
    view.sure_matches = lambda: view.logits.ids[:0]
    assert sum(left < 30 for left in pair_rows(choose("uncertainty", view, 20))[0].tolist()) < 10


class Copies(SyntheticView):
    """Texts come in tens that read the same; pairs of copies are uncertain, and the nearest of all."""

    def __post_init__(self):
        super().__post_init__()
        left, right = pair_rows(self.logits.ids)
        self.copies = self.logits.ids[left // 10 == right // 10]
        same = is_member(self.logits.ids, self.copies)
        self.logits.scores[:] = np.where(same, 0.0, self.logits.scores)
        self.cosines.scores[:] = np.where(same, 1.0, np.minimum(self.cosines.scores, 0.9))

    def text_numbers(self):
        return tuple(np.arange(size) // 10 for size in self.space.shape)


@pytest.mark.parametrize("name", ["uncertainty", "spread"])
def test_copies_are_asked_at_most_twice_and_a_pair_of_texts_once(name):
    asked = np.empty(0, np.int64)
    for _ in range(5):
        view = Copies(AllPairs(400), asked=asked)
        ids = choose(name, view, 20)
        asked = np.union1d(asked, ids)
    assert 1 <= is_member(asked, view.copies).sum() <= 2
    other = asked[~is_member(asked, view.copies)]
    left, right = (rows // 10 for rows in pair_rows(other))
    assert len({*zip(left.tolist(), right.tolist())}) == len(other)


def test_where_only_copies_are_left_they_are_asked():
    view = Copies(AllPairs(10))
    assert len(choose("uncertainty", view, 40)) == len(choose("spread", view, 40)) == 40


@pytest.mark.parametrize("few", [0.002, 0.02, 0.1])
def test_a_first_batch_spread_over_ranks_finds_both_classes(few):
    """Whether 40 of 19,900 pairs match, or 1,990; the nearest pairs alone are of one class."""
    view = SyntheticView(AllPairs(200), labels=np.empty(0, bool), round=1)
    matches = view.cosines.best(int(few * view.space.size)).ids
    found = int(is_member(choose("spread", view, 40), matches).sum())
    assert 3 <= found <= 37
    assert is_member(choose("static", view, 40), matches).sum() >= 39


def test_labels_of_one_class_are_countered():
    one_sided = SyntheticView(AllPairs(200), labels=np.zeros(40, bool))
    top = strategy_named("uncertainty").run(one_sided, 20, np.random.default_rng(0))
    assert top.why == "nearest, as few matches are known"
    assert is_member(top.ids, np.union1d(*one_sided.rankings(40))).all()
    one_sided.labels = np.ones(40, bool)
    down = strategy_named("uncertainty").run(one_sided, 20, np.random.default_rng(0))
    assert down.why == "further down, as nearly all are matches"
    assert not is_member(down.ids, one_sided.rankings(50)[0]).any()
    two = SyntheticView(AllPairs(200), labels=np.arange(40) < 2)  # too few for a re-ranker to learn from
    assert strategy_named("uncertainty").run(two, 20, np.random.default_rng(0)).why == top.why
    two.labels[2] = True
    assert strategy_named("uncertainty").run(two, 20, np.random.default_rng(0)).why == "uncertain"
    one_sided.labels[:3] = False  # three of the other class: the model can tell
    assert strategy_named("uncertainty").run(one_sided, 20, np.random.default_rng(0)).why == "uncertain"


@pytest.mark.parametrize("name", ["uncertainty", "spread"])
@pytest.mark.parametrize("labels", [np.zeros(4, bool), np.ones(4, bool), np.arange(8) % 2 == 0])
def test_the_last_pairs_of_a_tiny_space_can_be_asked(name, labels):
    for space in (AllPairs(4), CrossPairs(2, 3), CrossPairs(1, 6)):
        everything = space.unrank(np.arange(6))
        for asked in (0, 1, 5):
            view = SyntheticView(space, asked=everything[:asked], labels=labels)
            assert np.array_equal(choose(name, view, 6 - asked), everything[asked:])


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

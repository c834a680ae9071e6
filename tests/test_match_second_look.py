"""A second look: what it sees of a pair, that it learns from it, and is left out where it does not help."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_task import begin, made_task
from pairsieve import second_look
from pairsieve.campaign import again
from pairsieve.campaign.again import look_again, teach
from pairsieve.matches import looking
from pairsieve.matches.evidence import Bought
from pairsieve.matches.looking import choose_look, distil, held_out_first
from pairsieve.pairs import AllPairs, CrossPairs, ScoredPairs
from pairsieve.settings import Schedule

LEFT = ["Canon scanner 8800F | silver | 199.00", "Sony radio ICF-38 | 25.00"]
RIGHT = ["canon 8800 f scanner | 235.50", "Sony radio ICF38 | 24.00", "Sony radio SRF 59 | 15.00"]


def described(left, right, ids, scores):
    space = CrossPairs(len(left), len(right))
    return second_look.describe(second_look.wording(space, left, right), ids, np.asarray(scores, float))


def test_a_pair_is_described_by_its_lead_over_its_rivals():
    """Radio against its own (0.9) and the other radio (0.8): it leads by 0.1, the other trails by 0.1.

    Columns 0 to 2 are the cosine, the lead among the left text's candidates, and among the right text's.
    """
    space = CrossPairs(2, 3)
    ids = space.ids([0, 1, 1], [0, 1, 2])
    columns = described(LEFT, RIGHT, ids, [0.7, 0.9, 0.8])
    assert columns[:, 0].tolist() == pytest.approx([0.7, 0.9, 0.8])
    assert columns[1:, 1].tolist() == pytest.approx([0.1, -0.1])
    assert columns[:, 2].tolist() == pytest.approx([1, 1, 1])  # nobody else is a candidate of those


def test_codes_agree_however_they_are_spaced():
    """Columns 13 on are the codes: "ICF-38" and "ICF38" agree, "SRF 59" does not."""
    space = CrossPairs(2, 3)
    ids = space.ids([1, 1], [1, 2])
    codes = described(LEFT, RIGHT, ids, [0.9, 0.9])[:, 13]
    assert codes[0] > codes[1]


def test_the_last_number_is_compared_and_may_be_missing():
    """199.00 against 235.50 differ by 36.5/235.5; a text without a number gives no figure."""
    space = CrossPairs(2, 2)
    columns = described(LEFT, ["canon | 235.50", "no number here"], space.ids([0, 0], [0, 1]), [0.5, 0.5])
    assert columns[0, -2] == pytest.approx(36.5 / 235.5)
    assert np.isnan(columns[1, -2])


@settings(max_examples=30)
@given(st.lists(st.text("ab1 |", max_size=8), min_size=3, max_size=6))
def test_in_one_collection_the_order_of_a_pair_means_nothing(texts):
    """The same texts in reverse order: every pair is described as before."""
    space = AllPairs(len(texts))
    ids = space.unrank(np.arange(space.size))
    left, right = ids >> 32, ids & 0xFFFFFFFF
    scores = np.cos(left * 1.7 + right * 1.7)
    back = space.ids(len(texts) - 1 - left, len(texts) - 1 - right)
    order = np.argsort(back)
    one = second_look.describe(second_look.wording(space, texts, texts), ids, scores)
    turned = texts[::-1]
    other = second_look.describe(second_look.wording(space, turned, turned), back[order], scores[order])
    assert np.allclose(one[order], other, atol=1e-5, equal_nan=True)


def test_held_out_logits_come_from_trees_that_did_not_see_the_left_text():
    """Labels are noise that only the left text's number gives away: seen trees know it, others cannot."""
    rng = np.random.default_rng(0)
    left = np.repeat(np.arange(60), 5)
    labels = (rng.random(60) < 0.5)[left]
    features = left[:, None].astype(np.float32)
    seen = second_look.fit(features, labels, 0).logits(features)
    unseen = second_look.held_out_logits(features, labels, left, 0)
    assert ((seen > 0) == labels).mean() > 0.9
    assert ((unseen > 0) == labels).mean() < 0.7


def test_a_column_without_a_value_is_not_missed():
    """No text has a number: the trees learn from the other columns."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(80, 2)).astype(np.float32)
    features[:, 1] = np.nan
    labels = features[:, 0] > 0
    logits = second_look.fit(features, labels, 0).logits(features)
    assert ((logits > 0) == labels).all()


def test_candidates_are_neighbours_from_either_side():
    space = CrossPairs(2, 3)
    found = second_look.candidates(space, np.array([[0], [-1]]), np.array([[1], [1], [0]]))
    assert found.tolist() == np.sort(space.ids([0, 1, 1, 0], [0, 0, 1, 2])).tolist()


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_encoder):
    root = tmp_path_factory.mktemp("second")
    task = made_task(root / "task", two=True, sizes={"train": 200, "dev": 60, "test": 60})
    schedule = Schedule(first_batch=140, growth=1.0, rounds=2)
    ways = {"strategy": "second-look", "seed_set": "stated", "schedule": schedule}
    campaign = begin(root / "campaign", task, tiny_encoder, **ways)
    campaign.run()
    return campaign


def test_the_strategy_asks_where_the_second_look_doubts(trained):
    """Every pair of round 2 lies nearer one half, by the second look after round 1, than any not asked."""
    looked = look_again(trained, 1)
    assert looked is not None
    first, second = (trained.ledger.questions(number).ids for number in (1, 2))
    doubt = ScoredPairs(looked.ids, np.abs(looked.scores)).without(np.sort(first))
    asked = np.isin(doubt.ids, second)
    assert asked.sum() == len(second) == 140
    assert doubt.scores[asked].max() <= doubt.scores[~asked].min()


def test_the_better_look_is_used_and_the_other_told(trained, monkeypatch):
    look = choose_look(trained, 2, again=True)
    assert set(look.tried) == {"first look", "second look"}
    assert look.name == max(look.tried, key=look.tried.__getitem__)
    perfect = held_out_first(trained, 2)
    sure = Bought(perfect.ids, perfect.labels, np.where(perfect.labels, 1.0, -1.0))
    monkeypatch.setattr(looking, "held_out_first", lambda campaign, number: sure)
    assert choose_look(trained, 2, again=True).name == "first look"


def test_a_cross_encoder_joins_as_columns_of_its_own(trained, monkeypatch):
    monkeypatch.setattr(looking, "CROSS_FOLDS", 2)
    monkeypatch.setattr(looking, "CROSS_EPOCHS", 1)
    monkeypatch.setattr(again, "NEAREST", 2)
    look = choose_look(trained, 2, cross=True)
    assert "second look with a cross-encoder" in look.tried
    ranking = look.rank(trained.split)
    assert len(ranking.scores(trained.split.positives)) == len(trained.split.positives)


def test_distilling_is_kept_only_where_it_ranks_better(trained, tmp_path):
    taught = teach(trained, 2)
    look = choose_look(trained, 2, again=True)
    if look.name == "first look":  # the tiny encoder is random: give it the second look all the same
        bought = Bought(taught.labelled, taught.labels, taught.held_out)
        rank = looking._ranked_again(trained, 2, taught, None)
        look = looking.Look("second look", rank, bought, look.tried, look.key)
    told = distil(trained, 2, look, tmp_path / "distilled")
    assert told["kept"] == (told["after"] > told["before"]) == (tmp_path / "distilled").exists()
    assert told["pairs"] > 0

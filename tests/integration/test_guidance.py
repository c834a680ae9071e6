"""Advice after a round, stop rules, and labels that follow by transitivity, in real campaigns."""

import numpy as np
import pytest

from pairsieve.campaign import Campaign, Step
from pairsieve.campaign.questions import implied_pairs
from pairsieve.contracts import Answer
from pairsieve.errors import SettingsError
from pairsieve.pairs import AllPairs, is_member
from synthetic_task import begin, picture, synthetic_task


def test_what_follows_from_four_labels():
    """0 = 1, 1 = 2, and 2 ≠ 3 ≠ 0: so 0 = 2 and 1 ≠ 3 follow; nothing is said about 4."""
    space = AllPairs(5)
    following = implied_pairs(space, space.ids([0, 1], [1, 2]), space.ids([0, 2], [3, 3]))
    assert following.tolist() == space.ids([0, 0, 0, 1, 1, 2], [1, 2, 3, 2, 3, 3]).tolist()


def test_a_contradiction_infers_nothing():
    space = AllPairs(4)
    following = implied_pairs(space, space.ids([0, 1, 0], [1, 2, 3]), space.ids([0], [2]))
    assert len(following) == 0


def test_every_round_is_advised_on(tmp_path, tiny_encoder):
    task = synthetic_task(tmp_path / "task")
    campaign = begin(tmp_path / "campaign", task, tiny_encoder, reranker="off")
    campaign.run()
    rows = campaign.status().rounds
    # 20 · 1.5, and the round after the last
    assert [row.advised.next_labels for row in rows] == [30, 45, 68]
    for row in rows:
        brought = row.advised.next_positives
        assert 0 <= brought.low <= brought.value <= brought.high <= row.advised.next_labels
        assert row.advice


def test_a_campaign_knows_when_the_answers_it_rests_on_have_changed(tmp_path, tiny_encoder):
    """One match and one other are swapped in round 1: the counts are the same, the labels are not."""
    campaign = begin(
        tmp_path / "campaign", synthetic_task(tmp_path / "task"), tiny_encoder, rounds=2, reranker="off"
    )
    campaign.run()
    ledger, before = campaign.ledger, campaign.status().rounds
    assert campaign.stale_rounds() == {}
    ids, labels = ledger.labels(through=1)
    swapped = [Answer(int(ids[labels][0]), 0), Answer(int(ids[~labels][0]), 1)]
    ledger.answer(swapped, who="truth", source="page")
    assert campaign.stale_rounds() == {1: "answers changed since", 2: "answers changed since"}
    assert campaign.status().state == "ready" and campaign.step() == Step("train", 1)
    back = [Answer(int(ids[labels][0]), 1), Answer(int(ids[~labels][0]), 0)]
    ledger.answer(back, who="truth", source="page")
    assert campaign.stale_rounds() == {} and campaign.status().rounds == before


@pytest.mark.slow
def test_a_rule_stops_the_campaign_and_taking_it_away_goes_on(tmp_path, task, tiny_encoder, finished):
    campaign = begin(tmp_path / "campaign", task, tiny_encoder, stop_when="labels >= 50 or positives < 0%")
    step = campaign.run()
    assert (step.name, step.round, step.reason) == ("stopped", 2, "labels >= 50")
    assert campaign.status().state == "stopped"
    assert campaign.run().name == "stopped"  # running again does not forget it
    file = tmp_path / "campaign" / "campaign.toml"
    file.write_text(file.read_text().replace("labels >= 50 or positives < 0%", ""))
    again = Campaign(tmp_path / "campaign", accept_settings=True)
    assert again.run().name == "finished"
    assert picture(tmp_path / "campaign") == picture(finished["projection"])  # which had no rule


def test_a_rule_nobody_understands_is_refused_at_the_start(tmp_path, tiny_encoder):
    task = synthetic_task(tmp_path / "task")
    with pytest.raises(SettingsError, match="positives"):
        begin(tmp_path / "campaign", task, tiny_encoder, stop_when="postives < 5%")


def test_transitivity_asks_less_and_is_never_wrong(tmp_path, tiny_encoder):
    task = synthetic_task(tmp_path / "task")
    campaign = begin(tmp_path / "campaign", task, tiny_encoder, transitivity=True, reranker="off")
    campaign.run()
    positives = campaign.split.positives
    ids, labels = campaign.ledger.labels()
    assert np.array_equal(labels, is_member(ids, positives))  # given and inferred alike
    counts = campaign.ledger.counts()
    given, _ = campaign.ledger.labels(inferred=False)
    assert sum(count.inferred for count in counts) == len(ids) - len(given)
    assert [row.inferred for row in campaign.status().rounds] == [count.inferred for count in counts]
    # What follows from the labels of earlier rounds is never asked at all.
    for number in (2, 3):
        before, said = campaign.ledger.labels(through=number - 1, inferred=False)
        following = implied_pairs(campaign.split.space, before[said], before[~said])
        assert not is_member(campaign.ledger.questions(round=number).ids, following).any()


def test_transitivity_is_refused_between_two_collections(tmp_path, tiny_encoder):
    task = synthetic_task(tmp_path / "task", two=True)
    with pytest.raises(SettingsError, match="two collections"):
        begin(tmp_path / "campaign", task, tiny_encoder, transitivity=True)

"""The measuring share of a batch: drawn with known chances, counted with the batch, never trained on."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from pairsieve import evaluate_model, find_matches
from pairsieve.audit.run import RECALL_CHECK, asked_pairs
from pairsieve.campaign import Campaign, probability
from pairsieve.cli.match import check_words
from pairsieve.contracts import Answer
from pairsieve.errors import InputError
from pairsieve.pairs import is_member
from pairsieve.settings import CampaignSettings, Schedule
from pairsieve.sources import StatedLabels
from pairsieve.tasks import Task, load_task, save_task
from pairsieve.tasks.task import one_collection
from synthetic_task import begin, picture, synthetic_task

pytestmark = pytest.mark.xdist_group("measuring")  # one campaign serves the module: made once


def campaign_that_measures(folder, task, encoder) -> Campaign:
    return begin(folder, task, encoder, measuring_share=0.2)


@pytest.fixture(scope="module")
def measured(tmp_path_factory, tiny_encoder) -> Campaign:
    """20, 30 and 45 labels, a fifth of the later ones to measure by; its task stands beside it."""
    folder = tmp_path_factory.mktemp("measured")
    campaign = campaign_that_measures(folder / "c", synthetic_task(folder / "task"), tiny_encoder)
    campaign.run()
    return campaign


def test_a_tenth_of_each_later_batch_measures_by_default():
    """40 labels a round: 4 of them from round 2 on; none under the paper's recipe, or for a baseline."""
    usual = CampaignSettings(task="task", schedule=Schedule(first_batch=40, growth=1.0, rounds=10))
    assert [usual.measuring_labels(round) for round in (1, 2, 10)] == [0, 4, 4]
    paper = CampaignSettings(task="task", recipe="paper")
    assert paper.measuring_labels(2) == 0
    assert CampaignSettings(task="task", strategy="random").measuring_labels(2) == 0
    assert CampaignSettings(task="task", strategy="random", measuring_share=0.5).measuring_labels(2) == 20


def test_the_share_is_drawn_counted_and_kept_out_of_training(measured):
    """6 and 9 are drawn, 80 train."""
    campaign = measured
    drawn = campaign.ledger.questions(purpose="audit")
    assert np.bincount(drawn.rounds).tolist() == [0, 0, 6, 9]
    assert ((drawn.inclusion_probability > 0) & (drawn.inclusion_probability <= 1)).all()
    assert [row.labels for row in campaign.status().rounds] == [20, 50, 95]
    assert len(campaign.labels(3).ids) == 80
    assert not is_member(drawn.ids, campaign.labels(3).ids).any()


def test_what_is_drawn_estimates_what_the_truth_says(measured):
    figures = measured.figures()
    assert figures[1].estimated is None and figures[2].estimated is None, "6 are too few to tell"
    assert figures[3].estimated.labels == 15
    positives = figures[3].estimated.over_all.positives
    assert positives.low <= len(measured.split.positives) <= positives.high
    shown = [row.get("estimated") for row in measured.status().as_json()["rounds"]]
    assert shown[:2] == [None, None] and shown[2]["labels"] == 15


def test_a_probability_is_of_pairs_that_nobody_labelled(measured, monkeypatch):
    """95 pairs have a label: none of them is among those whose mean a step states."""
    populations = []
    monkeypatch.setattr(probability, "FEWEST", 10)
    monkeypatch.setattr(probability, "calibrate", lambda *given: populations.append(given[2]))
    probability._calibrated(measured, measured.split, 3, by_truth=False)
    assert populations[0][1].sum() == measured.split.space.size - 95


@pytest.mark.slow
def test_a_run_stopped_between_drawing_and_choosing_asks_the_same(
    measured, tmp_path, tiny_encoder, monkeypatch
):
    task = measured.folder.parent / "task"
    stopped = campaign_that_measures(tmp_path / "stopped", task, tiny_encoder)
    choose = Campaign._choose

    def interrupted(self, round, trained):
        if round == 2:
            raise KeyboardInterrupt
        return choose(self, round, trained)

    monkeypatch.setattr(Campaign, "_choose", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    monkeypatch.undo()
    assert np.bincount(stopped.ledger.questions(purpose="audit").rounds).tolist() == [0, 0, 6]
    Campaign(tmp_path / "stopped").run()
    assert picture(measured.folder) == picture(tmp_path / "stopped")


def test_a_check_of_a_recall_is_taken_up_again_and_goes_on(measured, tmp_path):
    """40 labels, a quarter from the pairs that will be listed; the same call asks nothing, 20 more go on."""
    shutil.copytree(measured.folder.parent, tmp_path / "copy")
    campaign = Campaign(tmp_path / "copy" / "c")

    def checked(labels):
        found = find_matches(campaign, tmp_path / "m.csv", recall=0.7, check_labels=labels).figures.check
        names = campaign.ledger.questions(purpose="audit").strategy
        return found, sum(name.startswith(RECALL_CHECK) for name in names)

    first, asked = checked(40)
    assert first.target == "recall" and first.labels == asked == 40
    assert first.threshold is not None and first.pairs > 0
    scan = campaign.score(campaign.split, 3).scan
    own = np.sort(scan.scores(campaign.split.positives))[::-1]
    within = own[scan.count_reaching(own[::-1].copy())[::-1] <= first.pairs]  # of these it is promised
    assert np.mean(within >= np.float32(first.threshold)) >= 0.7, (len(within), len(own))
    # Of the others nothing is promised; no number of them that the drawn labels leave room for is hidden.
    assert first.beyond_pairs == campaign.split.space.size - first.pairs
    assert len(own) - len(within) <= first.beyond_most <= first.beyond_pairs
    few = replace(first, beyond_most=first.beyond_pairs // 20)
    assert f"up to {few.beyond_most:,} matches there" in check_words(few)
    assert "too few to say how many" in check_words(replace(first, beyond_most=first.beyond_pairs))
    assert "all matches." in check_words(replace(first, beyond_pairs=0))
    assert checked(40) == (first, 40)
    more, asked = checked(60)
    assert asked == more.labels == 60 and more.pairs == first.pairs
    assert campaign.labels(3).ids.shape == (80,)  # none of them trains
    drawn = asked_pairs(campaign.ledger, campaign.score(campaign.split, 3).scan)
    assert int((drawn.audit > 0).sum()) == 15  # and none is taken for a draw from all pairs


def test_a_check_waits_for_what_is_open_and_the_task_answers_what_it_states(tmp_path, tiny_encoder):
    """Of the pairs that it asks, those that the task states are answered at once; it waits for the rest."""
    whole = load_task(synthetic_task(tmp_path / "whole")).splits["train"]
    known = one_collection("train", whole.left, whole.positives, whole.stated_negatives, False)
    save_task(Task("made", "equivalence", {"train": known}, {}, {}), tmp_path / "task")
    campaign = begin(tmp_path / "c", tmp_path / "task", tiny_encoder, rounds=1, reranker="off")

    def answer(ids):
        given = [Answer(int(id), int(is_member(np.array([id]), whole.positives)[0])) for id in ids]
        campaign.ledger.answer(given, who="anna", source="page")

    def waiting():
        found = find_matches(campaign, tmp_path / "m.csv", precision=0.6, check_labels=60)
        assert found.waiting == len(campaign.ledger.open_questions())
        return found.waiting

    campaign.run()
    answer(campaign.ledger.open_questions())
    campaign.run()
    first = waiting()
    asked = campaign.ledger.questions(purpose="audit").ids
    by_task = campaign.ledger.answers_by_person("audit")[StatedLabels.name]
    stated = np.union1d(known.positives, known.stated_negatives)
    assert len(asked) == 30 and sorted(by_task) == np.intersect1d(asked, stated).tolist()
    answer(campaign.ledger.open_questions()[:5])
    assert waiting() == first - 5 > 0
    for split in ("test", "train"):  # neither a split of that name, nor the truth of one
        with pytest.raises(InputError, match=rf"pairsieve audit {tmp_path / 'c'}"):
            evaluate_model(campaign, split)

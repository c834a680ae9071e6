"""The first questions of a large table are asked before any text is embedded; all else stays the same."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pairsieve import find_matches
from pairsieve.campaign import Campaign, selecting
from pairsieve.campaign.scoring import SplitScorer
from pairsieve.contracts import Answer
from pairsieve.models.encoder import Encoder
from pairsieve.pairs import is_member
from pairsieve.web import LabellingSession
from synthetic_task import begin, picture, synthetic_task


class Killed(BaseException):
    """Stands for a kill at this place."""


@pytest.fixture(autouse=True)
def _every_table_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "FIRST_FROM", 100)


@pytest.fixture
def killed_while_embedding(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Within its context, whoever wants the rows of texts is killed."""

    def kill(*_: Any) -> Any:
        raise Killed

    def run(campaign: Campaign) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(SplitScorer, "unit_rows", kill)
            with pytest.raises(Killed):
                campaign.run()

    return run


@pytest.mark.parametrize("two", [False, True])
def test_first_questions_stand_before_any_text_is_embedded(
    two: bool, tiny_encoder: Path, tmp_path: Path, killed_while_embedding: Any
) -> None:
    task = synthetic_task(tmp_path / "task", truth=False, stated=False, two=two)
    campaign = begin(tmp_path / "mine", task, tiny_encoder, measure_splits=())
    killed_while_embedding(campaign)
    first = campaign.ledger.open_questions()
    assert len(first) == 5  # one in four of the 20 labels of round 1
    assert campaign.step().name == "choose" and campaign.status().state == "ready"
    assert campaign.latest() == 0
    campaign.ledger.answer([Answer(int(pair), 1) for pair in first], who="ann", source="page")
    assert campaign.step().name == "choose" and campaign.latest() == 0  # round 1 is not complete
    assert campaign.run().waiting == 15
    everything = campaign.ledger.questions(1)
    assert everything.ids[:5].tolist() == first.tolist()  # these come first, and none comes twice
    assert len(np.unique(everything.ids)) == 20
    assert set(everything.strategy[:5]) == {selecting.FIRST_PART} and set(everything.strategy[5:]) == {
        "spread"
    }


@pytest.mark.slow
def test_a_killed_campaign_goes_on_to_the_same_end(
    tiny_encoder: Path, tmp_path: Path, killed_while_embedding: Any
) -> None:
    task = synthetic_task(tmp_path / "task")
    begin(tmp_path / "one", task, tiny_encoder).ledger.close()
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    killed_while_embedding(Campaign(tmp_path / "other"))
    for name in ("one", "other"):
        assert Campaign(tmp_path / name).run().name == "finished"
    assert picture(tmp_path / "one") == picture(tmp_path / "other")


def test_early_answers_do_not_change_which_pairs_follow(
    tiny_encoder: Path, tmp_path: Path, killed_while_embedding: Any
) -> None:
    """With transitivity, answers given before the rest is chosen would make other pairs follow."""
    task = synthetic_task(tmp_path / "task", truth=False, stated=False)
    options: dict[str, Any] = {"measure_splits": (), "transitivity": True}
    begin(tmp_path / "late", task, tiny_encoder, **options, reranker="off").ledger.close()
    shutil.copytree(tmp_path / "late", tmp_path / "early")
    early, late = Campaign(tmp_path / "early"), Campaign(tmp_path / "late")
    killed_while_embedding(early)
    answers = [Answer(int(pair), 1) for pair in early.ledger.open_questions()]
    early.ledger.answer(answers, who="ann", source="page")
    early.run()
    late.run()
    assert np.array_equal(early.ledger.questions(1).ids, late.ledger.questions(1).ids)


def test_small_tables_other_strategies_and_indexes_have_no_first_part(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = synthetic_task(tmp_path / "task")

    def first(name: str, **settings: Any) -> Any:
        return selecting.first_questions(begin(tmp_path / name, task, tiny_encoder, **settings).trainer)

    assert len(first("usual").ids) == 5
    assert len(first("many", first_batch=400).ids) == selecting.MOST_FIRST == 10
    assert first("few", first_batch=3) is None
    assert first("static", strategy="static") is None
    assert first("paper", recipe="paper") is None
    assert first("neighbours", search="neighbours") is None
    monkeypatch.setattr(selecting, "FIRST_FROM", 121)
    assert first("small") is None


def test_first_questions_lie_at_ranks_from_the_nearest_to_far_down(
    tiny_encoder: Path, tmp_path: Path
) -> None:
    """A first part of near copies alone, or of strangers alone, would teach nothing."""
    campaign = begin(tmp_path / "mine", synthetic_task(tmp_path / "task"), tiny_encoder, first_batch=40)
    chosen = selecting.first_questions(campaign.trainer)
    assert chosen is not None and len(chosen.ids) == 10
    matches = int(is_member(chosen.ids, campaign.split.positives).sum())
    assert 0 < matches < 10


def test_the_page_shows_first_pairs_and_still_has_the_rest_chosen(
    tiny_encoder: Path, tmp_path: Path, killed_while_embedding: Any
) -> None:
    task = synthetic_task(tmp_path / "task", truth=False, stated=False)
    campaign = begin(tmp_path / "mine", task, tiny_encoder, measure_splits=())
    killed_while_embedding(campaign)
    session = LabellingSession(campaign)
    shown = session.next_pairs("ann", 3)
    assert len(shown["pairs"]) == 3
    assert shown["round"] | {"number": 1, "asked": 20, "answered": 0} == shown["round"]
    assert session.step().name == "choose"  # a server that was killed goes on choosing, with open questions
    campaign.run()
    session.look_again()
    assert session.step().name == "label"
    assert session.state("ann")["round"]["asked"] == 20


def test_a_list_of_another_split_embeds_only_what_it_needs(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path / "mine", synthetic_task(tmp_path / "task"), tiny_encoder, measure_splits=()).run()
    embedded: list[str] = []
    plain = Encoder.embed

    def embed(encoder: Encoder, texts: Sequence[str], side: str = "left") -> Any:
        embedded.extend(texts)
        return plain(encoder, texts, side)

    monkeypatch.setattr(Encoder, "embed", embed)
    campaign = Campaign(tmp_path / "mine")
    find_matches(campaign, split="train")
    assert not embedded  # the rounds embedded train, and dev, whose truth judges the re-ranker and calibrates
    find_matches(campaign, split="test")
    assert sorted(embedded) == sorted(set(campaign.task.splits["test"].left.texts))

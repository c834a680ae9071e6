"""Are figures marked where the split they are measured on could be asked about?"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from pairsieve.cli import all_commands
from pairsieve.report.facts import gather
from pairsieve.report.page import page
from pairsieve.tasks import Collection
from pairsieve.tasks.task import one_collection, shared_pairs, two_collections
from synthetic_task import begin, synthetic_task
from web_campaign import Page

NOTHING = np.empty(0, np.int64)
WARNING = "Not held out, so too high: pairs of train could be asked about"


def texts(*keys: str) -> Collection:
    return Collection(list(keys), [f"text of {key}" for key in keys])


def test_pairs_are_shared_where_both_of_their_texts_are() -> None:
    """Of one collection, 3 common texts make 3 pairs; of two, 1 left and 2 right ones make 2; else none."""
    one = one_collection("one", texts("a", "b", "c", "d"), NOTHING, NOTHING, True)
    other = one_collection("other", texts("b", "c", "d", "e"), NOTHING, NOTHING, True)
    assert shared_pairs(one, other) == 3 and shared_pairs(one, one) == 6
    apart = one_collection("apart", texts("d", "x"), NOTHING, NOTHING, True)
    assert shared_pairs(one, apart) == 0
    left = two_collections("left", texts("a", "b"), texts("x", "y"), NOTHING, NOTHING, True)
    right = two_collections("right", texts("b", "c"), texts("x", "y", "z"), NOTHING, NOTHING, True)
    assert shared_pairs(left, right) == 2
    questions = two_collections("questions", texts("c"), texts("x", "y"), NOTHING, NOTHING, True)
    assert shared_pairs(left, questions) == 0  # the same sentences, but other questions: as in WikiQA
    other_texts = one_collection("same", Collection(["a", "b"], ["other", "texts"]), NOTHING, NOTHING, True)
    assert shared_pairs(one, other_texts) == 0  # keys alone make no text


def test_figures_on_pairs_that_could_be_asked_are_marked_everywhere(
    tmp_path: Path, tiny_encoder: Path
) -> None:
    task = synthetic_task(tmp_path / "task")
    campaign = begin(tmp_path / "c", task, tiny_encoder, rounds=1, measure_splits=("train",), reranker="off")
    campaign.run()
    assert campaign.figures()[1].measures["train"].held_out is False
    said = CliRunner().invoke(all_commands(), ["status", str(tmp_path / "c")], catch_exceptions=False)
    assert WARNING in said.stdout
    assert WARNING in campaign._repr_html_()
    assert WARNING in Page(campaign).get("/api/dashboard")["rounds"][0]["warning"]
    assert "(not held out)" in page(gather(campaign, "train"), [])
    assert "(not held out)" not in page(gather(campaign, "dev"), [])


def test_held_out_figures_are_not_marked(tmp_path: Path, tiny_encoder: Path) -> None:
    campaign = begin(
        tmp_path / "c", synthetic_task(tmp_path / "task"), tiny_encoder, rounds=1, reranker="off"
    )
    campaign.run()
    words = CliRunner().invoke(all_commands(), ["status", str(tmp_path / "c"), "--json"])
    assert json.loads(words.stdout)["rounds"][0]["measures"]["dev"]["held_out"] is True
    assert "Not held out" not in campaign._repr_html_()

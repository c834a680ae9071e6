"""`pairsieve audit` in real campaigns: with truth, with people, several draws a round, another split."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from pairsieve.audit.run import Draw, draws_of
from pairsieve.campaign import Campaign, Step
from pairsieve.cli import all_commands
from pairsieve.contracts import Answer
from pairsieve.errors import InputError
from synthetic_task import begin, synthetic_task
from web_campaign import Page

pytestmark = pytest.mark.slow


def call(*words: Any) -> dict[str, Any]:
    outcome = CliRunner().invoke(all_commands(), [*map(str, words), "--json"], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    found: dict[str, Any] = json.loads(outcome.stdout)
    return found


def test_story_with_truth(tmp_path: Path, tiny_encoder: Path) -> None:
    """Audited after two rounds, again after three: labels stay sealed, and earlier ones give limits."""
    task = synthetic_task(tmp_path / "task")
    campaign = begin(tmp_path / "c", task, tiny_encoder, rounds=2)
    with pytest.raises(InputError, match="no round is complete"):
        call("audit", tmp_path / "c")
    campaign.run()
    before = campaign.ledger.labels("train")
    found = call("audit", tmp_path / "c", "--budget", 60)
    assert found["state"] == "audited" and found["labels"] == 60 and found["round"] == 2
    matches = len(campaign.split.positives)
    free = found["over_all"]["positives"]  # the tiny encoder embeds nonsense: nothing may be assumed
    assert free["low"] <= matches <= free["high"]
    assert call("audit", tmp_path / "c", "--budget", 60) == found  # asked once, estimated alike
    for mine, old in zip(campaign.ledger.labels("train"), before):
        assert np.array_equal(mine, old)  # sealed: nothing reaches training
    assert call("audit", tmp_path / "c", "--threshold", 0.5)["threshold"] == 0.5
    chosen = call("audit", tmp_path / "c", "--precision", 0.001)  # by the labels that speak of it: no value
    assert "value" not in chosen["precision"] and chosen["precision"]["high"] >= 0.001
    assert "thresholds at once" in chosen["method"]
    words = CliRunner().invoke(all_commands(), ["audit", str(tmp_path / "c")]).stdout
    assert "Among all pairs these labels allow" in words and "60 labels drawn" in words
    settings_file = tmp_path / "c" / "campaign.toml"
    settings_file.write_text(settings_file.read_text().replace("rounds = 2", "rounds = 3"))
    longer = Campaign(tmp_path / "c", accept_settings=True)
    assert longer.run() == Step("finished", 3)
    moved = call("audit", tmp_path / "c", "--budget", 0)  # the new model, the old labels
    assert (
        moved["labels"] == 60 and "value" not in moved["precision"] and "earlier rankings" in moved["method"]
    )
    assert moved["over_all"]["positives"]["low"] <= matches <= moved["over_all"]["positives"]["high"]
    again = call("audit", tmp_path / "c", "--budget", 40)
    assert again["labels"] == 40 and again["round"] == 3  # of this model; the others are known pairs
    more = call("audit", tmp_path / "c", "--budget", 50)
    assert more["labels"] == 50 and "2 draws" in more["method"]
    assert len(longer.ledger.labels("train")[0]) == 20 + 30 + 45


def test_story_with_people(tmp_path: Path, tiny_encoder: Path) -> None:
    """Without truth the audit waits, says so, and goes on when people have answered; unsure is an answer."""
    task = synthetic_task(tmp_path / "task", truth=False)
    campaign = begin(tmp_path / "c", task, tiny_encoder, rounds=1, measure_splits=())
    campaign.run()
    people = campaign.ledger.open_questions(1, "train")
    answers = [Answer(int(pair), int(at % 4 == 0)) for at, pair in enumerate(people)]
    campaign.ledger.answer(answers, who="ann", source="page")
    campaign.run()
    assert call("audit", tmp_path / "c", "--budget", 30) == {
        "campaign": str(tmp_path / "c"),
        "split": "train",
        "state": "waiting",
        "waiting": 30,
    }
    asked = campaign.ledger.questions(purpose="audit")
    assert len(asked) == 30 and set(asked.why) == {"audit"} and (asked.inclusion_probability > 0).all()
    assert call("audit", tmp_path / "c")["waiting"] == 30  # not drawn twice
    labels = [None, *[0] * 19, *[1] * 10]
    given = [Answer(int(pair), label) for pair, label in zip(asked.ids, labels)]
    campaign.ledger.answer(given, who="ann", source="page")
    found = call("audit", tmp_path / "c")
    assert found["labels"] == 29 and found["unsure"] == 1 and found["positives"]["value"] > 0


def test_more_audits_in_one_round(tmp_path: Path, tiny_encoder: Path) -> None:
    """90 labels at once; then 60 more for the same model: two draws, no pair twice."""
    campaign = begin(tmp_path / "c", synthetic_task(tmp_path / "task"), tiny_encoder, rounds=1)
    campaign.run()
    first = call("audit", tmp_path / "c", "--budget", 90)
    more = call("audit", tmp_path / "c", "--budget", 150)
    assert first["labels"] == 90 and more["labels"] == 150
    numbers, draws = draws_of(campaign.ledger.questions())
    assert np.bincount(numbers).tolist() == [20, 90, 60]
    assert [str(draws[n]) for n in (1, 2)] == [
        "audit of round 1: 90 labels, draw 1",
        "audit of round 1: 150 labels, draw 2",
    ]
    assert call("audit", tmp_path / "c") == more  # as begun: nothing more is bought
    ids = campaign.ledger.questions().ids
    assert len(np.unique(ids)) == 170 and campaign.ledger.verify().ok
    # A draw spoke for every pair that was free then; how many labels a stratum gets is rounded at random.
    chances = campaign.ledger.questions(purpose="audit").inclusion_probability
    assert (1 / chances[numbers[20:] == 1]).sum() == pytest.approx(7140 - 20, rel=0.3)


def test_another_split_is_audited_by_people(tmp_path: Path, tiny_encoder: Path) -> None:
    """Test pairs have a ledger of their own: asked and answered by file, and nothing reaches training."""
    task = synthetic_task(tmp_path / "task", truth=False)
    campaign = begin(tmp_path / "c", task, tiny_encoder, rounds=1, measure_splits=())
    campaign.run()
    answers = [Answer(int(pair), int(at % 4 == 0)) for at, pair in enumerate(campaign.ledger.asked())]
    campaign.ledger.answer(answers, who="ann", source="page")
    campaign.run()
    before = campaign.ledger.digest()
    assert call("audit", tmp_path / "c", "--split", "test", "--budget", 40)["waiting"] == 40
    batch = tmp_path / "batch.csv"
    assert call("ask", tmp_path / "c", "--split", "test", "--out", batch)["questions"] == 40
    header, *rows = batch.read_text(encoding="utf-8").splitlines()
    assert "test-" in rows[0]  # keys of the test split
    at = header.split(",").index("label")
    frame = pd.read_csv(batch, dtype=str, keep_default_na=False)
    frame.iloc[:, at] = ["1"] * 10 + ["0"] * 30
    frame.to_csv(batch, index=False)
    told = call("import", tmp_path / "c", batch, "--split", "test", "--who", "ann")
    assert told["written"] == 40 and told["waiting"] == 0
    found = call("audit", tmp_path / "c", "--split", "test", "--budget", 40)
    assert found["split"] == "test" and found["labels"] == 40 and found["pairs"] == 60 * 59 // 2
    assert campaign.ledger.digest() == before
    assert (tmp_path / "c" / "rounds" / "audit-test-001.json").exists()
    assert campaign.status().rounds[0].audit is None  # which speaks of the campaign's own split


def test_the_audit_of_another_split_is_answered_on_the_page(tmp_path: Path, tiny_encoder: Path) -> None:
    """The page of `label --split test` shows test pairs, keeps answers apart, and says how to go on."""
    task = synthetic_task(tmp_path / "task", truth=False)
    campaign = begin(tmp_path / "c", task, tiny_encoder, rounds=2, measure_splits=())
    campaign.run()
    answers = [Answer(int(pair), int(at % 4 == 0)) for at, pair in enumerate(campaign.ledger.asked())]
    campaign.ledger.answer(answers, who="ann", source="page")
    campaign.run()  # round 2 waits: its questions must not come up on the audit's page
    with pytest.raises(InputError, match=r"no audit of test has been begun.*pairsieve audit"):
        call("label", tmp_path / "c", "--split", "test")
    before = campaign.ledger.digest()
    words = CliRunner().invoke(
        all_commands(), ["audit", str(tmp_path / "c"), "--split", "test", "--budget", "12"]
    )
    assert f"pairsieve label {tmp_path / 'c'} --split test" in words.stdout
    page = Page(campaign, split="test")
    assert page.get("/api/campaign")["campaign"] == "c, audit of test"
    shown = page.next("Ann", 50)
    assert len(shown["pairs"]) == 12 and all(p["left"]["key"].startswith("test-") for p in shown["pairs"])
    assert shown["apart"] and shown["split"] == "test" and shown["round"]["audit"]
    assert shown["budget"] == {"labels": 12, "answered": 0} and not shown["training"]["trains"]
    for at, pair in enumerate(shown["pairs"]):
        page.answer("Ann", pair["pair"], "match" if at % 3 == 0 else "no match")
    page.undo("Ann")
    page.answer("Ann", shown["pairs"][-1]["pair"], "unsure")
    done = page.get("/api/state", who="Ann")
    assert done["training"]["step"] == "audited" and done["budget"]["answered"] == 12
    assert done["training"]["reason"] == f"pairsieve audit {tmp_path / 'c'} --split test"
    assert page.get("/api/dashboard")["unseen"] is None
    found = call("audit", tmp_path / "c", "--split", "test", "--budget", 12)
    assert found["labels"] == 11 and found["unsure"] == 1
    assert campaign.ledger.digest() == before  # nothing of it is in the campaign's own ledger


def test_draws_are_named() -> None:
    assert Draw.named(str(Draw(3, 300, 2))) == Draw(3, 300, 2)
    assert Draw.named("measure of round 12") == Draw(0, 0, 1)  # of a batch, which no audit has to complete


def test_an_unknown_split_is_named(tmp_path: Path, tiny_encoder: Path) -> None:
    begin(tmp_path / "c", synthetic_task(tmp_path / "task"), tiny_encoder, rounds=1).run()
    with pytest.raises(InputError, match="Did you mean 'test'"):
        call("audit", tmp_path / "c", "--split", "tst")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--threshold", "0.5", "--precision", "0.9"], "together"),
        (["--precision", "1.5"], "above 0 and up to 1"),
        (["--threshold", "3"], "Scores lie between -1 and 1"),
        (["--budget", "0"], "no round is complete"),
    ],
)
def test_slips_are_named(tmp_path: Path, tiny_encoder: Path, words: list[str], message: str) -> None:
    begin(tmp_path / "c", synthetic_task(tmp_path / "task"), tiny_encoder)
    with pytest.raises(InputError, match=message):
        call("audit", tmp_path / "c", *words)

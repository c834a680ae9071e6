"""Campaigns with labels too few for a list: all "unsure", of one class, a handful; each names a way out."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from pairsieve.campaign import Campaign
from pairsieve.campaign.loop import Step
from pairsieve.cli import all_commands
from pairsieve.contracts import Answer
from pairsieve.errors import InputError
from pairsieve.library.campaigns import trained_round
from pairsieve.matches.checks import Check
from pairsieve.report.facts import gather
from pairsieve.web.predictions import write_predictions
from synthetic_task import begin, picture, synthetic_task

UNSURE = 'every answer so far is "unsure"'


def typed(*words: object) -> tuple[str, str]:
    """What a command prints to stdout and stderr."""
    result = CliRunner().invoke(all_commands(), [*map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def refused(*words: object) -> str:
    with pytest.raises(InputError) as caught:
        CliRunner().invoke(all_commands(), [*map(str, words)], catch_exceptions=False)
    return str(caught.value)


def started(tmp_path: Path, encoder: Path, **settings: Any) -> Path:
    """A campaign of two rounds of 20 without truth, whose first questions wait."""
    task = tmp_path / "task"
    if not task.exists():
        synthetic_task(task, truth=False)
    usual = {"rounds": 1, "reranker": "off", "measure_splits": ()}
    begin(tmp_path / "c", task, encoder, **usual | settings).run()
    return tmp_path / "c"


def answer(folder: Path, *labels: int | None) -> None:
    """Answer every open question, the labels in turn."""
    ledger = Campaign(folder).ledger
    waiting = ledger.open_questions().tolist()
    given = [Answer(pair, labels[at % len(labels)]) for at, pair in enumerate(waiting)]
    ledger.answer(given, who="anna", source="page")


# ── all "unsure" ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("measuring_share", [0.0, 0.2])
def test_a_round_of_unsure_answers_asks_about_other_pairs(
    tiny_encoder: Path, tmp_path: Path, measuring_share: float
) -> None:
    folder = started(tmp_path, tiny_encoder, rounds=3, measuring_share=measuring_share)
    first = Campaign(folder).ledger.asked()
    answer(folder, None)
    assert typed("status", folder)[0].endswith(f"Next: pairsieve run {folder}\n")
    out, err = typed("run", folder)
    assert err.count(f"round 1: {UNSURE}, so nothing was trained") == 1
    assert "Waiting for 30 labels of round 2" in out and "Nothing can be said about the next batch" in out

    campaign = Campaign(folder)
    asked = campaign.ledger.questions(2, "train")
    assert set(asked.strategy) == {"spread"}, "as in round 1"
    assert not np.isin(campaign.ledger.questions(2).ids, first).any()
    figures = campaign.figures()[1]
    assert (figures.labels, figures.positives, figures.reranked) == (0, 0, False)
    assert figures.scorer == campaign.trainer.pretrained().fingerprint
    assert campaign.latest() == 0 and campaign.stale_rounds() == {}
    assert write_predictions(campaign) == 0 and gather(campaign).model == 0

    answer(folder, 1, 0)
    assert Campaign(folder).run() == Step("label", 3, waiting=45)
    campaign = Campaign(folder)
    assert campaign.latest() == 2 and set(campaign.ledger.questions(3, "train").strategy) == {"uncertainty"}
    with pytest.raises(InputError, match=r"no model of round 1.*unsure.*Choose a later round, up to 2"):
        trained_round(campaign, 1)
    assert trained_round(campaign, 2) == 2


def test_a_run_killed_after_unsure_answers_goes_on_the_same(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = started(tmp_path, tiny_encoder, rounds=2)
    answer(folder, None)
    shutil.copytree(folder, tmp_path / "killed")
    Campaign(folder).run()
    killed = Campaign(tmp_path / "killed")

    def stop(*given: object) -> None:
        raise KeyboardInterrupt

    for step in ("_measure", "_choose", "_ask"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Campaign, step, stop)
            killed.run()
    assert killed.run() == Step("label", 2, waiting=30)
    assert picture(folder)["figures"] == picture(tmp_path / "killed")["figures"]
    ids = [Campaign(each).ledger.questions(2).ids.tolist() for each in (folder, tmp_path / "killed")]
    assert ids[0] == ids[1]


def test_unsure_answers_to_the_end_name_extend(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = started(tmp_path, tiny_encoder)
    answer(folder, None)
    more = f"pairsieve extend {folder} --labels 40, then pairsieve run {folder}"
    for command in ("run", "status"):
        out, _ = typed(command, folder)
        assert "so there is no model to match with." in out and out.endswith(f"Next: {more}\n")
    for command in ("match", "cluster"):
        assert refused(command, folder) == (
            f"{folder}: {UNSURE}, so there is no model to match with. {more}."
        )
    assert typed("extend", folder, "--labels", 10)[0].endswith(f"Next: pairsieve run {folder}\n")
    assert Campaign(folder).run().name == "label"


# ── all of one class, none answered, a handful ──────────────────────────────────────────────────────


@pytest.mark.parametrize(("label", "kind"), [(0, "non-matches"), (1, "matches")])
def test_labels_of_one_class_name_extend(tiny_encoder: Path, tmp_path: Path, label: int, kind: str) -> None:
    folder = started(tmp_path, tiny_encoder)
    answer(folder, label)
    more = f"pairsieve extend {folder} --labels 40, then pairsieve run {folder}"
    for command in ("run", "status"):
        out, _ = typed(command, folder)
        assert f"All 20 labels are {kind}" in out and out.endswith(f"Next: {more}\n")
    assert Campaign(folder).status().as_json()["lacks"].startswith("All 20 labels are")
    words = refused("match", folder)
    assert f"Ask for more labels ({more})" in words and "give `threshold` or `count`" in words


def test_a_stop_rule_that_held_is_named_where_labels_lack(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = started(tmp_path, tiny_encoder, rounds=2, stop_when="positives < 5%")
    answer(folder, 0)
    out, _ = typed("run", folder)
    rule = f"Take stop_when out of {folder / 'campaign.toml'}"
    assert out.endswith(f"Next: {rule}, then pairsieve run {folder} --accept-settings\n")


def test_match_before_the_answers_names_the_questions(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = started(tmp_path, tiny_encoder)
    assert refused("match", folder) == (
        f"{folder}: no round is complete yet, so there is no model to match with. Answer the 20 questions "
        f"that wait (pairsieve label {folder}, or pairsieve ask {folder} --out batch.csv and pairsieve "
        f"import {folder} batch.csv), then pairsieve run {folder}."
    )


@pytest.mark.parametrize(("labels", "few"), [(19, True), (20, False)])
def test_a_list_from_few_labels_says_so(tiny_encoder: Path, tmp_path: Path, labels: int, few: bool) -> None:
    folder = started(tmp_path, tiny_encoder)
    answer(folder, *[1, 0] * 9, *([1, 0] if not few else [1, None]))
    Campaign(folder).run()
    for command in ("match", "cluster"):
        out, _ = typed(command, folder)
        warned = f"Only {labels} labels were trained on, so most of this list may be wrong" in out
        assert warned == few and (f"pairsieve extend {folder} --labels 40" in out) == few
        assert ('"warning": "Only 19 labels' in typed(command, folder, "--json")[0]) == few


# ── checks ──────────────────────────────────────────────────────────────────────────────────────────


def test_answers_of_a_check_lead_back_to_match(tiny_encoder: Path, tmp_path: Path) -> None:
    folder, batch = started(tmp_path, tiny_encoder), tmp_path / "batch.csv"
    answer(folder, 1, 0)
    Campaign(folder).run()
    assert "labels that check the list" in typed("match", folder, "--recall", 0.5)[0]
    typed("ask", folder, "--out", batch)
    with batch.open(newline="") as file:
        header, *rows = csv.reader(file)
    at = header.index("label")

    def brought(filled: int) -> str:
        for row in rows[:filled]:
            row[at] = "0"
        with batch.open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return typed("import", folder, batch, "--who", "anna")[0]

    assert f"Next: pairsieve label {folder}" in brought(len(rows) - 1)
    assert "0 questions wait. Next: the pairsieve match command of this check again" in brought(len(rows))


def test_a_recall_that_is_not_shown_names_what_to_do() -> None:
    from pairsieve.cli.match import check_words

    words = check_words(Check("recall", 0.9, 0.95, 100, None, pairs=702, beyond=115.0), Path("mine"))
    assert words.startswith("Not shown: 100 labels speak of the 702 best-scored pairs")
    assert "a lower --recall" in words and "pairsieve extend mine --labels 200, then pairsieve run" in words

"""Agreement as the dashboard shows it: among people (Krippendorff's alpha), and of models with people.

Numbers worked by hand; that alpha itself is right is the business of test_agreement.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pairsieve.campaign import Campaign
from pairsieve.contracts import Answer
from pairsieve.sources.overlap import FOLDER, OVERLAP_FILE, SOURCE, overlap_writer
from pairsieve.web.dashboard import agreement
from web_campaign import Page, asked_campaign


def votes(*columns: tuple[int | None, ...]) -> list[tuple[int, dict[str, int | None]]]:
    """Per pair, what persons 0, 1, … said."""
    return [
        (pair, {str(person): label for person, label in enumerate(said)}) for pair, said in enumerate(columns)
    ]


def alpha(*columns: tuple[int | None, ...]) -> float:
    found = agreement(votes(*columns), seed=0)
    assert found is not None
    return float(found["value"])


def test_two_people_and_four_pairs() -> None:
    # One disagreement among four pairs: observed 1·1/(2-1) = 1. Of 8 values 3 are matches and 5 are not.
    # alpha = 1 - (8 - 1) · 1 / (3 · 5) = 1 - 7/15 = 8/15.
    assert alpha((1, 1), (1, 0), (0, 0), (0, 0)) == pytest.approx(8 / 15)


def test_unsure_takes_no_side_and_one_opinion_says_nothing() -> None:
    # Pair 1: 1 1 0 (three people): 2·1/(3-1) = 1. Pair 2: 0 0 and one unsure: 0. Pair 3: 1 alone: left out.
    # Pair 4: 1 1: 0. Values: matches 2 + 2 = 4, no matches 1 + 2 = 3, 7 in all.
    # alpha = 1 - (7 - 1) · 1 / (4 · 3) = 1/2.
    assert alpha((1, 1, 0), (0, None, 0), (1,), (1, 1)) == pytest.approx(0.5)


def test_it_says_nothing_where_nothing_could_disagree() -> None:
    assert agreement([], seed=0) is None
    assert agreement(votes((1, 1), (1, 1)), seed=0) is None, "only matches: chance alone would agree as well"
    assert agreement(votes((1,), (0,)), seed=0) is None, "nobody looked twice"


def test_the_interval_holds_the_value_and_is_the_same_every_time() -> None:
    said = votes(*[(1, 1)] * 20, *[(0, 0)] * 60, *[(1, 0)] * 10)
    found, again = agreement(said, seed=0), agreement(said, seed=0)
    assert found is not None and found == again and found["n"] == 90
    assert found["low"] < found["value"] < found["high"] < 1


@pytest.fixture
def campaign(tmp_path: Path, tiny_encoder: Path) -> Campaign:
    return asked_campaign(tmp_path, tiny_encoder)


def test_a_language_model_is_compared_with_people_and_is_not_one_of_them(campaign: Campaign) -> None:
    page = Page(campaign, overlap=1.0)
    given = [int(pair) for pair in page.pairs("Ann", 4)]
    for pair, label in zip(given, ("match", "no match", "no match", "match")):
        page.answer("Ann", str(pair), label)
    place = campaign.folder / FOLDER / OVERLAP_FILE
    # Under an older wording it said something else; that was another labeller.
    overlap_writer(place, "oracle-7b", "old words")([Answer(given[2], 1)])
    overlap_writer(place, "oracle-7b", "new words")([Answer(given[0], 1), Answer(given[1], 1)])
    campaign.ledger.answer([Answer(given[3], 1)], "oracle-7b", SOURCE)  # a label of its own, on Ann's pair
    page.session.look_again()
    data = page.get("/api/dashboard")
    (model,) = data["models"]
    # Both answered pairs 0, 1 and 3: match–match, no match–match, match–match: two of three are equal.
    assert (model["model"], model["answers"], model["pairs"]) == ("oracle-7b", 1, 3)
    assert model["agreement"]["value"] == pytest.approx(2 / 3)
    assert (model["on_matches"]["value"], model["on_no_matches"]["value"]) == (1.0, 0.0)
    assert data["agreement"] is None, "Ann alone and a model are not two people"
    assert [(row["who"], row["model"]) for row in data["people"]] == [("Ann", False), ("oracle-7b", True)]
    assert page.get("/api/campaign")["people"] == ["Ann"]
    refused = page.client.get("/api/next", params={"who": "oracle-7b"})
    assert refused.status_code == 400 and "language model" in refused.json()["detail"]


def test_the_dashboard_notices_what_other_processes_write(campaign: Campaign) -> None:
    page = Page(campaign)
    (pair, *_) = page.pairs("Ann")
    page.answer("Ann", pair, "match")
    assert page.get("/api/dashboard")["models"] == []
    overlap_writer(campaign.folder / FOLDER / OVERLAP_FILE, "oracle-7b", "words")([Answer(int(pair), 1)])
    for _ in range(200):  # no answer came meanwhile, yet the figures are made again
        found = page.get("/api/dashboard")["models"]
        if found:
            break
    assert [row["pairs"] for row in found] == [1]
    assert np.isfinite(found[0]["agreement"]["value"])

"""The labelling page's server without a browser: who gets which pair, what is kept, what is shown."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pairsieve.campaign import Campaign
from pairsieve.campaign.figures import write_checksummed
from pairsieve.campaign.questions import WHY as MEASURING
from pairsieve.ledger import Ledger
from pairsieve.web.answer_cache import AnswerCache
from pairsieve.web.dashboard import over_time, pace
from pairsieve.web.predictions import predictions_file
from web_campaign import PLACES, Page, ask, asked_campaign, asked_records, until


@pytest.fixture
def campaign(tmp_path: Path, tiny_encoder: Path) -> Campaign:
    return asked_campaign(tmp_path, tiny_encoder)


def test_a_pair_comes_with_its_texts_and_without_any_opinion(campaign: Campaign) -> None:
    shown = Page(campaign).next("Ann", 2)["pairs"]
    texts, keys = campaign.split.left.texts, campaign.split.left.keys
    assert [pair["left"] for pair in shown] == [{"key": keys[0], "text": texts[0]}] * 2
    assert [pair["right"]["key"] for pair in shown] == [keys[1], keys[2]]
    assert all(pair.keys() == {"pair", "round", "left", "right"} for pair in shown), "blind unless asked for"
    assert Page(campaign).next("Ann", 1, prediction=True)["pairs"][0]["why"] == "made"


def test_a_pair_of_records_comes_column_by_column(tmp_path: Path, tiny_encoder: Path) -> None:
    first, second, third = Page(asked_records(tmp_path, tiny_encoder)).next("Ann", 3)["pairs"]
    assert [row["name"] for row in first["rows"]] == ["name", "country", "lat", "lon", "notes"]
    assert first["rows"][2] == {"name": "lat", "left": "37.88", "right": "37.8833"}
    assert second["rows"][1] == {"name": "country", "left": "Austria", "right": None}
    assert second["right"]["text"] == "Wien | 48.2 | 16.37", "nobody reads the places of missing values"
    assert third["rows"][0]["left"] == PLACES["name"][4], "values are sent as texts are"


def test_answers_are_in_the_ledger_under_the_persons_name(campaign: Campaign) -> None:
    page = Page(campaign)
    one, two, three = page.pairs("Ann", 3)
    page.answer("Ann", one, "match")
    page.answer("  Ann ", two, "no match")
    made = page.answer("Ann", three, "unsure")
    kept = campaign.ledger.answers()
    assert [str(id) for id in kept.ids] == [one, two, three]
    assert (kept.labels, kept.who, set(kept.source)) == ([1, 0, None], ["Ann"] * 3, {"page"})
    assert made["round"] == {"number": 1, "of": 3, "audit": False, "asked": 10, "answered": 3}
    assert made["budget"] == {"labels": 95, "answered": 3}
    assert page.pairs("Ann")[0] not in (one, two, three)


def test_the_budget_ends_at_its_number_measuring_labels_included(campaign: Campaign) -> None:
    """10 pairs of round 1 and 5 to measure by: 15 answers, in the budget too; an audit is beside it."""
    ids = campaign.split.space.unrank(np.arange(20, 26))
    for part, why in ((ids[:5], MEASURING), (ids[5:], "audit")):
        name = f"{why} of round 1"
        keys = campaign.split.keys(part)
        campaign.ledger.ask(1, part, *keys, why, name, np.ones(len(part)), purpose="audit")
    page = Page(campaign)
    for pair in page.pairs("Ann", 16):
        made = page.answer("Ann", pair, "match")
    assert made["own_answers"] == 16 and made["budget"]["answered"] == 15


def test_nonsense_does_not_have_the_whole_ledger_read(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page(campaign)
    pair, *_ = page.pairs("Ann")
    page.answer("Ann", pair, token="a" * 8)

    def unread(_: Ledger) -> None:
        pytest.fail("every answer was read")

    monkeypatch.setattr(Ledger, "answers", unread)
    assert page.answer("Ann", pair, token="a" * 8)["written"] == 0
    never = {"who": "Ann", "answers": [{"pair": "99", "label": "match", "token": "b" * 8}]}
    assert page.client.post("/api/answers", json=never).status_code == 400


def test_a_click_sent_twice_counts_once_even_after_an_undo(campaign: Campaign) -> None:
    page = Page(campaign)
    pair, *_ = page.pairs("Ann")
    token = secrets.token_hex(8)
    assert page.answer("Ann", pair, "match", token)["written"] == 1
    assert page.answer("Ann", pair, "match", token)["written"] == 0
    page.undo("Ann", pair)
    assert page.answer("Ann", pair, "match", token)["written"] == 0, "a late copy does not undo the undo"
    assert len(campaign.ledger.answers()) == 2
    assert pair in page.pairs("Ann")


def test_two_people_get_different_pairs_until_one_goes_silent(campaign: Campaign) -> None:
    now = [0.0]
    page = Page(campaign, lease_seconds=180, clock=lambda: now[0])
    ann, bob = page.pairs("Ann", 4), page.pairs("Bob", 4)
    assert len(ann) == 4 and len(bob) == 4 and not set(ann) & set(bob)
    assert page.pairs("Ann", 4) == ann, "asking again gives the same pairs again"
    now[0] = 200.0
    assert set(ann) <= set(page.pairs("Bob", 10)), "Ann has gone; her pairs are free"


def test_overlap_gives_a_pair_to_two_people_and_not_to_a_third(campaign: Campaign) -> None:
    page = Page(campaign, overlap=1.0)
    ann, bob = page.pairs("Ann", 3), page.pairs("Bob", 3)
    assert ann == bob
    page.answer("Ann", ann[0])
    page.answer("Bob", ann[0])
    assert ann[0] not in page.pairs("Cid", 10)


def test_the_overlap_share_is_about_what_was_asked_for(campaign: Campaign) -> None:
    session = Page(campaign, overlap=0.3).session
    twice = sum(session.wanted(pair) == 2 for pair in range(0, 4000 << 32, 1 << 32))
    assert 1100 < twice < 1300  # 4000 · 0.3 = 1200, standard deviation 29


def test_a_skipped_pair_goes_to_the_back_for_that_person_only(campaign: Campaign) -> None:
    page = Page(campaign)
    first, second, *_ = page.pairs("Ann", 10)
    for pair in (second, first):
        page.post("/api/skip", {"who": "Ann", "pair": pair})
    assert page.pairs("Ann", 10)[-2:] == [second, first], "in the order of skipping"
    page.post("/api/skip", {"who": "Ann", "pair": first})
    assert page.pairs("Bob", 2), "others may have them meanwhile"
    assert len(campaign.ledger.answers()) == 0, "a skip is not an answer"


def test_undo_goes_back_to_the_first_answer_also_of_another_day(campaign: Campaign) -> None:
    page = Page(campaign)
    given = page.pairs("Ann", 3)
    for pair, label in zip(given, ("match", "no match", "unsure")):
        page.answer("Ann", pair, label)
    other_day = Page(Campaign(campaign.folder))
    back = [other_day.undo("Ann")["undone"] for _ in range(4)]
    assert [(u["pair"], u["answer"]) for u in back[:3]] == [
        (given[2], "unsure"),
        (given[1], "no match"),
        (given[0], "match"),
    ]
    assert back[3] is None
    assert other_day.pairs("Ann", 3)[0] == given[0]
    assert len(campaign.ledger.open_questions(1)) == 10
    assert other_day.undo("Ann", given[0])["undone"] is None, "nothing stands there any more"


def test_people_disagree_and_somebody_settles_it(campaign: Campaign) -> None:
    page = Page(campaign, overlap=1.0)
    pair, other, *_ = page.pairs("Ann")
    page.answer("Ann", pair, "match")
    page.answer("Bob", pair, "no match")
    page.answer("Ann", other, "no match")
    made = page.answer("Bob", other, "no match")
    assert made["undecided"] == 1
    (dispute,) = page.get("/api/disputes")["disputes"]
    assert (dispute["pair"], dispute["tie"]) == (pair, True)
    assert dispute["votes"] == [{"who": "Ann", "label": "match"}, {"who": "Bob", "label": "no match"}]
    assert int(pair) in campaign.ledger.open_questions(1), "a tie keeps the round open"
    assert page.get("/api/dashboard")["agreement"]["value"] == pytest.approx(0.0)  # 1 - 3·1/(1·3)
    assert page.settle("Ann", pair, "no match")["undecided"] == 0
    ids, labels = campaign.ledger.labels()
    assert dict(zip(ids.tolist(), labels.tolist()))[int(pair)] is False
    assert int(pair) not in campaign.ledger.open_questions(1)
    votes = page.session.look(lambda cache: cache.votes[int(pair)])
    assert votes == {"Ann": 1, "Bob": 0}, "votes stay as said"


def test_the_round_waits_for_a_second_opinion_only_while_somebody_is_there(campaign: Campaign) -> None:
    now = [0.0]
    page = Page(campaign, overlap=1.0, lease_seconds=180, clock=lambda: now[0])
    for pair in page.pairs("Bob", 10):
        page.answer("Ann", pair)
    assert page.session.busy_with_people(), "Bob is here and owes second opinions"
    now[0] = 300.0
    page.next("Ann")
    assert not page.session.busy_with_people(), "Bob has left"


@pytest.mark.slow
def test_answers_from_elsewhere_are_seen(campaign: Campaign) -> None:
    page, other = Page(campaign), Page(Campaign(campaign.folder))
    pair, *_ = page.pairs("Ann")
    other.answer("Bob", pair, "match")
    until(lambda: pair not in page.pairs("Ann", 20))  # by itself, within a few seconds
    ask(campaign, 2, np.arange(20, 25))
    page.session.look_again()
    assert len(page.pairs("Ann", 50)) == 14


def test_the_board_in_memory_equals_one_read_from_the_ledger(campaign: Campaign) -> None:
    page = Page(campaign, overlap=0.5)
    rng = np.random.default_rng(3)
    for _ in range(60):
        who = ["Ann", "Bob", "Cid"][rng.integers(3)]
        pairs = page.pairs(who, 3)
        if pairs and rng.random() < 0.7:
            page.answer(who, pairs[0], ["match", "no match", "unsure"][rng.integers(3)])
        else:
            page.undo(who)
    fresh = AnswerCache(campaign.ledger, page.session.wanted)
    fresh.refresh()
    kept = page.session.look(lambda cache: cache)
    for name in ("votes", "history"):
        assert _full(getattr(kept, name)) == _full(getattr(fresh, name)), name
    for name in ("wanting", "disputes"):
        assert set(getattr(kept, name)) == set(getattr(fresh, name)), name
    assert +kept.open == +fresh.open and +kept.positives == +fresh.positives
    counts = campaign.ledger.counts()[0]
    assert (counts.open, counts.positives) == (fresh.open["train", 1], fresh.positives["train", 1])


def _full(by_name: dict[Any, dict[Any, Any]]) -> dict[Any, dict[Any, Any]]:
    return {name: held for name, held in by_name.items() if held}


def test_the_guideline_is_kept_and_nobody_overwrites_anothers_change(campaign: Campaign) -> None:
    page = Page(campaign)
    first = page.get("/api/guideline")
    assert first["text"] == ""
    put = page.client.put("/api/guideline", json={"text": "Same <b>thing</b>.", "version": first["version"]})
    assert put.status_code == 200
    assert (campaign.folder / "guideline.md").read_text() == "Same <b>thing</b>."
    late = page.client.put("/api/guideline", json={"text": "Mine.", "version": first["version"]})
    assert late.status_code == 400 and "somebody else" in late.json()["detail"]
    long = page.client.put("/api/guideline", json={"text": "x" * 20_001, "version": ""})
    assert long.status_code == 422


@pytest.mark.parametrize("name", ["", "   ", "x" * 65, "truth", "a\u0007b"])
def test_names_that_cannot_be(campaign: Campaign, name: str) -> None:
    response = Page(campaign).client.get("/api/next", params={"who": name})
    assert response.status_code in (400, 422)


def test_a_pair_never_asked_is_refused_and_nothing_of_its_batch_is_written(campaign: Campaign) -> None:
    page = Page(campaign)
    pair, *_ = page.pairs("Ann")
    given = [{"pair": p, "label": "match", "token": secrets.token_hex(8)} for p in (pair, "99999999999999")]
    response = page.client.post("/api/answers", json={"who": "Ann", "answers": given})
    assert response.status_code == 400 and "never asked" in response.json()["detail"]
    assert len(campaign.ledger.answers()) == 0


def test_the_dashboard_counts_what_happened(campaign: Campaign) -> None:
    page = Page(campaign)
    for pair, label in zip(page.pairs("Ann", 4), ("match", "no match", "unsure", "match")):
        page.answer("Ann", pair, label)
    page.undo("Ann")
    data = page.get("/api/dashboard")
    assert data["version"] == page.get("/api/state", who="Ann")["version"]
    counted = [(p["answered"], p["positives"]) for p in data["over_time"]]
    assert counted == [(1, 1), (2, 1), (3, 1), (4, 2), (3, 1)]
    (ann,) = data["people"]
    assert {k: ann[k] for k in ("who", "answers", "match", "no_match", "unsure")} == {
        "who": "Ann",
        "answers": 3,
        "match": 1,
        "no_match": 1,
        "unsure": 1,
    }
    assert data["batches"] == [{"round": 1, "asked": 10, "labelled": 2, "unsure": 1, "positives": 1}]
    assert data["mistakes"] == [] and data["agreement"] is None


def test_labels_per_hour_leave_pauses_out(campaign: Campaign) -> None:
    page = Page(campaign)
    given = page.pairs("Ann", 4)
    for pair in given:
        page.answer("Ann", pair)
    cache = page.session.look(lambda cache: cache)
    seconds = (0, 10, 20, 920)  # two gaps of ten seconds, then a pause: 2 answers in 20 s = 360 an hour
    cache.events = [
        replace(event, at=f"2026-01-01T00:{s // 60:02d}:{s % 60:02d}+00:00")
        for event, s in zip(cache.events, seconds)
    ]
    assert pace(cache)[0]["per_hour"] == pytest.approx(360)
    assert len(over_time(cache)) == 4


def test_the_most_confident_mistakes_come_first(campaign: Campaign) -> None:
    page = Page(campaign)
    given = page.pairs("Ann", 4)
    for pair, label in zip(given, ("match", "no match", "match", "no match")):
        page.answer("Ann", pair, label)
    thinks = [0.40, 0.99, 0.90, 0.20]  # wrong by 0.60, 0.99, 0.10 and 0.20: only two are mistakes
    row = {"round": 1, "pairs": [int(p) for p in given], "match_score": thinks, "calibrated": [True] * 4}
    write_checksummed(predictions_file(campaign.folder), row)
    found = page.get("/api/dashboard")["mistakes"]
    assert [(m["pair"], m["label"], m["probability"]) for m in found] == [
        (given[1], "no match", 0.99),
        (given[0], "match", 0.40),
    ]
    page.undo("Ann", given[0])
    assert page.next("Ann", 1, prediction=True)["pairs"][0]["probability"] == 0.40

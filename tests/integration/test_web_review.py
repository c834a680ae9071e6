"""The review page's API: the list by doubt, groups, earlier answers, and what people say of them."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pairsieve.audit.run import draws_of
from pairsieve.campaign import Campaign
from pairsieve.library.matches import find_clusters
from pairsieve.matches.review import review_list
from pairsieve.web.review import write_review
from web_campaign import HERE, Page, finished_records, until

pytestmark = pytest.mark.xdist_group("review")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Campaign:
    campaign = finished_records(tmp_path_factory.mktemp("review"), tiny_encoder)
    write_review(campaign.folder)
    return campaign


@pytest.fixture
def campaign(made: Campaign, tmp_path: Path) -> Campaign:
    """A copy of the finished campaign, to write to."""
    import shutil

    shutil.copytree(made.folder.parent, tmp_path / "copy")
    return Campaign(tmp_path / "copy" / made.folder.name)


class Reviewer(Page):
    def view(self, name: str, **more: Any) -> Any:
        return self.get(f"/api/review/{name}", who="Ann", **more)

    def say(self, path: str, who: str = "Ann", **body: Any) -> dict[str, Any]:
        return self.post(f"/api/review/{path}", {"who": who, "token": secrets.token_hex(8), **body})


def test_pairs_come_by_doubt_and_the_list_is_that_of_cluster(campaign: Campaign) -> None:
    found = review_list(campaign)
    margin = np.where(found.listed, 1, -1) * (found.scores.astype(float) - found.threshold)
    known = [campaign.ledger.labels(purpose)[0] for purpose in ("train", "audit")]
    labelled = np.isin(found.ids, np.concatenate(known))
    assert (np.diff(labelled.astype(int)) >= 0).all(), "labelled pairs come last"
    assert (np.diff(margin[~labelled]) >= 0).all() and len(found.ids) == len(set(found.ids.tolist()))
    table = find_clusters(campaign).to_pandas()
    group = dict(zip(table["key"], table["cluster"]))
    keys = campaign.split.left.keys
    for pair, listed in zip(found.ids.tolist(), found.listed.tolist()):
        same = group[keys[pair >> 32]] == group[keys[pair & 0xFFFF_FFFF]]
        assert listed <= same
    groups = {frozenset(keys[row] for row in members) for members, _, _ in found.groups}
    expected = {frozenset(part["key"]) for _, part in table.groupby("cluster") if len(part) > 1}
    assert groups == expected and len(groups) == found.all_groups
    for members, weakest, outside in found.groups:
        assert {weakest >> 32, weakest & 0xFFFF_FFFF} <= set(members)
        if outside is not None:
            assert len({outside >> 32, outside & 0xFFFF_FFFF} & set(members)) == 1


@pytest.mark.slow
def test_the_list_is_made_in_a_process_of_its_own_and_grows_old(campaign: Campaign) -> None:
    page = Reviewer(campaign)
    state = page.get("/api/review")
    assert state["ready"] and not state["old"] and state["pairs"] > 20 and state["one_collection"]
    first = page.view("pairs", show="open")["pairs"][0]
    page.say("pairs", pair=first["pair"], label="match")
    assert page.get("/api/review")["old"], "an answer came since"
    page.post("/api/review/list", {})
    until(lambda: not page.get("/api/review")["busy"], 300)
    state = page.get("/api/review")
    assert not state["old"] and not state["error"]


def test_an_answer_to_a_pair_that_nobody_asked_is_kept_and_is_no_draw(campaign: Campaign) -> None:
    page = Reviewer(campaign)
    before = campaign.ledger.labels()
    draws = sorted(set(draws_of(campaign.ledger.questions())[0].tolist()))
    shown = next(each for each in page.view("pairs", show="open", count=100)["pairs"] if each["listed"])
    assert {row["name"] for row in shown["rows"]} >= {"name", "town"}
    assert isinstance(shown.get("probability", shown.get("model_score")), float)
    told = page.say("pairs", pair=shown["pair"], label="no match")
    assert told["written"] == told["pairs_answered"] == 1
    pair = int(shown["pair"])
    ids, labels = campaign.ledger.labels("audit")
    assert not labels[ids == pair].any() and (ids == pair).sum() == 1
    assert sorted(set(draws_of(campaign.ledger.questions())[0].tolist())) == draws, "no draw"
    assert all(np.array_equal(a, b) for a, b in zip(before, campaign.ledger.labels())), "it trains nothing"
    assert not campaign.stale_rounds()
    table = find_clusters(campaign).to_pandas().set_index("key")["cluster"]
    assert table[shown["left"]["key"]] != table[shown["right"]["key"]], "the groups keep to it"
    again = page.view("pairs", words=shown["left"]["key"], count=100)["pairs"]
    assert {each["pair"]: each["label"] for each in again}[shown["pair"]] == "no match"
    page.say("pairs", pair=shown["pair"], label="match")
    assert campaign.ledger.labels("audit")[1][ids == pair].all(), "the latest answer counts"


def test_a_group_is_split_merged_and_confirmed(campaign: Campaign) -> None:
    page = Reviewer(campaign)
    groups = page.view("groups", count=100)["groups"]
    one, other = groups[0], groups[1]
    rows = [member["row"] for member in one["members"]]
    assert one["members"][0]["values"] and one["columns"][0] == "name"
    told = page.say("groups", rows=rows, apart=rows[:1])
    assert told["pairs_answered"] == len(rows) - 1
    clusters = find_clusters(campaign).to_pandas().set_index("key")["cluster"]
    keys = [member["key"] for member in one["members"]]
    assert clusters[keys[0]] not in {clusters[key] for key in keys[1:]}
    both = [member["row"] for member in other["members"]]
    told = page.say("groups", rows=[rows[0], *both], apart=[])
    clusters = find_clusters(campaign).to_pandas().set_index("key")["cluster"]
    assert len({clusters[key] for key in [keys[0], *(each["key"] for each in other["members"])]}) == 1
    page.say("groups", rows=both, apart=[])
    again = next(g for g in page.view("groups", count=100)["groups"] if g["members"] == other["members"])
    assert again["links"]["match"] >= len(both) - 1


def test_earlier_answers_are_found_and_changed(campaign: Campaign) -> None:
    page = Reviewer(campaign)
    every = page.view("answers", count=100)
    assert every["total"] == len(campaign.ledger.labels()[0]) + len(campaign.ledger.labels("audit")[0])
    matches = page.view("answers", show="match", count=100)["pairs"]
    assert matches and all(pair["label"] == "match" for pair in matches)
    pair = matches[0]
    assert [vote["who"] for vote in pair["votes"]] == ["truth"]
    page.say("pairs", pair=pair["pair"], label="no match")
    latest = page.view("answers", count=1)["pairs"][0]
    assert (latest["pair"], latest["label"], latest["settled_by"]) == (pair["pair"], "no match", "Ann")
    assert page.view("answers", show="mine")["total"] == 0, "it was settled, as somebody else had answered"
    fresh = page.view("pairs", show="open")["pairs"][0]
    page.say("pairs", pair=fresh["pair"], label="unsure")
    assert [each["own"] for each in page.view("answers", show="mine")["pairs"]] == ["unsure"]
    assert page.view("answers", words="nobody holds this")["total"] == 0


def test_clicks_sent_twice_count_once_and_nonsense_is_refused(campaign: Campaign) -> None:
    page = Reviewer(campaign)
    pair = page.view("pairs", show="open")["pairs"][0]["pair"]
    body = {"who": "Ann", "token": secrets.token_hex(8), "pair": pair, "label": "match"}
    assert page.post("/api/review/pairs", body)["written"] == 1
    assert page.post("/api/review/pairs", body)["written"] == 0
    for at, label in enumerate(("no match", "unsure")):  # other clicks, though their tokens begin alike
        other = {**body, "token": f"{'a' * 59}{at}", "label": label}
        assert page.post("/api/review/pairs", other)["written"] == 1
    texts = len(campaign.split.left)

    def refused(path: str, **more: Any) -> str:
        sent = {"who": "Ann", "token": secrets.token_hex(8), **more}
        answer = page.client.post(f"{HERE}/api/review/{path}", json=sent)
        assert answer.status_code in (400, 422), answer.text
        return str(json.dumps(answer.json()))

    assert "no such pair" in refused("pairs", pair=str((1 << 32) | 1), label="match")
    assert "no such pair" in refused("pairs", pair=str(2**63), label="match")
    assert "no such texts" in refused("groups", rows=[0, texts], apart=[])
    assert "no such texts" in refused("groups", rows=[0, 1], apart=[0, 1])
    refused("groups", rows=[0], apart=[])
    other = {"who": "Ann", "ledger": "another", "token": secrets.token_hex(8), "pair": pair, "label": "match"}
    assert page.client.post("/api/review/pairs", json=other).status_code == 412


def test_a_campaign_without_a_model_says_why_there_is_no_list(tmp_path: Path, tiny_encoder: Path) -> None:
    from web_campaign import asked_campaign

    page = Reviewer(asked_campaign(tmp_path, tiny_encoder))
    assert not page.get("/api/review")["ready"]
    page.post("/api/review/list", {})
    until(lambda: not page.get("/api/review")["busy"], 300)
    assert "no round is complete yet" in page.get("/api/review")["error"]

"""What waits for a decision on the page: answers that cannot all be right, with the chain that shows it."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pairsieve.campaign import Campaign
from pairsieve.contracts import Answer
from pairsieve.web.app import LABELS
from pairsieve.web.session import PageAnswer
from web_campaign import Page, asked_campaign, asked_triangles, until


@pytest.fixture
def campaign(tmp_path: Path, tiny_encoder: Path) -> Campaign:
    return asked_triangles(tmp_path, tiny_encoder)


def pair(campaign: Campaign, left: int, right: int) -> str:
    return str(int(campaign.split.space.ids(left, right)))


def contradiction(page: Page) -> dict[str, Any]:
    """The only one in the queue, once the page has noticed it."""
    until(lambda: page.get("/api/disputes")["contradictions"])
    (found,) = page.get("/api/disputes")["contradictions"]
    return dict(found)


def test_what_follows_is_inferred_while_people_answer_and_is_not_asked(campaign: Campaign) -> None:
    page = Page(campaign)
    page.answer("Ann", pair(campaign, 0, 1), "match")
    page.answer("Ann", pair(campaign, 1, 2), "match")
    until(lambda: page.get("/api/state", who="Ann")["inferred"] == 1)
    assert pair(campaign, 0, 2) not in page.pairs("Ann", 50)
    assert page.get("/api/dashboard")["inferred"] == 1
    # Whoever answers it all the same, because it stood on the screen already, is heard.
    page.answer("Ann", pair(campaign, 0, 2), "match")
    assert campaign.ledger.votes().basis.count("inferred") == 0


def test_a_contradiction_waits_with_its_chain_and_any_pair_of_it_can_be_decided(campaign: Campaign) -> None:
    page = Page(campaign)
    one, two, three = (pair(campaign, *rows) for rows in ((0, 1), (1, 2), (0, 2)))
    far = pair(campaign, 2, 3)
    page.answer("Ann", one, "match")
    page.answer("Ann", two, "match")
    page.answer("Bob", three, "no match")
    page.answer("Ann", far, "match")
    found = contradiction(page)
    assert [p["pair"] for p in found["pairs"]] == [one, two, three], "the walk, then what it contradicts"
    assert [p["label"] for p in found["pairs"]] == ["match", "match", "no match"]
    assert found["pairs"][2]["votes"] == [{"who": "Bob", "label": "no match"}]
    assert found["pairs"][0]["left"]["text"] == campaign.split.left.texts[0]
    assert (found["also"], found["decided"]) == (0, False)
    state = page.get("/api/state", who="Ann")
    assert (state["undecided"], state["inferred"]) == (1, 0), "nothing follows from these texts meanwhile"

    made = page.settle("Cid", two, "no match")
    assert made["undecided"] == 0 and made["queue"] != state["queue"]
    # 0 = 1, 2 = 3 and 1 is not 2: so neither 0 nor 1 is 3.
    kept = campaign.ledger.votes()
    follows = {int(i) for i, basis in zip(kept.ids, kept.basis) if basis == "inferred"}
    assert follows == {int(pair(campaign, 0, 3)), int(pair(campaign, 1, 3))}
    assert made["inferred"] == 2


def test_a_decision_can_be_taken_back(campaign: Campaign) -> None:
    page = Page(campaign)
    one, two, three = (pair(campaign, *rows) for rows in ((0, 1), (1, 2), (0, 2)))
    for each, label in ((one, "match"), (two, "match"), (three, "no match")):
        page.answer("Ann", each, label)
    contradiction(page)
    assert page.settle("Bob", three, "match")["undecided"] == 0
    body = {"who": "Bob", "pair": three, "token": secrets.token_hex(8)}
    made = page.post("/api/disputes/undo", body)
    assert made["undone"] is True and made["undecided"] == 1
    assert page.post("/api/disputes/undo", body)["undone"] is False, "the same click twice counts once"
    assert contradiction(page)["pairs"][2]["settled_by"] is None


def test_who_stands_by_every_answer_is_not_asked_again_but_nothing_follows(campaign: Campaign) -> None:
    page = Page(campaign)
    one, two, three = (pair(campaign, *rows) for rows in ((0, 1), (1, 2), (0, 2)))
    said = {one: "match", two: "match", three: "no match"}
    for each, label in said.items():
        page.answer("Ann", each, label)
    contradiction(page)
    for each, label in said.items():
        made = page.settle("Bob", each, label)
    assert made["undecided"] == 0
    found = contradiction(page)
    assert found["decided"] and [p["settled_by"] for p in found["pairs"]] == ["Bob"] * 3
    page.answer("Ann", pair(campaign, 2, 3), "match")
    until(lambda: page.session._followed == page.session.look(lambda cache: cache.version))
    assert page.get("/api/state", who="Ann")["inferred"] == 0


def test_what_a_contradiction_made_doubtful_is_asked_last(campaign: Campaign) -> None:
    page = Page(campaign)
    page.answer("Ann", pair(campaign, 0, 1), "match")
    page.answer("Ann", pair(campaign, 1, 2), "match")
    until(lambda: page.get("/api/state", who="Ann")["inferred"] == 1)  # 0 = 2
    doubtful = pair(campaign, 0, 2)
    page.answer("Ann", pair(campaign, 2, 3), "match")
    page.answer("Ann", pair(campaign, 0, 3), "no match")
    contradiction(page)
    assert page.pairs("Ann", 50)[-1] == doubtful
    page.settle("Ann", pair(campaign, 0, 3), "match")
    assert doubtful not in page.pairs("Ann", 50), "settled: it follows again"


def test_three_people_at_once_who_tell_the_truth_are_never_contradicted(campaign: Campaign) -> None:
    """0, 1, 2 and 3, 4 and 5 alone: 15 pairs. However answers interleave, every label is the true one."""
    page, thing = Page(campaign), (0, 0, 0, 1, 1, 2)

    def label(pair: str) -> str:
        return "match" if thing[int(pair) >> 32] == thing[int(pair) & 0xFFFF_FFFF] else "no match"

    def work(who: str) -> None:
        for _ in range(100):
            for given in page.session.next_pairs(who, 2)["pairs"][:1]:
                said = LABELS[label(given["pair"])]
                page.session.answer(who, [PageAnswer(int(given["pair"]), said, secrets.token_hex(8))])

    with ThreadPoolExecutor(3) as people:
        list(people.map(work, ("Ann", "Bob", "Cid")))
    until(lambda: not page.pairs("Ann"))
    ids, labels = campaign.ledger.labels()
    assert len(ids) == 15
    assert [label(str(id)) == "match" for id in ids] == labels.tolist()
    assert page.get("/api/disputes")["contradictions"] == []
    assert campaign.ledger.verify().ok


def test_answers_by_file_contradict_each_other_too(campaign: Campaign) -> None:
    page = Page(campaign)
    given = [(0, 1, 1), (1, 2, 1), (0, 2, 0)]
    answers = [Answer(int(pair(campaign, left, right)), label) for left, right, label in given]
    campaign.ledger.answer(answers, "file", "file")
    assert contradiction(page)["pairs"][0]["votes"] == [{"who": "file", "label": "match"}]


def test_without_transitivity_nothing_is_inferred_or_contradicted(tmp_path: Path, tiny_encoder: Path) -> None:
    campaign = asked_campaign(tmp_path, tiny_encoder, questions=40)
    page = Page(campaign)
    for left, right, label in ((0, 1, "match"), (0, 2, "match"), (1, 2, "no match")):
        page.answer("Ann", pair(campaign, left, right), label)
    page.session.look_again()
    made = page.get("/api/state", who="Ann")
    assert (made["undecided"], made["inferred"]) == (0, 0)
    assert page.get("/api/disputes")["contradictions"] == []

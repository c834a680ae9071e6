"""The service over HTTP: what is answered, what is refused, and requests made of noise."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from examples import examples
from fuzzing import fuzz_by_schema
from pairsieve.campaign import Campaign
from pairsieve.http.access import FAILURES, LARGEST_BODY
from pairsieve.scorer import save_scorer
from pairsieve.serving import Service
from pairsieve.serving.app import MOST_IN_BATCH, make_app
from pairsieve.serving.checks import LONGEST_TEXT
from serving_campaign import OURS, finished_campaign
from test_serving import ODD
from web_campaign import until

pytestmark = pytest.mark.xdist_group("serving-http")  # one campaign serves the module: made once

HERE = "http://127.0.0.1"
TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """An exported model; served without a collection it begins empty."""
    folder = tmp_path_factory.mktemp("http")
    campaign = Campaign(finished_campaign(folder, tiny_encoder))
    (folder / "model").mkdir()
    save_scorer(campaign.scorer(1), folder / "model")
    return folder / "model"


@pytest.fixture
def service(model: Path, tmp_path: Path) -> Iterator[Service]:
    with Service.open(model, state=tmp_path / "state", most_waiting=8, most_at_once=4) as opened:
        opened.add("river", "how long is the river")
        opened.add("bank", "open a bank account")
        yield opened


@pytest.fixture
def client(service: Service) -> TestClient:
    return TestClient(make_app(service), base_url=HERE, headers=OURS)


def test_a_text_is_matched_with_its_probability(client: TestClient, service: Service) -> None:
    told = client.post("/match", json={"text": "open a bank account", "count": 1}).json()
    expected = service.match("open a bank account", 1)[0]
    assert told == {
        "matches": [
            {
                "key": "bank",
                "text": expected.text,
                "score": 1.0,
                "probability": expected.probability,
                "source": None,
            }
        ],
        "cut": False,
    }
    assert client.post("/match", json={"text": "open a bank account", "threshold": 1}).json() == told
    assert len(client.post("/match", json={"text": "river"}).json()["matches"]) == 2


def test_a_held_text_is_asked_for_by_its_key(client: TestClient, service: Service) -> None:
    told = client.post("/match", json={"key": "bank"}).json()["matches"]
    expected = service.match_key("bank")
    assert [(m["key"], m["score"], m["probability"]) for m in told] == [
        (m.key, m.score, m.probability) for m in expected
    ]
    assert [m["key"] for m in told] == ["river"], "a text is no match of itself"
    by_text = client.post("/match", json={"text": "open a bank account"}).json()["matches"]
    assert by_text[1:] == told and by_text[0]["key"] == "bank"
    gone = client.post("/match", json={"key": "nothing"})
    assert gone.status_code == 404 and "no text with the key 'nothing'" in gone.json()["detail"]
    for sent in ({}, {"text": "bank", "key": "bank"}, {"text": None, "key": None}):
        answer = client.post("/match", json=sent)
        assert answer.status_code == 422 and "one of text and key" in answer.text


def test_several_texts_are_answered_in_their_order(client: TestClient) -> None:
    sent = ["how long is the river", "open a bank account", "how long is the river"]
    told = client.post("/match/batch", json={"texts": sent, "count": 1}).json()
    assert [answer["matches"][0]["key"] for answer in told["answers"]] == ["river", "bank", "river"]
    assert client.post("/match/batch", json={"texts": []}).status_code == 422
    assert client.post("/match/batch", json={"texts": ["x"] * (MOST_IN_BATCH + 1)}).status_code == 422


def test_a_text_is_added_replaced_and_removed(client: TestClient) -> None:
    added = client.put("/texts/cave", json={"text": "how old is the cave"})
    assert (added.status_code, added.json()) == (201, {"key": "cave", "replaced": False, "cut": False})
    assert client.post("/match", json={"text": "how old is the cave"}).json()["matches"][0]["key"] == "cave"
    again = client.put("/texts/cave", json={"text": "how tall is the cave"})
    assert (again.status_code, again.json()["replaced"]) == (200, True)
    texts = [m["text"] for m in client.post("/match", json={"text": "cave"}).json()["matches"]]
    assert "how tall is the cave" in texts and "how old is the cave" not in texts
    assert client.delete("/texts/cave").json() == {"key": "cave", "removed": True}
    gone = client.delete("/texts/cave")
    assert gone.status_code == 404 and "no text with the key 'cave'" in gone.json()["detail"]
    assert client.get("/health").json()["texts"] == 2


def test_any_key_can_stand_in_the_path(client: TestClient, service: Service) -> None:
    for key in (*ODD, "a/b", "/", "a b", "ä", "100%", "?", "#"):
        assert (
            client.put(f"/texts/{quote(key, safe='')}", json={"text": f"about {key}"}).status_code == 201
        ), key
        assert key in service
        assert client.delete(f"/texts/{quote(key, safe='')}").status_code == 200, key
    assert client.put("/texts/%FF", json={"text": "x"}).status_code == 400, "no UTF-8"
    assert client.put(f"/texts/{'k' * 501}", json={"text": "x"}).status_code == 422
    assert client.put("/texts/", json={"text": "x"}).status_code in (404, 422)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b'{"text": ', 422, "JSON"),
        (b"", 422, "required"),
        (b"[1, 2]", 422, "object"),
        (b'{"text": 5}', 422, "string"),
        (b'{"text": "a", "cuont": 3}', 422, "Extra"),
        (b'{"text": "a", "count": 0}', 422, "greater"),
        (b'{"text": "a", "count": 101}', 422, "less"),
        (b'{"text": "a", "threshold": 2}', 422, "less"),
        (b'{"text": "a", "threshold": NaN}', 422, "greater|finite|less"),
        (b'{"text": "\\ud800"}', 422, "unicode"),
        (b'{"text": "\xff"}', 400, "body"),
        (b'{"text": " \\n "}', 400, "the text is empty"),
        (b'{"text": "' + b"x" * (LONGEST_TEXT + 1) + b'"}', 413, "100000"),
        (b'{"text": "' + b"x" * 2**20 + b'"}', 413, f"{LARGEST_BODY:,} bytes"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_cannot_be_matched_is_refused_in_words(
    client: TestClient, body: bytes, status: int, words: str
) -> None:
    answer = client.post("/match", content=body)
    assert answer.status_code == status and re.search(words, answer.text, re.IGNORECASE), answer.text[:300]


def test_a_long_text_is_cut_and_says_so(client: TestClient) -> None:
    assert client.post("/match", json={"text": "how old is the river " * 100}).json()["cut"] is True
    assert client.put("/texts/long", json={"text": "how old is the river " * 100}).json()["cut"] is True


def test_a_full_queue_answers_429_and_later_200(
    service: Service, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 texts may wait. The worker is held; 1 text is with it, 8 wait, the next is refused."""
    gate, entered = threading.Event(), threading.Event()
    embed = type(service.matcher).embed

    def held(*arguments: Any) -> Any:
        entered.set()
        assert gate.wait(60)
        return embed(*arguments)

    monkeypatch.setattr(type(service.matcher), "embed", held)
    first = service.ask(["river"])
    assert entered.wait(60)
    waiting = [service.ask(["river"]) for _ in range(8)]
    refused = client.post("/match", json={"text": "bank"})
    assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
    assert "8 texts wait and at most 8 may" in refused.json()["detail"]
    assert client.put("/texts/k", json={"text": "bank"}).status_code == 429
    assert client.get("/health").json()["waiting"] == 8, "health does not wait in the queue"
    gate.set()
    assert len([answer.result(60) for answer in (first, *waiting)]) == 9
    assert client.post("/match", json={"text": "bank"}).status_code == 200
    assert "k" not in service


def test_a_stopping_service_says_so(client: TestClient, service: Service) -> None:
    service.queue.close()
    assert client.get("/health").status_code == 503
    answer = client.post("/match", json={"text": "bank"})
    assert answer.status_code == 503 and "stopping" in answer.json()["detail"]


def test_health_metrics_and_docs(client: TestClient) -> None:
    client.post("/match", json={"text": "bank"})
    client.put("/texts/secret-key", json={"text": "a new text"})
    client.get("/no/such/path")
    health = client.get("/health").json()
    assert health["status"] == "ok" and health["texts"] == 3 and health["waiting"] == 0
    assert health["corrections"] == "hubness correction and neighbour smoothing" and health["queries"] == 0
    # A batch is counted once its answers are on their way.
    until(lambda: "pairsieve_changes_total 1.0" in client.get("/metrics").text)
    told = client.get("/metrics")
    assert told.headers["content-type"].startswith("text/plain")
    for line in (
        'pairsieve_requests_total{method="POST",path="/match",status="200"} 1.0',
        'pairsieve_requests_total{method="PUT",path="/texts/{key}",status="201"} 1.0',
        'pairsieve_requests_total{method="GET",path="other",status="404"} 1.0',
        "pairsieve_texts 3.0",
        "pairsieve_changes_total 1.0",
        "pairsieve_waiting_texts 0.0",
        'pairsieve_batch_seconds_count{phase="embed"} 2.0',
    ):
        assert line in told.text.splitlines(), line
    assert "secret" not in told.text and "bank" not in told.text
    page = client.get("/docs")
    assert page.status_code == 200 and "http://" not in page.text and "https://" not in page.text
    for words in ("POST /match", "PUT /texts/{key}", "DELETE /texts/{key}", "Retry-After", "threshold"):
        assert words in page.text, words
    assert client.get("/docs/style.css").headers["content-type"].startswith("text/css")


def test_the_gate_is_the_labelling_pages(service: Service) -> None:
    client = TestClient(make_app(service), base_url=HERE)
    sent = {"text": "bank"}
    assert client.post("/match", json=sent).status_code == 200, "asking changes nothing"
    assert client.put("/texts/new", json=sent).status_code == 403, "without our header"
    foreign = {"Origin": "http://evil.example"}
    assert client.post("/match", json=sent, headers=foreign).status_code == 403
    assert client.get("/health", headers={"Host": "evil.example"}).status_code == 421
    assert client.get("/health").headers["x-content-type-options"] == "nosniff"


def test_with_a_token_nothing_is_told_without_it(service: Service) -> None:
    client = TestClient(make_app(service, TOKEN), base_url="http://host.example", headers=OURS)
    for method, path in (
        ("POST", "/match"),
        ("PUT", "/texts/k"),
        ("DELETE", "/texts/bank"),
        ("GET", "/metrics"),
    ):
        refused = client.request(method, path, json={"text": "bank"}, follow_redirects=False)
        assert refused.status_code == 401 and "Authorization: Bearer" in refused.json()["detail"], path
    assert "bank" in service
    for path in ("/health", "/docs", "/openapi.json"):
        assert client.get(path).status_code == 200, "shows no text"
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert client.post("/match", json={"text": "bank"}, headers=right).status_code == 200
    for _ in range(FAILURES):
        wrong = {"Authorization": "Bearer no-such-token-here"}
        assert client.post("/match", json={"text": "bank"}, headers=wrong).status_code == 401
    assert client.post("/match", json={"text": "bank"}, headers=wrong).status_code == 429
    assert client.post("/match", json={"text": "bank"}, headers=right).status_code == 200, "never kept out"


@pytest.mark.slow
def test_schemathesis_finds_no_500(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert fuzz_by_schema(client, document, HERE, examples(250)).total() >= examples(250)

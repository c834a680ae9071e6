"""A task with sources, served: answers are of other sources, over HTTP, after changes and after a restart."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

import pairsieve as ps
from pairsieve.errors import InputError
from pairsieve.serving import Service
from pairsieve.serving.app import make_app
from pairsieve.serving.record import FILE
from serving_campaign import OURS, finished_campaign

HERE = "http://127.0.0.1"
SHOPS = ("abt", "buy", "cdw")
THINGS = ("camera", "tripod", "printer", "router", "keyboard", "speaker", "charger", "monitor")


@pytest.fixture(scope="module")
def campaign(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> ps.Campaign:
    rows = [
        {"id": f"{shop}{n}", "name": f"{THINGS[n % 8]} model {n * 37} {shop if n % 3 else ''}", "shop": shop}
        for n in range(20)
        for shop in SHOPS
    ]
    matches = [
        (f"{one}{n}", f"{other}{n}") for n in range(20) for one in SHOPS for other in SHOPS if one < other
    ]
    task = ps.task_from_tables(rows, key="id", text=["name"], source="shop", matches=matches, split="none")
    made = ps.create_campaign(
        tmp_path_factory.mktemp("shops") / "campaign",
        task,
        labels=60,
        rounds=1,
        encoder=str(tiny_encoder),
        device="cpu",
        reranker="off",
    )
    assert made.run().name == "finished"
    return made


def test_answers_are_those_of_the_campaign_and_never_of_the_querys_source(
    campaign: ps.Campaign, tmp_path: Path
) -> None:
    split = campaign.split
    scored = campaign.score(split)
    with Service.open(campaign.folder, state=tmp_path) as service:
        for row, key in enumerate(split.left.keys):
            found = service.match_key(key, 100)
            assert len(found) == 40 and {match.source for match in found} == {*SHOPS} - {key[:3]}
            others = np.array([split.left.keys.index(match.key) for match in found])
            expected = scored.scan.scores(split.space.ids(np.full(40, row), others))
            assert [match.score for match in found] == pytest.approx(expected.tolist(), abs=1e-6)


def test_over_http_a_text_names_its_source(campaign: ps.Campaign, tmp_path: Path) -> None:
    with Service.open(campaign.folder, state=tmp_path) as service:
        client = TestClient(make_app(service), base_url=HERE, headers=OURS)

        def sources(**asked: object) -> set[str | None]:
            told = client.post("/match", json={"count": 100, **asked}).json()
            return {match["source"] for match in told["matches"]}

        assert sources(text="camera 0") == {*SHOPS}
        assert sources(text="camera 0", source="abt") == {"buy", "cdw"}
        assert sources(key="buy3") == {"abt", "cdw"}
        batch = client.post("/match/batch", json={"texts": ["camera 0"] * 2, "source": "cdw", "count": 100})
        for answer in batch.json()["answers"]:
            assert {match["source"] for match in answer["matches"]} == {"abt", "buy"}
        assert client.put("/texts/new", json={"text": "camera 0 z", "source": "abt"}).status_code == 201
        assert client.get("/texts/new").json() == {"key": "new", "text": "camera 0 z", "source": "abt"}
        assert client.get("/texts?count=1").json()["texts"][0]["source"] == "abt"
        assert sources(key="new") == {"buy", "cdw"}
        assert sources(key="abt1") == {"buy", "cdw"}
        client.put("/texts/new", json={"text": "camera 0 z"})
        assert sources(key="new") == {*SHOPS} and sources(key="abt1") == {"buy", "cdw", None}
        assert client.post("/match", json={"key": "new", "source": "abt"}).status_code == 422
        assert client.post("/match", json={"text": "x", "source": "y" * 501}).status_code == 413
        empty = client.post("/match", json={"text": "camera", "source": " "})
        assert empty.status_code == 400 and "leave source out" in empty.json()["detail"].replace("`", "")


def test_sources_are_kept_over_a_restart(campaign: ps.Campaign, tmp_path: Path) -> None:
    with Service.open(campaign.folder, state=tmp_path) as service:
        service.add("new", "camera model 0 abt", source="abt")
        service.add("other", "camera model 0 abt", source="shelf")
        service.remove("abt1")
        before = {key: service.match_key(key, 100) for key in ("new", "other", "buy0")}
        assert all(match.source != "abt" for match in before["new"])
    with Service.open(campaign.folder, state=tmp_path) as service:
        assert {key: service.match_key(key, 100) for key in before} == before
        assert len(service) == 61


def test_additions_of_a_version_without_sources_are_read(campaign: ps.Campaign, tmp_path: Path) -> None:
    with Service.open(campaign.folder, state=tmp_path) as service:
        service.add("old", "camera model 0")
    with sqlite3.connect(tmp_path / FILE) as base:
        base.executescript(
            """ALTER TABLE texts RENAME TO newer;
            CREATE TABLE texts (number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE,
                text TEXT, model TEXT, row BLOB);
            INSERT INTO texts SELECT number, key, text, model, row FROM newer;
            DROP TABLE newer;
            PRAGMA user_version = 1;"""
        )
    with Service.open(campaign.folder, state=tmp_path) as service:
        assert service.match("camera model 0", 1)[0].key == "old"
        service.add("newer", "camera model 0", source="abt")
        assert service.look_up("newer").result() == ("camera model 0", "abt")


def test_two_collections_know_no_sources(tmp_path: Path, tiny_encoder: Path) -> None:
    folder = finished_campaign(tmp_path, tiny_encoder, two=True)
    with Service.open(folder, state=tmp_path / "state") as service:
        for call in (service.match, lambda text, source: service.add("k", text, source=source)):
            with pytest.raises(InputError, match="source with two collections"):
                call("how old is the river", source="abt")
        assert service.match("how old is the river", 1)[0].source is None


def test_a_table_names_its_source_column(campaign: ps.Campaign, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("id,text,shop\na,red camera,abt\nb,red cameras,abt\nc,red camera,buy\n")
    options = {"key": "id", "text": ["text"], "state": tmp_path / "state"}
    with Service.open(campaign.folder, table, source="shop", **options) as service:
        assert [match.key for match in service.match_key("a", 5)] == ["c"]

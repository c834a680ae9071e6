"""The service in the long run: a new round is taken up, texts are read back, what is removed is gone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import pairsieve
from pairsieve.campaign import Campaign
from pairsieve.errors import InputError
from pairsieve.serving import Service, UnknownKey, Unreadable
from pairsieve.serving.app import make_app
from pairsieve.serving.held import HeldTexts
from pairsieve.serving.index import Index
from pairsieve.serving.queue import Job
from pairsieve.serving.record import Change, Record
from serving_campaign import OURS, finished_campaign
from web_campaign import HERE


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """One round of two is run."""
    return finished_campaign(tmp_path_factory.mktemp("long"), tiny_encoder)


@pytest.fixture
def campaign(tmp_path: Path, finished: Path) -> Campaign:
    """A copy of it that a test may change."""
    shutil.copytree(finished.parent, tmp_path, dirs_exist_ok=True)
    return Campaign(tmp_path / finished.name)


def another_round(campaign: Campaign) -> None:
    campaign.ledger.close()
    again = Campaign(campaign.folder)
    again.extend(1)
    again.run()
    again.ledger.close()


@pytest.mark.slow
def test_a_new_round_is_taken_up_while_texts_come_and_go(campaign: Campaign, tmp_path: Path) -> None:
    with Service.open(campaign.folder) as service:
        old, key = service.about()["model"], next(iter(service._index.answering.row_of))
        for each in ("early", "gone", "again"):
            service.add(each, f"how can i find {each} things")
        assert service.reload() is False, "nothing is new yet"
        another_round(campaign)
        put, changed = service.queue.put, list[bool]()

        def before_swap(job: Job) -> Any:  # what changes while the new model is loaded
            if job.call is not None and not changed:
                changed.append(True)
                service.add("late", "what is a late thing")
                service.remove("gone")
                service.remove(key)
                service.add("again", "what is it this time")
            return put(job)

        service.queue.put = before_swap  # type: ignore[method-assign]
        assert service.reload() is True and changed
        service.queue.put = put  # type: ignore[method-assign]
        assert service.about()["model"] != old
        assert {"early", "late", "again"} <= service._index.answering.row_of.keys()
        assert "gone" not in service and key not in service
        assert service.text("again") == "what is it this time"
        answers = service.match("what is a late thing", 5)
        held = sorted(service.page(count=10_000).result().texts)
    with Service.open(campaign.folder) as fresh:  # the same as one that was opened now
        assert sorted(fresh.page(count=10_000).result().texts) == held
        assert fresh.match("what is a late thing", 5) == answers


def test_a_reload_over_http_and_one_that_fails(campaign: Campaign, tmp_path: Path) -> None:
    with Service.open(campaign.folder, state=tmp_path / "state") as service:
        client = TestClient(make_app(service), base_url=HERE)
        assert client.post("/reload").status_code == 403, "it costs, so it is no reading"
        assert client.post("/reload", headers=OURS).json()["changed"] is False
        file = campaign.folder / "campaign.toml"
        text = file.read_text()
        file.write_text("nonsense")
        assert client.post("/reload", headers=OURS).status_code == 400
        file.write_text(text)
        assert client.post("/match", json={"text": "how can i"}).status_code == 200, "the old one answers"
        service._reloading.acquire()
        assert client.post("/reload", headers=OURS).status_code == 409
        service._reloading.release()


def test_texts_are_read_back_and_listed_in_pages(campaign: Campaign, tmp_path: Path) -> None:
    with Service.open(campaign.folder, state=tmp_path / "state") as service:
        client = TestClient(make_app(service), base_url=HERE)
        for key in ("a/b", "é", "zz"):
            service.add(key, f"what is {key}")
        assert client.get("/texts/a%2Fb").json() == {"key": "a/b", "text": "what is a/b", "source": None}
        assert client.get("/texts/nothing").status_code == 404
        found, after, pages = {}, None, 0
        while True:
            page = client.get("/texts", params={"count": 7} | ({"after": after} if after else {})).json()
            keys = [each["key"] for each in page["texts"]]
            assert keys == sorted(keys) and len(keys) <= 7 and not found.keys() & set(keys)
            found |= {each["key"]: each["text"] for each in page["texts"]}
            pages, after = pages + 1, page["next"]
            if after is None:
                break
        assert len(found) == len(service) and found["zz"] == "what is zz" and pages == -(-len(service) // 7)
        service.remove("zz")
        with pytest.raises(UnknownKey):
            service.text("zz")
        service.add("long", "what " * 20_000)
        assert len(service.page(count=1).result().texts) == 1


@pytest.mark.parametrize("text", ["😀😀", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ", "አማርኛ"])
def test_a_text_of_unknown_tokens_is_said_to_be_unreadable(
    campaign: Campaign, tmp_path: Path, text: str
) -> None:
    with Service.open(campaign.folder, state=tmp_path / "state") as service:
        client = TestClient(make_app(service), base_url=HERE, headers=OURS)
        for refused in (
            client.post("/match", json={"text": text}),
            client.post("/match/batch", json={"texts": ["how can i", text]}),
            client.put("/texts/new", json={"text": text}),
        ):
            assert refused.status_code == 400 and "cannot read this text" in refused.text
        assert "new" not in service
        assert client.post("/match", json={"text": f"how {text}"}).status_code == 200, "one word is known"
        with pytest.raises(Unreadable):
            service.match(text)


def test_an_added_text_that_is_removed_leaves_nothing_and_one_of_the_collection_a_mark(
    campaign: Campaign, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    with Service.open(campaign.folder, state=state) as service:
        own = next(iter(service._index.answering.row_of))
        for number in range(20):
            service.add(f"key-{number}", f"what is {number}")
            service.remove(f"key-{number}")
        service.remove(own)
        assert service._record.keys() == {own}
    with Service.open(campaign.folder, state=state) as service:
        assert own not in service and service.replayed == 1


def test_a_held_text_that_went_is_not_kept_in_memory() -> None:
    rows = np.eye(4, dtype=np.float32)
    held = HeldTexts(["a", "b"], ["one", "two"], rows[:2])
    held.remove("a")
    assert "one" not in held.texts and "a" not in held.keys
    index = Index(HeldTexts([], [], rows[:0]))
    for number in range(5000):  # more than the matrix has room for
        index.apply([Change(f"k{number}", f"text {number}", rows[number % 4])])
        index.apply([Change(f"k{number}", None)])
    assert len(index) == 0 and len(index.answering.texts) <= 1024 and len(index.answering._plain) <= 2048


def test_rows_of_another_model_are_not_written_over_a_newer_text(tmp_path: Path) -> None:
    row = np.ones(3, np.float32)
    record = Record(tmp_path)
    record.write([Change("k", "old", row, "m1")])
    (old,) = record.read()
    record.write([Change("k", "new", row, "m1")])
    record.set_rows([Change("k", old.text, 2 * row, "m2", old.number)])
    (kept,) = record.read()
    assert (kept.text, kept.model) == ("new", "m1")
    record.close()


def test_a_service_that_was_not_opened_from_a_folder_has_nothing_to_reload(
    campaign: Campaign, tmp_path: Path
) -> None:
    with Service.open(campaign.folder, state=tmp_path / "one") as service:
        other = Service(service.served, tmp_path / "two")
        with other, pytest.raises(InputError, match="nothing to reload"):
            other.reload()
    assert pairsieve.Service is Service

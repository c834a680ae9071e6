"""A small campaign without truth whose first round is asked, for tests of the page: no model runs."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from starlette.testclient import TestClient

from pairsieve.campaign import Campaign
from pairsieve.library.campaigns import create_campaign
from pairsieve.pairs import pair_rows
from pairsieve.tasks import save_task
from pairsieve.tasks.tables import tables_task
from pairsieve.web.app import make_app
from pairsieve.web.session import LabellingSession
from synthetic_task import begin, synthetic_task

HERE = "http://127.0.0.1"


def asked_campaign(folder: Path, encoder: Path, questions: int = 10, **settings: Any) -> Campaign:
    """Round 1 asks about the first `questions` pairs of 30 texts; the budget is 20 + 30 + 45 = 95."""
    task = synthetic_task(folder / "task", truth=False, stated=False, sizes={"train": 30})
    campaign = begin(folder / "campaign", task, encoder, measure_splits=(), **settings)
    ask(campaign, 1, np.arange(questions))
    return campaign


def asked_triangles(folder: Path, encoder: Path) -> Campaign:
    """With transitivity; round 1 asks about all 15 pairs of the first six texts, in the order of the rows."""
    task = synthetic_task(folder / "task", truth=False, stated=False, sizes={"train": 30})
    campaign = begin(folder / "campaign", task, encoder, measure_splits=(), transitivity=True, rounds=1)
    left, right = np.triu_indices(6, 1)
    ask(campaign, 1, campaign.split.space.ranks(campaign.split.space.ids(left, right)))
    return campaign


PLACES = {
    "name": ["Cordova", "Cordoba", "Vienna", "Wien", "<b>Bonn</b> & \u202eBonn", "Bonn"],
    "country": ["Spain", "Spain", "Austria", "", "", ""],
    "lat": ["37.88", "37.8833", "48.2", "48.2", "50.7", "50.73"],
    "lon": ["-4.77", "-4.76667", "16.37", "16.37", "7.1", ""],
    "notes": [
        "",
        "",
        "",
        "",
        "Once the capital of West Germany, on the Rhine",
        "On the Rhine, an old university",
    ],
}


def asked_records(folder: Path, encoder: Path) -> Campaign:
    """Round 1 asks about 0 and 1, 2 and 3, 4 and 5 of a table of six places."""
    (folder / "places.csv").write_text(
        "\n".join(",".join(f'"{cell}"' for cell in row) for row in [PLACES, *zip(*PLACES.values())]),
        encoding="utf-8",
    )
    save_task(tables_task(folder / "places.csv", text=list(PLACES)), folder / "task")
    campaign = begin(
        folder / "campaign", folder / "task", encoder, measure_splits=(), first_batch=3, rounds=1, split="all"
    )
    space = campaign.split.space
    ask(campaign, 1, space.ranks(space.ids(np.array([0, 2, 4]), np.array([1, 3, 5]))))
    return campaign


def ask(campaign: Campaign, number: int, ranks: Any) -> None:
    split = campaign.split
    ids = split.space.unrank(np.asarray(ranks))
    left, right = pair_rows(ids)
    keys = split.left.keys
    campaign.ledger.ask(
        number, ids, [keys[r] for r in left.tolist()], [keys[r] for r in right.tolist()], "made", "random"
    )


def until(holds: Callable[[], Any], seconds: float = 60) -> None:
    """Wait until something is so; the wait is generous, the test is not about time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


class Page:
    """What a browser does, without one."""

    def __init__(self, campaign: Campaign, overlap: float = 0.0, **more: Any) -> None:
        self.session = LabellingSession(campaign, overlap, **more)
        self.client = TestClient(make_app(self.session), base_url=HERE, headers={"X-Pairsieve": "1"})

    def next(self, who: str, count: int = 8, **more: Any) -> dict[str, Any]:
        return self.get("/api/next", who=who, count=count, **more)

    def pairs(self, who: str, count: int = 8) -> list[str]:
        return [pair["pair"] for pair in self.next(who, count)["pairs"]]

    def answer(self, who: str, pair: str, label: str = "match", token: str = "") -> dict[str, Any]:
        given = {"pair": pair, "label": label, "token": token or secrets.token_hex(8)}
        return self.post("/api/answers", {"who": who, "answers": [given]})

    def undo(self, who: str, pair: str | None = None) -> dict[str, Any]:
        return self.post("/api/undo", {"who": who, "pair": pair, "token": secrets.token_hex(8)})

    def settle(self, who: str, pair: str, label: str) -> dict[str, Any]:
        given = {"pair": pair, "label": label, "token": secrets.token_hex(8)}
        return self.post("/api/disputes", {"who": who, "answer": given})

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        return self._read(self.client.get(path, params=query))

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._read(self.client.post(path, json=body))

    def _read(self, response: Any) -> dict[str, Any]:
        assert response.status_code == 200, f"{response.status_code}: {response.text}"
        found: dict[str, Any] = response.json()
        return found


WORDS = ("Ash", "Birch", "Cedar", "Elm", "Fir", "Hazel", "Larch", "Maple", "Oak", "Pine", "Rowan", "Willow")


def finished_records(folder: Path, encoder: Path, size: int = 24, **settings: Any) -> Campaign:
    """A finished campaign over a table of `size` inns, each twice; the truth answered 40 questions."""
    usual = {"labels": 40, "rounds": 2, "device": "cpu", "reranker": "off"}
    names = [f"{WORDS[n % 12]} {WORDS[n * 5 % 11]} Inn" for n in range(size)]
    rows = [
        {"id": f"{side}{n}", "name": name + extra, "town": f"{WORDS[n * 7 % 12]}ford", "rooms": str(3 + n)}
        for n, name in enumerate(names)
        for side, extra in (("a", ""), ("b", " & Rooms"))
    ]
    known = [(f"a{n}", f"b{n}") for n in range(size)]
    save_task(tables_task(rows, key="id", matches=known, split="none"), folder / "task")
    options = usual | settings
    campaign = create_campaign(folder / "campaign", folder / "task", encoder=str(encoder), **options)
    assert campaign.run().name == "finished"
    return campaign

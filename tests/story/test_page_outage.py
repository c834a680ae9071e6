"""The ledger is away while somebody labels in a browser: no click is lost, and training goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from browser import IN_BROWSER, Person, served
from pairsieve.campaign import Campaign
from postgres import Postgres
from small_disk import SmallDisk, small_disk
from web_campaign import asked_campaign

pytest_plugins = ("browser", "postgres")
pytestmark = IN_BROWSER


class Database:
    """Where the ledger is, and how it goes away and comes back."""

    def __init__(self, folder: Path, settings: dict[str, Any], away: Any, back: Any) -> None:
        self.folder, self.settings, self.away, self.back = folder, settings, away, back


@contextmanager
def on_small_disk(folder: Path) -> Iterator[Database]:
    disk: SmallDisk
    with small_disk(folder / "disk", 16) as disk:
        yield Database(disk.folder, {}, disk.fill, disk.empty)


@pytest.fixture(params=["postgresql", "full disk"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "full disk":
        with on_small_disk(tmp_path) as made:
            yield made
        return
    server: Postgres = request.getfixturevalue("own_postgres")
    yield Database(tmp_path, {"ledger": server.url}, server.stop, server.start)


def test_clicks_wait_in_the_browser_over_a_reload_and_training_goes_on(
    tiny_encoder: Path, chromium: Any, database: Database
) -> None:
    campaign = asked_campaign(database.folder, tiny_encoder, questions=6, rounds=2, **database.settings)
    campaign.ledger.close()
    with served(campaign.folder) as url:
        ann = Person(chromium, url, "Ann")
        said = {ann.press("y"): 1, ann.press("n"): 0}
        ann.saved()
        database.away()
        said |= {ann.press("y"): 1, ann.press("u"): None, ann.press("n"): 0}
        ann.sees("#unsent", "3 not saved yet: kept in this browser and sent again.")
        ann.page.reload()
        ann.sees("#unsent", "3 not saved yet")
        said |= {ann.press("n"): 0}  # the page goes on being served
        ann.sees("#unsent", "4 not saved yet")
        database.back()
        ann.saved()
        # All six are answered: the next round is chosen in the background, though the ledger was away.
        assert ann.pair not in said
        assert ann.page.locator("#unsent:visible").count() == 0
        ann.complaints.clear()  # the browser's own words about answers of 503
        ann.leave()
    with Campaign(campaign.folder).ledger as kept:
        assert kept.answers_by_person() == {"Ann": {int(pair): label for pair, label in said.items()}}
        assert len(kept.answers()) == 6, "each click once"


def test_a_refused_click_is_shown_and_kept(tiny_encoder: Path, chromium: Any, tmp_path: Path) -> None:
    campaign = asked_campaign(tmp_path, tiny_encoder, questions=6)
    with served(campaign.folder, "--no-train") as url:
        ann = Person(chromium, url, "Ann")
        ann.page.route("**/api/answers", lambda route: route.fulfill(status=409, json={"detail": "No."}))
        ann.press("y")
        ann.sees("#refused-words", "1 click was refused and not saved: No.")
        ann.page.unroute("**/api/answers")
        ann.page.reload()
        ann.sees("#refused-words", "1 click was refused")
        ann.page.click("#resend")
        ann.saved()
        ann.page.wait_for_selector("#refused", state="hidden")
        ann.complaints.clear()
        ann.leave()
    with Campaign(campaign.folder).ledger as kept:
        assert len(kept.answers()) == 1

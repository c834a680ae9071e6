"""The ledger is away while somebody reviews the list: what they said waits in the browser, over a reload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from browser import IN_BROWSER, Person, served
from web_campaign import finished_records

pytest_plugins = ("browser",)
pytestmark = IN_BROWSER


def test_a_reviewed_pair_waits_in_the_browser(tmp_path: Path, tiny_encoder: Path, chromium: Any) -> None:
    campaign = finished_records(tmp_path, tiny_encoder)
    before = len(campaign.ledger.answers())
    with served(campaign.folder, "--no-train") as url:
        ann = Person(chromium, f"{url}review", "Ann")
        ann.page.wait_for_selector(".card")  # the first visit makes the list
        pair = str(ann.page.get_attribute(".card", "data-pair"))
        away = {"status": 503, "json": {"detail": "Later."}}
        ann.page.route(
            "**/api/review/pairs",
            lambda route: route.fulfill(**away) if route.request.method == "POST" else route.fallback(),
        )
        ann.page.keyboard.press("n")
        ann.sees("#status", "1 not saved yet: kept in this browser and sent again. Later.")
        ann.page.reload()
        ann.sees("#status", "1 not saved yet")
        ann.page.unroute("**/api/review/pairs")
        ann.saved()
        # What the server refuses for good is said, and not sent again.
        ann.page.wait_for_selector(".card")
        no = {"status": 409, "json": {"detail": "No."}}
        ann.page.route(
            "**/api/review/pairs",
            lambda route: route.fulfill(**no) if route.request.method == "POST" else route.fallback(),
        )
        ann.page.locator(".card .match").first.click()
        ann.sees("#status", "Not saved. No.")
        ann.saved()
        ann.complaints.clear()  # the browser's own words about answers of 503 and 409
        ann.leave()
    after = campaign.ledger.answers()
    assert len(after) == before + 1
    assert (int(after.ids[-1]), after.labels[-1], after.who[-1]) == (int(pair), 0, "Ann")

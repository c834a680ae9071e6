"""A browser whose clock goes backwards: clicks are sent in the order in which they were made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from browser import IN_BROWSER, Person, served
from pairsieve.campaign import Campaign
from web_campaign import asked_campaign

pytest_plugins = ("browser",)
pytestmark = IN_BROWSER


def test_an_undo_follows_its_click_though_the_clock_went_backwards(
    tmp_path: Path, tiny_encoder: Path, chromium: Any
) -> None:
    campaign = asked_campaign(tmp_path, tiny_encoder, questions=6)
    campaign.ledger.close()
    with served(campaign.folder, "--no-train") as url:
        ann = Person(chromium, url, "Ann")
        ann.page.route("**/api/answers", lambda route: route.fulfill(status=503, json={"detail": "Later."}))
        first = ann.press("y")
        ann.press("n")
        ann.page.evaluate("() => { const real = Date.now; Date.now = () => real() - 3_600_000; }")
        ann.page.keyboard.press("z")  # takes the second back
        ann.page.wait_for_function(
            "() => Object.keys(localStorage).filter(key => key.startsWith('pairsieve click')).length === 3"
        )
        ann.page.reload()
        ann.sees("#unsent", "not saved yet")
        ann.page.unroute("**/api/answers")
        ann.saved()
        ann.complaints.clear()  # the browser's own words about answers of 503
        ann.leave()
    with Campaign(campaign.folder).ledger as kept:
        assert kept.answers_by_person() == {"Ann": {int(first): 1}}

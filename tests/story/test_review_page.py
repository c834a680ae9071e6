"""The review page in a real browser: pairs, groups and earlier answers; desktop and phone, light and dark.

Pictures are kept in the test's folder, or in $PAIRSIEVE_SCREENSHOTS.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from browser import IN_BROWSER, Person, check_accessible, served
from test_record_page import PHONE, SIDEWAYS, pictures_of
from web_campaign import finished_records

pytest_plugins = ("browser",)
pytestmark = IN_BROWSER


def labels(campaign: Any) -> dict[int, bool]:
    both = (campaign.ledger.labels(purpose) for purpose in ("train", "audit"))
    return {pair: label for ids, given in both for pair, label in zip(ids.tolist(), given.tolist())}


def test_a_list_is_reviewed_by_keyboard_and_on_a_phone(
    tmp_path: Path, tiny_encoder: Path, chromium: Any
) -> None:
    campaign = finished_records(tmp_path, tiny_encoder)
    pictures = Path(os.environ.get("PAIRSIEVE_SCREENSHOTS") or tmp_path / "screenshots")
    pictures.mkdir(parents=True, exist_ok=True)
    with served(campaign.folder, "--no-train") as url:
        # ── by keyboard alone on a desktop
        ann = Person(chromium, f"{url}review", "Ann")
        page = ann.page
        ann.sees("#list-words", "The list is being made")
        page.wait_for_selector(".card", timeout=300_000)  # the first visit makes the list
        pictures_of(ann, pictures, "review-pairs-desktop")
        page.locator(".waterfall summary").first.focus()
        page.keyboard.press("Enter")
        assert page.locator(".waterfall tbody tr").first.inner_text().startswith("start")
        pictures_of(ann, pictures, "review-waterfall-desktop")
        check_accessible(page, "review of pairs")
        page.locator(".waterfall summary").first.click()
        first = int(page.get_attribute(".card", "data-pair"))
        second = int(page.locator(".card").nth(1).get_attribute("data-pair"))
        page.keyboard.press("n")
        page.wait_for_selector(".card:nth-child(1) .no-match[aria-pressed=true]")
        assert page.evaluate("() => document.activeElement.closest('.card').dataset.pair") == str(second)
        page.keyboard.press("y")
        page.wait_for_selector(".card:nth-child(2) .match[aria-pressed=true]")
        assert {first: False, second: True}.items() <= labels(campaign).items()
        ann.sees("#list-words", "There are new answers")
        page.focus("#words")
        page.keyboard.type("zzz nobody")
        ann.sees("#count", "0 pairs")
        page.fill("#words", "")
        page.wait_for_selector(".card")
        page.select_option("#show", "left out")
        page.wait_for_function(
            "() => document.querySelector('.card') &&"
            " [...document.querySelectorAll('.card .hint')].every(e => e.textContent.includes('Left out'))"
        )
        # ── groups: tick, split, confirm, merge
        page.focus("[data-view=groups]")
        page.keyboard.press("Enter")
        page.wait_for_selector(".group")
        pictures_of(ann, pictures, "review-groups-desktop")
        check_accessible(page, "review of groups")
        group = page.locator(".group").first
        assert group.locator("button.no-match").first.is_disabled(), "nothing is ticked"
        group.locator("input").first.focus()
        page.keyboard.press("Space")
        group.get_by_role("button", name="Split off the ticked").focus()
        page.keyboard.press("Enter")
        group.get_by_text("saved.").wait_for()
        before = len(labels(campaign))
        other = page.locator(".group").nth(1)
        other.get_by_role("button", name="All one").focus()
        page.keyboard.press("Enter")
        other.get_by_text("Confirmed as one.").wait_for()
        assert len(labels(campaign)) >= before
        merge = page.locator(".group .outside button", has_text="Merge").last
        merge.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector(".group .outside button[aria-pressed=true]")
        pictures_of(ann, pictures, "review-groups-answered-desktop")
        # ── earlier answers are changed
        page.focus("[data-view=answers]")
        page.keyboard.press("Enter")
        page.wait_for_selector(".card[data-pair]")
        check_accessible(page, "review of answers")
        page.select_option("#show", "no match")
        page.locator(".card", has=page.locator(".no-match[aria-pressed=true]")).first.wait_for()
        pictures_of(ann, pictures, "review-answers-desktop")
        changed = int(page.get_attribute(".card", "data-pair"))
        page.locator(".card").first.locator(".match").click()
        page.wait_for_selector(".card:nth-child(1) .match[aria-pressed=true]")
        assert labels(campaign)[changed] is True
        page.click("[data-view=pairs]")
        page.click("#make-list")
        page.wait_for_function("() => document.getElementById('list-state').hidden", timeout=300_000)
        ann.leave()

        # ── on a phone
        bob = Person(chromium, f"{url}review", "Bob", **PHONE, device_scale_factor=2)
        bob.page.wait_for_selector(".card")
        assert bob.page.evaluate(SIDEWAYS) <= 0, "nothing sticks out sideways on a phone"
        pictures_of(bob, pictures, "review-pairs-phone")
        check_accessible(bob.page, "review of pairs on a phone")
        bob.page.tap(".card .match")
        bob.page.wait_for_selector(".card .match[aria-pressed=true]")
        bob.page.tap("[data-view=groups]")
        bob.page.wait_for_selector(".group")
        assert bob.page.evaluate(SIDEWAYS) <= 0
        pictures_of(bob, pictures, "review-groups-phone")
        check_accessible(bob.page, "review of groups on a phone")
        bob.leave()

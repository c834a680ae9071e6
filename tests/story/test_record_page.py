"""Records in a real browser: a table field by field, on a desktop and on a phone, in light and dark.

Pictures are kept in the test's folder, or in $PAIRSIEVE_SCREENSHOTS.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from browser import IN_BROWSER, Person, check_accessible, served
from web_campaign import PLACES, asked_records

pytest_plugins = ("browser",)
pytestmark = IN_BROWSER
SIDEWAYS = "() => document.documentElement.scrollWidth - window.innerWidth"
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
# A row as [class, name, left, right], and what is marked in it.
ROWS = (
    "rows => rows.map(row => [row.className, ...[...row.children].map(cell => cell.textContent),"
    " [...row.querySelectorAll('mark')].map(mark => mark.textContent)])"
)


def rows_of(person: Person) -> list[list[Any]]:
    person.page.wait_for_selector("#pair tbody tr")
    found: list[list[Any]] = person.page.eval_on_selector_all("#pair tbody tr", ROWS)
    return found


def pictures_of(person: Person, folder: Path, name: str) -> None:
    for scheme in ("light", "dark"):
        person.page.emulate_media(color_scheme=scheme)
        person.page.screenshot(path=folder / f"{name}-{scheme}.png")
    person.page.emulate_media(color_scheme="light")


def test_records_are_read_field_by_field(tmp_path: Path, tiny_encoder: Path, chromium: Any) -> None:
    campaign = asked_records(tmp_path, tiny_encoder)
    pictures = Path(os.environ.get("PAIRSIEVE_SCREENSHOTS") or tmp_path / "screenshots")
    pictures.mkdir(parents=True, exist_ok=True)
    with served(campaign.folder, "--no-train", "--overlap", 1) as url:
        bob = Person(chromium, url, "Bob", **PHONE, device_scale_factor=2)
        assert rows_of(bob)[1] == ["same", "country", "Spain", "Spain", []]
        pictures_of(bob, pictures, "record-phone-1")
        assert bob.page.evaluate(SIDEWAYS) <= 0, "nothing sticks out sideways on a phone"
        check_accessible(bob.page, "records on a phone")
        name, left, right = (
            bob.page.locator("#pair tbody tr").first.locator(where).bounding_box()
            for where in ("th", "td >> nth=0", "td >> nth=1")
        )
        assert name["y"] + name["height"] <= left["y"], "on a phone the name stands above its values"
        assert left["y"] == right["y"] and left["width"] > 120, "short values stand beside each other"
        bob.page.tap("[data-action=skip]")
        bob.page.wait_for_function("() => document.querySelector('#pair td').textContent === 'Vienna'")
        bob.page.tap("[data-action=skip]")
        bob.page.wait_for_function("() => document.querySelector('#pair td').textContent.includes('Bonn')")
        pictures_of(bob, pictures, "record-phone-3")
        first, second = bob.page.locator("#pair tr.long td").all()[:2]
        assert first.bounding_box()["y"] < second.bounding_box()["y"], "long values stand above each other"
        bob.leave()

        ann = Person(chromium, url, "Ann")  # by keyboard alone from here on
        assert rows_of(ann) == [
            ["differs", "name", "Cordova", "Cordoba", ["v", "b"]],
            ["same", "country", "Spain", "Spain", []],
            ["differs", "lat", "37.88", "37.8833", ["88", "8833"]],
            ["differs", "lon", "-4.77", "-4.76667", ["77", "76667"]],
            ["empty", "notes", "–", "–", []],
        ]
        pictures_of(ann, pictures, "record-desktop-1")
        check_accessible(ann.page, "records on a desktop")
        calm, muted = ann.page.evaluate(
            "() => ['td', 'th'].map(tag => getComputedStyle(document.querySelector(`tr.same ${tag}`)).color)"
        )
        assert calm == muted, "equal rows are calmer"
        ann.press("y")
        found = {row[1]: row for row in rows_of(ann)}
        assert found["country"] == ["alone", "country", "Austria", "–", []], "missing is no difference"
        assert ann.page.locator("#pair [aria-label=missing]").count() == 3
        assert found["name"][4] == ["V", "na", "W"]
        ann.press("n")
        assert rows_of(ann)[0][2] == PLACES["name"][4], "a value is never HTML"
        assert ann.page.locator("#pair b, #pair img, #pair script").count() == 0
        pictures_of(ann, pictures, "record-desktop-3")
        ann.page.keyboard.press("z")
        ann.sees("#note", "You had said: no match.")
        ann.press("n")
        ann.press("u")
        ann.saved()
        ann.leave()
    assert [int(id) >> 32 for id in campaign.ledger.labels()[0]] == [0, 2]
    assert campaign.ledger.labels()[1].tolist() == [1, 0]

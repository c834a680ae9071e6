"""People label in a real browser: alone with the keyboard, over two visits; and two together who disagree.

Needs Chromium and the package playwright. Pictures of the pages are kept in the test's folder, or in
$PAIRSIEVE_SCREENSHOTS.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pairsieve.campaign import Campaign
from pairsieve.made import made_questions
from web_campaign import asked_campaign

sync_api = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LONG = 120_000  # milliseconds: a busy machine may take that long to train a tiny round
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
    pytest.mark.xdist_group("browser"),
]
SIDEWAYS = "() => document.documentElement.scrollWidth - window.innerWidth"
HTML = "Is <b onclick=alert(1)>this</b> <img src=x onerror=alert(2)> & that the same?"


def pairsieve(*words: Any) -> list[str]:
    """The command line as a user has it."""
    start = "import pairsieve.cli.label; from pairsieve.cli import main; main()"
    return [sys.executable, "-c", start, *map(str, words)]


def make_campaign(folder: Path, encoder: Path, batch: int, rounds: int) -> Path:
    """A campaign from a CSV without truth, made with the command line as a user would."""
    made = made_questions(60, seed=5)
    with (folder / "questions.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "text"])
        rows.writerows([*zip(made.keys, made.texts), ("html-1", HTML), ("html-2", HTML.replace("?", "!"))])
    told = {"--learner": "projection", "--device": "cpu", "--first-batch": batch, "--growth": 1}
    options = [word for pair in (told | {"--rounds": rounds}).items() for word in pair]
    for words in (
        ("data", "tables", "--from", folder / "questions.csv", "--key", "id", "--out", folder / "task"),
        ("init", folder / "duplicates", "--task", folder / "task", "--encoder", encoder, *options),
    ):
        subprocess.run(pairsieve(*words), check=True, capture_output=True)
    return folder / "duplicates"


@contextmanager
def served(folder: Path, *options: Any, how_it_ends: int = signal.SIGTERM) -> Iterator[str]:
    """The page, served as `pairsieve label` serves it; stopped at the end. Gives its address."""
    server = subprocess.Popen(
        pairsieve("label", folder, "--json", *options), stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        yield json.loads(server.stdout.readline())["url"]
    finally:
        server.send_signal(how_it_ends)
        server.wait(timeout=30)
        server.stdout.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with sync_api.sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("PAIRSIEVE_SCREENSHOTS") or tmp_path / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Person:
    """Somebody at a browser of their own."""

    def __init__(self, chromium: Any, url: str, name: str, token: str = "", **context: Any) -> None:
        self.context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **context})
        self.page = self.context.new_page()
        self.page.set_default_timeout(LONG)
        self.complaints: list[str] = []
        self.page.on("console", lambda said: said.type == "error" and self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.goto(url)
        if token:
            self.page.fill("#token", token)
            self.page.keyboard.press("Enter")
        self.page.fill("#name-input", name)
        self.page.keyboard.press("Enter")

    @property
    def pair(self) -> str:
        """The pair on the screen, once there is one."""
        self.page.wait_for_selector("#pair:visible")
        return str(self.page.get_attribute("#pair", "data-pair"))

    def press(self, key: str) -> str:
        """Press a key and wait until another pair, or none, is on the screen. Returns the pair before."""
        before = self.pair
        self.page.keyboard.press(key)
        self.page.wait_for_function(
            "before => document.getElementById('pair').hidden || "
            "document.getElementById('pair').dataset.pair !== before",
            arg=before,
        )
        return before

    def sees(self, selector: str, words: str) -> None:
        self.page.locator(selector, has_text=words).wait_for()

    def saved(self) -> None:
        """Wait until the outbox is empty."""
        self.page.wait_for_function(
            "() => Object.keys(localStorage).filter(k => k.startsWith('pairsieve outbox'))"
            ".every(k => localStorage.getItem(k) === '[]')"
        )

    def leave(self) -> None:
        self.context.close()
        assert not self.complaints, self.complaints


def test_one_person_with_the_keyboard_over_two_visits(
    tmp_path: Path, tiny_encoder: Path, chromium: Any, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_campaign(tmp_path, tiny_encoder, batch=24, rounds=2)
    with served(folder) as url:
        ann = Person(chromium, url, "Ann")
        first = ann.pair
        ann.sees("#round-words", "Round 1 of 2: 0 of 24")
        ann.page.screenshot(path=pictures / "label-desktop-light.png")
        ann.page.emulate_media(color_scheme="dark")
        ann.page.screenshot(path=pictures / "label-desktop-dark.png")
        ann.page.emulate_media(color_scheme="light")
        said = {ann.press("y"): 1, ann.press("n"): 0, ann.press("u"): None}
        assert next(iter(said)) == first
        skipped = ann.press("s")
        wrong = ann.press("y")
        ann.page.keyboard.press("z")
        ann.sees("#note", "You had said: match.")
        assert ann.pair == wrong, "undo brings the pair back"
        said[ann.press("n")] = 0
        ann.saved()
        ann.sees("#round-words", "4 of 24")
        ann.leave()  # in the middle of the round

        ann = Person(chromium, url, "Ann", color_scheme="dark")
        ann.sees("#round-words", "4 of 24")
        assert ann.pair not in said, "what was answered does not come again"
        ann.page.keyboard.press("z")
        ann.sees("#note", "You had said: no match.")
        assert ann.pair == wrong, "undo reaches back to the other visit"
        said[ann.press("y")] = 1
        # Another key for "match", kept in this browser.
        ann.page.click("#open-options")
        ann.page.click("#key-list li:nth-child(1) button")
        ann.page.keyboard.press("j")
        ann.sees("#key-status", "Match is now")
        ann.page.screenshot(path=pictures / "options-desktop-dark.png")
        ann.page.click("#close-options")
        order = []
        while len(said) < 24:
            label = len(said) % 3 != 0
            pair = ann.press("j" if label else "n")
            assert pair not in said
            order.append(pair)
            said[pair] = int(label)
            assert ann.page.locator("#pair img, #pair b, #pair script").count() == 0, "texts are never HTML"
        assert skipped in order, "the skipped pair came back"
        measured = ann.page.evaluate(
            "() => performance.getEntriesByName('answer to next pair').map(e => e.duration)"
        )
        ann.saved()
        ann.sees("#waiting-words", "Round 1 is complete.")
        ann.page.screenshot(path=pictures / "waiting-desktop-dark.png")
        ann.sees("#round-words", "Round 2 of 2: 0 of 24")  # by itself, after training
        assert ann.pair not in said

        board = ann.context.new_page()
        board.set_default_timeout(LONG)
        board.goto(f"{url}dashboard")
        board.locator("#tiles", has_text="24 of 48").wait_for()
        board.screenshot(path=pictures / "dashboard-desktop-dark.png", full_page=True)
        said[ann.press("n")] = 0
        board.locator("#tiles", has_text="25 of 48").wait_for()  # without a reload
        board.set_viewport_size({"width": 390, "height": 844})
        board.emulate_media(color_scheme="light")
        board.screenshot(path=pictures / "dashboard-phone-light.png", full_page=True)
        assert board.evaluate(SIDEWAYS) <= 0, "nothing sticks out sideways on a phone"
        ann.leave()

        phone = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
        bob = Person(chromium, url, "Bob", **phone, device_scale_factor=2)
        pair = bob.pair
        bob.page.screenshot(path=pictures / "label-phone-light.png")
        bob.page.emulate_media(color_scheme="dark")
        bob.page.screenshot(path=pictures / "label-phone-dark.png")
        assert bob.page.evaluate(SIDEWAYS) <= 0, "nothing sticks out sideways on a phone"
        bob.page.tap("[data-action=unsure]")
        bob.page.wait_for_function("p => document.getElementById('pair').dataset.pair !== p", arg=pair)
        bob.saved()
        bob.leave()
    with capsys.disabled():
        print(
            f"\nanswer to next pair on screen: median {statistics.median(measured):.1f} ms of {len(measured)}"
        )
    kept = Campaign(folder).ledger.answers_by_person()
    assert kept["Ann"] == {int(pair): label for pair, label in said.items()}
    assert kept["Bob"] == {int(pair): None}


def test_two_people_disagree_and_settle_it(
    tmp_path: Path, tiny_encoder: Path, chromium: Any, pictures: Path
) -> None:
    folder = make_campaign(tmp_path, tiny_encoder, batch=4, rounds=1)
    with served(folder, "--overlap", 1.0) as url:
        ann, bob = Person(chromium, url, "Ann"), Person(chromium, url, "Bob")
        disputed = ann.pair
        for person in (ann, bob):
            for _ in range(4):
                person.press("n" if person is bob and person.pair == disputed else "y")
            person.saved()
        bob.sees("#waiting-words", "people disagree")
        bob.sees("#dispute-list", "Ann: match, Bob: no match")
        bob.page.screenshot(path=pictures / "disagreement-desktop-light.png", full_page=True)
        bob.page.set_viewport_size({"width": 390, "height": 844})
        bob.page.screenshot(path=pictures / "disagreement-phone-light.png", full_page=True)
        found = bob.page.evaluate(
            "texts => import('/static/diff.js').then(diff => diff.difference(...texts))",
            ["Big red car", "big  blue-ish car!"],
        )
        assert found == [
            [["Big ", False], ["red", True], [" car", False]],
            [["big  ", False], ["blue-ish", True], [" car", False], ["!", True]],
        ]
        assert int(disputed) in Campaign(folder).ledger.open_questions(1), "a tie keeps the round open"
        bob.page.click("#dispute-list button.no-match")
        for person in (ann, bob):
            person.sees("#waiting-words", "All rounds are done.")
            person.leave()
    ids, labels = Campaign(folder).ledger.labels()
    assert {id: label for id, label in zip(ids.tolist(), labels.tolist()) if not label} == {
        int(disputed): False
    }


def test_a_token_and_a_server_killed_while_somebody_labels(
    tmp_path: Path, tiny_encoder: Path, chromium: Any, pictures: Path
) -> None:
    campaign, token = asked_campaign(tmp_path, tiny_encoder, questions=12), "a-token-of-23-characters"
    options = ("--token", token, "--no-train", "--port")
    with served(campaign.folder, *options, 0, how_it_ends=signal.SIGKILL) as url:
        ann = Person(chromium, url, "Ann", token)
        said = {ann.press("y"): 1, ann.press("n"): 0}
        ann.saved()
    ann.complaints.clear()
    said |= {ann.press("y"): 1, ann.press("u"): None}  # the next pairs were here already
    ann.sees("#status", "not saved yet; trying again")
    ann.page.screenshot(path=pictures / "offline-desktop-light.png")
    with served(campaign.folder, *options, url.rstrip("/").rpartition(":")[2]):
        ann.saved()
        said |= {ann.press("n"): 0}
        ann.saved()
        ann.complaints.clear()  # the browser's own words about a server that was away
        ann.leave()
    kept = Campaign(campaign.folder).ledger
    assert kept.answers_by_person() == {"Ann": {int(pair): label for pair, label in said.items()}}
    assert len(kept.answers()) == 5, "each answer once"

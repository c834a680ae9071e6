"""People label in a real browser: alone with the keyboard, over two visits; two together who disagree; and
answers that cannot all be right.

Needs Chromium and the package playwright. Pictures of the pages are kept in the test's folder, or in
$PAIRSIEVE_SCREENSHOTS.
"""

from __future__ import annotations

import csv
import os
import re
import signal
import statistics
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import IN_BROWSER, LONG, Person, check_accessible, pairsieve, served
from experiments.synthetic import synthetic_questions
from pairsieve.audit.draws import AskedPairs, Strata
from pairsieve.audit.estimate import Limits, estimate
from pairsieve.campaign import Campaign
from pairsieve.campaign.figures import AuditFigures, write_checksummed
from pairsieve.contracts import Answer, Estimate
from pairsieve.settings import CAMPAIGN_FILE
from pairsieve.sources.overlap import FOLDER, OVERLAP_FILE, overlap_writer
from web_campaign import asked_campaign, asked_triangles

pytest_plugins = ("browser",)
pytestmark = IN_BROWSER
SIDEWAYS = "() => document.documentElement.scrollWidth - window.innerWidth"
HTML = "Is <b onclick=alert(1)>this</b> <img src=x onerror=alert(2)> & that the same?"


def make_campaign(folder: Path, encoder: Path, batch: int, rounds: int) -> Path:
    """A campaign from a CSV without truth, made with the command line as a user would."""
    made = synthetic_questions(60, seed=5)
    with (folder / "questions.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "text"])
        rows.writerows([*zip(made.keys, made.texts), ("html-1", HTML), ("html-2", HTML.replace("?", "!"))])
    told = {"--learner": "projection", "--device": "cpu", "--first-batch": batch, "--growth": 1}
    told["--measuring-share"] = 0  # a batch is one batch on the page
    options = [word for pair in (told | {"--rounds": rounds}).items() for word in pair]
    for words in (
        ("data", "tables", "--from", folder / "questions.csv", "--key", "id", "--out", folder / "task"),
        ("init", folder / "duplicates", "--task", folder / "task", "--encoder", encoder, *options),
    ):
        subprocess.run(pairsieve(*words), check=True, capture_output=True)
    return folder / "duplicates"


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("PAIRSIEVE_SCREENSHOTS") or tmp_path / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


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
        check_accessible(ann.page, "options")
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

        cache = ann.context.new_page()
        cache.set_default_timeout(LONG)
        cache.goto(f"{url}dashboard")
        cache.locator("#tiles", has_text="24 of 48").wait_for()
        cache.screenshot(path=pictures / "dashboard-desktop-dark.png", full_page=True)
        check_accessible(cache, "dashboard")
        said[ann.press("n")] = 0
        cache.locator("#tiles", has_text="25 of 48").wait_for()  # without a reload
        cache.set_viewport_size({"width": 390, "height": 844})
        cache.emulate_media(color_scheme="light")
        cache.screenshot(path=pictures / "dashboard-phone-light.png", full_page=True)
        assert cache.evaluate(SIDEWAYS) <= 0, "nothing sticks out sideways on a phone"
        ann.leave()

        phone = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
        bob = Person(chromium, url, "Bob", **phone, device_scale_factor=2)
        pair = bob.pair
        bob.page.screenshot(path=pictures / "label-phone-light.png")
        bob.page.emulate_media(color_scheme="dark")
        bob.page.screenshot(path=pictures / "label-phone-dark.png")
        assert bob.page.evaluate(SIDEWAYS) <= 0, "nothing sticks out sideways on a phone"
        check_accessible(bob.page, "labelling on a phone")
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
        bob.sees("#waiting-words", "wait for a decision")
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
        lists = ["http://a.org/b, http://c.org/d", "http://x.net/y, http://z.net/w"]
        found = bob.page.evaluate(
            "texts => import('/static/diff.js').then(diff => diff.difference(...texts))", lists
        )
        assert found == [[[text, False]] for text in lists], (
            "commas and slashes in common are nothing in common"
        )
        assert int(disputed) in Campaign(folder).ledger.open_questions(1), "a tie keeps the round open"
        bob.page.click("#dispute-list button.match")
        bob.sees("#waiting-words", "All rounds are done.")  # a slip of the hand: the round went on
        bob.page.click("#undo-decision")
        bob.sees("#dispute-list", "Ann: match, Bob: no match")
        bob.page.click("#dispute-list button.no-match")
        for person in (ann, bob):
            person.sees("#waiting-words", "All rounds are done.")
            person.leave()
    ids, labels = Campaign(folder).ledger.labels()
    assert {id: label for id, label in zip(ids.tolist(), labels.tolist()) if not label} == {
        int(disputed): False
    }


def audited(campaign: Campaign, figure: Estimate | Limits) -> None:
    """An audit of round 1 that found this of precision and of average precision."""
    strata = Strata(np.array([-1.0], np.float32), np.array([15]))
    asked = AskedPairs.nothing().then(np.zeros(15, np.float32), np.arange(15) < 5, 1, np.ones(15))
    found = estimate(strata, asked, -1.0, np.random.default_rng(0))
    found = replace(found, precision=figure, average_precision=figure)
    figures = AuditFigures(campaign.folder, "all", 1, 0, found)
    write_checksummed(campaign.folder / "rounds" / "audit-001.json", figures.as_json())


def test_answers_that_cannot_all_be_right_are_shown_with_their_chain(
    tmp_path: Path, tiny_encoder: Path, chromium: Any, pictures: Path
) -> None:
    """A file says 0 = 1 and 1 = 2, but not 0 = 2. Looking at the chain, Bob finds that 1 and 2 differ."""
    campaign = asked_triangles(tmp_path, tiny_encoder)
    space, keys = campaign.split.space, campaign.split.left.keys
    row = {int(space.ids(a, b)): (a, b) for a in range(6) for b in range(a + 1, 6)}
    said = {(0, 1): 1, (1, 2): 1, (0, 2): 0, (3, 4): 1, (4, 5): 1}
    answers = [Answer(id, said[rows]) for id, rows in row.items() if rows in said]
    campaign.ledger.answer(answers, "Ann", "file")
    with served(campaign.folder, "--no-train") as url:
        bob = Person(chromium, url, "Bob")
        bob.page.wait_for_selector("#disputes:visible")
        bob.page.evaluate("() => { document.getElementById('disputes').open = true; }")
        bob.sees(".chain-line", f"{keys[0]} = {keys[1]}, {keys[1]} = {keys[2]}, {keys[0]} ≠ {keys[2]}")
        bob.sees("#dispute-count", "1")
        bob.page.screenshot(path=pictures / "contradiction-desktop-light.png", full_page=True)
        check_accessible(bob.page, "contradiction")
        bob.page.set_viewport_size({"width": 390, "height": 844})
        bob.page.screenshot(path=pictures / "contradiction-phone-dark.png", full_page=True)
        assert bob.page.evaluate(SIDEWAYS) <= 0, "nothing sticks out sideways on a phone"
        # By keyboard: to the second pair of the chain, "no match".
        second = bob.page.locator(".chain article.dispute").nth(1)
        second.get_by_role("button", name="No match").focus()
        bob.page.keyboard.press("Enter")
        bob.sees("#status", "Decided: no match.")
        bob.page.wait_for_selector(".chain", state="detached")
        assert bob.page.evaluate("() => document.activeElement.id") == "undo-decision", (
            "the focus is not lost"
        )
        bob.page.keyboard.press("Enter")  # taken back: the contradiction is there again
        bob.sees(".chain-line", f"{keys[0]} ≠ {keys[2]}")
        bob.page.locator(".chain article.dispute").nth(1).get_by_role("button", name="No match").click()
        bob.page.wait_for_selector(".chain", state="detached")
        seen = {row[int(bob.press("u"))] for _ in range(15 - 5 - 1)}  # all but Ann's five, and 3 = 5
        bob.sees("#waiting-words", "The round is complete.")

        # The dashboard, open while a language model answers and an audit is finished elsewhere.
        bob.page.goto(f"{url}dashboard")
        bob.sees("#tiles", "Inferred")
        bob.sees("#figures", "Not measured yet")
        said_by_model = [Answer(int(space.ids(0, 1)), 1), Answer(int(space.ids(3, 4)), 0)]
        overlap_writer(campaign.folder / FOLDER / OVERLAP_FILE, "oracle-7b", "words")(said_by_model)
        bob.sees("#tiles", "oracle-7b agrees with people50 %")  # one of two: 0 = 1, and 3 = 4 it denies
        bob.sees("#models", "0.50 (0.01 to 0.99)")  # exact limits of 1 in 2
        limits, value = Limits(0.8, 0.95), Estimate(0.9, 0.8, 0.95, 15, "drawn")
        audited(campaign, limits)
        bob.sees("#figures", "Limits by drawn labels: audited average precision between 0.800 and 0.950")
        audited(campaign, value)
        bob.sees("#figures", "audited precision 0.900 (0.800 to 0.950) after round 1")
        bob.page.screenshot(path=pictures / "dashboard-audited-phone-dark.png", full_page=True)
        check_accessible(bob.page, "dashboard with an audit and a language model")
        bob.leave()
    kept = Campaign(campaign.folder).ledger.votes()
    basis = {row[int(id)]: (label, basis) for id, label, basis in zip(kept.ids, kept.labels, kept.basis)}
    assert basis[1, 2] == (0, "adjudication")
    assert basis[3, 5] == (1, "inferred"), "3 = 4 = 5: nobody had to say that 3 is 5"
    assert seen == {rows for rows in row.values() if rows not in said} - {(3, 5)}


def test_a_campaign_that_stops_by_its_rule_says_so(
    tmp_path: Path, tiny_encoder: Path, chromium: Any, pictures: Path
) -> None:
    folder = make_campaign(tmp_path, tiny_encoder, batch=6, rounds=3)
    file = folder / CAMPAIGN_FILE
    rule = re.sub(r"(?m)^#? ?stop_when = .*$", 'stop_when = "labels >= 6"', file.read_text())
    assert rule != file.read_text()
    file.write_text(rule)
    with served(folder) as url:
        ann = Person(chromium, url, "Ann")
        for _ in range(6):
            ann.press("y" if int(ann.pair) % 2 else "n")
        ann.sees("#waiting-words", "stopped by its own rule: labels >= 6")
        assert not ann.page.locator("#waiting.at-work").count(), "nothing turns any more"
        ann.page.goto(f"{url}dashboard")
        ann.sees("#now", "Stopped after round 1: labels >= 6.")
        ann.leave()


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
    ann.sees("#unsent", "2 not saved yet: kept in this browser and sent again.")
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

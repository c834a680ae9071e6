"""The report in a real browser: nothing overflows at any width, pictures have words, it prints.

Needs Chromium and the package playwright. Pictures of the pages are kept in the test's folder, or in
$PAIRSIEVE_SCREENSHOTS.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import CHROMIUM, FLAGS, IN_BROWSER, sync_api
from experiments.synthetic import synthetic_questions
from pairsieve.campaign import Campaign
from pairsieve.pairs import AllPairs
from pairsieve.report.facts import gather
from pairsieve.report.page import write_report
from pairsieve.tasks import Collection, Task, save_task
from pairsieve.tasks.task import one_collection
from synthetic_task import begin

pytestmark = IN_BROWSER
ODD = [
    "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">",
    "Donaudampfschifffahrtsgesellschaftskapitän" * 12,
    "שלום עולם, איך מאפסים סיסמה?",
    "🙂" * 150,
    "\x00\x1b[31m \u202eno reset",
    "word " * 500,
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Path:
    """The page of a campaign whose worst mistakes are texts of every odd kind, with very long keys."""
    folder = tmp_path_factory.mktemp("page")
    made = synthetic_questions(60, seed=3)
    texts = [f"{odd} {half}" for odd in ODD for half in ("one", "two")] + list(made.texts)
    keys = [f"{'key' * 40}-{at}" for at in range(len(texts))]
    space = AllPairs(len(texts))
    near = space.ids(np.arange(0, 72, 3), np.arange(1, 73, 3) % 72)
    parts = {
        name: one_collection(name, Collection(keys, texts), np.unique(near), np.empty(0, np.int64), True)
        for name in ("train", "dev")
    }
    save_task(
        Task("a-task-with-a-long-name" * 8, "equivalence", parts, {"from": "x" * 300}, {}), folder / "t"
    )
    begin(folder / "mine", folder / "t", tiny_encoder, rounds=2).run()
    write_report(gather(Campaign(folder / "mine")), folder / "out")
    return folder / "out" / "index.html"


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


def opened(chromium: Any, report: Path, width: int, **context: Any) -> tuple[Any, list[str]]:
    """A page at a width, and what the browser complained about or tried to fetch."""
    page = chromium.new_context(viewport={"width": width, "height": 800}, **context).new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url))
    page.goto(report.as_uri())
    assert complaints.pop(0) == report.as_uri()
    return page, complaints


# Elements that reach beyond the right edge, unless they scroll inside a box of their own.
OUTSIDE = """() => [...document.querySelectorAll('main *')].filter(each =>
    !each.closest('.scroll') && !each.closest('svg') &&
    each.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
    .map(each => each.outerHTML)"""
SPILT = """() => [...document.querySelectorAll('svg text')].filter(each => {
    const mine = each.getBoundingClientRect(), box = each.closest('svg').getBoundingClientRect();
    return mine.left < box.left - 2 || mine.right > box.right + 2 || mine.bottom > box.bottom + 2; })
    .map(each => each.textContent)"""


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (1280, "dark"), (768, "light"), (360, "light"), (320, "dark")]
)
def test_nothing_overflows(chromium: Any, report: Path, pictures: Path, width: int, scheme: str) -> None:
    page, complaints = opened(chromium, report, width, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.screenshot(path=pictures / f"report-{width}-{scheme}.png", full_page=True)
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(SPILT) == []
    assert complaints == []
    assert page.title() == "mine: pairsieve report"
    page.context.close()


def test_pictures_have_words_and_can_be_read_on_a_phone(chromium: Any, report: Path) -> None:
    page, _ = opened(chromium, report, 360)
    named = page.get_by_role("img").all()
    assert len(named) == page.locator("svg").count() == 5
    assert all(len(each.get_attribute("aria-label")) > 30 for each in named)
    heights = page.evaluate(
        "[...document.querySelectorAll('svg text')].filter(each => !each.querySelector('tspan'))"
        ".map(each => Math.max(...Object.values(each.getBoundingClientRect().toJSON()).slice(2, 4)))"
    )
    assert min(heights) >= 7
    page.context.close()


def test_colours_turn_dark_with_the_page(chromium: Any, report: Path) -> None:
    inks = {}
    for scheme in ("light", "dark"):
        page, _ = opened(chromium, report, 800, color_scheme=scheme)
        ground, text = page.evaluate(
            "[getComputedStyle(document.body).backgroundColor,"
            " getComputedStyle(document.querySelector('svg text')).fill]"
        )
        inks[scheme] = [sum(map(int, colour[4:-1].split(","))) for colour in (ground, text)]
        page.context.close()
    assert inks["light"][0] > inks["light"][1] and inks["dark"][0] < inks["dark"][1]


def test_it_prints(chromium: Any, report: Path, pictures: Path) -> None:
    page, _ = opened(chromium, report, 690, color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate(OUTSIDE.replace("!each.closest('.scroll') &&", "")) == []  # paper does not scroll
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    paper = page.pdf(path=pictures / "report.pdf", format="A4")
    assert paper.startswith(b"%PDF") and 2 <= paper.count(b"/Type /Page\n") <= 12
    page.context.close()

"""A hostile table on the page: names of columns, keys, sources and values are only text."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from browser import IN_BROWSER, Person, served
from pairsieve.tasks import save_task, tables_task
from synthetic_task import begin
from web_campaign import ask

pytest_plugins = ("browser",)
pytestmark = IN_BROWSER
EVIL = "<img src=x onerror=alert(1)>"
COLUMNS = ["key", f"name{EVIL}", '"><script>alert(2)</script>', f"source{EVIL}"]


def test_nothing_of_a_table_is_run(tmp_path: Path, tiny_encoder: Path, chromium: Any) -> None:
    rows = [
        [f"{EVIL}{n}", f"<b>name {n // 2}</b>", f"{n // 2}<svg onload=alert(3)>", f"{EVIL}{n % 2}"]
        for n in range(8)
    ]
    with (tmp_path / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    task = tables_task(
        tmp_path / "table.csv", key="key", text=COLUMNS[1:3], source=COLUMNS[3], split="none", name=EVIL
    )
    save_task(task, tmp_path / "task")
    folder = tmp_path / f"campaign{EVIL.replace('/', '')}"
    campaign = begin(
        folder, tmp_path / "task", tiny_encoder, measure_splits=(), first_batch=3, rounds=1, split="all"
    )
    ask(campaign, 1, np.arange(3))
    campaign.ledger.close()
    with served(folder, "--no-train") as url:
        ann = Person(chromium, url, EVIL)
        ann.page.wait_for_selector("#pair tbody tr")
        assert ann.page.locator("#pair thead th").nth(1).text_content().startswith(EVIL)
        assert ann.page.locator("#pair tbody th").all_text_contents() == COLUMNS[1:3]
        ann.press("y")
        ann.saved()
        hostile = "img, b, svg, script:not([src])"
        assert ann.page.locator(f"main :is({hostile})").count() == 0
        ann.page.goto(f"{url}dashboard")
        ann.page.wait_for_function("who => document.body.textContent.includes(who)", arg=EVIL)
        assert ann.page.locator("main :is(img, b, script:not([src]))").count() == 0, "charts are svg"
        ann.leave()

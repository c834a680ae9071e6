"""A real browser for story tests: Chromium, people at it, and the page as the command line serves it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

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
    "--host-resolver-rules=MAP *.test 127.0.0.1",
]
LONG = 120_000  # milliseconds: a busy machine may take that long to train a tiny round
LOOKED_AT: set[str] = set()  # what was checked for everybody's use: once is enough
IN_BROWSER = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
    pytest.mark.xdist_group("browser"),
]


def pairsieve(*words: Any) -> list[str]:
    """The command line as a user has it."""
    start = "import pairsieve.cli.labels; from pairsieve.cli import main; main()"
    return [sys.executable, "-c", start, *map(str, words)]


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


def check_accessible(page: Any, where: str) -> None:
    """No fault that axe-core finds against WCAG 2.1 A and AA, light and dark."""
    if where in LOOKED_AT:
        return
    LOOKED_AT.add(where)
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    rules = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = axe.Axe().run(page, options={"runOnly": rules}).response["violations"]
        told = [(fault["id"], node["html"][:160]) for fault in found for node in fault["nodes"]]
        assert not told, f"{where}, {scheme}: {told}"
    small = page.evaluate(
        "() => [...document.querySelectorAll('button, a, summary, input')].filter(e => e.checkVisibility())"
        ".map(e => [e.id || e.textContent.trim(), e.getBoundingClientRect()])"
        ".filter(([, box]) => box.bottom > 0 && box.right > 0 && Math.min(box.width, box.height) < 24)"
        ".map(([name, box]) => `${name} ${box.width}x${box.height}`)"
    )
    assert not small, f"{where}: too small to hit {small}"


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
        check_accessible(self.page, "asking for a name")
        self.page.emulate_media(color_scheme=context.get("color_scheme", "light"))
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
            "() => !Object.keys(localStorage).some(key => key.startsWith('pairsieve click'))"
        )

    def leave(self) -> None:
        self.context.close()
        assert not self.complaints, self.complaints

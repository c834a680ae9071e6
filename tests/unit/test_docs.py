"""What the docs say is what the code does: generated pages are fresh, and the README's commands exist."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
import typer

from pairsieve import __version__
from pairsieve.cli import all_commands

ROOT = Path(__file__).parents[2]
PAGES = runpy.run_path(str(ROOT / "docs" / "generate.py"))["PAGES"]


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_fresh(name):
    assert (ROOT / "docs" / name).read_text() == PAGES[name](), "stale: run `make docs`"


def readme_commands():
    text = (ROOT / "README.md").read_text()
    return re.findall(r"^\$ (?:\.venv/bin/)?pairsieve (.+?)(?:\s+#.*)?$", text, re.MULTILINE)


def test_the_readme_shows_commands():
    assert len(readme_commands()) >= 5


@pytest.mark.parametrize("line", readme_commands())
def test_every_command_in_the_readme_exists_with_its_options(line):
    words = shlex.split(line)
    command = typer.main.get_command(all_commands())
    while hasattr(command, "commands"):
        assert words[0] in command.commands, f"the README names an unknown command: {line}"
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_readme_tells_of_every_verb():
    table = (ROOT / "README.md").read_text().split("## The verbs")[1]
    told = set(re.findall(r"`([a-z-]+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))))
    assert told == set(typer.main.get_command(all_commands()).commands)


def pages():
    folders = [page for name in ("docs", "experiments") for page in sorted((ROOT / name).rglob("*.md"))]
    return [*sorted(ROOT.glob("*.md")), *folders]


def anchor(heading):
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_in_the_docs_lead_somewhere(page):
    for target, part in re.findall(r"\]\(([^)#:\s]*)(#[^)]*)?\)", page.read_text()):
        there = page.parent / target if target else page
        assert there.exists(), f"{page.name} links to {target}, which is not there"
        if part:
            headings = re.findall(r"^#+ (.*)$", there.read_text(), re.MULTILINE)
            assert part[1:] in map(anchor, headings), f"{page.name} links to {target}{part}: no such heading"


def test_the_index_names_every_page():
    named = set(re.findall(r"\]\(([^)#]+)\)", (ROOT / "docs" / "README.md").read_text()))
    missing = {page.name for page in (ROOT / "docs").glob("*.md")} - named - {"README.md"}
    assert not missing, f"docs/README.md does not list {sorted(missing)}"


def test_every_decision_is_listed():
    listed = (ROOT / "docs" / "decisions" / "README.md").read_text()
    for record in (ROOT / "docs" / "decisions").glob("0*.md"):
        assert f"]({record.name})" in listed, f"docs/decisions/README.md does not list {record.name}"


# Private words for what the field has names for; the glossary of ARCHITECTURE.md has the names.
GONE = (
    r"second look|first look|\brivals?\b|\bcrowding|\bleans?\b|\bleaning|labels bought|\bwitness|\baskers?\b"
)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_the_words_of_the_field(page):
    if page.name == "CHANGELOG.md":  # names what was renamed
        return
    assert re.findall(GONE, page.read_text(), re.IGNORECASE) == []


def test_the_changelog_begins_with_this_version():
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None and first[1] == __version__

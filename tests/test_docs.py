"""What the docs say is what the code does: generated pages are fresh, and the README's commands exist."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
import typer

from pairsieve.cli import all_commands

ROOT = Path(__file__).parent.parent
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


def test_links_in_the_docs_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "bench" / "README.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"

"""Writes docs/cli.md and docs/settings.md from the code, and what the examples of other pages print.

`make docs` does it. A test fails where they are stale.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from pairsieve.cli import all_commands
from pairsieve.settings import settings_table

HERE = Path(__file__).resolve().parent


def cli_page() -> str:
    """Every command's help, as `--help` prints it at 100 columns."""
    app, runner = all_commands(), CliRunner()
    parts = ["# Commands\n\nMade by `make docs` from the commands' own help.\n"]

    def add(command: Any, words: list[str]) -> None:
        # The parser reads the width of the terminal from COLUMNS, and caps it at its own 80 otherwise.
        shown = runner.invoke(app, [*words, "--help"], prog_name="pairsieve", env={"COLUMNS": "100"})
        parts.append(f"## {' '.join(['pairsieve', *words])}\n\n```\n{shown.stdout.rstrip()}\n```\n")
        for name in command.list_commands(None) if hasattr(command, "commands") else ():
            add(command.commands[name], [*words, name])

    add(typer.main.get_command(app), [])
    return "\n".join(parts)


def settings_page() -> str:
    """Every setting of a campaign file."""
    rows = ["| key | default | allowed | meaning |", "| --- | --- | --- | --- |"]
    for row in settings_table():
        rows.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |")
    head = (
        "# Settings of a campaign (`campaign.toml`)\n\nMade by `make docs` from the settings themselves. "
        "The file can be edited. After the first run `pairsieve run DIR --accept-settings` takes an edit up; "
        "until then every command refuses it, since it might be damage.\n"
    )
    return "\n".join([head, *rows]) + "\n"


PAGES = {"cli.md": cli_page, "settings.md": settings_page}
EXECUTED = ("library.md", "extending.md")  # pages whose Python blocks are run
_EXAMPLE = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def with_outputs(page: str) -> str:
    """The page with what its Python blocks print, run from top to bottom in the current folder."""
    names: dict[str, Any] = {"__name__": "example"}

    def run(found: re.Match[str]) -> str:
        code, shown = found.groups()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs", "exec"), names)
        if shown is None:
            if printed.getvalue():
                raise ValueError(f"an example prints something and the page does not show it:\n{code}")
            return found.group()
        return f"```python\n{code}```\n\n```text\n{printed.getvalue().rstrip()}\n```"

    return _EXAMPLE.sub(run, page)


def nearly_equal(one: str, other: str) -> bool:
    """Equal words, and numbers within 5 % or 0.03 of each other: processors differ in the last digits."""
    if _NUMBER.sub("0", one) != _NUMBER.sub("0", other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other))
    numbers = ((float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in pairs)
    return all(math.isclose(a, b, rel_tol=0.05, abs_tol=0.03) for a, b in numbers)


if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page())
        print(f"docs/{name}", file=sys.stderr)
    start = Path.cwd()
    for name in EXECUTED:
        before = (HERE / name).read_text()
        with tempfile.TemporaryDirectory() as empty:
            os.chdir(empty)
            after = with_outputs(before)
            os.chdir(start)
        if not nearly_equal(before, after):
            (HERE / name).write_text(after)
            print(f"docs/{name}", file=sys.stderr)

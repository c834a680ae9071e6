"""Writes docs/cli.md and docs/settings.md from the code: `make docs`. A test fails where they are stale."""

from __future__ import annotations

import sys
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
    head = "# Settings of a campaign (`campaign.toml`)\n\nMade by `make docs` from the settings themselves.\n"
    return "\n".join([head, *rows]) + "\n"


PAGES = {"cli.md": cli_page, "settings.md": settings_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page())
        print(f"docs/{name}", file=sys.stderr)

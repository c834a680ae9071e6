"""`pairsieve report`: a campaign as one HTML page."""

from __future__ import annotations

from pathlib import Path

from typer import Option

from pairsieve.cli import app, say, show
from pairsieve.cli.options import CACHE, DISTRIBUTED, FOLDER, JSON


@app.command()
def report(
    folder: Path = FOLDER,
    out: Path | None = Option(None, help="The folder to write index.html and the pictures to. [DIR/report]"),
    split: str | None = Option(None, help="The split to measure on; test only if named. [dev]"),
    cache: Path | None = CACHE,
    distributed: str | None = DISTRIBUTED,
    as_json: bool = JSON,
) -> None:
    """Write a page that shows how a campaign went.

    One HTML file without scripts or network access, and its pictures as PNG: average precision by number of
    labels, matches per round, precision and recall over all pairs and over a balanced sample, scores by
    class, the worst mistakes, seconds by phase, audits, agreement, and settings and commands to repeat it.

    Works at any moment of a campaign, with or without truth. What is missing is named, with the command that
    gets it.
    """
    from pairsieve import open_campaign, write_report

    written = write_report(open_campaign(folder, cache=cache, distributed=distributed), out, split=split)
    for each in written.missing:
        say(f"Missing: {each.what}: {each.why}. To have it: {each.how}")
    pictures = f"{len(written.pictures)} pictures beside it."
    show(written.as_json(), as_json, f"{written.page}: open it in a browser. {pictures}")

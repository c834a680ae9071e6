"""`pairsieve report` and `pairsieve explain`: how a campaign went, and why a pair has its score."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from typer import Argument, Option

from pairsieve.cli import app, say, show
from pairsieve.cli.options import CACHE, DISTRIBUTED, FOLDER, JSON
from pairsieve.progress import doing


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

    campaign = open_campaign(folder, cache=cache, distributed=distributed)
    with doing("writing the report"):
        written = write_report(campaign, out, split=split)
    for each in written.missing:
        say(f"Missing: {each.what}: {each.why}. To have it: {each.how}")
    pictures = f"{len(written.pictures)} pictures beside it."
    show(written.as_json(), as_json, f"{written.page}: open it in a browser. {pictures}")


@app.command()
def explain(
    folder: Path = FOLDER,
    left: str = Argument(..., help="The key of a text."),
    right: str = Argument(..., help="The key of the other text; of the right collection, if there are two."),
    split: str | None = Option(
        None, help="The split of the keys; test only if named. [the campaign's own, then others]"
    ),
    examples: int = Option(3, min=0, help="Labelled pairs of either kind to show."),
    quick: bool = Option(False, "--quick", help="Do not count all pairs: faster, without the rank."),
    cache: Path | None = CACHE,
    distributed: str | None = DISTRIBUTED,
    as_json: bool = JSON,
) -> None:
    """Show why a pair has its score.

    How much each word adds to the score, how many pairs score higher, the precision and recall at this score
    where the truth is known, and similar labelled pairs.
    """
    from pairsieve import explain_pair, open_campaign
    from pairsieve.explain.words import words_of

    campaign = open_campaign(folder, cache=cache, distributed=distributed)
    with doing("explaining"):
        found = explain_pair(campaign, left, right, split=split, examples=examples, count_all=not quick)
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    show(found.as_json(), as_json, words_of(found, colour), escaped=True)

"""`pairsieve report`: a campaign as one page to read, print or hand on."""

from __future__ import annotations

from pathlib import Path

import typer

from pairsieve.cli import app, say, show
from pairsieve.errors import InputError


@app.command()
def report(
    folder: Path = typer.Argument(..., help="The campaign folder."),
    out: Path | None = typer.Option(
        None, "--out", help="The folder to write index.html and the pictures to. [DIR/report]"
    ),
    split: str | None = typer.Option(
        None, "--split", help="The split to measure on; test only if named. [dev]"
    ),
    cache: Path | None = typer.Option(
        None, "--cache", envvar="PAIRSIEVE_CACHE", help="Embeddings shared between campaigns."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Write a page that shows how a campaign went.

    One HTML file that needs nothing beside it (no script, no network), and its pictures as PNG: quality by
    labels bought with intervals, matches per round, precision and recall over all pairs beside what a
    balanced sample would claim, scores by class, the mistakes worth reading, seconds by phase, audits and
    agreement, and the settings, fingerprints and commands to make it again.

    Works at any moment of a campaign, with or without truth; what is missing is named, with the command
    that gets it.
    """
    from pairsieve.campaign import Campaign
    from pairsieve.report.facts import gather
    from pairsieve.report.page import write_report

    target = folder / "report" if out is None else out
    if target.exists() and not target.is_dir():
        raise InputError("this is a file", where=str(target), remedy="Give --out a folder to write to")
    facts = gather(Campaign(folder, cache), split)
    written = write_report(facts, target)
    for each in facts.missing:
        say(f"Missing: {each.what}: {each.why}. To have it: {each.how}")
    measured = facts.measured
    answer = {
        "report": str(written[0]),
        "pictures": [str(path) for path in written[1:]],
        "split": facts.split,
        "round": facts.model,
        "labels": facts.labels,
        "positives": facts.positives,
        "average_precision": measured.interval.as_json() if measured is not None else None,
        "missing": [{"what": each.what, "why": each.why, "how": each.how} for each in facts.missing],
    }
    show(answer, as_json, f"{written[0]}: open it in a browser. {len(written) - 1} pictures beside it.")

"""`pairsieve demo`: the whole method on a made collection, offline, in minutes."""

from __future__ import annotations

from pathlib import Path

import typer

from pairsieve.cli import app, say, show


@app.command()
def demo(
    out: Path = typer.Option(
        Path("demo-out"), "--out", help="Where the task, campaigns, plot and matches go."
    ),
    texts: int = typer.Option(6400, "--texts", min=200, help="Questions to make."),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of the questions and of everything after."),
    as_json: bool = typer.Option(False, "--json", help="Print the figures as JSON."),
) -> None:
    """See the method at work on made questions, offline.

    Uncertainty, static retrieval and random sampling spend the same number of labels; the table shows what
    each was worth over all pairs, beside what a balanced sample would have claimed.
    """
    from pairsieve.demo import demo_table, run_demo

    result = run_demo(out, texts, seed, say)
    show(result, as_json, demo_table(result))

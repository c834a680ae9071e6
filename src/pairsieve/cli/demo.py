"""`pairsieve demo`: the whole method on a synthetic table, offline, in a minute."""

from __future__ import annotations

from pathlib import Path

from typer import Option

from pairsieve.cli import app, say, show
from pairsieve.cli.options import FIGURES_JSON


@app.command()
def demo(
    out: Path = Option(Path("demo-out"), help="Folder for the task, campaigns, plot and matches."),
    texts: int = Option(1000, min=200, help="Number of records."),
    labels: int = Option(400, min=50, help="Number of labels."),
    seed: int = Option(0, min=0, help="Seed of all random numbers."),
    as_json: bool = FIGURES_JSON,
) -> None:
    """Show the method on synthetic citations, offline.

    The same number of labels is chosen in three ways: by default, nearest first, and at random. The table
    shows average precision over all pairs and F1 of the list of matches, against labels.
    """
    from pairsieve.demo import demo_table, run_demo

    result = run_demo(out, texts, labels, seed, say)
    show(result.as_json(), as_json, demo_table(result))

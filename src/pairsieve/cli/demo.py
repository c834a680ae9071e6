"""`pairsieve demo`: the whole method on a synthetic collection, offline, in minutes."""

from __future__ import annotations

from pathlib import Path

from typer import Option

from pairsieve.cli import app, say, show
from pairsieve.cli.options import FIGURES_JSON


@app.command()
def demo(
    out: Path = Option(Path("demo-out"), help="Folder for the task, campaigns, plot and matches."),
    texts: int = Option(6400, min=200, help="Number of questions."),
    seed: int = Option(0, min=0, help="Seed of all random numbers."),
    as_json: bool = FIGURES_JSON,
) -> None:
    """See the method at work on synthetic questions, offline.

    Three strategies (uncertainty, static retrieval, random) use the same number of labels. The table shows
    average precision over all pairs, and what a balanced sample of pairs would claim.
    """
    from pairsieve.demo import demo_table, run_demo

    result = run_demo(out, texts, seed, say)
    show(result, as_json, demo_table(result))

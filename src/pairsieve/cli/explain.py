"""`pairsieve explain`: why does the model say so of this pair?"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from pairsieve.cli import app, show


@app.command()
def explain(
    folder: Path = typer.Argument(..., help="The campaign folder."),
    left: str = typer.Argument(..., help="The key of a text."),
    right: str = typer.Argument(..., help="The key of another; of the right side, where there are two."),
    split: str | None = typer.Option(
        None, "--split", help="Where the keys stand; test only if named. [the campaign's own, then others]"
    ),
    examples: int = typer.Option(3, "--examples", min=0, help="Labelled pairs of either kind to show."),
    quick: bool = typer.Option(False, "--quick", help="Do not count all pairs: no rank, but at once."),
    cache: Path | None = typer.Option(
        None, "--cache", envvar="PAIRSIEVE_CACHE", help="Embeddings shared between campaigns."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Say why the model scores a pair as it does.

    Which words carry the score (each is left out in turn), how many of all pairs score higher, how many
    pairs that score as high are matches where the truth is known, and the labelled pairs nearest to it.
    """
    from pairsieve.campaign import Campaign
    from pairsieve.explain import explain as explain_pair
    from pairsieve.explain.words import words_of

    told = explain_pair(Campaign(folder, cache), left, right, split, examples, not quick)
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    show(told.as_json(), as_json, words_of(told, colour))

"""`pairsieve audit`: measure a campaign's model without knowing the truth, by a few hundred labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from pairsieve.cli import app, say, show


@app.command()
def audit(
    folder: Path = typer.Argument(..., help="The campaign folder."),
    budget: int | None = typer.Option(
        None,
        "--budget",
        min=0,
        help="Labels for the latest model in all; 0 uses earlier audits only. [300, or as begun]",
    ),
    threshold: float | None = typer.Option(
        None, "--threshold", help="Score (cosine) at which to measure. [probability one half]"
    ),
    precision: float | None = typer.Option(
        None, "--precision", help="Measure at the lowest threshold with about this precision instead."
    ),
    split: str | None = typer.Option(None, "--split", help="The split to measure. [the campaign's own]"),
    cache: Path | None = typer.Option(
        None, "--cache", envvar="PAIRSIEVE_CACHE", help="Embeddings shared between campaigns."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Measure precision, recall and AP without the truth.

    Draws pairs with known chances, asks for their labels, and once all are answered (run it again) prints
    figures over ALL pairs with intervals. A third of the labels is a first look: where the others go depends
    on its answers. A larger budget later adds to the labels there are. Audit labels are never used for
    training. A later audit uses the labels of earlier ones again.
    """
    from pairsieve.campaign import Campaign
    from pairsieve.campaign.auditing import run_audit

    campaign = Campaign(folder, cache)
    figures = run_audit(campaign, budget, threshold, precision, split, say)
    if figures["state"] == "waiting":
        waiting, name = figures["waiting"], figures["split"]
        words = f"Waiting for {waiting:,} audit labels. Nothing is lost; run again when they are answered."
        there = "" if name == campaign.settings.split else f" --split {name}"
        words += f"\nLabel in the browser with pairsieve label {folder}{there}, or by file with "
        words += f"pairsieve ask {folder}{there} --out batch.csv and import."
        show(figures, as_json, words)
    else:
        show(figures, as_json, audit_table(figures))


def audit_table(figures: dict[str, Any]) -> str:
    """The figures for a person."""

    def line(words: str, name: str, form: str) -> str:
        held = figures[name]
        value, low, high = (format(held[key], form) for key in ("value", "low", "high"))
        return f"  {words:24} {value:>9}   [{low}, {high}]"

    free, known = figures["positives_without_assumption"], figures["recall_of_known"]
    lines = [
        f"After round {figures['round']}, split {figures['split']}: {figures['pairs']:,} pairs, "
        f"{figures['labels']:,} audit labels"
        + (f"; {figures['unsure']:,} pairs without a label left out" if figures["unsure"] else ""),
        "",
        f"  At a score of {figures['threshold']:.4f} or more:",
        line("precision", "precision", ".4f"),
        line("recall", "recall", ".4f"),
        f"  {'recall of known matches':24} {known['value']:>9.4f}   of {known['n']:,}; too high: sought for",
        "",
        line("average precision", "average_precision", ".4f"),
        line("matches in all pairs", "positives", ",.0f"),
        "",
        f"  Intervals: {figures['precision']['method']}.",
        f"  Without it the draws alone allow {free['low']:,.0f} to {free['high']:,.0f} matches.",
    ]
    return "\n".join(lines)

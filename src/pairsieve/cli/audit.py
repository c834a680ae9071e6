"""`pairsieve audit`: measure a campaign's model without knowing the truth, by a few hundred labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Option

from pairsieve.cli import app, say, show
from pairsieve.cli.options import CACHE, DISTRIBUTED, FOLDER, JSON


@app.command()
def audit(
    folder: Path = FOLDER,
    budget: int | None = Option(
        None, min=0, help="Labels for the latest model in all; 0 uses those of earlier audits only. [300]"
    ),
    threshold: float | None = Option(
        None, help="Score at which to measure. [where the probability is one half]"
    ),
    precision: float | None = Option(
        None, help="Measure at the lowest threshold with about this precision instead."
    ),
    split: str | None = Option(None, help="The split to measure. [the campaign's own]"),
    cache: Path | None = CACHE,
    distributed: str | None = DISTRIBUTED,
    as_json: bool = JSON,
) -> None:
    """Measure precision, recall and AP where the truth is unknown.

    Draws pairs with known chances and asks for their labels. Run it again when they are answered: it prints
    figures over ALL pairs with 95 % intervals. A third of the labels is a pilot sample, which decides where
    the others go. A larger budget adds to the labels of earlier audits. Audit labels are never used for
    training.
    """
    from pairsieve import audit_model, open_campaign

    campaign = open_campaign(folder, cache=cache, distributed=distributed)
    found = audit_model(campaign, budget, threshold=threshold, precision=precision, split=split, say=say)
    waiting = ""
    if found.state == "waiting":
        there = "" if found.split == campaign.settings.split else f" --split {found.split}"
        waiting = (
            f"Waiting for {found.waiting:,} audit labels. Nothing is lost; run again when they are answered."
            f"\nLabel in the browser with pairsieve label {folder}{there}, or by file with "
            f"pairsieve ask {folder}{there} --out batch.csv and import."
        )
    show(found.as_json(), as_json, waiting or audit_table(found.as_json()))


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

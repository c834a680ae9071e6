"""`pairsieve audit`: measure a campaign's model without knowing the truth, by a few hundred labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Option

from pairsieve.cli import app, show
from pairsieve.cli.options import CACHE, DISTRIBUTED, FOLDER, JSON
from pairsieve.progress import doing


@app.command()
def audit(
    folder: Path = FOLDER,
    budget: int | None = Option(
        None, help="Labels for the latest model in all; 0 uses those of earlier audits only. [300]"
    ),
    threshold: float | None = Option(
        None, help="Score at which to measure. [where the probability is one half]"
    ),
    precision: float | None = Option(
        None, help="Measure instead at the lowest threshold with about this precision; expected, not checked."
    ),
    split: str | None = Option(None, help="The split to measure. [the campaign's own]"),
    cache: Path | None = CACHE,
    distributed: str | None = DISTRIBUTED,
    as_json: bool = JSON,
) -> None:
    """Measure precision, recall and AP where the truth is unknown.

    Draws pairs with known chances and asks for their labels. Run it again when they are answered: it prints
    figures with 95 % intervals, which do not rely on the scorer being right.

    Precision is that of all pairs at or above the threshold. Recall and AP count the matches among the
    best-scored pairs only, as many as this number of labels can measure; a second line gives what the labels
    say of all pairs. A larger budget adds to the labels drawn earlier. None of them is used for training.
    """
    from pairsieve import audit_model, open_campaign

    campaign = open_campaign(folder, cache=cache, distributed=distributed)
    with doing("drawing and measuring"):
        found = audit_model(campaign, budget, threshold=threshold, precision=precision, split=split)
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

    def line(words: str, held: dict[str, Any] | None, form: str) -> str:
        if held is None:
            return f"  {words:24} {'-':>9}   not known: no match was seen"
        low, high = (format(held[key], form) for key in ("low", "high"))
        value = format(held["value"], form) if "value" in held else ""
        return f"  {words:24} {value:>9}   [{low}, {high}]"

    known, over = figures["recall_of_known"], figures["over_all"]
    left_out = f"; {figures['unsure']:,} pairs without a label left out" if figures["unsure"] else ""
    about = f"After round {figures['round']}, split {figures['split']}: {figures['pairs']:,} pairs"
    lines = [
        f"{about}, {figures['labels']:,} labels drawn{left_out}",
        "",
        f"  At a score of {figures['threshold']:.4f} or more:",
        line("precision", figures["precision"], ".4f"),
    ]
    if figures["precision_of_new"] is not None:
        lines.append(line("  of pairs not labelled", figures["precision_of_new"], ".4f"))
    if known is not None:
        words = f"of {known['n']:,}; too high: most were found by their scores"
        lines.append(f"  {'recall of known matches':24} {known['value']:>9.4f}   {words}")
    lines += [
        "",
        f"  Among the {figures['reach_pairs']:,} best-scored pairs ({figures['reach_score']:.4f} or more):",
        line("matches", figures["positives"], ",.0f"),
        line("recall", figures["recall"], ".4f"),
        line("average precision", figures["average_precision"], ".4f"),
        "",
        "  Among all pairs these labels allow:",
        line("matches", over["positives"], ",.0f"),
        line("recall", over["recall"], ".4f"),
        line("average precision", over["average_precision"], ".4f"),
        "",
        f"  {figures['method']}.",
    ]
    return "\n".join(lines)

"""`pairsieve audit`: measure a campaign's model without knowing the truth, by a few hundred labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from typer import Option

from pairsieve.cli import app, show
from pairsieve.cli.options import CACHE, DISTRIBUTED, FOLDER, JSON
from pairsieve.progress import doing

if TYPE_CHECKING:
    from pairsieve.audit.estimate import AuditResult, Limits
    from pairsieve.contracts import Estimate


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
    if found.figures.result is None:
        there = "" if found.split == campaign.settings.split else f" --split {found.split}"
        words = (
            f"Waiting for {found.waiting:,} audit labels. Nothing is lost; run again when they are answered."
            f"\nLabel in the browser with pairsieve label {folder}{there}, or by file with "
            f"pairsieve ask {folder}{there} --out batch.csv and import."
        )
    else:
        about = f"After round {found.figures.round}, split {found.split}: "
        words = about + audit_table(found.figures.result)
    show(found.as_json(), as_json, words)


def audit_table(found: AuditResult) -> str:
    """The figures for a person."""

    def line(words: str, figure: Estimate | Limits | None, form: str) -> str:
        if figure is None:
            return f"  {words:24} {'-':>9}   not known: no match was seen"
        low, high = format(figure.low, form), format(figure.high, form)
        value = getattr(figure, "value", None)  # limits have none
        return f"  {words:24} {'' if value is None else format(value, form):>9}   [{low}, {high}]"

    known, over = found.recall_of_known, found.over_all
    left_out = f"; {found.unsure:,} pairs without a label left out" if found.unsure else ""
    lines = [
        f"{found.pairs:,} pairs, {found.labels:,} labels drawn{left_out}",
        "",
        f"  At a score of {found.threshold:.4f} or more:",
        line("precision", found.precision, ".4f"),
    ]
    if found.precision_of_new is not None:
        lines.append(line("  of pairs not labelled", found.precision_of_new, ".4f"))
    if known is not None:
        words = f"of {known.n:,}; too high: most were found by their scores"
        lines.append(f"  {'recall of known matches':24} {known.value:>9.4f}   {words}")
    lines += [
        "",
        f"  Among the {found.reach_pairs:,} best-scored pairs ({found.reach_score:.4f} or more):",
        line("matches", found.positives, ",.0f"),
        line("recall", found.recall, ".4f"),
        line("average precision", found.average_precision, ".4f"),
        "",
        "  Among all pairs these labels allow:",
        line("matches", over.positives, ",.0f"),
        line("recall", over.recall, ".4f"),
        line("average precision", over.average_precision, ".4f"),
        "",
        f"  {found.method}.",
    ]
    return "\n".join(lines)

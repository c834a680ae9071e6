"""`pairsieve audit`: measure a campaign's model without knowing the truth, by a few hundred labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from pairsieve.cli import app, say, show
from pairsieve.contracts import generator_for
from pairsieve.errors import InputError

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign
    from pairsieve.ledger import Questions
    from pairsieve.measure.audit import Asked
    from pairsieve.measure.audit_estimate import AuditResult
    from pairsieve.scan import Scan

_STRATEGY = "audit of round "  # what the ledger keeps of an audit: the round whose model was audited


@app.command()
def audit(
    folder: Path = typer.Argument(..., help="The campaign folder."),
    budget: int = typer.Option(300, "--budget", min=0, help="Labels to buy; 0 uses earlier audits only."),
    threshold: float | None = typer.Option(
        None, "--threshold", help="Score (cosine) at which to measure. [probability one half]"
    ),
    precision: float | None = typer.Option(
        None, "--precision", help="Measure at the lowest threshold with about this precision instead."
    ),
    split: str | None = typer.Option(None, "--split", help="Only the campaign's own split can be audited."),
    cache: Path | None = typer.Option(
        None, "--cache", envvar="PAIRSIEVE_CACHE", help="Embeddings shared between campaigns."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Measure precision, recall and AP without the truth.

    Draws pairs with known chances, asks for their labels, and once all are answered (run it again) prints
    figures over ALL pairs with intervals. Audit labels are never used for training. A later audit uses
    the labels of earlier ones again.
    """
    from pairsieve.campaign import Campaign

    campaign = Campaign(folder, cache)
    _check(campaign, split, threshold, precision)
    _answer(campaign)
    if not len(campaign.ledger.open_questions(purpose="audit")) and budget:
        _ask(campaign, budget, threshold)
        _answer(campaign)
    waiting = len(campaign.ledger.open_questions(purpose="audit"))
    head = {"campaign": str(folder), "split": campaign.settings.split}
    if waiting:
        words = f"Waiting for {waiting:,} audit labels. Nothing is lost; run again when they are answered."
        show({**head, "state": "waiting", "waiting": waiting}, as_json, words)
        return
    model, result = _estimate(campaign, threshold, precision, fresh=budget == 0)
    figures = {**head, "state": "audited", "waiting": 0, "round": model, **result.as_json()}
    from pairsieve.campaign.figures import write_sealed

    write_sealed(campaign.folder / "rounds" / f"audit-{model:03d}.json", figures)
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


def _check(campaign: Campaign, split: str | None, threshold: float | None, precision: float | None) -> None:
    own = campaign.settings.split
    if split not in (None, own):
        raise InputError(
            f"an audit of split {split!r}",
            where=str(campaign.folder),
            why=f"the campaign's ledger holds pairs of {own!r}, the collection that is to be matched",
            remedy=f"Audit {own!r}; a split with known truth is measured by pairsieve evaluate",
        )
    if threshold is not None and precision is not None:
        raise InputError("--threshold and --precision together", remedy="Give one of them")
    if precision is not None and not 0 < precision <= 1:
        raise InputError(f"--precision {precision:g}", remedy="Give a share above 0 and up to 1, such as 0.9")
    if threshold is not None and not -1 <= threshold <= 1:
        raise InputError(f"--threshold {threshold:g}", remedy="Scores are cosines: give one from -1 to 1")
    if campaign.latest() == 0:
        raise InputError(
            "no round is complete yet, so there is no model to audit",
            where=str(campaign.folder),
            remedy=f"pairsieve run {campaign.folder}",
        )


def _answer(campaign: Campaign) -> None:
    """Let the campaign's own sources answer what they can; people and files have their own doors."""
    for source in campaign.sources():
        waiting = campaign.ledger.open_questions(purpose="audit")
        if len(waiting):
            campaign.ledger.answer(source.answer(waiting), who=source.name, source=source.name)


def _ask(campaign: Campaign, budget: int, threshold: float | None) -> None:
    """Draw an audit of the latest model and write its questions; a round is audited once."""
    from pairsieve.measure.audit import draw_audit, plan_audit
    from pairsieve.pairs import pair_rows

    ledger, part = campaign.ledger, campaign.split
    # The ledger numbers an audit by the last round asked before it, so that `asked(through)` stays true.
    number = max(ledger.rounds("train"))
    if number in ledger.rounds("audit"):
        say(
            f"Round {number} has been audited; these are its figures. Go on with the campaign to audit again."
        )
        return
    model = campaign.latest()
    scan, weight, bias = _opened(campaign, model)
    questions = ledger.questions()
    asked = _asked(campaign, scan, questions)
    at = _default_threshold(scan, weight, bias)
    plan = plan_audit(scan, budget, at if threshold is None else threshold, asked, (weight, bias), also=[at])
    if not plan.labels.any():
        raise InputError("every pair has been asked about", remedy="Audit with --budget 0")
    drawn = draw_audit(scan, plan, ledger.asked(), generator_for(campaign.settings.seed, number, "audit"))
    left, right = pair_rows(drawn.ids)
    ledger.ask(
        number,
        drawn.ids,
        [part.left.keys[row] for row in left.tolist()],
        [part.right.keys[row] for row in right.tolist()],
        "audit",  # not the stratum: who labels must not see how the pair scores
        f"{_STRATEGY}{model}",
        drawn.inclusion_probability,
        purpose="audit",
    )


def _estimate(
    campaign: Campaign, threshold: float | None, precision: float | None, fresh: bool
) -> tuple[int, AuditResult]:
    """(round of the audited model, figures): of the last audit's model, or of the latest where `fresh`."""
    from pairsieve.measure.audit import cut_ranking
    from pairsieve.measure.audit_estimate import estimate_audit, threshold_for_precision

    ledger = campaign.ledger
    questions = ledger.questions()
    audits = ledger.rounds("audit")
    if not audits:
        raise InputError("there is no audit yet", remedy=f"pairsieve audit {campaign.folder} --budget 300")
    last = (questions.rounds == audits[-1]) & (np.array(questions.purpose) == "audit")
    strategy = questions.strategy[int(np.flatnonzero(last)[0])]
    model = campaign.latest() if fresh else int(strategy.removeprefix(_STRATEGY))
    scan, weight, bias = _opened(campaign, model)
    asked = _asked(campaign, scan, questions)
    edges = [_default_threshold(scan, weight, bias)] + ([threshold] if threshold is not None else [])
    strata = cut_ranking(scan, edges, int(last.sum()))
    at = threshold_for_precision(strata, asked, precision) if precision is not None else edges[-1]
    rng = generator_for(campaign.settings.seed, audits[-1], "audit interval")
    return model, estimate_audit(strata, asked, at, rng)


def _opened(campaign: Campaign, model: int) -> tuple[Scan, float, float]:
    from pairsieve.scan import open_scan

    matcher, part = campaign.matcher(model), campaign.split
    left, right = campaign.embeddings(matcher, part, model)
    scan = open_scan(part.space, left, right, device=campaign.settings.device)
    return scan, float(matcher.weight), float(matcher.bias)


def _default_threshold(scan: Scan, weight: float, bias: float) -> float:
    """Where the head says one half, or the best score that a pair reaches, if none reaches that."""
    half = np.float32(np.clip(-bias / weight, -1.0, 1.0) if weight > 0 else 1.0)
    fine = np.union1d(np.linspace(-1.0, 1.0, 8193, dtype=np.float32), [half])
    reached = fine[scan.count_reaching(fine, "audit") > 0]
    return float(min(half, reached[-1])) if len(reached) else -1.0


def _asked(campaign: Campaign, scan: Scan, questions: Questions) -> Asked:
    """Everything the ledger holds, scored by the audited model."""
    from pairsieve.measure.audit import TRAIN, Asked

    labels = np.full(len(questions), -1, np.int8)
    order = np.argsort(questions.ids)
    for purpose in ("train", "audit"):
        ids, matches = campaign.ledger.labels(purpose)
        labels[order[np.searchsorted(questions.ids, ids, sorter=order)]] = matches
    audits = np.where(np.array(questions.purpose) == "audit", questions.rounds, TRAIN)
    return Asked(scan.scores(questions.ids), labels, audits, questions.inclusion_probability)

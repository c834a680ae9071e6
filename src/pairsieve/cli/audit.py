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
    from pairsieve.campaign.audits import AuditPlace
    from pairsieve.ledger import Questions
    from pairsieve.measure.audit import Asked
    from pairsieve.measure.audit_estimate import AuditResult
    from pairsieve.scan import Scan

USUAL_BUDGET = 300


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
    from pairsieve.campaign.audits import audit_place
    from pairsieve.campaign.figures import write_sealed

    campaign = Campaign(folder, cache)
    _check(campaign, threshold, precision)
    place = audit_place(campaign, split)
    _answer(place)
    while not len(place.ledger.open_questions(purpose="audit")) and _ask(campaign, place, budget, threshold):
        _answer(place)
    waiting = len(place.ledger.open_questions(purpose="audit"))
    head = {"campaign": str(folder), "split": place.name}
    if waiting:
        words = f"Waiting for {waiting:,} audit labels. Nothing is lost; run again when they are answered."
        if not place.own:
            words += f"\nGet them with: pairsieve ask {folder} --split {place.name} --out batch.csv"
        show({**head, "state": "waiting", "waiting": waiting}, as_json, words)
        return
    model, result = _estimate(campaign, place, threshold, precision, fresh=budget == 0)
    figures = {**head, "state": "audited", "waiting": 0, "round": model, **result.as_json()}
    kind = "audit" if place.own else f"audit-{place.name}"
    write_sealed(campaign.folder / "rounds" / f"{kind}-{model:03d}.json", figures)
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


def _check(campaign: Campaign, threshold: float | None, precision: float | None) -> None:
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


def _answer(place: AuditPlace) -> None:
    """Let the split's own sources answer what they can; people and files have their own doors."""
    for source in place.sources():
        waiting = place.ledger.open_questions(purpose="audit")
        if len(waiting):
            place.ledger.answer(source.answer(waiting), who=source.name, source=source.name)


def _ask(campaign: Campaign, place: AuditPlace, budget: int | None, threshold: float | None) -> int:
    """Draw what is still missing of an audit of the latest model, and write its questions: how many.

    The first draw of an audit is a look around; the next one lays out the rest of the budget.
    """
    from pairsieve.campaign.audits import Draw, draws_of
    from pairsieve.measure.audit import draw_audit, first_look, plan_audit
    from pairsieve.pairs import pair_rows

    ledger, part, model = place.ledger, place.part, campaign.latest()
    questions = ledger.questions()
    numbers, draws = draws_of(questions)
    mine = {number: draw for number, draw in draws.items() if draw.model == model}
    if budget is None:
        budget = max((draw.budget for draw in mine.values()), default=USUAL_BUDGET)
    missing = budget - int(np.isin(numbers, list(mine)).sum())
    if missing <= 0 or len(questions) >= part.space.size:
        return 0
    scan, weight, bias = _opened(campaign, place, model)
    asked = _asked(place, scan, questions)
    look = first_look(missing, int((numbers > 0).sum()))
    at = _default_threshold(scan, weight, bias)
    wanted = at if threshold is None else threshold
    plan = plan_audit(scan, look or missing, wanted, asked, (weight, bias), [at], budget, evenly=look > 0)
    # The ledger numbers an audit by the last round asked before it, so that `asked(through)` stays true.
    number = max(ledger.rounds("train"), default=model)
    rng = generator_for(campaign.settings.seed, number, f"audit of {model}, draw {len(mine) + 1}")
    drawn = draw_audit(scan, plan, ledger.asked(), rng)
    left, right = pair_rows(drawn.ids)
    ledger.ask(
        number,
        drawn.ids,
        [part.left.keys[row] for row in left.tolist()],
        [part.right.keys[row] for row in right.tolist()],
        "audit",  # not the stratum: who labels must not see how the pair scores
        str(Draw(model, budget, len(mine) + 1)),
        drawn.inclusion_probability,
        purpose="audit",
    )
    if look:
        say(f"A first look: {look:,} of {missing:,} labels, spread over all scores.")
    return len(drawn.ids)


def _estimate(
    campaign: Campaign, place: AuditPlace, threshold: float | None, precision: float | None, fresh: bool
) -> tuple[int, AuditResult]:
    """(round of the audited model, figures): of the last audit's model, or of the latest where `fresh`."""
    from pairsieve.campaign.audits import draws_of
    from pairsieve.measure.audit import cut_ranking
    from pairsieve.measure.audit_estimate import estimate_audit, threshold_for_precision

    questions = place.ledger.questions()
    numbers, draws = draws_of(questions)
    if not draws:
        raise InputError("there is no audit yet", remedy=f"pairsieve audit {campaign.folder} --budget 300")
    last = draws[max(draws)].model
    model = campaign.latest() if fresh else last
    scan, weight, bias = _opened(campaign, place, model)
    asked = _asked(place, scan, questions)
    edges = [_default_threshold(scan, weight, bias)] + ([threshold] if threshold is not None else [])
    mine = [number for number, draw in draws.items() if draw.model == last]
    strata = cut_ranking(scan, edges, int(np.isin(numbers, mine).sum()))
    at = threshold_for_precision(strata, asked, precision) if precision is not None else edges[-1]
    rng = generator_for(campaign.settings.seed, last, "audit interval")
    return model, estimate_audit(strata, asked, at, rng)


def _opened(campaign: Campaign, place: AuditPlace, model: int) -> tuple[Scan, float, float]:
    from pairsieve.scan import open_scan

    matcher, part = campaign.matcher(model), place.part
    left, right = campaign.embeddings(matcher, part, model)
    scan = open_scan(part.space, left, right, device=campaign.settings.device)
    return scan, float(matcher.weight), float(matcher.bias)


def _default_threshold(scan: Scan, weight: float, bias: float) -> float:
    """Where the head says one half, or the best score that a pair reaches, if none reaches that."""
    half = np.float32(np.clip(-bias / weight, -1.0, 1.0) if weight > 0 else 1.0)
    fine = np.union1d(np.linspace(-1.0, 1.0, 8193, dtype=np.float32), [half])
    reached = fine[scan.count_reaching(fine, "audit") > 0]
    return float(min(half, reached[-1])) if len(reached) else -1.0


def _asked(place: AuditPlace, scan: Scan, questions: Questions) -> Asked:
    """Everything the ledger holds, scored by the audited model."""
    from pairsieve.campaign.audits import draws_of
    from pairsieve.measure.audit import Asked

    labels = np.full(len(questions), -1, np.int8)
    order = np.argsort(questions.ids)
    for purpose in ("train", "audit"):
        ids, matches = place.ledger.labels(purpose)
        labels[order[np.searchsorted(questions.ids, ids, sorter=order)]] = matches
    numbers, _ = draws_of(questions)
    return Asked(scan.scores(questions.ids), labels, numbers, questions.inclusion_probability)

"""How good is a model where nobody knows the truth? An audit: draw, ask, and once answered, estimate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pairsieve.campaign.audits import AuditPlace, Draw, audit_place, draws_of
from pairsieve.campaign.figures import write_sealed
from pairsieve.contracts import generator_for
from pairsieve.errors import InputError
from pairsieve.pairs import pair_rows

if TYPE_CHECKING:
    from pairsieve.campaign.loop import Campaign
    from pairsieve.ledger import Questions
    from pairsieve.measure.audit import Asked
    from pairsieve.measure.audit_estimate import AuditResult
    from pairsieve.scan import Scan

USUAL_BUDGET = 300


def run_audit(
    campaign: Campaign,
    budget: int | None = None,
    threshold: float | None = None,
    precision: float | None = None,
    split: str | None = None,
    say: Callable[[str], None] = lambda words: None,
) -> dict[str, Any]:
    """Go on with an audit of the latest model: the figures, or `state` "waiting" while labels are missing.

    budget: labels for this model in all; None is 300, or as begun; 0 uses earlier audits only. The figures
    are at `threshold` (None: probability one half), or at the lowest with about `precision`.
    """
    _check(campaign, threshold, precision)
    place = audit_place(campaign, split)
    _answer(place)
    while not len(place.ledger.open_questions(purpose="audit")) and _ask(
        campaign, place, budget, threshold, say
    ):
        _answer(place)
    waiting = len(place.ledger.open_questions(purpose="audit"))
    head = {"campaign": str(campaign.folder), "split": place.name}
    if waiting:
        return {**head, "state": "waiting", "waiting": waiting}
    model, result = _estimate(campaign, place, threshold, precision, fresh=budget == 0)
    figures = {**head, "state": "audited", "waiting": 0, "round": model, **result.as_json()}
    kind = "audit" if place.own else f"audit-{place.name}"
    write_sealed(campaign.folder / "rounds" / f"{kind}-{model:03d}.json", figures)
    return figures


def _check(campaign: Campaign, threshold: float | None, precision: float | None) -> None:
    if threshold is not None and precision is not None:
        raise InputError("--threshold and --precision together", remedy="Give one of them")
    if precision is not None and not 0 < precision <= 1:
        raise InputError(f"--precision {precision:g}", remedy="Give a share above 0 and up to 1, such as 0.9")
    if threshold is not None and not -1 <= threshold <= 1:
        raise InputError(f"--threshold {threshold:g}", remedy="Scores are cosines: give one from -1 to 1")
    campaign.trained_round("to audit")


def _answer(place: AuditPlace) -> None:
    """Let the split's own sources answer what they can; people and files have their own doors."""
    for source in place.sources():
        waiting = place.ledger.open_questions(purpose="audit")
        if len(waiting):
            place.ledger.answer(source.answer(waiting), who=source.name, source=source.name)


def _ask(
    campaign: Campaign,
    place: AuditPlace,
    budget: int | None,
    threshold: float | None,
    say: Callable[[str], None],
) -> int:
    """Draw what is still missing of an audit of the latest model, and write its questions: how many.

    The first draw of an audit is a look around; the next one lays out the rest of the budget.
    """
    from pairsieve.measure.audit import draw_audit, first_look, plan_audit

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
    matcher, part = campaign.matcher(model), place.part
    scan = campaign.scan(part.space, *campaign.embeddings(matcher, part, model))
    return scan, float(matcher.weight), float(matcher.bias)


def _default_threshold(scan: Scan, weight: float, bias: float) -> float:
    """Where the head says one half, or the best score that a pair reaches, if none reaches that."""
    half = np.float32(np.clip(-bias / weight, -1.0, 1.0) if weight > 0 else 1.0)
    fine = np.union1d(np.linspace(-1.0, 1.0, 8193, dtype=np.float32), [half])
    reached = fine[scan.count_reaching(fine, "audit") > 0]
    return float(min(half, reached[-1])) if len(reached) else -1.0


def _asked(place: AuditPlace, scan: Scan, questions: Questions) -> Asked:
    """Everything the ledger holds, scored by the audited model."""
    from pairsieve.measure.audit import Asked

    labels = np.full(len(questions), -1, np.int8)
    order = np.argsort(questions.ids)
    for purpose in ("train", "audit"):
        ids, matches = place.ledger.labels(purpose)
        labels[order[np.searchsorted(questions.ids, ids, sorter=order)]] = matches
    numbers, _ = draws_of(questions)
    return Asked(scan.scores(questions.ids), labels, numbers, questions.inclusion_probability)

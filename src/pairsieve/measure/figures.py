"""What does one measurement come to? The figures as JSON prints them and as a person reads them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from pairsieve.contracts import Estimate
from pairsieve.errors import InputError
from pairsieve.measure.balanced import pair_measures, question_f1, rank_measures
from pairsieve.measure.curve import Curve, curve_from_scores
from pairsieve.measure.estimated import EstimatedMeasures
from pairsieve.measure.exact import measure_exactly
from pairsieve.pairs import Ids, PairSpace, Scores, is_member
from pairsieve.scan import Scan

RECALLS = (0.1, 0.2, 0.5)


def exact_figures(scan: Scan, positives: Ids, stated_negatives: Ids) -> tuple[dict[str, Any], Curve]:
    """Exact figures over all pairs, and beside them what the stated pairs alone would claim."""
    measures = measure_exactly(scan, positives)
    curve = measures.curve
    found = figures(
        curve,
        measures.pairs,
        "exact",
        Estimate.exact(curve.average_precision(), measures.pairs),
        {r: Estimate.exact(curve.precision_at_recall(r), measures.pairs) for r in RECALLS},
    )
    claims = balanced_figures(scan, positives, stated_negatives)
    return found | ({"balanced": claims} if claims else {}), curve


def balanced_figures(scan: Scan, positives: Ids, stated_negatives: Ids) -> dict[str, Any]:
    """What an evaluation on the stated pairs alone would claim; empty where no negatives are stated."""
    if len(stated_negatives) == 0:
        return {}
    mine, others = scan.scores(positives), scan.scores(stated_negatives)
    curve = curve_from_scores(mine, others)
    best = curve.best_f1()
    ids, scores = np.concatenate([positives, stated_negatives]), np.concatenate([mine, others])
    labels = np.arange(len(ids)) < len(mine)
    claims: dict[str, Any] = {
        "pairs": len(ids),
        "positives": len(mine),
        "average_precision": curve.average_precision(),
        "best_f1": best.as_json(),
        "accuracy": pair_measures(scores, labels, best.threshold).accuracy,  # at the best F1's threshold
    }
    if not scan.space.symmetric:  # the left asks: F1 of answering at that threshold, clean MAP and MRR
        claims["answer_triggering"] = question_f1(ids, scores, labels, best.threshold).as_json()
        with contextlib.suppress(InputError):  # no question has both a positive and a negative stated pair
            claims["by_question"] = rank_measures(ids, scores, labels).as_json()
    return claims


def listed_figures(
    space: PairSpace, ids: Ids, scores: Scores, positives: Ids
) -> tuple[dict[str, Any], Curve, int]:
    """Exact figures of a list of scored pairs, and the positives in it; unlisted pairs rank last, tied.

    The threshold of the best F1 is -inf where it is reached only with every pair.
    """
    positive = is_member(ids, positives)
    found = int(positive.sum())
    lost, unlisted = len(positives) - found, space.size - len(ids)
    mine = np.concatenate([scores[positive], np.full(lost, -np.inf, np.float32)])
    others = np.append(scores[~positive], np.float32(-np.inf))
    weights = np.append(np.ones(len(others) - 1), float(unlisted - lost))
    curve = curve_from_scores(mine, others, negative_weights=weights)
    made = figures(
        curve,
        space.size,
        "exact, unlisted pairs last" if unlisted else "exact",
        Estimate.exact(curve.average_precision(), space.size),
        {r: Estimate.exact(curve.precision_at_recall(r), space.size) for r in RECALLS},
    )
    return made, curve, found


def estimated_figures(measures: EstimatedMeasures, scored: int) -> dict[str, Any]:
    """Figures from a sample of `scored` pairs, each with its interval."""
    made = figures(
        measures.curve,
        measures.pairs,
        "estimated",
        measures.average_precision,
        measures.precision_at_recall,
    )
    best = measures.best_f1.as_json() | {"threshold": measures.best_f1_threshold}
    return made | {"best_f1": best, "scored_pairs": scored}


def figures(
    curve: Curve, pairs: int, method: str, ap: Estimate, precisions: Mapping[float, Estimate]
) -> dict[str, Any]:
    """The figures of one evaluation, as `--json` prints them."""
    return {
        "pairs": pairs,
        "positives": int(curve.positives),
        "method": method,
        "average_precision": ap.as_json(),
        "precision_at_recall": {f"{r:g}": p.as_json() for r, p in precisions.items()},
        "best_f1": curve.best_f1().as_json(),
    }


def digits(value: float) -> str:
    """Four decimals; small figures keep two digits instead of turning into zero."""
    return f"{value:.4f}" if value >= 0.001 or value == 0 else f"{value:.1e}"


def figures_table(answer: Mapping[str, Any]) -> str:
    """The same figures for a person; `answer` also holds `task` and `split`."""
    sampled = answer["method"] == "estimated"

    def number(estimate: Mapping[str, Any]) -> str:
        interval = f"   [{digits(estimate['low'])}, {digits(estimate['high'])}]" if sampled else ""
        return f"{digits(estimate['value'])}{interval}"

    head = (
        f"{answer['task']}, split {answer['split']}: {answer['pairs']:,} pairs, "
        f"{answer['positives']:,} positive (one in {answer['pairs'] / answer['positives']:,.0f}); "
        f"{answer['method']}"
    )
    best = answer["best_f1"]
    lines = [head, "", f"  average precision        {number(answer['average_precision'])}"]
    for recall, estimate in answer["precision_at_recall"].items():
        lines.append(f"  precision at recall {recall:<4} {number(estimate)}")
    at = "with every pair" if best["threshold"] is None else f"at score {best['threshold']:.4f}"
    if "precision" in best:
        at += f": precision {digits(best['precision'])}, recall {digits(best['recall'])}"
    lines.append(f"  best F1                  {number(best)}   {at}")
    if "corrected_precision" in answer:
        fixed = answer["corrected_precision"]
        interval = f"[{digits(fixed['low'])}, {digits(fixed['high'])}]"
        lines.append(
            f"  corrected precision      {digits(fixed['value'])}   {interval} "
            f"at recall {fixed['recall']:g}, after {fixed['n']} manual labels"
        )
    if "balanced" in answer:
        claims = answer["balanced"]
        lines.append(
            f"\n  On its {claims['pairs']:,} stated pairs alone the same scores would claim: "
            f"average precision {claims['average_precision']:.4f}, best F1 {claims['best_f1']['value']:.4f}, "
            f"accuracy {claims['accuracy']:.4f}."
        )
        if "by_question" in claims:
            ranks, answers = claims["by_question"], claims["answer_triggering"]
            lines.append(
                f"  By question: clean MAP {ranks['mean_average_precision']:.4f}, MRR "
                f"{ranks['mean_reciprocal_rank']:.4f} ({ranks['questions']:,} questions), "
                f"F1 of answering {answers['f1']:.4f}."
            )
    return "\n".join(lines)

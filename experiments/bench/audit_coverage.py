"""Coverage, width and bias of figures from labels drawn with known chances, on spaces of known truth.

    python -m experiments.bench.audit_coverage [--repeats 200] [--labels 30 90 300 1000] [--regimes good ...]
        [--out FILE.json] [--seed 0]

Simulates rankings of 200,000 pairs in regimes that are hard in different ways. Each repeat draws labels in
two draws (with --adaptive the second is planned with the answers to the first), answers them by the truth (or
now and then wrongly), estimates, and compares with the exact figures. Printed for every figure: its truth,
the mean of the values, how many standard errors that is off (z), the share of repeats in which the 95 %
limits hold the truth, and their mean width. Repeats in which a figure was undefined are not counted in its
coverage; their share is printed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.audit.draws import (
    AskedPairs,
    Strata,
    allocate,
    reach_rank,
    strata_from_counts,
    stratum_counts,
    whole_labels,
)
from pairsieve.audit.errors import AnswerErrors
from pairsieve.audit.estimate import AuditResult, estimate
from pairsieve.contracts import Estimate
from pairsieve.progress import tracked

PAIRS, MATCHES, LISTED = 200_000, 140, 150
DRAWS = 400  # behind an interval; the product takes 2000
WRONG = 0.05
TWICE = 200  # pairs answered by two people, of those asked


@dataclass(frozen=True)
class Case:
    """A ranking, best pair first: which pairs match, which were known before, and where lists end."""

    name: str
    match: NDArray[np.bool_]  # (pairs,) by rank
    known: NDArray[np.int64]  # places that are known, sorted
    listed: int  # pairs at or above the threshold
    wrong: float = 0.0  # share of wrong answers about non-matches
    missed: float | None = None  # and about matches; None: the same
    second: float = 1.0  # how often a second person errs, for each time that the first one does
    adaptive: bool = False  # the second draw is planned with the answers to the first
    errors: str = ""  # "", "known" or "estimated": what the estimate is told of that
    shared: NDArray[np.float32] | None = None  # (pairs,) falling scores, where pairs share them

    @property
    def scores(self) -> NDArray[np.float32]:
        if self.shared is not None:
            return self.shared
        return np.linspace(1.0, -1.0, len(self.match) + 1, dtype=np.float32)[:-1]


def falling(slope: float, rng: np.random.Generator, matches: int = MATCHES, middle: float = 100.0) -> Any:
    """Ranks of matches whose rate falls like 1 / (1 + (rank / middle)^slope)."""
    rank = np.arange(1, PAIRS + 1)
    rate = 1.0 / (1.0 + (rank / middle) ** slope)
    chosen = rng.choice(PAIRS, matches, replace=False, p=rate / rate.sum())
    return np.isin(np.arange(PAIRS), chosen)


def cases(seed: int) -> dict[str, Callable[[], Case]]:
    """The regimes, each made on demand."""
    rng = np.random.default_rng(seed)
    best = np.arange(0, 400, 2)  # every other of the best-ranked pairs was bought before
    nothing = np.empty(0, np.int64)

    def case(name: str, match: Any, known: Any = nothing, **more: Any) -> Case:
        return Case(name, match, known, LISTED, **more)

    def invisible() -> NDArray[np.bool_]:
        match = falling(4.0, rng, MATCHES // 2, 60.0)
        match[rng.choice(PAIRS, MATCHES // 2, replace=False)] = True
        return np.asarray(match, bool)

    def one() -> NDArray[np.bool_]:
        return np.asarray(np.arange(PAIRS) == 15)

    def three_values() -> Case:
        counts = [40, 1000, PAIRS // 10 - 1040]
        match = rng.random(PAIRS // 10) < np.repeat([0.95, 0.2, 0.0005], counts)
        return Case(
            "three values",
            match,
            nothing,
            40,
            shared=np.repeat(np.array([0.9, 0.5, -0.5], np.float32), counts),
        )

    def values_41() -> Case:
        rank = np.arange(1, PAIRS // 10 + 1)
        shared = (np.round(np.linspace(20.0, -20.0, len(rank))) / 20).astype(np.float32)
        match = rng.random(len(rank)) < 1.0 / (1.0 + (rank / 150.0) ** 4)
        return Case("41 values", match, nothing, int((shared == 1.0).sum()), shared=shared)

    small = falling(4.0, rng)[:600]
    return {
        "good": lambda: case("good", falling(4.0, rng)),
        "good, 200 known": lambda: case("good, 200 known", falling(4.0, rng), best),
        "weak": lambda: case("weak", falling(1.0, rng, middle=12.0)),
        "random": lambda: case("random", falling(0.0, rng)),
        "half invisible": lambda: case("half invisible", invisible()),
        "one match": lambda: case("one match", one()),
        "no match": lambda: case("no match", np.zeros(PAIRS, bool)),
        "all labelled": lambda: Case("all labelled", small, np.arange(600), LISTED),
        "three values": three_values,
        "41 values": values_41,
        "1 in 20 wrong, as given": lambda: case(
            "1 in 20 wrong, as given", falling(4.0, rng), best, wrong=WRONG
        ),
        "1 in 20 wrong, known": lambda: case(
            "1 in 20 wrong, known", falling(4.0, rng), best, wrong=WRONG, errors="known"
        ),
        "1 in 20 wrong, estimated": lambda: case(
            "1 in 20 wrong, estimated", falling(4.0, rng), best, wrong=WRONG, errors="estimated"
        ),
        "one annotator wrong": lambda: case(
            "one annotator wrong", falling(4.0, rng), best, wrong=0.15, second=0.0, errors="estimated"
        ),
        "only non-matches wrong": lambda: case(
            "only non-matches wrong", falling(4.0, rng), best, wrong=0.1, missed=0.0, errors="estimated"
        ),
        "only matches wrong": lambda: case(
            "only matches wrong", falling(4.0, rng), best, missed=0.15, errors="estimated"
        ),
    }


def truth(case: Case, reach: int, taken: Any) -> dict[str, float]:
    """Exact figures; nan where undefined."""
    place = np.flatnonzero(case.match)
    within = place[place < reach]

    last = np.searchsorted(-case.scores, -case.scores, side="right")  # pairs that reach each score

    def ap(places: Any) -> float:
        if not len(places):
            return float("nan")
        ends = last[places]
        return float(np.mean(np.searchsorted(ends, ends, side="right") / ends))

    listed = float((place < case.listed).sum())
    unknown = np.setdiff1d(place, taken)
    return {
        "precision": listed / case.listed,
        "positives": float(len(place)),
        "left": float(len(unknown)),
        "recall": listed / len(place) if len(place) else np.nan,
        "AP": ap(place),
        "positives in reach": float(len(within)),
        "left in reach": float((unknown < reach).sum()),
        "recall in reach": listed / len(within) if len(within) else np.nan,
        "AP in reach": ap(within),
    }


def figures_of(found: AuditResult) -> dict[str, Any]:
    over = found.over_all
    return {
        "precision": found.precision,
        "positives": over.positives,
        "left": over.left,
        "recall": over.recall,
        "AP": over.average_precision,
        "positives in reach": found.positives,
        "left in reach": found.left,
        "recall in reach": found.recall,
        "AP in reach": found.average_precision,
    }


def draw(
    case: Case,
    given: NDArray[np.bool_],
    strata: Strata,
    reach: float,
    asked: AskedPairs,
    taken: Any,
    labels: int,
    number: int,
    rng: np.random.Generator,
) -> tuple[AskedPairs, Any]:
    """One phase: planned with what is known, drawn, answered."""
    rates = stratum_counts(strata, asked).rate if number > 1 and case.adaptive else None
    expected = allocate(strata, asked, labels, reach, rates)
    wanted, scores = whole_labels(expected, rng), case.scores
    ends = np.cumsum(strata.totals)
    free = strata.totals - strata.count(asked.scores).astype(np.int64)
    pieces = []
    for k, count in enumerate(wanted):
        if count:
            places = np.setdiff1d(np.arange(ends[k] - strata.totals[k], ends[k]), taken, assume_unique=True)
            pieces.append(rng.choice(places, count, replace=False))
    drawn = np.concatenate([np.empty(0, np.int64), *pieces])
    chance = (expected / np.maximum(free, 1))[strata.of(scores[drawn])]
    return asked.then(scores[drawn], given[drawn], number, chance), np.union1d(taken, drawn)


def estimated_once(case: Case, labels: int, rng: np.random.Generator) -> tuple[AuditResult, dict[str, float]]:
    """One repeat: the estimate, and the figures of the answers it was given or of the truth."""
    scores = case.scores
    rates = np.where(case.match, case.wrong if case.missed is None else case.missed, case.wrong)
    given = case.match ^ (rng.random(len(case.match)) < rates)
    asked = AskedPairs.nothing().then(scores[case.known], given[case.known], 0, np.ones(len(case.known)))
    fine = np.unique(scores)
    reaching = np.searchsorted(-scores, -fine, side="right")
    at = scores[case.listed - 1 : case.listed]
    strata, reach = strata_from_counts(
        fine, reaching, len(scores), at, labels, reach_rank(case.listed, labels)
    )
    taken, third = case.known, labels // 3
    for number, count in ((1, third), (2, labels - third)):
        if len(taken) < len(scores):
            asked, taken = draw(case, given, strata, reach, asked, taken, count, number, rng)
    ahead, ranks = (
        np.searchsorted(-scores, -asked.scores, side).astype(np.float64) for side in ("left", "right")
    )
    errors = None
    if case.errors == "known":
        errors = AnswerErrors(case.wrong)
    elif case.errors == "estimated":
        twice = rng.choice(taken, min(TWICE, len(taken)), replace=False)
        again = case.match[twice] ^ (rng.random(len(twice)) < case.second * rates[twice])
        matches, others = int((given[twice] & again).sum()), int((~given[twice] & ~again).sum())
        errors = AnswerErrors.from_pairs(len(twice) - matches - others, matches, others)
    options: dict[str, Any] = {
        "reach": reach,
        "ranks": ranks,
        "ahead": ahead,
        "errors": errors,
        "draws": DRAWS,
    }
    found = estimate(strata, asked, float(at[0]), rng, **options)
    inside = int(np.searchsorted(-scores, -np.float32(reach), side="right")) if reach >= -1 else len(scores)
    of = replace(case, match=case.match if errors else given)
    return found, truth(of, inside, taken)


def study(case: Case, labels: int, repeats: int, seed: int) -> dict[str, Any]:
    """Coverage, width and bias of every figure over `repeats`."""
    rng = np.random.default_rng(seed)
    made = (
        (figures_of(found), exact)
        for found, exact in (estimated_once(case, labels, rng) for _ in range(repeats))
    )
    return {"regime": case.name, "labels": labels, "repeats": repeats, "figures": summary(made)}


def summary(made_by_repeat: Iterable[tuple[dict[str, Any], dict[str, float]]]) -> dict[str, Any]:
    """Of repeats, each the figures estimated and the exact ones: mean, bias, coverage and width."""
    rows: dict[str, list[tuple[float, float, float, float]]] = {}
    for figures, exact in made_by_repeat:
        for name, figure in figures.items():
            ends = (np.nan,) * 3
            if figure is not None:
                value = figure.value if isinstance(figure, Estimate) else np.nan
                ends = (value, figure.low, figure.high)
            rows.setdefault(name, []).append((exact[name], *ends))
    made: dict[str, Any] = {}
    for name, values in rows.items():
        exact_, value, low, high = np.array(values).T
        printed = ~np.isnan(low)
        off = (value - exact_)[~np.isnan(value - exact_)]
        error = off.std(ddof=1) / np.sqrt(len(off)) if len(off) > 1 else 0.0
        covered = ((low <= exact_ + 1e-9) & (exact_ <= high + 1e-9))[printed & ~np.isnan(exact_)]
        made[name] = {
            "truth": _mean(exact_),
            "mean": _mean(value),
            "z": float(off.mean() / error)
            if error > 1e-9  # less is rounding
            else (0.0 if not len(off) or abs(off.mean()) < 1e-9 else np.inf),
            "coverage": float(covered.mean()) if len(covered) else None,
            "width": _mean(high - low),
            "undefined": float(1.0 - printed.mean()),
        }
    return made


def _mean(values: Any) -> float | None:
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else None


def table(found: dict[str, Any]) -> str:
    """One row a figure."""

    def cell(value: float | None, form: str) -> str:
        return (
            format(value, form)
            if value is not None
            else format("-", ">" + form[: form.index(".")].strip("+"))
        )

    return "\n".join(
        f"{found['regime']:26}{found['labels']:7,}  {name:19}{cell(row['truth'], '11.4g')}"
        f"{cell(row['mean'], '11.4g')}{row['z']:7.1f}{cell(row['coverage'], '9.3f')}"
        f"{cell(row['width'], '11.4g')}{row['undefined']:9.2f}"
        for name, row in found["figures"].items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--labels", type=int, nargs="*", default=[30, 90, 300, 1000])
    parser.add_argument(
        "--adaptive", action="store_true", help="plan the second draw with the first's answers"
    )
    parser.add_argument("--regimes", nargs="*", default=None)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    regimes, results = cases(asked.seed), []
    print(
        f"{'regime':26}{'labels':>7}  {'figure':19}{'truth':>11}{'mean':>11}{'z':>7}{'covered':>9}"
        f"{'width':>11}{'undef.':>9}"
    )
    for name in asked.regimes or regimes:
        case = replace(regimes[name](), adaptive=asked.adaptive)
        for labels in tracked(asked.labels, name):
            results.append(study(case, labels, asked.repeats, asked.seed))
            print(table(results[-1]), flush=True)
            if asked.out:
                asked.out.write_text(json.dumps(results, indent=1) + "\n")
            if case.name == "all labelled":
                break


if __name__ == "__main__":
    main()

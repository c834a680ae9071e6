"""Do an audit's 95 % intervals cover, and how narrow are they? Simulated audits of spaces with known truth.

    python bench/audit_coverage.py [--repeats 500] [--budget 300] [--wikiqa EMBEDDINGS.npz]

Each repeat draws an audit, labels it by the truth, estimates, and compares with the exact figures.
"uniform": the same number of labels drawn uniformly from the same pairs, once with the same estimator
("same") and, for the number of positives, with the plain exact binomial interval. The made task is a
collection of clusters; WikiQA is read from an .npz with left_train, right and pos_train.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import Estimate
from pairsieve.measure.audit import Asked, AuditPlan, plan_audit
from pairsieve.measure.audit_estimate import AuditResult, estimate_audit
from pairsieve.measure.exact import measure_exactly
from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, Scores, is_member
from pairsieve.scan import Scan, open_scan, unit_rows

FIGURES = ("precision", "recall", "average_precision", "positives")


class Remembered:
    """A scan that makes a pass over all pairs once and then answers from memory."""

    def __init__(self, scan: Scan) -> None:
        self.scan, self.space, self.device = scan, scan.space, scan.device
        self._collected: dict[tuple[float, float], list[tuple[Ids, Scores]]] = {}

    def scores(self, ids: Ids) -> Scores:
        return self.scan.scores(ids)

    def count_reaching(self, thresholds: NDArray[np.float32], words: str = "") -> NDArray[np.int64]:
        return self.scan.count_reaching(thresholds, words)

    def collect(self, low: float, high: float, take: Callable[[Ids, Scores], None], words: str = "") -> None:
        if (low, high) not in self._collected:
            pieces: list[tuple[Ids, Scores]] = []
            self.scan.collect(low, high, lambda i, s: pieces.append((i, s)), words)
            self._collected[low, high] = pieces
        for ids, scores in self._collected[low, high]:
            take(ids, scores)

    def neighbours(self, count: int, rows: Any = None, words: str = "") -> Any:
        return self.scan.neighbours(count, rows, words)


@dataclass(frozen=True)
class Case:
    """A space with its truth, and what a campaign knows of it before the audit."""

    name: str
    scan: Scan
    positives: Ids
    threshold: float
    known: Ids  # sorted
    head: tuple[float, float] | None = None

    @cached_property
    def positive_scores(self) -> Scores:
        return self.scan.scores(self.positives)

    def asked(self) -> Asked:
        scores = self.scan.scores(self.known)
        labels = is_member(self.known, self.positives)
        return Asked.nothing().then(scores, labels, 0, np.ones(len(scores)))

    def truth(self) -> dict[str, float]:
        found = measure_exactly(self.scan, self.positives).curve
        mine = self.scan.scores(self.positives)
        hits = int((mine >= np.float32(self.threshold)).sum())
        above = int(self.scan.count_reaching(np.array([self.threshold], np.float32))[0])
        return {
            "precision": hits / above,
            "recall": hits / len(mine),
            "average_precision": found.average_precision(),
            "positives": float(len(mine)),
        }


def made_case(texts: int = 4000, seed: int = 0, known: int = 0, noise: float = 0.8) -> Case:
    """Clusters of about two texts around random centres, all under a few topics that crowd the ranking."""
    rng = np.random.default_rng(seed)
    dim, member = 24, rng.integers(texts // 2, size=texts)
    topics = rng.normal(size=(12, dim))
    centres = topics[rng.integers(12, size=texts // 2)] + 1.2 * rng.normal(size=(texts // 2, dim))
    rows = unit_rows(centres[member] + noise * rng.normal(size=(texts, dim)))
    space = AllPairs(texts)
    left, right = np.nonzero(np.triu(member[:, None] == member[None, :], 1))
    return ready("made", space, rows, None, space.ids(left, right), known)


def wikiqa_case(path: Path, known: int = 0) -> Case:
    """WikiQA's training split under embeddings that someone made."""
    held = np.load(path)
    space = CrossPairs(len(held["left_train"]), len(held["right"]))
    positives = np.unique(space.ids(*held["pos_train"].T))
    return ready("WikiQA train", space, held["left_train"], held["right"], positives, known)


def ready(name: str, space: PairSpace, left: Any, right: Any, positives: Ids, known: int) -> Case:
    """A case whose `known` best-ranked pairs were bought before the audit.

    The threshold is passed by as many pairs as match, or by twice as many as are known.
    """
    scan = Remembered(open_scan(space, left, right, device="cpu"))
    positives = np.unique(positives)
    fine = np.linspace(-1, 1, 20001, dtype=np.float32)
    reach = scan.count_reaching(fine)
    threshold = float(fine[np.flatnonzero(reach >= max(len(positives), 2 * known))[-1]])
    best = np.empty(0, np.int64)
    if known:
        cut = float(fine[np.flatnonzero(reach >= known)[-1]])
        pieces: list[Ids] = []
        scan.collect(cut, 2.0, lambda i, s: pieces.append(i))
        best = np.sort(np.concatenate(pieces))
    return Case(f"{name}, {len(best):,} known", scan, positives, threshold, best)


def audit_once(case: Case, plan: AuditPlan, asked: Asked, rng: np.random.Generator) -> AuditResult:
    """One audit. Only counts by stratum enter an estimate, so counts are drawn, which a thousand repeats
    can afford; that real draws follow them is tested in tests/test_audit.py."""
    strata = plan.strata
    matches = strata.count(case.positive_scores) - strata.count(asked.scores, asked.labels)
    hits = rng.hypergeometric(matches.astype(int), plan.free - matches.astype(int), plan.labels)
    stratum = np.repeat(np.arange(len(strata)), plan.labels)
    labels = np.concatenate([np.arange(n) < x for n, x in zip(plan.labels, hits)])
    chance = plan.labels / np.maximum(plan.free, 1)
    after = asked.then(strata.edges[stratum], labels, 1, chance[stratum])
    return estimate_audit(strata, after, case.threshold, rng)


def uniform_once(case: Case, plan: AuditPlan, asked: Asked, rng: np.random.Generator) -> AuditResult:
    """The same number of labels, drawn uniformly from the same pairs, and the same estimator."""
    count = int(plan.labels.sum())
    ids = case.scan.space.sample(count, rng, outside=case.known)
    chance = np.full(count, count / (case.scan.space.size - len(case.known)))
    after = asked.then(case.scan.scores(ids), is_member(ids, case.positives), 1, chance)
    return estimate_audit(plan.strata, after, case.threshold, rng)


def plain_uniform_width(case: Case, budget: int, rng: np.random.Generator, repeats: int) -> float:
    """Mean width of the exact binomial interval for the number of positives from uniform labels."""
    from scipy.stats import beta

    pairs = case.scan.space.size - len(case.known)
    matches = len(case.positives) - int(is_member(case.known, case.positives).sum())
    hits = rng.hypergeometric(matches, pairs - matches, budget, size=repeats)
    low = np.where(hits > 0, beta.ppf(0.025, np.maximum(hits, 1e-9), budget - hits + 1), 0.0)
    return float(np.mean(beta.ppf(0.975, hits + 1, budget - hits) - low) * pairs)


def study(case: Case, budget: int, repeats: int, seed: int, uniform: int = 50) -> dict[str, Any]:
    """Coverage and widths of `repeats` audits, beside `uniform` audits with uniform labels."""
    rng = np.random.default_rng(seed)
    truth, asked = case.truth(), case.asked()
    plan = plan_audit(case.scan, budget, case.threshold, asked, case.head)
    mine = [audit_once(case, plan, asked, rng) for _ in range(repeats)]
    theirs = [uniform_once(case, plan, asked, rng) for _ in range(uniform)]
    rows: dict[str, Any] = {}
    for name in FIGURES:
        made: list[Estimate] = [getattr(result, name) for result in mine]
        other: list[Estimate] = [getattr(result, name) for result in theirs]
        rows[name] = {
            "truth": truth[name],
            "mean": float(np.mean([e.value for e in made])),
            "coverage": float(np.mean([e.low <= truth[name] <= e.high for e in made])),
            "misses_low": int(sum(e.high < truth[name] for e in made)),
            "misses_high": int(sum(e.low > truth[name] for e in made)),
            "width": float(np.mean([e.high - e.low for e in made])),
            "uniform_coverage": float(np.mean([e.low <= truth[name] <= e.high for e in other]))
            if other
            else None,
            "uniform_width": float(np.mean([e.high - e.low for e in other])) if other else None,
        }
    rows["positives"]["plain_uniform_width"] = plain_uniform_width(case, budget, rng, 2000)
    return {"case": case.name, "pairs": case.scan.space.size, "budget": budget, "figures": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--budget", type=int, default=300)
    parser.add_argument("--texts", type=int, default=4000, help="of the made task")
    parser.add_argument("--known", type=int, nargs="*", default=[0, 2048], help="best pairs bought before")
    parser.add_argument("--wikiqa", type=Path, help=".npz: left_train, right, pos_train")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    titles = ("exact", "mean", "covered", "width", "uniform", "covered", "ratio", "plain", "ratio")
    if not asked.json:
        print(f"{'':26}{'figure':>18}" + "".join(f"{title:>10}" for title in titles))
    for known in asked.known:
        cases = [made_case(asked.texts, known=known)]
        cases += [wikiqa_case(asked.wikiqa, known)] if asked.wikiqa else []
        for case in cases:
            found = study(case, asked.budget, asked.repeats, asked.seed)
            print(json.dumps(found) if asked.json else table(found), flush=True)


def table(found: dict[str, Any]) -> str:
    """One row a figure."""
    lines = []
    for name, row in found["figures"].items():
        width = max(row["width"], 1e-9)
        plain = row.get("plain_uniform_width")
        lines.append(
            f"{found['case']:26}{name:>18}{row['truth']:10.4g}{row['mean']:10.4g}{row['coverage']:10.1%}"
            f"{row['width']:10.4g}{row['uniform_width']:10.4g}{row['uniform_coverage']:10.0%}"
            f"{row['uniform_width'] / width:10.1f}" + (f"{plain:10.4g}{plain / width:10.1f}" if plain else "")
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()

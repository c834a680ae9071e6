"""Coverage and width of an audit's 95 % intervals, by simulated audits of spaces with known truth.

    python -m experiments.bench.audit_coverage [--repeats 500] [--budget 300] [--known 0 2048] [--texts 4000]
        [--seed 0]
    python -m experiments.bench.audit_coverage --task TASK [--split test] [--cache FOLDER] [--known 0 2048]
    python -m experiments.bench.audit_coverage --campaign DIR [--split test]

The first is a synthetic task, a collection of clusters; the second any task with its truth under the frozen
encoder, whose `--known` best-ranked pairs were bought before; the third the latest model of a campaign, with
the labels that it was trained on known (none, on another split). Each repeat draws an audit, labels it by
the truth, estimates, and compares with the exact figures.

"uniform": the same number of labels drawn uniformly from the same pairs, under the same estimator. That
interval is not an honest one: where no uniform label meets a match it repeats the estimator's assumption,
so look at how often it covers. "plain", for the number of positives, is the exact binomial interval
of the uniform labels, which covers whatever the truth.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.bench.advice import rows_of
from pairsieve.audit.draws import AskedPairs, LogOdds, Strata, pilot_size, plan_in, strata_from_counts
from pairsieve.audit.estimate import AuditResult, estimate_audit
from pairsieve.campaign import Campaign
from pairsieve.contracts import Estimate
from pairsieve.measure.exact import measure_exactly
from pairsieve.pairs import AllPairs, Ids, PairSpace, Scores, is_member
from pairsieve.progress import tracked
from pairsieve.scan import Scan, open_scan, unit_rows
from pairsieve.tasks import load_task

DRAWS = 1000  # of the rates in an interval; the product takes 2000
FIGURES = ("precision", "recall", "average_precision", "positives")


@dataclass(frozen=True)
class Case:
    """A space with its truth, and what a campaign knows of it before the audit."""

    name: str
    scan: Scan
    positives: Ids
    threshold: float
    known: Ids  # sorted
    log_odds: LogOdds | None = None

    @cached_property
    def positive_scores(self) -> Scores:
        return self.scan.scores(self.positives)

    @cached_property
    def reaching(self) -> NDArray[np.int64]:
        """How many pairs reach each of `thresholds(case)`: the one pass over all pairs."""
        return self.scan.count_reaching(thresholds(self.threshold))

    def asked(self) -> AskedPairs:
        scores = self.scan.scores(self.known)
        labels = is_member(self.known, self.positives)
        return AskedPairs.nothing().then(scores, labels, 0, np.ones(len(scores)))

    def truth(self) -> dict[str, float]:
        found = measure_exactly(self.scan, self.positives).curve
        scores = self.scan.scores(self.positives)
        hits = int((scores >= np.float32(self.threshold)).sum())
        above = int(self.scan.count_reaching(np.array([self.threshold], np.float32))[0])
        return {
            "precision": hits / above,
            "recall": hits / len(scores),
            "average_precision": found.average_precision(),
            "positives": float(len(scores)),
        }


def thresholds(*also: float) -> Scores:
    return np.union1d(np.linspace(-1, 1, 20001, dtype=np.float32), np.array(also, np.float32))


def strata_of(case: Case, budget: int) -> Strata:
    at = np.array([case.threshold], np.float32)
    return strata_from_counts(thresholds(case.threshold), case.reaching, case.scan.space.size, at, budget)


def synthetic_case(texts: int = 4000, seed: int = 0, known: int = 0, noise: float = 0.8) -> Case:
    """Clusters of about two texts around random centres, all under a few topics that crowd the ranking."""
    rng = np.random.default_rng(seed)
    dim, member = 24, rng.integers(texts // 2, size=texts)
    topics = rng.normal(size=(12, dim))
    centres = topics[rng.integers(12, size=texts // 2)] + 1.2 * rng.normal(size=(texts // 2, dim))
    rows = unit_rows(centres[member] + noise * rng.normal(size=(texts, dim)))
    space = AllPairs(texts)
    left, right = np.nonzero(np.triu(member[:, None] == member[None, :], 1))
    return ready("synthetic", space, rows, None, space.ids(left, right), known)


def task_case(task: Path, split: str, encoder: str, cache: Path, known: int = 0) -> Case:
    """A split of a task under the frozen encoder."""
    part = load_task(task).splits[split]
    left = rows_of(part.left, encoder, "left", cache)
    right = None if part.space.symmetric else rows_of(part.right, encoder, "right", cache)
    return ready(f"{task.name} {split}", part.space, left, right, part.positives, known)


def campaign_case(folder: Path, split: str | None, cache: Path | None) -> Case:
    """The latest model of a campaign; what it was trained on is known, on its own split."""
    held = Campaign(folder, cache)
    number = held.latest()
    name = split or held.settings.split
    part = held.task.splits[name]
    scored = held.score(part, number)
    known = held.ledger.labels()[0] if name == held.settings.split else np.empty(0, np.int64)
    title = f"{folder.name} {name}, round {number}, {len(known):,} known"
    scorer, positives = scored.scorer, np.unique(part.positives)
    return Case(title, scored.scan, positives, scorer.even_odds, known, scorer.log_odds)


def ready(name: str, space: PairSpace, left: Any, right: Any, positives: Ids, known: int) -> Case:
    """A case whose `known` best-ranked pairs were bought before the audit.

    The threshold is passed by as many pairs as match, or by twice as many as are known.
    """
    scan = open_scan(space, left, right, device="cpu")
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


def labelled(
    case: Case, strata: Strata, asked: AskedPairs, labels: Any, rng: np.random.Generator
) -> AskedPairs:
    """`labels` (k,) pairs of each stratum drawn and labelled by the truth. Only counts by stratum enter an
    estimate, so counts are drawn, which a thousand repeats can afford; that real draws follow them is
    tested in tests/unit/test_audit.py."""
    free = strata.totals - strata.count(asked.scores).astype(np.int64)
    matches = (strata.count(case.positive_scores) - strata.count(asked.scores, asked.labels)).astype(int)
    hits = rng.hypergeometric(matches, free - matches, labels)
    stratum = np.repeat(np.arange(len(strata)), labels)
    answers = np.concatenate([np.arange(n) < x for n, x in zip(labels, hits)])
    chance = (labels / np.maximum(free, 1))[stratum]
    number = int(asked.audit.max(initial=0)) + 1
    return asked.then(strata.edges[stratum], answers, number, chance)


def audited(
    case: Case, asked: AskedPairs, draws: Sequence[tuple[int, bool]], rng: np.random.Generator
) -> AskedPairs:
    """After draws of (labels, evenly or not), each planned with what the ones before found."""
    strata = strata_of(case, sum(count for count, _ in draws))
    for count, evenly in draws:
        plan = plan_in(strata, count, case.threshold, asked, case.log_odds, evenly)
        asked = labelled(case, strata, asked, plan.labels, rng)
    return asked


def audit_once(case: Case, asked: AskedPairs, budget: int, rng: np.random.Generator) -> AuditResult:
    """An audit as `pairsieve audit` does it: a pilot sample, and then the rest."""
    pilot = pilot_size(budget, 0)
    draws = [(pilot, True), (budget - pilot, False)] if pilot else [(budget, False)]
    after = audited(case, asked, draws, rng)
    return estimate_audit(strata_of(case, budget), after, case.threshold, rng, draws=DRAWS)


def uniform_once(case: Case, asked: AskedPairs, budget: int, rng: np.random.Generator) -> AuditResult:
    """The same number of labels, drawn uniformly from the same pairs, and the same estimator."""
    strata = strata_of(case, budget)
    free = strata.totals - strata.count(asked.scores).astype(np.int64)
    labels = rng.multinomial(budget, free / free.sum())  # pairs are so many that none comes twice
    after = labelled(case, strata, asked, np.minimum(labels, free), rng)
    chance = np.where(after.audit > 0, budget / free.sum(), after.inclusion_probability)
    return estimate_audit(
        strata, AskedPairs(after.scores, after.labels, after.audit, chance), case.threshold, rng, draws=DRAWS
    )


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
    audits = [audit_once(case, asked, budget, rng) for _ in tracked(range(repeats), "audits")]
    uniform_draws = [uniform_once(case, asked, budget, rng) for _ in range(uniform)]
    rows: dict[str, Any] = {}
    for name in FIGURES:
        estimates: list[Estimate] = [getattr(result, name) for result in audits]
        other: list[Estimate] = [getattr(result, name) for result in uniform_draws]
        rows[name] = {
            "truth": truth[name],
            "mean": float(np.mean([e.value for e in estimates])),
            "coverage": float(np.mean([e.low <= truth[name] <= e.high for e in estimates])),
            "misses_low": int(sum(e.high < truth[name] for e in estimates)),
            "misses_high": int(sum(e.low > truth[name] for e in estimates)),
            "width": float(np.mean([e.high - e.low for e in estimates])),
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
    parser.add_argument("--texts", type=int, default=4000, help="of the synthetic task")
    parser.add_argument("--noise", type=float, default=0.8, help="of the synthetic task")
    parser.add_argument("--known", type=int, nargs="*", default=[0, 2048], help="best pairs bought before")
    parser.add_argument("--task", type=Path)
    parser.add_argument("--campaign", type=Path)
    parser.add_argument("--split", default=None)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.campaign:
        cases = [campaign_case(asked.campaign, asked.split, asked.cache)]
    elif asked.task:
        cache = asked.cache or Path(tempfile.mkdtemp(prefix="audit-"))
        cases = [
            task_case(asked.task, asked.split or "train", asked.encoder, cache, known)
            for known in asked.known
        ]
    else:
        cases = [synthetic_case(asked.texts, asked.seed, known, asked.noise) for known in asked.known]
    titles = ("exact", "mean", "covered", "width", "uniform", "covered", "ratio", "plain", "ratio")
    if not asked.json:
        print(f"{'':34}{'figure':>18}" + "".join(f"{title:>10}" for title in titles))
    for case in cases:
        found = study(case, asked.budget, asked.repeats, asked.seed)
        print(json.dumps(found) if asked.json else table(found), flush=True)


def table(found: dict[str, Any]) -> str:
    """One row a figure."""
    lines = []
    for name, row in found["figures"].items():
        width = row["width"] or np.nan  # every pair above the threshold is known: nothing to compare
        plain = row.get("plain_uniform_width")
        lines.append(
            f"{found['case']:34}{name:>18}{row['truth']:10.4g}{row['mean']:10.4g}{row['coverage']:10.1%}"
            f"{row['width']:10.4g}{row['uniform_width']:10.4g}{row['uniform_coverage']:10.0%}"
            f"{row['uniform_width'] / width:10.1f}" + (f"{plain:10.4g}{plain / width:10.1f}" if plain else "")
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()

"""Whether lists have the precision or recall that was asked for, on campaigns whose truth is known.

    python -m experiments.bench.promises --kept FOLDER [FOLDER ...] [--jobs 1] [--out FILE.json]
    python -m experiments.bench.promises --campaign DIR [DIR ...] [--cache FOLDER]

Takes finished campaigns: those that `strangers --out FOLDER --keep` left, or any that are named. Each repeat
checks a list as `pairsieve match` does, with other random pairs, answered by the truth; nothing is written to
the campaigns. Printed for precisions and recalls asked at 95 % confidence with at most `--check-labels`:

    shown     share of repeats in which a list was shown to be good enough
    kept      of those, how many have what was promised: precision on the pairs nobody labelled; recall of all
              matches ("within": of those within reach, which is what is promised)
    found     median recall (for a recall asked: precision) over that of the best threshold with the truth
    possible  of a precision: what one who knows the truth would find, who tests by all the labels the longest
              list that is shown in half of the draws; no check finds much more
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.bench.kept import KeptCampaign, add_options, for_each
from pairsieve.audit.draws import AskedPairs
from pairsieve.audit.guarantee import (
    NOT_DRAWN,
    TOP_SHARE,
    PairsInQuestion,
    RecallSample,
    allowed_failures,
    check_precision,
    permanent_order,
    plan_lists,
    plan_top,
    recall_reach,
    shortest_list,
    split_labels,
)
from pairsieve.audit.run import asked_pairs
from pairsieve.campaign import Campaign
from pairsieve.matches.calibration import ExpectedCurve, from_labels
from pairsieve.matches.find import labelled_pairs
from pairsieve.matches.listing import Known
from pairsieve.matches.ranking import Ranking, rank
from pairsieve.pairs import is_member

PRECISIONS, RECALLS = (0.8, 0.9, 0.95), (0.8, 0.9, 0.95)


@dataclass(frozen=True, eq=False)
class Case:
    """A campaign's ranking, what is known of it, and the truth by score."""

    ranking: Ranking
    known: Known
    asked: AskedPairs
    expected: ExpectedCurve

    @staticmethod
    def of(campaign: Campaign) -> Case:
        round, split = campaign.trained_round(), campaign.split
        ranking = rank(campaign.score(split, round), split, "exact", np.random.default_rng(0))
        known = labelled_pairs(campaign, split)
        asked = asked_pairs(campaign.ledger, ranking.scored.scan)
        expected = from_labels(ranking, campaign.out_of_fold(round), known, asked)
        return Case(ranking, known, asked, expected)

    @property
    def positives(self) -> Any:
        return self.ranking.split.positives


@dataclass(frozen=True, eq=False)
class Asked:
    """A precision that is asked of a case: the plan of its check, the pairs in question, the best list."""

    wanted: float
    thresholds: Any  # (k,) of the candidate lists
    sizes: Any  # (k,)
    failures: int
    ids: Any  # (n,) pairs nobody labelled, down to the last list
    scores: Any
    match: Any
    best: float  # matches in the best list with that precision
    possible: float  # and in the longest that so many labels can show

    @staticmethod
    def of(case: Case, wanted: float, labels: int) -> Asked:
        curve = case.expected.unlabelled
        assert curve is not None
        found = curve.true_positives + curve.false_positives
        few = found <= 2_000_000
        plan = plan_lists(found[few], curve.precision[few], wanted, labels)
        thresholds = curve.thresholds[plan.places]
        ids, scores = unlabelled(case, float(thresholds[-1]) if len(thresholds) else 2.0)
        sizes = np.array([int((scores >= at).sum()) for at in thresholds], np.int64)
        sizes, keep = np.unique(sizes, return_index=True)
        thresholds, sizes = thresholds[keep][sizes > 0], sizes[sizes > 0]
        match = is_member(ids, case.ranking.split.positives)
        return Asked(
            wanted, thresholds, sizes, plan.failures, ids, scores, match, *best_lists(case, wanted, labels)
        )


def precision_once(asked: Asked, labels: int, seed: int) -> dict[str, float]:
    """One check of a precision, on pairs nobody labelled."""
    first = np.argsort(permanent_order(asked.ids, seed))
    ids, scores, match = asked.ids[first], asked.scores[first], asked.match[first]
    truth = dict(zip(ids.tolist(), match.tolist()))
    seen: set[int] = set()

    def ask(pairs: Any) -> Any:
        seen.update(pairs.tolist())
        return np.array([truth[pair] for pair in pairs.tolist()], np.int8)

    result = check_precision(
        PairsInQuestion(ids, scores),
        [float(each) for each in asked.thresholds],
        asked.failures,
        ask,
        asked.wanted,
        labels,
    )
    if not result.certified:
        nothing = np.nan if asked.best else 1.0  # where there is nothing to find, nothing is missed
        return {"shown": 0.0, "kept": np.nan, "found": nothing, "labels": result.labels}
    listed = scores >= asked.thresholds[result.certified - 1]
    looked = np.isin(ids, list(seen))
    left = listed & ~looked
    return {
        "shown": 1.0,
        "kept": float(match[left].mean() >= asked.wanted) if left.any() else 1.0,
        "found": min(float((match & (listed | looked)).sum()) / asked.best, 1.0) if asked.best else 1.0,
        "labels": result.labels,
    }


def unlabelled(case: Case, threshold: float) -> tuple[Any, Any]:
    pieces: list[tuple[Any, Any]] = []
    case.ranking.collect(threshold, 1e30, lambda ids, scores: pieces.append((ids, scores)))
    ids = np.concatenate([np.empty(0, np.int64), *(piece[0] for piece in pieces)])
    scores = np.concatenate([np.empty(0, np.float32), *(piece[1] for piece in pieces)])
    free = ~is_member(ids, case.known.ids)
    order = np.argsort(ids[free])
    return ids[free][order], scores[free][order]


def best_lists(case: Case, wanted: float, labels: int) -> tuple[float, float]:
    """Matches among the pairs nobody labelled above the best threshold with that precision there, and above
    the lowest whose list passes an exact test by so many labels in half of the draws.
    """
    from scipy.stats import hypergeom

    positives = case.ranking.split.positives
    new = positives[~is_member(positives, case.known.ids)]
    own = np.sort(case.ranking.scores(new))[::-1]
    if not len(own):
        return 0.0, 0.0
    every = case.ranking.scored.scan.count_reaching(np.unique(own))
    at = dict(zip(np.unique(own).tolist(), every.tolist()))
    labelled = np.sort(case.ranking.scores(case.known.ids))
    pairs = np.array([at[float(s)] for s in own]) - (len(labelled) - np.searchsorted(labelled, own, "left"))
    found = np.searchsorted(-own, -own, side="right")
    good = np.flatnonzero(found / np.maximum(pairs, 1) >= wanted)
    best = float(found[good[-1]]) if len(good) else 0.0
    shown = 0.0
    for place in np.unique(np.linspace(0, len(good) - 1, 150).astype(int)) if len(good) else []:
        size, right = int(pairs[good[place]]), int(found[good[place]])
        allowed = allowed_failures(size, min(labels, size), wanted)
        if labels >= size or hypergeom.cdf(allowed, size, size - right, labels) >= 0.5:
            shown = max(shown, float(right))
    return best, shown


@dataclass(frozen=True, eq=False)
class AskedRecall:
    """A recall that is asked of a case: the pairs within reach that nobody labelled, and what is known."""

    wanted: float
    top: float  # from this score on pairs will be listed
    ids: Any  # (n,)
    scores: Any
    match: Any
    known: int  # labelled matches within reach
    elsewhere: int  # and below it
    positives: int  # matches in all
    precision: float  # of the best threshold with that recall, known matches listed

    @staticmethod
    def of(case: Case, wanted: float, labels: int) -> AskedRecall:
        curve, scan, positives = case.expected.unlabelled, case.ranking.scored.scan, case.positives
        assert curve is not None
        drawn = int((case.asked.audit > 0).sum())
        reach = recall_reach(case.expected.curve, curve, wanted, labels, drawn)
        ids, scores = unlabelled(case, reach)
        known = int((case.ranking.scores(case.known.matches) >= np.float32(reach)).sum())
        inside = curve.thresholds >= np.float32(reach)
        right = curve.true_positives[inside]
        found = right + curve.false_positives[inside]
        top = plan_top(found, right, known, wanted, labels - labels // TOP_SHARE)
        new = np.sort(case.ranking.scores(positives[~is_member(positives, case.known.ids)]))[::-1]
        missing = int(np.ceil(wanted * len(positives))) - len(case.known.matches)
        best = 1.0
        if missing > 0:
            at = np.array([new[missing - 1]], np.float32)
            others = (case.ranking.scores(case.known.others) >= at).sum()
            listed = scan.count_reaching(at)[0] - others
            listed += (case.ranking.scores(case.known.matches) < at).sum()
            best = float(((new >= at).sum() + len(case.known.matches)) / listed)
        return AskedRecall(
            wanted,
            float(curve.thresholds[inside][top]),
            ids,
            scores,
            is_member(ids, positives),
            known,
            len(case.known.matches) - known,
            len(positives),
            best,
        )


def recall_once(asked: AskedRecall, labels: int, seed: int) -> dict[str, float]:
    """One check of a recall."""
    above = asked.scores >= np.float32(asked.top)
    first = np.argsort(permanent_order(asked.ids, seed), kind="stable")
    counts = split_labels(labels, int(above.sum()), int((~above).sum()))
    given = np.full(len(asked.ids), NOT_DRAWN, np.int8)
    for part, count in zip((above, ~above), counts):
        drawn = first[part[first]][:count]
        given[drawn] = asked.match[drawn]
    sample = RecallSample(asked.scores, given, asked.top, asked.known)
    at = shortest_list(sample, asked.wanted, np.random.default_rng(seed))
    if at is None:
        return {"shown": 0.0, "kept": np.nan, "within": np.nan, "found": np.nan, "labels": sum(counts)}
    listed = (asked.scores >= np.float32(at)) & (given != 0) | (given == 1)
    right = int((listed & asked.match).sum()) + asked.known
    inside = int(asked.match.sum()) + asked.known
    every = int(listed.sum()) + asked.known + asked.elsewhere
    precision = (right + asked.elsewhere) / max(every, 1)
    return {
        "shown": 1.0,
        "kept": float(right + asked.elsewhere >= asked.wanted * asked.positives),
        "within": float(right >= asked.wanted * inside),
        "found": min(precision / asked.precision, 1.0),
        "labels": sum(counts),
    }


def checked(campaign: KeptCampaign, kinds: Sequence[str], labels: int, repeats: int) -> list[dict[str, Any]]:
    """The rows of a campaign: every precision and recall asked."""
    case, rows = Case.of(Campaign(campaign.folder, campaign.cache)), []
    for kind in kinds:
        for wanted in PRECISIONS if kind == "precision" else RECALLS:
            row: dict[str, Any] = {"campaign": campaign.name, "asked": f"{kind} {wanted:g}"}
            rows.append(row | repeated(case, kind, wanted, labels, repeats))
    return rows


def line(row: dict[str, Any]) -> str:
    """A row in words."""
    figures = [row.get(name) for name in ("shown", "kept", "within", "found", "possible", "labels")]
    cells = "".join(f"{each:8.3f}" if each is not None else f"{'-':>8}" for each in figures)
    return f"{row['campaign']:28}{row['asked']:>16}{cells}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_options(parser)
    parser.add_argument("--check-labels", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--kinds", nargs="*", default=["precision", "recall"])
    asked = parser.parse_args()
    print(
        f"{'campaign':28}{'asked':>16}{'shown':>8}{'kept':>8}{'within':>8}{'found':>8}{'possible':>8}{'labels':>8}"
    )
    sys.exit(for_each(asked, checked, asked.kinds, asked.check_labels, asked.repeats, say=line) > 0)


def repeated(case: Case, kind: str, wanted: float, labels: int, repeats: int) -> dict[str, float | None]:
    """The figures over `repeats` checks."""
    if kind == "precision":
        prepared = Asked.of(case, wanted, labels)
        made = [precision_once(prepared, labels, seed) for seed in range(repeats)]
    else:
        question = AskedRecall.of(case, wanted, labels)
        made = [recall_once(question, labels, seed) for seed in range(repeats)]
    columns = {name: [row[name] for row in made if name in row] for name in made[0]}
    means = {name: _mean(columns.get(name, [])) for name in ("shown", "kept", "within", "labels")}
    if kind == "precision":
        means["possible"] = prepared.possible / prepared.best if prepared.best else 1.0
    return means | {"found": _median(columns["found"])}


def _mean(values: list[float]) -> float | None:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else None


def _median(values: list[float]) -> float | None:
    known = [0.0 if np.isnan(value) else value for value in values]
    return float(np.median(known)) if known else None


if __name__ == "__main__":
    main()

"""Does a scan tell the truth? One kit for every device, against float64 brute force on spaces small enough.

The scores may differ from float64 by rounding; everything else (counts, collected pairs, neighbours,
average precision, selections) must follow from the scan's own scores exactly, ties included.
`unit/test_scan_cuda.py` runs it under pytest, `experiments/bench/exact_cuda.py` on a GPU without pytest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from pairsieve.measure.curve import measure_exactly
from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, pair_rows
from pairsieve.scan import Scan, unit_rows
from pairsieve.search import ExactSearch

KINDS = ("continuous", "copies")


@dataclass(frozen=True)
class Case:
    """A space with unit rows (float64), every pair's id and float64 cosine, and which pairs match."""

    space: PairSpace
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    ids: Ids
    cosines: NDArray[np.float64]
    positive: NDArray[np.bool_]


def synthetic_case(symmetric: bool, kind: str, rows: int, columns: int, width: int, seed: int) -> Case:
    """`copies` has 12 distinct texts, so that nearly every pair ties with thousands of others.

    The first dimensions carry most of the length, as in real embeddings: a sum that is large from its
    first terms on is rounded most.
    """
    rng = np.random.default_rng(seed)
    weight = np.exp(-np.arange(width) / 80)
    distinct = rng.normal(size=(12, width)) * weight

    def side(texts: int) -> NDArray[np.float64]:
        if kind == "copies":
            made = distinct[rng.integers(12, size=texts)]
        else:
            made = rng.normal(size=(texts, width)) * weight
        # Through float32, as embeddings come; then unit rows in float64.
        unit: NDArray[np.float64] = unit_rows(made.astype(np.float32), np.float64)
        return unit

    space: PairSpace = AllPairs(rows) if symmetric else CrossPairs(rows, columns)
    left = side(rows)
    right = left if symmetric else side(columns)
    ids = space.unrank(np.arange(space.size))
    # Rounded to nine digits: what is equal on paper is equal here.
    cosines = (left @ right.T)[pair_rows(ids)].round(9)
    positive = rng.random(space.size) < 0.02 / (1 + np.exp(8 * (0.5 - cosines)))
    positive[int(np.argmax(cosines))] = True
    return Case(space, left, right, ids, cosines, positive)


def check_scan(scan: Scan, case: Case, double: bool) -> Iterator[tuple[str, str]]:
    """(what was asked, what is wrong with the answer, or "") for every question a scan answers."""
    ids, scores = collected(scan, -2.0, 2.0)
    yield "collect everything", "" if np.array_equal(ids, case.ids) else "not every pair once"

    # float32 rounds to 6e-8 below one; products in float32 add the rounding of a long sum.
    error = float(np.abs(scores - case.cosines).max())
    yield (
        "scores of a pass",
        "" if error <= (1e-7 if double else 5e-6) else f"off by {error:.1e} from float64",
    )

    copies = scores[case.cosines == 1.0]
    yield "copies score one", "" if (copies == 1.0).all() else f"as low as 1 - {1 - copies.min():.1e}"

    some = np.random.default_rng(0).permutation(len(ids))[:20_000]
    yield (
        "scores of chosen pairs",
        "" if np.array_equal(scan.scores(ids[some]), scores[some]) else "other bits",
    )

    low, high = (float(np.quantile(scores, share, method="nearest")) for share in (0.4, 0.6))
    inside = (scores >= low) & (scores <= high)
    found, theirs = collected(scan, low, high)
    same = np.array_equal(found, ids[inside]) and np.array_equal(theirs, scores[inside])
    yield (
        "collect a range, ends included",
        "" if same else f"{len(found):,} pairs instead of {inside.sum():,}",
    )

    for name, thresholds in {
        "count at every 50th score": np.unique(np.append(scores[::50], scores.max())),
        "count at one score": scores[:1],
        "count on a grid": np.linspace(-1.001, 1.001, 5001, dtype=np.float32),
    }.items():
        expected = len(scores) - np.searchsorted(np.sort(scores), thresholds, side="left")
        wrong = int((scan.count_reaching(thresholds) != expected).sum())
        yield name, f"{wrong:,} of {len(thresholds):,} counts are wrong" if wrong else ""

    yield "neighbours of all rows", _neighbours(scan, case, scores, None)
    yield (
        "neighbours of chosen rows",
        _neighbours(scan, case, scores, np.array([5, 0, case.space.shape[0] - 1])),
    )

    value = measure_exactly(scan, case.ids[case.positive]).curve.average_precision()
    own = abs(value - average_precision_score(case.positive, scores))
    yield "average precision of its scores", "" if own < 1e-9 else f"off by {own:.1e} from scikit-learn"
    if double:
        true = abs(value - average_precision_score(case.positive, case.cosines))
        yield "average precision of float64", "" if true < 1e-6 else f"off by {true:.1e} from scikit-learn"

    yield from _selections(scan, case, scores)


def collected(scan: Scan, low: float, high: float) -> tuple[Ids, NDArray[np.float32]]:
    """Every pair of a range of scores, in the order of ids."""
    pieces = [(np.empty(0, np.int64), np.empty(0, np.float32))]
    scan.collect(low, high, lambda some, theirs: pieces.append((some, theirs)))
    ids = np.concatenate([piece[0] for piece in pieces])
    order = np.argsort(ids, kind="stable")
    return ids[order], np.concatenate([piece[1] for piece in pieces])[order]


def _neighbours(
    scan: Scan, case: Case, scores: NDArray[np.float32], rows: NDArray[np.int64] | None, count: int = 20
) -> str:
    """Best first, ties by smaller column: a stable sort of each row."""
    whole = np.full(case.space.shape, -np.inf, np.float32)
    mine, yours = pair_rows(case.ids)
    whole[mine, yours] = scores
    if case.space.symmetric:
        # The scan scores (row, column) in that order; where rounding tells the orders apart, so do we.
        everyone = scan.neighbours(case.space.shape[0] - 1)
        at = np.arange(case.space.shape[0])[:, None], everyone[0]
        lower = at[0] > at[1]
        drift = np.abs(everyone[1] - whole[at[1], at[0]], where=lower, out=np.zeros_like(everyone[1])).max()
        if drift > 5e-7:
            return f"a pair's two orders differ by {drift:.1e}"
        whole[at] = everyone[1]
    picked = np.arange(len(whole)) if rows is None else rows
    expected = np.argsort(-whole[picked], axis=1, kind="stable")[:, :count]
    columns, found = scan.neighbours(count, rows)
    if not np.array_equal(columns, expected):
        return f"{(columns != expected).any(axis=1).sum():,} of {len(picked):,} rows have other neighbours"
    return "" if np.array_equal(found, np.take_along_axis(whole[picked], expected, 1)) else "other scores"


def _selections(scan: Scan, case: Case, scores: NDArray[np.float32]) -> Iterator[tuple[str, str]]:
    asked = case.ids[
        np.argsort(-scores, kind="stable")[: len(scores) // 10 : 3]
    ]  # many of the best are taken
    asked = np.sort(asked)
    free = ~np.isin(case.ids, asked)
    cuda: Any = scan
    if hasattr(scan, "_exact") and not cuda.double:  # it selects by these, closer to float64
        scores = cuda._exact(*(cuda._to(rows) for rows in pair_rows(case.ids))).cpu().numpy()
        error = float(np.abs(scores - case.cosines).max())
        yield "exact scores of pairs", "" if error <= 2e-7 else f"off by {error:.1e} from float64"
    ids, mine = case.ids[free], scores[free].astype(np.float64)
    search: Any = ExactSearch(scan)
    count = len(ids) // 100
    centre = float(np.quantile(mine, 0.8)) + 0.01
    for name, cost, found in (
        ("best unasked pairs", -mine, search.best(count, asked)),
        ("closest unasked pairs", np.abs(mine - centre), search.closest(centre, count, asked)),
    ):
        chosen = np.sort(ids[np.lexsort((ids, cost))[:count]])
        wrong = len(np.setxor1d(chosen, found.pairs.ids))
        yield name, f"{wrong:,} pairs differ from a full sort" if wrong else ""

"""Labels drawn with known chances, of pairs that share a score."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import experiments.bench.audit_coverage as bench
from examples import examples
from pairsieve.audit.draws import AskedPairs, Strata, strata_from_counts
from pairsieve.audit.earlier_draws import earlier_draws_estimate
from pairsieve.audit.estimate import estimate
from pairsieve.audit.ranked import Layout, Ties
from pairsieve.audit.run import places_of
from pairsieve.contracts import Estimate
from pairsieve.pairs import AllPairs
from pairsieve.scan import open_scan


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def tied_ranking(values: list[tuple[float, int]]) -> tuple[np.ndarray, Strata]:
    """(score, pairs) best first: the scores of all pairs, and a stratum for each score."""
    scores = np.repeat(np.array([score for score, _ in values], np.float32), [pairs for _, pairs in values])
    return scores, Strata(
        np.array([score for score, _ in values], np.float32), np.array([n for _, n in values])
    )


def places(scores: np.ndarray, asked: AskedPairs) -> dict[str, np.ndarray]:
    sides = (("ahead", "left"), ("ranks", "right"))
    return {name: np.searchsorted(-scores, -asked.scores, side).astype(float) for name, side in sides}


def test_pairs_of_one_score_enter_average_precision_together() -> None:
    """38 of 40, 200 of 1,000: AP = 38/238 · 38/40 + 200/238 · 238/1040 = 0.3440; spread it would be 0.394."""
    scores, strata = tied_ranking([(0.9, 40), (0.5, 1000), (-0.5, 18_960)])
    asked = AskedPairs.nothing().then(scores[:40], np.arange(40) < 38, 1, np.ones(40))
    asked = asked.then(scores[40:240], np.arange(200) % 5 == 0, 1, np.full(200, 0.2))
    asked = asked.then(scores[-60:], np.zeros(60), 1, np.full(60, 60 / 18_960))
    at = places(scores, asked)
    found = estimate(strata, asked, 0.9, rng(), reach=0.5, **at).average_precision
    by_hand = 38 / 238 * 38 / 40 + 200 / 238 * 238 / 1040
    assert isinstance(found, Estimate) and found.value == pytest.approx(by_hand, abs=0.002)
    assert found.low < by_hand < found.high < 0.38
    layout = Layout.of(strata, strata.totals * 1.0, asked, at["ranks"], True, ties=Ties.of(strata, **at))
    best = np.array([True, True, False])
    assert layout.average_precision(np.array([[38.0, 200.0, 0.0]]), best)[0] == pytest.approx(by_hand)


def test_matches_among_equal_scores_and_others_of_one_stratum() -> None:
    """Ranks 1-20 have scores of their own, 21-80 share one, 81-100 have their own. Of ten drawn pairs two
    matches of three stand in the tie: so do two thirds of the 30 matches.
    """
    scores = np.linspace(1.0, 0.0, 100).astype(np.float32)
    scores[20:80] = scores[20]
    one = Strata(np.array([-2.0], np.float32), np.array([100]))
    drawn_at = np.array([2, 12, 25, 35, 45, 55, 65, 75, 85, 95])
    asked = AskedPairs.nothing().then(scores[drawn_at], np.isin(drawn_at, [2, 25, 35]), 1, np.full(10, 0.1))
    at = places(scores, asked)
    ties = Ties.of(one, **at)
    assert (ties.first.tolist(), ties.last.tolist()) == ([20], [80])
    layout = Layout.as_drawn(one, np.array([100.0]), asked, at["ranks"], True, ties)
    assert layout.sampled is not None and layout.sampled.sum() == pytest.approx(1.0)
    assert layout.sampled[layout.tied] == pytest.approx([2 / 3]) and layout.width[layout.tied] == [60]
    assert layout.sampled[layout.before < 10].sum() == pytest.approx(1 / 3)
    gaps = ties.with_gaps(one)  # up to 2, 3, 12, 13, the tie, 85, 86, 95, 96, 100
    assert gaps.last.tolist() == [2, 3, 12, 13, 20, 80, 85, 86, 95, 96, 100]


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(30, 150))
def test_with_every_label_average_precision_is_that_of_scikit_learn(seed: int, distinct: int, n: int) -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    random = rng(seed)
    scores = np.sort(random.choice(np.linspace(-0.9, 0.9, distinct), n).astype(np.float32))[::-1]
    labels = (random.random(n) < 0.4).astype(int)
    labels[random.integers(n)] = 1
    fine = np.unique(scores)
    strata, _ = strata_from_counts(fine, np.searchsorted(-scores, -fine, "right"), n, fine[-1:], 60)
    order = random.permutation(n)
    asked = AskedPairs.nothing().then(scores[order], labels[order], 1, np.ones(n))
    at = places(scores, asked)
    exact = sklearn.average_precision_score(labels, scores)
    whole = estimate(strata, asked, float(fine[-1]), rng(), draws=50, **at).average_precision
    assert isinstance(whole, Estimate)
    assert (whole.low, whole.value, whole.high) == pytest.approx((exact,) * 3, abs=1e-9)
    moved = earlier_draws_estimate(strata, asked, float(fine[-1]), **at).average_precision
    assert moved is not None and (moved.low, moved.high) == pytest.approx((exact,) * 2, abs=1e-9)


def test_the_ends_of_average_precision_hold_for_equal_scores() -> None:
    """No matches of three scores on a grid between their limits have an AP beyond the ends."""
    scores, strata = tied_ranking([(0.8, 100), (0.5, 1000), (-0.5, 20_000)])
    asked = AskedPairs.nothing().then(strata.edges, np.zeros(3), 0, np.ones(3))
    at = places(scores, asked)
    layout = Layout.of(strata, strata.totals * 1.0, asked, at["ranks"], True, ties=Ties.of(strata, **at))
    share = np.stack(np.meshgrid(*[np.linspace(0, 1, 21) ** 3] * 3), -1).reshape(-1, 3)
    for lower, upper in (([60.0, 5.0, 0.0], [90.0, 300.0, 6000.0]), ([0.0, 50.0, 0.0], [9.0, 300.0, 50.0])):
        low, high = np.array([lower]), np.array([upper])
        every = layout.average_precision(low + share * (high - low), np.ones(3, bool), 0.0)
        ends = [each(low, high, np.ones(3, bool), 0.0)[0] for each in (layout.lowest, layout.highest)]
        assert ends[0] <= every.min() * 1.02 and ends[1] >= every.max() * (1 - 1e-6)


# ── coverage ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize(
    "regime", ["good", "random", "half invisible", "three values", "41 values", "1 in 20 wrong, estimated"]
)
def test_limits_hold_and_values_are_unbiased(regime: str) -> None:
    """60 simulated audits of 90 labels in two phases, the second planned with the first one's answers."""
    found = bench.study(bench.cases(1)[regime](), 90, 60, 1)["figures"]
    for name, row in found.items():
        if row["coverage"] is not None and row["undefined"] < 0.5:
            assert row["coverage"] >= 0.88, name
    for name in ("precision", "positives in reach", "recall in reach", "AP in reach"):
        assert abs(found[name]["z"]) < 3.5, name


def test_a_threshold_that_every_pair_reaches_is_the_last_edge() -> None:
    """Ten pairs between 0.1 and 0.2, listed from -0.5 on: all of them are above the threshold, none below."""
    scores, reaching = np.array([-0.5, 0.0, 0.15], np.float32), np.array([10, 10, 4])
    strata, _ = strata_from_counts(scores, reaching, 10, scores[:1], labels=20)
    assert strata.totals[strata.reaching(-0.5)].sum() == 10
    assert strata.edges[-1] == -0.5


@pytest.mark.parametrize("lengths", [False, True])
def test_equal_scores_are_told_apart_from_all_others_even_at_zero(lengths: bool) -> None:
    """Six texts on three axes, two each: three pairs of score 1 and twelve of score 0."""
    pairs = AllPairs(6)
    rows = np.repeat(np.eye(3, 8, dtype=np.float32), 2, axis=0)
    scan = open_scan(pairs, rows, None, device="cpu", lengths=lengths)
    scores = scan.scores(pairs.unrank(np.arange(15)))
    asked = AskedPairs.nothing().then(scores, np.zeros(15), 0, np.ones(15))
    ahead, ranks = places_of(scan, asked)
    assert ahead.tolist() == np.where(scores > 0.5, 0, 3).tolist()
    assert ranks.tolist() == np.where(scores > 0.5, 3, 15).tolist()

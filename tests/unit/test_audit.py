"""An audit says how good a scorer is without the truth: fair draws, unbiased values, limits that hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import experiments.bench.audit_coverage as bench
from examples import examples
from pairsieve.audit import draws as auditing
from pairsieve.audit.draws import (
    AskedPairs,
    Strata,
    allocate,
    draw_audit,
    pilot_size,
    plan_audit,
    plan_in,
    strata_from_counts,
)
from pairsieve.audit.estimate import (
    estimate_audit,
    known_recall,
    ranked_precision,
    stratum_counts,
    threshold_for_precision,
)
from pairsieve.audit.rates import smooth_rates
from pairsieve.errors import InputError
from pairsieve.measure.curve import curve_from_scores
from pairsieve.pairs import is_member

SHARED = Path(__file__).parents[3] / "shared"


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def drawn(
    strata: Strata, counts: list[tuple[int, int, float]], before: AskedPairs | None = None
) -> AskedPairs:
    """An audit with (labels, matches, inclusion probability) in each stratum."""
    asked = before or AskedPairs.nothing()
    number = int(asked.audit.max(initial=0)) + 1
    for edge, (labels, matches, chance) in zip(strata.edges, counts):
        scores = np.full(labels, edge, np.float32)
        asked = asked.then(scores, np.arange(labels) < matches, number, np.full(labels, chance))
    return asked


THREE = Strata(np.array([0.8, 0.5, -2.0], np.float32), np.array([100, 1000, 1_000_000]))


# ── strata and plan ─────────────────────────────────────────────────────────────────────────────


def test_ranks_double_and_thresholds_are_edges() -> None:
    """1,000 pairs scored 0.001, 0.002, … 1.000: ranks 32, 64, … 512 are cut, and the score 0.9 (rank 101)."""
    scores = (np.arange(1, 1001) / 1000).astype(np.float32)
    reaching = np.arange(1000, 0, -1)
    strata = strata_from_counts(scores, reaching, 1000, scores[899:900], budget=300)
    assert np.cumsum(strata.totals).tolist() == [32, 64, 101, 128, 256, 512, 1000]
    assert strata.edges[2] == np.float32(0.9)
    assert strata.reaching(0.9).sum() == 3
    assert strata.of(scores[[999, 968, 967, 899, 898, 0]]).tolist() == [0, 0, 1, 2, 3, 6]


def test_few_labels_make_few_strata_and_ties_stay_together() -> None:
    scores = (np.arange(1, 1001) / 1000).astype(np.float32)
    reaching = np.arange(1000, 0, -1)
    assert len(strata_from_counts(scores, reaching, 1000, scores[:0], budget=12)) == 3  # instead of 6
    tied = strata_from_counts(scores[[400, 800]], np.array([1000, 700]), 1000, scores[:0], budget=300)
    assert tied.totals.tolist() == [700, 300]
    alone = strata_from_counts(scores[[400]], np.array([1000]), 1000, scores[:0], budget=300)
    assert alone.totals.tolist() == [1000]


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.floats(1e-9, 0.99), st.booleans()), min_size=1, max_size=20),
    st.integers(1, 500),
)
def test_a_plan_spends_the_budget_and_looks_everywhere(
    strata: list[tuple[int, float, bool]], budget: int
) -> None:
    free = np.array([size for size, _, _ in strata])
    rates, above = np.array([[rate for _, rate, _ in strata]]), np.array([high for _, _, high in strata])
    budget = min(budget, int(free.sum()))
    labels = allocate(free, rates, np.zeros(len(free)), above, budget)
    assert labels.sum() == budget and (labels >= 0).all() and (labels <= free).all()
    if budget >= 4 * len(strata):
        assert (labels[free > 0] > 0).all()


def test_labels_go_where_they_tell_most() -> None:
    """Half-sure pairs beat sure ones; ten million pairs with ten matches get a look, not the budget."""
    free, above = np.array([1000, 1000, 10_000_000]), np.array([True, True, False])
    labels = allocate(free, np.array([[0.999, 0.5, 1e-6]]), np.zeros(3), above, 300)
    assert labels[1] > 1.5 * labels[0] and 30 <= labels[2] < 60


def test_one_wild_draw_does_not_rule_the_plan() -> None:
    """In one draw of twenty the last stratum holds a hundred thousand matches: that is not planned for."""
    free, above = np.array([1000, 1000, 10_000_000]), np.array([True, False, False])
    calm = np.tile([0.5, 0.1, 1e-6], (20, 1))
    wild = calm.copy()
    wild[0, 2] = 0.01
    plans = [allocate(free, rates, np.zeros(3), above, 300).tolist() for rates in (calm, wild)]
    assert plans[0] == plans[1]


def test_labels_that_speak_already_are_counted_in() -> None:
    """Two like strata, 60 labels seen in the first: of 100 more, 80 go to the second and 20 to the first."""
    free, none = np.array([1000, 1000]), np.zeros(2)
    labels = allocate(free, np.array([[0.3, 0.3]]), none, np.array([False, False]), 100, np.array([60.0, 0]))
    assert labels.tolist() == [20, 80]


def test_a_pilot_sample_is_even_and_only_where_nobody_has_looked() -> None:
    strata = Strata(np.array([0.8, 0.5, -2.0], np.float32), np.array([4, 1000, 1_000_000]))
    plan = plan_in(strata, 24, 0.5, AskedPairs.nothing(), evenly=True)
    assert plan.labels.tolist() == [4, 10, 10]
    assert pilot_size(300, 0) == 100 and pilot_size(300, 100) == 0
    assert pilot_size(60, 0) == 0  # too few to be parted


# ── drawing ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def case() -> bench.Case:
    """400 texts, 79,800 pairs; the 300 best-ranked ones were bought before."""
    return bench.synthetic_case(400, seed=3, known=300)


@pytest.mark.parametrize("gathered", [0, pytest.param(1 << 18, marks=pytest.mark.slow)])
def test_draws_are_uniform_inside_strata(
    case: bench.Case, gathered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each free pair of a stratum is drawn equally often, whether strata are gathered or drawn into."""
    monkeypatch.setattr(auditing, "GATHER_AT_MOST", gathered)
    asked = case.asked()
    plan = plan_audit(case.scan, 120, case.threshold, asked)
    assert plan.labels.sum() == 120
    picked, lefts = [], []
    for seed in range(60):
        found = draw_audit(case.scan, plan, case.known, rng(seed))
        assert len(np.unique(found.ids)) == 120 and not is_member(found.ids, case.known).any()
        assert np.bincount(found.stratum, minlength=len(plan.strata)).tolist() == plan.labels.tolist()
        assert np.array_equal(found.stratum, plan.strata.of(case.scan.scores(found.ids)))
        assert np.allclose((1 / found.inclusion_probability).sum(), plan.free[plan.labels > 0].sum())
        picked.append(found.ids[found.stratum == 4])
        lefts.append(found.ids[found.stratum == len(plan.strata) - 1] >> 32)
    times = np.unique(np.concatenate(picked), return_counts=True)[1]
    expected = 60 * plan.labels[4] / plan.free[4]
    assert times.max() < expected + 6 * np.sqrt(expected) + 1
    every = case.scan.space.unrank(np.arange(case.scan.space.size))
    every = every[plan.strata.of(case.scan.scores(every)) == len(plan.strata) - 1]
    mine, all_left = np.concatenate(lefts), every >> 32
    assert abs(mine.mean() - all_left.mean()) < 4 * all_left.std() / np.sqrt(len(mine))


def test_a_seed_gives_the_same_draw(case: bench.Case) -> None:
    plan = plan_audit(case.scan, 60, case.threshold, case.asked())
    once, again = (draw_audit(case.scan, plan, case.known, rng(5)) for _ in range(2))
    assert np.array_equal(once.ids, again.ids)


def test_a_budget_beyond_the_space_labels_every_pair() -> None:
    tiny = bench.synthetic_case(16, seed=1)
    plan = plan_audit(tiny.scan, 1000, tiny.threshold, AskedPairs.nothing())
    found = draw_audit(tiny.scan, plan, tiny.known, rng())
    assert sorted(found.ids) == tiny.scan.space.unrank(np.arange(120)).tolist()
    asked = AskedPairs.nothing().then(
        found.scores, is_member(found.ids, tiny.positives), 1, found.inclusion_probability
    )
    result = estimate_audit(plan.strata, asked, tiny.threshold, rng())
    truth = tiny.truth()
    for name in ("precision", "recall", "positives"):
        got = getattr(result, name)
        assert got.low == got.value == got.high == pytest.approx(truth[name])
    with pytest.raises(InputError, match="budget of 0"):
        plan_audit(tiny.scan, 0, tiny.threshold, AskedPairs.nothing())


# ── values ──────────────────────────────────────────────────────────────────────────────────────


def test_worked_numbers() -> None:
    """8 of 10 of 100, 3 of 10 of 1,000, 0 of 10 of a million: 80 + 300 matches; 380/1,100 above 0.5."""
    asked = drawn(THREE, [(10, 8, 0.1), (10, 3, 0.01), (10, 0, 1e-5)])
    result = estimate_audit(THREE, asked, 0.5, rng())
    assert result.positives.value == pytest.approx(380)
    assert result.precision.value == pytest.approx(380 / 1100)
    assert result.recall.value == pytest.approx(1.0)
    assert result.positives.low < 380 < result.positives.high
    assert result.recall.low < 1.0 and result.labels == 30 and result.pairs == 1_001_100
    # Clopper and Pearson: 0 of 10 allows a rate of 0.31, so the draws alone cannot rule out 300,000 more.
    free = result.positives_without_assumption
    assert 250_000 < free.high < 400_000 and free.high > 5 * result.positives.high
    assert "1 strata with 999,990 pairs showed no match" in result.positives.method


def test_known_pairs_count_as_they_are() -> None:
    """All 100 best pairs were bought, 60 match: only the rest is in doubt."""
    before = AskedPairs.nothing().then(np.full(100, 0.8, np.float32), np.arange(100) < 60, 0, np.ones(100))
    asked = drawn(THREE, [(0, 0, 1.0), (20, 5, 0.02), (10, 0, 1e-5)], before)
    result = estimate_audit(THREE, asked, 0.8, rng())
    assert (result.precision.low, result.precision.value, result.precision.high) == (0.6, 0.6, 0.6)
    assert result.positives.value == pytest.approx(60 + 250)
    assert result.recall_of_known.value == pytest.approx(60 / 65) and result.recall_of_known.n == 65


def test_pairs_without_a_label_are_left_out() -> None:
    """50 of the 100 best pairs were asked and nobody was sure: the space has 50 fewer pairs."""
    unsure = AskedPairs.nothing().then(np.full(50, 0.8, np.float32), np.full(50, -1), 0, np.ones(50))
    asked = drawn(THREE, [(10, 8, 0.2), (10, 3, 0.01), (10, 0, 1e-5)], unsure)
    result = estimate_audit(THREE, asked, 0.8, rng())
    assert result.unsure == 50 and result.precision.value == pytest.approx(0.8)
    assert result.positives.value == pytest.approx(40 + 300)


@pytest.mark.slow
def test_the_number_of_matches_is_unbiased(case: bench.Case) -> None:
    """The mean of 150 audits lies within 4 standard errors of the truth."""
    asked = case.asked()
    plan = plan_audit(case.scan, 150, case.threshold, asked)
    found = []
    for seed in range(150):
        got = draw_audit(case.scan, plan, case.known, rng(seed))
        after = asked.then(got.scores, is_member(got.ids, case.positives), 1, got.inclusion_probability)
        found.append(stratum_counts(plan.strata, after).expected(plan.strata).sum())
    off = abs(np.mean(found) - len(case.positives)) / (np.std(found) / np.sqrt(len(found)))
    assert np.std(found) > 0 and off < 4


def test_average_precision_from_strata() -> None:
    """Within 0.01 of the exact figure, for a good and a poor scorer, from the matches per stratum alone."""
    for gap in (1.5, 3.0):
        made = rng(int(gap * 10))
        mine = (made.normal(gap, 1, 400) / 10).astype(np.float32)
        others = (made.normal(0, 1, 40_000) / 10).astype(np.float32)
        both = np.sort(np.concatenate([mine, others]))
        fine = np.unique(both)
        reaching = len(both) - np.searchsorted(both, fine)
        strata = strata_from_counts(fine, reaching, len(both), fine[:0], 300)
        got = ranked_precision(strata.count(mine)[None], strata.totals.astype(float))[0]
        assert got == pytest.approx(curve_from_scores(mine, others).average_precision(), abs=0.01)


def test_a_threshold_for_a_precision() -> None:
    """80 of 100, then 300 of 1,000: precision 0.8 at 0.8 and 0.345 at 0.5."""
    asked = drawn(THREE, [(10, 8, 0.1), (10, 3, 0.01), (10, 0, 1e-5)])
    assert threshold_for_precision(THREE, asked, 0.8) == pytest.approx(0.8)
    assert threshold_for_precision(THREE, asked, 0.3) == pytest.approx(0.5)
    with pytest.raises(InputError, match=r"precision of 0\.9"):
        threshold_for_precision(THREE, asked, 0.9)
    with pytest.raises(InputError, match="no pair reaches"):
        estimate_audit(THREE, asked, 0.9, rng())
    assert known_recall(THREE, AskedPairs.nothing(), 0.5).n == 0


# ── intervals ───────────────────────────────────────────────────────────────────────────────────


def test_rates_follow_the_labels_and_borrow_where_there_are_none() -> None:
    """40 of 80 gives 0.5 ± 0.11; a stratum without labels lies between its neighbours, less sure."""
    posterior = smooth_rates(np.array([72.0, 0, 40.0]), np.array([80.0, 0, 80.0]), np.array([16.0, 48, 100]))
    rates = posterior.draw(4000, rng())
    assert rates.mean(axis=0) == pytest.approx([0.89, 0.75, 0.5], abs=0.05)
    low, high = np.quantile(rates, [0.025, 0.975], axis=0)
    assert high[2] - low[2] == pytest.approx(0.22, abs=0.04)
    assert high[1] - low[1] > high[2] - low[2]
    assert posterior.typical() == pytest.approx([0.89, 0.75, 0.5], abs=0.05)


def test_an_unexplored_tail_widens_the_upper_limit_only() -> None:
    """The same hits above; 200, 10 or 1 labels without a hit in a million pairs below."""
    limits = []
    for labels in (200, 10, 1):
        asked = drawn(THREE, [(10, 8, 0.1), (100, 30, 0.1), (labels, 0, labels / 1e6)])
        found = estimate_audit(THREE, asked, 0.5, rng()).positives
        limits.append((found.low, found.high))
    assert limits[0][1] < limits[1][1] < limits[2][1]
    assert max(low for low, _ in limits) - min(low for low, _ in limits) < 10 and limits[0][0] > 250


@pytest.mark.slow
def test_intervals_cover_and_are_narrow() -> None:
    """The bench in small: 50 audits of 200 labels of 320,000 pairs; `audit_coverage` makes 500."""
    small = bench.synthetic_case(800, seed=2, known=200)
    found = bench.study(small, 200, 50, seed=4, uniform=0)["figures"]
    for name in ("precision", "average_precision", "positives"):
        # 95 % would be below 86 % of 50 repeats once in a hundred such tests
        assert found[name]["coverage"] >= 0.86, name
    assert found["positives"]["plain_uniform_width"] > 3 * found["positives"]["width"]


# ── again, after more rounds ────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_an_earlier_audit_is_used_again(case: bench.Case) -> None:
    """First audit, then 400 more training labels, then a second audit: unbiased, and less spread."""
    asked = case.asked()
    first = plan_audit(case.scan, 120, case.threshold, asked)
    both, second_alone = [], []
    for seed in range(60):
        one = draw_audit(case.scan, first, case.known, rng(seed))
        after = asked.then(one.scores, is_member(one.ids, case.positives), 1, one.inclusion_probability)
        seen = np.union1d(case.known, one.ids)
        bought = np.sort(case.scan.space.sample(400, rng(900 + seed), outside=seen))
        labels = is_member(bought, case.positives)
        after = after.then(case.scan.scores(bought), labels, 0, np.ones(400))
        seen = np.union1d(seen, bought)
        second = plan_audit(case.scan, 120, case.threshold, after)
        two = draw_audit(case.scan, second, seen, rng(500 + seed))
        labels = is_member(two.ids, case.positives)
        forgetful = AskedPairs(after.scores, after.labels, after.audit * 0, after.inclusion_probability)
        both.append(after.then(two.scores, labels, 2, two.inclusion_probability))
        second_alone.append(forgetful.then(two.scores, labels, 1, two.inclusion_probability))
    totals = [
        [stratum_counts(second.strata, each).expected(second.strata).sum() for each in group]
        for group in (both, second_alone)
    ]
    assert abs(np.mean(totals[0]) - len(case.positives)) < 4 * np.std(totals[0]) / np.sqrt(60)
    assert np.std(totals[0]) < np.std(totals[1])


def test_what_was_bought_since_is_taken_off() -> None:
    """Audit 1: 5 of 10 of 1,000 pairs match. Then training buys 500, all matches: none is left."""
    only = Strata(np.array([-2.0], np.float32), np.array([1000]))
    asked = drawn(only, [(10, 5, 0.01)])
    assert stratum_counts(only, asked).expected(only)[0] == pytest.approx(500)
    bought = asked.then(np.zeros(500, np.float32), np.ones(500), 0, np.ones(500))
    held = stratum_counts(only, bought)
    assert held.expected(only)[0] == pytest.approx(505)  # 500 bought, 5 drawn, none expected in the rest
    assert held.drawn[0] == pytest.approx(10 * 0.5**2)  # half of what it spoke for is known by now


def test_unequal_weights_count_as_their_effective_number() -> None:
    """10 labels of weight 10 and 10 of weight 100 in one stratum: (Σw)²/Σw² = 1,100²/101,000 ≈ 12."""
    only = Strata(np.array([-2.0], np.float32), np.array([1100]))
    scores = np.zeros(20, np.float32)
    asked = AskedPairs.nothing().then(scores, np.arange(20) < 10, 1, np.repeat([0.1, 0.01], 10))
    held = stratum_counts(only, asked)
    assert held.drawn[0] == pytest.approx(11.98, abs=0.01)
    assert held.hits[0] / held.drawn[0] == pytest.approx(100 / 1100)  # all hits are light ones


@pytest.mark.slow
def test_several_draws_together_are_unbiased_and_cover() -> None:
    """A look, the rest, and 60 more under one scorer: the mean of 30 such audits is near the truth."""
    made = bench.synthetic_case(400, seed=5)
    strata, found, covered = bench.strata_of(made, 150), [], 0
    for seed in range(30):
        asked = bench.audited(made, AskedPairs.nothing(), [(30, True), (60, False), (60, False)], rng(seed))
        result = estimate_audit(strata, asked, made.threshold, rng(seed), draws=400)
        found.append(result.positives.value)
        covered += result.positives.low <= len(made.positives) <= result.positives.high
    # What a draw finds decides where the next one looks, so a small bias is allowed besides chance.
    assert np.mean(found) == pytest.approx(len(made.positives), rel=0.15) and covered >= 26

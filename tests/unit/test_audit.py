"""Labels drawn with known chances: fair draws, unbiased values, limits that hold."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import experiments.bench.audit_coverage as bench
from examples import examples
from pairsieve.audit import draws as drawing
from pairsieve.audit.draws import (
    AskedPairs,
    Strata,
    allocate,
    draw_pairs,
    strata_from_counts,
    stratum_counts,
    whole_labels,
)
from pairsieve.audit.earlier_draws import earlier_draws_estimate
from pairsieve.audit.errors import AnswerErrors, errors_among
from pairsieve.audit.estimate import Limits, estimate, threshold_for_precision
from pairsieve.audit.ranked import Layout
from pairsieve.audit.run import estimate_at, places_of, plan
from pairsieve.contracts import Estimate
from pairsieve.errors import InputError
from pairsieve.measure.curve import curve_from_scores
from pairsieve.pairs import AllPairs, Ids, is_member
from pairsieve.scan import Scan, open_scan, unit_rows


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def drawn(
    strata: Strata, counts: list[tuple[int, int, float]], before: AskedPairs | None = None
) -> AskedPairs:
    """A draw with (labels, matches, inclusion probability) in each stratum."""
    asked = before or AskedPairs.nothing()
    number = int(asked.audit.max(initial=0)) + 1
    for edge, (labels, matches, chance) in zip(strata.edges, counts):
        scores = np.full(labels, edge, np.float32)
        asked = asked.then(scores, np.arange(labels) < matches, number, np.full(labels, chance))
    return asked


THREE = Strata(np.array([0.8, 0.5, -2.0], np.float32), np.array([100, 1000, 1_000_000]))


@dataclass(frozen=True)
class Space:
    """Groups of about two texts, all pairs of which are scored; some of the best are known."""

    scan: Scan
    positives: Ids
    known: Ids
    threshold: float

    def asked(self) -> AskedPairs:
        scores = self.scan.scores(self.known)
        return AskedPairs.nothing().then(
            scores, is_member(self.known, self.positives), 0, np.ones(len(scores))
        )


def space(texts: int, seed: int, known: int = 0) -> Space:
    random = rng(seed)
    member = random.integers(texts // 2, size=texts)
    centres = random.normal(size=(texts // 2, 24))
    rows = unit_rows(centres[member] + 0.8 * random.normal(size=(texts, 24)))
    pairs = AllPairs(texts)
    left, right = np.nonzero(np.triu(member[:, None] == member[None, :], 1))
    scan = open_scan(pairs, rows, None, device="cpu")
    every = pairs.unrank(np.arange(pairs.size))
    best = every[np.argsort(-scan.scores(every), kind="stable")]
    at = scan.scores(best[max(known, 60) : max(known, 60) + 1])[0]
    return Space(scan, np.unique(pairs.ids(left, right)), np.sort(best[:known:2]), float(at))


@pytest.fixture(scope="module")
def case() -> Space:
    """400 texts, 79,800 pairs; every other of the 300 best-ranked ones was bought before."""
    return space(400, 3, 300)


# ── strata and allocation ───────────────────────────────────────────────────────────────────────


def test_ranks_double_to_the_reach_and_thresholds_are_edges() -> None:
    """1,000 pairs scored 0.001, 0.002, … 1.000: ranks 32, 64, 128 are cut, the score 0.9 (rank 101), reach
    200.
    """
    scores = (np.arange(1, 1001) / 1000).astype(np.float32)
    reaching = np.arange(1000, 0, -1)
    strata, reach = strata_from_counts(scores, reaching, 1000, scores[899:900], labels=300, reach=200)
    assert np.cumsum(strata.totals).tolist() == [32, 64, 101, 128, 200, 1000]
    assert strata.edges[2] == np.float32(0.9) and reach == strata.edges[4]
    assert strata.of(scores[[999, 968, 967, 899, 898, 0]]).tolist() == [0, 0, 1, 2, 3, 5]


def test_few_labels_make_few_strata_and_ties_stay_together() -> None:
    scores = (np.arange(1, 1001) / 1000).astype(np.float32)
    reaching = np.arange(1000, 0, -1)
    assert len(strata_from_counts(scores, reaching, 1000, scores[:0], labels=20)[0]) == 3
    tied, _ = strata_from_counts(scores[[400, 800]], np.array([1000, 700]), 1000, scores[:0], 300)
    assert tied.totals.tolist() == [700, 300]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.floats(0.0, 1.0)), min_size=1, max_size=20),
    st.integers(1, 500),
    st.integers(0, 19),
)
def test_an_allocation_spends_the_labels(strata: list[tuple[int, float]], labels: int, reach: int) -> None:
    sizes = np.array([size for size, _ in strata])
    rates = np.array([rate for _, rate in strata])
    edges = np.linspace(0.9, -0.9, len(sizes)).astype(np.float32)
    ranking = Strata(edges, sizes)
    given_ = allocate(ranking, AskedPairs.nothing(), labels, float(edges[min(reach, len(edges) - 1)]), rates)
    assert given_.sum() == pytest.approx(min(labels, sizes.sum())) and (given_ >= 0).all()
    assert (given_ <= sizes + 1e-6).all()
    whole = whole_labels(given_, rng(labels))
    assert whole.sum() == round(given_.sum()) and (np.abs(whole - given_) <= 1).all()


def test_labels_go_where_they_tell_most() -> None:
    """Half-sure pairs beat sure ones; beyond the reach there is the even half alone."""
    labels = allocate(THREE, AskedPairs.nothing(), 300, 0.5, np.array([0.999, 0.5, 0.5]))
    assert labels[1] > 1.5 * labels[0] and labels[2] == pytest.approx(50)


# ── drawing ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("gathered", [pytest.param(0, marks=pytest.mark.slow), 1 << 18])
def test_draws_are_uniform_inside_strata(case: Space, gathered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each free pair of a stratum is drawn equally often, whether strata are gathered or drawn into."""
    monkeypatch.setattr(drawing, "GATHER_AT_MOST", gathered)
    asked = case.asked()
    strata, expected = plan(case.scan, asked, 120, case.threshold)
    free = strata.totals - strata.count(asked.scores)
    picked, lefts = [], []
    for seed in range(60):
        found = draw_pairs(case.scan, strata, expected, asked, case.known, rng(seed))
        assert len(np.unique(found.ids)) == 120 and not is_member(found.ids, case.known).any()
        assert np.array_equal(found.stratum, strata.of(case.scan.scores(found.ids)))
        assert found.inclusion_probability == pytest.approx((expected / free)[found.stratum])
        picked.append(found.ids[found.stratum == 2])
        lefts.append(found.ids[found.stratum == len(strata) - 1] >> 32)
    times = np.unique(np.concatenate(picked), return_counts=True)[1]
    often = 60 * expected[2] / free[2]
    assert times.max() < often + 6 * np.sqrt(often) + 1
    every = case.scan.space.unrank(np.arange(case.scan.space.size))
    every = every[strata.of(case.scan.scores(every)) == len(strata) - 1]
    mine, all_left = np.concatenate(lefts), every >> 32
    assert abs(mine.mean() - all_left.mean()) < 4 * all_left.std() / np.sqrt(len(mine))


def test_a_seed_gives_the_same_draw(case: Space) -> None:
    strata, expected = plan(case.scan, case.asked(), 60, case.threshold)
    once, again = (
        draw_pairs(case.scan, strata, expected, case.asked(), case.known, rng(5)) for _ in range(2)
    )
    assert np.array_equal(once.ids, again.ids)


def test_a_budget_beyond_the_space_is_exact() -> None:
    """Every pair labelled: no width, and AP by the scores inside strata."""
    tiny = space(16, 1)
    asked = AskedPairs.nothing()
    strata, expected = plan(tiny.scan, asked, 1000, tiny.threshold)
    found = draw_pairs(tiny.scan, strata, expected, asked, tiny.known, rng())
    assert sorted(found.ids) == tiny.scan.space.unrank(np.arange(120)).tolist()
    labels = is_member(found.ids, tiny.positives)
    asked = asked.then(found.scores, labels, 1, found.inclusion_probability)
    exact = curve_from_scores(found.scores[labels], found.scores[~labels]).average_precision()
    for moved in (False, True):
        result = estimate_at(tiny.scan, asked, tiny.threshold, rng(), moved)
        over = result.over_all
        assert over.positives.low == over.positives.high == len(tiny.positives)
        assert over.average_precision is not None
        assert over.average_precision.low == pytest.approx(exact) == over.average_precision.high
        assert result.precision.low == result.precision.high


# ── values ──────────────────────────────────────────────────────────────────────────────────────


def test_worked_numbers() -> None:
    """8 of 10 of 100, 3 of 10 of 1,000, 0 of 10 of a million: 380 matches of 1,100 pairs above 0.5."""
    asked = drawn(THREE, [(10, 8, 0.1), (10, 3, 0.01), (10, 0, 1e-5)])
    result = estimate(THREE, asked, 0.8, rng(), reach=0.5)
    assert result.positives.value == pytest.approx(380) and result.reach_pairs == 1100
    assert result.left.value == pytest.approx(380 - 11)
    assert result.precision.value == pytest.approx(0.8)
    assert isinstance(result.recall, Limits) and result.recall.low < 80 / 380 < result.recall.high
    assert result.precision.low < 0.8 < result.precision.high
    # Clopper and Pearson: 0 of 10 allows a rate of 0.31, so the draws cannot rule out 300,000 more.
    assert 250_000 < result.over_all.positives.high < 400_000
    assert result.over_all.recall is not None and result.over_all.recall.low < 0.001


def test_known_pairs_count_as_they_are() -> None:
    """All 100 best pairs were bought, 60 match: only the rest is in doubt."""
    before = AskedPairs.nothing().then(np.full(100, 0.8, np.float32), np.arange(100) < 60, 0, np.ones(100))
    asked = drawn(THREE, [(0, 0, 1.0), (20, 5, 0.02), (10, 0, 1e-5)], before)
    result = estimate(THREE, asked, 0.8, rng(), reach=0.5)
    assert (result.precision.low, result.precision.value, result.precision.high) == (0.6, 0.6, 0.6)
    assert result.precision_of_new is None and result.positives.value == pytest.approx(60 + 250)
    assert result.recall_of_known is not None and result.recall_of_known.n == 65


def test_what_is_undefined_has_no_figure() -> None:
    """No match seen: recall and AP are not zero but undefined, or not known."""
    result = estimate(THREE, drawn(THREE, [(10, 0, 0.1), (10, 0, 0.01), (10, 0, 1e-5)]), 0.5, rng())
    assert result.recall is None and result.average_precision is None and result.recall_of_known is None
    assert result.positives.value == 0 and result.positives.high > 100
    with pytest.raises(InputError, match="no pair reaches"):
        estimate(THREE, drawn(THREE, [(1, 0, 0.1)] * 3), 0.99, rng())


def test_pairs_without_a_label_are_left_out() -> None:
    """50 of the 100 best pairs were asked and nobody was sure: the space has 50 fewer pairs."""
    unsure = AskedPairs.nothing().then(np.full(50, 0.8, np.float32), np.full(50, -1), 0, np.ones(50))
    asked = drawn(THREE, [(10, 8, 0.2), (10, 3, 0.01), (10, 0, 1e-5)], unsure)
    result = estimate(THREE, asked, 0.8, rng())
    assert result.unsure == 50 and result.precision.value == pytest.approx(0.8)


def test_what_was_bought_since_is_taken_off() -> None:
    """5 of 10 of 1,000 pairs match. Then training buys 500, all matches: as many as there were."""
    only = Strata(np.array([-2.0], np.float32), np.array([1000]))
    asked = drawn(only, [(10, 5, 0.01)])
    assert stratum_counts(only, asked).value[0] == pytest.approx(500)
    held = stratum_counts(only, asked.then(np.zeros(500, np.float32), np.ones(500), 0, np.ones(500)))
    assert held.value[0] == pytest.approx(0) and held.known_matches[0] == 500
    assert held.effective[0] == pytest.approx(10 * 0.5**2)  # half of what it spoke for is known by now


def test_draws_count_by_their_size_and_unequal_weights_by_their_effective_number() -> None:
    """Draws of 10 and 30 labels in one stratum of 1,000: means 0.5 and 0.1 make 0.25 · 0.5 + 0.75 · 0.1."""
    only = Strata(np.array([-2.0], np.float32), np.array([1000]))
    asked = drawn(only, [(30, 3, 0.03)], drawn(only, [(10, 5, 0.01)]))
    held = stratum_counts(only, asked)
    assert held.rate[0] == pytest.approx(0.2) and held.effective[0] == pytest.approx(40)
    mixed = AskedPairs.nothing().then(
        np.zeros(20, np.float32), np.arange(20) < 10, 1, np.repeat([0.1, 0.02], 10)
    )
    assert stratum_counts(only, mixed).effective[0] == pytest.approx(600**2 / (10 * 100 + 10 * 2500))


def test_wrong_answers_are_taken_off() -> None:
    """Of 1,000 answers one in ten says "match", and one in ten is wrong: there may be no match at all."""
    only = Strata(np.array([-2.0], np.float32), np.array([100_000]))
    asked = drawn(only, [(1000, 100, 0.01)])
    told = estimate(only, asked, -2.0, rng())
    corrected = estimate(only, asked, -2.0, rng(), errors=AnswerErrors(0.1))
    assert told.positives.low > 8000 and corrected.positives.low == 0
    values = (corrected.precision, corrected.positives, corrected.left, corrected.recall)
    assert all(isinstance(each, Limits) for each in values)  # cut off at 0 a value would be biased
    twice = AnswerErrors.from_pairs(18, 10, 72)
    assert twice.rate == pytest.approx(0.1)  # 2 · 0.1 · 0.9
    unsure = estimate(only, asked, -2.0, rng(), errors=twice)
    assert unsure.positives.high > corrected.positives.high  # the rate itself is in doubt


def test_the_matches_left_are_those_among_pairs_nobody_labelled_whatever_the_answers_say() -> None:
    """All 1,000 pairs are labelled, one in ten wrongly: nothing is left, and not minus the false ones."""
    only = Strata(np.array([-2.0], np.float32), np.array([1000]))
    asked = AskedPairs.nothing().then(np.zeros(1000, np.float32), np.arange(1000) < 180, 0, np.ones(1000))
    found = estimate(only, asked, -2.0, rng(), errors=AnswerErrors(0.1))
    assert found.left.low == found.left.high == 0
    assert found.positives.low < (180 - 100) / 0.8 < found.positives.high < 180
    half = asked.where(np.arange(1000) < 900)  # 180 of 900 say "match": 90 of them wrongly
    more = half.then(np.zeros(50, np.float32), np.arange(50) < 10, 1, np.full(50, 0.5))
    rest = estimate(only, more, -2.0, rng(), errors=AnswerErrors(0.1)).left
    assert rest.low < 50 / 8 < rest.high < 30


def test_the_error_rate_is_that_of_the_first_two_answers_of_pairs_answered_twice() -> None:
    """Of 40 pairs answered by two people 4 differ; a third answer, an unsure one and the truth's do not."""
    alone = [(pair, "ann", 0) for pair in range(100)]
    again = [(pair, "bea", int(pair < 4)) for pair in range(40)]
    others = [(0, "cid", 1), (50, "bea", None), (60, "truth", 1)]
    found = errors_among([*alone, *again, *others])
    assert found is not None and (found.disagreed, found.twice) == (4, 40)
    assert (found.matches, found.others) == (0, 36)
    assert found.alone == pytest.approx(0.6)  # where two agree, neither is taken to be wrong
    assert found.rate == pytest.approx(0.6 * (1 - np.sqrt(1 - 0.2)) / 2)
    assert errors_among([*alone, *again[:19]]) is None
    stated = errors_among([*alone[:40], *again, *((pair, "the task's labels", 0) for pair in range(100))])
    assert stated is not None and stated.twice == 40  # its labels are one answer, and no second one
    assert stated.alone == pytest.approx(0.6)


def test_all_wrong_answers_may_be_one_persons_and_about_one_class() -> None:
    """Of pairs answered twice 15 differ, 45 match by both, 40 by none: of 60 matches 15 may be wrong."""
    box = AnswerErrors.from_pairs(15, 45, 40).box(0.05)
    assert box.false[0] == box.missed[0] == 0  # they may be the other person's

    def at_most_15(of: int, share: float) -> float:
        return sum(math.comb(of, k) * share**k * (1.0 - share) ** (of - k) for k in range(16))

    assert at_most_15(60, box.missed[1]) == pytest.approx(0.025, abs=0.006)  # Clopper and Pearson
    assert at_most_15(55, box.false[1]) == pytest.approx(0.025, abs=0.006)
    text = str(AnswerErrors.from_pairs(15, 45, 40))
    assert "15 of 100 pairs" in text and "supposes that two people err independently" in text


@pytest.mark.parametrize("says", [150, 850])
def test_answers_wrong_about_one_class_only_are_allowed_for(says: int) -> None:
    """No pair matches and one model says so of 15 in 100, or all do and it misses 15. The person is right."""
    only = Strata(np.array([-2.0], np.float32), np.array([100_000]))
    asked = drawn(only, [(1000, says, 0.01)])
    agreed = (0, 850) if says == 150 else (850, 0)
    found = estimate(only, asked, -2.0, rng(), errors=AnswerErrors.from_pairs(150, *agreed))
    moved = earlier_draws_estimate(only, asked, -2.0, errors=AnswerErrors.from_pairs(150, *agreed))
    for each in (found, moved):
        assert each.precision.low == 0 if says == 150 else each.precision.high == 1


@pytest.mark.slow
@pytest.mark.parametrize("regime", ["one annotator wrong", "only non-matches wrong", "only matches wrong"])
def test_limits_hold_whoever_errs_and_about_what(regime: str) -> None:
    found = bench.study(bench.cases(1)[regime](), 90, 40, 1)["figures"]
    held = {name: row["coverage"] for name, row in found.items()}
    assert min(held.values()) >= 0.9, held


def test_a_ratio_is_corrected_for_its_curvature_and_has_a_value_from_150_labels_on() -> None:
    """64 of 80 labels above match, 24 of 80 below: 80 of 380, less what the errors of both add on average."""
    asked = drawn(THREE, [(80, 64, 0.8), (80, 24, 0.08), (10, 0, 1e-5)])
    result = estimate(THREE, asked, 0.8, rng(), reach=0.5)
    assert isinstance(result.recall, Estimate) and isinstance(result.average_precision, Estimate)
    by_hand = rng()
    above = 1.25 * by_hand.hypergeometric(80, 20, 80, 200_000)
    below = 12.5 * by_hand.hypergeometric(300, 700, 80, 200_000)
    bias = np.mean(above / (above + below)) - 80 / 380
    assert bias > 0.002 and result.recall.value == pytest.approx(80 / 380 - bias, abs=0.001)


def test_unlabelled_matches_lie_as_the_drawn_ones_do() -> None:
    """Ten labels of 100 pairs, the best five match: the 45 others are taken to stand in the upper half."""
    one = Strata(np.array([0.0], np.float32), np.array([100]))
    scores = np.linspace(1, 0.1, 10).astype(np.float32)
    asked = AskedPairs.nothing().then(scores, np.arange(10) < 5, 1, np.full(10, 0.1))
    ranks = np.arange(1, 101, 10).astype(np.float64)
    layout = Layout.as_drawn(one, np.array([100.0]), asked, ranks, True)
    assert layout.sampled is not None and layout.sampled[layout.before >= 50].sum() == 0
    assert layout.average_precision(np.array([[50.0]]), np.array([True]))[0] == pytest.approx(1.0, abs=0.01)


def test_average_precision_is_the_mean_over_places_of_unlabelled_matches() -> None:
    """Matches at random places of their strata: AP is the mean of the exact one."""
    draw = rng()
    for totals, matches in (([32, 32, 64], [20, 10, 8]), ([32, 400], [3, 2]), ([100], [1])):
        strata = Strata(np.linspace(0.9, -2, len(totals)).astype(np.float32), np.array(totals))
        starts, exact = np.cumsum(totals) - totals, []
        for _ in range(4000):
            pieces = zip(starts, totals, matches)
            place = np.sort(np.concatenate([at + draw.choice(n, m, replace=False) for at, n, m in pieces]))
            exact.append(np.mean(np.arange(1, len(place) + 1) / (place + 1)))
        layout = Layout.of(strata, np.array(totals, float), AskedPairs.nothing(), None, True)
        found = layout.average_precision(np.array([matches], float), np.ones(len(totals), bool), 0.0)[0]
        assert found == pytest.approx(np.mean(exact), abs=max(0.002, 3 * np.std(exact) / np.sqrt(4000)))


def test_the_ends_of_average_precision_are_those_of_all_matches_between_two_limits() -> None:
    """No matches of three strata on a grid between their limits have an AP beyond the ends."""
    strata = Strata(np.array([0.8, 0.5, -2.0], np.float32), np.array([100, 1000, 20_000]))
    layout = Layout.of(strata, strata.totals.astype(float), AskedPairs.nothing(), None, True)
    lower, upper = np.array([[60.0, 5.0, 0.0]]), np.array([[90.0, 300.0, 6000.0]])
    share = np.stack(np.meshgrid(*[np.linspace(0, 1, 21) ** 3] * 3), -1).reshape(-1, 3)
    every = layout.average_precision(lower + share * (upper - lower), np.ones(3, bool), 0.0)
    ends = [each(lower, upper, np.ones(3, bool), 0.0)[0] for each in (layout.lowest, layout.highest)]
    assert ends[0] == pytest.approx(every.min(), rel=0.02) and ends[1] == pytest.approx(every.max(), rel=1e-6)
    assert ends[0] < layout.average_precision(lower, np.ones(3, bool), 0.0)[0]


def test_matches_left_are_not_cut_off() -> None:
    """Of 40 pairs 30 were drawn at once with 1 match, then 9 with 3: one pair is left, and no negative
    number of matches.
    """
    only = Strata(np.array([-2.0], np.float32), np.array([40]))
    held = stratum_counts(only, drawn(only, [(9, 3, 0.9)], drawn(only, [(30, 1, 0.75)])))
    assert held.value[0] == pytest.approx(4 + held.rate[0]) and 0 < held.rate[0] < 1


def test_ranks_are_counted_where_labelled_pairs_stand(case: Space) -> None:
    ahead, ranks = places_of(case.scan, case.asked())
    given = case.asked().labels >= 0
    assert (ahead[given] == ranks[given] - 1).mean() > 0.99
    assert (ranks[~given] == 0).all() and ranks[given].min() == 1 and ranks[given].max() <= 300


def test_unlabelled_matches_do_not_lie_where_pairs_have_labels() -> None:
    """Of 100 pairs the last 50 were asked, and none matches: matches that nobody labelled lie above them."""
    one = Strata(np.array([-2.0], np.float32), np.array([100]))
    ranks = np.arange(51, 101).astype(np.float64)
    asked = AskedPairs.nothing().then(np.linspace(0, -1, 50, dtype=np.float32), np.zeros(50), 0, np.ones(50))
    layout = Layout.of(one, np.array([100.0]), asked, ranks, True)
    shares = layout._spread(np.array([[40.0]]), 1.0)
    assert shares[layout.before >= 50].sum() < 0.01 and shares.sum() == pytest.approx(1.0)


@pytest.mark.slow
def test_a_threshold_that_the_labels_chose_has_limits_that_hold_for_all_it_was_chosen_of() -> None:
    """2,000 pairs in 20 strata, half of each match, 15 labels of each: the lowest edge with an estimated
    precision of 0.55 has a better estimate than precision. Limits at each edge hold for all at once.
    """
    strata = Strata(np.linspace(0.9, -1.0, 20).astype(np.float32), np.full(20, 100))
    random, off, held = rng(1), [], []
    for _ in range(60):
        counts = [(15, int(hits), 0.15) for hits in random.hypergeometric(50, 50, 15, 20)]
        asked = drawn(strata, counts)
        try:
            at = threshold_for_precision(strata, asked, 0.55)
        except InputError:
            continue
        naive = estimate(strata, asked, at, random, draws=40).precision
        assert isinstance(naive, Estimate)
        off.append(naive.value - 0.5)
        chosen = estimate(strata, asked, at, random, draws=40, chosen_of=20)
        for figure in (chosen.precision, chosen.positives, chosen.left, chosen.recall):
            assert isinstance(figure, Limits)
        held.append(chosen.precision.low <= 0.5 <= chosen.precision.high)
    assert len(off) > 20 and np.mean(off) > 0.05 and np.mean(held) > 0.95


@pytest.mark.parametrize(("unseen", "valued"), [(40, True), (1000, False)])
def test_a_figure_has_a_value_where_few_of_its_pairs_lie_in_strata_without_a_label(
    unseen: int, valued: bool
) -> None:
    """Within reach 2,000 pairs have labels, and so many have none: 40 are 2 %, 1,000 a third of all."""
    strata = Strata(np.array([0.8, 0.5, 0.3, -2.0], np.float32), np.array([100, 1900, unseen, 100_000]))
    asked = drawn(strata, [(50, 40, 0.5), (150, 15, 150 / 1900), (0, 0, 1.0), (10, 0, 1e-4)])
    found = estimate(strata, asked, 0.8, rng(), reach=0.3)
    assert isinstance(found.precision, Estimate)  # its own stratum has labels
    for figure in (found.positives, found.left, found.recall, found.average_precision):
        assert isinstance(figure, Estimate) is valued

"""The sampled measures against the enumerated truth: counts, weights, bias, intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.metrics import average_precision_score

from examples import examples
from experiments.bench.estimator_coverage import SyntheticTask, standard_errors_off, study, synthetic_task
from pairsieve.errors import InputError
from pairsieve.measure.estimated import _FalsePositives, _reciprocal, estimate
from pairsieve.measure.sampling import NEAR, POSITIVE, RANDOM, PairSample, draw, listed_sample, near_pairs
from pairsieve.pairs import AllPairs, CrossPairs, pair_ids


def scores_of(task: SyntheticTask, sample: PairSample) -> np.ndarray:
    return task.scores[np.searchsorted(task.ids, sample.ids)]


class TestNearPairs:
    # Rows 0 and 1 name each other; 2 names 0; 3 names itself and has one neighbour too few.
    neighbours = np.array([[1, 3], [0, 2], [0, 1], [3, -1]])

    def test_unordered_counts_a_pair_once(self) -> None:
        ids, times = near_pairs(AllPairs(4), self.neighbours, np.empty(0, np.int64))
        assert ids.tolist() == pair_ids([0, 0, 0, 1], [1, 2, 3, 2]).tolist()
        assert times.tolist() == [1, 1, 1, 1]

    def test_ordered_counts_a_mutual_pair_twice(self) -> None:
        ids, times = near_pairs(AllPairs(4), self.neighbours, np.empty(0, np.int64), "ordered")
        # 0-1: both lists; 0-2: only 2's; 0-3: only 0's; 1-2: both.
        assert dict(zip(ids.tolist(), times.tolist())) == dict(
            zip(pair_ids([0, 0, 0, 1], [1, 2, 3, 2]).tolist(), [2, 1, 1, 2])
        )

    def test_positives_are_left_out(self) -> None:
        ids, _ = near_pairs(AllPairs(4), self.neighbours, pair_ids([0, 1], [1, 2]))
        assert ids.tolist() == pair_ids([0, 0], [2, 3]).tolist()

    def test_a_text_of_two_collections_may_meet_its_own_row_number(self) -> None:
        ids, times = near_pairs(
            CrossPairs(2, 3), np.array([[0, 2], [1, -1]]), np.empty(0, np.int64), "ordered"
        )
        assert ids.tolist() == pair_ids([0, 0, 1], [0, 2, 1]).tolist()
        assert times.tolist() == [1, 1, 1]

    def test_lists_of_another_collection_are_refused(self) -> None:
        with pytest.raises(InputError, match="name texts outside"):
            near_pairs(AllPairs(3), self.neighbours, np.empty(0, np.int64))


class TestDraw:
    @settings(max_examples=examples(40))
    @given(st.integers(3, 40), st.integers(1, 30), st.integers(0, 30), st.integers(1, 2000), st.booleans())
    def test_the_weights_add_up_to_the_space(
        self, texts: int, positives: int, near: int, sample: int, cross: bool
    ) -> None:
        rng = np.random.default_rng(texts)
        space = CrossPairs(texts, texts + 2) if cross else AllPairs(texts)
        known = space.unrank(rng.permutation(space.size)[:positives])
        close = space.unrank(rng.permutation(space.size)[:near])
        drawn = draw(space, known, close, sample, rng)
        assert (np.diff(drawn.ids) > 0).all() and space.contains(drawn.ids).all()
        assert drawn.weights.sum() == pytest.approx(space.size)
        assert set(drawn.ids[drawn.stratum == POSITIVE]) == set(known)
        assert set(drawn.ids[drawn.stratum == NEAR]) == set(close) - set(known)
        far = space.size - len(set(known) | set(close))
        assert (drawn.stratum == RANDOM).sum() == min(sample, far)

    def test_nobody_standing_for_the_far_negatives_is_refused(self) -> None:
        with pytest.raises(InputError, match="42 negatives are neither near nor positive"):
            draw(AllPairs(10), pair_ids([0], [1]), pair_ids([0, 1], [2, 2]), 0, np.random.default_rng(0))


class TestEstimate:
    def test_worked_example(self) -> None:
        """45 pairs, 2 positives, 3 near negatives, so 40 far ones, of which 4 are drawn: each counts ten."""
        sample = PairSample(
            ids=pair_ids([0] * 9, range(1, 10)),
            stratum=np.array([0, 0, 1, 1, 1, 2, 2, 2, 2], np.int8),
            inclusion_probability=np.array([1, 1, 1, 1, 1, 0.1, 0.1, 0.1, 0.1]),
            counted=np.ones(9, np.float32),
            pairs=45,
        )
        scores = [0.9, 0.5, 0.95, 0.6, 0.2, 0.5, 0.1, 0.1, 0.1]
        found = estimate(sample, scores, AllPairs(10), rng=np.random.default_rng(0), recalls=(0.5, 1.0))
        assert found.curve.thresholds.tolist() == pytest.approx([0.9, 0.5])
        assert found.curve.true_positives.tolist() == [1, 2]
        assert found.curve.false_positives.tolist() == [1, 12]  # one near; two near and a tied far one, ×10
        assert found.curve.average_precision() == pytest.approx(0.5 * 1 / 2 + 0.5 * 2 / 14)
        assert found.precision_at_recall[0.5].value == pytest.approx(
            1 / 2
        )  # no far pair drawn: the plain ratio
        # k = 1, a = 4, f = 0.1: r = 1/4 - 10/(4·5) = -0.25, which is also the floor -1/a. The sum is 0: no
        # ranking has less than the share of positives, 2 of 45.
        assert 0.5 * 1 / 2 + 0.5 * 2 * -0.25 == 0.0
        assert found.average_precision.value == pytest.approx(2 / 45)
        assert found.average_precision.n == 9
        assert (
            "3 near negatives counted, 4 random negatives weighing 10.0 each"
            in found.average_precision.method
        )

    def test_ordered_counting_weighs_mutual_near_negatives_twice(self) -> None:
        space, known = AllPairs(5), pair_ids([0], [1])
        near, times = near_pairs(space, np.array([[2], [4], [0], [4], [3]]), known, "ordered")
        drawn = draw(space, known, near, 100, np.random.default_rng(0), near_times=times)
        assert drawn.near_counting == "ordered"
        found = estimate(drawn, np.ones(10), space, rng=np.random.default_rng(0), repeats=20)
        # nine negatives, and 0-2 and 3-4 once more each
        assert found.curve.false_positives.tolist() == [11]

    @pytest.mark.parametrize("cross", [False, True])
    @pytest.mark.parametrize("tied", [False, True])
    def test_everything_drawn_is_exact(self, cross: bool, tied: bool) -> None:
        task = synthetic_task(np.random.default_rng(1), 40, cross=cross, tied=tied)
        drawn = draw(task.space, task.positives, task.near, 10**6, np.random.default_rng(0))
        found = estimate(
            drawn,
            scores_of(task, drawn),
            task.space,
            rng=np.random.default_rng(0),
            resample="draw",
            repeats=20,
        )
        truth = average_precision_score(np.isin(task.ids, task.positives), task.scores)
        for value in (
            found.average_precision.value,
            found.average_precision.low,
            found.average_precision.high,
        ):
            assert value == pytest.approx(truth, abs=1e-9)
        assert found.best_f1.value == pytest.approx(task.exact.best_f1().value)
        assert found.best_f1_threshold == task.exact.best_f1().threshold
        assert found.precision_at_recall[0.2].value == pytest.approx(task.exact.precision_at_recall(0.2))

    def test_texts_widen_the_interval(self) -> None:
        task = synthetic_task(np.random.default_rng(1), 100)
        drawn = draw(task.space, task.positives, task.near, 2000, np.random.default_rng(0))
        alone, texts = (
            estimate(
                drawn, scores_of(task, drawn), task.space, rng=np.random.default_rng(0), resample=cause
            ).average_precision
            for cause in ("draw", "texts")
        )
        assert alone.value == texts.value
        assert texts.low < alone.low < alone.value < alone.high < texts.high

    def test_a_sample_without_a_hit_still_has_a_lower_limit(self) -> None:
        """0 of 110 drawn, each standing for 45: by the rule of three (two-sided: 3.69) 166 may be there."""
        space = AllPairs(101)
        known = pair_ids(np.zeros(100, np.int64), np.arange(1, 101))
        drawn = draw(space, known, np.empty(0, np.int64), 110, np.random.default_rng(0))
        scores = (drawn.stratum == POSITIVE).astype(float)
        found = estimate(
            drawn, scores, space, rng=np.random.default_rng(0), resample="draw", repeats=4000
        ).precision_at_recall[0.5]
        weight = (space.size - 100) / 110
        assert (found.value, found.high) == (1.0, 1.0)
        assert found.low == pytest.approx(100 / (100 + 3.69 * weight), rel=0.05)

    def test_average_precision_is_not_below_the_base_rate(self) -> None:
        """Matches rank last: the unbiased estimate falls below 0 by its noise, which nobody should print."""
        space = AllPairs(200)
        known = space.unrank(np.arange(0, 40, 4))
        drawn = draw(space, known, np.empty(0, np.int64), 60, np.random.default_rng(55))
        scores = np.random.default_rng(1055).random(len(drawn.ids)).astype(np.float32)
        scores[drawn.stratum == POSITIVE] *= 0.3
        found = estimate(drawn, scores, space, rng=np.random.default_rng(0), repeats=20)
        assert found.average_precision.value == pytest.approx(10 / space.size)

    def test_the_same_generator_gives_the_same_figures(self) -> None:
        task = synthetic_task(np.random.default_rng(1), 60)
        drawn = draw(task.space, task.positives, task.near, 300, np.random.default_rng(0))
        one, other = (
            estimate(drawn, scores_of(task, drawn), task.space, rng=np.random.default_rng(5))
            for _ in range(2)
        )
        assert one.average_precision == other.average_precision
        assert one.precision_at_recall == other.precision_at_recall

    def test_bad_scores_are_named(self) -> None:
        drawn = draw(AllPairs(4), pair_ids([0], [1]), np.empty(0, np.int64), 9, np.random.default_rng(0))
        rng = np.random.default_rng(0)
        with pytest.raises(InputError, match=r"scores of shape \(3,\) for 6 sampled pairs"):
            estimate(drawn, np.zeros(3), AllPairs(4), rng=rng)
        with pytest.raises(InputError, match=r"score of pair \(left 0, right 3\) is not a number"):
            estimate(drawn, [0, 0, np.nan, 0, 0, 0], AllPairs(4), rng=rng)


# (how the task is made, share of far negatives drawn); see also experiments/bench/estimator_coverage.py
REGIMES = {
    "many hits": ({"high_far_share": 0.02}, 0.1),
    "two collections, tied": ({"high_far_share": 0.02, "cross": True, "tied": True}, 0.03),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REGIMES)
def test_unbiased_and_covering(name: str) -> None:
    """300 draws: the mean is within two standard errors, and 95 % intervals cover at least 92 %."""
    made, share = REGIMES[name]
    rng = np.random.default_rng(3)
    task = synthetic_task(rng, 200, **made)
    sample = round(share * (task.space.size - len(task.positives) - len(task.near)))
    found = study(task, sample, draws=300, repeats=100, resample="texts", rng=rng)
    exact = task.exact.average_precision()
    assert abs(standard_errors_off(found.average_precision, exact)) < 2
    assert standard_errors_off(found.plain_average_precision, exact) > 2  # what the correction is for
    point = task.exact.at_recall(0.2)
    assert abs(standard_errors_off(found.false_positives, task.exact.false_positives[point])) < 2
    assert min(found.covered_ap, found.covered_p20, found.covered_f1) >= 0.92


@pytest.mark.slow
def test_rare_and_heavy_hits_are_covered() -> None:
    """Half a hit expected at recall 0.2, as heavy as all that is counted: AP has no unbiased estimate there,
    but the counts have, the intervals cover, and most of the plain ratio's bias is gone."""
    rng = np.random.default_rng(3)
    task = synthetic_task(rng, 200, high_far_share=0.02)
    sample = round(0.015 * (task.space.size - len(task.positives) - len(task.near)))
    found = study(task, sample, draws=300, repeats=100, resample="texts", rng=rng)
    exact, point = task.exact.average_precision(), task.exact.at_recall(0.2)
    assert abs(standard_errors_off(found.false_positives, task.exact.false_positives[point])) < 2
    assert min(found.covered_ap, found.covered_p20, found.covered_f1) >= 0.92
    plain = standard_errors_off(found.plain_average_precision, exact)
    assert abs(standard_errors_off(found.average_precision, exact)) < plain / 2


@pytest.mark.slow
def test_intervals_for_this_space_alone_cover_too() -> None:
    rng = np.random.default_rng(4)
    task = synthetic_task(rng, 200, high_far_share=0.02)
    found = study(task, 1000, draws=300, repeats=100, resample="draw", rng=rng)
    assert min(found.covered_ap, found.covered_p20) >= 0.92
    assert found.covered_ap < 1  # wide enough, but not everything


@pytest.mark.parametrize("counted", [20, 60, 200, 1000])
@pytest.mark.parametrize("far", [20, 100, 400])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_the_expected_reciprocal(counted: int, far: int, share: float) -> None:
    """Over every number k of far pairs that may be drawn, weighted by its chance: no draw, no luck.

    Where a drawn pair weighs at most half of what is counted, r(k) is off by less than exp(-f(a+N)), the
    part of the integral it leaves out (and the rounding of the second-order form).
    """
    k = np.arange(far + 1)
    chance = binom.pmf(k, far, share)
    a, truth = np.full(far + 1, float(counted)), 1 / (counted + far)
    drawn = _FalsePositives(np.zeros(far + 1), k / share, k.astype(float))
    signed, bounded = _reciprocal(a, drawn, signed=True), _reciprocal(a, drawn)
    assert (bounded > 0).all() and (bounded <= 1 / a).all() and (signed >= -1 / a).all()
    plain = np.sum(chance / (a + k / share)) / truth - 1
    assert abs(np.sum(chance * bounded) / truth - 1) < plain
    if share * counted >= 2:
        left_out = 3e-4 + np.exp(-share * (counted + far))
        assert abs(np.sum(chance * signed) / truth - 1) < min(left_out, plain)


class TestListedSample:
    space = AllPairs(5)
    known = pair_ids([0], [1])

    def test_all_pairs_in_any_order(self) -> None:
        ids = self.space.unrank(np.arange(10))[::-1]
        sample, scores = listed_sample(self.space, ids, np.arange(10), self.known)
        assert scores.tolist() == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
        assert sample.stratum.tolist() == [POSITIVE] + [NEAR] * 9

    def test_a_drawn_list_gives_the_same_figures_as_the_draw(self) -> None:
        task = synthetic_task(np.random.default_rng(1), 60)
        drawn = draw(task.space, task.positives, task.near, 300, np.random.default_rng(0))
        scores = scores_of(task, drawn)
        shuffled = np.random.default_rng(2).permutation(len(drawn))
        listed, again = listed_sample(
            task.space,
            drawn.ids[shuffled],
            scores[shuffled],
            task.positives,
            drawn.inclusion_probability[shuffled],
        )
        one = estimate(drawn, scores, task.space, rng=np.random.default_rng(0))
        other = estimate(listed, again, task.space, rng=np.random.default_rng(0))
        assert one.average_precision == other.average_precision

    @pytest.mark.slow
    def test_unequal_chances_are_weighted_one_by_one(self) -> None:
        """Poisson sampling, high scores likelier: FP stays unbiased, and the intervals cover."""
        rng = np.random.default_rng(6)
        task = synthetic_task(rng, 100, high_far_share=0.02)
        positive = np.isin(task.ids, task.positives)
        chance = np.where(positive, 1.0, np.clip(0.02 + 0.2 / (1 + np.exp(-task.scores)), 0, 1))
        point, exact = task.exact.at_recall(0.2), task.exact.average_precision()
        counts, covered = [], []
        for _ in range(200):
            kept = rng.random(len(chance)) < chance
            sample, scores = listed_sample(
                task.space, task.ids[kept], task.scores[kept], task.positives, chance[kept]
            )
            found = estimate(sample, scores, task.space, rng=rng, repeats=60)
            counts.append(found.curve.false_positives[point])
            covered.append(found.average_precision.low <= exact <= found.average_precision.high)
        assert abs(standard_errors_off(np.array(counts), task.exact.false_positives[point])) < 2
        assert np.mean(covered) >= 0.92

    def test_refusals_say_what_and_why(self) -> None:
        every = self.space.unrank(np.arange(10))
        with pytest.raises(
            InputError, match=r"f.parquet: 1 of 1 positives have no score, first \(left 0, ri"
        ):
            listed_sample(self.space, every[1:], np.zeros(9), self.known, where="f.parquet")
        with pytest.raises(InputError, match="stand for 4 pairs, the split has 9"):
            listed_sample(self.space, every[:5], np.zeros(5), self.known)
        with pytest.raises(InputError, match=r"pair \(left 0, right 2\) is listed twice"):
            listed_sample(self.space, every[[0, 1, 1]], np.zeros(3), self.known)
        with pytest.raises(InputError, match=r"inclusion_probability 0.0 of pair \(left 0, right 1\)"):
            listed_sample(self.space, every, np.zeros(10), self.known, np.zeros(10))
        with pytest.raises(InputError, match=r"1 listed pairs lie outside AllPairs\(texts=5\)"):
            listed_sample(self.space, pair_ids([3], [2]), np.zeros(1), self.known)

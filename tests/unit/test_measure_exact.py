"""Average precision over all pairs: the definition, worked by hand, and against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

import pairsieve.scan
from examples import examples
from pairsieve.errors import InputError
from pairsieve.measure.curve import curve_from_scores, measure_exactly
from pairsieve.pairs import AllPairs, CrossPairs, pair_rows
from pairsieve.scan import open_scan, unit_rows


def test_average_precision_by_hand():
    """Scores 0.9+ 0.8- 0.7+ 0.7- 0.1+: the tie at 0.7 enters together.

    At 0.9: P = 1/1, R = 1/3. At 0.7: P = 2/4, R = 2/3. At 0.1: P = 3/5, R = 1.
    AP = 1/3 · (1 + 1/2 + 3/5) = 0.7.
    """
    curve = curve_from_scores([0.9, 0.7, 0.1], [0.8, 0.7])
    assert curve.average_precision() == pytest.approx(0.7)
    assert curve.precision_at_recall(0.2) == 1.0
    assert curve.precision_at_recall(1 / 3) == 1.0
    assert curve.precision_at_recall(0.34) == pytest.approx(0.5)
    best = curve.best_f1()
    assert (best.value, best.threshold) == (pytest.approx(0.75), pytest.approx(0.1))  # P 3/5, R 1


def space_with_labels(rng, symmetric, kind, least, most):
    width = int(rng.choice([3, 8, 64]))
    rows, columns = (int(size) for size in rng.integers(least, most, 2))
    space = AllPairs(rows) if symmetric else CrossPairs(rows, columns)

    def side(n):
        if kind == "copies":  # few distinct texts
            return rng.normal(size=(6, width))[rng.integers(0, 6, n)]
        if kind == "lattice":  # different texts, equal cosines
            return rng.integers(0, 2, (n, width)) * 2.0 - 1.0
        return rng.normal(size=(n, width))

    left = side(rows).astype(np.float32)
    right = left if symmetric else side(columns).astype(np.float32)
    ids = space.unrank(np.arange(space.size))
    mine, yours = pair_rows(ids)
    # Equal on paper, equal here: float64 cosines, rounded to nine digits.
    scores = (unit_rows(left, float) @ unit_rows(right, float).T)[mine, yours]
    scores = scores.round(9).astype(np.float32)
    positive = rng.random(space.size) < 0.3 / (1 + np.exp(8 * (0.8 - scores)))
    positive[rng.integers(space.size)] = True
    return space, left, None if symmetric else right, ids, scores, positive


def check_against_definition(space, left, right, ids, scores, positive):
    measures = measure_exactly(open_scan(space, left, right, device="cpu"), ids[positive])
    curve = measures.curve
    assert curve.average_precision() == pytest.approx(average_precision_score(positive, scores), abs=1e-6)
    descending = -np.sort(-scores[positive])
    for recall in (0.1, 0.2, 0.5, 1.0):
        threshold = descending[int(np.ceil(recall * len(descending) - 1e-9)) - 1]
        expected = positive[scores >= threshold].mean()
        assert curve.precision_at_recall(recall) == pytest.approx(expected, abs=1e-6)
    assert measures.histogram.positives.sum() == positive.sum()
    assert measures.histogram.negatives.sum() == (~positive).sum()


@settings(max_examples=examples(30))
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from(["continuous", "copies", "lattice"]))
def test_exact_average_precision_equals_scikit_learn(seed, symmetric, kind):
    rng = np.random.default_rng(seed)
    check_against_definition(*space_with_labels(rng, symmetric, kind, 20, 150))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("kind", ["continuous", "copies"])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_it_holds_over_several_tiles(symmetric, kind, seed):
    rng = np.random.default_rng(seed)
    check_against_definition(*space_with_labels(rng, symmetric, kind, 1030, 1300))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("kind", ["continuous", "copies"])
def test_single_precision_ties_what_is_a_copy(symmetric, kind, monkeypatch):
    """Large spaces multiply in float32: copies of a text tie to the bit wherever they stand."""
    monkeypatch.setattr(pairsieve.scan, "DOUBLE_BELOW", 0)
    rng = np.random.default_rng(4)
    check_against_definition(*space_with_labels(rng, symmetric, kind, 1030, 1200))


def test_a_pass_sees_the_scores_that_are_asked_for(monkeypatch):
    """Positives' scores come from the same arithmetic as everyone else's: equal to the bit, in any order."""
    monkeypatch.setattr(pairsieve.scan, "DOUBLE_BELOW", 0)
    rng = np.random.default_rng(0)
    space = CrossPairs(1100, 1300)
    scan = open_scan(space, rng.normal(size=(1100, 33)), rng.normal(size=(1300, 33)), device="cpu")
    seen = {}
    scan.collect(0.2, 0.21, lambda ids, scores: seen.update(zip(ids.tolist(), scores.tolist())))
    ids = rng.permutation(np.array(list(seen), dtype=np.int64))
    assert len(ids) > 1000
    assert scan.scores(ids).tolist() == [seen[i] for i in ids.tolist()]


def test_more_threads_count_the_same():
    rng = np.random.default_rng(0)
    space, left = AllPairs(2100), rng.normal(size=(2100, 16))
    thresholds = np.linspace(-1, 1, 1001, dtype=np.float32)
    one = open_scan(space, left, device="cpu", threads=1).count_reaching(thresholds)
    three = open_scan(space, left, device="cpu", threads=3).count_reaching(thresholds)
    assert np.array_equal(one, three)
    assert one[0] == space.size


def test_neighbours_equal_a_full_sort():
    rng = np.random.default_rng(0)
    for space, left, right in (
        (AllPairs(1100), rng.normal(size=(1100, 16)), None),
        (CrossPairs(60, 2300), rng.normal(size=(60, 16)), rng.normal(size=(2300, 16))),
    ):
        scan = open_scan(space, left, right, device="cpu")
        columns, scores = scan.neighbours(40)
        mine, yours = unit_rows(left, float), unit_rows(left if right is None else right, float)
        full = (mine @ yours.T).round(9).astype(np.float32)
        if space.symmetric:
            np.fill_diagonal(full, -np.inf)
        order = np.argsort(-full, axis=1, kind="stable")[:, :40]
        assert np.array_equal(columns, order)
        assert np.allclose(scores, np.take_along_axis(full, order, 1), atol=1e-6)
        some = np.array([50, 3, 17])
        assert np.array_equal(scan.neighbours(40, some)[0], order[some])


def test_rows_with_too_few_neighbours_are_padded():
    columns, scores = open_scan(AllPairs(3), np.eye(3, dtype=np.float32), device="cpu").neighbours(5)
    assert columns[0].tolist() == [1, 2, -1, -1, -1]
    assert np.isneginf(scores[0, 2:]).all()


def test_no_positives_is_an_error_in_words():
    scan = open_scan(AllPairs(3), np.eye(3, dtype=np.float32), device="cpu")
    with pytest.raises(InputError, match=r"no positive pairs.*3 pairs"):
        measure_exactly(scan, np.empty(0, np.int64))


def test_embeddings_of_another_task_are_refused():
    with pytest.raises(InputError, match=r"left embeddings have shape \(4, 2\).*5 left texts"):
        open_scan(AllPairs(5), np.zeros((4, 2), np.float32))

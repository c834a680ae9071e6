"""Precision corrected by manual labels: the paper's three worked cases, and what the interval covers."""

from __future__ import annotations

import numpy as np
import pytest

from pairsieve.errors import InputError
from pairsieve.measure.manual import corrected_precision, to_verify
from pairsieve.measure.sampling import NEAR, RANDOM, draw
from pairsieve.pairs import AllPairs, pair_ids


def labels(errors: int, total: int) -> list[int]:
    """`errors` real errors (label 0) among `total` labelled pairs."""
    return [0] * errors + [1] * (total - errors)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_paper_uncertainty_sampling() -> None:
    """55.1 % becomes 79.3 %: 16 of 50 near ones are errors, none was found among the random ones."""
    found = corrected_precision(551, 449, 0, labels(16, 50), [], rng())
    assert round(found.value, 3) == 0.793
    assert found.low < 0.793 < found.high
    assert found.n == 50
    assert "16 of 50 near and 0 of 0 random" in found.method


def near_part(before: float, after: float, share_near: float, share_random: float) -> float:
    """The near part x of the false positives, TP being 1, that explains the corrected precision:

    share_near · x + share_random · (FP - x) = 1/after - 1,   FP = 1/before - 1
    """
    fp, corrected = 1 / before - 1, 1 / after - 1
    return (share_random * fp - corrected) / (share_random - share_near)


@pytest.mark.parametrize(
    ("before", "after", "near", "random"),
    [(0.082, 0.095, (36, 50), (46, 50)), (0.284, 0.414, (18, 50), (8, 12))],
    ids=["stated data, 72 % and 92 %", "stated data, 36 % and 67 %"],
)
def test_paper_both_strata(
    before: float, after: float, near: tuple[int, int], random: tuple[int, int]
) -> None:
    """The paper gives no composition; solved for, it is a possible one and reproduces the figure."""
    fp = 1 / before - 1
    x = near_part(before, after, near[0] / near[1], random[0] / random[1])
    assert 0 < x < fp
    found = corrected_precision(1000, 1000 * x, 1000 * (fp - x), labels(*near), labels(*random), rng())
    assert found.value == pytest.approx(after, abs=5e-4)
    assert before < found.low < after < found.high


def test_every_near_pair_labelled_leaves_no_doubt() -> None:
    found = corrected_precision(30, 20, 0, labels(10, 20), [], rng())
    assert (found.value, found.low, found.high) == (0.75, 0.75, 0.75)


def test_the_weight_of_a_random_pair_widens_the_interval() -> None:
    plain = corrected_precision(100, 50, 100, labels(25, 50), labels(6, 10), rng())
    drawn = corrected_precision(100, 50, 100, labels(25, 50), labels(6, 10), rng(), random_weight=10)
    assert plain.value == drawn.value == pytest.approx(100 / (100 + 25 + 60))
    assert drawn.low < plain.low < plain.high < drawn.high


@pytest.mark.parametrize(("near", "share"), [(400, 0.05), (60, 0.1)])
def test_intervals_cover_where_few_errors_are_real(near: int, share: float) -> None:
    """100 matches found, 50 near false positives labelled. Jeffreys' interval covers 0.92, and of 60 near
    ones, whose last ten hold none to three errors, 0.5."""
    made, covered = np.random.default_rng(1), []
    for _ in range(400):
        errors = made.binomial(near, share)
        seen = made.hypergeometric(errors, near - errors, 50)
        found = corrected_precision(100, near, 0, labels(seen, 50), [], made, repeats=1000)
        covered.append(found.low <= 100 / (100 + errors) + 1e-9 and found.high >= 100 / (100 + errors) - 1e-9)
    assert np.mean(covered) >= 0.95


def test_intervals_cover_the_real_precision() -> None:
    """2,000 near and 3,000 far putative errors, 40 % and 80 % real; 50 labels each, one far pair in 30."""
    made = np.random.default_rng(1)
    truth, covered = 1000 / (1000 + 0.4 * 2000 + 0.8 * 3000), []
    for _ in range(400):
        hits = made.binomial(3000, 1 / 30)
        near = made.hypergeometric(800, 1200, 50)
        random = made.binomial(min(hits, 50), 0.8)
        found = corrected_precision(
            1000,
            2000,
            hits * 30,
            labels(near, 50),
            labels(random, min(hits, 50)),
            made,
            random_weight=30,
            repeats=1000,
        )
        covered.append(found.low <= truth <= found.high)
    assert 0.92 <= np.mean(covered) < 1


def test_labels_that_are_missing_or_strange_are_refused() -> None:
    with pytest.raises(InputError, match=r"no labels for the random stratum. It holds 60 putative"):
        corrected_precision(10, 5, 60, labels(1, 2), [], rng())
    with pytest.raises(InputError, match=r"label 2 of a near pair is outside \{0, 1\}"):
        corrected_precision(10, 5, 0, [0, 2], [], rng())
    with pytest.raises(InputError, match="0 true positives"):
        corrected_precision(0, 5, 0, [0], [], rng())


def test_to_verify_draws_putative_false_positives_of_each_stratum() -> None:
    space = AllPairs(40)
    known, near = pair_ids([0, 1], [1, 2]), pair_ids(np.zeros(20, np.int64), np.arange(10, 30))
    sample = draw(space, known, near, 379, rng())
    scores = np.where(sample.stratum == RANDOM, 0.4, 0.9)
    scores[np.flatnonzero(sample.stratum == RANDOM)[:3]] = 0.5
    drawn = to_verify(sample, scores, 0.5, count_near=5, count_random=50, rng=rng())
    assert len(drawn.near) == len(set(drawn.near)) == 5
    assert set(drawn.near) <= set(sample.ids[sample.stratum == NEAR])
    assert drawn.random.tolist() == sample.ids[sample.stratum == RANDOM][:3].tolist()  # all there are
    # 780 pairs less 2 and 20 leave 758 far ones; 379 drawn, so each stands for 2
    assert (drawn.true_positives, drawn.false_near, drawn.false_random) == (2, 20, 6)
    assert drawn.random_weight == 2

"""Agreement between labellers: worked by hand, then as properties."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from pairsieve.errors import InputError
from pairsieve.measure.agreement import MISSING, alpha_estimate, overlap_agreement, share


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def cohens_kappa(one: list[int], other: list[int]) -> float:
    return overlap_agreement(dict(enumerate(one)), dict(enumerate(other)), rng(), repeats=2).kappa.value


def krippendorff_alpha(ratings: ArrayLike) -> float:
    return alpha_estimate(ratings, rng(), repeats=2).value


def test_kappa_by_hand() -> None:
    # 50 pairs: 20 both match, 5 only the first, 10 only the second, 15 neither.
    one = [1] * 25 + [0] * 25
    other = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    # observed 35/50 = 0.7; expected 0.5·0.6 + 0.5·0.4 = 0.5; κ = 0.2 / 0.5
    assert cohens_kappa(one, other) == pytest.approx(0.4)


def test_always_saying_no_agrees_often_but_not_beyond_chance() -> None:
    people, lazy = [1] * 5 + [0] * 95, [0] * 100
    assert np.mean(np.array(people) == np.array(lazy)) == 0.95
    assert cohens_kappa(people, lazy) == 0.0


def test_kappa_is_undefined_where_both_used_one_category() -> None:
    assert math.isnan(cohens_kappa([0, 0, 0], [0, 0, 0]))
    assert math.isnan(cohens_kappa([], []))


def test_alpha_by_hand() -> None:
    # Two people, four pairs: (1,1) (0,0) (1,0) (0,0). n = 8 answers: five 0, three 1.
    # D_observed = 2/8; D_expected = (64 - 25 - 9) / (8·7) = 30/56; α = 1 - 0.25·56/30 = 8/15
    assert krippendorff_alpha([[1, 1], [0, 0], [1, 0], [0, 0]]) == pytest.approx(8 / 15)


def test_alpha_with_gaps_on_the_example_of_its_inventor() -> None:
    # Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", part C: 0.743 to three decimals.
    people = ["123321412...", "1233224125.3", ".3332342251.", "12332441251."]
    table = [[MISSING if said == "." else int(said) for said in row] for row in people]
    assert {len(row) for row in table} == {12}
    assert krippendorff_alpha(np.array(table).T) == pytest.approx(0.743, abs=0.0005)


def test_a_pair_with_one_answer_says_nothing() -> None:
    both = [[1, 1], [0, 0], [1, 0], [0, 0]]
    assert krippendorff_alpha([*both, [1, MISSING], [MISSING, MISSING]]) == krippendorff_alpha(both)


def test_alpha_is_undefined_without_variety_and_without_pairs() -> None:
    assert math.isnan(krippendorff_alpha([[1, 1], [1, 1]]))
    assert math.isnan(krippendorff_alpha(np.empty((0, 2), int)))
    nothing = alpha_estimate([[1, MISSING]], rng())
    assert math.isnan(nothing.value) and (nothing.low, nothing.high, nothing.n) == (-1.0, 1.0, 0)


def test_alpha_wants_a_table() -> None:
    with pytest.raises(InputError, match="A row per pair"):
        krippendorff_alpha([0, 1, 1])


answers = st.lists(st.lists(st.integers(-1, 2), min_size=3, max_size=3), min_size=1, max_size=12)


@settings(deadline=None)
@given(answers, st.permutations(range(3)))
def test_alpha_does_not_care_who_is_who_or_what_the_answers_are_called(
    table: list[list[int]], order: list[int]
) -> None:
    ratings = np.array(table)
    renamed = np.where(ratings == MISSING, MISSING, np.array([*order, MISSING])[ratings])
    found = krippendorff_alpha(ratings)
    assert krippendorff_alpha(ratings[:, order]) == pytest.approx(found, nan_ok=True)
    assert krippendorff_alpha(renamed) == pytest.approx(found, nan_ok=True)


@settings(deadline=None)
@given(answers)
def test_alpha_equals_counting_every_couple(table: list[list[int]]) -> None:
    """The definition, couple by couple, in loops."""
    kept = [[said for said in row if said != MISSING] for row in table]
    kept = [row for row in kept if len(row) > 1]
    thrown = [said for row in kept for said in row]
    if len(set(thrown)) < 2:
        assert math.isnan(krippendorff_alpha(table))
        return
    observed = sum(
        (row[i] != row[j]) / (len(row) - 1)
        for row in kept
        for i in range(len(row))
        for j in range(len(row))
        if i != j
    ) / len(thrown)
    couples = [(a, b) for i, a in enumerate(thrown) for j, b in enumerate(thrown) if i != j]
    expected = sum(a != b for a, b in couples) / len(couples)
    assert krippendorff_alpha(table) == pytest.approx(1 - observed / expected)


def test_exact_limits_of_a_share_by_hand() -> None:
    found = share(5, 5)  # all of five: the low end is the share p with p^5 = 0.025
    assert (found.value, found.n, found.high) == (1.0, 5, 1.0)
    assert found.low == pytest.approx(0.025**0.2)
    assert (share(0, 5).low, share(0, 5).high) == (0.0, pytest.approx(1 - 0.025**0.2))
    assert math.isnan(share(0, 0).value)


@pytest.mark.parametrize("pairs", [20, 50, 100])
@pytest.mark.parametrize("truth", [0.5, 0.9, 0.95, 0.99, 0.995])
def test_the_limits_of_a_share_cover(pairs: int, truth: float) -> None:
    """Summed over every count there may be. Wilson's limits cover 0.905 of 20 pairs at 0.995."""
    chance = [
        math.comb(pairs, k) * truth**k * (1 - truth) ** (pairs - k)
        for k in range(pairs + 1)
        if share(k, pairs).low <= truth <= share(k, pairs).high
    ]
    assert sum(chance) >= 0.95


def test_no_disagreement_leaves_room_for_some() -> None:
    """30 pairs, 9 of them matches to both. Up to p = 1 - 0.025^(1/30) = 0.1157 of all pairs may differ; by
    chance 2 · 0.3 · 0.7 = 0.42 would: κ may be as low as 1 - 0.1157 / 0.42 = 0.7245."""
    answers = dict(enumerate([1] * 9 + [0] * 21))
    kappa = overlap_agreement(answers, answers, rng()).kappa
    assert (kappa.value, kappa.high) == (1.0, 1.0)
    assert kappa.low == pytest.approx(0.7245, abs=1e-4)
    both = np.array([list(answers.values())] * 2).T
    alpha = alpha_estimate(both, rng())  # by chance 18 · 42 · 2 / (60 · 59) of all couples
    assert (alpha.value, alpha.low) == (1.0, pytest.approx(1 - 0.11570 * 60 * 59 / (2 * 18 * 42), abs=1e-4))


def test_intervals_of_people_who_rarely_err_cover() -> None:
    """50 pairs, three in ten matches, either person wrong 2 times in 100: a bootstrap covers 0.85."""
    source, covered = rng(), []
    for _ in range(200):
        truth = source.random(50) < 0.3
        one, other = (truth ^ (source.random(50) < 0.02) for _ in range(2))
        found = overlap_agreement(dict(enumerate(one)), dict(enumerate(other)), source, repeats=200).kappa
        alpha = alpha_estimate(np.stack([one, other], axis=1), source, repeats=200)
        covered.append((found.low <= 0.908 <= found.high, alpha.low <= 0.908 <= alpha.high))
    assert (np.mean(covered, axis=0) >= 0.93).all()


def test_the_bootstrap_interval_of_alpha_covers() -> None:
    """Two people who each flip a true answer with chance 0.1: in the long run α = 1 - 0.18/0.5 = 0.64."""
    source = rng()
    covered = 0
    for _ in range(60):
        truth = source.integers(0, 2, 200)
        ratings = np.stack([truth ^ (source.random(200) < 0.1) for _ in range(2)], axis=1)
        found = alpha_estimate(ratings, source, repeats=300)
        covered += found.low <= 0.64 <= found.high
    assert covered >= 51  # 95 % of 60 are 57; 51 would be a chance below one in a hundred


def test_a_model_beside_people() -> None:
    people = {1: 1, 2: 1, 3: 1, 4: 0, 5: 0, 6: 0, 7: 0, 8: None, 9: 1}
    model = {1: 1, 2: 1, 3: 0, 4: 0, 5: 0, 6: 0, 7: 1, 8: 1, 9: None, 77: 1}  # 77: people never saw it
    found = overlap_agreement(model, people, rng())
    assert found.confusion.tolist() == [[2, 1, 1], [1, 3, 0], [1, 0, 0]]
    assert found.pairs == 9
    assert (found.agreement.value, found.agreement.n) == (5 / 7, 7)  # pairs 8 and 9 take no side
    assert found.on_matches.value == 2 / 4  # 9 was a match to people, the model was unsure
    assert found.on_no_matches.value == 3 / 4
    # observed 5/7; expected (3·3 + 4·4)/49 = 25/49; κ = (35 - 25)/(49 - 25)
    assert found.kappa.value == pytest.approx(10 / 24)
    assert found.kappa.low < found.kappa.value < found.kappa.high
    shown = found.as_json()
    assert shown["confusion"]["match"] == {"match": 2, "no_match": 1, "unsure": 1}
    assert "equal answers        0.714" in found.as_text() and "on 7 pairs" in found.as_text()


def test_no_overlap_is_said_and_never_a_number() -> None:
    found = overlap_agreement({1: 1}, {2: 1}, rng())
    assert found.pairs == 0
    shown = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert shown["agreement"]["value"] is None and shown["kappa"]["value"] is None
    assert "not known" in found.as_text()


def test_the_same_numbers_come_from_the_same_seed() -> None:
    people = {pair: int(pair % 3 == 0) for pair in range(40)}
    model = {pair: int(pair % 5 == 0) for pair in range(40)}
    assert overlap_agreement(model, people, rng()).kappa == overlap_agreement(model, people, rng()).kappa

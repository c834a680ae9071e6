"""Measures on stated pairs: worked numbers, and agreement with scikit-learn where it has the same measure."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, average_precision_score, f1_score

from pairsieve.errors import InputError
from pairsieve.measure.figures import pair_measures, question_f1, rank_measures
from pairsieve.pairs import pair_ids

# question, score, label: three questions; the third has no answer among its sentences
ROWS = [
    (0, 0.9, 0),
    (0, 0.8, 1),
    (0, 0.3, 1),
    (0, 0.1, 0),
    (1, 0.7, 1),
    (1, 0.2, 0),
    (2, 0.6, 0),
    (2, 0.4, 0),
]
QUESTION, SCORE, LABEL = (np.array(column) for column in zip(*ROWS))
IDS = pair_ids(QUESTION, np.arange(len(ROWS)))

stated = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5), st.booleans()), min_size=2, max_size=60)


def test_pairs_at_a_threshold() -> None:
    """At 0.6: called 0.9, 0.8, 0.7, 0.6; right 0.8 and 0.7; missed 0.3."""
    found = pair_measures(SCORE, LABEL, 0.6)
    assert (found.precision, found.recall) == (2 / 4, 2 / 3)
    assert found.f1 == pytest.approx(4 / 7)
    assert found.accuracy == 5 / 8
    assert (found.pairs, found.positives) == (8, 3)


@given(stated, st.integers(0, 5))
def test_pairs_agree_with_scikit_learn(rows: list[tuple[int, int, bool]], threshold: int) -> None:
    _, scores, labels = (np.array(column) for column in zip(*rows))
    found = pair_measures(scores, labels, threshold)
    called = scores >= threshold
    assert found.f1 == pytest.approx(f1_score(labels, called, zero_division=0))
    assert found.accuracy == pytest.approx(accuracy_score(labels, called))


def test_clean_questions_worked() -> None:
    """Question 0: AP = (1/2 + 2/3)/2, first hit at rank 2; question 1: 1 and 1; question 2 is not clean."""
    found = rank_measures(IDS, SCORE, LABEL)
    assert found.questions == 2
    assert found.mean_average_precision == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1) / 2)
    assert found.mean_reciprocal_rank == pytest.approx((1 / 2 + 1) / 2)


def test_ties_in_a_question() -> None:
    """Two negatives and a positive tie: together they enter at rank 3, and the positive stands last."""
    found = rank_measures(pair_ids([0, 0, 0], [0, 1, 2]), [0.5, 0.5, 0.5], [0, 1, 0])
    assert found.mean_average_precision == pytest.approx(1 / 3)
    assert found.mean_reciprocal_rank == pytest.approx(1 / 3)


@given(stated)
def test_clean_map_agrees_with_scikit_learn(rows: list[tuple[int, int, bool]]) -> None:
    question, scores, labels = (np.array(column) for column in zip(*rows))
    groups = [question == q for q in np.unique(question)]
    clean = [g for g in groups if 0 < labels[g].sum() < g.sum()]
    ids = pair_ids(question, np.arange(len(rows)))
    if not clean:
        with pytest.raises(InputError, match="both a positive and a negative"):
            rank_measures(ids, scores, labels)
        return
    found = rank_measures(ids, scores, labels)
    expected = np.mean([average_precision_score(labels[g], scores[g]) for g in clean])
    assert found.mean_average_precision == pytest.approx(expected)
    ranks = [1 + np.sum(scores[g][~labels[g]] >= scores[g][labels[g]].max()) for g in clean]
    assert found.mean_reciprocal_rank == pytest.approx(np.mean(1 / np.array(ranks)))
    assert found.questions == len(clean)


def test_answer_triggering_worked() -> None:
    """Tops: 0.9 wrong, 0.7 right, 0.6 wrong. Two questions have an answer."""
    found = question_f1(IDS, SCORE, LABEL, 0.6)
    assert (found.answered, found.answerable, found.questions) == (3, 2, 3)
    assert (found.precision, found.recall) == (1 / 3, 1 / 2)
    assert found.f1 == pytest.approx(2 / 5)
    stricter = question_f1(IDS, SCORE, LABEL, 0.65)  # question 2 is rightly left unanswered
    assert (stricter.precision, stricter.recall) == (1 / 2, 1 / 2)
    silent = question_f1(IDS, SCORE, LABEL, 2.0)
    assert (silent.precision, silent.recall, silent.f1) == (0, 0, 0)


def test_a_tied_top_is_right_only_if_all_of_it_is() -> None:
    ids = pair_ids([0, 0, 1, 1], [0, 1, 2, 3])
    found = question_f1(ids, [0.5, 0.5, 0.5, 0.5], [1, 0, 1, 1], 0.5)
    assert (found.precision, found.recall) == (1 / 2, 1 / 2)


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match=r"scores of shape \(2,\) with labels of shape \(1,\)"):
        pair_measures([0.1, 0.2], [1], 0.5)
    with pytest.raises(InputError, match="label 2 at 1 is outside"):
        pair_measures([0.1, 0.2], [1, 2], 0.5)
    with pytest.raises(InputError, match="score 1 is not a number"):
        pair_measures([0.1, np.nan], [1, 0], 0.5)

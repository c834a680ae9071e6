"""Figures of a list as it is written: a list that is not the top of its ranking."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pairsieve.audit.draws import AskedPairs, Strata
from pairsieve.audit.estimate import Limits
from pairsieve.contracts import Estimate
from pairsieve.matches.listed import ListTally
from pairsieve.pairs import ScoredPairs

# 100 pairs score 0.9 and 900 pairs 0.5. The list holds 50 of the former and 50 of the latter.
STRATA = Strata(np.array([0.8, -2.0], np.float32), np.array([100, 900]))
TOP, LOW = np.arange(100), np.arange(100, 1000)
LISTED = np.concatenate([TOP[:50], LOW[:50]])


def scores(ids: np.ndarray) -> np.ndarray:
    return np.where(ids < 100, 0.9, 0.5).astype(np.float32)


def tally(ids: np.ndarray, labels: np.ndarray, chances: np.ndarray, keeps_labels: bool = False) -> ListTally:
    asked = AskedPairs.nothing().then(scores(ids), labels, 1, chances)
    made = ListTally(STRATA, -2.0, ids, asked, keeps_labels=keeps_labels)
    bands = iter(
        [ScoredPairs(LISTED[:60], scores(LISTED[:60])), ScoredPairs(LISTED[60:], scores(LISTED[60:]))]
    )
    made.count(bands)
    assert made.counts.tolist() == [50, 50]
    return made


def test_precision_and_recall_are_those_of_the_list_and_not_of_the_ranking() -> None:
    """All pairs are labelled: 40 + 30 of the list match, and 10 + 20 of the others."""
    ids = np.arange(1000)
    match = np.isin(ids, [*range(40), *range(50, 60), *range(100, 130), *range(500, 520)])
    found = tally(ids, match, np.ones(1000)).figures(np.random.default_rng(0))
    assert found is not None and found.recall is not None
    assert found.precision.value == pytest.approx(0.7) and found.recall.value == pytest.approx(0.7)
    assert found.precision.low == found.precision.high == pytest.approx(0.7)
    assert found.precision_of_new is None


@pytest.mark.parametrize(("keeps_labels", "exact"), [(False, 0.7), (True, 1.0)])
def test_labels_drawn_under_another_ranking_give_limits_of_the_list(keeps_labels: bool, exact: float) -> None:
    """All pairs are labelled, as above: no width. A tenth is: the limits hold, and there is no value."""
    ids = np.arange(1000)
    match = np.isin(ids, [*range(40), *range(50, 60), *range(100, 130), *range(500, 520)])
    every = tally(ids, match, np.ones(1000), keeps_labels)
    every.moved = True
    found = every.figures(np.random.default_rng(0))
    assert found is not None and isinstance(found.precision, Limits) and isinstance(found.recall, Limits)
    assert (found.precision.low, found.precision.high) == pytest.approx((exact, exact))
    assert (found.recall.low, found.recall.high) == pytest.approx((exact, exact))
    some = tally(ids[::10], match[::10], np.full(100, 0.1), keeps_labels)
    some.moved = True
    found = some.figures(np.random.default_rng(0))
    assert found is not None and isinstance(found.precision, Limits) and isinstance(found.recall, Limits)
    assert found.precision.low < 0.7 < found.precision.high and found.recall.low < 0.7 < found.recall.high


def test_drawn_labels_speak_for_their_part_of_a_stratum() -> None:
    """Of each stratum a tenth is drawn: all listed ones match, none of the others does."""
    ids = np.concatenate([TOP[:5], TOP[50:55], LOW[:5], LOW[50:135]])
    match = np.isin(ids, LISTED)
    found = tally(ids, match, np.full(len(ids), 0.1)).figures(np.random.default_rng(0))
    assert found is not None and found.recall is not None
    assert found.precision.value == 1.0 and found.precision.low < 0.8
    assert isinstance(found.recall, Limits) and found.recall.low < 0.9 and found.recall.high == 1.0


def test_drawn_labels_that_change_the_list_are_counted_as_written() -> None:
    """All pairs are labelled, as above. As written the list has its 70 matches and the 30 of the others."""
    ids = np.arange(1000)
    match = np.isin(ids, [*range(40), *range(50, 60), *range(100, 130), *range(500, 520)])
    found = tally(ids, match, np.ones(1000), keeps_labels=True).figures(np.random.default_rng(0))
    assert found is not None and found.recall is not None
    assert found.precision.value == found.precision.low == 1.0 and found.recall.value == pytest.approx(1.0)


def test_a_drawn_non_match_speaks_for_the_unlabelled_pairs_of_the_list() -> None:
    """Ten pairs of the list are drawn, and five are none. They are left out of it; of 90 pairs that nobody
    labelled half are expected to match: (5 + 45) / 95 of the list as written."""
    ids = np.concatenate([TOP[:5], LOW[:5]])
    match = np.isin(ids, [0, 1, 2, 100, 101])
    found = tally(ids, match, np.full(10, 0.1), keeps_labels=True).figures(np.random.default_rng(0))
    assert found is not None and found.precision_of_new is not None
    assert found.precision.value == pytest.approx(50 / 95)
    assert found.precision_of_new.value == pytest.approx(0.5)
    assert found.precision.low < 0.4 and found.precision.high > 0.6


def test_an_empty_list_has_no_figures() -> None:
    made = ListTally(STRATA, -2.0, np.empty(0, np.int64), AskedPairs.nothing())
    assert made.figures(np.random.default_rng(0)) is None


def test_drawn_labels_speak_for_the_pairs_that_were_asked_since() -> None:
    """Of 100 listed pairs 40 do not match. 20 were drawn, 8 of them non-matches; then a strategy asked for 30
    of the other non-matches, which are left out. Of the 50 pairs nobody labelled 2 do not match, not 20.
    """
    scores = np.linspace(1.0, 0.5, 100, dtype=np.float32)
    match = np.arange(100) % 10 < 6
    drawn = np.concatenate([np.flatnonzero(match)[::5], np.flatnonzero(~match)[::5]])
    bought = np.setdiff1d(np.flatnonzero(~match), drawn)[:30]
    asked = AskedPairs.nothing().then(scores[drawn], match[drawn], 1, np.full(20, 0.2))
    asked = asked.then(scores[bought], match[bought], 0, np.ones(30))
    strata = Strata(np.array([0.5, -2.0], np.float32), np.array([100, 900]))
    ids = np.append(drawn, bought)
    tally = ListTally(strata, -2.0, ids, asked, threshold=0.5)
    listed = np.setdiff1d(np.arange(100), bought)
    tally.count(iter([ScoredPairs(listed, scores[listed])]))
    found = tally.figures(np.random.default_rng(0))
    assert found is not None and found.precision_of_new is not None
    new = np.setdiff1d(listed, drawn)
    assert found.precision_of_new.value == pytest.approx(match[new].mean(), abs=0.05)


def within_reach(matches_below: int, **options: Any) -> ListTally:
    """A list of the top 100, all known matches. Of 100 more within reach half match, 80 are drawn; known
    matches stand below the reach.
    """
    scores = np.linspace(1.0, 0.0, 1000, dtype=np.float32)
    top, drawn, below = np.arange(100), np.arange(100, 180), np.arange(500, 500 + matches_below)
    asked = AskedPairs.nothing().then(scores[top], np.ones(100), 0, np.ones(100))
    asked = asked.then(scores[below], np.ones(len(below)), 0, np.ones(len(below)))
    asked = asked.then(scores[drawn], drawn % 2 == 0, 1, np.full(80, 0.8))
    strata = Strata(scores[[99, 199, 999]], np.array([100, 100, 800]))
    ids, threshold = np.concatenate([top, below, drawn]), float(scores[99])
    made = ListTally(strata, float(scores[199]), ids, asked, threshold=threshold, **options)
    made.count(iter([ScoredPairs(top, scores[top])]))
    return made


def test_recall_is_of_matches_within_reach_in_the_list_and_in_all() -> None:
    """As written the list has the 40 drawn matches too: 140 of 150. Those far below are no part of either."""
    for matches_below in (0, 300):
        found = within_reach(matches_below).figures(np.random.default_rng(0))
        assert found is not None and found.recall is not None
        assert found.recall.low < 140 / 150 < found.recall.high < 0.98


def test_a_threshold_that_these_labels_chose_has_limits_and_no_value() -> None:
    plain, *chosen = (
        within_reach(0, chosen_by=by).figures(np.random.default_rng(0)) for by in ("", "labels", "audit")
    )
    assert plain is not None and isinstance(plain.precision, Estimate)
    for found in chosen:
        assert found is not None and isinstance(found.precision, Limits)
        assert isinstance(found.recall, Limits) and isinstance(plain.recall, Estimate | Limits)
        assert found.recall.low <= plain.recall.low

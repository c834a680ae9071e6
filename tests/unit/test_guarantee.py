"""A list with a guarantee: shown lists have the precision asked for, and labels are asked where they help."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from pairsieve.audit import guarantee
from pairsieve.audit.guarantee import (
    NOT_DRAWN,
    TOP_SHARE,
    PairsInQuestion,
    Plan,
    RecallSample,
    allowed_failures,
    check_precision,
    labels_needed,
    left_precise,
    matches_beyond,
    permanent_order,
    plan_lists,
    plan_top,
    sample_size,
    shortest_list,
    split_labels,
)
from pairsieve.numeric import logit, sigmoid


def test_the_exact_test_by_hand() -> None:
    """59 clean labels show 0.95 of a very long list: 0.95^59 < 0.05 < 0.95^58."""
    assert sample_size(10**7, 0, 0.95) == 59 and sample_size(10**7, 1, 0.95) == 93
    assert allowed_failures(10**7, 58, 0.95) == -1 and allowed_failures(10**7, 92, 0.95) == 0
    assert allowed_failures(40, 40, 0.95) == 40  # everything labelled leaves nothing to be wrong
    assert sample_size(12, 0, 0.95) == 12


def test_the_promise_is_of_the_pairs_that_are_left() -> None:
    """Of 60 pairs 50 are labelled, all matches: that shows the list, and says little of the ten left.

    If one of the ten left is none, 59 of 60 match, and none is among the 50 with chance 10 / 60.
    """
    assert allowed_failures(60, 50, 0.95) == -1 and allowed_failures(60, 58, 0.95) == 0
    assert sample_size(445, 0, 0.95) > 59


def test_the_test_is_honest() -> None:
    """Lists just short of the precision pass in at most one of twenty cases."""
    allowed, wrong = allowed_failures(400, 80, 0.9), 0
    for seed in range(400):
        labels = np.random.default_rng(seed).permutation(np.arange(400) < 358)
        wrong += (~labels[:80]).sum() <= allowed and labels[80:].mean() < 0.9
    assert 0 < wrong <= 400 * 0.05 + 3 * np.sqrt(400 * 0.05 * 0.95)


def test_a_plan_ends_where_the_expectation_says_and_earlier_for_a_higher_precision() -> None:
    """4,000 pairs, 700 of them good: lists lie around that, and 100 labels suffice for the first."""
    _, rate = ranking(0)
    size = np.arange(1, 4001)
    expected = np.cumsum(rate) / size
    ends = {}
    for precision in (0.8, 0.95):
        plan = plan_lists(size, expected, precision, 100)
        assert sample_size(int(size[plan.places[0]]), plan.failures, precision) <= 100
        ends[precision] = int(size[plan.places[-1]])
        assert size[plan.places[0]] < ends[precision]
    assert 400 < ends[0.95] < ends[0.8] < 1200
    assert not len(plan_lists(size, expected, 0.95, 40).places)  # forty labels cannot show it


@pytest.mark.parametrize(("middle", "top", "budget"), [(500, 0.99, 60), (800, 0.99, 60), (120, 0.99, 100)])
def test_the_first_list_of_a_plan_can_be_tested_with_the_budget(middle: int, top: float, budget: int) -> None:
    size = np.arange(1, 4001)
    rate = top / (1 + (size / middle) ** 6.0)
    plan = plan_lists(size, np.cumsum(rate) / size, 0.95, budget)
    assert len(plan.places)
    assert sample_size(int(size[plan.places[0]]), plan.failures, 0.95) <= budget


@cache  # one plan serves all seeds
def first_plan(rate: bytes, precision: float, budget: int) -> Plan:
    rates = np.frombuffer(rate)
    size = np.arange(1, len(rates) + 1)
    return plan_lists(size, np.cumsum(rates) / size, precision, budget)


def checked(match: Any, rate: Any, precision: float, budget: int, seed: int, waits: bool = False) -> Any:
    """A check of a ranking, best pair first, whose expected rates are given."""
    size = np.arange(1, len(match) + 1)
    plan = first_plan(rate.tobytes(), precision, budget)
    asked: list[int] = []

    def ask(ids: Any) -> Any:
        asked.extend(ids.tolist())
        return None if waits else match[ids].astype(np.int8)

    sizes = size[plan.places].tolist()
    order = np.argsort(permanent_order(np.arange(len(match)), seed))
    question = PairsInQuestion(order, -(order + 1).astype(np.float32))
    found = check_precision(question, [-float(n) for n in sizes], plan.failures, ask, precision, budget)
    return found, sizes[found.certified - 1] if found.certified else 0, asked


def ranking(seed: int, slope: float = 5.0) -> tuple[Any, Any]:
    rate = 1 / (1 + (np.arange(1, 4001) / 800) ** slope)
    return np.random.default_rng(seed).random(4000) < rate, rate


@pytest.mark.parametrize("off", [0.0, pytest.param(1.5, marks=pytest.mark.slow)])
def test_lists_have_the_precision_and_labels_are_within_the_budget(off: float) -> None:
    """Expected rates right, or far too high: what is promised holds on the pairs nobody labelled."""
    kept, sizes = [], []
    for seed in range(40):
        match, rate = ranking(seed)
        found, size, asked = checked(match, sigmoid(logit(rate) + off), 0.9, 100, seed)
        assert len(set(asked)) == len(asked) == found.labels <= 100
        left = np.setdiff1d(np.arange(size), asked)
        kept.append(size == 0 or match[left].mean() >= 0.9)
        sizes.append(size)
    assert np.mean(kept) >= 0.9
    assert np.median(sizes) > (450 if off == 0 else 0)


def test_a_check_waits_and_says_what_is_missing() -> None:
    match, rate = ranking(0)
    waiting, _, asked = checked(match, rate, 0.9, 100, 0, waits=True)
    assert waiting.waiting == len(asked) > 0
    _, size, asked = checked(match, rate, 0.9, 10, 0)
    assert size == 0 and not asked  # ten labels show nothing: they are not asked for
    nothing, size, _ = checked(np.zeros(4000, bool), rate, 0.9, 100, 0)
    assert size == 0 and nothing.labels < 100  # given up before the budget is spent


def test_small_lists_are_labelled_outright() -> None:
    match = np.arange(200) % 3 == 0
    found, size, _ = checked(match, np.full(200, 0.33), 0.9, 60, 0)
    assert found.labels <= 60 and size <= 60


def test_the_random_order_is_fixed_and_even() -> None:
    ids = np.arange(10_000, dtype=np.int64) << 32
    one = permanent_order(ids, 3)
    assert np.array_equal(one, permanent_order(ids, 3)) and not np.array_equal(one, permanent_order(ids, 4))
    assert np.histogram(one, 10, (0, 1))[0].min() > 900
    assert labels_needed(0.8) < labels_needed(0.9) < labels_needed(0.95)
    assert labels_needed(1.0) > 1_000_000  # only labels of every pair show it


# ── recall ──────────────────────────────────────────────────────────────────────────────────────


@cache  # one plan serves all seeds
def first_top(rate: bytes, recall: float, below: int) -> int:
    rates = np.frombuffer(rate)
    return plan_top(np.arange(1, len(rates) + 1), np.cumsum(rates), 0, recall, below)


def recall_checked(match: np.ndarray, rate: np.ndarray, recall: float, labels: int, seed: int) -> int:
    """The size of the list that a check of `recall` shows, all pairs where it shows none; best pair first."""
    scores = np.linspace(1, -1, len(match)).astype(np.float32)
    top = first_top(rate.tobytes(), recall, labels - labels // TOP_SHARE)
    rng = np.random.default_rng(seed)
    given = np.full(len(match), NOT_DRAWN, np.int8)
    above = np.arange(len(match)) <= top
    for part, count in zip((above, ~above), split_labels(labels, int(above.sum()), int((~above).sum()))):
        drawn = rng.choice(np.flatnonzero(part), count, replace=False)
        given[drawn] = match[drawn]
    at = shortest_list(RecallSample(scores, given, float(scores[top]), 0), recall, rng)
    return len(match) if at is None else int((scores >= np.float32(at)).sum())


@pytest.fixture
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of checks: the 5 % quantile of each limit from a thousand draws, not ten thousand."""
    monkeypatch.setattr(guarantee, "MELDED", 1000)


@pytest.mark.parametrize("off", [0.0, *(pytest.param(off, marks=pytest.mark.slow) for off in (-2.0, 2.0))])
def test_lists_have_the_recall_whatever_was_expected(off: float, fewer_draws: None) -> None:
    """100 lists of 3,000 pairs: at most about one in twenty misses the recall, however wrong the plan."""
    logits = np.linspace(8, -8, 3000)
    kept, sizes = 0, []
    for seed in range(100):
        match = np.random.default_rng(seed).random(3000) < sigmoid(logits)
        size = recall_checked(match, sigmoid(logits + off), 0.9, 100, seed)
        kept += match[:size].sum() >= 0.9 * match.sum()
        sizes.append(size)
    assert kept >= 93
    if off == 0.0:
        assert np.median(sizes) < 2200  # the shortest list that has it takes about 1,450


def test_a_list_of_a_good_ranking_ends_where_its_matches_do(fewer_draws: None) -> None:
    """1,000 matches lead 2,900 pairs, of which 20 more are expected to match: a list of 90 % takes 900."""
    match = np.arange(2900) < 1000
    rate = np.where(match, 0.999, 20 / 1900)
    sizes = [recall_checked(match, rate, 0.9, 100, seed) for seed in range(30)]
    assert 900 <= np.median(sizes) < 1200


@pytest.mark.slow
def test_a_recall_at_the_edge_of_truth_is_not_shown_too_often(fewer_draws: None) -> None:
    """A list that misses one match more than it may is shown in at most one of twenty checks."""
    match = np.zeros(2000, bool)
    match[:800] = True
    match[800:2000:12] = True  # 100 of 900 matches lie below the first 800 pairs: recall 0.889
    rate = np.where(np.arange(2000) < 800, 1.0, 0.0)
    short = sum(recall_checked(match, rate, 0.9, 100, seed) < 800 + 12 * 10 for seed in range(200))
    assert short <= 16


def test_matches_that_do_not_end_within_reach_are_counted_as_missed() -> None:
    """1,000 pairs within reach, 500 in question: matches are among all of these, or among the first 100."""
    scores = np.linspace(1, 0, 1000).astype(np.float32)
    labels = np.full(1000, NOT_DRAWN, np.int8)
    labels[0:500:20] = 1
    labels[500:1000:10] = 0
    none = RecallSample(scores, labels.copy(), float(scores[499]), 0)
    assert matches_beyond(none) == 0.0
    labels[500:1000:50] = 1  # one in five, as many near the end
    flat = RecallSample(scores, labels.copy(), float(scores[499]), 0)
    assert 2 * 1000 * 0.1 < matches_beyond(flat) < 2 * 1000 * 0.3
    labels[600:1000:50] = 0
    ends = RecallSample(scores, labels, float(scores[499]), 0)
    assert matches_beyond(ends) < 10
    for sample, shown in ((none, True), (flat, False), (ends, True)):
        assert (shortest_list(sample, 0.8, np.random.default_rng(0)) is not None) is shown


def test_without_pairs_in_question_the_list_is_what_is_within_reach() -> None:
    scores = np.linspace(1, 0, 11).astype(np.float32)
    sample = RecallSample(scores, np.full(11, NOT_DRAWN, np.int8), -1.0, 0)
    assert shortest_list(sample, 0.9, np.random.default_rng(0)) == 0.0
    every = RecallSample(scores, np.r_[np.ones(5, np.int8), np.zeros(6, np.int8)], 0.6, 0)
    assert shortest_list(every, 0.9, np.random.default_rng(0)) == pytest.approx(0.6)


# ── pairs that were labelled or asked otherwise ─────────────────────────────────────────────────


def test_labels_outside_the_sample_are_no_longer_left() -> None:
    """Of 300 pairs 60 were drawn, 55 of them matches; 100 matches more were labelled by an earlier check.

    The sample shows 0.8 of the 240 pairs outside it. With the earlier labels 140 are left, and the matches
    there may be fewer: those labelled before were all taken from the good ones.
    """
    assert left_precise(300, 60, 55, (0, 0), 240, 0.8, 0.95)
    assert not left_precise(300, 60, 55, (100, 100), 140, 0.8, 0.95)
    assert left_precise(300, 60, 55, (240, 190), 0, 0.8, 0.95)


@pytest.mark.parametrize(("first", "least"), [(None, 0.9), (0.95, 0.9)])
def test_a_check_after_another_one_keeps_its_promise(first: float | None, least: float) -> None:
    """300 pairs that match, then 300 of which half do: the earlier check labels the sure ones."""
    rate = np.repeat([1.0, 0.5, 0.01], [300, 300, 500])
    size = np.arange(1, len(rate) + 1)
    expected = np.cumsum(np.clip(rate + 0.1 * (rate < 1), 0, 0.97)) / size
    plans = {p: plan_lists(size, expected, p, 100) for p in (0.95, 0.8)}
    kept = []
    for seed in range(120):
        match = np.random.default_rng(seed).random(len(rate)) < rate
        order = np.argsort(permanent_order(np.arange(len(match)), seed))
        scores = -(order + 1).astype(np.float32)
        asked: list[int] = []

        def ask(ids: Any, match: Any = match, asked: list[int] = asked) -> Any:
            asked.extend(ids.tolist())
            return match[ids].astype(np.int8)

        before = np.empty(0, np.int64)
        for wanted in filter(None, (first, 0.8)):
            plan = plans[wanted]
            question = PairsInQuestion(order, scores, (before, match[before].astype(np.int8)))
            places = [-float(n) for n in size[plan.places]]
            found = check_precision(question, places, plan.failures, ask, wanted, 100)
            before = np.unique(np.array(asked, np.int64))
        if found.certified:
            left = np.setdiff1d(np.arange(size[plan.places[found.certified - 1]]), before)
            assert found.left == len(left)
            kept.append(not len(left) or match[left].mean() >= 0.8)
    assert len(kept) >= 40 and np.mean(kept) >= least


def test_a_check_says_whether_a_longer_list_failed_or_labels_ran_out() -> None:
    """100 matches, then none. With lists of 50 and 400 pairs the second fails; with 50 alone none does."""
    ids = np.arange(400)
    question = PairsInQuestion(np.random.default_rng(0).permutation(ids), np.zeros(400, np.float32))
    question = replace(question, scores=-question.ids.astype(np.float32))

    def found(thresholds: list[float], labels: int) -> tuple[int, bool]:
        given = check_precision(
            question, thresholds, 0, lambda pairs: (pairs < 100).astype(np.int8), 0.8, labels
        )
        return given.certified, given.failed

    assert found([-49.0, -399.0], 100) == (1, True)
    assert found([-49.0, -399.0], sample_size(50, 0, 0.8)) == (1, False)
    assert found([-49.0], 100) == (1, False)


def test_unsure_pairs_stay_in_the_list_and_count_as_no_match() -> None:
    """A list of 40 pairs that is labelled whole: with 12 unsure, 12 pairs are left, and none is shown."""
    ids = np.arange(40)
    question = PairsInQuestion(ids, np.ones(40, np.float32))
    for unsure, shown in ((0, 1), (12, 0)):
        answers = np.where(ids < unsure, -1, 1).astype(np.int8)
        found = check_precision(question, [0.5], 0, lambda pairs, a=answers: a[pairs], 0.9, 100)
        assert found.certified == shown
    asked_before = PairsInQuestion(ids, np.ones(40, np.float32), unanswered=np.ones(12, np.float32))
    assert not check_precision(
        asked_before, [0.5], 0, lambda pairs: np.ones(len(pairs), np.int8), 0.9, 100
    ).certified

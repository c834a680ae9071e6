"""Advice after a round: worked numbers, honest width, coverage, and stop rules in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import experiments.bench.advice as advice_bench
from pairsieve.advice import QUANTITIES, Advice, NotKnown, advise, ap_after, next_positives, parse_stop_rule
from pairsieve.audit.estimate import AuditResult, Limits
from pairsieve.contracts import Estimate
from pairsieve.errors import SettingsError
from pairsieve.measure.figures import Batch, F1Figure, Figures, RoundFigures, SplitFigures


def figures(batches: list[Batch], aps: Sequence[float] = (), split: str = "dev") -> list[RoundFigures]:
    """Rounds of these batches; the last ones have these APs on a measured split."""
    rows = []
    known = [None] * (len(batches) - len(aps)) + [*aps]
    for number, (batch, ap) in enumerate(zip(batches, known), start=1):
        row: dict[str, Any] = dict.fromkeys(each.name for each in fields(RoundFigures))
        measured = Figures(10, 2, "exact", Estimate.exact(ap or 0.0, 10), {}, F1Figure(0.5, 0.1))
        row["measures"] = {} if ap is None else {split: SplitFigures(**vars(measured), held_out=True)}
        rows.append(RoundFigures(**row | {"round": number, "batch": batch, "labels": 1000 * number}))
    return rows


def drawn(left: float, ap: float) -> AuditResult:
    """Figures from labels drawn with known chances."""
    row: dict[str, Any] = dict.fromkeys(each.name for each in fields(AuditResult))
    known = {"left": Estimate(left, left / 2, left * 2, 30, "drawn")}
    return AuditResult(**row | known | {"average_precision": Estimate(ap, 0.0, 1.0, 30, "drawn")})


# ── the next batch ──────────────────────────────────────────────────────────────────────────────────


def test_after_the_seed_set_the_interval_is_wide() -> None:
    said = next_positives([Batch(100, 50)], 100)
    assert 40 <= said.value <= 60
    assert said.high - said.low > 40
    assert "no earlier one" in said.method


def test_steady_rounds_narrow_it_around_their_rate() -> None:
    steady = [Batch(400, 80) for _ in range(7)]
    first, later = (next_positives(steady[:n], 400) for n in (1, 7))
    assert later.high - later.low < 0.6 * (first.high - first.low)
    assert later.low <= 80 <= later.high
    assert abs(later.value - 80) < 20


@pytest.mark.parametrize(("labels", "positives"), [(256, 255), (256, 227), (256, 0), (300, 9)])
def test_labels_of_one_kind_teach_no_boundary(labels: int, positives: int) -> None:
    """It is said, and the interval is wider than the same rates would make it with more labels."""
    said = next_positives([Batch(labels, positives)], 384)
    more = next_positives([Batch(labels * 100, positives * 100 + 10)], 384)
    assert "teach no boundary" in said.method and "teach no boundary" not in more.method
    assert said.low <= more.low and said.high >= more.high
    assert (said.low, said.high) != (more.low, more.high)


def test_no_round_answered_is_refused() -> None:
    with pytest.raises(NotKnown, match="no round has been answered yet"):
        next_positives([], 100)
    with pytest.raises(NotKnown, match="no next batch is planned"):
        next_positives([Batch(10, 5)], 0)


@pytest.mark.slow
def test_intervals_cover_on_made_campaigns() -> None:
    """Rates that wander, each campaign's with a drift of its own: 90 % intervals, 85 % at least."""
    rng = np.random.default_rng(3)
    within = []
    for _ in range(40):
        drift, follows = rng.normal(-0.4, 0.4), rng.uniform(0, 0.6)
        logit = rng.normal(0, 1)
        history = [Batch(256, int(rng.binomial(256, 1 / (1 + np.exp(-logit)))))]
        for number in range(1, 6):
            size = round(256 * 1.5**number)
            move = rng.normal(-0.3, 0.5)
            logit += drift + follows * move + rng.normal(0, 0.4)
            came = int(rng.binomial(size, 1 / (1 + np.exp(-logit))))
            said = next_positives(history, size)
            within.append(said.low <= came <= said.high)
            history.append(Batch(size, came))
    assert np.mean(within) >= 0.85


# ── what is left, and AP, from drawn labels ─────────────────────────────────────────────────────────


def test_what_is_left_comes_from_drawn_labels() -> None:
    rows = figures([Batch(100, 50), Batch(100, 40)])
    assert advise(rows, 100).left is None
    assert "known chances" in advise(rows, 100).not_known["left"]
    rows[-1] = replace(rows[-1], estimated=drawn(120.0, 0.4))
    said = advise(rows, 100)
    assert said.left is not None and (said.left.low, said.left.high) == (60, 240)
    assert "60 to 240 matches are left" in said.sentence
    assert said.ap == 0.4


def test_the_truth_of_a_test_split_decides_nothing() -> None:
    batches, aps = [Batch(500, 100)] * 4, [0.3, 0.4, 0.5, 0.6]
    read, sealed = figures(batches, aps), figures(batches, aps, "test")
    assert advise(read, 500).ap == 0.6 and advise(read, 500).ap_gain is not None
    said = advise(sealed, 500)
    assert (said.ap, said.ap_after, said.ap_gain) == (None, None, None)
    assert parse_stop_rule("ap > 0.1").reason(sealed[-1], said) == ""
    assert parse_stop_rule("ap > 0.1").reason(read[-1], advise(read, 500)) == "ap > 0.1"
    sealed = [replace(row, estimated=drawn(50.0, 0.2)) for row in sealed]
    assert advise(sealed, 500).ap == 0.2


def test_where_nothing_is_left_the_advice_is_to_stop() -> None:
    """Before it was: Go on: the next 40 labels should bring about 0 matches; 0 to 0 matches are left."""
    batches = [Batch(40, 25), Batch(40, 12), Batch(40, 0), Batch(40, 0)]
    rows = figures(batches, [0.90, 0.99, 1.0, 1.0])
    said = advise(rows, 40)
    assert said.next_positives is not None and said.next_positives.value < 0.5
    assert said.sentence.startswith("You can stop: the next 40 labels should bring about 0 (0 to ")
    none_left = replace(rows[-1], estimated=drawn(0.0, 1.0), batch=Batch(40, 9))
    said = advise([*rows[:-1], none_left], 40)
    assert said.sentence.startswith("You can stop") and "0 to 0 matches are left" in said.sentence
    some_left = replace(rows[-1], estimated=drawn(80.0, 0.9))
    assert advise([*rows[:-1], some_left], 40).sentence.startswith("Stop unless every match counts")


def test_a_handful_of_matches_is_no_reason_to_stop() -> None:
    """Of 2 matches in 80 labels nothing is expected, and no list can be made yet."""
    rows = figures([Batch(40, 2), Batch(40, 0)])
    assert not advise(rows, 40).sentence.startswith(("You can stop", "Stop"))


def test_a_round_of_unsure_answers_says_nothing_of_the_next() -> None:
    alone, after = figures([Batch(0, 0)]), figures([Batch(40, 20), Batch(0, 0)])
    alone = [replace(row, labels=0) for row in alone]
    assert advise(alone, 40).sentence == "Nothing can be said about the next batch yet."
    assert advise(after, 40).next_positives == next_positives([Batch(40, 20)], 40)
    for rule in ("positives < 5%", "positives < 3"):
        assert parse_stop_rule(rule).reason(alone[0], advise(alone, 40)) == ""
    assert advise([replace(row, labels=0) for row in figures([Batch(0, 0)] * 4, [0.5] * 4)], 40).ap is None


# ── the learning curve ──────────────────────────────────────────────────────────────────────────────


def test_odds_that_grow_as_a_power_go_on_so() -> None:
    """Odds √n / 40: 0.444, 0.531, 0.615, 0.693 at 1,024 · 2ⁱ labels; next 0.762."""

    def ap(n: float) -> float:
        return float(np.sqrt(n) / 40 / (1 + np.sqrt(n) / 40))

    counts = [1024, 2048, 4096, 8192]
    said, gain = ap_after([(n, ap(n)) for n in counts], 8192)
    assert said.value == pytest.approx(ap(16384), abs=0.005)
    assert said.low < ap(16384) < said.high
    assert gain == pytest.approx(ap(16384) - ap(8192), abs=0.005)


def test_a_flat_curve_gains_nothing() -> None:
    said, gain = ap_after([(1000 * 2**i, 0.6) for i in range(7)], 64000)
    assert gain < 0.01
    assert said.low < 0.6 <= said.value <= said.high <= 1


@given(st.lists(st.floats(0, 1), min_size=3, max_size=6), st.integers(1, 10**6))
def test_a_curve_stays_within_bounds(values: list[float], labels: int) -> None:
    said, gain = ap_after([(100 * 2**i, value) for i, value in enumerate(values)], labels)
    assert 0 <= said.low <= said.high <= 1
    assert said.value <= said.high
    assert gain >= 0


def test_two_rounds_are_no_curve() -> None:
    with pytest.raises(NotKnown, match="needs 3 measured rounds, there are 2"):
        ap_after([(100, 0.1), (200, 0.2)], 100)


# ── all together ────────────────────────────────────────────────────────────────────────────────────


def test_what_cannot_be_told_says_why() -> None:
    said = advise(figures([Batch(100, 30)], [0.3]), 150)
    assert said.next_positives is not None
    assert (said.left, said.ap_after, said.ap_gain) == (None, None, None)
    assert set(said.not_known) == {"left", "ap_after"}
    assert "needs 3 measured rounds, there are 1" in said.not_known["ap_after"]
    row = json.loads(json.dumps(said.as_json()))
    assert row["next_labels"] == 150 and row["next_positives"]["value"] == said.next_positives.value
    assert advise([], 0).sentence == "Nothing can be said about the next batch yet."


@pytest.mark.parametrize(
    ("positives", "curve", "verdict"),
    [
        (200, [0.3, 0.4, 0.5, 0.6], "Go on:"),
        (2, [0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60], "You can stop:"),
        (
            200,
            [0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60],
            "Stop unless you want the matches themselves",
        ),
        (2, [0.3, 0.4, 0.5, 0.6], "Go on for the model's sake"),
        (2, [], "Stop unless every match counts"),
        (2, [0.5, 0.9, 0.5], "Go on for the model's sake"),  # a dip is not a flat curve
    ],
)
def test_a_plain_sentence(positives: int, curve: list[float], verdict: str) -> None:
    history = [Batch(500, 250), *(Batch(500, positives) for _ in range(9))]
    said = advise(figures(history, curve), 500)
    assert said.sentence.startswith(verdict)
    assert "the next 500 labels should bring about" in said.sentence


def test_a_handful_of_matches_never_says_that_the_model_is_done() -> None:
    """A curve that is flat at AP 0.07 for want of matches; with more of them it is flat indeed."""
    curve = [0.07] * 8
    said = [advise(figures([Batch(40, 1 + many) for _ in range(8)], curve), 40).sentence for many in (0, 20)]
    assert "Go on for the model's sake" in said[0] or said[0].startswith("Go on:")
    assert said[1].startswith("Stop unless you want the matches themselves")


def test_a_wide_interval_never_says_stop() -> None:
    """One match of 500 after 250 of 500: the next batch may bring few or many."""
    said = advise(figures([Batch(500, 250), Batch(500, 1)]), 500)
    assert said.next_positives is not None and said.next_positives.high > 100
    assert said.sentence.startswith("Go on:")


def test_the_bench_compares_what_was_said_with_what_came() -> None:
    batches = [Batch(400, 80)] * 6
    found = advice_bench.compare(figures(batches, [0.4, 0.45, 0.5, 0.52, 0.55, 0.56]), positives=None)
    assert [row["round"] for row in found] == [2, 3, 4, 5, 6]
    assert all(row["next"]["within"] and row["next"]["came"] == 80 for row in found)
    assert ["ap" in row for row in found] == [False, False, True, True, True]


# ── stop rules ──────────────────────────────────────────────────────────────────────────────────────

ROW = replace(figures([Batch(1000, 40)])[0], round=3, labels=4000)
KNOWN = Advice(1000, None, Limits(100, 199), 0.7, None, 0.02, "")


@pytest.mark.parametrize(
    ("words", "held"),
    [
        ("positives < 5%", "positives < 5%"),
        ("positives < 4%", ""),
        ("positives <= 40", "positives <= 40"),
        ("labels >= 4,000", "labels >= 4000"),
        ("labels >= 5000", ""),
        ("ap gain < 0.01", ""),
        ("ap gain < 2.5%", "ap gain < 2.5%"),
        ("AP >= 0.7", "ap >= 0.7"),
        ("left < 100 or rounds >= 3", "rounds >= 3"),
        ("positives < 5% and labels >= 5000", ""),
        ("labels >= 5000 or positives < 5% and left < 200", "positives < 5% and left < 200"),
    ],
)
def test_a_rule_holds_or_not(words: str, held: str) -> None:
    assert parse_stop_rule(words).reason(ROW, KNOWN) == held


def test_what_is_not_known_never_stops() -> None:
    unknown = Advice(10, None, None, None, None, None, "")
    for words in ("left < 1000000", "ap gain < 1", "ap > 0"):
        assert parse_stop_rule(words).reason(ROW, unknown) == ""


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("positves < 5%", "unknown quantity 'positves'. Did you mean 'positives'?"),
        ("f1 > 0.9", "is not a rule"),
        ("recall > 0.9", "Known: ap, ap gain, labels, left, positives, rounds"),
        ("positives", "is not a rule"),
        ("positives < many", "is not a rule"),
        ("", "is not a rule"),
        ("labels > 5%", "labels is a count, not a percentage"),
        ("labels > 5 or", "is not a rule"),
    ],
)
def test_a_wrong_rule_names_the_known_ones(words: str, complaint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_stop_rule(words)
    assert complaint in str(caught.value)


conditions = st.builds(
    lambda quantity, sign, value: f"{quantity} {sign} {value}",
    st.sampled_from(sorted(QUANTITIES)),
    st.sampled_from(["<", "<=", ">", ">="]),
    st.integers(0, 9999),
)


@given(st.lists(conditions, min_size=1, max_size=4), st.data())
def test_a_rule_reads_back_as_itself(parts: list[str], data: st.DataObject) -> None:
    words = parts[0]
    for part in parts[1:]:
        words += f" {data.draw(st.sampled_from(['and', 'or']))} {part}"
    assert str(parse_stop_rule(words)) == words

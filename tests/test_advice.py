"""Advice after a round: worked numbers, honest width, coverage on made campaigns, and stop rules in words."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairsieve.errors import InputError, SettingsError
from pairsieve.measure.advice import (
    Batch,
    Scored,
    Unasked,
    advise,
    ap_after,
    depth_of,
    next_positives,
    positives_left,
    positives_left_at_least,
)
from pairsieve.measure.stopping import QUANTITIES, Facts, parse_stop_rule
from pairsieve.pairs import AllPairs, CrossPairs

BENCH = Path(__file__).parent.parent / "bench"


def batch(labels: int, positives: int, rate: float | None = None) -> Batch:
    """A batch of which a model, where `rate` is given, expected that share to match."""
    answers = np.arange(labels) < positives
    return Batch(answers, None if rate is None else expecting(labels, rate))


def expecting(labels: int, rate: float) -> Scored:
    return Scored(np.full(labels, np.log(rate / (1 - rate)) / 20), 20.0, 0.0)


# ── the next batch ──────────────────────────────────────────────────────────────────────────────────


def test_after_the_seed_set_the_interval_is_wide() -> None:
    said = next_positives([batch(100, 50)], 100, expecting(100, 0.5))
    assert 40 <= said.value <= 60
    assert said.high - said.low > 40
    assert "no earlier round" in said.method


def test_steady_rounds_narrow_it_around_their_rate() -> None:
    steady = [batch(400, 80), *(batch(400, 80, 0.5) for _ in range(6))]
    first, later = (next_positives(steady[:n], 400, expecting(400, 0.5)) for n in (1, 7))
    assert later.high - later.low < 0.6 * (first.high - first.low)
    assert later.low <= 80 <= later.high
    assert abs(later.value - 80) < 20  # not the 200 that the model says each time, and is wrong each time


def test_what_the_model_expects_counts_where_it_was_right_before() -> None:
    """Rates 0.2, 0.5, 0.1, 0.4, 0.1, each as expected: then 0.4 is believed, and the last rate is not."""
    rates = [0.2, 0.5, 0.1, 0.4, 0.1]
    history = [batch(500, 100), *(batch(500, round(500 * rate), rate) for rate in rates[1:])]
    believed = next_positives(history, 500, expecting(500, 0.4))
    low, high = (next_positives(history, 500, expecting(500, rate)).value for rate in (0.1, 0.4))
    assert believed.low <= 200 <= believed.high
    assert high > 1.5 * low


@pytest.mark.parametrize(("labels", "positives"), [(256, 255), (256, 227), (256, 0), (300, 9)])
def test_labels_of_one_kind_teach_no_boundary(labels: int, positives: int) -> None:
    """It is said, and the interval is wider than the same rates would make it with more labels."""
    said = next_positives([batch(labels, positives)], 384, expecting(384, 0.99))
    more = next_positives([batch(labels * 100, positives * 100 + 10)], 384, expecting(384, 0.99))
    assert "teach no boundary" in said.method and "teach no boundary" not in more.method
    assert said.low <= more.low and said.high >= more.high
    assert (said.low, said.high) != (more.low, more.high)


def test_deeper_in_the_ranking_matches_are_fewer() -> None:
    """Nine in ten of the 500 nearest match. Among pairs that 250 others outrank it stays so; behind 25,000
    others (4.6 in logarithms deeper) hardly one in ten, whatever the model says; and the interval says how
    far that is from everything seen."""
    seed = [Batch(np.arange(500) < 450, None, depth=np.log1p(250))]
    near, far = (next_positives(seed, 500, expecting(500, 0.5), np.log1p(n)) for n in (250, 25_000))
    assert near.value > 350 > 100 > far.value
    assert near.low <= 450 <= near.high and far.high - far.low > near.high - near.low


def test_the_depth_of_a_batch() -> None:
    """10, 20 and 30 unasked pairs in three bins; the middle of the batch lies in the second: 20 + 10."""
    unasked = Unasked(np.array([0.0, 0.25, 0.5, 1.0]), np.array([30, 20, 10]))
    assert depth_of(np.array([0.1, 0.25, 0.9]), unasked) == pytest.approx(np.log(1 + 30))
    assert depth_of(np.array([]), unasked) == 0.0


def test_no_round_answered_is_refused() -> None:
    with pytest.raises(InputError, match="answered batch"):
        next_positives([], 100)


def test_intervals_cover_on_made_campaigns() -> None:
    """Rates that wander, and models that are wrong by their own constant: 90 % intervals, 85 % at least."""
    rng = np.random.default_rng(3)
    within = []
    for _ in range(40):
        drift, wrong, follows = rng.normal(-0.4, 0.4), rng.normal(0, 2), rng.uniform(0, 0.6)
        logit, expected = rng.normal(0, 1), 0.0
        history = [batch(256, int(rng.binomial(256, 1 / (1 + np.exp(-logit)))))]
        for number in range(1, 6):
            size = round(256 * 1.5**number)
            move = rng.normal(-0.3, 0.5)
            expected, logit = expected + move, logit + drift + follows * move + rng.normal(0, 0.4)
            came = int(rng.binomial(size, 1 / (1 + np.exp(-logit))))
            scored = expecting(size, float(1 / (1 + np.exp(-(expected + wrong)))))
            said = next_positives(history, size, scored)
            within.append(said.low <= came <= said.high)
            history.append(Batch(np.arange(size) < came, scored))
    assert np.mean(within) >= 0.85


# ── what is left ────────────────────────────────────────────────────────────────────────────────────


def test_matches_left_on_a_made_space() -> None:
    """Two million scores around 0 ± 0.1, each a match with chance sigmoid(24 · score - 16)."""
    rng = np.random.default_rng(5)
    scores = rng.normal(0, 0.1, 2_000_000)
    scores[:3000] = rng.uniform(0.4, 0.9, 3000)
    match = rng.random(len(scores)) < 1 / (1 + np.exp(16 - 24 * scores))
    order = np.argsort(-scores)
    asked, rest = order[:500], order[500:]
    edges = np.linspace(-1, 1, 401)
    unasked = Unasked(edges, np.histogram(scores[rest], edges)[0])
    said = positives_left(unasked, [batch(10, 5), Batch(match[asked], Scored(scores[asked], 60.0, -40.0))])
    truth = int(match[rest].sum())
    assert said.low <= truth <= said.high
    assert truth / 3 <= said.value <= truth * 3
    assert said.n == 500


def test_matches_that_follow_by_transitivity_are_left_at_least() -> None:
    """0–1, 1–2, 2–3 found: the group of four has six pairs, so three are left at least."""
    space = AllPairs(10)
    found = space.ids([0, 1, 2], [1, 2, 3])
    said = positives_left_at_least(space, found, [batch(20, 3)])
    assert (said.value, said.high) == (3, 45 - 20)
    assert "transitivity" in said.method


def test_a_falling_catch_bounds_the_stock() -> None:
    """400 of 1000, then 200 of 1000. The catch fell by 0.2 for some 300 taken: 0.2 · 300 / 0.2 = 300 were
    there, 200 at the end. With the noise of both rates, 0.020, the fall may be 0.233: 258, and 158."""
    space, found = CrossPairs(5000, 5000), np.arange(600)
    said = positives_left_at_least(space, found, [batch(1000, 400), batch(1000, 200)])
    assert said.value == pytest.approx(158, abs=1)
    assert "removal" in said.method


@pytest.mark.parametrize(("one", "other"), [(100, 100), (100, 200), (950, 900)])
def test_a_catch_that_does_not_fall_or_fills_the_batch_bounds_nothing(one: int, other: int) -> None:
    said = positives_left_at_least(
        CrossPairs(5000, 5000), np.arange(600), [batch(1000, one), batch(1000, other)]
    )
    assert said.value == 0


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
    with pytest.raises(InputError, match="a learning curve of 2 rounds"):
        ap_after([(100, 0.1), (200, 0.2)], 100)


# ── all together ────────────────────────────────────────────────────────────────────────────────────


def test_what_cannot_be_told_says_why() -> None:
    said = advise([batch(100, 30)], expecting(150, 0.2), curve=[(100, 0.3)])
    assert said.next_positives is not None
    assert (said.left, said.left_at_least, said.ap_after) == (None, None, None)
    assert set(said.silent) == {"left", "left_at_least", "ap_after"}
    assert "needs 3 measured rounds, there are 1" in said.silent["ap_after"]
    assert json.loads(json.dumps(said.as_json()))["next_labels"] == 150
    assert advise([]).sentence == "Nothing can be said about the next batch yet."


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
    history = [batch(500, 250), *(batch(500, positives, 0.1) for _ in range(4))]
    points = [(1000 * (4 + i), value) for i, value in enumerate(curve)]
    said = advise(history, expecting(500, 0.1), curve=points)
    assert said.sentence.startswith(verdict)
    assert "the next 500 labels should bring about" in said.sentence


def test_a_wide_interval_never_says_stop() -> None:
    """One match of 500 after 250 of 500: the next batch may bring few or many."""
    said = advise([batch(500, 250), batch(500, 1, 0.5)], expecting(500, 0.5), curve=[])
    assert said.next_positives is not None and said.next_positives.high > 100
    assert said.sentence.startswith("Go on:")


def test_simulated_campaigns_are_foretold() -> None:
    """The bench in small: two made collections, the projection learner, four rounds, by uncertainty."""
    bench, made = _load("advice"), _load("made_rows")
    within = []
    for seed in (0, 1):
        collection = made.made_rows(500, 24, 300, seed)
        part = bench.Part(AllPairs(500), collection.rows, collection.rows, collection.positives)
        rows = bench.campaign(part, "uncertainty", [128, 160, 200, 250], seed)
        assert [row["round"] for row in rows] == [2, 3, 4]
        within += [row["next"]["within"] for row in rows]
    assert np.mean(within) >= 0.8


def _load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# ── stop rules ──────────────────────────────────────────────────────────────────────────────────────

FACTS = Facts(labels=4000, rounds=3, batch=1000, positives=40, ap=0.7, ap_gain=0.02, left=150)


@pytest.mark.parametrize(
    ("words", "held"),
    [
        ("positives < 5%", "positives < 5%"),
        ("positives < 4%", None),
        ("positives <= 40", "positives <= 40"),
        ("labels >= 4,000", "labels >= 4000"),
        ("labels >= 5000", None),
        ("ap gain < 0.01", None),
        ("ap gain < 2.5%", "ap gain < 2.5%"),
        ("AP >= 0.7", "ap >= 0.7"),
        ("left < 100 or rounds >= 3", "rounds >= 3"),
        ("positives < 5% and labels >= 5000", None),
        ("labels >= 5000 or positives < 5% and left < 200", "positives < 5% and left < 200"),
    ],
)
def test_a_rule_holds_or_not(words: str, held: str | None) -> None:
    assert parse_stop_rule(words).holds(FACTS) == held


def test_what_is_not_known_never_stops() -> None:
    unknown = Facts(labels=10, rounds=1, batch=10, positives=1)
    for words in ("left < 1000000", "ap gain < 1", "ap > 0"):
        assert parse_stop_rule(words).holds(unknown) is None


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

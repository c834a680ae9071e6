"""Advice after a round: worked numbers, honest width, coverage, and stop rules in words."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import experiments.bench.advice as advice_bench
from experiments.bench.synthetic_rows import synthetic_rows
from pairsieve.advice import Advice, advise, parse_stop_rule
from pairsieve.advice.batch_yield import LabelledBatch, next_positives
from pairsieve.advice.learning_curve import NotKnown, ap_after
from pairsieve.advice.remaining import ScoreCounts, positives_left
from pairsieve.advice.stop_rules import QUANTITIES, Facts
from pairsieve.errors import SettingsError
from pairsieve.pairs import AllPairs


def batch(labels: int, positives: int) -> LabelledBatch:
    return LabelledBatch(np.arange(labels) < positives)


# ── the next batch ──────────────────────────────────────────────────────────────────────────────────


def test_after_the_seed_set_the_interval_is_wide() -> None:
    said = next_positives([batch(100, 50)], 100)
    assert 40 <= said.value <= 60
    assert said.high - said.low > 40
    assert "no earlier round" in said.method


def test_steady_rounds_narrow_it_around_their_rate() -> None:
    steady = [batch(400, 80) for _ in range(7)]
    first, later = (next_positives(steady[:n], 400) for n in (1, 7))
    assert later.high - later.low < 0.6 * (first.high - first.low)
    assert later.low <= 80 <= later.high
    assert abs(later.value - 80) < 20


@pytest.mark.parametrize(("labels", "positives"), [(256, 255), (256, 227), (256, 0), (300, 9)])
def test_labels_of_one_kind_teach_no_boundary(labels: int, positives: int) -> None:
    """It is said, and the interval is wider than the same rates would make it with more labels."""
    said = next_positives([batch(labels, positives)], 384)
    more = next_positives([batch(labels * 100, positives * 100 + 10)], 384)
    assert "teach no boundary" in said.method and "teach no boundary" not in more.method
    assert said.low <= more.low and said.high >= more.high
    assert (said.low, said.high) != (more.low, more.high)


def test_no_round_answered_is_refused() -> None:
    with pytest.raises(NotKnown, match="no round has been answered yet"):
        next_positives([], 100)
    with pytest.raises(NotKnown, match="no next batch is planned"):
        next_positives([batch(10, 5)], 0)


@pytest.mark.slow
def test_intervals_cover_on_made_campaigns() -> None:
    """Rates that wander, each campaign's with a drift of its own: 90 % intervals, 85 % at least."""
    rng = np.random.default_rng(3)
    within = []
    for _ in range(40):
        drift, follows = rng.normal(-0.4, 0.4), rng.uniform(0, 0.6)
        logit = rng.normal(0, 1)
        history = [batch(256, int(rng.binomial(256, 1 / (1 + np.exp(-logit)))))]
        for number in range(1, 6):
            size = round(256 * 1.5**number)
            move = rng.normal(-0.3, 0.5)
            logit += drift + follows * move + rng.normal(0, 0.4)
            came = int(rng.binomial(size, 1 / (1 + np.exp(-logit))))
            said = next_positives(history, size)
            within.append(said.low <= came <= said.high)
            history.append(batch(size, came))
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
    unasked = ScoreCounts(edges, np.histogram(scores[rest], edges)[0])
    said = positives_left(unasked, [batch(100, 50), LabelledBatch(match[asked], scores[asked])])
    truth = int(match[rest].sum())
    assert said.low <= truth <= said.high
    assert truth / 3 <= said.value <= truth * 3
    assert said.n == 500


def test_what_is_left_is_not_told_where_nothing_but_the_line_says_so() -> None:
    """400 million unasked pairs, as near as those that were asked: over 100 for each match found."""
    edges, scores = np.linspace(-1, 1, 401), np.linspace(-0.5, 0.5, 500)
    unasked = ScoreCounts(edges, np.full(400, 10**6))
    history = [batch(10, 5), LabelledBatch(np.arange(500) % 10 == 0, scores)]
    with pytest.raises(NotKnown, match="an audit can tell"):
        positives_left(unasked, history)
    with pytest.raises(NotKnown, match="teach no boundary"):
        positives_left(unasked, [LabelledBatch(np.ones(500, bool), scores)])
    with pytest.raises(NotKnown, match="no batch chosen by a model"):
        positives_left(unasked, history[:1])


def test_what_the_next_batch_brings_is_left() -> None:
    """No unasked pair scores high, so hardly a match would be left; but the next batch brings some."""
    scores = np.linspace(0.4, 0.9, 500)
    unasked = ScoreCounts(np.array([-0.1, 0.0, 0.1]), np.array([1000, 1000]))
    said = advise([batch(500, 200), LabelledBatch(np.arange(500) >= 300, scores)], 500, 0.4, unasked)
    assert said.left is not None and said.next_positives is not None
    assert said.left.low >= said.next_positives.low > 50


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
    said = advise([batch(100, 30)], 150, curve=[(100, 0.3)])
    assert said.next_positives is not None
    assert (said.left, said.ap_after, said.ap_gain) == (None, None, None)
    assert set(said.not_known) == {"left", "ap_after"}
    assert "needs 3 measured rounds, there are 1" in said.not_known["ap_after"]
    row = json.loads(json.dumps(said.as_json()))
    assert row["next_labels"] == 150 and Advice.from_json(row) == said
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
    history = [batch(500, 250), *(batch(500, positives) for _ in range(4))]
    points = [(1000 * (4 + i), value) for i, value in enumerate(curve)]
    said = advise(history, 500, curve=points)
    assert said.sentence.startswith(verdict)
    assert "the next 500 labels should bring about" in said.sentence


def test_a_wide_interval_never_says_stop() -> None:
    """One match of 500 after 250 of 500: the next batch may bring few or many."""
    said = advise([batch(500, 250), batch(500, 1)], 500, curve=[])
    assert said.next_positives is not None and said.next_positives.high > 100
    assert said.sentence.startswith("Go on:")


@pytest.mark.slow
def test_simulated_campaigns_are_foretold() -> None:
    """The bench in small: two synthetic collections, the projection learner, four rounds, by uncertainty."""
    within = []
    for seed in (0, 1):
        collection = synthetic_rows(500, 24, 300, seed)
        part = advice_bench.Part(AllPairs(500), collection.rows, collection.rows, collection.positives)
        rows = advice_bench.campaign(part, "uncertainty", [128, 160, 200, 250], seed)
        assert [row["round"] for row in rows] == [2, 3, 4]
        within += [row["next"]["within"] for row in rows]
    assert np.mean(within) >= 0.8


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

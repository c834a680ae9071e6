"""The witness of the advice: what likeness of texts says of a batch, and what is made of what it missed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_task import begin, made_task
from pairsieve.artifacts import ArtifactStore
from pairsieve.campaign.guidance import save_opinion, scored_by
from pairsieve.campaign.likeness import frozen_rows, likeness, mixed_up, some_of
from pairsieve.measure.advice import advise
from pairsieve.measure.next_batch import Batch, Unasked, depth_of, next_positives
from pairsieve.measure.witness import foreseen
from pairsieve.pairs import AllPairs, CrossPairs


def batch(labels: int, positives: int, share: float | None = None) -> Batch:
    return Batch(np.arange(labels) < positives, foreseen=share)


def looks(*counts: tuple[float, int]) -> np.ndarray:
    """One column: `n` pairs that are `value` alike, for every (value, n)."""
    return np.concatenate([np.full(n, value) for value, n in counts])[:, None]


APART = looks((0.05, 200))

# ── what a batch looks like ─────────────────────────────────────────────────────────────────────────


def test_alike_pairs_match_as_often_as_those_before() -> None:
    """80 of 100 pairs match at 0.8, 20 of 100 at 0.4: a batch at 0.4 should bring a fifth, one at 0.8 four
    fifths, half of each a half."""
    first, answers = looks((0.8, 100), (0.4, 100)), [np.r_[np.arange(100) < 80, np.arange(100) < 20]]
    for counts, share in (([(0.4, 50)], 0.2), ([(0.8, 50)], 0.8), ([(0.4, 50), (0.8, 50)], 0.5)):
        assert foreseen([first, looks(*counts)], answers, APART) == [pytest.approx(share, abs=0.05)]


def test_a_seed_set_of_matches_alone_knows_which_way_is_down() -> None:
    """All 1,000 match, between 0.8 and 0.9. Pairs at 0.85 should match too, pairs like random ones hardly."""
    first, answers = np.linspace(0.8, 0.9, 1000)[:, None], [np.ones(1000, bool)]
    (near,) = foreseen([first, looks((0.85, 50))], answers, APART)
    (far,) = foreseen([first, looks((0.05, 50))], answers, APART)
    (between,) = foreseen([first, looks((0.45, 50))], answers, APART)
    assert near is not None and between is not None and far is not None
    assert near > 0.95 > between > far and far < 0.1


@given(st.integers(0, 2**32 - 1))
def test_no_batch_is_foreseen_by_its_own_answers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    seen = [rng.random((30, 2)) for _ in range(4)]
    answers = [rng.random(30) < 0.5 for _ in range(3)]
    other = [answers[0], answers[1], ~answers[2]]
    apart = rng.random((20, 2)) / 10
    assert foreseen(seen, answers, apart)[:2] == foreseen(seen, other, apart)[:2]


def test_an_empty_batch_is_not_foreseen() -> None:
    nothing = np.empty((0, 1))
    seen, answers = [looks((0.5, 10)), nothing, looks((0.5, 10))], [np.arange(10) < 5, np.empty(0, bool)]
    shares = foreseen(seen, answers, APART)
    assert shares[0] is None and shares[1] is not None
    assert foreseen([nothing, seen[0]], [np.empty(0, bool)], APART) == [None]


# ── what it missed ──────────────────────────────────────────────────────────────────────────────────


def test_what_was_missed_before_is_taken_off() -> None:
    """Foreseen half each time, and two fifths came: two fifths are expected, not what the last batch says."""
    history = [batch(1000, 900), *(batch(1000, 400, 0.5) for _ in range(3))]
    said = next_positives(history, 1000, foreseen=0.5)
    assert abs(said.value - 400) < 25
    assert said.high - said.low < 400 and said.low < 400 < said.high
    assert next_positives(history, 1000, foreseen=0.1).high < 200
    assert said.n == 3 and "missed in earlier rounds" in said.method


def test_a_batch_that_is_not_chosen_yet_is_known_less() -> None:
    """Nobody has seen it: the rates of earlier rounds say less than likeness does, and say that they do."""
    history = [batch(1000, 600), *(batch(1000, 400, 0.45) for _ in range(3))]
    seen, unseen = next_positives(history, 1000, foreseen=0.45), next_positives(history, 1000)
    assert unseen.low < seen.low < 400 < seen.high < unseen.high
    assert "not chosen yet" in unseen.method


def test_a_witness_that_was_wrong_is_trusted_less() -> None:
    right = [batch(1000, 500), *(batch(1000, 450, 0.5) for _ in range(4))]
    wrong = [batch(1000, 500), *(batch(1000, came, 0.5) for came in (100, 900, 100, 900))]
    narrow, wide = (next_positives(history, 1000, foreseen=0.5) for history in (right, wrong))
    assert narrow.high - narrow.low < 0.5 * (wide.high - wide.low)


def test_what_is_not_known_is_said() -> None:
    """255 matches and one other teach no boundary; 200 others do."""
    said = advise([batch(256, 255)], next_labels=384, foreseen=0.5)
    assert "what the next 384 labels bring is not known yet (" in said.sentence
    assert said.next_positives is not None and "teach no boundary" in said.next_positives.method
    taught = advise([batch(456, 256)], next_labels=384, foreseen=0.5)
    assert "should bring about" in taught.sentence


def test_intervals_of_a_witness_cover_on_made_campaigns() -> None:
    """Rates that jump, a witness that is off by a constant of its own and by noise: at least 85 %, narrow."""
    rng = np.random.default_rng(4)
    within, width = [], []
    for _ in range(60):
        off = rng.normal(-0.3, 0.3)
        history = [batch(300, 200)]
        for _ in range(5):
            logit = rng.normal(0, 1)
            share = float(1 / (1 + np.exp(-(logit - off + rng.normal(0, 0.35)))))
            came = int(rng.binomial(500, 1 / (1 + np.exp(-logit))))
            said = next_positives(history, 500, foreseen=share)
            within.append(said.low <= came <= said.high)
            width.append((said.high - said.low) / 500)
            history.append(batch(500, came, share))
    assert np.mean(within) >= 0.85
    assert np.median(width) < 0.4


# ── what it sees ────────────────────────────────────────────────────────────────────────────────────


def test_likeness_of_words_letters_and_rows() -> None:
    texts = ["how do I boil an egg", "how do I boil an egg", "how to boil eggs", "capital of France"]
    space, rows = AllPairs(4), np.array([[1.0, 0], [1, 0], [3, 4], [0, 1]])
    columns = likeness(space, (texts, texts), space.ids([0, 0, 0], [1, 2, 3]), (rows, rows))
    same, close, far = columns
    assert same[:6].tolist() == pytest.approx([1.0] * 6)
    assert (close[:6] < 1).all() and (close[[0, 3]] > far[[0, 3]]).all() and far[0] == 0
    assert columns[:, 6].tolist() == pytest.approx([1.0, 0.6, 0.0])
    cross = CrossPairs(1, 3)
    between = likeness(cross, (texts[:1], texts[1:]), cross.ids([0, 0, 0], [0, 1, 2]))
    assert between.shape == (3, 6) and between[:, 0].tolist() == pytest.approx(
        columns[:, 0].tolist(), abs=0.1
    )


@given(st.integers(2, 60), st.integers(0, 2**32 - 1))
def test_mixed_up_pairs_are_others_of_the_same_texts(size: int, seed: int) -> None:
    space = AllPairs(30)
    ids = space.sample(size, np.random.default_rng(seed))
    apart = mixed_up(space, ids)
    assert space.contains(apart).all() and not np.isin(apart, ids).any()
    assert len(np.unique(apart)) == len(apart) <= size


def test_of_a_large_batch_some_pairs_are_seen() -> None:
    assert some_of(np.arange(3)).tolist() == [0, 1, 2]
    places = some_of(np.arange(5000))
    assert len(places) == 1000 and places[0] == 0 and places[-1] == 4999 and (np.diff(places) >= 4).all()


# ── how deep a batch lies, where a trained head cuts near the top ───────────────────────────────────


def test_a_depth_between_two_edges() -> None:
    """60 pairs reach 0, 30 reach ¼: half way between them 45 do."""
    unasked = Unasked(np.array([0.0, 0.25, 0.5, 1.0]), np.array([30, 20, 10]))
    assert depth_of(np.array([0.125]), unasked) == pytest.approx(np.log(1 + 45))


def test_what_is_kept_of_all_scores_tells_depths_near_the_top(tmp_path: Path) -> None:
    """100,000 pairs between 0.99 and 1: one coarse bin of 256 would hold them nearly all. Around the 1,000th
    the depth is right to 5 %, and around the 10th to a few pairs."""
    edges = np.linspace(-1.001, 1.001, (1 << 14) + 1)
    scores = np.sort(1 - 0.01 * np.random.default_rng(0).random(100_000))[::-1]
    reaching = len(scores) - np.searchsorted(scores[::-1], edges, "left")
    search = SimpleNamespace(
        counts=lambda: (edges, reaching), scan=SimpleNamespace(scores=lambda ids: scores[ids])
    )
    for middle, off in ((1000, 50), (30_000, 1500)):
        ids = np.arange(middle - 5, middle + 6)
        save_opinion(tmp_path, search, SimpleNamespace(weight=1.0, bias=0.0), ids, np.empty(0, np.int64))
        found = scored_by(tmp_path)
        assert found is not None and len(found[1].pairs) < 1000
        assert np.expm1(depth_of(found[0].scores, found[1])) == pytest.approx(middle, abs=off)
        assert found[1].pairs.sum() == 100_000


# ── in a campaign ───────────────────────────────────────────────────────────────────────────────────


def test_a_campaign_asks_the_witness_and_the_bench_says_the_same(
    tmp_path: Path, tiny_encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = begin(tmp_path / "campaign", made_task(tmp_path / "task"), tiny_encoder, rounds=3)
    campaign.run()
    said = [row["advice"]["next_positives"] for row in campaign.status()["rounds"]]
    assert [figure["n"] for figure in said] == [0, 1, 2]
    assert frozen_rows(campaign.shared, campaign.learner.encoder, campaign.split) is not None
    assert frozen_rows(ArtifactStore(tmp_path / "none"), campaign.learner.encoder, campaign.split) is None

    bench = _load("advice")
    eyes = bench.Eyes(None, "all-MiniLM-L6-v2", words_only=False)
    sealed = bench.compare_campaigns([tmp_path / "campaign"], False, eyes, verbose=True)
    again = bench.compare_campaigns([tmp_path / "campaign"], True, eyes, verbose=False)
    assert [row["round"] for row in sealed] == [2, 3]
    assert sealed == again  # today's code, and what it said then
    printed = capsys.readouterr().out
    assert "from batch 3" in printed and "all of made" in printed

    (tmp_path / "campaign" / "ledger.sqlite").rename(tmp_path / "elsewhere.sqlite")
    counted = bench.compare_campaigns([tmp_path / "campaign"], True, eyes, verbose=False)
    assert [row["next"]["came"] for row in counted] == [row["next"]["came"] for row in sealed]
    assert not (tmp_path / "campaign" / "ledger.sqlite").exists()


def _load(name: str) -> Any:
    place = Path(__file__).parent.parent / "bench" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"bench_{name}", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

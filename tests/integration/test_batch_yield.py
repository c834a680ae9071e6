"""The batch-yield model: what text similarity says of a batch, and what is made of what it missed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import experiments.bench.advice as bench
from pairsieve.advice import SavedSelection, advise, save_scores
from pairsieve.advice.batch_yield import LabelledBatch, next_positives, predicted_rates
from pairsieve.advice.features import frozen_rows, random_pairs, similarity_features, subsample
from pairsieve.artifacts import ArtifactStore, save_array
from pairsieve.pairs import AllPairs, CrossPairs
from synthetic_task import begin, synthetic_task


def batch(labels: int, positives: int, rate: float | None = None) -> LabelledBatch:
    return LabelledBatch(np.arange(labels) < positives, predicted_rate=rate)


def features(*counts: tuple[float, int]) -> np.ndarray:
    """One column: `n` pairs that are `value` alike, for every (value, n)."""
    return np.concatenate([np.full(n, value) for value, n in counts])[:, None]


RANDOM = features((0.05, 200))

# ── what a batch looks like ─────────────────────────────────────────────────────────────────────────


def test_alike_pairs_match_as_often_as_those_before() -> None:
    """80 of 100 pairs match at 0.8, 20 of 100 at 0.4: a batch at 0.4 should bring a fifth, one at 0.8 four
    fifths, half of each a half."""
    first, answers = features((0.8, 100), (0.4, 100)), [np.r_[np.arange(100) < 80, np.arange(100) < 20]]
    for counts, share in (([(0.4, 50)], 0.2), ([(0.8, 50)], 0.8), ([(0.4, 50), (0.8, 50)], 0.5)):
        assert predicted_rates([first, features(*counts)], answers, RANDOM) == [
            pytest.approx(share, abs=0.05)
        ]


def test_a_seed_set_of_matches_alone_knows_which_way_is_down() -> None:
    """All 1,000 match, between 0.8 and 0.9. Pairs at 0.85 should match too, pairs like random ones hardly."""
    first, answers = np.linspace(0.8, 0.9, 1000)[:, None], [np.ones(1000, bool)]
    (near,) = predicted_rates([first, features((0.85, 50))], answers, RANDOM)
    (far,) = predicted_rates([first, features((0.05, 50))], answers, RANDOM)
    (between,) = predicted_rates([first, features((0.45, 50))], answers, RANDOM)
    assert near is not None and between is not None and far is not None
    assert near > 0.95 > between > far and far < 0.1


@given(st.integers(0, 2**32 - 1))
def test_no_batch_is_predicted_by_its_own_answers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    seen = [rng.random((30, 2)) for _ in range(4)]
    answers = [rng.random(30) < 0.5 for _ in range(3)]
    other = [answers[0], answers[1], ~answers[2]]
    apart = rng.random((20, 2)) / 10
    assert predicted_rates(seen, answers, apart)[:2] == predicted_rates(seen, other, apart)[:2]


def test_an_empty_batch_is_not_predicted() -> None:
    nothing = np.empty((0, 1))
    seen, answers = (
        [features((0.5, 10)), nothing, features((0.5, 10))],
        [np.arange(10) < 5, np.empty(0, bool)],
    )
    shares = predicted_rates(seen, answers, RANDOM)
    assert shares[0] is None and shares[1] is not None
    assert predicted_rates([nothing, seen[0]], [np.empty(0, bool)], RANDOM) == [None]


# ── what it missed ──────────────────────────────────────────────────────────────────────────────────


def test_what_was_missed_before_is_taken_off() -> None:
    """Predicted half each time, and two fifths came: two fifths are expected, not nine tenths."""
    history = [batch(1000, 900), *(batch(1000, 400, 0.5) for _ in range(3))]
    said = next_positives(history, 1000, predicted_rate=0.5)
    assert abs(said.value - 400) < 25
    assert said.high - said.low < 400 and said.low < 400 < said.high
    assert next_positives(history, 1000, predicted_rate=0.1).high < 200
    assert said.n == 3 and "missed in earlier rounds" in said.method


def test_a_batch_that_is_not_chosen_yet_is_known_less() -> None:
    """Nobody has seen it: the rates of earlier rounds say less than similarity does, and say that they do."""
    history = [batch(1000, 600), *(batch(1000, 400, 0.45) for _ in range(3))]
    seen, unseen = next_positives(history, 1000, predicted_rate=0.45), next_positives(history, 1000)
    assert unseen.low < seen.low < 400 < seen.high < unseen.high
    assert "not chosen yet" in unseen.method


def test_predictions_that_were_wrong_are_trusted_less() -> None:
    right = [batch(1000, 500), *(batch(1000, 450, 0.5) for _ in range(4))]
    wrong = [batch(1000, 500), *(batch(1000, came, 0.5) for came in (100, 900, 100, 900))]
    narrow, wide = (next_positives(history, 1000, predicted_rate=0.5) for history in (right, wrong))
    assert narrow.high - narrow.low < 0.5 * (wide.high - wide.low)


def test_what_is_not_known_is_said() -> None:
    """255 matches and one other teach no boundary; 200 others do."""
    said = advise([batch(256, 255)], 384, predicted_rate=0.5)
    assert "what the next 384 labels bring is not known yet (" in said.sentence
    assert said.next_positives is not None and "teach no boundary" in said.next_positives.method
    taught = advise([batch(456, 256)], 384, predicted_rate=0.5)
    assert "should bring about" in taught.sentence


@pytest.mark.slow
def test_intervals_by_similarity_cover_on_made_campaigns() -> None:
    """Rates that jump, predictions off by a constant of their own and by noise: at least 85 %, narrow."""
    rng = np.random.default_rng(4)
    within, width = [], []
    for _ in range(60):
        off = rng.normal(-0.3, 0.3)
        history = [batch(300, 200)]
        for _ in range(5):
            logit = rng.normal(0, 1)
            share = float(1 / (1 + np.exp(-(logit - off + rng.normal(0, 0.35)))))
            came = int(rng.binomial(500, 1 / (1 + np.exp(-logit))))
            said = next_positives(history, 500, predicted_rate=share)
            within.append(said.low <= came <= said.high)
            width.append((said.high - said.low) / 500)
            history.append(batch(500, came, share))
    assert np.mean(within) >= 0.85
    assert np.median(width) < 0.4


# ── features ────────────────────────────────────────────────────────────────────────────────────


def test_similarity_of_words_letters_and_rows() -> None:
    texts = ["how do I boil an egg", "how do I boil an egg", "how to boil eggs", "capital of France"]
    space, rows = AllPairs(4), np.array([[1.0, 0], [1, 0], [3, 4], [0, 1]])
    columns = similarity_features(space, (texts, texts), space.ids([0, 0, 0], [1, 2, 3]), (rows, rows))
    same, close, far = columns
    assert same[:6].tolist() == pytest.approx([1.0] * 6)
    assert (close[:6] < 1).all() and (close[[0, 3]] > far[[0, 3]]).all() and far[0] == 0
    assert columns[:, 6].tolist() == pytest.approx([1.0, 0.6, 0.0])
    cross = CrossPairs(1, 3)
    between = similarity_features(cross, (texts[:1], texts[1:]), cross.ids([0, 0, 0], [0, 1, 2]))
    assert between.shape == (3, 6) and between[:, 0].tolist() == pytest.approx(
        columns[:, 0].tolist(), abs=0.1
    )


@given(st.integers(2, 60), st.integers(0, 2**32 - 1))
def test_random_pairs_are_others_of_the_same_texts(size: int, seed: int) -> None:
    space = AllPairs(30)
    ids = space.sample(size, np.random.default_rng(seed))
    apart = random_pairs(space, ids)
    assert space.contains(apart).all() and not np.isin(apart, ids).any()
    assert len(np.unique(apart)) == len(apart) <= size


def test_of_a_large_batch_some_pairs_are_seen() -> None:
    assert subsample(np.arange(3)).tolist() == [0, 1, 2]
    places = subsample(np.arange(5000))
    assert len(places) == 1000 and places[0] == 0 and places[-1] == 4999 and (np.diff(places) >= 4).all()


# ── what is saved with a selection ──────────────────────────────────────────────────────────────────


def test_all_unasked_pairs_are_counted_by_score(tmp_path: Path) -> None:
    """100,000 pairs between 0.99 and 1, the best 40 asked before: the others are counted, bin by bin."""
    edges = np.linspace(-1.001, 1.001, (1 << 14) + 1)
    scores = np.sort(1 - 0.01 * np.random.default_rng(0).random(100_000))[::-1]
    reaching = len(scores) - np.searchsorted(scores[::-1], edges, "left")
    search = SimpleNamespace(
        counts=lambda: (edges, reaching), scan=SimpleNamespace(scores=lambda ids: scores[ids])
    )
    save_array(tmp_path / "ids.npy", np.arange(40, 50))
    assert SavedSelection.load(tmp_path).scores is None
    save_scores(tmp_path, search, np.arange(40, 50), np.arange(40))
    found = SavedSelection.load(tmp_path)
    assert found.scores is not None and found.unasked is not None
    assert found.scores.tolist() == scores[40:50].tolist()
    assert np.array_equal(found.unasked.pairs, np.histogram(scores[40:], edges)[0])


# ── in a campaign ───────────────────────────────────────────────────────────────────────────────────


def test_a_campaign_predicts_by_similarity_and_the_bench_says_the_same(
    tmp_path: Path, tiny_encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = begin(tmp_path / "campaign", synthetic_task(tmp_path / "task"), tiny_encoder, rounds=3)
    campaign.run()
    said = [row["advice"]["next_positives"] for row in campaign.status()["rounds"]]
    assert [figure["n"] for figure in said] == [0, 1, 2]
    assert frozen_rows(campaign.store, campaign.trainer.learner.encoder, campaign.split) is not None
    assert (
        frozen_rows(ArtifactStore(tmp_path / "none"), campaign.trainer.learner.encoder, campaign.split)
        is None
    )

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

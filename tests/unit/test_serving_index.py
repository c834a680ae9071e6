"""Search by a scorer over made rows, against `score_space`: sides, lengths, cross-encoders, many changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, pair_rows
from pairsieve.reranker import Reranker
from pairsieve.reranker.features import count_pieces
from pairsieve.reranker.trees import fit_trees
from pairsieve.scan import Scan, open_scan
from pairsieve.scorer import Corrections, Scorer, score_matrix, score_space
from pairsieve.serving.held import HeldTexts
from pairsieve.serving.index import Index
from pairsieve.serving.record import Change
from pairsieve.synthetic import synthetic_questions

FEATURES = 25  # of a pair: with a cross-encoder three more
TEXTS = synthetic_questions(120, seed=3).texts


class CountingCross:
    """A cross-encoder by arithmetic on the texts, which are not interchangeable; counts what it reads."""

    def __init__(self) -> None:
        self.read = 0

    def logits(self, left: Any, right: Any, ids: Ids) -> Any:
        self.read += len(ids)
        pairs = [(left[a], right[b]) for a, b in zip(*(rows.tolist() for rows in pair_rows(ids)))]
        return np.array([len(a) - 0.5 * len(b) + (a[0] == b[0]) for a, b in pairs], np.float64)


def scan_of(space: PairSpace, left: Any, right: Any, lengths: bool) -> Scan:
    return open_scan(space, left, right, device="cpu", lengths=lengths)


def unit(rng: np.random.Generator, count: int) -> Any:
    rows = np.repeat(rng.normal(size=(count // 3 + 1, 16)), 3, axis=0)[:count]
    rows = rows + 0.4 * rng.normal(size=rows.shape)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def scorer_of(symmetric: bool, cross: Any, reranked: bool, corrections: Corrections | None = None) -> Scorer:
    rng = np.random.default_rng(7)
    usual = Corrections(True, (0.25, 0.25), (1.0, 1.0), 0.3)
    if not symmetric:
        usual = Corrections(False, (0.2, 0.3), (0.15, 0.05))
    reranker = None
    if reranked:
        wide = rng.normal(size=(300, FEATURES + 3 * bool(cross))).astype(np.float32)
        trees = fit_trees(wide, wide.sum(axis=1) > 0, 0)
        reranker = Reranker(trees, count_pieces([TEXTS[:60]]), 1.5, -0.5, 5, (cross,) if cross else ())
    return Scorer(None, corrections or usual, 8.0, -3.0, reranker)  # type: ignore[arg-type]


def check(index: Index, scorer: Scorer) -> None:
    """Every held asker's answers are its row of the matrix of all scores."""
    asking, answering = index.asking, index.answering
    assert asking is not None
    sides = [asking, answering] if index.side else [answering, asking]
    texts = [[side.texts[row] for row in np.flatnonzero(side.alive)] for side in sides]
    rows = [side.plain.rows[side.alive] for side in sides]
    one = index.one
    space: PairSpace = AllPairs(len(rows[0])) if one else CrossPairs(*map(len, rows))
    unit_rows = rows[0], None if one else rows[1]
    scored = score_space(scorer, space, (texts[0], texts[0] if one else texts[1]), unit_rows, scan_of)
    matrix = score_matrix(scored)
    matrix = matrix if one or index.side else matrix.T
    keys = [answering.keys[row] for row in np.flatnonzero(answering.alive)]
    for at, row in enumerate(np.flatnonzero(asking.alive).tolist()):
        query = index.query_by_key(asking.keys[row])
        assert query is not None
        found = {key: score for key, _, score in index.find([query], 1000)[0]}
        expected = {key: score for key, score in zip(keys, matrix[at].tolist()) if not np.isnan(score)}
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    "cross", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["trees", "cross-encoder"]
)
@pytest.mark.parametrize("side", [None, 0, 1], ids=["one", "answering-left", "answering-right"])
def test_held_texts_have_the_scores_of_the_whole_space(side: int | None, cross: bool) -> None:
    rng = np.random.default_rng(1)
    encoder = CountingCross() if cross else None
    scorer = scorer_of(side is None, encoder, reranked=True)
    held = HeldTexts([f"k{n}" for n in range(50)], TEXTS[:50], unit(rng, 50), smoothing=True)
    asking = HeldTexts([f"a{n}" for n in range(30)], TEXTS[50:80], unit(rng, 30), smoothing=True)
    index = Index(held, scorer, None if side is None else asking, side or 0)
    check(index, scorer)
    fresh = unit(rng, 40)
    for number in range(6):
        changes = [
            Change(f"k{rng.integers(55)}", TEXTS[80 + 5 * number + at], fresh[5 * number + at])
            for at in range(5)
        ]
        index.apply([*changes, Change(f"k{rng.integers(50)}", None)])
    check(index, scorer)
    if encoder is not None:
        before = encoder.read
        query = index.query_by_key(index.asking.keys[-1])  # type: ignore[union-attr]
        assert query is not None
        index.find([query], 5)
        assert encoder.read == before, "logits of two texts are made once"


@pytest.mark.parametrize(
    "corrections",
    [
        Corrections(True),
        Corrections(True, hubness=(0.25, 0.25)),
        Corrections(True, smoothing=(1.0, 1.0), floor=0.2),
        Corrections(False, hubness=(0.3, 0.2)),
        Corrections(False, smoothing=(0.2, 0.1)),
    ],
    ids=repr,
)
def test_each_correction_alone(corrections: Corrections) -> None:
    rng = np.random.default_rng(2)
    scorer = scorer_of(corrections.symmetric, None, reranked=False, corrections=corrections)
    smoothing = any(corrections.smoothing)
    held = HeldTexts([f"k{n}" for n in range(40)], TEXTS[:40], unit(rng, 40), smoothing)
    asking = HeldTexts([f"a{n}" for n in range(20)], TEXTS[50:70], unit(rng, 20), smoothing)
    index = Index(held, scorer, None if corrections.symmetric else asking, 1)
    check(index, scorer)
    fresh = unit(rng, 10)
    index.apply([Change(f"k{3 * at}", TEXTS[90 + at], fresh[at]) for at in range(10)])
    index.apply([Change(f"k{at}", None) for at in range(10)])
    check(index, scorer)


def test_a_collection_that_begins_and_ends_empty() -> None:
    rng = np.random.default_rng(3)
    scorer = scorer_of(True, None, reranked=True)
    index = Index(HeldTexts([], [], unit(rng, 1)[:0], smoothing=True), scorer)
    rows = unit(rng, 8)
    for at in range(8):
        index.apply([Change(f"k{at}", TEXTS[at], rows[at])])
        assert index.find([index.query(TEXTS[at], rows[at])], 3)[0][0] == (f"k{at}", TEXTS[at], 1.0)
        if at:
            check(index, scorer)
    for at in range(8):
        assert len(index.find([index.query("a new text", rows[0])], 10)[0]) == 8 - at
        index.apply([Change(f"k{at}", None)])
    assert len(index) == 0 and index.find([index.query("a new text", rows[0])], 3) == [[]]

"""Search by a scorer over made rows, against `score_space`: sides, lengths, cross-encoders, many changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.synthetic import synthetic_questions
from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, pair_rows
from pairsieve.reranker import Cuts, Reranker, Stack, rerank
from pairsieve.reranker.features import count_pieces, feature_count
from pairsieve.reranker.lexical import fit_lexical
from pairsieve.reranker.linear import fit_linear
from pairsieve.reranker.trees import fit_trees
from pairsieve.scan import Scan, open_scan
from pairsieve.scorer import Corrections, Scorer, score_matrix, score_space
from pairsieve.serving.held import HeldTexts
from pairsieve.serving.index import Index, Query
from pairsieve.serving.record import Change

CUTS = Cuts(0.3, 0.25, 0.3)  # some pairs reach either, most reach none
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
        wide = rng.normal(size=(300, feature_count(2 + bool(cross)))).astype(np.float32)
        models = fit_trees(wide, wide.sum(axis=1) > 0, 0), fit_linear(wide, wide.sum(axis=1) > 0)
        learnt = count_pieces([TEXTS[:60]]), fit_lexical([TEXTS[:60]])
        reranker = Reranker(*models, *learnt, CUTS, Stack(1.2, 0.5, 0.7, -0.5), (cross,) if cross else ())
    return Scorer(None, corrections or usual, 8.0, -3.0, reranker)  # type: ignore[arg-type]


def held_texts(scorer: Scorer, name: str, texts: Any, rows: Any, smoothing: bool = True) -> HeldTexts:
    lexical = None if scorer.reranker is None else scorer.reranker.lexical.embed(texts)
    return HeldTexts([f"{name}{n}" for n in range(len(texts))], texts, rows, smoothing, lexical)


def check(index: Index, scorer: Scorer) -> None:
    """Every held query's answers are its row of the matrix of all scores."""
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


def check_new(index: Index, scorer: Scorer, text: str, row: Any) -> int:
    """A new text has the logits that it has where it is held too, as the last one; how many there are."""
    reranker, one = scorer.reranker, index.one
    assert reranker is not None and index._reranker is not None
    kept = [
        (side.texts, side.plain.rows, np.flatnonzero(side.alive)) for side in (index.asking, index.answering)
    ]
    texts = [[every[at] for at in alive] for every, _, alive in kept]
    rows = [every[alive] for _, every, alive in kept]
    texts[0], rows[0] = [*texts[0], text], np.concatenate([rows[0], row[None]])
    if one:
        given = texts[0], texts[0], rows[0], None
        space: PairSpace = AllPairs(len(texts[0]))
    else:
        turn = 1 if index.side else -1
        given = *texts[::turn], *rows[::turn]
        space = CrossPairs(len(given[0]), len(given[1]))
    scan = lambda *given: open_scan(*given, device="cpu")  # noqa: E731
    found = rerank(reranker, scan, space, given[:2], given[2:])
    places = pair_rows(found["ids"])
    held_query, other = places if not one and index.side else places[::-1]
    mine = held_query == len(texts[0]) - 1
    query = index.query(text, row)
    assert query.row is not None
    (candidates,) = index._reranker.find([query])
    assert candidates.rows.tolist() == kept[1][2][other[mine]].tolist()
    assert index._reranker.logits(query, candidates) == pytest.approx(found["logits"][mine], abs=1e-6)
    return int(mine.sum())


# Without letters, and equal once normalised.
ODD = ["???", "How  OLD is the river", "how old is the river", "!", "..."]


@pytest.mark.parametrize(
    "cross", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["trees", "cross-encoder"]
)
@pytest.mark.parametrize("side", [None, 0, 1], ids=["one", "answering-left", "answering-right"])
def test_held_and_new_texts_have_the_scores_of_the_whole_space(side: int | None, cross: bool) -> None:
    rng = np.random.default_rng(1)
    encoder = CountingCross() if cross else None
    scorer = scorer_of(side is None, encoder, reranked=True)
    held = held_texts(scorer, "k", [*TEXTS[:45], *ODD], unit(rng, 50))
    asking = held_texts(scorer, "a", [*TEXTS[50:75], *ODD], unit(rng, 30))
    index = Index(held, scorer, None if side is None else asking, side or 0)
    check(index, scorer)
    fresh = unit(rng, 42)
    for number in range(6):
        texts = [*TEXTS[80 + 5 * number : 84 + 5 * number], ODD[number % 5]]
        changes = [
            Change(f"k{rng.integers(55)}", text, fresh[5 * number + at]) for at, text in enumerate(texts)
        ]
        index.apply([*changes, Change(f"k{rng.integers(50)}", None)])
        index.find([Query("any", row) for row in fresh[:3]], 5)  # some of the best two are known, some not
    check(index, scorer)
    new = ["how OLD is the river", "?", *(text.upper() for text in TEXTS[50:56])]
    near = index.asking.plain.rows[np.flatnonzero(index.asking.alive)[:8]]
    assert sum(check_new(index, scorer, *given) for given in zip(new, near)) > 20
    index.apply([Change(f"k{at}", None) for at in range(0, 50, 2)])
    check(index, scorer)
    if encoder is not None:
        before = encoder.read
        query = index.query_by_key(index.asking.keys[-1])
        assert query is not None
        index.find([query], 5)
        assert encoder.read == before, "logits of two texts are made once"


@pytest.mark.parametrize("side", [0, 1])
def test_without_known_queries_only_the_candidates_of_a_query_compete(side: int) -> None:
    rng = np.random.default_rng(5)
    scorer = scorer_of(False, None, reranked=True)
    index = Index(held_texts(scorer, "k", TEXTS[:40], unit(rng, 40)), scorer, None, side)
    index.apply([Change("k3", None), Change("new", TEXTS[41], index.answering.plain.rows[5])])
    rows = index.answering.plain.rows[[5, 8, 40]]
    assert sum(check_new(index, scorer, *given) for given in zip(TEXTS[50:53], rows)) > 5


def test_an_added_or_removed_text_touches_its_own_partners_only() -> None:
    """What is known of the best competitors of all others stays known, and is right."""
    rng = np.random.default_rng(4)
    scorer = scorer_of(True, None, reranked=True)
    index = Index(held_texts(scorer, "k", TEXTS[:60], unit(rng, 60)), scorer)
    check(index, scorer)
    assert index._reranker is not None
    table, every = index._reranker.table, np.arange(60)
    assert not len(table.unknown(every))
    row = index.answering.plain.rows[7]
    index.apply([Change("new", TEXTS[7], row)])
    assert len(table.of_a[60]) > 3 and table.unknown(np.arange(61)).tolist() == [60]
    lists = [found.tolist() for found in table.of_a]
    check(index, scorer)
    assert not len(table.unknown(np.arange(61)))
    index.apply([Change("new", None)])
    assert set(table.unknown(every)) <= set(lists[60])
    assert all(60 not in found for found in table.of_a) and not len(table.of_a[60])
    check(index, scorer)


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
    held = held_texts(scorer, "k", TEXTS[:40], unit(rng, 40), smoothing)
    asking = held_texts(scorer, "a", TEXTS[50:70], unit(rng, 20), smoothing)
    index = Index(held, scorer, None if corrections.symmetric else asking, 1)
    check(index, scorer)
    fresh = unit(rng, 10)
    index.apply([Change(f"k{3 * at}", TEXTS[90 + at], fresh[at]) for at in range(10)])
    index.apply([Change(f"k{at}", None) for at in range(10)])
    check(index, scorer)


def test_a_collection_that_begins_and_ends_empty() -> None:
    rng = np.random.default_rng(3)
    scorer = scorer_of(True, None, reranked=True)
    index = Index(held_texts(scorer, "k", [], unit(rng, 1)[:0]), scorer)
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

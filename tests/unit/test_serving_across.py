"""Sources in serving, against a brute-force pass over the pairs between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pairsieve.pairs import AcrossPairs, AllPairs
from pairsieve.scan import open_scan
from pairsieve.scorer import Scorer, score_space
from pairsieve.serving.held import HeldTexts
from pairsieve.serving.index import Index
from pairsieve.serving.of_sources import NO_SOURCE, possible_partners, same_source, space_of
from pairsieve.serving.record import Change
from test_serving_index import ODD, TEXTS, scan_of, scorer_of, unit

NAMES = [None, "gazetteer", "atlas", "census"]


def numbered(sources: list[str | None]) -> Any:
    """Every text without a source is a source by itself."""
    place = {name: at for at, name in enumerate(dict.fromkeys(sources)) if name is not None}
    return np.array([place.get(name, 1000 + at) for at, name in enumerate(sources)])  # type: ignore[arg-type]


def check(index: Index, scorer: Scorer) -> None:
    """Each held text's answers: the texts of other sources, with the scores of the whole space."""
    held = index.answering
    living = np.flatnonzero(held.alive).tolist()
    texts, sources = [held.texts[row] for row in living], [held.source_of(row) for row in living]
    keys = [held.keys[row] for row in living]
    space = AcrossPairs(len(living), numbered(sources))
    scored = score_space(scorer, space, (texts, texts), (held.plain.rows[living], None), scan_of)
    for at, key in enumerate(keys):
        query = index.query_by_key(key)
        assert query is not None
        found = {other: score for other, _, score in index.find([query], 1000)[0]}
        others = [
            row
            for row, source in enumerate(sources)
            if row != at and (source is None or source != sources[at])
        ]
        ids = space.ids(np.full(len(others), at), np.array(others, np.int64))
        expected = dict(zip((keys[row] for row in others), scored.scan.scores(ids).tolist()))
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("reranked", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_held_texts_have_the_scores_of_the_pairs_between_sources(
    seed: int, reranked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the texts stand, and after additions, changes of text and of source, and removals."""
    if seed:
        monkeypatch.setattr("pairsieve.serving.held._LEAST_CAPACITY", 8)
        monkeypatch.setattr("pairsieve.serving.held.MOST_SCORES", 200)
    rng = np.random.default_rng(seed)
    scorer = scorer_of(True, None, reranked=reranked)
    texts = [*TEXTS[:45], *ODD]
    lexical = None if scorer.reranker is None else scorer.reranker.lexical.embed(texts)
    sources = [NAMES[at] for at in rng.integers(0, 4, 50).tolist()]
    held = HeldTexts([f"k{n}" for n in range(50)], texts, unit(rng, 50), True, lexical, sources)
    index = Index(held, scorer)
    check(index, scorer)
    fresh = iter(unit(rng, 60))
    for number in range(5):
        changes = [
            Change(f"k{rng.integers(60)}", text, next(fresh), source=NAMES[rng.integers(4)])
            for text in [*TEXTS[60 + 7 * number : 66 + 7 * number], ODD[number]]
        ]
        moved = index.answering.keys[int(np.flatnonzero(index.answering.alive)[number])]
        row = index.answering.row_of[moved]
        text, same_row = index.answering.texts[row], index.answering.plain.rows[row].copy()
        index.apply([*changes, Change(f"k{rng.integers(50)}", None)])
        if moved in index:
            index.apply([Change(moved, text, same_row, source="a source of its own")])
        check(index, scorer)
    index.apply([Change(f"k{at}", None) for at in range(0, 50, 2)])
    check(index, scorer)


@pytest.mark.parametrize("reranked", [False, True])
def test_a_new_text_names_its_source_or_none(reranked: bool) -> None:
    rng = np.random.default_rng(3)
    scorer = scorer_of(True, None, reranked=reranked)
    lexical = None if scorer.reranker is None else scorer.reranker.lexical.embed(TEXTS[:40])
    sources = [NAMES[1 + at % 3] for at in range(40)]
    rows = unit(rng, 41)
    index = Index(
        HeldTexts([f"k{n}" for n in range(40)], TEXTS[:40], rows[:40], True, lexical, sources), scorer
    )

    def asked(text: str, source: str | None) -> list[str]:
        return [key for key, _, _ in index.find([index.query(text, rows[40], source)], 100)[0]]

    for name in NAMES[1:]:
        expected = {f"k{at}" for at in range(40) if sources[at] != name}
        assert set(asked("a new text", name)) == expected
        # A text that is held is asked as that where it is of its source, and is then no answer either.
        own = next(at for at in range(40) if sources[at] == name)
        assert set(asked(TEXTS[own], name)) == expected
        by_key = index.query_by_key(f"k{own}")
        assert by_key is not None
        by_text = index.query(TEXTS[own], rows[own], name)
        assert index.find([by_text], 100) == index.find([by_key], 100)
        other = next(at for at in range(40) if sources[at] != name)
        assert asked(TEXTS[other], name).count(f"k{other}") == 1
    assert len(asked("a new text", None)) == len(asked("a new text", "a source nobody has")) == 40
    assert len(asked(TEXTS[0], None)) == 40


def test_spaces_and_counts_by_hand() -> None:
    sources = np.array([0, NO_SOURCE, 0, 1, NO_SOURCE])
    alive = np.array([True, True, True, True, False])
    assert possible_partners(sources, alive).tolist() == [2, 3, 2, 3, 3]
    assert same_source(sources, np.int64(0)).tolist() == [True, False, True, False, False]
    assert not same_source(sources, np.int64(NO_SOURCE)).any()
    assert space_of(sources).size == 9
    assert space_of(np.full(4, NO_SOURCE)) == AllPairs(4)
    assert possible_partners(np.empty(0, np.int64), np.empty(0, bool)).tolist() == []
    columns, _ = open_scan(space_of(sources), np.eye(5, dtype=np.float32), None, device="cpu").neighbours(4)
    assert sorted(columns[0].tolist()) == [-1, 1, 3, 4]

"""Pairs between sources: the pair space, scans, selection, exact figures and groups equal brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairsieve.campaign.questions import implied_pairs
from pairsieve.errors import InputError
from pairsieve.matches.clusters import constrained_average_linkage
from pairsieve.measure.curve import measure_exactly
from pairsieve.pairs import AcrossPairs, AllPairs, pair_ids, pair_rows
from pairsieve.scan import open_scan, unit_rows
from pairsieve.search import ExactSearch, index_neighbours
from pairsieve.tasks import load_task, save_task, tables_task

codes = st.lists(st.integers(0, 3), min_size=1, max_size=14).map(lambda each: np.array(each, np.int64))


def allowed(sources: np.ndarray) -> np.ndarray:
    one, other = np.triu_indices(len(sources), 1)
    return np.sort(pair_ids(one, other)[sources[one] != sources[other]])


@given(sources=codes, seed=st.integers(0, 5))
def test_the_space_numbers_its_pairs_and_no_others(sources: np.ndarray, seed: int) -> None:
    space, wanted = AcrossPairs(len(sources), sources), allowed(sources)
    assert space.size == len(wanted)
    everything = AllPairs(len(sources)).unrank(np.arange(AllPairs(len(sources)).size))
    assert np.array_equal(everything[space.contains(everything)], wanted)
    assert np.array_equal(space.ranks(wanted), np.arange(len(wanted)))
    assert np.array_equal(space.unrank(np.arange(len(wanted))), wanted)
    rng = np.random.default_rng(seed)
    outside = wanted[rng.random(len(wanted)) < 0.3]
    count = (len(wanted) - len(outside)) // 2
    drawn = space.sample(count, rng, outside)
    assert len(drawn) == count and not np.isin(drawn, outside).any() and space.contains(drawn).all()


def test_its_name_covers_the_sources() -> None:
    assert repr(AcrossPairs(3, np.array([0, 0, 1]))) != repr(AcrossPairs(3, np.array([0, 1, 1])))
    with pytest.raises(ValueError, match="as many sources"):
        AcrossPairs(3, np.array([0, 1]))


def made(texts: int, sources: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(texts // 3, 8))
    rows = centres[rng.integers(len(centres), size=texts)] + 0.3 * rng.normal(size=(texts, 8))
    return unit_rows(rows.astype(np.float32)), rng.integers(sources, size=texts)


@pytest.mark.parametrize(("texts", "sources"), [(40, 3), (300, 2), (300, 90), (260, 1)])
@pytest.mark.parametrize("lengths", [False, True])
def test_scans_equal_brute_force(texts: int, sources: int, lengths: bool) -> None:
    rows, code = made(texts, sources)
    space, ids = AcrossPairs(texts, code), allowed(code)
    scan = open_scan(space, rows, device="cpu", lengths=lengths)
    scores = open_scan(AllPairs(texts), rows, device="cpu", lengths=lengths).scores(ids)
    assert np.array_equal(scan.scores(ids), scores)
    edges = np.linspace(-1, 1, 41, dtype=np.float32)
    edges = np.unique(np.concatenate([edges, scores[:50]]))
    assert scan.count_reaching(edges).tolist() == [int((scores >= edge).sum()) for edge in edges]
    pieces: list[tuple[np.ndarray, np.ndarray]] = []
    scan.collect(0.2, 0.9, lambda some, values: pieces.append((some, values)))
    found = np.sort(np.concatenate([np.empty(0, np.int64), *(some for some, _ in pieces)]))
    inside = (scores >= np.float32(0.2)) & (scores <= np.float32(0.9))
    assert np.array_equal(found, ids[inside])
    columns, values = scan.neighbours(5)
    matrix = np.full((texts, texts), -np.inf, np.float32)
    left, right = pair_rows(ids)
    matrix[left, right] = matrix[right, left] = scores
    for row in range(texts):
        order = np.lexsort((np.arange(texts), -matrix[row]))[:5]
        best = np.where(np.isfinite(matrix[row, order]), order, -1)
        assert np.array_equal(columns[row], best)
        assert np.array_equal(values[row], matrix[row, order])
    some = np.array([texts - 1, 0, 7])
    assert np.array_equal(scan.neighbours(5, some)[0], columns[some])


def test_selection_and_average_precision_equal_brute_force() -> None:
    rows, code = made(150, 3)
    space, ids = AcrossPairs(150, code), allowed(code)
    scan = open_scan(space, rows, device="cpu")
    scores = scan.scores(ids)
    asked = ids[::7]
    free = ~np.isin(ids, asked)
    best = ExactSearch(scan).best(40, asked).pairs
    order = np.lexsort((ids[free], -scores[free]))[:40]
    assert np.array_equal(best.ids, np.sort(ids[free][order]))
    nearest = ExactSearch(scan).closest(0.4, 40, asked).pairs
    order = np.lexsort((ids[free], np.abs(scores[free].astype(np.float64) - 0.4)))[:40]
    assert np.array_equal(nearest.ids, np.sort(ids[free][order]))
    positives = np.sort(ids[np.argsort(-scores)[::5][:30]])
    from sklearn.metrics import average_precision_score

    wanted = average_precision_score(np.isin(ids, positives), scores)
    assert measure_exactly(scan, positives).curve.average_precision() == pytest.approx(wanted, abs=1e-12)
    columns, _ = index_neighbours(space, rows, rows, 4, "faiss-hnsw")
    there = columns >= 0
    assert (code[columns[there]] != np.broadcast_to(code[:, None], columns.shape)[there]).all()


def test_groups_hold_one_text_a_source_and_labels_win() -> None:
    rows = unit_rows(np.array([[1, 0], [1, 0.01], [1, 0.05], [0, 1]], np.float32))
    code = np.array([0, 1, 0, 1])
    ids = allowed(code)
    group = constrained_average_linkage(rows, ids, 0.9, sources=code)
    assert group[0] == group[1] != group[2], "0 and 2 are of one source"
    told = constrained_average_linkage(rows, ids, 0.9, matches=pair_ids([0, 1], [1, 2]), sources=code)
    assert told[0] == told[1] == told[2]


def test_what_follows_stays_in_the_space() -> None:
    space = AcrossPairs(3, np.array([0, 1, 0]))
    follows = implied_pairs(space, pair_ids([0, 1], [1, 2]), np.empty(0, np.int64))
    assert space.contains(follows).all(), "0 and 2 follow, and are no pair"


ROWS = [{"id": f"{n}", "name": f"thing {n // 3}", "shop": "abc"[n % 3], "price": n} for n in range(30)]
TRUTH = [(f"{3 * n}", f"{3 * n + more}") for n in range(10) for more in (1, 2)]


def test_a_column_of_sources(tmp_path: Path) -> None:
    task = tables_task(
        ROWS, key="id", text=["name"], source="shop", matches=[*TRUTH, ("0", "3")], split="none"
    )
    split = task.splits["all"]
    assert isinstance(split.space, AcrossPairs) and split.space.size == 300
    assert task.report["sources"] == 3 and task.report["matches_within_a_source"] == 3
    assert split.space.contains(split.positives).all()
    save_task(task, tmp_path / "task")
    loaded = load_task(tmp_path / "task")
    assert loaded.fingerprint == task.fingerprint
    assert repr(loaded.splits["all"].space) == repr(split.space)
    plain = tables_task(ROWS, key="id", text=["name"], matches=TRUTH, split="none")
    assert plain.fingerprint != task.fingerprint
    within = tables_task(ROWS, key="id", text=["name"], source="shop", within_sources=True)
    assert not isinstance(within.splits["all"].space, AcrossPairs)
    parts = tables_task(ROWS, key="id", text=["name"], source="shop", matches=TRUTH).splits
    assert all(isinstance(part.space, AcrossPairs) for part in parts.values())


def test_several_tables_at_once(tmp_path: Path) -> None:
    shops = {shop: [row for row in ROWS if row["shop"] == shop] for shop in "abc"}
    task = tables_task(
        shops["a"], also=[shops["b"], shops["c"]], key="id", text=["name"], matches=TRUTH, split="none"
    )
    assert task.splits["all"].space.size == 300
    assert len(task.splits["all"].positives) == 30
    same_keys = [[{"id": 1, "text": "x", "n": 1}], [{"id": 1, "text": "y", "n": 2}]]
    keys = tables_task(same_keys[0], also=[same_keys[1]], key="id").splits["all"].left.keys
    assert keys == ("table:1", "table 2:1")


def test_sources_are_checked() -> None:
    with pytest.raises(InputError, match="the source is missing"):
        tables_task([{**ROWS[0], "shop": None}, *ROWS[1:]], key="id", text=["name"], source="shop")
    with pytest.raises(InputError, match="every row is of the source 'a'"):
        tables_task(ROWS[::3], key="id", text=["name"], source="shop")
    with pytest.raises(InputError, match="`source` with two tables"):
        tables_task(ROWS, ROWS[:3], key="id", text=["name"], source="shop")
    with pytest.raises(InputError, match="`also` and `right` together"):
        tables_task(ROWS, ROWS[:3], also=[ROWS[:2]], key="id", text=["name"])

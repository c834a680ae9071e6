"""Inverted lists find the recall they promise, score as a scan does, and leave no row without neighbours."""

import numpy as np
import pytest

from pairsieve.distributed import LocalShards
from pairsieve.distributed import index_neighbours as sharded_neighbours
from pairsieve.pairs import AllPairs, CrossPairs, ScoredPairs
from pairsieve.scan import open_scan, unit_rows
from pairsieve.search import exact, index_neighbours, ivf, neighbour_recall, neighbours


def clustered(rng, texts=3000, width=32, topics=60, spread=0.6):
    centres = rng.normal(size=(topics, width))[rng.integers(0, topics, texts)]
    return unit_rows((centres + spread * rng.normal(size=(texts, width))).astype(np.float32))


@pytest.mark.parametrize("spread", [0.6, 100.0])
def test_probes_are_as_many_as_the_wanted_recall_needs(spread):
    """Rows in clusters need few lists; rows without (a spread of 100) many, and are found all the same."""
    rows = clustered(np.random.default_rng(1), spread=spread)
    index = ivf.build_lists(rows, rows, 20)
    columns, _ = ivf.search_lists(index, rows, 20, symmetric=True)
    scan = open_scan(AllPairs(len(rows)), rows, device="cpu")
    recall = neighbour_recall(scan, columns, np.random.default_rng(2), len(rows)).value
    assert ivf.RECALL - 0.02 < recall < 1
    lists = len(index.centroids)
    assert index.probes < lists / 8 if spread < 1 else index.probes > lists / 4


@pytest.mark.parametrize("integers", [True, False])
def test_with_every_list_probed_neighbours_and_scores_are_those_of_an_exact_scan(integers, monkeypatch):
    monkeypatch.setattr(ivf.screen, "integers_pay", lambda width: integers)
    rng = np.random.default_rng(3)
    left, right = clustered(rng, 700), clustered(rng, 900)
    columns, scores = index_neighbours(CrossPairs(700, 900), left, right, 10, probes=10_000)
    truth, cosines = open_scan(CrossPairs(700, 900), left, right, device="cpu").neighbours(10)
    assert np.mean(columns == truth) > 0.999  # but for cosines that float32 cannot tell apart
    assert np.abs(scores - cosines).max() < 1e-6


def test_rows_whose_lists_hold_too_few_are_looked_for_everywhere():
    """One list of about 40 rows is probed, 200 neighbours are wanted: every row is answered exactly."""
    rows = clustered(np.random.default_rng(4), 2000)
    columns, _ = ivf.search_lists(ivf.build_lists(rows, rows, 200, probes=1), rows, 200, symmetric=True)
    truth, _ = open_scan(AllPairs(2000), rows, device="cpu").neighbours(200)
    assert np.mean(columns == truth) > 0.99  # but for cosines that float32 cannot tell apart


def test_a_thousand_copies_of_a_text_are_each_others_neighbours():
    """More ties than a row may hold candidates."""
    rows = clustered(np.random.default_rng(5), 3000)
    rows[:1000] = rows[0]
    columns, scores = index_neighbours(AllPairs(3000), rows, rows, 20)
    assert (columns[:1000] < 1000).all() and (scores[:1000] > 0.9999).all()
    assert all(len(set(found)) == 20 for found in columns[:1000].tolist())


def test_several_indexes_and_several_workers_find_the_same(monkeypatch):
    monkeypatch.setattr(neighbours, "ROWS_PER_INDEX", 1000)
    rows = clustered(np.random.default_rng(6), 2500)
    columns, scores = index_neighbours(AllPairs(2500), rows, rows, 20)
    there = sharded_neighbours(LocalShards(workers=3, threads=1), AllPairs(2500), rows, rows, 20)
    assert np.array_equal(columns, there[0]) and np.array_equal(scores, there[1])
    scan = open_scan(AllPairs(2500), rows, device="cpu")
    assert neighbour_recall(scan, columns, np.random.default_rng(7), 2500).value > ivf.RECALL - 0.02


@pytest.mark.parametrize("centre", [None, 0.3])
def test_pairs_handed_over_in_pieces_are_cut_to_those_wanted(centre, monkeypatch):
    """What lies beyond the farthest of enough pairs is dropped at once; ties go to the smaller id."""
    monkeypatch.setattr(exact, "MAX_HELD", 100)
    rng = np.random.default_rng(8)
    ids, scores = np.arange(5000), rng.integers(-20, 20, 5000).astype(np.float32) / 20
    top = exact.TopPairs(40, np.arange(0, 5000, 7), centre)
    for some in np.array_split(rng.permutation(5000), 50):
        top.take(ids[some], scores[some])
    free = ScoredPairs(ids, scores).without(np.arange(0, 5000, 7))
    wanted = free.best(40) if centre is None else free.closest(centre, 40)
    assert np.array_equal(top.kept().ids, wanted.ids)

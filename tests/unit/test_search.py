"""Exact selection equals brute force; neighbours and indexes say what they miss."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from pairsieve.errors import InputError, PoolExhausted
from pairsieve.pairs import AllPairs, CrossPairs, ScoredPairs, pair_rows
from pairsieve.scan import open_scan, unit_rows
from pairsieve.search import ExactSearch, NeighbourSearch, index_neighbours, neighbour_recall


def made_space(rng, symmetric, tied, rows=60, columns=80, width=8):
    """A space and its embeddings; tied: few distinct rows, so that most scores repeat many times."""

    def side(n):
        if tied:
            return rng.normal(size=(5, width))[rng.integers(0, 5, n)].astype(np.float32)
        return rng.normal(size=(n, width)).astype(np.float32)

    space = AllPairs(rows) if symmetric else CrossPairs(rows, columns)
    left = side(rows)
    return space, left, None if symmetric else side(columns)


def everything(space, left, right):
    ids = space.unrank(np.arange(space.size))
    rows, columns = pair_rows(ids)
    both = unit_rows(left, np.float64), unit_rows(left if right is None else right, np.float64)
    return ScoredPairs(ids, np.einsum("ij,ij->i", both[0][rows], both[1][columns]).astype(np.float32))


@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 10**6),
    symmetric=st.booleans(),
    tied=st.booleans(),
    share_asked=st.sampled_from([0.0, 0.1, 0.9]),
    share_wanted=st.sampled_from([0.001, 0.05, 1.0]),
    centre=st.floats(-1.2, 1.2),
)
def test_exact_selection_equals_brute_force(seed, symmetric, tied, share_asked, share_wanted, centre):
    rng = np.random.default_rng(seed)
    space, left, right = made_space(rng, symmetric, tied)
    asked = space.sample(int(space.size * share_asked), rng)
    count = max(1, int((space.size - len(asked)) * share_wanted))
    scan = open_scan(space, left, right, device="cpu")
    pool = ScoredPairs(all_ids := space.unrank(np.arange(space.size)), scan.scores(all_ids)).without(asked)
    search = ExactSearch(scan)
    assert np.array_equal(search.best(count, asked).pairs.ids, pool.best(count).ids)
    near = search.closest(centre, count, asked).pairs
    assert np.array_equal(near.ids, pool.closest(centre, count).ids)
    assert np.array_equal(near.scores, pool.closest(centre, count).scores)


def test_scores_of_the_scan_are_the_cosines():
    rng = np.random.default_rng(3)
    space, left, right = made_space(rng, symmetric=False, tied=False)
    truth = everything(space, left, right)
    assert np.abs(open_scan(space, left, right, device="cpu").scores(truth.ids) - truth.scores).max() < 1e-6


def test_a_thousand_tied_pairs_are_settled_by_id():
    """Six copies of one text: all 15 pairs score 1, and the first four ids win."""
    space = AllPairs(6)
    search = ExactSearch(open_scan(space, np.ones((6, 4), np.float32), device="cpu"))
    found = search.best(4, asked=np.empty(0, np.int64)).pairs
    assert list(zip(*(side.tolist() for side in pair_rows(found.ids)))) == [(0, 1), (0, 2), (0, 3), (0, 4)]
    assert found.scores.tolist() == [1.0, 1.0, 1.0, 1.0]


def test_an_empty_pool_says_the_numbers():
    space = AllPairs(4)
    search = ExactSearch(open_scan(space, np.eye(4, dtype=np.float32), device="cpu"))
    with pytest.raises(PoolExhausted, match=r"asked for 5 pairs, 4 unlabelled remain in the space. Lower"):
        search.best(5, asked=space.ids([0, 0], [1, 2]))


@pytest.mark.parametrize("symmetric", [True, False])
def test_neighbour_search_with_every_neighbour_equals_exact_search(symmetric):
    rng = np.random.default_rng(1)
    space, left, right = made_space(rng, symmetric, tied=False)
    scan = open_scan(space, left, right, device="cpu")
    asked = space.sample(50, rng)
    few = NeighbourSearch.exact(scan, 1000)
    assert np.array_equal(few.best(100, asked).pairs.ids, ExactSearch(scan).best(100, asked).pairs.ids)
    near = few.closest(0.3, 100, asked).pairs.ids
    assert np.array_equal(near, ExactSearch(scan).closest(0.3, 100, asked).pairs.ids)


def test_neighbours_that_run_out_name_the_setting():
    rng = np.random.default_rng(1)
    space, left, _ = made_space(rng, symmetric=True, tied=False)
    few = NeighbourSearch.exact(open_scan(space, left, device="cpu"), 2)
    with pytest.raises(PoolExhausted, match=r"raise neighbours \(now 2\)"):
        few.best(500, np.empty(0, np.int64))


@pytest.mark.parametrize("kind", ["ivf", "faiss-ivf", "faiss-hnsw"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_an_index_reports_the_recall_it_has(kind, symmetric):
    rng = np.random.default_rng(5)
    space, left, right = made_space(rng, symmetric, tied=False, rows=700, columns=900, width=16)
    scan = open_scan(space, left, right, device="cpu")
    mine, yours = unit_rows(left), unit_rows(left if right is None else right)
    columns, scores = index_neighbours(space, mine, yours, 10, kind, probes=4)
    truth, _ = scan.neighbours(10)
    share = np.mean([np.isin(t, c).mean() for t, c in zip(truth, columns)])
    measured = neighbour_recall(scan, columns, rng, rows=700)
    assert measured.value == pytest.approx(share)  # every row sampled: the recall itself
    assert 0.2 < measured.low <= measured.value <= measured.high <= 1
    if symmetric:
        assert not (columns == np.arange(700)[:, None]).any()
    real = columns >= 0
    assert np.isneginf(scores[~real]).all()
    rows = np.broadcast_to(np.arange(700)[:, None], columns.shape)
    assert np.allclose(np.einsum("ij,ij->i", mine[rows[real]], yours[columns[real]]), scores[real], atol=1e-5)


def recall_of(found, rng):
    """`neighbour_recall` of an index that found these of the true neighbours 0 to 9; -7 where one is lost."""
    truth = np.tile(np.arange(10), (len(found), 1))
    scan = SimpleNamespace(neighbours=lambda count, rows, desc: (truth[rows], None))
    return neighbour_recall(scan, found, rng)


def test_the_limits_of_a_recall_without_a_loss():
    """500 rows, none with a loss: Clopper and Pearson's low end is 0.025^(1/500) = 0.99265."""
    found = recall_of(np.tile(np.arange(10), (5000, 1)), np.random.default_rng(0))
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(0.99265, abs=0.001)


@pytest.mark.parametrize(("bad_rows", "loss"), [(0.002, 0.5), (0.01, 0.2), (0.3, 0.03)])
def test_the_limits_of_an_indexs_recall_cover(bad_rows, loss):
    """Few rows that lose much: most samples meet none or one, and a bootstrap covers 0.65 to 0.86."""
    rng, covered = np.random.default_rng(3), []
    for _ in range(150):
        lost = (rng.random((5000, 10)) < loss) & (rng.random(5000) < bad_rows)[:, None]
        found = recall_of(np.where(lost, -7, np.arange(10)), rng)
        covered.append(found.low <= 1 - lost.mean() <= found.high)
    assert np.mean(covered) >= 0.95


def test_unknown_index_names_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'faiss-ivf'"):
        index_neighbours(AllPairs(3), np.eye(3), np.eye(3), 1, "faiss-if")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_embeddings_that_are_no_numbers_are_refused(value):
    rows = np.ones((5, 3), np.float32)
    rows[2, 1] = value
    with pytest.raises(InputError, match=r"row 2 of the embeddings has no finite length"):
        open_scan(AllPairs(5), rows, device="cpu")

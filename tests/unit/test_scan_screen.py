"""Screening in integers gives the plain neighbours to the bit, and leaves out what it cannot prove."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from pairsieve.pairs import AllPairs, CrossPairs
from pairsieve.scan import cpu, kernels, screen, unit_rows
from pairsieve.scan.cpu import CpuScan
from scan_check import KINDS, check_scan, synthetic_case

needs_chain = pytest.mark.skipif(
    not screen.chain_block(24), reason="this library's float32 product sums in an order of its own"
)


@pytest.fixture
def screened(monkeypatch):
    """Screening however small the space or slow the integers; lists how many rows the plain way was left."""
    calls = []
    nearest = screen.nearest

    def counted(*arguments, **named):
        left_over = nearest(*arguments, **named)
        calls.append(len(left_over))
        return left_over

    monkeypatch.setattr(screen, "integers_pay", lambda width: True)
    monkeypatch.setattr(cpu, "SCREEN_ROWS", 1)
    monkeypatch.setattr(screen, "nearest", counted)
    return calls


def plain_neighbours(space, left, right, count, rows=None):
    scan = CpuScan(space, left, right, double=False, threads=2)
    scan._screening_pays = lambda rows, count: False
    return scan.neighbours(count, rows)


def both_ways(space, left, right, count, rows=None):
    mine = CpuScan(space, left, right, double=False, threads=2).neighbours(count, rows)
    return mine, plain_neighbours(space, left, right, count, rows)


def made_rows(rng, kind, n, width):
    rows = rng.normal(size=(n, width))
    if kind == "cone":  # every cosine above 0.9, as raw encoders give
        rows = rows + 4 * np.sqrt(width) * rng.normal(size=width) / np.sqrt(width)
    if kind == "outlier":  # one dimension carries most of the length
        rows[:, 0] *= 30
    if kind == "narrow":  # few directions hold nearly all, as in real collections
        rows *= np.exp(-np.arange(width) / 20)
    if kind == "copies":
        rows = rows[rng.integers(0, 40, n)]
    if kind == "zeros":
        rows[rng.random(n) < 0.3] = 0
    return unit_rows(rows)


@needs_chain
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("symmetric", [True, False])
def test_a_screened_scan_tells_the_truth(symmetric, kind, screened):
    rows = 1100 if symmetric else 200
    case = synthetic_case(symmetric, kind, rows, columns=1300, width=24, seed=7)
    left = case.left.astype(np.float32)
    right = left if symmetric else case.right.astype(np.float32)
    scan = CpuScan(case.space, left, right, double=False, threads=2)
    assert not [f"{question}: {fault}" for question, fault in check_scan(scan, case, False) if fault]
    assert len(screened) == 2  # all rows, and chosen ones


@needs_chain
@settings(max_examples=examples(25))
@given(
    seed=st.integers(0, 10**6),
    symmetric=st.booleans(),
    kind=st.sampled_from(["normal", "narrow", "cone", "outlier", "copies", "zeros"]),
    width=st.sampled_from([3, 16, 33, 200]),
    count=st.sampled_from([1, 7, 40]),
)
def test_screened_neighbours_are_the_plain_ones(seed, symmetric, kind, width, count):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(400, 2400)), int(rng.integers(400, 2400))
    left = made_rows(rng, kind, n, width)
    right = left if symmetric else made_rows(rng, kind, m, width)
    space = AllPairs(n) if symmetric else CrossPairs(n, m)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(screen, "integers_pay", lambda width: True)
        patch.setattr(screen, "REPAID", 0)
        patch.setattr(cpu, "SCREEN_ROWS", 1)
        (columns, scores), (true, theirs) = both_ways(space, left, right, count)
    assert np.array_equal(columns, true)
    assert np.array_equal(scores.view(np.int32), theirs.view(np.int32))


@needs_chain
def test_few_rows_are_left_to_the_plain_way(screened):
    """Continuous scores of 3,000 texts: every row is proven."""
    rows = made_rows(np.random.default_rng(0), "normal", 3000, 48)
    (columns, _), (true, _) = both_ways(AllPairs(3000), rows, rows, 50)
    assert np.array_equal(columns, true)
    assert screened == [0]


@needs_chain
def test_a_guess_that_fails_is_noticed(screened, monkeypatch):
    """Bars at the second best of those seen pass over true neighbours: none can be proven, all are right."""
    monkeypatch.setattr(screen, "rank_for", lambda wanted, seen, columns: 2)
    rows = made_rows(np.random.default_rng(0), "normal", 3000, 48)
    (columns, scores), (true, theirs) = both_ways(AllPairs(3000), rows, rows, 50)
    assert np.array_equal(columns, true)
    assert np.array_equal(scores, theirs)
    assert screened[0] > 2900


@needs_chain
def test_rows_with_too_many_ties_are_left_to_the_plain_way(screened):
    """600 copies of one text tie: more than the 3 · 20 + 128 candidates a row may hold for 20 neighbours."""
    rows = made_rows(np.random.default_rng(0), "normal", 2500, 48)
    rows[:600] = rows[0]
    (columns, _), (true, _) = both_ways(AllPairs(2500), rows, rows, 20)
    assert np.array_equal(columns, true)
    assert columns[5].tolist() == [c for c in range(21) if c != 5]
    assert 600 <= screened[0] < 700


@needs_chain
@pytest.mark.parametrize("symmetric", [True, False])
def test_few_rows_by_single_sums_are_those_by_products(symmetric, monkeypatch):
    """Three rows of 1,500 columns, copies among them: pair by pair, and by two tiles mostly of padding."""
    rng = np.random.default_rng(4)
    left = made_rows(rng, "copies", 1500, 33)
    right = left if symmetric else made_rows(rng, "normal", 1500, 33)
    space = AllPairs(1500) if symmetric else CrossPairs(1500, 1500)
    rows = np.array([1499, 3, 1024])
    summed = plain_neighbours(space, left, right, 20, rows)
    monkeypatch.setattr(cpu, "FEW_ROWS", 0)
    multiplied = plain_neighbours(space, left, right, 20, rows)
    assert np.array_equal(summed[0], multiplied[0])
    assert np.array_equal(summed[1].view(np.int32), multiplied[1].view(np.int32))


@needs_chain
@pytest.mark.parametrize("symmetric", [True, False])
def test_bands_one_after_the_other_give_the_same(symmetric, screened, monkeypatch):
    """Where candidates of all rows would fill the memory, each band of rows meets all columns by itself.

    Bands of 128 rows, three of which (the last of 32 rows) are settled together.
    """
    assert screen.chain_block(40)
    monkeypatch.setattr(screen, "TILE", 128)
    monkeypatch.setattr(screen, "ALL_ROWS_BYTES", 0)
    rng = np.random.default_rng(3)
    left = made_rows(rng, "normal", 2300, 40)
    right = left if symmetric else made_rows(rng, "normal", 1700, 40)
    space = AllPairs(2300) if symmetric else CrossPairs(2300, 1700)
    for rows in (None, np.array([2299, 0, 7, 1024, 1023])):
        (columns, scores), (true, theirs) = both_ways(space, left, right, 30, rows)
        assert np.array_equal(columns, true)
        assert np.array_equal(scores, theirs)


@pytest.mark.parametrize(("kinds", "first"), [(("cone", "outlier"), 128), (("narrow", "narrow"), 64)])
def test_the_bound_holds_for_every_pair(kinds, first, monkeypatch):
    """|score - what the integers say| ≤ slack + slack, with slack of some use: below 0.03 at width 160.

    A few directions hold nearly all of the narrow rows: 64 dimensions, and the rest adds little.
    """
    monkeypatch.setattr(screen, "REPAID", 0)
    monkeypatch.setattr(screen, "RESIDUE", 0.04)
    rng = np.random.default_rng(1)
    left, right = made_rows(rng, kinds[0], 300, 160), made_rows(rng, kinds[1], 500, 160)
    mine, yours = screen.quantised(torch.as_tensor(left), torch.as_tensor(right), 1)
    products = mine.ints[:300].double().numpy() @ yours.ints[:500].double().numpy().T
    rest = mine.rest.astype(np.float64) @ yours.rest.astype(np.float64).T
    assert mine.ints.shape[1] == yours.ints.shape[1] == first
    more = rest * mine.rest_scale[:, None] * yours.rest_scale
    assert (np.abs(more) <= mine.beyond[:, None] + yours.beyond).all()
    said = products * mine.scale[:, None] * yours.scale + more + mine.shift[:, None] + yours.shift
    true = left[mine.order].astype(np.float64) @ right[yours.order].astype(np.float64).T
    error = np.abs(said - true)
    bound = mine.slack[:, None] + yours.slack
    assert (error <= bound).all()
    assert error.max() > 0.01 * bound.max()
    assert bound.max() < 0.03


def test_what_the_first_dimensions_leave_out_is_not_lost(screened, monkeypatch):
    """3,000 narrow texts: 64 of 160 dimensions are multiplied for every pair, and every row is proven."""
    monkeypatch.setattr(screen, "REPAID", 0)
    rows = made_rows(np.random.default_rng(0), "narrow", 3000, 160)
    assert screen.turn_for(torch.as_tensor(rows), torch.as_tensor(rows))[1] == 64
    (columns, scores), (true, theirs) = both_ways(AllPairs(3000), rows, rows, 50)
    assert np.array_equal(columns, true)
    assert np.array_equal(scores, theirs)
    assert screened == [0]


def test_rows_that_are_no_numbers_are_not_screened():
    rows = np.ones((20, 8), np.float32)
    rows[3, 2] = np.nan
    assert screen.quantised(torch.as_tensor(rows), torch.as_tensor(rows), 1) is None


@pytest.mark.parametrize("width", [8, 24, 33, 384, 768])
def test_single_pairs_sum_as_the_product_does(width):
    """To the bit, at every place of a tile; or the width has no chain and is not screened at all."""
    block = screen.chain_block(width)
    if not block:
        pytest.skip("this library's float32 product sums in an order of its own")
    rng = np.random.default_rng(width)
    rows = unit_rows(rng.normal(size=(1024, width)))
    product = torch.mm(torch.as_tensor(rows), torch.as_tensor(rows).T).numpy()
    kernels.snap_to_one(product)
    at = rng.integers(0, 1024, (2, 5000))
    found = np.empty(5000, np.float32)
    kernels.chain_scores(rows, rows, at[0], at[1], block, found)
    assert np.array_equal(found, product[at[0], at[1]])


def test_the_rank_of_a_sample_grows_to_the_wanted():
    """100 wanted of 43,600: among 1,024 columns 2.3 are expected and 14 (4 + 2.3 + 5 · 1.5) allowed."""
    assert screen.rank_for(100, 1024, 43_600) == 14
    assert screen.rank_for(100, 43_600, 43_600) == 100
    ranks = [screen.rank_for(100, seen, 43_600) for seen in range(1024, 43_600, 1024)]
    assert ranks == sorted(ranks)


@settings(max_examples=examples(40))
@given(st.integers(0, 10**6), st.sampled_from(["spread", "one bin", "neighbouring floats", "few"]))
def test_counts_where_thresholds_crowd(seed, kind):
    """Thresholds that share a bin, a cell, or lie one float apart; scores on, between and beyond them."""
    rng = np.random.default_rng(seed)
    if kind == "neighbouring floats":
        thresholds = (np.float32(0.3).view(np.int32) + np.arange(500, dtype=np.int32)).view(np.float32)
    else:
        low, high, n = {"spread": (-1.2, 1.2, 900), "one bin": (0.5, 0.5005, 900), "few": (0, 0.1, 2)}[kind]
        thresholds = np.unique(rng.uniform(low, high, n).astype(np.float32))
    scores = np.concatenate([rng.uniform(-1.5, 1.5, 3000).astype(np.float32), thresholds])
    scores = np.concatenate([scores, np.nextafter(thresholds, np.float32(-9))])
    tile = np.resize(rng.permutation(scores), (64, 128))
    counts = np.zeros(len(thresholds) + 1, np.uint32)
    kernels.count_tile(tile, 60, 120, 0, 0, False, kernels.threshold_table(thresholds), counts)
    reached = np.searchsorted(thresholds, tile[:60, :120].ravel(), side="right")
    assert np.array_equal(counts, np.bincount(reached, minlength=len(counts)))


def test_counts_outgrow_32_bits(monkeypatch):
    """A thread adds its 32-bit counts to the total before they can overflow; here after every tile."""
    monkeypatch.setattr(cpu, "FLUSH", 1)
    rows = made_rows(np.random.default_rng(0), "normal", 2100, 8)
    scan = CpuScan(AllPairs(2100), rows, rows, double=False, threads=2)
    reached = scan.count_reaching(np.array([-2.0, 0.0, 2.0], np.float32))
    assert reached[0] == AllPairs(2100).size
    assert reached[2] == 0
    assert abs(reached[1] / reached[0] - 0.5) < 0.05

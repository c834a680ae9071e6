"""One-to-one assignment: the matches of the greatest weight in which each text has at most one partner.

A pair weighs how far its logit stands above the threshold's, so the chosen pairs are the likeliest set of
matches in which no text comes twice. Exact: each connected part of the pairs is solved on its own, small ones
by the Hungarian method on a dense matrix, large ones by shortest augmenting paths on the sparse one (scipy's
`linear_sum_assignment` and `min_weight_full_bipartite_matching`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError
from pairsieve.pairs import CrossPairs, Ids, Mask, PairSpace, pair_rows
from pairsieve.tasks.truth import components

DENSE_AT_MOST = 1_000_000  # cells of a part that is solved as a dense matrix


def check_two(space: PairSpace) -> None:
    """Refuse an assignment within one collection, before any work is done for it."""
    if not isinstance(space, CrossPairs):
        why = "within one collection a text may have several duplicates"
        remedy = "Leave it out, or group duplicates with pairsieve cluster"
        raise InputError("`one_to_one` needs two collections", why=why, remedy=remedy)


def one_to_one(space: PairSpace, ids: Ids, weights: NDArray[np.floating], fixed: Ids) -> Mask:
    """Which of the distinct pairs `ids` (n,) are chosen, so that the sum of `weights` (n,) is the greatest.

    Weights are at least 0. Pairs `fixed` (sorted; labelled matches) are chosen whatever their weight, all of
    them, and take their texts out of the game. Of equal sums one is chosen, always the same for the same
    pairs.
    """
    check_two(space)
    order = np.argsort(ids, kind="stable")
    left, right = pair_rows(ids[order])
    value = np.asarray(weights, np.float64)[order]
    if len(value) and value.min() < 0:
        raise ValueError("a weight below 0")
    chosen = np.isin(ids[order], fixed)
    fixed_left, fixed_right = pair_rows(fixed)
    at = np.flatnonzero(~np.isin(left, fixed_left) & ~np.isin(right, fixed_right))
    if len(at):
        chosen[at[_assigned(left[at], right[at], value[at])]] = True
    mask: Mask = np.zeros(len(ids), bool)
    mask[order] = chosen
    return mask


def _assigned(left: NDArray[np.int64], right: NDArray[np.int64], value: NDArray[np.float64]) -> list[int]:
    """Positions of the chosen edges."""
    rows, row = np.unique(left, return_inverse=True)
    columns, column = np.unique(right, return_inverse=True)
    part = components(len(rows) + len(columns), row, column + len(rows))[row]
    order = np.argsort(part, kind="stable")
    starts = np.flatnonzero(np.diff(part[order], prepend=-1))
    chosen: list[int] = []
    for edges in np.split(order, starts[1:]):
        if len(edges) == 1:
            chosen.append(int(edges[0]))
            continue
        chosen += edges[_solve(row[edges], column[edges], value[edges])].tolist()
    return chosen


def _solve(left: NDArray[np.int64], right: NDArray[np.int64], value: NDArray[np.float64]) -> Any:
    """Positions of the edges of one part that are chosen."""
    from scipy.optimize import linear_sum_assignment
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    (lefts, row), (rights, column) = (np.unique(side, return_inverse=True) for side in (left, right))
    rows, columns = len(lefts), len(rights)
    # Every edge weighs a little more than none, so that one of weight 0 is still taken where nothing is lost.
    little = 1e-9 * max(1.0, float(value.max()))
    if rows * columns <= DENSE_AT_MOST:
        gain, place = np.zeros((rows, columns)), np.full((rows, columns), -1)
        gain[row, column] = value + little
        place[row, column] = np.arange(len(row))
        taken = place[linear_sum_assignment(gain, maximize=True)]
        return taken[taken >= 0]
    # Each row may also stay alone: a column of its own without gain. Costs are shifted above 0, which a
    # sparse matrix would take for "no edge"; every row pays the shift once, so nothing else changes.
    top = float(value.max()) + 2 * little + 1.0
    alone = np.arange(rows)
    costs = np.append(top - value - little, np.full(rows, top))
    places = np.append(row, alone), np.append(column, columns + alone)
    matched = min_weight_full_bipartite_matching(csr_matrix((costs, places), (rows, columns + rows)))
    pair = dict(zip(zip(row.tolist(), column.tolist()), range(len(row))))
    edges = zip(*(side.tolist() for side in matched))
    return np.array([pair[edge] for edge in edges if edge in pair], np.int64)

"""Compiled loops over trees and over pieces of texts; imported when first needed, as numba loads slowly."""

from __future__ import annotations

import numba


@numba.njit(cache=True, nogil=True)
def add_leaves(features, roots, column, threshold, children, value, out):  # type: ignore[no-untyped-def]
    """Add the value of the leaf that each row reaches in each tree to `out` (n,).

    children (2 nodes,): where a node sends rows, left and right; a leaf to itself, so that four rows can go
    down together without a branch that the processor would have to guess.
    """
    for first in range(0, features.shape[0], 256):  # so many rows stay in the cache while trees go by
        last = min(first + 256, features.shape[0])
        for root in roots:
            for row in range(first, last - 3, 4):
                a, b, c, d = root, root, root, root
                while column[a] >= 0 or column[b] >= 0 or column[c] >= 0 or column[d] >= 0:
                    a = children[2 * a + (features[row, max(column[a], 0)] > threshold[a])]
                    b = children[2 * b + (features[row + 1, max(column[b], 0)] > threshold[b])]
                    c = children[2 * c + (features[row + 2, max(column[c], 0)] > threshold[c])]
                    d = children[2 * d + (features[row + 3, max(column[d], 0)] > threshold[d])]
                out[row] += value[a]
                out[row + 1] += value[b]
                out[row + 2] += value[c]
                out[row + 3] += value[d]
            for row in range(last - (last - first) % 4, last):
                node = root
                while column[node] >= 0:
                    node = children[2 * node + (features[row, column[node]] > threshold[node])]
                out[row] += value[node]


@numba.njit(cache=True, nogil=True)
def best_of_nodes(node, partner, values, best, second, owner):  # type: ignore[no-untyped-def]
    """Of each node: its best value, the partner `owner` of that, and the best value with another partner."""
    for at in range(node.shape[0]):
        one, value = node[at], values[at]
        if value > best[one]:
            if partner[at] != owner[one]:
                second[one] = best[one]
            best[one], owner[one] = value, partner[at]
        elif partner[at] != owner[one] and value > second[one]:
            second[one] = value


@numba.njit(cache=True, nogil=True)
def add_common(  # type: ignore[no-untyped-def]
    starts, columns, other_starts, other_columns, rarity, left, right, out
):
    """The squared rarity of the pieces that the texts of each pair share; columns ascend in a text."""
    for pair in range(left.shape[0]):
        one, end = starts[left[pair]], starts[left[pair] + 1]
        other, other_end = other_starts[right[pair]], other_starts[right[pair] + 1]
        total = 0.0
        while one < end and other < other_end:
            a, b = columns[one], other_columns[other]
            if a == b:
                total += rarity[a] * rarity[a]
                one += 1
                other += 1
            elif a < b:
                one += 1
            else:
                other += 1
        out[pair] = total


@numba.njit(cache=True, nogil=True)
def _compare(values, first, end, others, other_first, other_end):  # type: ignore[no-untyped-def]
    """Of some values: the share that stands among the others, mean and largest relative difference."""
    equal, total, worst = 0.0, 0.0, 0.0
    for i in range(first, end):
        nearest = 1.0
        for j in range(other_first, other_end):
            larger = max(abs(values[i]), abs(others[j]))
            nearest = min(nearest, abs(values[i] - others[j]) / larger if larger > 0 else 0.0)
        equal += nearest == 0.0
        total += nearest
        worst = max(worst, nearest)
    count = end - first
    return equal / count, total / count, worst


@numba.njit(cache=True, nogil=True)
def compare_numbers(starts, values, other_starts, other_values, left, right, out):  # type: ignore[no-untyped-def]
    """Of the text with fewer numbers: the share that the other has too, mean and largest relative difference.

    Each number is set beside the nearest of the other text. Where both have as many, the mean of either way,
    so that the order of a pair means nothing. -1 where a text has none.
    """
    for pair in range(left.shape[0]):
        one, end = starts[left[pair]], starts[left[pair] + 1]
        other, other_end = other_starts[right[pair]], other_starts[right[pair] + 1]
        count, other_count = end - one, other_end - other
        if count == 0 or other_count == 0:
            out[pair, :] = -1.0
            continue
        out[pair, :] = 0.0
        share = 0.5 if count == other_count else 1.0
        if count <= other_count:
            found = _compare(values, one, end, other_values, other, other_end)
            for column in range(3):
                out[pair, column] += share * found[column]
        if other_count <= count:
            found = _compare(other_values, other, other_end, values, one, end)
            for column in range(3):
                out[pair, column] += share * found[column]

"""Compiled loops over trees and over pieces of texts; imported when first needed, as numba loads slowly."""

from __future__ import annotations

import numba


@numba.njit(cache=True, nogil=True)
def add_leaves(features, roots, column, threshold, left, right, value, out):  # type: ignore[no-untyped-def]
    """Add the value of the leaf that each row reaches in each tree to `out` (n,)."""
    for first in range(0, features.shape[0], 256):  # so many rows stay in the cache while trees go by
        for root in roots:
            for row in range(first, min(first + 256, features.shape[0])):
                node = root
                while column[node] >= 0:
                    node = left[node] if features[row, column[node]] <= threshold[node] else right[node]
                out[row] += value[node]


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
def compare_numbers(starts, values, other_starts, other_values, left, right, out):  # type: ignore[no-untyped-def]
    """Of the text with fewer numbers: the share that the other has too, mean and largest relative difference.

    Each number is set beside the nearest of the other text. -1 where a text has none.
    """
    for pair in range(left.shape[0]):
        one, end = starts[left[pair]], starts[left[pair] + 1]
        other, other_end = other_starts[right[pair]], other_starts[right[pair] + 1]
        turned = end - one > other_end - other
        few, few_end, many, many_end = (
            (other, other_end, one, end) if turned else (one, end, other, other_end)
        )
        if few == few_end:
            out[pair, 0] = out[pair, 1] = out[pair, 2] = -1.0
            continue
        equal, total, worst = 0.0, 0.0, 0.0
        for i in range(few, few_end):
            a = other_values[i] if turned else values[i]
            nearest = 1.0
            for j in range(many, many_end):
                b = values[j] if turned else other_values[j]
                larger = max(abs(a), abs(b))
                apart = abs(a - b) / larger if larger > 0 else 0.0
                nearest = min(nearest, apart)
            equal += nearest == 0.0
            total += nearest
            worst = max(worst, nearest)
        count = few_end - few
        out[pair, 0], out[pair, 1], out[pair, 2] = equal / count, total / count, worst

"""Compiled loops over trees and over pieces of texts; imported when first needed, as numba loads slowly."""

from __future__ import annotations

import numba
import numpy as np

KNOWN_WORDS = 1 << 15  # pairs of words whose similarity is kept while pairs of texts are compared
MOST_COMPARED = 256  # pairs of words of two texts whose spelling is compared; of more, none is


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


@numba.njit(cache=True, nogil=True)
def spelling(characters, one, end, other, other_end):  # type: ignore[no-untyped-def]
    """How alike two words are spelt, from 0 to 1: the similarity of Jaro and Winkler."""
    length, other_length = end - one, other_end - other
    if length == 0 or other_length == 0:
        return 0.0
    window = max(max(length, other_length) // 2 - 1, 0)
    taken, other_taken = np.uint64(0), np.uint64(0)  # a bit for each character
    found = 0
    for i in range(length):
        character = characters[one + i]
        for j in range(max(0, i - window), min(other_length, i + window + 1)):
            if characters[other + j] == character and not (other_taken >> np.uint64(j)) & np.uint64(1):
                taken |= np.uint64(1) << np.uint64(i)
                other_taken |= np.uint64(1) << np.uint64(j)
                found += 1
                break
    if found == 0:
        return 0.0
    swapped, j = 0, 0
    for i in range(length):
        if (taken >> np.uint64(i)) & np.uint64(1):
            while not (other_taken >> np.uint64(j)) & np.uint64(1):
                j += 1
            swapped += characters[one + i] != characters[other + j]
            j += 1
    jaro = (found / length + found / other_length + (found - swapped // 2) / found) / 3.0
    prefix = 0
    while prefix < min(4, length, other_length) and characters[one + prefix] == characters[other + prefix]:
        prefix += 1
    return jaro + 0.1 * prefix * (1.0 - jaro)


@numba.njit(cache=True, nogil=True)
def compare_spelling(  # type: ignore[no-untyped-def]
    starts, columns, other_starts, other_columns, rarity, word_starts, characters, left, right, out
):
    """(n, 3) of each pair: the share of the left and of the right text's squared rarity that the other has,
    words spelt alike counting in part; the worst word of the text whose words fare better.

    Of a similarity s counts 2 s - 1: words that have nothing to do with each other have about a half.
    """
    known, values = np.full(KNOWN_WORDS, -1, np.int64), np.empty(KNOWN_WORDS)  # word pairs met before
    rest, other_rest = np.empty(MOST_COMPARED, np.int64), np.empty(MOST_COMPARED, np.int64)
    best, other_best = np.empty(MOST_COMPARED), np.empty(MOST_COMPARED)
    for pair in range(left.shape[0]):
        one, end = starts[left[pair]], starts[left[pair] + 1]
        other, other_end = other_starts[right[pair]], other_starts[right[pair] + 1]
        common, weight, other_weight = 0.0, 0.0, 0.0
        count, other_count = 0, 0
        if end == one or other_end == other:
            out[pair, :] = 0.0
            continue
        while one < end or other < other_end:
            if other == other_end or (one < end and columns[one] < other_columns[other]):
                weight += rarity[columns[one]] ** 2
                if count < MOST_COMPARED:
                    rest[count], best[count] = columns[one], 0.0
                count += 1
                one += 1
            elif one == end or columns[one] > other_columns[other]:
                other_weight += rarity[other_columns[other]] ** 2
                if other_count < MOST_COMPARED:
                    other_rest[other_count], other_best[other_count] = other_columns[other], 0.0
                other_count += 1
                other += 1
            else:
                common += rarity[columns[one]] ** 2
                one += 1
                other += 1
        sums, worst = np.array([common, common]), np.ones(2)
        if count * other_count > MOST_COMPARED or max(count, other_count) > MOST_COMPARED:
            worst[:] = 0.0
        else:
            for i in range(count):
                a = rest[i]
                first, last = word_starts[a], word_starts[a + 1]
                for j in range(other_count):
                    b = other_rest[j]
                    key = (a << 32) | b
                    at = (a * 40503 + b * 7919) & (KNOWN_WORDS - 1)
                    if known[at] != key:
                        known[at] = key
                        values[at] = spelling(characters, first, last, word_starts[b], word_starts[b + 1])
                    best[i], other_best[j] = max(best[i], values[at]), max(other_best[j], values[at])
            for i in range(count):
                sums[0] += rarity[rest[i]] ** 2 * max(2.0 * best[i] - 1.0, 0.0)
                worst[0] = min(worst[0], best[i])
            for j in range(other_count):
                sums[1] += rarity[other_rest[j]] ** 2 * max(2.0 * other_best[j] - 1.0, 0.0)
                worst[1] = min(worst[1], other_best[j])
        out[pair, 0] = sums[0] / max(common + weight, 1e-12)
        out[pair, 1] = sums[1] / max(common + other_weight, 1e-12)
        out[pair, 2] = worst.max()

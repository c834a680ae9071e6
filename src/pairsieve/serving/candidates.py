"""Candidate partners of held texts, and of each the best two, kept right while texts come and go.

Whether a pair is a candidate depends on its two texts alone (`reranker.Cuts`), so a text that comes or goes
touches its own partners only. How far a query leads the other candidates of a held text follows from the
best two of these, one the best of all, the other the best with another text.
"""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import Ids, Mask, Rows, pair_rows
from pairsieve.reranker import Cuts, hybrid_rows
from pairsieve.reranker.features import best_two
from pairsieve.serving.held import MOST_SCORES, NEAR, Floats, HeldTexts, exact_products, products
from pairsieve.serving.of_sources import same_source

_NOBODY = np.empty(0, np.int32)


def candidate_pairs(
    plain: Floats, lexical: Floats, sources: Rows, held: HeldTexts, cuts: Cuts
) -> tuple[Rows, Rows]:
    """Candidates among texts, given by rows (n, d) and (n, w) and sources (n,), and held ones: places of
    both, sorted."""
    found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    step = max(1, MOST_SCORES // max(held.used, 1))
    cosine_cut, mean_cut, lexical_cut = (np.float32(cut) for cut in astuple(cuts))
    for first in range(0, len(plain), step):
        both = plain[first : first + step], lexical[first : first + step]
        lines = products(both[0], held.plain.rows), products(both[1], held.lexical)
        for at, (cosines, others) in enumerate(zip(*lines), first):
            total = cosines + others
            # A text without letters has a lexical row of zeros, and a scan counts its cosine for up to twice.
            most = np.where((cosines == 0) | (others == 0), np.maximum(total, total / 2), total / 2)
            reached = (cosines >= cosine_cut - np.float32(NEAR)) | (most >= mean_cut - np.float32(NEAR))
            reached |= others >= lexical_cut - np.float32(NEAR)
            near = np.flatnonzero(reached & held.alive & ~same_source(held.sources, sources[at]))
            one, other = (
                (plain[at : at + 1], lexical[at : at + 1]),
                (held.plain.rows[near], held.lexical[near]),
            )
            kept = exact_products(one[0], other[0], unit=True) >= cosine_cut
            kept |= exact_products(one[1], other[1], unit=True) >= lexical_cut
            kept |= exact_products(hybrid_rows(*one), hybrid_rows(*other), unit=True) >= mean_cut
            found.append((np.full(int(kept.sum()), at), near[kept]))
    asked, rows = (np.concatenate(column) for column in zip(*found))
    return asked, rows


class CandidateTable:
    """Candidate partners of each row of A among the rows of B (`of_a`), and the reverse (`of_b`), ascending.

    `same`: A is B. best (n, values, 2): of each row of A the best two values by each of `values` measures;
    nan where they must be looked for, -inf where there is none. best_rows: the rows of B that have them.
    """

    def __init__(self, same: bool, values: int) -> None:
        self.same = same
        self.of_a: list[NDArray[np.int32]] = []
        self.of_b: list[NDArray[np.int32]] = []
        self.best = np.empty((0, values, 2), np.float64)
        self.best_rows = np.empty((0, values, 2), np.int32)

    def fill(self, ids: Ids, size: int, others: int) -> None:
        """Take all candidates: pairs of a row of A and one of B; `ids` of `AllPairs` where these are one."""
        one, other = pair_rows(ids)
        if self.same:
            one, other = np.concatenate([one, other]), np.concatenate([other, one])
        self.of_a = self.of_b = _lists(one, other, size)
        if not self.same:
            self.of_b = _lists(other, one, others)
        self._size_best(size, fresh=True)

    def renumber(self, kept: Rows, number: Rows) -> None:
        """Keep the rows `kept` of A; `number` has the new number of each."""
        self.best = self.best[kept]
        rows = self.best_rows[kept]
        self.best_rows = np.where(rows < 0, rows, number[rows]).astype(np.int32) if self.same else rows
        of_a = [self.of_a[row] for row in kept.tolist()]
        if self.same:
            self.of_a = self.of_b = _renumbered(of_a, number)
        else:
            self.of_a, self.of_b = of_a, _renumbered(self.of_b, number)

    def remove(self, row: int) -> None:
        """Take a row of A out of all lists."""
        for partner in self.of_a[row].tolist():
            self.of_b[partner] = self.of_b[partner][self.of_b[partner] != row]
            if self.same and (self.best_rows[partner] == row).any():
                self.best[partner] = np.nan
        self.of_a[row] = _NOBODY

    def grow(self, size: int) -> None:
        """Make room for `size` rows of A."""
        self.of_a += [_NOBODY] * (size - len(self.of_a))
        self._size_best(size)

    def add(self, new: Rows, partners: list[Rows]) -> None:
        """Put new rows of A in, ascending and behind all others, with their partners."""
        fresh = set(new.tolist()) if self.same else set()
        for row, found in zip(new.tolist(), partners):
            self.of_a[row] = found.astype(np.int32)
            for partner in found.tolist():
                if partner not in fresh:  # those have their own list
                    self.of_b[partner] = np.append(self.of_b[partner], np.int32(row))

    def _size_best(self, size: int, fresh: bool = False) -> None:
        kept = 0 if fresh else len(self.best)
        shape = (size - kept, *self.best.shape[1:])
        self.best = np.concatenate([self.best[:kept], np.full(shape, np.nan)])
        self.best_rows = np.concatenate([self.best_rows[:kept], np.full(shape, -1, np.int32)])

    def unknown(self, rows: Rows) -> Rows:
        """Those rows of A whose best two must be looked for."""
        return rows[np.isnan(self.best[rows, 0, 0])]

    def set_best(self, rows: Rows, one: Rows, other: Rows, texts: Rows, values: NDArray[np.float64]) -> None:
        """Find the best two of some rows from all their pairs.

        one, other (n,): rows of A and of B. texts (n,): equal where those of B are. values (n, k).
        """
        self.best[rows], self.best_rows[rows] = -np.inf, -1
        for column in range(values.shape[1] if len(one) else 0):
            for place, found in enumerate(best_two(one, texts, values[:, column])):
                found = found[found >= 0]
                self.best[one[found], column, place] = values[found, column]
                self.best_rows[one[found], column, place] = other[found]

    def join(self, row: int, partners: Rows, same: Mask, values: NDArray[np.float64]) -> None:
        """Let a new row of B be a competitor in the best two of rows of A, distinct ones that are known.

        values (n, k): those of the pairs. same (n, k): whether the best has the new row's text.
        """
        best, rows = self.best[partners], self.best_rows[partners]
        better = values > best[..., 0]
        demoted = better & ~same
        best[..., 1], rows[..., 1] = (np.where(demoted, pair[..., 0], pair[..., 1]) for pair in (best, rows))
        second = ~better & ~same & (values > best[..., 1])
        for mask, place in ((better, 0), (second, 1)):
            best[..., place] = np.where(mask, values, best[..., place])
            rows[..., place] = np.where(mask, row, rows[..., place])
        self.best[partners], self.best_rows[partners] = best, rows


def _lists(one: Rows, other: Rows, size: int) -> list[NDArray[np.int32]]:
    order = np.lexsort((other, one))
    ends = np.searchsorted(one[order], np.arange(1, size))
    return np.split(other[order].astype(np.int32), ends) if size else []


def _renumbered(lists: list[NDArray[np.int32]], number: Rows) -> list[NDArray[np.int32]]:
    if not lists:
        return []
    ends = np.cumsum([len(found) for found in lists])[:-1]
    return np.split(number[np.concatenate(lists)].astype(np.int32), ends)

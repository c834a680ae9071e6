"""Exact scans of the pairs between sources, made of scans that know nothing of sources.

Counts are those over all pairs less those within each source: the arithmetic of a pair does not depend on
where it stands, so both see the same scores. Collected pairs are sifted. Neighbours are looked for among the
texts of the other sources; those of a small source, among a few more of all texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import AcrossPairs, AllPairs, CrossPairs, Ids, PairSpace, Rows, Scores
from pairsieve.scan import Neighbours, Scan, Take

SMALL = 64  # texts of a source up to which its pairs are scored one by one
Open = Callable[[PairSpace, "NDArray[Any]", "NDArray[Any]"], "Scan"]  # a scan of rows in one arithmetic


class AcrossScan:
    """The `Scan` of an `AcrossPairs` space; `open_scan(space, left, right)` opens the scans it is made of."""

    def __init__(self, space: AcrossPairs, rows: NDArray[Any], open_scan: Open) -> None:
        self.space: PairSpace = space
        self._across = space
        self._rows, self._open = rows, open_scan
        self.whole = open_scan(AllPairs(space.texts), rows, rows)
        self.device = self.whole.device
        sizes = np.bincount(space.sources, minlength=1)
        self._size = sizes[space.sources] if space.texts else sizes
        self._large = np.flatnonzero(sizes > SMALL)

    def scores(self, ids: Ids) -> Scores:
        return self.whole.scores(ids)

    def count_reaching(self, thresholds: NDArray[np.float32], desc: str = "all pairs") -> NDArray[np.int64]:
        reached = self.whole.count_reaching(thresholds, desc)
        for source in self._large.tolist():
            rows = self._rows[self._across.sources == source]
            within = self._open(AllPairs(len(rows)), rows, rows)
            reached = reached - within.count_reaching(thresholds, "within a source")
        scores = np.sort(self.whole.scores(self._small_pairs()))
        return reached - (len(scores) - np.searchsorted(scores, thresholds, "left"))

    def collect(self, low: float, high: float, take: Take, desc: str = "collecting") -> None:
        def sift(ids: Ids, scores: Scores) -> None:
            across = self._across.across(ids)
            if across.any():
                take(ids[across], scores[across])

        self.whole.collect(low, high, sift, desc)

    def neighbours(self, count: int, rows: Rows | None = None, desc: str = "neighbours") -> Neighbours:
        picked = np.arange(self._across.texts) if rows is None else np.asarray(rows, np.int64)
        columns = np.full((len(picked), count), -1, np.int64)
        scores = np.full((len(picked), count), -np.inf, np.float32)
        for source in self._large.tolist():
            here = np.flatnonzero(self._across.sources[picked] == source)
            others = np.flatnonzero(self._across.sources != source)
            if not len(here) or not len(others):
                continue
            most = min(count, len(others))
            space = CrossPairs(len(here), len(others))
            scan = self._open(space, self._rows[picked[here]], self._rows[others])
            found, values = scan.neighbours(most, desc=desc)
            columns[here, :most], scores[here, :most] = np.where(found < 0, -1, others[found]), values
        small = np.flatnonzero(self._size[picked] <= SMALL) if len(picked) else picked
        if len(small):
            self._among_all(picked, small, count, columns, scores, desc)
        return columns, scores

    def _among_all(
        self, picked: Rows, small: Rows, count: int, columns: Rows, scores: Scores, desc: str
    ) -> None:
        """Neighbours of texts of small sources: of all texts so many more as their own source could be."""
        more = int(self._size[picked[small]].max()) - 1
        most = min(count + more, self._across.texts - 1)
        if most < 1:
            return
        found, values = self.whole.neighbours(most, picked[small], desc=desc)
        width = min(count, most)
        kept = foreign_neighbours(self._across, picked[small], found, values, count)
        columns[small, :width], scores[small, :width] = kept

    def _small_pairs(self) -> Ids:
        """Every pair within a source of few texts."""
        rows = np.flatnonzero(self._size <= SMALL) if self._across.texts else np.empty(0, np.int64)
        order = rows[np.argsort(self._across.sources[rows], kind="stable")]
        sources = self._across.sources[order]
        pieces = [np.empty(0, np.int64)]
        for step in range(1, SMALL):
            same = sources[step:] == sources[:-step]
            if not same.any():
                break
            pieces.append(self._across.ids(order[:-step][same], order[step:][same]))
        return np.concatenate(pieces)


def foreign_neighbours(
    space: AcrossPairs, rows: Rows, columns: Rows, scores: Scores, count: int
) -> tuple[Rows, Scores]:
    """The first `count` neighbours (n, k) of the rows (n,) that are of another source; -1 where fewer are."""
    foreign = (columns >= 0) & (space.sources[columns] != space.sources[rows][:, None])
    order = np.argsort(~foreign, axis=1, kind="stable")[:, :count]  # the others keep their order
    kept = np.take_along_axis(foreign, order, 1)
    found = np.where(kept, np.take_along_axis(columns, order, 1), -1)
    return found, np.where(kept, np.take_along_axis(scores, order, 1), -np.inf).astype(np.float32)

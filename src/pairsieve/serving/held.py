"""Held texts and their exact nearest neighbours, kept right while texts are added, replaced and removed.

`HeldTexts` is a growing matrix of texts by key. A `NeighbourTable` lists the k nearest of each row of one
matrix among the rows of another; `update` looks again only where a change can matter. Cosines are compared in
float32 first; what comes near the deciding cosine is multiplied again in float64 and rounded as a scan rounds
(`scan/cpu.py`), so that a list is the one a scan of all pairs gives, ties by smaller row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import Mask, Rows
from pairsieve.scan.cpu import GRID
from pairsieve.serving.of_sources import NO_SOURCE, possible_partners, same_source

Floats = NDArray[np.float32]

SPARE = 4  # neighbours kept beyond those needed, so that a removal seldom has to look at all rows again
NEAR = 4e-6  # float32 products this close may be equal
MOST_SCORES = 1 << 24  # float32 scores held at once: 64 MiB
_PAIRS_AT_ONCE = 1 << 13  # pairs multiplied in float64 together
_LEAST_CAPACITY = 1024


def products(one: Floats, other: Floats) -> Floats:
    """(n, m) inner products in float32."""
    import torch

    return (torch.from_numpy(np.ascontiguousarray(one)) @ torch.from_numpy(other).T).numpy()


def exact_products(one: Floats, other: Floats, *, unit: bool) -> Floats:
    """(n,) float32 products of rows (n, d) by pairs, as a scan rounds them; `one` may be a single row.

    unit: the cosine. Else lengths count: a scan then multiplies rows divided by √2 and doubles the product.
    """
    found = np.empty(len(other), np.float32)
    for first in range(0, len(other), _PAIRS_AT_ONCE):
        at = slice(first, first + _PAIRS_AT_ONCE)
        x, y = (one if len(one) == 1 else one[at]).astype(np.float64), other[at].astype(np.float64)
        product = np.einsum("nd,nd->n", np.broadcast_to(x, y.shape), y)
        if unit:
            lengths = np.einsum("nd,nd->n", x, x) * np.einsum("nd,nd->n", y, y)
            product = product / np.sqrt(np.where(lengths == 0, 1.0, lengths))
            found[at] = np.round(product * GRID) / GRID
        else:
            found[at] = 2 * (np.round(product / 2 * GRID) / GRID).astype(np.float32)
    return found


def pair_cosines(one: Floats, other: Floats, rows: Rows, columns: Rows) -> Floats:
    """(n,) cosines of the rows (n,) of one matrix with the columns (n,) of another, as a scan rounds them."""
    found = np.empty(len(rows), np.float32)
    for first in range(0, len(rows), _PAIRS_AT_ONCE):
        at = slice(first, first + _PAIRS_AT_ONCE)
        found[at] = exact_products(one[rows[at]], other[columns[at]], unit=True)
    return found


def nearest_rows(
    queries: Floats, matrix: Matrix, count: int, own: Rows | None = None, sources: Rows | None = None
) -> tuple[Rows, Floats]:
    """The `count` nearest living rows of each query (n, d): columns and cosines (n, count), best first.

    Ties by smaller row; -1 and -inf where there are fewer. own (n,): a row that is none of a query's.
    sources (n,): those of the queries; a row of a query's source is none of its.
    """
    rows, alive = matrix.rows, matrix.alive
    columns = np.full((len(queries), count), -1, np.int64)
    cosines = np.full((len(queries), count), -np.inf, np.float32)
    gone = np.flatnonzero(~alive)
    wanted = min(count, len(rows) - len(gone))
    step = max(1, MOST_SCORES // max(len(rows), 1))
    for first in range(0, len(queries) if wanted else 0, step):
        chunk = queries[first : first + step]
        lines = products(chunk, rows)
        lines[:, gone] = -np.inf
        if own is not None:
            lines[np.arange(len(chunk)), own[first : first + step]] = -np.inf
        for at, line in enumerate(lines, first):
            if sources is not None:
                line[same_source(matrix.sources, sources[at])] = -np.inf
            bar = np.partition(line, len(line) - wanted)[len(line) - wanted]
            near = np.flatnonzero(line >= max(float(bar) - NEAR, -3.0))  # gone rows have -inf
            exact = exact_products(queries[at : at + 1], rows[near], unit=True)
            best = np.lexsort((near, -exact))[:wanted]
            columns[at, : len(best)], cosines[at, : len(best)] = near[best], exact[best]
    return columns, cosines


def reaching_rows(queries: Floats, matrix: Floats, bounds: Floats) -> tuple[Rows, Rows, Floats]:
    """Pairs of a query and a row whose cosine reaches the row's bound (m,): queries, rows and cosines."""
    found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
    step = max(1, MOST_SCORES // max(len(matrix), 1))
    for first in range(0, len(queries), step):
        for at, line in enumerate(products(queries[first : first + step], matrix), first):
            rows = np.flatnonzero(line >= bounds - np.float32(NEAR))
            exact = exact_products(queries[at : at + 1], matrix[rows], unit=True)
            kept = exact >= bounds[rows]
            found.append((np.full(int(kept.sum()), at), rows[kept], exact[kept]))
    asked, reached, cosines = (np.concatenate(column) for column in zip(*found))
    return asked, reached, cosines


@dataclass(frozen=True, eq=False)
class Matrix:
    """Rows (n, d), which of them count (n,), and their sources (n,)."""

    rows: Floats
    alive: Mask
    sources: Rows


class NeighbourTable:
    """The `count` nearest of each row of A among the rows of B; `same`: A is B, and no row is its own.

    `columns` and `cosines` (n, count + SPARE), best first, -1 and -inf where there is none: the list of a row
    is its exact best m, for some m of at least `count` (or all there are).
    """

    def __init__(self, count: int, same: bool) -> None:
        self.count, self.same = count, same
        self.columns: Rows = np.empty((0, count + SPARE), np.int64)
        self.cosines: Floats = np.empty((0, count + SPARE), np.float32)
        self._others: Rows = np.empty(0, np.int64)  # rows that a list could name, when it was last right

    @property
    def width(self) -> int:
        return self.count + SPARE

    def fill(self, columns: Rows, cosines: Floats, a: Matrix, b: Matrix) -> None:
        """Take the lists (n, up to `width`) of all rows, from a scan of all pairs."""
        blank = ((0, 0), (0, self.width - columns.shape[1]))
        self.columns = np.pad(columns.astype(np.int64), blank, constant_values=-1)
        self.cosines = np.pad(cosines.astype(np.float32), blank, constant_values=-np.inf)
        self._others = self._possible(a, b)

    def _possible(self, a: Matrix, b: Matrix) -> Rows:
        """(n,) how many rows of B the list of each row of A could name."""
        if self.same:
            return possible_partners(b.sources, b.alive)
        return np.full(len(a.rows), b.alive.sum(), np.int64)

    def renumber(self, kept: Rows | None, columns: Rows | None) -> None:
        """Keep the lists of the rows `kept`; `columns` has the new number of each column."""
        if kept is not None:
            self.columns, self.cosines = self.columns[kept], self.cosines[kept]
            self._others = self._others[kept]
        if columns is not None:
            self.columns = np.append(columns, -1)[self.columns]

    def update(self, a: Matrix, b: Matrix, changed_a: Rows, changed_b: Rows) -> Rows:
        """Make the lists right after the rows `changed_a` and `changed_b` were added, changed or removed.

        Returns the rows whose nearest, or its cosine, is another now. Costs (changed rows + lists that lost
        too many) · n · d, and n · changed · d.
        """
        more = ((0, len(a.rows) - len(self.columns)), (0, 0))
        self.columns = np.pad(self.columns, more, constant_values=-1)
        self.cosines = np.pad(self.cosines, more, constant_values=-np.inf)
        nearest, highest = self.columns[:, 0].copy(), self.cosines[:, 0].copy()
        before = np.pad(self._others, more[0])
        self._others = self._possible(a, b)
        self.columns[changed_a], self.cosines[changed_a] = -1, -np.inf
        stays = a.alive.copy()
        stays[changed_a] = False
        length = (self.columns >= 0).sum(axis=1)
        last = np.maximum(length - 1, 0)[:, None]
        open_ended = ~stays | (length >= before)  # such a list names all that there were
        bound = np.where(open_ended, -np.inf, np.take_along_axis(self.cosines, last, 1)[:, 0])
        bound_column = np.where(open_ended, -1, np.take_along_axis(self.columns, last, 1)[:, 0])
        touched = np.zeros(len(b.rows) + 1, bool)  # one more: the place of -1
        touched[changed_b] = True
        hit = touched[self.columns]
        new = changed_b[b.alive[changed_b]]
        limit = np.where(stays, bound, np.inf).astype(np.float32)
        at, rows, cosines = reaching_rows(b.rows[new], a.rows, limit)
        columns = new[at]
        kept = (cosines > bound[rows]) | (columns < bound_column[rows]) | open_ended[rows]
        if self.same:
            kept &= (rows != columns) & ~same_source(a.sources[rows], b.sources[columns])
        self._merge(hit, rows[kept], columns[kept], cosines[kept])
        short = stays & ((self.columns >= 0).sum(axis=1) < np.minimum(self.count, self._others))
        short[changed_a] = a.alive[changed_a]
        again = np.flatnonzero(short)
        own, sources = (again, a.sources[again]) if self.same else (None, None)
        found = nearest_rows(a.rows[again], b, self.width, own, sources)
        self.columns[again], self.cosines[again] = found
        return np.flatnonzero((self.columns[:, 0] != nearest) | (self.cosines[:, 0] != highest))

    def _merge(self, hit: Mask, rows: Rows, columns: Rows, cosines: Floats) -> None:
        """Take the entries `hit` out of the lists and the given ones in, which reach the bound of a list."""
        affected = np.asarray(hit.any(axis=1))
        affected[rows] = True
        places = np.flatnonzero(affected)
        if not len(places):
            return
        stay = (self.columns[places] >= 0) & ~hit[places]
        row = np.concatenate([np.broadcast_to(places[:, None], stay.shape)[stay], rows])
        column = np.concatenate([self.columns[places][stay], columns])
        cosine = np.concatenate([self.cosines[places][stay], cosines])
        order = np.lexsort((column, -cosine, row))
        row, column, cosine = row[order], column[order], cosine[order]
        rank = np.arange(len(row)) - np.searchsorted(row, row, side="left")
        best = rank < self.width
        self.columns[places], self.cosines[places] = -1, -np.inf
        self.columns[row[best], rank[best]] = column[best]
        self.cosines[row[best], rank[best]] = cosine[best]


class HeldTexts:
    """Texts by key with their unit rows, in the order in which they last changed.

    A row is never changed in place: a replaced text is a removed row and a new one. `smooth` and `lengths`
    are what the corrections make of the rows; `smooth` is `plain` itself where there is no smoothing.
    """

    def __init__(
        self,
        keys: Sequence[str],
        texts: Sequence[str],
        rows: Floats,
        smoothing: bool = False,
        lexical: Floats | None = None,
        sources: Sequence[str | None] = (),
    ) -> None:
        """lexical (n, w): where candidates are looked for by lexical rows too. sources: names or ()."""
        self.width = int(rows.shape[1])
        self.used = len(keys)
        capacity = max(_LEAST_CAPACITY, self.used + self.used // 8)
        self._plain = _grown(rows, capacity)
        self._smooth = self._plain.copy() if smoothing else self._plain
        self._lexical = _grown(rows[:, :0] if lexical is None else lexical, capacity)
        self._lengths = np.ones(capacity, np.float32)
        self._alive: Mask = np.arange(capacity) < self.used
        self.keys, self.texts = list(keys), list(texts)
        self._source_names: list[str] = []
        self._source_numbers: dict[str, int] = {}
        self._sources: Rows = np.full(capacity, NO_SOURCE, np.int64)
        self._sources[: len(sources)] = [self._source_number(name) for name in sources]
        self._index()

    def _source_number(self, name: str | None) -> int:
        """The number of a source, a new one where nobody is from it yet."""
        if name is None:
            return NO_SOURCE
        if name not in self._source_numbers:
            self._source_numbers[name] = len(self._source_names)
            self._source_names.append(name)
        return self._source_numbers[name]

    def known_source(self, name: str | None) -> int:
        """The number of a source; `NO_SOURCE` where no held text was ever of it."""
        return NO_SOURCE if name is None else self._source_numbers.get(name, NO_SOURCE)

    def source_of(self, row: int) -> str | None:
        number = int(self._sources[row])
        return None if number == NO_SOURCE else self._source_names[number]

    def _index(self) -> None:
        self.row_of = {key: row for row, key in enumerate(self.keys) if self._alive[row]}
        self._rows_with: dict[tuple[str, int], list[int]] = {}
        for row in self.row_of.values():
            self._rows_with.setdefault((self.texts[row], int(self._sources[row])), []).append(row)

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def plain(self) -> Matrix:
        return Matrix(self._plain[: self.used], self.alive, self.sources)

    @property
    def smooth(self) -> Matrix:
        return Matrix(self._smooth[: self.used], self.alive, self.sources)

    @property
    def lexical(self) -> Floats:
        """Lexical rows (n, w); w is 0 without any."""
        return self._lexical[: self.used]

    @property
    def lengths(self) -> Floats:
        return self._lengths[: self.used]

    @property
    def alive(self) -> Mask:
        return self._alive[: self.used]

    @property
    def sources(self) -> Rows:
        """(n,) numbers of sources, `NO_SOURCE` for none."""
        return self._sources[: self.used]

    def stretched(self, rows: Rows | list[int]) -> Floats:
        """Corrected rows: smoothed, times their lengths."""
        return self._smooth[rows] * self._lengths[rows][:, None]

    def row_with_text(self, text: str, source: str | None = None) -> int:
        """The oldest row that holds a text of a source (None: of none); -1 without one."""
        number = self.known_source(source)
        if source is not None and number == NO_SOURCE:
            return -1
        return self._rows_with.get((text, number), [-1])[0]

    def add(
        self, key: str, text: str, row: Floats, lexical: Floats | None = None, source: str | None = None
    ) -> int:
        """Put a text in and return its row; the earlier text of the key must be out, and room made."""
        at = self.used
        self._plain[at] = self._smooth[at] = row
        if lexical is not None:
            self._lexical[at] = lexical
        self._lengths[at], self._alive[at] = 1.0, True
        self._sources[at] = self._source_number(source)
        self.keys.append(key)
        self.texts.append(text)
        self.row_of[key] = at
        self._rows_with.setdefault((text, int(self._sources[at])), []).append(at)
        self.used += 1
        return at

    def remove(self, key: str) -> int:
        """Take a text out and return its row; -1 where there is none."""
        at = self.row_of.pop(key, -1)
        if at >= 0:
            self._alive[at] = False
            kind = self.texts[at], int(self._sources[at])
            same = self._rows_with[kind]
            same.remove(at)
            if not same:
                del self._rows_with[kind]
            self.keys[at] = self.texts[at] = ""  # the row stays until the next `compact`, the words do not
        return at

    def room_for(self, count: int) -> bool:
        return self.used + count <= len(self._plain)

    def compact(self, count: int) -> tuple[Rows, Rows]:
        """Leave removed rows out and make room for `count` more; rows kept, and the new number of each."""
        kept = np.flatnonzero(self.alive)
        number = np.cumsum(self.alive) - 1
        capacity = max(_LEAST_CAPACITY, 2 * len(kept), len(kept) + count)
        separate = self._smooth is not self._plain
        self._plain = _grown(self._plain[kept], capacity)
        self._smooth = _grown(self._smooth[kept], capacity) if separate else self._plain
        self._lexical = _grown(self._lexical[kept], capacity)
        lengths, self._lengths = self._lengths[kept], np.ones(capacity, np.float32)
        self._lengths[: len(kept)] = lengths
        self._alive = np.arange(capacity) < len(kept)
        sources, self._sources = self._sources[kept], np.full(capacity, NO_SOURCE, np.int64)
        self._sources[: len(kept)] = sources
        self.used = len(kept)
        self.keys = [self.keys[row] for row in kept.tolist()]
        self.texts = [self.texts[row] for row in kept.tolist()]
        self._index()
        return kept, number


def _grown(rows: Floats, capacity: int) -> Floats:
    larger = np.empty((capacity, rows.shape[1]), np.float32)
    larger[: len(rows)] = rows
    return larger

"""Which rows are nearest to a query, exactly, while rows come and go? One float32 matrix that grows.

A row is never changed in place: a replaced text is a removed row and a new one, so rows stand in the order
in which their texts last changed. Removed rows are masked, and left out when the matrix is next rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import Mask, Rows

Vectors = NDArray[np.float32]

DECIMALS = 6  # of a score: a row depends on the batch it was embedded in by less than this
NEAR = 2e-6  # float32 products this close may be equal
MOST_SCORES = 1 << 24  # float32 scores held at once: 64 MiB
MOST_TIES = 4096  # ties of the last place that are looked at one by one


@dataclass(frozen=True)
class Match:
    """An earlier text: `score` is the cosine, `probability` is `σ(weight · cosine + bias)`."""

    key: str
    text: str
    score: float
    probability: float


class Index:
    """Texts by key with their unit rows; `find` is exact. Not for several threads at once."""

    def __init__(self, keys: Sequence[str], texts: Sequence[str], rows: Vectors) -> None:
        self.width = int(rows.shape[1])
        self._keys, self._texts = list(keys), list(texts)
        self._used = len(self._keys)
        self._rows = np.empty((max(1024, self._used + self._used // 8), self.width), np.float32)
        self._rows[: self._used] = rows
        self._alive: Mask = np.ones(len(self._rows), bool)
        self._row_of = {key: row for row, key in enumerate(self._keys)}

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, key: str) -> bool:
        return key in self._row_of

    def keys(self) -> Iterator[str]:
        return iter(self._row_of)

    def add(self, key: str, text: str, row: Vectors) -> None:
        """Put a text in; one with the same key goes out."""
        self.remove(key)
        if self._used == len(self._rows):
            self._rebuild()
        self._rows[self._used] = row
        self._alive[self._used] = True
        self._keys.append(key)
        self._texts.append(text)
        self._row_of[key] = self._used
        self._used += 1

    def remove(self, key: str) -> bool:
        """Take a text out; whether it was there."""
        row = self._row_of.pop(key, None)
        if row is not None:
            self._alive[row] = False
        return row is not None

    def find(self, queries: Vectors, count: int) -> list[list[tuple[str, str, float]]]:
        """For each query row (n, width), unit rows: key, text and cosine of its `count` nearest, best first.

        The cosines are rounded to `DECIMALS`; of equal ones the text that has been there longer is first.
        """
        count = min(count, len(self))
        if count < 1:
            return [[] for _ in queries]
        gone = np.flatnonzero(~self._alive[: self._used])
        step = max(1, MOST_SCORES // self._used)
        found: list[list[tuple[str, str, float]]] = []
        for first in range(0, len(queries), step):
            found += self._find(np.ascontiguousarray(queries[first : first + step]), count, gone)
        return found

    def _find(self, queries: Vectors, count: int, gone: Rows) -> list[list[tuple[str, str, float]]]:
        import torch

        scores = torch.from_numpy(queries) @ torch.from_numpy(self._rows[: self._used]).T
        if len(gone):
            scores[:, torch.from_numpy(gone)] = -torch.inf
        bars = scores.topk(count, dim=1).values[:, -1].numpy()
        return [
            [
                (self._keys[row], self._texts[row], score)
                for row, score in self._ranked(query, line, float(bar), count)
            ]
            for query, line, bar in zip(queries, scores.numpy(), bars)
        ]

    def _ranked(self, query: Vectors, line: Vectors, bar: float, count: int) -> list[tuple[int, float]]:
        """The best rows whose float32 score reaches `bar`, scored again one by one, so that neither a
        row's place in the matrix nor the other queries of a batch can change the order."""
        near: Rows = np.flatnonzero(line >= bar - NEAR)
        if len(near) > MOST_TIES:  # many copies of one text: the oldest of them will do
            tied = line[near] <= bar + NEAR
            near = np.union1d(near[~tied], near[tied][:count])
        exact = self._rows[near].astype(np.float64) @ query.astype(np.float64)
        rounded = np.clip(np.round(exact, DECIMALS), -1.0, 1.0)
        best = np.argsort(-rounded, kind="stable")[:count]  # rows ascend: the older of equals stays first
        return list(zip(near[best].tolist(), rounded[best].tolist()))

    def _rebuild(self) -> None:
        """A larger matrix, without the removed rows."""
        kept = np.flatnonzero(self._alive[: self._used])
        larger = np.empty((max(1024, 2 * len(kept)), self.width), np.float32)
        larger[: len(kept)] = self._rows[kept]
        self._rows, self._used = larger, len(kept)
        self._alive = np.ones(len(larger), bool)
        self._keys = [self._keys[row] for row in kept.tolist()]
        self._texts = [self._texts[row] for row in kept.tolist()]
        self._row_of = {key: row for row, key in enumerate(self._keys)}

"""Exact search by a scorer in one collection or in two, while texts are added, replaced and removed.

One collection: the held texts are one pair space, and a query that is a held text gets the scores that
`score_texts(scorer, held texts)` gives its pairs. Two collections: `answering` is searched and `asking` holds
the known texts of the other side, from which the smoothing and the density of the searched texts come; where
none are known, the searched rows stay as embedded. A query that nobody holds changes nothing: it is smoothed
with its nearest held text, its density is of its nearest held texts, and held rows are as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pairsieve.pairs import CrossPairs, PairSpace, Rows
from pairsieve.scan import open_scan
from pairsieve.scorer import Scorer
from pairsieve.scorer.corrections import (
    Arrays,
    Corrections,
    Memo,
    competitors,
    compute,
    density,
    smoothed,
    smoothed_all,
)
from pairsieve.scorer.scorer import below_candidates, softsign
from pairsieve.serving.held import (
    MOST_SCORES,
    NEAR,
    Floats,
    HeldTexts,
    NeighbourTable,
    exact_products,
    nearest_rows,
    products,
)
from pairsieve.serving.of_sources import NO_SOURCE, same_source, space_of
from pairsieve.serving.record import Change
from pairsieve.serving.reranking import NOTHING_FOUND, Found, QueryReranker

DECIMALS = 6  # of a score where matches are ordered: a row depends on the batch it was embedded in by less
REBUILD_FROM = 256  # changed texts, beside an eighth of all, from which a scan of all pairs is faster
MOST_TIES = 4096  # ties of the last place that are looked at one by one


@dataclass(frozen=True)
class Match:
    """An earlier text, its score (-1 to 1, on the scale of `evaluate` and `match`) and its probability, where
    the score is calibrated."""

    key: str
    text: str
    score: float
    probability: float | None
    source: str | None = None


@dataclass(frozen=True, eq=False)
class Query:
    """What is asked: a new text by its unit row (d,), or a held one by its row on the asking side.

    itself: the held text stands among its own answers, first and with score 1. source: the number of its
    source, whose texts are no answers.
    """

    text: str
    row: Floats | None = None
    held: int = -1
    itself: bool = False
    source: int = NO_SOURCE


class Index:
    """Held texts under a scorer; `find` is exact. Not for several threads at once."""

    def __init__(
        self,
        answering: HeldTexts,
        scorer: Scorer | None = None,
        asking: HeldTexts | None = None,
        side: int = 1,
        device: str = "auto",
        memo: Memo = compute,
    ) -> None:
        """scorer: None is the plain cosine within one collection. asking: known texts of the other side of
        two collections. side: that of `answering`, 0 left or 1 right. device: of scans. `memo(kind, build)`
        may keep the lists of neighbours ("plain", "smoothed") and the candidates ("candidates") that the
        first state is made from."""
        self.scorer, self.corrections = scorer, Corrections(True) if scorer is None else scorer.corrections
        self.one, self.width, self._device = self.corrections.symmetric, answering.width, device
        self.answering = answering
        nobody = HeldTexts([], [], answering.plain.rows[:0], lexical=answering.lexical[:0])
        self.asking = answering if self.one else asking or nobody
        self.side = 0 if self.one else side
        self._sides = [answering, self.asking] if len(self.asking) and not self.one else [answering]
        reranker = None if scorer is None else scorer.reranker
        self._plain_lists: list[NeighbourTable] = []  # of each of the sides; none without known queries
        self._smooth_lists: list[NeighbourTable] = []
        if self.one or len(self._sides) == 2:
            if any(self.corrections.smoothing):
                self._plain_lists = [NeighbourTable(1, self.one) for _ in self._sides]
            if any(self.corrections.hubness):
                self._smooth_lists = [NeighbourTable(competitors(self.one), self.one) for _ in self._sides]
        self._reranker = None
        if reranker is not None:
            self._reranker = QueryReranker(reranker, self.asking, answering, self.side)
        self._build(memo)

    def __len__(self) -> int:
        return len(self.answering)

    def __contains__(self, key: str) -> bool:
        return key in self.answering.row_of

    def source_of(self, key: str) -> str | None:
        """The source of a held text of the answering side."""
        return self.answering.source_of(self.answering.row_of[key])

    # ── asking ──────────────────────────────────────────────────────────────────────────────────

    def query(self, text: str, row: Floats, source: str | None = None) -> Query:
        """The query of a text; one that is held, from the same source or without any, is asked as that."""
        held, number = self.asking.row_with_text(text, source), self.asking.known_source(source)
        if held < 0:
            return Query(text, row, source=number)
        return Query(text, held=held, itself=self.one and source is None, source=number)

    def query_by_key(self, key: str) -> Query | None:
        """The query of a held text of the asking side, which is no answer to itself; None without one."""
        held = self.asking.row_of.get(key)
        if held is None:
            return None
        return Query(self.asking.texts[held], held=held, source=int(self.asking.sources[held]))

    def find(self, queries: Sequence[Query], count: int) -> list[list[tuple[str, str, float]]]:
        """For each query: key, text and score of its `count` best, best first.

        Ordered by the score to `DECIMALS`; of equal ones the text that has been there longer is first.
        """
        if not len(self) or not queries or count < 1:
            return [[] for _ in queries]
        rows = self._query_rows(queries)
        candidates = (
            [NOTHING_FOUND] * len(queries) if self._reranker is None else self._reranker.find(queries)
        )
        step = max(1, MOST_SCORES // self.answering.used)
        found: list[list[tuple[str, str, float]]] = []
        for first in range(0, len(queries), step):
            at = slice(first, first + step)
            lines = products(rows[at], self.answering.smooth.rows)
            lines *= self.answering.lengths
            lines[:, ~self.answering.alive] = -np.inf
            for query, row, line, some in zip(queries[at], rows[at], lines, candidates[at]):
                found.append(self._ranked(query, row, line, some, count))
        return found

    def _query_rows(self, queries: Sequence[Query]) -> Floats:
        """Corrected rows (n, d) of queries."""
        rows = np.empty((len(queries), self.width), np.float32)
        for at, query in enumerate(queries):
            rows[at] = self.asking.stretched([query.held])[0] if query.row is None else query.row
        new = [at for at, query in enumerate(queries) if query.row is not None]
        side = self._side_of(1)
        held = self.answering
        sources = np.array([queries[at].source for at in new], np.int64)
        if new and any(self.corrections.smoothing):
            nearest, cosines = nearest_rows(rows[new], held.plain, 1, sources=sources)
            weights = self.corrections.weights(cosines[:, 0], side)
            rows[new] = smoothed(rows[new], held.plain.rows[nearest[:, 0]], weights)
        if new and any(self.corrections.hubness):
            _, cosines = nearest_rows(rows[new], held.smooth, competitors(self.one), sources=sources)
            rows[new] *= self.corrections.lengths(density(cosines), side)[:, None]
        return rows

    def _ranked(
        self, query: Query, row: Floats, line: Floats, candidates: Found, count: int
    ) -> list[tuple[str, str, float]]:
        """The best of the candidates, and of the others by `line` (n,), float32 products.

        Each is scored again by itself, so that neither its place in the matrix nor the other queries of a
        batch can change the order.
        """
        held, best = self.answering, list[tuple[str, str, float]]()
        if self.one and query.held >= 0:
            line[query.held] = -np.inf
            if query.itself:
                best.append((held.keys[query.held], held.texts[query.held], 1.0))
        if query.source != NO_SOURCE:
            line[same_source(held.sources, np.int64(query.source))] = -np.inf
        line[candidates.rows] = -np.inf
        near = self._nearest_by(line, count)
        lengths = any(self.corrections.hubness)
        scores = exact_products(row[None], held.stretched(near), unit=not lengths).astype(np.float64)
        if self._reranker is not None:
            assert self.scorer is not None
            alone = exact_products(row[None], held.stretched(candidates.rows), unit=not lengths)
            logits = self._reranker.logits(query, candidates)
            bi_encoder = self.scorer.bi_encoder()
            log_odds = self._reranker.reranker.log_odds(logits, bi_encoder.log_odds(alone))
            near = np.concatenate([near, candidates.rows])
            both = np.concatenate([below_candidates(bi_encoder.log_odds(scores)), log_odds])
            scores = softsign(both).astype(np.float64)
        order = np.lexsort((near, -np.round(scores, DECIMALS)))[: count - len(best)]
        scores = np.minimum(scores, 1.0)  # a new text may be nearer to a lonely text than all that are held
        places = zip(near[order].tolist(), scores[order].tolist())
        return best + [(held.keys[at], held.texts[at], score) for at, score in places]

    def _nearest_by(self, line: Floats, count: int) -> Rows:
        """Rows among which the `count` best by `line` certainly are, ascending."""
        wanted = min(count, len(line))
        bar = float(np.partition(line, len(line) - wanted)[len(line) - wanted])
        near: Rows = np.flatnonzero(line >= max(bar - NEAR, -5.0))  # what is left out has -inf
        if len(near) > MOST_TIES + count:  # many copies of one text: the oldest of them will do
            tied = line[near] <= bar + NEAR
            near = np.union1d(near[~tied], near[tied][:count])
        return near

    # ── changes ─────────────────────────────────────────────────────────────────────────────────

    def apply(self, changes: Sequence[Change]) -> None:
        """Add, replace and remove texts of the answering side, in their order; one update for all."""
        held = self.answering
        if not held.room_for(len(changes)):
            kept, number = held.compact(len(changes))
            for tables in (self._plain_lists, self._smooth_lists):
                for at, table in enumerate(tables):
                    table.renumber(None if at else kept, number if at or self.one else None)
            if self._reranker is not None:
                self._reranker.table.renumber(kept, number)
        changed: set[int] = set()
        texts = [change.text for change in changes if change.text is not None]
        lexical = iter([None] * len(texts) if self._reranker is None else self._reranker.lexical(texts))
        for change in changes:
            changed.add(held.remove(change.key))
            if change.text is not None:
                assert change.row is not None
                added = held.add(change.key, change.text, change.row, next(lexical), change.source)
                changed.add(added)
        changed.discard(-1)
        if len(changed) > REBUILD_FROM + len(held) // 8:
            held.compact(0)
            self._build(compute)
        elif changed:
            self._update(np.array(sorted(changed), np.int64))

    def _partner(self, at: int) -> HeldTexts:
        return self._sides[-1 - at]

    def _side_of(self, at: int) -> int:
        return self.side if at == 0 or self.one else 1 - self.side

    def _update(self, changed: Rows) -> None:
        """Neighbours, smoothed rows, lengths and candidates after answering rows were added or removed."""
        sides = self._sides
        changes = [changed, np.empty(0, np.int64)][: len(sides)]
        moved = [
            table.update(sides[at].plain, self._partner(at).plain, changes[at], changes[-1 - at])
            for at, table in enumerate(self._plain_lists)
        ]
        if any(self.corrections.smoothing):
            for at, rows in enumerate(moved):
                changes[at] = np.union1d(rows, changes[at])
                self._smooth(at, changes[at][sides[at].alive[changes[at]]])
        for at, table in enumerate(self._smooth_lists):
            table.update(sides[at].smooth, self._partner(at).smooth, changes[at], changes[-1 - at])
        self._stretch()
        if self._reranker is not None:
            self._reranker.update(changed)

    def _smooth(self, at: int, rows: Rows) -> None:
        """Smooth some rows of a side with their nearest."""
        side, partner, table = self._sides[at], self._partner(at), self._plain_lists[at]
        weights = self.corrections.weights(table.cosines[rows, 0], self._side_of(at))
        plain, others = side.plain.rows, partner.plain.rows
        side.smooth.rows[rows] = smoothed_all(plain[rows], others, table.columns[rows, 0], weights)

    def _stretch(self) -> None:
        for at, (side, table) in enumerate(zip(self._sides, self._smooth_lists)):
            sums = density(table.cosines[: side.used, : table.count])
            side.lengths[:] = self.corrections.lengths(sums, self._side_of(at))

    def _build(self, memo: Memo) -> None:
        """The state from nothing, by scans of all pairs; no row may be a removed one."""
        for kind, tables in (("plain", self._plain_lists), ("smoothed", self._smooth_lists)):
            found = memo(kind, partial(self._scan_lists, kind, tables)) if tables else {}
            for at, table in enumerate(tables):
                both = self._sides[at].plain, self._partner(at).plain
                table.fill(found[f"columns-{at}"], found[f"cosines-{at}"], *both)
                if kind == "plain" and any(self.corrections.smoothing):
                    self._smooth(at, np.arange(self._sides[at].used))
        self._stretch()
        if self._reranker is not None:
            search = partial(self._reranker.find_all, self._device)
            self._reranker.fill(memo("candidates", lambda: {"ids": search()})["ids"])

    def _scan_lists(self, kind: str, tables: Sequence[NeighbourTable]) -> Arrays:
        """The nearest of each text of a side and their cosines: `columns-N`, `cosines-N`."""
        arrays: Arrays = {}
        for at, table in enumerate(tables):
            both = self._sides[at], self._partner(at)
            a, b = (one.plain.rows if kind == "plain" else one.smooth.rows for one in both)
            count = min(table.width, len(b) - self.one)
            columns, cosines = np.empty((len(a), 0), np.int64), np.empty((len(a), 0), np.float32)
            if count > 0 and len(a):
                space: PairSpace = space_of(both[0].sources) if self.one else CrossPairs(len(a), len(b))
                scan = open_scan(space, a, None if self.one else b, device=self._device)
                columns, cosines = scan.neighbours(count, desc="neighbours")
            arrays |= {f"columns-{at}": columns, f"cosines-{at}": cosines}
        return arrays

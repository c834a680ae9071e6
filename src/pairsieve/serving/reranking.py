"""The re-ranker's logits of one query and its candidates, beside the candidates that compete with them.

A held query has the candidates it has in its pair space; a new one those it would have if it were held.
Competitors are the other candidates of the query, and the held candidates of each of its candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import AllPairs, CrossPairs, Ids, Mask, PairSpace, Rows, pair_rows
from pairsieve.reranker import Reranker, candidate_scans, cross_logits
from pairsieve.reranker.features import (
    TextReader,
    compared_count,
    compared_values,
    describe,
    lead,
    lead_over,
    normalised,
)
from pairsieve.reranker.trees import Logits
from pairsieve.scan import open_scan
from pairsieve.serving.candidates import CandidateTable, candidate_pairs
from pairsieve.serving.held import Floats, HeldTexts, exact_products, pair_cosines
from pairsieve.serving.of_sources import space_of

if TYPE_CHECKING:
    from pairsieve.serving.index import Query

Values = NDArray[np.float64]

MOST_LOGITS = 1 << 18  # logits of cross-encoders that are kept: they depend on two texts alone
_PAIRS_AT_ONCE = 1 << 15  # competing pairs that are compared together


@dataclass(frozen=True, eq=False)
class Found:
    """The candidates of a query, rows (n,) of the answering side, ascending, and the query's own rows."""

    rows: Rows
    plain: Floats
    lexical: Floats


NOTHING_FOUND = Found(np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.float32))


class QueryReranker:
    """Gives candidates of a query their logits; `side` answers, 0 left or 1 right.

    asking and answering: the held texts, the same where there is one collection.
    """

    def __init__(self, reranker: Reranker, asking: HeldTexts, answering: HeldTexts, side: int) -> None:
        self.reranker, self.asking, self.answering, self.side = reranker, asking, answering, side
        self.one = asking is answering
        scores = 3 if reranker.cross_encoders else 2
        self.table = CandidateTable(self.one, compared_count(scores, reranker.vocabulary.layout))
        self._logits: dict[tuple[str, str], float] = {}
        self._reader = TextReader(reranker.vocabulary)

    def lexical(self, texts: Sequence[str]) -> Floats:
        return self.reranker.lexical.embed(texts)

    # ── held texts ──────────────────────────────────────────────────────────────────────────────

    def find_all(self, device: str) -> Ids:
        """All candidates among held texts, by scans of all pairs: answering rows with asking rows."""
        held, asking = self.answering, None if self.one else self.asking
        if not len(held) or not len(self.asking):
            return np.empty(0, np.int64)
        space = space_of(held.sources) if asking is None else CrossPairs(held.used, asking.used)
        rows = held.plain.rows, None if asking is None else asking.plain.rows
        lexical = held.lexical, None if asking is None else asking.lexical
        scans = candidate_scans(partial(open_scan, device=device), space, rows, lexical)
        return scans.reaching(self.reranker.cuts)

    def fill(self, ids: Ids) -> None:
        """Take what `find_all` found."""
        self.table.fill(ids, self.answering.used, self.asking.used)

    def update(self, changed: Rows) -> None:
        """Make the candidates right after answering rows were added or removed."""
        held, asking, table = self.answering, self.asking, self.table
        table.grow(held.used)
        for row in changed[~held.alive[changed]].tolist():
            table.remove(row)
        new = changed[held.alive[changed]]
        rows = held.plain.rows[new], held.lexical[new], held.sources[new]
        asked, found = candidate_pairs(*rows, asking, self.reranker.cuts)
        if self.one:
            asked, found = asked[found != new[asked]], found[found != new[asked]]
        table.add(new, np.split(found, np.searchsorted(asked, np.arange(1, len(new)))) if len(new) else [])
        if self.one:
            self._join(new)

    def _join(self, new: Rows) -> None:
        """Let new texts of one collection compete where the best two are known; the others are looked for."""
        known = [self._known(self.table.of_a[row].astype(np.int64)) for row in new.tolist()]
        for row, partners in zip(new.tolist(), known):
            if not len(partners):
                continue
            values = self._values(np.full(len(partners), row), partners)
            best = self.table.best_rows[partners, :, 0]
            self.table.join(row, partners, self._same_text(self.answering.texts[row], best), values)

    def _known(self, rows: Rows) -> Rows:
        return np.setdiff1d(rows, self.table.unknown(rows), assume_unique=True)

    # ── queries ─────────────────────────────────────────────────────────────────────────────────

    def find(self, queries: Sequence[Query]) -> list[Found]:
        """The candidates of each query."""
        new = [at for at, query in enumerate(queries) if query.row is not None]
        found = [self._held(query.held) for query in queries]
        if new:
            rows = np.stack([query.row for query in queries if query.row is not None])
            lexical = self.lexical([queries[at].text for at in new])
            sources = np.array([queries[at].source for at in new], np.int64)
            asked, reached = candidate_pairs(rows, lexical, sources, self.answering, self.reranker.cuts)
            pieces = np.split(reached, np.searchsorted(asked, np.arange(1, len(new))))
            for at, *one in zip(new, pieces, rows, lexical):
                found[at] = Found(*one)
        return found

    def _held(self, row: int) -> Found:
        if row < 0:
            return NOTHING_FOUND
        asking = self.asking
        return Found(self.table.of_b[row].astype(np.int64), asking.plain.rows[row], asking.lexical[row])

    def logits(self, query: Query, found: Found) -> Logits:
        """(n,) logits of a query and its candidates."""
        held, candidates = self.answering, found.rows
        if not len(candidates):
            return np.empty(0)
        self._find_best(self.table.unknown(candidates))
        query_row = self.asking.used if query.row is not None else query.held
        space, texts, ids = self._placed(np.full(len(candidates), query_row), candidates, query.text)
        scores: list[NDArray[np.floating]] = [
            exact_products(found.plain[None], held.plain.rows[candidates], unit=True),
            exact_products(found.lexical[None], held.lexical[candidates], unit=True),
            *self._cross(*texts, ids),
        ]
        partner_texts = _same([held.texts[at] for at in candidates.tolist()])
        same = self._same_text(query.text, self.table.best_rows[candidates, :, 0])
        turned = None if self.one else self.side == 0
        leads = _QueryLeads(partner_texts, self.table.best[candidates], same, turned)
        pieces = self._reader.take_apart(space, *texts)
        return self.reranker.logits(describe(pieces, ids, scores, leads))

    # ── competitors ─────────────────────────────────────────────────────────────────────────────

    def _find_best(self, rows: Rows) -> None:
        """Find the best two of answering rows among all their candidates."""
        sizes = np.array([len(self.table.of_a[row]) for row in rows.tolist()], np.int64)
        for some in np.split(rows, np.flatnonzero(np.diff(np.cumsum(sizes) // _PAIRS_AT_ONCE)) + 1):
            lists = [self.table.of_a[row] for row in some.tolist()]
            one = np.repeat(some, [len(found) for found in lists])
            other = np.concatenate([np.empty(0, np.int64), *lists])
            distinct, place = np.unique(other, return_inverse=True)
            texts = _same([self.asking.texts[row] for row in distinct.tolist()])[place]
            self.table.set_best(some, one, other, texts, self._values(other, one))

    def _values(self, one: Rows, other: Rows) -> Values:
        """(n, values): those in which pairs of asking and answering rows compete."""
        space, texts, ids = self._placed(one, other)
        scores: list[NDArray[np.floating]] = [
            pair_cosines(self.asking.plain.rows, self.answering.plain.rows, one, other),
            pair_cosines(self.asking.lexical, self.answering.lexical, one, other),
            *self._cross(*texts, ids),
        ]
        return compared_values(self._reader.take_apart(space, *texts), ids, scores)

    def _same_text(self, text: str, rows: NDArray[np.int32]) -> Mask:
        """Which of some asking rows, -1 for none, hold a text."""
        distinct, place = np.unique(rows, return_inverse=True)
        wanted = normalised(text)
        held = [row >= 0 and normalised(self.asking.texts[row]) == wanted for row in distinct.tolist()]
        return np.array(held, bool)[place].reshape(rows.shape)

    def _placed(
        self, one: Rows, other: Rows, new: str = ""
    ) -> tuple[PairSpace, tuple[list[str], list[str]], Ids]:
        """Pairs of asking and answering rows as ids of a small space, and its texts: left and right.

        A row of the asking side beyond the held ones is the text `new`.
        """

        def chosen(held: HeldTexts, rows: Rows) -> list[str]:
            return [held.texts[row] if row < held.used else new for row in rows.tolist()]

        if self.one:  # ascending: left and right as in the whole space
            both = np.unique(np.concatenate([one, other]))
            every, small = chosen(self.asking, both), AllPairs(len(both))
            return small, (every, every), small.ids(np.searchsorted(both, one), np.searchsorted(both, other))
        rows, places = zip(*(np.unique(side, return_inverse=True) for side in (one, other)))
        texts = chosen(self.asking, rows[0]), chosen(self.answering, rows[1])
        if self.side == 0:
            texts, places = texts[::-1], places[::-1]
        space = CrossPairs(len(texts[0]), len(texts[1]))
        return space, texts, space.ids(*places)

    def _cross(
        self, left_texts: Sequence[str], right_texts: Sequence[str], ids: Ids
    ) -> list[NDArray[np.float64]]:
        """The column of the cross-encoders' logits, none without any; those seen before are kept."""
        if not self.reranker.cross_encoders:
            return []
        left, right = (places.tolist() for places in pair_rows(ids))
        pairs = [(left_texts[a], right_texts[b]) for a, b in zip(left, right)]
        new = {pair: at for at, pair in enumerate(pairs) if pair not in self._logits}
        if len(self._logits) + len(new) > MOST_LOGITS:
            self._logits.clear()
            new = {pair: at for at, pair in enumerate(pairs)}
        if new:
            some = ids[list(new.values())]
            (column,) = cross_logits(self.reranker.cross_encoders, left_texts, right_texts, some)
            self._logits.update(zip(new, column.tolist()))
        return [np.array([self._logits[pair] for pair in pairs], np.float64)]


class _QueryLeads:
    """Leads of a query's pairs: over its other candidates, and over the best two of each candidate.

    partner_texts (n,): equal where candidates have the same text. best (n, values, 2), same (n, values): see
    `CandidateTable`. turned: the query's text is the right one; None: in one collection neither is.
    """

    def __init__(self, partner_texts: Rows, best: Values, same: Mask, turned: bool | None) -> None:
        self._texts, self._best, self._same, self._turned = partner_texts, best, same, turned

    def of(self, column: int, values: Values) -> list[Values]:
        own = lead(np.zeros(len(values), np.int64), self._texts, values)
        best, second = self._best[:, column].T
        theirs = lead_over(values, best, second, self._same[:, column])
        if self._turned is None:
            return [np.minimum(own, theirs), np.maximum(own, theirs)]
        return [theirs, own] if self._turned else [own, theirs]


def _same(texts: Sequence[str]) -> Rows:
    """(n,) numbers that are equal where texts are, once normalised."""
    place: dict[str, int] = {}
    return np.array([place.setdefault(normalised(text), len(place)) for text in texts], np.int64)

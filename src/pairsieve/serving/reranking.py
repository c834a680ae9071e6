"""The re-ranker's log-odds of one query and its candidates, beside the candidates that compete with them.

A held query has the candidates it has in its pair space: its nearest by plain cosine, and the texts among
whose nearest it stands. A new query has those it would have if it were held: its own nearest, and the texts
to which it is nearer than the last of their nearest. Competitors are the other candidates of the query, and
the held candidates of each of its candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, Rows, pair_rows
from pairsieve.reranker import Reranker, cross_logits
from pairsieve.reranker.features import TextReader, describe
from pairsieve.serving.held import Floats, HeldTexts, exact_products, nearest_rows, reaching_rows

if TYPE_CHECKING:
    from pairsieve.serving.index import Query

MOST_LOGITS = 1 << 18  # logits of cross-encoders that are kept: they depend on two texts alone


class QueryReranker:
    """Gives candidates of a query their log-odds; `one`: within one collection, else `side` answers."""

    def __init__(self, reranker: Reranker, one: bool, side: int) -> None:
        self.reranker, self.one, self.side = reranker, one, side
        self._logits: dict[tuple[str, str], float] = {}
        self._reader = TextReader(reranker.vocabulary)

    def log_odds(
        self, query: Query, asking: HeldTexts, answering: HeldTexts, lists: Sequence[Rows], bounds: Floats
    ) -> tuple[Rows, NDArray[np.float64]]:
        """Rows (n,) of the candidates of a query on the answering side, ascending, and their log-odds (n,).

        lists: the nearest (n, k) by plain cosine of the answering texts among the asking ones, and of the
        asking ones where these are another collection; empty where no askers are known. bounds (n,): the
        cosine of each answering text with the last of its nearest.
        """
        asker = asking.used if query.row is not None else query.held
        if query.row is not None:
            candidates = self._candidates_of_new(query.row, answering, bounds)
        else:
            own = lists[-1][query.held]
            candidates = np.union1d(own[own >= 0], np.flatnonzero((lists[0] == query.held).any(axis=1)))
        if not len(candidates):
            return candidates, np.empty(0)
        competing = self._competing(candidates, lists)
        one = np.append(competing[0], np.full(len(candidates), asker))
        other = np.append(competing[1], candidates)
        return candidates, self._scored(query, asking, answering, one, other, len(candidates))

    def _candidates_of_new(self, row: Floats, answering: HeldTexts, bounds: Floats) -> Rows:
        plain = answering.plain
        own, _ = nearest_rows(row[None], plain.rows, plain.alive, self.reranker.neighbours)
        limit = np.where(plain.alive, bounds, np.float32(np.inf))
        _, rows, cosines = reaching_rows(row[None], plain.rows, limit)
        return np.union1d(own[own >= 0], rows[cosines > bounds[rows]])  # of equals the older is listed

    def _competing(self, candidates: Rows, lists: Sequence[Rows]) -> tuple[Rows, Rows]:
        """All candidate pairs of some answering texts: rows of the asking and of the answering side."""
        if not lists:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        near = lists[0][candidates]
        listed = near >= 0
        wanted = np.zeros(max(len(lists[0]), int(lists[-1].max(initial=-1)) + 1) + 1, bool)
        wanted[candidates] = True  # the last place, that of -1, stays out
        rows, places = np.nonzero(wanted[lists[-1]])
        one = np.concatenate([near[listed], rows])
        other = np.concatenate(
            [np.broadcast_to(candidates[:, None], near.shape)[listed], lists[-1][rows, places]]
        )
        return one, other

    def _scored(
        self, query: Query, asking: HeldTexts, answering: HeldTexts, one: Rows, other: Rows, asked: int
    ) -> NDArray[np.float64]:
        """The log-odds of the last `asked` of the pairs (one, other), each described among all of them.

        A row of the asking side beyond the held ones is the new query.
        """
        if self.one:
            rows = [
                np.unique(np.concatenate([one, other]))
            ]  # ascending: left and right as in the whole space
            sides = [_chosen(answering, rows[0], query)]
            space: PairSpace = AllPairs(len(rows[0]))
        else:
            rows = [np.unique(one), np.unique(other)]
            sides = [_chosen(asking, rows[0], query), _chosen(answering, rows[1], query)]
            if self.side == 0:
                rows, sides, one, other = rows[::-1], sides[::-1], other, one
            space = CrossPairs(len(rows[0]), len(rows[1]))
        (left_texts, left), (right_texts, right) = sides[0], sides[-1]
        every = space.ids(np.searchsorted(rows[0], one), np.searchsorted(rows[-1], other))
        ids = np.unique(every)
        places = pair_rows(ids)
        cosines = exact_products(left[places[0]], right[places[1]], unit=True)
        pieces = self._reader.take_apart(space, left_texts, right_texts)
        features = describe(pieces, ids, (cosines, *self._cross(left_texts, right_texts, ids)))
        return self.reranker.log_odds(features[np.searchsorted(ids, every[-asked:])])

    def _cross(
        self, left_texts: Sequence[str], right_texts: Sequence[str], ids: Ids
    ) -> list[NDArray[np.float64]]:
        """The column of the cross-encoders' logits, none without any; those seen before are kept."""
        if not self.reranker.cross_encoders:
            return []
        left, right = (places.tolist() for places in pair_rows(ids))
        pairs = [(left_texts[a], right_texts[b]) for a, b in zip(left, right)]
        new = np.array([pair not in self._logits for pair in pairs], bool)
        if len(self._logits) + new.sum() > MOST_LOGITS:
            self._logits.clear()
            new[:] = True
        if new.any():
            (column,) = cross_logits(self.reranker.cross_encoders, left_texts, right_texts, ids[new])
            self._logits.update(zip((pairs[at] for at in np.flatnonzero(new).tolist()), column.tolist()))
        return [np.array([self._logits[pair] for pair in pairs], np.float64)]


def _chosen(held: HeldTexts, rows: Rows, query: Query) -> tuple[list[str], Floats]:
    """Texts and unit rows (n, d) of some rows, ascending; one beyond the held ones is the new query."""
    inside = rows[rows < held.used]
    texts, unit = [held.texts[row] for row in inside.tolist()], held.plain.rows[inside]
    if len(inside) < len(rows):
        assert query.row is not None
        texts, unit = [*texts, query.text], np.concatenate([unit, query.row[None]])
    return texts, unit

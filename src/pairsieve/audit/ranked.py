"""Average precision of a ranking of which the matches of each stratum are known or assumed.

Labelled matches stand at their own ranks. Matches that nobody labelled are spread inside their strata: for a
value as the drawn matches lie there, for limits by a rate that falls (`Layout.average_precision`).

AP is over distinct scores: pairs of one score enter together, and every match among them has the precision at
their end. Which scores are shared is known where a pair of them has a label (`Ties`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pairsieve.audit.draws import NO_TIES, TRAIN, AskedPairs, Counts, Floats, Strata, Ties
from pairsieve.pairs import Mask

PIECES = 8  # of a stratum
ROWS = 500  # of matches by stratum that a thread goes through at once
GOLDEN, GOLDEN_STEPS = 0.618, 8  # of the search for the lowest AP
MOST_FALL = 64.0  # steepest fall of the logit inside a stratum, per unit of log rank


@dataclass(frozen=True)
class Layout:
    """The ranking as pieces of strata with labelled matches between them, for average precision.

    Piece g holds `width` pairs of stratum `owner` after `before` pairs; the labelled matches `points` stand
    at its end. Matches that nobody labelled are spread over the pieces of their stratum.
    """

    before: Floats  # (g,)
    width: Floats
    owner: Counts
    points: Floats
    labelled: Floats  # (k,) labelled matches of each stratum
    totals: Floats  # (k,)
    room: Floats  # (g,) pairs without a label, and a little more
    tied: Mask  # (g,) of one score
    sampled: Floats | None = None  # (g,) share of its stratum's unlabelled matches, by the drawn ones

    @staticmethod
    def of(
        strata: Strata,
        totals: Floats,
        asked: AskedPairs,
        ranks: Floats | None,
        placed: bool,
        bounds: Floats | None = None,
        ties: Ties = NO_TIES,
    ) -> Layout:
        """placed: labelled matches stand where they are; else all are spread, for answers may be wrong.
        bounds: ends of pieces besides. Pairs of one score are one piece.
        """
        ends = np.cumsum(strata.totals).astype(np.float64)
        starts = ends - strata.totals
        found = asked.labels == 1
        stratum = strata.of(asked.scores[found])
        at = strata.middle_rank[stratum] if ranks is None else np.asarray(ranks, np.float64)[found]
        at = np.clip(np.ceil(at), starts[stratum] + 1.0, ends[stratum]) if placed else np.empty(0)
        share = np.arange(1, PIECES + 1) / PIECES
        inner = np.maximum(starts, 1.0)[:, None] * (ends / np.maximum(starts, 1.0))[:, None] ** share
        more = np.empty(0) if bounds is None else bounds
        cuts = np.unique(np.concatenate([np.ceil(np.minimum(inner, ends[:, None])).ravel(), ends, at, more]))
        cuts = np.union1d(np.concatenate([cuts[ties.at(cuts) < 0], ties.first]), ties.last)
        cuts = cuts[cuts > 0]
        at = np.where((held := ties.at(at)) < 0, at, np.append(ties.last, 0.0)[held])
        before = np.concatenate([[0.0], cuts[:-1]])
        points = np.bincount(np.searchsorted(cuts, at), minlength=len(cuts)).astype(np.float64)
        owner = np.searchsorted(ends, cuts, side="left")
        labelled = np.bincount(owner, points, len(strata)).astype(np.float64)
        width = cuts - before
        room = width
        if ranks is not None and placed:  # where pairs have labels, no unlabelled match lies
            known = np.searchsorted(cuts, np.clip(np.asarray(ranks)[asked.labels >= 0], 1.0, ends[-1]))
            room = np.maximum(width - np.bincount(known, minlength=len(cuts))[: len(cuts)], 1e-3 * width)
        return Layout(before, width, owner, points, labelled, totals, room, ties.at(cuts) >= 0)

    @staticmethod
    def as_drawn(
        strata: Strata,
        totals: Floats,
        asked: AskedPairs,
        ranks: Floats | None,
        placed: bool,
        ties: Ties = NO_TIES,
    ) -> Layout:
        """Unlabelled matches lie as the drawn ones do. By score the drawn pairs of a stratum share its ranks
        among them, each as many as it has weight; those of one score stand where that score does, and the
        others share the ranks between. Nothing is assumed of rates inside strata.
        """
        ends = np.cumsum(strata.totals).astype(np.float64)
        drawn = (asked.audit > TRAIN) & (asked.labels >= 0)
        pairs, stratum = asked.where(drawn), strata.of(asked.scores[drawn])
        at = np.zeros(len(pairs)) if ranks is None else np.asarray(ranks, np.float64)[drawn]
        at = np.clip(at, (ends - strata.totals + 1.0)[stratum], ends[stratum])
        # Each tie and each run of ranks between ties is a part of its stratum.
        bounds = np.unique(np.concatenate([[0.0], ends, ties.first, ties.last]))
        part = np.searchsorted(bounds, at)
        order = np.lexsort((-pairs.scores, part))
        part, stratum, matches = part[order], stratum[order], pairs.labels[order]
        weight = 1.0 / pairs.inclusion_probability[order]
        share = weight / np.bincount(part, weight, len(bounds))[part]  # of the ranks of its part
        first = np.searchsorted(part, part)  # the first drawn pair of the same part
        ahead = np.cumsum(share) - share
        size = np.diff(bounds, prepend=0.0)[part]
        begin = bounds[part - 1] + (ahead - ahead[first]) * size
        layout = Layout.of(strata, totals, asked, ranks, placed, np.concatenate([begin, bounds]), ties)
        even = layout.width / np.bincount(layout.owner, layout.width, len(strata))[layout.owner]
        if not len(begin):
            return replace(layout, sampled=even)
        # Matches of each pair's ranks: of a part's pieces each has as many as lie over it.
        hits = np.bincount(stratum, weight * matches, len(strata))
        found = np.bincount(part, weight * matches, len(bounds))
        piece_part = np.searchsorted(bounds, layout.before + layout.width)
        cell = np.maximum(np.searchsorted(begin, layout.before + 1e-9, side="right") - 1, 0)
        per_rank = (weight * matches / np.maximum(share * size, 1e-12))[cell] * (part[cell] == piece_part)
        sampled = np.where(
            layout.tied, found[piece_part], np.where(found[piece_part] > 0, per_rank * layout.width, 0.0)
        )
        sampled = np.where(hits[layout.owner] > 0, sampled / np.maximum(hits, 1e-12)[layout.owner], even)
        return replace(layout, sampled=sampled)

    def average_precision(self, matches: Floats, where: Mask, fall: float = 1.0) -> Floats:
        """(r, k) matches by stratum -> (r,) AP of the strata `where`, the best-ranked ones; nan without a
        match.

        Inside a stratum unlabelled matches lie as `sampled` says. Without that the rate falls `fall` times as
        fast as around it: its logit in a straight line over log rank. Over a piece of N pairs with M spread
        matches, after a matches among c pairs, precision is (a + M·u) / (c + N·u) for u from 0 to 1; at a
        labelled match it is what it is. Of pairs of one score it is (a + M) / (c + N) for every match.
        """
        from pairsieve.audit.kernel import average_precisions
        from pairsieve.scan.threads import cores, in_threads

        pieces = where[self.owner]
        unlabelled = np.ascontiguousarray(np.maximum(matches - self.labelled, 0.0))
        before, width = self.before[pieces], self.width[pieces]
        logs, out = np.log1p(width / (before + 0.5)), np.empty(len(matches))
        spread, points = self._spread(matches, fall)[pieces], self.points[pieces]
        owner, tied = self.owner[pieces], self.tied[pieces]

        def some_rows(rows: slice) -> None:
            average_precisions(unlabelled[rows], owner, spread, points, before, width, logs, tied, out[rows])

        in_threads(cores(), [slice(at, at + ROWS) for at in range(0, len(out), ROWS)], some_rows)
        return out

    def lowest(self, lower: Floats, upper: Floats, where: Mask, fall: float) -> Floats:
        """(r,) the lowest AP of matches between two ends, (r, k) each, in the strata `where`.

        A match moved down lowers AP. So of any number of matches AP is lowest where those beyond the lower
        ends lie as deep as the upper ends allow. As they become more, AP falls and then rises for good: a
        match that raises AP is followed by matches that lie higher, which raise it more.
        """
        deeper = np.cumsum(where[::-1])[::-1] - 1  # strata of `where` below each
        room = np.where(where, np.maximum(upper - lower, 0.0), 0.0)

        def filled(strata: Floats) -> Floats:
            """AP (r,) with so many strata full, the deepest first, and a part of the next."""
            part = np.clip(strata[:, None] - deeper, 0.0, 1.0) ** 4  # fine where there are few
            return self.average_precision(lower + part * room, where, fall)

        count = int(where.sum())
        whole = np.array([filled(np.full(len(lower), float(each))) for each in range(count + 1)])
        best = np.argmin(np.where(np.isnan(whole), np.inf, whole), axis=0)
        left, right = np.maximum(best - 1.0, 0.0), np.minimum(best + 1.0, count)
        for _ in range(GOLDEN_STEPS):
            inner = GOLDEN * (right - left)
            first = filled(right - inner) < filled(left + inner)
            left, right = np.where(first, left, right - inner), np.where(first, left + inner, right)
        return np.fmin(np.fmin.reduce(whole), filled((left + right) / 2.0))

    def highest(self, lower: Floats, upper: Floats, where: Mask, fall: float) -> Floats:
        """(r,) the highest AP of matches between two ends. Of any number of matches it is where they lie as
        high as the ends allow; in the last stratum that has more than the lower end, at the upper one.
        """
        tried = lower.copy()
        high = self.average_precision(tried, where, fall)
        for stratum in np.flatnonzero(where):
            tried[:, stratum] = np.maximum(upper[:, stratum], lower[:, stratum])
            high = np.fmax(high, self.average_precision(tried, where, fall))
        return high

    def _spread(self, matches: Floats, fall: float) -> Floats:
        """(g,) share of its stratum's unlabelled matches in each piece."""
        if self.sampled is not None:
            return self.sampled
        share = self.room / np.bincount(self.owner, self.room, len(self.totals))[self.owner]
        if fall == 0.0 or len(self.totals) < 3:
            return share
        mean = matches.mean(axis=0)
        ends = np.cumsum(self.totals)
        middle = np.log(np.maximum(ends - self.totals / 2.0, 0.5))
        logit = np.log(mean + 0.25) - np.log(np.maximum(self.totals - mean, 0.0) + 0.25)
        falls = np.zeros(len(mean))
        falls[1:-1] = -(logit[2:] - logit[:-2]) / np.maximum(middle[2:] - middle[:-2], 1e-9)
        falls[-1], falls[0] = falls[-2], falls[1]
        falls = np.clip(fall * falls, 0.0, MOST_FALL)
        at = np.log(np.maximum(self.before + self.width / 2.0, 0.5))
        away = falls[self.owner] * (at - middle[self.owner])
        weight = self.room / (1.0 + np.exp(np.clip(away - logit[self.owner], -60.0, 60.0)))
        spread: Floats = weight / np.maximum(np.bincount(self.owner, weight, len(mean))[self.owner], 1e-300)
        return spread

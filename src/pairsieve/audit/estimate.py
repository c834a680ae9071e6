"""Estimates from the labels of an audit: precision, recall, AP and number of matches, with intervals.

**Values** are Horvitz–Thompson estimates inside strata: of the R pairs of a stratum that nobody was
asked about, R · x/n match when x of n drawn ones do; pairs with a label count as they are.

**Intervals** come from draws of every stratum's match rate from its posterior, smoothed along the ranking
(`rates.py`), and of the matches that such a rate leaves among the R pairs. Each draw is counted
three times: as it is; with no match in strata where none was seen; and with nothing else in strata where
nothing else was seen, and the matches further up inside strata. The interval reaches from the lowest to the
highest of the three middle 95 %. So what a tail may hold, or a pure top may hide, widens it and never
shifts it. Precision has no tail: its interval also spans what each stratum's own labels say, unsmoothed.
The one assumption is that the match rate tends to fall with the score. It carries the tail: billions of
pairs, a few labels, no hit. `positives_without_assumption` beside it stands on the draws alone (exact
binomial limits in each stratum) and shows how little they alone can rule out.

**Earlier draws** are used again, those of this audit and of others. A draw took from the pairs that were
free then, with chances that the ledger kept. Under today's scores its labels are sorted into today's strata
(post-stratified); in each, the weighted share of matches r speaks for all F pairs that were free then. Of
these, D have been labelled since otherwise, with d matches, so for the rest the rate is (F·r - d) / (F - D).
Unequal weights count as Kish's effective number (Σw)²/Σw² of labels, times ((F - D)/F)² for the subtraction.
Rates of all draws are averaged by these numbers.

Average precision needs the order inside a stratum too; there the rate goes on falling as it does around it
(`ranked_precision`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.audit.draws import TRAIN, AskedPairs, Strata
from pairsieve.audit.rates import Floats, SmoothedRates, smooth_rates
from pairsieve.contracts import Estimate
from pairsieve.errors import InputError
from pairsieve.pairs import Mask

PIECES = 4  # of a stratum, for average precision
AT_MOST = 2.0  # how much faster it may fall inside a stratum than around it: for the upper limit
MOST_FALL = 16.0  # steepest fall of the logit inside a stratum, per unit of log rank


@dataclass(frozen=True)
class AuditResult:
    """Figures over all pairs of the space, without its truth."""

    pairs: int
    labels: int  # audit labels the figures rest on, earlier audits included
    unsure: int  # pairs asked that have no label; they are left out of the space
    threshold: float
    precision: Estimate  # of the pairs at or above the threshold
    recall: Estimate  # matches at or above it, of all
    average_precision: Estimate
    positives: Estimate  # matches in the whole space
    positives_without_assumption: Estimate
    recall_of_known: Estimate  # share of known matches at or above the threshold (the paper's fallback)
    strata: tuple[dict[str, Any], ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"strata": list(self.strata)}


@dataclass(frozen=True)
class StratumCounts:
    """What is known of each stratum, (k,) each."""

    totals: Floats  # pairs, without those that were asked and have no label
    matches: Floats  # among the labelled ones
    rest: Floats  # pairs without a label
    drawn: Floats  # effective number of audit labels that speak for the rest
    hits: Floats  # matches among them

    def expected(self, strata: Strata) -> Floats:
        """Matches of each stratum; where no label speaks for the rest, the smoothed rate does."""
        guess, left = np.zeros(len(self.rest)), self.rest > 0
        if (left & (self.drawn <= 0)).any():
            guess[left] = self._posterior(strata, left).typical()
        rate = np.divide(self.hits, self.drawn, out=guess, where=self.drawn > 0)
        return self.matches + self.rest * rate

    def unlabelled_matches(self, strata: Strata, draws: int, rng: np.random.Generator) -> Floats:
        """(draws, k) matches among the pairs without a label, from the posterior."""
        matches, left = np.zeros((draws, len(self.rest))), self.rest > 0
        if left.any():
            rates = self._posterior(strata, left).draw(draws, rng)
            matches[:, left] = rng.binomial(self.rest[left].astype(np.int64), rates)
        return matches

    def precision_alone(self, above: Mask, draws: int, rng: np.random.Generator) -> Floats:
        """(draws,) precision from each stratum's own labels (Jeffreys' prior), nothing smoothed."""
        hits, misses = self.hits[above], (self.drawn - self.hits)[above]
        rates = rng.beta(hits + 0.5, np.maximum(misses, 0.0) + 0.5, (draws, len(hits)))
        unlabelled = rng.binomial(self.rest[above].astype(np.int64), rates)
        precision: Floats = (self.matches[above].sum() + unlabelled.sum(axis=1)) / self.totals[above].sum()
        return precision

    def _posterior(self, strata: Strata, left: Mask) -> SmoothedRates:
        return smooth_rates(self.hits[left], self.drawn[left], strata.middle_rank[left])


def stratum_counts(strata: Strata, asked: AskedPairs) -> StratumCounts:
    """Labels and their weights, sorted into the strata."""
    totals = strata.totals - strata.count(asked.scores[asked.labels < 0])
    known = asked.where(asked.labels >= 0)
    stratum, size = strata.of(known.scores), len(strata)

    def tally(mask: Mask, weights: NDArray[Any] | None = None) -> Floats:
        summed = np.bincount(stratum[mask], None if weights is None else weights[mask], size)
        return summed.astype(np.float64)

    everything = np.ones(len(known), bool)
    labelled, matches = tally(everything), tally(everything, known.labels)
    drawn, hits = np.zeros(size), np.zeros(size)
    weights = np.divide(1.0, known.inclusion_probability, out=np.ones(len(known)), where=known.audit > TRAIN)
    for number in np.unique(known.audit[known.audit > TRAIN]):
        drawn_here = known.audit == number
        before = np.arange(len(known)) < int(np.flatnonzero(drawn_here)[0])
        since = ~before & ~drawn_here
        weight, heaviness = tally(drawn_here, weights), tally(drawn_here, weights**2)
        has = weight > 0
        share = np.divide(tally(drawn_here, weights * known.labels), weight, out=np.zeros(size), where=has)
        effective = np.divide(weight**2, heaviness, out=np.zeros(size), where=has)
        frame = np.maximum(totals - tally(before), 1.0)
        left = np.maximum(frame - tally(since), 0.0)
        rate = np.divide(
            frame * share - tally(since, known.labels), left, out=np.zeros(size), where=left > 0
        ).clip(0.0, 1.0)
        speaks = effective * (left / frame) ** 2
        drawn, hits = drawn + speaks, hits + speaks * rate
    return StratumCounts(totals, matches, np.maximum(totals - labelled, 0.0), drawn, hits)


def estimate_audit(
    strata: Strata,
    asked: AskedPairs,
    threshold: float,
    rng: np.random.Generator,
    *,
    confidence: float = 0.95,
    draws: int = 2000,
) -> AuditResult:
    """Precision and recall at `threshold` (an edge of `strata`), average precision, number of matches."""
    above = strata.reaching(threshold)
    held = stratum_counts(strata, asked)
    if held.totals[above].sum() < 1:
        raise InputError(
            f"no pair reaches the threshold {threshold:g}",
            why="precision of nothing is not defined",
            remedy="Choose a lower threshold",
        )
    values = _figures(held.expected(strata)[None], held.totals, above)[0]
    unlabelled = held.unlabelled_matches(strata, draws, rng)
    most = _figures(held.matches + unlabelled, held.totals, above)
    fewest = _figures(held.matches + np.where(held.hits > 0, unlabelled, 0.0), held.totals, above)
    pure = (held.drawn > 0) & (held.hits >= held.drawn)
    purest = _figures(held.matches + np.where(pure, held.rest, unlabelled), held.totals, above, AT_MOST)
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    limits = np.concatenate([np.quantile(each, ends, axis=0) for each in (most, fewest, purest)])
    low, high = np.minimum(limits.min(axis=0), values), np.maximum(limits.max(axis=0), values)
    alone = np.quantile(held.precision_alone(above, draws, rng), ends)
    low[0], high[0] = min(low[0], alone[0]), max(high[0], alone[1])
    audited = asked.audit > TRAIN
    labels = int((audited & (asked.labels >= 0)).sum())
    method = _method(labels, len(np.unique(asked.audit[audited])), held, confidence)
    precision, recall, ap, positives = (
        Estimate(float(v), float(a), float(b), labels, method) for v, a, b in zip(values, low, high)
    )
    return AuditResult(
        int(strata.totals.sum()),
        labels,
        int((asked.labels < 0).sum()),
        float(np.float32(threshold)),
        precision,
        recall,
        ap,
        positives,
        _exact_limits(held, positives.value, labels, confidence, draws, rng),
        known_recall(strata, asked, threshold),
        _rows(strata, held),
    )


def threshold_for_precision(strata: Strata, asked: AskedPairs, precision: float) -> float:
    """The lowest edge at and above which the estimated precision is `precision` or more."""
    held = stratum_counts(strata, asked)
    found = np.cumsum(held.expected(strata)) / np.maximum(np.cumsum(held.totals), 1.0)
    good = np.flatnonzero(found >= precision)
    if not len(good):
        raise InputError(
            f"no threshold has an estimated precision of {precision:g}",
            why=f"the best-ranked {int(held.totals[0]):,} pairs have {found[0]:.3f}",
            remedy="Ask for less, or train on more labels",
        )
    return float(strata.edges[good[-1]])


def known_recall(strata: Strata, asked: AskedPairs, threshold: float) -> Estimate:
    """The paper's fallback: of the matches that are known, the share that reaches the threshold."""
    matches = asked.scores[asked.labels == 1]
    found = int((matches >= np.float32(threshold)).sum())
    share = found / len(matches) if len(matches) else 0.0
    bias = "they were found by looking where the scorer pointed, which makes it too high"
    method = f"share of the known matches; no interval, as {bias}"
    return Estimate(share, share, share, len(matches), method)


def ranked_precision(matches: Floats, totals: Floats, steeper: float = 1.0) -> Floats:
    """Average precision of rankings given as matches per stratum: (r, k) and (k,) -> (r,).

    Inside a stratum the rate goes on falling as it does around it: its logit in a straight line over the
    logarithm of the rank. Each is cut into PIECES by rank, and over a piece of N pairs with M matches, after
    a matches among c pairs, precision is (a + ½ + M·u) / (c + ½ + N·u) for u from 0 to 1. With `steeper` the
    rate falls so many times faster inside strata than around them.
    """
    ends = np.cumsum(totals)
    ratio = np.divide(ends, ends - totals, out=np.full(len(totals), np.inf), where=ends > totals)
    middle = np.log(np.maximum(ends - totals / 2.0, 0.5))
    logit = np.log(matches + 0.25) - np.log(np.maximum(totals - matches, 0.0) + 0.25)
    fall = np.zeros_like(matches)
    if len(totals) > 2:
        fall[:, 1:-1] = -(logit[:, 2:] - logit[:, :-2]) / np.maximum(middle[2:] - middle[:-2], 1e-9)
        fall[:, -1] = fall[:, -2]
    fall = np.clip(steeper * fall, 0.0, MOST_FALL)
    split = np.isfinite(ratio) & (totals >= PIECES)
    share = np.arange(PIECES + 1) / PIECES
    # Cuts are multiples of a stratum's first rank. The first stratum, which has none, is cut evenly.
    cuts = np.where(split, ratio, 2.0)[:, None] ** share
    first = np.maximum(ends - totals, 0.0)
    sizes = np.where(split[:, None], np.diff(cuts) * first[:, None], totals[:, None] / PIECES)
    ranks = np.log(np.maximum(first[:, None] * (cuts[:, 1:] + cuts[:, :-1]) / 2.0, 0.5))
    away = np.where(split[:, None], ranks - middle[:, None], 0.0)
    expected = sizes / (1.0 + np.exp(np.clip(fall[:, :, None] * away - logit[:, :, None], -60.0, 60.0)))
    held = expected / np.maximum(expected.sum(axis=2, keepdims=True), 1e-300)
    return _piecewise(held * matches[:, :, None], sizes)


def _piecewise(matches: Floats, sizes: Floats) -> Floats:
    """`ranked_precision` over pieces: (r, k, p) matches in (k, p) pairs."""
    matches, size = matches.reshape(len(matches), -1), np.maximum(sizes.ravel(), 1e-9)
    matches = np.minimum(matches, size)
    before = np.cumsum(size) - size + 0.5
    ahead = np.cumsum(matches, axis=1) - matches + np.minimum(matches, 0.5)
    slope = matches / size
    mean = slope + (ahead - slope * before) / size * np.log1p(size / before)
    every = matches.sum(axis=1)
    total = (matches * np.clip(mean, 0.0, 1.0)).sum(axis=1)
    averaged: Floats = np.divide(total, every, out=np.zeros(len(matches)), where=every > 0)
    return averaged


def _figures(matches: Floats, totals: Floats, above: Mask, steeper: float = 1.0) -> Floats:
    """(r, 4): precision, recall, average precision and number of matches of (r, k) matches."""
    every, found = matches.sum(axis=1), matches[:, above].sum(axis=1)
    recall = np.divide(found, every, out=np.zeros(len(matches)), where=every > 0)
    ap = ranked_precision(matches, totals, steeper)
    return np.stack([found / totals[above].sum(), recall, ap, every], axis=1)


def _exact_limits(
    held: StratumCounts, value: float, labels: int, confidence: float, draws: int, rng: np.random.Generator
) -> Estimate:
    """The number of matches with Clopper and Pearson's limits in every stratum, added up by draws."""
    drawn, hits = held.drawn, held.hits
    fewest = rng.beta(np.maximum(hits, 1e-9), drawn - hits + 1.0, (draws, len(hits)))
    most = rng.beta(hits + 1.0, np.maximum(drawn - hits, 1e-9), (draws, len(hits)))
    fewest = np.where(hits > 0, fewest, 0.0)
    most = np.where(drawn > 0, most, 1.0)
    low = held.matches.sum() + np.quantile((fewest * held.rest).sum(axis=1), (1 - confidence) / 2)
    high = held.matches.sum() + np.quantile((most * held.rest).sum(axis=1), (1 + confidence) / 2)
    words = "exact binomial limits in each stratum, nothing assumed about rates between strata"
    return Estimate(value, min(float(low), value), max(float(high), value), labels, words)


def _method(labels: int, draws: int, held: StratumCounts, confidence: float) -> str:
    unexplored = held.rest[held.hits == 0]
    again = f" in {draws} draws (earlier ones post-stratified under today's scores)" if draws > 1 else ""
    return (
        f"Horvitz-Thompson from {labels:,} labels{again}, drawn inside {len(held.totals)} strata of the "
        f"ranking; {confidence:.0%} interval from the posterior of match rates that tend to fall with the "
        f"score. {len(unexplored)} strata with {unexplored.sum():,.0f} pairs showed no match: what they "
        "may hold rests on that assumption"
    )


def _rows(strata: Strata, held: StratumCounts) -> tuple[dict[str, Any], ...]:
    columns = zip(
        strata.edges.tolist(), strata.totals.tolist(), held.matches.tolist(), held.drawn.tolist(), held.hits
    )
    return tuple(
        {
            "from_score": edge if edge >= -1.0 else -1.0,
            "pairs": total,
            "known_matches": int(matches),
            "labels": round(drawn, 2),
            "hits": round(float(hits), 2),
        }
        for edge, total, matches, drawn, hits in columns
    )

"""Average precision, precision at recall and best F1 over all pairs, estimated from a sample of them.

All positives and all near negatives are scored; of the far negatives a share f is drawn (`sampling`):

    FP(t) = near negatives scoring >= t  +  1/f · drawn far negatives scoring >= t

**Bias.** That count is unbiased at every threshold. Precision is not linear in it: T / (T + FP) averages too
high (Jensen). With a pairs counted and N far pairs at or above t, k of them drawn, 1/(a + N) is the integral
of x^(a+N-1) over [0, 1], and (1 - (1-x)/f)^k estimates x^N without bias, so

    r(k) = ∫ x^(a-1) (1 - (1-x)/f)^k dx      has the expectation 1/(a + N) exactly.

The part of the integral below 1 - f swells with k and changes sign; in expectation it is a share
exp(-f(a+N)) of the whole. It is kept for k <= 1 (k = 0 gives the plain 1/a), dropped for k >= 2. Average
precision sums T · r(k), where a term with k = 1 may be negative, but not below -T/a. Precision at one recall
and F1 leave that part out for k = 1 as well, and so stay within (0, 1]. Where f·a + k is large, r(k) is
1 / (D + V/D) with D = a + k/f and V = k (1-f) / f², the second-order (delta) correction. The `curve` keeps
the plain counts, so `curve.average_precision()` is the paper's own figure. The maximum of a noisy F1 curve is
too high besides; its resampled excess is taken off. What bias is left: docs/decisions/0005-estimator-bias.md.

**Intervals** have two causes, resampled together:

- Texts. Pairs that share a text are dependent, so texts are drawn with replacement and a pair counts
  m_left · m_right times (both sides of one collection share m; two collections are drawn separately).
- Pairs that were not drawn. Before each drawn far negative of the ranking lie about Gamma(1 - f) / f undrawn
  ones (mean and variance of the geometric gaps between draws). The lower count ends at the last drawn pair;
  the upper one adds the gap that is still open. At one threshold, with k drawn, these are Garwood's exact
  Poisson limits Gamma(k) and Gamma(k + 1) as f -> 0; with f = 1 both vanish. The high end of a figure comes
  from the lower count, the low end from the upper one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.contracts import Estimate
from pairsieve.errors import InputError
from pairsieve.measure.curve import Curve, check_positives, curve_from_counts, distinct_descending
from pairsieve.measure.sampling import NEAR, POSITIVE, RANDOM, Floats, PairSample, named_pair
from pairsieve.pairs import Mask, PairSpace, Scores, pair_rows

RECALLS = (0.1, 0.2, 0.5)

Places: TypeAlias = NDArray[np.int32]  # of texts among the multiplicities
Times: TypeAlias = NDArray[np.float32]  # how often a text counts: (replicates, texts + 1)
Resampled: TypeAlias = Literal["texts", "draw"]

_CELLS = 4_000_000  # numbers a batch of replicates may hold at once: 16 MB an array of float32
_MANY = 30.0  # draws' worth of counted pairs above which the second-order correction is exact enough


@dataclass(frozen=True)
class EstimatedMeasures:
    """Figures over all pairs from a sample of them, each with its interval."""

    curve: Curve  # from the plain weighted counts, without the correction for Jensen's bias
    average_precision: Estimate
    precision_at_recall: dict[float, Estimate]
    best_f1: Estimate
    best_f1_threshold: float
    pairs: int
    positives: int


def estimate(
    sample: PairSample,
    scores: ArrayLike,
    space: PairSpace,
    *,
    rng: np.random.Generator,
    recalls: Sequence[float] = RECALLS,
    repeats: int = 400,
    confidence: float = 0.95,
    resample: Resampled = "texts",
) -> EstimatedMeasures:
    """Average precision, precision at recall and best F1 over all pairs, from the scores of a sample.

    scores: (n,) in the order of `sample.ids`. Tied pairs enter together. `resample="texts"` makes
    intervals for other texts of the same kind; "draw" for the exact figure of this very space, whose only
    doubt is which far negatives were drawn.
    """
    if resample not in ("texts", "draw"):
        raise InputError(f"unknown resampling {resample!r}", remedy='Use "texts" or "draw"')
    given = _checked_scores(sample, scores)
    positive = sample.stratum == POSITIVE
    thresholds, tp = distinct_descending(given[positive])
    layout = _Layout.of(sample, given, space, thresholds)
    counts = layout.counts()
    curve = curve_from_counts(thresholds, tp, counts.near + counts.far, float(tp[-1]))
    values, best_at = _unbiased_figures(tp, counts, recalls)
    values[0] = max(values[0], tp[-1] / sample.pairs)  # its noise may reach below what any order would have
    low, high, mean = _limits(layout, recalls, repeats, confidence, resample, rng)
    excess = max(0.0, mean[1] - curve.best_f1().value)
    values[1] -= excess
    low[1] -= 2 * excess  # the replicates exceed the sample's maximum as that one exceeds the true one
    high[1] -= 2 * excess
    low, high = np.minimum(low, values).clip(0, 1), np.maximum(high, values)
    method = _method(sample, repeats, confidence, resample)
    ap, f1, *at_recalls = (
        Estimate(float(v), float(a), float(b), len(sample), method) for v, a, b in zip(values, low, high)
    )
    at, positives = float(thresholds[best_at]), int(positive.sum())
    return EstimatedMeasures(curve, ap, dict(zip(recalls, at_recalls)), f1, at, sample.pairs, positives)


@dataclass(frozen=True)
class _Group:
    """Pairs of one stratum in the order in which falling thresholds admit them.

    one, other: (p,) positions of the two texts among the multiplicities. bins: (b,) thresholds that
    admit somebody, starts: (b,) the first pair each admits. weights: (p,), None where all are 1.
    """

    one: Places
    other: Places
    weights: NDArray[np.float32] | None
    bins: NDArray[np.int64]
    starts: NDArray[np.int64]

    def admitted(self, times: Times) -> Floats:
        """Σ weight · m_one · m_other of the pairs each of `bins` admits; times: (r, texts) -> (r, b)."""
        if len(self.bins) == 0:
            return np.zeros((len(times), 0))
        product = np.take(times, self.one, axis=1)
        product *= np.take(times, self.other, axis=1)
        if self.weights is not None:
            product *= self.weights
        return np.add.reduceat(product, self.starts, axis=1).astype(np.float64)

    def reaching(self, admitted: Floats, thresholds: int) -> Floats:
        """Running totals at every threshold: (r, b) -> (r, thresholds)."""
        total = np.zeros((len(admitted), thresholds))
        total[:, self.bins] = admitted
        return np.cumsum(total, axis=1, out=total)

    def per_bin(self, values: Floats) -> Floats:
        """Sums of a value per pair over the pairs each bin admits: (p,) -> (b,)."""
        return np.add.reduceat(values, self.starts) if len(self.bins) else np.zeros(0)


@dataclass(frozen=True)
class _FalsePositives:
    """At or above each threshold, (k,) each."""

    near: Floats  # counted
    far: Floats  # estimated: Σ 1/p of the drawn ones
    drawn: Floats  # how many those are


@dataclass(frozen=True)
class _Layout:
    """A sample sorted once, so that a replicate is three gathers and a running sum."""

    positive: _Group
    near: _Group
    far: _Group
    far_weight: Floats  # (b,) Σ 1/p of the far pairs each bin admits
    far_drawn: Floats  # (b,) how many they are
    far_variance: Floats  # (b,) Σ (1 - p) / p²
    open_gap: float  # 1/p of the least likely far pair; 1 where none is left out
    thresholds: int
    shape: tuple[int, ...]  # texts of the collections that are resampled separately

    @staticmethod
    def of(sample: PairSample, scores: Scores, space: PairSpace, thresholds: Scores) -> _Layout:
        shape = (space.shape[0],) if space.symmetric else space.shape
        relevant = scores >= thresholds[-1]  # whoever scores below every positive enters no count
        order = np.flatnonzero(relevant)
        order = order[np.argsort(-scores[order], kind="stable")]
        stratum, sorted_scores = sample.stratum[order], scores[order]
        left, right = pair_rows(sample.ids[order])
        right = right + (0 if space.symmetric else space.shape[0])
        admits = np.searchsorted(-thresholds, -sorted_scores, side="left")

        def group(mask: Mask, weights: NDArray[np.float32] | None, first_hits_stay: bool = False) -> _Group:
            one, other = left[mask].astype(np.int32), right[mask].astype(np.int32)
            if first_hits_stay:
                one, other = _without_first_hits(one, other, still=sum(shape))
            bins, starts = np.unique(admits[mask], return_index=True)
            plain = weights is None or bool((weights == 1).all())
            return _Group(one, other, None if plain else weights, bins, starts)

        is_near, is_far = stratum == NEAR, stratum == RANDOM
        chance = sample.inclusion_probability[order][is_far]
        weight = 1.0 / chance
        uneven = len(weight) > 0 and bool(np.ptp(weight) > 0)
        far = group(is_far, weight.astype(np.float32) if uneven else None, first_hits_stay=True)
        far_chances = sample.inclusion_probability[sample.stratum == RANDOM]
        return _Layout(
            group(stratum == POSITIVE, None),
            group(is_near, sample.counted[order][is_near]),
            far,
            far.per_bin(weight),
            far.per_bin(np.ones(len(weight))),
            far.per_bin(weight * (weight - 1.0)),
            float(1.0 / far_chances.min()) if len(far_chances) else 1.0,
            len(thresholds),
            shape,
        )

    def counts(self) -> _FalsePositives:
        """The unbiased counts at every threshold."""
        once = np.ones((1, sum(self.shape) + 1), np.float32)
        near = self.near.reaching(self.near.admitted(once), self.thresholds)[0]
        far, drawn = self.far.reaching(np.stack([self.far_weight, self.far_drawn]), self.thresholds)
        return _FalsePositives(near, far, drawn)

    def replicate(self, times: Times, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """True, fewest and most false positives under multiplicities (r, texts + 1): (r, k) each."""
        repeats = len(times)
        tp = self.positive.reaching(self.positive.admitted(times), self.thresholds)
        lower = self.near.reaching(self.near.admitted(times), self.thresholds)
        if len(self.far.bins):
            undrawn = self.far_weight - self.far_drawn
            scale = np.divide(self.far_variance, undrawn, out=np.ones_like(undrawn), where=undrawn > 0)
            passed_over = rng.standard_gamma(undrawn / scale, (repeats, len(undrawn))) * scale
            # What the texts' multiplicities make of a bin, relative to each text drawn once.
            plain = self.far_drawn if self.far.weights is None else self.far_weight
            factor = self.far.admitted(times) / plain
            lower += self.far.reaching(factor * (self.far_drawn + passed_over), self.thresholds)
        gap = rng.standard_gamma(1.0 - 1.0 / self.open_gap, (repeats, 1)) * self.open_gap
        return tp, lower, lower + gap

    def cells(self) -> int:
        """Numbers that one replicate holds."""
        pairs = len(self.positive.one) + len(self.near.one) + len(self.far.one)
        return pairs + 4 * self.thresholds + sum(self.shape)


def _without_first_hits(one: Places, other: Places, still: int) -> tuple[Places, Places]:
    """Positions with each text's highest hit pointed at `still`, the multiplicity that is always 1.

    Hits that share no text say nothing about texts that the gaps between draws do not say already: resampled
    with their texts, they would be counted as noise twice.
    """
    both = np.stack([one, other], axis=1).ravel()
    _, first = np.unique(both, return_index=True)
    both[first] = still
    return both[0::2].copy(), both[1::2].copy()


def _multiplicities(
    shape: tuple[int, ...], repeats: int, resample: Resampled, rng: np.random.Generator
) -> Times:
    """(repeats, texts + 1): how often each text is drawn; the last column is always 1."""
    times = np.ones((repeats, sum(shape) + 1), np.float32)
    if resample == "draw":
        return times
    for row in times:
        at = 0
        for texts in shape:
            row[at : at + texts] = np.bincount(rng.integers(texts, size=texts), minlength=texts)
            at += texts
    return times


def _limits(
    layout: _Layout,
    recalls: Sequence[float],
    repeats: int,
    confidence: float,
    resample: Resampled,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, Floats]:
    """Lower limits, upper limits and means of all figures, (figures,) each, in the order of `_figures`."""
    worst, best = [], []
    batch = max(1, _CELLS // layout.cells())
    for start in range(0, repeats, batch):
        times = _multiplicities(layout.shape, min(batch, repeats - start), resample, rng)
        tp, fewer, more = layout.replicate(times, rng)
        some = tp[:, -1] > 0  # a replicate may draw no positive at all, and then has no figures
        best.append(_figures(tp[some], fewer[some], recalls))
        worst.append(_figures(tp[some], more[some], recalls))
    low_rows, high_rows = np.concatenate(worst), np.concatenate(best)
    if len(low_rows) == 0:
        nothing = np.zeros(2 + len(recalls))
        return nothing, nothing + 1.0, nothing
    tail = (1.0 - confidence) / 2.0
    low: Floats = np.quantile(low_rows, tail, axis=0)
    high: Floats = np.quantile(high_rows, 1.0 - tail, axis=0)
    return low, high, high_rows.mean(axis=0)


def _figures(tp: Floats, fp: Floats, recalls: Sequence[float]) -> Floats:
    """AP, best F1, then precision at each recall, of r curves: (r, k) counts -> (r, 2 + recalls)."""
    positives = tp[:, -1:]
    found = tp + fp
    precision = np.divide(tp, found, out=np.zeros_like(tp), where=found > 0)
    ap = (np.diff(tp, axis=1, prepend=0.0) * precision).sum(axis=1) / positives[:, 0]
    f1 = (2.0 * tp / (found + positives)).max(axis=1)
    rows = np.arange(len(tp))
    at_recalls = (precision[rows, _at_recall(tp, recall)] for recall in recalls)
    return np.stack([ap, f1, *at_recalls], axis=1)


def _unbiased_figures(tp: Floats, fp: _FalsePositives, recalls: Sequence[float]) -> tuple[Floats, int]:
    """The same figures of the sample itself, corrected for Jensen's bias, and the point of the best F1."""
    counted = tp + fp.near
    ap = np.sum(np.diff(tp, prepend=0.0) * tp * _reciprocal(counted, fp, signed=True)) / tp[-1]
    precision = tp * _reciprocal(counted, fp)
    f1 = 2.0 * tp * _reciprocal(counted + tp[-1], fp)
    best_at = int(np.argmax(f1))
    at_recalls = (precision[_at_recall(tp[None], recall)[0]] for recall in recalls)
    return np.array([np.clip(ap, 0.0, 1.0), f1[best_at], *at_recalls]), best_at


def _at_recall(tp: Floats, recall: float) -> NDArray[np.intp]:
    """The highest threshold of each curve whose recall is at least `recall`: (r, k) -> (r,)."""
    return np.argmax(tp >= recall * tp[:, -1:] - 1e-9, axis=1)


def _reciprocal(counted: Floats, fp: _FalsePositives, signed: bool = False) -> Floats:
    """1 / (counted + far pairs), unbiased for the far pairs being drawn: r(k) of the module's docstring.

    With `signed`, the part of the integral below 1 - f is kept for k = 1.
    """
    reciprocals = 1.0 / counted
    some = fp.drawn > 0
    a, k, far = counted[some], fp.drawn[some], fp.far[some]
    f = k / far
    total = a + far
    found = 1.0 / (total + far * (1.0 / f - 1.0) / total)
    few = f * a + k < _MANY
    a, k, f = a[few], k[few], f[few]
    # With u = (1-x)/f the part above 1 - f is f ∫ (1 - f·u)^(a-1) (1-u)^k du over [0, 1].
    nodes, node_weights = np.polynomial.legendre.leggauss(64)
    exact = np.zeros(len(a))
    for u, node_weight in zip((nodes + 1.0) / 2.0, node_weights / 2.0):
        exact += node_weight * np.exp((a - 1.0) * np.log1p(-f * u) + k * np.log1p(-u))
    exact *= f
    if signed:
        below = (1.0 - 1.0 / f) * (1.0 - f) ** a / a + (1.0 - f) ** (a + 1.0) / (f * (a + 1.0))
        exact = np.where(k == 1, np.maximum(exact + below, -1.0 / a), exact)
    found[few] = exact
    reciprocals[some] = found
    return reciprocals


def _checked_scores(sample: PairSample, scores: ArrayLike) -> Scores:
    given = np.asarray(scores, np.float32)
    if given.shape != sample.ids.shape:
        raise InputError(
            f"scores of shape {given.shape} for {len(sample):,} sampled pairs",
            remedy="Give one score per pair, in the order of the sample's ids",
        )
    unusable = np.isnan(given)
    if unusable.any():
        raise InputError(
            f"the score of pair {named_pair(sample.ids[unusable][0])} is not a number",
            why=f"{unusable.sum():,} of {len(given):,} scores are NaN",
            remedy="Score these pairs again",
        )
    check_positives(sample.pairs, sample.ids[sample.stratum == POSITIVE])
    return given


def _method(sample: PairSample, repeats: int, confidence: float, resample: Resampled) -> str:
    counts = np.bincount(sample.stratum, minlength=3)
    chances = sample.inclusion_probability[sample.stratum == RANDOM]
    weight = float((1.0 / chances).mean()) if len(chances) else 1.0
    of = "texts and of undrawn pairs" if resample == "texts" else "undrawn pairs"
    counting = ", mutual ones twice" if sample.near_counting == "ordered" else ""
    return (
        f"estimated: {counts[POSITIVE]:,} positives and {counts[NEAR]:,} near negatives{counting} counted, "
        f"{counts[RANDOM]:,} random negatives weighing {weight:,.1f} each; "
        f"{confidence:.0%} interval from {repeats} resamplings of {of}"
    )

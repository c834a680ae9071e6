"""Calibration: the probability of a match from a scorer's log-odds, by labels drawn with known chances.

The labels that a strategy chose say how steeply matches thin out near the boundary, but at equal score pairs
that were asked are not like pairs that were not: their curve may be too high by any factor. Labels drawn with
known chances correct it. They are not weighted by these: by weights that differ a thousandfold, a few dozen
labels would tell nothing. But rounds before drew them under rankings of their own, each pair the likelier the
better it ranked then; at equal score now, those that ranked well then are matches more often. So each is
weighted by how far it has moved (`drawn_weights`). The curve has three parameters:

    logit p = height + above · max(z - z0, 0) + below · min(z - z0, 0)

z: the scorer's log-odds; z0: where the chosen labels put a probability of one half. Both kinds of labels are
fitted at once. They share the slopes and not the height: that of the drawn labels is near that of the chosen
ones (Student's t, for it may be far off). A chosen label counts 0.3 of a drawn one (a power prior, Ibrahim
and Chen 2000). Where the drawn labels contradict that, being four times likelier under a curve of their
own, the chosen ones give the priors alone: height around 0, and the slopes. These have a wide prior,
log-normal around that of the chosen labels. Below z0 it is at least one at which each doubling of the rank
brings fewer matches than the one before: a scorer that ranks does that. An answer may be wrong, or a match
where nobody would look for it: every probability is mixed with a little of one half, so that such an answer
does not bend the curve.

Over neighbouring scores true rates jump, for matches come in groups; probabilities in doubt are stated in
steps (`Calibration.steps`), as many as drawn labels tell of: two standard errors of a step's rate, by the
drawn labels in it alone, are at most 0.1, and these labels are within two standard errors of the curve. What
the chosen ones say of pairs in doubt is often farther off than that. Where too few labels were drawn among
pairs in doubt, these have a score and no probability. Nor does a curve tell whether the rate levels off where
it is above 0.95: with 95 % confidence the drawn labels there put it between a lower limit (Clopper and
Pearson 1934) and 1. The middle of the two is the highest probability stated, where it is known to 0.1. Where
the truth of a split is known, steps are its rates (`binning.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from pairsieve.audit.draws import AskedPairs, Floats
from pairsieve.measure.curve import Curve
from pairsieve.models.head import fit_head
from pairsieve.numeric import logit, sigmoid
from pairsieve.scan import Scan
from pairsieve.scorer.calibration import DOUBT, Calibration, scaled, scaled_slope

WITH_CHOSEN, WITHOUT_CHOSEN = (0.3, 0.25), (0.0, 0.5)  # what a chosen label counts, and the scale of the t
CONTRADICTION = 1.5  # log-likelihood of the drawn labels from which the chosen ones do not count
HEIGHT_FREEDOM = 2.0  # of Student's t over the difference in height
SLOPE_SPREAD = 0.5  # standard deviation of the logarithm of each slope
THINNING = 1.5  # prior: the match rate falls like rank^-1.5 below the boundary
OUTLIER = 0.02  # share of answers that say nothing
MOST_MOVED = 10.0  # a drawn label counts so many times another at the most, or so little
STEEPEST = 30.0  # of a prior slope
MOST_STEPS, DRAWN_ERROR = 9, 0.05  # and the standard error of a step's rate by the drawn labels in it
MOST_OFF = 0.1  # that a probability above the steps may be off by


def calibrate(
    chosen: tuple[ArrayLike, ArrayLike],
    drawn: tuple[ArrayLike, ArrayLike],
    population: tuple[ArrayLike, ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    factor: float = 1.0,
) -> Calibration:
    """The curve at the mode of its posterior.

    chosen: out-of-fold log-odds (n,) and labels (n,) of pairs that a strategy chose; may be empty or of one
    class. drawn: log-odds by the scorer itself and labels of pairs drawn with known chances, on which it was
    not trained. population: descending log-odds (g,) and how many unlabelled pairs lie at each. weights: of
    the drawn labels (`drawn_weights`); None where they were drawn under the scorer itself. factor: how many
    times as many non-matches a match has where probabilities are stated (`tasks.task.non_match_factor`).
    """
    from scipy.optimize import minimize

    z, labels = np.asarray(chosen[0], np.float64), np.asarray(chosen[1], bool)
    slope, centre = 1.0, 0.0
    if labels.any() and not labels.all():
        weight, bias = fit_head(z, labels)
        slope = float(np.clip(weight, 0.05, STEEPEST))
        centre = float(np.clip(-bias / max(weight, 1e-6), z.min(), z.max()))
    thinning = slope if population is None else max(slope, THINNING * _rank_slope(population, centre))
    prior = np.log([slope, min(thinning, STEEPEST)])
    counts = [np.ones(len(np.asarray(drawn[1]))) if weights is None else np.asarray(weights, np.float64)]
    counts.append(np.ones(len(z)))
    groups = [
        (_sides(each[0], centre), np.asarray(each[1], np.float64), times)
        for each, times in zip((drawn, (z, labels)), counts)
    ]

    def misfit(height: float, slopes: Floats, sides: Floats, y: Floats, times: Floats) -> float:
        p = (1.0 - OUTLIER) * sigmoid(height + slopes @ sides) + OUTLIER / 2.0
        return -float(np.sum(times * (y * np.log(p) + (1.0 - y) * np.log1p(-p))))

    def fitted(weight: float, scale: float) -> Floats:
        def loss(parameters: Floats) -> float:
            slopes, heights = np.exp(parameters[2:]), parameters[:2] * (1.0, weight > 0)
            of_drawn, of_chosen = (misfit(h, slopes, *each) for h, each in zip(heights, groups))
            t = ((heights[0] - heights[1]) / scale) ** 2 / HEIGHT_FREEDOM
            off = np.sum((parameters[2:] - prior) ** 2) / (2.0 * SLOPE_SPREAD**2) + parameters[1] ** 2 / 200.0
            return float(of_drawn + weight * of_chosen + (HEIGHT_FREEDOM + 1.0) / 2.0 * np.log1p(t) + off)

        tries = [
            minimize(loss, np.array([height, 0.0, *prior]), method="Nelder-Mead", options={"maxiter": 2000})
            for height in (0.0, -4.0)
        ]
        best: Floats = min(tries, key=lambda found: found.fun).x
        return best

    count = len(groups[0][1])
    best = np.array([0.0, 0.0, *prior])
    if count:
        best, free = fitted(*WITH_CHOSEN), fitted(*WITHOUT_CHOSEN)
        with_them, without = (misfit(each[0], np.exp(each[2:]), *groups[0]) for each in (best, free))
        best = free if with_them - without > CONTRADICTION else best
    height, (above, below) = float(best[0]), np.exp(best[2:]).tolist()
    curve = Calibration(centre, height, above, below, count)
    if population is None or not count:
        return curve.scaled(factor)
    return _in_steps(curve, population, (drawn[0], groups[0][1], counts[0]), factor)


def drawn_weights(asked: AskedPairs, scan: Scan) -> Floats:
    """(n,) weights of drawn pairs that make them a sample drawn under the ranking of now.

    A draw spreads its labels over the logarithm of the rank: its number of labels over a pair's chance goes
    with the rank at that time. Divided by the rank now it is the same for all pairs that have not moved.
    Within a factor of `MOST_MOVED` of the median; the sum is the effective number of labels (Kish 1965).
    """
    if not len(asked):
        return np.empty(0)
    edges, back = np.unique(asked.scores, return_inverse=True)
    ranks = np.maximum(scan.count_reaching(edges, "ranks of labels")[back], 1).astype(np.float64)
    _, draw, sizes = np.unique(asked.audit, return_inverse=True, return_counts=True)
    moved = sizes[draw] / (asked.inclusion_probability * ranks)
    moved = np.clip(moved / np.median(moved), 1.0 / MOST_MOVED, MOST_MOVED)
    weights: Floats = moved * (moved.sum() / (moved**2).sum())
    return weights


def _sides(log_odds: ArrayLike, centre: float) -> Floats:
    """(2, n) how far log-odds lie above the centre, and below it."""
    away = np.asarray(log_odds, np.float64) - centre
    return np.stack([np.maximum(away, 0.0), np.minimum(away, 0.0)])


def _in_steps(
    curve: Calibration,
    population: tuple[ArrayLike, ArrayLike],
    drawn: tuple[ArrayLike, Floats, Floats],
    factor: float,
) -> Calibration:
    """With steps between the ends of doubt, each the mean probability of its pairs; its middle where there is
    no pair. As many as are all known, and not contradicted by the drawn labels in them; one that says nothing
    where none is. Above the steps at most what the drawn labels there show.

    drawn: log-odds, labels and weights. The ends of doubt, and what is known, are of the scaled rates.
    """
    p, size = sigmoid(curve.log_odds(population[0])), np.asarray(population[1], np.float64)
    of_drawn, labels, weights = sigmoid(curve.log_odds(drawn[0])), *drawn[1:]
    # The pairs that a label stands for, for the draws spread theirs over the logarithm of the rank.
    reached = np.searchsorted(-np.asarray(population[0], np.float64), -np.asarray(drawn[0], np.float64))
    stands_for = weights * np.append(np.cumsum(size), size.sum())[reached]
    off, variance = stands_for * (labels - of_drawn), stands_for**2 * of_drawn * (1.0 - of_drawn)
    means, ends = np.full(1, np.nan), scaled(np.array(DOUBT), 1.0 / factor)
    highest = highest_known(labels[of_drawn > ends[1]], factor)
    for number in range(MOST_STEPS, 0, -1):
        tried = np.linspace(ends[0], ends[-1], number + 1)
        place, at = (np.searchsorted(tried, of, side="right") for of in (p, of_drawn))
        pairs, matches = (np.bincount(place, each, number + 2)[1:-1] for each in (size, size * p))
        rates = np.divide(matches, pairs, out=(tried[1:] + tried[:-1]) / 2.0, where=pairs > 0)
        sums, squares, differences, variances = (
            np.bincount(at, each, number + 2)[1:-1] for each in (weights, weights**2, off, variance)
        )
        effective = np.divide(sums**2, squares, out=np.zeros(number), where=squares > 0)  # Kish's number
        spread = rates * (1.0 - rates) * scaled_slope(rates, factor) ** 2
        known = spread <= effective * DRAWN_ERROR**2
        if (known & (differences**2 <= 4.0 * variances)).all():
            means, ends = rates, tried
            break
    means = scaled(means, factor)
    if highest is not None:
        means = np.minimum(means, highest)
    edges = [curve.inverse(float(each)) for each in logit(ends[::-1])]
    stated = [None if np.isnan(each) else float(each) for each in means[::-1]]
    return replace(curve.scaled(factor), edges=tuple(edges), steps=tuple(stated), highest=highest)


def highest_known(labels: Floats, factor: float = 1.0) -> float | None:
    """The middle between 1 and the lower 95 % limit of a rate by labels (n,), scaled; None where they are
    more than 0.2 apart. Of labels that are all matches, 14 tell it.
    """
    from scipy.stats import beta

    matches = float(labels.sum())
    low = float(beta.ppf(0.05, matches, len(labels) - matches + 1.0)) if matches else 0.0
    low = float(scaled(low, factor))
    return (1.0 + low) / 2.0 if low >= 1.0 - 2.0 * MOST_OFF else None


def expected_rates(curve: Calibration, log_odds: Floats, counts: ArrayLike) -> Floats:
    """(g,) mean probability of the unlabelled pairs at each of descending log-odds, for sums over all pairs.

    Of the millions far below the centre no label tells, and many of them lie at nearly the same log-odds.
    There the rate falls at least like rank^-`THINNING`, as it does where a scorer ranks: else what the curve
    leaves them would add up to more matches than there are.
    """
    rank = np.cumsum(np.asarray(counts, np.float64))
    start = max(float(rank[max(int(np.searchsorted(-log_odds, -curve.centre)) - 1, 0)]), 1.0)
    highest = sigmoid(np.array(curve.height)) * np.maximum(rank / start, 1.0) ** -THINNING
    rates: Floats = np.where(log_odds < curve.centre, highest, 1.0)
    return np.minimum(sigmoid(curve.log_odds(log_odds)), rates)


def _rank_slope(population: tuple[ArrayLike, ArrayLike], centre: float) -> float:
    """Steps of log rank per unit of log-odds, from the centre down to the last tenth of the pairs."""
    z, counts = np.asarray(population[0], np.float64), np.asarray(population[1], np.float64)
    rank = np.cumsum(counts)
    first = int(np.searchsorted(-z, -centre))
    last = int(np.searchsorted(rank, 0.1 * rank[-1])) if len(rank) else 0
    if last <= first or last >= len(z) or rank[min(first, len(z) - 1)] < 1:
        return 0.0
    return float(np.log(rank[last] / rank[first]) / max(z[first] - z[last], 1e-9))


def expected_curve(
    thresholds: ArrayLike,
    unlabelled: ArrayLike,
    probability: ArrayLike,
    matches: ArrayLike,
    others: ArrayLike,
) -> Curve:
    """Expected matches and others at or above each of descending thresholds: (k,) each.

    unlabelled: pairs from each threshold up to the one before, with their mean probability; matches, others:
    labelled ones there. Pairs are counted once; `positives` are the expected matches down to the last.
    """
    free, p = np.asarray(unlabelled, np.float64), np.asarray(probability, np.float64)
    true = np.cumsum(free * p + np.asarray(matches, np.float64))
    false = np.cumsum(free * (1.0 - p) + np.asarray(others, np.float64))
    found = true + false > 0
    positives = max(float(true[-1]) if len(true) else 0.0, 1e-12)
    return Curve(np.asarray(thresholds, np.float32)[found], true[found], false[found], positives)


@dataclass(frozen=True)
class Reliability:
    """Pairs whose stated probability lies between two numbers: its mean, and the share of matches."""

    low: float
    high: float
    pairs: float
    stated: float
    true: float

    def as_json(self) -> dict[str, float]:
        ends = {"from": self.low, "to": self.high}
        return {**ends, "pairs": self.pairs, "stated": self.stated, "true": self.true}


def reliability(
    probability: ArrayLike, pairs: ArrayLike, matches: ArrayLike, bins: int = 10
) -> tuple[Reliability, ...]:
    """Stated and true rates by bin of stated probability: pairs (n,) of such a probability, matches among
    them. Pairs without a probability (nan) are in no bin.
    """
    p, size, true = (np.asarray(each, np.float64) for each in (probability, pairs, matches))
    p, size, true = (each[~np.isnan(p)] for each in (p, size, true))
    place = np.minimum((np.clip(p, 0.0, 1.0) * bins).astype(np.int64), bins - 1)
    count, stated, found = (np.bincount(place, each, bins) for each in (size, size * p, true))
    return tuple(
        Reliability(
            low=k / bins,
            high=(k + 1) / bins,
            pairs=float(count[k]),
            stated=float(stated[k] / count[k]),
            true=float(found[k] / count[k]),
        )
        for k in range(bins)
        if count[k] > 0
    )

"""The posterior of match rates along a ranking, smoothed over strata, from a few hundred labels.

Strata by rank double in size, so the last ones hold nearly all pairs and almost none of the matches. A
stratum of 10⁷ pairs with ten labels and no hit may hold no match or a million, if nothing else is known:
no draw of a few hundred labels can tell. What is known besides is that the scorer ranks. It is put
down as one assumption, softly:

    logit rate(k) = logit rate(k-1) - slope · minority · Δ + spread · √Δ · noise,     Δ = step in log rank

where `minority` grows from 1/4 to 1 as matches become rare. So among many matches the rate falls slowly;
once they are rare it tends to fall like rank^-slope, may rise now and then or drop suddenly (one step in
four follows a steeper, wider bell), and is ever less certain away from labels. Slope and spread are not
given: every combination in SLOPES × SPREADS is weighed by how well it explains the labels. Rates live on a
grid, which makes the posterior exact (forward filter, backward draws): no chain to run in, nothing to
tune, the same numbers for a seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pairsieve.numeric import sigmoid

Floats = NDArray[np.float64]

# rate ~ rank^-slope where matches are rare. 0, a scorer that does not rank, is held unlikely. At 1
# each doubling of the rank brings as many matches as the one before; one that ranks falls faster in the end.
SLOPES = (0.0, 1.0, 1.75, 2.5, 3.5)
SLOPE_WEIGHTS = (0.02, 0.245, 0.245, 0.245, 0.245)
SPREADS = (0.3, 0.8)  # standard deviation of the logit over one unit of log rank
DROP_SHARE, DROP = 0.25, 1.5  # steps that fall by so many slopes more: rates may drop suddenly, hardly jump
FIRST_MEAN, FIRST_SPREAD = 0.0, 3.0  # logit rate at the top of the ranking: nearly anything

_STEP = 0.3
_LOGITS = np.arange(-30.0, 9.0, _STEP)  # rates from 1e-13 to 0.9998
_LOG_RATE, _LOG_REST = -np.logaddexp(0.0, -_LOGITS), -np.logaddexp(0.0, _LOGITS)


@dataclass(frozen=True)
class SmoothedRates:
    """The posterior of every stratum's match rate, given labels in some of them."""

    filtered: Floats  # (h, k, g) each stratum's logit given the strata down to it, by combination
    steps: Floats  # (h, k - 1, g, g) chances of the next stratum's logit
    weight: Floats  # (h,) of each combination of slope and spread

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """`count` joint draws of the rates: (count, k)."""
        strata, grid = self.filtered.shape[1:]
        rows = []
        for combination, times in enumerate(rng.multinomial(count, self.weight)):
            if not times:
                continue
            at = np.empty((times, strata), np.int64)
            last = np.cumsum(self.filtered[combination, -1])
            at[:, -1] = np.searchsorted(last, rng.random(times) * last[-1], side="right")
            for k in range(strata - 2, -1, -1):
                # Chances of this stratum's place, one row for each place of the next; all rows on one line,
                # the next one higher by 1, so that every draw is found by one search.
                after, row = np.unique(at[:, k + 1], return_inverse=True)
                chances = self.steps[combination, k][:, after].T * self.filtered[combination, k]
                back = np.cumsum(chances, axis=1)
                back /= np.maximum(back[:, -1:], 1e-300)
                line = (back + np.arange(len(after))[:, None]).ravel()
                found = np.searchsorted(line, row + rng.random(times), side="right")
                at[:, k] = np.clip(found - row * grid, 0, grid - 1)
            rows.append(at)
        places = np.minimum(np.concatenate(rows), grid - 1)
        logits = _LOGITS[places] + _STEP * (rng.random(places.shape) - 0.5)
        return sigmoid(logits)

    def typical(self) -> Floats:
        """The rate at the mean logit of each stratum, (k,): to plan with, never for an interval."""
        backward = np.ones_like(self.filtered)
        for k in range(self.filtered.shape[1] - 2, -1, -1):
            ahead = np.einsum("hg,hgj->hj", self.filtered[:, k], self.steps[:, k])
            ratio = self.filtered[:, k + 1] * backward[:, k + 1] / np.maximum(ahead, 1e-300)
            backward[:, k] = np.einsum("hgj,hj->hg", self.steps[:, k], ratio)
        both = self.filtered * backward
        both /= both.sum(axis=2, keepdims=True)
        mean = np.einsum("h,hkg,g->k", self.weight, both, _LOGITS)
        return sigmoid(mean)


def smooth_rates(matches: Floats, labels: Floats, middle_rank: Floats) -> SmoothedRates:
    """Rates of the strata of a ranking, best first, from `matches` among `labels` drawn in each: (k,).

    Both may be fractions (labels of unequal weight count as their effective number). `middle_rank`: (k,)
    ascending, the rank around which a stratum lies.
    """
    steps = _transitions(tuple(np.round(np.log(np.maximum(middle_rank, 1.0)), 3).tolist()))
    combinations, strata = len(SLOPES) * len(SPREADS), len(matches)
    first = np.exp(-0.5 * ((_LOGITS - FIRST_MEAN) / FIRST_SPREAD) ** 2)
    filtered = np.empty((combinations, strata, len(_LOGITS)))
    evidence = np.log(np.repeat(SLOPE_WEIGHTS, len(SPREADS)))
    now = np.tile(first / first.sum(), (combinations, 1))
    for k in range(strata):
        if k:
            now = np.einsum("hg,hgj->hj", now, steps[:, k - 1])
        log_chance = matches[k] * _LOG_RATE + (labels[k] - matches[k]) * _LOG_REST
        now = now * np.exp(log_chance - log_chance.max())
        total = now.sum(axis=1, keepdims=True)
        evidence += np.log(total[:, 0])
        now = now / total
        filtered[:, k] = now
    weight = np.exp(evidence - evidence.max())
    return SmoothedRates(filtered, steps, weight / weight.sum())


@lru_cache(maxsize=4)
def _transitions(log_ranks: tuple[float, ...]) -> Floats:
    """(h, k - 1, g, g): from each logit to each logit of the next stratum, for all slopes and spreads."""
    length = np.maximum(np.diff(np.array(log_ranks)), 0.05)
    moved = _LOGITS[None, :] - _LOGITS[:, None]
    minority = 0.25 + 0.75 / (1.0 + np.exp(_LOGITS + 1.0))[:, None]  # 5/8 at a rate of one in four
    chances = np.empty((len(SLOPES) * len(SPREADS), len(length), len(_LOGITS), len(_LOGITS)))
    for h, (slope, spread) in enumerate((a, b) for a in SLOPES for b in SPREADS):
        for k, delta in enumerate(length):
            usual, wide = slope * minority * delta, spread * np.sqrt(delta)
            chances[h, k] = (1 - DROP_SHARE) * _bell(moved + usual, wide)
            drop = DROP * slope * delta
            chances[h, k] += DROP_SHARE * _bell(moved + usual + drop, wide + drop / 2)
    chances.flags.writeable = False
    return chances


def _bell(distance: Floats, wide: float) -> Floats:
    """Normal weights of each row's distances, adding up to 1."""
    log_chance = -0.5 * (distance / wide) ** 2
    chance = np.exp(log_chance - log_chance.max(axis=1, keepdims=True))
    weights: Floats = chance / chance.sum(axis=1, keepdims=True)
    return weights

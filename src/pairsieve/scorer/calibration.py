"""Calibration of a scorer: from its log-odds to the probability of a match.

`audit/calibrate.py` fits it to labels drawn with known chances, or to dev's truth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairsieve.numeric import sigmoid

FEWEST = 20  # drawn labels from which a stated probability is called one
DOUBT = (0.05, 0.95)  # probabilities between which labels tell it

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """A monotone curve from a scorer's log-odds to calibrated ones.

    Labels tell the mean rate of a range of scores, and little more than that: matches come in groups, and at
    neighbouring scores the true rate jumps up and down by more than 0.1. So a probability is stated in
    `steps`, each the mean over the pairs of its range (histogram binning, Zadrozny and Elkan 2001). In a
    range of which too little is known none is stated. Above them the curve is, up to `highest`. `log_odds` is
    the curve without steps.
    """

    centre: float  # z0
    height: float  # calibrated log-odds there
    above: float  # slope above the centre
    below: float  # and below it
    drawn: int  # labels drawn with known chances behind it
    edges: tuple[float, ...] = ()  # (k + 1,) the scorer's log-odds between which steps are stated, descending
    steps: tuple[float | None, ...] = ()  # (k,) the probability stated from an edge up to the one before

    highest: float | None = 1.0  # the most that is stated above the steps; None: nothing is

    @property
    def calibrated(self) -> bool:
        """Whether enough labels were drawn to call its values probabilities; else they are scores."""
        return self.drawn >= FEWEST

    def log_odds(self, log_odds: ArrayLike) -> Floats:
        away = np.asarray(log_odds, np.float64) - self.centre
        return self.height + np.where(away > 0, self.above, self.below) * away

    def probabilities(self, log_odds: ArrayLike) -> Floats:
        """As stated: in steps between the edges, and by the curve beyond them (`highest` at most above); nan
        where none is stated.
        """
        p = sigmoid(self.log_odds(log_odds))
        if not self.steps:
            return p
        place = np.searchsorted(-np.asarray(self.edges), -np.asarray(log_odds, np.float64), side="left") - 1
        between = (place >= 0) & (place < len(self.steps))
        steps = np.array(self.steps, np.float64)  # None is nan
        highest = np.nan if self.highest is None else self.highest
        beyond = np.where(place < 0, np.minimum(p, highest), p)
        stated: Floats = np.where(between, steps[np.where(between, place, 0)], beyond)
        return stated

    def scaled(self, factor: float) -> Calibration:
        """As stated where each match has so many times as many non-matches at equal score."""
        stated = (*self.steps, self.highest)
        *steps, highest = (None if each is None else float(scaled(each, factor)) for each in stated)
        height = self.height - float(np.log(factor))
        return replace(self, height=height, steps=tuple(steps), highest=highest)

    def inverse(self, log_odds: float) -> float:
        """The scorer's log-odds at which the calibrated ones are these."""
        away = log_odds - self.height
        return self.centre + away / (self.above if away > 0 else self.below)


def scaled(rate: Any, factor: float) -> Any:
    """A rate of matches (any shape) where the others are `factor` times as many."""
    return rate / (rate + factor * (1.0 - rate))


def scaled_slope(rate: Any, factor: float) -> Any:
    """The derivative of `scaled`: what a standard error of the rate becomes, over itself."""
    return factor / (rate + factor * (1.0 - rate)) ** 2

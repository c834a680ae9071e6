"""Estimates how many matches nobody has labelled, when no label was drawn to find out.

Labels lie where a model was in doubt, so they say little of the pairs far below. Two estimates are combined,
and both are wrong in ways of their own:

**By batches.** Every unasked pair is counted exactly by the newest bi-encoder's score; the last batches, by
the scores from before their labels, tell how often pairs of a score match, and a line with a prior slope
carries that downwards (`positives_left`, with its interval).

**By the list.** The rates that the labels give to ranked pairs, added up below the threshold. They are
learned from pairs that were asked; the odds of those that were not may be off together, by a factor whose
logarithm has the standard deviation `OFF`.

Draws come from either in turn, so the interval is narrow where they agree and wide where they do not. Nothing
here replaces an audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairsieve.advice import SavedSelection
from pairsieve.advice.advice import labelled_batches
from pairsieve.advice.learning_curve import NotKnown
from pairsieve.advice.remaining import ScoreCounts, positives_left
from pairsieve.contracts import Estimate
from pairsieve.numeric import sigmoid
from pairsieve.pairs import Ids, Mask

if TYPE_CHECKING:
    from pairsieve.matches.listing import Known
    from pairsieve.matches.ranking import Ranking

Floats = NDArray[np.float64]

OFF = 0.8  # see above; bench/expected_matches.py prints what such intervals hold
_NINETY = 1.645  # standard deviations from the middle of a 90 % interval to its ends


def matches_left(
    selections: Sequence[SavedSelection], labelled: Ids, labels: Mask, first: Ranking, known: Known
) -> Estimate | None:
    """Matches among the unlabelled pairs of a split by the word of the batches; None where they cannot tell.

    selections: the pairs of each round with the scores that chose them. first: the bi-encoder's ranking of
    the split, every pair of it; known: the split's labelled pairs.
    """
    history, _ = labelled_batches(selections, labelled, labels)
    edges, reaching = first.counts()
    taken = np.sort(first.scores(known.ids))
    free = reaching - (len(taken) - np.searchsorted(taken, edges, side="left"))
    try:
        return positives_left(ScoreCounts(edges, np.maximum(-np.diff(free), 0)), history)
    except NotKnown:
        return None


def drawn_left(left: Estimate, count: int, rng: np.random.Generator) -> Floats:
    """(count,) draws of a number of matches given as a 90 % interval: normal in log(1 + matches)."""
    low, middle, high = (np.log1p(max(value, 0.0)) for value in (left.low, left.value, left.high))
    away = rng.standard_normal(count)
    spread = np.where(away < 0, middle - low, high - middle) / _NINETY
    made: Floats = np.expm1(middle + spread * away)
    return np.maximum(made, 0.0)


def rates_off(logits: Floats, by: Floats) -> Floats:
    """(draws, k) match rates of pairs with `logits` (k,), all odds off by the factors exp(by) (draws,)."""
    return sigmoid(logits + by[:, None])

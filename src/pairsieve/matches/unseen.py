"""How many matches stand outside a list, when nobody drew labels to find out?

Bought labels lie where a model was in doubt, so they say little of the pairs far below. Two witnesses are
heard, and both are wrong in ways of their own:

**The batches.** Every unasked pair is counted exactly by the newest bi-encoder's score; the last batches, by
the scores from before their labels, tell how often pairs of a score match, and a line with a prior slope
carries that downwards (`measure.advice.positives_left`, with its interval).

**The list itself.** The rates that the labels give to ranked pairs, added up below the line. They are
learned from pairs that were asked; the odds of those that were not may be off together, by a factor whose
logarithm has the standard deviation `OFF`.

Draws come from either witness in turn, so the interval is narrow where they agree and wide where they do
not. Nothing here replaces an audit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairsieve.campaign.guidance import chosen_at
from pairsieve.contracts import Estimate
from pairsieve.measure.advice import carried_too_far, positives_left
from pairsieve.measure.next_batch import Batch, Scored, Unasked, taught
from pairsieve.pairs import is_member

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign
    from pairsieve.matches.listing import Known
    from pairsieve.matches.ranking import Ranking

Floats = NDArray[np.float64]

OFF = 0.8  # see above; bench/expected_matches.py prints what such intervals hold
_NINETY = 1.645  # standard deviations from the middle of a 90 % interval to its ends


def matches_left(campaign: Campaign, number: int, first: Ranking, known: Known) -> Estimate | None:
    """Matches among the unlabelled pairs of a split by the word of the batches; None where they cannot tell.

    first: the bi-encoder's ranking of the split, every pair of it; known: the split's labelled pairs.
    """
    if first.scan is None:
        return None
    ids, labels = campaign.ledger.labels(through=number)
    history = []
    for at in range(1, number + 1):
        chosen = chosen_at(campaign.chosen(at))
        kept = is_member(chosen.ids, ids)
        scored = None
        if chosen.opinion is not None:
            said, _ = chosen.opinion
            scored = Scored(said.scores[kept], said.weight, said.bias)
        history.append(Batch(labels[np.searchsorted(ids, chosen.ids[kept])], scored))
    # A second look picks hard cases at any cosine: its batches say nothing of the other pairs there.
    by_cosine = campaign.settings.strategy != "second-look" and any(batch.scored for batch in history)
    if not by_cosine or not taught(history):
        return None
    edges, reaching = first.counts()
    taken = np.sort(first.scores(known.ids))
    free = reaching - (len(taken) - np.searchsorted(taken, edges, side="left"))
    left = positives_left(Unasked(edges.astype(np.float64), np.maximum(-np.diff(free), 0)), history)
    return None if carried_too_far(left, history) else left


def drawn_left(left: Estimate, count: int, rng: np.random.Generator) -> Floats:
    """(count,) draws of a number of matches given as a 90 % interval: normal in log(1 + matches)."""
    low, middle, high = (np.log1p(max(value, 0.0)) for value in (left.low, left.value, left.high))
    away = rng.standard_normal(count)
    spread = np.where(away < 0, middle - low, high - middle) / _NINETY
    made: Floats = np.expm1(middle + spread * away)
    return np.maximum(made, 0.0)


def rates_off(logits: Floats, by: Floats) -> Floats:
    """(draws, k) match rates of pairs with `logits` (k,), all odds off by the factors exp(by) (draws,)."""
    rates: Floats = 0.5 * (1.0 + np.tanh(0.5 * (logits + by[:, None])))
    return rates

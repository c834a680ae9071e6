"""Two checks of one ranking, one after the other: what the first labelled does not bend the second's sample.

A ranking of 2,400 pairs whose truth is known answers the checks; no text and no model is needed.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pairsieve.ledger import Ledger, open_ledger
from pairsieve.matches.checks import RECALL_CHECK, Checker
from pairsieve.matches.listing import Known
from pairsieve.measure.curve import Curve
from pairsieve.pairs import CrossPairs, Ids, Scores, is_member, pair_ids
from pairsieve.tasks import Collection, Split

LEFT, RIGHT, SEEDS = 40, 60, 16
BANDS = [250, 150, 300, 1700]  # pairs, from the best score down
RATES = np.repeat([1.0, 0.5, 0.15, 0.002], BANDS)  # of matches
SHARP = np.repeat([0.99, 0.2, 0.02, 0.0005], BANDS)  # as expected after the first check: ends the list early


class Ranked:
    """Pairs with scores, as the checks need them of a ranking and of its scan."""

    def __init__(self, ids: Ids, scores: Scores) -> None:
        self.ids, self.values = ids, scores
        self.scored = self.scan = self

    def scores(self, ids: Ids) -> Scores:
        return self.values[np.searchsorted(self.ids, ids)]

    def collect(self, low: float, high: float, take: Any) -> None:
        inside = (self.values >= low) & (self.values <= high)
        take(self.ids[inside], self.values[inside])

    def count_reaching(self, threshold: float) -> int:
        return int((self.values >= threshold).sum())


def curve_of(scores: Scores, rates: NDArray[np.float64]) -> Curve:
    """What is expected where pairs match at these rates."""
    order = np.argsort(-scores)
    right = np.cumsum(rates[order])
    return Curve(scores[order], right, np.arange(1, len(order) + 1) - right, float(right[-1]))


def excess(ledger: Ledger, seed: int, precision_first: bool) -> float:
    """Labels of a recall's check in the best fifth of the pairs in question, over what is fair."""
    rng = np.random.default_rng(seed)
    ids = pair_ids(*np.divmod(np.arange(LEFT * RIGHT), RIGHT))
    place = rng.permutation(len(ids))
    scores = (1.0 - place / len(ids)).astype(np.float32)
    truth = ids[rng.random(len(ids)) < RATES[place]]
    sides = [Collection([str(n) for n in range(count)], ["x"] * count) for count in (LEFT, RIGHT)]
    split = Split("all", CrossPairs(LEFT, RIGHT), *sides, truth, np.empty(0, np.int64), True)
    checker = Checker(Ranked(ids, scores), ledger, split, 1, seed)  # type: ignore[arg-type]
    if precision_first:
        assert checker.precision(Known.nothing(), curve_of(scores, RATES[place]), 0.6, 100, 0.95).labels > 50
    free = ~is_member(ids, ledger.labels("audit")[0])
    expected = SHARP[place]
    check = checker.recall(curve_of(scores, expected), curve_of(scores[free], expected[free]), 0.9, 100, 0.95)
    asked = ledger.questions()
    names = [name for name in asked.strategy if name.startswith(RECALL_CHECK)]
    own = is_member(ids, np.sort(asked.ids[[name in names for name in asked.strategy]]))
    top = float(names[0].split(" to ")[1].split(",")[0])
    below = free & (scores < np.float32(top)) & (scores >= np.sort(scores)[-check.pairs])
    best = below & (scores > np.quantile(scores[below], 0.8))
    return float((own & best).sum() - (own & below).sum() * best.sum() / below.sum())


@pytest.mark.parametrize("precision_first", [False, True])
def test_a_recall_is_checked_by_an_even_sample_of_the_pairs_in_question(
    tmp_path: Path, precision_first: bool
) -> None:
    """Of about 75 labels 15 lie in the best fifth: in sixteen campaigns off by about 0.8 on average.

    With one random order for both checks it was 9 too few after a check of a precision: that one had
    labelled the pairs that were next in the order, and the recall was shown with too few missed matches.
    """
    found = []
    for seed in range(SEEDS):
        with open_ledger(tmp_path / f"{seed}.sqlite", "made") as ledger:
            found.append(excess(ledger, seed, precision_first))
    assert abs(np.mean(found)) < 3.0

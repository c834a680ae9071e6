"""How often an answer is wrong: estimated from pairs that two people answered, for the limits of estimates.

Two answers to one pair, each wrong with chance e whatever the other says, differ with chance 2·e·(1 - e). So
the share of pairs on which the first two answers differ tells e, without anybody knowing who is right. It is
taken to be the same for matches and others, and everywhere in the ranking.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.ledger import Ledger
from pairsieve.ledger.names import RESERVED

FEWEST_TWICE = 20  # pairs answered by two people from which an error rate is estimated
MOST = 0.45  # an error rate; at one half answers say nothing

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AnswerErrors:
    """The share of labels that are wrong, either way, and what it was estimated from."""

    rate: float
    disagreed: int = 0
    twice: int = 0  # pairs answered by two people; 0: the rate is known
    alone: float = 1.0  # share of labels that rest on one answer; where two agree, neither is wrong

    @staticmethod
    def from_disagreements(disagreed: int, twice: int, alone: float = 1.0) -> AnswerErrors:
        """From pairs answered twice, independently."""
        rate = float(_of_differing(np.array(disagreed / max(twice, 1))))
        return AnswerErrors(alone * rate, disagreed, twice, alone)

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draws of the lower and of the upper end of the rate, (count,) each (Clopper and Pearson 1934)."""
        if not self.twice:
            known = np.full(count, min(self.rate, MOST))
            return known, known
        d, n = self.disagreed, self.twice
        lower = rng.beta(d, n - d + 1.0, count) if d else np.zeros(count)
        upper = rng.beta(d + 1.0, n - d, count) if d < n else np.ones(count)
        return self.alone * _of_differing(lower), self.alone * _of_differing(upper)

    def __str__(self) -> str:
        if not self.twice:
            return f"corrected for {self.rate:.1%} wrong answers"
        return (
            f"corrected for {self.rate:.1%} wrong answers ({self.disagreed:,} of {self.twice:,} pairs "
            "answered by two people differ)"
        )


def _of_differing(share: Floats) -> Floats:
    """e for which 2·e·(1 - e) is `share`."""
    return np.minimum((1.0 - np.sqrt(np.maximum(1.0 - 2.0 * share, 0.0))) / 2.0, MOST)


def answer_errors(ledger: Ledger) -> AnswerErrors | None:
    """The error rate of a ledger's labels; None where fewer than 20 pairs were answered by two people.

    Of a pair with more answers the two that came first count: later ones may be there because these differ.
    """
    given = ledger.answers()
    events = zip(given.ids.tolist(), given.who, given.labels, given.kind)
    return errors_among((pair, who, label) for pair, who, label, kind in events if kind == "answer")


def errors_among(answers: Iterable[tuple[int, str, int | None]]) -> AnswerErrors | None:
    """From (pair, who, label) in the order they came; unsure answers and those of rules or truth aside."""
    first: dict[int, dict[str, int]] = {}
    for pair, who, label in answers:
        if label is not None and who not in RESERVED:
            first.setdefault(pair, {}).setdefault(who, label)
    twice = [_first_two(labels) for labels in first.values() if len(labels) > 1]
    if len(twice) < FEWEST_TWICE:
        return None
    differ = sum(one != other for one, other in twice)
    return AnswerErrors.from_disagreements(differ, len(twice), 1.0 - len(twice) / len(first))


def _first_two(labels: Mapping[str, int]) -> tuple[int, int]:
    one, other, *_ = labels.values()
    return one, other

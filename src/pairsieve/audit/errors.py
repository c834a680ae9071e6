"""How often an answer is wrong: limits from pairs that two people answered, for the limits of estimates.

Of non-matches let a share a1 of one person's answers be wrong and a2 of the other's, independently. Of those
to which at least one says "no match", a share (a1 + a2 - 2·a1·a2) / (1 - a1·a2) has two answers that differ.
That is never less than a1 or a2, and is a1 where the other is never wrong. Pairs that differ may all be
non-matches, so

    wrong answers about non-matches <= pairs that differ / pairs with a "no match", and likewise
    wrong answers about matches     <= pairs that differ / pairs with a "match",

whoever of the two makes the errors, and however they fall on matches and others. Labels may as well have no
error: all may be the other person's. The rates are taken to be the same everywhere in the ranking. Errors
that two people share are not seen: that they err independently is supposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pairsieve.ledger import Ledger
from pairsieve.ledger.names import RESERVED, TASK_LABELS

FEWEST_TWICE = 20  # pairs answered by two people from which an error rate is estimated
MOST = 0.45  # an error rate that is known; at one half answers say nothing
DRAWS = 1000  # of the error rates, for limits at a level


@dataclass(frozen=True)
class ErrorBox:
    """Limits of two rates: of wrong answers about non-matches, and about matches. Numbers or draws (r,)."""

    false: tuple[Any, Any]
    missed: tuple[Any, Any]


@dataclass(frozen=True)
class AnswerErrors:
    """The share of labels that are wrong, and what it was estimated from."""

    rate: float  # where it is estimated: if both people err as often, about matches and others
    disagreed: int = 0
    matches: int = 0  # pairs that two people call a match
    others: int = 0  # pairs that two people call no match
    alone: float = 1.0  # share of labels that rest on one answer; where two agree, neither is wrong

    @property
    def twice(self) -> int:
        """Pairs answered by two people; 0: the rate is known, of either kind."""
        return self.disagreed + self.matches + self.others

    @staticmethod
    def from_pairs(disagreed: int, matches: int, others: int, alone: float = 1.0) -> AnswerErrors:
        """From pairs answered twice, independently."""
        share = disagreed / max(disagreed + matches + others, 1)
        rate = min((1.0 - max(1.0 - 2.0 * share, 0.0) ** 0.5) / 2.0, MOST)
        return AnswerErrors(alone * rate, disagreed, matches, others, alone)

    def draw(self, count: int, rng: np.random.Generator) -> ErrorBox:
        """Draws of the upper ends (Clopper and Pearson 1934); the lower ones are 0."""
        if not self.twice:
            known = np.full(count, min(self.rate, MOST))
            return ErrorBox((known, known), (known, known))
        none, d = np.zeros(count), self.disagreed
        false, missed = (
            self.alone * (rng.beta(d + 1.0, agreed, count) if agreed else np.ones(count))
            for agreed in (self.others, self.matches)
        )
        return ErrorBox((none, false), (none, missed))

    def box(self, level: float) -> ErrorBox:
        """Limits of both rates, that hold at once but for a chance of `level`."""
        drawn = self.draw(DRAWS, np.random.default_rng(0))
        false, missed = (float(np.quantile(x[1], 1.0 - level / 2.0)) for x in (drawn.false, drawn.missed))
        return ErrorBox((float(drawn.false[0][0]), false), (float(drawn.missed[0][0]), missed))

    def __str__(self) -> str:
        if not self.twice:
            return f"corrected for {self.rate:.1%} wrong answers"
        most = self.box(0.05)
        return (
            f"corrected for wrong answers about up to {most.false[1]:.0%} of non-matches and "
            f"{most.missed[1]:.0%} of matches ({self.disagreed:,} of {self.twice:,} pairs answered by two "
            "people differ; supposes that two people err independently)"
        )


def answer_errors(ledger: Ledger) -> AnswerErrors | None:
    """The error rates of a ledger's labels; None where fewer than 20 pairs were answered by two people.

    Of a pair with more answers the two that came first count: later ones may be there because these differ.
    """
    given = ledger.answers()
    events = zip(given.ids.tolist(), given.who, given.labels, given.kind)
    return errors_among((pair, who, label) for pair, who, label, kind in events if kind == "answer")


def errors_among(answers: Iterable[tuple[int, str, int | None]]) -> AnswerErrors | None:
    """From (pair, who, label) in the order they came; unsure answers and those of rules or truth aside."""
    first: dict[int, dict[str, int]] = {}
    for pair, who, label in answers:
        if label is None or who in RESERVED - {TASK_LABELS}:
            continue
        labels = first.setdefault(pair, {})
        if who != TASK_LABELS:  # whoever gave these may answer here too, and is no second person
            labels.setdefault(who, label)
    twice = [_first_two(labels) for labels in first.values() if len(labels) > 1]
    if len(twice) < FEWEST_TWICE:
        return None
    differ = sum(one != other for one, other in twice)
    matches = sum(one == other == 1 for one, other in twice)
    alone = 1.0 - len(twice) / len(first)
    return AnswerErrors.from_pairs(differ, matches, len(twice) - differ - matches, alone)


def _first_two(labels: Mapping[str, int]) -> tuple[int, int]:
    one, other, *_ = labels.values()
    return one, other

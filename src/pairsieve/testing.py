"""The conformance kit for query strategies, `check_strategy`, and the small synthetic view it runs on.

    from pairsieve.testing import check_strategy
    check_strategy(my_strategy)

The kit for label sources stands beside them: `pairsieve.sources.check_label_source`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import Strategy
from pairsieve.errors import PairsieveError
from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, ScoredPairs, is_member


@dataclass
class SyntheticView:
    """A view of a space small enough to enumerate: scores and truth are synthetic."""

    space: PairSpace
    asked: Ids = field(default_factory=lambda: np.empty(0, np.int64))
    round: int = 2
    boundary: float = 0.0
    seed: int = 0
    labels: NDArray[np.bool_] = field(default_factory=lambda: np.arange(20) % 2 == 0)
    varied: bool = True
    margin: float = 0.0

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        ids = self.space.unrank(np.arange(self.space.size))
        self.logits = ScoredPairs(ids, rng.normal(-2, 2, len(ids)).astype(np.float32))
        self.cosines = ScoredPairs(ids, np.tanh(self.logits.scores + rng.normal(0, 1, len(ids))))
        self.positives = ids[self.logits.scores > 1.5]
        self._stated = np.sort(rng.choice(ids, len(ids) // 2, replace=False))

    def best(self, count: int) -> ScoredPairs:
        return self.logits.without(self.asked).best(count)

    def closest(self, logit: float, count: int, fewest: int | None = None) -> ScoredPairs:
        return self.logits.without(self.asked).closest(logit, count)

    def rankings(self, count: int) -> list[Ids]:
        free = [scored.without(self.asked) for scored in (self.logits, self.cosines)]
        return [one.ids[np.argsort(-one.scores, kind="stable")][:count] for one in free]

    def sure_matches(self) -> Ids:
        return np.empty(0, np.int64)

    def text_numbers(self) -> tuple[Ids, Ids]:
        left, right = self.space.shape  # the last text of a side reads as its first
        return np.arange(left) % max(left - 1, 1), np.arange(right) % max(right - 1, 1)

    def static(self, count: int) -> ScoredPairs:
        return self.cosines.without(self.asked).best(count)

    def stated(self) -> tuple[Ids, NDArray[np.bool_]]:
        ids = self._stated[~is_member(self._stated, self.asked)]
        return ids, is_member(ids, self.positives)

    def oracle(self) -> Ids:
        return self.positives


def check_strategy(strategy: Strategy) -> None:
    """Raise AssertionError unless `strategy` keeps the contract: exactly `budget` distinct unasked pairs of
    the space, the same ones for the same generator, probabilities in (0, 1], and a `PairsieveError`
    when the pool is empty."""
    for space in (AllPairs(40), CrossPairs(15, 30)):
        view = SyntheticView(space)
        for budget in (1, 7, 40):
            chosen = strategy(view, budget, np.random.default_rng(1))
            again = strategy(view, budget, np.random.default_rng(1))
            assert chosen.ids.dtype == np.int64, "ids must be int64"
            assert len(chosen.ids) == budget, f"asked for {budget} pairs, got {len(chosen.ids)}"
            assert len(np.unique(chosen.ids)) == budget, "a pair was chosen twice"
            assert space.contains(chosen.ids).all(), "a chosen pair lies outside the space"
            assert not is_member(chosen.ids, view.asked).any(), "a chosen pair was asked before"
            assert np.array_equal(chosen.ids, again.ids), "the same generator must choose the same pairs"
            assert chosen.why, "say why the pairs were chosen"
            if chosen.inclusion_probability is not None:
                chance = chosen.inclusion_probability
                assert chance.shape == (budget,), "one inclusion probability a pair"
                assert ((chance > 0) & (chance <= 1)).all(), "an inclusion probability is in (0, 1]"
            view = SyntheticView(space, asked=np.union1d(view.asked, chosen.ids))
        everything = SyntheticView(space, asked=space.unrank(np.arange(space.size)))
        try:
            chosen = strategy(everything, 5, np.random.default_rng(1))
        except PairsieveError:
            continue
        assert len(chosen.ids) == 0, "nothing is left to choose, yet pairs came back"

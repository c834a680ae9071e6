"""What do the parts promise each other? The protocols at the seams, and the small records they pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import Ids, PairSpace, ScoredPairs


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval. Exact figures have `low == value == high`."""

    value: float
    low: float
    high: float
    n: int  # what it rests on: pairs counted, or labels drawn
    method: str  # "exact", or how it was sampled and how the interval was made

    @staticmethod
    def exact(value: float, n: int) -> Estimate:
        return Estimate(value, value, value, n, "exact")

    def as_json(self) -> dict[str, Any]:
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n, "method": self.method}


@dataclass(frozen=True)
class Selection:
    """The pairs a strategy wants labelled: distinct ids, why, and the chance each had of being drawn."""

    ids: Ids
    why: str
    inclusion_probability: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Answer:
    """One answer to one question. `label` is 1 (match), 0 (no match) or None (unsure)."""

    id: int
    label: int | None


class LabelSource(Protocol):
    """Who answers. Returns what it can answer now; the rest stays open."""

    name: str

    def answer(self, ids: Ids) -> Sequence[Answer]: ...


class RoundView(Protocol):
    """What a strategy may see of a round. It never sees the ledger or a model."""

    asked: Ids  # sorted ids of every pair asked so far
    round: int  # 1 is the seed round

    @property
    def space(self) -> PairSpace: ...

    def best(self, count: int) -> ScoredPairs:
        """The `count` unasked pairs the current scorer ranks highest (pre-trained encoder in round 1)."""

    def closest(self, logit: float, count: int) -> ScoredPairs:
        """The `count` unasked pairs whose logit lies nearest to `logit`."""

    def static(self, count: int) -> ScoredPairs:
        """The `count` unasked pairs nearest by the pre-trained encoder."""

    def stated(self) -> tuple[Ids, NDArray[np.bool_]]:
        """Unasked stated pairs and their labels; an error where the task states none."""

    def oracle(self) -> Ids:
        """All positives of the space, for strategies that assume an oracle; an error without truth."""


class Strategy(Protocol):
    """Picks the next batch: `budget` distinct unasked pairs, deterministic given `rng`."""

    def __call__(self, view: RoundView, budget: int, rng: np.random.Generator) -> Selection: ...


class Matcher(Protocol):
    """A trained scorer: the logit of a pair is `weight * cosine + bias`, with weight at least 0."""

    weight: float
    bias: float

    def embed(self, texts: Sequence[str], side: str = "left") -> NDArray[np.float32]:
        """Unit rows, one per text. `side` is "left" or "right"; only directed matchers tell them apart."""

    def save(self, folder: Path) -> None:
        """Write a sentence-transformers folder with the head beside it."""


class Learner(Protocol):
    """Fits a fresh matcher on everything answered so far."""

    name: str

    def pretrained(self) -> Matcher:
        """The encoder as it comes, with the identity head: its cosine is its logit."""

    def fit(
        self,
        left_texts: Sequence[str],
        right_texts: Sequence[str],
        ids: Ids,
        labels: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> Matcher:
        """`ids` index rows of the two text lists (the same list twice for one collection)."""


def generator_for(seed: int, round: int, purpose: str) -> np.random.Generator:
    """The random numbers of one purpose in one round: the same whenever and wherever they are drawn."""
    words = np.frombuffer(purpose.encode(), dtype=np.uint8).astype(np.uint32)
    return np.random.default_rng(np.random.SeedSequence([seed, round, *words.tolist()]))

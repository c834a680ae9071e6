"""What do the parts promise each other? The protocols at the seams, and the small records they pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    boundary: float  # the logit where a match is as likely as not, as far as earlier rounds tell

    @property
    def space(self) -> PairSpace: ...

    def best(self, count: int) -> ScoredPairs:
        """The `count` unasked pairs the current scorer ranks highest (pre-trained encoder in round 1)."""

    def closest(self, logit: float, count: int) -> ScoredPairs:
        """The `count` unasked pairs whose logit lies nearest to `logit`."""

    def doubtful(self, count: int) -> ScoredPairs:
        """Up to `count` unasked candidates that a second look (words, rivals) leaves nearest to one half."""

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


class MapShards(Protocol):
    """Runs a plain function over shards of rows, in this process or on many machines; each result once.

    A shard lost with its worker is run again, so `work` gives the same whenever it gets the same.
    """

    @property
    def threads(self) -> int:
        """Cores that one shard may use; 0 means all of the machine's."""

    @property
    def workers(self) -> int:
        """How many shards run at the same time."""

    @property
    def gpus(self) -> int:
        """How many shards that need a GPU run at the same time."""

    def share(self, value: Any) -> Any:
        """A handle on what many shards need; as an argument of a shard it arrives as the value itself."""

    def map(
        self, work: Callable[..., Any], shards: Sequence[tuple[Any, ...]], words: str = ..., gpu: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """(position of a shard, `work(*shard)`) as they finish, in any order; `gpu`: each needs one."""

    def map_texts(
        self,
        work: Callable[[Any, list[str]], NDArray[np.float32]],
        shared: Any,
        pieces: Sequence[tuple[int, Sequence[str]]],
        words: str = ...,
        gpu: bool = False,
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """(number of a piece, `work(shared, texts)`), as a stream; `shared` is a value, not a handle."""


def generator_for(seed: int, round: int, purpose: str) -> np.random.Generator:
    """The random numbers of one purpose in one round: the same whenever and wherever they are drawn."""
    words = np.frombuffer(purpose.encode(), dtype=np.uint8).astype(np.uint32)
    return np.random.default_rng(np.random.SeedSequence([seed, round, *words.tolist()]))

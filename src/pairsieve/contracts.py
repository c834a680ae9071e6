"""Protocols between the packages (label source, strategy, shards) and the small records they pass.

The protocols of models, `Matcher` and `Learner`, stand in `pairsieve.models.interface`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

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
    labels: NDArray[np.bool_]  # the labels to learn from so far, in no order that means anything
    varied: bool  # whether a batch should hold many texts and few copies; not under the paper's recipe
    margin: float  # how far off the boundary may be, in logits: half of a varied batch is asked that far away

    @property
    def space(self) -> PairSpace: ...

    def best(self, count: int) -> ScoredPairs:
        """The `count` unasked pairs the current scorer ranks highest (pre-trained encoder in round 1)."""

    def closest(self, logit: float, count: int, fewest: int | None = None) -> ScoredPairs:
        """The `count` unasked pairs whose logit lies nearest to `logit`; `fewest` will do, where given."""

    def rankings(self, count: int) -> list[Ids]:
        """Up to `count` unasked pairs, best first, by each ranking that needs no label: by the encoder as it
        came and, where it can be searched, by the mean of that cosine and the lexical one."""

    def text_numbers(self) -> tuple[Ids, Ids]:
        """A number for each left and each right text, equal where two texts read the same."""

    def sure_matches(self) -> Ids:
        """Pairs of one collection that the current scorer is sure of, or that are labelled matches; none of
        two collections, or without a model."""

    def static(self, count: int) -> ScoredPairs:
        """The `count` unasked pairs nearest by the pre-trained encoder."""

    def stated(self) -> tuple[Ids, NDArray[np.bool_]]:
        """Unasked stated pairs and their labels; an error where the task states none."""

    def oracle(self) -> Ids:
        """All positives of the space, for strategies that assume an oracle; an error without truth."""


class Strategy(Protocol):
    """Picks the next batch: `budget` distinct unasked pairs, deterministic given `rng`."""

    def __call__(self, view: RoundView, budget: int, rng: np.random.Generator) -> Selection: ...


Work: TypeAlias = Callable[..., Any]
Shards: TypeAlias = Sequence[tuple[Any, ...]]  # the arguments of each call of `work`
Pieces: TypeAlias = Sequence[tuple[int, Sequence[str]]]  # position of a piece, and its texts
Results: TypeAlias = Iterator[tuple[int, Any]]  # position of a shard or piece, and its result


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

    def map(self, work: Work, shards: Shards, desc: str = ..., gpu: bool = False) -> Results:
        """(position of a shard, `work(*shard)`) as they finish, in any order; `gpu`: each needs one."""

    def map_texts(
        self, work: Work, shared: Any, pieces: Pieces, desc: str = ..., gpu: bool = False
    ) -> Results:
        """(position of a piece, `work(shared, texts)`), as a stream; `shared` is a value, not a handle."""


def generator_for(seed: int, round: int, purpose: str) -> np.random.Generator:
    """The random numbers of one purpose in one round: the same whenever and wherever they are drawn."""
    return np.random.default_rng(np.random.SeedSequence([seed, round, *purpose.encode()]))

"""What does a strategy see of a round? Scores of unasked pairs, stated pairs, and the truth for an oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError
from pairsieve.pairs import Ids, PairSpace, ScoredPairs, is_member
from pairsieve.tasks import Split

if TYPE_CHECKING:
    from pairsieve.models import CosineMatcher, ProjectionMatcher
    from pairsieve.search import Found, PairSearch

    Trained = CosineMatcher | ProjectionMatcher
    SearchOf = Callable[[int], tuple[PairSearch, Trained]]


class View:
    """The `RoundView` of a campaign. `search_of(number)` is the search by the matcher of that round."""

    def __init__(
        self,
        part: Split,
        where: str,
        search_of: SearchOf,
        number: int,
        asked: Ids,
        again: Callable[[], ScoredPairs | None] = lambda: None,
        boundary: float = 0.0,
    ) -> None:
        """`again()`: the second look's logits of the candidates, None where labels are too few for one."""
        self._part, self._where, self._search_of, self._again = part, where, search_of, again
        self.round, self.asked, self.boundary = number, asked, boundary
        self.searched: dict[str, Any] | None = None  # how the last search was made, and its recall
        self._searches: dict[int, tuple[PairSearch, Trained]] = {}

    def by_model(self) -> tuple[PairSearch, Trained] | None:
        """The search by the newest trained model, where the strategy used one."""
        return self._searches.get(self.round - 1) if self.round > 1 else None

    @property
    def space(self) -> PairSpace:
        return self._part.space

    def best(self, count: int) -> ScoredPairs:
        search, matcher = self._search(self.round - 1)
        return self._logits(search.best(count, self.asked), matcher)

    def closest(self, logit: float, count: int) -> ScoredPairs:
        search, matcher = self._search(self.round - 1)
        # No cosine lies beyond 2: there the closest are the best, which is right for a model without a match.
        centre = float(np.clip((logit - matcher.bias) / matcher.weight, -2, 2))
        return self._logits(search.closest(centre, count, self.asked), matcher)

    def doubtful(self, count: int) -> ScoredPairs:
        looked = self._again() if self.round > 1 else None
        if looked is None:
            return ScoredPairs.empty()
        self._search(self.round - 1)  # its opinion of the chosen pairs is what advice is made from
        self.searched = {"method": "second look at the nearest of each text", "recall": None}
        return looked.without(self.asked).closest(0.0, count)

    def static(self, count: int) -> ScoredPairs:
        search, matcher = self._search(0)
        return self._logits(search.best(count, self.asked), matcher)

    def stated(self) -> tuple[Ids, NDArray[np.bool_]]:
        part = self._part
        if len(part.stated_negatives) == 0:
            raise InputError(
                f"split {part.name!r} states no negative pairs",
                where=self._where,
                remedy="Choose another strategy or seed set, or make the task with --labels",
            )
        ids = np.union1d(part.positives, part.stated_negatives)
        free = ids[~is_member(ids, self.asked)]
        return free, is_member(free, part.positives)

    def oracle(self) -> Ids:
        part = self._part
        if not part.has_truth:
            raise InputError(
                f"split {part.name!r} has no truth",
                where=self._where,
                why="stratified sampling assumes that every positive is known",
                remedy="Choose another strategy, such as uncertainty",
            )
        return part.positives

    def _search(self, number: int) -> tuple[PairSearch, Trained]:
        if number not in self._searches:
            self._searches[number] = self._search_of(number)
        return self._searches[number]

    def _logits(self, found: Found, matcher: Trained) -> ScoredPairs:
        self.searched = {"method": found.method, "recall": found.recall.as_json()}
        logits = matcher.weight * found.pairs.scores + matcher.bias
        return replace(found.pairs, scores=logits.astype(np.float32))

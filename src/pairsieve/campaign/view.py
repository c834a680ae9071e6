"""What a strategy sees of a round: scores of unasked pairs, stated pairs, and the truth for an oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError
from pairsieve.pairs import Ids, PairSpace, ScoredPairs, is_member
from pairsieve.reranker.features import normalised
from pairsieve.tasks import Split

if TYPE_CHECKING:
    from pairsieve.scorer import Scorer
    from pairsieve.search import Found, PairSearch

    SearchOf = Callable[[bool], tuple[PairSearch, Scorer]]


class View:
    """The `RoundView` of a campaign."""

    def __init__(
        self,
        split: Split,
        where: str,
        search_of: SearchOf,
        round: int,
        asked: Ids,
        boundary: float = 0.0,
        labels: NDArray[np.bool_] | None = None,
        varied: bool = False,
        reranked: Callable[[], ScoredPairs | None] = lambda: None,
        lexical: Callable[[], PairSearch | None] = lambda: None,
    ) -> None:
        """`search_of(pretrained)`: the search by the newest bi-encoder, or by the encoder as it came.

        `reranked()`: the candidates with the scorer's log-odds, None where it has no re-ranker. `lexical()`:
        the search by the mean of the encoder's and the lexical cosine, None where there is none.
        """
        self._split, self._where, self._search_of = split, where, search_of
        self._reranked, self._lexical = reranked, lexical
        self.round, self.asked, self.boundary, self.varied = round, asked, boundary, varied
        self.labels = np.empty(0, bool) if labels is None else labels
        self._numbers: tuple[Ids, Ids] | None = None
        self.searched: dict[str, Any] | None = None  # how the last search was made, and its recall
        self._searches: dict[bool, tuple[PairSearch, Scorer]] = {}

    def by_model(self) -> tuple[PairSearch, Scorer] | None:
        """The search by the newest trained model, where the strategy used one."""
        return self._searches.get(False) if self.round > 1 else None

    @property
    def space(self) -> PairSpace:
        return self._split.space

    def best(self, count: int) -> ScoredPairs:
        return self._best(count, pretrained=self.round == 1)

    def closest(self, logit: float, count: int, fewest: int | None = None) -> ScoredPairs:
        reranked = self._reranked() if self.round > 1 else None
        if reranked is not None:
            found = reranked.without(self.asked).closest(logit, count)
            self._search(False)  # its opinion of the chosen pairs is what advice is made from
            self.searched = {"method": f"re-ranker over {len(reranked):,} candidates", "recall": None}
            if len(found) >= (count if fewest is None else fewest):
                return found
        search, scorer = self._search(self.round == 1)
        # No cosine lies beyond 2: there the closest are the best, which is right for a model without a match.
        centre = float(np.clip(scorer.score_of(logit), -2, 2))
        return self._log_odds(search.closest(centre, count, self.asked, fewest), scorer)

    def rankings(self, count: int) -> list[Ids]:
        search, _ = self._search(True)
        lexical = self._lexical()
        found: list[Ids] = []
        for one in [search] if lexical is None else [search, lexical]:
            best = one.best(count, self.asked, fewest=0)
            if not found:
                self.searched = {"method": best.method, "recall": best.recall.as_json()}
            found.append(best.pairs.ids[np.argsort(-best.pairs.scores, kind="stable")])
        return found

    def text_numbers(self) -> tuple[Ids, Ids]:
        if self._numbers is None:
            place: dict[str, int] = {}
            sides = [
                np.array([place.setdefault(normalised(text), len(place)) for text in side.texts], np.int64)
                for side in (self._split.left, self._split.right)
            ]
            self._numbers = sides[0], sides[1]
        return self._numbers

    def static(self, count: int) -> ScoredPairs:
        return self._best(count, pretrained=True)

    def stated(self) -> tuple[Ids, NDArray[np.bool_]]:
        split = self._split
        if len(split.stated_negatives) == 0:
            remedy = "Choose another strategy or seed set, or make the task with labelled pairs"
            what = f"split {split.name!r} states no negative pairs"
            raise InputError(what, where=self._where, remedy=remedy)
        ids = np.union1d(split.positives, split.stated_negatives)
        free = ids[~is_member(ids, self.asked)]
        return free, is_member(free, split.positives)

    def oracle(self) -> Ids:
        split = self._split
        if not split.has_truth:
            why = "stratified sampling assumes that every positive is known"
            what, remedy = f"split {split.name!r} has no truth", "Choose another one, such as uncertainty"
            raise InputError(what, where=self._where, why=why, remedy=remedy)
        return split.positives

    def _search(self, pretrained: bool) -> tuple[PairSearch, Scorer]:
        if pretrained not in self._searches:
            self._searches[pretrained] = self._search_of(pretrained)
        return self._searches[pretrained]

    def _best(self, count: int, pretrained: bool) -> ScoredPairs:
        search, scorer = self._search(pretrained)
        return self._log_odds(search.best(count, self.asked), scorer)

    def _log_odds(self, found: Found, scorer: Scorer) -> ScoredPairs:
        self.searched = {"method": found.method, "recall": found.recall.as_json()}
        log_odds = scorer.log_odds(found.pairs.scores)
        return replace(found.pairs, scores=log_odds.astype(np.float32))

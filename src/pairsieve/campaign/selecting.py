"""Chooses the pairs of a round by its strategy; the choice is an artifact, so a resumed run asks the same.

`View` is all that a strategy sees of a round.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.artifacts import array_digest, save_array
from pairsieve.campaign.training import Labels, Trained, Trainer, correction_strengths
from pairsieve.contracts import Selection, generator_for
from pairsieve.errors import InputError, SettingsError
from pairsieve.files import load_json, read_record
from pairsieve.measure.figures import Searched
from pairsieve.pairs import Ids, PairSpace, ScoredPairs, is_member
from pairsieve.reranker.features import normalised
from pairsieve.scorer import Scorer, make_corrections
from pairsieve.search import INDEXES, Found, PairSearch
from pairsieve.settings import CampaignSettings
from pairsieve.strategies import Named, strategy_named
from pairsieve.tasks import Split

MARGIN = 2.0  # log-odds by which a boundary learned from few labels is often off
SURE = 2.0  # log-odds from which two texts count as one thing, when batches are varied
SURE_A_TEXT = 100  # pairs a text beyond which a scorer is sure of too much to tell things apart

FIRST_FROM = 5_000  # texts from which embedding takes a person's time; the first questions go before it
FIRST_SHARE, MOST_FIRST = 4, 10  # one in so many labels of round 1, and at most so many
FIRST_PART, FIRST_WHY = "spread, lexical", "spread over lexical ranks"  # the ledger's words for them

SearchOf = Callable[[bool], tuple[PairSearch, Scorer]]


@dataclass(frozen=True)
class SelectionInfo:
    """How the pairs of a round were chosen."""

    why: str
    strategy: str
    has_chance: bool  # whether each had a known chance of being drawn
    search: Searched | None
    seconds: Mapping[str, float]  # by phase

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def selection_folder(
    trainer: Trainer,
    trained: Trained,
    labels: Labels,
    round: int,
    unaskable: Ids,
    shares: list[float],
    more: int = 0,
) -> Path:
    """The folder of a round's pairs (`ids.npy`, `selection.json`), chosen by what was trained on `labels`.

    shares: of matches in the batches of rounds 2 up to the last. more: pairs over those planned.
    """
    settings = trainer.settings
    budget = chosen_labels(settings, round) + more
    key = {
        "task": settings.task_fingerprint,
        "split": settings.split,
        "round": round,
        "strategy": settings.strategy,
        "seed_set": settings.first_strategy,
        "reranker": trainer.reranker_setting,
        "corrections": correction_strengths(settings),
        "search": [settings.search, settings.neighbours],
        "asked": array_digest(unaskable),
        "model": trainer.model_key(labels) or trainer.learner.fingerprint,
        "seed": settings.seed,
        "budget": budget,
    }
    build = partial(_select, trainer, trained, labels, round, budget, unaskable, shares)
    return trainer.store.get("selection", key, build)


def first_questions(trainer: Trainer) -> Selection | None:
    """The first pairs of round 1 in a large table, chosen before any text is embedded; None of others.

    They stand at log-spaced ranks of all pairs by the lexical cosine alone, as `spread` takes a part of its
    pairs by rankings that know letters. So people can answer while the texts are embedded.
    """
    settings, space = trainer.settings, trainer.split.space
    count = min(chosen_labels(settings, 1) // FIRST_SHARE, MOST_FIRST)
    texts = space.shape[0] if space.symmetric else sum(space.shape)
    if texts < FIRST_FROM or not count or _first_round(settings).name != "spread":
        return None
    search = trainer.lexical_search(alone=True)
    if search is None:
        return None
    scorer = Scorer(trainer.learner.pretrained(), make_corrections(space, 0.0, 0.0, 1.0), 1.0, 0.0)
    view = View(trainer.split, settings.task, lambda _: (search, scorer), 1, np.empty(0, np.int64))
    chosen = strategy_named("spread").run(view, count, generator_for(settings.seed, 1, "first questions"))
    return replace(chosen, why=FIRST_WHY)


def _first_round(settings: CampaignSettings) -> Named:
    """The strategy of round 1, and of further rounds while there is no label."""
    strategy = strategy_named(settings.strategy)
    return strategy_named(settings.first_strategy) if strategy.needs_model else strategy


def selection_info(folder: Path) -> SelectionInfo:
    """How the pairs in a selection's folder were chosen."""
    return read_record(SelectionInfo, load_json(folder / "selection.json"))


def _select(
    trainer: Trainer,
    trained: Trained,
    labels: Labels,
    round: int,
    budget: int,
    unaskable: Ids,
    shares: list[float],
    folder: Path,
) -> None:
    settings, began = trainer.settings, time.perf_counter()
    trainer.scores.watch.seconds.clear()
    # While every answer is "unsure" there is no model: a later round chooses as the first one does.
    strategy = strategy_named(settings.strategy) if labels.round else _first_round(settings)
    scorer, model = trained.scorer, trainer.model_key(labels)
    # A whole encoder keeps its own head: see `_boundary`.
    newest = scorer.bi_encoder() if trainer.learner.uses_frozen_rows else trained.bi_encoder

    def search_of(pretrained: bool) -> tuple[PairSearch, Scorer]:
        """The search by the newest bi-encoder, or by the encoder as it came."""
        if pretrained:
            before = trainer.pretrained()
            return trainer.scores.search(before, "", 0), before
        return trainer.scores.search(newest, model, labels.round), newest

    def reranked() -> ScoredPairs | None:
        """The candidates with the scorer's log-odds; None where it has no re-ranker."""
        if scorer.reranker is None:
            return None
        scored = trainer.scores.score(scorer, trainer.split, model)
        log_odds = scorer.log_odds(scored.scan.scores(scored.candidates))
        return ScoredPairs(scored.candidates, log_odds.astype(np.float32))

    def sure_matches() -> Ids:
        """Pairs of one collection that are surely matches, by the scorer or by a label."""
        known = labels.ids[labels.values]
        if not trainer.split.space.symmetric or settings.search in INDEXES or not labels.round:
            return known[:0]
        scan = trainer.scores.score(scorer, trainer.split, model).scan
        lowest = float(np.float32(scorer.score_of(SURE)))
        if scan.count_reaching(np.array([lowest], np.float32))[0] > SURE_A_TEXT * len(trainer.split.left):
            return known
        pieces = [known]
        scan.collect(lowest, np.inf, lambda ids, scores: pieces.append(ids), desc="sure matches")
        return np.unique(np.concatenate(pieces))

    boundary = _boundary(settings, trainer.learner.name, shares)
    varied = settings.recipe == "best"
    margin = 0.0 if trainer.learner.name == "full" else MARGIN  # that one moves its boundary by the batches
    view = View(
        trainer.split,
        settings.task,
        search_of,
        round,
        unaskable,
        boundary,
        labels.values,
        varied,
        margin,
        reranked,
        trainer.lexical_search,
        sure_matches,
    )
    chosen = strategy.run(view, budget, generator_for(settings.seed, round, "select"))
    _check(strategy.name, chosen, budget, unaskable, trainer.split.space)
    embed = trainer.scores.watch.seconds.get("embed", 0.0)
    save_array(folder / "ids.npy", chosen.ids)
    if chosen.inclusion_probability is not None:
        save_array(folder / "chance.npy", chosen.inclusion_probability)
    info = SelectionInfo(
        why=chosen.why,
        strategy=strategy.name,
        has_chance=chosen.inclusion_probability is not None,
        search=view.searched,
        seconds={"embed": embed, "select": time.perf_counter() - began - embed},
    )
    (folder / "selection.json").write_text(json.dumps(info.as_json()))


def chosen_labels(settings: CampaignSettings, round: int) -> int:
    """The labels of a round that its strategy chooses."""
    return settings.schedule.batches()[round - 1] - settings.measuring_labels(round)


def _boundary(settings: CampaignSettings, learner: str, shares: list[float]) -> float:
    """The log-odds at which the best recipe asks: 0 by the model's own opinion, moved by the batches since.

    A batch from around the boundary should be half matches. Where a share p of it were, the boundary lies
    log(p / (1 - p)) lower than the model thinks; a model's opinion of its own training pairs hides that.
    """
    if settings.recipe != "best" or learner != "full":
        return 0.0
    clipped = np.clip(np.array(shares), 0.02, 0.98)
    return float(-np.log(clipped / (1 - clipped)).sum())


def _check(name: str, chosen: Selection, budget: int, unaskable: Ids, space: PairSpace) -> None:
    ids = chosen.ids
    good = len(ids) == budget == len(np.unique(ids)) and space.contains(ids).all()
    if not good or is_member(ids, unaskable).any():
        raise SettingsError(
            f"strategy {name!r} broke its contract: wanted {budget:,} distinct unasked pairs of the "
            f"space, got {len(ids):,}. Run pairsieve.testing.check_strategy on it."
        )


# ── what a strategy sees ─────────────────────────────────────────────────────────────────────────


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
        margin: float = 0.0,
        reranked: Callable[[], ScoredPairs | None] = lambda: None,
        lexical: Callable[[], PairSearch | None] = lambda: None,
        sure_matches: Callable[[], Ids] = lambda: np.empty(0, np.int64),
    ) -> None:
        """`search_of(pretrained)`: the search by the newest bi-encoder, or by the encoder as it came.

        `reranked()`: the candidates with the scorer's log-odds, None where it has no re-ranker. `lexical()`:
        the search by the mean of the encoder's and the lexical cosine, None where there is none.
        `sure_matches()`: see `RoundView`.
        """
        self._split, self._where, self._search_of = split, where, search_of
        self._reranked, self._lexical, self.sure_matches = reranked, lexical, sure_matches
        self.round, self.asked, self.boundary, self.varied = round, asked, boundary, varied
        self.margin = margin
        self.labels = np.empty(0, bool) if labels is None else labels
        self._numbers: tuple[Ids, Ids] | None = None
        self.searched: Searched | None = None  # how the last search was made
        self._searches: dict[bool, tuple[PairSearch, Scorer]] = {}

    @property
    def space(self) -> PairSpace:
        return self._split.space

    def best(self, count: int) -> ScoredPairs:
        return self._best(count, pretrained=self.round == 1)

    def closest(self, logit: float, count: int, fewest: int | None = None) -> ScoredPairs:
        reranked = self._reranked() if self.round > 1 else None
        if reranked is not None:
            found = reranked.without(self.asked).closest(logit, count)
            self.searched = Searched(f"re-ranker over {len(reranked):,} candidates", None)
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
                self.searched = Searched(best.method, best.recall)
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
        self.searched = Searched(found.method, found.recall)
        log_odds = scorer.log_odds(found.pairs.scores)
        return replace(found.pairs, scores=log_odds.astype(np.float32))

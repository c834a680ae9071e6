"""Chooses the pairs of a round by its strategy; the choice is an artifact, so a resumed run asks the same."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.advice import save_scores
from pairsieve.artifacts import array_digest, save_array
from pairsieve.campaign.figures import read_json
from pairsieve.campaign.training import Labels, Trainer, correction_strengths
from pairsieve.campaign.view import View
from pairsieve.contracts import Selection, generator_for
from pairsieve.errors import SettingsError
from pairsieve.pairs import Ids, PairSpace, ScoredPairs, is_member
from pairsieve.scorer import Scorer
from pairsieve.search import PairSearch
from pairsieve.settings import CampaignSettings
from pairsieve.strategies import strategy_named


def selection_folder(
    trainer: Trainer,
    settings: CampaignSettings,
    labels: Labels,
    round: int,
    unaskable: Ids,
    shares: list[float],
    more: int = 0,
) -> Path:
    """The folder of a round's pairs (`ids.npy`, `selection.json`), chosen by the scorer of `labels`.

    Where they are not chosen yet, the scorer is trained first: a strategy only asks it. shares: of matches
    in the batches of rounds 2 up to the last. more: pairs over those planned.
    """
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
    if trainer.store.find("selection", key) is None:
        trainer.scorer(labels)
    build = partial(_select, trainer, settings, labels, round, budget, unaskable, shares)
    return trainer.store.get("selection", key, build)


def selection_info(folder: Path) -> dict[str, Any]:
    """How the pairs in a selection's folder were chosen."""
    return read_json(folder / "selection.json")


def _select(
    trainer: Trainer,
    settings: CampaignSettings,
    labels: Labels,
    round: int,
    budget: int,
    unaskable: Ids,
    shares: list[float],
    folder: Path,
) -> None:
    began = time.perf_counter()
    trainer.scores.watch.seconds.clear()
    strategy = strategy_named(settings.strategy)
    if round == 1 and strategy.needs_model:
        strategy = strategy_named(settings.first_strategy)

    def search_of(pretrained: bool) -> tuple[PairSearch, Scorer]:
        """The search by the newest bi-encoder, or by the encoder as it came."""
        used = Labels(labels.ids[:0], labels.values[:0], 0) if pretrained else labels
        scorer = trainer.bi_encoder(used)
        return trainer.scores.search(scorer, trainer.model_key(used), used.round), scorer

    def reranked() -> ScoredPairs | None:
        """The candidates with the scorer's log-odds; None where it has no re-ranker."""
        scorer = trainer.scorer(labels)
        if scorer.reranker is None:
            return None
        scored = trainer.scores.score(scorer, trainer.split, trainer.model_key(labels))
        log_odds = scorer.log_odds(scored.scan.scores(scored.candidates))
        return ScoredPairs(scored.candidates, log_odds.astype(np.float32))

    boundary = _boundary(settings, trainer.learner.name, shares)
    varied = settings.recipe == "best"
    view = View(
        trainer.split,
        settings.task,
        search_of,
        round,
        unaskable,
        boundary,
        labels.values,
        varied,
        reranked,
        trainer.lexical_search,
    )
    chosen = strategy.run(view, budget, generator_for(settings.seed, round, "select"))
    _check(strategy.name, chosen, budget, unaskable, trainer.split.space)
    embed = trainer.scores.watch.seconds.get("embed", 0.0)
    save_array(folder / "ids.npy", chosen.ids)
    by_model = view.by_model()
    if by_model is not None and hasattr(by_model[0], "counts"):
        save_scores(folder, by_model[0], chosen.ids, unaskable)
    if chosen.inclusion_probability is not None:
        save_array(folder / "chance.npy", chosen.inclusion_probability)
    info = {
        "why": chosen.why,
        "strategy": strategy.name,
        "has_chance": chosen.inclusion_probability is not None,
        "search": view.searched,
        "seconds": {"embed": embed, "select": time.perf_counter() - began - embed},
    }
    (folder / "selection.json").write_text(json.dumps(info))


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

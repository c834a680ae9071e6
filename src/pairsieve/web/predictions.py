"""Predictions of the latest model for the page: written by the process that trains, read here.

The page's own process never loads a model. After a round the process that trained it writes one small file
with its score of every pair asked (a probability, where one is stated), and of the few pairs it is
surest match that nobody was asked about. The page shows it only to people who want to see it; the dashboard
sets it beside the labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.campaign import Campaign
from pairsieve.campaign.figures import ChecksummedFile, write_checksummed
from pairsieve.campaign.probability import calibrated_scorer
from pairsieve.campaign.questions import unaskable_pairs
from pairsieve.pairs import Scores
from pairsieve.scorer import ScoredSpace, Scorer
from pairsieve.search import ExactSearch

MOST_TEXTS = 20_000  # beyond this, embedding texts only to show predictions would keep people waiting
MOST_PAIRS = 300_000_000  # likewise for looking through all pairs, about a second a hundred million
UNSEEN = 50  # surest matches kept that nobody was asked about


def predictions_file(folder: Path) -> Path:
    return folder / "rounds" / "predictions.json"


def write_predictions(campaign: Campaign) -> int:
    """Write what the latest measured round's model thinks of every pair asked; returns how many pairs."""
    measured = campaign.figures()
    ids = campaign.ledger.asked()
    if not measured or not len(ids):
        return 0
    number, part = max(measured), campaign.split
    if not campaign.labels(number).round:  # every answer is "unsure": there is no model
        return 0
    frozen = campaign.trainer.learner.uses_frozen_rows  # rows are at hand: the encoder ran once
    if not frozen and len(part.left) + len(part.right) > MOST_TEXTS:
        return 0
    scored = campaign.score(part, number)
    scorer = calibrated_scorer(campaign, number)
    scores = scored.scan.scores(ids)
    shown = [round(p, 6) for p in _match_score(scorer, scores).tolist()]
    row = {"round": number, "pairs": ids.tolist(), "match_score": shown}
    row["calibrated"] = (~np.isnan(scorer.probabilities(scores))).tolist()
    if part.space.size <= MOST_PAIRS:
        row["unseen"] = _unseen(campaign, scored, scorer)
    write_checksummed(predictions_file(campaign.folder), row)
    return len(ids)


def _match_score(scorer: Scorer, scores: Scores) -> Any:
    """Probabilities, or, where none is stated, scores from 0 to 1."""
    stated = scorer.probabilities(scores)
    return np.where(np.isnan(stated), scorer.head_probability(scores), stated)


def _unseen(campaign: Campaign, scored: ScoredSpace, scorer: Scorer) -> list[tuple[int, float, bool]]:
    """(pair, match_score, whether that is a probability) of the surest matches that nobody was asked about,
    the surest first.

    Pairs whose label follows from others are left out. Only those more likely a match than not; equal ones by
    the smaller id.
    """
    known = unaskable_pairs(campaign.ledger, scored.space, campaign.settings.transitivity)
    count = min(UNSEEN, scored.space.size - len(known))
    if count < 1:
        return []
    best = ExactSearch(scored.scan).best(count, known).pairs
    match_score, stated = _match_score(scorer, best.scores), ~np.isnan(scorer.probabilities(best.scores))
    order = np.argsort(-best.scores, kind="stable")  # ids ascend; many pairs have one probability
    return [
        (int(best.ids[at]), round(float(match_score[at]), 6), bool(stated[at]))
        for at in order
        if match_score[at] > 0.5
    ]


class Predictions:
    """The file above, read again when it changes."""

    def __init__(self, folder: Path) -> None:
        self._file = ChecksummedFile(predictions_file(folder))
        self._by_pair: tuple[dict[str, Any], dict[int, float]] = ({}, {})  # the row it was made of, first
        self._calibrated: dict[int, bool] = {}

    def of(self, pair: int) -> dict[str, float | None]:
        """What the page shows of how likely the model holds a match."""
        match_score = self.by_pair().get(pair)
        return self.shown(match_score, self._calibrated.get(pair, False))

    def shown(self, match_score: float | None, calibrated: bool) -> dict[str, float | None]:
        """A match score as what it is: a probability if calibrated, else a model score from 0 to 1."""
        return {
            "probability": match_score if calibrated else None,
            "model_score": None if calibrated else match_score,
        }

    def by_pair(self) -> dict[int, float]:
        """The model's match score of every pair asked."""
        row = self._file.row()
        if row is not self._by_pair[0]:
            pairs, calibrated = row.get("pairs", ()), row.get("calibrated")
            self._by_pair = (row, dict(zip(pairs, row.get("match_score", ()))))
            # A file of an earlier form has one word for all.
            self._calibrated = dict(zip(pairs, calibrated)) if isinstance(calibrated, list) else {}
        return self._by_pair[1]

    def unseen(self) -> list[tuple[int, float, bool]] | None:
        """The surest matches that nobody was asked about, and whether their score is a probability; None
        where no model looked for them."""
        found = self._file.row().get("unseen")
        if found is None or any(len(each) != 3 for each in found):
            return None
        return [(int(pair), float(match_score), bool(stated)) for pair, match_score, stated in found]

"""Predictions of the latest model for the page: written by the process that trains, read here.

The page's own process never loads a model. After a round the process that trained it writes one small file
with its score of every pair asked (a probability, where it is calibrated), and of the few pairs it is
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
    frozen = campaign.trainer.learner.uses_frozen_rows  # rows are at hand: the encoder ran once
    if not frozen and len(part.left) + len(part.right) > MOST_TEXTS:
        return 0
    scored = campaign.score(part, number)
    scorer = calibrated_scorer(campaign, number)
    scores = _match_score(scorer, scored.scan.scores(ids))
    row = {"round": number, "pairs": ids.tolist(), "match_score": [round(p, 6) for p in scores.tolist()]}
    row["calibrated"] = scorer.calibrated
    if part.space.size <= MOST_PAIRS:
        row["unseen"] = _unseen(campaign, scored, scorer)
    write_checksummed(predictions_file(campaign.folder), row)
    return len(ids)


def _match_score(scorer: Scorer, scores: Scores) -> Any:
    """Probabilities, or, where nothing calibrates them, scores from 0 to 1."""
    return scorer.probabilities(scores) if scorer.calibrated else scorer.head_probability(scores)


def _unseen(campaign: Campaign, scored: ScoredSpace, scorer: Scorer) -> list[tuple[int, float]]:
    """(pair, match_score) of the surest matches that nobody was asked about, the surest first.

    Pairs whose label follows from others are left out. Only those more likely a match than not; equal ones by
    the smaller id.
    """
    known = unaskable_pairs(campaign.ledger, scored.space, campaign.settings.transitivity)
    count = min(UNSEEN, scored.space.size - len(known))
    if count < 1:
        return []
    best = ExactSearch(scored.scan).best(count, known).pairs
    match_score = _match_score(scorer, best.scores)
    order = np.argsort(-match_score, kind="stable")  # ids ascend
    return [(int(best.ids[at]), round(float(match_score[at]), 6)) for at in order if match_score[at] > 0.5]


class Predictions:
    """The file above, read again when it changes."""

    def __init__(self, folder: Path) -> None:
        self._file = ChecksummedFile(predictions_file(folder))
        self._by_pair: tuple[dict[str, Any], dict[int, float]] = ({}, {})  # the row it was made of, first

    def of(self, pair: int) -> dict[str, float | None]:
        """What the page shows of how likely the model holds a match."""
        return self.shown(self.by_pair().get(pair))

    def shown(self, match_score: float | None) -> dict[str, float | None]:
        """A match score as what it is: a probability if calibrated, else a model score from 0 to 1."""
        calibrated = bool(self._file.row().get("calibrated"))
        return {
            "probability": match_score if calibrated else None,
            "model_score": None if calibrated else match_score,
        }

    def by_pair(self) -> dict[int, float]:
        """The model's match score of every pair asked."""
        row = self._file.row()
        if row is not self._by_pair[0]:
            self._by_pair = (row, dict(zip(row.get("pairs", ()), row.get("match_score", ()))))
        return self._by_pair[1]

    def unseen(self) -> list[tuple[int, float]] | None:
        """The surest matches that nobody was asked about; None where no model looked for them."""
        found = self._file.row().get("unseen")
        return None if found is None else [(int(pair), float(match_score)) for pair, match_score in found]

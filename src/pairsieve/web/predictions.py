"""Predictions of the latest model for the page: written by the process that trains, read here.

The page's own process never loads a model. After a round the process that trained it writes one small file
with the probability of every pair asked, and of the few pairs it is surest match that nobody was asked about.
The page shows it only to people who want to see it; the dashboard sets it beside the labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pairsieve.campaign.figures import read_sealed, write_sealed

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign
    from pairsieve.scorer import ScoredSpace

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
    probability = scored.scorer.probabilities(scored.scan.scores(ids))
    row = {"round": number, "pairs": ids.tolist(), "probability": [round(p, 6) for p in probability.tolist()]}
    if part.space.size <= MOST_PAIRS:
        row["unseen"] = _unseen(campaign, scored)
    write_sealed(predictions_file(campaign.folder), row)
    return len(ids)


def _unseen(campaign: Campaign, scored: ScoredSpace) -> list[tuple[int, float]]:
    """(pair, probability) of the surest matches that nobody was asked about, the surest first.

    Pairs whose label follows from others are left out. Only those more likely a match than not; equal
    probabilities by the smaller id.
    """
    from pairsieve.campaign.questions import unaskable_pairs
    from pairsieve.search import ExactSearch

    known = unaskable_pairs(campaign.ledger, scored.space, campaign.settings.transitivity)
    count = min(UNSEEN, scored.space.size - len(known))
    if count < 1:
        return []
    best = ExactSearch(scored.scan).best(count, known).pairs
    probability = scored.scorer.probabilities(best.scores)
    order = np.argsort(-probability, kind="stable")  # ids ascend
    return [(int(best.ids[at]), round(float(probability[at]), 6)) for at in order if probability[at] > 0.5]


class Predictions:
    """The file above, read again when it changes."""

    def __init__(self, folder: Path) -> None:
        self._file = predictions_file(folder)
        self._read: tuple[int, int] | None = None  # when it was written, and its size
        self._by_pair: dict[int, float] = {}
        self._unseen: list[tuple[int, float]] | None = None

    def of(self, pair: int) -> float | None:
        """The model's probability that the pair matches, or None where none is on file."""
        return self.by_pair().get(pair)

    def by_pair(self) -> dict[int, float]:
        """The model's probability of every pair asked."""
        self._look()
        return self._by_pair

    def unseen(self) -> list[tuple[int, float]] | None:
        """The surest matches that nobody was asked about; None where no model looked for them."""
        self._look()
        return self._unseen

    def _look(self) -> None:
        try:
            found = self._file.stat()
        except OSError:
            return
        if self._read != (found.st_mtime_ns, found.st_size):
            self._read = (found.st_mtime_ns, found.st_size)
            row = read_sealed(self._file) or {"pairs": [], "probability": []}
            self._by_pair = dict(zip(row["pairs"], row["probability"]))
            self._unseen = [(int(pair), float(p)) for pair, p in row["unseen"]] if "unseen" in row else None

"""Who answered, and how far do they agree?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairsieve.campaign import Campaign
from pairsieve.contracts import Estimate, generator_for
from pairsieve.measure.agreement import MISSING, alpha_estimate


@dataclass(frozen=True, eq=False)
class People:
    """Who answered, and how far they agree."""

    answers: dict[str, dict[str, int]]  # who -> match, no_match, unsure
    agreement: Estimate | None  # Krippendorff's α; None where fewer than two answered the same pairs
    disputed: int


def people_of(campaign: Campaign) -> People | None:
    """Who answered; None where only the task's own truth did."""
    said = campaign.ledger.answers_by_person()
    if not set(said) - {"truth"}:
        return None
    answers = {
        who: {
            "match": sum(label == 1 for label in given.values()),
            "no_match": sum(label == 0 for label in given.values()),
            "unsure": sum(label is None for label in given.values()),
        }
        for who, given in sorted(said.items())
    }
    names = sorted(said)
    pairs = sorted({pair for given in said.values() for pair in given})
    place = {pair: at for at, pair in enumerate(pairs)}
    ratings = np.full((len(pairs), len(names)), MISSING, np.int64)
    for column, who in enumerate(names):
        for pair, label in said[who].items():
            ratings[place[pair], column] = MISSING if label is None else label
    compared = ratings[(ratings != MISSING).sum(axis=1) >= 2]
    agreement = None
    if len(compared):
        repeats = min(1000, max(100, 20_000_000 // len(compared)))  # all of them stand in memory at once
        found = alpha_estimate(compared, generator_for(campaign.settings.seed, 0, "report"), repeats)
        agreement = None if math.isnan(found.value) else found
    return People(answers, agreement, len(campaign.ledger.disputed()))

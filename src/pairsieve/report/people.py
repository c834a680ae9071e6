"""Who answered, how much, and inter-annotator agreement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.campaign import Campaign
from pairsieve.contracts import Estimate, generator_for
from pairsieve.ledger.names import RESERVED
from pairsieve.measure.agreement import MISSING, alpha_estimate

KINDS = {"match": 1, "no_match": 0, "unsure": None}


@dataclass(frozen=True, eq=False)
class People:
    """Who answered, and how far they agree."""

    answers: dict[str, dict[str, int]]  # who -> match, no_match, unsure
    agreement: Estimate | None  # Krippendorff's α; None where fewer than two answered the same pairs
    disputed: int


def people_of(campaign: Campaign) -> People | None:
    """Who answered; None where only the task's own truth did."""
    by_person = campaign.ledger.answers_by_person()
    if not set(by_person) - RESERVED:
        return None
    answers, votes = {}, dict[int, dict[str, int | None]]()
    for who, given in sorted(by_person.items()):
        answers[who] = {kind: list(given.values()).count(label) for kind, label in KINDS.items()}
        for pair, label in given.items():
            votes.setdefault(pair, {})[who] = label
    ratings = ratings_table([votes[pair] for pair in sorted(votes)])
    compared = ratings[(ratings != MISSING).sum(axis=1) >= 2]
    agreement = None
    if len(compared):
        repeats = min(1000, max(100, 20_000_000 // len(compared)))  # all of them stand in memory at once
        found = alpha_estimate(compared, generator_for(campaign.settings.seed, 0, "report"), repeats)
        agreement = None if math.isnan(found.value) else found
    return People(answers, agreement, len(campaign.ledger.disputed()))


def ratings_table(votes: Sequence[Mapping[str, int | None]]) -> NDArray[np.int64]:
    """(pairs, people): the label of each pair by each person, by name; MISSING where unsure or not given."""
    names = sorted({name for given in votes for name in given})
    labels = [[given.get(name) for name in names] for given in votes]
    rows = [[MISSING if label is None else label for label in row] for row in labels]
    return np.array(rows, np.int64).reshape(len(votes), len(names))

"""What does the latest model think of the pairs that were asked? Written by the rounds' process, read here.

The page's own process never loads a model. After a round the process that trained it writes one small file
with the probability of every pair asked; the page shows it only to people who want to see it, and the
dashboard sets it beside the labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pairsieve.campaign.figures import read_sealed, write_sealed
from pairsieve.pairs import pair_rows

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign

MOST_TEXTS = 20_000  # beyond this, embedding texts only to show opinions would keep people waiting


def opinions_file(folder: Path) -> Path:
    return folder / "rounds" / "opinions.json"


def write_opinions(campaign: Campaign) -> int:
    """Write what the latest measured round's model thinks of every pair asked; returns how many pairs."""
    from pairsieve.models import ProjectionMatcher

    measured = campaign.figures()
    ids = campaign.ledger.asked()
    if not measured or not len(ids):
        return 0
    number, part = max(measured), campaign.split
    matcher = campaign.matcher(number)
    left, right = pair_rows(ids)
    if isinstance(matcher, ProjectionMatcher):  # its rows are at hand: the encoder ran once, before round 1
        mine, yours = campaign.embeddings(matcher, part, number)
        rows = mine[left], (mine if yours is None else yours)[right]
    else:
        lefts, rights = np.unique(left), np.unique(right)
        if len(lefts) + len(rights) > MOST_TEXTS:
            return 0
        a = matcher.embed([part.left.texts[r] for r in lefts.tolist()], "left")
        b = matcher.embed([part.right.texts[r] for r in rights.tolist()], "right")
        rows = a[np.searchsorted(lefts, left)], b[np.searchsorted(rights, right)]
    cosines = np.einsum("ij,ij->i", np.asarray(rows[0], np.float64), np.asarray(rows[1], np.float64))
    logits = np.clip(matcher.weight * cosines + matcher.bias, -50, 50)
    probability = 1 / (1 + np.exp(-logits))
    write_sealed(
        opinions_file(campaign.folder),
        {"round": number, "pairs": ids.tolist(), "probability": [round(p, 6) for p in probability.tolist()]},
    )
    return len(ids)


class Opinions:
    """The file above, read again when it changes."""

    def __init__(self, folder: Path) -> None:
        self._file = opinions_file(folder)
        self._read: tuple[int, int] | None = None
        self._by_pair: dict[int, float] = {}

    def of(self, pair: int) -> float | None:
        """The model's probability that the pair matches, or None where it has no opinion on file."""
        return self.by_pair().get(pair)

    def by_pair(self) -> dict[int, float]:
        """The model's probability of every pair on file."""
        try:
            found = self._file.stat()
        except OSError:
            return {}
        if self._read != (found.st_mtime_ns, found.st_size):
            self._read = (found.st_mtime_ns, found.st_size)
            row = read_sealed(self._file)
            self._by_pair = dict(zip(row["pairs"], row["probability"])) if row else {}
        return self._by_pair

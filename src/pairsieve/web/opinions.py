"""What does the latest model think? Written by the rounds' process, read here.

The page's own process never loads a model. After a round the process that trained it writes one small file
with the probability of every pair asked, and of the few pairs it is surest match that nobody was asked about.
The page shows it only to people who want to see it; the dashboard sets it beside the labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pairsieve.campaign.figures import read_sealed, write_sealed
from pairsieve.pairs import pair_rows

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign

MOST_TEXTS = 20_000  # beyond this, embedding texts only to show opinions would keep people waiting
MOST_PAIRS = 300_000_000  # likewise for looking through all pairs, about a second a hundred million
UNSEEN = 50  # surest matches kept that nobody was asked about


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
    matcher: Any = campaign.matcher(number)
    left, right = pair_rows(ids)
    if isinstance(matcher, ProjectionMatcher):  # its rows are at hand: the encoder ran once, before round 1
        mine, yours = campaign.embeddings(matcher, part, number)
        rows = mine[left], (mine if yours is None else yours)[right]
    else:
        lefts, rights = np.unique(left), np.unique(right)
        if len(lefts) + len(rights) > MOST_TEXTS:
            return 0
        matcher = campaign.plain_matcher(number)  # rivals would take embedding every text
        a = matcher.embed([part.left.texts[r] for r in lefts.tolist()], "left")
        b = matcher.embed([part.right.texts[r] for r in rights.tolist()], "right")
        rows = a[np.searchsorted(lefts, left)], b[np.searchsorted(rights, right)]
    cosines = np.einsum("ij,ij->i", np.asarray(rows[0], np.float64), np.asarray(rows[1], np.float64))
    logits = np.clip(matcher.weight * cosines + matcher.bias, -50, 50)
    probability = 1 / (1 + np.exp(-logits))
    row = {"round": number, "pairs": ids.tolist(), "probability": [round(p, 6) for p in probability.tolist()]}
    if isinstance(matcher, ProjectionMatcher) and part.space.size <= MOST_PAIRS:
        row["unseen"] = _unseen(campaign, number)
    write_sealed(opinions_file(campaign.folder), row)
    return len(ids)


def _unseen(campaign: Campaign, number: int) -> list[tuple[int, float]]:
    """(pair, probability) of the surest matches that nobody was asked about, the surest first.

    Pairs whose label follows from others are left out. Only those more likely a match than not; equal
    probabilities by the smaller id.
    """
    from pairsieve.campaign.guidance import known_pairs
    from pairsieve.campaign.view import View

    part, told = campaign.split, campaign.settings
    known = known_pairs(campaign.ledger, part.space, told.transitivity)
    best = View(part, told.task, campaign.search, number + 1, known).best(UNSEEN)
    logits = np.clip(best.scores.astype(np.float64), -50, 50)
    probability = 1 / (1 + np.exp(-logits))
    order = np.argsort(-logits, kind="stable")  # ids ascend
    return [(int(best.ids[at]), round(float(probability[at]), 6)) for at in order if logits[at] > 0]


class Opinions:
    """The file above, read again when it changes."""

    def __init__(self, folder: Path) -> None:
        self._file = opinions_file(folder)
        self._read: tuple[int, int] | None = None
        self._by_pair: dict[int, float] = {}
        self._unseen: list[tuple[int, float]] | None = None

    def of(self, pair: int) -> float | None:
        """The model's probability that the pair matches, or None where it has no opinion on file."""
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

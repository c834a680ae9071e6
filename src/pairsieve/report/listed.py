"""The list and the groups of a campaign, and the pairs in most doubt with what made their score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pairsieve.campaign import Campaign
from pairsieve.matches.review import review_list
from pairsieve.pairs import is_member
from pairsieve.scorer.waterfall import Step, waterfalls
from pairsieve.tasks.joined import without_gaps

SHOWN = 5  # pairs in most doubt
MOST_PAIRS = 300_000_000  # of a space that is looked through for a list


@dataclass(frozen=True)
class DoubtfulPair:
    """A pair near the threshold, or one whose score goes against the list."""

    keys: tuple[str, str]
    texts: tuple[str, str]
    listed: bool
    match_score: float
    calibrated: bool  # whether that is a probability
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Listed:
    """What `match` and `cluster` give with their defaults."""

    split: str
    threshold: float
    matches: int
    groups: int  # of two texts or more; 0 for two collections
    sizes: dict[int, int]  # {texts of a group: how many groups}
    doubtful: tuple[DoubtfulPair, ...]


def listed(campaign: Campaign) -> Listed | None:
    """The default list of the campaign's own split; None where it is too large to look through."""
    split = campaign.split
    if split.space.size > MOST_PAIRS:
        return None
    found = review_list(campaign)
    known = np.concatenate([campaign.ledger.labels(purpose)[0] for purpose in ("train", "audit")])
    open_pairs = np.flatnonzero(~is_member(found.ids, np.sort(known)))[:SHOWN]
    ids = found.ids[open_pairs]
    left, right = split.keys(ids)
    texts = [[without_gaps(text) for text in side] for side in split.texts(ids)]
    steps = waterfalls(found.scored, split, ids)
    shown = [
        DoubtfulPair(
            (left[at], right[at]),
            (texts[0][at], texts[1][at]),
            bool(found.listed[pair]),
            float(found.match_score[pair]),
            bool(found.calibrated[pair]),
            steps[at],
        )
        for at, pair in enumerate(open_pairs.tolist())
    ]
    sizes: dict[int, int] = {}
    for members, _, _ in found.groups:
        sizes[len(members)] = sizes.get(len(members), 0) + 1
    return Listed(
        split.name,
        found.threshold,
        found.matches,
        found.all_groups,
        dict(sorted(sizes.items())),
        tuple(shown),
    )

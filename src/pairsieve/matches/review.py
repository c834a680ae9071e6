"""What a person should look at in the default list: pairs and groups in the order of doubt.

The margin of a pair is how far its score stands on the right side of the threshold: above it where the pair
is listed, below it where it is not. It is negative where the list goes against the score: a pair that is
listed because of its group, or left out because of it. Labelled pairs come last. The doubt of a
group is the least margin inside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.matches.find import ranked_list
from pairsieve.matches.group_table import find_groups, pairs_inside_groups
from pairsieve.pairs import Ids, Mask, Rows, is_member, pair_rows
from pairsieve.scorer import ScoredSpace
from pairsieve.search import ExactSearch

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign

MOST_PAIRS = 4000  # kept, the most doubtful
MOST_GROUPS = 2000  # likewise
MOST_MEMBERS = 60  # of a group that is shown to be confirmed or split


@dataclass(frozen=True, eq=False)
class ReviewList:
    """Pairs and groups of a campaign's own split, the most doubtful first.

    ids, scores, listed (n,): pairs, and whether they are in the list. match_score (n,): the probability of a
    match where `calibrated` (n,), else a score from 0 to 1. groups: members, the least sure pair inside, and
    the best pair with a text outside, None for none.
    """

    round: int
    threshold: float
    ids: Ids
    scores: NDArray[np.float32]
    listed: Mask
    match_score: NDArray[np.float64]
    calibrated: Mask
    matches: int  # pairs of the whole list
    groups: tuple[tuple[list[int], int, int | None], ...]
    all_groups: int
    scored: ScoredSpace  # what the scores are from

    def as_json(self) -> dict[str, Any]:
        return {
            "round": self.round,
            "threshold": self.threshold,
            "pairs": self.ids.tolist(),
            "match_score": [round(each, 6) for each in self.match_score.tolist()],
            "calibrated": self.calibrated.tolist(),
            "listed": self.listed.tolist(),
            "matches": self.matches,
            "groups": [list(group) for group in self.groups],
            "all_groups": self.all_groups,
        }


def review_list(campaign: Campaign) -> ReviewList:
    """The default list of the campaign's own split, as somebody should look through it."""
    split = campaign.split
    of_round, ranking, known, point, probability = ranked_list(campaign, split)
    scan, threshold = ranking.scored.scan, point.threshold
    count = min(MOST_PAIRS, split.space.size)
    near = ExactSearch(scan).closest(threshold, count, np.empty(0, np.int64)).pairs.ids
    group = None
    if split.space.symmetric and campaign.task.relation == "equivalence":
        group, _ = find_groups(ranking, threshold, known)
        (inside,) = pairs_inside_groups(ranking, group, known)
        listed = np.sort(inside.ids)
    else:
        pieces = [known.matches]
        ranking.collect(threshold, 1e30, lambda ids, scores: pieces.append(ids))
        listed = np.unique(np.concatenate(pieces))
        listed = listed[~is_member(listed, known.others)]
    ids = np.union1d(near, listed)
    scores = scan.scores(ids)
    is_listed = is_member(ids, listed)
    margin = np.where(is_listed, 1.0, -1.0) * (scores.astype(np.float64) - threshold)
    margin[is_member(ids, known.ids)] = np.inf  # somebody has said what they are
    first = np.lexsort((ids, margin))[:MOST_PAIRS]
    groups: list[tuple[list[int], int, int | None]] = []
    if group is not None:
        groups = _groups(group, ids, scores, margin, is_listed)
    match_score = ranking.scorer.head_probability(scores[first])
    stated = np.full(len(first), np.nan) if probability is None else probability(scores[first])
    return ReviewList(
        of_round,
        float(threshold),
        ids[first],
        scores[first],
        is_listed[first],
        np.where(np.isnan(stated), match_score, stated),
        ~np.isnan(stated),
        len(listed),
        tuple(groups[:MOST_GROUPS]),
        len(groups),
        ranking.scored,
    )


def _groups(
    group: Rows, ids: Ids, scores: NDArray[np.float32], margin: NDArray[np.float64], listed: Mask
) -> list[tuple[list[int], int, int | None]]:
    """(members, the pair of least margin inside, the best pair with a text outside), the least sure first."""
    left, right = pair_rows(ids)
    inside = group[left] == group[right]
    weakest: dict[int, int] = {}
    for at in np.flatnonzero(inside)[np.argsort(margin[inside], kind="stable")].tolist():
        weakest.setdefault(int(group[left[at]]), at)
    outside: dict[int, int] = {}
    unlisted = ~inside & ~listed
    for at in np.flatnonzero(unlisted)[np.argsort(-scores[unlisted], kind="stable")].tolist():
        for row in (left[at], right[at]):
            outside.setdefault(int(group[row]), at)
    members: dict[int, list[int]] = {}
    for row, number in enumerate(group.tolist()):
        if number in weakest:
            members.setdefault(number, []).append(row)
    order = sorted(weakest, key=lambda number: (margin[weakest[number]], number))
    return [
        (members[number], int(ids[weakest[number]]), int(ids[outside[number]]) if number in outside else None)
        for number in order
    ]

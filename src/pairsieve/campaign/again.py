"""What does a second look make of a round's candidates? (`second_look.py` says what that is.)

Candidates are the nearest of each text, from either side, and every labelled pair. The trees learn from the
campaign's own split; another split, or a new collection, is described in the same columns and judged by them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairsieve import second_look
from pairsieve.pairs import CrossPairs, Ids, ScoredPairs, Scores, pair_rows
from pairsieve.tasks import Split

if TYPE_CHECKING:
    from pairsieve.campaign.loop import Campaign

NEAREST = 10  # candidates a text, from its own side

MoreColumns = Callable[[Ids], Sequence[NDArray[np.floating]]]


def _no_more(ids: Ids) -> Sequence[NDArray[np.floating]]:
    return ()


@dataclass(frozen=True, eq=False)
class Described:
    """Candidate pairs of a split, sorted by id: the first look's cosines and the second look's columns."""

    ids: Ids
    scores: Scores
    features: second_look.Features


@dataclass(frozen=True, eq=False)
class Taught:
    """A second look fitted to the labels of a round.

    `held_out` (n,): the labelled pairs' logits, each from trees that had not seen its left text;
    `first` (n,): their cosines by the first look.
    """

    trees: second_look.SecondLook
    labelled: Ids
    labels: NDArray[np.bool_]
    held_out: second_look.Logits
    first: Scores
    described: Described  # the candidates of the campaign's own split


def describe_split(
    campaign: Campaign, number: int, part: Split, also: Ids | None = None, more: MoreColumns = _no_more
) -> Described:
    """The candidates of a split by a round's matcher, and the pairs `also` (any order), described.

    `more(ids)`: further scores of the candidates, such as a cross-encoder's, each with rivals of its own.
    """
    space = part.space
    # Plain cosines: rivals are among the columns of the description.
    left, right = campaign.plain_embeddings(campaign.plain_matcher(number), part, number)
    scan = campaign.plain_scan(space, left, right)
    found, _ = scan.neighbours(min(NEAREST, space.shape[1] - space.symmetric), words="second look")
    back = None
    if right is not None:
        turned = campaign.plain_scan(CrossPairs(*space.shape[::-1]), right, left)
        back, _ = turned.neighbours(min(NEAREST, space.shape[0]), words="second look")
    ids = second_look.candidates(space, found, back)
    if also is not None:
        ids = np.union1d(ids, also)
    scores = scan.scores(ids)
    return Described(ids, scores, second_look.describe(_wording(part), ids, scores, more(ids)))


def teach(campaign: Campaign, number: int, folds: bool = True, more: MoreColumns = _no_more) -> Taught | None:
    """The second look that the labels up to a round make; None where they are too few of one class.

    Without `folds` no held-out logits are made: they are empty.
    """
    ids, labels = campaign.ledger.labels(through=number)
    if not second_look.enough(labels):
        return None
    seed = campaign.settings.seed
    mine = describe_split(campaign, number, campaign.split, ids, more)
    at = second_look.rows_of(ids, mine.ids)
    held_out = np.empty(0, np.float64)
    if folds:
        held_out = second_look.held_out_logits(mine.features[at], labels, pair_rows(ids)[0], seed)
    trees = second_look.fit(mine.features[at], labels, seed)
    return Taught(trees, ids, labels, held_out, mine.scores[at], mine)


def look_again(campaign: Campaign, number: int) -> ScoredPairs | None:
    """The candidates of the campaign's split with the second look's logits, labelled pairs among them."""
    taught = teach(campaign, number, folds=False)
    if taught is None:
        return None
    logits = taught.trees.logits(taught.described.features)
    return ScoredPairs(taught.described.ids, logits.astype(np.float32))


@lru_cache(maxsize=2)
def _wording(part: Split) -> second_look.Wording:
    """Splits are compared by identity, so the texts of one are taken apart once a run."""
    return second_look.wording(part.space, part.left.texts, part.right.texts)

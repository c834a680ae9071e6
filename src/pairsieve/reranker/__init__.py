"""The re-ranker: a second model over candidate pairs, those the bi-encoder finds nearest.

Boosted trees (`trees.py`) over how the texts of a pair agree word by word and how the pair stands beside its
competitors (`features.py`); where asked for, a cross-encoder's logits are among the columns. `fit.py` fits
it to labels, with out-of-fold logits for its calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import CrossPairs, Ids, PairSpace
from pairsieve.reranker.features import TextReader, Vocabulary, describe
from pairsieve.reranker.trees import Features, Logits, Trees

if TYPE_CHECKING:
    from pairsieve.models import CrossMatcher
    from pairsieve.scan import Scan

    ScanOf = Callable[[PairSpace, NDArray[np.float32], NDArray[np.float32] | None], Scan]

NEIGHBOURS = 10  # candidates of a text, from its own side


@dataclass(frozen=True, eq=False)
class Reranker:
    """Gives a candidate pair its log-odds: `weight · (logit of the trees) + bias`.

    weight, bias: the calibration, fitted to out-of-fold logits. cross_encoders: each trained without some
    left texts; the mean of their logits is a column. A pair is a candidate where one of its texts is among
    the `neighbours` nearest of the other by plain cosine.
    """

    trees: Trees
    vocabulary: Vocabulary
    weight: float = 1.0
    bias: float = 0.0
    neighbours: int = NEIGHBOURS
    cross_encoders: tuple[CrossMatcher, ...] = ()

    def log_odds(self, features: Features) -> Logits:
        return self.weight * self.trees.logits(features) + self.bias


def find_candidates(
    scan_of: ScanOf,
    space: PairSpace,
    left: NDArray[np.float32],
    right: NDArray[np.float32] | None,
    neighbours: int = NEIGHBOURS,
    also: Ids | None = None,
) -> tuple[Ids, NDArray[np.float32]]:
    """The candidates by plain cosine of unit rows, and the pairs `also` (any order); ids and cosines."""
    scan = scan_of(space, left, right)
    found, _ = scan.neighbours(min(neighbours, space.shape[1] - space.symmetric), desc="candidates")
    lists = [_neighbour_ids(space, found, flipped=False)]
    if right is not None:
        turned = scan_of(CrossPairs(*space.shape[::-1]), right, left)
        back, _ = turned.neighbours(min(neighbours, space.shape[0]), desc="candidates")
        lists.append(_neighbour_ids(space, back, flipped=True))
    if also is not None:
        lists.append(also)
    ids = np.unique(np.concatenate(lists))
    return ids, scan.scores(ids)


def cross_logits(
    cross_encoders: Sequence[CrossMatcher], left_texts: Sequence[str], right_texts: Sequence[str], ids: Ids
) -> list[NDArray[np.float64]]:
    """One column: the mean logit of the cross-encoders; none without any."""
    if not cross_encoders:
        return []
    each = [one.logits(left_texts, right_texts, ids) for one in cross_encoders]
    return [np.asarray(np.mean(each, axis=0), np.float64)]


def rerank(
    reranker: Reranker,
    scan_of: ScanOf,
    space: PairSpace,
    texts: tuple[Sequence[str], Sequence[str]],
    left: NDArray[np.float32],
    right: NDArray[np.float32] | None,
) -> dict[str, NDArray[Any]]:
    """Every candidate of a space: `ids` (n,), sorted, and the re-ranker's `log_odds` (n,)."""
    ids, cosines = find_candidates(scan_of, space, left, right, reranker.neighbours)
    pieces = TextReader(reranker.vocabulary).take_apart(space, *texts)
    more = cross_logits(reranker.cross_encoders, *texts, ids)
    return {"ids": ids, "log_odds": reranker.log_odds(describe(pieces, ids, (cosines, *more)))}


def _neighbour_ids(space: PairSpace, found: NDArray[np.int64], flipped: bool) -> Ids:
    """Pairs of neighbours: `found` (n, k) of each left row, or of each right row if `flipped`; -1 is none."""
    own = np.broadcast_to(np.arange(len(found))[:, None], found.shape)
    real = (found >= 0) & ((found != own) if space.symmetric else True)
    one, other = own[real], found[real]
    return space.ids(other, one) if flipped else space.ids(one, other)

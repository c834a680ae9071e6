"""Truth from stated pairs: transitive closure, contradictions, and splits by connected components.

One rule settles every contradiction: **positives win**. A pair stated both ways is positive; a stated
negative that the closure of the positives joins is positive. Both are counted in the task's report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError
from pairsieve.pairs import Ids, Rows, is_member, pair_ids, pair_rows, same_cluster
from pairsieve.tasks.task import Collection, Split, split_of

SPLIT_NAMES = {2: ("train", "test"), 3: ("train", "dev", "test")}
MOST_CLOSED_PAIRS = 250_000_000  # 2 GB of ids; beyond it the "matches" join nearly everything


def components(count: int, left: Rows, right: Rows) -> Rows:
    """Number of the connected component of each of `count` nodes under the edges left[i]–right[i]."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    if count == 0:
        return np.empty(0, np.int64)
    graph = coo_matrix((np.ones(len(left), np.int8), (left, right)), shape=(count, count))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def closure(count: int, positives: Ids, where: str = "") -> Ids:
    """All pairs within the components that `positives` (canonical ids of one collection) join; sorted."""
    left, right = pair_rows(positives)
    label = components(count, left, right)
    size = np.bincount(label, minlength=1)
    total = int((size * (size - 1) // 2).sum())
    if total > MOST_CLOSED_PAIRS:
        what = f"the matches join {int(size.max()):,} texts into one group and imply {total:,} matching pairs"
        why = "matches of one collection are closed transitively, so a few wrong ones join everything"
        remedy = "Look for a default or empty value that many rows share in the matches"
        raise InputError(what, where=where, why=why, remedy=remedy)
    return same_cluster(label)


def resolve(positives: Ids, negatives: Ids, closed: Ids) -> tuple[Ids, dict[str, int]]:
    """Stated negatives that remain when positives win, and the contradictions counted.

    All three are sorted and distinct; `closed` holds `positives` and what they imply.
    """
    both_ways = is_member(negatives, positives)
    inside = is_member(negatives, closed)
    return negatives[~inside], {
        "pairs_stated_both_ways": int(both_ways.sum()),
        "negatives_inside_closure": int((inside & ~both_ways).sum()),
    }


def read_shares(words: str) -> tuple[int, ...]:
    """Shares such as "50/25/25" (train/dev/test) or "80/20" (train/test): whole numbers summing to 100."""
    pieces = words.split("/")
    if len(pieces) not in SPLIT_NAMES or not all(piece.strip().isdecimal() for piece in pieces):
        shares: tuple[int, ...] = ()
    else:
        shares = tuple(int(piece) for piece in pieces)
    if not shares or min(shares) == 0 or sum(shares) != 100:
        why = "shares are two or three whole numbers above 0 that sum to 100"
        remedy = "Write 50/25/25 (train/dev/test), 80/20 (train/test) or none"
        raise InputError(f"cannot split {words!r}", where="`split`", why=why, remedy=remedy)
    return shares


def assign_splits(label: Rows, stratum: Rows, shares: Sequence[int], rng: np.random.Generator) -> Rows:
    """Index of the split of each node: whole components, shuffled, by their nodes in the given shares.

    label: (n,) component of each node; stratum: (components,) each by itself, so that each split gets its
    share of every stratum. A component goes to the split in whose stretch of nodes its middle falls.
    """
    size = np.bincount(label, minlength=len(stratum))
    bounds = np.cumsum(shares)[:-1] / sum(shares)
    split_of = np.empty(len(stratum), np.int64)
    for value in np.unique(stratum):
        members = rng.permutation(np.flatnonzero(stratum == value))
        sizes = size[members]
        middle = (np.cumsum(sizes) - sizes / 2) / sizes.sum()
        split_of[members] = np.searchsorted(bounds, middle, side="right")
    return split_of[label]


def split_by_components(
    collections: Sequence[Collection],
    positives: Ids,
    negatives: Ids,
    joined: Ids,
    shares: Sequence[int],
    rng: np.random.Generator,
    has_truth: bool = True,
    stratify: bool = True,
) -> tuple[dict[str, Split], dict[str, Any]]:
    """Splits of one or two collections in which no pair of `joined` straddles; rows keep their order.

    Of two collections, other stated negatives may straddle; they are counted.
    """
    left, right = collections[0], collections[-1]
    after = len(left) if len(collections) == 2 else 0  # of two collections, the right one's texts come after
    left_rows, right_rows = pair_rows(joined)
    label = components(after + len(right), left_rows, right_rows + after)
    stratum = np.zeros(int(label.max(initial=-1)) + 1, np.int64)
    if stratify:
        stratum[label[:after]] = 1
        stratum[label[pair_rows(positives)[0]]] = 2
    assigned = assign_splits(label, stratum, shares, rng)
    sides = [assigned] if len(collections) == 1 else [assigned[:after], assigned[after:]]
    splits = {}
    for index, name in enumerate(SPLIT_NAMES[len(shares)]):
        taken = [texts.take(np.flatnonzero(side == index)) for texts, side in zip(collections, sides)]
        inside = [_renumbered(ids, sides[0], sides[-1], index) for ids in (positives, negatives)]
        splits[name] = split_of(name, taken, inside[0], inside[1], has_truth)
    report = {"components": len(stratum), "largest_component": int(np.bincount(label, minlength=1).max())}
    if len(collections) == 2:
        kept = sum(len(split.stated_negatives) for split in splits.values())
        report["stated_negatives_between_splits"] = len(negatives) - kept
    return splits, report


def need_positives(splits: dict[str, Split], where: str, remedy: str) -> None:
    """An error where a split has no positive pair: nothing can be measured on it."""
    for name, split in splits.items():
        if len(split.positives) == 0:
            found = ", ".join(f"{name} {len(split.positives):,}" for name, split in splits.items())
            other = "" if split.space.symmetric else f" × {len(split.right):,}"
            why = f"it has {len(split.left):,}{other} texts; positives by split: {found}"
            what = f"the split {name} would have no positive pair"
            raise InputError(what, where=where, why=why, remedy=remedy)


def _renumbered(ids: Ids, left_split: NDArray[np.int64], right_split: NDArray[np.int64], index: int) -> Ids:
    """Pairs with both ends in split `index`, under the row numbers of that split; still sorted."""
    left, right = pair_rows(ids)
    inside = (left_split[left] == index) & (right_split[right] == index)
    new_left = np.cumsum(left_split == index) - 1
    new_right = np.cumsum(right_split == index) - 1
    return pair_ids(new_left[left[inside]], new_right[right[inside]])

"""Labels that follow by transitivity from the labels given, and the contradictions among those.

In an equivalence relation (duplicates inside one collection) two rules hold. Texts joined by a path of
matches match. Two such groups with a "no match" between them have no match between them at all. Answers can
be wrong, and one wrong "no match" between two groups would speak for every pair between them: two are
needed. Everything here is computed from the current labels alone. A "no match" inside a group of
matches is a contradiction; nothing is inferred from that group until somebody has looked at the chain that
makes it.

Directed relations and pairs of two collections are not transitive, and are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError, SettingsError
from pairsieve.pairs import AllPairs, Ids, Mask, PairSpace, Rows, is_member, pair_ids, pair_rows

Labels = NDArray[np.int8]

MATCH, NO_MATCH, OPEN = 1, 0, -1
MIN_NEGATIVES = 2  # "no match" labels between two groups from which every pair between them follows


@dataclass(frozen=True, eq=False)
class Groups:
    """The texts that labels speak of, in groups joined by matches, and the groups kept apart.

    `texts` (t,) are sorted row numbers, `group` (t,) their group. `apart` (k,) are sorted keys of two groups
    with enough "no match" labels between them, `negative_between` (k,) the smallest such pair.
    `contradictory` (g,) marks groups with a contradiction inside.
    """

    positives: Ids  # sorted
    negatives: Ids  # sorted
    texts: Rows
    group: Rows
    apart: Ids
    negative_between: Ids
    contradictory: Mask

    def of(self, rows: Rows) -> Rows:
        """The group of each text, -1 where no label speaks of it."""
        if len(self.texts) == 0:
            return np.full(len(rows), -1, np.int64)
        at = np.minimum(np.searchsorted(self.texts, rows), len(self.texts) - 1)
        return np.where(self.texts[at] == rows, self.group[at], -1)

    def path(self, left: int, right: int) -> Ids:
        """The fewest matches that lead from one text to another of its group, in the order of the walk."""
        from scipy.sparse.csgraph import breadth_first_order

        start, end = np.searchsorted(self.texts, [left, right]).tolist()
        _, before = breadth_first_order(self._graph, start, directed=False, return_predecessors=True)
        walk = [end]
        while walk[-1] != start:
            walk.append(int(before[walk[-1]]))
        steps = self.texts[np.array(walk[::-1])]
        return pair_ids(np.minimum(steps[:-1], steps[1:]), np.maximum(steps[:-1], steps[1:]))

    @cached_property
    def _graph(self) -> Any:
        return _graph(self.texts, self.positives)


@dataclass(frozen=True, eq=False)
class Implied:
    """What the labels say of pairs `ids`, in the order given: 1 match, 0 no match, -1 open.

    `given` marks those that are themselves labelled; their label is their own. The rest that is not open is
    inferred.
    """

    ids: Ids
    labels: Labels
    given: Mask
    groups: Groups

    @property
    def inferred(self) -> Mask:
        return (self.labels != OPEN) & ~self.given

    def chain(self, at: int) -> Ids:
        """The labelled pairs that the label of `ids[at]` rests on; empty where it is open.

        For a match: the matches on the way from its left to its right text. For no match: the matches from
        the left text to a pair that keeps the groups apart, that pair, and the matches on to the right text.
        """
        if self.labels[at] == OPEN:
            return np.empty(0, np.int64)
        if self.given[at]:
            return self.ids[at : at + 1]
        left, right = (int(side[0]) for side in pair_rows(self.ids[at : at + 1]))
        if self.labels[at] == MATCH:
            return self.groups.path(left, right)
        left_group, right_group = self.groups.of(np.array([left, right])).tolist()
        key = pair_ids(min(left_group, right_group), max(left_group, right_group))
        between = self.groups.negative_between[np.searchsorted(self.groups.apart, key)]
        one, other = int(between >> 32), int(between & 0xFFFFFFFF)
        if self.groups.of(np.array([one]))[0] != left_group:
            one, other = other, one
        return np.concatenate([self.groups.path(left, one), [between], self.groups.path(other, right)])


@dataclass(frozen=True)
class Contradiction:
    """A "no match" inside a group of matches, and the matches that lead from its left to its right text."""

    negative: int
    chain: tuple[int, ...]
    also: int = 0  # other "no match" labels inside the same group, where one stands for all


def grouped(
    space: PairSpace, positive_ids: Ids, negative_ids: Ids, min_negatives: int = MIN_NEGATIVES
) -> Groups:
    """The groups that labelled pairs (ids in any order) make of the texts of one collection."""
    from scipy.sparse.csgraph import connected_components

    check_transitive(space)
    positives, negatives = np.unique(positive_ids), np.unique(negative_ids)
    _check_labels(space, positives, negatives)
    texts = np.unique(np.concatenate([*pair_rows(positives), *pair_rows(negatives)]))
    count, group = 0, np.empty(0, np.int64)
    if len(texts):
        count, group = connected_components(_graph(texts, positives), directed=False)
    group = group.astype(np.int64)
    one, other = (group[np.searchsorted(texts, rows)] for rows in pair_rows(negatives))
    contradictory = np.zeros(count, dtype=bool)
    contradictory[one[one == other]] = True
    keys = pair_ids(np.minimum(one, other), np.maximum(one, other))[one != other]
    # Negatives are sorted: the first is the smallest.
    apart, first, count_between = np.unique(keys, return_index=True, return_counts=True)
    enough = count_between >= min_negatives
    negative_between = negatives[one != other][first[enough]]
    return Groups(positives, negatives, texts, group, apart[enough], negative_between, contradictory)


def implied(
    space: PairSpace, ids: Ids, positive_ids: Ids, negative_ids: Ids, min_negatives: int = MIN_NEGATIVES
) -> Implied:
    """What follows for the pairs `ids` (n,) from the labelled pairs, in O((n + labels) log labels).

    min_negatives: "no match" labels between two groups that it takes to keep them apart.
    """
    groups = grouped(space, positive_ids, negative_ids, min_negatives)
    ids = np.asarray(ids, dtype=np.int64)
    left, right = (groups.of(rows) for rows in pair_rows(ids))
    labels = np.full(len(ids), OPEN, np.int8)
    sound = np.append(~groups.contradictory, False)  # the last entry is for -1, the text without a label
    usable = sound[left] & sound[right]
    labels[usable & (left == right)] = MATCH
    keys = pair_ids(np.minimum(left, right), np.maximum(left, right))
    labels[usable & is_member(keys, groups.apart)] = NO_MATCH
    is_positive, is_negative = is_member(ids, groups.positives), is_member(ids, groups.negatives)
    labels[is_positive], labels[is_negative] = MATCH, NO_MATCH
    return Implied(ids, labels, is_positive | is_negative, groups)


def contradictions(
    space: PairSpace, positive_ids: Ids, negative_ids: Ids, most_walks: int = 50
) -> list[Contradiction]:
    """For each group with a contradiction, the one with the shortest chain, and how many others it has.

    One wrong match between two large groups puts every "no match" between them into question; to find the
    wrong one, somebody needs a single short chain. Equal lengths by the smaller "no match"; of a group with
    more than `most_walks` of them only the first so many are walked. In the order of "no match" ids.
    """
    groups = grouped(space, positive_ids, negative_ids)
    left, right = pair_rows(groups.negatives)
    group = groups.of(left)
    by_group: dict[int, list[int]] = {}
    for at in np.flatnonzero(group == groups.of(right)).tolist():
        by_group.setdefault(int(group[at]), []).append(at)
    found = []
    for positions in by_group.values():
        chains = {at: groups.path(int(left[at]), int(right[at])).tolist() for at in positions[:most_walks]}
        at = min(chains, key=lambda at: (len(chains[at]), at))  # positions ascend with the ids
        found.append(Contradiction(int(groups.negatives[at]), tuple(chains[at]), len(positions) - 1))
    return sorted(found, key=lambda each: each.negative)


def check_transitive(space: PairSpace) -> None:
    """Refuse a space in which matches do not chain."""
    if not isinstance(space, AllPairs):
        raise SettingsError(
            "labels do not follow by transitivity between two collections: a question may have two answers "
            "that do not match each other. Use this for one collection of duplicates only."
        )


def _check_labels(space: PairSpace, positives: Ids, negatives: Ids) -> None:
    for kind, ids in (("matches", positives), ("non-matches", negatives)):
        outside = ids[~space.contains(ids)]
        if len(outside):
            what = f"{len(outside):,} of the labelled {kind} are not pairs of the space"
            why = f"it has {space.shape[0]:,} texts, and the left row of a pair is the smaller one"
            remedy = "Make ids with space.ids(left, right)"
            raise InputError(what, where=f"pair id {outside[0]}", why=why, remedy=remedy)
    both = positives[is_member(positives, negatives)]
    if len(both):
        raise InputError(
            f"{len(both):,} pairs are labelled both as a match and as no match",
            where=f"rows {int(both[0]) >> 32} and {int(both[0]) & 0xFFFFFFFF}",
            why="labels follow from one current label a pair",
            remedy="Pass the ledger's current labels, not its answers",
        )


def _graph(texts: Rows, positives: Ids) -> Any:
    """The matches as a sparse graph over positions in `texts`."""
    from scipy.sparse import csr_matrix

    one, other = (np.searchsorted(texts, rows) for rows in pair_rows(positives))
    return csr_matrix((np.ones(len(one), np.int8), (one, other)), shape=(len(texts), len(texts)))

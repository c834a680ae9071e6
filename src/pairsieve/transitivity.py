"""Which labels follow from the labels we have, so that nobody needs to be asked?

In an equivalence relation (duplicates inside one collection) two rules hold. Texts joined by a path of
matches match. Two such groups with one "no match" between them have no match between them at all. Everything
here is computed from the current labels alone: an inferred label is withdrawn by calling again with other
labels and looking at the `difference`. A "no match" inside a group of matches is a contradiction; nothing is
inferred from that group until somebody has looked at the chain that makes it.

Directed relations and pairs of two collections are not transitive, and are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError, SettingsError
from pairsieve.pairs import AllPairs, Ids, Mask, PairSpace, Rows, is_member, pair_ids, pair_rows

Labels = NDArray[np.int8]

MATCH, NO_MATCH, OPEN = 1, 0, -1


@dataclass(frozen=True, eq=False)
class Groups:
    """The texts that labels speak of, in groups joined by matches, and the groups kept apart.

    `texts` (t,) are sorted row numbers, `group` (t,) their group. `apart` (k,) are sorted keys of two groups
    with a "no match" between them, `witness` (k,) the smallest such pair. `torn` (g,) marks groups with a
    contradiction inside.
    """

    positives: Ids  # sorted
    negatives: Ids  # sorted
    texts: Rows
    group: Rows
    apart: Ids
    witness: Ids
    torn: Mask

    def of(self, rows: Rows) -> Rows:
        """The group of each text, -1 where no label speaks of it."""
        if len(self.texts) == 0:
            return np.full(len(rows), -1, np.int64)
        at = np.minimum(np.searchsorted(self.texts, rows), len(self.texts) - 1)
        found: Rows = np.where(self.texts[at] == rows, self.group[at], -1)
        return found

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
        mask: Mask = (self.labels != OPEN) & ~self.given
        return mask

    def chain(self, place: int) -> Ids:
        """The labelled pairs that the label of `ids[place]` rests on; empty where it is open.

        For a match: the matches on the way from its left to its right text. For no match: the matches from
        the left text to a pair that keeps the groups apart, that pair, and the matches on to the right text.
        """
        if self.labels[place] == OPEN:
            return np.empty(0, np.int64)
        if self.given[place]:
            return self.ids[place : place + 1]
        left, right = (int(side[0]) for side in pair_rows(self.ids[place : place + 1]))
        if self.labels[place] == MATCH:
            return self.groups.path(left, right)
        mine, yours = self.groups.of(np.array([left, right])).tolist()
        key = pair_ids(min(mine, yours), max(mine, yours))
        between = self.groups.witness[np.searchsorted(self.groups.apart, key)]
        one, other = int(between >> 32), int(between & 0xFFFFFFFF)
        if self.groups.of(np.array([one]))[0] != mine:
            one, other = other, one
        return np.concatenate([self.groups.path(left, one), [between], self.groups.path(other, right)])


@dataclass(frozen=True)
class Contradiction:
    """A "no match" inside a group of matches, and the matches that lead from its left to its right text."""

    negative: int
    chain: tuple[int, ...]
    also: int = 0  # other "no match" labels inside the same group, where one stands for all


def grouped(space: PairSpace, positive_ids: Ids, negative_ids: Ids) -> Groups:
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
    torn = np.zeros(count, dtype=bool)
    torn[one[one == other]] = True
    keys = pair_ids(np.minimum(one, other), np.maximum(one, other))[one != other]
    apart, first = np.unique(keys, return_index=True)  # negatives are sorted: the first is the smallest
    return Groups(positives, negatives, texts, group, apart, negatives[one != other][first], torn)


def implied(space: PairSpace, ids: Ids, positive_ids: Ids, negative_ids: Ids) -> Implied:
    """What follows for the pairs `ids` (n,) from the labelled pairs, in O((n + labels) log labels)."""
    groups = grouped(space, positive_ids, negative_ids)
    ids = np.asarray(ids, dtype=np.int64)
    mine, yours = (groups.of(rows) for rows in pair_rows(ids))
    labels = np.full(len(ids), OPEN, np.int8)
    sound = np.append(~groups.torn, False)  # its last place answers for -1, the text without a label
    usable = sound[mine] & sound[yours]
    labels[usable & (mine == yours)] = MATCH
    keys = pair_ids(np.minimum(mine, yours), np.maximum(mine, yours))
    labels[usable & is_member(keys, groups.apart)] = NO_MATCH
    is_positive, is_negative = is_member(ids, groups.positives), is_member(ids, groups.negatives)
    labels[is_positive], labels[is_negative] = MATCH, NO_MATCH
    return Implied(ids, labels, is_positive | is_negative, groups)


def difference(before: Implied, after: Implied) -> tuple[Ids, Ids]:
    """(withdrawn, new): inferred labels of the same pairs that no longer hold, and those that came about.

    A label that turned from match to no match is in both. A pair that was asked in between is in neither.
    """
    if not np.array_equal(before.ids, after.ids):
        raise ValueError("a difference compares what two sets of labels say of the same pairs")
    changed = (before.labels != after.labels) & ~after.given
    return before.ids[changed & before.inferred], after.ids[changed & after.inferred]


def contradictions(space: PairSpace, positive_ids: Ids, negative_ids: Ids) -> list[Contradiction]:
    """Every "no match" whose texts a path of matches joins, with the shortest path; by id."""
    groups = grouped(space, positive_ids, negative_ids)
    left, right = pair_rows(groups.negatives)
    inside = np.flatnonzero(groups.of(left) == groups.of(right))
    return [
        Contradiction(int(groups.negatives[at]), tuple(groups.path(int(left[at]), int(right[at])).tolist()))
        for at in inside
    ]


def one_contradiction_a_group(
    space: PairSpace, positive_ids: Ids, negative_ids: Ids, most_walks: int = 50
) -> list[Contradiction]:
    """For each group with a contradiction, the one with the shortest chain, and how many others it has.

    One wrong match between two large groups puts every "no match" between them into question; to find the
    wrong one, somebody needs a single short chain. Equal lengths by the smaller "no match"; of a group with
    more than `most_walks` of them only the first so many are walked. In the order of "no match" ids.
    """
    groups = grouped(space, positive_ids, negative_ids)
    left, right = pair_rows(groups.negatives)
    mine = groups.of(left)
    by_group: dict[int, list[int]] = {}
    for at in np.flatnonzero(mine == groups.of(right)).tolist():
        by_group.setdefault(int(mine[at]), []).append(at)
    found = []
    for places in by_group.values():
        walks = [
            (groups.path(int(left[at]), int(right[at])).tolist(), int(groups.negatives[at]))
            for at in places[:most_walks]
        ]
        chain, negative = min(walks, key=lambda walk: (len(walk[0]), walk[1]))
        found.append(Contradiction(negative, tuple(chain), len(places) - 1))
    return sorted(found, key=lambda each: each.negative)


def asking_order(ids: Ids, logits: NDArray[np.floating]) -> Ids:
    """A batch with the likeliest matches first; equal logits by smaller id.

    Matches join groups, and one later "no match" between groups then speaks for every pair between them, so
    asking matches early saves most labels.
    """
    return ids[np.lexsort((ids, -np.asarray(logits, dtype=np.float64)))]


def prune(space: PairSpace, ids: Ids, positive_ids: Ids, negative_ids: Ids) -> tuple[Ids, Implied]:
    """(to ask, known): the pairs of a batch that still need asking, in the order given, and the rest.

    Call it again as answers come in; a queue that is walked pair by pair is cheaper with `Joined`.
    """
    said = implied(space, ids, positive_ids, negative_ids)
    kept = said.labels != OPEN
    return said.ids[~kept], Implied(said.ids[kept], said.labels[kept], said.given[kept], said.groups)


@dataclass
class Joined:
    """The same two rules while answers arrive one by one: `says(id)`, then `add(id, label)`.

    Groups merge into the larger one, so n answers cost O(n log n) together. An answer against what was said
    is kept in `against`, not applied to the groups; from then on the groups it touches say nothing.
    """

    space: PairSpace
    against: list[int] = field(default_factory=list)
    _group: dict[int, int] = field(default_factory=dict)  # text -> group
    _members: dict[int, list[int]] = field(default_factory=dict)
    _apart: dict[int, set[int]] = field(default_factory=dict)  # group -> groups known to be others
    _torn: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        check_transitive(self.space)

    def says(self, id: int) -> int:
        """1 match, 0 no match, -1 open."""
        mine, yours = self._group.get(id >> 32), self._group.get(id & 0xFFFFFFFF)
        if mine is None or yours is None or mine in self._torn or yours in self._torn:
            return OPEN
        if mine == yours:
            return MATCH
        return NO_MATCH if yours in self._apart[mine] else OPEN

    def add(self, id: int, label: int) -> None:
        """An answer: 1 or 0."""
        mine, yours = self._of(id >> 32), self._of(id & 0xFFFFFFFF)
        if (label == NO_MATCH and mine == yours) or (label == MATCH and yours in self._apart[mine]):
            self.against.append(id)
            self._torn |= {mine, yours}
        elif label == NO_MATCH:
            self._apart[mine].add(yours)
            self._apart[yours].add(mine)
        elif mine != yours:
            self._merge(mine, yours)

    def _of(self, text: int) -> int:
        if text not in self._group:
            self._group[text], self._members[text], self._apart[text] = text, [text], set()
        return self._group[text]

    def _merge(self, kept: int, gone: int) -> None:
        cost = {group: len(self._members[group]) + len(self._apart[group]) for group in (kept, gone)}
        if cost[kept] < cost[gone]:
            kept, gone = gone, kept
        for text in self._members[gone]:
            self._group[text] = kept
        self._members[kept] += self._members.pop(gone)
        for other in self._apart.pop(gone):
            self._apart[other].discard(gone)
            self._apart[other].add(kept)
            self._apart[kept].add(other)
        if gone in self._torn:
            self._torn.discard(gone)
            self._torn.add(kept)


def ask_one_by_one(
    space: PairSpace, ids: Ids, ask: Callable[[int], int], known: Joined | None = None
) -> Iterator[tuple[int, int, bool]]:
    """Walk a batch in order, asking only what does not follow yet: yields (id, label, was asked).

    `known` carries what earlier batches taught, and learns along.
    """
    joined = Joined(space) if known is None else known
    for id in ids.tolist():
        label = joined.says(id)
        if label == OPEN:
            label = ask(id)
            joined.add(id, label)
            yield id, label, True
        else:
            yield id, label, False


def check_transitive(space: PairSpace) -> None:
    """Refuse a space in which matches do not chain."""
    if not isinstance(space, AllPairs):
        raise SettingsError(
            "labels do not follow by transitivity between two collections: a question may have two answers "
            "that do not match each other. Use this for one collection of duplicates only."
        )


def _check_labels(space: PairSpace, positives: Ids, negatives: Ids) -> None:
    for words, ids in (("matches", positives), ("non-matches", negatives)):
        strangers = ids[~space.contains(ids)]
        if len(strangers):
            raise InputError(
                f"{len(strangers):,} of the labelled {words} are not pairs of the space",
                where=f"pair id {strangers[0]}",
                why=f"it has {space.shape[0]:,} texts, and the left row of a pair is the smaller one",
                remedy="Make ids with space.ids(left, right)",
            )
    both = positives[is_member(positives, negatives)]
    if len(both):
        raise InputError(
            f"{len(both):,} pairs are labelled both as a match and as no match",
            where=f"rows {int(both[0]) >> 32} and {int(both[0]) & 0xFFFFFFFF}",
            why="labels follow from one current label a pair",
            remedy="Pass the ledger's current labels, not its answers",
        )


def _graph(texts: Rows, positives: Ids) -> Any:
    """The matches as a sparse graph over places in `texts`."""
    from scipy.sparse import csr_matrix

    one, other = (np.searchsorted(texts, rows) for rows in pair_rows(positives))
    return csr_matrix((np.ones(len(one), np.int8), (one, other)), shape=(len(texts), len(texts)))

"""Clusters of one collection by average linkage: groups that one weak bridge cannot merge.

Connected components of the pairs above a threshold chain: a match between two borderline texts joins
everything on either side. Here two groups merge only while the *average* cosine over all pairs between them
reaches the threshold (average linkage). As an average that reaches it has a pair that reaches it, no group
ever leaves its component: this only splits components, where the bridge is weaker than the threshold on
average. Rows have length one, so the average over all pairs of two groups is the product of their summed rows
over the product of their sizes, and nothing but the pairs above the threshold need be looked at.

Labels are kept: labelled matches begin in one group, and a labelled non-match between two groups keeps them
apart. Where all that keeps two groups apart are labels of one text, that text is taken out of its group and
the rest merges: more likely it stands in the wrong group than all the others do. Where labels put two texts
into one group that by their scores belong to another, the two groups are one: one such text may be an error.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError
from pairsieve.pairs import AllPairs, Ids, Rows, pair_ids, pair_rows
from pairsieve.tasks.truth import components as connected

Embeddings = NDArray[np.floating]

MOST_SCORED = 1 << 20  # pairs between two groups that are scored one by one
MIN_SHARED = 2  # texts that two groups must share to be one


@dataclass(frozen=True)
class GroupFigures:
    """How well groups agree with what is known: over pairs, and text by text (B³)."""

    pair_precision: float
    pair_recall: float
    b3_precision: float
    b3_recall: float

    def as_json(self) -> dict[str, Any]:
        def figures(precision: float, recall: float) -> dict[str, float]:
            total = precision + recall
            f1 = 2 * precision * recall / total if total else 0.0
            return {"precision": precision, "recall": recall, "f1": f1}

        pairwise = figures(self.pair_precision, self.pair_recall)
        return {"pairwise": pairwise, "b3": figures(self.b3_precision, self.b3_recall)}


def components(texts: int, ids: Ids) -> Rows:
    """(texts,) the connected component of each text under pairs `ids`, numbered by their first text."""
    return _numbered(connected(texts, *pair_rows(ids)))


def constrained_average_linkage(
    rows: Embeddings,
    ids: Ids,
    threshold: float,
    matches: Ids | None = None,
    others: Ids | None = None,
    reranked: tuple[Ids, NDArray[np.float64]] | None = None,
    sources: Rows | None = None,
) -> Rows:
    """(n,) the group of each text, numbered by their first text.

    rows: (n, d) unit rows. ids: every pair whose cosine reaches `threshold`, and more do not hurt. matches,
    others: labelled pairs. reranked: sorted pairs whose score is not the product of their rows, and these
    scores. sources: (n,) of the texts; no group holds two of one source, unless labelled matches say so. The
    two groups with the highest average merge first; equal averages by the smaller
    first text, then by the smaller first text of the other group.
    """
    nothing = np.empty(0, np.int64)
    matches, others = (nothing if given is None else given for given in (matches, others))
    linked = np.concatenate([ids, matches])
    texts = np.unique(np.concatenate(pair_rows(linked)))  # a text without a link stays alone

    def known(pairs: Ids) -> NDArray[np.bool_]:
        left, right = pair_rows(pairs)
        return np.isin(left, texts) & np.isin(right, texts)

    def inside(pairs: Ids) -> Ids:
        """Pairs of linked texts, under the place of each text among these."""
        return pair_ids(*(np.searchsorted(texts, side) for side in pair_rows(pairs[known(pairs)])))

    label = np.arange(len(rows))
    if len(texts):
        start = components(len(texts), inside(matches))
        groups = _Groups(np.asarray(rows[texts], np.float64), start)
        if sources is not None:
            groups.keep_sources_apart(sources[texts])
        groups.link(inside(linked), inside(others))
        if reranked is not None:
            groups.rescore(inside(reranked[0]), reranked[1][known(reranked[0])])
        groups.merge_down_to(float(threshold))
        label[texts] = len(rows) + groups.of_text()
        averages = _Averages(rows, reranked)
        _remove_outliers(averages, label, float(threshold), matches, others, sources)
        _join_shared(averages, label, float(threshold), linked, matches, others, sources)
    return _numbered(label)


def largest_first(group: Rows) -> Rows:
    """(groups,) the number of each group in a table: the largest is 0, equal ones by their first text."""
    size = np.bincount(group)
    number: Rows = np.empty(len(size), np.int64)
    number[np.lexsort((np.arange(len(size)), -size))] = np.arange(len(size))
    return number


def representatives(rows: Embeddings, group: Rows) -> Rows:
    """(groups,) the medoid of each: the text with the highest average cosine to its group; ties by row."""
    count = int(group.max(initial=-1)) + 1
    unit = np.asarray(rows, np.float64)
    sums = np.zeros((count, unit.shape[1]))
    np.add.at(sums, group, unit)
    closeness = np.einsum("nd,nd->n", unit, sums[group])
    order = np.lexsort((np.arange(len(group)), -np.round(closeness, 9), group))
    return order[np.flatnonzero(np.diff(group[order], prepend=-1))]


def against_truth(group: Rows, truth: Rows) -> GroupFigures:
    """Exact figures against the true group of every text, from how many texts each two groups share.

    Pairwise: of the pairs put together, how many belong together, and the other way round. B³ (Bagga and
    Baldwin): the mean over texts of the share of its group that belongs with it, and of its own that is
    there.
    """
    shared, inverse = np.unique(np.stack([group, truth]), axis=1, return_inverse=True)
    together = np.bincount(inverse.ravel(), minlength=shared.shape[1]).astype(np.float64)
    predicted, real = np.bincount(group).astype(np.float64), np.bincount(truth).astype(np.float64)
    both = _pairs(together).sum()
    return GroupFigures(
        _share(both, _pairs(predicted).sum()),
        _share(both, _pairs(real).sum()),
        float((together**2 / predicted[shared[0]]).sum() / len(group)),
        float((together**2 / real[shared[1]]).sum() / len(group)),
    )


def against_labels(group: Rows, matches: Ids, others: Ids) -> GroupFigures:
    """The same over labelled pairs only: each text counts itself and the texts it has a label with.

    Where every pair is labelled this equals `against_truth`. Labels bought where a model was in doubt are
    harder than the rest, so these figures are lower than those over all pairs would be.
    """
    ids = np.concatenate([matches, others])
    label = np.arange(len(ids)) < len(matches)
    left, right = pair_rows(ids)
    same = group[left] == group[right]
    texts = np.unique(np.concatenate([left, right]))

    def degree(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
        ends = np.concatenate([left[mask], right[mask]])
        met = np.bincount(np.searchsorted(texts, ends), minlength=len(texts))
        return np.asarray(1.0 + met, np.float64)

    good = degree(same & label)
    return GroupFigures(
        _share(float((same & label).sum()), float(same.sum())),
        _share(float((same & label).sum()), float(label.sum())),
        float((good / degree(same)).mean()) if len(texts) else 1.0,
        float((good / degree(label)).mean()) if len(texts) else 1.0,
    )


class _Averages:
    """Average scores between texts: products of rows, or the re-ranker's where it has one."""

    def __init__(self, rows: Embeddings, reranked: tuple[Ids, NDArray[np.float64]] | None) -> None:
        self._rows = rows
        self._ids, self._scores = reranked if reranked is not None else (np.empty(0, np.int64), np.empty(0))

    def between(self, some: Rows, others: Rows) -> float:
        one, other = (side.ravel() for side in np.meshgrid(some, others, indexing="ij"))
        products = np.asarray(self._rows[some], np.float64) @ np.asarray(self._rows[others], np.float64).T
        scores = products.ravel()
        ids = pair_ids(np.minimum(one, other), np.maximum(one, other))
        at = np.minimum(np.searchsorted(self._ids, ids), max(len(self._ids) - 1, 0))
        if len(self._ids):
            own = self._ids[at] == ids
            scores[own] = self._scores[at[own]]
        return float(scores.mean())


def _remove_outliers(
    averages: _Averages,
    label: NDArray[np.int64],
    threshold: float,
    matches: Ids,
    others: Ids,
    sources: Rows | None = None,
) -> None:
    """Take texts out of groups that labels of these texts alone keep apart, and merge the rest; in place.

    A text with a labelled match stays where it is. Of two texts, the one goes that fits its group less.
    """
    bound = set(np.concatenate(pair_rows(matches)).tolist())
    left, right = pair_rows(others)

    def outlier(one: Rows, other: Rows) -> int | None:
        """The text that all labels between two groups have in common, if the rest merges without it."""
        groups = label[one[0]], label[other[0]]
        between = np.isin(label[left], groups) & np.isin(label[right], groups) & (label[left] != label[right])
        if not between.any():  # they were of a text that has gone since
            return None
        common = set.intersection(*({a, b} for a, b in zip(left[between].tolist(), right[between].tolist())))
        fits = {}
        for text in sorted(common - bound):
            own, far = (one, other) if label[text] == label[one[0]] else (other, one)
            rest = own[own != text]
            if sources is not None and np.isin(sources[rest], sources[far]).any():
                continue
            if 1 < len(rest) <= MOST_SCORED / len(far) and averages.between(rest, far) >= threshold:
                fits[text] = averages.between(np.array([text]), rest)
        return min(fits, key=fits.__getitem__) if fits else None

    asked = {
        (min(two), max(two)) for two in zip(label[left].tolist(), label[right].tolist()) if len({*two}) > 1
    }
    for two in sorted(asked):
        one, other = (np.flatnonzero(label == group) for group in two)
        if len(one) and len(other) and (text := outlier(one, other)) is not None:
            label[other] = label[one[0]]
            label[text] = label.max() + 1


def _join_shared(
    averages: _Averages,
    label: NDArray[np.int64],
    threshold: float,
    linked: Ids,
    matches: Ids,
    others: Ids,
    sources: Rows | None = None,
) -> None:
    """Merge groups that `MIN_SHARED` texts of labelled matches belong to alike; in place.

    Such a text stands in the one group by its label, and its average with the other reaches the threshold.
    Groups between which a labelled non-match stands, or that share a source, stay apart.
    """
    left, right = pair_rows(linked)
    shared: dict[tuple[int, int], set[int]] = {}
    for text in np.unique(np.concatenate(pair_rows(matches))).tolist():
        partners = np.concatenate([right[left == text], left[right == text]])
        for other in np.unique(label[partners]).tolist():
            if other == label[text]:
                continue
            members = np.flatnonzero(label == other)
            if averages.between(np.array([text]), members) >= threshold:
                two = min(other, int(label[text])), max(other, int(label[text]))
                shared.setdefault(two, set()).add(text)
    ends = pair_rows(others)
    for two in sorted(shared):
        one, other = (np.flatnonzero(label == group) for group in two)
        apart = {frozenset(pair) for pair in zip(*(label[side].tolist() for side in ends))}
        if len(shared[two]) < MIN_SHARED or not len(one) or not len(other) or frozenset(two) in apart:
            continue
        if sources is None or not np.isin(sources[one], sources[other]).any():
            label[other] = label[one[0]]


class _Groups:
    """Groups of texts under average linkage: sums of rows, sizes, and the groups each is linked with.

    A merged group takes the place of one of the two, with a new version: what the heap holds of it is stale.
    """

    def __init__(self, rows: NDArray[np.float64], start: Rows) -> None:
        count = int(start.max(initial=-1)) + 1
        self._start = start
        self._sums = np.zeros((count, rows.shape[1]))
        np.add.at(self._sums, start, rows)
        self._size = np.bincount(start, minlength=count).astype(np.float64)
        self._first = np.full(count, len(start))  # the smallest text, which settles ties
        np.minimum.at(self._first, start, np.arange(len(start)))
        self._into = np.arange(count)  # merged groups point at what they became part of
        self._version = [0] * count
        self._linked: list[set[int]] = [set() for _ in range(count)]
        self._apart: list[set[int]] = [set() for _ in range(count)]
        self._extra: list[dict[int, float]] = [{} for _ in range(count)]  # beyond the product of the sums
        self._rows = rows
        self._sources: list[set[int]] = []  # of each group, where they are kept apart

    def keep_sources_apart(self, sources: Rows) -> None:
        """(texts,) the source of each: groups that share one never merge."""
        self._sources = [set() for _ in self._linked]
        for group, source in zip(self._start.tolist(), sources.tolist()):
            self._sources[group].add(source)

    def link(self, ids: Ids, others: Ids) -> None:
        """Pairs that reach the threshold, and labelled non-matches, which never merge.

        Inside one group matches have won."""
        for pairs, where in ((ids, self._linked), (others, self._apart)):
            for one, other in zip(*(self._start[side].tolist() for side in pair_rows(pairs))):
                if one != other:
                    where[one].add(other)
                    where[other].add(one)

    def rescore(self, ids: Ids, scores: NDArray[np.float64]) -> None:
        """Pairs whose score is not the product of their rows."""
        left, right = pair_rows(ids)
        extra = scores - np.einsum("nd,nd->n", self._rows[left], self._rows[right])
        for one, other, value in zip(self._start[left].tolist(), self._start[right].tolist(), extra.tolist()):
            if one != other:
                self._extra[one][other] = self._extra[one].get(other, 0.0) + value
                self._extra[other][one] = self._extra[one][other]

    def merge_down_to(self, threshold: float) -> None:
        heap: list[tuple[float, int, int, int, int, int, int]] = []

        def offer(one: int, others: list[int]) -> None:
            if self._sources:
                others = [other for other in others if not self._sources[one] & self._sources[other]]
            extra = self._extra[one]
            total = self._sums[others] @ self._sums[one] + [extra.get(other, 0.0) for other in others]
            average = total / (self._size[others] * self._size[one])
            for other, value in zip(others, average.tolist()):
                if value >= threshold - 1e-6 * max(abs(threshold), 1e-3):  # scores have seven digits
                    a, b = (one, other) if self._first[one] < self._first[other] else (other, one)
                    rank = (-round(value, 12), int(self._first[a]), int(self._first[b]))
                    heapq.heappush(heap, (*rank, a, b, self._version[a], self._version[b]))

        for one, others in enumerate(self._linked):
            later = sorted(other for other in others - self._apart[one] if other > one)
            if later:
                offer(one, later)
        while heap:
            *_, one, other, version, other_version = heapq.heappop(heap)
            if (self._version[one], self._version[other]) == (version, other_version):
                self._merge(one, other)
                free = sorted(self._linked[one] - self._apart[one])
                if free:
                    offer(one, free)

    def _merge(self, one: int, other: int) -> None:
        self._sums[one] += self._sums[other]
        self._size[one] += self._size[other]
        self._first[one] = min(self._first[one], self._first[other])
        self._into[other] = one
        if self._sources:
            self._sources[one] |= self._sources[other]
        self._version[one] += 1
        self._version[other] = -1
        for neighbour, value in self._extra[other].items():
            del self._extra[neighbour][other]
            if neighbour != one:
                self._extra[one][neighbour] = self._extra[one].get(neighbour, 0.0) + value
                self._extra[neighbour][one] = self._extra[one][neighbour]
        self._extra[other] = {}
        for near in (self._linked, self._apart):
            near[one] = (near[one] | near[other]) - {one, other}
            for neighbour in near[other] - {one}:
                near[neighbour].discard(other)
                near[neighbour].add(one)
            near[other] = set()

    def of_text(self) -> Rows:
        root = self._into
        while not np.array_equal(root, root[root]):
            root = root[root]
        return root[self._start]


def check_equivalence(space: object, relation: str, where: str) -> None:
    """Groups make sense where matching is transitive: within one collection of an equivalence relation."""
    if relation != "equivalence" or not isinstance(space, AllPairs):
        why = "groups need one collection in which matching is symmetric and transitive"
        remedy = "List the pairs with pairsieve match; its --one-to-one gives each text at most one partner"
        raise InputError(f"the relation {relation!r} has no groups", where=where, why=why, remedy=remedy)


def _numbered(label: NDArray[Any]) -> Rows:
    """The same groups, numbered from 0 in the order of their first text."""
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _pairs(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    return sizes * (sizes - 1) / 2


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 1.0


def split_components(component: Any, group: Any) -> int:
    """How many components hold more than one group."""
    return int((np.bincount(np.unique(np.stack([component, group]), axis=1)[0]) > 1).sum())

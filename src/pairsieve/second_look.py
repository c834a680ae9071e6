"""Which of the pairs that a bi-encoder brings up are matches, when the words themselves are compared?

A cosine blurs what tells two records apart: a model number, a year, an edition. And it does not know whether
a better partner stands nearby. The second look takes candidate pairs (each text's nearest by the bi-encoder)
and describes each by how its words, letters, codes and numbers agree, and by how far it stands above its
*rivals*, the other candidates of either text. Boosted trees over these few columns are fitted to the labels
bought. Logits of labelled pairs come from trees that did not see their left text (`held_out_logits`), so that
they can be calibrated, and compared with the first look.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import Ids, PairSpace, is_member, pair_rows

Features = NDArray[np.float32]
Logits = NDArray[np.float64]

FOLDS = 5
FEWEST = 20  # labels of either class below which trees would only learn noise
_AT_ONCE = 1 << 16  # pairs whose word vectors are multiplied together
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_FIELDS = " | "  # between the columns of a record's text, see tasks/records.py


@dataclass(frozen=True, eq=False)
class SecondLook:
    """Boosted trees over the columns of `describe`."""

    trees: Any
    columns: NDArray[np.int64]  # those the trees were fitted on

    def logits(self, features: Features) -> Logits:
        """(n,) logits of described pairs."""
        with _one_thread():
            made: Logits = np.asarray(self.trees.decision_function(features[:, self.columns]), np.float64)
        return made


@dataclass(frozen=True, eq=False)
class Wording:
    """The texts of a space taken apart once: pieces as sparse rows weighted by rarity, numbers, lengths."""

    space: PairSpace
    pieces: tuple[tuple[Any, Any], ...]  # (left, right) rows of words, letters, codes, and words of the name
    numbers: tuple[NDArray[np.float64], NDArray[np.float64]]  # the last number of each text, nan without one
    lengths: tuple[NDArray[np.float64], NDArray[np.float64]]  # log(1 + characters)


def wording(space: PairSpace, left_texts: Sequence[str], right_texts: Sequence[str]) -> Wording:
    """Take the texts of a space apart; one collection is given twice."""
    sides = [left_texts] if space.symmetric else [left_texts, right_texts]
    names = [[text.split(_FIELDS, 1)[0] for text in side] for side in sides]
    kinds = ((_words, sides), (_letters, sides), (_codes, sides), (_words, names))
    pieces = [_weighted(each, taken) for taken, each in kinds]
    numbers = [np.array([_last_number(text) for text in side], np.float64) for side in sides]
    lengths = [np.log1p(np.array([len(text) for text in side], np.float64)) for side in sides]
    return Wording(
        space,
        tuple((both[0], both[-1]) for both in pieces),
        (numbers[0], numbers[-1]),
        (lengths[0], lengths[-1]),
    )


def describe(
    words: Wording, ids: Ids, scores: NDArray[np.floating], more: Sequence[NDArray[np.floating]] = ()
) -> Features:
    """(n, columns) float32 description of the candidate pairs `ids` (n,), sorted and distinct.

    `scores`: (n,) the first look's cosines; `more`: further scores of the same pairs, such as a
    cross-encoder's. Rivals are looked for among `ids` only, so give all candidates at once.
    """
    space = words.space
    left, right = pair_rows(ids)
    columns: list[NDArray[Any]] = []
    for values in (scores, *more):
        columns += [values, *_above_rivals(space, left, right, np.asarray(values, np.float64))]
    for one, other in words.pieces:
        cosine, shares = _agreement(space, one, other, left, right)
        columns += [cosine, *shares, *_above_rivals(space, left, right, cosine)]
    mine, yours = words.numbers[0][left], words.numbers[1][right]
    # The trees take a missing value (nan) as such.
    columns.append(np.abs(mine - yours) / np.maximum(np.maximum(np.abs(mine), np.abs(yours)), 1e-9))
    columns.append(np.abs(words.lengths[0][left] - words.lengths[1][right]))
    return np.stack(columns, axis=1).astype(np.float32)


def agreement(words: Wording, ids: Ids) -> Features:
    """(n, 6): of the pairs `ids` the cosine of their words and the shares in common; so for letters."""
    left, right = pair_rows(ids)
    columns: list[NDArray[np.float64]] = []
    for one, other in words.pieces[:2]:
        cosine, shares = _agreement(words.space, one, other, left, right)
        columns += [cosine, *shares]
    return np.stack(columns, axis=1).astype(np.float32)


def enough(labels: NDArray[np.bool_]) -> bool:
    """Whether there are labels of both classes to learn from."""
    positives = int(labels.sum())
    return min(positives, len(labels) - positives) >= FEWEST


def fit(features: Features, labels: NDArray[np.bool_], seed: int) -> SecondLook:
    """Trees fitted to labelled pairs: features (n, columns), labels (n,) bool."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    trees = HistGradientBoostingClassifier(
        max_iter=150,
        max_depth=4,
        learning_rate=0.07,
        l2_regularization=1.0,
        min_samples_leaf=max(2, min(20, len(labels) // 100)),
        early_stopping=False,
        random_state=seed,
    )
    # A column that no labelled pair has a value in (no text ends in a number) cannot be cut anywhere.
    columns = np.flatnonzero(~np.isnan(features).all(axis=0))
    with _one_thread():
        return SecondLook(trees.fit(features[:, columns], labels), columns)


def held_out_logits(
    features: Features, labels: NDArray[np.bool_], groups: NDArray[np.int64], seed: int, folds: int = FOLDS
) -> Logits:
    """(n,) logits of labelled pairs, each from trees that saw no pair of its group (its left text)."""
    logits = np.empty(len(labels), np.float64)
    part = fold_of(groups, seed, folds)
    for number in range(folds):
        out = part == number
        if out.any():
            logits[out] = fit(features[~out], labels[~out], seed).logits(features[out])
    return logits


def fold_of(groups: NDArray[np.int64], seed: int, folds: int = FOLDS) -> NDArray[np.int64]:
    """(n,) the fold of each group's pairs: groups in random order, dealt in turn."""
    distinct, at = np.unique(groups, return_inverse=True)
    dealt = np.random.default_rng([seed, 0x5EC0]).permutation(len(distinct)) % folds
    parts: NDArray[np.int64] = dealt[at]
    return parts


def _above_rivals(
    space: PairSpace, left: NDArray[np.int64], right: NDArray[np.int64], values: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """How far each pair's value stands above the best other candidate of its left and of its right text.

    In one collection a text's rivals are all its candidates, whichever side it stands on, and the two columns
    are the smaller and the larger lead, as left and right mean nothing there. Without a rival the lead is 1.
    """
    if space.symmetric:
        both = np.concatenate([left, right])
        lead = _lead(both, np.concatenate([values, values])).reshape(2, -1)
        return [lead.min(axis=0), lead.max(axis=0)]
    return [_lead(left, values), _lead(right, values)]


def _lead(node: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    order = np.lexsort((-values, node))
    first = np.flatnonzero(np.diff(node[order], prepend=-1))
    size = np.diff(np.append(first, len(node)))
    best = values[order][first]
    second = np.where(size > 1, values[order][np.minimum(first + 1, len(node) - 1)], best - 1.0)
    lead = np.empty(len(node), np.float64)
    lead[order] = values[order] - np.repeat(best, size)
    lead[order[first]] = best - second
    return lead


def _weighted(sides: Sequence[Sequence[str]], pieces_of: Callable[[str], list[str]]) -> list[Any]:
    """A sparse row for each text: its distinct pieces, each weighing log((texts + 1) / texts with it)."""
    from scipy.sparse import csr_matrix

    places: dict[str, int] = {}
    counted = []
    for side in sides:
        rows = [sorted({places.setdefault(piece, len(places)) for piece in pieces_of(text)}) for text in side]
        starts = np.cumsum([0, *map(len, rows)])
        counted.append((np.fromiter((at for row in rows for at in row), np.int64, int(starts[-1])), starts))
    width, texts = max(1, len(places)), sum(map(len, sides))
    seen = np.bincount(np.concatenate([at for at, _ in counted]), minlength=width)
    rarity = np.log((texts + 1.0) / np.maximum(seen, 1))
    return [csr_matrix((rarity[at], at, starts), (len(starts) - 1, width)) for at, starts in counted]


def _agreement(
    space: PairSpace, one: Any, other: Any, left: NDArray[np.int64], right: NDArray[np.int64]
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """The cosine of two texts' pieces, and the share of either text's weight that they have in common.

    The shares are of the left and of the right text; the smaller and the larger one in one collection.
    """
    square = [np.asarray(side.multiply(side).sum(axis=1)).ravel() for side in (one, other)]
    shared = np.empty(len(left), np.float64)
    for first in range(0, len(left), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        shared[part] = np.asarray(one[left[part]].multiply(other[right[part]]).sum(axis=1)).ravel()
    mine, yours = np.maximum(square[0][left], 1e-12), np.maximum(square[1][right], 1e-12)
    shares = [shared / mine, shared / yours]
    if space.symmetric:
        shares = [np.minimum(*shares), np.maximum(*shares)]
    return shared / np.sqrt(mine * yours), shares


def _last_number(text: str) -> float:
    found = _NUMBER.findall(text)
    return float(found[-1].replace(",", "").rstrip(".")) if found and found[-1].count(".") <= 1 else np.nan


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _letters(text: str) -> list[str]:
    """Runs of four letters over word borders: they survive spelling and hyphenation."""
    glued = f" {' '.join(_words(text))} "
    return [glued[at : at + 4] for at in range(len(glued) - 3)]


def _codes(text: str) -> list[str]:
    """Words with a digit, and two neighbours glued together: model numbers, however they are spaced."""
    words = _words(text)
    glued = words + [one + other for one, other in pairwise(words)]
    return [word for word in glued if len(word) >= 3 and any(map(str.isdigit, word))]


def candidates(space: PairSpace, columns: NDArray[np.int64], rows: NDArray[np.int64] | None = None) -> Ids:
    """Sorted distinct pairs of neighbours: `columns` (n, k) of each left row, `rows` (m, k) of each right.

    -1 stands for no neighbour.
    """
    made = []
    for found, flipped in ((columns, False), (rows, True)):
        if found is None:
            continue
        own = np.broadcast_to(np.arange(len(found))[:, None], found.shape)
        real = (found >= 0) & ((found != own) if space.symmetric else True)
        one, other = own[real], found[real]
        made.append(space.ids(other, one) if flipped else space.ids(one, other))
    return np.unique(np.concatenate(made))


def rows_of(ids: Ids, among: Ids) -> NDArray[np.int64]:
    """Where each of `ids` stands in the sorted array `among`, which must hold them all."""
    if not is_member(ids, among).all():
        raise ValueError("a pair that was not described")
    at: NDArray[np.int64] = np.searchsorted(among, ids)
    return at


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Few rows: threads would only wait for each other, and sums would depend on how many there are."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield

"""Features of candidate pairs: how words, letters, codes and numbers agree, beside competing candidates.

A cosine blurs what tells two records apart: a model number, a year, an edition. And it does not know whether
a better partner stands nearby. Each candidate pair is described by token-set similarities weighted by rarity
(inverse document frequency), and by how far it stands above the other candidates of either text. How rare a
piece of text is comes from the collection the re-ranker was fitted on (`Vocabulary`), so that a pair is
described alike in every collection.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import Ids, PairSpace, pair_rows
from pairsieve.reranker.trees import Features

_PAIRS_AT_ONCE = 1 << 16  # pairs whose sparse rows are multiplied together
_MOST_TEXTS = 1 << 16  # texts that are kept taken apart, about a kilobyte each
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_FIELD_SEPARATOR = " | "  # between the columns of a record's text, see tasks/records.py


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def letters(text: str) -> list[str]:
    """Runs of four letters over word borders: they survive spelling and hyphenation."""
    joined = f" {' '.join(words(text))} "
    return [joined[at : at + 4] for at in range(len(joined) - 3)]


def codes(text: str) -> list[str]:
    """Words with a digit, and two neighbours glued together: model numbers, however they are spaced."""
    found = words(text)
    glued = found + [one + other for one, other in pairwise(found)]
    return [word for word in glued if len(word) >= 3 and any(map(str.isdigit, word))]


def first_field_words(text: str) -> list[str]:
    """Words of the first column of a record: mostly its name."""
    return words(text.split(_FIELD_SEPARATOR, 1)[0])


KINDS: tuple[Callable[[str], list[str]], ...] = (words, letters, codes, first_field_words)


def last_number(text: str) -> float:
    found = _NUMBER.findall(text)
    return float(found[-1].replace(",", "").rstrip(".")) if found and found[-1].count(".") <= 1 else np.nan


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """In how many of `texts` texts each piece stands, by kind of piece: words, letters, codes, name."""

    texts: int
    counts: tuple[dict[str, int], ...]

    def rarity(self, kind: int, piece: str) -> float:
        """log((texts + 1) / texts with the piece); a piece never seen is as rare as one seen once."""
        return float(np.log((self.texts + 1.0) / max(self.counts[kind].get(piece, 1), 1)))


def count_pieces(sides: Sequence[Sequence[str]]) -> Vocabulary:
    """The vocabulary of the texts of one collection, or of two."""
    counts: list[Counter[str]] = [Counter() for _ in KINDS]
    for side in sides:
        for text in side:
            for count, pieces_of in zip(counts, KINDS):
                count.update(set(pieces_of(text)))
    return Vocabulary(sum(map(len, sides)), tuple(dict(count) for count in counts))


@dataclass(frozen=True, eq=False)
class TextPieces:
    """The texts of a space taken apart once: pieces as sparse rows weighted by rarity, numbers, lengths."""

    space: PairSpace
    pieces: tuple[tuple[Any, Any], ...]  # (left, right) sparse rows, one of each kind
    numbers: tuple[NDArray[np.float64], NDArray[np.float64]]  # the last number of each text, nan without one
    lengths: tuple[NDArray[np.float64], NDArray[np.float64]]  # log(1 + characters)


class TextReader:
    """Takes texts apart under a vocabulary; what up to `_MOST_TEXTS` texts hold is kept for the next call."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._forget()

    def _forget(self) -> None:
        self._places: list[dict[str, int]] = [{} for _ in KINDS]  # the column of each piece, by kind
        self._rarity: list[list[float]] = [[] for _ in KINDS]
        self._texts: dict[str, list[NDArray[np.int64]]] = {}  # columns of the distinct pieces of a text

    def take_apart(self, space: PairSpace, left: Sequence[str], right: Sequence[str]) -> TextPieces:
        """Take the texts of a space apart; one collection is given twice."""
        sides = [left] if space.symmetric else [left, right]
        if len(self._texts) + sum(map(len, sides)) > _MOST_TEXTS:
            self._forget()
        for text in chain(*sides):
            if text not in self._texts:
                self._texts[text] = [self._columns(kind, text) for kind in range(len(KINDS))]
        pieces = [[self._sparse_rows(kind, side) for side in sides] for kind in range(len(KINDS))]
        numbers = [np.array([last_number(text) for text in side], np.float64) for side in sides]
        lengths = [np.log1p(np.array([len(text) for text in side], np.float64)) for side in sides]
        both = tuple((rows[0], rows[-1]) for rows in pieces)
        return TextPieces(space, both, (numbers[0], numbers[-1]), (lengths[0], lengths[-1]))

    def _columns(self, kind: int, text: str) -> NDArray[np.int64]:
        places, found = (
            self._places[kind],
            dict.fromkeys(KINDS[kind](text)),
        )  # in order: the same in every run
        for piece in found:
            if piece not in places:
                places[piece] = len(places)
                self._rarity[kind].append(self.vocabulary.rarity(kind, piece))
        return np.array(sorted(places[piece] for piece in found), np.int64)

    def _sparse_rows(self, kind: int, texts: Sequence[str]) -> Any:
        """A sparse row for each text: its distinct pieces of a kind, weighted by rarity."""
        from scipy.sparse import csr_matrix

        found = [self._texts[text][kind] for text in texts]
        columns, rarity = np.concatenate([np.empty(0, np.int64), *found]), self._rarity[kind]
        weights = np.fromiter((rarity[column] for column in columns.tolist()), np.float64, len(columns))
        starts = np.cumsum([0, *map(len, found)])
        return csr_matrix((weights, columns, starts), (len(texts), max(1, len(rarity))))


def feature_count(scores: int) -> int:
    """The columns of `describe` with so many scores."""
    return 3 * scores + 5 * len(KINDS) + 2


def describe(pieces: TextPieces, ids: Ids, scores: Sequence[NDArray[np.floating]]) -> Features:
    """(n, columns) float32 description of the candidate pairs `ids` (n,), sorted and distinct.

    `scores`: the bi-encoder's cosines (n,), and further scores of the same pairs, such as a cross-encoder's.
    Competitors are looked for among `ids` only, so give all candidates of a text at once.
    """
    space = pieces.space
    left, right = pair_rows(ids)
    columns: list[NDArray[Any]] = []
    for values in scores:
        columns += [values, *_leads(space, left, right, np.asarray(values, np.float64))]
    for one, other in pieces.pieces:
        cosine, shares = _agreement(space, one, other, left, right)
        columns += [cosine, *shares, *_leads(space, left, right, cosine)]
    number, other_number = pieces.numbers[0][left], pieces.numbers[1][right]
    larger = np.maximum(np.maximum(np.abs(number), np.abs(other_number)), 1e-9)
    columns.append(np.abs(number - other_number) / larger)  # the trees take a missing value (nan) as such
    columns.append(np.abs(pieces.lengths[0][left] - pieces.lengths[1][right]))
    return np.stack(columns, axis=1).astype(np.float32)


def text_agreement(pieces: TextPieces, ids: Ids) -> Features:
    """(n, 6): of the pairs `ids` the cosine of their words and the shares in common; so for letters."""
    left, right = pair_rows(ids)
    columns: list[NDArray[np.float64]] = []
    for one, other in pieces.pieces[:2]:
        cosine, shares = _agreement(pieces.space, one, other, left, right)
        columns += [cosine, *shares]
    return np.stack(columns, axis=1).astype(np.float32)


def _leads(
    space: PairSpace, left: NDArray[np.int64], right: NDArray[np.int64], values: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """How far each pair's value stands above the best other candidate of its left and of its right text.

    In one collection all candidates of a text compete, whichever side it stands on, and the two columns are
    the smaller and the larger lead, as left and right mean nothing there. Without a competitor the lead is 1.
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


def _agreement(
    space: PairSpace, one: Any, other: Any, left: NDArray[np.int64], right: NDArray[np.int64]
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """The cosine of two texts' pieces, and the share of either text's weight that they have in common.

    The shares are of the left and of the right text; the smaller and the larger one in one collection.
    """
    square = [np.asarray(side.multiply(side).sum(axis=1)).ravel() for side in (one, other)]
    common = np.empty(len(left), np.float64)
    for first in range(0, len(left), _PAIRS_AT_ONCE):
        at = slice(first, first + _PAIRS_AT_ONCE)
        common[at] = np.asarray(one[left[at]].multiply(other[right[at]]).sum(axis=1)).ravel()
    weights = np.maximum(square[0][left], 1e-12), np.maximum(square[1][right], 1e-12)
    shares = [common / weights[0], common / weights[1]]
    if space.symmetric:
        shares = [np.minimum(*shares), np.maximum(*shares)]
    return common / np.sqrt(weights[0] * weights[1]), shares

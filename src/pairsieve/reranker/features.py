"""Features of candidate pairs: how words, letters, codes and numbers agree, beside competing candidates.

A cosine blurs what tells two records apart: a model number, a year, an edition. And it does not know whether
a better partner stands nearby. Each candidate pair is described by token-set similarities weighted by rarity
(inverse document frequency), and by how far it stands above the other candidates of either text. How rare a
piece of text is comes from the collection the re-ranker was fitted on (`Vocabulary`), so that a pair is
described alike in every collection.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import Ids, Mask, PairSpace, pair_rows
from pairsieve.reranker.fields import (
    NO_FIELDS,
    UNKNOWN,
    WAYS,
    Layout,
    compare_dense,
    dense_values,
    field_values,
)
from pairsieve.reranker.trees import Features, over_rows
from pairsieve.tasks.joined import BETWEEN, read_part

_MOST_TEXTS = 1 << 16  # texts that are kept taken apart, about a kilobyte each
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_MOST_NUMBERS = 12  # of a text that are compared
MOST_CHARACTERS = 32  # of a word whose spelling is compared; at most 64, a bit for each


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
    return words(text.split(BETWEEN, 1)[0])


KINDS: tuple[Callable[[str], list[str]], ...] = (words, letters, codes, first_field_words)


def numbers(text: str) -> list[float]:
    """The first numbers of a text, thousands separated by commas or not."""
    found = _NUMBER.findall(text)[:_MOST_NUMBERS]
    return [float(one.replace(",", "").rstrip(".")) for one in found if one.count(".") <= 1]


def normalised(text: str) -> str:
    """What most encoders make of a text before they read it: lower case, single spaces."""
    return " ".join(text.lower().split())


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """In how many of `texts` texts each piece stands, by kind of piece: `KINDS`, then those of the fields.

    `digest`: of the texts that were counted. `layout`: the fields that the texts have, if any.
    """

    texts: int
    counts: tuple[dict[str, int], ...]
    digest: str
    layout: Layout = NO_FIELDS

    def rarity(self, kind: int, piece: str) -> float:
        """log((texts + 1) / texts with the piece); a piece never seen is as rare as one seen once."""
        return float(np.log((self.texts + 1.0) / max(self.counts[kind].get(piece, 1), 1)))


def pieces_of(layout: Layout, text: str, side: int) -> list[list[str]]:
    """The pieces of a text of a side (0 left, 1 right) of each kind, and of each field by each way."""
    read = read_part(text)
    pieces = [kind(read) for kind in KINDS]
    if layout.fields:
        values = dict(zip(layout.fields, field_values(layout, text, side)))
        pieces += [WAYS[way](values[field][0]) for field, way in layout.sparse]
    return pieces


def count_pieces(sides: Sequence[Sequence[str]], layout: Layout | None = None) -> Vocabulary:
    """The vocabulary of the texts of one collection, or of two."""
    layout = layout or NO_FIELDS
    counts: list[Counter[str]] = [Counter() for _ in range(len(KINDS) + len(layout.sparse))]
    digest = hashlib.sha256(repr(layout).encode())
    for at, side in enumerate(sides):
        for text in side:
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
            for count, pieces in zip(counts, pieces_of(layout, text, at)):
                count.update(set(pieces))
    found = tuple(dict(count) for count in counts)
    return Vocabulary(sum(map(len, sides)), found, digest.hexdigest(), layout)


Sparse = tuple[NDArray[np.int64], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class TextPieces:
    """The texts of a space taken apart once: pieces as sparse rows weighted by rarity, numbers, lengths.

    `layout`: the fields; `dense` has the values of its dense fields, (n, 1) or (n, 2) each.

    Sparse rows are (starts, columns), as in a CSR matrix. Everything stands for left and right.
    """

    space: PairSpace
    pieces: tuple[tuple[Sparse, Sparse], ...]  # of each kind; then the words of fields, in columns of kind 0
    rarity: tuple[NDArray[np.float64], ...]  # by column, of each kind
    spelling: Sparse  # the characters of each word, by column of kind 0
    numbers: tuple[Sparse, Sparse]  # the values instead of columns
    lengths: tuple[NDArray[np.float64], NDArray[np.float64]]  # log(1 + characters)
    same: tuple[NDArray[np.int64], NDArray[np.int64]]  # equal where texts are, once normalised
    layout: Layout = NO_FIELDS
    dense: tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]] = ([], [])
    spelt: list[NDArray[Any]] = dataclasses.field(default_factory=list)  # ids compared last, and their (n, 3)


class TextReader:
    """Takes texts apart under a vocabulary; what up to `_MOST_TEXTS` texts hold is kept for the next call."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._forget()

    def _forget(self) -> None:
        kinds = range(len(self.vocabulary.counts))
        self._places: list[dict[str, int]] = [{} for _ in kinds]  # the column of each piece, by kind
        self._rarity = [array("d") for _ in kinds]  # by column: a list would be slow to turn into an array
        self._characters, self._word_starts = array("i"), array("q", [0])  # of each word, by its column
        # Columns of the distinct pieces of a text, of each side.
        self._texts: tuple[dict[str, list[NDArray[np.int64]]], ...] = ({}, {})

    def take_apart(self, space: PairSpace, left: Sequence[str], right: Sequence[str]) -> TextPieces:
        """Take the texts of a space apart; one collection is given twice."""
        sides = [left] if space.symmetric else [left, right]
        layout = self.vocabulary.layout
        worded = [kind for kind, (_, way) in enumerate(layout.sparse, len(KINDS)) if way == "words"]
        if sum(map(len, self._texts)) + sum(map(len, sides)) > _MOST_TEXTS:
            self._forget()
        for at, side in enumerate(sides):
            for text in side:
                if text not in self._texts[at]:
                    taken = pieces_of(layout, text, at)
                    columns = [self._columns(kind, found) for kind, found in enumerate(taken)]
                    columns += [self._columns(0, taken[kind]) for kind in worded]
                    self._texts[at][text] = columns
        pieces = [
            [_sparse([known[text][kind] for text in side]) for known, side in zip(self._texts, sides)]
            for kind in range(len(self.vocabulary.counts) + len(worded))
        ]
        dense = [dense_values(layout, side, at) for at, side in enumerate(sides)]
        rarity = tuple(np.append(np.asarray(found, np.float64), 0.0) for found in self._rarity)
        values = [
            _sparse([np.array(numbers(read_part(text)), np.float64) for text in side]) for side in sides
        ]
        lengths = [np.log1p(np.array([len(read_part(text)) for text in side], np.float64)) for side in sides]
        place: dict[str, int] = {}
        same = [
            np.array([place.setdefault(normalised(text), len(place)) for text in side], np.int64)
            for side in sides
        ]
        both = tuple((rows[0], rows[-1]) for rows in pieces)
        return TextPieces(
            space,
            both,
            rarity,
            (np.array(self._word_starts, np.int64), np.append(np.array(self._characters, np.int32), 0)),
            (values[0], values[-1]),
            (lengths[0], lengths[-1]),
            (same[0], same[-1]),
            layout,
            (dense[0], dense[-1]),
        )

    def _columns(self, kind: int, pieces: Sequence[str]) -> NDArray[np.int64]:
        places, found = self._places[kind], dict.fromkeys(pieces)  # in order: the same in every run
        for piece in found:
            if piece not in places:
                places[piece] = len(places)
                self._rarity[kind].append(self.vocabulary.rarity(kind, piece))
                if kind == 0:
                    self._characters.extend(map(ord, piece[:MOST_CHARACTERS]))
                    self._word_starts.append(len(self._characters))
        return np.array(sorted(places[piece] for piece in found), np.int64)


def _sparse(found: Sequence[NDArray[Any]]) -> Sparse:
    """Rows of several lengths, one behind the other."""
    starts = np.zeros(len(found) + 1, np.int64)
    np.cumsum([len(row) for row in found], out=starts[1:])
    return starts, np.concatenate(found) if found else np.empty(0, np.int64)


def feature_count(scores: int, layout: Layout | None = None) -> int:
    """The columns of `describe` with so many scores."""
    return 3 * scores + 5 * (len(KINDS) + 1) + 5 + (layout.columns if layout else 0)


def compared_count(scores: int, layout: Layout | None = None) -> int:
    """The columns of `compared_values` with so many scores."""
    return scores + len(KINDS) + 1 + (layout.competing if layout else 0)


class Leads(Protocol):
    """How far pairs stand above their competitors."""

    def of(self, column: int, values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Two columns of leads in `values` (n,), which are column `column` of `compared_values`."""


def describe(
    pieces: TextPieces, ids: Ids, scores: Sequence[NDArray[np.floating]], leads: Leads | None = None
) -> Features:
    """(n, columns) float32 description of the candidate pairs `ids` (n,), sorted and distinct.

    `scores`: cosines of the pairs (n,) by the bi-encoder, by lexical rows, and further scores such as a
    cross-encoder's. Competitors are looked for among `ids` only, so give all candidates of a text at once;
    or give `leads`, where more is known of the competitors.
    """
    from pairsieve.reranker.kernel import compare_numbers

    left, right = pair_rows(ids)
    leads = leads or _LeadsAmong(pieces, left, right)
    found = np.empty((len(ids), feature_count(len(scores), pieces.layout)), np.float32)
    places = iter(range(found.shape[1]))

    def add(*columns: NDArray[Any]) -> None:  # at once: of millions of candidates each takes tens of MB
        for column in columns:
            found[:, next(places)] = column

    for at, values in enumerate(scores):
        add(values, *leads.of(at, np.asarray(values, np.float64)))
    for kind in range(len(KINDS)):
        cosine, shares, _ = _agreement(pieces, kind, left, right)
        add(cosine, *shares, *leads.of(len(scores) + kind, cosine))
    alike, shares, worst = _spelt_alike(pieces, left, right)
    add(alike, *shares, *leads.of(len(scores) + len(KINDS), alike), worst)
    numbers = np.empty((len(ids), 3), np.float64)
    both = *pieces.numbers[0], *pieces.numbers[1]
    over_rows(len(ids), lambda at: compare_numbers(*both, left[at], right[at], numbers[at]))
    add(*numbers.T, np.abs(pieces.lengths[0][left] - pieces.lengths[1][right]))
    competing, others = _compare_fields(pieces, left, right)
    for at, values in enumerate(competing, len(scores) + len(KINDS) + 1):
        add(values, *leads.of(at, values))
    add(*others)
    return found


def _compare_fields(
    pieces: TextPieces, left: NDArray[np.int64], right: NDArray[np.int64]
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
    """Columns (n,) of each field: how alike its values are, by each way; then all others.

    Candidates compete in the first. The others are the shares in common (with the other's value, and with its
    whole text: a brand may stand in the title, first and last name may be swapped), how rare a category in
    common is, whether values are equal, and how many of the two are missing. A value that is missing is
    neither alike nor unlike: `UNKNOWN`.
    """
    layout, alike, others = pieces.layout, [], []
    missing = dict.fromkeys(layout.fields, np.zeros(len(left)))
    words_of = iter(range(len(KINDS) + len(layout.sparse), len(pieces.pieces)))
    for at, (field, way) in enumerate(layout.sparse):
        kind = len(KINDS) + at
        absent = [np.diff(starts) == 0 for starts, _ in pieces.pieces[kind]]
        either = absent[0][left] | absent[1][right]
        missing[field] = (absent[0][left].astype(np.float64) + absent[1][right]) / 2
        cosine, shares, weight = _agreement(pieces, kind, left, right)
        alike.append(np.where(either, UNKNOWN, cosine))
        if way == "words":
            others += [np.where(either, UNKNOWN, each) for each in shares]
            others += _found_anywhere(pieces, next(words_of), left, right)
            # Most records that share a common category are no match; few share a rare one by chance.
            others += [np.where(either, UNKNOWN, weight)] if field.kind == "category" else []
    for field, one, other in zip(layout.dense, *pieces.dense):
        near, equal = compare_dense(field.kind, one[left], other[right])
        alike.append(near)
        others.append(equal)
        absent = [np.isnan(values).mean(axis=1) for values in (one, other)]
        missing[field] = (absent[0][left] + absent[1][right]) / 2
    return alike, [*others, *missing.values()]


def _found_anywhere(
    pieces: TextPieces, own: int, left: NDArray[np.int64], right: NDArray[np.int64]
) -> list[NDArray[np.float64]]:
    """(n,) twice: the share of a field's words, `own` of `pieces`, that stands anywhere in the other text."""
    from pairsieve.reranker.kernel import add_common

    shares, rarity = [], pieces.rarity[0]
    for side, rows in enumerate((left, right)):
        both = [*pieces.pieces[0]]  # whole texts
        both[side] = pieces.pieces[own][side]
        starts, columns = both[side]
        sums = np.concatenate([[0.0], np.cumsum(rarity[columns] ** 2)])
        weight = (sums[starts[1:]] - sums[starts[:-1]])[rows]
        common = np.empty(len(left), np.float64)

        def add(at: slice, both: Any = both, common: Any = common) -> None:
            add_common(*both[0], *both[1], rarity, left[at], right[at], common[at])

        over_rows(len(left), add)
        shares.append(np.where(weight > 0, common / np.maximum(weight, 1e-12), UNKNOWN))
    return [np.minimum(*shares), np.maximum(*shares)] if pieces.space.symmetric else shares


def compared_values(
    pieces: TextPieces, ids: Ids, scores: Sequence[NDArray[np.floating]]
) -> NDArray[np.float64]:
    """(n, compared_count): the values of pairs `ids` in which candidates compete, as `describe` has them."""
    left, right = pair_rows(ids)
    kinds = [_agreement(pieces, kind, left, right)[0] for kind in range(len(KINDS))]
    kinds.append(_spelt_alike(pieces, left, right)[0])
    alike, _ = _compare_fields(pieces, left, right)
    return np.stack([*scores, *kinds, *alike], axis=1).astype(np.float64)


class _LeadsAmong:
    """How far each pair's value stands above the best other candidate of its left and of its right text.

    A candidate with the same text as the pair's own is no competitor. In one collection all candidates of a
    text compete, whichever side it stands on, and the two columns are the smaller and the larger lead, as
    left and right mean nothing there. Without a competitor the lead is 1.
    """

    def __init__(self, pieces: TextPieces, left: NDArray[np.int64], right: NDArray[np.int64]) -> None:
        same = pieces.same[0][left], pieces.same[1][right]
        self._one = pieces.space.symmetric
        if self._one:
            self._sides = [(np.concatenate([left, right]), np.concatenate(same[::-1]))]
        else:
            self._sides = [(left, same[1]), (right, same[0])]

    def of(self, column: int, values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        if not self._one:
            return [lead(*side, values) for side in self._sides]
        both = lead(*self._sides[0], np.concatenate([values, values])).reshape(2, -1)
        return [both.min(axis=0), both.max(axis=0)]


def best_two(
    node: NDArray[np.int64], partner: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each node, ascending: where its best value stands, and the best with another partner text; -1: none.

    node (n,): whose candidate a pair is. partner (n,): equal where texts of the other side are.
    """
    order = np.lexsort((partner, -values, node))
    starts = np.flatnonzero(np.diff(node[order], prepend=-1))
    owner = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(node))))
    first = order[starts]
    others = np.flatnonzero(partner[order] != partner[first][owner])
    owners, at = np.unique(owner[others], return_index=True)
    second = np.full(len(first), -1, np.int64)
    second[owners] = order[others[at]]
    return first, second


def lead(
    node: NDArray[np.int64], partner: NDArray[np.int64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(n,) how far each value stands above the best of the same node with another partner text."""
    from pairsieve.reranker.kernel import best_of_nodes

    size = int(node.max(initial=-1)) + 1
    best, second, owner = np.full(size, -np.inf), np.full(size, -np.inf), np.full(size, -1, np.int64)
    best_of_nodes(node, partner, values, best, second, owner)
    return lead_over(values, best[node], second[node], partner == owner[node])


def lead_over(
    values: NDArray[np.float64], best: NDArray[np.float64], second: NDArray[np.float64], same: Mask
) -> NDArray[np.float64]:
    """Leads (n,) over the best two of a node: over the second where `same`, the partner text is the best's.

    -inf is none: then all candidates of the node have one text, and the best of them leads by 1.
    """
    alone = np.isneginf(second) & (same | np.isneginf(best))
    best_other = np.where(alone, np.maximum(best, values) - 1.0, np.where(same, second, best))
    return np.asarray(values - best_other, np.float64)


def _agreement(
    pieces: TextPieces, kind: int, left: NDArray[np.int64], right: NDArray[np.int64]
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]], NDArray[np.float64]]:
    """The cosine of two texts' pieces, the share of either text's weight that they have in common, and the
    length of what they have in common: the rarity of a single piece.

    The shares are of the left and of the right text; the smaller and the larger one in one collection.
    """
    from pairsieve.reranker.kernel import add_common

    (one, other), rarity = pieces.pieces[kind], pieces.rarity[kind]
    square = []
    for starts, columns in (one, other):
        sums = np.concatenate([[0.0], np.cumsum(rarity[columns] ** 2)])
        square.append(sums[starts[1:]] - sums[starts[:-1]])
    common = np.empty(len(left), np.float64)
    over_rows(len(left), lambda at: add_common(*one, *other, rarity, left[at], right[at], common[at]))
    weights = np.maximum(square[0][left], 1e-12), np.maximum(square[1][right], 1e-12)
    shares = [common / weights[0], common / weights[1]]
    if pieces.space.symmetric:
        shares = [np.minimum(*shares), np.maximum(*shares)]
    return common / np.sqrt(weights[0] * weights[1]), shares, np.sqrt(common)


def _spelt_alike(
    pieces: TextPieces, left: NDArray[np.int64], right: NDArray[np.int64]
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]], NDArray[np.float64]]:
    """As `_agreement` of words, where a word that the other text lacks counts for how alike its most alike
    word there is spelt; and how alike the worst word is, of the text whose words fare better.

    Close to SoftTFIDF (Cohen, Ravikumar and Fienberg 2003), by the similarity of Jaro and Winkler (1990).
    """
    ids = left << 32 | right
    found = np.empty((len(ids), 3), np.float32)
    missing = np.ones(len(ids), bool)
    if pieces.spelt and len(ids):  # candidates of one round are nearly those of the next
        known, values = pieces.spelt
        at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        missing = known[at] != ids
        found[~missing] = values[at[~missing]]
    if missing.any():
        found[missing] = _compare_spelling(pieces, left[missing], right[missing])
    if len(ids) > 1 and (ids[1:] > ids[:-1]).all():
        pieces.spelt[:] = ids, found
    shares = [found[:, 0].astype(np.float64), found[:, 1].astype(np.float64)]
    if pieces.space.symmetric:
        shares = [np.minimum(*shares), np.maximum(*shares)]
    return np.sqrt(shares[0] * shares[1]), shares, found[:, 2].astype(np.float64)


def _compare_spelling(
    pieces: TextPieces, left: NDArray[np.int64], right: NDArray[np.int64]
) -> NDArray[np.float64]:
    from pairsieve.reranker.kernel import compare_spelling

    (one, other), rarity = pieces.pieces[0], pieces.rarity[0]
    found = np.empty((len(left), 3), np.float64)

    def compare(at: slice) -> None:
        compare_spelling(*one, *other, rarity, *pieces.spelling, left[at], right[at], found[at])

    over_rows(len(left), compare)
    return found

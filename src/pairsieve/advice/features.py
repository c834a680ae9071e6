"""Text-similarity features of pairs, independent of any trained model: words, letters, frozen encoder cosine.

Only texts of pairs that were asked are read, and of a large batch only some pairs, so that the cost does not
grow with the collection. Nothing is embedded: the frozen encoder's rows are used where they are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairsieve.artifacts import ArtifactStore, load_array
from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, is_member, pair_rows
from pairsieve.reranker.features import TextReader, count_pieces, text_agreement
from pairsieve.tasks import Split

if TYPE_CHECKING:
    from pairsieve.models import Encoder

Rows = NDArray[np.floating]
Texts = tuple[Sequence[str], Sequence[str]]

MOST_PAIRS = 1000  # of a batch that features are computed for


def subsample(ids: Ids) -> NDArray[np.int64]:
    """Places of at most `MOST_PAIRS` pairs of a batch, evenly over its order."""
    return np.linspace(0, len(ids) - 1, min(MOST_PAIRS, len(ids))).astype(np.int64)


def random_pairs(space: PairSpace, ids: Ids) -> Ids:
    """Other pairs of the same texts: each left one with the right one of a pair half the batch away."""
    left, right = pair_rows(ids)
    other = np.roll(right, len(ids) // 2)
    distinct = (left != other) if space.symmetric else np.ones(len(ids), bool)
    pairs = np.unique(space.ids(left[distinct], other[distinct]))
    return pairs[~is_member(pairs, np.sort(ids))]


def similarity_features(
    space: PairSpace, texts: Texts, ids: Ids, frozen: tuple[Rows, Rows] | None = None
) -> NDArray[np.float32]:
    """(n, 6): how far words and letters of the pairs `ids` agree; (n, 7) with the cosine of `frozen` rows.

    texts: those of both sides (one collection twice). frozen: their rows by the encoder before training.
    """
    left, right = pair_rows(ids)
    if space.symmetric:
        left_rows = right_rows = np.unique(np.concatenate([left, right]))
        subspace: PairSpace = AllPairs(len(left_rows))
    else:
        left_rows, right_rows = np.unique(left), np.unique(right)
        subspace = CrossPairs(len(left_rows), len(right_rows))
    left_texts = [texts[0][row] for row in left_rows.tolist()]
    right_texts = left_texts if space.symmetric else [texts[1][row] for row in right_rows.tolist()]
    renumbered = subspace.ids(np.searchsorted(left_rows, left), np.searchsorted(right_rows, right))
    vocabulary = count_pieces([left_texts] if space.symmetric else [left_texts, right_texts])
    columns = text_agreement(TextReader(vocabulary).take_apart(subspace, left_texts, right_texts), renumbered)
    if frozen is None:
        return columns
    one, other = frozen[0][left].astype(np.float64), frozen[1][right].astype(np.float64)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    cosines = np.einsum("nd,nd->n", one, other) / np.maximum(lengths, 1e-12)
    return np.column_stack([columns, cosines]).astype(np.float32)


def frozen_rows(store: ArtifactStore, encoder: Encoder, split: Split) -> tuple[Rows, Rows] | None:
    """Both sides' rows by the encoder before training, memory-mapped; None where they are not stored."""
    sides = [(split.left, "left"), (split.right, "right")][: 1 if split.space.symmetric else 2]
    rows = []
    for texts, side in sides:
        key = {"encoder": encoder.fingerprint, "texts": texts.fingerprint, "prefix": encoder.prefix(side)}
        place = store.find("embeddings", key, check=False)
        if place is None:
            return None
        rows.append(load_array(place / "rows.npy", mmap=True))
    return rows[0], rows[-1]

"""Lexical rows of texts: character n-grams weighted by rarity, hashed to signed columns of a unit row.

An encoder knows what words mean; it blurs model numbers, rare names and typing errors. The cosine of two
lexical rows is close to that of TF-IDF vectors of character n-grams (feature hashing, Weinberger et al.
2009), so the same exact scans search them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.tasks.joined import without_gaps

BUCKETS = 1 << 16  # n-grams are counted by bucket
WIDTH = 256  # columns of a row
_TEXTS_AT_ONCE = 1 << 13
_MIX = np.uint64(0x9E3779B97F4A7C15)  # multiplicative hashing (Knuth), odd


@dataclass(frozen=True, eq=False)
class LexicalEncoder:
    """Gives texts their lexical rows; `rarity` (BUCKETS,): the inverse document frequency of each bucket."""

    rarity: NDArray[np.float32]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, WIDTH) unit rows; zeros for a text without letters or digits."""
        from scipy.sparse import csr_matrix

        mixed = np.arange(BUCKETS, dtype=np.uint64) * _MIX
        columns = (mixed >> np.uint64(40)) % np.uint64(WIDTH)
        signs = np.where((mixed >> np.uint64(39)) & np.uint64(1), 1.0, -1.0)
        spread = csr_matrix((signs * self.rarity, (np.arange(BUCKETS), columns.astype(np.int64))))
        spread.resize(BUCKETS, WIDTH)
        rows = np.zeros((len(texts), WIDTH), np.float32)
        for first in range(0, len(texts), _TEXTS_AT_ONCE):
            counts = _count_ngrams(texts[first : first + _TEXTS_AT_ONCE])
            counts.data = 1.0 + np.log(counts.data)
            dense = (counts @ spread).toarray()
            lengths = np.linalg.norm(dense, axis=1, keepdims=True)
            rows[first : first + _TEXTS_AT_ONCE] = dense / np.where(lengths > 0, lengths, 1.0)
        return rows


def fit_lexical(sides: Sequence[Sequence[str]]) -> LexicalEncoder:
    """The encoder whose rarity comes from the texts of one collection, or of two."""
    texts, found = 0, np.zeros(BUCKETS)
    for side in sides:
        texts += len(side)
        for first in range(0, len(side), _TEXTS_AT_ONCE):
            found += np.bincount(
                _count_ngrams(side[first : first + _TEXTS_AT_ONCE]).indices, minlength=BUCKETS
            )
    return LexicalEncoder((np.log((texts + 1.0) / (found + 1.0)) + 1.0).astype(np.float32))


def _count_ngrams(texts: Sequence[str]):  # type: ignore[no-untyped-def]
    """Sparse (n, BUCKETS) counts of the character n-grams of three and four, inside words."""
    from sklearn.feature_extraction.text import HashingVectorizer

    vectorizer = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 4), n_features=BUCKETS, norm=None, alternate_sign=False
    )
    return vectorizer.transform([without_gaps(text) for text in texts])

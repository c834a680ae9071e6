"""The re-ranker: a second model over candidate pairs, the nearest by encoder or by lexical rows.

A mean of extremely randomised trees (`trees.py`) and a logistic regression (`linear.py`) over how the texts
of a pair agree piece by piece and how the pair stands beside its competitors (`features.py`); where asked
for, a cross-encoder's logits are among the columns. `fit.py` fits it to labels; `lexical.py` gives texts
rows by their letters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.models import CrossMatcher
from pairsieve.pairs import Ids, PairSpace
from pairsieve.reranker.features import TextPieces, TextReader, Vocabulary, count_pieces, describe
from pairsieve.reranker.fields import Layout
from pairsieve.reranker.lexical import LexicalEncoder, fit_lexical
from pairsieve.reranker.linear import Linear
from pairsieve.reranker.trees import Features, Logits, Trees
from pairsieve.scan import Scan

ScanOf = Callable[[PairSpace, NDArray[np.float32], NDArray[np.float32] | None], Scan]

Floats = NDArray[np.float32]

MOST_CANDIDATES = 4_000_000  # by each cut


@dataclass(frozen=True)
class Cuts:
    """A pair is a candidate where its cosine, its lexical cosine or the mean of both reaches its cut."""

    cosine: float
    mean: float
    lexical: float


@dataclass(frozen=True)
class Stack:
    """Weights of the trees' and the linear model's logits and of the bi-encoder's log-odds, and a bias.

    Stacking: Wolpert 1992. bound: what the bi-encoder's log-odds approach, however sure it is of a pair.
    """

    trees: float = 1.0
    linear: float = 0.0
    base: float = 1.0
    bias: float = 0.0
    bound: float = 20.0

    def bounded(self, base_log_odds: NDArray[Any]) -> Logits:
        """The bi-encoder's log-odds as they count: unchanged near 0, in their order, within the bound."""
        return self.bound * np.tanh(np.asarray(base_log_odds, np.float64) / self.bound)


@dataclass(frozen=True, eq=False)
class Reranker:
    """Gives a candidate its log-odds: those of both models and of the bi-encoder, weighed by `stack`.

    cross_encoders: each trained without some left texts; the mean of their logits is a column.
    """

    trees: Trees
    linear: Linear
    vocabulary: Vocabulary
    lexical: LexicalEncoder
    cuts: Cuts
    stack: Stack
    cross_encoders: tuple[CrossMatcher, ...] = ()

    def logits(self, features: Features) -> Logits:
        """(n,) logits of described candidates by both models, weighed."""
        stack = self.stack
        return stack.trees * self.trees.logits(features) + stack.linear * self.linear.logits(features)

    def log_odds(self, logits: Logits, base_log_odds: NDArray[Any]) -> Logits:
        """(n,) log-odds from those logits and from the bi-encoder's log-odds."""
        return logits + self.stack.base * self.stack.bounded(base_log_odds) + self.stack.bias


@dataclass(frozen=True, eq=False)
class CandidateScans:
    """The scans that find candidates: by the encoder's rows, by lexical rows, and by both side by side."""

    cosine: Scan
    lexical: Scan
    mean: Scan

    def reaching(self, cuts: Cuts, also: Ids | None = None) -> Ids:
        """The candidates, and the pairs `also`; sorted."""
        pieces: list[Ids] = [] if also is None else [also]
        for scan, cut in self._beside(cuts):
            scan.collect(cut, 2.0, lambda ids, scores: pieces.append(ids), desc="candidates")
        return np.unique(np.concatenate([np.empty(0, np.int64), *pieces]))

    def bounded(self, cuts: Cuts) -> Cuts:
        """The cuts, raised where a collection is so much larger that too many pairs would reach them."""
        counts = [
            int(scan.count_reaching(np.array([cut], np.float32))[0]) for scan, cut in self._beside(cuts)
        ]
        if max(counts) <= MOST_CANDIDATES:
            return cuts
        return Cuts(*map(max, astuple(cuts), astuple(self.cuts(MOST_CANDIDATES))))

    def cuts(self, wanted: int) -> Cuts:
        """The lowest cuts, to a thousandth, that at most `wanted` pairs reach each."""
        edges = np.linspace(-1.0, 1.0, 2001).astype(np.float32)
        found = []
        for scan in (self.cosine, self.mean, self.lexical):
            few = np.flatnonzero(scan.count_reaching(edges, desc="candidates") <= wanted)
            found.append(float(edges[few[0]]) if len(few) else 1.0)
        return Cuts(*found)

    def _beside(self, cuts: Cuts) -> tuple[tuple[Scan, float], ...]:
        """Each scan with its cut."""
        return (self.cosine, cuts.cosine), (self.mean, cuts.mean), (self.lexical, cuts.lexical)


def candidate_scans(
    scan_of: ScanOf,
    space: PairSpace,
    rows: tuple[Floats, Floats | None],
    lexical: tuple[Floats, Floats | None],
) -> CandidateScans:
    """Scans of unit rows of both sides (right None for one collection)."""
    both = [hybrid_rows(one, other) for one, other in zip(rows, lexical)]
    return CandidateScans(scan_of(space, *rows), scan_of(space, *lexical), scan_of(space, both[0], both[1]))


def hybrid_rows(rows: Floats | None, lexical: Floats | None) -> Any:
    """The encoder's and the lexical unit rows side by side: products are the mean of both cosines."""
    if rows is None or lexical is None:
        return None
    return np.concatenate([rows, lexical], axis=1) / np.float32(np.sqrt(2.0))


def lexical_rows(
    encoder: LexicalEncoder, space: PairSpace, texts: tuple[Sequence[str], Sequence[str]]
) -> tuple[Floats, Floats | None]:
    """Lexical rows of both sides (right None for one collection)."""
    return encoder.embed(texts[0]), None if space.symmetric else encoder.embed(texts[1])


@dataclass(frozen=True, eq=False)
class ReadTexts:
    """What the re-ranker reads from the texts of a space, whatever the labels: pieces and lexical rows."""

    vocabulary: Vocabulary
    encoder: LexicalEncoder
    pieces: TextPieces
    lexical: tuple[Floats, Floats | None]


def read_texts(
    space: PairSpace,
    texts: tuple[Sequence[str], Sequence[str]],
    vocabulary: Vocabulary | None = None,
    encoder: LexicalEncoder | None = None,
    layout: Layout | None = None,
) -> ReadTexts:
    """Read the texts of a space, with rarities and fields (`layout`) of their own unless others are given."""
    sides = texts[:1] if space.symmetric else texts
    vocabulary, encoder = vocabulary or count_pieces(sides, layout), encoder or fit_lexical(sides)
    pieces = TextReader(vocabulary).take_apart(space, *texts)
    return ReadTexts(vocabulary, encoder, pieces, lexical_rows(encoder, space, texts))


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
    rows: tuple[Floats, Floats | None],
    read: ReadTexts | None = None,
) -> dict[str, NDArray[Any]]:
    """Every candidate of a space: `ids` (n,), sorted, and its `logits` (n,).

    read: the texts as the re-ranker's vocabulary and lexical encoder read them, where they are at hand.
    """
    read = read or read_texts(space, texts, reranker.vocabulary, reranker.lexical)
    scans = candidate_scans(scan_of, space, rows, read.lexical)
    ids = scans.reaching(scans.bounded(reranker.cuts))
    more = cross_logits(reranker.cross_encoders, *texts, ids)
    features = describe(read.pieces, ids, (scans.cosine.scores(ids), scans.lexical.scores(ids), *more))
    return {"ids": ids, "logits": reranker.logits(features)}

"""Applies scorers to splits; embeddings and neighbours are kept as artifacts."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.artifacts import ArtifactStore
from pairsieve.contracts import MapShards, generator_for
from pairsieve.distributed import cached_embeddings, index_neighbours, open_scan
from pairsieve.models import Matcher
from pairsieve.pairs import CrossPairs, PairSpace
from pairsieve.reranker import ReadTexts, Reranker, read_texts
from pairsieve.reranker.fields import find_layout
from pairsieve.scan import Scan, unit_rows
from pairsieve.scorer import ExactNeighbours, ScoredSpace, Scorer, score_space
from pairsieve.scorer.corrections import (
    Arrays,
    CorrectedRows,
    Memo,
    NeighbourFinder,
    correct_rows,
    densities_from_lists,
    lengthen_rows,
    smooth_rows,
)
from pairsieve.search import INDEXES, ExactSearch, NeighbourSearch, PairSearch, neighbour_recall
from pairsieve.settings import CampaignSettings
from pairsieve.tasks import Collection, Split

Rows = NDArray[np.float32]
KEEP_UP_TO = 1 << 26  # pairs of the asked split up to which its last scores are kept for the next step


@dataclass
class Stopwatch:
    """Seconds spent in each phase of a round."""

    seconds: dict[str, float] = field(default_factory=dict)

    def note(self, phase: str, seconds: float) -> None:
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.note(phase, time.perf_counter() - began)


@dataclass(eq=False)
class SplitScorer:
    """Scores the splits of a task by the scorers of a campaign.

    own: the split that is asked about, whose neighbours may come from an index. shared: the store of frozen
    encoders' rows, which other campaigns may share. A `model` is the key of a round's trained matcher, empty
    for the encoder as it came.
    """

    own: Split
    settings: CampaignSettings
    store: ArtifactStore
    shared: ArtifactStore
    shards: MapShards | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)
    _lists: tuple[str, tuple[NDArray[np.int64], Rows]] | None = None
    _texts: dict[str, ReadTexts] = field(default_factory=dict)
    _scored: tuple[str, ScoredSpace] | None = None  # the model's key

    def unit_rows(self, matcher: Matcher, split: Split, model: str) -> tuple[Rows, Rows | None]:
        """Unit rows of both sides of a split (right None for one collection)."""
        left = self._rows(matcher, split.left, "left", model)
        return left, None if split.space.symmetric else self._rows(matcher, split.right, "right", model)

    def score(self, scorer: Scorer, split: Split, model: str) -> ScoredSpace:
        """A split scored by a scorer: every pair.

        The last of the asked split is kept while it is small or lies on a GPU, also for a scorer that differs
        from the last in its calibration alone.
        """
        on_gpu = self.settings.device != "cpu" and scorer.matcher.encoder_for("left").device != "cpu"
        kept = split is self.own and (split.space.size <= KEEP_UP_TO or on_gpu)
        if kept and self._scored is not None and self._scored[0] == model:
            last = self._scored[1]
            if last.scorer is scorer:
                return last
            alone = scorer.reranker is None and last.scorer.reranker is None
            if alone and last.scorer.corrections == scorer.corrections:
                return replace(last, scorer=scorer)
        rows = self.unit_rows(scorer.matcher, split, model)
        texts = split.left.texts, split.right.texts
        memo = self._memo(scorer, split, model, scorer.matcher)
        finder, read = self._finder(split, model), partial(self._read, split)
        scored = score_space(scorer, split.space, texts, rows, self.open_scan, finder, memo, read)
        if kept:
            self._scored = model, scored
        return scored

    def read_own_texts(self) -> ReadTexts:
        """What a re-ranker reads from the asked split, with the rarities of its own texts."""
        return self._read(self.own, None)

    def _read(self, split: Split, reranker: Reranker | None) -> ReadTexts:
        """The texts of a split as read under a re-ranker's rarities; the last of each split are kept."""
        kept = self._texts.get(split.name)
        if kept is None or (reranker and kept.vocabulary.digest != reranker.vocabulary.digest):
            texts = split.left.texts, split.right.texts
            if reranker:
                kept = read_texts(split.space, texts, reranker.vocabulary, reranker.lexical)
            else:
                kept = read_texts(split.space, texts, layout=find_layout(split.left, split.right))
            self._texts[split.name] = kept
        return kept

    def corrected(self, scorer: Scorer, split: Split, model: str) -> CorrectedRows:
        """The corrected rows of a split alone, where no scan is needed."""
        rows = self.unit_rows(scorer.matcher, split, model)
        finder, memo = self._finder(split, model), self._memo(scorer, split, model, scorer.matcher)
        return correct_rows(scorer.corrections, split.space, rows, finder, memo)

    def corrected_rows(self, scorer: Scorer, model: str) -> tuple[Rows, Rows | None]:
        """The rows of the asked split whose product is the score, and not those that they are made of: of a
        million texts each are a quarter of the memory."""
        if not any(scorer.corrections.smoothing):
            return self.corrected(scorer, self.own, model).rows
        finder, memo = self._finder(self.own, model), self._memo(scorer, self.own, model, scorer.matcher)
        left, right, *_ = smooth_rows(
            scorer.corrections, self.own.space, self.unit_rows(scorer.matcher, self.own, model), finder, memo
        )
        if any(scorer.corrections.hubness):
            lengthen_rows(scorer.corrections, self.own.space, (left, right), finder, memo)
        return left, right

    def nearest(self, matcher: Matcher, model: str) -> Arrays:
        """The nearest of each text of the asked split and its cosine, by plain rows."""
        finder = self._finder(self.own, model)
        memo, space = self._memo(None, self.own, model, matcher), self.own.space
        return memo("nearest", lambda: finder.nearest(space, *self.unit_rows(matcher, self.own, model)))

    def search(self, scorer: Scorer, model: str, round: int) -> PairSearch:
        """The search over the asked split by a scorer's bi-encoder, as the settings ask for it."""
        settings, space = self.settings, self.own.space
        if settings.search in ("exact", "neighbours"):
            scan = self.score(scorer, self.own, model).base
            if settings.search == "exact":
                return ExactSearch(scan)
            return NeighbourSearch.exact(scan, settings.neighbours)
        finder, memo = self._finder(self.own, model), self._memo(scorer, self.own, model, scorer.matcher)
        # Not by name: at a million texts, rows that nobody needs any more are a quarter of the memory.
        left, right, *_ = smooth_rows(
            scorer.corrections, space, self.unit_rows(scorer.matcher, self.own, model), finder, memo
        )
        columns, scores = self._index_lists((left, right), model)
        rng = generator_for(settings.seed, round, "recall")
        recall = neighbour_recall(
            self.open_scan(space, left, right, False), columns, rng, settings.recall_rows
        )
        if any(scorer.corrections.hubness):
            found = memo("density", lambda: finder.densities(space, left, right))
            names = enumerate(("left", "right"))
            lengths = [scorer.corrections.lengths(found[name], side) for side, name in names]
            scores = scores * lengths[0][:, None]
            for at, listed in enumerate(columns):
                scores[at] *= lengths[1][listed]  # -1 takes any length: it has no score
        method = f"{settings.search}, {columns.shape[1]} neighbours a row"
        return NeighbourSearch(space, columns, scores, method, recall)

    def open_scan(self, space: PairSpace, left: Rows, right: Rows | None, lengths: bool) -> Scan:
        """A scan of rows, here or by the shards of a cluster."""
        return open_scan(self.shards, space, left, right, device=self.settings.device, lengths=lengths)

    def forget_rows(self, model: str, splits: list[Split]) -> None:
        """Drop what a round's own encoder embedded; it can be made again."""
        for split in splits:
            for side, texts in (("left", split.left), ("right", split.right)):
                place = self.store.place("embeddings", _own_rows_key(model, texts, side))
                shutil.rmtree(place, ignore_errors=True)

    # ── keys and neighbours ─────────────────────────────────────────────────────────────────────

    def _rows(self, matcher: Matcher, texts: Collection, side: str, model: str) -> Rows:
        key, store = self._rows_key(matcher, texts, side, model)
        with self.watch.timed("embed"):
            encoder = matcher.encoder_for(side)
            rows = cached_embeddings(self.shards, store, key, encoder, texts.texts, side)
            return matcher.transform(rows, side)

    def _rows_key(
        self, matcher: Matcher, texts: Collection, side: str, model: str
    ) -> tuple[dict[str, Any], ArtifactStore]:
        """The key of a side's rows before any linear map, and the store that keeps them."""
        if model and not matcher.map_fingerprint:
            return _own_rows_key(model, texts, side), self.store
        prefix = matcher.encoder_for(side).prefix(side)
        key = {"encoder": matcher.rows_key(side), "texts": texts.fingerprint, "prefix": prefix}
        return key, self.shared

    def _memo(self, scorer: Scorer | None, split: Split, model: str, matcher: Matcher) -> Memo:
        """Keeps what was found about the neighbours of a split's texts as artifacts."""
        sides = [self._rows_key(matcher, split.left, "left", model)[0]]
        if not split.space.symmetric:
            sides.append(self._rows_key(matcher, split.right, "right", model)[0])
        key = {"rows": sides, "map": matcher.map_fingerprint, "index": self.index_name(split)}

        def memo(kind: str, build: Callable[[], Arrays]) -> Arrays:
            more: dict[str, Any] = {}
            if kind == "density" and scorer is not None:
                more = {"smoothing": scorer.corrections.smoothing, "floor": scorer.corrections.floor}
            if kind == "candidates" and scorer is not None:
                texts = [split.left.fingerprint, split.right.fingerprint]
                more = {"scorer": scorer.fingerprint, "texts": texts}

            def timed() -> Arrays:
                with self.watch.timed("select" if split is self.own else "measure"):
                    return build()

            return (self.store if model else self.shared).arrays(kind, {**key, **more}, timed)

        return memo

    def index_name(self, split: Split) -> str:
        """The index that lists neighbours of the asked split; empty where every pair is visited."""
        indexed = split is self.own and self.settings.search in INDEXES
        return f"{self.settings.search} {self.settings.neighbours}" if indexed else ""

    def _finder(self, split: Split, model: str) -> NeighbourFinder:
        if self.index_name(split):
            return _IndexNeighbours(self, model)
        return ExactNeighbours(lambda space, left, right: self.open_scan(space, left, right, False))

    def _index_lists(self, rows: tuple[Rows, Rows | None], model: str) -> tuple[NDArray[np.int64], Rows]:
        """Each text's neighbours in the asked split by the index, and their cosines; the last are kept."""
        if self._lists is None or self._lists[0] != model:
            self._lists = None  # before the next are made: at a million texts they are a fifth of the memory
            self._lists = model, self._indexed(self.own.space, *rows, self.settings.neighbours)
        return self._lists[1]

    def _indexed(
        self, space: PairSpace, left: Rows, right: Rows | None, count: int
    ) -> tuple[NDArray[np.int64], Rows]:
        """Up to `count` neighbours of each row by the index of the settings, and their cosines."""
        one = _writeable(left)
        other = one if right is None else _writeable(right)
        count = min(count, space.shape[1] - space.symmetric)
        return index_neighbours(self.shards, space, one, other, count, self.settings.search)


@dataclass(frozen=True, eq=False)
class _IndexNeighbours:
    """Finds neighbours of the asked split by the index of the settings."""

    scores: SplitScorer
    model: str

    def nearest(self, space: PairSpace, left: Rows, right: Rows | None) -> Arrays:
        ways: list[tuple[PairSpace, Rows, Rows | None]] = [(space, left, right)]
        if right is not None:
            ways.append((CrossPairs(*reversed(space.shape)), right, left))
        arrays: Arrays = {}
        for side, way in enumerate(ways):
            columns, cosines = self.scores._indexed(*way, 1)
            arrays |= {f"column-{side}": columns.reshape(-1), f"cosine-{side}": cosines.reshape(-1)}
        return arrays

    def densities(self, space: PairSpace, left: Rows, right: Rows | None) -> Arrays:
        one, other = densities_from_lists(space, *self.scores._index_lists((left, right), self.model))
        return {"left": one, "right": other}


def _writeable(rows: Rows) -> Rows:
    """Rows in memory, as an index takes them; embeddings are mapped from disk, and read-only."""
    return rows if rows.flags.writeable else unit_rows(rows)


def _own_rows_key(model: str, texts: Collection, side: str) -> dict[str, Any]:
    """The key of rows that only a round's own encoder gives."""
    return {"model": model, "texts": texts.fingerprint, "side": side}

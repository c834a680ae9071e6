"""The protocols `Matcher` and `Learner`: what every trained bi-encoder offers, and what trains one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from pairsieve.models.encoder import Embeddings, Encoder
from pairsieve.pairs import Ids, Mask

Texts: TypeAlias = Sequence[str]
Sides: TypeAlias = tuple[Texts, Texts]  # left and right texts: the same list twice for one collection
RowSides: TypeAlias = tuple[Embeddings, Embeddings] | None  # their rows, where they are at hand
Rng: TypeAlias = np.random.Generator


def fingerprint_of(*parts: Any) -> str:
    """sha256 of values as JSON."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class Matcher(Protocol):
    """A trained bi-encoder: the logit of a pair is `weight * cosine + bias`, with weight at least 0.

    The rows of a side ("left" or "right") are `transform(encoder_for(side).embed(texts, side), side)`.
    """

    @property
    def weight(self) -> float: ...
    @property
    def bias(self) -> float: ...
    @property
    def shared(self) -> bool: ...  # both sides are read alike
    @property
    def learner(self) -> str: ...  # name of the learner that trained it
    @property
    def trained_on(self) -> str: ...  # how many labels it was trained on
    @property
    def fingerprint(self) -> str: ...  # names all that a pair's logit depends on
    @property
    def map_fingerprint(self) -> str: ...  # names the linear map behind the encoder; empty without one
    def encoder_for(self, side: str) -> Encoder: ...
    def embed(self, texts: Texts, side: str = "left") -> Embeddings: ...

    def rows_key(self, side: str) -> str:
        """Fingerprint of the encoder's rows before any linear map: equal for all rounds of a frozen encoder.

        The prefix of the side is not part of it (see `Encoder.prefix`).
        """

    def transform(self, rows: Embeddings, side: str = "left") -> Embeddings:
        """The encoder's unit rows (n, d) -> the matcher's unit rows (n, d)."""

    def with_head(self, weight: float, bias: float) -> Matcher:
        """The same rows under another head."""

    def save(self, folder: Path) -> None:
        """Write a sentence-transformers folder with the head beside it (see `load_matcher`)."""

    def save_learned(self, folder: Path) -> None:
        """Write what training changed and no more; `Learner.load` reads it."""


class Learner(Protocol):
    """Fits a fresh matcher, from the pre-trained `encoder`, to everything answered so far."""

    @property
    def name(self) -> str: ...
    @property
    def encoder(self) -> Encoder: ...
    @property
    def uses_frozen_rows(self) -> bool: ...  # `fit` learns from the encoder's rows, which serve every round
    @property
    def fingerprint(self) -> str: ...  # names what it learns from the same labels and the same generator

    def pretrained(self) -> Matcher:
        """The encoder as it comes, with the identity head: its cosine is its logit."""

    def fit(self, texts: Sides, ids: Ids, labels: Mask, rng: Rng, rows: RowSides = None) -> Matcher:
        """A matcher for pairs `ids` of two text lists; `rows` are the pre-trained encoder's of both lists.

        Learners that use no frozen rows ignore them.
        """

    def load(self, folder: Path) -> Matcher:
        """What `Matcher.save_learned` wrote."""

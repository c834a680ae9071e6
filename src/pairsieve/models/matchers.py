"""Trained matchers: a fine-tuned encoder (`CosineMatcher`), a map over a frozen one (`ProjectionMatcher`).

Both embed texts, and their head turns a cosine into a logit.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.errors import InputError
from pairsieve.models.encoder import Embeddings, Encoder
from pairsieve.models.export import (
    HEAD_FILE,
    read_dense,
    read_head,
    read_matrix,
    write_card,
    write_encoder,
    write_json,
    write_matrix,
)
from pairsieve.models.folders import read_json
from pairsieve.models.interface import Matcher

_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class CosineMatcher:
    """Logit = weight · cosine of the two encoders' rows + bias. Shared encoder: left is right."""

    left: Encoder
    right: Encoder
    weight: float = 1.0
    bias: float = 0.0
    learner: str = "pretrained"
    trained_on: str = "no labels"

    @property
    def shared(self) -> bool:
        return self.left is self.right

    @property
    def fingerprint(self) -> str:
        return _sha256(self.left.fingerprint, self.right.fingerprint, self.weight, self.bias)

    @property
    def map_fingerprint(self) -> str:
        return ""

    def encoder_for(self, side: str) -> Encoder:
        return self.right if side == "right" else self.left

    def rows_key(self, side: str) -> str:
        return self.encoder_for(side).fingerprint

    def transform(self, rows: Embeddings, side: str = "left") -> Embeddings:
        return rows

    def embed(self, texts: Sequence[str], side: str = "left") -> Embeddings:
        return self.encoder_for(side).embed(texts, side)

    def with_head(self, weight: float, bias: float) -> CosineMatcher:
        return dataclasses.replace(self, weight=weight, bias=bias)

    def save(self, folder: Path) -> None:
        """A sentence-transformers folder, or `left/` and `right/` where each side has its own encoder."""
        _save(self, Path(folder), {"left": (self.left, None), "right": (self.right, None)}, {})

    def save_learned(self, folder: Path) -> None:
        self.save(folder)  # training changed the whole encoder


@dataclass(frozen=True, eq=False)
class ProjectionMatcher:
    """Logit = weight · cosine(map_left·u, map_right·v) + bias over a frozen encoder's unit rows u and v."""

    encoder: Encoder
    left_map: NDArray[np.float32] | None = None  # (d, d); None is the identity
    right_map: NDArray[np.float32] | None = None  # the same array as left_map where the sides share it
    weight: float = 1.0
    bias: float = 0.0
    learner: str = "projection"
    trained_on: str = "no labels"
    base: str | None = None  # fingerprint of the encoder it was trained on, where this is a saved copy

    @property
    def shared(self) -> bool:
        return self.left_map is self.right_map

    @property
    def fingerprint(self) -> str:
        return _sha256(self.map_fingerprint, self.weight, self.bias)

    @property
    def map_fingerprint(self) -> str:
        maps = [b"" if m is None else m.tobytes() for m in (self.left_map, self.right_map)]
        return _sha256(self.rows_key("left"), *maps)

    def encoder_for(self, side: str) -> Encoder:
        return self.encoder

    def rows_key(self, side: str) -> str:
        return self.base or self.encoder.fingerprint

    def transform(self, rows: Embeddings, side: str = "left") -> Embeddings:
        matrix = self.right_map if side == "right" else self.left_map
        if matrix is None:
            return np.asarray(rows, dtype=np.float32)
        mapped = np.empty((len(rows), matrix.shape[0]), dtype=np.float32)
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            piece = np.asarray(rows[first : first + _ROWS_AT_ONCE], dtype=np.float32) @ matrix.T
            length = np.linalg.norm(piece, axis=1, keepdims=True)
            mapped[first : first + _ROWS_AT_ONCE] = piece / np.maximum(length, 1e-12)
        return mapped

    def embed(self, texts: Sequence[str], side: str = "left") -> Embeddings:
        return self.transform(self.encoder.embed(texts, side), side)

    def with_head(self, weight: float, bias: float) -> ProjectionMatcher:
        return dataclasses.replace(self, weight=weight, bias=bias)

    def save(self, folder: Path) -> None:
        """A sentence-transformers folder with the map as its Dense layer; two where the sides differ."""
        sides = {"left": (self.encoder, self.left_map), "right": (self.encoder, self.right_map)}
        _save(self, Path(folder), sides, {"base_fingerprint": self.rows_key("left")})

    def save_learned(self, folder: Path) -> None:
        """The maps and the head, for a caller that keeps the encoder elsewhere."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if self.left_map is not None and self.right_map is not None:
            both = self.left_map if self.shared else np.stack([self.left_map, self.right_map])
            write_matrix(folder / "map.safetensors", both, "map")
        head = {"weight": self.weight, "bias": self.bias, "trained_on": self.trained_on}
        base = {"base_fingerprint": self.rows_key("left"), "identity": self.left_map is None}
        write_json(folder / "map.json", head | base)


def load_map(folder: Path, encoder: Encoder) -> ProjectionMatcher:
    """What `ProjectionMatcher.save_learned` wrote, over the encoder it was trained on."""
    folder = Path(folder)
    head = read_json(folder / "map.json")
    if head["base_fingerprint"] != encoder.fingerprint:
        raise InputError(
            f"this map was trained over another encoder than {encoder.name}",
            where=str(folder),
            why="the fingerprints differ: other weights, length or prefixes",
            remedy="Open it with the encoder it was trained on, or train again",
        )
    left = right = None
    if not head["identity"]:
        both = read_matrix(folder / "map.safetensors", "map")
        left, right = (both, both) if both.ndim == 2 else (both[0], both[1])
    return ProjectionMatcher(
        encoder, left, right, float(head["weight"]), float(head["bias"]), trained_on=head["trained_on"]
    )


def load_matcher(folder: Path | str, device: str | None = None) -> Matcher:
    """The matcher that `save` wrote into a folder."""
    folder = Path(folder)
    head = read_head(folder)

    def opened(inside: Path) -> Encoder:
        return Encoder(
            head.get("encoder", inside.name),
            inside,
            int(head.get("max_length", 128)),
            str(head.get("left_prefix", "")),
            str(head.get("right_prefix", "")),
            device,
            str(head.get("precision", "float32")),
        )

    weight, bias = float(head["weight"]), float(head["bias"])
    learner, trained_on = str(head.get("learner", "full")), str(head.get("trained_on", "unknown labels"))
    shared = bool(head.get("shared", True))
    left_folder, right_folder = (folder, folder) if shared else (folder / "left", folder / "right")
    left = opened(left_folder)
    if "base_fingerprint" in head:
        left_map = read_dense(left_folder)
        right_map = left_map if shared else read_dense(right_folder)
        return ProjectionMatcher(
            left, left_map, right_map, weight, bias, learner, trained_on, str(head["base_fingerprint"])
        )
    return CosineMatcher(left, left if shared else opened(right_folder), weight, bias, learner, trained_on)


def _save(
    matcher: Matcher,
    folder: Path,
    sides: dict[str, tuple[Encoder, NDArray[np.float32] | None]],
    more: dict[str, Any],
) -> None:
    """The encoder of each side with its map, in one folder where they are shared, and the head."""
    if matcher.shared:
        write_encoder(folder, *sides["left"])
    else:
        for side, (encoder, dense) in sides.items():
            write_encoder(folder / side, encoder, dense)
    encoder = matcher.encoder_for("left")
    head = {
        "weight": matcher.weight,
        "bias": matcher.bias,
        "learner": matcher.learner,
        "encoder": encoder.name,
        "trained_on": matcher.trained_on,
        "shared": matcher.shared,
        "max_length": encoder.max_length,
        "left_prefix": encoder.left_prefix,
        "right_prefix": encoder.right_prefix,
        "precision": encoder.precision,
        **more,
    }
    write_json(folder / HEAD_FILE, head)
    write_card(folder, head, encoder.name, matcher.trained_on)


def _sha256(*parts: str | float | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else json.dumps(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()

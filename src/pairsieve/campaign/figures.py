"""Figures of rounds in small files with a checksum (sha256), and a round in one line."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pairsieve.errors import ArtifactError
from pairsieve.files import load_json, write_text
from pairsieve.settings import CampaignSettings

if TYPE_CHECKING:
    from pairsieve.audit.estimate import AuditResult
    from pairsieve.contracts import Estimate
    from pairsieve.measure.figures import Figures

log = logging.getLogger("pairsieve")


@dataclass(frozen=True)
class Searched:
    """How pairs were searched, and the share of the best ones that such a search finds."""

    method: str
    recall: Estimate | None  # None of a re-ranker's candidates


@dataclass(frozen=True)
class SplitFigures:
    """Exact figures of a split, and whether none of its pairs could be asked about."""

    figures: Figures
    held_out: bool

    def as_json(self) -> dict[str, Any]:
        return {**self.figures.as_json(), "held_out": self.held_out}


@dataclass(frozen=True)
class RoundFigures:
    """The figures of a round, as they were measured."""

    round: int
    labels: int  # of this round and those before
    positives: int
    batch_labels: int  # of this round
    batch_positives: int
    measures: Mapping[str, SplitFigures]  # by split
    weight: float  # of the calibration
    bias: float
    threshold: float  # the score at which a match is as likely as not
    scorer: str  # its fingerprint
    reranked: bool
    search: Searched | None  # for the pairs of the round
    labels_digest: str  # of the labels that it was trained on
    settings_digest: str | None
    seconds: Mapping[str, float]  # by phase
    measuring: bool  # whether a share of the batch measures
    estimated: AuditResult | None  # by that share; None while it is too small

    def as_json(self) -> dict[str, Any]:
        """As the file of the round has it."""
        measures = {name: each.as_json() for name, each in self.measures.items()}
        first: dict[str, Any] = next(iter(measures.values()), {})
        same = ("round", "labels", "positives", "threshold", "scorer", "reranked")
        row = {name: getattr(self, name) for name in same}
        row |= {k: first[k] for k in ("average_precision", "precision_at_recall", "best_f1") if k in first}
        if self.measuring:
            row["estimated"] = None if self.estimated is None else self.estimated.as_json()
        return row | {
            "batch": {"labels": self.batch_labels, "positives": self.batch_positives},
            "measures": measures,
            "head": {"weight": self.weight, "bias": self.bias},
            "search": None if self.search is None else asdict(self.search),
            "basis": {"labels": self.labels_digest, "settings": self.settings_digest},
            "seconds": dict(self.seconds),
        }


def write_checksummed(path: Path, row: dict[str, Any]) -> None:
    """Write a row of figures whole or not at all, with the sha256 of its contents beside it."""
    body = json.dumps(row, sort_keys=True)
    try:
        path.parent.mkdir(exist_ok=True)
        write_text(path, json.dumps({"sha256": _sha256(body), "figures": json.loads(body)}, indent=1))
    except OSError as error:
        raise ArtifactError(
            f"{path}: cannot be written ({error.strerror}). All that was done before is kept. "
            "Make room or allow writing there, and run again."
        ) from error


def read_checksummed(path: Path) -> dict[str, Any] | None:
    """The row that was written; None where there is no file, and, with a warning, where it was altered."""
    try:
        held = load_json(path)
        figures: dict[str, Any] = held["figures"]
        if _sha256(json.dumps(figures, sort_keys=True)) == held["sha256"]:
            return figures
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        pass
    log.warning("%s is incomplete or altered. It is not used; it is written again.", path)
    return None


class ChecksummedFile:
    """A sealed file that another process writes; read again when it changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stamp: tuple[int, int] | None = None  # when it was written, and its size
        self._row: dict[str, Any] = {}

    def row(self) -> dict[str, Any]:
        """The row as it is now; empty where there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return {}
        if self.stamp != (found.st_mtime_ns, found.st_size):
            self.stamp, self._row = (found.st_mtime_ns, found.st_size), read_checksummed(self.path) or {}
        return self._row


def round_line(found: RoundFigures) -> str:
    """One round in one line."""
    quality = ""
    for split, measured in list(found.measures.items())[:1]:
        quality = f", {split} AP {measured.figures.average_precision.value:.4f}"
    labelled = f"{found.labels:,} labels, {found.positives:,} positives"
    return f"round {found.round}: {labelled}{quality} ({sum(found.seconds.values()):.1f} s)"


# What of the settings decides the scorer of a round, given its labels.
DECIDING = (
    *("split", "encoder", "left_prefix", "right_prefix", "max_length", "separate_encoders"),
    *("learner", "recipe", "hubness_correction", "neighbour_smoothing", "reranker"),
    *("learning_rate", "search", "neighbours", "seed"),
)


def settings_digest(settings: CampaignSettings, encoder: str) -> str:
    """Names the settings that decide a scorer, and the encoder by its fingerprint."""
    values = [getattr(settings, name) for name in DECIDING]
    return _sha256(json.dumps([*values, encoder]))


def not_held_out(rows: Sequence[dict[str, Any]]) -> str:
    """A sentence where the split measured each round shares pairs with the one asked about; else empty."""
    for row in rows:
        for name, figures in list(row.get("measures", {}).items())[:1]:
            if not figures.get("held_out", True):
                return f"Not held out, so too high: pairs of {name} could be asked about and trained on."
    return ""


def _sha256(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()

"""Figures of rounds in small files with a checksum (sha256), and a round in one line."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pairsieve.audit.estimate import AuditResult
from pairsieve.errors import ArtifactError
from pairsieve.files import load_json, read_record, write_text
from pairsieve.measure.figures import RoundFigures
from pairsieve.settings import CampaignSettings

log = logging.getLogger("pairsieve")

_T = TypeVar("_T")


@dataclass(frozen=True)
class AuditFigures:
    """An audit of a split: what it found, or, while labels are missing, how many."""

    campaign: Path
    split: str
    round: int  # whose scorer was measured
    waiting: int
    result: AuditResult | None  # None while labels are missing

    @staticmethod
    def of(row: Mapping[str, Any]) -> AuditFigures:
        """What `as_json` gave once nothing was missing."""
        found = read_record(AuditResult, row)
        return AuditFigures(Path(row["campaign"]), row["split"], row["round"], 0, found)

    def as_json(self) -> dict[str, Any]:
        figures = {"campaign": str(self.campaign), "split": self.split}
        if self.result is None:
            return {**figures, "state": "waiting", "waiting": self.waiting}
        return {**figures, "state": "audited", "waiting": 0, "round": self.round, **self.result.as_json()}


def as_written(row: dict[str, Any]) -> dict[str, Any]:
    """A row as its file has it: keys in order."""
    return json.loads(json.dumps(row, sort_keys=True))


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


def read_checksummed(path: Path, read: Callable[[dict[str, Any]], _T]) -> _T | None:
    """What `read` makes of a row; None without a file and, with a warning, where it holds no such row."""
    try:
        held = load_json(path)
        if _sha256(json.dumps(held["figures"], sort_keys=True)) == held["sha256"]:
            return read(held["figures"])
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
            self.stamp = (found.st_mtime_ns, found.st_size)
            self._row = read_checksummed(self.path, dict) or {}
        return self._row


def round_line(found: RoundFigures, trained: bool = True) -> str:
    """One round in one line; where no answer is a label, that nothing was trained."""
    if not trained:
        what = 'every answer so far is "unsure", so nothing was trained'
        return f"round {found.round}: {what}; further rounds ask about other pairs"
    first = found.first
    quality = f", {found.measured_on} AP {first.average_precision.value:.4f}" if first else ""
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


def not_held_out(found: RoundFigures | None) -> str:
    """A sentence where the split measured each round shares pairs with the one asked about; else empty."""
    if found is None or found.first is None or found.first.held_out:
        return ""
    return f"Not held out, so too high: pairs of {found.measured_on} could be asked about and trained on."


def _sha256(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()

"""Figures of rounds in small files with a checksum (sha256), and a round in one line."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pairsieve.errors import ArtifactError
from pairsieve.files import load_json, write_text
from pairsieve.settings import CampaignSettings

log = logging.getLogger("pairsieve")


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
    """A file with a checksum that another process writes; read again when it changes."""

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


def round_line(row: dict[str, Any]) -> str:
    """One round in one line."""
    ap = row.get("average_precision", {}).get("value")
    split = next(iter(row.get("measures", {})), "")
    quality = f", {split} AP {ap:.4f}" if ap is not None else ""
    spent = sum(row["seconds"].values())
    labelled = f"{row['labels']:,} labels, {row['positives']:,} positives"
    return f"round {row['round']}: {labelled}{quality} ({spent:.1f} s)"


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

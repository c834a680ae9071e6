"""The record of questions and answers of a campaign: export, verify, compact."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pairsieve.ledger.maintenance import Verification
from pairsieve.library.campaigns import Place, open_campaign
from pairsieve.library.records import Folder, Record


@dataclass(frozen=True)
class ExportedLedger(Record):
    """A file with every question and answer, and how many events it has."""

    file: Path
    events: int


@dataclass(frozen=True)
class VerifiedLedger:
    """Where a ledger is, and what was looked at in it."""

    ledger: str
    found: Verification

    @property
    def ok(self) -> bool:
        """Whether all is as it was written."""
        return self.found.ok

    def as_json(self) -> dict[str, Any]:
        return {"ledger": self.ledger, **self.found.as_json()}


@dataclass(frozen=True)
class CompactedLedger(Record):
    """Where a ledger is, and its size before and after it was compacted."""

    ledger: str
    bytes_before: int
    bytes_after: int


def export_ledger(campaign: Place, out: Folder) -> ExportedLedger:
    """Write every question and answer, with keys, to `out`: .parquet, .csv, .tsv or .jsonl."""
    return ExportedLedger(Path(out), open_campaign(campaign).ledger.export(Path(out)))


def verify_ledger(campaign: Place) -> VerifiedLedger:
    """Check that no question or answer was changed or lost; says so of a damaged ledger too."""
    ledger = open_campaign(campaign).open_ledger()
    return VerifiedLedger(ledger.place, ledger.verify())


def compact_ledger(campaign: Place) -> CompactedLedger:
    """Give the unused room of the database back to the disk."""
    ledger = open_campaign(campaign).ledger
    return CompactedLedger(ledger.place, *ledger.vacuum())

"""The settings that a campaign last ran with, kept beside it: campaign.toml may not change unnoticed.

A damaged file and an edited one look alike. So a value that is another than at the last run is refused until
somebody accepts it. Where nothing has run yet, the file can be edited freely.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pairsieve.campaign.figures import read_sealed, write_sealed
from pairsieve.errors import SettingsError
from pairsieve.settings import CAMPAIGN_FILE, CampaignSettings, save_settings, without_password

UNSEALED = ("schedule", "task")  # a task may move; its fingerprint says that it is the same


def accepted_changes(folder: Path, settings: CampaignSettings, accept: bool) -> str:
    """A sentence about what is another than when the campaign last ran, or ""; refused without `accept`."""
    now = _values(settings)
    before = read_sealed(_place(folder)) or now
    names = (name for name in now if name in before and before[name] != now[name])
    changes = "; ".join(f"{name} was {before[name]!r}, is {now[name]!r}" for name in names)
    if changes and not accept:
        raise SettingsError(
            f"{folder / CAMPAIGN_FILE} changed since the last run: {changes}. Put back what was there. "
            f"Or, if the change is meant, accept it with: pairsieve run {folder} --accept-settings"
        )
    return f"{CAMPAIGN_FILE} changed since the last run, and is accepted: {changes}" if changes else ""


def seal_settings(folder: Path, settings: CampaignSettings) -> None:
    """Keep the settings as those that the campaign runs with."""
    if read_sealed(_place(folder)) != _values(settings):
        write_sealed(_place(folder), _values(settings))


def save_accepted(folder: Path, settings: CampaignSettings) -> None:
    """Write campaign.toml by a command, so that nobody need accept it; also if killed on the way."""
    ran = _place(folder).exists()
    _place(folder).unlink(missing_ok=True)
    save_settings(folder / CAMPAIGN_FILE, settings)
    if ran:
        seal_settings(folder, settings)


def _values(settings: CampaignSettings) -> dict[str, Any]:
    """Name to JSON value; the ledger's URL without its password, since anybody may read this file."""
    values = {**asdict(settings), **{f"schedule.{k}": v for k, v in asdict(settings.schedule).items()}}
    values["ledger"] = without_password(settings.ledger)
    kept: dict[str, Any] = json.loads(json.dumps({k: v for k, v in values.items() if k not in UNSEALED}))
    return kept


def _place(folder: Path) -> Path:
    return folder / "rounds" / "settings.json"

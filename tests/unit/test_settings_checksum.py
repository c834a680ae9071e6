"""campaign.toml after the first run: what changed is refused, accepted on purpose, and never half written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pairsieve.campaign import creating
from pairsieve.campaign.creating import accepted_changes, record_settings, save_accepted
from pairsieve.errors import SettingsError
from pairsieve.settings import CampaignSettings, Schedule, load_settings

SETTINGS = CampaignSettings(task="../task")


def test_a_changed_value_is_refused_with_the_one_before(tmp_path: Path) -> None:
    edited = replace(SETTINGS, seed=1, schedule=Schedule(rounds=11))
    assert accepted_changes(tmp_path, edited, accept=False) == "", "before the first run anything goes"
    record_settings(tmp_path, SETTINGS)
    assert accepted_changes(tmp_path, SETTINGS, accept=False) == ""
    changes = "seed was 0, is 1; schedule.rounds was 10, is 11"
    with pytest.raises(SettingsError, match=rf"changed since the last run: {changes}\. Put back"):
        accepted_changes(tmp_path, edited, accept=False)
    assert accepted_changes(tmp_path, edited, accept=True).endswith(f"is accepted: {changes}")
    moved = replace(SETTINGS, task="../../elsewhere/task")
    assert accepted_changes(tmp_path, moved, accept=False) == "", (
        "the fingerprint says whether it is the same"
    )


def test_a_password_is_neither_kept_nor_said(tmp_path: Path) -> None:
    here = replace(SETTINGS, ledger="postgresql://me:s3cret@here/db")
    record_settings(tmp_path, here)
    assert "s3cret" not in (tmp_path / "rounds" / "settings.json").read_text()
    words = accepted_changes(tmp_path, replace(here, ledger="postgresql://me:0ther@there/db"), accept=True)
    assert words.endswith(": ledger was 'postgresql://me:***@here/db', is 'postgresql://me:***@there/db'")


@pytest.mark.parametrize("killed", ["save_settings", "record_settings"])
def test_a_command_that_is_killed_while_it_writes_the_settings_leaves_nothing_to_accept(
    killed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_accepted(tmp_path, SETTINGS)
    record_settings(tmp_path, SETTINGS)

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(creating, killed, kill)
        save_accepted(tmp_path, replace(SETTINGS, seed=1))
    assert accepted_changes(tmp_path, load_settings(tmp_path / "campaign.toml"), accept=False) == ""
    save_accepted(tmp_path, replace(SETTINGS, seed=2))
    record_settings(tmp_path, replace(SETTINGS, seed=2))
    save_accepted(tmp_path, replace(SETTINGS, seed=3))
    with pytest.raises(SettingsError, match="seed was 3, is 4"):
        accepted_changes(tmp_path, replace(SETTINGS, seed=4), accept=False)

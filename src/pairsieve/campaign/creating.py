"""Creates a campaign folder, with what is left out filled in from the task."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from pairsieve.campaign.checks import check_settings
from pairsieve.campaign.loop import Campaign
from pairsieve.errors import SettingsError
from pairsieve.settings import CAMPAIGN_FILE, PAPER_SCHEDULE, CampaignSettings, portable_task, save_settings
from pairsieve.tasks import Task, load_task, save_task

TASK_FOLDER = "task"  # of a task that came from memory, in the campaign's folder


def create_campaign(folder: Path, task: Task | Path, **settings: Any) -> Campaign:
    """A new campaign folder. Settings that cannot work (names, splits, budget) are refused here.

    task: its folder; or a task in memory, which is saved in the campaign's folder.
    """
    if (folder / CAMPAIGN_FILE).exists():
        go_on = f"Go on with: pairsieve run {folder}, or choose another folder."
        raise SettingsError(f"{folder} already holds a campaign. {go_on}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(f"{folder} exists and is not empty. Choose a new folder for the campaign.")
    task_folder = folder / TASK_FOLDER if isinstance(task, Task) else task
    task = task if isinstance(task, Task) else load_task(task)
    if "split" not in settings:
        usual = [name for name in ("all", "train") if name in task.splits]
        settings["split"] = usual[0] if usual else next(iter(task.splits))
    if "measure_splits" not in settings:
        measurable = [n for n, s in task.splits.items() if s.has_truth and len(s.positives)]
        wanted = "all" if settings["split"] == "all" else "dev"
        settings["measure_splits"] = tuple(n for n in (wanted,) if n in measurable)
    if "schedule" not in settings and settings.get("recipe") == "paper":
        settings["schedule"] = PAPER_SCHEDULE
    checked = CampaignSettings(
        task=portable_task(task_folder, folder),
        task_fingerprint=task.fingerprint,
        campaign_id=secrets.token_hex(8),
        **settings,
    )
    check_settings(checked, task)
    folder.mkdir(parents=True, exist_ok=True)
    if task_folder == folder / TASK_FOLDER and not task_folder.exists():
        save_task(task, task_folder)
    save_settings(folder / CAMPAIGN_FILE, checked)
    return Campaign(folder)

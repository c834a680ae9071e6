"""Creates a campaign folder, and refuses settings that do not fit the task, or that changed unnoticed.

A damaged campaign.toml and an edited one look alike. So the settings of the last run are kept beside the
campaign, and a value that is another than then is refused until somebody accepts it. Where nothing has run
yet, the file can be edited freely.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pairsieve.advice import parse_stop_rule
from pairsieve.campaign.figures import read_checksummed, write_checksummed
from pairsieve.errors import PoolExhausted, SettingsError, nearest
from pairsieve.plurals import counted
from pairsieve.settings import (
    CAMPAIGN_FILE,
    PAPER_SCHEDULE,
    CampaignSettings,
    portable_task,
    save_settings,
    without_password,
)
from pairsieve.strategies import strategy_named
from pairsieve.tasks import Task, load_task, save_task
from pairsieve.transitivity import check_transitive

if TYPE_CHECKING:
    from pairsieve.campaign.loop import Campaign

UNRECORDED = ("schedule", "task")  # a task may move; its fingerprint says that it is the same
TASK_FOLDER = "task"  # of a task that came from memory, in the campaign's folder


def create_campaign(folder: Path, task: Task | Path, **settings: Any) -> Campaign:
    """A new campaign folder. Settings that cannot work (names, splits, budget) are refused here.

    task: its folder; or a task in memory, which is saved in the campaign's folder. precision: "auto",
    as without one, is decided here, and what was taken stands in the campaign's file from then on.
    """
    from pairsieve.campaign.loop import Campaign

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
    automatic = settings.get("precision", "auto") == "auto"
    if automatic:
        settings["precision"] = "float32"
    checked = CampaignSettings(
        task=portable_task(task_folder, folder),
        task_fingerprint=task.fingerprint,
        campaign_id=secrets.token_hex(8),
        **settings,
    )
    check_settings(checked, task)
    if automatic:
        checked = replace(checked, precision=_tried_precision(checked, task))
    folder.mkdir(parents=True, exist_ok=True)
    if task_folder == folder / TASK_FOLDER and not task_folder.exists():
        save_task(task, task_folder)
    save_settings(folder / CAMPAIGN_FILE, checked)
    return Campaign(folder)


def check_settings(settings: CampaignSettings, task: Task) -> None:
    """An error in words unless splits, strategy, learner, encoder and budget fit the task and each other."""
    from pairsieve.models import LEARNERS, encoder_named

    for name in (settings.split, *settings.measure_splits):
        if name not in task.splits:
            raise SettingsError(f"task {task.name!r} has no split {name!r}. {nearest(name, task.splits)}.")
    strategy_named(settings.strategy)
    if settings.learner not in LEARNERS:
        raise SettingsError(f"unknown learner {settings.learner!r}. {nearest(settings.learner, LEARNERS)}.")
    encoder_named(settings.encoder, settings.max_length)
    space = task.splits[settings.split].space
    if settings.separate_encoders and space.symmetric:
        raise SettingsError(
            f"separate_encoders is set, and {settings.split} has one collection whose pairs have no left and "
            "right. Leave it out, or make the task with two collections."
        )
    if settings.left_prefix != settings.right_prefix and space.symmetric:
        raise SettingsError(
            f"left_prefix {settings.left_prefix!r} and right_prefix {settings.right_prefix!r} differ, and "
            f"{settings.split} has one collection: each of its texts stands left in some pairs and right in "
            "others. Set both to the same text, or make the task with two collections."
        )
    if settings.transitivity:
        check_transitive(space)
    if settings.stop_when:
        parse_stop_rule(settings.stop_when)
    budget = settings.schedule.budget()
    if space.size == 0:
        raise PoolExhausted(
            f"the split {settings.split} of the task has no pairs: a pair needs two texts. "
            "Make the task again with more rows."
        )
    if budget > space.size:
        raise PoolExhausted(
            f"the schedule asks for {counted(budget, 'distinct pair')}, "
            f"{counted(space.size, 'is', 'are')} in {settings.split}. "
            "Lower `labels`, or `first_batch`, `growth` or `rounds`."
        )


def _tried_precision(settings: CampaignSettings, task: Task) -> str:
    """The precision that pays for the split's texts on this machine; float32 where encoders are trained."""
    from pairsieve.models import encoder_named
    from pairsieve.models.precision import chosen_precision

    if settings.recipe == "paper" or settings.learner == "full":
        return "float32"
    device = None if settings.device == "auto" else settings.device
    split = task.splits[settings.split]
    texts = split.left.texts if split.space.symmetric else [*split.left.texts, *split.right.texts]
    prefixes = settings.left_prefix, settings.right_prefix
    return chosen_precision(encoder_named(settings.encoder, settings.max_length, *prefixes, device), texts)


def accepted_changes(folder: Path, settings: CampaignSettings, accept: bool) -> str:
    """A sentence about what is another than when the campaign last ran, or ""; refused without `accept`."""
    now = _values(settings)
    before = read_checksummed(_place(folder), dict) or now
    names = (name for name in now if name in before and before[name] != now[name])
    changes = "; ".join(f"{name} was {before[name]!r}, is {now[name]!r}" for name in names)
    if changes and not accept:
        raise SettingsError(
            f"{folder / CAMPAIGN_FILE} changed since the last run: {changes}. Put back what was there. "
            f"Or, if the change is meant, accept it: pairsieve run {folder} --accept-settings (in Python "
            "accept_settings=True)"
        )
    return f"{CAMPAIGN_FILE} changed since the last run, and is accepted: {changes}" if changes else ""


def record_settings(folder: Path, settings: CampaignSettings) -> None:
    """Keep the settings as those that the campaign runs with."""
    if read_checksummed(_place(folder), dict) != _values(settings):
        write_checksummed(_place(folder), _values(settings))


def save_accepted(folder: Path, settings: CampaignSettings) -> None:
    """Write campaign.toml by a command, so that nobody need accept it; also if killed on the way."""
    ran = _place(folder).exists()
    _place(folder).unlink(missing_ok=True)
    save_settings(folder / CAMPAIGN_FILE, settings)
    if ran:
        record_settings(folder, settings)


def _values(settings: CampaignSettings) -> dict[str, Any]:
    """Name to JSON value; the ledger's URL without its password, since anybody may read this file."""
    values = {**asdict(settings), **{f"schedule.{k}": v for k, v in asdict(settings.schedule).items()}}
    values["ledger"] = without_password(settings.ledger)
    return json.loads(json.dumps({k: v for k, v in values.items() if k not in UNRECORDED}))


def _place(folder: Path) -> Path:
    return folder / "rounds" / "settings.json"

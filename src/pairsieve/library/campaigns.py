"""Create and open campaigns, and name the command that takes one on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, Unpack

from pairsieve.campaign import Campaign
from pairsieve.campaign import create_campaign as _create_campaign
from pairsieve.campaign.status import Status, command_for
from pairsieve.distributed import open_shards
from pairsieve.errors import InputError, SettingsError, nearest
from pairsieve.library.records import Folder
from pairsieve.settings import PAPER_SCHEDULE, CampaignSettings, Schedule, check_arguments
from pairsieve.tasks import Task

Place: TypeAlias = Campaign | Path | str  # a campaign, or its folder
OWN_ARGUMENTS = {"task", "task_fingerprint", "campaign_id", "measure_splits", "schedule"}  # not as settings
EQUAL_ROUNDS = 10  # for a number of labels
FEWEST_A_ROUND = 5  # labels, where rounds are counted for the user


class Options(TypedDict, total=False):
    """A campaign's settings beyond its task and budget; what is left out is as in docs/settings.md."""

    split: str
    strategy: str
    seed_set: str
    encoder: str
    left_prefix: str
    right_prefix: str
    max_length: int
    separate_encoders: bool
    learner: str
    recipe: str
    hubness_correction: float | None
    neighbour_smoothing: float | None
    reranker: str
    learning_rate: float | None
    search: str
    neighbours: int
    recall_rows: int
    seed: int
    device: str
    precision: str
    transitivity: bool
    measuring_share: float | None
    stop_when: str
    ledger: str


def create_campaign(
    folder: Folder,
    task: Task | Folder,
    *,
    labels: int | None = None,
    rounds: int | None = None,
    first_batch: int | None = None,
    growth: float | None = None,
    measure: Sequence[str] | None = None,
    match: Place | None = None,
    cache: Folder | None = None,
    distributed: str | None = None,
    **settings: Unpack[Options],
) -> Campaign:
    """A new campaign in `folder` on a task, or on its folder; a task in memory is saved in `folder`/task.

    labels: labels in all, in equal rounds (10, unless `rounds` says otherwise, or fewer than 50 labels leave
    less than 5 for each); or first_batch and growth, where each round asks for `growth` times the last.
    Without any of them 400 labels in rounds of 40; with recipe "paper" the paper's 16,640. measure: splits
    measured after each round. match: with strategy "stratified", the campaign whose share of positives to
    match. cache: a folder of embeddings shared between campaigns. distributed: as `open_campaign` takes it.
    """
    allowed = {field.name for field in fields(CampaignSettings)} - OWN_ARGUMENTS
    unknown = sorted(set(settings) - allowed)
    if unknown:
        raise SettingsError(f"There is no setting {unknown[0]!r}. {nearest(unknown[0], allowed)}.")
    given = {"first_batch": first_batch, "growth": growth, "rounds": rounds}
    of_schedule: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    check_arguments({**settings, **of_schedule})
    if labels is not None and labels < 1:
        raise InputError(f"`labels={labels}`", remedy="Ask for at least one label")
    chosen: dict[str, Any] = dict(settings)
    if "encoder" in chosen:
        chosen["encoder"] = _portable_encoder(str(chosen["encoder"]))
    if match is not None:
        strategy = str(chosen.get("strategy", CampaignSettings.strategy))
        chosen["strategy"] = _matched_strategy(strategy, match)
    if distributed is not None and chosen.get("precision", "auto") == "auto":
        chosen["precision"] = "float32"  # other machines may have GPUs, which embed in that
    if measure is not None:
        chosen["measure_splits"] = tuple(measure)
    if labels is not None:
        if first_batch is not None or growth is not None:
            why = "`labels` means equal rounds"
            raise SettingsError(f"`labels` with `first_batch` or `growth`: {why}. Give one.")
        usual = max(1, min(EQUAL_ROUNDS, labels // FEWEST_A_ROUND))
        chosen["schedule"] = _equal_rounds(labels, usual if rounds is None else rounds)
    else:
        usual_schedule = PAPER_SCHEDULE if chosen.get("recipe") == "paper" else Schedule()
        chosen["schedule"] = replace(usual_schedule, **of_schedule)
    _create_campaign(Path(folder), task if isinstance(task, Task) else Path(task), **chosen)
    return open_campaign(folder, cache=cache, distributed=distributed)


def extend_campaign(campaign: Place, labels: int) -> Campaign:
    """Add rounds for at least so many labels more, as large as the last; run it again to go on."""
    campaign = open_campaign(campaign)
    if labels < 1:
        raise InputError(f"`labels={labels}`", remedy="Ask for at least one label more")
    campaign.extend(labels)
    return campaign


def open_campaign(
    folder: Place,
    *,
    cache: Folder | None = None,
    distributed: str | None = None,
    accept_settings: bool = False,
) -> Campaign:
    """The campaign in a folder, to be looked at or gone on with: `.run()`, `.status()`, `.figures()`.

    distributed: where texts are embedded and pairs scanned; `gpus` (all of this machine's), or a Ray
    cluster: `local`, `auto` or host:port. None is this process. accept_settings: what was edited in
    campaign.toml since the last run is meant; without it such a campaign is refused.
    """
    if isinstance(folder, Campaign):
        return folder
    where = None if cache is None else Path(cache)
    return Campaign(Path(folder), where, open_shards(distributed), accept_settings)


def campaign_status(campaign: Place) -> Status:
    """Where a campaign stands: what comes next, its rounds, and which of them are stale."""
    return open_campaign(campaign).status()


def next_command(campaign: Place) -> str:
    """The command that takes a campaign on, such as `pairsieve run mine`; empty where nothing is left."""
    campaign = open_campaign(campaign)
    return command_for(campaign.step().name, campaign.folder)


def trained_round(campaign: Campaign, wanted: int | None = None) -> int:
    """The round whose model is meant: the latest, or the one wanted, if there is such a model."""
    latest = campaign.trained_round()
    if wanted is not None and not 1 <= wanted <= latest:
        raise InputError(f"there is no model of round {wanted}", remedy=f"Choose a round from 1 to {latest}")
    if wanted is not None and not campaign.labels(wanted).round:
        why, remedy = 'every answer up to it is "unsure"', f"Choose a later round, up to {latest}"
        raise InputError(f"there is no model of round {wanted}", why=why, remedy=remedy)
    return latest if wanted is None else wanted


def _equal_rounds(labels: int, rounds: int) -> Schedule:
    """So many labels in equal rounds; where they do not divide, a few less."""
    if rounds > labels:
        raise InputError(
            f"`labels={labels}` in {rounds} rounds",
            why="a round asks for at least one",
            remedy="Lower `rounds`, or raise `labels`",
        )
    return Schedule(first_batch=labels // rounds, growth=1.0, rounds=rounds)


def _portable_encoder(name: str) -> str:
    """A folder is kept as an absolute path, so that it is found from anywhere; a name stays a name."""
    return str(Path(name).resolve()) if Path(name).is_dir() else name


def _matched_strategy(strategy: str, match: Place) -> str:
    """stratified:POSITIVES/LABELS, with the counts of another campaign."""
    if strategy != "stratified":
        raise InputError(
            "`match` goes with `strategy='stratified'`",
            why=f"{strategy!r} has no balance to set",
            remedy="Add `strategy='stratified'`, or leave `match` out",
        )
    other = open_campaign(match)
    rounds = other.status().rounds
    if not rounds:
        raise InputError("that campaign has no labels yet", where=str(other.folder), remedy="Run it first")
    return f"{strategy}:{rounds[-1].positives}/{rounds[-1].labels}"

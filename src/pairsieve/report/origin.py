"""Provenance of a campaign: its settings, fingerprints, versions, and the commands to make it again."""

from __future__ import annotations

import platform
import shlex
from dataclasses import asdict, dataclass
from importlib import metadata
from operator import attrgetter
from typing import Any

from pairsieve import __version__
from pairsieve.campaign import Campaign
from pairsieve.errors import PairsieveError
from pairsieve.settings import PAPER_SCHEDULE, CampaignSettings, settings_table, without_password

PACKAGES = ("numpy", "torch", "transformers")
OPTIONS = (  # settings with an option of `pairsieve init`, in the order in which a person would write them
    *("strategy", "encoder", "learner", "recipe", "hubness_correction", "neighbour_smoothing", "reranker"),
    *("schedule.first_batch", "schedule.growth", "schedule.rounds", "seed"),
    *("seed_set", "search", "neighbours", "left_prefix", "right_prefix", "learning_rate", "device"),
    *("transitivity", "measuring_share", "stop_when"),
)
GIVEN_OTHERWISE = ("task", "task_fingerprint", "campaign_id", "split", "measure_splits")


@dataclass(frozen=True)
class Origin:
    """Where a report comes from."""

    settings: tuple[tuple[str, str, str, bool], ...]  # key, value, meaning, whether it is not the default
    fingerprints: dict[str, str]
    versions: dict[str, str]
    task: dict[str, Any]  # name, relation, provenance, and a row of counts for each split shown
    commands: tuple[str, ...]


def origin_of(campaign: Campaign, split: str | None, model: int, fingerprint: str) -> Origin:
    """Everything that names the campaign's contents; `split` is the one the report measured."""
    task, settings = campaign.task, campaign.settings
    prints = {"task": task.fingerprint, "questions and answers": campaign.ledger.digest()}
    try:
        prints["encoder, with how it is trained"] = campaign.trainer.learner.fingerprint
    except PairsieveError:  # the encoder is not on this machine; the report says so elsewhere
        pass
    if fingerprint:
        prints[f"scorer of round {model}"] = fingerprint
    shown = [name for name in task.splits if name in (settings.split, split)]
    about = {
        "name": task.name,
        "relation": task.relation,
        "provenance": task.provenance,
        "splits": {name: task.splits[name].counts() for name in shown},
    }
    return Origin(_settings(settings), prints, _versions(), about, _commands(campaign, split))


def _settings(settings: CampaignSettings) -> tuple[tuple[str, str, str, bool], ...]:
    rows = []
    for key, default, _, meaning in settings_table():
        words = _words(attrgetter(key)(settings))
        chosen = key not in GIVEN_OTHERWISE[:2] and words != default.strip('"')
        rows.append((key, without_password(words), meaning, chosen))
    return tuple(rows)


def _words(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{each}"' for each in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _versions() -> dict[str, str]:
    found = {"pairsieve": __version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _commands(campaign: Campaign, split: str | None) -> tuple[str, ...]:
    """What to type, given the task folder, to have this campaign again."""
    settings, name = campaign.settings, shlex.quote(campaign.folder.resolve().name)
    defaults = {key: default for key, default, _, _ in settings_table()}
    if settings.recipe == "paper":
        defaults |= {f"schedule.{key}": str(value) for key, value in asdict(PAPER_SCHEDULE).items()}
    words = ["pairsieve", "init", name, "--task", shlex.quote(settings.task), "--split", settings.split]
    words += [word for each in settings.measure_splits for word in ("--measure", each)]
    values = {key: attrgetter(key)(settings) for key in defaults}
    chosen = {key: _words(values[key]) for key in defaults if _words(values[key]) != defaults[key].strip('"')}
    for key in OPTIONS:
        if key in chosen and values[key] is not None:
            words.append("--" + key.rpartition(".")[2].replace("_", "-"))
            words += [] if values[key] is True else [shlex.quote(chosen[key])]
    lines = [" ".join(words)]
    others = [key for key in chosen if key not in (*OPTIONS, *GIVEN_OTHERWISE)]
    by_hand = [f"{key} = {without_password(chosen[key])}" for key in others]
    if by_hand:
        lines.append(f"# then, in {name}/campaign.toml: {'; '.join(by_hand)}")
    lines.append(f"pairsieve run {name}")
    if not campaign.split.has_truth:
        lines.append(
            f"# run waits for the same answers: pairsieve ledger export {name} --out answers.csv has them"
        )
    lines.append(f"pairsieve report {name}" + (f" --split {split}" if split else ""))
    return tuple(lines)

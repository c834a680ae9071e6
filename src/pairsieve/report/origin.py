"""Could somebody else make the same campaign again? Its settings, fingerprints, versions and commands."""

from __future__ import annotations

import platform
import re
import shlex
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from pairsieve import __version__
from pairsieve.campaign import Campaign
from pairsieve.errors import PairsieveError
from pairsieve.settings import CampaignSettings, settings_table

PACKAGES = ("numpy", "torch", "transformers")
OPTIONS = (  # of `pairsieve init`, in the order in which a person would write them
    ("strategy", "--strategy"),
    ("encoder", "--encoder"),
    ("learner", "--learner"),
    ("schedule.first_batch", "--first-batch"),
    ("schedule.growth", "--growth"),
    ("schedule.rounds", "--rounds"),
    ("seed", "--seed"),
    ("seed_set", "--seed-set"),
    ("search", "--search"),
    ("neighbours", "--neighbours"),
    ("left_prefix", "--left-prefix"),
    ("right_prefix", "--right-prefix"),
    ("learning_rate", "--learning-rate"),
    ("device", "--device"),
    ("transitivity", "--transitivity"),
    ("stop_when", "--stop-when"),
)
GIVEN_OTHERWISE = ("task", "task_fingerprint", "split", "measure_splits")


@dataclass(frozen=True)
class Origin:
    """Where a report comes from."""

    settings: tuple[tuple[str, str, str, bool], ...]  # key, value, meaning, whether it is not the default
    fingerprints: dict[str, str]
    versions: dict[str, str]
    task: dict[str, Any]  # name, relation, provenance, and a row of counts for each split shown
    commands: tuple[str, ...]


def origin_of(campaign: Campaign, split: str | None, model: int, model_key: str) -> Origin:
    """Everything that names the campaign's contents; `split` is the one the report measured."""
    task, told = campaign.task, campaign.settings
    prints = {"task": task.fingerprint, "questions and answers": campaign.ledger.digest()}
    try:
        prints["encoder, with how it is trained"] = campaign.learner.fingerprint
    except PairsieveError:  # the encoder is not on this machine; the report says so elsewhere
        pass
    if model_key:
        prints[f"model of round {model}"] = model_key
    shown = [name for name in task.splits if name in (told.split, split)]
    about = {
        "name": task.name,
        "relation": task.relation,
        "provenance": task.provenance,
        "splits": {name: task.splits[name].counts() for name in shown},
    }
    return Origin(_settings(told), prints, _versions(), about, _commands(campaign, split))


def _settings(told: CampaignSettings) -> tuple[tuple[str, str, str, bool], ...]:
    rows = []
    for key, default, _, meaning in settings_table():
        words = _words(_value(told, key))
        chosen = key not in GIVEN_OTHERWISE[:2] and words != default.strip('"')
        rows.append((key, without_password(words), meaning, chosen))
    return tuple(rows)


def _value(told: CampaignSettings, key: str) -> Any:
    part: Any = told
    for name in key.split("."):
        part = getattr(part, name)
    return part


def _words(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{each}"' for each in value) + "]"
    return str(value)


def without_password(words: str) -> str:
    """A database's URL as it may be shown to others: `scheme://user:***@host`."""
    return re.sub(r"(://[^/@\s:]*:)[^/@\s]*@|(password=)[^&\s]*", _starred, words)


def _starred(found: re.Match[str]) -> str:
    return f"{found[1]}***@" if found[1] else f"{found[2]}***"


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
    told, name = campaign.settings, shlex.quote(campaign.folder.resolve().name)
    defaults = {key: default for key, default, _, _ in settings_table()}
    words = ["pairsieve", "init", name, "--task", shlex.quote(told.task)]
    if told.split != "train":
        words += ["--split", told.split]
    if told.measure_splits != ("dev",):
        words += [word for each in told.measure_splits for word in ("--measure", each)]
    for key, option in OPTIONS:
        value = _value(told, key)
        if value is None or _words(value) == defaults[key].strip('"'):
            continue
        words += [option] if value is True else [option, shlex.quote(_words(value))]
    lines = [" ".join(words)]
    named = {key for key, _ in OPTIONS} | set(GIVEN_OTHERWISE)
    by_hand = [
        f"{key} = {without_password(_words(_value(told, key)))}"
        for key in defaults
        if key not in named and _words(_value(told, key)) != defaults[key].strip('"')
    ]
    if by_hand:
        lines.append(f"# then, in {name}/campaign.toml: {'; '.join(by_hand)}")
    lines.append(f"pairsieve run {name}")
    lines.append(f"pairsieve report {name}" + (f" --split {split}" if split else ""))
    return tuple(lines)

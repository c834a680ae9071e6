"""Checks that settings fit the task and each other, before a label is bought."""

from __future__ import annotations

from pairsieve.advice import parse_stop_rule
from pairsieve.errors import PoolExhausted, SettingsError, nearest
from pairsieve.settings import CampaignSettings
from pairsieve.strategies import strategy_named
from pairsieve.tasks import Task
from pairsieve.transitivity import check_transitive


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
    if budget > space.size:
        raise PoolExhausted(
            f"the schedule asks for {budget:,} distinct pairs, {space.size:,} are in {settings.split}. "
            "Lower `labels`, or `first_batch`, `growth` or `rounds`."
        )

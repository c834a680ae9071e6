"""Can a campaign with these settings work on this task? Told before a label is bought, not in round 3."""

from __future__ import annotations

from pairsieve.errors import PoolExhausted, SettingsError, nearest
from pairsieve.measure.stopping import parse_stop_rule
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
    if settings.transitivity:
        check_transitive(space)
    if settings.stop_when:
        parse_stop_rule(settings.stop_when)
    budget = settings.schedule.budget()
    if budget > space.size:
        raise PoolExhausted(
            f"the schedule asks for {budget:,} distinct pairs, {space.size:,} are in {settings.split}. "
            "Lower --first-batch, --growth or --rounds."
        )

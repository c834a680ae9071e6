"""The models room: encoders, the cosine head, the learners that fit them, and the folders they leave.

| learner      | trains                                    | for                                   |
| ------------ | ----------------------------------------- | ------------------------------------- |
| `full`       | the whole encoder (the paper's CosineBERT) | one GPU                               |
| `projection` | a linear map over the frozen encoder      | a laptop: seconds a round             |
| `auto`       | `full` on CUDA, `projection` otherwise    |                                       |

`CrossEncoder` (the paper's ConcatBERT) stands apart: it scores given pairs and cannot be searched.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from pairsieve.errors import SettingsError, nearest
from pairsieve.models.cross import CrossEncoder, CrossMatcher, load_cross
from pairsieve.models.encoder import Encoder, encoder_named, usable_device
from pairsieve.models.full import RECIPES, FullLearner, LossSettings, rate_for
from pairsieve.models.head import fit_head
from pairsieve.models.matchers import CosineMatcher, ProjectionMatcher, load_map, load_matcher
from pairsieve.models.projection import ProjectionLearner, ProjectionSettings
from pairsieve.models.training import TrainingSettings

LEARNERS = ("auto", "full", "projection")


def learner_named(
    name: str,
    encoder: Encoder | str | Path,
    device: str | None = None,
    recipe: str = "paper",
    **settings: Any,
) -> FullLearner | ProjectionLearner:
    """The learner called so. `recipe` is that of the full learner (see `full.py`).

    `settings` are fields of `TrainingSettings` and `LossSettings`, or of
    `ProjectionSettings`; a small encoder gets a larger learning rate unless one is given."""
    if not isinstance(encoder, Encoder):
        encoder = encoder_named(encoder, device=device)
    elif device is not None and device != encoder.requested_device:
        encoder = dataclasses.replace(encoder, requested_device=device)
    if name not in LEARNERS:
        raise SettingsError(f"unknown learner {name!r}. {nearest(name, LEARNERS)}.")
    if name == "auto":
        name = "full" if usable_device(encoder.requested_device).startswith("cuda") else "projection"
    if name == "projection":
        known = _fields(ProjectionSettings)
        _check(name, settings, known)
        return ProjectionLearner(encoder, ProjectionSettings(**settings))
    training, loss = _fields(TrainingSettings), _fields(LossSettings)
    _check(name, settings, training | loss | {"shared"})
    if recipe not in RECIPES:
        raise SettingsError(f"unknown recipe {recipe!r}. {nearest(recipe, RECIPES)}.")
    told = {"learning_rate": rate_for(encoder, recipe), **RECIPES[recipe], **settings}
    return FullLearner(
        encoder,
        TrainingSettings(**{k: v for k, v in told.items() if k in training}),
        LossSettings(**{k: v for k, v in told.items() if k in loss}),
        told.get("shared", True),
    )


def _fields(settings: type) -> set[str]:
    return {one.name for one in dataclasses.fields(settings)}


def _check(learner: str, settings: dict[str, Any], known: set[str]) -> None:
    for key in settings:
        if key not in known:
            raise SettingsError(f"the learner {learner!r} has no setting {key!r}. {nearest(key, known)}.")


__all__ = [
    "LEARNERS",
    "RECIPES",
    "CosineMatcher",
    "CrossEncoder",
    "CrossMatcher",
    "Encoder",
    "FullLearner",
    "LossSettings",
    "ProjectionLearner",
    "ProjectionMatcher",
    "ProjectionSettings",
    "TrainingSettings",
    "encoder_named",
    "fit_head",
    "learner_named",
    "load_cross",
    "load_map",
    "load_matcher",
]

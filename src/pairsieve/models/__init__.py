"""Encoders, the learners that train bi-encoders from them, and the folders they are saved in.

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
from pairsieve.models.cached import cached_embeddings
from pairsieve.models.cross import CrossEncoder, CrossMatcher, load_cross
from pairsieve.models.encoder import Encoder, encoder_named, usable_device
from pairsieve.models.full import RECIPES, FullLearner, LossSettings, settings_for
from pairsieve.models.interface import Learner, Matcher
from pairsieve.models.matchers import CosineMatcher, ProjectionMatcher, load_matcher
from pairsieve.models.projection import ProjectionLearner, ProjectionSettings
from pairsieve.models.training import TrainingSettings

LEARNERS = ("auto", "full", "projection")


def learner_named(
    name: str,
    encoder: Encoder | str | Path,
    device: str | None = None,
    recipe: str = "paper",
    **settings: Any,
) -> Learner:
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
    chosen = settings_for(encoder, recipe) | settings
    return FullLearner(
        encoder,
        TrainingSettings(**{k: v for k, v in chosen.items() if k in training}),
        LossSettings(**{k: v for k, v in chosen.items() if k in loss}),
        chosen.get("shared", True),
    )


def _fields(settings: type) -> set[str]:
    return {one.name for one in dataclasses.fields(settings)}


def _check(learner: str, settings: dict[str, Any], known: set[str]) -> None:
    for key in settings:
        if key not in known:
            raise SettingsError(f"the learner {learner!r} has no setting {key!r}. {nearest(key, known)}.")

"""Phrase tables of the synthetic questions, read from `phrases.json`, and the small grammar they share.

A question means one (intent, object, attribute) of a family; all else in it is wording. In a pattern
`{o}` and `{a}` stand for the object and the attribute and `[can|do]` for a free choice of words. In
objects and attributes `|` separates names of the same thing: `"laptop|notebook computer"`. In what
surrounds a question `{place}`, `{person}` and `{time}` come from the tables of these names.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

_TABLES = json.loads(files(__package__).joinpath("phrases.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Intent:
    """Something people ask about any object of a family; with attributes, one question for each."""

    patterns: tuple[str, ...]
    attributes: tuple[str, ...]


@dataclass(frozen=True)
class Family:
    """A topic: the objects asked about, and what is asked about them."""

    name: str
    objects: tuple[str, ...]
    intents: tuple[Intent, ...]


FAMILIES = tuple(
    Family(
        family["name"],
        tuple(family["objects"]),
        tuple(
            Intent(tuple(intent["patterns"]), tuple(intent.get("attributes", [""])))
            for intent in family["intents"]
        ),
    )
    for family in _TABLES["families"]
)
OPENINGS, SETTINGS, CLOSINGS, PLACES, PEOPLE, TIMES = (
    tuple(_TABLES["surroundings"][name])
    for name in ("openings", "settings", "closings", "places", "people", "times")
)


def wording(pattern: str, choices: Sequence[float]) -> str:
    """`pattern` with each `[x|y]` settled by the next of `choices`, numbers in [0, 1)."""
    words, *rest = pattern.split("[")
    for at, piece in enumerate(rest):
        options, after = piece.split("]")
        words += pick(options.split("|"), choices[at % len(choices)]) + after
    return words


def pick(options: Sequence[str], choice: float) -> str:
    """The option that `choice`, a number in [0, 1), falls on; all have the same share."""
    return options[int(choice * len(options))]

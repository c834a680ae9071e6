"""How is a made question written down? The small grammar that the phrase tables share.

A question means one (intent, object, attribute) of a family; all else in it is wording. In a pattern
`{o}` and `{a}` stand for the object and the attribute and `[can|do]` for a free choice of words. In
objects and attributes `|` parts names of the same thing: `"laptop|notebook computer"`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Intent:
    """Something people ask about any object of a family; with attributes, one question for each."""

    patterns: tuple[str, ...]
    attributes: tuple[str, ...] = ("",)


@dataclass(frozen=True)
class Family:
    """A field of life: the things asked about, and what is asked about them."""

    name: str
    objects: tuple[str, ...]
    intents: tuple[Intent, ...]


def wording(pattern: str, choices: list[float]) -> str:
    """`pattern` with each `[x|y]` settled by the next of `choices`, numbers in [0, 1)."""
    words = ""
    for number, part in enumerate(pattern.split("[")):
        if number == 0:
            words = part
            continue
        options, rest = part.split("]")
        words += pick(options.split("|"), choices[(number - 1) % len(choices)]) + rest
    return words


def pick(options: list[str] | tuple[str, ...], choice: float) -> str:
    """The option that `choice`, a number in [0, 1), falls on; all have the same share."""
    return options[int(choice * len(options))]

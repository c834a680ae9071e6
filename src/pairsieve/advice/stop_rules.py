"""Stop rules of a campaign, such as "positives < 5% and labels >= 5000": parsing them, and whether one holds.

A condition compares what is known after a round with a value. "and" binds closer than "or". What is not known
yet never stops a campaign.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pairsieve.advice.advice import Advice
from pairsieve.errors import SettingsError, nearest

QUANTITIES = {
    "positives": "matches in the last batch, as a number or a percentage of it",
    "labels": "labels in all",
    "rounds": "rounds finished",
    "ap": "average precision after the last round",
    "ap gain": "gain in average precision expected of the next batch",
    "left": "matches likely left among all unasked pairs",
}
EXAMPLES = '"positives < 5%", "labels >= 5000", "ap gain < 0.01", "left < 100"'
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_CONDITION = re.compile(r"([a-z ]+?)\s*(<=|>=|<|>)\s*([0-9][0-9,]*\.?[0-9]*|\.[0-9]+)\s*(%?)")
_MAY_BE_SHARES = ("positives", "ap", "ap gain")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What stop rules may ask about; None is not known (yet)."""

    labels: int  # in all
    rounds: int
    batch: int  # labels of the last round
    positives: int  # matches among them
    ap: float | None = None
    ap_gain: float | None = None  # expected of the next batch
    left: float | None = None


@dataclass(frozen=True)
class Condition:
    """One comparison, such as "positives < 5%"; `share` where a percentage was written."""

    quantity: str
    sign: str
    value: float
    share: bool

    def holds(self, facts: Facts) -> bool:
        known: float | None = getattr(facts, self.quantity.replace(" ", "_"))
        if known is not None and self.quantity == "positives" and self.share:
            known /= max(facts.batch, 1)
        return known is not None and bool(_COMPARE[self.sign](known, self.value))

    def __str__(self) -> str:
        value = f"{self.value * 100:g}%" if self.share else f"{self.value:g}"
        return f"{self.quantity} {self.sign} {value}"


@dataclass(frozen=True)
class StopRule:
    """Conditions joined by "and" inside each of `either`, by "or" between them."""

    either: tuple[tuple[Condition, ...], ...]

    def holds(self, facts: Facts) -> str | None:
        """The first alternative that holds, as text; None where none does."""
        held = (every for every in self.either if all(condition.holds(facts) for condition in every))
        return next((" and ".join(map(str, every)) for every in held), None)

    def __str__(self) -> str:
        return " or ".join(" and ".join(map(str, every)) for every in self.either)


def parse_stop_rule(rule: str) -> StopRule:
    """A rule such as "positives < 5% and labels >= 5000 or left < 100"; "and" binds closer than "or"."""
    alternatives = (re.split(r"\band\b", every) for every in re.split(r"\bor\b", rule.lower()))
    return StopRule(tuple(tuple(_condition(text, rule) for text in every) for every in alternatives))


def stop_reason(rule: str, rounds: Sequence[Mapping[str, Any]], advice: Advice | None) -> str:
    """The alternative of a stop rule that holds after the last of `rounds`; empty where none does."""
    if not rule or not rounds:
        return ""
    last = rounds[-1]
    facts = Facts(
        labels=last["labels"],
        rounds=last["round"],
        batch=last["batch"]["labels"],
        positives=last["batch"]["positives"],
        ap=last.get("average_precision", {}).get("value"),
        ap_gain=advice.ap_gain if advice else None,
        left=advice.left.value if advice and advice.left else None,
    )
    return parse_stop_rule(rule).holds(facts) or ""


def _condition(text: str, rule: str) -> Condition:
    text = " ".join(text.split())
    found = _CONDITION.fullmatch(text)
    if found is None:
        known = "; ".join(f"{name} ({meaning})" for name, meaning in QUANTITIES.items())
        raise SettingsError(
            f"stop_when {rule!r}: {text!r} is not a rule. Write a quantity, one of < <= > >=, and a number, "
            f'for example {EXAMPLES}, joined by "and" or "or". Known quantities: {known}.'
        )
    quantity, sign, value, percent = found.groups()
    if quantity not in QUANTITIES:
        message = f"unknown quantity {quantity!r}. {nearest(quantity, QUANTITIES)}. For example {EXAMPLES}."
        raise SettingsError(f"stop_when {rule!r}: {message}")
    if percent and quantity not in _MAY_BE_SHARES:
        raise SettingsError(f"stop_when {rule!r}: {quantity} is a count, not a percentage.")
    return Condition(
        quantity, sign, float(value.replace(",", "")) / (100.0 if percent else 1.0), bool(percent)
    )

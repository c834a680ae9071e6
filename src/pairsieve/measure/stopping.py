"""When should a campaign stop by itself? Rules in words, such as "positives < 5% and labels >= 5000".

A rule compares what is known after a round with a number. Rules are joined by "and" and "or"; "and" binds
closer. What is not known yet never stops a campaign.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from pairsieve.errors import SettingsError, nearest


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What stop rules may ask about; None is not known (yet)."""

    labels: int  # bought in all
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
        """What is not known never stops a campaign."""
        known: float | None = getattr(facts, self.quantity.replace(" ", "_"))
        if known is None:
            return False
        if self.quantity == "positives" and self.share:
            known = known / max(facts.batch, 1)
        return bool(_SIGNS[self.sign](known, self.value))

    def __str__(self) -> str:
        return f"{self.quantity} {self.sign} " + (
            f"{self.value * 100:g}%" if self.share else f"{self.value:g}"
        )


@dataclass(frozen=True)
class StopRule:
    """Conditions joined by "and" inside each of `either`, by "or" between them."""

    either: tuple[tuple[Condition, ...], ...]

    def holds(self, facts: Facts) -> str | None:
        """The words of the first alternative that holds, None where none does."""
        for every in self.either:
            if all(condition.holds(facts) for condition in every):
                return " and ".join(map(str, every))
        return None

    def __str__(self) -> str:
        return " or ".join(" and ".join(map(str, every)) for every in self.either)


_SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
QUANTITIES = {
    "positives": "matches in the last batch, as a number or a percentage of it",
    "labels": "labels bought in all",
    "rounds": "rounds finished",
    "ap": "average precision after the last round",
    "ap gain": "gain in average precision expected of the next batch",
    "left": "matches likely left among all unasked pairs",
}
EXAMPLES = '"positives < 5%", "labels >= 5000", "ap gain < 0.01", "left < 100"'
_CONDITION = re.compile(r"([a-z ]+?)\s*(<=|>=|<|>)\s*([0-9][0-9,]*\.?[0-9]*|\.[0-9]+)\s*(%?)")
_MAY_BE_SHARES = ("positives", "ap", "ap gain")


def parse_stop_rule(words: str) -> StopRule:
    """A rule such as "positives < 5% and labels >= 5000 or left < 100"; "and" binds closer than "or"."""
    text = " ".join(words.lower().split())
    return StopRule(
        tuple(
            tuple(_condition(part.strip(), words) for part in re.split(r"\band\b", alternative))
            for alternative in re.split(r"\bor\b", text)
        )
    )


def _condition(part: str, words: str) -> Condition:
    found = _CONDITION.fullmatch(part)
    known = "; ".join(f"{name} ({meaning})" for name, meaning in QUANTITIES.items())
    if found is None:
        raise SettingsError(
            f"stop_when {words!r}: {part!r} is not a rule. Write a quantity, one of < <= > >=, and a number, "
            f'for example {EXAMPLES}, joined by "and" or "or". Known quantities: {known}.'
        )
    quantity, sign, number, percent = found.groups()
    if quantity not in QUANTITIES:
        raise SettingsError(
            f"stop_when {words!r}: unknown quantity {quantity!r}. {nearest(quantity, QUANTITIES)}. "
            f"For example {EXAMPLES}."
        )
    if percent and quantity not in _MAY_BE_SHARES:
        raise SettingsError(f"stop_when {words!r}: {quantity} is a count, not a percentage.")
    value = float(number.replace(",", "")) / (100.0 if percent else 1.0)
    return Condition(quantity, sign, value, bool(percent))

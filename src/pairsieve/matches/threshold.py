"""Targets of a list (F1, precision, recall, count) and the threshold that meets one on a curve.

A curve (`measure.curve`) says how many true and false matches stand at or above each threshold;
`calibration.py` makes one from dev's truth, from labels, or from an audit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pairsieve.errors import InputError
from pairsieve.measure.curve import Curve

KINDS = ("f1", "precision", "recall", "count", "threshold")


@dataclass(frozen=True)
class Target:
    """What the list should be: the best F1, a precision or a recall, so many pairs, or a given threshold."""

    kind: str = "f1"
    value: float = 0.0

    def __post_init__(self) -> None:
        shares = self.kind in ("precision", "recall")
        if self.kind not in KINDS:
            raise ValueError(f"unknown target {self.kind!r}; known: {', '.join(KINDS)}")
        if shares and not 0 < self.value <= 1:
            remedy = "Give a share above 0 and up to 1, such as 0.9"
            raise InputError(f"`{self.kind}={self.value:g}`", remedy=remedy)
        if self.kind == "count" and (self.value < 1 or self.value != int(self.value)):
            raise InputError(f"`count={self.value:g}`", remedy="Give a whole number of pairs, such as 1000")
        if not np.isfinite(self.value):
            raise InputError(f"`{self.kind}={self.value}`", remedy="Give a finite number")

    def __str__(self) -> str:
        if self.kind == "f1":
            return "the best F1"
        if self.kind == "count":
            return f"{int(self.value):,} pairs"
        return f"a {self.kind} of {self.value:g}"


def target_from(
    precision: float | None,
    recall: float | None,
    count: int | None,
    threshold: float | None,
    f1: bool = False,
) -> Target:
    """The one target among those given; the best F1 where none is, or where `f1` asks for it."""
    given = {"precision": precision, "recall": recall, "count": count, "threshold": threshold}
    given = {"f1": 0.0 if f1 else None, **given}
    named = [(kind, value) for kind, value in given.items() if value is not None]
    if len(named) > 1:
        what = " and ".join(f"`{kind}`" for kind, _ in named) + " together"
        why = "each of them alone decides where the list ends"
        raise InputError(what, why=why, remedy="Give one of them")
    return Target(named[0][0], float(named[0][1])) if named else Target()


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold, and the figures its curve gives it; nan where nothing is known."""

    threshold: float
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total > 0 else total  # 0, or nan

    def as_json(self) -> dict[str, Any]:
        figures = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        known = {name: value for name, value in figures.items() if np.isfinite(value)}
        return {"threshold": self.threshold, **known}


def choose_threshold(curve: Curve, target: Target, or_best: bool = False) -> OperatingPoint:
    """The point that meets a target for F1, precision or recall; an error names the best that can be had.

    For a precision it is the point with the highest recall among those that are precise enough; for a recall
    the highest threshold that reaches it; ties go to the higher threshold. or_best: the best that can be had
    in place of an error.
    """
    if len(curve.thresholds) == 0:
        why = "nothing is known of the pairs at any score"
        remedy = "Ask for more labels, or give `threshold` or `count`"
        raise InputError("no threshold can be chosen", why=why, remedy=remedy)
    if target.kind == "f1":
        found = curve.true_positives + curve.false_positives
        return point_at(curve, int(np.argmax(2 * curve.true_positives / (found + curve.positives))))
    if target.kind not in ("precision", "recall"):
        raise ValueError(f"a curve cannot tell the threshold for {target}")
    precise = target.kind == "precision"
    values, others = (curve.precision, curve.recall) if precise else (curve.recall, curve.precision)
    good = np.flatnonzero(values >= target.value - 1e-12)
    if len(good):
        return point_at(curve, int(good[np.argmax(others[good])] if precise else good[0]))
    at = int(np.argmax(values))
    if or_best:
        return point_at(curve, at)
    best, other = ("best", "recall") if precise else ("highest", "precision")
    point = f"at {other} {others[at]:.4f} (threshold {curve.thresholds[at]:.4f})"
    why = f"the {best} is {values[at]:.4f}, {point}"
    remedy = f"Ask for `{target.kind}={np.floor(values[at] * 1000) / 1000:g}` or less, "
    if precise:
        remedy += "or ask for more labels"
    else:
        why += "; the other matches lie below all pairs searched, or below all scores of which something is "
        why += "known"
        remedy += "search all pairs (`search='exact'`), or say how far down to go: `count` or `threshold`"
    raise InputError(f"a {target.kind} of {target.value:g} cannot be reached", why=why, remedy=remedy)


def point_at(curve: Curve, place: int) -> OperatingPoint:
    """One point of a curve."""
    return OperatingPoint(
        float(curve.thresholds[place]), float(curve.precision[place]), float(curve.recall[place])
    )


def point_through(curve: Curve, threshold: float) -> OperatingPoint:
    """What a curve says of any threshold: that of the lowest point at or above it; nan above the first."""
    reached = int((curve.thresholds >= np.float32(threshold)).sum())
    if reached == 0:
        return OperatingPoint(threshold, float("nan"), float("nan"))
    at = point_at(curve, reached - 1)
    return OperatingPoint(threshold, at.precision, at.recall)

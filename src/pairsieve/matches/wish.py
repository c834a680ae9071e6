"""Where is the line between matches and the rest? A wish, and the threshold that fulfils it on a curve.

A curve (`measure.curve`) says how many true and false matches stand at or above each threshold; `evidence.py`
makes one from dev labels, from the labels bought, or from an audit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pairsieve.errors import InputError
from pairsieve.measure.curve import Curve

KINDS = ("f1", "precision", "recall", "count", "threshold")


@dataclass(frozen=True)
class Wish:
    """What the list should be: the best F1, a precision or a recall, so many pairs, or a given threshold."""

    kind: str = "f1"
    value: float = 0.0

    def __post_init__(self) -> None:
        shares = self.kind in ("precision", "recall")
        if self.kind not in KINDS:
            raise ValueError(f"unknown wish {self.kind!r}; known: {', '.join(KINDS)}")
        if shares and not 0 < self.value <= 1:
            raise InputError(
                f"--{self.kind} {self.value:g}", remedy="Give a share above 0 and up to 1, such as 0.9"
            )
        if self.kind == "count" and (self.value < 1 or self.value != int(self.value)):
            raise InputError(f"--count {self.value:g}", remedy="Give a whole number of pairs, such as 1000")
        if not np.isfinite(self.value):
            raise InputError(f"--{self.kind} {self.value}", remedy="Give a finite number")

    def __str__(self) -> str:
        if self.kind == "f1":
            return "the best F1"
        if self.kind == "count":
            return f"{int(self.value):,} pairs"
        return f"a {self.kind} of {self.value:g}"


def wish_from(
    precision: float | None, recall: float | None, count: int | None, threshold: float | None
) -> Wish:
    """The one wish among the options given; the best F1 where none is."""
    given = {"precision": precision, "recall": recall, "count": count, "threshold": threshold}
    named = [(kind, value) for kind, value in given.items() if value is not None]
    if len(named) > 1:
        raise InputError(
            " and ".join(f"--{kind}" for kind, _ in named) + " together",
            why="each of them alone decides where the list ends",
            remedy="Give one of them",
        )
    return Wish(named[0][0], float(named[0][1])) if named else Wish()


@dataclass(frozen=True)
class Line:
    """A threshold, and the figures its curve gives it; nan where nothing is known."""

    threshold: float
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total > 0 else 0.0

    def as_json(self) -> dict[str, Any]:
        figures = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        known = {name: value for name, value in figures.items() if np.isfinite(value)}
        return {"threshold": self.threshold, **known}


def draw_line(curve: Curve, wish: Wish) -> Line:
    """The line that fulfils a wish for F1, precision or recall; an error names the best that can be had.

    For a precision it is the line with the highest recall among those that are precise enough; for a recall
    the highest threshold that reaches it; ties go to the higher threshold.
    """
    if wish.kind == "f1":
        return line_at(curve, int(np.argmax(_f1(curve))))
    if wish.kind == "precision":
        good = np.flatnonzero(curve.precision >= wish.value - 1e-12)
        if not len(good):
            best = line_at(curve, int(np.argmax(curve.precision)))
            raise InputError(
                f"a precision of {wish.value:g} cannot be reached",
                why=f"the best is {best.precision:.4f}, at recall {best.recall:.4f} "
                f"(threshold {best.threshold:.4f})",
                remedy=f"Ask for --precision {np.floor(best.precision * 1000) / 1000:g} or less, "
                "or buy more labels",
            )
        return line_at(curve, int(good[np.argmax(curve.recall[good])]))
    if wish.kind == "recall":
        enough = np.flatnonzero(curve.recall >= wish.value - 1e-12)
        if not len(enough):
            best = line_at(curve, int(np.argmax(curve.recall)))
            raise InputError(
                f"a recall of {wish.value:g} cannot be reached",
                why=f"the highest is {best.recall:.4f}, at precision {best.precision:.4f} "
                f"(threshold {best.threshold:.4f}); the other matches lie below all pairs searched, "
                "or below all scores of which something is known",
                remedy=f"Ask for --recall {np.floor(best.recall * 1000) / 1000:g} or less, search all pairs "
                "(--search exact --first-look), or say how far down to go with --count or --threshold",
            )
        return line_at(curve, int(enough[0]))
    raise ValueError(f"a curve cannot tell the threshold for {wish}")


def line_at(curve: Curve, place: int) -> Line:
    """The line through one point of a curve."""
    return Line(float(curve.thresholds[place]), float(curve.precision[place]), float(curve.recall[place]))


def line_through(curve: Curve, threshold: float) -> Line:
    """What a curve says of any threshold: that of the lowest point at or above it; nan above the first."""
    reached = int((curve.thresholds >= np.float32(threshold)).sum())
    if reached == 0:
        return Line(threshold, float("nan"), float("nan"))
    at = line_at(curve, reached - 1)
    return Line(threshold, at.precision, at.recall)


def _f1(curve: Curve) -> Any:
    found = curve.true_positives + curve.false_positives
    return 2 * curve.true_positives / (found + curve.positives)

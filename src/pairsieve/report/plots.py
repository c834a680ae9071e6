"""Plots: the precision-recall curve over all pairs, and learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.errors import InputError
from pairsieve.files import atomic_file, write_errors
from pairsieve.measure.curve import Curve
from pairsieve.measure.figures import digits

FORMATS = ("png", "svg", "pdf")
INK = {"uncertainty": "#1b6ca8", "adaptive": "#2a9d6f", "static": "#d9822b", "random": "#8a8f98"}
INK |= {"defaults": INK["uncertainty"], "nearest first": INK["static"]}
OTHERS = ("#7a4fa3", "#b03a5b", "#4c6a2f", "#555555")


def pr_curve(
    curve: Curve, path: Path, title: str, pairs: int = 0, average_precision: float | None = None
) -> None:
    """Precision (log scale) over recall.

    `average_precision` stands in the legend where an estimate differs from that of the plain curve.
    """
    figure, axes = _figure(7, 4.6)
    ap = curve.average_precision() if average_precision is None else average_precision
    steps(axes, curve, f"all pairs: AP {digits(ap)}", color=INK["uncertainty"], lw=2)
    if pairs:
        base = curve.positives / pairs
        axes.axhline(base, color=INK["random"], lw=1, ls=":", label=f"guessing: one in {1 / base:,.0f}")
    axes.set(yscale="log", xlim=(0, 1), ylim=(None, 1.15), xlabel="recall", ylabel="precision (log scale)")
    axes.set_title(title, loc="left", parse_math=False)
    axes.grid(alpha=0.25, which="both", lw=0.5)
    axes.legend(frameon=False, loc="best")
    save(figure, path)


def learning_curves(
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    path: Path,
    title: str,
    right: tuple[str, str] = ("positives", "matches found"),
) -> None:
    """AP over all pairs, and another figure, by number of labels. `runs`: name -> one row a round.

    right: the other figure's key in a row, and its words.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    figure, (left, other) = _figure(10, 4.2, columns=2)
    for position, (name, rows) in enumerate(runs.items()):
        color = INK.get(name, OTHERS[position % len(OTHERS)])
        labels = [row["labels"] for row in rows]
        left.plot(labels, [row["average_precision"] for row in rows], "o-", color=color, label=name, lw=2)
        other.plot(labels, [row[right[0]] for row in rows], "o-", color=color, label=name, lw=2)
    left.set(xlabel="labels", ylabel="average precision over all pairs", ylim=(0, None))
    other.set(xlabel="labels", ylabel=right[1], ylim=(0, None))
    for axes in (left, other):
        axes.grid(alpha=0.25, lw=0.5)
        axes.yaxis.set_major_locator(MaxNLocator(6))
    for axis in (left.xaxis, other.xaxis, *([other.yaxis] if right[0] == "positives" else [])):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    left.legend(frameon=False)
    figure.suptitle(title, x=0.01, ha="left", parse_math=False)
    save(figure, path)


def check_plot(path: Path) -> str:
    """The picture's format by its suffix (png without one); an error where it could not be written."""
    kind = path.suffix.lstrip(".").lower() or "png"
    if kind not in FORMATS:
        remedy = f"Call it .{', .'.join(FORMATS)}"
        raise InputError(f"no plot is written as .{kind}", where=str(path), remedy=remedy)
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if path.is_dir() or not above.is_dir():
        why = "it is a folder" if path.is_dir() else f"{above} is a file"
        remedy = "Give the name of a file to write"
        raise InputError("no plot can be written there", where=str(path), why=why, remedy=remedy)
    return kind


def steps(axes: Any, curve: Curve, label: str, **look: Any) -> None:
    """The curve as average precision sums it: each point's precision holds from the recall before it."""
    recall = np.concatenate([[0.0], curve.recall])
    precision = np.concatenate([curve.precision[:1], curve.precision])
    axes.step(recall, precision, where="pre", label=label, **look)


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    """A figure and its axes; not through pyplot, which would change the settings of whoever calls us."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplots(1, columns)


def save(figure: Any, path: Path) -> None:
    """Write a plot, whole or not at all."""
    kind = check_plot(path)
    with write_errors("the plot", path, "Choose another file"), atomic_file(path) as unfinished:
        figure.savefig(unfinished, dpi=150, format=kind)

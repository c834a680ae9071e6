"""Plots: the precision-recall curve over all pairs, and learning curves."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.measure.curve import Curve

INK = {"uncertainty": "#1b6ca8", "adaptive": "#2a9d6f", "static": "#d9822b", "random": "#8a8f98"}
OTHERS = ("#7a4fa3", "#b03a5b", "#4c6a2f", "#555555")


def pr_curve(curve: Curve, path: Path, title: str, balanced: Curve | None = None, pairs: int = 0) -> None:
    """Precision (log scale) over recall; `balanced` is what the stated pairs alone would show."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7, 4.6), layout="constrained")
    axes.step(curve.recall, curve.precision, where="pre", color=INK["uncertainty"], lw=2)
    ap = curve.average_precision()
    axes.plot([], [], color=INK["uncertainty"], lw=2, label=f"all pairs: AP {ap:.3f}")
    if balanced is not None:
        axes.step(
            balanced.recall,
            balanced.precision,
            where="pre",
            color=INK["static"],
            lw=1.5,
            ls="--",
            label=f"stated pairs alone: AP {balanced.average_precision():.3f}",
        )
    if pairs:
        base = curve.positives / pairs
        axes.axhline(base, color=INK["random"], lw=1, ls=":", label=f"guessing: one in {1 / base:,.0f}")
    axes.set(yscale="log", xlim=(0, 1), ylim=(None, 1.15), xlabel="recall", ylabel="precision (log scale)")
    axes.set_title(title, loc="left")
    axes.grid(alpha=0.25, which="both", lw=0.5)
    axes.legend(frameon=False, loc="best")
    _save(figure, path)


def learning_curves(
    runs: Mapping[str, Sequence[Mapping[str, Any]]], path: Path, title: str, start: float | None = None
) -> None:
    """AP over all pairs and positives found, against labels bought. `runs`: name -> one row a round."""
    plt = _pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for number, (name, rows) in enumerate(runs.items()):
        color = INK.get(name, OTHERS[number % len(OTHERS)])
        labels = [row["labels"] for row in rows]
        left.plot(labels, [row["average_precision"] for row in rows], "o-", color=color, label=name, lw=2)
        right.plot(labels, [row["positives"] for row in rows], "o-", color=color, label=name, lw=2)
    if start is not None and not math.isnan(start):
        left.axhline(start, color="#444444", lw=1, ls=":", label="before any label")
    left.set(xlabel="labels bought", ylabel="average precision over all pairs", ylim=(0, None))
    right.set(xlabel="labels bought", ylabel="positives found", ylim=(0, None))
    for axes in (left, right):
        axes.grid(alpha=0.25, lw=0.5)
        axes.xaxis.set_major_formatter(plt.FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.yaxis.set_major_locator(plt.MaxNLocator(6))
    left.legend(frameon=False)
    figure.suptitle(title, x=0.01, ha="left")
    _save(figure, path)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    return plt


def _save(figure: Any, path: Path) -> None:
    """Write beside the target, then rename: a plot is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    figure.savefig(unfinished, dpi=150, format=path.suffix.lstrip(".") or "png")
    unfinished.replace(path)
    _pyplot().close(figure)


def sparkline(values: Sequence[float]) -> str:
    """A curve in one line of text."""
    marks = "▁▂▃▄▅▆▇█"
    array = np.asarray(values, float)
    if len(array) == 0:
        return ""
    span = float(array.max() - array.min()) or 1.0
    return "".join(marks[round((v - array.min()) / span * 7)] for v in array)

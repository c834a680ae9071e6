"""Plots: the curve that average precision sums, drawn whole, and nobody else's settings touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from pairsieve.errors import InputError
from pairsieve.measure.curve import Curve, curve_from_scores
from pairsieve.report import plots

BY_HAND = curve_from_scores([0.9, 0.7, 0.1], [0.8, 0.7])  # P 1, 1/2, 3/5 at R 1/3, 2/3, 1: AP 0.7


def drawn(monkeypatch: pytest.MonkeyPatch, curve: Curve, **more: Any) -> Any:
    """The axes of a precision-recall plot."""
    figures: list[Any] = []
    monkeypatch.setattr(plots, "save", lambda figure, path: figures.append(figure))
    plots.pr_curve(curve, Path("unused.png"), "title", **more)
    return figures[0].axes[0]


def legend(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_the_area_under_the_steps_is_the_average_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = drawn(monkeypatch, BY_HAND, pairs=5)
    assert axes.get_yscale() == "log"
    recall, precision = axes.lines[0].get_data()
    assert recall == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert precision == pytest.approx([1, 1, 1 / 2, 3 / 5])
    assert np.sum(np.diff(recall) * precision[1:]) == pytest.approx(BY_HAND.average_precision())
    assert axes.lines[0].get_drawstyle() == "steps-pre"
    assert legend(axes) == ["all pairs: AP 0.7000", "guessing: one in 2"]


def test_one_tied_score_is_a_line_not_a_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody scores the same: precision 1/1000 from recall 0 to 1."""
    recall, precision = drawn(monkeypatch, curve_from_scores([0.5], np.full(999, 0.5))).lines[0].get_data()
    assert (recall.tolist(), precision.tolist()) == ([0, 1], [0.001, 0.001])


def test_the_legend_may_hold_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = drawn(monkeypatch, BY_HAND, average_precision=0.00012)
    assert legend(axes) == ["all pairs: AP 1.2e-04"]


@pytest.mark.parametrize(
    "name",
    ["curve.png", "curve.PNG", "curve", "curve.svg", pytest.param("curve.pdf", marks=pytest.mark.slow)],
)
def test_formats_by_suffix(name: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / name
    plots.pr_curve(BY_HAND, path, "a task called $x_{1", pairs=5)  # no formula, whatever it looks like
    start = {"svg": b"<?xml", "pdf": b"%PDF"}.get(path.suffix[1:], b"\x89PNG")
    assert path.read_bytes().startswith(start)
    assert [file.name for file in path.parent.iterdir()] == [name]


def test_learning_curves(tmp_path: Path) -> None:
    rows = [{"labels": n, "average_precision": n / 4000, "positives": n // 10} for n in (1000, 2500)]
    path = tmp_path / "curves.png"
    plots.learning_curves({"uncertainty": rows, "mine": rows[:1], "none": []}, path, "costs $5")
    pixels = imread(path)
    assert pixels.shape[1] > pixels.shape[0] > 400
    for ink in ("#1b6ca8", plots.OTHERS[1]):
        colour = np.array([int(ink[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        assert (np.abs(pixels[..., :3] - colour).max(axis=2) < 0.02).any(), ink


def test_settings_of_the_caller_stay_as_they_were(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    plots.pr_curve(BY_HAND, tmp_path / "c.png", "title")
    assert dict(matplotlib.rcParams) == before


def test_a_plot_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "curve.png"
    path.write_bytes(b"old")

    def full(self: Figure, file: Path, **_: Any) -> None:
        file.write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(InputError, match=r"curve\.png: the plot cannot be written\. No space left on device"):
        plots.pr_curve(BY_HAND, path, "title")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"curve.png": b"old"}

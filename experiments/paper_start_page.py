"""The page of the paper's tables from a weak start (docs/paper.md) and its two pictures, from stored rows.

`results/notes/paper-start.md` is written by hand and comes before the tables; its figures stand in them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import paper
from experiments.aggregate import Mean
from experiments.paper_start import AP, Start, Strength, Variant, all_tables, starts_of, strengths
from experiments.start_runs import RESULTS, StartRow
from pairsieve.files import write_text

NOTES = RESULTS.parent / "notes" / "paper-start.md"
TABLE_3, STRENGTHS = "paper-table-3.png", "paper-strength-of-start.png"
START = "weak-e5-small-2000"  # the start with three seeds of every strategy
SCHEDULES = {"wikiqa": "2048x1.5x4", "qqp-174k": "2048x1.5x5"}
ROWS_OF_TABLE_3 = ("random", "stated", "static", "adaptive", "uncertainty")
HEAD = """# The paper's tables from a weak start

Written by `python -m experiments.paper_start --page docs/paper.md` from the rows in
`experiments/results/paper-start`; nothing is trained for it. AP is average precision over **all** pairs of a
split. A figure with ± is the mean over seeds with its standard error. Every table names its start, its
commands with their seeds, and what differs from the paper. The same strategies from encoders as they came:
[results](results.md)."""


def page_text(rows: Sequence[StartRow], notes: str, images: str = "images") -> str:
    """The page as Markdown; `images`: where it finds its pictures."""
    words = {
        TABLE_3: "The paper's Table 3 beside ours: AP by strategy",
        STRENGTHS: "Uncertainty sampling minus static retrieval against AP without labels",
    }
    parts = [HEAD, *(f"![{said}]({images}/{name})" for name, said in words.items()), notes.strip()]
    parts += ["## Tables", *(table.as_markdown() for table in all_tables(rows))]
    return "\n\n".join(part for part in parts if part) + "\n"


def write_page(rows: Sequence[StartRow], page: Path) -> list[Path]:
    """Write the page and its pictures; the files written."""
    pictures = [page.parent / "images" / name for name in (TABLE_3, STRENGTHS)]
    pictures[0].parent.mkdir(parents=True, exist_ok=True)
    draw_table_3(starts_of(rows), pictures[0])
    draw_strengths(strengths(starts_of(rows)), pictures[1])
    write_text(page, page_text(rows, NOTES.read_text(encoding="utf-8")))
    return [page, *pictures]


def draw_table_3(starts: Sequence[Start], path: Path) -> None:
    """AP by strategy after the last round, the paper's bars beside ours, one panel a task."""
    from matplotlib.figure import Figure

    from pairsieve.report.plots import INK, save

    shown = [start for start in starts if start.name == START and start.task in SCHEDULES]
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    for axes, start in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown):
        by = {name: _last(start, name) for name in ROWS_OF_TABLE_3}
        labels, seeds = max(at for at, _ in by.values()), min(mean.seeds for _, mean in by.values())
        theirs = [paper.STRATEGIES[start.paper_task, name][1] for name in ROWS_OF_TABLE_3]
        budget = f"{paper.BUDGETS[start.paper_task]:,}"
        bars: list[tuple[str, str, float, list[float], list[float]]] = [
            (f"the paper: BERT, {start.paper_task}, {budget} labels", INK["random"], -0.2, theirs, []),
            (
                f"ours: {start.name}, {labels:,} labels, {seeds} seeds",
                INK["uncertainty"],
                0.2,
                [mean.value for _, mean in by.values()],
                [mean.error for _, mean in by.values()],
            ),
        ]
        for name, ink, aside, values, errors in bars:
            places = [place + aside for place in range(len(values))]
            more: dict[str, Any] = {"yerr": errors, "capsize": 3} if errors else {}
            drawn = axes.bar(places, values, 0.38, color=ink, label=name, **more)
            axes.bar_label(drawn, [f"{value:.3f}" for value in values], padding=2, size=7)
        axes.set_xticks(range(len(by)), list(by))
        axes.set(ylabel="average precision over all pairs", title=start.task)
        axes.margins(y=0.3)  # room for the legend
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    save(figure, path)


def _last(start: Start, strategy: str) -> tuple[int, Mean]:
    """Labels and mean AP of the last round by the paper's recipe."""
    by = start.by_labels(Variant(strategy, "paper", SCHEDULES[start.task]), AP)
    return max(by), by[max(by)]


def draw_strengths(found: Sequence[Strength], path: Path) -> None:
    """Uncertainty minus static against the AP without labels; collapsed runs are counted, not drawn."""
    from matplotlib.figure import Figure

    from pairsieve.report.plots import INK, save

    figure = Figure(figsize=(8, 4.6), layout="constrained")
    axes = figure.subplots()
    inks = (INK["uncertainty"], INK["static"], *INK.values())
    for marker, ink, task in zip("osD^", inks, dict.fromkeys(one.start.task for one in found)):
        points = [one for one in found if one.start.task == task and not one.collapsed]
        for one in points:
            error = one.gain.error if math.isfinite(one.gain.error) else None
            place = (one.zero.value, one.gain.value)
            label = f"{task}, {one.labels:,} labels" if one is points[0] else None
            filled = None if error else "none"  # hollow: one seed, so no error is known
            axes.errorbar(*place, error, fmt=marker, color=ink, mfc=filled, capsize=3, label=label)
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set_xscale("log")
    axes.margins(x=0.12)
    _name_points(axes, [one for one in found if not one.collapsed])
    axes.set(xlabel="test AP without labels", ylabel="test AP: uncertainty minus static")
    missing = sum(one.collapsed for one in found)
    note = f"; {missing} collapsed run not drawn" if missing else ""
    axes.set_title(f"bars: standard errors; hollow: one seed{note}", loc="left", size=8, parse_math=False)
    axes.legend(frameon=False)
    save(figure, path)


def _name_points(axes: Any, found: Sequence[Strength]) -> None:
    """A name beside each point, at the first place where it covers no other name or point."""
    place = axes.transData.transform
    points = [place((one.zero.value, one.gain.value)) for one in found]
    taken = [(x - 6, x + 6, y - 6, y + 6) for x, y in points]
    for one, (x, y) in zip(found, points):
        words = _short(one.start)
        width, height = 6.0 * len(words), 12.0
        tried = [
            (10 if side == "left" else -10 - width, up)
            for up in range(0, 90, 6)
            for side in ("left", "right")
        ]
        tried = [(right, up * sign) for right, up in tried for sign in (1, -1)]
        boxes = [(x + right, x + right + width, y + up - 6, y + up - 6 + height) for right, up in tried]
        free = [box for box in boxes if not any(_overlap(box, other) for other in taken)]
        box = (free or boxes)[0]
        taken.append(box)
        at = axes.transData.inverted().transform((box[0], box[2] + 2))
        axes.annotate(words, at, size=7)


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def _short(start: Start) -> str:
    """`2,000 steps`, `6 layers`, or the encoder as it came."""
    words = [f"{start.layers} layers"] if start.layers else []
    words += [f"{start.steps:,} steps"] if start.steps else []
    seed = start.rows[0].start_seed
    words += [f"seed {seed}"] if start.steps and seed else []
    return ", ".join(words) or start.name

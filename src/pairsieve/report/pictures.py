"""Pictures of a report: learning curve, precision-recall curve, score histogram, seconds; with alt texts.

A picture is drawn once and written twice: as a PNG in ink on white, and as an SVG whose colours are the
page's own variables, so that it turns dark with the page. Pictures are small, so that their words can be
read at the width of a phone. Each has its words (the alternative text) and its numbers as a table.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.measure.figures import digits
from pairsieve.report.facts import Facts, Point
from pairsieve.report.plots import steps

WIDTH, HEIGHT = 4.6, 3.1  # inches; at 340 pixels its words are 9 pixels high
INKS = {  # name of the page's variable -> ink on white paper
    "ink": "#1b1d22",
    "muted": "#565b66",
    "line": "#d9dadf",
    "card": "#ffffff",
    "series-0": "#2450b5",
    "series-1": "#b45309",
    "series-2": "#1a6b3a",
    "series-3": "#8b3a8f",
}
PHASES = ("embed", "select", "train", "measure")


@dataclass(frozen=True)
class Picture:
    """One picture of a report."""

    name: str  # of its PNG, without the suffix
    title: str
    words: str  # what it says; also its alternative text
    svg: str
    png: bytes
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def pictures(facts: Facts) -> list[Picture]:
    """Every picture that the facts allow, in the order of reading."""
    kinds = (_learning_curve, _matches_per_round, _precision_recall, _scores, _seconds)
    return [picture for kind in kinds if (picture := kind(facts)) is not None]


# ── the pictures ────────────────────────────────────────────────────────────────────────────────────


def _learning_curve(facts: Facts) -> Picture | None:
    points = facts.points
    if not points:
        return None
    audited = points[-1].audited
    over = f"all pairs of {facts.pool.name}" if audited else f"all pairs of {facts.split}"

    def draw(axes: Any) -> None:
        labels, values = [p.labels for p in points], np.array([p.ap.value for p in points])
        low, high = (np.array([getattr(p.ap, end) for p in points]) for end in ("low", "high"))
        ends = np.maximum([values - low, high - values], 0)
        look = {"color": INKS["series-0"], "ecolor": INKS["series-0"], "elinewidth": 1, "capsize": 3}
        axes.errorbar(labels, values, yerr=ends, fmt="o-", markersize=4, **look)
        if facts.start is not None:
            axes.axhline(facts.start, color=INKS["muted"], lw=1, ls=":", label="before any label")
            axes.legend(loc="best")
        axes.set(xlabel="labels", ylabel="average precision", ylim=(0, None), xlim=(0, None))
        _thousands(axes)

    last = points[-1]
    words = f"Average precision over {over}: {_with_interval(last)} after {last.labels:,} labels"
    words += f"; {digits(facts.start)} before any label" if facts.start is not None else ""
    rows = tuple((str(p.round), f"{p.labels:,}", digits(p.ap.value), *_ends(p)) for p in points)
    columns = ("Round", "Labels", "AP", "From", "To")
    return _picture("learning-curve", "Quality by number of labels", f"{words}.", draw, columns, rows)


def _matches_per_round(facts: Facts) -> Picture | None:
    counts = [count for count in facts.counts if count.labelled]
    if not counts:
        return None
    rounds = [count.round for count in counts]
    matches, labelled = [c.positives for c in counts], [c.labelled for c in counts]

    def draw(axes: Any) -> None:
        others = np.subtract(labelled, matches)
        axes.bar(rounds, matches, color=INKS["series-2"], label="matches", width=0.7)
        axes.bar(rounds, others, bottom=matches, color=INKS["line"], label="others", width=0.7)
        look = {"textcoords": "offset points", "ha": "center", "fontsize": 8, "color": INKS["muted"]}
        for round_, found, asked in zip(rounds, matches, labelled):
            axes.annotate(_percent(found / asked), (round_, asked), (0, 2), **look)
        axes.set(xlabel="round", ylabel="labels of the round")
        axes.margins(y=0.3)  # room for the legend above the shares
        _whole_numbers(axes)
        _thousands(axes, x=False)
        axes.legend(loc="upper right", ncols=2)

    found, asked = counts[-1].positives, counts[-1].labelled
    words = (
        f"{facts.positives:,} of {facts.labels:,} labels are matches; of the last batch "
        f"{found:,} of {asked:,} ({_percent(found / asked)})."
    )
    if len(counts) > 2 and found / asked < counts[0].positives / counts[0].labelled / 4:
        words += " Few matches are left."
    rows = tuple(
        (str(c.round), f"{c.labelled:,}", f"{c.positives:,}", _percent(c.positives / c.labelled))
        for c in counts
    )
    columns = ("Round", "Labels", "Matches", "Share")
    return _picture("matches-per-round", "Matches in each round’s labels", words, draw, columns, rows)


def _precision_recall(facts: Facts) -> Picture | None:
    measured = facts.measured
    if measured is None:
        return None
    pairs, ap = measured.figures.pairs, measured.curve.average_precision()
    few = [(sample, sample.curve.average_precision()) for sample in measured.samples]

    def draw(axes: Any) -> None:
        for (sample, claimed), ink, dashes in zip(few, ("series-1", "series-3"), ("--", "-.")):
            steps(axes, sample.curve, f"{sample.name}: AP {digits(claimed)}", color=INKS[ink], ls=dashes)
        steps(axes, measured.curve, f"all pairs: AP {digits(ap)}", color=INKS["series-0"], lw=2)
        base = measured.curve.positives / pairs
        axes.axhline(base, color=INKS["muted"], lw=1, ls=":", label=f"guessing: one in {1 / base:,.0f}")
        axes.set(xlim=(0, 1), yscale="log", ylim=(base / 2, 1.5), xlabel="recall", ylabel="precision")
        axes.legend(loc="best")

    rows = []
    for recall in (0.1, 0.2, 0.5, 0.8, 0.9):
        curves = (measured.curve, *(sample.curve for sample, _ in few))
        rows.append((f"{recall:g}", *(digits(each.precision_at_recall(recall)) for each in curves)))
    claims = " and ".join(f"{digits(claimed)} on {sample.what}" for sample, claimed in few)
    words = f"Over all {pairs:,} pairs of {facts.split} the average precision is {digits(ap)}" + (
        f"; the same scores would claim {claims}." if few else "."
    )
    columns = ("Recall", "All pairs", *(sample.name.capitalize() for sample, _ in few))
    return _picture("precision-recall", "Precision and recall", words, draw, columns, tuple(rows))


def _scores(facts: Facts) -> Picture | None:
    groups: list[tuple[str, NDArray[np.int64], str]]
    if facts.measured is not None:
        held = facts.measured.histogram
        edges, where = held.edges, f"all pairs of {facts.split}"
        groups = [("non-matches", held.negatives, "series-1"), ("matches", held.positives, "series-2")]
    elif facts.labelled is not None:
        given = facts.labelled
        edges, where = given.edges, f"pairs of {facts.pool.name}"
        groups = [("labelled no match", given.others, "series-1")]
        groups.append(("labelled match", given.matches, "series-2"))
        if given.unlabelled is not None:
            groups.insert(0, ("no label", given.unlabelled, "muted"))
    else:
        return None
    ends = np.clip(edges.astype(float), -1, 1)
    half = facts.even_odds if facts.even_odds is not None and abs(facts.even_odds) < 1 else None

    def draw(axes: Any) -> None:
        for name, counts, ink in groups:
            axes.stairs(counts, ends, fill=True, alpha=0.35, color=INKS[ink])
            axes.stairs(counts, ends, color=INKS[ink], lw=1.3, label=name)
        if half is not None:
            axes.axvline(half, ymax=0.8, color=INKS["ink"], lw=1, ls="--", label="probability one half")
        used = np.flatnonzero(np.sum([counts for _, counts, _ in groups], axis=0))
        left = float(ends[used[0]]) if len(used) else -1.0
        axes.set(yscale="log", ylim=(0.6, None), xlim=(left, 1), xlabel="score", ylabel="pairs (log)")
        top = max(int(counts.max()) for _, counts, _ in groups)
        axes.set_ylim(0.6, 30.0 * max(top, 1))  # room above the tallest bar for the legend
        axes.legend(loc="upper right", ncols=2)

    rows = []
    by_tenth = np.arange(0, len(ends) - 1, 5)
    for first in by_tenth[::-1].tolist():
        counts = [int(group[first : first + 5].sum()) for _, group, _ in groups]
        if any(counts):
            span = f"{ends[first]:.1f} to {ends[min(first + 5, len(ends) - 1)]:.1f}"
            rows.append((span, *(f"{n:,}" for n in counts)))
    words = f"How the model scores {where}: " + ", ".join(
        f"{int(group.sum()):,} {name}" for name, group, _ in reversed(groups)
    )
    if half is not None:
        words += f". It is at even odds at a score of {half:.3f}; where the list is cut, see there"
    columns = ("Score", *(name for name, _, _ in groups))
    return _picture("scores", "Scores by class", f"{words}.", draw, columns, tuple(rows))


def _seconds(facts: Facts) -> Picture | None:
    if not facts.seconds:
        return None
    rounds = sorted(facts.seconds)
    phases = [p for p in PHASES if any(p in facts.seconds[round_] for round_ in rounds)]
    spent = {p: np.array([facts.seconds[round_].get(p, 0.0) for round_ in rounds]) for p in phases}

    def draw(axes: Any) -> None:
        bottom = np.zeros(len(rounds))
        for at, phase in enumerate(phases):
            ink = INKS[f"series-{at % 4}"]
            axes.bar(rounds, spent[phase], bottom=bottom, width=0.7, label=phase, color=ink)
            bottom = bottom + spent[phase]
        axes.set(xlabel="round", ylabel="seconds")
        axes.margins(y=0.25)
        _whole_numbers(axes)
        axes.legend(loc="upper left", ncols=4, columnspacing=1, handlelength=1)

    total = {phase: float(values.sum()) for phase, values in spent.items()}
    everything, most = sum(total.values()), max(total, key=lambda phase: total[phase])
    words = (
        f"Computing took {_time(everything)} in all, most of it to {most} ({_time(total[most])}). "
        "Waiting for people is not counted."
    )
    rows = tuple(
        (str(round_), *(f"{spent[phase][at]:.1f}" for phase in phases)) for at, round_ in enumerate(rounds)
    )
    return _picture("seconds", "Seconds by phase", words, draw, ("Round", *phases), rows)


# ── drawing ─────────────────────────────────────────────────────────────────────────────────────────


def _look() -> dict[str, Any]:
    """Matplotlib's settings for the time of drawing; whoever calls us keeps their own."""
    lines = ("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    return {
        **dict.fromkeys(lines, INKS["muted"]),
        **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
        **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
        "axes.prop_cycle": f"cycler('color', ['{INKS['series-0']}'])",
        "text.color": INKS["ink"],
        "grid.color": INKS["line"],
        "grid.linewidth": 0.6,
        "font.family": ["DejaVu Sans"],
        "font.size": 9,
        "legend.fontsize": 8,
        "legend.facecolor": INKS["card"],
        "legend.edgecolor": "none",
        "legend.framealpha": 0.8,
        "svg.fonttype": "none",
    }


def _picture(
    name: str,
    title: str,
    words: str,
    draw: Callable[[Any], None],
    columns: Sequence[str],
    rows: tuple[tuple[str, ...], ...],
) -> Picture:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_look()):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        draw(figure.subplots())
        png, svg = io.BytesIO(), io.StringIO()
        figure.savefig(png, format="png", dpi=200, metadata={"Description": words, "Software": None})
        figure.set_layout_engine("none")  # the places found stay; finding them again would take as long
        with rc_context({"svg.hashsalt": name}):  # ids that differ between pictures and not between runs
            figure.savefig(svg, format="svg", transparent=True, metadata={"Date": None})
    return Picture(name, title, words, _inline(svg.getvalue(), words), png.getvalue(), tuple(columns), rows)


def _inline(svg: str, words: str) -> str:
    """An SVG for a page: without its head, in the page's colours and letters, with its alternative text."""
    from html import escape

    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # nothing refers to them, and every picture has the same
    svg = re.sub(r"(font(?:-family)?:[^;\"]*?)'DejaVu Sans'[^;\"]*", r"\1var(--letters)", svg)
    for name, ink in INKS.items():
        svg = svg.replace(ink, f"var(--{name})")
    _, rest = svg.split(">", 1)
    width, height = WIDTH * 72, HEIGHT * 72
    head = f'<svg role="img" aria-label="{escape(words)}" viewBox="0 0 {width:g} {height:g}"'
    return f'{head} xmlns:xlink="http://www.w3.org/1999/xlink">{rest}'


def _thousands(axes: Any, x: bool = True) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if x:
        axes.xaxis.set_major_locator(MaxNLocator(5))
    (axes.xaxis if x else axes.yaxis).set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _whole_numbers(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))


def _ends(point: Point) -> tuple[str, str]:
    """Of the interval; dashes where there is none."""
    ap = point.ap
    return ("–", "–") if ap.low == ap.value == ap.high else (digits(ap.low), digits(ap.high))


def _with_interval(point: Point) -> str:
    low, high = _ends(point)
    return digits(point.ap.value) + ("" if low == "–" else f" ({low} to {high})")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}\u00a0%" if 0 < share < 0.1 else f"{100 * share:.0f}\u00a0%"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"

"""The results page (docs/results.md): tables and learning curves from stored rows, and written notes.

`NOTES/EXPERIMENT.md` comes below an experiment's tables, `NOTES/first.md` and `NOTES/last.md` at the top and
the bottom of the page. The rest is generated, so that the page can be written at any time without training.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.aggregate import Rows, grouped, variant_name
from experiments.definitions import EXPERIMENTS, Experiment
from experiments.results import Row
from experiments.tables import tables
from pairsieve.files import write_text

HEAD = """# Results

Written by `python -m experiments page` from the rows in `experiments/results`; nothing is trained for it.
AP is average precision over **all** pairs of a split, exact unless it has an interval. A figure with ± is the
mean over seeds with its standard error. Every table names the commands of its figures. `python -m experiments
table NAME` prints one table. How experiments run, resume and count pairs: [experiments](experiments.md)."""


DASHES = ("-", "--", ":", "-.")  # variants of one colour
FAR = 100  # times more labels at the end than at the beginning: labels on a logarithmic axis
TICKS = tuple(base * 10**power for power in range(1, 7) for base in (1, 2, 5))


def page_text(rows: Sequence[Row], notes: Path, images: str = "images") -> str:
    """The page as Markdown; `images`: where it finds its pictures."""
    parts = [HEAD, _note(notes / "first.md")]
    missing = []
    for experiment in EXPERIMENTS:
        shown = tables(experiment, rows, alone=False)
        note = _note(notes / f"{experiment.name}.md")
        if not shown and not note:
            missing.append(experiment)
            continue
        shows = "" if experiment.shows == "ours" else f" The paper: {experiment.shows}."
        parts.append(f"## {experiment.name}\n\n{experiment.question}{shows}")
        parts += [table.as_markdown() for table in shown]
        for group in _curved(experiment, rows):
            name = picture_name(group)
            parts.append(f"![{experiment.question} {group.task}, {group.encoder}]({images}/{name})")
        parts += [experiment.differs if shown else "", note]
    if missing:
        lines = [f"- `python -m experiments {each.name}`: {each.question}" for each in missing]
        parts.append("## Defined, without stored results\n\n" + "\n".join(lines))
    parts.append(_note(notes / "last.md"))
    return "\n\n".join(part for part in parts if part) + "\n"


def write_page(rows: Sequence[Row], notes: Path, page: Path) -> list[Path]:
    """Write the page and its pictures; the files written."""
    written = [page]
    page.parent.mkdir(parents=True, exist_ok=True)
    for experiment in EXPERIMENTS:
        for group in _curved(experiment, rows):
            picture = page.parent / "images" / picture_name(group)
            draw_curves(group, picture)
            written.append(picture)
    write_text(page, page_text(rows, notes))
    return written


def picture_name(group: Rows) -> str:
    """The file of a group's learning curves."""
    words = [group.experiment.name, group.task, group.encoder, group.learner]
    return "results-" + "-".join(word for word in words if word) + ".png"


def draw_curves(group: Rows, path: Path) -> None:
    """AP over all pairs, with standard errors, and matches found, by number of labels."""
    from matplotlib.figure import Figure

    from pairsieve.report.plots import save

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    labels: list[int] = []
    for variant, (ink, dashes) in line_styles(group).items():
        aps = group.by_round(variant, "average_precision")
        found = group.by_round(variant, "positives_found", split="train")
        labels += list(aps)
        style: dict[str, Any] = {"color": ink, "ls": dashes, "lw": 2, "marker": "o", "ms": 4}
        errors = [mean.error if mean.seeds > 1 else 0.0 for mean in aps.values()]
        left.errorbar(
            list(aps),
            [m.value for m in aps.values()],
            errors,
            label=variant_name(group, variant),
            capsize=2,
            **style,
        )
        right.plot(list(found), [mean.value for mean in found.values()], **style)
    start = group.untrained("average_precision")
    if start is not None:
        left.axhline(start.value, color="#444444", lw=1, ls=":", label="before any label")
    words = f"average precision over all pairs of {group.experiment.split}"
    left.set(xlabel="labels", ylabel=words, ylim=(0, None))
    right.set(xlabel="labels", ylabel="matches found", ylim=(0, None))
    for axes in (left, right):
        axes.grid(alpha=0.25, lw=0.5)
        if labels and max(labels) > FAR * min(labels):
            axes.set_xscale("log")
            axes.set_xticks([at for at in TICKS if min(labels) <= at <= 1.2 * max(labels)])
            axes.minorticks_off()
            axes.tick_params(axis="x", labelsize=8)  # 100,000 stands close to 200,000
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    left.set_ylim(0, left.get_ylim()[1] * 1.05)  # no point half cut off
    left.legend(frameon=False, fontsize=8, handlelength=4)
    figure.suptitle(f"{group.task}, {group.encoder}", x=0.01, ha="left", parse_math=False)
    save(figure, path)


def line_styles(group: Rows) -> dict[tuple[str, str, str, str], tuple[str, str]]:
    """Colour and dashes of each variant.

    A strategy has its own colour everywhere; variants of one strategy differ by recipe, or else by seed set.
    """
    from pairsieve.report.plots import INK, OTHERS

    variants = group.variants()
    kinds = [list(dict.fromkeys(variant[place] for variant in variants)) for place in range(3)]
    place = next((at for at, there in enumerate(kinds) if len(there) > 1), 0)
    styles: dict[tuple[str, str, str, str], tuple[str, str]] = {}
    for variant in variants:
        own = INK.get(variant[0]) if place == 0 and len(kinds[0]) > 1 else None
        ink = own or OTHERS[kinds[place].index(variant[place]) % len(OTHERS)]
        alike = sum(colour == ink for colour, _ in styles.values())
        styles[variant] = ink, DASHES[alike % len(DASHES)]
    return styles


def _curved(experiment: Experiment, rows: Sequence[Row]) -> list[Rows]:
    """The groups that have a curve: at least one strategy with two rounds or more."""
    if experiment.layout not in ("curves", "recipes"):
        return []
    return [
        group
        for group in grouped(experiment, rows)
        if group.compares()
        and any(len(group.by_round(variant, "average_precision")) > 1 for variant in group.variants())
    ]


def _note(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""

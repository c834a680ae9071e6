"""What is on the results page? Tables and learning curves from stored rows, and notes that people wrote.

`NOTES/EXPERIMENT.md` stands below an experiment's tables, `NOTES/first.md` and `NOTES/last.md` at the
page's two ends; the rest is made here, so that the page can be made again at any time without training.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pairsieve.experiments.declared import DECLARED, Experiment
from pairsieve.experiments.gathered import Rows, grouped, name_of
from pairsieve.experiments.results import Row
from pairsieve.experiments.tables import tables
from pairsieve.settings import write_atomically

HEAD = """# Results

Made by `pairsieve experiment page` from the rows in `results/`; nothing is trained to make it. AP is average
precision over **all** pairs of a split, exact unless an interval stands beside it. A figure with ± is the
mean over seeds with its standard error. Every table says which command made its figures; the same command
makes them again, and `pairsieve experiment table NAME` prints one table. How they are run,
resumed and counted: [experiments](experiments.md)."""


DASHES = ("-", "--", ":", "-.")  # variants of one colour
FAR = 100  # times more labels at the end than at the beginning: labels on a logarithmic axis
TICKS = tuple(base * 10**power for power in range(1, 7) for base in (1, 2, 5))


def page_text(rows: Sequence[Row], notes: Path, images: str = "images") -> str:
    """The page as Markdown; `images`: where it finds its pictures."""
    parts = [HEAD, _note(notes / "first.md")]
    missing = []
    for experiment in DECLARED:
        made = tables(experiment, rows, alone=False)
        note = _note(notes / f"{experiment.name}.md")
        if not made and not note:
            missing.append(experiment)
            continue
        shows = "" if experiment.shows == "ours" else f" The paper: {experiment.shows}."
        parts.append(f"## {experiment.name}\n\n{experiment.question}{shows}")
        parts += [table.as_markdown() for table in made]
        for group in _curved(experiment, rows):
            name = picture_name(group)
            parts.append(f"![{experiment.question} {group.task}, {group.encoder}]({images}/{name})")
        parts += [experiment.differs if made else "", note]
    if missing:
        lines = [f"- `pairsieve experiment {each.name}`: {each.question}" for each in missing]
        parts.append("## Declared, without stored results\n\n" + "\n".join(lines))
    parts.append(_note(notes / "last.md"))
    return "\n\n".join(part for part in parts if part) + "\n"


def write_page(rows: Sequence[Row], notes: Path, page: Path) -> list[Path]:
    """Write the page and its pictures; the files written."""
    written = [page]
    page.parent.mkdir(parents=True, exist_ok=True)
    for experiment in DECLARED:
        for group in _curved(experiment, rows):
            picture = page.parent / "images" / picture_name(group)
            draw_curves(group, picture)
            written.append(picture)
    write_atomically(page, page_text(rows, notes))
    return written


def picture_name(group: Rows) -> str:
    """The file of a group's learning curves."""
    words = [group.experiment.name, group.task, group.encoder, group.learner]
    return "results-" + "-".join(word for word in words if word) + ".png"


def draw_curves(group: Rows, path: Path) -> None:
    """AP over all pairs, with standard errors, and matches found, against labels bought."""
    from matplotlib.figure import Figure

    from pairsieve.report.plots import save

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    labels: list[int] = []
    for variant, (ink, dashes) in looks_of(group).items():
        aps = group.by_round(variant, "average_precision")
        found = group.by_round(variant, "positives_found", split="train")
        labels += list(aps)
        look: dict[str, Any] = {"color": ink, "ls": dashes, "lw": 2, "marker": "o", "ms": 4}
        errors = [mean.error if mean.seeds > 1 else 0.0 for mean in aps.values()]
        left.errorbar(
            list(aps),
            [m.value for m in aps.values()],
            errors,
            label=name_of(group, variant),
            capsize=2,
            **look,
        )
        right.plot(list(found), [mean.value for mean in found.values()], **look)
    start = group.untrained("average_precision")
    if start is not None:
        left.axhline(start.value, color="#444444", lw=1, ls=":", label="before any label")
    words = f"average precision over all pairs of {group.experiment.split}"
    left.set(xlabel="labels bought", ylabel=words, ylim=(0, None))
    right.set(xlabel="labels bought", ylabel="matches found", ylim=(0, None))
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


def looks_of(group: Rows) -> dict[tuple[str, str, str, str], tuple[str, str]]:
    """Colour and dashes of each variant.

    A strategy has its own colour everywhere; of one strategy, recipes are told apart, or else seed sets.
    """
    from pairsieve.report.plots import INK, OTHERS

    variants = group.variants()
    kinds = [list(dict.fromkeys(variant[place] for variant in variants)) for place in range(3)]
    place = next((at for at, there in enumerate(kinds) if len(there) > 1), 0)
    looks: dict[tuple[str, str, str, str], tuple[str, str]] = {}
    for variant in variants:
        own = INK.get(variant[0]) if place == 0 and len(kinds[0]) > 1 else None
        ink = own or OTHERS[kinds[place].index(variant[place]) % len(OTHERS)]
        alike = sum(colour == ink for colour, _ in looks.values())
        looks[variant] = ink, DASHES[alike % len(DASHES)]
    return looks


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

"""The demo: a synthetic table, 400 labels chosen three ways, AP and F1 of the list against labels.

The table of citations is like real ones: identical records, typing errors, abbreviations, missing fields,
groups of several sizes, and near misses that are no matches. The campaigns get it without its truth and are
answered as a person would answer, so that nothing but the labels can help them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pairsieve.campaign import Campaign
from pairsieve.errors import InputError, PairsieveError
from pairsieve.files import load_json, write_json
from pairsieve.library.answers import answer_questions, open_questions
from pairsieve.library.campaigns import create_campaign
from pairsieve.library.matches import find_matches
from pairsieve.measure.figures import exact_figures
from pairsieve.report.plots import learning_curves
from pairsieve.synthetic import CITATIONS, Roughness, group_sizes, records_task, synthetic_records
from pairsieve.tasks import Split, load_task, save_task

FORMAT = 1  # of DEMO_FILE
DEMO_FILE = "demo.json"  # in the demo's folder: its options, and the figures so far of each choice
DEFAULTS = "defaults"
POINTS = 5  # of the curves, apart from the one before any label
CHOICES: dict[str, dict[str, Any]] = {  # how pairs are chosen; everything else is as it comes
    DEFAULTS: {},
    "nearest first": {"seed_set": "static", "strategy": "static", "rounds": POINTS},
    "random": {"seed_set": "random", "strategy": "random", "rounds": POINTS},
}
SIZES = {2: 0.25, 3: 0.15, 5: 0.12, 10: 0.1, 25: 0.08}  # of groups: share of the records in each
ROUGHNESS = Roughness(identical=0.25, typo=0.3, abbreviated=0.4, missing=0.2, near_misses=0.35)


@dataclass(frozen=True)
class DemoRound:
    """Labels so far, AP over all pairs, and figures of the list: of 0 pairs where there is none."""

    labels: int
    positives: int
    average_precision: float
    listed: int = 0
    precision: float | None = None
    recall: float = 0.0
    f1: float = 0.0


@dataclass(frozen=True)
class DemoFigures:
    """What the demo shows: the same number of labels chosen in several ways."""

    texts: int
    pairs: int
    positives: int
    choices: Mapping[str, Sequence[DemoRound]]  # before any label, and after each round
    matches_file: Path
    plot: Path

    def as_json(self) -> dict[str, Any]:
        choices = {name: [asdict(each) for each in rounds] for name, rounds in self.choices.items()}
        files = {"matches_file": str(self.matches_file), "plot": str(self.plot)}
        return {**vars(self), "choices": choices, **files}


def run_demo(
    out: Path, records: int, labels: int, seed: int, say: Callable[[str], None], **shared: Any
) -> DemoFigures:
    """Write the table, run the campaigns, write the plot and the matches; returns what the table shows.

    shared: settings of all three campaigns, such as another encoder. In the folder of an earlier run with the
    same options this goes on, or shows it again; a folder of other options is refused.
    """
    kept = _kept(out, {"texts": records, "labels": labels, "seed": seed, **shared})
    table = synthetic_records(CITATIONS, group_sizes(records, SIZES), seed, ROUGHNESS)
    for name, truth in (("task", True), ("table", False)):
        if not (out / name / "task.json").exists():
            save_task(records_task("synthetic-citations", table, truth), out / name)
    split = load_task(out / "task").splits["all"]
    one_in = split.space.size / len(split.positives)
    say(f"{records:,} synthetic citations: {split.space.size:,} pairs, one in {one_in:,.0f} matches.")
    runs: dict[str, list[DemoRound]] = {}
    for name, settings in CHOICES.items():
        folder = out / name.replace(" ", "-")
        if (folder / "campaign.toml").exists():
            campaign = Campaign(folder, out / "cache")
        else:
            campaign = create_campaign(
                folder, out / "table", labels=labels, seed=seed, cache=out / "cache", **shared, **settings
            )
        say(f"{name}: {campaign.settings.schedule.budget():,} labels")
        before = kept["choices"].get(name, [])  # figures of earlier rounds, where this run goes on
        runs[name] = [DemoRound(**each) for each in before]

        def keep(name: str = name) -> None:
            kept["choices"][name] = [asdict(each) for each in runs[name]]
            write_json(out / DEMO_FILE, kept)

        _answered(campaign, split, out / f"{folder.name}.csv", runs[name], keep, say)
    title = f"{split.space.size:,} pairs of synthetic citations, one in {one_in:,.0f} matches"
    curves = {name: [vars(each) for each in rounds] for name, rounds in runs.items()}
    plot = out / "learning-curves.png"
    learning_curves(curves, plot, title, right=("f1", "F1 of the list of matches"))
    matches = len(split.positives)
    return DemoFigures(records, split.space.size, matches, runs, out / f"{DEFAULTS}.csv", plot)


def _kept(out: Path, options: dict[str, Any]) -> dict[str, Any]:
    """What an earlier run kept in its folder, or the beginning of it; one of other options is refused."""
    place, remedy = out / DEMO_FILE, "Choose another `out`, or delete this folder"
    options = json.loads(json.dumps(options, default=str))
    if not place.exists():
        if (out / "task").exists():
            why = "it does not say with which options it was made"
            raise InputError("this folder holds an older demo", where=str(out), why=why, remedy=remedy)
        begun = {"format": FORMAT, "options": options, "choices": {}}
        write_json(place, begun)
        return begun
    try:
        kept = dict(load_json(place))
        before, _ = dict(kept["options"]), dict(kept["choices"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = "the figures of an earlier demo cannot be read"
        raise InputError(what, where=str(place), why=str(error), remedy=remedy) from error
    if kept.get("format") != FORMAT:
        why = f"its format is {kept.get('format')}, this pairsieve writes {FORMAT}"
        raise InputError("this folder holds another demo", where=str(out), why=why, remedy=remedy)
    names = [name for name in {**before, **options} if before.get(name) != options.get(name)]
    if names:
        changed = "; ".join(f"`{name}` was {before.get(name)}, is {options.get(name)}" for name in names)
        what = f"this folder holds a demo with other options: {changed}"
        raise InputError(what, where=str(out), remedy=remedy)
    return kept


def _answered(
    campaign: Campaign,
    truth: Split,
    out: Path,
    rows: list[DemoRound],
    keep: Callable[[], None],
    say: Callable[[str], None],
) -> None:
    """Run a campaign to its end, answered by the truth; adds figures before the first round and after each to
    `rows`, and keeps them."""
    left, right = truth.left.keys, truth.right.keys
    matches = {(left[id >> 32], right[id & 0xFFFFFFFF]) for id in truth.positives.tolist()}
    every = max(1, campaign.settings.schedule.rounds // POINTS)
    while True:
        step = campaign.run()
        if campaign.latest() == len(rows) * every:
            rows.append(_figures(campaign, truth, matches, out))
            keep()
            say(_line(rows[-1]))
        if step.name != "label":
            return
        asked = [question.pair for question in open_questions(campaign)]
        answer_questions(campaign, {pair: pair in matches for pair in asked}, who="demo")


def _figures(campaign: Campaign, truth: Split, matches: set[tuple[str, str]], out: Path) -> DemoRound:
    """Labels so far, AP over all pairs, and precision, recall and F1 of the list."""
    rounds = campaign.status().rounds
    labels, positives = (rounds[-1].labels, rounds[-1].positives) if rounds else (0, 0)
    scan = campaign.score(campaign.split, campaign.latest()).scan
    figures, _ = exact_figures(scan, truth.positives, truth.stated_negatives)
    without_list = DemoRound(labels, positives, figures.average_precision.value)
    if not campaign.latest():
        return without_list
    try:
        found = find_matches(campaign, out)
    except PairsieveError:  # labels of one kind only: no threshold can be chosen
        return without_list
    listed = {(each["left"], each["right"]) for each in found}
    hits = len(listed & matches)
    return replace(
        without_list,
        listed=len(listed),
        precision=hits / len(listed) if listed else None,
        recall=hits / len(matches),
        f1=2 * hits / (len(listed) + len(matches)),
    )


def demo_table(result: DemoFigures) -> str:
    """The result for a person."""
    one_in, runs = result.pairs / result.positives, result.choices
    names = list(runs)
    head = "".join(f"{name:>18}" for name in names)
    lines = [
        f"{result.pairs:,} pairs, one in {one_in:,.0f} matches. Figures are exact, over all pairs.",
        "",
        f"{'':>8}{head}",
        f"{'labels':>8}" + f"{'AP':>11}{'F1':>7}" * len(names),
    ]
    for rows in zip(*runs.values()):
        cells = "".join(f"{row.average_precision:>11.3f}{_f1(row):>7}" for row in rows)
        lines.append(f"{rows[0].labels:>8,}{cells}")
    found = ", ".join(f"{rows[-1].positives:,} with {name}" for name, rows in runs.items())
    last = runs[DEFAULTS][-1]
    return "\n".join(
        [
            *lines,
            "",
            f"Matches among {last.labels:,} labels: {found}.",
            f"AP and F1 against labels: {result.plot}",
            f"The list of {last.listed:,} matches: {result.matches_file}",
        ]
    )


def _f1(row: DemoRound) -> str:
    return f"{row.f1:.3f}" if row.listed else "-"


def _line(row: DemoRound) -> str:
    figures = f"{row.positives:,} of them matches, AP {row.average_precision:.3f}, F1 {_f1(row)}"
    return f"  {row.labels:,} labels, {figures}"

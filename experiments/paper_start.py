"""The paper's Tables 2 to 5 from a weak start beside the paper's figures, printed from stored rows.

    python -m experiments.paper_start [--results FOLDER] [--figure FILE.png] [--json]

One table of strategies for each task and start, with the steps of the paper's order checked against their
standard errors; learning curves; concatenation models; and the gain of uncertainty sampling over static
retrieval from starts of several strengths.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from experiments import paper
from experiments.aggregate import STRATEGY_ORDER, Mean, mean_of
from experiments.start_runs import RESULTS, StartRow, read_start_rows
from experiments.tables import Table
from pairsieve.measure.figures import digits

AP, P20, FOUND = "average_precision", "precision_at_recall_0.2", "positives_found"
ORDER = ("random", "stated", "static", "uncertainty")  # the paper's claim, each above the one before
OTHERS = ("stratified-match", "stratified-all", "adaptive")  # what else uncertainty is compared with
PAPER_BATCHES = "2048x"  # schedules with the paper's first batch; only those stand beside its figures


@dataclass(frozen=True)
class Variant:
    """What was run, whatever the seed."""

    strategy: str
    recipe: str
    schedule: str

    @property
    def name(self) -> str:
        return self.strategy + (", recipe best" if self.recipe == "best" else "")


@dataclass(frozen=True)
class Gain:
    """Difference of two means over seeds, with the standard error of the difference."""

    below: Mean
    above: Mean

    @property
    def value(self) -> float:
        return self.above.value - self.below.value

    @property
    def error(self) -> float:
        """Not a number where one of the two has a single seed."""
        single = min(self.below.seeds, self.above.seeds) < 2
        return math.nan if single else math.hypot(self.below.error, self.above.error)

    def text(self) -> str:
        return f"{self.value:+.4f}" + (f" ± {self.error:.4f}" if math.isfinite(self.error) else "")

    def verdict(self) -> str:
        if not math.isfinite(self.error):
            return "one seed"
        return "yes" if self.value > 2 * self.error else "no"


class Start:
    """The rows of one task from one start."""

    def __init__(self, rows: Sequence[StartRow]) -> None:
        self.rows, self.task, self.name = list(rows), rows[0].task, rows[0].encoder
        self.steps = rows[0].start_steps
        self.paper_task = paper.counterpart(self.task).task

    def schedules(self) -> list[str]:
        return sorted({row.schedule for row in self.rows if row.model == "cosine"})

    def variants(self, schedule: str) -> list[Variant]:
        found = {
            Variant(row.strategy, row.recipe, row.schedule)
            for row in self.rows
            if row.model == "cosine" and row.schedule == schedule
        }
        return sorted(found, key=lambda v: (STRATEGY_ORDER.index(v.strategy), v.recipe != "paper"))

    def by_labels(self, variant: Variant, measure: str, split: str = "test") -> dict[int, Mean]:
        """Labels bought -> mean over seeds."""
        rows = [
            row
            for row in self._of("cosine", measure, split)
            if Variant(row.strategy, row.recipe, row.schedule) == variant
        ]
        means = {at: mean_of(row for row in rows if row.labels == at) for at in {r.labels for r in rows}}
        return {at: mean for at, mean in sorted(means.items()) if mean is not None}

    def zero_labels(self, measure: str, split: str = "test") -> Mean | None:
        return mean_of(self._of("untrained", measure, split))

    def concatenation(self, measure: str) -> Mean | None:
        return mean_of(self._of("concat", measure, "test"))

    def _of(self, model: str, measure: str, split: str) -> list[StartRow]:
        wanted = (model, measure, split, "distinct")
        return [row for row in self.rows if (row.model, row.measure, row.split, row.counting) == wanted]

    def notes(self, rows: Iterable[StartRow] = ()) -> tuple[str, ...]:
        """The start, what differs from the paper, and the commands."""
        first = self.rows[0]
        start = f"Start: {first.start_source} as it came, without prefixes."
        if first.start_steps:
            start = (
                f"Start: {first.start_source} after {first.start_steps:,} steps of masked language modelling "
                f"on {first.start_texts:,} unlabelled texts, seed {first.start_seed} "
                f"(`{first.start_command}`)."
            )
        commands = sorted({row.source for row in (list(rows) or self.rows)})
        made = "Made by " + "; ".join(f"`{command}`" for command in commands) + f" ({first.device})."
        return (start, paper.differences(self.task, self.name, "full"), made)


def starts_of(rows: Sequence[StartRow]) -> list[Start]:
    """Rows by task and start: WikiQA first, the weakest start last."""
    groups: dict[tuple[str, str], list[StartRow]] = {}
    for row in rows:
        groups.setdefault((row.task, row.encoder), []).append(row)
    found = [Start(group) for group in groups.values()]
    return sorted(found, key=lambda start: (start.task != "wikiqa", start.task, start.steps, start.name))


# ── tables ──────────────────────────────────────────────────────────────────────────────────────


def strategies_table(start: Start, schedule: str, labels: int | None = None) -> Table | None:
    """Tables 3, 4 and 5 after `labels` labels (the last round)."""
    variants = start.variants(schedule)
    at = labels or max((n for v in variants for n in start.by_labels(v, AP)), default=0)
    if len(variants) < 3 or not at:
        return None
    head = ["strategy", "seeds", "AP", "P@R20", "positives found"]
    beside = bool(start.paper_task) and schedule.startswith(PAPER_BATCHES)
    head += [f"paper: {name}" for name in ("AP", "P@R20", "positives")] if beside else []
    blank = ["-"] * 3 if beside else []
    lines = [["no labels", "-", *(_text(start.zero_labels(m)) for m in (AP, P20)), "0", *blank]]
    for variant in variants:
        ap = start.by_labels(variant, AP).get(at)
        if ap is None:
            continue
        found = start.by_labels(variant, FOUND, "train").get(at)
        line = [variant.name, str(ap.seeds), _text(ap), _text(start.by_labels(variant, P20).get(at))]
        line.append(_count(found))
        if beside:
            key = (start.paper_task, variant.strategy)
            theirs, positives = paper.STRATEGIES.get(key), paper.POSITIVES.get(key)
            known = variant.recipe == "paper" and theirs is not None
            line += [f"{theirs[1]:.3f}", f"{theirs[0]:.3f}"] if known and theirs else ["-", "-"]
            line.append(f"{positives:,}" if known and positives else "-")
        lines.append(line)
    title = f"{start.task} from {start.name}: test split, all pairs, exact, after {at:,} labels"
    budget = [f"The paper's figures are after {paper.BUDGETS[start.paper_task]:,} labels."] if beside else []
    notes = (*budget, *start.notes(row for row in start.rows if row.schedule == schedule))
    return Table(title, tuple(head), tuple(map(tuple, lines)), notes)


def order_table(start: Start, schedule: str, labels: int | None = None) -> Table | None:
    """Each step of random < stated < static < uncertainty, then uncertainty against the others."""
    by_name = {v.strategy: v for v in start.variants(schedule) if v.recipe == "paper"}
    pairs = [*pairwise(ORDER), *((name, "uncertainty") for name in OTHERS)]
    lines, at = [], 0
    for low, high in pairs:
        if low not in by_name or high not in by_name:
            continue
        below, above = (start.by_labels(by_name[name], AP) for name in (low, high))
        at = labels or max(below.keys() & above.keys(), default=0)
        if at not in below or at not in above:
            continue
        found = [start.by_labels(by_name[name], FOUND, "train")[at].value for name in (low, high)]
        times = f"{found[1] / found[0]:.2f}" if found[0] >= 1 else "-"
        gain, ratio = Gain(below[at], above[at]), above[at].value / below[at].value
        lines.append((f"{low} < {high}", gain.text(), gain.verdict(), f"{ratio:.2f}", times))
    if len(lines) < 2:
        return None
    head = ("step", "AP gained", "outside two standard errors", "times the AP", "times the positives")
    return Table(
        f"{start.task} from {start.name}: the paper's order, after {at:,} labels", head, tuple(lines)
    )


def curves_table(start: Start, schedule: str) -> Table | None:
    """Test AP and positives found by labels, and where uncertainty passes static retrieval's best."""
    variants = start.variants(schedule)
    aps = {v: start.by_labels(v, AP) for v in variants}
    bought = sorted({at for by in aps.values() for at in by})
    if len(variants) < 3:
        return None
    zero = start.zero_labels(AP)
    lines = [[f"{v.name}: AP", _text(zero), *(_text(aps[v].get(at)) for at in bought)] for v in variants]
    for v in variants:
        found = start.by_labels(v, FOUND, "train")
        lines.append([f"{v.name}: positives", "0", *(_count(found.get(at)) for at in bought)])
    head = ("after so many labels", "0", *(f"{at:,}" for at in bought))
    title = f"{start.task} from {start.name}: learning curves, test split, all pairs, exact"
    notes = [words for words in (_efficiency(aps),) if words]
    return Table(title, head, tuple(map(tuple, lines)), tuple(notes))


def _efficiency(aps: dict[Variant, dict[int, Mean]]) -> str:
    static = next((by for v, by in aps.items() if v.strategy == "static"), {})
    ours = next((by for v, by in aps.items() if (v.strategy, v.recipe) == ("uncertainty", "paper")), {})
    if not static or not ours:
        return ""
    best = max(static, key=lambda at: (static[at].value, -at))
    passing = [at for at in ours if ours[at].value > static[best].value]
    start = (
        f"Static retrieval's best is {digits(static[best].value)} with {best:,} labels; uncertainty sampling "
    )
    return start + (f"passes it with {passing[0]:,}." if passing else f"does not within {max(ours):,}.")


def concatenation_table(start: Start) -> Table | None:
    """Table 2: a model of both texts at once, trained on all stated pairs, over all pairs."""
    measures = ("balanced_clean_map", "balanced_f1", P20, AP)
    if start.task != "wikiqa" or start.concatenation(AP) is None:
        return None
    means = [start.concatenation(measure) for measure in measures]
    seeds = str(means[-1].seeds) if means[-1] else "-"
    lines = [(f"{start.name}, both texts at once", seeds, *(_text(mean) for mean in means))]
    for (task, model), figures in paper.CONCATENATION.items():
        if task == start.paper_task:
            lines.append((f"paper: {model}", "3", *(f"{value:.3f}" for value in figures)))
    head = ("model", "seeds", "clean MAP", "F1", "P@R20", "AP")
    title = (
        f"{start.task} from {start.name}: models of both texts, all stated pairs; P@R20, AP over all pairs"
    )
    return Table(title, head, tuple(lines), start.notes(r for r in start.rows if r.model == "concat"))


@dataclass(frozen=True)
class Strength:
    """Test AP from one start: without labels, by static retrieval and by uncertainty sampling."""

    start: Start
    labels: int
    zero: Mean
    static: Mean
    uncertainty: Mean

    @property
    def gain(self) -> Gain:
        return Gain(self.static, self.uncertainty)

    @property
    def collapsed(self) -> bool:
        """Whether training left less than the start had: an accident of training, not of the strategy."""
        return min(self.static.value, self.uncertainty.value) < self.zero.value


def strengths(starts: Sequence[Start]) -> list[Strength]:
    """Every start that has static retrieval and uncertainty sampling by the paper's recipe and batches."""
    found = []
    for start in starts:
        zero = start.zero_labels(AP)
        for schedule in (each for each in start.schedules() if each.startswith(PAPER_BATCHES)):
            by = [start.by_labels(Variant(name, "paper", schedule), AP) for name in ("static", "uncertainty")]
            shared = by[0].keys() & by[1].keys()
            if zero is not None and shared:
                at = max(shared)
                found.append(Strength(start, at, zero, by[0][at], by[1][at]))
    return found


def strength_table(found: Sequence[Strength]) -> Table | None:
    if len(found) < 2:
        return None
    head = ["task", "start", "steps", "labels", "no labels: AP", "seeds"]
    head += ["static: AP", "uncertainty: AP", "uncertainty minus static"]
    lines = []
    for one in found:
        seeds = sorted({one.static.seeds, one.uncertainty.seeds})
        line = [one.start.task, one.start.name, f"{one.start.steps:,}", f"{one.labels:,}", _text(one.zero)]
        line += ["/".join(map(str, seeds)), _text(one.static), _text(one.uncertainty), one.gain.text()]
        lines.append(tuple(line))
    title = "Uncertainty sampling minus static retrieval, by the strength of the start (test split)"
    fallen = [f"{one.start.task} from {one.start.name}" for one in found if one.collapsed]
    words = "Training collapsed in the last round, to less than the start had without labels: "
    return Table(title, tuple(head), tuple(lines), (words + ", ".join(fallen) + ".",) if fallen else ())


def draw_strengths(found: Sequence[Strength], path: Path) -> None:
    """Uncertainty minus static against the AP without labels; collapsed runs are counted, not drawn."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for marker, task in zip("osD^", dict.fromkeys(one.start.task for one in found)):
        points = [one for one in found if one.start.task == task and not one.collapsed]
        x, y = [one.zero.value for one in points], [one.gain.value for one in points]
        errors = [one.gain.error if math.isfinite(one.gain.error) else 0.0 for one in points]
        axes.errorbar(x, y, yerr=errors, fmt=marker, capsize=3, label=f"{task}, {points[0].labels:,} labels")
        for one, *place in zip(points, x, y):
            label = f"{one.start.steps:,}" if one.start.steps else one.start.name
            axes.annotate(label, place, xytext=(4, 3), textcoords="offset points", size=6)
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set_xscale("log")
    missing = sum(one.collapsed for one in found)
    note = f"; {missing} collapsed run not drawn" if missing else ""
    axes.set_xlabel(f"test AP without labels (points: steps of masked language modelling{note})", size=8)
    axes.set_ylabel("AP: uncertainty minus static")
    axes.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def all_tables(rows: Sequence[StartRow]) -> list[Table]:
    """Every table that the rows give, WikiQA first; the strengths of starts last."""
    starts = starts_of(rows)
    found: list[Table | None] = []
    for start in starts:
        for schedule in start.schedules():
            found += [strategies_table(start, schedule), order_table(start, schedule)]
            found.append(curves_table(start, schedule))
        found.append(concatenation_table(start))
    return [table for table in [*found, strength_table(strengths(starts))] if table is not None]


# ── text of numbers ─────────────────────────────────────────────────────────────────────────────


def _text(mean: Mean | None) -> str:
    return "-" if mean is None else mean.text()


def _count(mean: Mean | None) -> str:
    if mean is None:
        return "-"
    return f"{mean.value:,.0f}" + (f" ± {mean.error:,.0f}" if mean.seeds > 1 and mean.error >= 0.5 else "")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="a folder of rows, or one file")
    parser.add_argument("--figure", type=Path, help="also draw the strengths of starts")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    given = parser.parse_args(arguments)
    rows = read_start_rows(given.results)
    if not rows:
        raise SystemExit(f"{given.results}: no rows. Run: python -m experiments.start_runs")
    tables = all_tables(rows)
    if given.figure:
        draw_strengths(strengths(starts_of(rows)), given.figure)
    if given.json:
        print(json.dumps([table.as_json() for table in tables], indent=1))
    else:
        print("\n\n".join(table.as_markdown() for table in tables))


if __name__ == "__main__":
    main()

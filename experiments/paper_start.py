"""The paper's Tables 2 to 6 from a weak start beside the paper's figures, printed from stored rows.

    python -m experiments.paper_start [--results FOLDER] [--json]
    python -m experiments.paper_start --page docs/paper.md

One table of strategies for each task and start, with the steps of the paper's order checked against their
standard errors; learning curves; concatenation models; and the gain of uncertainty sampling over static
retrieval from starts of several strengths. --page writes them with two pictures and the written notes;
nothing is trained for it.
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
from experiments.definitions import ALL_STATED, BALANCED_STATED
from experiments.start_runs import RESULTS, StartRow, read_start_rows
from experiments.tables import Table
from pairsieve.measure.figures import digits

AP, P20, FOUND = "average_precision", "precision_at_recall_0.2", "positives_found"
ORDER = ("random", "stated", "static", "uncertainty")  # the paper's claim, each above the one before
OTHERS = ("stratified-match", "stratified-all", "adaptive")  # what else uncertainty is compared with
USUAL_SEED_SETS = ("", "static")  # the nearest pairs by the start; others stand in a table of their own
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
        self.steps, self.layers = rows[0].start_steps, rows[0].start_layers
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

    def by_labels(
        self, variant: Variant, measure: str, split: str = "test", seed_sets: Sequence[str] = USUAL_SEED_SETS
    ) -> dict[int, Mean]:
        """Labels bought -> mean over seeds."""
        rows = [
            row
            for row in self._of("cosine", measure, split, seed_sets)
            if Variant(row.strategy, row.recipe, row.schedule) == variant
        ]
        means = {at: mean_of(row for row in rows if row.labels == at) for at in {r.labels for r in rows}}
        return {at: mean for at, mean in sorted(means.items()) if mean is not None}

    def zero_labels(self, measure: str, split: str = "test") -> Mean | None:
        return mean_of(self._of("untrained", measure, split))

    def concatenation(self, measure: str, strategy: str = ALL_STATED) -> Mean | None:
        """Of models of both texts at once, trained on all stated pairs, or on what a strategy bought."""
        return mean_of(row for row in self._of("concat", measure, "test") if row.strategy == strategy)

    def pairs(self) -> tuple[int, int]:
        """Positives and all pairs of the test split, where a concatenation model's sample says them."""
        rows = [row for row in self._of("concat", AP, "test") if row.method.startswith("estimated: ")]
        zero = self._of("untrained", AP, "test")
        if not rows or not zero:
            return 0, 0
        positives = rows[0].method.removeprefix("estimated: ").split(" ")[0]
        return int(positives.replace(",", "")), zero[0].n

    def _of(
        self, model: str, measure: str, split: str, seed_sets: Sequence[str] = USUAL_SEED_SETS
    ) -> list[StartRow]:
        wanted = (model, measure, split, "distinct")
        usual = [row for row in self.rows if row.seed_set in seed_sets]
        return [row for row in usual if (row.model, row.measure, row.split, row.counting) == wanted]

    def notes(self, rows: Iterable[StartRow] = ()) -> tuple[str, ...]:
        """The start, what differs from the paper, and the commands."""
        first = self.rows[0]
        kept = f", its first {first.start_layers} layers" if first.start_layers else ""
        start = f"Start: {first.start_source}{kept or ' as it came'}, without prefixes"
        if first.start_steps:
            start = (
                f"Start: {first.start_source}{kept} after {first.start_steps:,} steps of masked language "
                f"modelling on {first.start_texts:,} unlabelled texts, seed {first.start_seed}"
            )
        start += f" (`{first.start_command}`)." if first.start_command else "."
        return (start, paper.differences(self.task, self.name, "full"), made_by(list(rows) or self.rows))


def made_by(rows: Iterable[StartRow]) -> str:
    """The commands that gave the figures, with their seeds and device."""
    seeds: dict[tuple[str, str], set[int]] = {}
    for row in rows:
        seeds.setdefault((row.source, row.device), set()).add(row.seed)
    words = [
        f"`{source}` ({device}, seed{'s' * (len(of) > 1)} {', '.join(map(str, sorted(of)))})"
        for (source, device), of in sorted(seeds.items())
    ]
    return "Made by " + "; ".join(words) + "."


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
    shown = [row for row in start.rows if (row.model, row.schedule) == ("cosine", schedule)]
    notes = (*budget, *start.notes(shown))
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


def seed_sets_table(start: Start, schedule: str) -> Table | None:
    """The figure on seed sets: uncertainty sampling after a first batch of the nearest or of stated pairs."""
    variant = Variant("uncertainty", "paper", schedule)
    by = {
        name: [start.by_labels(variant, m, split, seed_sets) for m, split in ((AP, "test"), (FOUND, "train"))]
        for name, seed_sets in (("nearest pairs", USUAL_SEED_SETS), ("stated pairs", ("stated",)))
    }
    if not all(aps for aps, _ in by.values()):
        return None
    bought = sorted({at for aps, _ in by.values() for at in aps})
    lines = [(f"{name}: AP", *(_text(aps.get(at)) for at in bought)) for name, (aps, _) in by.items()]
    lines += [(f"{name}: positives", *(_count(n.get(at)) for at in bought)) for name, (_, n) in by.items()]
    title = f"{start.task} from {start.name}: uncertainty sampling by seed set, test split, all pairs, exact"
    head = ("first batch; after so many labels", *(f"{at:,}" for at in bought))
    shown = [row for row in start.rows if Variant(row.strategy, row.recipe, row.schedule) == variant]
    return Table(title, head, tuple(lines), start.notes(shown))


def concatenation_table(start: Start) -> Table | None:
    """Table 2: a model of both texts at once, trained on all stated pairs, over all pairs."""
    claim = "balanced_clean_map" if start.concatenation("balanced_clean_map") else "balanced_accuracy"
    measures = (claim, "balanced_f1", P20, AP)
    means = [start.concatenation(measure) for measure in measures]
    if means[-1] is None:
        return None
    lines = [(f"{start.name}, both texts at once", str(means[-1].seeds), *(_text(mean) for mean in means))]
    balanced = [start.concatenation(measure, BALANCED_STATED) for measure in measures]
    if balanced[-1] is not None:
        words = "the same, as many positives as negatives"
        lines.append((words, str(balanced[-1].seeds), *(_text(mean) for mean in balanced)))
    positives, pairs = start.pairs()
    accuracy = start.concatenation("balanced_accuracy")
    found = [row for row in start.rows if (row.model, row.measure, row.split) == ("concat", claim, "test")]
    notes = []
    if claim == "balanced_accuracy" and accuracy and found and positives:
        share = positives / found[0].n  # of the stated pairs
        chance = digits(positives / pairs)
        always = (f"{share:.4f}", f"{2 * share / (1 + share):.4f}", chance, chance)
        lines.append(("chance: every pair a match", "-", *always))
        if abs(accuracy.value - share) < 5e-5:
            notes.append(
                "The accuracy is that of calling every stated pair a match, and AP is close to chance: this "
                "model did not learn to tell pairs apart. Of the stated training pairs of qqp-174k 6.6 % are "
                "negatives, against half of the paper's; whether that is the cause is for `plan=balanced` "
                "to tell, which trains on as many positives as negatives and was not run."
            )
    for (task, model), figures in paper.CONCATENATION.items():
        if task == start.paper_task:
            lines.append((f"paper: {model}", "3", *(f"{value:.3f}" for value in figures)))
    name = "clean MAP" if claim == "balanced_clean_map" else "accuracy"
    head = ("model", "seeds", name, "F1", "P@R20", "AP")
    title = (
        f"{start.task} from {start.name}: models of both texts, all stated pairs; P@R20, AP over all pairs"
    )
    of = [row for row in start.rows if (row.model, row.strategy) == ("concat", ALL_STATED)]
    return Table(title, head, tuple(lines), (*notes, *_sample(of), *start.notes(of)))


def collected_table(start: Start) -> Table | None:
    """Table 6: what a cosine model's campaign bought, given to a model of both texts at once."""
    bought = [v for s in start.schedules() for v in start.variants(s) if v.recipe == "paper"]
    lines, notes, of = [], [], []
    for variant in bought:
        rows = [
            row
            for row in start.rows
            if row.model == "concat" and Variant(row.strategy, row.recipe, row.schedule) == variant
        ]
        ap, p20 = (start.concatenation(measure, variant.strategy) for measure in (AP, P20))
        if not rows or ap is None or p20 is None:
            continue
        labels = rows[0].labels
        cosine = [start.by_labels(variant, measure).get(labels) for measure in (AP, P20)]
        unusable = ap.value == 0 < ap.high
        if unusable:
            notes.append(
                f"{variant.strategy}: no AP of the concatenation model is given. Its estimate from this "
                f"sample is clipped at 0, with an interval up to {digits(ap.high)}; that of P@R20 is narrow."
            )
        line = [variant.name, str(ap.seeds), *map(_text, cosine), "-" if unusable else ap.text(), p20.text()]
        for known in (paper.STRATEGIES, paper.COLLECTED):
            figures = known.get((paper.QQP, variant.strategy))
            line += [f"{figures[1]:.3f}", f"{figures[0]:.3f}"] if figures else ["-", "-"]
        lines.append(tuple(line))
        of += [r for r in start.rows if Variant(r.strategy, r.recipe, r.schedule) == variant]
    if not lines:
        return None
    models = ("cosine", "concatenation")
    head = ["data bought by", "seeds", *(f"{model}: {name}" for model in models for name in ("AP", "P@R20"))]
    head += [f"paper, QQP, {model}: {name}" for model in models for name in ("AP", "P@R20")]
    title = (
        f"{start.task} from {start.name}: bought data given to the other model, all pairs of the test split"
    )
    theirs = "The paper reports QQP only, with 232,100 labels: its figures are of other data."
    return Table(title, tuple(head), tuple(lines), (*notes, theirs, *_sample(of), *start.notes(of)))


def _sample(rows: Iterable[StartRow]) -> list[str]:
    """How the all-pairs figures of a concatenation model were estimated."""
    wanted = ("concat", AP, "distinct")
    of = sorted({row.method for row in rows if (row.model, row.measure, row.counting) == wanted})
    return [f"P@R20 and AP of a concatenation model are {'; or '.join(of)}."] if of else []


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
    head = ["task", "start", "steps", "layers", "labels", "no labels: AP", "seeds"]
    head += ["static: AP", "uncertainty: AP", "uncertainty minus static"]
    lines = []
    for one in sorted(found, key=lambda one: (one.start.task != "wikiqa", one.zero.value)):
        seeds = sorted({one.static.seeds, one.uncertainty.seeds})
        line = [one.start.task, one.start.name, f"{one.start.steps:,}", str(one.start.layers or "all")]
        line += [f"{one.labels:,}", _text(one.zero), "/".join(map(str, seeds))]
        line += [_text(one.static), _text(one.uncertainty), one.gain.text()]
        lines.append(tuple(line))
    title = "Uncertainty sampling minus static retrieval, by the strength of the start (test split)"
    fallen = [f"{one.start.task} from {one.start.name}" for one in found if one.collapsed]
    words = "Training collapsed in the last round, to less than the start had without labels: "
    notes = [words + ", ".join(fallen) + "."] if fallen else []
    commands = {row.start_command: None for one in found for row in one.start.rows[:1] if row.start_command}
    notes.append("The starts: " + "; ".join(f"`{command}`" for command in commands) + ".")
    shown = {("cosine", "paper", strategy) for strategy in ("static", "uncertainty")}
    of = [row for one in found for row in one.start.rows if row.schedule.startswith(PAPER_BATCHES)]
    notes.append(made_by(row for row in of if (row.model, row.recipe, row.strategy) in shown))
    return Table(title, tuple(head), tuple(lines), tuple(notes))


def all_tables(rows: Sequence[StartRow]) -> list[Table]:
    """Every table that the rows give, WikiQA first; the strengths of starts last."""
    starts = starts_of(rows)
    found: list[Table | None] = []
    for start in starts:
        for schedule in start.schedules():
            found += [strategies_table(start, schedule), order_table(start, schedule)]
            found += [curves_table(start, schedule), seed_sets_table(start, schedule)]
        found += [concatenation_table(start), collected_table(start)]
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
    parser.add_argument("--page", type=Path, help="write this page and its pictures instead")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    given = parser.parse_args(arguments)
    rows = read_start_rows(given.results)
    if not rows:
        raise SystemExit(f"{given.results}: no rows. Run: python -m experiments.start_runs")
    if given.page:
        from experiments.paper_start_page import write_page

        print("\n".join(map(str, write_page(rows, given.page))))
        return
    tables = all_tables(rows)
    if given.json:
        print(json.dumps([table.as_json() for table in tables], indent=1))
    else:
        print("\n\n".join(table.as_markdown() for table in tables))


if __name__ == "__main__":
    main()

"""Tables of stored results: one for each task, encoder and learner, with the paper's figures beside ours.

Means over seeds, with the standard error of the mean where there are two or more seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from experiments import paper
from experiments.aggregate import Mean, Rows, grouped, mean_of, variant_name
from experiments.definitions import TWO_BY_TWO, Experiment
from experiments.manual_verification import READ_BY
from experiments.results import Row

SHORT = {
    "average_precision": "AP",
    "precision_at_recall_0.2": "P@R20",
    "best_f1": "best F1",
    "balanced_accuracy": "accuracy",
    "balanced_f1": "F1",
    "balanced_clean_map": "clean MAP",
}


@dataclass(frozen=True)
class Table:
    """A table for people and for programs."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def as_markdown(self) -> str:
        lines = [f"**{self.title}**", "", _line(self.head), _line(["---"] * len(self.head))]
        lines += [_line(row) for row in self.rows]
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)])

    def as_json(self) -> dict[str, object]:
        rows = [dict(zip(self.head, row)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": list(self.notes)}


def tables(experiment: Experiment, rows: Sequence[Row], alone: bool = True) -> list[Table]:
    """The tables of one experiment, from whatever rows belong to it.

    `alone`: also those of a comparison that has one side only so far.
    """
    groups = [group for group in grouped(experiment, rows) if alone or group.compares()]
    found = (TABLE_LAYOUTS[experiment.layout](group) for group in groups)
    return [table for table in found if table is not None]


# ── one function for each layout ────────────────────────────────────────────────────────────────


def statistics_table(rows: Rows) -> Table | None:
    head = ["split", "positives", "pairs", "pairs per positive", "stated negatives"]
    head += ["nearby negatives"] + (["nearby, mirrored twice"] if rows.symmetric else [])
    if rows.paper_task:
        head += [f"paper: {name}" for name in ("positives", "pairs", "per positive", "stated", "nearby")]
    lines = []
    for split in ("train", "dev", "test", "all"):
        counts = {(r.measure, r.counting): r.value for r in rows.where(split=split)}
        if ("pairs", "distinct") not in counts:
            continue
        line = [split]
        for measure in ("positives", "pairs", "ratio", "stated_negatives", "nearby_negatives"):
            line.append(_count(counts.get((measure, "distinct"))))
        if rows.symmetric:
            line.append(_count(counts.get(("nearby_negatives", "mirrored"))))
        if rows.paper_task:
            line += list(paper.STATISTICS.get((rows.paper_task, split), ("-",) * 5))
        lines.append(tuple(line))
    return _table(rows, head, lines, "counts of every split")


def strategies_table(rows: Rows) -> Table | None:
    measures = rows.experiment.measures
    head = ["strategy", "labels", "seeds", *(SHORT[m] for m in measures)]
    head += [f"{SHORT[m]}, mirrored" for m in measures] if rows.symmetric else []
    head += ["paper: labels", "paper: AP", "paper: P@R20"] if rows.paper_task else []
    lines = []
    if rows.untrained(measures[0]):
        line = ["untrained encoder", "0", "-", *(_text(rows.untrained(m)) for m in measures)]
        line += [_text(rows.untrained(m, "mirrored")) for m in measures] if rows.symmetric else []
        lines.append((*line, *(["-"] * 3 if rows.paper_task else [])))
    for variant in rows.variants():
        first = rows.last(variant, measures[0])
        if first is None:
            continue
        line = [variant_name(rows, variant), f"{rows.labels(variant):,}", str(first.seeds)]
        line += [_text(rows.last(variant, m)) for m in measures]
        line += [_text(rows.last(variant, m, "mirrored")) for m in measures] if rows.symmetric else []
        if rows.paper_task:
            reported = paper.STRATEGIES.get((rows.paper_task, variant[0]))
            budget = f"{paper.BUDGETS[rows.paper_task]:,}"
            line += [budget, f"{reported[1]:.3f}", f"{reported[0]:.3f}"] if reported else ["-"] * 3
        lines.append(tuple(line))
    return _table(rows, head, lines, f"{rows.experiment.split} split, all pairs, exact")


def positives_table(rows: Rows) -> Table | None:
    head = ["strategy", "labels", "seeds", "positives found"]
    head += ["mirrored: labels", "mirrored: positives"] if rows.symmetric else []
    head += ["paper: labels", "paper: positives"] if rows.paper_task else []
    lines = []
    for variant in rows.variants():
        found = rows.last(variant, "positives_found", split="train")
        if found is None:
            continue
        labels = rows.labels(variant)
        line = [variant_name(rows, variant), f"{labels:,}", str(found.seeds), _mean_count(found)]
        line += [f"{2 * labels:,}", f"{2 * found.value:,.0f}"] if rows.symmetric else []
        if rows.paper_task:
            reported = paper.POSITIVES.get((rows.paper_task, variant[0]))
            line += [f"{paper.BUDGETS[rows.paper_task]:,}", f"{reported:,}"] if reported else ["-", "-"]
        lines.append(tuple(line))
    note = (
        "Mirrored: both orders of every pair counted as labels, as the released code buys mutual neighbours; "
        "its own count lies between the two."
    )
    table = _table(rows, head, lines, "matches among the labels")
    return _with_note(table, note) if rows.symmetric else table


def concatenation_table(rows: Rows) -> Table | None:
    directed = bool(rows.where(measure="balanced_clean_map"))
    first = "balanced_clean_map" if directed else "balanced_accuracy"
    measures = [first, "balanced_f1", "precision_at_recall_0.2", "average_precision"]
    head = ["model", "seeds", *(SHORT[m] for m in measures)]
    head += ["P@R20, mirrored", "AP, mirrored"] if rows.symmetric else []
    lines = []
    found = {m: _concat_mean(rows, "all-stated", m) for m in measures}
    if found["average_precision"]:
        line = [f"{rows.encoder}, both texts at once", str(found["average_precision"].seeds)]
        line += [_text(found[m]) for m in measures]
        for m in measures[2:] if rows.symmetric else []:
            line.append(_text(_concat_mean(rows, "all-stated", m, "mirrored")))
        lines.append(tuple(line))
    for (task, model), reported in paper.CONCATENATION.items():
        if task == rows.paper_task and lines:
            blank = ["-", "-"] if rows.symmetric else []
            lines.append((f"paper: {model}", "3", *(f"{value:.3f}" for value in reported), *blank))
    return _table(rows, head, lines, "the first two on stated test pairs, the others over all pairs", "cross")


def models_table(rows: Rows) -> Table | None:
    head = ["data", "cosine AP", "cosine P@R20", "concatenation AP", "concatenation P@R20"]
    head += ["concatenation AP, mirrored"] if rows.symmetric else []
    head += ["paper: cosine AP", "paper: concatenation AP"] if rows.paper_task else []
    lines = []
    for variant in rows.variants():
        concat = _concat_mean(rows, variant[0], "average_precision", variant=variant)
        if concat is None:
            continue
        line = [variant_name(rows, variant)]
        line += [_text(rows.last(variant, m)) for m in ("average_precision", "precision_at_recall_0.2")]
        line += [concat.text()]
        line += [_text(_concat_mean(rows, variant[0], "precision_at_recall_0.2", variant=variant))]
        if rows.symmetric:
            again = _concat_mean(rows, variant[0], "average_precision", "mirrored", variant)
            line.append(_text(again))
        if rows.paper_task:
            by_strategy = paper.STRATEGIES.get((rows.paper_task, variant[0]))
            collected = paper.COLLECTED.get((rows.paper_task, variant[0]))
            line += [f"{reported[1]:.3f}" if reported else "-" for reported in (by_strategy, collected)]
        lines.append(tuple(line))
    return _table(rows, head, lines, "test split, all pairs")


def curves_table(rows: Rows) -> Table | None:
    variants = [v for v in rows.variants() if rows.by_round(v, "average_precision")]
    aps = {v: rows.by_round(v, "average_precision") for v in variants}
    found = {v: rows.by_round(v, "positives_found", split="train") for v in variants}
    bought = sorted({at for by in aps.values() for at in by})
    start = rows.untrained("average_precision")
    head = ["after so many labels", *(["0"] if start else []), *(f"{at:,}" for at in bought)]
    lines = []
    for v in variants:
        before = [start.text()] if start else []
        lines.append((f"{variant_name(rows, v)}: AP", *before, *(_text(aps[v].get(at)) for at in bought)))
    for v in variants:
        before = ["0"] if start else []
        counts = (_mean_count(found[v].get(at)) for at in bought)
        lines.append((f"{variant_name(rows, v)}: positives", *before, *counts))
    seeds = {mean.seeds for by in aps.values() for mean in by.values()}
    words = f"{rows.experiment.split} split, all pairs, exact; seeds: {_span(seeds)}"
    return _table(rows, head, lines, words, compared=False)


def recipes_table(rows: Rows) -> Table | None:
    head = [
        "labels",
        "split",
        "seeds",
        "paper's recipe: AP",
        "best: AP",
        "gain",
        "outside two standard errors",
    ]
    head += ["paper's recipe: P@R20", "best: P@R20"]
    lines = []
    names = ("average_precision", "precision_at_recall_0.2")
    for split in ("dev", "test"):
        ap, precision = (rows.untrained(name, split=split) for name in names)
        ours, our_precision = (rows.untrained(name, split=split, recipe="best") for name in names)
        if ap:
            lead = f"{ours.value - ap.value:+.4f}" if ours else "-"
            line = ["0", split, "-", ap.text(), _text(ours), lead, "-"]
            lines.append((*line, _text(precision), _text(our_precision)))
    for split, schedule in product(("dev", "test"), sorted({v[3] for v in rows.variants()}, reverse=True)):
        aps, precisions = (
            [rows.by_round(("uncertainty", r, "static", schedule), m, split=split) for r in ("paper", "best")]
            for m in names
        )
        for labels in sorted(aps[0].keys() & aps[1].keys()):
            a, b = (by[labels] for by in aps)
            gain, seeds = b.value - a.value, min(a.seeds, b.seeds)
            sure = "yes" if seeds > 1 and abs(gain) > 2 * math.hypot(a.error, b.error) else "no"
            line = [f"{labels:,}", split, str(seeds), a.text(), b.text(), f"{gain:+.4f}"]
            line += [sure if seeds > 1 else "one seed", *(_text(by.get(labels)) for by in precisions)]
            lines.append(tuple(line))
    table = _table(rows, head, lines, "uncertainty, all pairs, exact", compared=False)
    return table or strategies_table(rows)


def two_by_two_table(rows: Rows) -> Table | None:
    """AP by training recipe × score, from no label on; what labels added is beside it."""
    head = ["split", "labels", "seeds"]
    head += [
        f"{training} training, {score}"
        for training in ("paper's", "our")
        for score in ("cosine", "our score")
    ]
    lines, name = [], "average_precision"
    for split, schedule in product(("dev", "test"), sorted({v[3] for v in rows.variants()})):
        cells = [rows.by_round(("uncertainty", r, "static", schedule), name, split=split) for r in TWO_BY_TWO]
        start = [rows.untrained(name, split=split), rows.untrained(name, split=split, recipe="best")] * 2
        lines.append((split, "0", "-", *map(_text, start)))
        for labels in sorted(set.intersection(*(set(cell) for cell in cells))):
            means = [cell[labels] for cell in cells]
            gains = [f" ({m.value - s.value:+.4f})" if s else "" for m, s in zip(means, start)]
            seeds = str(min(mean.seeds for mean in means))
            lines.append((split, f"{labels:,}", seeds, *(m.text() + gain for m, gain in zip(means, gains))))
    return _table(
        rows, head, lines, "uncertainty, all pairs, exact; in brackets since no label", compared=False
    )


def cold_start_table(rows: Rows) -> Table | None:
    """The best recipe by its first batch, at every budget; `worse` only outside two standard errors."""
    head = (
        "labels",
        "schedule",
        "split",
        "seeds",
        "nearest pairs first: AP",
        "default: AP",
        "change",
        "worse",
    )
    lines = []
    for split, schedule in product(("dev", "test"), sorted({v[3] for v in rows.variants()}, reverse=True)):
        before, now = (
            rows.by_round(("uncertainty", "best", name, schedule), "average_precision", split=split)
            for name in ("static", "auto")
        )
        for labels, ours in now.items():
            line = [f"{labels:,}", schedule, split]
            theirs = before.get(labels)
            if theirs is None:
                lines.append((*line, str(ours.seeds), "-", ours.text(), "-", "-"))
                continue
            change, seeds = ours.value - theirs.value, min(ours.seeds, theirs.seeds)
            worse = "yes" if change < -2 * math.hypot(ours.error, theirs.error) else "no"
            line += [str(seeds), theirs.text(), ours.text(), f"{change:+.4f}"]
            lines.append((*line, worse if seeds > 1 else "one seed"))
    return _table(rows, head, lines, "uncertainty, all pairs, exact", compared=False)


def efficiency_table(rows: Rows) -> Table | None:
    head = [
        "recipe",
        "static retrieval's best AP",
        "with labels",
        "uncertainty passes it with",
        "its AP then",
    ]
    head += ["times fewer labels"]
    lines = []
    variants = rows.variants()
    for static in (v for v in variants if v[0] == "static"):
        adaptive = ("uncertainty", *static[1:])
        static_aps, adaptive_aps = (rows.by_round(v, "average_precision") for v in (static, adaptive))
        if not static_aps or not adaptive_aps:
            continue
        best = max(static_aps, key=lambda at: (static_aps[at].value, -at))
        passing = [at for at in adaptive_aps if adaptive_aps[at].value > static_aps[best].value]
        line = [static[1], static_aps[best].text(), f"{best:,}"]
        if passing:
            line += [f"{passing[0]:,}", adaptive_aps[passing[0]].text(), f"{best / passing[0]:.1f}"]
        else:
            line += [f"not within {max(adaptive_aps):,}", _text(adaptive_aps[max(adaptive_aps)]), "-"]
        lines.append(tuple(line))
    if rows.paper_task in paper.EFFICIENCY and lines:
        ap, labels, ours_ap, needed = paper.EFFICIENCY[rows.paper_task]
        reported = [f"{ap:.3f}", f"{labels:,}", f"{needed:,}", f"{ours_ap:.3f}", f"{labels / needed:.1f}"]
        lines.append(("the paper", *reported))
    words = f"{rows.experiment.split} split, all pairs, exact, at the ends of rounds"
    return _table(rows, head, lines, words)


def manual_table(rows: Rows) -> Table | None:
    head = ["strategy", "labels", "P@R20, imputed labels", "P@R20, corrected by a reader", "read by"]
    head += ["paper: imputed", "paper: corrected"] if rows.paper_task else []
    lines = []
    for variant in rows.variants("manual"):
        name = "precision_at_recall_0.2"
        imputed = rows.last(variant, name, model="manual")
        corrected = rows.last(variant, f"{name}_corrected", model="manual")
        labels = max(row.labels for row in rows.where(model="manual", strategy=variant[0]))
        line = [variant_name(rows, variant), f"{labels:,}", _text(imputed)]
        line.append(_text(corrected) if corrected else "nobody has labelled yet")
        read = rows.where(model="manual", strategy=variant[0], measure=f"{name}_corrected")
        line.append(next((row.method.partition(READ_BY)[2] for row in read), "") or "-")
        reported = paper.MANUAL.get((rows.paper_task, variant[0]))
        blank = ["-", "-"] if rows.paper_task else []
        line += [f"{reported[0]:.3f}", f"{reported[1]:.3f}"] if reported else blank
        lines.append(tuple(line))
    return _table(rows, head, lines, "dev split")


TABLE_LAYOUTS: dict[str, Callable[[Rows], Table | None]] = {
    "statistics": statistics_table,
    "strategies": strategies_table,
    "positives": positives_table,
    "concatenation": concatenation_table,
    "models": models_table,
    "curves": curves_table,
    "recipes": recipes_table,
    "two-by-two": two_by_two_table,
    "cold-start": cold_start_table,
    "efficiency": efficiency_table,
    "manual": manual_table,
}


# ── words ───────────────────────────────────────────────────────────────────────────────────────


def _table(
    rows: Rows,
    head: Sequence[str],
    lines: Sequence[tuple[str, ...]],
    what: str,
    learner: str = "",
    compared: bool = True,
) -> Table | None:
    if not lines:
        return None
    trained = learner or rows.learner
    how = {"full": "fine-tuned", "projection": "a linear map trained", "cross": "both texts at once"}
    recipes = {variant[1] for variant in rows.variants()}
    recipe_note = f", recipe {recipes.pop()}" if trained == "full" and len(recipes) == 1 else ""
    training = f" ({how[trained]}{recipe_note})" if trained in how else ""
    title = f"{rows.task}, {rows.encoder}{training}: {what}"
    with_paper = compared and bool(rows.paper_task)
    notes = [paper.differences(rows.task, rows.encoder, trained)] if with_paper else []
    return Table(title, tuple(head), tuple(lines), (*notes, rows.sources()))


def _with_note(table: Table | None, note: str) -> Table | None:
    return table and Table(table.title, table.head, table.rows, (note, *table.notes))


def _concat_mean(
    rows: Rows,
    strategy: str,
    measure: str,
    counting: str = "distinct",
    variant: tuple[str, str, str, str] | None = None,
) -> Mean | None:
    wanted = {"model": "concat", "strategy": strategy, "measure": measure, "counting": counting}
    if variant is not None:
        wanted |= {"recipe": variant[1], "seed_set": variant[2], "schedule": variant[3]}
    return mean_of(rows.where(split="test", **wanted))


def _text(mean: Mean | None) -> str:
    return mean.text() if mean is not None else "-"


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _mean_count(mean: Mean | None) -> str:
    if mean is None:
        return "-"
    spread = f" ± {mean.error:,.0f}" if mean.seeds > 1 and mean.error >= 0.5 else ""
    return f"{mean.value:,.0f}{spread}"


def _span(numbers: set[int]) -> str:
    return (
        "-"
        if not numbers
        else f"{min(numbers)}"
        if len(numbers) == 1
        else f"{min(numbers)} to {max(numbers)}"
    )


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"

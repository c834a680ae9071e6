"""What do stored results say? One table for each task, encoder and learner, the paper's column beside ours.

Means over seeds, with the standard error of the mean where there are two or more. Nothing is trained here,
and nothing is read but rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from pairsieve.experiments import paper
from pairsieve.experiments.declared import Experiment
from pairsieve.experiments.gathered import Mean, Rows, grouped, mean_of, name_of
from pairsieve.experiments.results import Row

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
    made = (LAYOUTS[experiment.layout](group) for group in groups)
    return [table for table in made if table is not None]


# ── one function for each layout ────────────────────────────────────────────────────────────────


def statistics_table(rows: Rows) -> Table | None:
    head = ["split", "positives", "pairs", "pairs per positive", "stated negatives"]
    head += ["nearby negatives"] + (["nearby, mirrored twice"] if rows.symmetric else [])
    if rows.beside:
        head += [f"paper: {name}" for name in ("positives", "pairs", "per positive", "stated", "nearby")]
    made = []
    for split in ("train", "dev", "test", "all"):
        counts = {(r.measure, r.counting): r.value for r in rows.where(split=split)}
        if ("pairs", "distinct") not in counts:
            continue
        line = [split]
        for measure in ("positives", "pairs", "ratio", "stated_negatives", "nearby_negatives"):
            line.append(_count(counts.get((measure, "distinct"))))
        if rows.symmetric:
            line.append(_count(counts.get(("nearby_negatives", "mirrored"))))
        if rows.beside:
            line += list(paper.STATISTICS.get((rows.beside, split), ("-",) * 5))
        made.append(tuple(line))
    return _table(rows, head, made, "counts of every split")


def strategies_table(rows: Rows) -> Table | None:
    measures = rows.experiment.measures
    head = ["strategy", "labels", "seeds", *(SHORT[m] for m in measures)]
    head += [f"{SHORT[m]}, mirrored" for m in measures] if rows.symmetric else []
    head += ["paper: labels", "paper: AP", "paper: P@R20"] if rows.beside else []
    made = []
    if rows.untrained(measures[0]):
        line = ["untrained encoder", "0", "-", *(_words(rows.untrained(m)) for m in measures)]
        line += [_words(rows.untrained(m, "mirrored")) for m in measures] if rows.symmetric else []
        made.append((*line, *(["-"] * 3 if rows.beside else [])))
    for variant in rows.variants():
        first = rows.last(variant, measures[0])
        if first is None:
            continue
        line = [name_of(rows, variant), f"{rows.labels(variant):,}", str(first.seeds)]
        line += [_words(rows.last(variant, m)) for m in measures]
        line += [_words(rows.last(variant, m, "mirrored")) for m in measures] if rows.symmetric else []
        if rows.beside:
            told = paper.STRATEGIES.get((rows.beside, variant[0]))
            budget = f"{paper.BUDGETS[rows.beside]:,}"
            line += [budget, f"{told[1]:.3f}", f"{told[0]:.3f}"] if told else ["-"] * 3
        made.append(tuple(line))
    return _table(rows, head, made, f"{rows.experiment.split} split, all pairs, exact")


def positives_table(rows: Rows) -> Table | None:
    head = ["strategy", "labels", "seeds", "positives found"]
    head += ["mirrored: labels", "mirrored: positives"] if rows.symmetric else []
    head += ["paper: labels", "paper: positives"] if rows.beside else []
    made = []
    for variant in rows.variants():
        found = rows.last(variant, "positives_found", split="train")
        if found is None:
            continue
        labels = rows.labels(variant)
        line = [name_of(rows, variant), f"{labels:,}", str(found.seeds), _mean_count(found)]
        line += [f"{2 * labels:,}", f"{2 * found.value:,.0f}"] if rows.symmetric else []
        if rows.beside:
            told = paper.POSITIVES.get((rows.beside, variant[0]))
            line += [f"{paper.BUDGETS[rows.beside]:,}", f"{told:,}"] if told else ["-", "-"]
        made.append(tuple(line))
    note = (
        "Mirrored: both orders of every pair counted as labels, as the released code buys mutual neighbours; "
        "its own count lies between the two."
    )
    made_table = _table(rows, head, made, "matches among the labels bought")
    return _with_note(made_table, note) if rows.symmetric else made_table


def concatenation_table(rows: Rows) -> Table | None:
    directed = bool(rows.where(measure="balanced_clean_map"))
    first = "balanced_clean_map" if directed else "balanced_accuracy"
    measures = [first, "balanced_f1", "precision_at_recall_0.2", "average_precision"]
    head = ["model", "seeds", *(SHORT[m] for m in measures)]
    head += ["P@R20, mirrored", "AP, mirrored"] if rows.symmetric else []
    made = []
    found = {m: _concat_mean(rows, "all-stated", m) for m in measures}
    if found["average_precision"]:
        line = [f"{rows.encoder}, both texts at once", str(found["average_precision"].seeds)]
        line += [_words(found[m]) for m in measures]
        for m in measures[2:] if rows.symmetric else []:
            line.append(_words(_concat_mean(rows, "all-stated", m, "mirrored")))
        made.append(tuple(line))
    for (task, model), told in paper.CONCATENATION.items():
        if task == rows.beside and made:
            blank = ["-", "-"] if rows.symmetric else []
            made.append((f"paper: {model}", "3", *(f"{value:.3f}" for value in told), *blank))
    return _table(rows, head, made, "the first two on stated test pairs, the others over all pairs", "cross")


def models_table(rows: Rows) -> Table | None:
    head = ["data", "cosine AP", "cosine P@R20", "concatenation AP", "concatenation P@R20"]
    head += ["concatenation AP, mirrored"] if rows.symmetric else []
    head += ["paper: cosine AP", "paper: concatenation AP"] if rows.beside else []
    made = []
    for variant in rows.variants():
        concat = _concat_mean(rows, variant[0], "average_precision", variant=variant)
        if concat is None:
            continue
        line = [name_of(rows, variant)]
        line += [_words(rows.last(variant, m)) for m in ("average_precision", "precision_at_recall_0.2")]
        line += [concat.words()]
        line += [_words(_concat_mean(rows, variant[0], "precision_at_recall_0.2", variant=variant))]
        if rows.symmetric:
            again = _concat_mean(rows, variant[0], "average_precision", "mirrored", variant)
            line.append(_words(again))
        if rows.beside:
            ours = paper.STRATEGIES.get((rows.beside, variant[0]))
            theirs = paper.COLLECTED.get((rows.beside, variant[0]))
            line += [f"{told[1]:.3f}" if told else "-" for told in (ours, theirs)]
        made.append(tuple(line))
    return _table(rows, head, made, "test split, all pairs")


def curves_table(rows: Rows) -> Table | None:
    variants = [v for v in rows.variants() if rows.by_round(v, "average_precision")]
    aps = {v: rows.by_round(v, "average_precision") for v in variants}
    found = {v: rows.by_round(v, "positives_found", split="train") for v in variants}
    bought = sorted({at for by in aps.values() for at in by})
    start = rows.untrained("average_precision")
    head = ["after so many labels", *(["0"] if start else []), *(f"{at:,}" for at in bought)]
    made = []
    for v in variants:
        before = [start.words()] if start else []
        made.append((f"{name_of(rows, v)}: AP", *before, *(_words(aps[v].get(at)) for at in bought)))
    for v in variants:
        before = ["0"] if start else []
        told = (_mean_count(found[v].get(at)) for at in bought)
        made.append((f"{name_of(rows, v)}: positives", *before, *told))
    seeds = {mean.seeds for by in aps.values() for mean in by.values()}
    words = f"{rows.experiment.split} split, all pairs, exact; seeds: {_span(seeds)}"
    return _table(rows, head, made, words, beside=False)


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
    made = []
    for split, schedule in product(("dev", "test"), sorted({v[3] for v in rows.variants()}, reverse=True)):
        aps, precisions = (
            [rows.by_round(("uncertainty", r, "static", schedule), m, split=split) for r in ("paper", "best")]
            for m in ("average_precision", "precision_at_recall_0.2")
        )
        for labels in sorted(aps[0].keys() & aps[1].keys()):
            a, b = (by[labels] for by in aps)
            gain, seeds = b.value - a.value, min(a.seeds, b.seeds)
            sure = "yes" if seeds > 1 and abs(gain) > 2 * math.hypot(a.error, b.error) else "no"
            line = [f"{labels:,}", split, str(seeds), a.words(), b.words(), f"{gain:+.4f}"]
            line += [sure if seeds > 1 else "one seed", *(_words(by.get(labels)) for by in precisions)]
            made.append(tuple(line))
    return _table(rows, head, made, "uncertainty, all pairs, exact", beside=False) or strategies_table(rows)


def efficiency_table(rows: Rows) -> Table | None:
    head = [
        "recipe",
        "static retrieval's best AP",
        "with labels",
        "uncertainty passes it with",
        "its AP then",
    ]
    head += ["times fewer labels"]
    made = []
    variants = rows.variants()
    for static in (v for v in variants if v[0] == "static"):
        adaptive = ("uncertainty", *static[1:])
        theirs, ours = (rows.by_round(v, "average_precision") for v in (static, adaptive))
        if not theirs or not ours:
            continue
        best = max(theirs, key=lambda at: (theirs[at].value, -at))
        passing = [at for at in ours if ours[at].value > theirs[best].value]
        line = [static[1], theirs[best].words(), f"{best:,}"]
        if passing:
            line += [f"{passing[0]:,}", ours[passing[0]].words(), f"{best / passing[0]:.1f}"]
        else:
            line += [f"not within {max(ours):,}", _words(ours[max(ours)]), "-"]
        made.append(tuple(line))
    if rows.beside in paper.EFFICIENCY and made:
        ap, labels, ours_ap, needed = paper.EFFICIENCY[rows.beside]
        told = [f"{ap:.3f}", f"{labels:,}", f"{needed:,}", f"{ours_ap:.3f}", f"{labels / needed:.1f}"]
        made.append(("the paper", *told))
    return _table(rows, head, made, f"{rows.experiment.split} split, all pairs, exact, at the ends of rounds")


def manual_table(rows: Rows) -> Table | None:
    head = ["strategy", "labels", "P@R20, imputed labels", "P@R20, corrected by a person"]
    head += ["paper: imputed", "paper: corrected"] if rows.beside else []
    made = []
    for variant in rows.variants("manual"):
        name = "precision_at_recall_0.2"
        imputed = rows.last(variant, name, model="manual")
        corrected = rows.last(variant, f"{name}_corrected", model="manual")
        labels = max(row.labels for row in rows.where(model="manual", strategy=variant[0]))
        line = [name_of(rows, variant), f"{labels:,}", _words(imputed)]
        line.append(_words(corrected) if corrected else "nobody has labelled yet")
        told = paper.MANUAL.get((rows.beside, variant[0]))
        line += [f"{told[0]:.3f}", f"{told[1]:.3f}"] if told else (["-", "-"] if rows.beside else [])
        made.append(tuple(line))
    return _table(rows, head, made, "dev split")


LAYOUTS: dict[str, Callable[[Rows], Table | None]] = {
    "statistics": statistics_table,
    "strategies": strategies_table,
    "positives": positives_table,
    "concatenation": concatenation_table,
    "models": models_table,
    "curves": curves_table,
    "recipes": recipes_table,
    "efficiency": efficiency_table,
    "manual": manual_table,
}


# ── words ───────────────────────────────────────────────────────────────────────────────────────


def _table(
    rows: Rows,
    head: Sequence[str],
    made: Sequence[tuple[str, ...]],
    what: str,
    learner: str = "",
    beside: bool = True,
) -> Table | None:
    if not made:
        return None
    trained = learner or rows.learner
    how = {"full": "fine-tuned", "projection": "a linear map trained", "cross": "both texts at once"}
    recipes = {variant[1] for variant in rows.variants()}
    told_recipe = f", recipe {recipes.pop()}" if trained == "full" and len(recipes) == 1 else ""
    said = f" ({how[trained]}{told_recipe})" if trained in how else ""
    title = f"{rows.task}, {rows.encoder}{said}: {what}"
    told = beside and bool(rows.beside)
    notes = [paper.differences(rows.task, rows.encoder, trained)] if told else []
    return Table(title, tuple(head), tuple(made), (*notes, rows.made_by()))


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


def _words(mean: Mean | None) -> str:
    return mean.words() if mean is not None else "-"


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

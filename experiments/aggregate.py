"""Stored rows of an experiment, grouped by task, encoder and learner, and their means over seeds.

A run that several experiments define counts for each of them, whichever it was executed for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from experiments import paper
from experiments.definitions import Experiment, schedule_label
from experiments.results import Row, latest
from pairsieve.measure.figures import digits

STRATEGY_ORDER = (
    *(
        "",
        "random",
        "stated",
        "all-stated",
        "balanced-stated",
        "static",
        "stratified-match",
        "stratified-all",
    ),
    *("adaptive", "uncertainty"),
)


@dataclass(frozen=True)
class Mean:
    """A mean over seeds."""

    value: float
    error: float  # standard error; not a number for one seed
    seeds: int
    low: float  # the widest interval of its members, where they are estimates
    high: float

    def text(self) -> str:
        if self.seeds > 1:
            return f"{digits(self.value)} ± {self.error:.4f}"
        if self.high > self.low:
            return f"{digits(self.value)} [{digits(self.low)}, {digits(self.high)}]"
        return digits(self.value)


class Rows:
    """The rows of one task, encoder and learner, and their means."""

    def __init__(self, rows: Sequence[Row], experiment: Experiment) -> None:
        self.all = list(rows)
        self.experiment = experiment
        self.task, self.encoder = rows[0].task, rows[0].encoder
        trained = [row.learner for row in rows if row.model in ("cosine", "manual")]
        self.learner = trained[0] if trained else rows[0].learner
        self.paper_task = paper.counterpart(self.task).task
        self.symmetric = any(row.counting == "mirrored" and row.split != "train" for row in rows)

    def sources(self) -> str:
        """The commands that gave the figures, each with its device."""
        commands = sorted({(row.source, row.device) for row in self.all})
        return "Made by " + "; ".join(f"`{source}` ({device})" for source, device in commands) + "."

    def where(self, **wanted: object) -> list[Row]:
        return [row for row in self.all if all(getattr(row, name) == is_ for name, is_ in wanted.items())]

    def variants(self, model: str = "cosine") -> list[tuple[str, str, str, str]]:
        """(strategy, recipe, seed set, schedule) that were run, in the paper's order."""
        found = {(r.strategy, r.recipe, r.seed_set, r.schedule) for r in self.where(model=model)}
        return sorted(found, key=lambda v: (v[3], _order(v[0]), v[1] != "paper", v[2]))

    def compares(self) -> bool:
        """Whether there is something to compare: two of what the experiment sets side by side, if it does.

        Strategies, recipes and seed sets stand side by side; two budgets of one of them do not.
        """
        experiment = self.experiment
        defined = len(experiment.strategies) * len(experiment.recipes) * len(experiment.seed_sets)
        stored = max(len({v[:3] for v in self.variants(m)}) for m in ("cosine", "concat", "manual"))
        return stored >= min(2, defined)

    def last(
        self, variant: tuple[str, str, str, str], measure: str, counting: str = "distinct", **more: object
    ) -> Mean | None:
        """The mean after the last round."""
        rows = self._of(variant, measure, counting, **more)
        final = max((row.round for row in rows), default=0)
        return mean_of(row for row in rows if row.round == final)

    def by_round(self, variant: tuple[str, str, str, str], measure: str, **more: object) -> dict[int, Mean]:
        """Number of labels -> mean over seeds, for every round."""
        rows = self._of(variant, measure, "distinct", **more)
        means = {at: mean_of(r for r in rows if r.labels == at) for at in sorted({r.labels for r in rows})}
        return {at: mean for at, mean in means.items() if mean}

    def labels(self, variant: tuple[str, str, str, str]) -> int:
        return max(
            (r.labels for r in self._of(variant, "positives_found", "distinct", split="train")), default=0
        )

    def untrained(
        self, measure: str, counting: str = "distinct", split: str = "", recipe: str = ""
    ) -> Mean | None:
        """The encoder as it came: by plain cosines, or by the score of a recipe."""
        of = {"split": split or self.experiment.split, "recipe": recipe}
        return mean_of(self.where(model="untrained", measure=measure, counting=counting, **of))

    def _of(
        self, variant: tuple[str, str, str, str], measure: str, counting: str, **more: object
    ) -> list[Row]:
        strategy, recipe, seed_set, schedule = variant
        wanted = {"model": "cosine", "split": self.experiment.split} | more
        return self.where(
            strategy=strategy,
            recipe=recipe,
            seed_set=seed_set,
            schedule=schedule,
            measure=measure,
            counting=counting,
            **wanted,
        )


def mean_of(rows: Iterable[Row]) -> Mean | None:
    """Mean and standard error over seeds: s / √n; None of nothing."""
    listed = list(rows)
    if not listed:
        return None
    values = [row.value for row in listed]
    n, mean = len(values), math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1)) if n > 1 else math.nan
    low, high = min(row.low for row in listed), max(row.high for row in listed)
    return Mean(mean, spread / math.sqrt(n), n, low, high)


def rows_for(experiment: Experiment, rows: Sequence[Row]) -> list[Row]:
    """Rows of this experiment, and of other experiments' runs that it defines too; each figure once."""
    runs = {
        (c.model, c.strategy, c.recipe, c.seed_set, schedule_label(c.schedule)) for c in experiment.runs([0])
    }
    return latest(
        row
        for row in rows
        if row.experiment == experiment.name
        or (row.model, row.strategy, row.recipe, row.seed_set, row.schedule) in runs
    )


def grouped(experiment: Experiment, rows: Sequence[Row]) -> list[Rows]:
    """The rows of an experiment by task, encoder and learner; rows of no learner go with each."""
    own = rows_for(experiment, rows)
    shared = [row for row in own if row.model in ("data", "untrained")]
    trained = [row for row in own if row.model not in ("data", "untrained")]
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in trained if experiment.strategies else shared:
        learner = row.learner if row.model in ("cosine", "manual") else ""
        groups.setdefault((row.task, row.encoder, learner), []).append(row)
    if experiment.strategies:
        groups = _joined(groups)
        for (task, encoder, _), group in groups.items():
            group += [row for row in shared if (row.task, row.encoder) == (task, encoder)]
    return [
        Rows(groups[key], experiment) for key in sorted(groups, key=lambda key: (key[0] != "wikiqa", key))
    ]


def _joined(groups: dict[tuple[str, str, str], list[Row]]) -> dict[tuple[str, str, str], list[Row]]:
    """Concatenation models join the cosine models whose labels they were trained on, where there are any."""
    joined = dict(groups)
    for key in groups:
        others = [k for k in groups if k[:2] == key[:2] and k[2]]
        if not key[2] and others:
            for other in others:
                joined[other] = [*groups[other], *groups[key]]
            del joined[key]
    return joined


def variant_name(rows: Rows, variant: tuple[str, str, str, str]) -> str:
    """A variant by what distinguishes it from the others in the same table."""
    strategy, recipe, seed_set, schedule = variant
    others = rows.variants()
    more = [f"recipe {recipe}"] if len({v[1] for v in others}) > 1 else []
    more += [f"seed set {seed_set}"] if len({v[2] for v in others}) > 1 else []
    more += [schedule] if len({v[3] for v in others}) > 1 else []
    return strategy + (f" ({', '.join(more)})" if more else "")


def _order(strategy: str) -> int:
    return STRATEGY_ORDER.index(strategy) if strategy in STRATEGY_ORDER else len(STRATEGY_ORDER)

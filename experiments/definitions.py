"""Definitions of the experiments, as data: strategies, schedules, recipes, models, seeds, table layouts.

An experiment is a list of runs. A run is one campaign, one concatenation model, or one count. Experiments
that need the same run share it, so Table 4 after Table 3 trains nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from pairsieve.errors import InputError, nearest
from pairsieve.settings import PAPER_SCHEDULE, Schedule

WHOLE_SCHEDULE = replace(PAPER_SCHEDULE, rounds=10)  # 232,100 labels, as on QQP
SMALL_SCHEDULE = Schedule(first_batch=50, growth=1.66, rounds=7)  # 50, 133, 271, 500, 880, 1,510, 2,556
EQUAL_SCHEDULE = Schedule(first_batch=256, growth=1.0, rounds=8)  # 2,048 labels, as init --labels plans them

MATCHED = "stratified-match"  # stratified, in the balance that the uncertainty run of the same seed found
ALL_STATED = "all-stated"  # every stated training pair, as the paper trains its concatenation models
BALANCED_STATED = "balanced-stated"  # stated negatives and as many positives, where few negatives are stated
# Training recipe × score: the paper's training under plain cosines and under our score, and ours under both.
OUR_SCORE, PLAIN = (
    "hubness_correction=0.25,neighbour_smoothing=1",
    "hubness_correction=0,neighbour_smoothing=0",
)
TWO_BY_TWO = ("paper", f"paper:{OUR_SCORE}", f"best:{PLAIN}", "best")
ORACLE_FREE = ("uncertainty", "static", "adaptive", "stated", "random")


@dataclass(frozen=True, kw_only=True)
class Run:
    """The smallest piece of an experiment that is executed and stored as a whole."""

    model: str  # "data", "untrained", "cosine", "concat" or "manual"
    strategy: str = ""
    recipe: str = ""  # "best" or "paper", perhaps with changed settings: "best:hubness_correction=0"
    seed_set: str = ""
    schedule: Schedule | None = None
    seed: int = 0

    @property
    def name(self) -> str:
        """A folder name that people can read."""
        fields = [self.model, self.strategy, self.recipe, self.seed_set, schedule_label(self.schedule)]
        words = "-".join([*(field for field in fields if field), f"seed{self.seed}"])
        return re.sub(r"[^\w.-]", "_", words)

    def dependencies(self) -> tuple[Run, ...]:
        """Run that must be finished first, on the same task and encoder."""
        if self.model == "cosine" and self.strategy == MATCHED:
            return (replace(self, strategy="uncertainty"),)
        if self.model == "manual" or (
            self.model == "concat" and self.strategy not in (ALL_STATED, BALANCED_STATED)
        ):
            return (replace(self, model="cosine"),)
        return ()


def with_dependencies(run: Run) -> list[Run]:
    """A run after all that it depends on."""
    return [*(each for needed in run.dependencies() for each in with_dependencies(needed)), run]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One table or figure. Its runs are seeds × schedules × strategies × recipes × seed sets × models."""

    name: str
    shows: str  # what it repeats from the paper
    question: str
    layout: str  # name of its table function (`tables.py`)
    strategies: tuple[str, ...] = ()
    models: tuple[str, ...] = ("cosine",)
    recipes: tuple[str, ...] = ("paper",)
    seed_sets: tuple[str, ...] = ("static",)
    schedules: tuple[Schedule, ...] = (PAPER_SCHEDULE,)
    untrained: bool = True  # with a line for the untrained encoder
    statistics: bool = False  # with the counts of the task
    split: str = "test"
    measures: tuple[str, ...] = ("average_precision", "precision_at_recall_0.2")
    seeds: int = 3
    differs: str = ""  # how it differs from the paper, where a table needs it

    def runs(self, seeds: Sequence[int]) -> list[Run]:
        """All runs, seed by seed, so that an interrupted experiment has whole tables of the first seeds."""
        found: list[Run] = [Run(model="data")] if self.statistics else []
        if self.untrained:
            found.append(Run(model="untrained"))
            found += [Run(model="untrained", recipe="best")] if "best" in self.recipes else []
        every = product(seeds, self.schedules, self.strategies, self.recipes, self.seed_sets, self.models)
        for seed, schedule, strategy, recipe, seed_set, model in every:
            run = Run(
                model=model, strategy=strategy, recipe=recipe, seed_set=seed_set, schedule=schedule, seed=seed
            )
            if strategy == ALL_STATED:  # no label is bought: recipe, seed set and schedule play no role
                run = Run(model=model, strategy=strategy, seed=seed)
            found += with_dependencies(run)
        return list(dict.fromkeys(found))


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="data",
        shows="Table 1",
        question="How rare are matches, and how many pairs are there?",
        layout="statistics",
        statistics=True,
        seeds=1,
        differs="Nearby negatives are counted among the 100 nearest of each text by the encoder named.",
    ),
    Experiment(
        name="recipes",
        shows="ours",
        question="Does our best recipe beat the paper's own at every budget?",
        layout="recipes",
        strategies=("uncertainty",),
        recipes=("best", "paper"),
        schedules=(PAPER_SCHEDULE, SMALL_SCHEDULE),
    ),
    Experiment(
        name="two-by-two",
        shows="ours",
        question="What do labels add under each training, and what does the score add without any?",
        layout="two-by-two",
        strategies=("uncertainty",),
        recipes=TWO_BY_TWO,
        schedules=(SMALL_SCHEDULE,),
    ),
    Experiment(
        name="cold-start",
        shows="ours",
        question="Is our best recipe at any budget worse with its own first batch than with the nearest?",
        layout="cold-start",
        strategies=("uncertainty",),
        recipes=("best",),
        seed_sets=("static", "auto"),
        schedules=(EQUAL_SCHEDULE, SMALL_SCHEDULE, PAPER_SCHEDULE),
        untrained=False,
        differs="The default first batch is spread over ranks (seed set `auto`). Rows with the nearest "
        "pairs first may be older than other changes; the notes say which.",
    ),
    Experiment(
        name="strategies",
        shows="Table 3",
        question="Which way of collecting the same number of labels trains the best model?",
        layout="strategies",
        strategies=ORACLE_FREE,
        differs="The paper trains on all stated pairs; here `stated` draws as many as the others buy.",
    ),
    Experiment(
        name="positives",
        shows="Table 4",
        question="How many matches does each strategy find with the same number of labels?",
        layout="positives",
        strategies=("uncertainty", "static", "adaptive", "random"),
        untrained=False,
    ),
    Experiment(
        name="stratified",
        shows="Table 5",
        question="Is it enough to have the matches, if an oracle gave them?",
        layout="strategies",
        strategies=("uncertainty", MATCHED, "stratified-all", "adaptive"),
        untrained=False,
        differs="`stratified-all` buys matches as half of each batch until all are bought.",
    ),
    Experiment(
        name="concatenation",
        shows="Table 2",
        question="What do models that read both texts at once, trained on stated pairs, make of all pairs?",
        layout="concatenation",
        strategies=(ALL_STATED,),
        models=("concat",),
        untrained=False,
        measures=("average_precision", "precision_at_recall_0.2", "balanced_accuracy", "balanced_f1"),
        differs="All-pairs figures are estimated from all positives, near negatives and random ones; their "
        "intervals are for this very split.",
    ),
    Experiment(
        name="collected",
        shows="Table 6",
        question="Is data collected with one model good for another?",
        layout="models",
        strategies=("uncertainty", "static", "stated", MATCHED),
        models=("cosine", "concat"),
        untrained=False,
        differs="The concatenation model trains on the very pairs that the strategy bought.",
    ),
    Experiment(
        name="curves",
        shows="the figures of learning curves",
        question="How do average precision and the matches found grow with labels?",
        layout="curves",
        strategies=("uncertainty", "static", "random"),
        split="dev",
    ),
    Experiment(
        name="efficiency",
        shows="the section on data efficiency",
        question="After how many labels does choosing adaptively pass static retrieval's best?",
        layout="efficiency",
        strategies=("uncertainty", "static"),
        untrained=False,
        split="dev",
        measures=("average_precision",),
    ),
    Experiment(
        name="seed-set",
        shows="the figure on seed sets",
        question="Does it matter whether the first batch is retrieved or stated?",
        layout="curves",
        strategies=("uncertainty",),
        seed_sets=("static", "stated"),
        untrained=False,
        split="dev",
    ),
    Experiment(
        name="small-budgets",
        shows="ours",
        question="What do 50 to 2,500 labels buy?",
        layout="curves",
        strategies=(*ORACLE_FREE, MATCHED, "stratified-all"),
        recipes=("best",),
        schedules=(SMALL_SCHEDULE,),
    ),
    Experiment(
        name="whole-budget",
        shows="the paper's budget on QQP",
        question="What do 232,100 labels buy, in ten rounds?",
        layout="curves",
        strategies=("uncertainty", "static"),
        recipes=("best", "paper"),
        schedules=(WHOLE_SCHEDULE,),
        seeds=1,
    ),
    Experiment(
        name="manual",
        shows="the sections on manual verification",
        question="How precise is the model when a reader checks its putative false positives?",
        layout="manual",
        strategies=("uncertainty",),
        models=("manual",),
        untrained=False,
        split="dev",
        seeds=1,
        differs="Labels come from a file that a reader filled in (--labels); without it the pairs are drawn "
        "and written for that reader.",
    ),
)


def experiment_named(name: str) -> Experiment:
    """The experiment of this name; an unknown one is refused with the nearest names."""
    for experiment in EXPERIMENTS:
        if experiment.name == name:
            return experiment
    known = [each.name for each in EXPERIMENTS]
    raise InputError(f"unknown experiment {name!r}", remedy=nearest(name, [*known, "all"]))


def split_recipe(recipe: str) -> tuple[str, dict[str, Any]]:
    """`best:hubness_correction=0,search=index` as a recipe's name and settings that differ from it."""
    name, _, changes = recipe.partition(":")
    pairs = (change.partition("=") for change in changes.split(",") if change)
    return name, {key: _value(text) for key, _, text in pairs}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def schedule_label(schedule: Schedule | None) -> str:
    """`2048x1.5x4`: first batch, growth, rounds; empty where no label is bought."""
    return f"{schedule.first_batch}x{schedule.growth:g}x{schedule.rounds}" if schedule else ""

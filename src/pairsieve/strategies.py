"""Query strategies, which pick the next pairs to label: `strategy(view, budget, rng) -> Selection`.

A plug-in adds one through the entry point group `pairsieve.strategies` and proves it with
`pairsieve.testing.check_strategy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points

import numpy as np

from pairsieve.contracts import RoundView, Selection, Strategy
from pairsieve.errors import PoolExhausted, SettingsError, nearest
from pairsieve.pairs import is_member

GROUP = "pairsieve.strategies"


def random(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    """Unasked pairs, uniformly: the honest baseline that finds almost no match."""
    ids = view.space.sample(budget, rng, outside=view.asked)
    chance = budget / (view.space.size - len(view.asked))
    return Selection(ids, "random", np.full(len(ids), chance))


def stated(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    """Pairs that a heuristically built dataset happened to state, uniformly."""
    ids, _ = view.stated()
    _enough(budget, len(ids), "stated pairs")
    return Selection(np.sort(rng.choice(ids, budget, replace=False)), "stated")


def static(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    """The nearest pairs by the encoder as it came, whatever has been learned since."""
    return Selection(view.static(budget).ids, "static retrieval")


def adaptive(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    """The pairs that the current model is surest are matches."""
    return Selection(view.best(budget).ids, "adaptive retrieval")


def uncertainty(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    """The pairs whose match probability is nearest one half."""
    return Selection(view.closest(view.boundary, budget).ids, "uncertain")


def reranker_uncertainty(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    """The candidates whose probability by the re-ranker is nearest one half; the bi-encoder's fill up."""
    ids = view.closest_reranked(0.0, budget).ids
    if len(ids) < budget:
        more = view.closest(view.boundary, budget).ids
        ids = np.sort(np.concatenate([ids, more[~is_member(more, ids)][: budget - len(ids)]]))
    return Selection(ids, "uncertain to the re-ranker")


def stratified(positives: int, labels: int) -> Strategy:
    """Needs an oracle: matches and non-matches, each uniformly, in the balance of another run."""

    def strategy(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
        before, after = len(view.asked), len(view.asked) + budget
        # Whole numbers that add up to the run's own total, however the rounds cut it.
        wanted = after * positives // labels - before * positives // labels
        return _by_oracle(view, wanted, budget - wanted, rng, "stratified, matching a run")

    return strategy


def stratified_all(view: RoundView, budget: int, rng: np.random.Generator) -> Selection:
    """Needs an oracle: half of each batch matches until all are bought, the rest random non-matches."""
    left = int((~is_member(view.oracle(), view.asked)).sum())
    wanted = min(left, budget // 2)
    return _by_oracle(view, wanted, budget - wanted, rng, "stratified, all positives")


def _by_oracle(
    view: RoundView, positives: int, negatives: int, rng: np.random.Generator, why: str
) -> Selection:
    truth = view.oracle()
    left = truth[~is_member(truth, view.asked)]
    _enough(positives, len(left), "positive pairs")
    matches = rng.choice(left, positives, replace=False)
    others = view.space.sample(negatives, rng, outside=np.union1d(view.asked, truth))
    return Selection(np.sort(np.concatenate([matches, others])), why)


def _enough(wanted: int, there: int, what: str) -> None:
    if wanted > there:
        raise PoolExhausted(
            f"asked for {wanted:,} pairs, {there:,} unlabelled {what} remain. Lower the batch or the rounds."
        )


@dataclass(frozen=True)
class Named:
    """A strategy under its name; those that need a model let the seed set fill round 1."""

    name: str
    run: Strategy
    needs_model: bool


BUILT_IN: dict[str, tuple[Strategy, bool]] = {
    "random": (random, False),
    "stated": (stated, False),
    "static": (static, False),
    "adaptive": (adaptive, True),
    "uncertainty": (uncertainty, True),
    "reranker-uncertainty": (reranker_uncertainty, True),
    "stratified-all": (stratified_all, False),
}


def strategy_named(name: str) -> Named:
    """The strategy called so: built in, `stratified:POSITIVES/LABELS`, or from a plug-in."""
    if name in BUILT_IN:
        return Named(name, *BUILT_IN[name])
    base, _, argument = name.partition(":")
    if base == "stratified":
        return Named(name, stratified(*_balance(name, argument)), False)
    for point in entry_points(group=GROUP):
        if point.name == name:
            run: Strategy = point.load()
            return Named(name, run, getattr(run, "needs_model", True))
    raise SettingsError(f"unknown strategy {name!r}. {nearest(base, strategy_names())}")


def strategy_names() -> list[str]:
    """Every name that `strategy_named` knows here."""
    return sorted([*BUILT_IN, "stratified:POSITIVES/LABELS", *(p.name for p in entry_points(group=GROUP))])


def _balance(name: str, argument: str) -> tuple[int, int]:
    positives, _, labels = argument.partition("/")
    if not (positives.isdigit() and labels.isdigit() and 0 <= int(positives) <= int(labels) > 0):
        raise SettingsError(
            f"strategy {name!r}: the balance is missing or wrong. Write stratified:POSITIVES/LABELS with the "
            "counts of the run to match, for example stratified:742/16640."
        )
    return int(positives), int(labels)

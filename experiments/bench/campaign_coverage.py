"""Coverage and bias of the figures beside a list in a campaign, whose ranking moves from draw to draw.

    python -m experiments.bench.campaign_coverage [--repeats 200] [--labels 400] [--regimes good ...]
        [--rounds 2 4 7 10] [--out FILE.json] [--seed 0]

A space of 20,000 pairs with 300 matches under a scorer that improves with every round (or gets worse, or
finds in the last round what none before showed). Each round draws a tenth of its batch under the ranking of
the round before, and asks the other pairs nearest the end of the list, as `uncertainty` does. After some
rounds a list of the best pairs is made as `match` writes it (labelled matches in, labelled non-matches out),
and limits of its figures come from all drawn labels: precision, precision of its pairs nobody labelled,
recall within reach, matches within reach, those left, AP within reach. Printed for each: truth, mean value
and by how many standard errors that is off (z), where there is a value, share of repeats in which the 95 %
limits hold the truth, mean width, share of repeats without limits.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.bench.audit_coverage import summary, table
from pairsieve.audit.draws import AskedPairs, allocate, reach_rank, strata_from_counts, whole_labels
from pairsieve.audit.earlier_draws import earlier_draws_estimate
from pairsieve.audit.errors import AnswerErrors
from pairsieve.matches.listed import ListTally
from pairsieve.numeric import sigmoid
from pairsieve.pairs import ScoredPairs
from pairsieve.progress import tracked

PAIRS, ROUNDS = 20_000, 10


@dataclass(frozen=True)
class Regime:
    """How far matches stand out at first and at last, and what is hard about them."""

    name: str
    first: float  # standard deviations by which a match scores higher, before the first label
    last: float  # and after the last
    invisible: float = 0.0  # share of matches that score as any other pair
    lasting: float = 0.7  # correlation of a pair's error in one round with that in another
    matches: int = 300
    late: float = 0.0  # share of matches that only the scorer of now shows
    risen: int = 0  # non-matches that the scorer of now puts among the matches
    share: float = 0.1  # of a batch that is drawn
    wrong: float = 0.0  # share of wrong answers
    told: bool = False  # whether the estimate knows of them

    @property
    def listed(self) -> int:
        return self.matches + 10


REGIMES = (
    Regime("good", 3.0, 5.0),
    Regime("good, moves little", 3.0, 5.0, lasting=0.95),
    Regime("good, moves much", 3.0, 5.0, lasting=0.2),
    Regime("hard", 2.5, 3.2),
    Regime("weak", 1.5, 2.2),
    Regime("a third invisible", 3.0, 5.0, invisible=1 / 3),
    Regime("1 in 20 wrong, as given", 3.0, 5.0, wrong=0.05),
    Regime("1 in 20 wrong, known", 3.0, 5.0, wrong=0.05, told=True),
    Regime("half found at last", 3.0, 5.0, late=0.5),
    Regime("150 others risen at last", 3.0, 5.0, risen=150),
    Regime("gets worse", 5.0, 2.0),
    Regime("30 matches", 3.0, 5.0, matches=30),
    Regime("half of each batch drawn", 3.0, 5.0, share=0.5),
    Regime("half drawn, moves much", 3.0, 5.0, lasting=0.2, share=0.5),
)

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class State:
    """A campaign after a round."""

    scores: Array  # (PAIRS,) from 1 down to -1 by rank, under the ranking of now
    ids: Array  # (n,) pairs asked so far
    asked: AskedPairs


def campaign(
    regime: Regime, labels: int, match: Array, given: Array, rng: np.random.Generator
) -> Iterator[State]:
    """The states after rounds 1 to 10."""
    visible = match & (rng.random(PAIRS) >= regime.invisible)
    before = visible & (rng.random(PAIRS) >= regime.late)
    lasting = rng.standard_normal(PAIRS)
    ids, asked = np.empty(0, np.int64), AskedPairs.nothing()
    scores = _ranked(regime, 0, before, lasting, rng)
    for number in range(1, ROUNDS + 1):
        asked = AskedPairs(scores[ids], asked.labels, asked.audit, asked.inclusion_probability)
        batch = labels // ROUNDS
        drawn, chances = _draw(regime, scores, ids, asked, int(regime.share * batch), rng)
        ids, asked = np.append(ids, drawn), asked.then(scores[drawn], given[drawn], number, chances)
        rank = np.round((1.0 - scores) / 2.0 * PAIRS)
        nearest = np.argsort(np.abs(rank - regime.listed), kind="stable")
        chosen = nearest[~np.isin(nearest, ids)][: batch - len(drawn)]
        ids, asked = (
            np.append(ids, chosen),
            asked.then(scores[chosen], given[chosen], 0, np.ones(len(chosen))),
        )
        shown = visible.copy()
        shown[rng.choice(np.flatnonzero(~match), regime.risen, replace=False)] = True
        now = _ranked(regime, number, shown, lasting, rng)
        yield State(now, ids, AskedPairs(now[ids], asked.labels, asked.audit, asked.inclusion_probability))
        moves_on = regime.late or regime.risen
        scores = _ranked(regime, number, before, lasting, rng) if moves_on else now


def _ranked(regime: Regime, number: int, visible: Array, lasting: Array, rng: np.random.Generator) -> Array:
    away = regime.first + (regime.last - regime.first) * number / ROUNDS
    noise = np.sqrt(regime.lasting) * lasting + np.sqrt(1.0 - regime.lasting) * rng.standard_normal(PAIRS)
    scores = np.empty(PAIRS, np.float32)
    scores[np.argsort(-(away * visible + noise))] = np.linspace(1.0, -1.0, PAIRS + 1, dtype=np.float32)[:-1]
    return scores


def _cut(listed: int, scores: Array, drawn: int) -> tuple[Any, float, float]:
    """Strata of a ranking, the score within reach, and that at which the list ends."""
    order = np.sort(scores)
    at = order[-listed : len(order) - listed + 1]
    reaching = np.arange(1, PAIRS + 1)[::-1]
    strata, reach = strata_from_counts(order, reaching, PAIRS, at, drawn, reach_rank(listed, drawn))
    return strata, reach, float(at[0])


def _draw(
    regime: Regime, scores: Array, ids: Array, asked: AskedPairs, count: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """The measuring share of a batch, as `draw_measuring` draws it."""
    strata, reach, _ = _cut(regime.listed, scores, int((asked.audit > 0).sum()) + count)
    rates = sigmoid(4.0 * (np.log(regime.listed) - np.log(np.maximum(strata.middle_rank, 1.0))))
    expected = allocate(strata, asked, count, reach, rates)
    free = strata.totals - strata.count(asked.scores).astype(np.int64)
    stratum = strata.of(scores)
    stratum[ids] = -1
    pieces = [
        rng.choice(np.flatnonzero(stratum == k), wanted, replace=False)
        for k, wanted in enumerate(np.minimum(whole_labels(expected, rng), free))
        if wanted
    ]
    drawn = np.concatenate([np.empty(0, np.int64), *pieces])
    return drawn, np.minimum((expected / np.maximum(free, 1))[strata.of(scores[drawn])], 1.0)


def estimated(regime: Regime, state: State, match: Array, given: Array, rng: np.random.Generator) -> Any:
    """Figures of the list and of the ranking after a round, and the exact ones."""
    errors = AnswerErrors(regime.wrong) if regime.told else None
    truth = given if regime.wrong and not regime.told else match
    scores, ids, asked = state.scores, state.ids, state.asked
    drawn = asked.audit > 0
    strata, reach, at = _cut(regime.listed, scores, int(drawn.sum()))
    ranks = np.round((1.0 - asked.scores) / 2.0 * PAIRS) + 1.0
    whole = earlier_draws_estimate(strata, asked, at, reach=reach, ranks=ranks, errors=errors)
    tally = ListTally(strata, reach, ids, asked, errors, threshold=at, moved=True)
    listed = scores >= np.float32(at)
    listed[ids[~drawn]] = asked.labels[~drawn] == 1
    kept = np.flatnonzero(listed)
    tally.count(iter([ScoredPairs(kept, scores[kept])]))
    found = tally.figures(rng)
    assert found is not None
    written = listed.copy()
    written[ids[drawn]] = asked.labels[drawn] == 1
    inside, asked_of = scores >= np.float32(reach), np.isin(np.arange(PAIRS), ids)
    new, either = listed & ~asked_of, inside | listed
    place = np.sort(np.round((1.0 - scores[truth & inside]) / 2.0 * PAIRS))
    exact = {
        "precision": truth[written].mean(),
        "precision of new": truth[new].mean() if new.any() else np.nan,
        "recall in reach": (truth & written & either).sum() / (truth & either).sum(),
        "positives in reach": (truth & inside).sum(),
        "left in reach": (truth & inside & ~asked_of).sum(),
        "AP in reach": np.mean(np.arange(1, len(place) + 1) / (place + 1.0)),
    }
    figures = {
        "precision": found.precision,
        "precision of new": found.precision_of_new,
        "recall in reach": found.recall,
        "positives in reach": whole.positives,
        "left in reach": whole.left,
        "AP in reach": whole.average_precision,
    }
    return figures, {name: float(value) for name, value in exact.items()}


def repeats_of(
    regime: Regime, labels: int, rounds: list[int], repeats: int, seed: int
) -> dict[int, list[Any]]:
    rng = np.random.default_rng(seed)
    made: dict[int, list[Any]] = {number: [] for number in rounds}
    for _ in range(repeats):
        match = np.isin(np.arange(PAIRS), rng.choice(PAIRS, regime.matches, replace=False))
        given = match ^ (rng.random(PAIRS) < regime.wrong)
        for number, state in enumerate(campaign(regime, labels, match, given, rng), 1):
            if number in made:
                made[number].append(estimated(regime, state, match, given, rng))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--labels", type=int, nargs="*", default=[400])
    parser.add_argument("--rounds", type=int, nargs="*", default=[2, 4, 7, 10])
    parser.add_argument("--regimes", nargs="*", default=None)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    results: list[dict[str, Any]] = []
    head = ("truth", "mean", "z", "covered", "width", "undef.")
    print(f"{'regime':26}{'labels':>7}  {'figure':19}" + "".join(f"{name:>10}" for name in head))
    for regime in tracked(
        [each for each in REGIMES if not asked.regimes or each.name in asked.regimes], "regimes"
    ):
        for labels in asked.labels:
            for number, made in repeats_of(regime, labels, asked.rounds, asked.repeats, asked.seed).items():
                row = {"regime": regime.name, "labels": labels, "round": number, "repeats": asked.repeats}
                results.append(row | {"figures": summary(made)})
                print(f"round {number}\n{table(results[-1])}", flush=True)
                if asked.out:
                    asked.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

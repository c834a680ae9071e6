"""The measuring share of a batch: pairs drawn from the whole space with known chances.

Labels asked where a model is in doubt cannot tell how good it is. These can: they are drawn over the whole
ranking, the ledger keeps the chance that each had, and no model is trained on them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pairsieve.audit.draws import draw_pairs
from pairsieve.audit.errors import answer_errors
from pairsieve.audit.run import ScoredSplit, asked_pairs, estimate_at, plan
from pairsieve.contracts import generator_for
from pairsieve.ledger import Ledger
from pairsieve.ledger.records import RoundCount
from pairsieve.pairs import Ids, pair_rows
from pairsieve.tasks import Split

NAME = "measure of round "
WHY = "drawn from all pairs, to measure"


def draw_measuring(
    ledger: Ledger, split: Split, scored: ScoredSplit, round: int, count: int, seed: int
) -> None:
    """Ask `count` pairs of a round to measure by, drawn under the scorer of the round before."""
    asked = asked_pairs(ledger, scored.scan)
    strata, expected = plan(scored.scan, asked, count, scored.default_threshold(), scored.probabilities)
    rng = generator_for(seed, round, "measure")
    drawn = draw_pairs(scored.scan, strata, expected, asked, ledger.asked(), rng)
    order = np.argsort(drawn.ids)
    ids = drawn.ids[order]
    rows = zip(pair_rows(ids), (split.left.keys, split.right.keys))
    left, right = ([keys[row] for row in side.tolist()] for side, keys in rows)
    chances = np.minimum(drawn.inclusion_probability[order], 1.0)
    ledger.ask(round, ids, left, right, WHY, f"{NAME}{round}", chances, purpose="audit")


def is_drawn(ledger: Ledger, round: int) -> bool:
    """Whether the measuring share of a round was asked."""
    return f"{NAME}{round}" in ledger.questions(round, "audit").strategy


def open_measuring(ledger: Ledger, round: int) -> Ids:
    """The pairs of a round's measuring share that nobody has answered; sorted."""
    questions = ledger.questions(round, "audit")
    mine = np.array([name == f"{NAME}{round}" for name in questions.strategy], bool)
    return np.intersect1d(questions.ids[mine], ledger.open_questions(round, "audit"))


def counts_with_measuring(ledger: Ledger) -> list[RoundCount]:
    """Where each round stands, its measuring share counted with its batch."""
    questions = ledger.questions(purpose="audit")
    mine = np.array([name.startswith(NAME) for name in questions.strategy], bool)
    if not mine.any():
        return ledger.counts()
    ids, labels = ledger.labels("audit")
    still_open = ledger.open_questions(purpose="audit")
    counts = []
    for count in ledger.counts():
        here = questions.ids[mine & (np.asarray(questions.rounds) == count.round)]
        labelled = np.isin(ids, here)
        waiting = int(np.isin(here, still_open).sum())
        counts.append(
            replace(
                count,
                asked=count.asked + len(here),
                labelled=count.labelled + int(labelled.sum()),
                positives=count.positives + int(labels[labelled].sum()),
                unsure=count.unsure + len(here) - waiting - int(labelled.sum()),
                open=count.open + waiting,
            )
        )
    return counts


def estimated_figures(
    ledger: Ledger, scored: ScoredSplit, round: int, seed: int, fewest: int = 10
) -> dict[str, Any] | None:
    """What drawn labels say of a scorer, as an audit says it; None with fewer than `fewest` of them."""
    asked = asked_pairs(ledger, scored.scan)
    if int(((asked.audit > 0) & (asked.labels >= 0)).sum()) < fewest:
        return None
    rng = generator_for(seed, round, "measure figures")
    errors = answer_errors(ledger)
    return estimate_at(scored.scan, asked, scored.default_threshold(), rng, errors=errors).as_json()

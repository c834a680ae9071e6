"""Running an audit against a ledger: draw pairs, ask them, and estimate once all are answered."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.audit.draws import TRAIN, AskedPairs, Floats, Strata, allocate, cut_ranking, draw_pairs
from pairsieve.audit.earlier_draws import earlier_draws_estimate
from pairsieve.audit.errors import answer_errors
from pairsieve.audit.estimate import AuditResult, estimate, threshold_for_precision
from pairsieve.contracts import generator_for
from pairsieve.errors import InputError
from pairsieve.ledger import Ledger, Questions
from pairsieve.pairs import Ids, Scores
from pairsieve.scan import Scan
from pairsieve.sources import answer_from_task
from pairsieve.tasks import Split

DEFAULT_BUDGET = 300
LEAST = np.float32(1e-30)  # no score differs from 0 by less
CHECK = "check of round "  # how the questions of a list's check begin their name
RECALL_CHECK = "recall check of round "
REVIEW = "review "  # and those that people picked from a list themselves
_OF_ROUND = "audit of round "
_NAME = re.compile(rf"{_OF_ROUND}([0-9]+): ([0-9]+) labels, draw ([0-9]+)")


@dataclass(frozen=True)
class ScoredSplit:
    """All pairs of a split under one scorer: their scores, and what makes probabilities of them."""

    scan: Scan
    probabilities: Callable[[Scores], Floats]
    even_odds: float  # the score at which a match is as likely as not

    def default_threshold(self) -> float:
        """Where the head gives a probability of one half, or the best score, if no pair reaches that."""
        half = np.float32(self.even_odds)
        fine = np.union1d(np.linspace(-1.0, 1.0, 8193, dtype=np.float32), [half])
        reached = fine[self.scan.count_reaching(fine, "audit") > 0]
        return float(min(half, reached[-1])) if len(reached) else -1.0


@dataclass(frozen=True)
class AuditOutcome:
    """How many labels an audit waits for; once none, the round whose model was audited and its figures."""

    waiting: int
    round: int = 0
    result: AuditResult | None = None


@dataclass(frozen=True)
class Draw:
    """One draw of an audit, as the ledger names it."""

    round: int  # whose model was audited
    budget: int  # labels that the audit of this model was to have in all; 0 where nobody said
    index: int  # which of the model's draws, from 1

    def __str__(self) -> str:
        return f"{_OF_ROUND}{self.round}: {self.budget} labels, draw {self.index}"

    @staticmethod
    def named(name: str) -> Draw:
        found = _NAME.fullmatch(name)
        if found is None:  # the measuring share of a batch, or a check
            return Draw(0, 0, 1)
        round, budget, index = found.groups()
        return Draw(int(round), int(budget), int(index))


def run_audit(
    ledger: Ledger,
    split: Split,
    scored: Callable[[int], ScoredSplit],
    latest: int,
    seed: int,
    *,
    budget: int | None = None,
    threshold: float | None = None,
    precision: float | None = None,
) -> AuditOutcome:
    """Continue an audit of round `latest`: the figures, or how many labels it waits for.

    ledger: holds the questions of `split`. scored(round): the split under that round's model; asked for only
    when pairs must be scored. budget: labels for this model in all; None is 300, or as begun; 0 uses labels
    drawn earlier only. The figures are at `threshold` (None: probability one half), or at the lowest one with
    about `precision`.
    """
    check_wanted(budget, threshold, precision)
    answer_from_task(ledger, split, ledger.open_questions(purpose="audit"))
    if not len(ledger.open_questions(purpose="audit")):
        _ask(ledger, split, scored, latest, seed, budget, threshold)
        answer_from_task(ledger, split, ledger.open_questions(purpose="audit"))
    if waiting := len(ledger.open_questions(purpose="audit")):
        return AuditOutcome(waiting)
    questions = ledger.questions()
    _, draws = draws_of(questions)
    if not draws:
        raise InputError("there is no audit yet", remedy=f"Give a budget; {DEFAULT_BUDGET} labels are usual")
    audited = latest if budget == 0 else max(draw.round for draw in draws.values()) or latest
    model = scored(audited)
    at = model.default_threshold() if threshold is None else threshold
    asked, moved = of_ranking(asked_pairs(ledger, model.scan, questions), questions, audited)
    chosen_of = 1
    if precision is not None:
        strata, _ = cut_ranking(model.scan, [at], int((asked.audit > 0).sum()))
        at, chosen_of = threshold_for_precision(strata, asked, precision), len(strata)
    rng = generator_for(seed, audited, "audit interval")
    errors = answer_errors(ledger)
    found = estimate_at(model.scan, asked, at, rng, moved, errors=errors, chosen_of=chosen_of)
    return AuditOutcome(0, audited, found)


def estimate_at(
    scan: Scan,
    asked: AskedPairs,
    threshold: float,
    rng: np.random.Generator,
    moved: bool,
    *,
    chosen_of: int = 1,
    **options: Any,
) -> AuditResult:
    """Figures at a threshold from drawn labels (`of_ranking`).

    The one way from drawn labels to figures: audits, thresholds from them and a campaign's rounds go by
    here. chosen_of: of how many thresholds the labels chose this one; limits hold whichever they choose.
    """
    drawn = int(((asked.audit > 0) & (asked.labels >= 0)).sum())
    strata, reach = cut_ranking(scan, [threshold], drawn)
    ahead, ranks = places_of(scan, asked)
    options |= {"ahead": ahead, "ranks": ranks, "reach": reach, "chosen_of": chosen_of}
    if moved:
        return earlier_draws_estimate(strata, asked, threshold, **options)
    return estimate(strata, asked, threshold, rng, **options)


def of_ranking(asked: AskedPairs, questions: Questions, round: int) -> tuple[AskedPairs, bool]:
    """The labels that speak of the ranking of a round, and whether they were drawn under others.

    Where an audit drew under this ranking, its labels speak and all others are known. Else all draws
    speak, each for the pairs as they ranked then (`earlier_draws.py`).
    """
    _, draws = draws_of(questions)
    own = [number for number, draw in draws.items() if draw.round == round and draw.budget]
    if not (np.isin(asked.audit, own) & (asked.labels >= 0)).any():
        return asked, True
    return replace(asked, audit=np.where(np.isin(asked.audit, own), asked.audit, TRAIN)), False


def places_of(scan: Scan, asked: AskedPairs) -> tuple[Floats, Floats]:
    """(n,) how many pairs score higher than each pair that has a label, and how many reach its score; 0 for
    the others.
    """
    ahead, ranks, given = np.zeros(len(asked)), np.zeros(len(asked)), asked.labels >= 0
    scores, back = np.unique(asked.scores[given], return_inverse=True)
    if len(scores):
        above = np.nextafter(scores, np.float32(np.inf))
        above = np.where(np.abs(scores) < LEAST, LEAST, above)  # half of a subnormal would be 0
        fine = np.union1d(scores, above)
        reaching = scan.count_reaching(fine, "ranks of labels")
        for of, at in ((ranks, scores), (ahead, above)):
            of[given] = reaching[np.searchsorted(fine, at)][back]
    return ahead, ranks


def plan(
    scan: Scan,
    asked: AskedPairs,
    labels: int,
    threshold: float,
    probabilities: Callable[[Scores], Floats] | None = None,
) -> tuple[Strata, Floats]:
    """Strata of the ranking and how many of `labels` each is expected to get, (k,); see `draws.allocate`."""
    drawn = int((asked.audit > 0).sum())
    strata, reach = cut_ranking(scan, [threshold], drawn + labels)
    rates = None
    if probabilities is not None:
        upper = np.append(np.minimum(strata.edges[0] + 0.05, 1.0), strata.edges[:-1])
        rates = probabilities(((upper + np.maximum(strata.edges, -1.0)) / 2.0).astype(np.float32))
    return strata, allocate(strata, asked, labels, reach, rates)


def check_wanted(budget: int | None, threshold: float | None, precision: float | None) -> None:
    """Refuse a budget, threshold or precision that no audit can answer."""
    if budget is not None and budget < 0:
        remedy = "Give a number of labels, or 0 to use those of earlier audits only"
        raise InputError(f"`budget={budget}`", remedy=remedy)
    if threshold is not None and precision is not None:
        raise InputError("`threshold` and `precision` together", remedy="Give one of them")
    if precision is not None and not 0 < precision <= 1:
        raise InputError(f"`precision={precision:g}`", remedy="Give a share above 0 and up to 1, such as 0.9")
    if threshold is not None and not -1 <= threshold <= 1:
        raise InputError(f"`threshold={threshold:g}`", remedy="Scores lie between -1 and 1")


def draws_of(questions: Questions) -> tuple[NDArray[np.int64], dict[int, Draw]]:
    """(n,) 0 for training, else the number of the draw in the order of asking; and what each draw is.

    The labels of a check were drawn from a list or its surroundings, not from all pairs, and those of a
    review not at all: they are known, no draw.
    """
    numbers, seen = np.zeros(len(questions), np.int64), dict[tuple[int, str], int]()
    for at, purpose in enumerate(questions.purpose):
        if purpose == "audit" and not questions.strategy[at].startswith((CHECK, RECALL_CHECK, REVIEW)):
            key = (int(questions.rounds[at]), questions.strategy[at])
            numbers[at] = seen.setdefault(key, len(seen) + 1)
    return numbers, {number: Draw.named(name) for (_, name), number in seen.items()}


def asked_pairs(ledger: Ledger, scan: Scan, questions: Questions | None = None) -> AskedPairs:
    """Every pair that the ledger asked, for training or an audit, with its score and label."""
    questions = ledger.questions() if questions is None else questions
    labels = np.full(len(questions), -1, np.int8)
    order = np.argsort(questions.ids)
    ids, matches = ledger.labels(None)
    labels[order[np.searchsorted(questions.ids, ids, sorter=order)]] = matches
    numbers, _ = draws_of(questions)
    return AskedPairs(scan.scores(questions.ids), labels, numbers, questions.inclusion_probability)


def ask_to_review(ledger: Ledger, split: Split, ids: Ids, name: str) -> None:
    """Ask about pairs (sorted ids) that somebody picked from a list: their labels are known, and no draw."""
    if not split.space.contains(ids).all():
        raise InputError("no such pair", remedy="Reload the page")
    round = max(ledger.rounds("train"), default=1)
    ledger.ask(round, ids, *split.keys(ids), "review", f"{REVIEW}{name}", np.ones(len(ids)), purpose="audit")


def _ask(
    ledger: Ledger,
    split: Split,
    scored: Callable[[int], ScoredSplit],
    latest: int,
    seed: int,
    budget: int | None,
    threshold: float | None,
) -> None:
    """Draw what is still missing of an audit of the latest model, and write its questions."""
    questions = ledger.questions()
    numbers, draws = draws_of(questions)
    of_latest = {number: draw for number, draw in draws.items() if draw.round == latest}
    if budget is None:
        budget = max((draw.budget for draw in of_latest.values()), default=DEFAULT_BUDGET)
    missing = budget - int(np.isin(numbers, list(of_latest)).sum())
    if missing <= 0 or len(questions) >= split.space.size:
        return
    model = scored(latest)
    asked = asked_pairs(ledger, model.scan, questions)
    at = model.default_threshold() if threshold is None else threshold
    strata, expected = plan(model.scan, asked, missing, at, model.probabilities)
    # The ledger numbers an audit by the last round asked before it, so that `asked(through)` stays true.
    round = max(ledger.rounds("train"), default=latest)
    index = len(of_latest) + 1
    rng = generator_for(seed, round, f"audit of {latest}, draw {index}")
    drawn = draw_pairs(model.scan, strata, expected, asked, ledger.asked(), rng)
    why, name = "audit", str(Draw(latest, budget, index))  # no stratum: who labels must not see the score
    chances = drawn.inclusion_probability
    ledger.ask(round, drawn.ids, *split.keys(drawn.ids), why, name, chances, purpose="audit")

"""Running an audit against a ledger: draw pairs, ask them, and estimate once all are answered."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairsieve.audit.draws import AskedPairs, LogOdds, cut_ranking, draw_audit, pilot_size, plan_audit
from pairsieve.audit.estimate import AuditResult, estimate_audit, threshold_for_precision
from pairsieve.contracts import generator_for
from pairsieve.errors import InputError
from pairsieve.ledger import Ledger, Questions
from pairsieve.pairs import pair_rows
from pairsieve.scan import Scan
from pairsieve.sources import TruthSource
from pairsieve.tasks import Split

DEFAULT_BUDGET = 300
_OF_ROUND = "audit of round "
_NAME = re.compile(rf"{_OF_ROUND}([0-9]+)(?:: ([0-9]+) labels, draw ([0-9]+))?")


@dataclass(frozen=True)
class ScoredSplit:
    """All pairs of a split under one scorer: their scores, and what makes log-odds of them."""

    scan: Scan
    log_odds: LogOdds
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
        round, budget, index = found.groups() if found else ("0", None, None)
        return Draw(int(round), int(budget or 0), int(index or 1))


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
    notify: Callable[[str], None] = lambda message: None,
) -> AuditOutcome:
    """Continue an audit of round `latest`: the figures, or how many labels it waits for.

    ledger: holds the questions of `split`. scored(round): the split under that round's model; asked for only
    when pairs must be scored. budget: labels for this model in all; None is 300, or as begun; 0 uses earlier
    audits only. The figures are at `threshold` (None: probability one half), or at the lowest threshold with
    about `precision`.
    """
    check_target(threshold, precision)
    _answer_from_truth(ledger, split)
    while not len(ledger.open_questions(purpose="audit")) and _ask(
        ledger, split, scored, latest, seed, budget, threshold, notify
    ):
        _answer_from_truth(ledger, split)
    if waiting := len(ledger.open_questions(purpose="audit")):
        return AuditOutcome(waiting)
    questions = ledger.questions()
    numbers, draws = draws_of(questions)
    if not draws:
        raise InputError("there is no audit yet", remedy=f"Give a budget; {DEFAULT_BUDGET} labels are usual")
    last = draws[max(draws)].round
    audited = latest if budget == 0 else last
    model = scored(audited)
    asked = asked_pairs(ledger, model.scan, questions)
    edges = [model.default_threshold()] + ([threshold] if threshold is not None else [])
    of_last = [number for number, draw in draws.items() if draw.round == last]
    strata = cut_ranking(model.scan, edges, int(np.isin(numbers, of_last).sum()))
    at = threshold_for_precision(strata, asked, precision) if precision is not None else edges[-1]
    rng = generator_for(seed, last, "audit interval")
    return AuditOutcome(0, audited, estimate_audit(strata, asked, at, rng))


def check_target(threshold: float | None, precision: float | None) -> None:
    """Refuse a threshold or precision that no audit can answer."""
    if threshold is not None and precision is not None:
        raise InputError("`threshold` and `precision` together", remedy="Give one of them")
    if precision is not None and not 0 < precision <= 1:
        raise InputError(f"`precision={precision:g}`", remedy="Give a share above 0 and up to 1, such as 0.9")
    if threshold is not None and not -1 <= threshold <= 1:
        raise InputError(f"`threshold={threshold:g}`", remedy="Scores lie between -1 and 1")


def draws_of(questions: Questions) -> tuple[NDArray[np.int64], dict[int, Draw]]:
    """(n,) 0 for training, else the number of the draw in the order of asking; and what each draw is."""
    numbers, seen = np.zeros(len(questions), np.int64), dict[tuple[int, str], int]()
    for at, purpose in enumerate(questions.purpose):
        if purpose == "audit":
            key = (int(questions.rounds[at]), questions.strategy[at])
            numbers[at] = seen.setdefault(key, len(seen) + 1)
    return numbers, {number: Draw.named(name) for (_, name), number in seen.items()}


def asked_pairs(ledger: Ledger, scan: Scan, questions: Questions | None = None) -> AskedPairs:
    """Every pair that the ledger asked, for training or an audit, with its score and label."""
    questions = ledger.questions() if questions is None else questions
    labels = np.full(len(questions), -1, np.int8)
    order = np.argsort(questions.ids)
    for purpose in ("train", "audit"):
        ids, matches = ledger.labels(purpose)
        labels[order[np.searchsorted(questions.ids, ids, sorter=order)]] = matches
    numbers, _ = draws_of(questions)
    return AskedPairs(scan.scores(questions.ids), labels, numbers, questions.inclusion_probability)


def _answer_from_truth(ledger: Ledger, split: Split) -> None:
    """Let the truth answer, where the split has it; people and files answer in their own time."""
    waiting = ledger.open_questions(purpose="audit")
    if split.has_truth and len(waiting):
        source = TruthSource(split.space, split.positives)
        ledger.answer(source.answer(waiting), who=source.name, source=source.name)


def _ask(
    ledger: Ledger,
    split: Split,
    scored: Callable[[int], ScoredSplit],
    latest: int,
    seed: int,
    budget: int | None,
    threshold: float | None,
    notify: Callable[[str], None],
) -> int:
    """Draw what is still missing of an audit of the latest model, and write its questions: how many.

    The first draw of an audit is a pilot sample; the next one lays out the rest of the budget.
    """
    questions = ledger.questions()
    numbers, draws = draws_of(questions)
    of_latest = {number: draw for number, draw in draws.items() if draw.round == latest}
    if budget is None:
        budget = max((draw.budget for draw in of_latest.values()), default=DEFAULT_BUDGET)
    missing = budget - int(np.isin(numbers, list(of_latest)).sum())
    if missing <= 0 or len(questions) >= split.space.size:
        return 0
    model = scored(latest)
    scan, half = model.scan, model.default_threshold()
    pilot = pilot_size(missing, int((numbers > 0).sum()))
    asked, at = asked_pairs(ledger, scan, questions), half if threshold is None else threshold
    plan = plan_audit(scan, pilot or missing, at, asked, model.log_odds, [half], budget, evenly=pilot > 0)
    # The ledger numbers an audit by the last round asked before it, so that `asked(through)` stays true.
    round = max(ledger.rounds("train"), default=latest)
    index = len(of_latest) + 1
    rng = generator_for(seed, round, f"audit of {latest}, draw {index}")
    drawn = draw_audit(scan, plan, ledger.asked(), rng)
    left, right = pair_rows(drawn.ids)
    ledger.ask(
        round,
        drawn.ids,
        [split.left.keys[row] for row in left.tolist()],
        [split.right.keys[row] for row in right.tolist()],
        "audit",  # not the stratum: who labels must not see how the pair scores
        str(Draw(latest, budget, index)),
        drawn.inclusion_probability,
        purpose="audit",
    )
    if pilot:
        notify(f"Pilot sample: {pilot:,} of {missing:,} labels, spread over all scores.")
    return len(drawn.ids)

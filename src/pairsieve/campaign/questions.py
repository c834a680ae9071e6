"""The questions of a campaign beyond what its strategy chooses: labels that follow, and labels that measure.

With transitivity some labels follow from others and need not be asked. An inferred label is written with the
chain of pairs it rests on; one that no longer follows, or that rests on labels which now contradict each
other, is withdrawn, and written again once it follows. One in ten of the pairs that follow is asked all the
same, chosen by its permanent random number. What people say of these tells how many inferred labels are wrong
(`inferred_errors`).

The measuring share of a batch is drawn from the whole space with known chances. Labels asked where a model is
in doubt cannot tell how good it is. These can: they are drawn over the whole ranking, the ledger keeps the
chance that each had, and no model is trained on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pairsieve.audit.draws import draw_pairs
from pairsieve.audit.errors import answer_errors
from pairsieve.audit.estimate import AuditResult
from pairsieve.audit.guarantee import permanent_order
from pairsieve.audit.run import ScoredSplit, asked_pairs, estimate_at, of_ranking, plan
from pairsieve.campaign.selecting import FIRST_PART, chosen_labels
from pairsieve.contracts import Answer, generator_for
from pairsieve.errors import LedgerError
from pairsieve.ledger import Ledger
from pairsieve.ledger.records import RoundCount
from pairsieve.pairs import Ids, Mask, PairSpace, is_member, pair_rows
from pairsieve.settings import CampaignSettings
from pairsieve.tasks import Split
from pairsieve.transitivity import OPEN, Contradiction, contradictions, grouped, implied

ATTEMPTS = 3  # somebody may change a label between reading and writing; then it is inferred again
CHECKED_SHARE = 0.1  # of the pairs that follow, asked all the same
MOST_CHECKS = 300  # the latest ones are looked at
NAME = "measure of round "  # how the questions of a measuring share begin their name
WHY = "drawn from all pairs, to measure"

# ── labels that follow ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Inference:
    """What one inference wrote, withdrew and found."""

    inferred: int  # labels written
    withdrawn: int  # inferred labels taken back: they follow no longer, or rest on a contradiction
    contradictions: tuple[Contradiction, ...]  # one for each group of texts that has any


def infer_labels(ledger: Ledger, space: PairSpace, round: int | None = None) -> Inference:
    """Infer the open training questions (of one round, or of all) that follow from labels given, but for
    the share that is asked all the same, and withdraw what follows no longer."""
    for _ in range(ATTEMPTS - 1):
        try:
            return _infer(ledger, space, round)
        except LedgerError:
            continue  # a chain no longer held when it was to be written
    return _infer(ledger, space, round)


def _infer(ledger: Ledger, space: PairSpace, round: int | None) -> Inference:
    ids, labels = ledger.labels(inferred=False)
    if len(ids) == 0:
        return Inference(0, 0, ())
    matches, others = ids[labels], ids[~labels]
    open_pairs = implied(space, ledger.open_questions(round, "train"), matches, others)
    places = np.flatnonzero(open_pairs.inferred & ~asked_all_the_same(open_pairs.ids)).tolist()
    answers = [Answer(int(open_pairs.ids[at]), int(open_pairs.labels[at])) for at in places]
    found: list[Contradiction] = []
    every, _ = ledger.labels()
    standing = implied(space, every[~is_member(every, ids)], matches, others)
    doubtful = standing.ids[standing.labels == OPEN].tolist()
    if open_pairs.groups.contradictory.any():
        found = contradictions(space, matches, others)
    written = ledger.infer(answers, [open_pairs.chain(at).tolist() for at in places], doubtful)
    return Inference(written, len(doubtful), tuple(found))


def asked_all_the_same(ids: Ids) -> Mask:
    """(n,) the pairs that are asked although their label follows."""
    return permanent_order(ids, 0) < CHECKED_SHARE


@dataclass(frozen=True)
class InferredErrors:
    """How many inferred labels may be wrong, by those that were asked all the same.

    Where an answer differs, it is wrong or the inferred label is. So the share that differs is not below the
    share of wrong inferred labels, whatever the share of wrong answers is (both below one half).
    """

    inferred: int  # labels that stand
    asked: int  # pairs that followed and were asked all the same
    differ: int  # of these, answers unlike what followed
    high: float  # 95 % upper limit of the share of wrong inferred labels (Clopper and Pearson 1934)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "sentence": str(self)}

    def __str__(self) -> str:
        checked = f"{self.asked:,} more were asked all the same, and {self.differ:,} differ"
        if not self.asked:
            return f"{self.inferred:,} labels were inferred; how many are wrong is not known: none was asked."
        return (
            f"{self.inferred:,} labels were inferred. {checked}: at most {self.high:.0%} of the inferred "
            "ones are wrong (95 % confidence)."
        )


def inferred_errors(ledger: Ledger, space: PairSpace) -> InferredErrors:
    """The error of the inferred labels of a ledger."""
    ids, labels = ledger.labels(inferred=False)
    inferred = len(ledger.labels()[0]) - len(ids)
    events = ledger.answers()
    order = dict[int, int]()
    for place, (pair, kind) in enumerate(zip(events.ids.tolist(), events.kind)):
        if kind in ("answer", "adjudication"):
            order.setdefault(pair, place)
    first = np.argsort([order.get(pair, 0) for pair in ids.tolist()], kind="stable")
    return errors_of_checks(space, ids[first], labels[first], inferred)


def errors_of_checks(space: PairSpace, ids: Ids, labels: Mask, inferred: int) -> InferredErrors:
    """From labelled pairs in the order of their answers, and the number of inferred labels."""
    from scipy.stats import beta

    asked = differ = 0
    for place in np.flatnonzero(asked_all_the_same(ids))[-MOST_CHECKS:].tolist():
        before, given = ids[:place], labels[:place]
        follows = implied(space, ids[place : place + 1], before[given], before[~given])
        if follows.labels[0] != OPEN:
            asked, differ = asked + 1, differ + int(follows.labels[0] != labels[place])
    high = float(beta.ppf(0.95, differ + 1, asked - differ)) if differ < asked else 1.0
    return InferredErrors(inferred, asked, differ, high)


def unaskable_pairs(ledger: Ledger, space: PairSpace, transitivity: bool, through: int | None = None) -> Ids:
    """Pairs that need not be asked: those asked, and with `transitivity` those that follow; sorted."""
    asked = ledger.asked(through)
    if not transitivity:
        return asked
    ids, labels = ledger.labels(through=through, inferred=False)
    return np.union1d(asked, implied_pairs(space, ids[labels], ids[~labels]))


def asked_before_choice(ledger: Ledger, round: int) -> Ids:
    """The pairs of a round that were asked before its strategy chose: a measuring share, a first part."""
    asked = ledger.questions(round)
    of_share = [name == FIRST_PART or name.startswith(NAME) for name in asked.strategy]
    return asked.ids[np.array(of_share, bool)]


def first_part_only(ledger: Ledger, settings: CampaignSettings, counts: Sequence[RoundCount]) -> bool:
    """Whether of round 1 only the questions were asked that go before embedding (`first_questions`)."""
    if len(counts) != 1 or counts[0].asked >= chosen_labels(settings, 1):
        return False
    return set(ledger.questions(1, "train").strategy) == {FIRST_PART}


def not_spent(ledger: Ledger, settings: CampaignSettings, room: int, round: int) -> int:
    """By how many pairs a round's strategy chooses more than planned: inferred labels spend no budget.

    room: pairs that may be asked. A round that was asked keeps its size. Round 1 may have a first part.
    """
    if round == 1:
        return -len(asked_before_choice(ledger, 1))
    if not settings.transitivity:
        return 0
    counts = {count.round: count for count in ledger.counts()}

    def planned(each: int) -> int:
        return chosen_labels(settings, each)

    if round in counts:
        return counts[round].asked - planned(round)
    before = [count for each, count in counts.items() if each < round]
    free = sum(planned(count.round) - (count.asked - count.inferred) for count in before)
    return max(min(free, room - planned(round)), 0)


def implied_pairs(space: PairSpace, positives: Ids, negatives: Ids) -> Ids:
    """Every pair whose label follows: inside a group of matches, and between groups kept apart; sorted."""
    groups = grouped(space, positives, negatives)
    order = np.argsort(groups.group, kind="stable")
    starts = np.searchsorted(groups.group[order], np.arange(len(groups.contradictory) + 1))
    pieces = [np.empty(0, np.int64)]

    def members(group: int) -> Ids:
        return groups.texts[order[starts[group] : starts[group + 1]]]

    for group in np.flatnonzero((np.diff(starts) > 1) & ~groups.contradictory).tolist():
        texts = members(group)
        one, other = np.triu_indices(len(texts), 1)
        pieces.append(space.ids(texts[one], texts[other]))
    for one_group, other_group in zip(*(side.tolist() for side in pair_rows(groups.apart))):
        if not (groups.contradictory[one_group] or groups.contradictory[other_group]):
            left, right = members(one_group), members(other_group)
            pieces.append(space.ids(np.repeat(left, len(right)), np.tile(right, len(left))))
    ids = np.unique(np.concatenate(pieces))
    return ids[space.contains(ids)]


# ── labels that measure ──────────────────────────────────────────────────────────────────────────


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
    chances = np.minimum(drawn.inclusion_probability[order], 1.0)
    ledger.ask(round, ids, *split.keys(ids), WHY, f"{NAME}{round}", chances, purpose="audit")


def is_drawn(ledger: Ledger, round: int) -> bool:
    """Whether the measuring share of a round was asked."""
    return f"{NAME}{round}" in ledger.questions(round, "audit").strategy


def open_measuring(ledger: Ledger, round: int) -> Ids:
    """The pairs of a round's measuring share that nobody has answered; sorted."""
    questions = ledger.questions(round, "audit")
    of_share = np.array([name == f"{NAME}{round}" for name in questions.strategy], bool)
    return np.intersect1d(questions.ids[of_share], ledger.open_questions(round, "audit"))


def counts_with_measuring(ledger: Ledger) -> list[RoundCount]:
    """Where each round stands, its measuring share counted with its batch."""
    questions = ledger.questions(purpose="audit")
    of_share = np.array([name.startswith(NAME) for name in questions.strategy], bool)
    if not of_share.any():
        return ledger.counts()
    ids, labels = ledger.labels("audit")
    still_open = ledger.open_questions(purpose="audit")
    counts = []
    for count in ledger.counts():
        here = questions.ids[of_share & (np.asarray(questions.rounds) == count.round)]
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
) -> AuditResult | None:
    """What drawn labels say of a scorer, as an audit says it; None with fewer than `fewest` of them."""
    questions = ledger.questions()
    asked, moved = of_ranking(asked_pairs(ledger, scored.scan, questions), questions, round)
    if int(((asked.audit > 0) & (asked.labels >= 0)).sum()) < fewest:
        return None
    rng = generator_for(seed, round, "measure figures")
    errors = answer_errors(ledger)
    return estimate_at(scored.scan, asked, scored.default_threshold(), rng, moved, errors=errors)

"""The check of a list: labels asked to show that it has the precision or recall that was wanted.

The pure procedures are in `audit/guarantee.py`. Here they meet a ledger: questions are written as those of
audits are, under a name that says which round's scorer is checked, so that the page, files and models serve
them alike; the task answers what it can. Nothing is kept besides: a check that waited for people
is run again from its start, and finds their answers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.audit.draws import Floats
from pairsieve.audit.earlier_draws import EarlierDraws, PairSet
from pairsieve.audit.guarantee import (
    NOT_DRAWN,
    TOP_SHARE,
    CheckedList,
    PairsInQuestion,
    RecallSample,
    check_precision,
    labels_needed,
    matches_beyond,
    permanent_order,
    plan_lists,
    plan_top,
    recall_reach,
    shortest_list,
    split_labels,
)
from pairsieve.audit.run import CHECK, RECALL_CHECK, asked_pairs, draws_of
from pairsieve.contracts import generator_for
from pairsieve.ledger import Ledger
from pairsieve.matches.listing import Known
from pairsieve.matches.ranking import Ranking
from pairsieve.measure.curve import Curve
from pairsieve.pairs import Ids, Scores, is_member
from pairsieve.sources import answer_from_task
from pairsieve.tasks import Split

AT_ONCE, AT_ONCE_PEOPLE = 10, 30  # labels asked for before looking again
LEAST_RECALL_LABELS = 50  # that a recall's check should have
MOST_PAIRS = 5_000_000  # unlabelled pairs of the longest candidate list


@dataclass(frozen=True)
class Check:
    """What a check of a list found. `threshold` is None where no list was shown to be good enough."""

    target: str  # "precision" or "recall"
    value: float
    confidence: float
    labels: int  # asked for it
    threshold: float | None
    waiting: int = 0  # labels that people still owe
    needed: int = 0  # more labels that would probably tell
    pairs: int = 0  # of recall: the best-scored pairs that it speaks of
    beyond: float = 0.0  # of recall: matches expected below these, counted as missed
    beyond_pairs: int = 0  # of recall: the pairs below, of which nothing is promised
    beyond_most: int = 0  # and the matches that the labels drawn from all pairs leave room for there
    left: int = 0  # of precision: pairs of the list shown that nobody labelled
    failed: bool = False  # of precision: whether a longer list was not shown; else the labels ran out
    answered_by: str = ""  # the truth of a split, where it answered; empty: people, files or models

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Checker:
    """A ranked split with the ledger that holds its questions."""

    ranking: Ranking
    ledger: Ledger
    split: Split
    round: int  # whose scorer is checked
    seed: int

    def precision(self, known: Known, expected: Curve, value: float, labels: int, confidence: float) -> Check:
        """The longest list whose pairs without a label are shown to have the precision `value`.

        known: every labelled pair; those of this check are drawn ones, the others are not in question.
        expected: of the pairs that had no label before the check, by threshold.
        """
        own_ids = check_pairs(self.ledger, self.round)
        before = known.ids[~is_member(known.ids, own_ids)]
        found = expected.true_positives + expected.false_positives
        few = found <= MOST_PAIRS
        plan = plan_lists(found[few], expected.precision[few], value, labels, confidence)
        needed = labels_needed(value, confidence)
        none = Check("precision", value, confidence, len(own_ids), None, needed=needed)
        if not len(plan.places):
            return none
        thresholds = expected.thresholds[plan.places]
        ids, scores = self._unlabelled(float(thresholds[-1]), before)
        first = np.argsort(permanent_order(ids, self.seed + self.round))
        sizes, kept = np.unique([int((scores >= at).sum()) for at in thresholds], return_index=True)
        thresholds, sizes = thresholds[kept][sizes > 0], sizes[sizes > 0]
        if not len(sizes):
            return none
        given, answers = self.ledger.labels("audit")
        earlier = is_member(given, own_ids)
        asked = np.setdiff1d(np.setdiff1d(self.ledger.asked(), own_ids), known.ids)
        question = PairsInQuestion(
            ids[first],
            scores[first],
            (given[earlier], answers[earlier].astype(np.int8)),
            self.ranking.scores(asked),
        )
        result: CheckedList = check_precision(
            question,
            [float(each) for each in thresholds],
            plan.failures,
            lambda pairs: self._ask(pairs, len(pairs) / int(sizes[-1])),
            value,
            labels,
            confidence,
            at_once=AT_ONCE if self.split.has_truth else AT_ONCE_PEOPLE,
        )
        at = float(thresholds[result.certified - 1]) if result.certified else None
        waiting = 0
        if result.waiting:  # of the pairs of the step, some may have been answered
            own_ids = check_pairs(self.ledger, self.round)
            waiting = int(np.isin(own_ids, self.ledger.open_questions(purpose="audit")).sum())
        check = Check("precision", value, confidence, result.labels, at, waiting, result.wanted)
        return replace(check, left=result.left, failed=result.failed)

    def recall(self, every: Curve, free: Curve, value: float, labels: int, confidence: float) -> Check:
        """The shortest list shown to have the recall `value` of the matches within reach.

        every, free: what is expected of all pairs, and of those without a label, by threshold. Where the
        reach and the pairs in question begin is written into the name of the questions: a check that is
        run again, or goes on with more labels, keeps to them.
        """
        check = Check("recall", value, confidence, 0, None, needed=max(labels, LEAST_RECALL_LABELS))
        if labels < 1:
            return check
        begun = f"{RECALL_CHECK}{self.round} for {value:g}: "
        own_ids, name = self._recall_questions(begun)
        if not name:
            numbers, _ = draws_of(self.ledger.questions())
            reach = recall_reach(every, free, value, labels, int((numbers > 0).sum()))
            top = self._top(free, reach, value, labels, confidence)
            name = f"{begun}{reach:.9g} to {top:.9g}"
        reach, top = (float(each) for each in name[len(begun) :].split(", ")[0].split(" to "))
        name = f"{name.split(', ')[0]}, {labels} labels"
        ids, scores = self._free(reach, own_ids)
        above = scores >= np.float32(top)
        # An order of its own: what another check labelled had the smallest numbers in that check's order.
        own = int(generator_for(self.seed, self.round, begun).integers(2**62))
        first = np.argsort(permanent_order(ids, own), kind="stable")
        counts = split_labels(labels, int(above.sum()), int((~above).sum()))
        wanted = [first[part[first]][:count] for part, count in zip((above, ~above), counts)]
        chances = [len(places) / max(part.sum(), 1) for part, places in zip((above, ~above), wanted)]
        chance = np.repeat(chances, [len(places) for places in wanted])
        new = ~is_member(ids[np.concatenate(wanted)], own_ids)
        if new.any():
            self._write(ids[np.concatenate(wanted)][new], chance[new], name)
        answer_from_task(self.ledger, self.split, self.ledger.open_questions(purpose="audit"))
        own_ids, _ = self._recall_questions(begun)
        waiting = int(np.isin(own_ids, self.ledger.open_questions(purpose="audit")).sum())
        check = replace(check, labels=len(own_ids), waiting=waiting)
        if waiting:
            return replace(check, needed=0)
        given, answers = self.ledger.labels("audit")
        drawn = np.full(len(ids), NOT_DRAWN, np.int8)
        drawn[is_member(ids, own_ids)] = -1
        there = np.flatnonzero(is_member(ids, own_ids) & is_member(ids, given))
        drawn[there] = answers[np.searchsorted(given, ids[there])]
        sample = RecallSample(scores, drawn, top, self._known_matches(reach, own_ids))
        at = shortest_list(sample, value, generator_for(self.seed, self.round, "recall limits"), confidence)
        pairs = self.ranking.count_reaching(reach)
        beyond_pairs = self.split.space.size - pairs
        check = replace(
            check,
            pairs=pairs,
            beyond=matches_beyond(sample),
            beyond_pairs=beyond_pairs,
            beyond_most=self._most_beyond(reach, beyond_pairs, confidence),
        )
        return check if at is None else replace(check, threshold=max(at, -1.0), needed=0)

    def _top(self, expected: Curve, reach: float, value: float, labels: int, confidence: float) -> float:
        """The score from which on pairs will be listed, whatever the check says."""
        inside = expected.thresholds >= np.float32(reach)
        if not inside.any():
            return reach
        right = expected.true_positives[inside]
        found = right + expected.false_positives[inside]
        below = labels - labels // TOP_SHARE
        known = self._known_matches(reach, np.empty(0, np.int64))
        return float(expected.thresholds[inside][plan_top(found, right, known, value, below, confidence)])

    def _most_beyond(self, reach: float, pairs: int, confidence: float) -> int:
        """The upper limit of the matches below the reach that nobody labelled."""
        asked = asked_pairs(self.ledger, self.ranking.scored.scan)
        given = asked.labels >= 0
        there = asked.scores < np.float32(reach)
        every = PairSet(there & given, float(pairs - (there & ~given).sum()))
        _, most = EarlierDraws(asked).matches(every, 1.0 - confidence)
        return max(int(most - (asked.labels[every.asked] == 1).sum()), 0)

    def _known_matches(self, reach: float, own_ids: Ids) -> int:
        """Labelled matches within reach, but for those of the check (sorted)."""
        given = [self.ledger.labels(purpose) for purpose in ("train", "audit")]
        ids = np.unique(np.concatenate([pairs[labels.astype(bool)] for pairs, labels in given]))
        ids = ids[~is_member(ids, own_ids)]
        return int((self.ranking.scores(ids) >= np.float32(reach)).sum())

    def _recall_questions(self, begun: str) -> tuple[Ids, str]:
        """The sorted pairs that a recall's check asked so far, and the name of its questions."""
        questions = self.ledger.questions(purpose="audit")
        of_check = np.array([name.startswith(begun) for name in questions.strategy], bool)
        names = [name for name in questions.strategy if name.startswith(begun)]
        return np.sort(questions.ids[of_check]), names[0] if names else ""

    def answered(self, check: Check) -> Check:
        """With who answered."""
        return replace(check, answered_by=f"the truth of {self.split.name}" if self.split.has_truth else "")

    def _unlabelled(self, threshold: float, before: Ids) -> tuple[Ids, Scores]:
        """The pairs of a list that had no label before the check, by id."""
        own_ids = check_pairs(self.ledger, self.round)
        return self._free(threshold, own_ids, before)

    def _free(self, threshold: float, own_ids: Ids, before: Ids | None = None) -> tuple[Ids, Scores]:
        """The pairs that score so much and that nobody was asked about, but for a check's own; by id."""
        pieces: list[tuple[Ids, Scores]] = []
        self.ranking.collect(threshold, 1e30, lambda ids, scores: pieces.append((ids, scores)))
        ids = np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in pieces)])
        scores = np.concatenate([np.empty(0, np.float32), *(scores for _, scores in pieces)])
        # A pair asked for another reason and not answered, or unsure, is in question as little as a labelled
        # one.
        others = self.ledger.asked() if before is None else np.union1d(self.ledger.asked(), before)
        others = np.setdiff1d(others, own_ids)
        free = ~is_member(ids, others)
        order = np.argsort(ids[free])
        return ids[free][order], scores[free][order]

    def _ask(self, ids: Ids, chance: float) -> NDArray[np.int8] | None:
        """Labels of these pairs, which are asked if they were not; None while an answer is missing."""
        new = ids[~is_member(ids, self.ledger.asked())]
        if len(new):
            questions = self.ledger.questions(purpose="audit")
            batches = {name for name in questions.strategy if name.startswith(f"{CHECK}{self.round},")}
            name = f"{CHECK}{self.round}, batch {len(batches) + 1}"
            self._write(new, np.full(len(new), min(max(chance, 1e-12), 1.0)), name)
        answer_from_task(self.ledger, self.split, self.ledger.open_questions(purpose="audit"))
        if np.isin(ids, self.ledger.open_questions(purpose="audit")).any():
            return None
        given, labels = self.ledger.labels("audit")
        found = np.full(len(ids), -1, np.int8)
        there = is_member(ids, given)
        found[there] = labels[np.searchsorted(given, ids[there])]
        return found

    def _write(self, ids: Ids, chance: Floats, name: str) -> None:
        round = max(self.ledger.rounds("train"), default=self.round)
        self.ledger.ask(round, ids, *self.split.keys(ids), "check", name, chance, purpose="audit")


def check_pairs(ledger: Ledger, round: int) -> Ids:
    """The pairs that precision checks of a round asked, sorted."""
    questions = ledger.questions(purpose="audit")
    of_check = [name.startswith(f"{CHECK}{round},") for name in questions.strategy]
    return np.sort(questions.ids[np.array(of_check, bool)])

"""The check of a list: labels asked to show that it has the precision or recall that was wanted.

The pure procedures are `audit/guarantee.py` (precision) and `audit/estimate.py` (recall). Here they meet a
ledger: questions are written as those of audits are, under a name that says which round's scorer is checked,
so that the page, files and models serve them alike; the truth answers where the split has it. Nothing is kept
besides: a check that waited for people is run again from its start, and finds their answers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.audit.draws import Floats, cut_ranking, draw_pairs
from pairsieve.audit.estimate import recall_limits
from pairsieve.audit.guarantee import CheckedList, check_precision, labels_needed, permanent_order, plan_lists
from pairsieve.audit.run import CHECK, asked_pairs, plan
from pairsieve.contracts import generator_for
from pairsieve.ledger import Ledger
from pairsieve.matches.listing import Known
from pairsieve.matches.ranking import Ranking
from pairsieve.measure.curve import Curve
from pairsieve.pairs import Ids, Scores, is_member
from pairsieve.scorer.calibration import FEWEST
from pairsieve.sources import TruthSource
from pairsieve.tasks import Split

AT_ONCE, AT_ONCE_PEOPLE = 10, 30  # labels asked for before looking again
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
        mine = check_pairs(self.ledger, self.round)
        before = known.ids[~is_member(known.ids, mine)]
        found = expected.true_positives + expected.false_positives
        few = found <= MOST_PAIRS
        plan = plan_lists(found[few], expected.precision[few], value, labels, confidence)
        none = Check("precision", value, confidence, len(mine), None, needed=labels_needed(value, confidence))
        if not len(plan.places):
            return none
        thresholds = expected.thresholds[plan.places]
        ids, scores = self._unlabelled(float(thresholds[-1]), before)
        first = np.argsort(permanent_order(ids, self.seed + self.round))
        ids, scores = ids[first], scores[first]
        sizes, kept = np.unique([int((scores >= at).sum()) for at in thresholds], return_index=True)
        thresholds, sizes = thresholds[kept][sizes > 0], sizes[sizes > 0]
        if not len(sizes):
            return none
        result: CheckedList = check_precision(
            [float(each) for each in thresholds],
            sizes.tolist(),
            plan.failures,
            lambda threshold, count: ids[scores >= np.float32(threshold)][:count],
            lambda pairs: self._ask(pairs, len(pairs) / int(sizes[-1])),
            value,
            labels,
            confidence,
            at_once=AT_ONCE if self.split.has_truth else AT_ONCE_PEOPLE,
        )
        at = float(thresholds[result.certified - 1]) if result.certified else None
        return Check("precision", value, confidence, result.labels, at, result.waiting, result.wanted)

    def recall(self, guess: float, value: float, labels: int, confidence: float) -> Check:
        """The shortest list shown to have the recall `value` of the matches within reach.

        guess: a threshold that should have it; labels are drawn around it, all at once. Labels drawn earlier,
        by audits and the campaign, count too.
        """
        scan, name = self.ranking.scored.scan, f"recall check of round {self.round}"
        mine = [at for at, each in enumerate(self.ledger.questions(purpose="audit").strategy) if each == name]
        if not mine and labels > 0:
            asked = asked_pairs(self.ledger, scan)
            strata, wanted = plan(scan, asked, labels, guess, self.ranking.scorer.uncalibrated)
            rng = generator_for(self.seed, self.round, name)
            drawn = draw_pairs(scan, strata, wanted, asked, self.ledger.asked(), rng)
            if len(drawn.ids):
                self._write(drawn.ids, drawn.inclusion_probability, name)
        self._answer_from_truth()
        asked_now = self.ledger.questions(purpose="audit")
        mine_ids = asked_now.ids[[each == name for each in asked_now.strategy]]
        waiting = int(np.isin(mine_ids, self.ledger.open_questions(purpose="audit")).sum())
        if waiting:
            return Check("recall", value, confidence, len(mine_ids), None, waiting)
        asked = asked_pairs(self.ledger, scan)
        drawn_labels = int(((asked.audit > 0) & (asked.labels >= 0)).sum())
        if drawn_labels < FEWEST:
            return Check("recall", value, confidence, len(mine_ids), None, needed=100)
        strata, reach = cut_ranking(scan, [guess], drawn_labels)
        rng = generator_for(self.seed, self.round, "recall limits")
        limits = recall_limits(strata, asked, reach, rng, confidence=confidence)
        pairs = int(strata.totals[strata.reaching(reach)].sum())
        at = None
        for place in np.flatnonzero(np.isfinite(limits))[::-1]:
            if limits[place] < value:
                break
            at = float(max(strata.edges[place], -1.0))
        needed = 0 if at is not None else max(drawn_labels, 50)
        return Check("recall", value, confidence, len(mine_ids), at, 0, needed, pairs)

    def answered(self, check: Check) -> Check:
        """With who answered."""
        return replace(check, answered_by=f"the truth of {self.split.name}" if self.split.has_truth else "")

    def _unlabelled(self, threshold: float, before: Ids) -> tuple[Ids, Scores]:
        """The pairs of a list that had no label before the check, by id."""
        pieces: list[tuple[Ids, Scores]] = []
        self.ranking.collect(threshold, 1e30, lambda ids, scores: pieces.append((ids, scores)))
        ids = np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in pieces)])
        scores = np.concatenate([np.empty(0, np.float32), *(scores for _, scores in pieces)])
        # A pair asked for another reason and not answered, or unsure, is in question as little as a labelled
        # one.
        others = np.setdiff1d(np.union1d(self.ledger.asked(), before), check_pairs(self.ledger, self.round))
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
        self._answer_from_truth()
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

    def _answer_from_truth(self) -> None:
        waiting = self.ledger.open_questions(purpose="audit")
        if self.split.has_truth and len(waiting):
            source = TruthSource(self.split.space, self.split.positives)
            self.ledger.answer(source.answer(waiting), who=source.name, source=source.name)


def check_pairs(ledger: Ledger, round: int) -> Ids:
    """The pairs that precision checks of a round asked, sorted."""
    questions = ledger.questions(purpose="audit")
    mine = [name.startswith(f"{CHECK}{round},") for name in questions.strategy]
    return np.sort(questions.ids[np.array(mine, bool)])

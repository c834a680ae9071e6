"""Figures of a list as it is written, from labels drawn with known chances: its precision and recall.

A list need not be the top of the ranking: labelled pairs are listed as labelled, groups and one-to-one lists
leave pairs out and take others in. So each stratum of the ranking is cut in two, the pairs in the list and
those that are not. Drawn labels speak for the other pairs of their part only if they came into it as any
other pair does: a drawn non-match that was left out for its label would leave the list's part to the matches.
So the parts are those of the list as it would be without labels, and what these change is counted afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from pairsieve.audit.draws import TRAIN, AskedPairs, Floats, Strata, cut_ranking
from pairsieve.audit.earlier_draws import EarlierDraws, PairSet
from pairsieve.audit.errors import AnswerErrors, answer_errors
from pairsieve.audit.estimate import DRAWS, AuditResult, Limits, estimate
from pairsieve.audit.run import asked_pairs, of_ranking
from pairsieve.contracts import Estimate
from pairsieve.ledger import Ledger
from pairsieve.matches.ranking import Ranking
from pairsieve.pairs import Ids, Mask, ScoredPairs, is_member

OF_ENDS = {"value": "value", "low": "high", "high": "low"}  # the more matches, the less a share of them

Figure = TypeVar("Figure", bound=Estimate | Limits)


@dataclass(frozen=True)
class ListFigures:
    """What drawn labels say of a list as it is written."""

    labels: int  # drawn
    reach_pairs: int  # the best-scored pairs that recall speaks of
    precision: Estimate | Limits
    precision_of_new: Estimate | Limits | None  # of its pairs that nobody labelled
    recall: Estimate | Limits | None  # None: no match was seen


@dataclass
class ListTally:
    """Counts a list made without the drawn labels: its pairs by stratum of the ranking, and the asked pairs.

    keeps_labels: in the list as written, drawn matches are in and drawn non-matches are not.
    """

    strata: Strata
    reach: float  # the lowest score of the pairs that recall speaks of
    ids: Ids  # (n,) asked pairs
    asked: AskedPairs
    errors: AnswerErrors | None = None
    keeps_labels: bool = True
    threshold: float | None = None  # of a list that is cut by score; None: pairs are listed as they are
    moved: bool = False  # the labels were drawn under other rankings than that of `strata`
    chosen_by: str = ""  # the labels that chose the threshold, these among them: labels or audit
    counts: Floats = field(init=False)  # (k,) listed pairs
    holds: Mask = field(init=False)  # (n,) asked pairs that are listed

    def __post_init__(self) -> None:
        self.counts, self.holds = np.zeros(len(self.strata)), np.zeros(len(self.ids), bool)

    @staticmethod
    def of(
        ranking: Ranking,
        ledger: Ledger,
        round: int,
        threshold: float,
        keeps_labels: bool,
        chosen_by: str = "",
    ) -> ListTally:
        """For a list of a round's scorer that is cut at `threshold`, with the labels drawn so far."""
        questions = ledger.questions()
        asked, moved = of_ranking(asked_pairs(ledger, ranking.scored.scan, questions), questions, round)
        drawn = int(((asked.audit > 0) & (asked.labels >= 0)).sum())
        strata, reach = cut_ranking(ranking.scored.scan, [threshold], drawn)
        errors = answer_errors(ledger)
        return ListTally(
            strata, reach, questions.ids, asked, errors, keeps_labels, threshold, moved, chosen_by
        )

    @property
    def drawn(self) -> Ids:
        """The pairs drawn with known chances; sorted."""
        return np.sort(self.ids[self.asked.audit > TRAIN])

    def count(self, bands: Iterator[ScoredPairs]) -> None:
        """Count a list."""
        for band in bands:
            self.counts += self.strata.count(np.asarray(band.scores))
            self.holds |= is_member(self.ids, np.sort(np.asarray(band.ids)))

    def figures(
        self, rng: np.random.Generator, confidence: float = 0.95, draws: int = DRAWS
    ) -> ListFigures | None:
        """Precision of the list, of its pairs nobody labelled, recall within reach; None if it is empty."""
        if not self.counts.sum():
            return None
        unlabelled = self._by_score()
        moved = unlabelled.astype(np.int64) - self.holds
        counts = self.counts + self.strata.count(self.asked.scores, moved)
        if self.moved:
            return self._limits(unlabelled, counts, (1.0 - confidence) / 2.0)
        found = self._estimated(unlabelled, counts, rng, confidence, draws)
        if self.keeps_labels:
            found = self._as_written(found, unlabelled, float(counts.sum()))
        precision, of_new, recall = found.precision, found.precision_of_new, found.recall
        if self.chosen_by:  # by the same labels: their values are too good
            precision = Limits(precision.low, precision.high)
            of_new, recall = (each and Limits(each.low, each.high) for each in (of_new, recall))
        return ListFigures(found.labels, found.reach_pairs, precision, of_new, recall)

    def _estimated(
        self, unlabelled: Mask, counts: Floats, rng: np.random.Generator, confidence: float, draws: int
    ) -> AuditResult:
        """The parts are laid out as a ranking of their own: the list's, then the others."""
        k = len(self.strata)
        totals = np.concatenate([counts, self.strata.totals - counts])
        within = int(np.flatnonzero(self.strata.reaching(self.reach))[-1])
        edges = -np.arange(1, 2 * k + 1, dtype=np.float32) / np.float32(2 * k + 1)
        part = self.strata.of(self.asked.scores) + np.where(unlabelled, 0, k)
        some = np.flatnonzero(totals > 0)
        parts = Strata(edges[some], totals[some].astype(np.int64))
        asked = replace(self.asked, scores=edges[part])
        reach = edges[some[some <= k + within][-1]]
        last = edges[some[some < k][-1]]
        options: dict[str, Any] = {"errors": self.errors, "confidence": confidence, "draws": draws}
        options["chosen_of"] = k if self.chosen_by == "audit" else 1
        return estimate(parts, asked, float(last), rng, reach=float(reach), **options)

    def _limits(self, unlabelled: Mask, counts: Floats, level: float) -> ListFigures:
        """Limits that hold wherever the pairs of the list ranked when labels were drawn."""
        labels, draws = self.asked.labels, EarlierDraws(self.asked, self.errors)
        given, inside = labels >= 0, self.asked.scores >= np.float32(self.reach)
        reaching = self.strata.reaching(self.reach)
        reach_pairs = float(self.strata.totals[reaching].sum() + counts[~reaching].sum())
        listed = PairSet(given & unlabelled, float(counts.sum() - (unlabelled & ~given).sum()))
        either = unlabelled | inside
        beside = PairSet(given & either, reach_pairs - float((either & ~given).sum())).less(listed)
        matches, others = labels == 1, labels == 0
        more = less = sure = 0.0  # matches and pairs that labels bring in, and take out
        if self.keeps_labels:
            more, less = float((~unlabelled & matches).sum()), float((unlabelled & others).sum())
            sure = float((beside.asked & matches).sum())
        found = Limits(*draws.matches(listed, level))
        written = Limits(found.low + more, found.high + more).per(max(listed.pairs - less + more, 1.0))
        known = float((listed.asked & matches).sum())
        new = listed.pairs - float(listed.asked.sum())
        left = Limits(*(float(np.clip(each - known, 0.0, new)) for each in vars(found).values()))
        recall = Limits(*draws.recall(listed, beside, sure, level)) if (matches & either).any() else None
        return ListFigures(
            int((given & (self.asked.audit > TRAIN)).sum()),
            int(reach_pairs),
            Limits(*(min(each, 1.0) for each in vars(written).values())),
            left.per(new) if new > 0 else None,
            recall,
        )

    def _by_score(self) -> Mask:
        """(n,) asked pairs that would be in the list if they had no label.

        Pairs that a strategy asked are listed as labelled. But labels drawn before spoke for them too: of
        the list's non-matches many were asked since, and drawn ones that are left would speak for the others.
        """
        known = (self.asked.audit == TRAIN) & (self.asked.labels >= 0)
        if self.threshold is None or not self.keeps_labels:
            return self.holds
        return np.where(known, self.asked.scores >= np.float32(self.threshold), self.holds)

    def _as_written(self, found: AuditResult, unlabelled: Mask, pairs: float) -> AuditResult:
        """With all labelled matches in the list, and without labelled non-matches; it had so many pairs."""
        matches = ~unlabelled & (self.asked.labels == 1)
        more, inside = int(matches.sum()), int((matches & (self.asked.scores >= self.reach)).sum())
        less = int((unlabelled & (self.asked.labels == 0)).sum())
        left = pairs - less + more
        changed = found
        if left > 0:
            changed = replace(
                changed, precision=_moved(found.precision, pairs / left, dict.fromkeys(OF_ENDS, more / left))
            )
        if isinstance(found.recall, Estimate | Limits) and found.positives.high > 0:
            # A share of the matches in all, of which there may be more or fewer than the value says.
            every = {
                name: max(getattr(found.positives, end), 1.0)
                for name, end in OF_ENDS.items()
                if hasattr(found.positives, end)
            }
            changed = replace(
                changed, recall=_moved(found.recall, 1.0, {end: inside / each for end, each in every.items()})
            )
        return changed


def _moved(figure: Figure, times: float, plus: dict[str, float]) -> Figure:
    """A share of matches and its ends, times a number and plus one of each; at most 1."""
    names = [name for name in plus if hasattr(figure, name)]
    return replace(figure, **{name: min(times * getattr(figure, name) + plus[name], 1.0) for name in names})

"""Figures of a list of matches and of groups, as records; `as_json()` of them is what --json prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from pairsieve.audit.estimate import Limits
from pairsieve.campaign.training import Distilled, Tried
from pairsieve.contracts import Estimate, generator_for
from pairsieve.matches.calibration import ExpectedCurve
from pairsieve.matches.checks import Check
from pairsieve.matches.clusters import GroupFigures
from pairsieve.matches.listed import ListFigures, ListTally
from pairsieve.matches.threshold import OperatingPoint, Target
from pairsieve.measure.curve import BestF1

FEW_LABELS = 20  # below these a list without a check can be almost all wrong


@dataclass(frozen=True)
class RankedSplit:
    """What was ranked, by which scorer, and how it was searched."""

    campaign: Path
    task: str
    split: str
    round: int
    reranked: bool
    reranker_setting: str
    labels: int  # matches and non-matches that the scorer was trained on
    tried: Tried
    unreadable_texts: int
    method: str
    recall: Estimate | None  # of an index's neighbours

    @property
    def few_labels(self) -> str:
        """That a list without a check may be mostly wrong for want of labels; empty where they are enough."""
        if self.labels >= FEW_LABELS:
            return ""
        trained = "1 label was" if self.labels == 1 else f"{self.labels:,} labels were"
        folder = quote(str(self.campaign))
        more = f"pairsieve extend {folder} --labels 40, then pairsieve run {folder}"
        check = f"pairsieve match {folder} --precision 0.9"
        return (
            f"Only {trained} trained on, so most of this list may be wrong: ask for more labels ({more}), or "
            f"for a check ({check})."
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "campaign": str(self.campaign),
            "task": self.task,
            "split": self.split,
            "round": self.round,
            "trained_on": self.labels,
            "scorer": {"reranked": self.reranked, "setting": self.reranker_setting, **self.tried.as_json()},
            "unreadable_texts": self.unreadable_texts,
            "search": {"method": self.method, "recall": self.recall.as_json() if self.recall else None},
        }


@dataclass(frozen=True)
class ThresholdFigures:
    """A threshold, what it was chosen for and on, and what is known there.

    listed: of the list as it is written, by drawn labels. Without it there is only the point of the curve on
    which the threshold was chosen; where that is dev's, it is exact of dev.
    """

    target: Target
    source: str | None  # labels, dev or audit; None where a given threshold or count rests on nothing
    basis: str  # the same in words
    point: OperatingPoint
    listed: ListFigures | None
    trust: str  # how far the figures can be trusted, in a sentence; empty where there is nothing to say

    @property
    def of_dev(self) -> bool:
        """Whether precision and recall are those of dev's pairs above the threshold."""
        return self.source == "dev" and self.listed is None and bool(np.isfinite(self.point.precision))

    @property
    def precision(self) -> Estimate | Limits | float | None:
        """The best that is known of it."""
        return self.listed.precision if self.listed is not None else _known(self.point.precision)

    @property
    def recall(self) -> Estimate | Limits | float | None:
        """The best that is known of it."""
        return self.listed.recall if self.listed is not None else _known(self.point.recall)

    def as_json(self) -> dict[str, Any]:
        figures: dict[str, Any] = {"target": str(self.target), "from": self.source, "basis": self.basis}
        figures |= {**self.point.as_json(), "measured": self.listed is not None}
        if self.listed is not None:
            figures |= {"of": "list", **asdict(self.listed)}
        elif self.of_dev:
            figures["of"] = "dev"
        return figures | ({"trust": self.trust} if self.trust else {})


def _known(figure: float) -> float | None:
    return figure if np.isfinite(figure) else None


def threshold_figures(
    target: Target, expected: ExpectedCurve | None, point: OperatingPoint, tally: ListTally | None, seed: int
) -> ThresholdFigures:
    """The threshold and what is expected there; where labels were drawn, figures of the list as written."""
    if expected is None:
        return ThresholdFigures(target, None, "nothing", point, None, "")
    known = tally is not None and np.isfinite(point.precision)
    listed = tally.figures(generator_for(seed, 0, "match interval")) if tally is not None and known else None
    return ThresholdFigures(target, expected.source, expected.basis, point, listed, expected.trust)


@dataclass(frozen=True)
class TruthFigures:
    """A list against the truth, exactly: as it is written, its pairs nobody labelled, and by score alone."""

    positives: int
    listed: OperatingPoint
    new_pairs: int
    new_precision: float | None
    scores_alone: OperatingPoint
    average_precision: float
    best_f1: BestF1

    def as_json(self) -> dict[str, Any]:
        precision = {} if self.new_precision is None else {"precision": self.new_precision}
        return {
            "positives": self.positives,
            "list": self.listed.as_json(),
            "new": {"pairs": self.new_pairs, **precision},
            "scores_alone": self.scores_alone.as_json(),
            "average_precision": self.average_precision,
            "best_f1": self.best_f1.as_json(),
        }


@dataclass(frozen=True)
class WrittenMatches:
    """A list that was written."""

    threshold: ThresholdFigures
    best_f1_pairs: int | None  # beside a precision or recall: how long the list of the best F1 would be
    out: Path
    columns: Mapping[str, str]  # their names and types
    matches: int
    labelled: int  # of these, pairs labelled as matches
    one_to_one: bool
    grouped: bool  # the pairs inside groups
    truth: TruthFigures | None
    without_probability: int = 0  # of `matches`: pairs that have a score alone
    unlikely: int = 0  # of `matches`: there by their group, with a probability below 0.05


@dataclass(frozen=True)
class MatchFigures:
    """Figures of a list of matches. `written` is None while people owe the labels that check it."""

    ranked: RankedSplit
    pairs: int  # that were searched
    check: Check | None
    written: WrittenMatches | None
    distilled: Distilled | None = None

    @property
    def waiting(self) -> int:
        """Labels that people owe before the list is written."""
        return self.check.waiting if self.written is None and self.check is not None else 0

    @property
    def warning(self) -> str:
        """That the list rests on few labels, where neither a check nor the truth says what it is worth."""
        checked = self.check is not None and self.check.threshold is not None
        if self.written is None or self.written.truth is not None or checked:
            return ""
        return self.ranked.few_labels

    @property
    def rows(self) -> int:
        return 0 if self.written is None else self.written.matches

    @property
    def columns(self) -> Mapping[str, str]:
        return {} if self.written is None else self.written.columns

    @property
    def threshold(self) -> ThresholdFigures | None:
        return None if self.written is None else self.written.threshold

    def as_json(self) -> dict[str, Any]:
        figures = {**self.ranked.as_json(), "pairs": self.pairs}
        check = {} if self.check is None else {"check": self.check.as_json()}
        found = self.written
        if found is None:
            figures |= {"state": "waiting", "waiting": self.waiting, **check, "matches": 0}
        else:
            figures |= {"state": "listed", "threshold": found.threshold.as_json(), **check}
            if found.best_f1_pairs is not None:
                figures["best_f1_pairs"] = found.best_f1_pairs
            figures |= {"out": str(found.out), "columns": dict(found.columns), "matches": found.matches}
            names = ("labelled", "without_probability", "unlikely", "one_to_one", "grouped")
            figures |= {name: getattr(found, name) for name in names}
            figures |= {"warning": self.warning} if self.warning else {}
            if found.truth is not None:
                figures["truth"] = found.truth.as_json()
        return figures | ({} if self.distilled is None else {"distilled": self.distilled.as_json()})


@dataclass(frozen=True)
class ClusterFigures:
    """Figures of the groups of a collection, or of its merged records."""

    ranked: RankedSplit
    texts: int
    threshold: ThresholdFigures
    out: Path
    columns: Mapping[str, str]  # names and types
    rows: int
    clusters: int  # groups of two texts or more
    clustered_texts: int  # in these
    largest: int
    components_split: int  # chains of matches that make more than one group
    contradicted: int  # pairs answered as no match that stand inside a group
    truth: GroupFigures | None
    truth_of_components: GroupFigures | None  # of chains that are not split
    labels: GroupFigures | None  # where no truth is known, against the labels given

    @property
    def warning(self) -> str:
        """That the groups rest on few labels, where no truth says what they are worth."""
        return self.ranked.few_labels if self.truth is None else ""

    def as_json(self) -> dict[str, Any]:
        figures = {**self.ranked.as_json(), "texts": self.texts, "threshold": self.threshold.as_json()}
        figures |= {"out": str(self.out), "columns": dict(self.columns)}
        counts = ("rows", "clusters", "clustered_texts", "largest", "components_split", "contradicted")
        figures |= {name: getattr(self, name) for name in counts}
        figures |= {"warning": self.warning} if self.warning else {}
        found = {name: getattr(self, name) for name in ("truth", "truth_of_components", "labels")}
        return figures | {name: each.as_json() for name, each in found.items() if each is not None}

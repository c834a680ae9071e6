"""Where a campaign stands, as records: what comes next, and its rounds with their figures and advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from pairsieve.advice import Advice
from pairsieve.campaign.figures import AuditFigures, as_written, not_held_out
from pairsieve.campaign.notebook import html_table
from pairsieve.campaign.questions import InferredErrors
from pairsieve.contracts import Estimate
from pairsieve.ledger import Ledger
from pairsieve.measure.figures import RoundFigures
from pairsieve.pairs import Ids, Mask
from pairsieve.settings import CAMPAIGN_FILE, CampaignSettings

UNSURE = 'every answer so far is "unsure"'


@dataclass(frozen=True)
class RoundStatus:
    """One round of a campaign: labels up to and with it, and its figures once it is measured."""

    round: int
    labels: int
    positives: int
    open: int  # questions of the round without an answer
    inferred: int  # labels of the round that follow from others
    figures: RoundFigures | None
    stale: str  # why the next run trains and measures it again; empty where it does not
    advised: Advice | None
    audit: AuditFigures | None  # of the campaign's own split, after this round

    @property
    def average_precision(self) -> Estimate | None:
        return self.figures.first.average_precision if self.figures and self.figures.first else None

    @property
    def precision_at_recall_20(self) -> Estimate | None:
        first = self.figures.first if self.figures else None
        return first.precision_at_recall.get(0.2) if first else None

    @property
    def threshold(self) -> float | None:
        """Where the probability of a match is one half."""
        return self.figures.threshold if self.figures else None

    @property
    def measured_on(self) -> str:
        """The split of the figures; empty where none is."""
        return self.figures.measured_on if self.figures else ""

    @property
    def seconds(self) -> Mapping[str, float]:
        """By phase."""
        return self.figures.seconds if self.figures else {}

    @property
    def advice(self) -> str:
        """A sentence; empty where there is none."""
        return self.advised.sentence if self.advised else ""

    def as_json(self) -> dict[str, Any]:
        names = ("round", "labels", "positives", "open", "inferred")
        row: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.figures:
            row = as_written(self.figures.as_json()) | row
            row = {name: row[name] for name in (*names, *(each for each in row if each not in names))}
        row |= {"stale": self.stale} if self.stale else {}
        row |= {"advice": self.advised.as_json()} if self.advised else {}
        return row | ({"audit": as_written(self.audit.as_json())} if self.audit else {})


@dataclass(frozen=True)
class Status:
    """Where a campaign stands."""

    folder: Path
    settings: CampaignSettings
    step: str  # what comes next: choose, label, train, stopped or finished
    round: int  # of that step
    waiting: int  # questions without an answer
    reason: str  # of stopping; else empty
    inference: InferredErrors | None  # of labels by transitivity; None without it
    rounds: tuple[RoundStatus, ...]
    by_task: int = 0  # questions that the task's own labels answered
    tied: int = 0  # of those waiting, pairs on which people disagree
    lacks: str = ""  # why no list of matches can be made of the labels; empty where one can

    @property
    def state(self) -> str:
        """ "ready", "waiting" (for labels), "stopped" (by its rule) or "finished"."""
        return {"label": "waiting", "stopped": "stopped", "finished": "finished"}.get(self.step, "ready")

    @property
    def budget(self) -> int:
        """Labels in all."""
        return self.settings.schedule.budget()

    @property
    def next_command(self) -> str:
        """Empty where nothing is left."""
        return command_for(self.step, self.folder)

    @property
    def more_labels(self) -> str:
        """How more labels are come by, in words."""
        return more_labels(self.step, self.waiting, self.folder)

    @property
    def stale(self) -> dict[int, str]:
        """Rounds that the next run trains and measures again, with the reason."""
        return {row.round: row.stale for row in self.rounds if row.stale}

    @property
    def advice(self) -> str:
        """The advice after the last round that has one."""
        return next((row.advice for row in reversed(self.rounds) if row.advice), "")

    @property
    def inferred(self) -> str:
        """How many labels were inferred by transitivity, and how many may be wrong; empty without it."""
        return str(self.inference or "")

    @property
    def answered_by_task(self) -> str:
        """How many questions the task answered with the labels that it states; empty where none."""
        return f"{self.by_task:,} questions were answered from the task's own labels." if self.by_task else ""

    @property
    def disagreement(self) -> str:
        """How many pairs wait because people disagree, and what to do; empty where none does."""
        return disagreement(self.tied, self.folder)

    @property
    def measured_on(self) -> str:
        """The split of the latest figures; empty where none is."""
        return next((row.measured_on for row in reversed(self.rounds) if row.measured_on), "")

    @property
    def warning(self) -> str:
        """A sentence where the split measured is not held out; else empty."""
        return next(filter(None, (not_held_out(row.figures) for row in self.rounds)), "")

    def sentence(self, command: str = "") -> str:
        """Where it stands, in words; `command`: what takes it on."""
        return {
            "finished": "Finished.",
            "stopped": f"Stopped after round {self.round}, as asked: {self.reason}.",
            "waiting": f"Waiting for {self.waiting:,} labels of round {self.round}.",
            "ready": f"Next: {self.step} round {self.round}{f' ({command})' if command else ''}.",
        }[self.state]

    def as_json(self) -> dict[str, Any]:
        """As `pairsieve status --json` prints it."""
        named = ("task", "split", "strategy", "encoder", "learner", "seed")
        return {
            "campaign": str(self.folder),
            **{name: getattr(self.settings, name) for name in named},
            "budget": self.budget,
            "state": self.state,
            "next": {name: getattr(self, name) for name in ("step", "round", "waiting")},
            **({"reason": self.reason} if self.reason else {}),
            **({"lacks": self.lacks} if self.lacks else {}),
            **({"inferred": self.inference.as_json()} if self.inference else {}),
            **({"answered_by_task": self.by_task} if self.by_task else {}),
            **({"disagreements": self.tied} if self.tied else {}),
            "rounds": [row.as_json() for row in self.rounds],
        }

    def _repr_html_(self) -> str:
        """A table of rounds between a heading and a closing sentence."""
        settings = self.settings
        head = f"{self.folder}: {settings.strategy} on {settings.task}, {self.budget:,} labels in all"
        rows = []
        for row in self.rounds:
            ap = "–" if row.average_precision is None else f"{row.average_precision.value:.4f}"
            rows.append((f"{row.round}", f"{row.labels:,}", f"{row.positives:,}", ap))
        split = self.measured_on
        foot = [f"AP: exact, over all pairs of {split}." if split else "", self.warning]
        foot += [self.sentence(), self.disagreement, self.advice]
        return html_table(head, ("round", "labels", "positives", "AP"), rows, " ".join(filter(None, foot)))


def tied(ledger: Ledger) -> Ids:
    """The pairs that wait because people disagree; sorted."""
    return np.intersect1d(ledger.disputed(), ledger.open_questions())


def disagreement(pairs: int, folder: Path, split: str | None = None) -> str:
    """What to do about `pairs` on which people disagree; empty where there is none."""
    if not pairs:
        return ""
    page = f"pairsieve label {quote(str(folder))}{f' --split {split}' if split else ''}"
    wait = "1 pair waits" if pairs == 1 else f"{pairs:,} pairs wait"
    return (
        f"{wait} because people disagree: decide on the page ({page}, Open decisions), or let one more "
        "person answer."
    )


def lacking(model: bool, labels: Mask) -> str:
    """Why no list of matches can be made of the labels given; empty where one can."""
    if not model:
        return f"{UNSURE.capitalize()}, so there is no model to match with."
    if labels.any() and not labels.all():
        return ""
    kind = "matches" if labels.any() else "non-matches"
    return f"All {len(labels):,} labels are {kind}; a list needs at least one match and one non-match."


def more_labels(step: str, waiting: int, folder: Path) -> str:
    """How more labels are come by, where a campaign stands at `step`."""
    place = quote(str(folder))
    run = f"pairsieve run {place}"
    if step == "label":
        wait = "the question that waits" if waiting == 1 else f"the {waiting:,} questions that wait"
        by_file = f"pairsieve ask {place} --out batch.csv and pairsieve import {place} batch.csv"
        return f"Answer {wait} (pairsieve label {place}, or {by_file}), then {run}"
    if step == "stopped":
        again = f"pairsieve run {place} --accept-settings"
        return f"Take stop_when out of {folder / CAMPAIGN_FILE}, then {again}"
    return f"pairsieve extend {place} --labels 40, then {run}" if step == "finished" else run


def command_for(step: str, folder: Path) -> str:
    """The command that does a step: `label` while people owe answers, `run` for everything else."""
    if step in ("finished", "stopped"):
        return ""
    return f"pairsieve {'label' if step == 'label' else 'run'} {quote(str(folder))}"

"""Where are the questions and answers of an audit kept?

Audit pairs of the campaign's own split lie in its ledger, which keeps them out of training. Another split is
another pair space: its row numbers mean other texts, so its audits have a ledger of their own, a SQLite file
in the campaign folder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import LabelSource
from pairsieve.errors import InputError, nearest
from pairsieve.ledger import Ledger, Questions, open_ledger
from pairsieve.sources import TruthSource
from pairsieve.tasks import Split

if TYPE_CHECKING:
    from pairsieve.campaign.loop import Campaign

_OF_ROUND = "audit of round "
_NAME = re.compile(rf"{_OF_ROUND}([0-9]+)(?:: ([0-9]+) labels, draw ([0-9]+))?")


@dataclass(frozen=True)
class AuditPlace:
    """A split that is audited: its texts and pairs, and the ledger that holds its questions."""

    name: str
    part: Split
    ledger: Ledger
    own: bool  # the campaign's own split, on which it was trained

    def sources(self) -> Sequence[LabelSource]:
        """Who answers by itself: the truth, where the split has it."""
        return [TruthSource(self.part.space, self.part.positives)] if self.part.has_truth else []


def audit_place(campaign: Campaign, split: str | None = None) -> AuditPlace:
    """The place of a split's audits; without a name, of the campaign's own split."""
    own, name = campaign.settings.split, split or campaign.settings.split
    if name == own:
        return AuditPlace(name, campaign.split, campaign.ledger, True)
    if name not in campaign.task.splits:
        raise InputError(
            f"no split {name!r}", where=str(campaign.folder), remedy=nearest(name, campaign.task.splits)
        )
    ledger = open_ledger(
        campaign.folder / f"audit-{name}.sqlite", f"{campaign.settings.task_fingerprint} {name}"
    )
    return AuditPlace(name, campaign.task.splits[name], ledger, False)


@dataclass(frozen=True)
class Draw:
    """One draw of an audit, as the ledger names it."""

    model: int  # the round whose model was audited
    budget: int  # labels that the audit of this model was to have in all; 0 where nobody said
    part: int  # which of the model's draws, from 1

    def __str__(self) -> str:
        return f"{_OF_ROUND}{self.model}: {self.budget} labels, draw {self.part}"

    @staticmethod
    def named(words: str) -> Draw:
        found = _NAME.fullmatch(words)
        model, budget, part = found.groups() if found else ("0", None, None)
        return Draw(int(model), int(budget or 0), int(part or 1))


def draws_of(questions: Questions) -> tuple[NDArray[np.int64], dict[int, Draw]]:
    """(n,) 0 for training, else the number of the draw in the order of asking; and what each draw is."""
    numbers, seen = np.zeros(len(questions), np.int64), dict[tuple[int, str], int]()
    for at, purpose in enumerate(questions.purpose):
        if purpose == "audit":
            key = (int(questions.rounds[at]), questions.strategy[at])
            numbers[at] = seen.setdefault(key, len(seen) + 1)
    return numbers, {number: Draw.named(words) for (_, words), number in seen.items()}

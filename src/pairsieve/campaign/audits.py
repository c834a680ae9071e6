"""The audits of a campaign: which ledger holds a split's questions, and an audit of the latest model.

Audit pairs of the campaign's own split lie in its ledger, which keeps them out of training. Another split is
another pair space, whose row numbers mean other texts, so its audits have a ledger of their own: a SQLite
file in the campaign folder.
"""

from __future__ import annotations

from dataclasses import dataclass

from pairsieve.audit.run import ScoredSplit, check_wanted
from pairsieve.audit.run import run_audit as continue_audit
from pairsieve.campaign.figures import AuditFigures, write_checksummed
from pairsieve.campaign.loop import Campaign
from pairsieve.errors import InputError, nearest
from pairsieve.ledger import Ledger, open_ledger
from pairsieve.tasks import Split


@dataclass(frozen=True)
class SplitLedger:
    """A split with texts and pairs, and the ledger that holds its questions."""

    name: str
    split: Split
    ledger: Ledger
    own: bool  # the campaign's own split, on which it was trained


def split_ledger(campaign: Campaign, split: str | None = None) -> SplitLedger:
    """The ledger of a split's questions; without a name, of the campaign's own split."""
    settings = campaign.settings
    name = split or settings.split
    if name == settings.split:
        return SplitLedger(name, campaign.split, campaign.ledger, True)
    if name not in campaign.task.splits:
        remedy = nearest(name, campaign.task.splits)
        raise InputError(f"no split {name!r}", where=str(campaign.folder), remedy=remedy)
    place = campaign.folder / f"audit-{name}.sqlite"
    ledger = open_ledger(place, settings.task_fingerprint, name, settings.campaign_id)
    ledger.check_whole()
    return SplitLedger(name, campaign.task.splits[name], ledger, False)


def run_audit(
    campaign: Campaign,
    budget: int | None = None,
    threshold: float | None = None,
    precision: float | None = None,
    split: str | None = None,
) -> AuditFigures:
    """Continue an audit of the latest model: its figures, or how many labels are missing.

    See `pairsieve.audit.run.run_audit` for budget, threshold and precision.
    """
    check_wanted(budget, threshold, precision)
    latest = campaign.trained_round("to audit")
    place = split_ledger(campaign, split)

    def scored(round: int) -> ScoredSplit:
        scored = campaign.score(place.split, round)
        return ScoredSplit(scored.scan, scored.scorer.head_probability, scored.scorer.even_odds)

    outcome = continue_audit(
        place.ledger,
        place.split,
        scored,
        latest,
        campaign.settings.seed,
        budget=budget,
        threshold=threshold,
        precision=precision,
    )
    figures = AuditFigures(campaign.folder, place.name, outcome.round, outcome.waiting, outcome.result)
    if figures.result is not None:
        kind = "audit" if place.own else f"audit-{place.name}"
        write_checksummed(campaign.folder / "rounds" / f"{kind}-{outcome.round:03d}.json", figures.as_json())
    return figures

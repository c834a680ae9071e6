"""Files to hand on: the report of a campaign, and its model."""

from __future__ import annotations

from pathlib import Path

from pairsieve.campaign import Campaign
from pairsieve.campaign.probability import calibrated_scorer
from pairsieve.errors import InputError
from pairsieve.files import atomic_folder, write_checksums
from pairsieve.library.campaigns import Place, open_campaign, trained_round
from pairsieve.library.records import ExportedModel, Folder, Report
from pairsieve.measure.curve import measure_exactly
from pairsieve.models.export import append_to_card
from pairsieve.report.facts import gather
from pairsieve.scorer import ScoredSpace, save_scorer
from pairsieve.tasks import Split
from pairsieve.tasks.task import shared_pairs


def write_report(campaign: Place, out: Folder | None = None, *, split: str | None = None) -> Report:
    """Write one HTML page (and its pictures) about a campaign to the folder `out` (the campaign's report)."""
    from pairsieve.report.page import write_report

    campaign = open_campaign(campaign)
    target = campaign.folder / "report" if out is None else Path(out)
    if target.exists() and not target.is_dir():
        raise InputError("this is a file", where=str(target), remedy="Give `out` a folder to write to")
    facts = gather(campaign, split)
    page, *pictures = write_report(facts, target)
    interval = facts.measured.interval if facts.measured is not None else None
    counts = (facts.model, facts.labels, facts.positives)
    return Report(page, tuple(pictures), facts.split, *counts, interval, tuple(facts.missing))


def export_model(campaign: Place, out: Folder, *, round: int | None = None) -> ExportedModel:
    """Write the latest scorer, or that of a round, as a folder; whole or not at all.

    sentence-transformers loads its plain part, `pairsieve.load_scorer` all of it. The average precision of
    both over all pairs is in the model card, where the task has a split with truth to measure it on.
    """
    from safetensors import SafetensorError

    campaign, target = open_campaign(campaign), Path(out)
    of_round = trained_round(campaign, round)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target} exists and is not empty", remedy="Choose a new folder for the model")
    scorer = calibrated_scorer(campaign, of_round)
    split, held_out = _measured_split(campaign)
    whole = plain = None
    if split is not None:
        whole = _average_precision(campaign.score(split, of_round), split)
        plain = _average_precision(campaign.score(split, of_round, scorer.plain()), split)
    parts = (scorer.weight, scorer.bias, scorer.reranker is not None)
    name = None if split is None else split.name
    exported = ExportedModel(target, of_round, *parts, name, held_out, whole, plain, scorer.calibrated)
    try:
        with atomic_folder(target) as folder:
            save_scorer(scorer, folder)
            append_to_card(folder, exported.card())
            write_checksums(folder)
    except (OSError, SafetensorError) as error:
        raise InputError(
            "the model cannot be written",
            where=str(target),
            why=getattr(error, "strerror", None) or str(error),
            remedy="Make room there, or choose another folder",
        ) from error
    return exported


def _average_precision(scored: ScoredSpace, split: Split) -> float:
    return measure_exactly(scored.scan, split.positives).curve.average_precision()


def _measured_split(campaign: Campaign) -> tuple[Split | None, bool]:
    """The split whose truth tells how good a model is, never test unasked; and whether it is held out."""
    splits = campaign.task.splits
    for name in (*campaign.settings.measure_splits, "dev", campaign.settings.split):
        split = splits.get(name)
        if split is not None and split.has_truth and len(split.positives):
            return split, not shared_pairs(campaign.split, split)
    return None, False

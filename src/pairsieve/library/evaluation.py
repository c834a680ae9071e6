"""Measure a scorer over all pairs: a campaign's model, embeddings, a list of scores, or by an audit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pairsieve.campaign.audits import run_audit
from pairsieve.contracts import generator_for
from pairsieve.distributed import open_scan, open_shards
from pairsieve.errors import InputError, nearest
from pairsieve.files import write_errors
from pairsieve.library.campaigns import Place, open_campaign, trained_round
from pairsieve.library.records import Audit, DrawnSample, Evaluation, Folder
from pairsieve.measure import Curve, PairSample, draw, estimate, listed_sample, near_pairs
from pairsieve.measure.figures import (
    RECALLS,
    CorrectedPrecision,
    estimated_figures,
    exact_figures,
    listed_figures,
)
from pairsieve.measure.inputs import checked_embeddings, read_embeddings, read_labels, read_scores, score_of
from pairsieve.measure.sampling import NEAR, POSITIVE, named_pair
from pairsieve.pairs import Scores, pair_rows
from pairsieve.scan import Scan
from pairsieve.settings import CAMPAIGN_FILE
from pairsieve.tables import write_table
from pairsieve.tasks import Split, Task, load_task

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MOST_TO_VERIFY = 50  # putative false positives of either stratum, for a person to label


def evaluate(
    folder: Folder,
    split: str = "test",
    *,
    embeddings: Folder | None = None,
    scores: Folder | None = None,
    manual: Folder | None = None,
    to_verify: Folder | None = None,
    at_recall: float = 0.2,
    plot: Folder | None = None,
    device: str = "auto",
    distributed: str | None = None,
    cache: Folder | None = None,
    seed: int = 0,
) -> Evaluation:
    """`evaluate_model` of a campaign folder; of a task folder `evaluate_embeddings` or `evaluate_scores`.

    plot: draw the precision-recall curve there.
    """
    if plot is not None:
        from pairsieve.report.plots import check_plot

        check_plot(Path(plot))  # before the work, not after it
    for_scores = [each for each in (manual, to_verify) if each is not None]
    if (Path(folder) / CAMPAIGN_FILE).is_file():
        if embeddings is not None or scores is not None or for_scores:
            raise InputError(
                "this is a campaign folder, which is measured by its own model",
                where=str(folder),
                remedy="Give the task folder with `embeddings` or `scores`, or neither for the campaign",
            )
        found = evaluate_model(open_campaign(folder, cache=cache, distributed=distributed), split)
    elif scores is not None and embeddings is None:
        checked = {"manual": manual, "to_verify": to_verify}
        found = evaluate_scores(folder, split, scores, **checked, at_recall=at_recall, seed=seed)
    elif embeddings is None or scores is not None:
        raise InputError(
            "give either `embeddings` or `scores`" + (", not both" if embeddings is not None else ""),
            remedy="Give `embeddings` to measure exactly, and `scores` for any other scorer",
        )
    elif for_scores:
        raise InputError(
            "`manual` and `to_verify` need `scores`",
            why="manual labels correct the scores of listed pairs",
            remedy="Draw the pairs with pairsieve draw, score them, and give the file as `scores`",
        )
    else:
        found = evaluate_embeddings(folder, split, embeddings, device=device, distributed=distributed)
    if plot is not None:
        found.plot(plot)
    return found


def evaluate_model(campaign: Place, split: str = "test", *, round: int | None = None) -> Evaluation:
    """Exact figures of a campaign's model (the latest, or that of a round) over ALL pairs of a split."""
    campaign = open_campaign(campaign)
    of_round = trained_round(campaign, round)
    known = any(each.has_truth for each in campaign.task.splits.values())
    audit = "" if known else f". Figures without the truth, from labels: pairsieve audit {campaign.folder}"
    measured = _with_truth(campaign.task, split, str(campaign.folder), audit)
    return _exact(campaign.task, measured, campaign.score(measured, of_round).scan, of_round)


def evaluate_embeddings(
    task: Task | Folder,
    split: str,
    left: ArrayLike | Folder,
    right: ArrayLike | None = None,
    *,
    device: str = "auto",
    distributed: str | None = None,
) -> Evaluation:
    """Exact figures of your own embeddings, one row a text in the task's order; a pair scores its cosine.

    left: (texts, d), or an .npz file with `texts`, or `left` and `right`; right: (right texts, d) where the
    task has two collections.
    """
    held, measured = _task_and_split(task, split)
    return _exact(held, measured, _scan(measured, left, right, device, distributed))


def evaluate_scores(
    task: Task | Folder,
    split: str,
    scores: Folder,
    *,
    manual: Folder | None = None,
    to_verify: Folder | None = None,
    at_recall: float = 0.2,
    seed: int = 0,
) -> Evaluation:
    """Figures from a Parquet file of scores (left, right, score): exact if it lists every pair.

    Where it lists a sample with the column inclusion_probability (see `draw_sample`) they have intervals;
    else unlisted pairs rank last, tied. to_verify: write putative false positives at `at_recall` there, for
    a person to label; manual: such labels, which correct the precision at that recall.
    """
    held, measured = _task_and_split(task, split)
    listed = read_scores(Path(scores), measured.space)
    ranks, values = listed.ranks()
    complete = len(listed.ids) == measured.space.size
    notes: list[str] = []
    if not complete and listed.inclusion_probability is None:
        if manual is not None or to_verify is not None:
            raise InputError(
                "`manual` and `to_verify` need a list that speaks for every pair",
                where=str(scores),
                why=f"it lists {len(listed.ids):,} of {measured.space.size:,} pairs, without the column "
                "inclusion_probability",
                remedy="Draw the pairs to score with pairsieve draw",
            )
        figures, curve, found = listed_figures(measured.space, listed.ids, ranks, measured.positives)
        notes.append(
            f"{scores} lists {len(listed.ids):,} of {measured.space.size:,} pairs, {found:,} of "
            f"{len(measured.positives):,} positives among them: the others rank last, tied. If the list is a "
            "sample, give its column inclusion_probability (see pairsieve draw)."
        )
    else:
        # A complete list needs no chances: every pair is there.
        chances = None if complete else listed.inclusion_probability
        sample, sampled = listed_sample(
            measured.space, listed.ids, ranks, measured.positives, chances, where=listed.where
        )
        if complete:
            figures, curve, _ = listed_figures(measured.space, listed.ids, ranks, measured.positives)
        else:
            rng = generator_for(seed, 0, "bootstrap")
            measures = estimate(sample, sampled, measured.space, rng=rng, recalls=RECALLS)
            figures, curve = estimated_figures(measures, len(sample)), measures.curve
        if to_verify is not None:
            notes.append(_write_to_verify(measured, sample, sampled, curve, Path(to_verify), at_recall, seed))
        if manual is not None:
            corrected = _corrected(measured, sample, sampled, curve, Path(manual), at_recall, seed)
            corrected = replace(corrected, threshold=score_of(corrected.threshold or 0.0, values))
            figures = replace(figures, corrected_precision=corrected)
    best = figures.best_f1
    assert best.threshold is not None
    figures = replace(figures, best_f1=replace(best, threshold=score_of(best.threshold, values)))
    return Evaluation(held.name, split, figures, curve, notes=tuple(notes))


def draw_sample(
    task: Task | Folder,
    split: str,
    embeddings: ArrayLike | Folder,
    out: Folder,
    *,
    neighbours: int = 100,
    random: int = 1_000_000,
    seed: int = 0,
    device: str = "auto",
    distributed: str | None = None,
) -> DrawnSample:
    """Draw the pairs that a slow scorer must score, and write them as Parquet with their chances.

    All positives, the negatives among each text's nearest `neighbours` by `embeddings`, and `random` others.
    """
    _, measured = _task_and_split(task, split)
    scan = _scan(measured, embeddings, None, device, distributed)
    nearest_rows, _ = scan.neighbours(min(neighbours, measured.space.shape[1] - measured.space.symmetric))
    near, _ = near_pairs(measured.space, nearest_rows, measured.positives)
    sample = draw(measured.space, measured.positives, near, random, generator_for(seed, 0, "draw"))
    left, right = pair_rows(sample.ids)
    strata = np.array(["positive", "near", "random"])[sample.stratum]
    columns: dict[str, Any] = {"left": left, "right": right, "stratum": strata}
    columns["inclusion_probability"] = sample.inclusion_probability
    types = {"left": "int64", "right": "int64", "stratum": "string", "inclusion_probability": "float64"}
    with write_errors("the sample", out, "Choose another `out`"):
        write_table(Path(out), types, columns, suffix=".parquet")
    positive, near_ones, others = (int((strata == name).sum()) for name in ("positive", "near", "random"))
    return DrawnSample(Path(out), positive, near_ones, others, measured.space.size)


def audit_model(
    campaign: Place,
    budget: int | None = None,
    *,
    threshold: float | None = None,
    precision: float | None = None,
    split: str | None = None,
) -> Audit:
    """Precision, recall, AP and matches without the truth, from labels drawn to measure; with intervals.

    While labels are missing the answer's `state` is "waiting": see `open_questions`, and call it again.
    """
    return Audit.of(run_audit(open_campaign(campaign), budget, threshold, precision, split))


def _exact(task: Task, measured: Split, scan: Scan, round: int | None = None) -> Evaluation:
    figures, curve = exact_figures(scan, measured.positives, measured.stated_negatives)
    return Evaluation(task.name, measured.name, figures, curve, round)


def _task_and_split(task: Task | Folder, split: str) -> tuple[Task, Split]:
    held = task if isinstance(task, Task) else load_task(Path(task))
    return held, _with_truth(held, split, held.name if isinstance(task, Task) else str(task))


def _with_truth(task: Task, name: str, where: str, audit: str = "") -> Split:
    if name not in task.splits:
        raise InputError(f"no split {name!r}", where=where, remedy=nearest(name, task.splits) + audit)
    measured = task.splits[name]
    if not measured.has_truth:
        raise InputError(
            f"split {name!r} has no truth",
            where=where,
            why="without the label of every pair, nobody can count false positives",
            remedy=f"Make the task with its known matches: pairsieve data tables --matches FILE{audit}",
        )
    if len(measured.positives) == 0:
        raise InputError(
            f"split {name!r} has no positive pairs",
            where=where,
            why=f"average precision over its {measured.space.size:,} pairs is not defined without one",
            remedy="Measure another split, or give the task its known matches",
        )
    return measured


def _scan(
    measured: Split, left: ArrayLike | Folder, right: ArrayLike | None, device: str, distributed: str | None
) -> Scan:
    """All pairs of a split by the cosine of given embeddings, as arrays or in a file."""
    _check_device(device)
    if isinstance(left, str | Path):
        rows = read_embeddings(Path(left), measured.space)
    else:
        rows = checked_embeddings(left, right, measured.space)
    return open_scan(open_shards(distributed), measured.space, *rows, device=device)


def _check_device(device: str) -> None:
    """Refuse a device that is unknown or absent; torch would answer with a traceback."""
    if device in ("auto", "cpu"):
        return
    if device != "cuda" and not (device.startswith("cuda:") and device[5:].isdecimal()):
        raise InputError(f"unknown `device` {device!r}", remedy=nearest(device, ("auto", "cpu", "cuda")))
    import torch

    if not torch.cuda.is_available():
        raise InputError(
            f"`device={device!r}`: there is no CUDA GPU here",
            why="PyTorch finds none, or was installed without CUDA",
            remedy="Use `device='cpu'`",
        )


def _write_to_verify(
    measured: Split, sample: PairSample, scores: Scores, curve: Curve, out: Path, at_recall: float, seed: int
) -> str:
    """Write putative false positives of either stratum, with their texts; returns what to do with them."""
    from pairsieve.measure import to_verify

    threshold = float(curve.thresholds[curve.at_recall(at_recall)])
    rng = generator_for(seed, 0, "verify")
    drawn = to_verify(sample, scores, threshold, MOST_TO_VERIFY, MOST_TO_VERIFY, rng)
    ids = np.sort(np.concatenate([drawn.near, drawn.random]))
    names = ("left", "right", "left_text", "right_text")
    columns: dict[str, Any] = dict(zip(names, (*pair_rows(ids), *measured.texts(ids))))
    types = {"left": "int64", "right": "int64", "left_text": "string", "right_text": "string"}
    with write_errors("the pairs", out, "Choose another `to_verify`"):
        write_table(out, types, columns, suffix=".parquet")
    found = f"{len(ids):,} putative false positives at recall {at_recall:g}"
    return f"{out}: {found}. Add a column label, 1 or 0."


def _corrected(
    measured: Split,
    sample: PairSample,
    scores: Scores,
    curve: Curve,
    manual: Path,
    at_recall: float,
    seed: int,
) -> CorrectedPrecision:
    """Precision at a recall, corrected by a person's labels of putative false positives."""
    from pairsieve.measure import corrected_precision, to_verify

    ids, labels = read_labels(manual, measured.space)
    threshold = curve.thresholds[curve.at_recall(at_recall)]
    at = np.minimum(np.searchsorted(sample.ids, ids), len(sample.ids) - 1)
    reasons = {
        "it is not among the scored pairs": sample.ids[at] != ids,
        "it is a known positive": sample.stratum[at] == POSITIVE,
        "it scores below the threshold": scores[at] < threshold,
    }
    refused = np.any(list(reasons.values()), axis=0)
    if refused.any():
        first = int(np.argmax(refused))
        raise InputError(
            f"{int(refused.sum()):,} of {len(ids):,} labelled pairs are no putative false positives at "
            f"recall {at_recall:g}, first {named_pair(ids[first])} in row {first} (from 0)",
            where=str(manual),
            why=next(reason for reason, mask in reasons.items() if mask[first]),
            remedy="Label scored pairs that reach the threshold and are no known positives",
        )
    counts = to_verify(sample, scores, float(threshold), 0, 0, generator_for(seed, 0, "manual"))
    near = sample.stratum[at] == NEAR
    precision = corrected_precision(
        counts.true_positives,
        counts.false_near,
        counts.false_random,
        labels[near].tolist(),
        labels[~near].tolist(),
        generator_for(seed, 0, "jeffreys"),
        random_weight=counts.random_weight,
    )
    return CorrectedPrecision(at_recall, float(threshold), precision)

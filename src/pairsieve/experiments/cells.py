"""How is one cell run, and which figures does it leave?

A cell has a folder of its own; its figures are sealed there when it is finished. A cell that was stopped
goes on where it was (a campaign resumes by itself), one that is finished is only read.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pairsieve.artifacts import ArtifactStore, file_digest, key_digest
from pairsieve.campaign import Campaign, create_campaign
from pairsieve.campaign.figures import read_sealed, write_sealed
from pairsieve.contracts import Estimate, generator_for
from pairsieve.errors import InputError
from pairsieve.experiments.declared import ALL_STATED, MATCHED, Cell
from pairsieve.experiments.ground import Ground
from pairsieve.experiments.looking import look_by_hand
from pairsieve.measure.curve import Curve, curve_from_counts
from pairsieve.measure.exact import measure_exactly
from pairsieve.measure.figures import exact_figures
from pairsieve.tasks import Split

if TYPE_CHECKING:
    from pairsieve.models import CrossMatcher
    from pairsieve.pairs import Ids, Mask
    from pairsieve.scan import Scan

FIGURES = "figures.json"
DISTINCT, MIRRORED = "distinct", "mirrored"

Say = Callable[[str], None]
Figure = dict[str, Any]  # round, labels, split, measure, counting, value, low, high, n, method


def cell_folder(cell: Cell, ground: Ground) -> Path:
    """Named for people, and by a digest of all that the cell's figures depend on."""
    key: dict[str, Any] = {
        "cell": cell.name,
        "task": ground.task.fingerprint,
        "encoder": ground.encoder.fingerprint,
        "learner": ground.trained_by,
    }
    if cell.model in ("concat", "manual"):
        key |= {"near": ground.near, "random": ground.random}
    if cell.model == "manual" and ground.labels is not None:
        key |= {"labels": file_digest(ground.labels)}
    place = ground.out / "cells" / ground.task.name / ground.encoder_label
    return place / f"{cell.name}-{key_digest(key)[:8]}"


def finished(cell: Cell, ground: Ground) -> dict[str, Any] | None:
    """What a finished cell left: `figures`, and how it was trained; None where it is not finished."""
    return read_sealed(cell_folder(cell, ground) / FIGURES)


def run_cell(cell: Cell, ground: Ground, say: Say) -> dict[str, Any]:
    """Run a cell to its end, or read it where that was reached before."""
    folder = cell_folder(cell, ground)
    done = read_sealed(folder / FIGURES)
    if done is not None:
        return done
    folder.mkdir(parents=True, exist_ok=True)
    made = {
        "data": _count,
        "untrained": _untrained,
        "cosine": _cosine,
        "concat": _concat,
        "manual": _manual,
    }[cell.model](cell, ground, folder, say)
    made["device"] = ground.encoder.device
    write_sealed(folder / FIGURES, made)
    if not ground.keep_models:
        _drop_models(folder)
    return made


def _drop_models(folder: Path) -> None:
    for kind in ("model", "embeddings", "cross"):
        shutil.rmtree(folder / "campaign" / "artifacts" / kind, ignore_errors=True)
        shutil.rmtree(folder / "artifacts" / kind, ignore_errors=True)


# ── counts, and the encoder as it came ──────────────────────────────────────────────────────────


def _count(cell: Cell, ground: Ground, folder: Path, say: Say) -> dict[str, Any]:
    """Table 1's row of each split."""
    figures: list[Figure] = []
    for name, part in ground.task.splits.items():
        for measure in ("positives", "pairs", "ratio", "stated_negatives"):
            value = part.counts()[measure]
            if value is not None:
                figures.append(_exact(0, 0, name, measure, float(value), part.space.size))
    return {"figures": figures, "learner": ""}


def _untrained(cell: Cell, ground: Ground, folder: Path, say: Say) -> dict[str, Any]:
    figures: list[Figure] = []
    for part in ground.measurable():
        scan = ground.scan(part)
        found, _ = exact_figures(scan, part.positives, part.stated_negatives)
        figures += _figures_of(found, 0, 0, part.name)
        figures += _mirrored(ground, part, scan, 0, 0)
        ids, times = ground.nearby(part)
        counts = {DISTINCT: len(ids)} | ({MIRRORED: int(times.sum())} if part.space.symmetric else {})
        for counting, count in counts.items():
            figures.append(_exact(0, 0, part.name, "nearby_negatives", float(count), len(ids), counting))
    return {"figures": figures, "learner": ""}


# ── campaigns ───────────────────────────────────────────────────────────────────────────────────


def _cosine(cell: Cell, ground: Ground, folder: Path, say: Say) -> dict[str, Any]:
    campaign = open_campaign(cell, ground, folder)
    step = campaign.run(lambda words: say(f"{cell.name}: {words}"))
    if step.name != "finished":
        raise InputError(
            f"the campaign stopped at step {step.name!r}",
            where=str(campaign.folder),
            why="an experiment needs a task whose training labels are all known",
            remedy="Give a task folder with truth",
        )
    symmetric = campaign.split.space.symmetric
    figures: list[Figure] = []
    status = campaign.status()["rounds"]
    for row in status:
        number, labels = row["round"], row["labels"]
        for counting, times in ((DISTINCT, 1), *(((MIRRORED, 2),) if symmetric else ())):
            found = float(times * row["positives"])
            figures.append(_exact(number, labels, "train", "positives_found", found, labels, counting))
        for phase, seconds in row.get("seconds", {}).items():
            figures.append(
                _exact(number, labels, "train", f"seconds_{phase}", seconds, 1) | {"method": "clock"}
            )
        for split, measured in row.get("measures", {}).items():
            figures += _figures_of(measured, number, labels, split)
    last = status[-1]["round"]
    for part in ground.measurable():
        if part.space.symmetric:  # of two collections, no pair is mirrored
            rows = campaign.embeddings(campaign.matcher(last), part, last)
            scan = campaign.scan(part.space, *rows)
            figures += _mirrored(ground, part, scan, last, status[-1]["labels"])
    return {"figures": figures, "learner": campaign.learner.name}


def open_campaign(cell: Cell, ground: Ground, folder: Path) -> Campaign:
    """The campaign of a cell, made where it is not there yet; its tokens are those of the ground."""
    place = folder / "campaign"
    if not (place / "campaign.toml").exists():
        left, right = ground.prefixes
        create_campaign(
            place,
            ground.task_folder,
            strategy=_strategy(cell, ground),
            encoder=_portable(ground.encoder_name),
            learner=ground.learner,
            recipe=cell.recipe,
            seed_set=cell.seed_set,
            schedule=cell.schedule,
            seed=cell.seed,
            device=ground.device,
            left_prefix=left,
            right_prefix=right,
            measure_splits=tuple(part.name for part in ground.measurable()),
        )
    campaign = Campaign(place, ground.shared.folder)
    campaign.learner.encoder.token_cache = ground.encoder.token_cache
    return campaign


def _portable(encoder: str) -> str:
    """A folder by its full path, since the campaign is run from elsewhere; a name as it is."""
    return str(Path(encoder).resolve()) if Path(encoder).is_dir() else encoder


def _strategy(cell: Cell, ground: Ground) -> str:
    if cell.strategy != MATCHED:
        return cell.strategy
    like = _needed(cell, ground)
    last = [f for f in like["figures"] if f["measure"] == "positives_found" and f["counting"] == DISTINCT][-1]
    return f"stratified:{int(last['value'])}/{last['labels']}"


def _needed(cell: Cell, ground: Ground) -> dict[str, Any]:
    (need,) = cell.needs()
    done = finished(need, ground)
    if done is None:
        raise InputError(f"{cell.name} needs {need.name}, which is not finished", remedy="Run it first")
    return done


def _mirrored(ground: Ground, part: Split, scan: Scan, number: int, labels: int) -> Iterator[Figure]:
    """Figures that count a negative twice where each text is near the other, as the released code does."""
    if not part.space.symmetric:
        return
    ids, times = ground.nearby(part)
    again = np.sort(scan.scores(ids[times > 1]))
    measures = measure_exactly(scan, part.positives)
    plain = measures.curve
    more = len(again) - np.searchsorted(again, plain.thresholds, side="left")
    curve = curve_from_counts(
        plain.thresholds, plain.true_positives, plain.false_positives + more, plain.positives
    )
    for measure, value in _of_curve(curve).items():
        yield _exact(number, labels, part.name, measure, value, measures.pairs, MIRRORED)


def _of_curve(curve: Curve) -> dict[str, float]:
    return {
        "average_precision": curve.average_precision(),
        "precision_at_recall_0.2": curve.precision_at_recall(0.2),
    }


# ── concatenation models ────────────────────────────────────────────────────────────────────────


def _concat(cell: Cell, ground: Ground, folder: Path, say: Say) -> dict[str, Any]:
    from pairsieve.measure.balanced import best_threshold, pair_measures, rank_measures

    train = ground.task.splits["train"]
    ids, labels = _training_pairs(cell, ground, train)
    say(f"{cell.name}: training on {len(ids):,} pairs, {int(labels.sum()):,} of them matches")
    matcher = _fit_concat(cell, ground, folder, train, ids, labels)
    figures: list[Figure] = []
    stated: dict[str, tuple[Any, ...]] = {}
    for part in ground.measurable():
        say(f"{cell.name}: scoring {part.name}")
        stated[part.name] = _stated_scores(matcher, part)
        if part.name != "test":  # dev's stated pairs choose the threshold; the sample is dear
            continue
        for counting, found in _estimated(cell, ground, matcher, part):
            figures += _estimates(found, len(ids), part.name, counting)
    chosen_on = "dev" if "dev" in stated else next(iter(stated), "")
    for name, (pairs, scores, truth) in stated.items():
        if not 0 < truth.sum() < len(truth):
            continue  # without a stated negative there is nothing to balance
        threshold = best_threshold(*stated[chosen_on][1:])
        at = pair_measures(scores, truth, threshold)
        claims = {"balanced_accuracy": at.accuracy, "balanced_f1": at.f1}
        if not train.space.symmetric:
            claims["balanced_clean_map"] = rank_measures(pairs, scores, truth).mean_average_precision
        for measure, value in claims.items():
            figures.append(_exact(1, len(ids), name, measure, value, len(truth)))
    return {"figures": figures, "learner": "cross"}


def _training_pairs(cell: Cell, ground: Ground, train: Split) -> tuple[Ids, Mask]:
    if cell.strategy != ALL_STATED:
        (need,) = cell.needs()
        _needed(cell, ground)
        return open_campaign(need, ground, cell_folder(need, ground)).ledger.labels()
    if len(train.stated_negatives) == 0:
        raise InputError(
            f"{ground.task.name} states no negatives", remedy="Choose a task with stated pairs on both sides"
        )
    ids = np.sort(np.concatenate([train.positives, train.stated_negatives]))
    return ids, np.isin(ids, train.positives)


def _fit_concat(
    cell: Cell, ground: Ground, folder: Path, train: Split, ids: Ids, labels: Mask
) -> CrossMatcher:
    from pairsieve.models import CrossEncoder, TrainingSettings, load_cross
    from pairsieve.models.full import rate_for

    epochs = 2 if train.space.symmetric else 3  # the paper: 2 on QQP, 3 on WikiQA
    learner = CrossEncoder(
        ground.encoder, TrainingSettings(learning_rate=rate_for(ground.encoder), epochs=epochs)
    )

    def build(place: Path) -> None:
        rng = generator_for(cell.seed, 1, "concat")
        learner.fit(train.left.texts, train.right.texts, ids, labels, rng).save(place)

    key = {"learner": learner.fingerprint, "seed": cell.seed, "pairs": len(ids)}
    place = ArtifactStore(folder / "artifacts").get("cross", key, build)
    return load_cross(place, None if ground.device == "auto" else ground.device)


def _stated_scores(matcher: CrossMatcher, part: Split) -> tuple[Any, ...]:
    ids = np.sort(np.concatenate([part.positives, part.stated_negatives]))
    scores = matcher.logits(part.left.texts, part.right.texts, ids)
    return ids, scores, np.isin(ids, part.positives)


def _estimated(
    cell: Cell, ground: Ground, matcher: CrossMatcher, part: Split
) -> Iterator[tuple[str, dict[str, Estimate]]]:
    """All-pairs figures from a sample, in both countings where they differ."""
    from pairsieve.measure.estimated import estimate
    from pairsieve.measure.sampling import draw

    near, times = ground.nearby(part, ground.near)
    sample = draw(part.space, part.positives, near, ground.random, generator_for(0, 0, f"draw {part.name}"))
    scores = matcher.logits(part.left.texts, part.right.texts, sample.ids)
    twice = np.isin(sample.ids, near[times > 1])
    countings = {DISTINCT: sample}
    if part.space.symmetric:
        counted = np.where(twice, np.float32(2), sample.counted)
        countings[MIRRORED] = replace(sample, counted=counted, near_counting="ordered")
    for counting, drawn in countings.items():
        rng = generator_for(cell.seed, 1, f"interval {part.name}")
        found = estimate(drawn, scores, part.space, rng=rng, recalls=(0.2,), repeats=100, resample="draw")
        yield (
            counting,
            {
                "average_precision": found.average_precision,
                "precision_at_recall_0.2": found.precision_at_recall[0.2],
            },
        )


# ── a person's look ─────────────────────────────────────────────────────────────────────────────


def _manual(cell: Cell, ground: Ground, folder: Path, say: Say) -> dict[str, Any]:
    """Precision at recall 0.2 of the last model, imputed and, given labels, corrected (`looking.py`)."""
    (need,) = cell.needs()
    _needed(cell, ground)
    campaign = open_campaign(need, ground, cell_folder(need, ground))
    last = campaign.latest()
    part = ground.task.splits["dev"]
    rows = campaign.embeddings(campaign.matcher(last), part, last)
    found = look_by_hand(ground, part, campaign.scan(part.space, *rows), cell.seed, folder, say)
    if not ground.keep_models:
        _drop_models(cell_folder(need, ground))
    bought = len(campaign.ledger.labels()[0])
    return {
        "figures": list(_estimates(found, bought, part.name, DISTINCT, last)),
        "learner": campaign.learner.name,
    }


# ── figures ─────────────────────────────────────────────────────────────────────────────────────


def _exact(
    number: int, labels: int, split: str, measure: str, value: float, n: int, counting: str = DISTINCT
) -> Figure:
    return _figure(number, labels, split, measure, counting, Estimate.exact(value, n))


def _figure(number: int, labels: int, split: str, measure: str, counting: str, found: Estimate) -> Figure:
    head = {"round": number, "labels": labels, "split": split, "measure": measure, "counting": counting}
    return head | found.as_json()


def _estimates(
    found: Mapping[str, Estimate], labels: int, split: str, counting: str, number: int = 1
) -> Iterator[Figure]:
    for measure, value in found.items():
        yield _figure(number, labels, split, measure, counting, value)


def _figures_of(measured: Mapping[str, Any], number: int, labels: int, split: str) -> Iterator[Figure]:
    """The figures of one exact measurement, and what the stated pairs alone would claim."""
    pairs = measured["pairs"]
    told = {
        "average_precision": measured["average_precision"]["value"],
        "best_f1": measured["best_f1"]["value"],
        **{f"precision_at_recall_{r}": p["value"] for r, p in measured["precision_at_recall"].items()},
    }
    for measure, value in told.items():
        yield _exact(number, labels, split, measure, value, pairs)
    claims = measured.get("balanced")
    if claims:
        said = {
            "balanced_average_precision": claims["average_precision"],
            "balanced_f1": claims["best_f1"]["value"],
            "balanced_accuracy": claims["accuracy"],
        }
        if "by_question" in claims:
            said["balanced_clean_map"] = claims["by_question"]["mean_average_precision"]
        for measure, value in said.items():
            yield _exact(number, labels, split, measure, value, claims["pairs"])


def in_a_line(done: dict[str, Any]) -> str:
    """A finished cell in a few words."""
    wanted = ("average_precision", "test", DISTINCT)
    found = [f for f in done["figures"] if (f["measure"], f["split"], f["counting"]) == wanted]
    return f"test AP {found[-1]['value']:.4f}" if found else f"{len(done['figures'])} figures"

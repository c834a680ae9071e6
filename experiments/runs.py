"""Execution of one run: counts, an untrained encoder, a campaign, a concatenation model, a manual check.

A run has a folder of its own; its figures are written there with a digest when it is finished. An
interrupted run resumes where it was (a campaign resumes by itself); a finished one is only read.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.definitions import ALL_STATED, BALANCED_STATED, MATCHED, PAPER_SCHEDULE, Run, split_recipe
from experiments.manual_verification import verify_by_hand
from experiments.setup import MEASURED_SPLITS, Setup
from pairsieve.artifacts import ArtifactStore, file_digest, key_digest
from pairsieve.campaign import Campaign, create_campaign
from pairsieve.campaign.figures import read_checksummed, write_checksummed
from pairsieve.contracts import Estimate, generator_for
from pairsieve.errors import InputError
from pairsieve.measure.curve import Curve, curve_from_counts, curve_from_scores, measure_exactly
from pairsieve.measure.figures import Figures, exact_figures
from pairsieve.tasks import Split

if TYPE_CHECKING:
    from pairsieve.models import CrossMatcher
    from pairsieve.pairs import Ids, Mask
    from pairsieve.scan import Scan

FIGURES = "figures.json"
DISTINCT, MIRRORED = "distinct", "mirrored"

Report = Callable[[str], None]
Figure = dict[str, Any]  # round, labels, split, measure, counting, value, low, high, n, method


def run_folder(run: Run, setup: Setup) -> Path:
    """A readable name, and a digest of everything that the figures depend on."""
    key: dict[str, Any] = {
        "run": run.name,
        "task": setup.task.fingerprint,
        "encoder": setup.encoder.fingerprint,
        "learner": setup.learner_name,
    }
    if run.model in ("concat", "manual"):
        key |= {"near": setup.near, "random": setup.random}
    if run.model == "manual" and setup.labels is not None:
        key |= {"labels": file_digest(setup.labels)}
    if setup.measured_splits != MEASURED_SPLITS:
        key |= {"splits": list(setup.measured_splits)}
    place = setup.out / "runs" / setup.task.name / setup.encoder_label
    return place / f"{run.name}-{key_digest(key)[:8]}"


def finished(run: Run, setup: Setup) -> dict[str, Any] | None:
    """The result of a finished run: `figures`, `learner` and `device`; None where it is not finished."""
    return read_checksummed(run_folder(run, setup) / FIGURES, dict)


def execute(run: Run, setup: Setup, say: Report) -> dict[str, Any]:
    """Execute a run to its end, or read the result of a finished one."""
    folder = run_folder(run, setup)
    done = read_checksummed(folder / FIGURES, dict)
    if done is not None:
        return done
    folder.mkdir(parents=True, exist_ok=True)
    result = {
        "data": _count,
        "untrained": _untrained,
        "cosine": _cosine,
        "concat": _concat,
        "manual": _manual,
    }[run.model](run, setup, folder, say)
    result["device"] = setup.encoder.device
    write_checksummed(folder / FIGURES, result)
    if not setup.keep_models:
        _drop_models(folder)
    return result


def _drop_models(folder: Path) -> None:
    for kind in ("model", "embeddings", "cross"):
        shutil.rmtree(folder / "campaign" / "artifacts" / kind, ignore_errors=True)
        shutil.rmtree(folder / "artifacts" / kind, ignore_errors=True)


# ── counts, and the untrained encoder ───────────────────────────────────────────────────────────


def _count(run: Run, setup: Setup, folder: Path, say: Report) -> dict[str, Any]:
    """Table 1's row of each split."""
    figures: list[Figure] = []
    for name, split in setup.task.splits.items():
        for measure in ("positives", "pairs", "ratio", "stated_negatives"):
            value = split.counts()[measure]
            if value is not None:
                figures.append(_exact(0, 0, name, measure, float(value), split.space.size))
    return {"figures": figures, "learner": ""}


def _untrained(run: Run, setup: Setup, folder: Path, say: Report) -> dict[str, Any]:
    """The encoder as it came: by plain cosines, or, with a recipe, by its score without labels."""
    figures: list[Figure] = []
    if run.recipe:
        begun = replace(run, strategy="uncertainty", seed_set="static", schedule=PAPER_SCHEDULE)
        campaign = open_campaign(begun, setup, folder)
        for split in setup.measurable():
            scan = campaign.score(campaign.task.splits[split.name], 0).scan
            found, _ = exact_figures(scan, split.positives, split.stated_negatives)
            figures += _figures_of(found, 0, 0, split.name)
        return {"figures": figures, "learner": ""}
    for split in setup.measurable():
        scan = setup.scan(split)
        found, _ = exact_figures(scan, split.positives, split.stated_negatives)
        figures += _figures_of(found, 0, 0, split.name)
        figures += _mirrored(setup, split, scan, 0, 0)
        ids, times = setup.nearby(split)
        counts = {DISTINCT: len(ids)} | ({MIRRORED: int(times.sum())} if split.space.symmetric else {})
        for counting, count in counts.items():
            figures.append(_exact(0, 0, split.name, "nearby_negatives", float(count), len(ids), counting))
    return {"figures": figures, "learner": ""}


# ── campaigns ───────────────────────────────────────────────────────────────────────────────────


def _cosine(run: Run, setup: Setup, folder: Path, say: Report) -> dict[str, Any]:
    campaign = open_campaign(run, setup, folder)
    step = campaign.run(lambda words: say(f"{run.name}: {words}"))
    if step.name != "finished":
        raise InputError(
            f"the campaign stopped at step {step.name!r}",
            where=str(campaign.folder),
            why="an experiment needs a task whose training labels are all known",
            remedy="Give a task folder with truth",
        )
    symmetric = campaign.split.space.symmetric
    figures: list[Figure] = []
    rounds = campaign.status().rounds
    for row in rounds:
        number, labels = row.round, row.labels
        for counting, times in ((DISTINCT, 1), *(((MIRRORED, 2),) if symmetric else ())):
            found = float(times * row.positives)
            figures.append(_exact(number, labels, "train", "positives_found", found, labels, counting))
        for phase, seconds in row.seconds.items():
            figures.append(
                _exact(number, labels, "train", f"seconds_{phase}", seconds, 1) | {"method": "clock"}
            )
        for name, measured in (row.figures.measures if row.figures else {}).items():
            figures += _figures_of(measured, number, labels, name)
    last = rounds[-1]
    for split in setup.measurable():
        if split.space.symmetric:  # of two collections, no pair is mirrored
            scan = campaign.score(split, last.round).scan
            figures += _mirrored(setup, split, scan, last.round, last.labels)
    return {"figures": figures, "learner": campaign.trainer.learner.name}


def open_campaign(run: Run, setup: Setup, folder: Path) -> Campaign:
    """The campaign of a run, created where it does not exist; it shares the setup's cache of tokens."""
    place = folder / "campaign"
    if not (place / "campaign.toml").exists():
        left, right = setup.prefixes
        recipe, changes = split_recipe(run.recipe)
        # Recipes are compared by their bi-encoders, as in the paper; a change may name a re-ranker.
        settings: dict[str, Any] = {
            "learner": setup.learner,
            "device": setup.device,
            "reranker": "off",
        } | changes
        create_campaign(
            place,
            setup.task_folder,
            strategy=_strategy(run, setup),
            encoder=_portable(setup.encoder_name),
            recipe=recipe,
            seed_set=run.seed_set,
            schedule=run.schedule,
            seed=run.seed,
            left_prefix=left,
            right_prefix=right,
            measure_splits=tuple(split.name for split in setup.measurable()),
            **settings,
        )
    campaign = Campaign(place, setup.shared.folder)
    campaign.trainer.learner.encoder.token_cache = setup.encoder.token_cache
    return campaign


def _portable(encoder: str) -> str:
    """A folder by its full path, since the campaign runs from another folder; a name as it is."""
    return str(Path(encoder).resolve()) if Path(encoder).is_dir() else encoder


def _strategy(run: Run, setup: Setup) -> str:
    if run.strategy != MATCHED:
        return run.strategy
    like = _dependency_result(run, setup)
    last = [f for f in like["figures"] if f["measure"] == "positives_found" and f["counting"] == DISTINCT][-1]
    return f"stratified:{int(last['value'])}/{last['labels']}"


def _dependency_result(run: Run, setup: Setup) -> dict[str, Any]:
    (dependency,) = run.dependencies()
    done = finished(dependency, setup)
    if done is None:
        raise InputError(f"{run.name} needs {dependency.name}, which is not finished", remedy="Run it first")
    return done


def _mirrored(setup: Setup, split: Split, scan: Scan, number: int, labels: int) -> Iterator[Figure]:
    """Figures that count a negative twice where each text is near the other, as the paper's code does."""
    if not split.space.symmetric:
        return
    ids, times = setup.nearby(split)
    again = np.sort(scan.scores(ids[times > 1]))
    measures = measure_exactly(scan, split.positives)
    plain = measures.curve
    more = len(again) - np.searchsorted(again, plain.thresholds, side="left")
    curve = curve_from_counts(
        plain.thresholds, plain.true_positives, plain.false_positives + more, plain.positives
    )
    for measure, value in _of_curve(curve).items():
        yield _exact(number, labels, split.name, measure, value, measures.pairs, MIRRORED)


def _of_curve(curve: Curve) -> dict[str, float]:
    return {
        "average_precision": curve.average_precision(),
        "precision_at_recall_0.2": curve.precision_at_recall(0.2),
    }


# ── concatenation models ────────────────────────────────────────────────────────────────────────


def _concat(run: Run, setup: Setup, folder: Path, say: Report) -> dict[str, Any]:
    from pairsieve.measure.figures import pair_measures, rank_measures

    train = setup.task.splits["train"]
    ids, labels = _training_pairs(run, setup, train)
    say(f"{run.name}: training on {len(ids):,} pairs, {int(labels.sum()):,} of them matches")
    matcher = _fit_concat(run, setup, folder, train, ids, labels)
    figures: list[Figure] = []
    stated: dict[str, tuple[Any, ...]] = {}
    for split in setup.measurable():
        say(f"{run.name}: scoring {split.name}")
        stated[split.name] = _stated_scores(matcher, split)
        if split.name != "test":  # dev's stated pairs choose the threshold; scoring a sample is slow
            continue
        for counting, found in _estimated(run, setup, matcher, split):
            figures += _estimates(found, len(ids), split.name, counting)
    chosen_on = "dev" if "dev" in stated else next(iter(stated), "")
    for name, (pairs, scores, truth) in stated.items():
        if not 0 < truth.sum() < len(truth):
            continue  # without a stated negative there is nothing to balance
        _, chosen_scores, chosen_truth = stated[chosen_on]
        best = curve_from_scores(chosen_scores[chosen_truth], chosen_scores[~chosen_truth]).best_f1()
        at = pair_measures(scores, truth, best.threshold)
        claims = {"balanced_accuracy": at.accuracy, "balanced_f1": at.f1}
        if not train.space.symmetric:
            claims["balanced_clean_map"] = rank_measures(pairs, scores, truth).mean_average_precision
        for measure, value in claims.items():
            figures.append(_exact(1, len(ids), name, measure, value, len(truth)))
    return {"figures": figures, "learner": "cross"}


def _training_pairs(run: Run, setup: Setup, train: Split) -> tuple[Ids, Mask]:
    if run.strategy not in (ALL_STATED, BALANCED_STATED):
        (dependency,) = run.dependencies()
        _dependency_result(run, setup)
        return open_campaign(dependency, setup, run_folder(dependency, setup)).ledger.labels()
    if len(train.stated_negatives) == 0:
        raise InputError(
            f"{setup.task.name} states no negatives", remedy="Choose a task with stated pairs on both sides"
        )
    positives = train.positives
    if run.strategy == BALANCED_STATED:
        rng = generator_for(run.seed, 0, "balanced")
        positives = rng.choice(positives, min(len(positives), len(train.stated_negatives)), replace=False)
    ids = np.sort(np.concatenate([positives, train.stated_negatives]))
    return ids, np.isin(ids, train.positives)


def _fit_concat(run: Run, setup: Setup, folder: Path, train: Split, ids: Ids, labels: Mask) -> CrossMatcher:
    from pairsieve.models import CrossEncoder, TrainingSettings, load_cross
    from pairsieve.models.full import rate_for

    epochs = 2 if train.space.symmetric else 3  # the paper: 2 on QQP, 3 on WikiQA
    learner = CrossEncoder(
        setup.encoder, TrainingSettings(learning_rate=rate_for(setup.encoder), epochs=epochs)
    )

    def build(place: Path) -> None:
        rng = generator_for(run.seed, 1, "concat")
        learner.fit((train.left.texts, train.right.texts), ids, labels, rng).save(place)

    key = {"learner": learner.fingerprint, "seed": run.seed, "pairs": len(ids)}
    place = ArtifactStore(folder / "artifacts").get("cross", key, build)
    return load_cross(place, None if setup.device == "auto" else setup.device)


def _stated_scores(matcher: CrossMatcher, split: Split) -> tuple[Any, ...]:
    ids = np.sort(np.concatenate([split.positives, split.stated_negatives]))
    scores = matcher.logits(split.left.texts, split.right.texts, ids)
    return ids, scores, np.isin(ids, split.positives)


def _estimated(
    run: Run, setup: Setup, matcher: CrossMatcher, split: Split
) -> Iterator[tuple[str, dict[str, Estimate]]]:
    """All-pairs figures from a sample, in both countings where they differ."""
    from pairsieve.measure.estimated import estimate
    from pairsieve.measure.sampling import draw

    near, times = setup.nearby(split, setup.near)
    sample = draw(split.space, split.positives, near, setup.random, generator_for(0, 0, f"draw {split.name}"))
    scores = matcher.logits(split.left.texts, split.right.texts, sample.ids)
    twice = np.isin(sample.ids, near[times > 1])
    countings = {DISTINCT: sample}
    if split.space.symmetric:
        counted = np.where(twice, np.float32(2), sample.counted)
        countings[MIRRORED] = replace(sample, counted=counted, near_counting="ordered")
    for counting, drawn in countings.items():
        rng = generator_for(run.seed, 1, f"interval {split.name}")
        found = estimate(drawn, scores, split.space, rng=rng, recalls=(0.2,), repeats=100, resample="draw")
        yield (
            counting,
            {
                "average_precision": found.average_precision,
                "precision_at_recall_0.2": found.precision_at_recall[0.2],
            },
        )


# ── manual verification ─────────────────────────────────────────────────────────────────────────


def _manual(run: Run, setup: Setup, folder: Path, say: Report) -> dict[str, Any]:
    """Precision at recall 0.2 of the last model, imputed and, given labels, corrected."""
    (dependency,) = run.dependencies()
    _dependency_result(run, setup)
    campaign = open_campaign(dependency, setup, run_folder(dependency, setup))
    last = campaign.latest()
    split = setup.task.splits["dev"]
    found = verify_by_hand(setup, split, campaign.score(split, last).scan, run.seed, folder, say)
    if not setup.keep_models:
        _drop_models(run_folder(dependency, setup))
    bought = len(campaign.ledger.labels()[0])
    return {
        "figures": list(_estimates(found, bought, split.name, DISTINCT, last)),
        "learner": campaign.trainer.learner.name,
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


def _figures_of(measured: Figures, number: int, labels: int, split: str) -> Iterator[Figure]:
    """The figures of one exact measurement, and the figures over the stated pairs alone."""
    figures = {
        "average_precision": measured.average_precision.value,
        "best_f1": measured.best_f1.value,
        **{f"precision_at_recall_{r:g}": p.value for r, p in measured.precision_at_recall.items()},
    }
    for measure, value in figures.items():
        yield _exact(number, labels, split, measure, value, measured.pairs)
    claims = measured.balanced
    if claims:
        balanced = {
            "balanced_average_precision": claims.average_precision,
            "balanced_f1": claims.best_f1.value,
            "balanced_accuracy": claims.accuracy,
        }
        if claims.by_question is not None:
            balanced["balanced_clean_map"] = claims.by_question.mean_average_precision
        for measure, value in balanced.items():
            yield _exact(number, labels, split, measure, value, claims.pairs)


def summary(done: dict[str, Any]) -> str:
    """A finished run's result in a few words."""
    wanted = ("average_precision", "test", DISTINCT)
    found = [f for f in done["figures"] if (f["measure"], f["split"], f["counting"]) == wanted]
    return f"test AP {found[-1]['value']:.4f}" if found else f"{len(done['figures'])} figures"

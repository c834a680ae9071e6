"""Trainings of the whole encoder on the same labels: settings compared over several random orders.

    python -m experiments.bench.fixed_labels --task TASK --encoder FOLDER --labels FILE.npz [--left-prefix P]
        [--right-prefix P] [--seeds 4] [--first-seed 0] [--split dev] [--json FILE] [--until SECONDS]
        NAME:recipe=best,KEY=VALUE,... [NAME:...]

FILE.npz holds `ids` and `labels` of a campaign's training pairs. Each variant changes fields of
`TrainingSettings` and `LossSettings` from a recipe; `hubness=H,smoothing=S` change the scores alone. For each
training: average precision over all pairs of the splits, by plain cosines and corrected, the loss by tenths
of the steps and its largest, and the loss of the head fitted at last beside that of the untrained encoder.
What is chosen is chosen on dev.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments.definitions import split_recipe
from pairsieve.contracts import generator_for
from pairsieve.measure.curve import measure_exactly
from pairsieve.models import encoder_named, full, learner_named
from pairsieve.models.head import head_loss
from pairsieve.pairs import pair_rows
from pairsieve.scan import open_scan
from pairsieve.scorer import ExactNeighbours, correct_rows, make_corrections
from pairsieve.scorer.corrections import HUBNESS_STRENGTH, SMOOTHING_STRENGTH, similarity_floor
from pairsieve.tasks import Split, load_task


def average_precision(split: Split, left: Any, right: Any, hubness: float, smoothing: float) -> float:
    """Over all pairs of a split, from unit rows; the smoothing floor is that of the split itself."""
    finder = ExactNeighbours(open_scan)
    floor = 1.0
    if smoothing and split.space.symmetric:
        floor = similarity_floor(finder.nearest(split.space, left, right)["cosine-0"])
    corrections = make_corrections(split.space, hubness, smoothing, floor)
    rows = correct_rows(corrections, split.space, (left, right), finder).rows
    return measure_exactly(
        open_scan(split.space, *rows, lengths=bool(hubness)), split.positives
    ).curve.average_precision()


def tenths(losses: Any) -> list[float]:
    """The mean loss of each tenth of the steps."""
    return [round(float(part.mean()), 4) for part in np.array_split(losses, min(10, len(losses)))]


def trained(args: argparse.Namespace, data: Any, changes: dict[str, Any], seed: int) -> dict[str, Any]:
    """One training and its figures."""
    encoder, train, splits, ids, labels, before = data
    changes = dict(changes)
    strengths = changes.pop("hubness", HUBNESS_STRENGTH), changes.pop("smoothing", SMOOTHING_STRENGTH)
    learner = learner_named("full", encoder, None, changes.pop("recipe", "best"), **changes)
    traces: list[Any] = []
    plain_train = full.train

    def recorded(*given: Any) -> Any:
        traces.append(plain_train(*given))
        return traces[-1]

    full.train = recorded  # type: ignore[assignment]
    began = time.perf_counter()
    try:
        matcher: Any = learner.fit(
            (train.left.texts, train.right.texts), ids, labels, generator_for(seed, 1, "fixed labels")
        )
    finally:
        full.train = plain_train
    seconds = time.perf_counter() - began
    left, right = pair_rows(ids)
    rows = [matcher.embed([side.texts[at] for at in np.unique(which)], name) for side, which, name in
            ((train.left, left, "left"), (train.right, right, "right"))]  # fmt: skip
    places = [np.unique(which, return_inverse=True)[1] for which in (left, right)]
    cosines = np.einsum("nd,nd->n", rows[0][places[0]], rows[1][places[1]])
    found: dict[str, Any] = {
        "seconds": round(seconds, 1),
        "trainings": len(traces),
        "loss": [tenths(trace) for trace in traces],
        "largest": [round(float(np.max(trace)), 3) for trace in traces],
        "head_loss": round(head_loss(cosines, labels), 4),
        "head_loss_untrained": round(before, 4),
        "cosines": [round(float(cosines.mean()), 4), round(float(cosines.std()), 5)],
    }
    for split in splits:
        one = matcher.embed(split.left.texts, "left")
        other = None if split.space.symmetric else matcher.embed(split.right.texts, "right")
        found[f"{split.name} plain"] = average_precision(split, one, other, 0.0, 0.0)
        found[f"{split.name} corrected"] = average_precision(split, one, other, *strengths)
        if args.grid:
            found[f"{split.name} grid"] = {
                f"{h:g},{s:g}": round(average_precision(split, one, other, h, s), 4)
                for h in (0.15, 0.25, 0.35) for s in (1.0, 2.0, 4.0, 6.0)
            }  # fmt: skip
    return found


def _free_memory() -> None:
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("variants", nargs="+")
    parser.add_argument("--task", type=Path, required=True)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--left-prefix", default="")
    parser.add_argument("--right-prefix", default="")
    parser.add_argument("--some", type=int, default=0, help="so many of the labels, at random")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--split", action="append", default=[])
    parser.add_argument("--grid", action="store_true", help="also over strengths of both corrections")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--until", type=float, default=1e9, help="begin no training after so many seconds")
    args = parser.parse_args()
    began = time.perf_counter()
    task = load_task(args.task)
    encoder = encoder_named(args.encoder, 128, args.left_prefix, args.right_prefix)
    train, splits = task.splits["train"], [task.splits[name] for name in args.split or ["dev"]]
    kept = np.load(args.labels)
    ids, labels = kept["ids"], kept["labels"].astype(bool)
    if args.some and args.some < len(ids):
        chosen = np.sort(generator_for(0, 0, "some labels").choice(len(ids), args.some, replace=False))
        ids, labels = ids[chosen], labels[chosen]
    left, right = pair_rows(ids)
    one = encoder.embed([train.left.texts[at] for at in left], "left")
    other = encoder.embed([train.right.texts[at] for at in right], "right")
    before = head_loss(np.einsum("nd,nd->n", one, other), labels)
    data = encoder, train, splits, ids, labels, before
    results: list[dict[str, Any]] = []
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        for variant in args.variants:
            if time.perf_counter() - began > args.until:
                print("out of time", flush=True)
                return
            name, changes = split_recipe(variant)
            try:
                row = trained(args, data, changes, seed)
            except Exception as error:
                print(f"{name:16} seed {seed}: {type(error).__name__}: {error}", flush=True)
                continue
            _free_memory()
            about = {"task": task.name, "encoder": Path(args.encoder).name, "labels": args.labels.stem}
            results.append({**about, "name": name, "changes": changes, "seed": seed, **row})
            print(json.dumps(results[-1]), flush=True)
            if args.json:
                args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

"""`pairsieve evaluate` and `pairsieve draw`: average precision over all pairs, from embeddings or scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pairsieve.cli import app, say, show
from pairsieve.cli.campaign import CLUSTER
from pairsieve.errors import InputError, nearest

if TYPE_CHECKING:
    from pairsieve.measure import Curve, PairSample
    from pairsieve.pairs import Scores
    from pairsieve.tasks import Split, Task


@app.command()
def evaluate(
    folder: Path = typer.Argument(..., help="A task folder, or a campaign folder (then its latest model)."),
    split: str = typer.Option("test", "--split", help="Which split to measure."),
    embeddings: Path | None = typer.Option(None, "--embeddings", help=".npz: left, right or texts."),
    scores: Path | None = typer.Option(None, "--scores", help="Parquet: left, right, score."),
    manual: Path | None = typer.Option(
        None, "--manual", help="Parquet: left, right, label of putative false positives (with --scores)."
    ),
    verify: Path | None = typer.Option(
        None, "--to-verify", help="Write putative false positives to label for --manual (with --scores)."
    ),
    at_recall: float = typer.Option(0.2, "--at-recall", help="Where --manual corrects the precision."),
    plot: Path | None = typer.Option(None, "--plot", help="Write the precision-recall curve as PNG."),
    device: str = typer.Option("auto", "--device", help="auto, cpu or cuda."),
    cluster: str | None = CLUSTER,
    cache: Path | None = typer.Option(
        None, "--cache", envvar="PAIRSIEVE_CACHE", help="Embeddings shared between campaigns."
    ),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of the intervals' resampling."),
    as_json: bool = typer.Option(False, "--json", help="Print the figures as JSON."),
) -> None:
    """Measure average precision over ALL pairs of a split.

    Exact for embeddings and complete score lists; with intervals where the scored pairs are a sample.
    """
    if plot is not None:
        from pairsieve.report.plots import check_plot

        check_plot(plot)  # before the work, not after it
    if (folder / "campaign.toml").is_file():
        from pairsieve.cli.campaign import evaluate_campaign

        if embeddings is not None or scores is not None or manual is not None:
            raise InputError(
                "this is a campaign folder, which is measured by its own model",
                where=str(folder),
                remedy="Give the task folder with --embeddings or --scores, or neither for the campaign",
            )
        evaluate_campaign(folder, split, plot, as_json, cache, cluster)
        return
    if (embeddings is None) == (scores is None):
        raise InputError(
            "give either --embeddings or --scores" + (", not both" if embeddings is not None else ""),
            remedy="--embeddings FILE.npz measures exactly; --scores FILE.parquet is for any other scorer",
        )
    if (manual is not None or verify is not None) and scores is None:
        raise InputError(
            "--manual and --to-verify need --scores",
            why="manual labels correct the scores of listed pairs",
            remedy="Draw the pairs with pairsieve draw, score them, and give the file as --scores",
        )
    from pairsieve.measure.figures import figures_table

    task, part = _truth_of(folder, split)
    if embeddings is not None:
        result, curve = by_embeddings(part, embeddings, device, cluster)
    else:
        assert scores is not None
        result, curve = by_scores(part, scores, manual, verify, at_recall, seed)
    answer = {"task": task.name, "split": part.name, **result}
    if plot is not None:
        from pairsieve.report.plots import pr_curve

        title = f"{task.name}, {part.name}: {part.space.size:,} pairs"
        ap = answer["average_precision"]["value"]
        pr_curve(curve, plot, title, pairs=part.space.size, average_precision=ap)
        say(f"Precision-recall curve: {plot}")
    show(answer, as_json, figures_table(answer))


@app.command()
def draw(
    folder: Path = typer.Argument(..., help="A task folder."),
    split: str = typer.Option("test", "--split", help="Which split to draw from."),
    embeddings: Path = typer.Option(..., "--embeddings", help="Reference embeddings (.npz) for near pairs."),
    neighbours: int = typer.Option(
        100, "--neighbours", min=1, help="Nearest texts of each text: the near pairs."
    ),
    random: int = typer.Option(1_000_000, "--random", min=1, help="Random negatives beyond the near ones."),
    out: Path = typer.Option(..., "--out", help="Parquet file to write: left, right, inclusion_probability."),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of the draw."),
    device: str = typer.Option("auto", "--device", help="auto, cpu or cuda."),
    as_json: bool = typer.Option(False, "--json", help="Print the counts as JSON."),
) -> None:
    """Draw the pairs that a slow scorer must score.

    All positives, all near negatives, and random ones, each with the known chance of being drawn.

    Add a column `score` to the file and give it to `pairsieve evaluate --scores`.
    """
    import numpy as np
    import pyarrow as pa

    from pairsieve.contracts import generator_for
    from pairsieve.measure import draw as draw_pairs
    from pairsieve.measure import near_pairs
    from pairsieve.measure.inputs import read_embeddings
    from pairsieve.pairs import pair_rows
    from pairsieve.scan import open_scan

    _check_device(device)
    _, part = _truth_of(folder, split)
    left, right = read_embeddings(embeddings, part.space)
    scan = open_scan(part.space, left, right, device=device)
    nearest_rows, _ = scan.neighbours(min(neighbours, part.space.shape[1] - part.space.symmetric))
    near, _ = near_pairs(part.space, nearest_rows, part.positives)
    sample = draw_pairs(part.space, part.positives, near, random, generator_for(seed, 0, "draw"))
    rows, columns = pair_rows(sample.ids)
    names = np.array(["positive", "near", "random"])[sample.stratum]
    table = pa.table(
        {
            "left": rows,
            "right": columns,
            "stratum": names,
            "inclusion_probability": sample.inclusion_probability,
        }
    )
    _write_parquet(table, out, "the sample", "--out")
    counts = {name: int((names == name).sum()) for name in ("positive", "near", "random")}
    show(
        {"out": str(out), "pairs": len(sample), **counts},
        as_json,
        f"{out}: {len(sample):,} pairs to score ({counts['positive']:,} positive, {counts['near']:,} near, "
        f"{counts['random']:,} random of {part.space.size:,})",
    )


def _truth_of(folder: Path, name: str) -> tuple[Task, Split]:
    from pairsieve.tasks import load_task

    task = load_task(folder)
    if name not in task.splits:
        raise InputError(f"no split {name!r}", where=str(folder), remedy=nearest(name, task.splits))
    part = task.splits[name]
    if not part.has_truth:
        raise InputError(
            f"split {name!r} has no truth",
            where=str(folder),
            why="without the label of every pair, nobody can count false positives",
            remedy="Make the task with its known matches (pairsieve data tables --matches)",
        )
    if len(part.positives) == 0:
        raise InputError(
            f"split {name!r} has no positive pairs",
            where=str(folder),
            why=f"average precision over its {part.space.size:,} pairs is not defined without one",
            remedy="Measure another split, or give the task its known matches",
        )
    return task, part


def _check_device(device: str) -> None:
    """Say so where the device is unknown or absent; torch would answer with a traceback."""
    if device in ("auto", "cpu"):
        return
    if device != "cuda" and not (device.startswith("cuda:") and device[5:].isdecimal()):
        raise InputError(f"unknown --device {device!r}", remedy=nearest(device, ("auto", "cpu", "cuda")))
    import torch

    if not torch.cuda.is_available():
        raise InputError(
            f"--device {device}: there is no CUDA GPU here",
            why="torch finds none, or was installed without CUDA",
            remedy="Use --device cpu",
        )


def by_embeddings(
    part: Split, path: Path, device: str, cluster: str | None = None
) -> tuple[dict[str, Any], Curve]:
    """Exact figures of a split from a file of embeddings."""
    from pairsieve.distributed import open_shards, scan_by
    from pairsieve.measure.figures import exact_figures
    from pairsieve.measure.inputs import read_embeddings

    _check_device(device)
    left, right = read_embeddings(path, part.space)
    scan = scan_by(open_shards(cluster), part.space, left, right, device=device)
    return exact_figures(scan, part.positives, part.stated_negatives)


def by_scores(
    part: Split, path: Path, manual: Path | None, verify: Path | None, at_recall: float, seed: int
) -> tuple[dict[str, Any], Curve]:
    """Figures of a split from a file of scores: exact if it lists every pair, else as its columns allow."""
    from pairsieve.contracts import generator_for
    from pairsieve.measure import estimate, listed_sample
    from pairsieve.measure.figures import RECALLS, estimated_figures, listed_figures
    from pairsieve.measure.inputs import read_scores, score_of

    listed = read_scores(path, part.space)
    places, values = listed.places()
    complete = len(listed.ids) == part.space.size
    if not complete and listed.inclusion_probability is None:
        if manual is not None or verify is not None:
            raise InputError(
                "--manual and --to-verify need a list that speaks for every pair",
                where=str(path),
                why=f"it lists {len(listed.ids):,} of {part.space.size:,} pairs, without the column "
                "inclusion_probability",
                remedy="Draw the pairs to score with pairsieve draw",
            )
        result, curve, found = listed_figures(part.space, listed.ids, places, part.positives)
        say(
            f"{path} lists {len(listed.ids):,} of {part.space.size:,} pairs, {found:,} of "
            f"{len(part.positives):,} positives among them: the others rank last, tied. If the list is a "
            "sample, give its column inclusion_probability (see pairsieve draw)."
        )
    else:
        # A complete list needs no chances: every pair is there.
        chances = None if complete else listed.inclusion_probability
        sample, scores = listed_sample(
            part.space, listed.ids, places, part.positives, chances, where=listed.where
        )
        if complete:
            result, curve, _ = listed_figures(part.space, listed.ids, places, part.positives)
        else:
            rng = generator_for(seed, 0, "bootstrap")
            measures = estimate(sample, scores, part.space, rng=rng, recalls=RECALLS)
            result, curve = estimated_figures(measures, len(sample)), measures.curve
        if verify is not None:
            _write_to_verify(part, sample, scores, curve, verify, at_recall, seed)
        if manual is not None:
            corrected = _corrected(part, sample, scores, curve, manual, at_recall, seed)
            corrected["threshold"] = score_of(corrected["threshold"], values)
            result["corrected_precision"] = corrected
    result["best_f1"]["threshold"] = score_of(result["best_f1"]["threshold"], values)
    return result, curve


def _write_parquet(table: Any, out: Path, what: str, option: str) -> None:
    """Whole or not at all, by path or URL; a place that cannot be written is told in words."""
    import pyarrow.parquet as pq

    from pairsieve.places import written

    try:
        with written(out) as unfinished:
            pq.write_table(table, unfinished)
    except OSError as error:
        raise InputError(
            f"{what} cannot be written", where=str(out), why=str(error), remedy=f"Choose another {option}"
        ) from error


def _write_to_verify(
    part: Split, sample: PairSample, scores: Scores, curve: Curve, out: Path, at_recall: float, seed: int
) -> None:
    """Up to 50 putative false positives of either stratum, with their texts: a person adds `label`."""
    import numpy as np
    import pyarrow as pa

    from pairsieve.contracts import generator_for
    from pairsieve.measure import to_verify
    from pairsieve.pairs import pair_rows

    threshold = float(curve.thresholds[curve.at_recall(at_recall)])
    drawn = to_verify(sample, scores, threshold, 50, 50, generator_for(seed, 0, "verify"))
    left, right = (side.tolist() for side in pair_rows(np.sort(np.concatenate([drawn.near, drawn.random]))))
    texts = [part.left.texts[row] for row in left], [part.right.texts[row] for row in right]
    columns = {"left": left, "right": right, "left_text": texts[0], "right_text": texts[1]}
    _write_parquet(pa.table(columns), out, "the pairs", "--to-verify")
    say(f"{out}: {len(left):,} putative false positives at recall {at_recall:g}. Add a column label, 1 or 0.")


def _corrected(
    part: Split, sample: PairSample, scores: Scores, curve: Curve, manual: Path, at_recall: float, seed: int
) -> dict[str, Any]:
    """Precision at a recall, corrected by a person's labels of putative false positives."""
    import numpy as np

    from pairsieve.contracts import generator_for
    from pairsieve.measure import corrected_precision, to_verify
    from pairsieve.measure.inputs import read_labels
    from pairsieve.measure.sampling import NEAR, POSITIVE, named_pair

    ids, labels = read_labels(manual, part.space)
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
    fixed = corrected_precision(
        counts.true_positives,
        counts.false_near,
        counts.false_random,
        labels[near].tolist(),
        labels[~near].tolist(),
        generator_for(seed, 0, "jeffreys"),
        random_weight=counts.random_weight,
    )
    return {"recall": at_recall, "threshold": float(threshold), **fixed.as_json()}

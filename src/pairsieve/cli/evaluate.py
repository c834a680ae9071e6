"""`pairsieve evaluate` and `pairsieve draw`: average precision over all pairs, from embeddings or scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pairsieve.cli import app, say, show
from pairsieve.errors import InputError, nearest

if TYPE_CHECKING:
    from pairsieve.measure import Curve
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
    at_recall: float = typer.Option(0.2, "--at-recall", help="Where --manual corrects the precision."),
    plot: Path | None = typer.Option(None, "--plot", help="Write the precision-recall curve as PNG."),
    device: str = typer.Option("auto", "--device", help="auto, cpu or cuda."),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of the intervals' resampling."),
    as_json: bool = typer.Option(False, "--json", help="Print the figures as JSON."),
) -> None:
    """Measure average precision over ALL pairs of a split.

    Exact for embeddings and complete score lists; with intervals where the scored pairs are a sample.
    """
    if (folder / "campaign.toml").is_file():
        from pairsieve.cli.campaign import evaluate_campaign

        evaluate_campaign(folder, split, plot, as_json)
        return
    if (embeddings is None) == (scores is None):
        raise InputError("give either --embeddings or --scores", remedy="See pairsieve evaluate --help")
    from pairsieve.measure.figures import figures_table

    task, part = _truth_of(folder, split)
    if embeddings is not None:
        result, curve = by_embeddings(part, embeddings, device)
    else:
        assert scores is not None
        result, curve = by_scores(part, scores, manual, at_recall, seed)
    answer = {"task": task.name, "split": part.name, **result}
    if plot is not None:
        from pairsieve.report.plots import pr_curve

        pr_curve(curve, plot, f"{task.name}, {part.name}: {part.space.size:,} pairs", pairs=part.space.size)
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
    import pyarrow.parquet as pq

    from pairsieve.contracts import generator_for
    from pairsieve.measure import draw as draw_pairs
    from pairsieve.measure import near_pairs
    from pairsieve.measure.inputs import read_embeddings
    from pairsieve.pairs import pair_rows
    from pairsieve.scan import open_scan

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
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.with_name(f".{out.name}.unfinished")
    pq.write_table(table, unfinished)
    unfinished.replace(out)
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
            remedy="Make the task with --matches, or measure by an audit",
        )
    if len(part.positives) == 0:
        raise InputError(
            f"split {name!r} has no positive pairs",
            where=str(folder),
            why=f"average precision over its {part.space.size:,} pairs is not defined without one",
            remedy="Measure another split, or give the task its known matches",
        )
    return task, part


def by_embeddings(part: Split, path: Path, device: str) -> tuple[dict[str, Any], Curve]:
    """Exact figures of a split from a file of embeddings."""
    from pairsieve.measure.figures import exact_figures
    from pairsieve.measure.inputs import read_embeddings
    from pairsieve.scan import open_scan

    left, right = read_embeddings(path, part.space)
    scan = open_scan(part.space, left, right, device=device)
    return exact_figures(scan, part.positives, part.stated_negatives)


def by_scores(
    part: Split, path: Path, manual: Path | None, at_recall: float, seed: int
) -> tuple[dict[str, Any], Curve]:
    """Figures of a split from a file of scores: exact if it lists every pair, else as its columns allow."""
    import numpy as np

    from pairsieve.contracts import Estimate, generator_for
    from pairsieve.measure import corrected_precision, curve_from_scores, estimate, listed_sample
    from pairsieve.measure.figures import RECALLS, figures
    from pairsieve.measure.inputs import read_scores
    from pairsieve.pairs import is_member

    listed = read_scores(path, part.space)
    positive = is_member(listed.ids, part.positives)
    size = part.space.size
    if listed.inclusion_probability is None:
        unlisted = size - len(listed.ids)
        found, lost = int(positive.sum()), len(part.positives) - int(positive.sum())
        mine = np.concatenate([listed.scores[positive], np.full(lost, -np.inf, np.float32)])
        negatives = np.append(listed.scores[~positive], np.float32(-np.inf))
        weights = np.append(np.ones(len(negatives) - 1), float(unlisted - lost))
        curve = curve_from_scores(mine, negatives, negative_weights=weights)
        method = "exact" if not unlisted else "exact, unlisted pairs last"
        if unlisted:
            say(
                f"{path} lists {len(listed.ids):,} of {size:,} pairs, {found:,} of {len(part.positives):,} "
                "positives among them: the others rank last, tied. If the list is a sample, give its column "
                "inclusion_probability (see pairsieve draw)."
            )
        if manual is not None:
            raise InputError("--manual needs a sampled --scores file", remedy="Draw one with pairsieve draw")
        precisions = {r: Estimate.exact(curve.precision_at_recall(r), size) for r in RECALLS}
        ap = Estimate.exact(curve.average_precision(), size)
        return figures(curve, size, method, ap, precisions), curve
    sample, scores = listed_sample(
        part.space,
        listed.ids,
        listed.scores,
        part.positives,
        listed.inclusion_probability,
        where=listed.where,
    )
    measures = estimate(sample, scores, part.space, rng=generator_for(seed, 0, "bootstrap"), recalls=RECALLS)
    curve = measures.curve
    result = figures(curve, size, "estimated", measures.average_precision, measures.precision_at_recall)
    result["best_f1"] = measures.best_f1.as_json() | {"threshold": measures.best_f1_threshold}
    result["scored_pairs"] = len(sample)
    if manual is not None:
        from pairsieve.measure.manual import to_verify
        from pairsieve.measure.sampling import NEAR

        labels = read_scores_labels(manual, part)
        threshold = float(curve.thresholds[curve.at_recall(at_recall)])
        counts = to_verify(sample, scores, threshold, 0, 0, generator_for(seed, 0, "manual"))
        at = np.searchsorted(sample.ids, labels[0])
        at = np.minimum(at, len(sample.ids) - 1)
        known = (sample.ids[at] == labels[0]) & (scores[at] >= np.float32(threshold))
        if not known.all() or is_member(labels[0], part.positives).any():
            raise InputError(
                f"{int((~known).sum())} labelled pairs are no putative false positives at recall {at_recall}",
                where=str(manual),
                why=f"they score below {threshold:.4f}, are positives, or are not in the sample",
                remedy="Label pairs of the sample that score at or above the threshold and are no positives",
            )
        near = sample.stratum[at] == NEAR
        fixed = corrected_precision(
            counts.true_positives,
            counts.false_near,
            counts.false_random,
            labels[1][near].tolist(),
            labels[1][~near].tolist(),
            generator_for(seed, 0, "jeffreys"),
            random_weight=counts.random_weight,
        )
        result["corrected_precision"] = {"recall": at_recall, "threshold": threshold, **fixed.as_json()}
    return result, curve


def read_scores_labels(path: Path, part: Split) -> tuple[Any, Any]:
    """Manual labels: a Parquet file with left, right and label (1 match, 0 no match)."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise InputError("no such file", where=str(path), remedy="Give Parquet with left, right, label")
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError("cannot be read as Parquet", where=str(path), why=str(error)) from error
    for name in ("left", "right", "label"):
        if name not in table.column_names:
            raise InputError(
                f"column {name!r} is missing", where=str(path), remedy=nearest(name, table.column_names)
            )
    labels = table.column("label").to_numpy()
    wrong = ~np.isin(labels, (0, 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(f"row {row}, column 'label' is {labels[row]!r}, not 0 or 1", where=str(path))
    ids = part.space.ids(table.column("left").to_numpy(), table.column("right").to_numpy())
    return ids, labels.astype(np.int64)

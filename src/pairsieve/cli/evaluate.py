"""`pairsieve evaluate` and `pairsieve draw`: average precision over all pairs, from embeddings or scores."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from pairsieve.cli import app, call, say, show
from pairsieve.cli.options import CACHE, DEVICE, DISTRIBUTED, JSON
from pairsieve.progress import doing


@app.command()
def evaluate(
    folder: Path = Argument(..., help="A campaign folder, or a task folder with --embeddings or --scores."),
    split: str = Option("test", help="Which split to measure."),
    embeddings: Path | None = Option(None, help="Embeddings: .npz file with left and right, or texts."),
    scores: Path | None = Option(None, help="Scores: Parquet file with left, right, score."),
    manual: Path | None = Option(
        None, help="Checked false positives: Parquet file with left, right, label (with --scores)."
    ),
    to_verify: Path | None = Option(
        None, help="Write false positives for a person to check, for --manual (with --scores)."
    ),
    at_recall: float = Option(0.2, help="Recall at which --manual corrects the precision."),
    plot: Path | None = Option(None, help="Write the precision-recall curve as PNG."),
    device: str = DEVICE,
    distributed: str | None = DISTRIBUTED,
    cache: Path | None = CACHE,
    seed: int = Option(0, min=0, help="Seed of the intervals."),
    as_json: bool = JSON,
) -> None:
    """Measure average precision over ALL pairs of a split.

    Of a campaign's scorer, of embeddings, or of scores. Exact, unless the scored pairs are a sample: then the
    figures have intervals.
    """
    options = locals()
    from pairsieve.library.evaluation import evaluate

    with doing("measuring"):
        found = call(evaluate, options, folder)
    for note in found.notes:
        say(note)
    if plot is not None:
        say(f"Precision-recall curve: {plot}")
    show(found.as_json(), as_json, str(found))


@app.command()
def draw(
    folder: Path = Argument(..., help="A task folder."),
    split: str = Option("test", help="Which split to draw from."),
    embeddings: Path = Option(..., help="Reference embeddings (.npz) for near pairs."),
    neighbours: int = Option(100, min=1, help="Near pairs are those of each text with so many nearest."),
    random: int = Option(1_000_000, min=1, help="Random negatives beyond the near ones."),
    out: Path = Option(..., help="Parquet file to write: left, right, inclusion_probability."),
    seed: int = Option(0, min=0, help="Seed of the draw."),
    device: str = DEVICE,
    distributed: str | None = DISTRIBUTED,
    as_json: bool = JSON,
) -> None:
    """Draw a sample of pairs for a model that cannot score all.

    All positives, all near negatives, and random others, each with its chance of being drawn.

    Add a column `score` to the file and give it to `pairsieve evaluate --scores`.
    """
    options = locals()
    from pairsieve import draw_sample

    with doing("drawing pairs"):
        drawn = call(draw_sample, options, folder)
    counts = f"{drawn.positive:,} positive, {drawn.near:,} near, {drawn.random:,} random of {drawn.of:,}"
    show(drawn.as_json(), as_json, f"{out}: {drawn.pairs:,} pairs to score ({counts})")

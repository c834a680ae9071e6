"""`pairsieve evaluate` and `pairsieve draw`: average precision over all pairs, from embeddings or scores."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from pairsieve.cli import app, call, say, show
from pairsieve.cli.options import CACHE, DEVICE, DISTRIBUTED, JSON
from pairsieve.errors import InputError
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
    if plot is not None:
        from pairsieve.report.plots import check_plot

        check_plot(plot)  # before the work, not after it
    from pairsieve import evaluate_embeddings, evaluate_model, evaluate_scores, open_campaign

    if (folder / "campaign.toml").is_file():
        if embeddings is not None or scores is not None or manual is not None:
            raise InputError(
                "this is a campaign folder, which is measured by its own model",
                where=str(folder),
                remedy="Give the task folder with --embeddings or --scores, or neither for the campaign",
            )
        with doing("measuring"):
            found = evaluate_model(open_campaign(folder, cache=cache, distributed=distributed), split)
    elif (embeddings is None) == (scores is None):
        raise InputError(
            "give either --embeddings or --scores" + (", not both" if embeddings is not None else ""),
            remedy="--embeddings FILE.npz measures exactly; --scores FILE.parquet is for any other scorer",
        )
    elif scores is not None:
        with doing("measuring"):
            found = evaluate_scores(
                folder, split, scores, manual=manual, to_verify=to_verify, at_recall=at_recall, seed=seed
            )
    elif manual is not None or to_verify is not None:
        raise InputError(
            "--manual and --to-verify need --scores",
            why="manual labels correct the scores of listed pairs",
            remedy="Draw the pairs with pairsieve draw, score them, and give the file as --scores",
        )
    else:
        assert embeddings is not None
        with doing("measuring"):
            found = evaluate_embeddings(folder, split, embeddings, device=device, distributed=distributed)
    for note in found.notes:
        say(note)
    if plot is not None:
        found.plot(plot)
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

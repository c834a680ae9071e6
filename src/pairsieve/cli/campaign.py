"""`pairsieve init | run | extend | status | export`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from typer import Argument, Option

from pairsieve.cli import app, call, say, show
from pairsieve.cli.options import CACHE, DEVICE, DISTRIBUTED, FOLDER, JSON
from pairsieve.progress import doing

if TYPE_CHECKING:
    from pairsieve import Status
    from pairsieve.campaign import Campaign


@app.command()
def init(
    folder: Path = Argument(..., help="The campaign folder to create."),
    task: Path = Option(..., help="A task folder, made by pairsieve data."),
    strategy: str = Option(
        "uncertainty",
        help="Which pairs to ask about: uncertainty, adaptive, static, spread, random, stated, "
        "stratified:POSITIVES/LABELS, stratified-all, or that of a plug-in.",
    ),
    encoder: str = Option("all-MiniLM-L6-v2", help="A folder, or a name on the Hugging Face hub."),
    learner: str = Option("auto", help="What to train: full (the encoder), projection (a linear map), auto."),
    recipe: str = Option("best", help="How to train and score: best or paper."),
    hubness_correction: float | None = Option(
        None,
        help="How much near neighbours lower the score of a pair, 0 to 0.5. [0.25; with --recipe paper 0]",
    ),
    neighbour_smoothing: float | None = Option(
        None,
        help="How much a text is averaged with its nearest neighbour, 0 to 2. [1; with --recipe paper 0]",
    ),
    reranker: str = Option(
        "auto", help="A second model over the nearest pairs: auto (if it helps), off, on, cross-encoder."
    ),
    first_batch: int | None = Option(None, help="Labels of round 1. [40; with --recipe paper 2048]"),
    growth: float | None = Option(
        None, help="Each round has this many times the labels of the last. [1; with --recipe paper 1.5]"
    ),
    rounds: int | None = Option(None, help="Rounds in all. [10; with --recipe paper 4]"),
    labels: int | None = Option(
        None, min=1, help="Labels in all, in equal rounds; in place of --first-batch and --growth."
    ),
    seed: int = Option(0, help="Seed of all random numbers."),
    seed_set: str = Option(
        "auto", help="Strategy of round 1: spread (over ranks), static (nearest), stated, random or auto."
    ),
    split: str | None = Option(None, help="The split to ask about. [all, or train]"),
    measure: list[str] = Option([], help="Split to measure after each round; repeatable. [all, or dev]"),
    search: str = Option(
        "exact",
        help="Search for pairs: exact, neighbours, ivf (from 200,000 texts on), faiss-ivf or faiss-hnsw.",
    ),
    neighbours: int = Option(100, help="Neighbours of each text, unless search is exact."),
    left_prefix: str = Option("", help='Text put before each left text, such as "query: ".'),
    right_prefix: str = Option("", help='The same for right texts, such as "passage: ".'),
    learning_rate: float | None = Option(None, help="Learning rate. [by the encoder]"),
    device: str = DEVICE,
    precision: str = Option(
        "auto", help="Of the encoder's products: float32, bfloat16 or auto (by processor and texts)."
    ),
    match: Path | None = Option(
        None, help="With --strategy stratified: a campaign whose share of matches to copy."
    ),
    transitivity: bool = Option(
        False, "--transitivity", help="Infer labels that follow from others; one collection only."
    ),
    measuring_share: float | None = Option(
        None, help="Share of each batch drawn from all pairs, to measure by. [0.1]"
    ),
    stop_when: str = Option("", help='Stop early by a rule, such as "positives < 5% and labels >= 5000".'),
    run_now: bool = Option(False, "--run", help="Also run it, as pairsieve run does."),
    cache: Path | None = Option(
        None, envvar="PAIRSIEVE_CACHE", help="With --run: folder of embeddings that campaigns share."
    ),
    distributed: str | None = DISTRIBUTED,
    as_json: bool = JSON,
) -> None:
    """Create a campaign: task, number of labels, settings."""
    given = locals()
    from pairsieve import create_campaign, next_command
    from pairsieve.cli.data import fields_in_words
    from pairsieve.library.campaigns import Options
    from pairsieve.scorer.calibration import FEWEST

    options = {name: given[name] for name in Options.__annotations__ if given.get(name) is not None}
    where = distributed if run_now else None
    campaign = call(
        create_campaign, given, folder, task, measure=measure or None, distributed=where, **options
    )
    settings = campaign.settings
    budget, batches = settings.schedule.budget(), settings.schedule.batches()
    created = f"{folder}: {settings.strategy} on {task}, {budget:,} labels in rounds of "
    created += f"{', '.join(f'{n:,}' for n in batches)}." if len({*batches}) > 1 else f"{batches[0]:,}."
    if not campaign.split.has_truth:
        if stated := len(campaign.split.positives) + len(campaign.split.stated_negatives):
            created += f"\n{stated:,} pairs have a label in the task: nobody is asked about these."
        created += f"\n{hours(budget)}. More or fewer: --labels N; later: pairsieve extend."
    drawn = sum(map(settings.measuring_labels, range(1, settings.schedule.rounds + 1)))
    dev = campaign.task.splits.get("dev")
    if 0 < drawn < FEWEST and not (dev is not None and dev.has_truth):
        created += f"\nOnly {drawn} of them measure. Below {FEWEST}, match gives no probabilities and no "
        created += "intervals; more labels do, or pairsieve audit."
    created = "\n".join([created, *fields_in_words(campaign.task)])
    if run_now:
        say(created)
        _run(campaign, as_json)
        return
    about = {"campaign": str(folder), "task": str(task), "strategy": settings.strategy, "budget": budget}
    show(about, as_json, f"{created}\nNext: {next_command(campaign)}")


def hours(labels: int) -> str:
    """What so many labels cost a person, in words: 6 to 15 seconds each."""
    low, high = labels * 6 / 3600, labels * 15 / 3600
    if high < 1.5:
        least, most = (max(1, round(60 * value)) for value in (low, high))
        if most == 1:
            return "One person needs about a minute for them"
        return f"One person needs about {least} to {most} minutes for them"
    return f"One person needs about {low:.0f} to {high:.0f} hours for them"


@app.command()
def extend(
    folder: Path = FOLDER,
    labels: int = Option(200, min=1, help="Labels to add, in rounds as large as the last."),
    as_json: bool = JSON,
) -> None:
    """Add rounds to a campaign; run goes on with them."""
    given = locals()
    from pairsieve import extend_campaign, next_command, open_campaign

    before = open_campaign(folder).settings.schedule.budget()
    campaign = call(extend_campaign, given, folder, labels)
    schedule = campaign.settings.schedule
    about = {"campaign": str(folder), "rounds": schedule.rounds, "budget": schedule.budget()}
    words = f"{folder}: {schedule.rounds} rounds, {schedule.budget():,} labels in all."
    if schedule.budget() - before > labels:
        words += f" {schedule.budget() - before:,} more, for a round is as large as the last."
    show(about, as_json, f"{words}\nNext: {next_command(campaign)}")


@app.command()
def run(
    folder: Path = FOLDER,
    cache: Path | None = CACHE,
    distributed: str | None = DISTRIBUTED,
    accept_settings: bool = Option(
        False, "--accept-settings", help="Take up what was edited in campaign.toml since the last run."
    ),
    as_json: bool = JSON,
) -> None:
    """Run or resume a campaign, until it is done or waits for labels.

    Each round chooses pairs, asks for their labels, trains and measures. Stop it at any moment; running it
    again resumes.
    """
    given = locals()
    from pairsieve import open_campaign

    _run(call(open_campaign, given, folder), as_json)


def _run(campaign: Campaign, as_json: bool) -> None:
    from pairsieve import campaign_status

    messages: list[str] = []

    def report(message: str) -> None:
        messages.append(message)
        say(message)

    step = campaign.run(report)
    now = campaign_status(campaign)
    if step.name == "label":
        last = f"Waiting for {step.waiting:,} labels of round {step.round}. Nothing is lost; run again later."
    elif step.name == "stopped":
        last = f"Stopped after round {step.round}, as asked: {step.reason}."
    elif messages:
        last = f"Finished: {now.rounds[-1].labels:,} labels."
    else:
        last = "This campaign is finished; nothing was left to do."
    _show_status(campaign.folder, now, last, as_json)


@app.command()
def status(folder: Path = FOLDER, as_json: bool = JSON) -> None:
    """Show labels, matches and average precision by round."""
    from pairsieve import campaign_status

    now = campaign_status(folder)
    stale = "".join(f"Round {n} is trained and measured again: {why}.\n" for n, why in now.stale.items())
    last = "" if now.state == "ready" else now.sentence()
    _show_status(folder, now, stale + last, as_json)


def _show_status(folder: Path, now: Status, last: str, as_json: bool) -> None:
    """The rounds, the advice, where the campaign stands, and the command that takes it on."""
    place, command = quote(str(folder)), now.next_command
    if now.state == "waiting":
        command += f" (in the browser), or by file: pairsieve ask {place} --out batch.csv"
    elif now.lacks:
        command = now.more_labels
    elif now.state != "ready":
        command = f"pairsieve match {place}, or more labels: pairsieve extend {place} --labels 200"
    about = (now.advice, now.inferred, now.answered_by_task, last.rstrip(), now.disagreement, now.lacks)
    words = f"{rounds_table(now)}\n\n{''.join(map(_line, about))}"
    show(now.as_json(), as_json, f"{words}Next: {command}")


def _line(sentence: str) -> str:
    return f"{sentence}\n" if sentence else ""


@app.command()
def export(
    folder: Path = FOLDER,
    out: Path = Option(..., help="The model folder to write."),
    round_: int | None = Option(None, "--round", help="The round whose model to use. [the latest]"),
    cache: Path | None = CACHE,
    distributed: str | None = DISTRIBUTED,
    as_json: bool = JSON,
) -> None:
    """Write the scorer as a folder for sentence-transformers.

    SentenceTransformer(OUT) loads the plain encoder, pairsieve.load_scorer(OUT) the whole scorer:
    corrections, calibration, re-ranker. The average precision of both is printed and is in the model card.
    """
    from pairsieve import export_model, open_campaign

    campaign = open_campaign(folder, cache=cache, distributed=distributed)
    with doing("exporting and measuring"):
        exported = export_model(campaign, out, round=round_)
    show(exported.as_json(), as_json, str(exported))


def rounds_table(now: Status) -> str:
    """The rounds for a person."""
    lines = [f"{'round':>5}  {'labels':>9}  {'positives':>9}  {'AP':>8}  {'P@R20':>8}  seconds"]
    for row in now.rounds:
        ap, precision = row.average_precision, row.precision_at_recall_20
        values = (ap.value if ap else None, precision.value if precision else None)
        cells = ["-" if value is None else f"{value:.4f}" for value in values]
        seconds = ", ".join(f"{phase} {spent:.1f}" for phase, spent in row.seconds.items())
        lines.append(
            f"{row.round:>5}  {row.labels:>9,}  {row.positives:>9,}  {cells[0]:>8}  {cells[1]:>8}  {seconds}"
        )
    if now.measured_on:
        over = f"AP and P@R20: exact, over all pairs of {now.measured_on}."
        lines.append(f"{over} {now.warning}".rstrip())
    return "\n".join(lines)

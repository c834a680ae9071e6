"""`pairsieve init | run | status | export`, and `evaluate` of a campaign."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from pairsieve.cli import app, say, show
from pairsieve.errors import InputError

_DIR = typer.Argument(..., help="The campaign folder.")
_JSON = typer.Option(False, "--json", help="Print as JSON.")
CLUSTER = typer.Option(
    None,
    "--cluster",
    help="Scan on all GPUs here (gpus), or embed and scan on a Ray cluster: local, auto, host:port.",
)


@app.command()
def init(
    folder: Path = typer.Argument(..., help="The campaign folder to create."),
    task: Path = typer.Option(..., "--task", help="A task folder, made by pairsieve data."),
    strategy: str = typer.Option(
        "uncertainty",
        "--strategy",
        help="random, stated, static, adaptive, uncertainty, second-look, stratified:POSITIVES/LABELS, "
        "stratified-all.",
    ),
    encoder: str = typer.Option("all-MiniLM-L6-v2", "--encoder", help="A hub name or a folder."),
    learner: str = typer.Option("auto", "--learner", help="auto, full or projection."),
    recipe: str = typer.Option("best", "--recipe", help="How to train and score: best, or the paper's own."),
    crowding: float | None = typer.Option(
        None, "--crowding", help="How much near rivals count against a pair, 0 to 0.5. [0.25; paper: 0]"
    ),
    leaning: float | None = typer.Option(
        None, "--leaning", help="How much a text leans on its nearest, 0 to 2. [1; paper: 0]"
    ),
    first_batch: int = typer.Option(2048, "--first-batch", help="Labels bought in round 1."),
    growth: float = typer.Option(1.5, "--growth", help="Each round buys this many times the last."),
    rounds: int | None = typer.Option(None, "--rounds", help="Rounds in all. [4; 10 with --labels]"),
    labels: int | None = typer.Option(
        None,
        "--labels",
        min=1,
        help="Labels in all, in equal rounds, in place of --first-batch and --growth.",
    ),
    seed: int = typer.Option(0, "--seed", help="Seed of all random numbers."),
    seed_set: str = typer.Option("static", "--seed-set", help="Round 1: static, stated or random."),
    split: str | None = typer.Option(None, "--split", help="The split to ask about. [train, or all]"),
    measure: list[str] = typer.Option([], "--measure", help="Split measured each round; repeatable. [dev]"),
    search: str = typer.Option("exact", "--search", help="exact, neighbours, faiss-ivf or faiss-hnsw."),
    neighbours: int = typer.Option(100, "--neighbours", help="Neighbours a row, unless search is exact."),
    left_prefix: str = typer.Option("", "--left-prefix", help='Put before left texts, such as "query: ".'),
    right_prefix: str = typer.Option("", "--right-prefix", help='Put before right texts: "passage: ".'),
    learning_rate: float | None = typer.Option(None, "--learning-rate", help="[the encoder's own]"),
    device: str = typer.Option("auto", "--device", help="auto, cpu or cuda."),
    match: Path | None = typer.Option(
        None, "--match", help="With --strategy stratified: the campaign whose balance to match."
    ),
    transitivity: bool = typer.Option(
        False, "--transitivity", help="Infer labels that follow from others; one collection only."
    ),
    stop_when: str = typer.Option(
        "", "--stop-when", help='Stop early by a rule, such as "positives < 5% and labels >= 5000".'
    ),
    run_now: bool = typer.Option(False, "--run", help="Run it at once, as pairsieve run would."),
    cache: Path | None = typer.Option(
        None, "--cache", envvar="PAIRSIEVE_CACHE", help="With --run: embeddings shared between campaigns."
    ),
    as_json: bool = _JSON,
) -> None:
    """Create a campaign: what to ask about, and how much."""
    from pairsieve.campaign import create_campaign
    from pairsieve.library import equal_rounds, portable_encoder
    from pairsieve.settings import Schedule

    if match is not None:
        if strategy != "stratified":
            raise InputError(
                "--match goes with --strategy stratified",
                why=f"{strategy!r} has no balance to set",
                remedy="Add --strategy stratified, or leave --match out",
            )
        strategy = f"{strategy}:{_balance(match)}"
    more: dict[str, Any] = {"split": split} if split else {}
    if measure:
        more["measure_splits"] = tuple(measure)
    made = create_campaign(
        folder,
        task,
        strategy=strategy,
        encoder=portable_encoder(encoder),
        learner=learner,
        recipe=recipe,
        crowding=crowding,
        leaning=leaning,
        schedule=equal_rounds(labels, 10 if rounds is None else rounds)
        if labels is not None
        else Schedule(first_batch=first_batch, growth=growth, rounds=4 if rounds is None else rounds),
        seed=seed,
        seed_set=seed_set,
        search=search,
        neighbours=neighbours,
        left_prefix=left_prefix,
        right_prefix=right_prefix,
        learning_rate=learning_rate,
        device=device,
        transitivity=transitivity,
        stop_when=stop_when,
        **more,
    )
    budget = made.settings.schedule.budget()
    batches = ", ".join(f"{n:,}" for n in made.settings.schedule.batches())
    if run_now:
        say(f"{folder}: {strategy} on {task}, {budget:,} labels in rounds of {batches}.")
        run(folder, cache, None, as_json)
        return
    show(
        {"campaign": str(folder), "task": str(task), "strategy": strategy, "budget": budget},
        as_json,
        f"{folder}: {strategy} on {task}, {budget:,} labels in rounds of {batches}.\n"
        f"Next: pairsieve {'run' if made.split.has_truth else 'label'} {folder}",
    )


@app.command()
def run(
    folder: Path = _DIR,
    cache: Path | None = typer.Option(
        None, "--cache", envvar="PAIRSIEVE_CACHE", help="Embeddings shared between campaigns."
    ),
    cluster: str | None = CLUSTER,
    as_json: bool = _JSON,
) -> None:
    """Go on with a campaign, until done or waiting for labels.

    Choose, ask, train, measure, round after round. Running again after any stop goes on where it was.
    """
    from pairsieve.campaign import Campaign
    from pairsieve.distributed import open_shards

    campaign = Campaign(folder, cache, open_shards(cluster))
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        say(line)

    step = campaign.run(tell)
    status_now = campaign.status()
    if step.name == "label":
        words = (
            f"Waiting for {step.waiting:,} labels of round {step.round}. Nothing is lost; run again later.\n"
            f"Label in the browser with pairsieve label {folder}, or by file with pairsieve ask and import."
        )
    elif step.name == "stopped":
        words = f"Stopped after round {step.round}, as asked: {step.reason}."
    elif told:
        words = f"Finished: {status_now['rounds'][-1]['labels']:,} labels."
    else:
        words = "This campaign is finished; nothing was left to do."
    show(status_now, as_json, f"{rounds_table(status_now)}\n\n{_advice(status_now)}{words}")


@app.command()
def status(folder: Path = _DIR, as_json: bool = _JSON) -> None:
    """Show labels, positives and quality by round."""
    from pairsieve.campaign import Campaign

    now = Campaign(folder).status()
    words = {
        "finished": "Finished.",
        "stopped": f"Stopped after round {now['next']['round']}, as asked: {now.get('reason', '')}.",
        "waiting": f"Waiting for {now['next']['waiting']:,} labels of round {now['next']['round']}.",
        "ready": f"Next: {now['next']['step']} round {now['next']['round']} (pairsieve run {folder}).",
    }[now["state"]]
    show(now, as_json, f"{rounds_table(now)}\n\n{_advice(now)}{_changed(now, folder)}{words}")


def _changed(now: dict[str, Any], folder: Path) -> str:
    """That figures are older than the answers, as a line of its own."""
    rounds = ", ".join(str(row["round"]) for row in now["rounds"] if row.get("changed"))
    if not rounds:
        return ""
    return f"Answers have changed since round {rounds} was measured: pairsieve run {folder} does it again.\n"


def _advice(now: dict[str, Any]) -> str:
    """What is to be said after the last round that was advised on, as a line of its own."""
    said = [row["advice"]["sentence"] for row in now["rounds"] if "advice" in row]
    return f"{said[-1]}\n" if said else ""


@app.command()
def export(
    folder: Path = _DIR,
    out: Path = typer.Option(..., "--out", help="The model folder to write."),
    round_: int | None = typer.Option(None, "--round", help="Which round's model. [the latest]"),
    as_json: bool = _JSON,
) -> None:
    """Write a model as a sentence-transformers folder.

    The head that turns a cosine into a probability (head.json) and a model card lie beside it.
    """
    from pairsieve.campaign import Campaign
    from pairsieve.library import export_model, trained_round

    campaign = Campaign(folder)
    number = trained_round(campaign, round_)
    head = json.loads((export_model(campaign, out, round=number) / "head.json").read_text(encoding="utf-8"))
    weight, bias = head["weight"], head["bias"]
    show(
        {"model": str(out), "round": number, "weight": weight, "bias": bias},
        as_json,
        f"{out}: the model of round {number}. Load it with SentenceTransformer({str(out)!r}); "
        f"a pair matches with probability sigmoid({weight:.3f} · cosine {bias:+.3f}).",
    )


def evaluate_campaign(
    folder: Path, split: str, plot: Path | None, as_json: bool, cache: Path | None, cluster: str | None
) -> None:
    """`pairsieve evaluate DIR`: exact figures of the latest model over all pairs of a split."""
    from pairsieve.library import evaluate_model, open_campaign

    campaign = open_campaign(folder, cache=cache, cluster=cluster)
    found = evaluate_model(campaign, split)
    if plot is not None:
        found.plot(plot)
        say(f"Precision-recall curve: {plot}")
    show(found.figures, as_json, str(found))


def _balance(folder: Path) -> str:
    from pairsieve.campaign import Campaign

    rounds = Campaign(folder).status()["rounds"]
    if not rounds:
        raise InputError("that campaign has no labels yet", where=str(folder), remedy="Run it first")
    return f"{rounds[-1]['positives']}/{rounds[-1]['labels']}"


def rounds_table(now: dict[str, Any]) -> str:
    """The rounds for a person."""
    from pairsieve.campaign.figures import not_held_out

    lines = [
        f"{'round':>5}  {'labels':>9}  {'positives':>9}  {'AP':>8}  {'P@R20':>8}  {'threshold':>9}  seconds"
    ]
    split = ""
    for row in now["rounds"]:
        ap = row.get("average_precision", {}).get("value")
        p20 = row.get("precision_at_recall", {}).get("0.2", {}).get("value")
        split = next(iter(row.get("measures", {})), split)
        seconds = ", ".join(f"{k} {v:.1f}" for k, v in row.get("seconds", {}).items())
        cells = ["-" if value is None else f"{value:.4f}" for value in (ap, p20, row.get("threshold"))]
        lines.append(
            f"{row['round']:>5}  {row['labels']:>9,}  {row['positives']:>9,}  "
            f"{cells[0]:>8}  {cells[1]:>8}  {cells[2]:>9}  {seconds}"
        )
    if split:
        warning = not_held_out(now["rounds"])
        lines.append(f"AP and P@R20: exact, over all pairs of {split}.{' ' if warning else ''}{warning}")
    return "\n".join(lines)

"""Which function does the work of which command? See the table of the package; each is a few lines."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

from pairsieve.campaign import Campaign
from pairsieve.campaign import create_campaign as _create_campaign
from pairsieve.contracts import Answer
from pairsieve.errors import InputError, SettingsError, nearest
from pairsieve.library.records import Evaluation, Folder, Listed, Question, Report
from pairsieve.settings import CampaignSettings, Schedule
from pairsieve.tasks import Collection, Split, Task, load_task

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from pairsieve.explain import Explanation

Place: TypeAlias = Campaign | Path | str  # a campaign, or its folder


# ── campaigns ───────────────────────────────────────────────────────────────────────────────────────


class Options(TypedDict, total=False):
    """What a campaign may be told beyond its budget; what is left out is as in docs/settings.md."""

    split: str
    strategy: str
    seed_set: str
    encoder: str
    left_prefix: str
    right_prefix: str
    max_length: int
    separate_encoders: bool
    learner: str
    recipe: str
    crowding: float | None
    leaning: float | None
    learning_rate: float | None
    search: str
    neighbours: int
    recall_rows: int
    seed: int
    device: str
    transitivity: bool
    stop_when: str
    ledger: str


def create_campaign(
    folder: Folder,
    task: Folder,
    *,
    labels: int | None = None,
    rounds: int | None = None,
    first_batch: int | None = None,
    growth: float | None = None,
    measure: Sequence[str] | None = None,
    cache: Folder | None = None,
    cluster: str | None = None,
    **settings: Unpack[Options],
) -> Campaign:
    """A new campaign in `folder` on the task folder `task`.

    labels: labels in all, in equal rounds (10, unless `rounds` says otherwise); or first_batch and growth,
    where each round buys `growth` times the last. measure: splits measured after each round. cache: a folder
    of embeddings shared between campaigns. cluster: as `pairsieve run --cluster`.
    """
    allowed = {field.name for field in fields(CampaignSettings)} - NOT_TOLD
    unknown = sorted(set(settings) - allowed)
    if unknown:
        raise SettingsError(f"There is no setting {unknown[0]!r}. {nearest(unknown[0], allowed)}.")
    told: dict[str, Any] = dict(settings)
    if "encoder" in told:
        told["encoder"] = portable_encoder(str(told["encoder"]))
    if measure is not None:
        told["measure_splits"] = tuple(measure)
    if labels is not None and (first_batch is not None or growth is not None):
        raise SettingsError("labels with first_batch or growth: labels are bought in equal rounds. Give one.")
    if labels is not None:
        told["schedule"] = equal_rounds(labels, 10 if rounds is None else rounds)
    else:
        given = {"first_batch": first_batch, "growth": growth, "rounds": rounds}
        told["schedule"] = Schedule(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    _create_campaign(Path(folder), Path(task), **told)
    return open_campaign(folder, cache=cache, cluster=cluster)


NOT_TOLD = {"task", "task_fingerprint", "measure_splits", "schedule"}  # they have arguments of their own


def open_campaign(folder: Place, *, cache: Folder | None = None, cluster: str | None = None) -> Campaign:
    """The campaign in a folder, to be looked at or gone on with: `.run()`, `.status()`, `.figures()`."""
    if isinstance(folder, Campaign):
        return folder
    from pairsieve.distributed import open_shards

    return Campaign(Path(folder), None if cache is None else Path(cache), open_shards(cluster))


def equal_rounds(labels: int, rounds: int) -> Schedule:
    """So many labels in equal rounds; where they do not divide, a few less."""
    if not 1 <= rounds <= labels:
        raise InputError(
            f"--labels {labels} in {rounds} rounds",
            why="a round buys at least one",
            remedy="Lower --rounds, or raise --labels",
        )
    return Schedule(first_batch=labels // rounds, growth=1.0, rounds=rounds)


def portable_encoder(name: str) -> str:
    """A folder is kept as an absolute path, so that it is found from anywhere; a name stays a name."""
    return str(Path(name).resolve()) if Path(name).is_dir() else name


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────


def open_questions(campaign: Place, *, count: int | None = None, split: str | None = None) -> list[Question]:
    """The pairs that wait for a label, in the order of asking; `split`: of an audit of that split."""
    from pairsieve.campaign.audits import audit_place
    from pairsieve.pairs import pair_rows

    place = audit_place(open_campaign(campaign), split)
    left, right = (side.tolist() for side in pair_rows(place.ledger.open_questions()[:count]))
    mine, yours = place.part.left, place.part.right
    return [Question(mine.keys[a], yours.keys[b], mine.texts[a], yours.texts[b]) for a, b in zip(left, right)]


def answer_questions(
    campaign: Place,
    answers: Mapping[tuple[str, str], bool | None],
    *,
    who: str,
    split: str | None = None,
) -> int:
    """Write answers to the ledger, all or none: {(left key, right key): True, False or None for unsure}.

    Returns how many still wait. The latest answer of a person to a pair counts.
    """
    from pairsieve.campaign.audits import audit_place
    from pairsieve.sources.exchange import Asked

    place = audit_place(open_campaign(campaign), split)
    told, part = place.ledger.questions(), place.part
    asked = Asked.of(
        told.ids, told.left_keys, told.right_keys, part.left.keys, part.right.keys, part.space.symmetric
    )
    given = [
        Answer(asked.id(*pair, where="answers"), None if label is None else int(label))
        for pair, label in answers.items()
    ]
    place.ledger.answer(given, who=who, source="python")
    return len(place.ledger.open_questions())


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────


def evaluate_model(campaign: Place, split: str = "test", *, round: int | None = None) -> Evaluation:
    """Exact figures of a campaign's model (the latest, or that of a round) over ALL pairs of a split."""
    from pairsieve.measure.figures import exact_figures

    campaign = open_campaign(campaign)
    number = trained_round(campaign, round)
    part = _with_truth(campaign.task, split, str(campaign.folder))
    left, right = campaign.embeddings(campaign.matcher(number), part, number)
    found, curve = exact_figures(
        campaign.scan(part.space, left, right), part.positives, part.stated_negatives
    )
    return Evaluation({"task": campaign.task.name, "split": split, "round": number, **found}, curve)


def evaluate_embeddings(
    task: Task | Folder,
    split: str,
    left: ArrayLike,
    right: ArrayLike | None = None,
    *,
    device: str = "auto",
    cluster: str | None = None,
) -> Evaluation:
    """Exact figures of your own embeddings, one row a text in the task's order; a pair scores its cosine.

    left: (texts, d); right: (right texts, d) where the task has two collections.
    """
    from pairsieve.distributed import open_shards, scan_by
    from pairsieve.measure.figures import exact_figures
    from pairsieve.measure.inputs import checked_embeddings

    held = task if isinstance(task, Task) else load_task(Path(task))
    part = _with_truth(held, split, held.name)
    rows = checked_embeddings(left, right, part.space)
    scan = scan_by(open_shards(cluster), part.space, *rows, device=device)
    found, curve = exact_figures(scan, part.positives, part.stated_negatives)
    return Evaluation({"task": held.name, "split": split, **found}, curve)


def audit_model(
    campaign: Place,
    budget: int | None = None,
    *,
    threshold: float | None = None,
    precision: float | None = None,
    split: str | None = None,
) -> dict[str, Any]:
    """Precision, recall, AP and matches without the truth, from labels drawn to measure; with intervals.

    While labels are missing the answer's `state` is "waiting": see `open_questions`, and call it again.
    """
    from pairsieve.campaign.auditing import run_audit

    return run_audit(open_campaign(campaign), budget, threshold, precision, split)


# ── matches ─────────────────────────────────────────────────────────────────────────────────────────


def find_matches(
    campaign: Place,
    out: Folder | None = None,
    *,
    precision: float | None = None,
    recall: float | None = None,
    count: int | None = None,
    threshold: float | None = None,
    split: str | None = None,
    collection: Collection | Folder | None = None,
    right: Collection | Folder | None = None,
    source: str | None = None,
    search: str = "exact",
    second_look: bool | None = None,
    cross: bool = False,
    one_to_one: bool = False,
    texts: bool = False,
    scores_only: bool = False,
) -> Listed:
    """Write every pair above a line to `out` (the campaign's matches.csv), best first.

    The line is that of the best F1, or of the precision, recall or count you want, or a threshold; it is
    chosen on labels, dev or an audit (`source`), never on test. Rows have left, right, score, probability.
    collection: new texts, or a table read as the task's was, in place of the task's (`right`: of its right).
    """
    from pairsieve.matches.finding import Ways, find_matches
    from pairsieve.matches.wish import wish_from

    campaign = open_campaign(campaign)
    wish = wish_from(precision, recall, count, threshold)
    ways = Ways(source, _known_search(search), second_look, cross, one_to_one, texts, not scores_only)
    path = campaign.folder / "matches.csv" if out is None else Path(out)
    return Listed(path, find_matches(campaign, _part(campaign, split, collection, right), path, wish, ways))


def find_clusters(
    campaign: Place,
    out: Folder | None = None,
    *,
    precision: float | None = None,
    recall: float | None = None,
    threshold: float | None = None,
    split: str | None = None,
    collection: Collection | Folder | None = None,
    source: str | None = None,
    search: str = "exact",
    texts: bool = False,
    scores_only: bool = False,
) -> Listed:
    """Write the group of every text to `out` (the campaign's clusters.csv), with its representative."""
    from pairsieve.matches.finding import Ways, find_clusters
    from pairsieve.matches.wish import wish_from

    campaign = open_campaign(campaign)
    wish = wish_from(precision, recall, None, threshold)
    ways = Ways(source, _known_search(search), False, texts=texts, known=not scores_only)
    path = campaign.folder / "clusters.csv" if out is None else Path(out)
    return Listed(path, find_clusters(campaign, _part(campaign, split, collection), path, wish, ways))


def explain_pair(
    campaign: Place,
    left: str,
    right: str,
    *,
    split: str | None = None,
    examples: int = 3,
    count_all: bool = True,
) -> Explanation:
    """Why the latest model scores the pair of two keys as it does; `str()` of it is for a person."""
    from pairsieve.explain import explain

    return explain(open_campaign(campaign), left, right, split, examples, count_all)


# ── files to hand on ────────────────────────────────────────────────────────────────────────────────


def write_report(campaign: Place, out: Folder | None = None, *, split: str | None = None) -> Report:
    """Write one HTML page (and its pictures) about a campaign to the folder `out` (the campaign's report)."""
    from pairsieve.report.facts import gather
    from pairsieve.report.page import write_report

    campaign = open_campaign(campaign)
    target = campaign.folder / "report" if out is None else Path(out)
    if target.exists() and not target.is_dir():
        raise InputError("this is a file", where=str(target), remedy="Give --out a folder to write to")
    facts = gather(campaign, split)
    written = write_report(facts, target)
    return Report(written[0], tuple(written[1:]), tuple(facts.missing))


def export_model(campaign: Place, out: Folder, *, round: int | None = None) -> Path:
    """Write the latest model, or that of a round, as a sentence-transformers folder; whole or not at all."""
    from safetensors import SafetensorError

    campaign, target = open_campaign(campaign), Path(out)
    number = trained_round(campaign, round)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target} exists and is not empty", remedy="Choose a new folder for the model")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    matcher = campaign.plain_matcher(number)
    try:
        matcher.save(unfinished)
        if target.exists():
            target.rmdir()
        unfinished.replace(target)
    except (OSError, SafetensorError) as error:
        raise InputError(
            "the model cannot be written",
            where=str(target),
            why=getattr(error, "strerror", None) or str(error),
            remedy="Make room there, or choose another folder",
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


# ── what several need ───────────────────────────────────────────────────────────────────────────────


def trained_round(campaign: Campaign, wanted: int | None = None) -> int:
    """The round whose model is meant: the latest, or the one wanted, if there is such a model."""
    latest = campaign.trained_round()
    if wanted is not None and not 1 <= wanted <= latest:
        raise InputError(f"there is no model of round {wanted}", remedy=f"Choose a round from 1 to {latest}")
    return latest if wanted is None else wanted


def _with_truth(task: Task, name: str, where: str) -> Split:
    if name not in task.splits:
        raise InputError(f"no split {name!r}", where=where, remedy=nearest(name, task.splits))
    part = task.splits[name]
    if not part.has_truth or len(part.positives) == 0:
        raise InputError(
            f"split {name!r} has no {'positives' if part.has_truth else 'truth'}",
            where=where,
            why="average precision needs the label of every pair",
            remedy="Measure a split whose matches are all known",
        )
    return part


def _part(
    campaign: Campaign,
    split: str | None,
    collection: Collection | Folder | None,
    right: Collection | Folder | None = None,
) -> Split:
    """The split named, or one made of new texts."""
    from pairsieve.matches.finding import new_part, part_named
    from pairsieve.tasks.again import like_the_task

    if collection is None:
        if right is not None:
            raise InputError("--right describes a new table", remedy="Add --collection")
        return part_named(campaign, split)
    if split is not None:
        raise InputError("--split and --collection together", remedy="Give one of them")
    sides = [
        given
        if given is None or isinstance(given, Collection)
        else like_the_task(campaign.task, side, Path(given))
        for side, given in enumerate((collection, right))
    ]
    assert sides[0] is not None
    return new_part(campaign, sides[0], sides[1])


def _known_search(search: str) -> str:
    from pairsieve.matches.ranking import SEARCHES

    if search not in SEARCHES:
        raise InputError(f"unknown --search {search!r}", remedy=nearest(search, SEARCHES))
    return search

"""`pairsieve match` and `pairsieve cluster`: the matches of a trained campaign, as pairs and as groups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pairsieve.cli import app, say, show
from pairsieve.cli.campaign import CLUSTER
from pairsieve.errors import InputError, nearest

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign
    from pairsieve.tasks import Collection, Split

_DIR = typer.Argument(..., help="The campaign folder.")
_SPLIT = typer.Option(None, "--split", help="The split to match. [all, or the campaign's own]")
_PRECISION = typer.Option(None, "--precision", help="The longest list with this precision.")
_RECALL = typer.Option(None, "--recall", help="The shortest list with this recall.")
_THRESHOLD = typer.Option(None, "--threshold", help="Every pair with this score or more.")
_F1 = typer.Option(False, "--f1", help="The list with the best F1: what you get without a wish.")
_SOURCE = typer.Option(None, "--from", help="Whose word for the threshold: labels, dev or audit.")
_SEARCH = typer.Option("exact", "--search", help="exact over all pairs, or by an index: ivf or hnsw.")
_COLLECTION = typer.Option(None, "--collection", help="A new table in place of the task's texts.")
_TEXT = typer.Option([], "--text", help="A column of its text; repeatable. [as the task's]")
_TEMPLATE = typer.Option(None, "--template", help='Its text, as "{title} by {author}".')
_KEY = typer.Option(None, "--key", help="Its key column. [as the task's]")
_TEXTS = typer.Option(False, "--texts", help="Write the texts beside the keys.")
_IGNORE = typer.Option(False, "--scores-only", help="By score alone: labels given decide no pair.")
_CACHE = typer.Option(None, "--cache", envvar="PAIRSIEVE_CACHE", help="Embeddings shared between campaigns.")
_JSON = typer.Option(False, "--json", help="Print the figures as JSON.")


@app.command()
def match(
    folder: Path = _DIR,
    out: Path | None = typer.Option(
        None, "--out", help="The list: .parquet, .csv or .jsonl. [DIR/matches.csv]"
    ),
    split: str | None = _SPLIT,
    precision: float | None = _PRECISION,
    recall: float | None = _RECALL,
    count: int | None = typer.Option(None, "--count", help="So many pairs, the best."),
    threshold: float | None = _THRESHOLD,
    f1: bool = _F1,
    source: str | None = _SOURCE,
    search: str = _SEARCH,
    again: bool | None = typer.Option(
        None,
        "--second-look/--first-look",
        help="Look again at each text's nearest (words, rivals); kept where it ranks held-out labels "
        "better. [tried up to 200,000 texts]",
    ),
    cross: bool = typer.Option(False, "--cross", help="A second look that also trains a cross-encoder."),
    distil: Path | None = typer.Option(
        None, "--distil", help="Train the encoder again on the second look; kept here if it ranks better."
    ),
    one_to_one: bool = typer.Option(False, "--one-to-one", help="At most one partner for each text."),
    collection: Path | None = _COLLECTION,
    right: Path | None = typer.Option(None, "--right", help="A new right table, with --collection."),
    text: list[str] = _TEXT,
    template: str | None = _TEMPLATE,
    key: str | None = _KEY,
    texts: bool = _TEXTS,
    scores_only: bool = _IGNORE,
    cache: Path | None = _CACHE,
    cluster: str | None = CLUSTER,
    as_json: bool = _JSON,
) -> None:
    """List the matches above a line never chosen on test.

    Every pair of the collection above a line for the F1, precision, recall or count you want, best first:
    keys, score, probability. Pairs that were labelled are listed as labelled. Stopped, it can be run again.
    """
    from pairsieve.campaign import Campaign
    from pairsieve.distributed import open_shards
    from pairsieve.matches.finding import Ways, distil_into, find_matches
    from pairsieve.matches.wish import wish_from

    _check_search(search)
    wish = wish_from(precision, recall, count, threshold)
    _check_f1(f1, wish.kind)
    campaign = Campaign(folder, cache, open_shards(cluster))
    ways = Ways(source, search, again, cross, one_to_one, texts, not scores_only)
    part = _part(campaign, split, collection, right, text, template, key)
    found = find_matches(campaign, part, out or folder / "matches.csv", wish, ways)
    if distil is not None:
        found["distilled"] = {"out": str(distil), **distil_into(campaign, distil, ways)}
    show(found, as_json, match_words(found))


@app.command()
def cluster(
    folder: Path = _DIR,
    out: Path | None = typer.Option(
        None, "--out", help="The groups: .parquet, .csv or .jsonl. [DIR/clusters.csv]"
    ),
    split: str | None = _SPLIT,
    precision: float | None = _PRECISION,
    recall: float | None = _RECALL,
    threshold: float | None = _THRESHOLD,
    f1: bool = _F1,
    source: str | None = _SOURCE,
    search: str = _SEARCH,
    collection: Path | None = _COLLECTION,
    text: list[str] = _TEXT,
    template: str | None = _TEMPLATE,
    key: str | None = _KEY,
    texts: bool = _TEXTS,
    scores_only: bool = _IGNORE,
    cache: Path | None = _CACHE,
    as_json: bool = _JSON,
) -> None:
    """Group the duplicates of one collection.

    Two groups merge only while all pairs between them reach the threshold on average, so one weak match does
    not chain them together. Each group has a representative.
    """
    from pairsieve.campaign import Campaign
    from pairsieve.matches.finding import Ways, find_clusters
    from pairsieve.matches.wish import wish_from

    _check_search(search)
    wish = wish_from(precision, recall, None, threshold)
    _check_f1(f1, wish.kind)
    campaign = Campaign(folder, cache)
    ways = Ways(source, search, False, texts=texts, known=not scores_only)
    part = _part(campaign, split, collection, None, text, template, key)
    found = find_clusters(campaign, part, out or folder / "clusters.csv", wish, ways)
    show(found, as_json, cluster_words(found))


def match_words(found: dict[str, Any]) -> str:
    """The figures of a list for a person."""
    tried = found["look"]["held_out_average_precision"]
    lines = [f"{found['task']}, {found['split']}: {found['pairs']:,} pairs, {found['search']['method']}."]
    if len(tried) > 1:
        said = ", ".join(f"{name} {value:.4f}" for name, value in tried.items())
        lines.append(f"Average precision of held-out labels: {said}. Used: the {found['look']['used']}.")
        if found["look"]["used"] == "first look":
            lines.append("The second look did not help and was left out.")
    if found["search"]["recall"]:
        lines.append(f"The index finds {found['search']['recall']['value']:.4f} of the true nearest.")
    lines.append(threshold_words(found["threshold"]))
    sure = f" ({found['labelled']:,} pairs labelled as matches among them)" if found["labelled"] else ""
    one = ", at most one a text" if found["one_to_one"] else ""
    lines.append(f"{found['out']}: {found['matches']:,} matches{one}{sure}.")
    if "truth" in found:
        truth = found["truth"]
        lines += [
            "",
            f"Against the truth of {found['split']} ({truth['positives']:,} matches), over all pairs:",
            f"  the list         {_prf(truth['list'])}",
            f"  by score alone   {_prf(truth['scores_alone'])}",
            (
                f"  average precision {truth['average_precision']:.4f}; "
                f"the best F1 of any threshold {truth['best_f1']['value']:.4f}"
            ),
        ]
    if "distilled" in found:
        told = found["distilled"]
        kept = f"kept in {told['out']}" if told["kept"] else "not kept: it did not rank better"
        lines.append(
            f"Distilled with {told['pairs']:,} pairs the second look is sure of: held-out average precision "
            f"{told['before']:.4f} before, {told['after']:.4f} after; {kept}."
        )
    return "\n".join(lines)


def cluster_words(found: dict[str, Any]) -> str:
    """The figures of groups for a person."""
    groups = f"{found['clusters']:,} groups of {found['clustered_texts']:,} texts"
    lines = [
        f"{found['task']}, {found['split']}: {found['texts']:,} texts.",
        threshold_words(found["threshold"]),
        f"{found['out']}: {groups}, the largest of {found['largest']:,}.",
        f"{found['components_split']:,} chains of matches were split.",
    ]
    for name, words in (
        ("truth", "against the truth"),
        ("truth_of_components", "unsplit chains would have"),
        ("labels", "against the labels bought, which are hard ones"),
    ):
        if name in found:
            figures = found[name]
            lines.append(f"  {words}: pairwise {_prf(figures['pairwise'])}; B³ {_prf(figures['b3'])}")
    return "\n".join(lines)


def threshold_words(told: dict[str, Any]) -> str:
    """Where the line was drawn, on whose word, and what is expected of it."""
    expected = ""
    if "precision" in told:
        figures = [(name, told[name]) for name in ("precision", "recall")]
        expected = "; expected " + ", ".join(
            f"{name} {value['value']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"
            if isinstance(value, dict)
            else f"{name} {value:.3f}"
            for name, value in figures
        )
    by = f" from {told['words']}" if told["from"] else ""
    words = f"Threshold {told['threshold']:.4f} for {told['wish']},{by}{expected}.".replace(",;", ";")
    return f"{words}\n  {told['trust']}" if told.get("trust") and expected else words


def _prf(line: dict[str, Any]) -> str:
    if "f1" not in line:
        return "no pair"
    return f"precision {line['precision']:.4f}, recall {line['recall']:.4f}, F1 {line['f1']:.4f}"


def _check_search(search: str) -> None:
    from pairsieve.matches.ranking import SEARCHES

    if search not in SEARCHES:
        raise InputError(f"unknown --search {search!r}", remedy=nearest(search, SEARCHES))


def _check_f1(f1: bool, kind: str) -> None:
    if f1 and kind != "f1":
        raise InputError(f"--f1 and --{kind} together", remedy="Give one of them")


def _part(
    campaign: Campaign,
    split: str | None,
    collection: Path | None,
    right: Path | None,
    text: list[str],
    template: str | None,
    key: str | None,
) -> Split:
    """The split named, or one made of a new table."""
    from pairsieve.matches.finding import new_part, part_named

    if collection is None:
        if right or text or template or key:
            raise InputError(
                "--right, --text, --template and --key describe a new table", remedy="Add --collection FILE"
            )
        return part_named(campaign, split)
    if split is not None:
        raise InputError("--split and --collection together", remedy="Give one of them")
    mine = _collection(campaign, collection, 0, text, template, key)
    yours = _collection(campaign, right, 1, text, template, key) if right is not None else None
    made = new_part(campaign, mine, yours)
    say(f"{collection}: {len(mine):,} texts, {made.space.size:,} pairs.")
    return made


def _collection(
    campaign: Campaign, path: Path, side: int, text: list[str], template: str | None, key: str | None
) -> Collection:
    """A new table read as the task's own was, unless told otherwise."""
    from pairsieve.tasks.again import like_the_task

    return like_the_task(campaign.task, side, path, text, template, key)

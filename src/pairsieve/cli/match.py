"""`pairsieve match` and `pairsieve cluster`: the matches of a trained campaign, as pairs and as groups."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from typer import Option

from pairsieve.cli import app, call, say, show
from pairsieve.cli.options import CACHE, DISTRIBUTED, FOLDER, JSON
from pairsieve.progress import doing

if TYPE_CHECKING:
    from pairsieve.audit.estimate import Limits
    from pairsieve.contracts import Estimate
    from pairsieve.matches.checks import Check
    from pairsieve.matches.figures import ClusterFigures, MatchFigures, ThresholdFigures

_SPLIT = Option(None, "--split", help="The split to match. [all, or the campaign's own]")
_THRESHOLD = Option(None, "--threshold", help="Every pair with this score or more.")
_SOURCE = Option(
    None,
    "--from",
    help="What the threshold is chosen from: labels, dev or audit. [labels; dev for other splits]",
)
_SEARCH = Option("exact", "--search", help="exact (all pairs), or by a Faiss index: ivf or hnsw.")
_COLLECTION = Option(None, "--collection", help="A new table in place of the task's texts.")
_TEXT = Option([], "--text", help="Column with its text; repeat for several. [as in the task]")
_TEMPLATE = Option(None, "--template", help='Its text, as "{title} by {author}".')
_KEY = Option(None, "--key", help="Column with its key. [as in the task]")
_TEXTS = Option(False, "--texts", help="Write the texts beside the keys.")
_COLUMNS = Option(True, help="Write the columns of the records beside the figures.")
_IGNORE = Option(False, "--scores-only", help="List by score alone; ignore what labels say of single pairs.")

USELESS_BOUND = 0.1  # of the pairs that a check leaves out: an upper limit of matches above it says nothing


@app.command()
def match(
    folder: Path = FOLDER,
    out: Path | None = Option(
        None, help="The list: .parquet, .csv, .tsv, .jsonl or .xlsx. [DIR/matches.csv]"
    ),
    split: str | None = _SPLIT,
    precision: float | None = Option(None, help="The longest list with this precision."),
    recall: float | None = Option(None, help="The shortest list with this recall."),
    count: int | None = Option(None, help="This many pairs, the best ones."),
    threshold: float | None = _THRESHOLD,
    f1: bool = Option(
        False,
        "--f1",
        help="Every pair above the threshold with the best F1. [one collection: the pairs within groups]",
    ),
    source: str | None = _SOURCE,
    check_labels: int = Option(100, help="At most so many labels are asked to show the precision or recall."),
    confidence: float = Option(
        0.95, help="A list that lacks what you ask for passes a check with a chance of at most 1 minus this."
    ),
    search: str = _SEARCH,
    distil: Path | None = Option(
        None, help="Train the encoder again on what the re-ranker is sure of; saved here if it ranks better."
    ),
    one_to_one: bool = Option(False, "--one-to-one", help="At most one partner for each text."),
    collection: Path | None = _COLLECTION,
    right: Path | None = Option(None, help="A new right table, with --collection."),
    text: list[str] = _TEXT,
    template: str | None = _TEMPLATE,
    key: str | None = _KEY,
    texts: bool = _TEXTS,
    columns: bool = _COLUMNS,
    scores_only: bool = _IGNORE,
    cache: Path | None = CACHE,
    distributed: str | None = DISTRIBUTED,
    as_json: bool = JSON,
) -> None:
    """List the matches, at the precision or recall you want.

    Every pair above a threshold, best first: keys, score, probability. The threshold is chosen for a
    precision, a recall, a number of pairs or the best F1; never on the test split, unless you ask for a
    precision or recall of it (--split test): its check's labels then choose among lists.

    A precision or recall that you ask for is checked: labels are drawn for it and asked, at most
    --check-labels. A list that lacks the precision (of its pairs that nobody labelled) or the recall (of the
    matches among the best-scored pairs) passes in at most 5 % of checks (1 - --confidence). Pairs labelled
    as matches are always listed, pairs labelled as non-matches never. You can stop at any moment and run it
    again.
    """
    options = locals()
    from pairsieve import find_matches, open_campaign

    campaign = open_campaign(folder, cache=cache, distributed=distributed)
    with doing("finding matches"):
        found = call(find_matches, options, campaign, say=say).figures
    show(found.as_json(), as_json, match_words(found) or waiting_words(found, folder))


@app.command()
def cluster(
    folder: Path = FOLDER,
    out: Path | None = Option(
        None, help="The groups: .parquet, .csv, .tsv, .jsonl or .xlsx. [DIR/clusters.csv]"
    ),
    split: str | None = _SPLIT,
    precision: float | None = Option(
        None, help="The lowest threshold whose pairs have this precision; expected, not checked."
    ),
    recall: float | None = Option(
        None, help="The highest threshold whose pairs have this recall; expected, not checked."
    ),
    threshold: float | None = _THRESHOLD,
    source: str | None = _SOURCE,
    search: str = _SEARCH,
    collection: Path | None = _COLLECTION,
    text: list[str] = _TEXT,
    template: str | None = _TEMPLATE,
    key: str | None = _KEY,
    texts: bool = _TEXTS,
    columns: bool = _COLUMNS,
    table: bool = Option(False, "--table", help="The input table in its order, with the group of each row."),
    merge: list[str] = Option(
        [],
        metavar="[COLUMN=]RULE",
        help="One record a group: longest, most-frequent, most-recent[:COLUMN], source-order[:COLUMN]; "
        "repeatable.",
    ),
    source_order: list[str] = Option([], help="Of source-order: a source, the best first; repeatable."),
    scores_only: bool = _IGNORE,
    cache: Path | None = CACHE,
    distributed: str | None = DISTRIBUTED,
    as_json: bool = JSON,
) -> None:
    """Group the duplicates of one collection.

    Two groups merge only while the average score between them reaches the threshold (average linkage), so one
    weak match does not join them. Each group has a representative.

    Without a target the threshold is that of the best F1. A precision or recall is of the pairs by score, as
    the labels or dev let one expect it; only match asks for labels that check it.
    """
    options = locals()
    from pairsieve import find_clusters, open_campaign

    campaign = open_campaign(folder, cache=cache, distributed=distributed)
    with doing("grouping duplicates"):
        found = call(find_clusters, options, campaign, say=say).figures
    show(found.as_json(), as_json, cluster_words(found))


def _each(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in figures.items())


def match_words(found: MatchFigures) -> str:
    """The figures of a list for a person; empty where it is not written yet."""
    ranked, written = found.ranked, found.written
    if written is None:
        return ""
    lines = [f"{ranked.task}, {ranked.split}: {found.pairs:,} pairs, {ranked.method}."]
    if len(ranked.tried.labels) > 1:
        used = "re-ranker" if ranked.reranked else "bi-encoder"
        of_dev = f" Over all pairs of dev: {_each(ranked.tried.dev)}." if ranked.tried.dev else ""
        of_labels = f"Average precision of out-of-fold labels: {_each(ranked.tried.labels)}."
        lines.append(f"{of_labels}{of_dev} Used: the {used}.")
    elif ranked.reranker_setting in ("on", "cross-encoder"):
        from pairsieve.reranker.fit import FEWEST

        few = f"Too few labels for the re-ranker (it needs {FEWEST} of either class)"
        lines.append(f"{few}: the bi-encoder alone.")
    if ranked.recall is not None:
        lines.append(f"The index finds {ranked.recall.value:.4f} of the true nearest.")
    lines += unreadable_words(ranked.unreadable_texts)
    lines.append(threshold_words(written.threshold))
    if found.check is not None:
        lines.append(check_words(found.check, ranked.campaign))
    else:
        lines += unchecked_words(written.threshold)
    sure = f" ({written.labelled:,} pairs labelled as matches among them)" if written.labelled else ""
    one = ", at most one a text" if written.one_to_one else ""
    one = ", the pairs inside groups" if written.grouped else one
    listed = f"{written.matches:,} matches{one}{sure}" if written.matches else "no pair is listed"
    lines.append(f"{written.out}: {listed}.")
    if written.without_probability:
        few = f"{written.without_probability:,} of them have a score and no probability"
        lines.append(f"{few}: too little is known of such scores.")
    if written.unlikely and written.grouped:
        from pairsieve.matches.listing import UNLIKELY

        few = (
            f"{written.unlikely:,} of them have a probability below {UNLIKELY:g}; their group puts them there"
        )
        lines.append(
            f"{few}. A wrong answer can do that: look at them on the page Review of pairsieve label."
        )
    if written.best_f1_pairs is not None:
        lines.append(f"Without a target it would have about {written.best_f1_pairs:,}, for the best F1.")
    lines += list_words(written.threshold, check=found.check)
    lines += [found.warning] if found.warning else []
    if written.truth is not None:
        truth = written.truth
        new = "none" if truth.new_precision is None else f"precision {truth.new_precision:.4f}"
        of = "" if truth.new_precision is None else f" of {truth.new_pairs:,}"
        ap, best = truth.average_precision, truth.best_f1.value
        lines += [
            "",
            f"Against the truth of {ranked.split} ({truth.positives:,} matches), over all pairs:",
            f"  the list         {_prf(truth.listed.precision, truth.listed.recall)}",
            f"  its new pairs    {new}{of}",
            f"  by score alone   {_prf(truth.scores_alone.precision, truth.scores_alone.recall)}",
            f"  average precision {ap:.4f}; the best F1 of any threshold {best:.4f}",
        ]
    if found.distilled is not None:
        result = found.distilled
        kept = f"kept in {result.out}" if result.kept else "not kept: it did not rank better"
        lines.append(
            f"Distilled with {result.pairs:,} pairs the re-ranker is sure of: out-of-fold average "
            f"precision {result.before:.4f} before, {result.after:.4f} after; {kept}."
        )
    return "\n".join(lines)


def cluster_words(found: ClusterFigures) -> str:
    """The figures of groups for a person."""
    groups = f"{found.clusters:,} groups of {found.clustered_texts:,} texts"
    lines = [
        f"{found.ranked.task}, {found.ranked.split}: {found.texts:,} texts.",
        *unreadable_words(found.ranked.unreadable_texts),
        threshold_words(found.threshold),
        *unchecked_words(found.threshold),
        f"{found.out}: {groups}, the largest of {found.largest:,}.",
        f"{found.components_split:,} chains of matches were split.",
        *contradicted_words(found.contradicted),
        *list_words(found.threshold, "the pairs inside groups have"),
        *([found.warning] if found.warning else []),
    ]
    for figures, words in (
        (found.truth, "against the truth"),
        (found.truth_of_components, "unsplit chains would have"),
        (found.labels, "against the labels, which are harder than other pairs"),
    ):
        if figures is not None:
            pairwise = _prf(figures.pair_precision, figures.pair_recall)
            lines.append(
                f"  {words}: pairwise {pairwise}; B³ {_prf(figures.b3_precision, figures.b3_recall)}"
            )
    return "\n".join(lines)


def contradicted_words(pairs: int) -> list[str]:
    """That answers contradict each other."""
    if not pairs:
        return []
    are = "pair answered as no match is" if pairs == 1 else "pairs answered as no match are"
    what = f"{pairs:,} {are} inside a group, which other answers make"
    return [f"{what}: some answer is wrong. See the page Review of pairsieve label."]


def unreadable_words(texts: int) -> list[str]:
    """What a list does with texts that the encoder cannot read."""
    if not texts:
        return []
    sentence = (
        f"The encoder cannot read {texts:,} of the texts: it knows none or few of their characters, so they "
        "look alike to it. Of two that do, only equal texts and labelled matches are listed."
    )
    return [sentence]


def threshold_words(chosen: ThresholdFigures) -> str:
    """The threshold, what it was chosen for and on, and dev's precision and recall there, if it was that."""
    given = chosen.target.kind == "threshold"
    expected = ""
    if chosen.of_dev:
        known = {"precision": chosen.precision, "recall": chosen.recall}
        figures = ", ".join(f"{name} {_figure(each)}" for name, each in known.items() if each is not None)
        by = chosen.target.kind != "count" and chosen.basis.startswith("the truth of")  # and by no check
        place = f"by {chosen.basis}" if given else f"on dev{', where it was chosen,' if by else ''}"
        expected = f"; {place} {figures}"
    target = " as given" if given else f" for {chosen.target}"
    source = f", from {chosen.basis}" if chosen.source and not given else ""
    sentence = f"Threshold {chosen.point.threshold:.9g}{target}{source}{expected}."
    return f"{sentence}\n  {chosen.trust}" if chosen.trust and expected else sentence


def unchecked_words(chosen: ThresholdFigures) -> list[str]:
    """That nobody checks the precision or recall that was asked for."""
    if chosen.target.kind not in ("precision", "recall"):
        return []
    words = "That is expected of the pairs by score, not checked."
    if chosen.target.kind == "recall" and math.isfinite(chosen.point.precision):
        words += f" The precision expected there is {chosen.point.precision:.2f}."
    return [words]


def list_words(chosen: ThresholdFigures, of: str = "the list has", check: Check | None = None) -> list[str]:
    """What drawn labels say of the list as it is written, beside what a check has shown; nothing where too
    few were drawn.
    """
    listed = chosen.listed
    if listed is None:
        return []
    new = listed.precision_of_new
    of_new = f"; its pairs nobody labelled {_figure(new)}" if new is not None else ""
    recall = "a recall that is not known: no match was seen"
    if listed.recall is not None:
        within = f"of the matches among the {listed.reach_pairs:,} best pairs"
        recall = f"a recall of {_figure(listed.recall)} {within}"
    figures = {"precision": f"a precision of {_figure(listed.precision)}{of_new}", "recall": recall}
    if check is not None and check.threshold is not None:
        del figures[check.target]
    return [f"By {listed.labels:,} drawn labels {of} {'; '.join(figures.values())}."]


def check_words(check: Check, folder: Path = Path("DIR")) -> str:
    """What was shown of a list, or how many labels would show it."""
    by = f" (answered by {check.answered_by})" if check.answered_by and check.labels else ""
    if check.threshold is None and check.beyond:
        return (
            f"Not shown: {check.labels:,} labels{by} speak of the {check.pairs:,} best-scored pairs, "
            f"and about {check.beyond:,.0f} more matches are expected below these. Ask for a lower "
            f"--recall, or train on more labels (pairsieve extend {quote(str(folder))} --labels 200, then "
            f"pairsieve run {quote(str(folder))}) and match again."
        )
    if check.threshold is None:
        spent = f" {check.labels:,} labels{by} do not show it;" if check.labels else ""
        return f"Not checked:{spent} about {check.needed:,} more labels would tell (--check-labels)."
    shown = f"Checked by {check.labels:,} labels{by}: with {check.confidence:.0%} confidence"
    if check.target == "precision" and not check.left:
        return f"Checked by {check.labels:,} labels{by}: every pair of it is labelled."
    if check.target == "precision":
        longer = "" if check.failed else " No longer list failed: more labels (--check-labels) may show one."
        return f"{shown} its pairs that nobody labelled have a precision of {check.value:g} or more.{longer}"
    if not check.beyond_pairs:
        return f"{shown} it has {check.value:g} or more of all matches."
    return (
        f"{shown} it has {check.value:g} or more of the matches among the {check.pairs:,} best-scored "
        f"pairs. {_beyond_words(check)}"
    )


def _beyond_words(check: Check) -> str:
    """What a recall is not of."""
    most, others = check.beyond_most, check.beyond_pairs
    known = f"the labels drawn from all pairs leave room for up to {most:,} matches there"
    if most > others * USELESS_BOUND:
        known = "the labels drawn from all pairs are too few to say how many matches are there"
    if check.beyond >= 0.5:
        known += f"; about {check.beyond:,.0f} are expected, and counted as missed"
    return f"That is not the recall of all matches: the other {others:,} pairs are not checked, and {known}."


def waiting_words(found: MatchFigures, folder: Path) -> str:
    """How a check that waits for people goes on."""
    return (
        f"Waiting for {found.waiting:,} labels that check the list. Nothing is lost; run again when they "
        f"are answered.\nLabel in the browser with pairsieve label {folder}, or by file with "
        f"pairsieve ask {folder} --out batch.csv and import."
    )


def _figure(figure: Estimate | Limits | float) -> str:
    if isinstance(figure, float):
        return f"{figure:.3f}"
    value = getattr(figure, "value", None)  # limits have none
    return f"{'' if value is None else f'{value:.3f} '}[{figure.low:.3f}, {figure.high:.3f}]"


def _prf(precision: float, recall: float) -> str:
    total = precision + recall
    if math.isnan(total):
        return "no pair"
    f1 = 2 * precision * recall / total if total else 0.0
    return f"precision {precision:.4f}, recall {recall:.4f}, F1 {f1:.4f}"

"""Lists of matches, groups of duplicates, and the explanation of one pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pairsieve.campaign import Campaign
from pairsieve.errors import InputError, nearest
from pairsieve.explain import Explanation, explain
from pairsieve.library.campaigns import Place, open_campaign
from pairsieve.library.records import ClusterList, Folder, MatchList
from pairsieve.matches.find import new_split, split_named
from pairsieve.matches.merging import read_rules
from pairsieve.matches.ranking import SEARCHES
from pairsieve.matches.threshold import target_from
from pairsieve.tasks import Collection, Split
from pairsieve.tasks.new_table import read_like_task

Say = Callable[[str], None]


def find_matches(
    campaign: Place,
    out: Folder | None = None,
    *,
    precision: float | None = None,
    recall: float | None = None,
    count: int | None = None,
    threshold: float | None = None,
    split: str | None = None,
    collection: Any = None,
    right: Any = None,
    text: Sequence[str] = (),
    template: str | None = None,
    key: str | None = None,
    source: str | None = None,
    check_labels: int = 100,
    confidence: float = 0.95,
    search: str = "exact",
    distil: Folder | None = None,
    one_to_one: bool = False,
    f1: bool = False,
    texts: bool = False,
    columns: bool = True,
    scores_only: bool = False,
    say: Say = lambda message: None,
) -> MatchList:
    """Write the matches to `out` (the campaign's matches.csv), best first: every pair above a threshold.

    The threshold is that of the best F1, or of the precision, recall or count you want, or a given one; it is
    chosen on labels, dev or an audit (`source`); on test only by the check of a precision or recall that
    you ask of it (`split`). Where nothing is asked for, the matches of
    one collection are the pairs inside its groups, as `find_clusters` finds them; f1: those above the
    threshold all the same. A precision or recall is shown with
    `confidence` by at most `check_labels` labels asked for it; while people owe them, `waiting` says how many
    and nothing is written: call it again. Rows have left, right, score, probability, label, and the columns
    of both records as left_… and right_… where the task was made from a table (`columns`). `.to_pandas()` of
    the result is a DataFrame.
    collection: new texts, or a table in any shape, in place of the task's (`right`: of its right); it is read
    as the task's was, unless `text`, `template` or `key` say otherwise. distil: a folder for an encoder
    trained again on what the re-ranker is sure of, kept if it ranks better.
    """
    from pairsieve.matches.find import find_matches
    from pairsieve.matches.options import ListOptions

    _check_search(search)
    target = target_from(precision, recall, count, threshold, f1)
    campaign = open_campaign(campaign)
    listed = _split_of(campaign, split, collection, right, (text, template, key), say)
    asked = any(given is not None for given in (precision, recall, count, threshold))
    grouped = listed.space.symmetric and not (asked or f1 or one_to_one or scores_only or search != "exact")
    options = ListOptions(
        source, search, one_to_one, texts, columns, not scores_only, check_labels, confidence, grouped=grouped
    )
    path = campaign.folder / "matches.csv" if out is None else Path(out)
    figures = find_matches(campaign, listed, path, target, options)
    if distil is not None:
        distilled = campaign.trainer.distil(campaign.labels(campaign.latest()), Path(distil))
        figures = replace(figures, distilled=distilled)
    return MatchList(path, figures)


def find_clusters(
    campaign: Place,
    out: Folder | None = None,
    *,
    precision: float | None = None,
    recall: float | None = None,
    threshold: float | None = None,
    split: str | None = None,
    collection: Any = None,
    text: Sequence[str] = (),
    template: str | None = None,
    key: str | None = None,
    source: str | None = None,
    search: str = "exact",
    texts: bool = False,
    columns: bool = True,
    table: bool = False,
    merge: str | Sequence[str] = (),
    source_order: Sequence[str] = (),
    scores_only: bool = False,
    say: Say = lambda message: None,
) -> ClusterList:
    """Write the group of every text to `out` (the campaign's clusters.csv), with its representative.

    precision, recall: of the pairs by score, as labels or dev (`source`) let one expect it; not checked.
    columns: beside the columns of the records. table: the input table in its own order, with the group behind
    its columns. merge: one record a group in place of them (merged.csv): "longest", "most-frequent",
    "most-recent" (or "most-recent:COLUMN") or "source-order" ("source-order:COLUMN"; `source_order` names the
    best first), and for single fields as "price=most-recent". `.to_pandas()` of the result is a DataFrame.
    """
    from pairsieve.matches.find import find_clusters
    from pairsieve.matches.options import ListOptions

    _check_search(search)
    target = target_from(precision, recall, None, threshold)
    campaign = open_campaign(campaign)
    if table and merge:
        raise InputError("`table` and `merge` together", remedy="Give one of them")
    rules = read_rules(merge, source_order, campaign.task.provenance.get("source")) if merge else None
    options = ListOptions(
        source, search, texts=texts, columns=columns, known=not scores_only, check_labels=0, as_table=table
    )
    listed = _split_of(campaign, split, collection, None, (text, template, key), say)
    path = campaign.folder / ("merged.csv" if merge else "clusters.csv") if out is None else Path(out)
    return ClusterList(path, find_clusters(campaign, listed, path, target, options, rules))


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
    return explain(open_campaign(campaign), left, right, split, examples, count_all)


def _split_of(
    campaign: Campaign,
    split: str | None,
    collection: Any,
    right: Any,
    columns: tuple[Sequence[str], str | None, str | None],
    say: Say,
) -> Split:
    """The split to list: the one named, or one made of new texts by their text, template and key columns."""
    if collection is None:
        if right is not None or any(columns):
            what = "`right`, `text`, `template` and `key` describe a new table"
            raise InputError(what, remedy="Add `collection`")
        return split_named(campaign, split)
    if split is not None:
        raise InputError("`split` and `collection` together", remedy="Give one of them")

    def texts(side: int, given: Any) -> Collection:
        if isinstance(given, Collection):
            return given
        return read_like_task(campaign.task, side, given, *columns)

    left_texts = texts(0, collection)
    found = new_split(campaign, left_texts, None if right is None else texts(1, right))
    if isinstance(collection, (str, Path)):
        say(f"{collection}: {len(left_texts):,} texts, {found.space.size:,} pairs.")
    return found


def _check_search(search: str) -> None:
    if search not in SEARCHES:
        raise InputError(f"unknown `search` {search!r}", remedy=nearest(search, SEARCHES))

"""From a trained campaign to its matches: which split, which look, whose word for the line, which file?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pairsieve.contracts import Estimate
from pairsieve.errors import InputError, nearest
from pairsieve.matches.assignment import check_two, one_to_one
from pairsieve.matches.clusters import (
    against_labels,
    against_truth,
    check_equivalence,
    components,
    guarded_clusters,
    representatives,
)
from pairsieve.matches.evidence import (
    Evidence,
    from_audit,
    from_dev,
    from_labels,
    from_second_look,
    probability,
)
from pairsieve.matches.listing import Known, check_out, first_pairs, list_bands, table_writer, write_list
from pairsieve.matches.looking import Look, again_by_second, choose_look, distil, labels_digest
from pairsieve.matches.ranking import Ranking, first_look
from pairsieve.matches.unseen import matches_left
from pairsieve.matches.wish import Line, Wish, draw_line, line_through
from pairsieve.pairs import Ids, ScoredPairs, pair_rows
from pairsieve.second_look import enough
from pairsieve.tasks import Collection, Split
from pairsieve.tasks.task import one_collection, shared_pairs, two_collections

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign

SOURCES = ("labels", "dev", "audit")
LOOK_AGAIN_AT_MOST = 200_000  # texts a side up to which a second look is tried without being asked for
ASSIGN_AT_MOST = 50_000_000  # pairs that a one-to-one assignment takes into memory


@dataclass(frozen=True)
class Ways:
    """How matches are looked for. `again`: None tries a second look where labels and size allow it."""

    source: str | None = None  # whose word for the threshold; None is what fits
    search: str = "exact"
    again: bool | None = None
    cross: bool = False
    one_to_one: bool = False
    texts: bool = False
    known: bool = True  # labelled matches stay in the list, labelled non-matches out of it


def find_matches(
    campaign: Campaign, part: Split, out: Path, wish: Wish | None = None, ways: Ways | None = None
) -> dict[str, Any]:
    """Write every pair of `part` above the wished-for line to `out`, best first; returns the figures."""
    wish, ways = wish or Wish(), ways or Ways()
    check_out(out)
    if ways.one_to_one:
        check_two(part.space)
    number = campaign.trained_round("to match with")
    source = _source(campaign, part, ways.source)
    again = _tries_again(campaign, part, ways, wish, source)
    look = choose_look(campaign, number, ways.search, again, ways.cross)
    ranking = look.rank(part)
    given = known_pairs(campaign, part)
    known = given if ways.known else Known.nothing()
    evidence, line = _line(campaign, number, part, look, ranking, given, wish, source, ways.known)
    key = {**look.key, "texts": [part.left.fingerprint, part.right.fingerprint], "known": _digest(known)}
    bands = list_bands(campaign.store, key, ranking, line.threshold, known)
    if ways.one_to_one:
        bands = _assigned(ranking, bands, line.threshold, known)
    if wish.kind == "count":
        bands = first_pairs(bands, int(wish.value))
    rows, found = write_list(
        out, bands, part, lambda scores: probability(ranking, evidence, scores), known, ways.texts
    )
    return {
        "campaign": str(campaign.folder),
        "task": campaign.task.name,
        "split": part.name,
        "round": number,
        "pairs": part.space.size,
        "look": {"used": look.name, "held_out_average_precision": look.tried},
        "search": {"method": ranking.method, "recall": ranking.recall.as_json() if ranking.recall else None},
        "threshold": _told(wish, evidence, line, ways.known),
        "out": str(out),
        "matches": rows,
        "labelled": int(known.labels.sum()),
        "one_to_one": ways.one_to_one,
        **({"truth": _against_truth(ranking, line, rows, found)} if _measurable(part) else {}),
    }


def find_clusters(
    campaign: Campaign, part: Split, out: Path, wish: Wish | None = None, ways: Ways | None = None
) -> dict[str, Any]:
    """Write the group of every text of `part` to `out`, with the group's representative; returns figures."""
    wish, ways = wish or Wish(), ways or Ways()
    check_out(out)
    check_equivalence(part.space, campaign.task.relation, str(campaign.folder))
    number = campaign.trained_round("to match with")
    source = _source(campaign, part, ways.source)
    look = choose_look(campaign, number, ways.search)
    ranking = look.rank(part)
    given = known_pairs(campaign, part)
    known = given if ways.known else Known.nothing()
    evidence, line = _line(campaign, number, part, look, ranking, given, wish, source, ways.known)
    pieces: list[Ids] = [np.empty(0, np.int64)]
    ranking.collect(line.threshold, 1e30, lambda ids, scores: pieces.append(ids))
    pairs = np.concatenate(pieces)
    embedded, _ = campaign.embeddings(campaign.matcher(number), part, number)
    rows = np.asarray(embedded, np.float32)
    group = guarded_clusters(rows, pairs, line.threshold, known.matches, known.others)
    chained = components(len(part.left), np.union1d(pairs, known.matches))
    chosen = representatives(rows, group)
    _write_groups(out, part.left, group, chosen, ways.texts)
    size = np.bincount(group)
    made: dict[str, Any] = {
        "campaign": str(campaign.folder),
        "task": campaign.task.name,
        "split": part.name,
        "round": number,
        "texts": len(group),
        "search": {"method": ranking.method, "recall": ranking.recall.as_json() if ranking.recall else None},
        "threshold": _told(wish, evidence, line, ways.known),
        "out": str(out),
        "clusters": int((size > 1).sum()),
        "clustered_texts": int(size[size > 1].sum()),
        "largest": int(size.max(initial=0)),
        "components_split": int(sum(_pieces(chained, group) > 1)),
    }
    if _measurable(part):
        truth = components(len(part.left), part.positives)
        made["truth"] = against_truth(group, truth).as_json()
        made["truth_of_components"] = against_truth(chained, truth).as_json()
    ids, labels = campaign.ledger.labels(through=number)
    if part is campaign.split and not _measurable(part) and len(ids):
        # Without the labels themselves: groups that were told the answers would agree with them.
        alone = guarded_clusters(rows, pairs, line.threshold)
        made["labels"] = against_labels(alone, ids[labels], ids[~labels]).as_json()
    return made


def distil_into(campaign: Campaign, out: Path, ways: Ways) -> dict[str, Any]:
    """Train the bi-encoder again on what the second look is sure of; see `looking.distil`."""
    number = campaign.trained_round("to match with")
    return distil(campaign, number, choose_look(campaign, number, "exact", True, ways.cross), out)


def part_named(campaign: Campaign, split: str | None) -> Split:
    """The split to match: the one named, else `all` where the task has it, else the campaign's own."""
    splits = campaign.task.splits
    name = split or ("all" if "all" in splits else campaign.settings.split)
    if name not in splits:
        raise InputError(f"no split {name!r}", where=str(campaign.folder), remedy=nearest(name, splits))
    return splits[name]


def new_part(campaign: Campaign, left: Collection, right: Collection | None) -> Split:
    """A new collection: its own pairs, or, of two collections, against `right` (else the task's right)."""
    nothing = np.empty(0, np.int64)
    if campaign.split.space.symmetric:
        if right is not None:
            raise InputError(
                "a second new collection",
                where=str(campaign.folder),
                why="the campaign finds duplicates within one collection",
                remedy="Leave --right out",
            )
        return one_collection("new", left, nothing, nothing, False)
    old = part_named(campaign, None).right
    return two_collections("new", left, right if right is not None else old, nothing, nothing, False)


def known_pairs(campaign: Campaign, part: Split) -> Known:
    """The labels given so far, of training and audits, for the pairs of `part`; found there by their keys."""
    given = [campaign.ledger.labels(purpose) for purpose in ("train", "audit")]
    ids = np.concatenate([pairs for pairs, _ in given])
    labels = np.concatenate([answers for _, answers in given])
    own = campaign.split
    if part is not own:
        rows = [
            _rows_there([mine.keys[row] for row in side.tolist()], theirs.keys)
            for side, mine, theirs in zip(pair_rows(ids), (own.left, own.right), (part.left, part.right))
        ]
        there = (rows[0] >= 0) & (rows[1] >= 0) & (part.name != "new")
        ids, labels = part.space.ids(rows[0][there], rows[1][there]), labels[there]
    distinct, first = np.unique(ids, return_index=True)
    return Known(distinct, labels[first])


def _rows_there(keys: Sequence[str], there: Sequence[str]) -> Any:
    row_of = {key: row for row, key in enumerate(there)}
    return np.fromiter((row_of.get(key, -1) for key in keys), np.int64, len(keys))


def _source(campaign: Campaign, part: Split, named: str | None) -> str:
    """Whose word the threshold is taken on. Labels speak of their own split, dev of the others."""
    splits, own = campaign.task.splits, campaign.settings.split
    if named is not None and named not in SOURCES:
        if named == "test" or named in splits:
            raise InputError(
                f"--from {named}",
                why="a threshold chosen on the split that is measured would flatter every figure after it"
                if named == "test"
                else "only the dev split's truth may choose a threshold",
                remedy=f"Use {', '.join(SOURCES)}",
            )
        raise InputError(f"unknown --from {named!r}", remedy=nearest(named, SOURCES))
    usable = "dev" in splits and _measurable(splits["dev"])
    if named == "dev" and not usable:
        raise InputError(
            "there is no dev split with known matches",
            where=str(campaign.folder),
            remedy="Use --from labels or --from audit",
        )
    source = named or ("dev" if usable and part.name != own else "labels")
    if source == "labels" and own == "test":
        raise InputError(
            "the labels of this campaign are of the test split",
            where=str(campaign.folder),
            why="a threshold is never chosen on test",
            remedy="Use --from dev, or give --threshold or --count",
        )
    if source == "audit" and part is not campaign.split:
        raise InputError(
            f"the audit speaks of {own!r}, not of {part.name!r}",
            where=str(campaign.folder),
            remedy=f"Match --split {own}, or use --from labels or dev",
        )
    return source


def _tries_again(campaign: Campaign, part: Split, ways: Ways, wish: Wish, source: str) -> bool:
    if ways.again is not None or ways.cross:
        if ways.again and ways.search != "exact":
            raise InputError(
                f"--second-look with --search {ways.search}",
                why="a second look finds its own candidates, exactly",
                remedy="Give one of them",
            )
        return bool(ways.again or ways.cross)
    small = max(*part.space.shape, *campaign.split.space.shape) <= LOOK_AGAIN_AT_MOST
    labels = campaign.ledger.labels(through=campaign.latest())[1]
    plain = ways.search == "exact" and source != "audit" and wish.kind != "threshold"
    return small and plain and enough(labels)


def _line(
    campaign: Campaign,
    number: int,
    part: Split,
    look: Look,
    ranking: Ranking,
    known: Known,
    wish: Wish,
    source: str,
    as_labelled: bool,
) -> tuple[Evidence | None, Line]:
    """The evidence and the line; without evidence only where the wish needs none."""
    evidence: Evidence | None = None
    labels, seed = look.bought.labels, campaign.settings.seed
    try:
        if source == "dev":
            dev = campaign.task.splits["dev"]
            held_out = not shared_pairs(campaign.split, dev)
            evidence = from_dev(ranking if dev is part else look.rank(dev), part, seed, held_out)
        elif source == "audit":
            evidence = from_audit(campaign, number, ranking)
        elif look.name == "first look" and campaign.settings.strategy == "second-look" and enough(labels):
            evidence = from_second_look(ranking, again_by_second(campaign, number, part), known, seed)
        else:
            left = _left(campaign, number, part, ranking, known)
            evidence = from_labels(ranking, look.bought, known, seed, left)
    except InputError:
        if wish.kind not in ("count", "threshold"):
            raise
    if wish.kind == "count":
        left_out = len(known.others) if as_labelled else 0
        threshold = ranking.threshold_for_count(int(wish.value) + left_out)
    elif wish.kind == "threshold":
        threshold = wish.value
    else:
        assert evidence is not None
        threshold = draw_line(evidence.curve, wish).threshold
    if evidence is None:
        return None, Line(threshold, float("nan"), float("nan"))
    curve = evidence.listed if as_labelled and evidence.listed is not None else evidence.curve
    return evidence, line_through(curve, threshold)


def _left(campaign: Campaign, number: int, part: Split, ranking: Ranking, known: Known) -> Estimate | None:
    """Matches among all unlabelled pairs; not where an index is to spare a look at all of them."""
    if ranking.recall is not None:
        return None
    first = ranking if ranking.scan is not None else first_look(campaign, number, part)
    return matches_left(campaign, number, first, known)


def _told(wish: Wish, evidence: Evidence | None, line: Line, listed: bool) -> dict[str, Any]:
    """The threshold and what is expected of it, with intervals, and how far to trust them."""
    made: dict[str, Any] = {"wish": str(wish), "from": evidence.source if evidence else None}
    made |= {"words": evidence.words if evidence else "nothing", **line.as_json()}
    if evidence is not None and evidence.interval is not None and np.isfinite(line.precision):
        precision, recall = evidence.interval(line, listed)
        made |= {"precision": precision.as_json(), "recall": recall.as_json()}
    if evidence is not None and evidence.trust:
        made["trust"] = evidence.trust
    return made


def _assigned(
    ranking: Ranking, bands: Iterator[ScoredPairs], threshold: float, known: Known
) -> Iterator[ScoredPairs]:
    pieces, held = [], 0
    for band in bands:
        held += len(band)
        if held > ASSIGN_AT_MOST:
            raise InputError(
                f"more than {ASSIGN_AT_MOST:,} pairs reach the threshold {threshold:.4f}",
                why="an assignment looks at all of them at once",
                remedy="Ask for a higher precision",
            )
        pieces.append((np.array(band.ids), np.array(band.scores)))
    ids = np.concatenate([np.empty(0, np.int64), *(one for one, _ in pieces)])
    scores = np.concatenate([np.empty(0, np.float32), *(other for _, other in pieces)])
    logits = ranking.logits(np.maximum(scores, np.float32(threshold)))
    weights = np.maximum(logits - ranking.logits(np.array([threshold])), 0.0)
    chosen = one_to_one(ranking.part.space, ids, weights, known.matches)
    yield ScoredPairs(ids[chosen], scores[chosen])


def _against_truth(ranking: Ranking, line: Line, rows: int, found: int) -> dict[str, Any]:
    """Exact figures against the truth: of the list as written, and of the ranking alone."""
    positives = len(ranking.part.positives)
    listed = Line(line.threshold, found / rows if rows else 0.0, found / positives)
    curve = ranking.curve()
    alone = line_through(curve, line.threshold)
    best = curve.best_f1()
    return {
        "positives": positives,
        "list": listed.as_json(),
        "scores_alone": alone.as_json(),
        "average_precision": ranking.average_precision(),
        "best_f1": best.as_json(),
    }


def _write_groups(out: Path, texts: Collection, group: Any, chosen: Any, with_texts: bool) -> None:
    """Rows by group, largest first, then by first text: key, cluster, size, representative."""
    size = np.bincount(group)
    number = np.empty(len(size), np.int64)
    number[np.lexsort((np.arange(len(size)), -size))] = np.arange(len(size))
    order = np.lexsort((np.arange(len(group)), number[group]))
    rows = order.tolist()
    columns: dict[str, Sequence[Any]] = {
        "key": [texts.keys[row] for row in rows],
        **({"text": [texts.texts[row] for row in rows]} if with_texts else {}),
        "cluster": number[group[order]].tolist(),
        "size": size[group[order]].tolist(),
        "representative": [texts.keys[row] for row in chosen[group[order]].tolist()],
    }
    with table_writer(out, list(columns), {"cluster": "int64", "size": "int64"}) as write:
        write(columns)


def _pieces(coarse: Any, fine: Any) -> Any:
    """How many fine groups each coarse one holds."""
    both = np.unique(np.stack([coarse, fine]), axis=1)
    return np.bincount(both[0])


def _measurable(part: Split) -> bool:
    return part.has_truth and len(part.positives) > 0


def _digest(known: Known) -> str:
    return labels_digest(known.ids, known.labels)

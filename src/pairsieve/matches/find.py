"""From a trained campaign to its matches: the list of pairs, or the groups, as files with their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.artifacts import labels_digest
from pairsieve.audit.draws import AskedPairs
from pairsieve.audit.run import asked_pairs, of_ranking
from pairsieve.campaign import Campaign
from pairsieve.campaign.audits import split_ledger
from pairsieve.campaign.probability import calibration_of
from pairsieve.contracts import generator_for
from pairsieve.errors import InputError, nearest
from pairsieve.files import write_errors
from pairsieve.ledger import Ledger
from pairsieve.matches.assignment import check_two, one_to_one
from pairsieve.matches.calibration import ExpectedCurve, from_audit, from_dev, from_labels
from pairsieve.matches.checks import Check, Checker, check_pairs
from pairsieve.matches.clusters import (
    against_labels,
    against_truth,
    check_equivalence,
    components,
    representatives,
    split_components,
)
from pairsieve.matches.figures import (
    ClusterFigures,
    MatchFigures,
    RankedSplit,
    TruthFigures,
    WrittenMatches,
    threshold_figures,
)
from pairsieve.matches.group_table import find_groups, group_columns, pairs_inside_groups
from pairsieve.matches.listed import ListTally
from pairsieve.matches.listing import (
    NO_ROOM,
    Known,
    check_out,
    first_pairs,
    list_bands,
    list_types,
    write_list,
)
from pairsieve.matches.merging import MergeRules, merge_records
from pairsieve.matches.options import ListOptions
from pairsieve.matches.ranking import Ranking, rank, without_pairs
from pairsieve.matches.threshold import OperatingPoint, Target, choose_threshold
from pairsieve.matches.unreadable import unreadable_pairs
from pairsieve.pairs import Ids, ScoredPairs, Scores, is_member, pair_rows
from pairsieve.settings import TEST_SPLIT
from pairsieve.tables import write_table
from pairsieve.tasks import Collection, Split
from pairsieve.tasks.task import one_collection, shared_pairs, two_collections

SOURCES = ("labels", "dev", "audit")
ASSIGN_AT_MOST = 50_000_000  # pairs that a one-to-one assignment takes into memory
DECIMALS = 6  # of a threshold: what is printed is what is used


BEST_F1, DEFAULTS = Target(), ListOptions()


def find_matches(
    campaign: Campaign, split: Split, out: Path, target: Target = BEST_F1, options: ListOptions = DEFAULTS
) -> MatchFigures:
    """Write every pair of `split` above the threshold for a target to `out`, best first; returns figures.

    A precision or recall is checked by labels asked for the purpose. While people owe them nothing is
    written, and the same call goes on when they are given.
    """
    check_out(out)
    if options.one_to_one:
        check_two(split.space)
    round, ranking, known, expected, point = _ranked(campaign, split, target, options)
    ranked, check = _ranked_split(campaign, round, ranking), None
    if expected is not None and target.kind in ("precision", "recall"):
        check = _check(campaign, round, ranking, expected, target, options)
        if check is not None and check.waiting:
            return MatchFigures(ranked, split.space.size, check, None)
        known = labelled_pairs(campaign, split) if options.known else known
        if check is not None and check.threshold is not None:
            point = expected.point(check.threshold, options.known)
            expected = replace(expected, basis=_checked_basis(check, expected))
    tally = _tally(campaign, round, ranking, expected, point, target, options)
    if tally is not None:
        tally.count(_bands(campaign, ranking, point.threshold, known.without(tally.drawn), target, options))
    bands = _bands(campaign, ranking, point.threshold, known, target, options)
    types = list_types(split, options.texts, options.columns)
    probability = _probability(campaign, round, ranking)
    rows = write_list(out, bands, split, probability, known, options.texts, types)
    if not rows.pairs:
        point = OperatingPoint(point.threshold, np.nan, np.nan)  # an empty list has no precision
    written = WrittenMatches(
        threshold=threshold_figures(target, expected, point, tally, campaign.settings.seed),
        best_f1_pairs=_best_f1_pairs(ranking, expected, target),
        out=out,
        columns=types,
        matches=rows.pairs,
        labelled=rows.labelled,
        one_to_one=options.one_to_one,
        grouped=options.grouped,
        truth=_against_truth(ranking, point, rows.pairs, rows.true, known) if _measurable(split) else None,
        without_probability=rows.unstated,
        unlikely=rows.unlikely,
    )
    return MatchFigures(ranked, split.space.size, check, written)


def _bands(
    campaign: Campaign, ranking: Ranking, threshold: float, known: Known, target: Target, options: ListOptions
) -> Iterator[ScoredPairs]:
    """The list in bands, best first, with what is known of its pairs."""
    if options.grouped and not options.one_to_one:
        bands = pairs_inside_groups(ranking, find_groups(ranking, threshold, known)[0], known)
    else:
        split = ranking.split
        key: dict[str, Any] = {"scorer": ranking.scorer.fingerprint, "search": options.search}
        key["texts"] = [split.left.fingerprint, split.right.fingerprint]
        key["known"] = labels_digest(known.ids, known.labels)
        bands = list_bands(campaign.store, key, ranking, threshold, known)
        if options.one_to_one:
            bands = _assigned(ranking, bands, threshold, known)
    return first_pairs(bands, int(target.value)) if target.kind == "count" else bands


def _best_f1_pairs(ranking: Ranking, expected: ExpectedCurve | None, target: Target) -> int | None:
    """Beside a list of a precision or recall: how long that of the best F1 would be, by score."""
    if expected is None or target.kind not in ("precision", "recall"):
        return None
    return ranking.count_reaching(choose_threshold(expected.curve, BEST_F1).threshold)


def find_clusters(
    campaign: Campaign,
    split: Split,
    out: Path,
    target: Target = BEST_F1,
    options: ListOptions = DEFAULTS,
    merge: MergeRules | None = None,
) -> ClusterFigures:
    """Write the group of every text of `split` to `out`, with the group's representative; returns figures.

    With `options.as_table` the rows stand in the order of the collection, its columns first. merge: one
    record a group in place of them.
    """
    check_out(out)
    check_equivalence(split.space, campaign.task.relation, str(campaign.folder))
    round, ranking, known, expected, point = _ranked(campaign, split, target, options)
    group, pairs = find_groups(ranking, point.threshold, known)
    tally = _tally(campaign, round, ranking, expected, point, target, options)
    if tally is not None:
        before = known.without(tally.drawn)
        alone, _ = find_groups(ranking, point.threshold, before)
        tally.count(pairs_inside_groups(ranking, alone, before))
    rows = np.asarray(ranking.scored.corrected.rows[0], np.float32)
    chained = components(len(split.left), np.union1d(pairs, known.matches))
    chosen = representatives(rows, group)
    if merge is not None:
        types, columns = merge_records(split.left, group, chosen, merge)
    else:
        types, columns = group_columns(split.left, group, chosen, options)
    with write_errors("the table", out, NO_ROOM):
        write_table(out, types, columns)
    size = np.bincount(group)
    truth = components(len(split.left), split.positives) if _measurable(split) else None
    ids, labels = campaign.ledger.labels(through=round)
    by_labels = None
    if split is campaign.split and not _measurable(split) and len(ids):
        # Without the labels themselves: groups that were told the answers would agree with them.
        alone, _ = find_groups(ranking, point.threshold, Known.nothing())
        by_labels = against_labels(alone, ids[labels], ids[~labels])
    return ClusterFigures(
        ranked=_ranked_split(campaign, round, ranking),
        texts=len(group),
        threshold=threshold_figures(target, expected, point, tally, campaign.settings.seed),
        out=out,
        columns=types,
        rows=len(columns["cluster"]),
        clusters=int((size > 1).sum()),
        clustered_texts=int(size[size > 1].sum()),
        largest=int(size.max(initial=0)),
        components_split=split_components(chained, group),
        contradicted=int(np.equal(*(group[side] for side in pair_rows(known.others))).sum()),
        truth=None if truth is None else against_truth(group, truth),
        truth_of_components=None if truth is None else against_truth(chained, truth),
        labels=by_labels,
    )


def ranked_list(
    campaign: Campaign, split: Split
) -> tuple[int, Ranking, Known, OperatingPoint, Callable[[Scores], Any] | None]:
    """What the default list is made of: round, ranking, labels, where it is cut, and what makes
    probabilities of scores."""
    round, ranking, known, _, point = _ranked(campaign, split, BEST_F1, DEFAULTS)
    return round, ranking, known, point, _probability(campaign, round, ranking)


def _ranked(
    campaign: Campaign, split: Split, target: Target, options: ListOptions
) -> tuple[int, Ranking, Known, ExpectedCurve | None, OperatingPoint]:
    """The latest round, the split ranked by its scorer, the labels that count, and where the list is cut."""
    round = campaign.trained_round("to match with")
    source = _source(campaign, split, options.source)
    given = labelled_pairs(campaign, split)
    ranking = _ranking(campaign, split, round, options.search, given.matches if options.known else None)
    before = given
    if target.kind == "precision" and (ledger := _ledger(campaign, ranking)) is not None:
        earlier = ~is_member(given.ids, check_pairs(ledger, round))  # a check is planned without its answers
        before = Known(given.ids[earlier], given.labels[earlier])
    expected, point = _operating_point(campaign, round, ranking, before, target, source, options)
    return round, ranking, given if options.known else Known.nothing(), expected, point


def _ranking(
    campaign: Campaign, split: Split, round: int, search: str, matches: Ids | None = None
) -> Ranking:
    """The split by its scores, less pairs of two unreadable texts that are not among the `matches` known."""
    rng = generator_for(campaign.settings.seed, round, "match recall")
    scored = campaign.score(split, round)
    unlisted, unreadable = unreadable_pairs(
        split, scored.scorer.matcher, np.empty(0, np.int64) if matches is None else matches
    )
    return without_pairs(rank(scored, split, search, rng), unlisted, unreadable)


def _ranked_split(campaign: Campaign, round: int, ranking: Ranking) -> RankedSplit:
    labels = campaign.labels(round)
    return RankedSplit(
        campaign=campaign.folder,
        task=campaign.task.name,
        split=ranking.split.name,
        round=round,
        reranked=ranking.scorer.reranker is not None,
        reranker_setting=campaign.settings.reranker,
        labels=len(labels.ids),
        tried=campaign.trainer.tried(labels),
        unreadable_texts=ranking.unreadable_texts,
        method=ranking.method,
        recall=ranking.recall,
    )


def split_named(campaign: Campaign, split: str | None) -> Split:
    """The split to match: the one named, else `all` where the task has it, else the campaign's own."""
    splits = campaign.task.splits
    name = split or ("all" if "all" in splits else campaign.settings.split)
    if name not in splits:
        raise InputError(f"no split {name!r}", where=str(campaign.folder), remedy=nearest(name, splits))
    return splits[name]


def new_split(campaign: Campaign, left: Collection, right: Collection | None) -> Split:
    """A new collection: its own pairs, or, of two collections, against `right` (else the task's right)."""
    nothing = np.empty(0, np.int64)
    name = "new"
    while name in campaign.task.splits:
        name += "-collection"
    if campaign.split.space.symmetric:
        if right is not None:
            why = "the campaign finds duplicates within one collection"
            where, remedy = str(campaign.folder), "Leave `right` out"
            raise InputError("a second new collection", where=where, why=why, remedy=remedy)
        return one_collection(name, left, nothing, nothing, False)
    old = split_named(campaign, None).right
    return two_collections(name, left, right if right is not None else old, nothing, nothing, False)


def labelled_pairs(campaign: Campaign, split: Split) -> Known:
    """The labels given so far, of training and audits, for the pairs of `split`; found there by their keys.

    A collection that is no part of the task has keys of its own: no label speaks of it.
    """
    ids, labels = campaign.ledger.labels(None)
    own = campaign.split
    if split is not own:
        rows = []
        for side, one, other in zip(pair_rows(ids), (own.left, own.right), (split.left, split.right)):
            row_of = {key: row for row, key in enumerate(other.keys)}
            rows.append(np.array([row_of.get(one.keys[row], -1) for row in side.tolist()], np.int64))
        there = (rows[0] >= 0) & (rows[1] >= 0) & (campaign.task.splits.get(split.name) is split)
        ids, labels = split.space.ids(rows[0][there], rows[1][there]), labels[there]
    distinct, first = np.unique(ids, return_index=True)
    return Known(distinct, labels[first])


def _source(campaign: Campaign, split: Split, named: str | None) -> str:
    """What the threshold is chosen on. Labels speak of their own split, dev of the others."""
    splits, own, where = campaign.task.splits, campaign.settings.split, str(campaign.folder)
    if named is not None and named not in SOURCES:
        if named == TEST_SPLIT or named in splits:
            why = "only the dev split's truth may choose a threshold"
            if named == TEST_SPLIT:
                why = "a threshold chosen on the split that is measured would flatter every figure after it"
            raise InputError(f"`source` {named}", why=why, remedy=f"Use {', '.join(SOURCES)}")
        raise InputError(f"unknown `source` {named!r}", remedy=nearest(named, SOURCES))
    usable = "dev" in splits and _measurable(splits["dev"])
    if named == "dev" and not usable:
        remedy = 'Use `source` "labels" or "audit"'
        raise InputError("there is no dev split with known matches", where=where, remedy=remedy)
    source = named or ("dev" if usable and split.name != own else "labels")
    if source != "dev" and own == TEST_SPLIT:
        what, why = "the labels of this campaign are of the test split", "a threshold is never chosen on test"
        remedy = 'Use `source` "dev", or give `threshold` or `count`'
        raise InputError(what, where=where, why=why, remedy=remedy)
    if source == "audit" and split is not campaign.split:
        remedy = f'Match the split {own}, or use `source` "labels" or "dev"'
        raise InputError(f"the audit speaks of {own!r}, not of {split.name!r}", where=where, remedy=remedy)
    return source


def _operating_point(
    campaign: Campaign,
    round: int,
    ranking: Ranking,
    known: Known,
    target: Target,
    source: str,
    options: ListOptions,
) -> tuple[ExpectedCurve | None, OperatingPoint]:
    """The expected curve and the operating point on it; without a curve only where the target needs none."""
    expected: ExpectedCurve | None = None
    split = ranking.split
    try:
        if source == "dev":
            dev = campaign.task.splits["dev"]
            held_out = not shared_pairs(campaign.split, dev)
            measured = ranking if dev is split else _ranking(campaign, dev, round, "exact")
            expected = from_dev(measured, split, held_out)
        elif source == "audit":
            questions = campaign.ledger.questions()
            drawn = asked_pairs(campaign.ledger, ranking.scored.scan, questions)
            expected = from_audit(ranking, of_ranking(drawn, questions, round)[0])
        else:
            asked = _asked(campaign, ranking)
            expected = from_labels(ranking, campaign.out_of_fold(round), known, asked, campaign.more_labels())
    except InputError:
        if target.kind not in ("count", "threshold"):
            raise
    if target.kind == "threshold":
        threshold = target.value
    else:
        if target.kind == "count":
            left_out = len(known.others) if options.known else 0
            threshold = ranking.threshold_for_count(int(target.value) + left_out)
        else:
            assert expected is not None
            # What chosen labels expect is a guess to start a check from: it may be far off either way.
            guess = source == "labels" and target.kind != "f1" and options.check_labels > 0
            curve = expected.curve
            if target.kind == "recall" and source == "labels":
                curve = expected.within_reach(target.value)
            threshold = choose_threshold(curve, target, or_best=guess).threshold
            few = expected.calibration is not None and not expected.calibration.calibrated
            if target.kind == "f1" and source == "labels" and (few or split.name == TEST_SPLIT):
                threshold, basis = _by_chosen_labels(campaign, round, ranking, known)
                expected = replace(expected, basis=basis)
            threshold = float(np.floor(threshold * 10**DECIMALS) / 10**DECIMALS)
    if expected is None:
        return None, OperatingPoint(threshold, float("nan"), float("nan"))
    return expected, expected.point(threshold, options.known)


def _by_chosen_labels(campaign: Campaign, round: int, ranking: Ranking, known: Known) -> tuple[float, str]:
    """The threshold of best F1 by the chosen labels alone, and what it rests on.

    Few drawn ones bend their curve at random, and those of the test split choose no threshold.
    """
    labelled = campaign.out_of_fold(round)
    if labelled.labels.all() or not labelled.labels.any():
        return ranking.scorer.even_odds, "even odds"
    expected = from_labels(ranking, labelled, known)
    return choose_threshold(expected.curve, BEST_F1).threshold, expected.basis


def _checked_basis(check: Check, expected: ExpectedCurve) -> str:
    """What a threshold rests on that a check chose: its labels, among the lists that others let expect."""
    by = f", answered by {check.answered_by}" if check.answered_by else ""
    return f"the {check.labels:,} labels of its check{by}, among lists by {expected.basis}"


def _ledger(campaign: Campaign, ranking: Ranking) -> Ledger | None:
    """Holds the questions of the ranked split; None where an index lists only some pairs, or for texts that
    are no split of the task."""
    if ranking.listed is not None or campaign.task.splits.get(ranking.split.name) is not ranking.split:
        return None
    return split_ledger(campaign, ranking.split.name).ledger


def _asked(campaign: Campaign, ranking: Ranking) -> AskedPairs | None:
    """Every pair asked of the ranked split, with its draw."""
    ledger = _ledger(campaign, ranking)
    return None if ledger is None else asked_pairs(ledger, ranking.scored.scan)


def _check(
    campaign: Campaign,
    round: int,
    ranking: Ranking,
    expected: ExpectedCurve,
    target: Target,
    options: ListOptions,
) -> Check | None:
    """Labels asked to show that the list is what was wanted; None where nobody could answer.

    And where the list is not the one that a check speaks of: one of every pair above a threshold, for a
    recall with every known match.
    """
    ledger = _ledger(campaign, ranking)
    if ledger is None or options.one_to_one or (target.kind == "recall" and not options.known):
        return None
    checker = Checker(ranking, ledger, ranking.split, round, campaign.settings.seed)
    curve = expected.curve if expected.unlabelled is None else expected.unlabelled
    how_many, confidence = options.check_labels, options.confidence
    if target.kind == "recall":
        return checker.answered(checker.recall(expected.curve, curve, target.value, how_many, confidence))
    known = Known(*ledger.labels(None))
    return checker.answered(checker.precision(known, curve, target.value, how_many, confidence))


def _probability(campaign: Campaign, round: int, ranking: Ranking) -> Callable[[Scores], Any] | None:
    """What makes probabilities of scores, as for `/match`, `explain` and `export`; None where too few labels
    were drawn to call them that."""
    curve = calibration_of(campaign, round, split=ranking.split)
    if curve is None or not curve.calibrated:
        return None
    return lambda scores: curve.probabilities(ranking.log_odds(scores))


def _tally(
    campaign: Campaign,
    round: int,
    ranking: Ranking,
    expected: ExpectedCurve | None,
    point: OperatingPoint,
    target: Target,
    options: ListOptions,
) -> ListTally | None:
    """What counts the list for its figures; None where too few labels were drawn of this split."""
    ledger = _ledger(campaign, ranking)
    if ledger is None or expected is None or not expected.has_draws:
        return None
    chosen_by = "" if target.kind in ("count", "threshold") else expected.source
    return ListTally.of(ranking, ledger, round, point.threshold, options.known, chosen_by)


def _assigned(
    ranking: Ranking, bands: Iterator[ScoredPairs], threshold: float, known: Known
) -> Iterator[ScoredPairs]:
    pieces, held = [], 0
    for band in bands:
        held += len(band)
        if held > ASSIGN_AT_MOST:
            what = f"more than {ASSIGN_AT_MOST:,} pairs reach the threshold {threshold:.4f}"
            why = "an assignment looks at all of them at once"
            raise InputError(what, why=why, remedy="Ask for a higher precision")
        pieces.append((np.array(band.ids), np.array(band.scores)))
    ids = np.concatenate([np.empty(0, np.int64), *(one for one, _ in pieces)])
    scores = np.concatenate([np.empty(0, np.float32), *(other for _, other in pieces)])
    log_odds = ranking.log_odds(np.maximum(scores, np.float32(threshold)))
    weights = np.maximum(log_odds - ranking.log_odds(np.array([threshold])), 0.0)
    chosen = one_to_one(ranking.split.space, ids, weights, known.matches)
    yield ScoredPairs(ids[chosen], scores[chosen])


def _against_truth(
    ranking: Ranking, point: OperatingPoint, rows: int, found: int, known: Known
) -> TruthFigures:
    """Exact figures against the truth: of the list, of its pairs nobody labelled, of the ranking."""
    positives = len(ranking.split.positives)
    new = rows - len(known.matches)
    right = found - int(is_member(known.matches, ranking.split.positives).sum())
    listed = OperatingPoint(point.threshold, found / rows if rows else np.nan, found / positives)
    curve = ranking.curve()
    reached = int((ranking.scores(ranking.split.positives) >= np.float32(point.threshold)).sum())
    every = ranking.count_reaching(point.threshold)
    alone = OperatingPoint(point.threshold, reached / every if every else np.nan, reached / positives)
    return TruthFigures(
        positives=positives,
        listed=listed,
        new_pairs=new,
        new_precision=right / new if new > 0 else None,
        scores_alone=alone,
        average_precision=ranking.average_precision(),
        best_f1=curve.best_f1(),
    )


def _measurable(split: Split) -> bool:
    return split.has_truth and len(split.positives) > 0

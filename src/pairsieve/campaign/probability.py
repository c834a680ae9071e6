"""The probability of a match by a campaign's scorer, calibrated on dev's truth or on drawn labels.

Where neither is at hand there is a score and no probability.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace

import numpy as np

from pairsieve.artifacts import labels_digest
from pairsieve.audit.binning import GroupedPairs, true_steps
from pairsieve.audit.calibrate import Reliability, calibrate, drawn_weights, reliability
from pairsieve.audit.draws import AskedPairs, Floats, draw_pairs
from pairsieve.audit.run import asked_pairs, plan
from pairsieve.campaign.figures import read_checksummed, write_checksummed
from pairsieve.campaign.loop import Campaign
from pairsieve.contracts import generator_for
from pairsieve.errors import ArtifactError
from pairsieve.pairs import Ids, Mask, ScoredPairs, is_member, pair_rows
from pairsieve.scan import Scan
from pairsieve.scorer import Scorer
from pairsieve.scorer.calibration import FEWEST, Calibration
from pairsieve.tasks import Split
from pairsieve.tasks.task import held_out_dev, non_match_factor
from pairsieve.tasks.truth import components

FROM_TRUTH = 2_000  # pairs of dev that are drawn, and answered by its truth
FORMAT = 7  # of a kept calibration
MOST_SCALED = 4.0  # times as many non-matches a match, or as few, beyond which no probability is stated
CELLS = 4096  # of scores, in which pairs are counted
NEAR_MATCHES, LEAST_NEAR, MOST_NEAR = 20, 10_000, 2_000_000  # best pairs of dev whose groups are looked at


def calibrated_scorer(
    campaign: Campaign, round: int, look: bool = True, split: Split | None = None
) -> Scorer:
    """The scorer of a round with its calibration, where there is one, for a split (the campaign's own)."""
    return replace(campaign.scorer(round), calibration=calibration_of(campaign, round, look, split))


def calibration_of(
    campaign: Campaign, round: int, look: bool = True, split: Split | None = None
) -> Calibration | None:
    """From dev's truth, if its pairs are held out, else from the labels drawn of the campaign's own split.

    split: whose probabilities are stated (the campaign's own). Of another size than the one that calibrates,
    it has more or fewer non-matches a match. Where far more or fewer, that one does not calibrate. Kept in
    the campaign's folder until other labels are drawn. look: count all pairs where none is kept.
    """
    dev = held_out_dev(campaign.task, campaign.split)
    for source in (dev, campaign.split):
        if source is not None:
            factor = float(f"{non_match_factor(split or campaign.split, source):.3g}")
            if 1.0 / MOST_SCALED <= factor <= MOST_SCALED:
                break
    else:
        return None
    by_truth = source is dev
    basis = {
        "format": FORMAT,
        "split": source.name,
        "factor": factor,
        "labels": labels_digest(*campaign.ledger.labels(through=round)),
        "drawn": "" if by_truth else labels_digest(*campaign.ledger.labels("audit")),
    }
    name = f"calibration-{round:03d}-{source.name}" + ("" if factor == 1.0 else f"-{factor:g}")
    kept = campaign.folder / "rounds" / f"{name}.json"
    written = read_checksummed(kept, dict) or {}
    if written.get("basis") != basis:
        if not look:
            return None
        try:
            found = _calibrated(campaign, source, round, by_truth, factor)
        except OSError:  # a campaign that can only be looked at, and whose pairs nobody has counted
            return None
        written = {"basis": basis, "calibration": None if found is None else asdict(found)}
        with suppress(OSError, ArtifactError):  # a campaign that can only be looked at
            write_checksummed(kept, written)
    return None if written["calibration"] is None else Calibration(**written["calibration"])


def _calibrated(
    campaign: Campaign, split: Split, round: int, by_truth: bool, factor: float = 1.0
) -> Calibration | None:
    scored = campaign.score(split, round)
    scorer, weights = scored.scorer, None
    if by_truth:
        scores, labels = _from_truth(campaign, split, round)
    else:
        asked = asked_pairs(campaign.ledger, scored.scan)
        asked = asked.where((asked.audit > 0) & (asked.labels >= 0))
        scores, labels = asked.scores.astype(np.float64), asked.labels == 1
        weights = drawn_weights(asked, scored.scan)
    if len(scores) < FEWEST:
        return None
    chosen = campaign.out_of_fold(round)
    if not (labels.any() or chosen.labels.any()):
        return None
    grid, pairs = cells(scored.scan)
    if not by_truth:  # a probability is of the pairs that nobody labelled, as in a list
        known = np.union1d(campaign.ledger.labels(through=round)[0], campaign.ledger.labels("audit")[0])
        pairs = np.maximum(pairs - _counted(scored.scan, known, grid), 0.0)
    drawn, population = (scorer.log_odds(scores), labels), (scorer.log_odds(grid), pairs)
    if not by_truth:
        return calibrate((chosen.log_odds, chosen.labels), drawn, population, weights, factor)
    curve = replace(calibrate((chosen.log_odds, chosen.labels), drawn, population), highest=1.0)
    matches = _counted(scored.scan, split.positives, grid)
    return true_steps(curve, *population, matches, _grouped(split, scored.scan, grid, pairs), factor)


def _from_truth(campaign: Campaign, split: Split, round: int) -> tuple[Floats, Mask]:
    """Scores and labels of pairs drawn over the whole ranking of a split whose truth is known."""
    scored = campaign.score(split, round)
    nothing = AskedPairs.nothing()
    strata, wanted = plan(
        scored.scan, nothing, FROM_TRUTH, scored.scorer.even_odds, scored.scorer.head_probability
    )
    rng = generator_for(campaign.settings.seed, round, f"calibration on {split.name}")
    drawn = draw_pairs(scored.scan, strata, wanted, nothing, np.empty(0, np.int64), rng)
    return drawn.scores.astype(np.float64), is_member(drawn.ids, split.positives)


def _grouped(split: Split, scan: Scan, grid: Floats, pairs: Floats) -> GroupedPairs:
    """The best-ranked pairs of a split with the groups of matching texts that theirs belong to."""
    reached = np.cumsum(pairs)
    wanted = min(max(NEAR_MATCHES * len(split.positives), LEAST_NEAR), MOST_NEAR)
    last = int(np.searchsorted(reached, wanted, side="right")) - 1
    found = [ScoredPairs.empty()]
    if last >= 0:
        scan.collect(float(grid[last]), 2.0, lambda ids, scores: found.append(ScoredPairs(ids, scores)))
    ids, scores = (np.concatenate([getattr(each, of) for each in found]) for of in ("ids", "scores"))
    places = np.searchsorted(-grid, -scores.astype(np.float64), side="left")
    order = np.argsort(places, kind="stable")
    before = 0 if split.space.symmetric else len(split.left)  # of two collections, the right one's texts
    left, right = pair_rows(split.positives)
    group = components(before + len(split.right), left, right + before)
    left, right = pair_rows(ids[order])
    groups = np.stack([group[left], group[right + before]], axis=1)
    return GroupedPairs(places[order], is_member(ids[order], split.positives), groups)


def cells(scan: Scan) -> tuple[Floats, Floats]:
    """Descending scores (k,), and how many pairs lie from each up to the one before."""
    edges = np.linspace(-1.001, 1.001, CELLS + 1, dtype=np.float32)
    reaching = scan.count_reaching(edges, "counting all pairs")[::-1]
    return edges[::-1].astype(np.float64), np.diff(reaching, prepend=0).astype(np.float64)


def _counted(scan: Scan, ids: Ids, grid: Floats) -> Floats:
    """(k,) how many of some pairs lie in each cell."""
    place = np.searchsorted(-grid, -scan.scores(ids).astype(np.float64), side="left")
    return np.bincount(np.minimum(place, len(grid) - 1), minlength=len(grid)).astype(np.float64)


def reliability_over_all(scorer: Scorer, scan: Scan, positives: Ids, known: Ids) -> tuple[Reliability, ...]:
    """Stated and true rates by tenths of stated probability, over all pairs but the `known` ones (sorted)."""
    grid, pairs = cells(scan)
    new = positives[~is_member(positives, known)]
    left = np.maximum(pairs - _counted(scan, known, grid), 0.0)
    return reliability(scorer.probabilities(grid), left, _counted(scan, new, grid))

"""What does a threshold promise, and who says so? Curves from dev, from the labels bought, from an audit.

**dev**: the truth of the dev split gives exact counts there. The space to be matched may be larger:
non-matches grow with the number of pairs, matches with the number of texts. So each dev false match counts as
(pairs / dev pairs) / (texts / dev texts) of them. The interval draws dev's texts again.

**labels**: the labels a campaign bought are no random sample: they were asked where the model was in doubt.
Taken as they are they say nothing of the pairs nobody asked about. But the choice depended on scores, so the
*rate* of matches at a score can be learned from them: a logistic curve σ(a·logit + c), fitted to logits that
each labelled pair has from a model that did not train on its left text (a model is too sure of what it has
seen). Expected matches at or above a threshold are then the labelled matches there plus the sum of that rate
over all unlabelled pairs there, which are counted exactly. In the bi-encoder's ranking of all pairs the curve
ends below the scores at which labels were bought. How many matches stand below any line, which recall needs,
is told by two witnesses with wide intervals (`unseen.py`); precision's interval resamples left texts and lets
the odds of all unlabelled pairs be off together.

**audit**: labels drawn with known chances; expected matches by strata of the ranking
(`measure/audit_estimate.py`).

The test split is never asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairsieve.contracts import Estimate, generator_for
from pairsieve.errors import InputError
from pairsieve.matches.listing import Known
from pairsieve.matches.ranking import Ranking
from pairsieve.matches.unseen import OFF, drawn_left, rates_off
from pairsieve.matches.wish import Line
from pairsieve.measure.curve import Curve
from pairsieve.measure.intervals import times_drawn
from pairsieve.models.head import fit_head
from pairsieve.pairs import Ids, ScoredPairs, is_member, pair_rows
from pairsieve.tasks import Split

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign

REPEATS = 200  # resamples behind an interval
UNSUPPORTED = 0.02  # below this quantile of the labelled pairs' logits the labels are taken to say nothing

RESAMPLED = 2_000_000  # dev pairs above a line whose texts are drawn again; of more, the count is kept

Logits = NDArray[np.float64]
Labels = NDArray[np.bool_]
Interval = Callable[[Line, bool], tuple[Estimate, Estimate]]


@dataclass(frozen=True, eq=False)
class Evidence:
    """A curve, in words where it is from, and, where it was estimated, how to put an interval on a line."""

    curve: Curve
    words: str
    source: str  # dev, labels or audit
    listed: Curve | None = None  # of the list as it is written, labelled pairs counting as what they are
    interval: Interval | None = None  # (line, of the list as written or by score alone) -> precision, recall
    calibration: tuple[float, float] | None = None  # probability = σ(a · logit + c)
    trust: str = ""  # how far the figures can be trusted, in a sentence


@dataclass(frozen=True, eq=False)
class Bought:
    """Labelled pairs of the campaign's split, with logits from models that did not see their left text."""

    ids: Ids
    labels: Labels
    held_out: Logits


def from_dev(dev: Ranking, part: Split, seed: int = 0, held_out: bool = True) -> Evidence:
    """The exact curve of the dev split, its false matches scaled to the space to be matched.

    held_out: whether no pair of dev was among those that could be asked about.
    """
    exact, here, there = dev.curve(), part.space, dev.part.space
    factor = (here.size / there.size) / (sum(here.shape) / sum(there.shape))
    scaled = Curve(exact.thresholds, exact.true_positives, exact.false_positives * factor, exact.positives)
    words = f"the truth of {dev.part.name} ({len(dev.part.positives):,} matches)"
    if abs(factor - 1) > 1e-9:
        words += f", each of its false matches counted {factor:.3g} times"

    def interval(line: Line, listed: bool) -> tuple[Estimate, Estimate]:
        """By score alone: dev's pairs count as often as both of their texts are drawn again."""
        pieces: list[Ids] = [np.empty(0, np.int64)]
        found = float((line_counts := _reached(exact, line.threshold))[0] + line_counts[1])
        if found <= RESAMPLED:
            dev.collect(line.threshold, 1e30, lambda ids, scores: pieces.append(ids))
        above = np.concatenate(pieces)
        positives = dev.part.positives
        good = is_member(above, positives)
        reached = dev.scores(positives) >= np.float32(line.threshold)
        rows = [pair_rows(ids) for ids in (positives, above[~good])]
        rng = generator_for(seed, 0, "match interval")
        made = []
        for _ in range(REPEATS):
            left, right = times_drawn(there, rng)
            weight, wrong = (left[one] * right[other] for one, other in rows)
            true, every = float(weight[reached].sum()), float(weight.sum())
            false = float(wrong.sum()) if found <= RESAMPLED else float(line_counts[1])
            if every > 0 and true + false > 0:
                made.append((true / (true + factor * false), true / every))
        how = f"exact on {dev.part.name}; 95 % by {REPEATS} resamplings of its texts"
        return _between_ends(line, made, len(positives), how)

    trust = ""
    if not held_out:
        trust = (
            f"Pairs of {dev.part.name} could be asked about and trained on: these figures are not held out, "
            "and too good."
        )
    return Evidence(scaled, words, "dev", interval=interval, trust=trust)


def from_labels(
    ranking: Ranking, bought: Bought, known: Known, seed: int, left: Estimate | None = None
) -> Evidence:
    """Expected matches at every threshold, from the labels bought.

    `known`: labelled pairs of the ranked split, which count as what they are; `listed` is the curve of a list
    that holds every known match and no known non-match. `left`: matches among all unlabelled pairs, by the
    word of the batches (`unseen.matches_left`).
    """
    labels = bought.labels
    if labels.all() or not labels.any():
        raise InputError(
            f"all {len(labels):,} labels bought are {'matches' if labels.any() else 'non-matches'}",
            why="a threshold lies between the two",
            remedy="Buy more labels, or give --threshold or --count",
        )
    weight, bias = fit_head(bought.held_out, labels)
    grid, free, matches, others = _between(ranking, known)
    logits = ranking.logits(grid)
    # A second look's candidates are few, and labels were bought among all of them; all pairs have a tail.
    by_cosine = ranking.scan is not None or ranking.recall is not None
    supported = (logits >= np.quantile(bought.held_out, UNSUPPORTED)) | (not by_cosine)
    every_known, unlabelled = float(known.labels.sum()), np.cumsum(free)
    told = np.where(supported, free, 0.0)  # unlabelled pairs of which the labels say something
    rng = generator_for(seed, 0, "match interval")
    heads = _heads(bought, rng) or [(weight, bias)]
    off = OFF * rng.standard_normal(len(heads))

    def drawn(down_to: int) -> Logits:
        """(draws,) matches among the unlabelled pairs of the first `down_to` thresholds."""
        z, pairs = logits[:down_to], told[:down_to]
        made = [rates_off(a * z + c, by[None])[0] @ pairs for (a, c), by in zip(heads, off)]
        return np.array(made, np.float64)

    total = drawn(len(grid))
    if left is not None:
        batches = drawn_left(left, len(heads), rng)
        total = batches if by_cosine else np.where(np.arange(len(heads)) % 2, batches, total)
    middle = float(np.median(total))
    expected = np.cumsum(told * _sigmoid(weight * logits + bias))
    expected = np.minimum(expected, middle) if left is not None else expected
    positives = max(middle, float(expected[-1])) + every_known

    def curve(known: NDArray[np.float64] | float, held: NDArray[np.float64] | float) -> Curve:
        """With so many known matches among so many labelled pairs of the list, down to each threshold."""
        true, found = expected + known, unlabelled + held
        use = supported & (found > 0)
        return Curve(grid[use], true[use], (found - true)[use], max(positives, 1e-12))

    def interval(line: Line, listed: bool) -> tuple[Estimate, Estimate]:
        """Of the list as it is written, labelled pairs counting as what they are, or by score alone."""
        at = max(int((grid >= np.float32(line.threshold)).sum()), 1)
        sure = every_known if listed else float(matches[:at].sum())
        found = float(unlabelled[at - 1]) + (sure if listed else float((matches + others)[:at].sum()))
        some, here = drawn(at), float(unlabelled[at - 1])
        chance = generator_for(seed, 1, "match interval")  # of the pairs themselves, given their rates
        some = np.maximum(here - chance.poisson(np.maximum(here - some, 0.0)), 0.0)
        precision = (some + sure) / max(found, 1.0)
        recall = (some + sure) / np.maximum(np.maximum(total, some) + every_known, 1e-12)
        how = f"{len(labels):,} labels bought, logistic rate; 95 % by bootstrap over left texts, odds off by "
        how += f"a factor of exp(±{OFF:g})"
        return _between_ends(line, list(zip(precision, recall)), len(labels), how)

    words = f"the {len(labels):,} labels bought ({int(labels.sum()):,} matches)"
    by_score = curve(np.cumsum(matches), np.cumsum(matches + others))
    listed = curve(every_known, every_known)
    trust = _trust(total, left is not None, by_cosine)
    return Evidence(by_score, words, "labels", listed, interval, (weight, bias), trust)


def from_second_look(ranking: Ranking, chances: ScoredPairs, known: Known, seed: int = 0) -> Evidence:
    """Expected matches down to each cosine, where the labels were chosen by a second look.

    Such labels are hard cases at any cosine, so their rate says little of the others there. But each
    candidate has a calibrated chance by the second look (`chances`), and a labelled pair is what it is; the
    rest counts as no match.
    """
    free = chances.without(known.ids)
    ids = np.concatenate([free.ids, known.ids])
    weight = np.concatenate([free.scores.astype(np.float64), known.labels.astype(np.float64)])
    scores = ranking.scores(ids)
    edges, reaching = ranking.counts()
    order = np.argsort(-scores, kind="stable")
    summed = np.concatenate([[0.0], np.cumsum(weight[order])])
    grid, found = edges[::-1], reaching[::-1].astype(np.float64)
    true = np.minimum(summed[np.searchsorted(-scores[order], -grid, side="right")], found)
    sure = float(known.labels.sum())
    among = np.searchsorted(np.sort(-scores[len(free) :]), -grid, side="right")
    matches = np.searchsorted(np.sort(-scores[len(free) :][known.labels]), -grid, side="right")
    listed_found = found - among + sure
    listed_true = np.minimum(true - matches + sure, listed_found)

    def curve(expected: NDArray[np.float64], pairs: NDArray[np.float64]) -> Curve:
        use = pairs > 0
        return Curve(grid[use], expected[use], (pairs - expected)[use], max(float(weight.sum()), 1e-12))

    by = OFF * generator_for(seed, 0, "match interval").standard_normal(REPEATS)
    chance = np.clip(free.scores.astype(np.float64), 1e-7, 1 - 1e-7)
    rates = [rates_off(np.log(chance) - np.log1p(-chance), each[None])[0] for each in by]
    total = np.array([drawn.sum() for drawn in rates])

    def interval(line: Line, listed: bool) -> tuple[Estimate, Estimate]:
        reach = scores >= np.float32(line.threshold)
        above, sure_above = reach[: len(free)], float((reach[len(free) :] & known.labels).sum())
        held = sure if listed else sure_above
        unlabelled = float(ranking_count(line.threshold) - reach[len(free) :].sum())
        pairs = unlabelled + (held if listed else float(reach[len(free) :].sum()))
        some = np.array([drawn[above].sum() for drawn in rates]) + held
        made = list(zip(some / max(pairs, 1.0), some / np.maximum(total + sure, 1e-12)))
        how = f"{len(known.ids):,} labels given, second look; 95 % if its odds are off by exp(±{OFF:g})"
        return _between_ends(line, made, len(known.ids), how)

    def ranking_count(threshold: float) -> float:
        return float(reaching[min(int(np.searchsorted(edges, np.float32(threshold))), len(edges) - 1)])

    words = f"the {len(known.ids):,} labels given ({int(sure):,} matches), by way of the second look"
    listed_curve = curve(listed_true, listed_found)
    trust = _trust(total, False, False)
    return Evidence(curve(true, found), words, "labels", listed_curve, interval, trust=trust)


def from_audit(campaign: Campaign, number: int, ranking: Ranking) -> Evidence:
    """Expected matches by strata of the ranking, from audit labels."""
    from pairsieve.measure.audit import TRAIN, Asked, cut_ranking
    from pairsieve.measure.audit_estimate import estimate_audit, evidence_of

    ledger = campaign.ledger
    if not ledger.rounds("audit"):
        raise InputError(
            "there is no audit yet",
            where=str(campaign.folder),
            remedy=f"pairsieve audit {campaign.folder} --budget 300, or --from labels",
        )
    if ranking.scan is None:
        raise InputError(
            "--from audit goes with the bi-encoder's own ranking of all pairs",
            why="an audit draws its pairs along that ranking",
            remedy="Leave --second-look and --search out, or use --from labels",
        )
    scan, questions = ranking.scan, ledger.questions()
    labels = np.full(len(questions), -1, np.int8)
    order = np.argsort(questions.ids)
    for purpose in ("train", "audit"):
        ids, matches = ledger.labels(purpose)
        labels[order[np.searchsorted(questions.ids, ids, sorter=order)]] = matches
    audits = np.where(np.array(questions.purpose) == "audit", questions.rounds, TRAIN)
    scores = scan.scores(questions.ids)
    asked = Asked(scores, labels, audits, questions.inclusion_probability)
    count = int((audits > TRAIN).sum())
    strata = cut_ranking(scan, [], count)
    held = evidence_of(strata, asked)
    expected = np.cumsum(held.expected(strata))
    found = np.maximum(np.cumsum(held.totals), 1.0)
    curve = Curve(strata.edges, expected, np.maximum(found - expected, 0.0), max(float(expected[-1]), 1e-12))

    def interval(line: Line, listed: bool) -> tuple[Estimate, Estimate]:
        """By score alone, from the posterior of match rates along the ranking."""
        cut = cut_ranking(scan, [line.threshold], count)
        rng = generator_for(campaign.settings.seed, 0, "match interval")
        found = estimate_audit(cut, asked, line.threshold, rng)
        return found.precision, found.recall

    words = f"an audit of {count:,} labels"
    trust = "These figures are of the ranking by score; labels given since only better the list."
    return Evidence(curve, words, "audit", interval=interval, trust=trust)


def probability(ranking: Ranking, evidence: Evidence | None, scores: NDArray[np.float32]) -> Logits:
    """The chance that a pair matches: of its logit, calibrated on held-out labels where those were used."""
    a, c = evidence.calibration if evidence and evidence.calibration else (1.0, 0.0)
    return _sigmoid(a * ranking.logits(scores) + c)


def _heads(bought: Bought, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Logistic curves fitted to labels whose left texts were drawn again."""
    texts, owner = np.unique(pair_rows(bought.ids)[0], return_inverse=True)
    made = []
    for _ in range(REPEATS):
        times = np.bincount(rng.integers(len(texts), size=len(texts)), minlength=len(texts))[owner]
        again = np.repeat(np.arange(len(owner)), times)
        labels = bought.labels[again]
        if labels.any() and not labels.all():
            made.append(fit_head(bought.held_out[again], labels))
    return made


def _between_ends(
    line: Line, drawn: list[tuple[float, float]], count: int, how: str
) -> tuple[Estimate, Estimate]:
    """Precision and recall of a line with the middle 95 % of what was drawn, stretched to hold them."""
    ends = np.quantile(np.array(drawn or [(line.precision, line.recall)]), [0.025, 0.975], axis=0)
    precision, recall = (
        Estimate(value, min(float(low), value), max(min(float(high), 1.0), value), count, how)
        for value, low, high in zip((line.precision, line.recall), ends[0], ends[1])
    )
    return precision, recall


def _reached(curve: Curve, threshold: float) -> tuple[float, float]:
    """True and false matches at or above a threshold."""
    at = int((curve.thresholds >= np.float32(threshold)).sum()) - 1
    return (0.0, 0.0) if at < 0 else (float(curve.true_positives[at]), float(curve.false_positives[at]))


def _trust(total: Logits, by_batches: bool, by_cosine: bool) -> str:
    """What recall rests on: the matches nobody has labelled, and who guessed their number."""
    low, middle, high = np.quantile(total, [0.025, 0.5, 0.975])
    many = f"{_two_digits(middle)} ({_two_digits(low)} to {_two_digits(high)})"
    if by_batches:
        who = "the last batches" if by_cosine else "the last batches and by the list itself, half each"
        words = f"Recall rests on a guess at the matches nobody has labelled, about {many}, by {who}"
    elif by_cosine:
        words = "Matches below the scores at which labels were bought are not counted: recall is too high"
    else:
        words = f"Recall rests on about {many} matches that nobody has labelled among the candidates; it is "
        words += "too high by those that are no candidates"
    return f"{words}. An audit measures it."


def _two_digits(value: float) -> str:
    """A count to two digits, so that a guess does not look like one."""
    size = 10 ** max(len(str(int(value))) - 2, 0)
    return f"{round(value / size) * size:,}"


def _between(
    ranking: Ranking, labelled: Known
) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Descending thresholds (k,); unlabelled pairs, labelled matches and labelled non-matches from each on.

    "From each on" is up to the threshold before it, so that sums from the top count what a list holds.
    """
    edges, reaching = ranking.counts()
    scores = ranking.scores(labelled.ids)
    known = [
        (len(mine) - np.searchsorted(np.sort(mine), edges, side="left")).astype(np.float64)
        for mine in (scores[labelled.labels], scores[~labelled.labels])
    ]
    free, matches, others = (
        np.diff(reach[::-1], prepend=0.0) for reach in (reaching - known[0] - known[1], *known)
    )
    return edges[::-1], np.maximum(free, 0.0), matches, others


def _sigmoid(logits: Logits) -> Logits:
    made: Logits = 0.5 * (1.0 + np.tanh(0.5 * logits))
    return made

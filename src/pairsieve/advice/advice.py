"""Advice after a round: matches of the next batch, matches left, AP to come, and whether to go on.

Everything is computed from labels, figures and what was saved with each selection, so a resumed campaign gets
the advice of one that was not interrupted. Estimates have 90 % intervals; what cannot be told yet is None,
with the reason in `not_known`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pairsieve.advice.batch_yield import Features, LabelledBatch, next_positives, predicted_rates
from pairsieve.advice.features import random_pairs, subsample
from pairsieve.advice.learning_curve import NotKnown, ap_after
from pairsieve.advice.remaining import ScoreCounts, positives_left
from pairsieve.artifacts import labels_digest, load_array, save_array
from pairsieve.contracts import Estimate
from pairsieve.pairs import Ids, Mask, PairSpace, is_member

# Below these the next batch pays little: its gain in AP, AP's newest two steps, its share of matches at best.
SMALL_GAIN, SMALL_STEP, SMALL_SHARE = 0.005, 0.01, 0.1
UNINFORMATIVE = 0.7  # an interval over more of the batch than this tells nobody anything

_T = TypeVar("_T")


@dataclass(frozen=True)
class Advice:
    """What a round's figures say about going on. `not_known` says why a figure is missing."""

    next_labels: int
    next_positives: Estimate | None  # matches in the next batch
    left: Estimate | None  # matches among all unasked pairs
    ap_after: Estimate | None  # AP once the next batch is labelled
    ap_gain: float | None  # expected, by the same curve
    sentence: str
    not_known: Mapping[str, str] = field(default_factory=dict)
    rests_on: str = ""  # digest of the labels that it was made from

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> Advice:
        values = {each.name: row[each.name] for each in fields(Advice) if each.name in row}
        for name in ("next_positives", "left", "ap_after"):
            values[name] = Estimate(**row[name]) if row.get(name) else None
        return Advice(**values)


@dataclass(frozen=True, eq=False)
class SavedSelection:
    """A round's chosen pairs, and the scores by the model that chose them, if one did."""

    ids: Ids
    scores: Features | None = None  # (n,)
    unasked: ScoreCounts | None = None  # all pairs not asked before this round

    @staticmethod
    def load(folder: Path) -> SavedSelection:
        ids = load_array(folder / "ids.npy")
        if not (folder / "scores.npy").exists():
            return SavedSelection(ids)
        scores, edges, pairs = (load_array(folder / f"{name}.npy") for name in ("scores", "edges", "unasked"))
        return SavedSelection(ids, scores, ScoreCounts(edges, pairs))


def save_scores(folder: Path, search: Any, ids: Ids, asked: Ids) -> None:
    """Save beside a selection the scores of the chosen pairs, and all pairs not yet asked by score."""
    edges, reaching = search.counts()
    taken = np.sort(search.scan.scores(asked))
    free = reaching - (len(taken) - np.searchsorted(taken, edges, "left"))
    save_array(folder / "scores.npy", search.scan.scores(ids))
    save_array(folder / "edges.npy", edges)
    save_array(folder / "unasked.npy", -np.diff(free))


def labelled_batches(
    selections: Sequence[SavedSelection], labelled: Ids, labels: Mask
) -> tuple[list[LabelledBatch], list[Ids]]:
    """Each selection's labelled pairs, and their ids. labelled (n,): sorted ids with labels (n,)."""
    batches, ids = [], []
    for chosen in selections:
        kept = is_member(chosen.ids, labelled)
        ids.append(chosen.ids[kept])
        scores = None if chosen.scores is None else chosen.scores[kept]
        batches.append(LabelledBatch(labels[np.searchsorted(labelled, ids[-1])], scores))
    return batches, ids


def advise_after(
    space: PairSpace,
    labelled: Ids,
    labels: Mask,
    selections: Sequence[SavedSelection],
    coming: SavedSelection | None = None,
    next_labels: int = 0,
    curve: Sequence[tuple[int, float]] = (),
    features: Callable[[Ids], Features] | None = None,
) -> Advice:
    """Advice after the rounds whose `selections` are given; `coming` is the next selection, if it is made.

    labelled, labels: the labels of those rounds, ids sorted. next_labels: size of the next batch while it is
    not chosen. features(ids): text similarity of pairs, (n, columns); without it earlier rates are used.
    """
    history, batches = labelled_batches(selections, labelled, labels)
    predicted, unasked = None, None
    if coming is not None:
        next_labels, unasked = len(coming.ids), coming.unasked
    if features is not None and coming is not None and history:
        places = [subsample(ids) for ids in [*batches, coming.ids]]
        sampled = [ids[at] for ids, at in zip([*batches, coming.ids], places)]
        sampled.append(random_pairs(space, sampled[0]))
        ends = np.cumsum([len(ids) for ids in sampled])[:-1]
        *columns, of_random = np.split(features(np.concatenate(sampled)), ends)
        answers = [batch.labels[at] for batch, at in zip(history, places)]
        *before, predicted = predicted_rates(columns, answers, of_random)
        history[1:] = [replace(batch, predicted_rate=rate) for batch, rate in zip(history[1:], before)]
    advice = advise(history, next_labels, predicted, unasked, curve)
    return replace(advice, rests_on=labels_digest(labelled, labels))


def advise(
    history: Sequence[LabelledBatch],
    next_labels: int = 0,
    predicted_rate: float | None = None,
    unasked: ScoreCounts | None = None,
    curve: Sequence[tuple[int, float]] = (),
) -> Advice:
    """Every figure that can be told after a round, and the sentence.

    history: the labelled batches in order. predicted_rate: of the next batch, by text similarity. unasked:
    the newest model's exact counts. curve: (labels, AP) after each measured round.
    """
    not_known: dict[str, str] = {}

    def known(name: str, figure: Callable[[], _T]) -> _T | None:
        try:
            return figure()
        except NotKnown as why:
            not_known[name] = why.what
            return None

    bring = known("next_positives", lambda: next_positives(history, next_labels, predicted_rate))
    left = known("left", lambda: positives_left(unasked, history))
    if left is not None and bring is not None:  # what the next batch brings is left
        value, low, high = (max(each, bring.low) for each in (left.value, left.low, left.high))
        left = replace(left, value=value, low=low, high=high)
    after, gain = known("ap_after", lambda: ap_after(curve, next_labels)) or (None, None)

    few = bring is not None and bring.high < SMALL_SHARE * next_labels
    # One expected gain of nothing may follow from a dip: the curve itself must be flat.
    steps = np.abs(np.diff([value for _, value in curve[-3:]]))
    flat = gain is not None and gain < SMALL_GAIN and bool((steps < SMALL_STEP).all())
    if bring is None:
        verdict = "Nothing can be said about the next batch yet"
    elif few and flat:
        verdict = "You can stop"
    elif flat:
        verdict = "Stop unless you want the matches themselves, for the model hardly improves any more"
    elif few and gain is None:
        verdict = "Stop unless every match counts, for the next batch brings few"
    elif few:
        verdict = "Go on for the model's sake, for AP still rises though matches are few"
    else:
        verdict = "Go on"
    reasons = []
    if bring is not None and bring.high - bring.low > UNINFORMATIVE * next_labels:
        reasons.append(
            f"what the next {next_labels:,} labels bring is not known yet ({_ends(bring)} matches)"
        )
    elif bring is not None:
        reasons.append(f"the next {next_labels:,} labels should bring {_about(bring)} matches")
    if left is not None:
        reasons.append(f"{_about(left)} are likely left among all unasked pairs")
    if after is not None and gain is not None:
        ends = f"{after.low:.3f} to {after.high:.3f}"
        reasons.append(f"AP should then be {after.value:.3f} ({ends}), a gain of {gain:.3f}")
    sentence = f"{verdict}: {'; '.join(reasons)}." if reasons else f"{verdict}."
    return Advice(next_labels, bring, left, after, gain, sentence, not_known)


def _about(figure: Estimate) -> str:
    return f"about {_two_digits(figure.value):,} ({_ends(figure)})"


def _ends(figure: Estimate) -> str:
    return f"{_two_digits(figure.low):,} to {_two_digits(figure.high):,}"


def _two_digits(value: float) -> int:
    """Rounded to two digits, so that an estimate does not look like a count."""
    size = 10 ** max(len(str(int(value))) - 2, 0)
    return int(round(value / size) * size)

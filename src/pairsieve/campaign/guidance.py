"""Is it worth going on, and what need not be asked? Advice after a round, stop rules, and labels that follow.

Everything is computed from the ledger, the figures and what was saved with each selection, so a campaign
that is resumed is advised as one that was not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.artifacts import load_array, save_array
from pairsieve.campaign.figures import read_json
from pairsieve.campaign.following import follow
from pairsieve.campaign.likeness import mixed_up, some_of
from pairsieve.ledger import Ledger
from pairsieve.measure.advice import Advice, advise
from pairsieve.measure.next_batch import Batch, Scored, Unasked, depth_of
from pairsieve.measure.stopping import Facts, parse_stop_rule
from pairsieve.measure.witness import foreseen
from pairsieve.pairs import AllPairs, Ids, Mask, PairSpace, is_member, pair_rows
from pairsieve.transitivity import grouped

EVERY = 64  # of the search's fine bins, one edge is kept,
FINER = 20.0  # and so many more wherever the pairs above grow e-fold: a trained head cuts near the top


@dataclass(frozen=True, eq=False)
class Chosen:
    """A round's pairs as its selection left them, and what the model that chose them said, if one did."""

    ids: Ids
    opinion: tuple[Scored, Unasked] | None = None
    nearest: bool = False  # the nearest of all, by the encoder as it came


def save_opinion(place: Path, search: Any, matcher: Any, ids: Ids, asked: Ids) -> None:
    """Beside a selection: what the model says of the chosen pairs, and all unasked pairs by score."""
    edges, reaching = search.counts()
    taken = np.sort(search.scan.scores(asked))
    free = reaching - (len(taken) - np.searchsorted(taken, edges, "left"))
    steps = np.floor(FINER * np.log1p(np.maximum(free, 0)))
    kept = np.diff(steps, prepend=-1.0) != 0
    kept[::EVERY] = kept[-1] = True
    save_array(place / "scores.npy", search.scan.scores(ids))
    save_array(place / "edges.npy", edges[kept].astype(np.float64))
    save_array(place / "unasked.npy", -np.diff(free[kept]))
    save_array(place / "head.npy", np.array([matcher.weight, matcher.bias]))


def scored_by(place: Path) -> tuple[Scored, Unasked] | None:
    """What `save_opinion` wrote; None where no trained model searched all pairs."""
    if not (place / "scores.npy").exists():
        return None
    weight, bias = load_array(place / "head.npy").tolist()
    unasked = Unasked(load_array(place / "edges.npy"), load_array(place / "unasked.npy"))
    return Scored(load_array(place / "scores.npy"), weight, bias), unasked


def chosen_at(place: Path) -> Chosen:
    """What a selection left in its folder."""
    nearest = read_json(place / "selection.json").get("strategy") == "static"
    return Chosen(load_array(place / "ids.npy"), scored_by(place), nearest)


def advice_after(
    ledger: Ledger,
    space: PairSpace,
    selections: Sequence[Chosen],
    coming: Chosen | None,
    next_labels: int,
    curve: Sequence[tuple[int, float]],
    alike: Callable[[Ids], NDArray[np.floating]] | None = None,
) -> Advice:
    """After the rounds whose `selections` are given; `coming` is the selection of the next one, if made.

    `alike(ids)`: how alike the texts of pairs are, (n, columns); without it no witness is asked.
    """
    labelled, labels = ledger.labels(through=len(selections))
    history = []
    for chosen in selections:
        kept = is_member(chosen.ids, labelled)
        said = labels[np.searchsorted(labelled, chosen.ids[kept])]
        scored, depth = None, None
        if chosen.opinion is not None:
            by_model, unasked = chosen.opinion
            scored = Scored(by_model.scores[kept], by_model.weight, by_model.bias)
            depth = depth_of(by_model.scores, unasked)
        elif chosen.nearest:
            depth = float(np.log1p(len(chosen.ids) / 2.0))
        history.append(Batch(said, scored, depth))
    expected: float | None = None
    if alike is not None and coming is not None and history:
        asked = [chosen.ids[is_member(chosen.ids, labelled)] for chosen in selections]
        shares = witnessed(space, [*asked, coming.ids], [batch.labels for batch in history], alike)
        history = [history[0], *(replace(b, foreseen=share) for b, share in zip(history[1:], shares))]
        expected = shares[-1]
    opinion = coming.opinion if coming is not None else None
    advice = advise(
        history,
        opinion[0] if opinion else None,
        len(coming.ids) if coming is not None else next_labels,
        opinion[1] if opinion else None,
        space,
        labelled[labels],
        curve,
        expected,
    )
    return replace(advice, rests_on=labels_digest(ledger, len(selections)))


def witnessed(
    space: PairSpace,
    batches: Sequence[Ids],
    labels: Sequence[Mask],
    alike: Callable[[Ids], NDArray[np.floating]],
) -> list[float | None]:
    """What the witness expected of every batch after the first, the last being the next one."""
    places = [some_of(ids) for ids in batches]
    seen = [ids[place] for ids, place in zip(batches, places)]
    seen.append(mixed_up(space, seen[0]))
    *looks, apart = np.split(alike(np.concatenate(seen)), np.cumsum([len(ids) for ids in seen])[:-1])
    return foreseen(looks, [said[place] for said, place in zip(labels, places)], apart)


def labels_digest(ledger: Ledger, through: int) -> str:
    """What the labels of the rounds up to `through` are, in 16 letters: other labels, other letters."""
    ids, labels = ledger.labels(through=through)
    return hashlib.sha256(ids.tobytes() + labels.tobytes()).hexdigest()[:16]


def answers_changed(ledger: Ledger, number: int, said: Mapping[str, Any] | None) -> bool:
    """Whether an answer of the rounds up to `number` has changed since figures or advice were sealed.

    `said`: what was sealed after that round, which names the labels it was made from in `rests_on`.
    """
    told = (said or {}).get("rests_on", "")
    return bool(told) and told != labels_digest(ledger, number)


def stop_reason(rule: str, rounds: Sequence[Mapping[str, Any]], advice: Mapping[str, Any] | None) -> str:
    """The words of the stop rule that holds after the last of `rounds`; empty where none does."""
    if not rule or not rounds:
        return ""
    last, told = rounds[-1], advice or {}
    facts = Facts(
        labels=last["labels"],
        rounds=last["round"],
        batch=last["batch"]["labels"],
        positives=last["batch"]["positives"],
        ap=last.get("average_precision", {}).get("value"),
        ap_gain=told.get("ap_gain"),
        left=(told.get("left") or {}).get("value"),
    )
    return parse_stop_rule(rule).holds(facts) or ""


def known_pairs(ledger: Ledger, space: PairSpace, transitivity: bool, through: int | None = None) -> Ids:
    """Pairs that need not be asked: those asked, and with `transitivity` those that follow; sorted."""
    asked = ledger.asked(through)
    if not transitivity:
        return asked
    ids, labels = ledger.labels(through=through, inferred=False)
    return np.union1d(asked, _following(space, ids[labels], ids[~labels]))


def _following(space: PairSpace, positives: Ids, negatives: Ids) -> Ids:
    """Every pair whose label follows: inside a group of matches, and between groups kept apart."""
    groups = grouped(space, positives, negatives)
    order = np.argsort(groups.group, kind="stable")
    starts = np.searchsorted(groups.group[order], np.arange(len(groups.torn) + 1))
    pieces = [np.empty(0, np.int64)]

    def members(group: int) -> Ids:
        return groups.texts[order[starts[group] : starts[group + 1]]]

    for group in np.flatnonzero((np.diff(starts) > 1) & ~groups.torn).tolist():
        mine = members(group)
        one, other = np.triu_indices(len(mine), 1)
        pieces.append(space.ids(mine[one], mine[other]))
    for one_group, other_group in zip(*(side.tolist() for side in pair_rows(groups.apart))):
        if not (groups.torn[one_group] or groups.torn[other_group]):
            mine, yours = members(one_group), members(other_group)
            pieces.append(space.ids(np.repeat(mine, len(yours)), np.tile(yours, len(mine))))
    return np.unique(np.concatenate(pieces))


def infer_open(ledger: Ledger, space: PairSpace, number: int) -> int:
    """Write the labels of a round's open questions that follow from labels given; returns how many."""
    assert isinstance(space, AllPairs)
    return follow(ledger, space, number).inferred

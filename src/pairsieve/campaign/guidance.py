"""Is it worth going on, and what need not be asked? Advice after a round, stop rules, and labels that follow.

Everything is computed from the ledger, the figures and what was saved with each selection, so a campaign
that is resumed is advised as one that was not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.artifacts import load_array, save_array
from pairsieve.campaign.figures import read_json
from pairsieve.campaign.following import follow
from pairsieve.ledger import Ledger
from pairsieve.measure.advice import Advice, Batch, Scored, Unasked, advise, depth_of
from pairsieve.measure.stopping import Facts, parse_stop_rule
from pairsieve.pairs import AllPairs, Ids, PairSpace, is_member, pair_rows
from pairsieve.transitivity import grouped

EVERY = 64  # of the search's fine bins, one edge is kept


def save_opinion(place: Path, search: Any, matcher: Any, ids: Ids, asked: Ids) -> None:
    """Beside a selection: what the model says of the chosen pairs, and all unasked pairs by score."""
    edges, reaching = search.counts()
    taken = np.sort(search.scan.scores(asked))
    free = reaching - (len(taken) - np.searchsorted(taken, edges, "left"))
    save_array(place / "scores.npy", search.scan.scores(ids))
    save_array(place / "edges.npy", edges[::EVERY].astype(np.float64))
    save_array(place / "unasked.npy", -np.diff(free[::EVERY]))
    save_array(place / "head.npy", np.array([matcher.weight, matcher.bias]))


def scored_by(place: Path) -> tuple[Scored, Unasked] | None:
    """What `save_opinion` wrote; None where no trained model searched all pairs."""
    if not (place / "scores.npy").exists():
        return None
    weight, bias = load_array(place / "head.npy").tolist()
    unasked = Unasked(load_array(place / "edges.npy"), load_array(place / "unasked.npy"))
    return Scored(load_array(place / "scores.npy"), weight, bias), unasked


def advice_after(
    ledger: Ledger,
    space: PairSpace,
    selections: Sequence[Path],
    coming: Path | None,
    next_labels: int,
    curve: Sequence[tuple[int, float]],
) -> Advice:
    """After the rounds whose `selections` are given; `coming` is the selection of the next one, if made."""
    labelled, labels = ledger.labels(through=len(selections))
    history = []
    for place in selections:
        ids, opinion = load_array(place / "ids.npy"), scored_by(place)
        kept = is_member(ids, labelled)
        said = labels[np.searchsorted(labelled, ids[kept])]
        scored, depth = None, None
        if opinion is not None:
            scored = Scored(opinion[0].scores[kept], opinion[0].weight, opinion[0].bias)
            depth = depth_of(opinion[0].scores, opinion[1])
        elif read_json(place / "selection.json").get("strategy") == "static":
            depth = float(np.log1p(len(ids) / 2.0))  # the nearest of all, by the encoder as it came
        history.append(Batch(said, scored, depth))
    ahead = scored_by(coming) if coming is not None else None
    advice = advise(
        history,
        ahead[0] if ahead else None,
        next_labels,
        ahead[1] if ahead else None,
        space,
        labelled[labels],
        curve,
    )
    return replace(advice, rests_on=labels_digest(ledger, len(selections)))


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

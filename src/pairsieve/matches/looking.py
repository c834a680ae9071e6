"""First look or second look: which ranks better, as far as the labels can tell? And back into one encoder.

The first look is the bi-encoder over all pairs. The second looks again at each text's nearest (words, rivals;
on request a cross-encoder reads both texts). Both are judged by the average precision of labelled pairs, each
scored by models that did not see its left text; what does not raise it is left out, and said so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.artifacts import load_array, save_array
from pairsieve.campaign.again import MoreColumns, Taught, describe_split, teach
from pairsieve.contracts import generator_for
from pairsieve.errors import InputError
from pairsieve.matches.evidence import Bought, Logits
from pairsieve.matches.ranking import Ranking, first_look
from pairsieve.measure.curve import curve_from_scores
from pairsieve.pairs import Ids, ScoredPairs, is_member, pair_rows
from pairsieve.second_look import FEWEST, fold_of
from pairsieve.tasks import Split

if TYPE_CHECKING:
    from pairsieve.campaign import Campaign
    from pairsieve.models import CrossMatcher

CROSS_FOLDS = 3  # cross-encoders trained, each without a third of the left texts
CROSS_EPOCHS = 4  # over the labels
SURE = 0.95  # distilling takes a pair for a match from here on, for none from 1 - SURE down


@dataclass(frozen=True, eq=False)
class Look:
    """A way to rank any split, the labels bought with held-out logits under it, and how it was chosen."""

    name: str  # "first look", "second look", "second look with a cross-encoder"
    rank: Callable[[Split], Ranking]
    bought: Bought
    tried: dict[str, float]  # held-out average precision of labelled pairs, by name
    key: dict[str, Any]  # names all that the ranking depends on


def choose_look(
    campaign: Campaign, number: int, search: str = "exact", again: bool = False, cross: bool = False
) -> Look:
    """The first look, or a second one where it was asked for and the held-out average precision rises."""
    bought = held_out_first(campaign, number)
    model = campaign.matcher(number)
    key = {"model": model.fingerprint, "search": search, "look": "first"}
    look = Look("first look", lambda part: first_look(campaign, number, part, search), bought, {}, key)
    tried = {look.name: _held_out_ap(bought)}
    for wanted, name in ((again or cross, "second look"), (cross, "second look with a cross-encoder")):
        if not wanted:
            continue
        more = cross_columns(campaign, number) if name.endswith("cross-encoder") else None
        taught = _taught(campaign, number, more(campaign.split) if more else _none)
        other = Look(
            name,
            _ranked_again(campaign, number, taught, more),
            Bought(taught.labelled, taught.labels, taught.held_out),
            {},
            {
                **key,
                "look": name,
                "labels": labels_digest(taught.labelled, taught.labels),
                "seed": campaign.settings.seed,
            },
        )
        tried[name] = _held_out_ap(other.bought)
        if tried[name] > tried[look.name]:
            look = other
    return Look(look.name, look.rank, look.bought, tried, look.key)


def again_by_second(campaign: Campaign, number: int, part: Split) -> ScoredPairs:
    """The candidates of a split with the chance that each matches, by the second look, calibrated."""
    from pairsieve.models.head import fit_head

    taught = _taught(campaign, number, _none)
    listed = _ranked_again(campaign, number, taught, None)(part).listed
    assert listed is not None
    weight, bias = fit_head(taught.held_out, taught.labels)
    chance = 1.0 / (1.0 + np.exp(-(weight * listed.scores.astype(np.float64) + bias)))
    return ScoredPairs(listed.ids, chance.astype(np.float32))


def held_out_first(campaign: Campaign, number: int) -> Bought:
    """The labels up to a round, with logits from learners fitted without the left text of each pair."""
    from pairsieve.models import ProjectionLearner
    from pairsieve.models.head import fit_head

    ids, labels = campaign.ledger.labels(through=number)
    learner, part, seed = campaign.learner, campaign.split, campaign.settings.seed
    folds = 5 if isinstance(learner, ProjectionLearner) else 2  # a whole encoder is not trained for nothing
    key = {
        "learner": learner.fingerprint,
        "texts": [part.left.fingerprint, part.right.fingerprint],
        "labels": labels_digest(ids, labels),
        "folds": folds,
        "seed": seed,
        **campaign.scored_by,
    }

    def build(place: Path) -> None:
        left, right = pair_rows(ids)
        fold = fold_of(left, seed, folds)
        logits = np.zeros(len(ids))
        own = campaign.plain_matcher(number)  # whose neighbours count; the heads are fitted to such scores
        lengths = campaign.lengths(own, part, number) if campaign.crowding else None
        leans = campaign.leans(own, part, number) if campaign.leaning else None
        learnt_from: Any = (part.left.texts, part.right.texts)
        if linear := isinstance(learner, ProjectionLearner):  # it learns from rows, not from texts
            mine, yours = campaign.plain_embeddings(learner.pretrained(), part, 0)
            learnt_from = mine, mine if yours is None else yours

        def rows_of(fitted: Any, places: NDArray[np.int64], side: int) -> Any:
            name = ("left", "right")[side]
            if linear:
                return fitted.project(learnt_from[side][places], name)
            return fitted.embed([learnt_from[side][row] for row in places.tolist()], name)

        for one in range(folds):
            out = fold == one
            if not out.any():
                continue
            rng = generator_for(seed, number, f"held out {one}")
            fit: Any = learner.fit_embedded if isinstance(learner, ProjectionLearner) else learner.fit
            fitted = fit(*learnt_from, ids[~out], labels[~out], rng)
            sides = []
            for side, places in enumerate((left[out], right[out])):
                rows = rows_of(fitted, places, side)
                if leans is not None:
                    across = len(leans) == 2  # else both sides are one collection, which leans on itself
                    leant = leans[side if across else 0].of(places)
                    others = rows_of(fitted, np.maximum(leant.on, 0), 1 - side if across else side)
                    rows = leant.mixed(rows, others)
                sides.append(rows)
            cosines = np.einsum("nd,nd->n", *sides)
            if lengths is not None:
                cosines = cosines * lengths[0][left[out]] * lengths[1][right[out]]
            weight, bias = fitted.weight, fitted.bias
            if campaign.scored_by:
                weight, bias = fit_head(cosines, labels[out])
            logits[out] = weight * cosines + bias
        save_array(place / "logits.npy", logits)

    place = campaign.store.get("held-out", key, build)
    return Bought(ids, labels, load_array(place / "logits.npy"))


def cross_columns(campaign: Campaign, number: int) -> Callable[[Split], MoreColumns]:
    """A cross-encoder's logits of the candidates of a split: several, each trained without some left texts.

    A labelled pair gets the logit of the one that did not see its left text, any other pair the mean of all.
    """
    ids, labels = campaign.ledger.labels(through=number)
    part, seed = campaign.split, campaign.settings.seed
    fold = fold_of(pair_rows(ids)[0], seed, CROSS_FOLDS)
    trained = [_cross(campaign, number, ids[fold != one], labels[fold != one]) for one in range(CROSS_FOLDS)]

    def columns_of(other: Split) -> MoreColumns:
        def columns(pairs: Ids) -> list[NDArray[np.float64]]:
            each = [one.logits(other.left.texts, other.right.texts, pairs) for one in trained]
            logits = np.asarray(np.mean(each, axis=0), np.float64)
            if other is part:
                known = np.flatnonzero(is_member(pairs, ids))
                unseen = fold[np.searchsorted(ids, pairs[known])]
                logits[known] = np.array(each, np.float64)[unseen, known]
            return [logits]

        return columns

    return columns_of


def distil(campaign: Campaign, number: int, look: Look, out: Path) -> dict[str, Any]:
    """Train the bi-encoder again on what a second look is sure of, and keep it in `out` where it ranks
    better.

    Pairs with a calibrated probability above `SURE` or below 1 - `SURE` join the labels bought. Judged on the
    labelled pairs by the average precision of learners that saw neither their left text nor what the second
    look said of it; the saved one is trained on everything.
    """
    from pairsieve.models.head import fit_head

    ranking = look.rank(campaign.split)
    if ranking.listed is None or look.name == "first look":
        raise InputError(
            "there is no second look to learn from",
            why="it was not asked for, or it did not rank better",
            remedy="Add --second-look",
        )
    bought, part = look.bought, campaign.split
    weight, bias = fit_head(bought.held_out, bought.labels)
    chance = 1.0 / (1.0 + np.exp(-(weight * ranking.listed.scores.astype(np.float64) + bias)))
    sure = ((chance >= SURE) | (chance <= 1 - SURE)) & ~is_member(ranking.listed.ids, bought.ids)
    ids = np.concatenate([bought.ids, ranking.listed.ids[sure]])
    labels = np.concatenate([bought.labels, chance[sure] >= SURE])
    learner, seed = campaign.learner, campaign.settings.seed
    texts = part.left.texts, part.right.texts
    left, right = pair_rows(bought.ids)
    fold, every = fold_of(left, seed, 2), pair_rows(ids)[0]
    logits = np.zeros(len(bought.ids))
    for one in range(2):
        out_of = fold == one
        inside = ~np.isin(every, left[out_of])
        rng = generator_for(seed, number, f"distilled without {one}")
        matcher = learner.fit(*texts, ids[inside], labels[inside], rng)
        rows = (
            matcher.embed([texts[0][row] for row in left[out_of].tolist()], "left"),
            matcher.embed([texts[1][row] for row in right[out_of].tolist()], "right"),
        )
        logits[out_of] = matcher.weight * np.einsum("nd,nd->n", *rows) + matcher.bias
    before = _held_out_ap(held_out_first(campaign, number))
    after = _held_out_ap(Bought(bought.ids, bought.labels, logits))
    told = {"pairs": int(sure.sum()), "before": before, "after": after, "kept": after > before}
    if after > before:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise InputError(f"{out} exists and is not empty", remedy="Choose a new folder for --distil")
        whole = learner.fit(*texts, ids, labels, generator_for(seed, number, "distilled"))
        unfinished = out.with_name(f".{out.name}.unfinished")
        whole.save(unfinished)
        if out.exists():
            out.rmdir()
        unfinished.replace(out)
    return told


def _taught(campaign: Campaign, number: int, more: MoreColumns) -> Taught:
    taught = teach(campaign, number, more=more)
    if taught is None:
        raise InputError(
            "there are too few labels for a second look",
            where=str(campaign.folder),
            why=f"it learns from at least {FEWEST} matches and {FEWEST} non-matches",
            remedy="Buy more labels, or leave --second-look out",
        )
    return taught


def _ranked_again(
    campaign: Campaign, number: int, taught: Taught, more: Callable[[Split], MoreColumns] | None
) -> Callable[[Split], Ranking]:
    def rank(part: Split) -> Ranking:
        if part is campaign.split:
            mine = taught.described
        else:
            mine = describe_split(campaign, number, part, None, more(part) if more else _none)
        logits = taught.trees.logits(mine.features).astype(np.float32)
        method = f"second look at {len(mine.ids):,} candidates"
        return Ranking(part, 1.0, 0.0, method, listed=ScoredPairs(mine.ids, logits))

    return rank


def _cross(campaign: Campaign, number: int, ids: Ids, labels: NDArray[np.bool_]) -> CrossMatcher:
    """A cross-encoder trained on some of the labels, from its artifact."""
    from pairsieve.models import CrossEncoder, TrainingSettings, load_cross
    from pairsieve.models.full import rate_for

    encoder, part = campaign.learner.encoder, campaign.split
    learner = CrossEncoder(encoder, TrainingSettings(learning_rate=rate_for(encoder), epochs=CROSS_EPOCHS))
    key = {
        "learner": learner.fingerprint,
        "texts": [part.left.fingerprint, part.right.fingerprint],
        "labels": labels_digest(ids, labels),
        "seed": campaign.settings.seed,
    }
    rng = generator_for(campaign.settings.seed, number, "cross")
    place = campaign.store.get(
        "cross", key, lambda p: learner.fit(part.left.texts, part.right.texts, ids, labels, rng).save(p)
    )
    return load_cross(place, encoder.requested_device)


def _held_out_ap(bought: Bought) -> float:
    mine, others = bought.held_out[bought.labels], bought.held_out[~bought.labels]
    return curve_from_scores(mine, others).average_precision() if len(mine) else 0.0


def _none(ids: Ids) -> list[Logits]:
    return []


def labels_digest(ids: Ids, labels: NDArray[np.bool_]) -> str:
    """sha256 of labelled pairs: what models and lists made from them are kept under."""
    return hashlib.sha256(ids.tobytes() + b"\0" + labels.tobytes()).hexdigest()

"""Scores of labelled pairs by learners that did not see their left text, corrected as the scorer corrects.

A model is too sure of the pairs it was trained on, so calibration and comparisons rest on these. Neighbours
and densities are those of the round's own rows: only the matcher is trained again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import Ids, pair_rows
from pairsieve.scorer.corrections import CorrectedRows, Floats
from pairsieve.scorer.smoothing import smoothed

if TYPE_CHECKING:
    from pairsieve.models import Learner, Matcher

Mask = NDArray[np.bool_]


def out_of_fold_scores(
    learner: Learner,
    texts: tuple[Sequence[str], Sequence[str]],
    frozen: tuple[Floats, Floats] | None,
    corrected: CorrectedRows,
    ids: Ids,
    labels: Mask,
    fold: NDArray[np.int64],
    rng_of: Callable[[int], np.random.Generator],
    also: tuple[Ids, Mask] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(n,) scores of labelled pairs, each from a learner fitted without its fold, and their plain cosines.

    frozen: the frozen encoder's rows of both sides, where the learner learns from these. also: further pairs
    to learn from; those with a left text of the fold left out are left out with it.
    """
    left, right = pair_rows(ids)
    scores, cosines = np.zeros(len(ids)), np.zeros(len(ids))
    for one in np.unique(fold).tolist():
        out = fold == one
        learn_ids, learn_labels = ids[~out], labels[~out]
        if also is not None:
            apart = ~np.isin(pair_rows(also[0])[0], left[out])
            learn_ids = np.concatenate([learn_ids, also[0][apart]])
            learn_labels = np.concatenate([learn_labels, also[1][apart]])
        if len(learn_ids):
            matcher = learner.fit(*texts, learn_ids, learn_labels, rng_of(one), rows=frozen)
        else:  # one left text has every label
            matcher = learner.pretrained()
        rows_of = partial(_rows, matcher, texts, frozen, corrected)
        sides = rows_of(left[out], 0).astype(np.float64), rows_of(right[out], 1).astype(np.float64)
        products = np.einsum("nd,nd->n", *sides)
        if corrected.lengths:
            products = products * corrected.lengths[0][left[out]] * corrected.lengths[1][right[out]]
        scores[out] = products
        plain = [rows_of(places, side, plain=True) for side, places in enumerate((left[out], right[out]))]
        cosines[out] = np.einsum("nd,nd->n", *(rows.astype(np.float64) for rows in plain))
    return scores, cosines


def _rows(
    matcher: Matcher,
    texts: tuple[Sequence[str], Sequence[str]],
    frozen: tuple[Floats, Floats] | None,
    corrected: CorrectedRows,
    places: NDArray[np.int64],
    side: int,
    plain: bool = False,
) -> Floats:
    """The rows of some texts of a side: plain, or smoothed with the nearest that the round's rows name."""

    def rows_at(places: NDArray[np.int64], side: int) -> Floats:
        name = "right" if side else "left"
        if frozen is not None:
            return matcher.transform(frozen[side][places], name)
        distinct, back = np.unique(places, return_inverse=True)
        return matcher.embed([texts[side][row] for row in distinct.tolist()], name)[back]

    rows = rows_at(places, side)
    if plain or not corrected.nearest:
        return rows
    two = len(corrected.nearest) == 2  # else both sides are one collection, whose nearest are its own texts
    at = side if two else 0
    nearest = np.maximum(corrected.nearest[at][places], 0)
    return smoothed(rows, rows_at(nearest, 1 - side if two else side), corrected.weights[at][places])

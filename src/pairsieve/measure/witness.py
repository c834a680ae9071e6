"""How many matches does a batch look like, to a witness that is not the model which chose it?

A model judges badly what it chose itself, and each round's model is another one. The witness stays the same:
it sees how alike the texts of a pair are (their words, their letters, the encoder as it came), and a logistic
line through the labels bought so far turns that into a chance. A line has few ways to be wrong, so what it
said of earlier batches, before their answers came, tells how far it can be trusted with the next.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pairsieve.measure.next_batch import Floats, logistic_line, sigmoid
from pairsieve.pairs import Mask

Looks = NDArray[np.floating]

RIDGE = 1.0  # slopes, per standard deviation of a column, lie around 0 with this precision
LEVEL = 1e-3  # the precision of the shift: enough to keep it finite where every label is the same
APART = 0.1  # what all pairs drawn at random together weigh beside all labelled ones


def foreseen(looks: Sequence[Looks], labels: Sequence[Mask], apart: Looks) -> list[float | None]:
    """Expected share of matches in each batch after the first, by the answers of the batches before it.

    looks: (n_j, d) of every batch in order, the last perhaps unanswered. labels: (n_j,) of those answered.
    apart: (m, d) of pairs put together at random: as good as none matches, and without them a line through
    pairs that are all near would not know which way is down. None where a batch is empty, or all before it.
    """
    shares: list[float | None] = []
    for number in range(1, len(looks)):
        known = np.concatenate(looks[:number])
        if len(known) == 0 or len(looks[number]) == 0:
            shares.append(None)
            continue
        chances = _chances(known, np.concatenate(labels[:number]), apart, looks[number])
        shares.append(float(chances.mean()))
    return shares


def _chances(known: Looks, labels: Mask, apart: Looks, ahead: Looks) -> Floats:
    """(k,) chances of the pairs `ahead` (k, d), by labelled pairs `known` (n, d) and `apart` (m, d)."""
    columns = np.concatenate([known, apart]).astype(np.float64)
    answers = np.concatenate([labels, np.zeros(len(apart), bool)])
    weights = np.ones(len(columns))
    weights[len(known) :] = APART * len(known) / max(len(apart), 1)
    centre, spread = columns.mean(axis=0), columns.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    line = _line((columns - centre) / spread, answers, weights)
    return sigmoid(((ahead - centre) / spread) @ line[:-1] + line[-1])


def _line(columns: Floats, labels: Mask, weights: Floats) -> Floats:
    """Slopes and, last, the shift of a logistic line: columns (n, d), labels (n,), weights (n,)."""
    design = np.column_stack([columns, np.ones(len(columns))])
    precision = np.diag([*np.full(columns.shape[1], RIDGE), LEVEL])
    line, _ = logistic_line(design, labels, weights, np.zeros(design.shape[1]), precision)
    return line

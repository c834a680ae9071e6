"""How alike are the texts of a pair, whatever has been learned? What the witness of the advice sees.

Only texts of pairs that were asked about are taken apart, and of a large batch only some pairs, so that the
cost does not grow with the collection. Nothing is embedded for it: an encoder's rows are used where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairsieve import second_look
from pairsieve.artifacts import ArtifactStore, load_array
from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, is_member, pair_rows
from pairsieve.tasks import Split

if TYPE_CHECKING:
    from pairsieve.models import Encoder

Rows = NDArray[np.floating]
Texts = tuple[Sequence[str], Sequence[str]]

MOST = 1000  # pairs of a batch that are looked at


def some_of(ids: Ids) -> NDArray[np.int64]:
    """Places of at most `MOST` pairs of a batch, evenly over its order."""
    places: NDArray[np.int64] = np.linspace(0, len(ids) - 1, min(MOST, len(ids))).astype(np.int64)
    return places


def mixed_up(space: PairSpace, ids: Ids) -> Ids:
    """Pairs of the same texts at random: each left one with the right one of a pair half the batch away."""
    left, right = pair_rows(ids)
    other = np.roll(right, len(ids) // 2)
    real = (left != other) if space.symmetric else np.ones(len(ids), bool)
    made = np.unique(space.ids(left[real], other[real]))
    return made[~is_member(made, np.sort(ids))]


def likeness(
    space: PairSpace, texts: Texts, ids: Ids, frozen: tuple[Rows, Rows] | None = None
) -> NDArray[np.float32]:
    """(n, 6): how far words and letters of the pairs `ids` agree; (n, 7) with the cosine of `frozen` rows.

    `texts`: those of both sides (one collection twice); `frozen`: their rows by the encoder as it came.
    """
    left, right = pair_rows(ids)
    if space.symmetric:
        lefts = rights = np.unique(np.concatenate([left, right]))
        among: PairSpace = AllPairs(len(lefts))
    else:
        lefts, rights = np.unique(left), np.unique(right)
        among = CrossPairs(len(lefts), len(rights))
    mine = [texts[0][row] for row in lefts.tolist()]
    yours = mine if space.symmetric else [texts[1][row] for row in rights.tolist()]
    renumbered = among.ids(np.searchsorted(lefts, left), np.searchsorted(rights, right))
    columns = second_look.agreement(second_look.wording(among, mine, yours), renumbered)
    if frozen is None:
        return columns
    one, other = frozen[0][left].astype(np.float64), frozen[1][right].astype(np.float64)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    cosines = np.einsum("nd,nd->n", one, other) / np.maximum(lengths, 1e-12)
    return np.column_stack([columns, cosines]).astype(np.float32)


def frozen_rows(store: ArtifactStore, encoder: Encoder, part: Split) -> tuple[Rows, Rows] | None:
    """Both sides' rows by the encoder as it came, read as they are touched; None where they were not made."""
    sides = [(part.left, "left")] if part.space.symmetric else [(part.left, "left"), (part.right, "right")]
    found = []
    for texts, side in sides:
        key = {"encoder": encoder.fingerprint, "texts": texts.fingerprint, "prefix": encoder.prefix(side)}
        place = store.find("embeddings", key, check=False)
        if place is None:
            return None
        found.append(load_array(place / "rows.npy", mmap=True))
    return found[0], found[-1]

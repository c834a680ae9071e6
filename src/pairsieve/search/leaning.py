"""What does a text mean, when another says nearly the same?

The nearest of a text is often the same thing in other words, and the mean of the two says better what both
mean than either alone. So a row leans on its nearest:

    row(i) = (row(i) + w · row(nearest of i)), at unit length again

Within one collection matches come in groups, and a text leans as far as its nearest is near:

    w = strength · (cosine with the nearest - q) / (1 - q), at least 0

where q is the cosine that nine texts in ten have with their nearest: who stands alone leans on nobody, who
has a twin leans on it fully. Between two collections the nearest is as often a rival as the partner, so a
text leans a little only, w = `ACROSS` · strength for both sides together, shared like the strength of rivals
(`crowding.py`): a text with many possible partners leans more than one with few.

It needs no label, only the texts of the pool that is searched; the score of a pair stays a product of two
rows, so that any scan or index gives it. Averaging items with their neighbours before a search is known from
image retrieval (database augmentation: Turcot and Lowe, ICCV workshops 2009; Arandjelović and Zisserman,
CVPR 2012).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairsieve.pairs import CrossPairs, PairSpace
from pairsieve.search.crowding import shared

if TYPE_CHECKING:
    from pairsieve.scan import Scan

Floats = NDArray[np.float32]
ScanOf = Callable[[PairSpace, Floats, Floats | None], "Scan"]

STRENGTH = 1.0  # chosen on dev splits, as the two below: docs/decisions/0012
ALONE = 0.1  # the share of the texts of one collection that lean on nobody
ACROSS = 0.1

_AT_ONCE = 1 << 14  # rows that are mixed together


@dataclass(frozen=True)
class Leans:
    """On which text each text of a side leans (n,), -1 for none, and how much (n,)."""

    on: NDArray[np.int64]
    by: Floats

    def of(self, places: NDArray[np.int64]) -> Leans:
        return Leans(self.on[places], self.by[places])

    def mixed(self, rows: Floats, others: Floats) -> Floats:
        """Unit rows (n, d) of the side, each leaning on one of `others`, those of the texts leant on."""
        mixed = rows + self.by[:, None] * others
        made: Floats = mixed / np.maximum(np.linalg.norm(mixed, axis=1, keepdims=True), np.float32(1e-12))
        return made

    def all_mixed(self, rows: Floats, others: Floats) -> Floats:
        """The same, from the rows of all texts that may be leant on; a copy even where there are none."""
        made = np.array(rows, np.float32)
        if not len(others):
            return made
        for first in range(0, len(rows), _AT_ONCE):
            places = np.arange(first, min(first + _AT_ONCE, len(rows)))
            part = self.of(places)
            made[places] = part.mixed(rows[places], others[np.maximum(part.on, 0)])
        return made


def nearest(
    scan_of: ScanOf, space: PairSpace, left: Floats, right: Floats | None
) -> list[tuple[NDArray[np.int64], Floats]]:
    """The nearest of each text of either side (one side in one collection), exactly, and the cosine.

    `scan_of(space, left, right)` opens a scan of plain rows. -1 and -inf where there is no possible partner.
    """
    sides = [scan_of(space, left, right).neighbours(1, words="nearest")]
    if right is not None:
        back = CrossPairs(*reversed(space.shape))
        sides.append(scan_of(back, right, left).neighbours(1, words="nearest"))
    return [(columns.reshape(-1), cosines.reshape(-1)) for columns, cosines in sides]


def leans(
    space: PairSpace, near: list[tuple[NDArray[np.int64], Floats]], strength: float
) -> tuple[Leans, ...]:
    """How the texts of either side lean, from the nearest of each."""
    if space.symmetric:
        ((columns, cosines),) = near
        return (Leans(columns, _by_nearness(cosines, strength)),)
    parts = shared(space, ACROSS * strength / 2)
    return tuple(
        Leans(columns, np.where(columns >= 0, np.float32(part), np.float32(0)))
        for (columns, _), part in zip(near, parts)
    )


def _by_nearness(cosines: Floats, strength: float) -> Floats:
    known = np.isfinite(cosines)
    if not known.any():
        return np.zeros(len(cosines), np.float32)
    alone = float(np.quantile(cosines[known].astype(np.float64), ALONE))
    share = (np.where(known, cosines, -1.0) - alone) / max(1.0 - alone, 1e-6)
    made: Floats = (strength * np.clip(share, 0.0, 1.0)).astype(np.float32)
    return made

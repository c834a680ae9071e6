"""Sources of held texts: two texts of one named source are no pair, and a text without one pairs with all."""

from __future__ import annotations

import numpy as np

from pairsieve.errors import InputError
from pairsieve.pairs import AcrossPairs, AllPairs, Mask, PairSpace, Rows
from pairsieve.serving.checks import check_unicode

NO_SOURCE = -1
LONGEST_SOURCE = 500  # characters


def same_source(one: Rows, other: Rows | np.int64) -> Mask:
    """Which pairs are within a source, from the numbers of both (n,); `NO_SOURCE` is the same as none."""
    within: Mask = (one == other) & (one != NO_SOURCE)
    return within


def space_of(sources: Rows) -> PairSpace:
    """The pairs of one collection by the sources (n,) of its texts; each without one stands for itself."""
    named = sources != NO_SOURCE
    if not named.any():
        return AllPairs(len(sources))
    numbers = np.where(named, sources, sources.max() + 1 + np.arange(len(sources)))
    return AcrossPairs(len(sources), numbers)


def possible_partners(sources: Rows, alive: Mask) -> Rows:
    """(n,) how many living texts each text of one collection may be paired with, itself never."""
    own = np.bincount(sources[alive & (sources != NO_SOURCE)], minlength=int(sources.max(initial=0)) + 1)
    partners: Rows = alive.sum() - np.where(sources == NO_SOURCE, 1, own[sources])
    return np.maximum(partners, 0)


def check_source(source: str | None, one_collection: bool) -> None:
    """Refuse a source that is no name, or where pairs are between two collections."""
    if source is None:
        return
    if not one_collection:
        why = "pairs are between the two collections anyway"
        raise InputError("a source with two collections", why=why, remedy="Leave `source` out")
    if not source.strip() or len(source) > LONGEST_SOURCE:
        remedy = f"Give 1 to {LONGEST_SOURCE} characters, or leave `source` out: then all texts are compared"
        raise InputError(f"a source of {len(source):,} characters", remedy=remedy)
    check_unicode(source, "source")

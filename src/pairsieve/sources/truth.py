"""A label source that answers from a task's truth, as the paper simulates annotators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pairsieve.contracts import Answer
from pairsieve.errors import InputError
from pairsieve.pairs import Ids, PairSpace, is_member, pair_rows


class TruthSource:
    """Answers every pair inside `space`: 1 for those in `positives`, else 0; a pair outside stays open."""

    name = "truth"

    def __init__(self, space: PairSpace, positives: Ids) -> None:
        self.space = space
        self.positives: Ids = np.unique(np.asarray(positives, dtype=np.int64))
        strangers = self.positives[~space.contains(self.positives)]
        if len(strangers):
            left, right = pair_rows(strangers[:1])
            count = f"{len(strangers):,} of {len(self.positives):,} positives"
            what = f"{count} lie outside the pair space, the first at rows ({left[0]}, {right[0]})"
            why = f"the space has {space.shape[0]:,} left and {space.shape[1]:,} right texts"
            remedy = "Build the task again, or pass the positives of the same split as the space"
            raise InputError(what, where="truth", why=why, remedy=remedy)

    def answer(self, ids: Ids) -> Sequence[Answer]:
        """One answer per id inside the space, in the order given. ids: (n,) int64."""
        inside = ids[self.space.contains(ids)]
        matches = is_member(inside, self.positives)
        return [Answer(id, int(match)) for id, match in zip(inside.tolist(), matches.tolist())]

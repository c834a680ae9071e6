"""Label sources: those that answer from a task (its truth, or its labels), and the conformance kit of all.

Each follows `contracts.LabelSource`. The others stand in their own modules: files (`exchange.py`), Label
Studio, a language model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pairsieve.contracts import Answer, LabelSource
from pairsieve.errors import InputError
from pairsieve.ledger import Ledger
from pairsieve.ledger.names import TASK_LABELS
from pairsieve.pairs import Ids, PairSpace, is_member, pair_rows

if TYPE_CHECKING:
    from pairsieve.tasks import Split


class TruthSource:
    """Answers pairs of `space` as the paper simulates annotators: 1 for those in `positives`, else 0.

    A pair outside stays open.
    """

    name = "truth"

    def __init__(self, space: PairSpace, positives: Ids) -> None:
        self.space = space
        self.positives: Ids = np.unique(np.asarray(positives, dtype=np.int64))
        outside = self.positives[~space.contains(self.positives)]
        if len(outside):
            left, right = pair_rows(outside[:1])
            count = f"{len(outside):,} of {len(self.positives):,} positives"
            what = f"{count} lie outside the pair space, the first at rows ({left[0]}, {right[0]})"
            why = f"the space has {space.shape[0]:,} left and {space.shape[1]:,} right texts"
            remedy = "Build the task again, or pass the positives of the same split as the space"
            raise InputError(what, where="truth", why=why, remedy=remedy)

    def answer(self, ids: Ids) -> Sequence[Answer]:
        """One answer per id inside the space, in the order given. ids: (n,) int64."""
        inside = ids[self.space.contains(ids)]
        matches = is_member(inside, self.positives)
        return [Answer(id, int(match)) for id, match in zip(inside.tolist(), matches.tolist())]


class StatedLabels:
    """Answers the pairs that a task states without its whole truth; every other one stays open."""

    name = TASK_LABELS

    def __init__(self, positives: Ids, negatives: Ids) -> None:
        self.positives, self.stated = positives, np.union1d(positives, negatives)

    def answer(self, ids: Ids) -> Sequence[Answer]:
        """One answer per stated id, in the order given. ids: (n,) int64."""
        stated = ids[is_member(ids, self.stated)]
        matches = is_member(stated, self.positives)
        return [Answer(id, int(match)) for id, match in zip(stated.tolist(), matches.tolist())]


def task_source(split: Split) -> LabelSource:
    """What a task can answer by itself: every pair where it has its truth, else those that it states."""
    if split.has_truth:
        return TruthSource(split.space, split.positives)
    return StatedLabels(split.positives, split.stated_negatives)


def answer_from_task(ledger: Ledger, split: Split, waiting: Ids) -> None:
    """Let the task answer what it can of the `waiting` pairs; people and files answer in their own time.

    A pair that it answered before and that waits again is one on which people disagree with it: left to them.
    """
    source = task_source(split)
    if answers := source.answer(waiting):
        before = ledger.answers_by_person().get(source.name, {})
        new = [answer for answer in answers if answer.id not in before]
        ledger.answer(new, who=source.name, source=source.name)


def check_label_source(source: LabelSource, ids: Ids) -> None:
    """Raise AssertionError, in words, where `source` breaks `contracts.LabelSource`; ids: (n,) distinct."""
    assert isinstance(source.name, str) and source.name.strip(), "a source has a name that is not empty"
    assert len(source.answer(np.empty(0, np.int64))) == 0, "asked nothing, a source answers nothing"
    before = ids.copy()
    answers = source.answer(ids)
    assert np.array_equal(ids, before), "a source leaves the ids it is given as they are"
    answered = [answer.id for answer in answers]
    assert all(type(id) is int for id in answered), "an answer names its pair by a Python int"
    assert len(set(answered)) == len(answered), "a source answers a pair once"
    assert set(answered) <= set(ids.tolist()), "a source answers only what it was asked"
    for answer in answers:
        right = answer.label is None or (type(answer.label) is int and answer.label in (0, 1))
        assert right, f"a label is 1, 0 or None, not {answer.label!r}"

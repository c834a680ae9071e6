"""Label sources: the truth answers by membership, and the kit catches who breaks the protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairsieve.contracts import Answer
from pairsieve.errors import InputError
from pairsieve.ledger import open_ledger
from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, pair_ids
from pairsieve.sources import StatedLabels, TruthSource, answer_from_task, check_label_source
from pairsieve.tasks import Collection
from pairsieve.tasks.task import one_collection


def test_the_truth_answers_by_membership() -> None:
    space = AllPairs(4)
    truth = TruthSource(space, space.ids([2, 0], [0, 3]))  # (0,2) and (0,3), in any order
    asked = pair_ids([0, 0, 1, 0], [3, 1, 2, 2])
    assert [answer.label for answer in truth.answer(asked)] == [1, 0, 0, 1]
    assert [answer.id for answer in truth.answer(asked)] == asked.tolist()


def test_a_pair_outside_the_space_stays_open() -> None:
    truth = TruthSource(AllPairs(4), np.empty(0, np.int64))
    asked = pair_ids([3, 0, 2, 0], [1, 1, 2, 9])  # wrong way round; inside; itself; no such text
    assert truth.answer(asked) == [Answer(int(asked[1]), 0)]


def test_positives_outside_the_space_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"1 of 2 positives lie outside .* rows \(5, 0\).*3 left and 4 right"
    ):
        TruthSource(CrossPairs(3, 4), pair_ids([1, 5], [1, 0]))


@pytest.mark.parametrize("space", [AllPairs(6), CrossPairs(3, 5)])
def test_the_truth_keeps_the_protocol(space: PairSpace) -> None:
    every = space.unrank(np.arange(space.size))
    check_label_source(TruthSource(space, every[::4]), every)


def test_labels_of_a_task_answer_what_they_state_and_leave_the_rest_open() -> None:
    positives, negatives = pair_ids([0, 1], [1, 2]), pair_ids([0], [2])
    source = StatedLabels(positives, negatives)
    every = AllPairs(4).unrank(np.arange(6))
    check_label_source(source, every)
    assert [(answer.id, answer.label) for answer in source.answer(every)] == [
        (int(pair_ids([0], [1])[0]), 1),
        (int(negatives[0]), 0),
        (int(positives[1]), 1),
    ]


def test_a_task_answers_a_pair_once_and_leaves_a_disagreement_with_it_to_people(tmp_path: Path) -> None:
    texts = Collection(["a", "b", "c"], ["x", "y", "z"])
    split = one_collection("all", texts, pair_ids([0], [1]), pair_ids([0], [2]), False)
    with open_ledger(tmp_path / "l.sqlite", "task") as ledger:
        ids = split.space.unrank(np.arange(3))
        ledger.ask(1, ids, *split.keys(ids), "made", "random")
        answer_from_task(ledger, split, ledger.open_questions())
        ledger.answer([Answer(int(ids[0]), 0)], who="anna", source="page")
        answer_from_task(ledger, split, ledger.open_questions())
        assert set(ledger.open_questions().tolist()) == {int(ids[0]), int(ids[2])}
        assert ledger.answers().who == [StatedLabels.name, StatedLabels.name, "anna"]


@settings(deadline=None)
@given(st.sets(st.integers(0, 44)))
def test_the_truth_says_match_exactly_on_the_positives(ranks: set[int]) -> None:
    space = AllPairs(10)
    positives = space.unrank(np.array(sorted(ranks), np.int64))
    answers = TruthSource(space, positives).answer(space.unrank(np.arange(space.size)))
    assert {answer.id for answer in answers if answer.label == 1} == set(positives.tolist())
    assert len(answers) == 45


class Bent:
    """A source whose answers come from a function, to show that the kit sees each fault."""

    name = "bent"

    def __init__(self, how: Callable[[Ids], Sequence[Answer]]) -> None:
        self.answer = how


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        (lambda ids: [Answer(int(id), 1) for id in ids] * 2, "answers a pair once"),
        (lambda ids: [Answer(int(id) + 1, 1) for id in ids], "only what it was asked"),
        (lambda ids: [Answer(int(id), 2) for id in ids], "1, 0 or None, not 2"),
        (lambda ids: [Answer(id, 1) for id in ids], "Python int"),
        (lambda ids: [Answer(5, 1)], "asked nothing"),
    ],
)
def test_the_kit_catches(how: Callable[[Ids], Sequence[Answer]], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_label_source(Bent(how), pair_ids([0, 1], [5, 6]))

"""The conformance kit of label sources, built-in and plugged-in."""

from __future__ import annotations

import numpy as np

from pairsieve.contracts import LabelSource
from pairsieve.pairs import Ids


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

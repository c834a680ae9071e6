"""Synthetic records: group sizes, copies, near misses, scripts, and the same table for the same seed."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from experiments.synthetic.records import KINDS, table_of
from pairsieve.pairs import AllPairs
from pairsieve.synthetic import Roughness, group_sizes, records_task

CLEAN = Roughness(identical=0, typo=0, abbreviated=0, reordered=0, missing=0, near_misses=0)
SHA256_OF_CITATIONS = "4031feb0443db60fec14f33a4c2eae0055f49b3a695060f25b5797e105b1bd0d"


def test_a_seed_gives_the_same_table_everywhere() -> None:
    texts = table_of("citations", group_sizes(200, {5: 0.5}), 0).texts()
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest() == SHA256_OF_CITATIONS


def test_sizes_of_groups_add_up() -> None:
    sizes = group_sizes(100, {10: 0.3, 4: 0.2, 2: 0.1})
    assert [sizes.count(size) for size in (10, 4, 2, 1)] == [3, 5, 5, 40]
    assert sum(sizes) == 100


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_the_sizes_asked_for_and_no_empty_text(kind: str) -> None:
    table = table_of(kind, [7, 3, 1, 1], 2)
    assert np.bincount(table.entity).tolist() == [7, 3, 1, 1]
    assert list(table.columns) == list(KINDS[kind].fields)
    assert all(text.strip(" |") for text in table.texts())


def test_without_roughness_records_of_an_entity_differ_in_capitals_alone() -> None:
    table = table_of("people", [5] * 20, 1, CLEAN)
    for number in range(20):
        rows = np.flatnonzero(table.entity == number).tolist()
        assert len({table.texts()[row].lower() for row in rows}) == 1


def test_the_share_of_copies_is_the_one_asked_for() -> None:
    for share in (0.0, 0.7):
        table = table_of("products", [8] * 200, 1, Roughness(identical=share, typo=0.6, missing=0.5))
        distinct = len(set(table.texts())) / len(table.entity)
        # Seven of eight records may be copies; some records are equal by chance.
        assert 0.8 * (1 - share * 7 / 8) < distinct <= 1 - share * 7 / 8 + 0.05


def test_a_near_miss_shares_most_fields_and_is_no_match() -> None:
    rough = Roughness(identical=0, typo=0, abbreviated=0, reordered=0, missing=0, near_misses=1.0)
    table = table_of("people", [1] * 50, 1, rough)
    assert len(set(table.texts())) == 50
    assert len({street.lower() for street in table.columns["street"]}) == 1  # one family, one address
    assert len(records_task("people", table).splits["all"].positives) == 0


@pytest.mark.parametrize(
    ("script", "first", "last"), [("cyrillic", "а", "я"), ("greek", "α", "ω"), ("chinese", "一", "龥")]
)
def test_words_are_of_the_script_asked_for(script: str, first: str, last: str) -> None:
    letters = [c for text in table_of("names", [1] * 50, 1, CLEAN, script).texts() for c in text.lower()]
    letters = [letter for letter in letters if letter.isalpha()]
    assert letters
    assert all(first <= letter <= last for letter in letters)


def test_the_task_holds_every_pair_of_an_entity() -> None:
    table = table_of("names", [3, 2, 1], 4)
    task = records_task("names", table)
    left, right = np.triu_indices(6, 1)
    same = table.entity[left] == table.entity[right]
    expected = np.sort(AllPairs(6).ids(left[same], right[same]))
    assert task.splits["all"].positives.tolist() == expected.tolist()
    bare = records_task("names", table, truth=False).splits["all"]
    assert not bare.has_truth
    assert len(bare.positives) == 0

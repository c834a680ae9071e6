"""Fields of two records in plain words: same, so far apart, so alike, missing."""

from __future__ import annotations

import pytest

from pairsieve.explain.fields import compare_fields
from pairsieve.reranker.fields import NO_FIELDS, find_layout
from pairsieve.tasks import Collection
from pairsieve.tasks.fields import make_fields
from pairsieve.tasks.joined import joined_rows

TABLE = {
    "name": ["Jane Doe", "jane doe.", "Jane Roe", "Bo Li", "Bo Li"],
    "born": ["1970-01-01", "1970-02-01", "", "1999-05-05", "05 May 1999"],
    "lat": ["48.0", "48.0", "10.5", "-3", "-3"],
    "lon": ["16.0", "17.0", "11.5", "4", "4"],
    "price": ["100", "90", "", "7", "7.0"],
}
KINDS = {"name": "name", "born": "date", "lat": "latitude", "lon": "longitude", "price": "number"}


def compared(one: int, other: int) -> dict[str, tuple[float | None, str]]:
    side = Collection(list("abcde"), joined_rows(list(TABLE.values())), make_fields(TABLE, KINDS))
    found = compare_fields(find_layout(side, side), side.texts[one], side.texts[other])
    return {each.name: (each.alike, each.words) for each in found}


def test_each_kind_is_told_in_its_own_measure() -> None:
    found = compared(0, 1)
    assert found["name"] == (1.0, "same but for case and marks")
    assert found["born"][1] == "31 days apart"
    # One degree of longitude is 111.2 km · cos 48° = 74.4 km.
    assert found["lat, lon"][1] == "74.4 km apart"
    assert found["price"][1] == "10 % apart"
    assert all(0 < alike < 1 for name, (alike, _) in found.items() if name != "name" and alike is not None)


def test_a_missing_value_is_neither_alike_nor_different() -> None:
    assert compared(0, 2)["price"] == (None, "missing right")
    assert compared(2, 0)["born"] == (None, "missing left")
    assert compared(2, 2)["born"] == (None, "missing in both")


def test_names_by_their_letters() -> None:
    # " jane doe " and " jane roe " have 8 runs of three letters each, 5 of them in both: 10 / 16.
    assert compared(0, 2)["name"] == (pytest.approx(0.625), "62 % of letters alike")
    assert compared(0, 3)["name"] == (0.0, "different")
    assert compared(3, 4)["price"] == (1.0, "same, written differently")


def test_plain_texts_have_no_fields() -> None:
    assert compare_fields(NO_FIELDS, "one text", "another") == ()

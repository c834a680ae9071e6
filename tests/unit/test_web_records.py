"""Records on the page: the values of both sides column by column, missing ones known as such."""

from __future__ import annotations

import pytest

from pairsieve.tasks import Collection
from pairsieve.tasks.fields import make_fields
from pairsieve.tasks.joined import joined_rows
from pairsieve.web.records import NO_COLUMNS, find_columns

SHOP = {"title": ["Red kettle", "Tea pot | blue"], "price": ["19.90", ""], "maker": ["Alessi", "Bodum"]}
STORE = {"price": ["20", "7"], "title": ["", "Blue tea pot"], "stock": ["3", ""]}


def collection(table: dict[str, list[str]], fields: bool = True) -> Collection:
    texts = joined_rows(list(table.values()))
    return Collection([str(at) for at in range(len(texts))], texts, make_fields(table) if fields else None)


def test_columns_of_two_tables_meet_by_name_and_a_missing_value_is_none() -> None:
    left, right = collection(SHOP), collection(STORE)
    columns = find_columns(left, right)
    assert columns.rows(left.texts[0], right.texts[0]) == [
        {"name": "title", "left": "Red kettle", "right": None},
        {"name": "price", "left": "19.90", "right": "20"},
        {"name": "maker", "left": "Alessi"},
        {"name": "stock", "right": "3"},
    ]
    assert columns.rows(left.texts[1], right.texts[1]) == [
        {"name": "title", "left": "Tea pot / blue", "right": "Blue tea pot"},
        {"name": "price", "left": None, "right": "7"},
        {"name": "maker", "left": "Bodum"},
        {"name": "stock", "right": None},
    ]


def test_values_without_known_columns_are_counted() -> None:
    side = collection(SHOP, fields=False)
    rows = find_columns(side, side).rows(side.texts[0], side.texts[1])
    assert [row["name"] for row in rows] == ["value 1", "value 2", "value 3"]
    assert rows[1] == {"name": "value 2", "left": "19.90", "right": None}


@pytest.mark.parametrize("texts", [["plain", "texts"], ["a | b", "one value"], []])
def test_plain_texts_have_no_columns(texts: list[str]) -> None:
    side = Collection([str(at) for at in range(len(texts))], texts)
    assert find_columns(side, side) == NO_COLUMNS


def test_tables_without_a_common_column_are_shown_as_texts() -> None:
    other = {"name": ["Kettle", "Pot"], "cost": ["1", "2"]}
    assert find_columns(collection(SHOP), collection(other)) == NO_COLUMNS

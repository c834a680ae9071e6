"""Results as finished tables: the columns of the records, groups in the input's order, merged records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pairsieve.errors import InputError
from pairsieve.library.records import ClusterList, MatchList
from pairsieve.matches.group_table import group_columns
from pairsieve.matches.listing import Known, list_types, write_list
from pairsieve.matches.merging import merge_records, read_rules
from pairsieve.matches.options import ListOptions
from pairsieve.pairs import ScoredPairs, pair_ids
from pairsieve.tables import read_rows, write_table
from pairsieve.tasks import Collection, Split, tables_task

SHOPS = [
    {"id": "a", "name": "Café", "price": 5, "seen": "2020-01-01", "shop": "x", "lat": 1.5, "lon": 2.5},
    {"id": "b", "name": "Café Bar", "price": 6, "seen": "2022-01-01", "shop": "y", "lat": 9.0, "lon": None},
    {"id": "c", "name": "Café", "price": None, "seen": "2023-01-01", "shop": "z", "lat": None, "lon": 9.5},
    {"id": "d", "name": "=Pub", "price": 7, "seen": None, "shop": "x", "lat": None, "lon": None},
]
GROUP = np.array([0, 0, 0, 1])
CHOSEN = np.array([1, 3])


def shops() -> Split:
    return tables_task(SHOPS, key="id", text=["name"]).splits["all"]


def merged(
    *words: str, order: tuple[str, ...] = (), texts: Collection | None = None
) -> dict[str, Sequence[object]]:
    return merge_records(texts or shops().left, GROUP, CHOSEN, read_rules(words, order))[1]


def test_a_merged_record_takes_each_field_by_its_rule() -> None:
    longest = merged("longest")
    assert longest["name"] == ["Café Bar", "=Pub"]
    assert longest["id"] == ["b", "d"], "the key is that of the representative"
    assert longest["size"] == [3, 1] and json.loads(str(longest["members"][0])) == ["a", "b", "c"]
    assert merged("most-frequent")["name"] == ["Café", "=Pub"]
    assert merged("most-recent")["price"] == [6, 7], "the latest record that has a price"
    assert merged("most-recent")["name"] == ["Café", "=Pub"]
    mixed = merged("longest", "price=source-order:shop", order=("y",))
    assert (mixed["name"][0], mixed["price"][0]) == ("Café Bar", 6)
    assert merged("source-order:shop")["price"] == [5, 7], "sources as they first appear"


def test_groups_have_one_number_in_every_table() -> None:
    """The lone first text is group 1, behind the group of three: as rows, as a table and merged."""
    group, chosen, texts = np.array([0, 1, 1, 1]), np.array([0, 2]), shops().left
    found = merge_records(texts, group, chosen, read_rules(("longest",), ()))[1]
    assert [json.loads(str(keys)) for keys in found["members"]] == [["b", "c", "d"], ["a"]]
    assert (found["cluster"], found["id"]) == ([0, 1], ["c", "a"])
    rows = group_columns(texts, group, chosen, ListOptions())[1]
    assert dict(zip(rows["key"], rows["cluster"])) == {"b": 0, "c": 0, "d": 0, "a": 1}


def test_a_place_is_taken_from_one_record() -> None:
    for rule in ("longest", "most-recent", "most-frequent"):
        found = merged(rule)
        assert (found["lat"][0], found["lon"][0]) == (1.5, 2.5), rule
        assert (found["lat"][1], found["lon"][1]) == (None, None)


def test_rules_are_checked() -> None:
    with pytest.raises(InputError, match=r"no rule 'longer'.*longest"):
        read_rules("longer")
    with pytest.raises(InputError, match="the rule longest has no column"):
        read_rules("longest:name")
    with pytest.raises(InputError, match=r"no column 'prise'.*price"):
        merged("prise=longest")
    with pytest.raises(InputError, match="the task has no column of sources"):
        merged("source-order")
    plain = Collection(["k", "l", "m", "n"], ["a", "bb", "a", "c"])
    with pytest.raises(InputError, match="no field is a date"):
        merged("most-recent", texts=plain)
    assert merged("longest", texts=plain)["text"] == ["bb", "c"]


def test_groups_beside_the_columns_and_as_the_input_table() -> None:
    types, columns = group_columns(shops().left, GROUP, CHOSEN, ListOptions())
    assert list(columns)[:4] == ["key", "cluster", "size", "representative"]
    assert columns["price"] == [5, 6, None, 7] and types["price"] == "int64"
    types, columns = group_columns(shops().left, GROUP, CHOSEN, ListOptions(as_table=True))
    assert list(columns) == [*SHOPS[0], "cluster", "size", "representative"]
    assert columns["id"] == ["a", "b", "c", "d"] and columns["cluster"] == [0, 0, 0, 1]
    plain = Collection(["k", "l", "m", "n"], ["a", "bb", "a", "c"])
    _, columns = group_columns(plain, GROUP, CHOSEN, ListOptions())
    assert list(columns) == ["key", "cluster", "size", "representative"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl", ".tsv", ".xlsx"])
def test_a_list_has_the_columns_of_both_records_and_becomes_a_frame(suffix: str, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    if suffix == ".xlsx":
        pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    split = shops()
    types = list_types(split, texts=True, columns=True)
    assert "left_id" not in types and list(types)[7:9] == ["left_name", "right_name"]
    listed = ScoredPairs(pair_ids([0, 1], [1, 3]), np.array([0.75, 0.5], np.float32))
    out = tmp_path / f"list{suffix}"
    write_list(out, iter([listed]), split, None, Known.nothing(), True, types)
    found = MatchList(out, SimpleNamespace(rows=2, columns=types))
    frame = found.to_pandas()
    assert frame["left"].tolist() == ["a", "b"] and frame["right_name"].tolist() == ["Café Bar", "=Pub"]
    assert frame["left_price"].tolist() == [5, 6] and frame["score"].tolist() == [0.75, 0.5]
    assert frame["probability"].isna().all() and frame["right_lon"].isna().all()
    assert found.to_arrow().schema.field("left_price").type == "int64"
    assert isinstance(frame, pd.DataFrame) and "Café" in found._repr_html_()
    assert list_types(split, texts=False, columns=False).keys() == {
        "left",
        "right",
        "score",
        "probability",
        "label",
    }


def test_excel_holds_texts_and_no_formulas(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    path = tmp_path / "t.xlsx"
    write_table(path, {"text": "string", "n": "int64"}, {"text": ["=1+1", "a\x00b", None], "n": [1, None, 3]})
    cells = [[cell.value for cell in row] for row in openpyxl.load_workbook(path).active]
    assert cells == [["text", "n"], ["=1+1", 1], ["a\ufffdb", None], [None, 3]]
    assert openpyxl.load_workbook(path).active["A2"].data_type == "s"
    assert next(read_rows(path, {})) == {"text": "=1+1", "n": 1}


def test_a_list_that_waits_for_labels_says_so(tmp_path: Path) -> None:
    waiting = ClusterList(tmp_path / "no.csv", SimpleNamespace(rows=0, columns={}))
    with pytest.raises(InputError, match="not written yet"):
        waiting.to_arrow()

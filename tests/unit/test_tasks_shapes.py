"""The same table, and the same pairs, in any shape give the same task; other shapes are refused."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from pairsieve.errors import InputError
from pairsieve.tables import write_rows
from pairsieve.tasks import Task, tables_task, texts_task

pd = pytest.importorskip("pandas", reason="pandas is not installed")

Rows = list[dict[str, Any]]
PEOPLE: Rows = [
    {"id": "a", "name": "Ann Lee", "age": 31.0, "member": True, "since": date(2020, 5, 1)},
    {"id": "b", "name": "Anne Lee", "age": None, "member": True, "since": date(2021, 5, 1)},
    {"id": "c", "name": "Bo «ü», the third", "age": 40.5, "member": False, "since": None},
    {"id": "d", "name": 'Bob "B"', "age": 7.0, "member": None, "since": date(1999, 1, 1)},
]


class ArrowStream:
    """Something that only offers the Arrow stream interface."""

    def __init__(self, rows: Rows) -> None:
        self._table = pa.Table.from_pylist(rows)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class DuckDataset:
    """The part of a Hugging Face Dataset that is read: names, features, formats and columns."""

    features = ()

    def __init__(self, rows: Rows) -> None:
        self._rows, self.column_names = rows, list(rows[0])

    def with_format(self, kind: None) -> DuckDataset:
        return self

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, column: str) -> list[Any]:
        return [row[column] for row in self._rows]


def as_polars(rows: Rows) -> Any:
    return pytest.importorskip("polars", reason="polars is not installed").DataFrame(
        rows, infer_schema_length=None
    )


def as_dataset(rows: Rows) -> Any:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    return datasets.Dataset.from_list(rows)


IN_MEMORY: dict[str, Callable[[Rows], Any]] = {
    "pandas": pd.DataFrame,
    "pandas with Arrow types": lambda rows: pa.Table.from_pylist(rows).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": as_polars,
    "pyarrow": pa.Table.from_pylist,
    "arrow stream": ArrowStream,
    "duck-typed dataset": DuckDataset,
    "datasets": as_dataset,
    "records": list,
    "columns": lambda rows: {name: [row[name] for row in rows] for name in rows[0]},
    "generator": lambda rows: (row for row in rows),
}


def delimited(mark: str, suffix: str) -> Callable[[Rows, Path], Path]:
    def write(rows: Rows, folder: Path) -> Path:
        path = folder / f"table{suffix}"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter=mark)
            writer.writeheader()
            writer.writerows(rows)
        return path

    return write


def as_json_lines(rows: Rows, folder: Path) -> Path:
    path = folder / "table.jsonl"
    path.write_text("\n".join(json.dumps(row, default=str) for row in rows))
    return path


def as_parquet(rows: Rows, folder: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), folder / "table.parquet")
    return folder / "table.parquet"


def as_excel(rows: Rows, folder: Path) -> Path:
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    book = openpyxl.Workbook()
    for row in ([*rows[0]], *(list(row.values()) for row in rows)):
        book.active.append(row)
    book.save(folder / "table.xlsx")
    return folder / "table.xlsx"


def by_pandas(rows: Rows, folder: Path) -> Path:
    pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)
    return folder / "table.csv"


def by_polars(rows: Rows, folder: Path) -> Path:
    as_polars(rows).write_csv(folder / "table.csv")
    return folder / "table.csv"


FILES: dict[str, Callable[[Rows, Path], Path]] = {
    "csv": delimited(",", ".csv"),
    "semicolons in .csv": delimited(";", ".csv"),
    "pipes in .txt": delimited("|", ".txt"),
    "tsv": delimited("\t", ".tsv"),
    "json lines": as_json_lines,
    "parquet": as_parquet,
    "excel": as_excel,
    "csv by pandas": by_pandas,
    "csv by polars": by_polars,
}


@pytest.mark.parametrize("shape", IN_MEMORY)
def test_shapes_in_memory_are_the_same_task(shape: str, tmp_path: Path) -> None:
    wanted = tables_task(FILES["csv"](PEOPLE, tmp_path), key="id", text=["name"])
    task = tables_task(IN_MEMORY[shape](PEOPLE), key="id", text=["name"])
    assert task.splits["all"].left.fields is not None
    assert task.splits["all"].left.fields.table.equals(wanted.splits["all"].left.fields.table)  # type: ignore[union-attr]
    assert task.fingerprint == wanted.fingerprint


@pytest.mark.parametrize("kind", FILES)
def test_files_are_the_same_task(kind: str, tmp_path: Path) -> None:
    wanted = tables_task(PEOPLE, key="id", text=["name"])
    assert (
        tables_task(FILES[kind](PEOPLE, tmp_path), key="id", text=["name"]).fingerprint == wanted.fingerprint
    )


words = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="'"), min_size=1, max_size=12
)


@st.composite
def made_tables(draw: st.DrawFn) -> Rows:
    """Tables with a column of texts and two of one kind of cell each, some of them missing."""
    count = draw(st.integers(2, 6))
    kinds = [
        st.one_of(st.none(), kind)
        for kind in draw(
            st.tuples(
                *[st.sampled_from([words.map(str.strip), st.integers(-(10**9), 10**9), st.floats(-1e9, 1e9)])]
                * 2
            )
        )
    ]
    return [
        {"text": f"text {row}", "one": draw(kinds[0]) or None, "two": draw(kinds[1]) or None}
        for row in range(count)
    ]


@settings(deadline=None, max_examples=examples(60))
@given(rows=made_tables())
def test_made_tables_are_the_same_in_every_shape(
    rows: Rows, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("made")
    prints = {"records": tables_task(rows).fingerprint}
    for shape in ("pandas", "pyarrow", "columns", "arrow stream"):
        prints[shape] = tables_task(IN_MEMORY[shape](rows)).fingerprint
    for kind in ("csv", "tsv", "parquet", "json lines", "csv by pandas"):
        prints[kind] = tables_task(FILES[kind](rows, folder)).fingerprint
    assert len(set(prints.values())) == 1, prints


def test_a_frame_s_index_is_its_key() -> None:
    frame = pd.DataFrame({"text": ["x", "y"], "more": ["1", "2"]}, index=["k1", "k2"])
    assert tables_task(frame).splits["all"].left.keys == ("k1", "k2")
    assert tables_task(frame.reset_index(drop=True)).splits["all"].left.keys == ("0", "1")
    named = frame.rename_axis("code")
    assert tables_task(named, matches=[("k1", "k2")], split="none").splits["all"].left.kinds["code"] == "key"
    series = texts_task(pd.Series(["x", "y"], index=["k1", "k2"])).splits["all"].left
    assert (series.keys, series.texts) == (("k1", "k2"), ("x", "y"))
    assert texts_task(pa.array(["x", "y"])).splits["all"].left.keys == ("0", "1")


def test_an_index_left_by_filtering_is_no_key_where_pairs_name_the_id_column() -> None:
    frame = pd.DataFrame({"id": [1, 2, 3, 4], "name": ["ann", "bo", "cy", "di"]}).iloc[[1, 2, 3]]
    by_id = tables_task(frame, matches=[(2, 4)], split="none").splits["all"]
    assert (by_id.left.keys, by_id.positives.tolist()) == (("2", "3", "4"), [2])
    first = frame.assign(id=[7, 8, 9])
    assert tables_task(first, matches=[(1, 3)], split="none").splits["all"].left.keys == ("1", "2", "3")
    with pytest.raises(InputError, match=r"index or its column 'id'.*`key='id'`"):
        tables_task(frame, matches=[(2, 3)], split="none")


@pytest.mark.parametrize("cell", [["a"], {"a": 1}, {1}, b"x", np.zeros(2), object()])
def test_a_column_without_texts_is_left_out_and_named(cell: Any) -> None:
    """Where it is asked for by name it is refused: an address in memory or "[0. 0.]" is no text."""
    rows = [{"id": key, "name": name, "odd": cell} for key, name in ((1, "Ann"), (2, "Bo"))]
    task = tables_task(rows, key="id")
    assert task.splits["all"].left.texts == ("Ann", "Bo")
    assert task.report["columns_without_texts"] == ["odd"]
    with pytest.raises(InputError, match=rf"holds a {type(cell).__name__}, not a text"):
        tables_task(rows, key="id", text=["name", "odd"])


def test_every_kind_of_missing_is_missing() -> None:
    gone = [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), pd.NA, pd.NaT, ""]
    rows = [{"name": f"n{at}", "more": each} for at, each in enumerate(gone)] + [{"name": "n", "more": "x"}]
    fields = tables_task(rows).splits["all"].left.fields
    assert fields is not None and fields.column("more") == [None] * len(gone) + ["x"]


PAIRS = [("a", "b"), ("c", "d")]


def pair_shapes(folder: Path) -> dict[str, Any]:
    def file(name: str, words: str) -> Path:
        (folder / name).write_text(words)
        return folder / name

    listed = folder / "list.csv"
    rows = [
        {
            "left": a,
            "right": b,
            "left_id": "?",
            "right_id": "?",
            "score": 0.5,
            "probability": None,
            "label": None,
        }
        for a, b in PAIRS
    ]
    types = dict.fromkeys(("left", "right", "left_id", "right_id"), "string")
    write_rows(listed, types | {"score": "float32", "probability": "float64", "label": "int8"}, rows)
    return {
        "tuples": PAIRS,
        "tuples with labels": [(*pair, True) for pair in PAIRS],
        "dictionary": dict.fromkeys(PAIRS, 1),
        "frame": pd.DataFrame(PAIRS, columns=["x", "y"]),
        "arrow": pa.table({"id1": ["a", "c"], "id2": ["b", "d"]}),
        "records": [{"left_id": a, "right_id": b} for a, b in PAIRS],
        "id1,id2,label": file("1.csv", "id1,id2,label\na,b,1\nc,d,1\n"),
        "no header": file("2.csv", "a,b\nc,d\n"),
        "no header, labels": file("3.csv", "a,b,1\nc,d,1\n"),
        "pipes, no header": file("4.csv", "a|b\nc|d\n"),
        "our list": listed,
        "our groups": file("5.csv", "key,cluster,size,representative\na,0,2,a\nb,0,2,a\nc,1,2,c\nd,1,2,c\n"),
    }


PAIR_SHAPES = (
    "tuples",
    "tuples with labels",
    "dictionary",
    "frame",
    "arrow",
    "records",
    "id1,id2,label",
    "no header",
    "no header, labels",
    "pipes, no header",
    "our list",
    "our groups",
)


@pytest.mark.parametrize("shape", PAIR_SHAPES)
def test_matches_in_any_shape(shape: str, tmp_path: Path) -> None:
    task = tables_task(PEOPLE, key="id", text=["name"], matches=pair_shapes(tmp_path)[shape], split="none")
    assert task.splits["all"].positives.tolist() == [1, (2 << 32) | 3]
    assert task.splits["all"].has_truth
    assert set(PAIR_SHAPES) == set(pair_shapes(tmp_path))


def test_labels_that_people_wrote_and_ledgers(tmp_path: Path) -> None:
    answered = tmp_path / "batch.csv"
    answered.write_text(
        "left_key,right_key,left_text,right_text,label,who,comment\na,b,,,yes,ann,\nc,d,,,no,,\na,c,,,unsure,,\nb,c,,,,,\n"
    )
    task = tables_task(PEOPLE, key="id", text=["name"], labels=answered)
    assert (len(task.splits["all"].positives), len(task.splits["all"].stated_negatives)) == (1, 1)
    assert task.report["rows_without_label"] == 2
    assert task.report["first_row_without_label"] == "row 4 ('unsure')"
    events = tmp_path / "events.csv"
    lines = ["event,left_key,right_key,label,about,who", "question,a,b,,,"]
    lines += [f"answer,a,b,{label},answer,{who}" for label, who in ((0, "x"), (1, "y"), (1, "z"), (1, "x"))]
    lines += ["question,c,d,,,", "answer,c,d,1,answer,x", "withdrawal,c,d,,answer,x", "answer,a,c,0,answer,x"]
    events.write_text("\n".join(lines) + "\n")
    told = tables_task(PEOPLE, key="id", text=["name"], labels=events)
    assert told.splits["all"].positives.tolist() == [1]
    assert told.splits["all"].stated_negatives.tolist() == [2]
    assert told.report["first_row_without_label"] == "row 9 (empty)"  # where the answer was withdrawn


def test_keys_are_recognised_and_compared_as_numbers(tmp_path: Path) -> None:
    rows = [{"id": f"{n:03}", "name": f"thing {n}", "price": n} for n in range(1, 5)]
    task = tables_task(rows, matches=[(1, 2)], split="none")
    assert task.provenance["keys"] == ["id"]
    assert task.splits["all"].positives.tolist() == [1]
    other = [{**row, "id": f"r{row['id']}"} for row in rows]
    two = tables_task(rows, other, key="id", matches=[("1", "r002")], split="none")
    assert two.splits["all"].positives.tolist() == [1]


def test_a_database(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE people (id TEXT, name TEXT, age REAL, member TEXT, since TEXT)")
        connection.executemany(
            "INSERT INTO people VALUES (?, ?, ?, ?, ?)",
            [
                (
                    r["id"],
                    r["name"],
                    r["age"],
                    None if r["member"] is None else str(r["member"]),
                    r["since"] and str(r["since"]),
                )
                for r in PEOPLE
            ],
        )
        connection.execute("CREATE TABLE same (one TEXT, other TEXT)")
        connection.execute("INSERT INTO same VALUES ('a', 'b')")
    connection.close()
    url = f"sqlite:///{tmp_path}/shop.db"
    task = tables_task(url, query="SELECT * FROM people", key="id", text=["name"])
    assert task.fingerprint == tables_task(PEOPLE, key="id", text=["name"]).fingerprint
    known = tables_task(
        url,
        query="SELECT * FROM people",
        key="id",
        text=["name"],
        matches=url,
        matches_query="SELECT * FROM same",
        split="none",
    )
    assert known.splits["all"].positives.tolist() == [1]
    with pytest.raises(InputError, match="a database needs a query"):
        tables_task(url)
    with pytest.raises(InputError, match=r"the query failed.*No such table"):
        tables_task(url, query="SELECT * FROM nobody")


def test_a_trailing_separator_and_no_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id|name|\n1|Ann|\n2|Bo|\n")
    assert tables_task(path, key="id", text=["name"]).splits["all"].left.texts == ("Ann", "Bo")
    path.write_text("1|Ann\n2|Bo\n")
    task = tables_task(path, header=False, key="column 1", text=["column 2"], delimiter="|")
    assert task.splits["all"].left.keys == ("1", "2")
    pair = tmp_path / "pair.csv"
    pair.write_text("1,2\n")  # one pair and no header
    assert tables_task(PEOPLE_BY_NUMBER, key="id", matches=pair, split="none").splits["all"].ratio == 1
    pair.write_text("id1,id2\n")
    with pytest.raises(InputError, match="columns but no pairs"):
        tables_task(PEOPLE_BY_NUMBER, key="id", matches=pair, split="none")


def test_the_separator_is_looked_for_outside_quotes(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('id;"name, first, last";price\n1;Ann;1,5\n2;Bo;2,25\n')
    left = tables_task(path, key="id").splits["all"].left
    assert (left.texts, left.kinds["price"]) == (("Ann | 1,5", "Bo | 2,25"), "number")


PEOPLE_BY_NUMBER = [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Anne"}]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tables_task(["one", "two"]), "a list of str is not a table.*task_from_texts"),
        (lambda: tables_task({"a": "one"}), "single values, not columns.*task_from_texts"),
        (lambda: tables_task(42), "int is not a table"),
        (lambda: tables_task({"a": [1, 2], "b": [1]}), "columns differ in length"),
        (lambda: tables_task(pd.DataFrame({"text": []})), "no rows"),
        (lambda: tables_task(pd.DataFrame([[1, 2]], columns=["a", "a"])), "2 columns are called 'a'"),
        (lambda: tables_task(pa.array(["x"])), "not a table"),
        (lambda: texts_task(pd.DataFrame({"text": ["x"]})), "this is a table, not texts.*task_from_tables"),
        (lambda: texts_task("people.csv"), "a single text.*task_from_tables"),
        (lambda: texts_task([{"text": "x"}]), "a dict is no text.*task_from_tables"),
        (lambda: texts_task(["x", "y"], matches=["ab"]), "not pairs of keys"),
        (lambda: tables_task(PEOPLE, PEOPLE), "both tables are the same"),
    ],
)
def test_wrong_shapes_are_refused_in_words(call: Callable[[], Task], words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize("damage", ["packed in an unknown way", "encrypted"])
def test_a_spreadsheet_that_cannot_be_unpacked_is_refused_in_words(damage: str, tmp_path: Path) -> None:
    """zipfile raises NotImplementedError for the one and RuntimeError, its parent, for the other."""
    path = as_excel(PEOPLE, tmp_path)
    contents = bytearray(path.read_bytes())
    at = 0
    for name, method, flags in ((b"PK\x03\x04", 8, 6), (b"PK\x01\x02", 10, 8)):  # local and central headers
        while (at := contents.find(name, at)) >= 0:
            if damage == "encrypted":
                contents[at + flags] |= 1
            else:
                contents[at + method] = 97
            at += 4
        at = 0
    path.write_bytes(contents)
    with pytest.raises(InputError, match=r"table\.xlsx: the file is not a whole spreadsheet"):
        tables_task(path, key="id")

"""Fields: kept from the table to the task folder, kinds guessed from values, missing known as missing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pairsieve.errors import InputError
from pairsieve.tasks import Collection, load_task, matching_task, save_task, tables_task
from pairsieve.tasks.canonical import canonical
from pairsieve.tasks.fields import guess_kinds, kinds_in_words, make_fields
from pairsieve.tasks.joined import taken_apart, without_gaps
from pairsieve.tasks.new_table import read_like_task
from pairsieve.tasks.values import as_number, column_days, column_numbers

BOOKS = (
    "id,title,author,year,price,lat,lon\n"
    "a,Emma,Jane Austen,1815,12.50,51.5,-0.1\n"
    "b,Emma (novel),J. Austen,,9,,\n"
    "c,Beowulf,,1000,,55.6,12.6\n"
    "d,Beowulf: a poem,Anonymous,1001,7,55.7,12.5\n"
)


def books(folder: Path, words: str = BOOKS) -> Path:
    path = folder / "books.csv"
    path.write_text(words)
    return path


def test_fields_are_kept_and_missing_is_missing(tmp_path: Path) -> None:
    task = tables_task(books(tmp_path), key="id", text=["title", "author"])
    fields = task.splits["all"].left.fields
    assert fields is not None
    assert fields.names == ("id", "title", "author", "year", "price", "lat", "lon")
    assert fields.column("author") == ["Jane Austen", "J. Austen", None, "Anonymous"]
    assert fields.kinds["id"] == "key" and fields.kinds["year"] == "date"
    assert np.array_equal(fields.numbers("price"), [12.5, 9, np.nan, 7], equal_nan=True)
    (place,) = fields.places().values()
    assert np.array_equal(place[:2], [[51.5, -0.1], [np.nan, np.nan]], equal_nan=True)


def test_a_folder_keeps_fields_and_reads_them_only_when_asked(tmp_path: Path) -> None:
    made = tables_task(books(tmp_path), key="id", text=["title"])
    save_task(made, tmp_path / "task")
    loaded = load_task(tmp_path / "task")
    side = loaded.splits["all"].left
    assert loaded.fingerprint == made.fingerprint
    assert side.kinds["lat"] == "latitude"
    assert "fields" not in vars(side), "nothing was read yet"
    assert side.fields is not None
    assert side.fields.table.to_pydict() == made.splits["all"].left.fields.table.to_pydict()  # type: ignore[union-attr]
    save_task(loaded, tmp_path / "again")
    assert load_task(tmp_path / "again").fingerprint == made.fingerprint
    (tmp_path / "task" / "all" / "fields.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"fields\.parquet.*altered or cut short"):
        _ = load_task(tmp_path / "task").splits["all"].left.fields


def test_the_fingerprint_covers_values_and_kinds(tmp_path: Path) -> None:
    def task(words: str, **more: str) -> str:
        return tables_task(books(tmp_path, words), key="id", text=["title"], kinds=more).fingerprint

    first = task(BOOKS)
    assert task(BOOKS.replace("Anonymous", "anonymous")) != first, "a column that is not in the text"
    assert task(BOOKS, price="code") != first
    assert task(BOOKS) == first


def test_splits_and_both_tables_have_their_own_rows(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("key,title,year\nx,EMMA,1815\ny,Beowulf,1000\nz,Dune,1965\n")
    task = tables_task(books(tmp_path), other, text=["title"])
    left, right = task.splits["all"].left, task.splits["all"].right
    assert left.fields is not None and right.fields is not None
    assert right.fields.column("year") == ["1815", "1000", "1965"]
    part = left.take(np.array([2, 0]))
    assert part.fields is not None and part.fields.column("title") == ["Beowulf", "Emma"]
    assert left.kinds["year"] == right.kinds["year"] == "date"


def test_a_key_and_one_text_have_no_fields(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,text\na,one\nb,two\n")
    assert tables_task(path, key="id").splits["all"].left.fields is None


def test_all_columns_are_the_text_where_none_is_named(tmp_path: Path) -> None:
    texts = tables_task(books(tmp_path), key="id").splits["all"].left.texts
    assert texts[1] == "Emma (novel) | J. Austen |  | 9 |  | "
    assert tables_task(books(tmp_path), key="id", text=["all"]).splits["all"].left.texts == texts


def test_categories_are_read_where_they_say_something_for_their_length(tmp_path: Path) -> None:
    """Colours are; a long list that half of the records share is compared only, in a new table too."""
    long = "city, village, town, hamlet, any other inhabited place"
    table = {
        "name": [f"name {at}" for at in range(40)],
        "colour": ["red", "green", "blue", "teal"] * 10,
        "sort": [long, "sea"] * 20,
    }
    task = tables_task(table)
    collection = task.splits["all"].left
    assert collection.fields is not None
    assert dict(collection.kinds) == {"name": "text", "colour": "category", "sort": "category"}
    assert without_gaps(collection.texts[0]) == "name 0 | red"
    assert taken_apart(collection.texts[0]) == ["name 0", "red", long]
    again = read_like_task(task, 0, {name: values[:5] for name, values in table.items()})
    assert again.texts == collection.texts[:5]
    only = tables_task({"id": [str(at) for at in range(40)], "sort": table["sort"]}, key="id")
    assert only.splits["all"].left.texts[1] == "sea"
    named = tables_task(table, text=["sort", "name"])
    assert named.splits["all"].left.texts[1] == "sea | name 1"


def test_benchmarks_have_fields_and_ignore_what_gives_matches_away(tmp_path: Path) -> None:
    rows = [(f"{n}", f"thing {n}", f"{n + 100}") for n in range(12)]
    for name in ("tableA", "tableB"):
        lines = ["id,title,class", *(",".join(row) for row in rows)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    pairs = "".join(f"{n},{n},1\n" for n in range(12))
    (tmp_path / "train.csv").write_text("ltable_id,rtable_id,label\n" + pairs)
    side = matching_task(tmp_path).splits["all"].left
    assert side.kinds["class"] == "ignore" and side.kinds["id"] == "key"


def test_kinds_are_checked(tmp_path: Path) -> None:
    path = books(tmp_path)
    with pytest.raises(InputError, match=r"there is no column 'titel'.*title"):
        tables_task(path, text=["title"], kinds={"titel": "name"})
    with pytest.raises(InputError, match=r"there is no kind 'nam'.*name"):
        tables_task(path, text=["title"], kinds={"title": "nam"})
    with pytest.raises(InputError, match="0 columns are a latitude and 1 a longitude"):
        tables_task(path, text=["title"], kinds={"lat": "number"})


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("number", ["1", "2.5", "$1,200", "3"]),
        ("date", ["1990-01-31", "3/4/1999", "12 March 2001", "1987"]),
        ("date", ["(1994).", "1993,", "1993a.", "1988"]),
        ("code", ["310/246-1501", "(212) 555-0100", "310-246-1501"]),
        ("code", ["AB-12", "XK-993", "B2", "kx200"]),
        ("code", ["00123", "04410", "99321"]),
        ("code", ["4006381333931", "4006381333948", "5012345678900"]),
        ("category", ["red", "green"] * 10),
        ("name", ["Ann Lee", "Bo Diddley", "Jean-Luc Picard"]),
        (
            "text",
            ["a long text about the making of many tools in the north", "another one of seven words here ok"],
        ),
        ("ignore", [None, None]),
    ],
)
def test_kinds_by_values(kind: str, values: list[str | None]) -> None:
    assert guess_kinds({"column": values}) == {"column": kind}


def test_coordinates_need_each_other_and_may_hold_a_slip() -> None:
    degrees = [f"{n}.5" for n in range(60)]
    assert guess_kinds({"lat": [*degrees, "8990.33"], "long": degrees}) == {
        "lat": "latitude",
        "long": "longitude",
    }
    assert guess_kinds({"lat": degrees}) == {"lat": "number"}
    found = make_fields({"lat": ["1", "8990.33"], "lon": ["2", "3"]}, {"lat": "latitude", "lon": "longitude"})
    assert np.array_equal(found.places()["lat, lon"], [[1, 2], [np.nan, np.nan]], equal_nan=True)
    assert kinds_in_words(found.kinds) == "lat + lon place"


def test_a_wide_table_is_told_in_few_words() -> None:
    words = kinds_in_words({f"c{at}": "name" for at in range(2_000)})
    assert words.startswith("c0 name, c1 name,") and words.endswith("c39 name and 1,960 more")


def test_numbers_and_days_as_people_write_them() -> None:
    written = {"1,234.5": 1234.5, "12,5": 12.5, "€ 3": 3, "-2": -2, "1e3": 1000, "3.": 3, "50%": 50}
    assert {text: as_number(text) for text in written} == written
    assert as_number("310-246") is None and as_number("v2") is None
    assert np.isnan(column_numbers([None, "x"])).all()
    assert as_number("10,17 m", decimal_comma=True) == 10.17
    assert as_number("33.4 ft") == pytest.approx(10.18, abs=0.001) and as_number('12.9"') == pytest.approx(
        0.328, abs=1e-3
    )
    assert as_number("750ml") == as_number("0.75 l") == 0.75 and as_number("1.5 kW") == as_number("1500 W")
    assert as_number("3:45") == as_number("225 s") == 225 and as_number("1:03:45") == 3825
    assert as_number("12 pieces") is None and as_number("4x") is None
    day = column_days(["1970-01-02", "2.1.1970", "Jan 2, 1970", "19700102", "1970-01-02T10:00:00Z"])
    assert day.tolist() == [1, 1, 1, 1, 1]
    assert column_days(["1970-02", "1971"]).tolist() == [31, 365], "the first day of a month or year"
    assert column_days(["13/1/1970", "2/1/1970"])[1] == 1, "13 can be no month: the day comes first"
    assert column_days(["1/13/1970", "1/2/1970"])[1] == 1
    assert np.isnan(column_days(["30 Feb 1990", "soon", None])).all()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["1.0", "2.5", ""], ["1", "2.5", ""]),
        (["-0.0", "1e-7"], ["0", "1e-07"]),
        (["True", "False"], ["true", "false"]),
        (["2020-01-01T00:00:00.000000", ""], ["2020-01-01", ""]),
        (
            ["2020-01-01T10:00:00.250", "2020-01-02 00:00:00"],
            ["2020-01-01 10:00:00.25", "2020-01-02 00:00:00"],
        ),
        (["1.10", "1.0"], ["1.10", "1.0"]),
        (["007", "1.0"], ["007", "1.0"]),
        (["1.0", "x"], ["1.0", "x"]),
    ],
)
def test_columns_written_by_programs_read_alike(given: list[str], wanted: list[str]) -> None:
    assert canonical(given) == wanted
    assert canonical(wanted) == wanted


def test_short_reprs(tmp_path: Path) -> None:
    task = tables_task(books(tmp_path), key="id", text=["title"])
    assert repr(task) == "<Task books (equivalence): all: 4 texts, 6 pairs>"
    assert repr(Collection(["a"], ["x"])) == "<Collection of 1 texts>"
    assert "price number" in repr(task.splits["all"].left.fields)
    save_task(task, tmp_path / "task")
    noted = json.loads((tmp_path / "task" / "task.json").read_text())["splits"]["all"]["fields"]
    assert noted["texts.parquet"]["kinds"]["price"] == "number"


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["1.234,50", "12.000"], [1234.5, 12000]),  # one value tells of all
        (["€ 27.200", "€ 136.500"], [27200, 136500]),
        (["27.200", "950"], [27200, 950]),  # below 1,000 there is no group to mark
        (["1.250", "2.500"], [1.25, 2.5]),  # could be either: as most programs write it
        (["0.250", "2.500", "950"], [0.25, 2.5, 950]),
        (["52,370", "4,90"], [52.37, 4.9]),
        (["1,234.50", "1,234"], [1234.5, 1234]),
        (["1.234.567", "12"], [1234567, 12]),
    ],
)
def test_a_column_tells_whether_its_comma_is_decimal(texts: list[str], numbers: list[float]) -> None:
    assert column_numbers(texts).tolist() == numbers
    assert guess_kinds({"column": texts}) == {"column": "number"}

"""A user's own tables: what is read from them, and what each bad input is told."""

from __future__ import annotations

import gzip
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pairsieve.errors import InputError
from pairsieve.pairs import pair_rows
from pairsieve.tasks import Split, tables_task
from pairsieve.tasks.joined import read_part
from pairsieve.tasks.tables import Side

PEOPLE = "id,text\na,Ann Lee\nb,Anne Lee\nc,Bo\nd,Bob\n"


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def keys(split: Split, field: str = "positives") -> list[tuple[str, str]]:
    left, right = pair_rows(getattr(split, field))
    return [(split.left.keys[a], split.right.keys[b]) for a, b in zip(left, right)]


# What is read


def test_one_table_without_knowledge_is_one_split_without_truth(tmp_path: Path) -> None:
    task = tables_task(write(tmp_path / "people.csv", PEOPLE))
    split = task.splits["all"]
    assert (task.name, task.relation, list(task.splits)) == ("people", "equivalence", ["all"])
    assert split.left.keys == ("0", "1", "2", "3")
    assert split.left.texts == ("Ann Lee", "Anne Lee", "Bo", "Bob")
    assert (split.has_truth, len(split.positives), split.space.size) == (False, 0, 6)


def test_every_format_gives_the_same_task(tmp_path: Path) -> None:
    rows = [{"id": f"k{i}", "text": f"text {i}, «ü»"} for i in range(5)]
    lines = [f'{row["id"]},"{row["text"]}"' for row in rows]
    comma = "\n".join(["id,text", *lines]) + "\n"
    json_lines = "\n".join(json.dumps(row) for row in rows)
    paths = [
        write(tmp_path / "a.csv", comma),
        write(tmp_path / "bom.csv", b"\xef\xbb\xbf" + comma.encode()),
        write(tmp_path / "crlf.csv", comma.replace("\n", "\r\n")),
        write(tmp_path / "a.csv.gz", gzip.compress(comma.encode())),
        write(tmp_path / "a.tsv", comma.replace(',"', '\t"').replace("id,", "id\t")),
        write(tmp_path / "a.jsonl", json_lines + "\n\n"),
        write(tmp_path / "a.jsonl.gz", gzip.compress(json_lines.encode())),
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    paths.append(tmp_path / "a.parquet")
    assert len({tables_task(path, key="id").fingerprint for path in paths}) == 1
    semicolons = write(tmp_path / "s.csv", comma.replace(',"', ';"').replace("id,", "id;"))
    latin = write(tmp_path / "l.csv", comma.encode("latin-1"))
    first = tables_task(paths[0], key="id").fingerprint
    assert tables_task(semicolons, key="id", delimiter="semicolon").fingerprint == first
    assert tables_task(latin, key="id", encoding="latin-1").fingerprint == first


def test_typed_cells_become_text(tmp_path: Path) -> None:
    table = pa.table({"id": [1.0, 2.0], "text": [10, 20], "more": [True, None]})
    pq.write_table(table, tmp_path / "t.parquet")
    split = tables_task(tmp_path / "t.parquet", key="id", text=["text", "more"]).splits["all"]
    assert split.left.keys == ("1", "2")
    assert split.left.texts == ("10 | true", "20 | ")


def test_columns_joined_and_templates(tmp_path: Path) -> None:
    path = write(tmp_path / "b.csv", "id,title,author\n1,Emma,Austen\n2,Beowulf,\n")
    joined = tables_task(path, text=["title", "author"]).splits["all"]
    assert joined.left.texts == ("Emma | Austen", "Beowulf | ")
    made = tables_task(path, template="{title} {{by}} {author}").splits["all"]
    assert [read_part(text) for text in made.left.texts] == ["Emma {by} Austen", "Beowulf {by} "]


def test_a_field_larger_than_the_csv_limit(tmp_path: Path) -> None:
    path = write(tmp_path / "big.csv", f"text\nsmall\n{'x' * 300_000}\n")
    assert len(tables_task(path).splits["all"].left.texts[1]) == 300_000


def test_quotes_that_mean_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", 'text\n"so" he said\n5" disk\n')
    with pytest.raises(InputError, match=r"t\.tsv, row 2: the quotes do not add up.*`quotes=False`"):
        tables_task(path)
    assert tables_task(path, quotes=False).splits["all"].left.texts == ('"so" he said', '5" disk')


def test_known_matches_of_one_table_are_closed_and_split(tmp_path: Path) -> None:
    rows = "".join(f"{g}{x},t\n" for g in range(4) for x in "abc")
    table = write(tmp_path / "t.csv", "id,text\n" + rows)
    pairs = "".join(f"{g}b,{g}a\n{g}b,{g}c\n" for g in range(4))
    matches = write(tmp_path / "m.csv", "id_a,id_b\n" + pairs)
    task = tables_task(table, key="id", matches=matches)
    assert [len(split.positives) for split in task.splits.values()] == [6, 3, 3]
    assert all(split.has_truth for split in task.splits.values())
    assert task.report["known_matches"] == 8
    assert task.report["matches_added_by_closure"] == 4
    whole = tables_task(table, key="id", matches=matches, split="none").splits["all"]
    assert keys(whole)[:3] == [("0a", "0b"), ("0a", "0c"), ("0b", "0c")]
    two = tables_task(table, key="id", matches=matches, split="75/25")
    assert [(name, len(split.left)) for name, split in two.splits.items()] == [("train", 9), ("test", 3)]


@pytest.mark.parametrize(
    ("header", "label"),
    [
        ("id_a,id_b", "label"),
        ("left_id,right_id", "label"),
        ("unique_id_l,unique_id_r", "match"),
        ("unique_id_l,unique_id_r", "clerical_match_score"),
        ("qid1,qid2", "is_duplicate"),
        ("ltable_id,rtable_id", "label"),
    ],
)
def test_labelled_pairs_under_the_names_of_other_tools(tmp_path: Path, header: str, label: str) -> None:
    table = write(tmp_path / "t.csv", PEOPLE)
    labels = write(tmp_path / "l.csv", f"{header},{label}\nb,a,1\nc,a,0\nd,c,0.0\n")
    split = tables_task(table, key="id", labels=labels).splits["all"]
    assert keys(split) == [("a", "b")]
    assert keys(split, "stated_negatives") == [("a", "c"), ("c", "d")]
    assert not split.has_truth


def test_pairs_without_a_label_column_are_matches(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", PEOPLE)
    labels = write(tmp_path / "l.tsv", "left_id\tright_id\nb\ta\n")
    assert keys(tables_task(table, key="id", labels=labels).splits["all"]) == [("a", "b")]


def test_typed_labels(tmp_path: Path) -> None:
    pairs = [{"id_a": "a", "id_b": "b", "label": True}, {"id_a": "a", "id_b": "c", "label": 0}]
    labels = write(tmp_path / "l.jsonl", "\n".join(map(json.dumps, pairs)))
    split = tables_task(write(tmp_path / "t.csv", PEOPLE), key="id", labels=labels).splits["all"]
    assert (keys(split), keys(split, "stated_negatives")) == ([("a", "b")], [("a", "c")])


def test_contradicting_labels_are_counted_and_positives_win(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", PEOPLE)
    labels = write(tmp_path / "l.csv", "id_a,id_b,label\na,b,1\nb,a,0\na,c,0\na,d,1\n")
    matches = write(tmp_path / "m.csv", "one,two\nb,c\n")
    task = tables_task(table, key="id", labels=labels, matches=matches, split="none")
    assert task.report["pairs_stated_both_ways"] == 1
    assert task.report["negatives_inside_closure"] == 1
    assert task.report["labelled_matches_not_among_known"] == 2
    assert len(task.splits["all"].stated_negatives) == 0
    assert len(task.splits["all"].positives) == 6


def test_two_tables_each_with_its_own_ways(tmp_path: Path) -> None:
    left = write(tmp_path / "shop.csv", "sku,title\n1,Lamp\n2,Desk\n")
    right = write(tmp_path / "web.csv", "url;name\n1;lamp\n9;chair\n".encode("utf-16"))
    matches = write(tmp_path / "m.csv", "left_id,right_id\n1,1\n")
    task = tables_task(
        Side(left, text=["title"], key="sku"),
        Side(right, template="<{name}>", key="url", delimiter=";", encoding="utf-16"),
        matches=matches,
        split="none",
    )
    split = task.splits["all"]
    assert (task.relation, split.space.shape, split.has_truth) == ("match", (2, 2), True)
    assert split.right.texts == ("<lamp>", "<chair>")
    assert keys(split) == [("1", "1")]  # two tables: the same key on both sides is no self-pair
    directed = tables_task(left, right_copy(left), text=["title"], relation="directed")
    assert directed.relation == "directed"


def right_copy(path: Path) -> Path:
    return write(path.with_name("copy.csv"), path.read_bytes())


def test_keys_of_two_tables_are_the_columns_that_the_pairs_name(tmp_path: Path) -> None:
    left = write(tmp_path / "shop.csv", "ref,name\np1,red boat\np2,blue boat\np3,old boat\n")
    right = write(tmp_path / "stock.csv", "listing,title\n7,boat in red\n8,boat in blue\n9,canoe\n")
    labels = write(tmp_path / "labels.csv", "ref,listing,label\np1,7,1\np2,8,1\np3,9,0\n")
    split = tables_task(left, right, labels=labels).splits["all"]
    assert keys(split) == [("p1", "7"), ("p2", "8")]
    assert split.left.texts[0] == "red boat"  # the key is no part of the text


def test_ids_of_two_tables_are_not_taken_for_row_numbers(tmp_path: Path) -> None:
    """Ids from 1 would be rows too: pair (1, 2) is not the second row with the third."""
    left = write(tmp_path / "l.csv", "id,text\n1,a\n2,b\n3,c\n4,d\n")
    right = write(tmp_path / "r.csv", "id,text\n1,A\n2,B\n3,C\n4,D\n")
    matches = write(tmp_path / "m.csv", "left,right\n1,2\n2,3\n")
    split = tables_task(left, right, matches=matches, split="none").splits["all"]
    pairs = [(split.left.texts[a], split.right.texts[b]) for a, b in zip(*pair_rows(split.positives))]
    assert pairs == [("a", "B"), ("b", "C")]
    rows = write(tmp_path / "rows.csv", "left,right\n0,1\n3,3\n")  # no id is 0: these are rows
    split = tables_task(left, right, matches=rows, split="none").splits["all"]
    assert keys(split) == [("0", "1"), ("3", "3")]


def test_same_seed_same_split(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", "text\n" + "x\n" * 40)
    matches = write(tmp_path / "m.csv", "id_a,id_b\n" + "".join(f"{i},{i + 20}\n" for i in range(20)))
    prints = [tables_task(table, matches=matches, seed=seed).fingerprint for seed in (1, 1, 2)]
    assert prints[0] == prints[1] != prints[2]


def test_provenance_holds_names_and_no_paths(tmp_path: Path) -> None:
    task = tables_task(write(tmp_path / "t.csv", PEOPLE), key="id")
    assert str(tmp_path) not in json.dumps(task.provenance)
    assert task.provenance["files"][0]["name"] == "t.csv"
    assert len(task.provenance["files"][0]["sha256"]) == 64


# What is refused, and in which words

Made = Callable[[Path], dict[str, Any]]


def table_of(contents: str | bytes, file: str = "t.csv", **options: Any) -> Made:
    return lambda root: {"left": write(root / file, contents), **options}


def labels_of(text: str, **options: Any) -> Made:
    return lambda root: {
        "left": write(root / "t.csv", PEOPLE),
        "key": "id",
        "labels": write(root / "l.csv", text),
        **options,
    }


def matches_of(text: str, **options: Any) -> Made:
    return lambda root: {
        "left": write(root / "t.csv", PEOPLE),
        "key": "id",
        "matches": write(root / "m.csv", text),
        **options,
    }


def two_of(**options: Any) -> Made:
    return lambda root: (
        {
            "left": write(root / "l.csv", "id,text\n1,x\n2,y\n"),
            "right": write(root / "r.csv", "id,text\nA,x\nB,y\n"),
            "key": "id",
        }
        | {name: write(root / "m.csv", text) if name == "matches" else text for name, text in options.items()}
    )


def truncated_zip(root: Path) -> dict[str, Any]:
    with zipfile.ZipFile(root / "whole.zip", "w") as archive:
        archive.writestr("t.csv", PEOPLE * 50)
    return {"left": write(root / "t.csv.zip", (root / "whole.zip").read_bytes()[:-40])}


def crowded_zip(root: Path) -> dict[str, Any]:
    with zipfile.ZipFile(root / "t.zip", "w") as archive:
        archive.writestr("a.csv", PEOPLE)
        archive.writestr("b.csv", PEOPLE)
    return {"left": root / "t.zip"}


def truncated_parquet(root: Path) -> dict[str, Any]:
    pq.write_table(pa.table({"text": ["a"] * 9}), root / "whole.parquet")
    return {"left": write(root / "t.parquet", (root / "whole.parquet").read_bytes()[:-30])}


def listed_parquet(root: Path) -> dict[str, Any]:
    pq.write_table(pa.table({"text": [["a"], ["b"]]}), root / "t.parquet")
    return {"left": root / "t.parquet"}


BAD: dict[str, tuple[Made, str]] = {
    "missing text column": (
        table_of("id,texts\n1,a\n", text=["text"]),
        r"t\.csv: there is no column 'text' \(`text`\)\. Did you mean 'texts'\? Known: id, texts\.",
    ),
    "missing key column": (
        table_of(PEOPLE, key="idd"),
        r"no column 'idd' \(`key`\)\. Did you mean 'id'\? Known: id, text",
    ),
    "missing template column": (
        table_of(PEOPLE, template="{name}"),
        r"no column 'name' \(`template`\)\. Known: id, text",
    ),
    "two columns of one name in all": (
        table_of("id,title,title,price\n1,a,b,2\n"),
        r"2 columns are called 'title'\. Rename them in the header, or name others .*`text` \(price\)\.$",
    ),
    "two columns of one name and no other": (
        table_of("id,name,name\n1,a,b\n2,c,d\n"),
        r"2 columns are called 'name'\. Rename them in the header\.$",
    ),
    "empty column for the text": (
        table_of("id,name\n1,\n2, \n"),
        r"t\.csv: there is no column for the text\. 'name' is empty in every row\. Fill it in",
    ),
    "one row": (
        table_of("id,text\n1,a\n"),
        r"t\.csv: the table has one row, and a pair needs two\. Give a table with at least two rows\.",
    ),
    "two columns of one name": (table_of("text,text\na,b\n"), r"2 columns are called 'text'"),
    "wrong delimiter asked for": (
        table_of(PEOPLE, delimiter=";"),
        r"single column, 'id,text'.*read as semicolon-.*looks comma-separated\. Pass `delimiter='comma'`",
    ),
    "no delimiter at all": (table_of(PEOPLE, delimiter="ab"), r"`delimiter`: 'ab' is not a delimiter"),
    "latin-1": (
        table_of("id,text\n1,ok\n2,caf\xe9\n".encode("latin-1")),
        r"t\.csv, row 3: the text is not utf-8\. Byte 0xe9 at offset 18 .* Pass `encoding='latin-1",
    ),
    "cp1252": (table_of("id,text\n1,“ok”\n".encode("cp1252")), r"row 2.*Byte 0x93.*Pass `encoding='cp1252"),
    "utf-16": (table_of(PEOPLE.encode("utf-16")), r"row 1.*Pass `encoding='utf-16"),
    "utf-16 without a mark": (table_of(PEOPLE.encode("utf-16-le")), r"zero bytes.*`encoding='utf-16-le"),
    "utf-16 of the other order": (table_of(PEOPLE.encode("utf-16-be")), r"`encoding='utf-16-be"),
    "utf-16 of other letters": (
        table_of(("id,text\n" + "1,вопрос о языке\n" * 9).encode("utf-16-le")),
        r"zero bytes.*`encoding='utf-16-le",
    ),
    "a stray zero byte": (
        table_of(PEOPLE.replace("Anne", "An\0ne")),
        r"t\.csv: line 3 holds a zero byte\. A text has none; the file may be damaged\. Remove the byte",
    ),
    "ascii asked for": (table_of("text\nan ä\n", encoding="ascii"), r"row 2: the text is not ascii"),
    "shift_jis": (
        table_of(("text\n" + "日本語の質問です\n" * 20).encode("shift_jis")),
        r"Pass `encoding='shift_jis",
    ),
    "no such encoding": (table_of(PEOPLE, encoding="utf-9"), r"no encoding called 'utf-9'"),
    "empty key": (table_of("id,text\n1,a\n ,b\n", key="id"), r"t\.csv, row 3, column 'id': the key is empty"),
    "duplicate key": (
        table_of("id,text\n1,a\n2,b\n1,c\n", key="id"),
        r"row 4, column 'id': the key '1' stands in rows 2 and 4",
    ),
    "empty text": (
        table_of("id,text\n1,a\n2,  \n", key="id"),
        r"row 3, column 'text': the text is empty \(key '2'\)",
    ),
    "blank line in a single column": (table_of("text\na\n\nb\n"), r"row 3, column 'text': the text is empty"),
    "blank lines are counted": (table_of("id,text\n1,a\n\n2,\n"), r"row 4, column 'text': the text is empty"),
    "all columns of a template empty": (
        table_of("a,b\nx,y\n,\n", template="{a} by {b}"),
        r"row 3: the text is empty\. The columns a, b are all empty",
    ),
    "null in json": (
        table_of('{"text": "a"}\n{"text": null}\n', "t.jsonl"),
        r"row 2, column 'text': the text",
    ),
    "text and template": (table_of(PEOPLE, text=["text"], template="{id}"), r"columns or of a template"),
    "template without a column": (table_of(PEOPLE, template="hi"), r"the template 'hi' names no column"),
    "template with a stray brace": (table_of(PEOPLE, template="{id} {"), r"a brace without a column"),
    "empty file": (table_of(""), r"t\.csv: the file is empty"),
    "header only": (table_of("id,text\n"), r"has columns but no rows"),
    "blank header": (table_of("\nid,text\n"), r"row 1: the first row is empty"),
    "no such file": (
        lambda root: {"left": write(root / "people.csv", PEOPLE).with_name("poeple.csv")},
        r"poeple\.csv: there is no such file\. Did you mean 'people\.csv'\?",
    ),
    "a folder": (lambda root: {"left": root}, r"this is a folder, not a file"),
    "unknown suffix": (table_of(b"PK\x03\x04", "t.docx"), r"kind of table a \.docx file is.*Known suffixes"),
    "date for a header": (table_of("id,2010-12-01\na,2\n"), r"It holds '2010-12-01'"),
    "amount for a header": (table_of("id,48.0 kg\na,2\n"), r"It holds '48.0 kg'"),
    "record for a header": (table_of("1,Ann\n2,Bo\n"), r"row 1: the first row looks like.*`header=False`"),
    "ragged row": (table_of("id,text\n1,a\n2,b,c\n"), r"row 3: the row has 3 fields, the header has 2"),
    "short row": (
        table_of("id,text\n1,a\n2\n"),
        r"row 3: the row has 1 field, the header has 2\. It is too short: cells are missing",
    ),
    "unclosed quote": (table_of('id,text\n1,a\n2,"b\n3,c\n'), r"row 3: a quoted text is never closed"),
    "no json": (table_of('{"text": "a"}\n{text: b}\n', "t.jsonl"), r"t\.jsonl, row 2: the line is not JSON"),
    "json list": (table_of('["a"]\n', "t.jsonl"), r"row 1: the line is a JSON list, not an object"),
    "half a surrogate": (table_of('{"text": "\\ud800"}', "t.jsonl"), r"row 1, column 'text'.*surrogate"),
    "a list for a text": (listed_parquet, r"row 1, column 'text': the cell holds a list, not a text"),
    "truncated gz": (
        table_of(gzip.compress(PEOPLE.encode() * 50)[:-20], "t.csv.gz"),
        r"t\.csv\.gz: the gzip archive is truncated or damaged.*again",
    ),
    "truncated xz": (
        table_of(lzma.compress(PEOPLE.encode() * 50)[:-20], "t.csv.xz"),
        r"xz archive is truncated",
    ),
    "truncated zip": (truncated_zip, r"zip archive is truncated"),
    "truncated parquet": (truncated_parquet, r"t\.parquet: the file is not whole Parquet"),
    "not an archive": (table_of(PEOPLE, "t.csv.gz"), r"the name says gzip, but.*69 64 2c 74"),
    "two tables in a zip": (crowded_zip, r"holds 2 tables, not one\. Found: a\.csv, b\.csv"),
    "label 2": (
        labels_of("id_a,id_b,label\na,b,1\na,c,2\n"),
        r"l\.csv, row 3, column 'label': the label is '2'\. A label is 1 \(match\) or 0",
    ),
    "label in strange words": (
        labels_of("id_a,id_b,label\na,b,si\n"),
        r"column 'label': the label is 'si'\..*Write 1, 1\.0, yes.*unsure, u, \? or maybe; or leave it empty",
    ),
    "no label at all": (labels_of("id_a,id_b,label\na,b,\n"), r"column 'label': no row has a label"),
    "empty label in matches": (matches_of("id_a,id_b,label\na,b,\n"), r"row 2.*a row has no label"),
    "unsure in matches": (
        matches_of("id_a,id_b,label\na,b,1\nb,c,maybe\n"),
        r"m\.csv, row 3, column 'label': the label 'maybe' says that nobody is sure",
    ),
    "strange columns in matches": (
        matches_of("foo,bar\nx,y\n"),
        r"m\.csv, row 1: no two columns name the pair's keys\. The columns are foo, bar; no two of them",
    ),
    "strange columns in matches, one no key": (
        matches_of("foo,bar\na,b\na,y\n"),
        r"m\.csv, row 3, column 'bar': the key 'y'.*; the columns foo and bar were taken for the keys",
    ),
    "unknown key": (
        labels_of("id_a,id_b,label\na,b,1\na,z,0\n"),
        r"l\.csv, row 3, column 'id_b': the key 'z' is not in t\.csv\. Keys there look like 'a', 'b', 'c'",
    ),
    "self-pair in labels": (labels_of("id_a,id_b,label\nb,b,1\n"), r"row 2.*pairs 'b' with itself"),
    "self-pair in matches": (matches_of("id_a,id_b\na,b\nc,c\n"), r"m\.csv, row 3.*pairs 'c' with itself"),
    "unknown key in matches": (matches_of("id_a,id_b\na,q\n"), r"m\.csv, row 2, column 'id_b': the key 'q'"),
    "strange columns in labels": (
        labels_of("x,y,z\na,b,1\n"),
        r"l\.csv, row 1: the columns x and y hold keys, but no column is called a label.*Name it",
    ),
    "strange columns in labels, no keys": (
        labels_of("x,y,label\na,q,1\n"),
        r"l\.csv, row 1: no two columns name.*x, y, label.*id_a, id_b; left_id, right_id",
    ),
    "label 0 in matches": (matches_of("id_a,id_b,label\na,b,0\n"), r"label 0 stands among.*`labels`"),
    "swapped columns": (two_of(matches="left_id,right_id\nA,1\n"), r"the two columns may be swapped"),
    "split without positives": (
        matches_of("id_a,id_b\na,b\n"),
        r"m\.csv: the split train would have no positive pair\..*train 0, dev 1, test 0\..*`split='none'`",
    ),
    "labelled split without positives": (
        labels_of("id_a,id_b,label\na,b,0\n", split="50/25/25"),
        r"would have no positive pair",
    ),
    "bad shares": (matches_of("id_a,id_b\na,b\n", split="50/60"), r"`split`: cannot split '50/60'"),
    "relation of two for one": (table_of(PEOPLE, relation="match"), r"'match' needs two tables"),
    "relation of one for two": (two_of(relation="equivalence"), r"'equivalence' needs one table"),
    "no such relation": (table_of(PEOPLE, relation="same"), r"there is no relation 'same'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(tmp_path: Path, case: str) -> None:
    make, words = BAD[case]
    options = make(tmp_path)
    with pytest.raises(InputError, match=words):
        tables_task(**options)


def test_other_columns_than_those_of_one_name_are_taken_for_the_text(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "id,title,name,name\n1,x,a,b\n2,y,c,d\n")
    with pytest.raises(InputError, match=r"or name others for the text with `text` \(title\)"):
        tables_task(path)
    assert tables_task(path, text=["title"]).splits["all"].left.texts == ("x", "y")


def test_one_row_each_is_enough_for_two_tables(tmp_path: Path) -> None:
    one, other = (write(tmp_path / name, "id,text\n1,a\n") for name in ("l.csv", "r.csv"))
    assert tables_task(one, other).splits["all"].space.size == 1


def test_one_file_as_both_tables(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", PEOPLE)
    with pytest.raises(InputError, match=r"both tables are the same file.*Leave `right` out"):
        tables_task(path, path)

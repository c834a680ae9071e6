"""Files, folders and tables appear whole or not at all; one process holds a lock at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pairsieve.errors import InputError, SettingsError
from pairsieve.files import atomic_file, atomic_folder, locked, write_errors, write_json, write_text
from pairsieve.numeric import logit, sigmoid
from pairsieve.tables import SUFFIXES, read_rows, table_writer, write_rows

TYPES = {"key": "string", "label": "int8", "score": "float64"}
ROWS = [
    {"key": 'a "b", c', "label": 1, "score": 0.1},
    {"key": "007", "label": None, "score": None},
    {"key": "two\nlines\tand a tab", "label": 0, "score": 1e-30},
    {"key": "a carriage\rreturn", "label": 0, "score": 2.0},
]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole_or_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    write_text(path, "one\r\n")
    with pytest.raises(RuntimeError), atomic_file(path) as beside:
        beside.write_text("half")
        raise RuntimeError
    assert path.read_bytes() == b"one\r\n" and names(path.parent) == ["a.txt"]
    write_json(path, {"ö": 1})
    assert path.read_text(encoding="utf-8") == '{\n "ö": 1\n}\n' and names(path.parent) == ["a.txt"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "one")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    words = r"a\.txt: the list cannot be written\. No space left on device\. Make room\."
    with pytest.raises(InputError, match=words), write_errors("the list", path, "Make room"):
        write_text(path, "two")
    assert path.read_text() == "one" and names(tmp_path) == ["a.txt"]


def test_a_folder_appears_whole_and_replaces_only_when_asked_to(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()  # an empty one makes way
    with atomic_folder(folder) as new:
        (new / "a").write_text("1")
        assert names(folder) == []
    assert names(folder) == ["a"]
    with pytest.raises(FileExistsError), atomic_folder(folder) as new:
        (new / "b").write_text("2")
    with pytest.raises(RuntimeError), atomic_folder(folder, replace=True) as new:
        raise RuntimeError
    assert names(folder) == ["a"] and names(tmp_path) == ["model"]
    with atomic_folder(folder, replace=True) as new:
        (new / "b").write_text("2")
    assert names(folder) == ["b"] and names(tmp_path) == ["model"]


def test_a_folder_that_came_meanwhile_stays(tmp_path: Path) -> None:
    folder, beside = tmp_path / "model", tmp_path / ".building"
    with pytest.raises(FileExistsError), atomic_folder(folder, beside=beside) as new:
        assert new == beside
        folder.mkdir()
        (folder / "a").write_text("of somebody faster")
    assert names(folder) == ["a"] and names(tmp_path) == ["model"]


@pytest.mark.skipif(sys.platform == "win32", reason="no locks on Windows")
def test_one_process_holds_a_lock(tmp_path: Path) -> None:
    path, refusal = tmp_path / ".lock", SettingsError("somebody else is here")
    again = f"""
from pathlib import Path
from pairsieve.errors import SettingsError
from pairsieve.files import locked
locked(Path({str(path)!r}), SettingsError("somebody else is here"))
"""
    with locked(path, refusal):
        found = subprocess.run([sys.executable, "-c", again], capture_output=True, text=True)
        assert found.returncode == 1 and "somebody else is here" in found.stderr
        with pytest.raises(SettingsError, match="somebody else"):
            locked(path, refusal)
    assert subprocess.run([sys.executable, "-c", again], capture_output=True).returncode == 0
    locked(path).close()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_a_table_holds_comes_back(tmp_path: Path, suffix: str) -> None:
    path, rows = tmp_path / f"table{suffix}", ROWS
    if suffix == ".xlsx":  # its XML knows no carriage return
        pytest.importorskip("openpyxl", reason="openpyxl is not installed")
        rows = [row | {"key": row["key"].replace("\r", "\n")} for row in ROWS]
    assert write_rows(path, TYPES, iter(ROWS)) == 4
    assert list(read_rows(path, TYPES)) == rows
    with table_writer(path, TYPES) as write:
        for row in ROWS:
            write({name: [value] for name, value in row.items()})
    assert list(read_rows(path, TYPES)) == rows
    with pytest.raises(RuntimeError), table_writer(path, TYPES) as write:
        raise RuntimeError
    assert list(read_rows(path, TYPES)) == rows and names(tmp_path) == [path.name]
    assert write_rows(path, TYPES, []) == 0
    assert list(read_rows(path, TYPES)) == []


def test_an_unknown_kind_of_table(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"unknown kind of file: table\.xls.*\.parquet, \.csv, \.tsv, \.jsonl"
    ):
        write_rows(tmp_path / "table.xls", TYPES, ROWS)


def test_the_sigmoid_keeps_both_tails() -> None:
    x = np.array([-1e6, -700.0, -40.0, -1.0, 0.0, 1.0, 40.0, 1e6])
    p = sigmoid(x)
    assert p[0] == 0.0 and p[-1] == 1.0 and p[4] == 0.5
    assert p[1] == pytest.approx(np.exp(-700.0)) and p[2] == pytest.approx(np.exp(-40.0))
    assert p[3] + p[5] == pytest.approx(1.0) and p[5] == pytest.approx(0.7310585786300049)
    assert logit(p[1:6]) == pytest.approx(x[1:6])
    assert float(sigmoid(np.float32(2.0))) == pytest.approx(0.8807970779778823, abs=1e-15)

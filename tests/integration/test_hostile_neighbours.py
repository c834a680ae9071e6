"""Somebody means harm: bombs in spreadsheets, column names that command, invented people, lost signals."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from pairsieve import cli, tables
from pairsieve.errors import InputError, LedgerError
from pairsieve.http.access import AccessControl
from pairsieve.http.proxy import Proxy
from pairsieve.measure import inputs
from pairsieve.models import encoder_named
from pairsieve.models.cross import _network
from pairsieve.settings import CampaignSettings, without_password
from pairsieve.tables import read_rows, write_table
from pairsieve.tasks import archives, spreadsheets, tables_task
from pairsieve.tasks.databases import read_query
from pairsieve.tasks.reading import read_table
from pairsieve.web import session as sessions
from pairsieve.web.app import _refusal_of
from web_campaign import HERE, Page, asked_campaign

# ── files ───────────────────────────────────────────────────────────────────────────────────────────


def sheet(path: Path, cells: dict[str, str], repeated: int = 1) -> Path:
    """A spreadsheet by hand: {place: text}, all of it written `repeated` times over."""
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    openpyxl.Workbook().save(path)
    with zipfile.ZipFile(path) as made:
        parts = {name: made.read(name) for name in made.namelist()}
    rows = "".join(
        f'<row r="{"".join(filter(str.isdigit, place))}"><c r="{place}" t="inlineStr">'
        f"<is><t>{text}</t></is></c></row>"
        for place, text in cells.items()
    )
    name = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    parts["xl/worksheets/sheet1.xml"] = (
        f'<worksheet xmlns="{name}"><sheetData>{rows * repeated}</sheetData></worksheet>'.encode()
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, contents in parts.items():
            archive.writestr(part, contents)
    return path


def test_a_cell_far_away_does_not_take_all_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = sheet(tmp_path / "far.xlsx", {"A1": "text", "A2": "one", "ZZ900": "x"})
    monkeypatch.setattr(spreadsheets, "MOST_CELLS", 600_000)
    with pytest.raises(InputError, match=r"reaches over 900 rows and 702 columns"):
        read_table(far)
    near = sheet(tmp_path / "near.xlsx", {"A1": "text", "A2": "one", "B900": "x"})
    assert read_table(near).values("text") == ["one", None]


def test_a_spreadsheet_that_grows_as_no_table_does_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = sheet(tmp_path / "bomb.xlsx", {"A1": "text" * 1000}, repeated=1000)
    monkeypatch.setattr(archives, "LARGE", 1 << 19)
    assert bomb.stat().st_size < 40_000
    with pytest.raises(InputError, match=r"unpacks to more than"):
        read_table(bomb)


@pytest.mark.parametrize("part", ["[Content_Types].xml", "xl/workbook.xml", "xl/worksheets/sheet1.xml"])
@pytest.mark.parametrize("harm", ["cut", "entities"])
def test_a_damaged_spreadsheet_is_refused_in_words(part: str, harm: str, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    write_table(tmp_path / "whole.xlsx", {"text": "string"}, {"text": ["one", "two"]})
    with zipfile.ZipFile(tmp_path / "whole.xlsx") as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    changed = {
        "cut": parts[part][: len(parts[part]) // 2],
        "entities": b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]><x>&a;</x>',
    }[harm]
    with zipfile.ZipFile(tmp_path / "harmed.xlsx", "w") as archive:
        for name, contents in {**parts, part: changed}.items():
            archive.writestr(name, contents)
    with pytest.raises(InputError):
        tables_task(tmp_path / "harmed.xlsx")


def test_many_columns_of_a_parquet_file_are_counted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.parquet"
    column = ["a long text " * 10] * 4000
    pq.write_table(pa.table({f"c{n}": column for n in range(9)}), path, compression="zstd")
    monkeypatch.setattr(tables, "LARGE", 1 << 20)
    table = read_table(path)
    assert len(table.values("c0")) == len(table.values("c0")) == 4000, "read twice, counted once"
    with pytest.raises(InputError, match=r"unpacks to more than"):
        for name in table.names:
            table.values(name)


def test_embeddings_packed_beyond_belief_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.npz"
    np.savez_compressed(path, left=np.zeros((3, 100_000), np.float32))
    monkeypatch.setattr(inputs, "LARGE", 1 << 20)
    with pytest.raises(InputError, match=r"unpack to 1,200,128: embeddings do not shrink so far"):
        inputs._read_arrays(path, ("left",), (3,))


def test_a_column_name_of_half_a_character_is_said_in_words(tmp_path: Path) -> None:
    path = tmp_path / "table.jsonl"
    path.write_text('{"k\\ud800": 1, "text": "a"}\n')
    with pytest.raises(InputError, match=r"column name 'k\\ud800' holds half a surrogate pair"):
        tables_task(path, text=("text",), split="none")


def test_a_key_with_a_zero_character_is_said_in_words(tmp_path: Path) -> None:
    path = tmp_path / "table.jsonl"
    path.write_text('{"key": "a\\u0000", "text": "a"}\n{"key": "b", "text": "b"}\n')
    with pytest.raises(InputError, match=r"row 1, column 'key': the key holds a zero character"):
        tables_task(path, key="key", text=("text",), split="none")


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_column_name_is_no_formula(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table{suffix}"
    name = '=HYPERLINK("http://x","go")'
    write_table(path, {name: "string", "size": "int64"}, {name: ["a"], "size": [2]})
    with path.open(newline="") as file:
        header = next(csv.reader(file, delimiter="," if suffix == ".csv" else "\t"))
    assert header == [f"'{name}", "size"]
    assert list(read_rows(path, {"size": "int64"})) == [{name: "a", "size": 2}], (
        "and is itself when read here"
    )


@pytest.mark.filterwarnings("error")
def test_a_spreadsheet_that_cannot_be_written_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(openpyxl.Workbook, "save", full)
    lost: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    with pytest.raises(OSError, match="No space left"):
        write_table(tmp_path / "table.xlsx", {"text": "string"}, {"text": ["a"]})
    assert not lost


# ── passwords ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("password", ["s3cret", "s3/cret", "s3@cret", "s3:/@cret", "s3cret?x"])
def test_no_part_of_a_password_is_shown_or_readable_by_all(password: str) -> None:
    url = f"postgresql://me:{password}@nowhere.invalid/labels"
    shown = without_password(url)
    assert "s3" not in shown and "cret" not in shown and shown.endswith("@nowhere.invalid/labels")
    assert CampaignSettings(task="../task", ledger=url).holds_password
    with pytest.raises(InputError) as caught:
        read_query(url, None)
    assert "s3" not in str(caught.value) and "cret" not in str(caught.value)
    assert not CampaignSettings(task="../task", ledger="postgresql://me@here:5432/labels").holds_password


def test_a_file_of_a_database_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"sqlite:////tmp/a@b\.db: a database needs a query"):
        read_query("sqlite:////tmp/a@b.db", None)
    with pytest.raises(InputError) as caught:
        read_query("postgresql://here/labels?password=s3cret", None)
    assert "s3cret" not in str(caught.value)


# ── the terminal ────────────────────────────────────────────────────────────────────────────────────


def test_what_would_command_a_terminal_is_made_visible(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where the output is no terminal, colours are left out by the library: here it is one.
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    words = "a\x1b]0;owned\x07\nb\u202etxet\x9b31m"
    cli.show({}, False, words)
    cli.say(words)
    printed = capsys.readouterr()
    assert printed.out == printed.err == "a␛]0;owned␇\nbtxet\ufffd31m\n"


# ── signals ─────────────────────────────────────────────────────────────────────────────────────────

IN_A_FINALISER = """import os, signal, time, weakref
from pairsieve import cli
class Thing: pass
def work():
    thing = Thing()
    watch = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGTERM) or time.sleep(0.01))
    del thing
    time.sleep(20)
    print("went on")
cli.main(work)
"""


@pytest.mark.slow  # another process, sent a signal again and again
def test_a_signal_inside_a_finaliser_is_not_lost() -> None:
    done = subprocess.run([sys.executable, "-c", IN_A_FINALISER], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (143, ""), done.stderr
    assert "Traceback" not in done.stderr and "stopped. What was finished is kept" in done.stderr


WHILE_IMPORTING = """import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a runner in the background may ignore it
class Finder:
    def find_spec(self, name, *_):
        if name == "pairsieve.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from pairsieve.__main__ import main
main()
"""


def test_a_signal_while_commands_are_imported_gives_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", WHILE_IMPORTING], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "")


# ── requests ────────────────────────────────────────────────────────────────────────────────────────


async def served(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_a_request_with_two_lengths_is_refused_and_its_connection_closed() -> None:
    client = TestClient(AccessControl(served), base_url=HERE, headers={"X-Pairsieve": "1"})
    headers = {"Transfer-Encoding": "chunked", "Content-Length": "5"}
    refused = client.post("/", content=b"0\r\n\r\n", headers=headers)
    assert refused.status_code == 400 and refused.headers["connection"] == "close"
    assert client.post("/", content=iter([b"ab"])).status_code == 200


def test_the_public_origin_counts_also_where_a_proxy_changes_the_host() -> None:
    proxy = Proxy("https://label.example.org")
    client = TestClient(AccessControl(served, "t" * 16, proxy=proxy), base_url=HERE, client=("127.0.0.1", 1))
    ours = {"X-Pairsieve": "1", "Authorization": "Bearer " + "t" * 16}
    for origin, status in (("https://label.example.org", 200), ("https://evil.example", 403)):
        assert client.post("/", headers={**ours, "Origin": origin}).status_code == status


def test_what_the_ledger_refuses_is_said_without_its_place() -> None:
    place = "postgresql+psycopg://me@db.inside/labels"
    refusal = _refusal_of(place, LedgerError(f"{place}: the database refused: no such thing."))
    assert (refusal.status, refusal.words) == (409, "the database refused: no such thing.")


def test_invented_people_are_forgotten(
    tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page(asked_campaign(tmp_path, tiny_encoder))
    monkeypatch.setattr(sessions, "MOST_PEOPLE", 3)
    (pair, *_) = page.pairs("Ann", 1)
    page.post("/api/skip", {"who": "Ann", "pair": pair})
    held = page.session
    for number in range(20):
        page.pairs(f"Eve{number}", 2)
    for memory in (held._seen, held._held, held._skipped):
        assert memory.keys() == {"Eve17", "Eve18", "Eve19"}
    assert {who for leased in held._leases.values() for who in leased} <= held._seen.keys()
    page.pairs("Eve17", 1)
    page.pairs("Bob", 1)
    assert held._seen.keys() == {"Eve19", "Eve17", "Bob"}, "the one not seen for longest is forgotten"


# ── models ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_cross_encoder_runs_no_code_of_its_folder(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import BertConfig, BertForSequenceClassification

    folder, mark = tmp_path / "evil", tmp_path / "mark"
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    BertForSequenceClassification(BertConfig(vocab_size=9, num_labels=1, **small)).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    auto = {"AutoConfig": "evil.Config", "AutoModelForSequenceClassification": "evil.Model"}
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": auto, "model_type": "evil"}))
    (folder / "evil.py").write_text(
        f"open({str(mark)!r}, 'w').close()\n"
        "from transformers import BertConfig, BertForSequenceClassification\n"
        "class Config(BertConfig):\n    model_type = 'evil'\n"
        "class Model(BertForSequenceClassification):\n    config_class = Config\n"
    )
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    monkeypatch.setattr("transformers.dynamic_module_utils.TIME_OUT_REMOTE_CODE", 1)
    with pytest.raises(InputError, match="cannot be read"):
        _network(folder, encoder_named(tiny_encoder), 0)
    assert not mark.exists()

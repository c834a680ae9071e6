"""Files from strangers: no code is run, sizes are limited, and a spreadsheet runs nothing that we write."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import shutil
import signal
import socket
import string
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pairsieve
import pairsieve.tasks.archives as archives
from pairsieve import cli, tables
from pairsieve.contracts import Answer
from pairsieve.errors import InputError, SettingsError
from pairsieve.ledger.names import person_name
from pairsieve.measure.inputs import _read_arrays
from pairsieve.models import encoder_named
from pairsieve.scorer import load_scorer
from pairsieve.serving import Service
from pairsieve.settings import load_settings
from pairsieve.sources.endpoint import Endpoint, open_client, post
from pairsieve.tables import from_spreadsheet, read_rows, spreadsheet_safe, write_table
from pairsieve.tasks import load_task, save_task, tables_task
from serving_campaign import finished_campaign
from synthetic_task import synthetic_task
from web_campaign import asked_campaign

# ── no code from data ───────────────────────────────────────────────────────────────────────────────

EVIL = """import pathlib
pathlib.Path({mark!r}).write_text("ran")
from transformers import BertConfig, BertModel
class EvilConfig(BertConfig):
    model_type = "evil"
class EvilModel(BertModel):
    config_class = EvilConfig
"""


def test_an_encoder_folder_runs_no_code_of_its_own(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a folder brings code, transformers asks on the terminal, and runs it if somebody says y."""
    folder, mark = tmp_path / "evil", tmp_path / "mark"
    shutil.copytree(tiny_encoder, folder)
    auto = {"AutoConfig": "evil.EvilConfig", "AutoModel": "evil.EvilModel"}
    for name, more in {
        "config.json": {"auto_map": auto, "model_type": "evil"},
        "tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["evil.EvilModel", None]}},
    }.items():
        for file in folder.rglob(name):
            file.write_text(json.dumps(json.loads(file.read_text()) | more))
            (file.parent / "evil.py").write_text(EVIL.format(mark=str(mark)))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    monkeypatch.setattr("transformers.dynamic_module_utils.TIME_OUT_REMOTE_CODE", 1)
    with pytest.raises(InputError, match="cannot be read"):
        encoder_named(folder).embed(["text"])
    assert not mark.exists()


@pytest.mark.parametrize("path", ["../elsewhere", "/etc"])
def test_an_encoder_folder_names_nothing_outside_itself(
    tiny_encoder: Path, tmp_path: Path, path: str
) -> None:
    folder = tmp_path / "encoder"
    shutil.copytree(tiny_encoder, folder)
    listed = json.loads((folder / "modules.json").read_text())
    listed[0]["path"] = path
    (folder / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(InputError, match="outside the folder"):
        encoder_named(folder)


def test_an_altered_export_is_refused(tmp_path: Path, tiny_encoder: Path) -> None:
    folder = tmp_path / "exported"
    pairsieve.export_model(finished_campaign(tmp_path, tiny_encoder), folder)
    load_scorer(folder)
    (folder / "README.md").write_text("People may write on the card.")
    load_scorer(folder)
    weights = next(folder.rglob("model.safetensors"))
    whole = weights.read_bytes()
    for damaged in (
        whole[:-4] + bytes([0, 0, 0xC0, 0x7F]),
        whole[:-1] + bytes([whole[-1] ^ 1]),
    ):  # NaN; one bit
        weights.write_bytes(damaged)
        with pytest.raises(InputError, match=r"not the one that was exported"):
            Service.open(folder, state=tmp_path / "state")


# ── sizes ───────────────────────────────────────────────────────────────────────────────────────────


def bomb(path: Path, kind: str) -> None:
    text = b"key,text\n" + b"a,b\n" * 500_000
    if kind == "gz":
        path.write_bytes(gzip.compress(text))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("table.csv", text)


@pytest.mark.parametrize("kind", ["gz", "zip"])
def test_an_archive_that_grows_as_no_table_does_is_refused(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"table.csv.{kind}"
    bomb(path, kind)
    monkeypatch.setattr(archives, "LARGE", 1 << 19)
    with pytest.raises(InputError, match=r"unpacks to more than .* Unpack it yourself"):
        tables_task(path, text=("text",), split="none")


def test_a_parquet_file_whose_one_value_repeats_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"text": ["a long text " * 10] * 20_000}), path, compression="zstd")
    monkeypatch.setattr(tables, "LARGE", 1 << 19)
    assert path.stat().st_size < 10_000
    with pytest.raises(InputError, match=r"unpacks to more than 5\d\d,\d{3}\. A table shrinks by less"):
        tables_task(path, text=("text",), split="none")


def test_an_array_that_claims_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    head = io.BytesIO()
    about = {"descr": "<f4", "fortran_order": False, "shape": (10**10, 384)}
    np.lib.format.write_array_header_1_0(head, about)
    path = tmp_path / "embeddings.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("left.npy", head.getvalue() + bytes(1000))
    with pytest.raises(InputError, match="claims 15,360,000,000,000 bytes"):
        _read_arrays(path, ("left",), (3,))


DEEP = "[" * 200_000


def test_json_nested_too_deeply_is_said_in_words(tmp_path: Path, tiny_encoder: Path) -> None:
    table = tmp_path / "table.jsonl"
    table.write_text(f'{{"key": 1, "text": "a"}}\n{DEEP}\n')
    with pytest.raises(InputError, match=r"row 2: the line is not JSON. It is nested too deeply"):
        tables_task(table, text=("text",), split="none")
    task = synthetic_task(tmp_path / "task")
    (task / "task.json").write_text(DEEP)
    with pytest.raises(InputError, match="nested too deeply"):
        load_task(task)
    encoder = tmp_path / "encoder"
    shutil.copytree(tiny_encoder, encoder)
    (encoder / "modules.json").write_text(DEEP)
    with pytest.raises(InputError, match="nested too deeply"):
        encoder_named(encoder)
    campaign = asked_campaign(tmp_path / "one", tiny_encoder)
    for contents in (f"x = {DEEP}", "# " + "x" * (1 << 20)):
        (campaign.folder / "campaign.toml").write_text(contents)
        with pytest.raises(SettingsError, match="cannot be read as TOML"):
            load_settings(campaign.folder / "campaign.toml")


def test_a_loop_of_links_is_said_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        (tmp_path / one).symlink_to(tmp_path / other)
    loop = str(tmp_path / "a")
    out = str(tmp_path / "out")
    for words in (
        ["init", out, "--task", loop],
        ["status", loop],
        ["serve", loop],
        ["data", "tables", "--from", loop, "--out", out],
        ["run", str(tmp_path / "a" / "inside")],
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["pairsieve", *words])
            with pytest.raises(SystemExit) as ended:
                cli.main()
        assert ended.value.code == 2, words
        assert capsys.readouterr().err.startswith("pairsieve: "), words


# ── spreadsheets ────────────────────────────────────────────────────────────────────────────────────

FORMULAS = ["=HYPERLINK(1)", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''-x", "＝1"]
FORMULAS += ["+1-2", "-1+1", "-1/2", "+49-30", "-1;A1", "-A1", "-1E5", "--1", "+1\n"]
OPERATORS = "+-*/^&=<>:;!@#%'\"{}[]\t\r\n|" + string.ascii_letters
PLAIN = ["a=b", "'quoted'", "", "it's", "1", "a-b", "ʼ=", " =1", "-33,9", "+4491 (0) 20.1", "-1", "-"]


def test_what_a_spreadsheet_would_run_has_an_apostrophe_before_it() -> None:
    assert all(spreadsheet_safe(text) == f"'{text}" for text in FORMULAS)
    assert all(spreadsheet_safe(text) == text for text in PLAIN)
    assert spreadsheet_safe(-1.5) == -1.5 and spreadsheet_safe(None) is None


@given(st.text() | st.from_regex(r"'{0,3}[=+\-@]?.*", fullmatch=True))
def test_reading_takes_away_what_writing_added_and_nothing_else(text: str) -> None:
    assert from_spreadsheet(spreadsheet_safe(text)) == text
    safe = spreadsheet_safe(text)
    assert not safe or safe[0] not in "=+-@\t\r\n" or (safe[0] in "+-" and not set(safe[1:]) & set(OPERATORS))


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_a_table_comes_back_as_it_was(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table{suffix}"
    texts = [*FORMULAS, *PLAIN]
    numbers = [-1.5] * len(texts)
    write_table(path, {"text": "string", "score": "float64"}, {"text": texts, "score": numbers})
    rows = list(read_rows(path, {"text": "string", "score": "float64"}))
    assert [row["text"] for row in rows] == texts and rows[0]["score"] == -1.5


def test_questions_with_formulas_are_answered_by_file(tmp_path: Path, tiny_encoder: Path) -> None:
    table = tmp_path / "texts.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((f"=k{n}", f"=1+{n} words") for n in range(20))])
    task = tmp_path / "task"
    save_task(tables_task(table, text=("text",), key="id", split="none"), task)
    campaign = pairsieve.create_campaign(
        tmp_path / "campaign", task, encoder=str(tiny_encoder), learner="projection", first_batch=3, rounds=1
    )
    campaign.run()
    asked = tmp_path / "ask.csv"
    pairsieve.write_questions(campaign, asked)
    with asked.open(encoding="utf-8-sig", newline="") as file:
        header, *rows = list(csv.reader(file))
    assert all(not cell.startswith("=") for row in rows for cell in row) and rows[0][0].startswith("'=k")
    rows = [[*row[:4], "match", "Ann", "=note"] for row in rows]
    rows[0][0] = rows[0][0][1:]  # somebody's spreadsheet took the apostrophe away
    with asked.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    assert pairsieve.import_answers(campaign, asked).written == 3
    out = tmp_path / "events.csv"
    campaign.ledger.export(out)
    cells = [cell for row in csv.reader(io.StringIO(out.read_text())) for cell in row]
    assert "'=note" in cells and not any(cell.startswith(("=", "@")) for cell in cells)


def test_one_person_has_one_name_however_it_is_typed() -> None:
    assert person_name("Zoe\u0308  Li") == person_name("Zo\u00eb Li") == "Zo\u00eb Li"


# ── names ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "name", ["truth", "Transitivity", "ｔｒｕｔｈ", "x" * 5000, "a\x1b[31mred", "a\u202eb", "gpt"]
)
def test_a_name_is_checked_wherever_it_comes_from(tmp_path: Path, tiny_encoder: Path, name: str) -> None:
    campaign = asked_campaign(tmp_path, tiny_encoder)
    pair = campaign.ledger.asked()[:1].tolist()
    campaign.ledger.answer([Answer(pair[0], 1)], "gpt", "language model")
    asked = tmp_path / "ask.jsonl"
    pairsieve.write_questions(campaign, asked)
    row = json.loads(asked.read_text().splitlines()[0]) | {"label": "match", "who": name}
    asked.write_text(json.dumps(row))
    key = (row["left_key"], row["right_key"])
    for attempt in (
        lambda: pairsieve.import_answers(campaign, asked),
        lambda: pairsieve.answer_questions(campaign, {key: True}, who=name),
    ):
        with pytest.raises(InputError, match="name"):
            attempt()
    assert len(campaign.ledger.answers()) == 1


# ── a server that drips, and signals ────────────────────────────────────────────────────────────────


def test_a_reply_whose_headers_drip_is_cut_off() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def drip() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not stop.wait(0.05):
                try:
                    connection.sendall(b"X: y\r\n")
                except OSError:
                    return

    thread = threading.Thread(target=drip)
    thread.start()
    endpoint = Endpoint(
        url=f"http://127.0.0.1:{listening.getsockname()[1]}/v1", model="m", timeout_seconds=0.5, retries=0
    )
    try:
        with open_client(endpoint) as client, pytest.raises(ConnectionError, match=r"no whole reply in 0\.5"):
            post(client, endpoint, b"{}")
    finally:
        stop.set()
        thread.join()
        listening.close()


RUN = """import sys, time
ending = float(sys.argv.pop())
from pairsieve.campaign import Campaign
def slow(self, say):
    print("running", flush=True)
    try:
        time.sleep(60)
    finally:
        time.sleep(ending)  # what takes a while to end
Campaign.run = slow
from pairsieve.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signals", "code"), [([signal.SIGTERM], 143), ([signal.SIGINT], 130), ([signal.SIGINT] * 2, 130)]
)
def test_signals_end_a_run_in_words(
    tmp_path: Path, tiny_encoder: Path, signals: list[int], code: int
) -> None:
    campaign = asked_campaign(tmp_path, tiny_encoder)
    ending = "0" if len(signals) == 1 else "50"
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "run", str(campaign.folder), ending],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )
    assert process.stdout is not None and process.stdout.readline() == "running\n"
    for each in signals:
        os.kill(process.pid, each)
        time.sleep(1)
    _, told = process.communicate(timeout=30)
    assert process.returncode == code and "Traceback" not in told, told
    assert len(signals) > 1 or "stopped. What was finished is kept" in told

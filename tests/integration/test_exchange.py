"""Questions out to files and answers back: every format round trips, and every fault names its row."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pairsieve.cli.labels
from examples import examples
from pairsieve import cli
from pairsieve.campaign import Campaign, create_campaign
from pairsieve.errors import InputError
from pairsieve.pairs import pair_ids
from pairsieve.settings import Schedule
from pairsieve.sources.exchange import (
    COLUMNS,
    AskedPairs,
    QuestionBatch,
    read_answers,
    read_label,
    write_batch,
)
from pairsieve.sources.label_studio import labelling_config
from pairsieve.tables import write_rows
from pairsieve.tasks.label_words import LABEL_WORDS
from synthetic_task import synthetic_task

LEFT = ["007", "é", "x,y", "empty"]
TEXTS = ['a "quoted" text', "two\nlines; and a semicolon", "<b>&</b>", ""]
IDS = pair_ids([0, 1, 2, 0], [1, 2, 3, 3])
BATCH = QuestionBatch(
    IDS,
    [LEFT[0], LEFT[1], LEFT[2], LEFT[0]],
    [LEFT[1], LEFT[2], LEFT[3], LEFT[3]],
    [TEXTS[0], TEXTS[1], TEXTS[2], TEXTS[0]],
    [TEXTS[1], TEXTS[2], TEXTS[3], TEXTS[3]],
)
ASKED = AskedPairs.of(BATCH.ids, BATCH.left_keys, BATCH.right_keys, LEFT, LEFT, symmetric=True)
A, B, C, D = IDS.tolist()


def fill_in(path: Path, labels: list[Any], who: str = "ann") -> None:
    """Answer a batch in place, as its format would be edited."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, rows[0].keys(), delimiter=";")  # as some spreadsheets save it
            table.writeheader()
            table.writerows(row | {"label": label, "who": who} for row, label in zip(rows, labels))
    elif path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        told = [row | {"label": label, "who": who} for row, label in zip(rows, labels)]
        path.write_text("".join(json.dumps(row) + "\n" for row in told))
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        column = pa.array([None if label == "" else str(label) for label in labels])
        table = table.set_column(table.schema.get_field_index("label"), "label", column)
        names = pa.array([who] * len(table))
        pq.write_table(table.set_column(table.schema.get_field_index("who"), "who", names), path)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_out_and_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"batch{suffix}"
    assert write_batch(path, BATCH) == [path]
    assert read_answers(path, ASKED).unanswered == 4  # as written, nobody has answered
    fill_in(path, ["1", "No match", "unsure", ""])
    found = read_answers(path, ASKED)
    assert [(said.id, said.label, said.who) for said in found.answers] == [
        (A, 1, "ann"),
        (B, 0, "ann"),
        (C, None, "ann"),
    ]
    assert found.unanswered == 1


def test_typed_labels(tmp_path: Path) -> None:
    path = tmp_path / "batch.jsonl"
    write_batch(path, BATCH)
    fill_in(path, [True, 0, 1.0, None])
    assert [said.label for said in read_answers(path, ASKED).answers] == [1, 0, 1]


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(*[st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1)] * 2),
        min_size=1,
        max_size=6,
        unique=True,
    )
)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".json"])
def test_any_key_and_text_survives(tmp_path: Path, suffix: str, rows: list[tuple[str, str]]) -> None:
    left, right = [row[0] for row in rows], [row[1] for row in rows]
    batch = QuestionBatch(np.arange(len(rows), dtype=np.int64), left, right, right, left)
    path = tmp_path / f"any{suffix}"
    write_batch(path, batch)
    asked = AskedPairs.of(batch.ids, left, right, left, right, symmetric=False)
    assert read_answers(path, asked).unanswered == len(rows)  # every key was found again


@pytest.mark.parametrize(
    ("words", "label"),
    [
        ("1", 1),
        ("YES", 1),
        (" match ", 1),
        ("0", 0),
        ("no", 0),
        ("no_match", 0),
        ("No-Match", 0),
        ("?", None),
    ],
)
def test_labels_as_people_write_them(words: str, label: int | None) -> None:
    assert read_label(words, "here") == label


def test_every_word_that_is_taken_is_named_where_one_is_refused() -> None:
    with pytest.raises(InputError) as raised:
        read_label("perhaps", "here")
    named = raised.value.remedy.removeprefix("Write ").removesuffix("; or leave it empty")
    words = {word for part in named.split("; ") for word in part.replace(" or ", ", ").split(", ")}
    assert words == {*LABEL_WORDS}
    page = (Path(__file__).parents[2] / "docs" / "labelling.md").read_text(encoding="utf-8")
    assert all(f"{word}" in page.partition("## By file")[2] for word in words)


HEADER = "left_key,right_key,label,who,comment\n"
FAULTS = {
    "7,é,1,ann,": r"row 2, pair \('7', 'é'\): there is no text with the left key '7'\. A spreadsheet may",
    "007,è,1,ann,": r"row 2, .*no text with the right key 'è'",
    "é,empty,1,ann,": r"row 2, pair \('é', 'empty'\): the pair \('é', 'empty'\) was never asked",
    "007,é,perhaps,ann,": r"row 2, pair \('007', 'é'\): the label is 'perhaps'\. Write 1, 1\.0, yes",
    "007,é,1,,": r"row 2, .*nobody is named.*`who`",
    "007,é,1,ann,\né,007,0,ann,": r"row 3, .*ann says no match here, and match at .*row 2",
    "007,é,1": r"row 2: the row has 3 fields, the header has 5",
    '007,"é,1,ann,': "The quotes do not add up",
}


@pytest.mark.parametrize("rows", FAULTS)
def test_faults_name_file_row_and_key(tmp_path: Path, rows: str) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(HEADER + rows + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=FAULTS[rows]) as raised:
        read_answers(path, ASKED)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_file_without_the_column_of_labels_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"nolab{suffix}"
    rows = [{"left_key": "007", "right_key": "é", "answer": "1"}]
    write_rows(path, dict.fromkeys(rows[0], "string"), rows, suffix=suffix)
    words = r"no column 'label'.*The columns are left_key, right_key, answer\. Call the column .* 'label'"
    with pytest.raises(InputError, match=words):
        read_answers(path, ASKED, who="ann")
    rows = [{"left_key": "007", "right_key": "é", "Labels": "1"}]
    write_rows(path, dict.fromkeys(rows[0], "string"), rows, suffix=suffix)
    with pytest.raises(InputError, match="Rename 'Labels' to 'label'"):
        read_answers(path, ASKED, who="ann")


def test_faults_of_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    with pytest.raises(InputError, match="there is no such file"):
        read_answers(path, ASKED)
    path.write_bytes(HEADER.encode() + "007,é,1,ann,\n".encode("cp1252"))
    with pytest.raises(InputError, match=r"not UTF-8.*Byte 0xe9"):
        read_answers(path, ASKED)
    path.write_text("left,right,label\n007,é,1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"no column 'left_key'.*Did you mean 'left'"):
        read_answers(path, ASKED)
    with pytest.raises(InputError, match=r"format of a \.txt file"):
        write_batch(tmp_path / "batch.txt", BATCH)
    with pytest.raises(InputError, match=r"unknown format 'cvs'.*Did you mean 'csv'"):
        write_batch(tmp_path / "batch.txt", BATCH, "cvs")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="not whole Parquet"):
        read_answers(tmp_path / "torn.parquet", ASKED)


def test_several_people_and_the_same_row_twice(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(
        HEADER
        + "007,é,1,ann,sure\né,007,1,ann,again\n007,é,0,bob,\nx,y\n".replace("x,y\n", "")
        + "007,empty,u,,\n",
        encoding="utf-8",
    )
    found = read_answers(path, ASKED, who="zoe").by_person()
    assert {who: [(a.id, a.label) for a in given] for who, (given, _) in found.items()} == {
        "ann": [(A, 1)],
        "bob": [(A, 0)],
        "zoe": [(D, None)],
    }
    assert found["ann"][1] == ["sure"]


# ── Label Studio ────────────────────────────────────────────────────────────────────────────────


def chosen(label: str, comment: str = "") -> list[dict[str, Any]]:
    """The result of an annotation under our configuration."""
    value = {"from_name": "label", "to_name": "left", "type": "choices", "value": {"choices": [label]}}
    note = {"from_name": "comment", "to_name": "left", "type": "textarea", "value": {"text": [comment]}}
    return [value, note] if comment else [value]


def exported(tmp_path: Path, annotations: list[list[dict[str, Any]]]) -> Path:
    """Our tasks as Label Studio gives them back, with these annotations."""
    out, config = write_batch(tmp_path / "batch.json", BATCH, guideline='Same <thing> & "place"?')
    assert ElementTree.parse(config).getroot().find("Header").get("value") == 'Same <thing> & "place"?'  # type: ignore[union-attr]
    tasks = json.loads(out.read_text(encoding="utf-8"))
    for number, (task, made) in enumerate(zip(tasks, annotations), start=41):
        task |= {"id": number, "annotations": made, "drafts": [], "predictions": [], "meta": {}}
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks), encoding="utf-8")
    return path


def test_label_studio_out_and_back(tmp_path: Path) -> None:
    ann = {"completed_by": {"id": 1, "email": "ann@x.org"}, "was_cancelled": False}
    bob = {"completed_by": 2, "was_cancelled": False}
    path = exported(
        tmp_path,
        [
            [
                {
                    "id": 1,
                    "result": chosen("match", "same town"),
                    "updated_at": "2024-05-01T10:00:00Z",
                    **ann,
                },
                {"id": 2, "result": chosen("no match"), "updated_at": "2024-05-01T11:00:00Z", **bob},
            ],
            [
                {"id": 3, "result": chosen("no match"), "updated_at": "2024-05-02T10:00:00Z", **ann},
                {"id": 4, "result": chosen("unsure"), "updated_at": "2024-05-01T10:00:00Z", **ann},  # older
            ],
            [{"id": 5, "result": chosen("match"), "completed_by": 2, "was_cancelled": True}],
            [{"id": 6, "result": [], **bob}],
        ],
    )
    found = read_answers(path, ASKED)
    assert [(said.id, said.label, said.who, said.comment) for said in found.answers] == [
        (A, 1, "ann@x.org", "same town"),
        (A, 0, "Label Studio user 2", ""),
        (B, 0, "ann@x.org", ""),
    ]
    assert (found.unanswered, found.cancelled) == (2, 1)


def test_label_studio_json_min(tmp_path: Path) -> None:
    rows = [
        {"id": 41, "left_key": "007", "right_key": "é", "label": "match", "annotator": 1, "annotation_id": 1},
        {"id": 42, "left_key": "é", "right_key": "x,y", "label": {"choices": ["unsure"]}, "annotator": 1},
        {"id": 43, "left_key": "x,y", "right_key": "empty", "annotator": 1, "comment": ["none"]},
    ]
    path = tmp_path / "min.json"
    path.write_text(json.dumps(rows))
    found = read_answers(path, ASKED)
    assert [(said.id, said.label) for said in found.answers] == [(A, 1), (B, None)] and found.unanswered == 1


@pytest.mark.parametrize(
    "result",
    [1.5, ["x"], [{"type": "choices", "value": "x"}], [{"type": "choices", "value": {"choices": -1}}]],
)
def test_an_annotation_of_another_shape_is_refused_in_words(result: Any, tmp_path: Path) -> None:
    path = exported(tmp_path, [[{"id": 1, "result": result, "completed_by": 1}]])
    with pytest.raises(InputError, match="not as Label Studio writes it"):
        read_answers(path, ASKED)


def test_a_comment_holds_only_what_every_database_keeps(tmp_path: Path) -> None:
    result = chosen("match", "a\0b\ud800")
    found = read_answers(exported(tmp_path, [[{"id": 1, "result": result, "completed_by": 1}]]), ASKED)
    assert [comments for _, comments in found.by_person().values()] == [["a\ufffdb?"]]


def annotated(choices: str) -> str:
    """An export of one task with one annotation that holds these choices."""
    return (
        '[{"data": {"left_key": "007", "right_key": "é"}, "annotations": [{"id": 5, "completed_by": 1, '
        f'"result": [{{"type": "choices", "value": {{"choices": {choices}}}}}]}}]}}]'
    )


@pytest.mark.parametrize(
    ("contents", "fault"),
    [
        ("{", "not JSON"),
        ('{"a": 1}', "not a list of tasks"),
        (
            '[{"id": 1, "left_key": "007", "right_key": "é", "annotator": 1, "choice": "match"}]',
            r"no column 'label'.*The columns are id, left_key, right_key, annotator, choice\.",
        ),
        ('[{"data": {"left_key": "007"}}]', "task 1: the task has no 'right_key'"),
        (
            '[{"id": 9, "data": {"left_key": "007", "right_key": "q"}}]',
            r"task 9, pair \('007', 'q'\): there is no",
        ),
        (annotated('["dunno"]'), "annotation 5: the label is 'dunno'"),
        (annotated('["match", "unsure"]'), "annotation 5: the annotation holds 2 choices"),
        ('[{"data": {"left_key": "007", "right_key": "é"}, "annotations": [3]}]', "not a list of objects"),
    ],
)
def test_label_studio_faults(tmp_path: Path, contents: str, fault: str) -> None:
    path = tmp_path / "export.json"
    path.write_text(contents, encoding="utf-8")
    with pytest.raises(InputError, match=fault):
        read_answers(path, ASKED)


def test_the_configuration_offers_what_the_import_understands() -> None:
    root = ElementTree.fromstring(labelling_config())
    values = [choice.get("value") or "" for choice in root.iter("Choice")]
    assert [read_label(value, "config") for value in values] == [1, 0, None]


# ── the command line ────────────────────────────────────────────────────────────────────────────


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["pairsieve", *map(str, words)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return int(stopped.value.code or 0)


@pytest.fixture
def campaign(tmp_path: Path, tiny_encoder: Path) -> Path:
    """A campaign without truth whose first round of 12 questions waits for people."""
    task = synthetic_task(tmp_path / "task", truth=False)
    folder = tmp_path / "campaign"
    create_campaign(
        folder,
        task,
        strategy="random",
        seed_set="random",
        encoder=str(tiny_encoder),
        schedule=Schedule(first_batch=12, growth=1.0, rounds=2),
        device="cpu",
    )
    assert Campaign(folder).run().waiting == 12
    return folder


def test_a_round_by_file(
    campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pairsieve.cli.labels.app is cli.app
    batch = tmp_path / "batch.csv"
    assert run(monkeypatch, "ask", campaign, "--out", batch, "--count", 10, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"files": [str(batch)], "questions": 10, "disagreements": 0}
    with batch.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    split = Campaign(campaign).split
    texts = dict(zip(split.left.keys, split.left.texts))
    assert all(texts[row["left_key"]] == row["left_text"] for row in rows)
    assert tuple(rows[0]) == COLUMNS  # no score, no reason: blind

    fill_in(batch, ["1", "0"] * 4 + ["u", ""], who="")
    assert run(monkeypatch, "import", campaign, batch) == 2  # nobody is named
    capsys.readouterr()
    for written, known in ((9, 0), (0, 9)):  # the second time everything is known
        assert run(monkeypatch, "import", campaign, batch, "--who", "ann", "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["written"], told["known"], told["unanswered"], told["waiting"]) == (written, known, 1, 3)
    ledger = Campaign(campaign).ledger
    assert len(ledger.answers()) == 9 and ledger.labels()[1].sum() == 4
    assert set(ledger.answers().source) == {"file batch.csv"}

    assert run(monkeypatch, "ask", campaign, "--out", tmp_path / "bob.jsonl", "--for", "bob", "--json") == 0
    assert json.loads(capsys.readouterr().out)["questions"] == 12  # a second opinion on everything
    assert run(monkeypatch, "ask", campaign, "--out", tmp_path / "bob.jsonl", "--for", "ann", "--json") == 0
    assert json.loads(capsys.readouterr().out)["questions"] == 3


def test_ledger_commands(
    campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "ledger", "verify", campaign) == 0
    assert "12 questions, 0 answer events. All is as it was written." in capsys.readouterr().out
    events = tmp_path / "events.jsonl"
    assert run(monkeypatch, "ledger", "export", campaign, "--out", events, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(events), "events": 12}
    assert len(events.read_text().splitlines()) == 12
    assert run(monkeypatch, "ledger", "vacuum", campaign, "--json") == 0
    assert json.loads(capsys.readouterr().out)["bytes_after"] > 0
    import sqlite3

    raw = sqlite3.connect(campaign / "ledger.sqlite")
    raw.execute("DROP TRIGGER questions_refuse_update")
    raw.execute("UPDATE questions SET why = 'by hand' WHERE number = 3")
    raw.commit()
    raw.close()
    assert run(monkeypatch, "ledger", "verify", campaign, "--json") == 2
    told = json.loads(capsys.readouterr().out)
    assert [check["name"] for check in told["checks"] if not check["ok"]] == ["schema", "guards", "questions"]

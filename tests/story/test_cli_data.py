"""`pairsieve data …` as a person uses it: figures on stdout, words on stderr, bad input exits 2."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from pairsieve import cli
from pairsieve.cli.data import ratio_in_words, report_in_words
from pairsieve.tasks import load_task

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """The exit code of `pairsieve data …`."""
    monkeypatch.setattr(sys, "argv", ["pairsieve", "data", *map(str, words)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return int(stopped.value.code or 0)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text("id,text\n" + "".join(f"{i},name {i % 4}\n" for i in range(8)))
    return path


@pytest.fixture
def matches(tmp_path: Path) -> Path:
    path = tmp_path / "matches.csv"
    path.write_text("id_a,id_b\n0,4\n1,5\n2,6\n3,7\n")
    return path


def test_the_table_a_person_sees(
    table: Path,
    matches: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "task"
    assert run(monkeypatch, "tables", "--from", table, "--key", "id", "--matches", matches, "--out", out) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "split  texts  positives  all pairs  ratio  stated neg.",
        "train      4          2          6    1:3            0",
        "dev        2          1          1    1:1            0",
        "test       2          1          1    1:1            0",
    ]
    assert printed.err.splitlines()[-2:] == [
        f"people is written to {out}",
        f"Next: pairsieve init CAMPAIGN --task {out}",
    ]


def test_json_is_all_of_stdout(
    table: Path,
    matches: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "task"
    words = ["tables", "--from", table, "--key", "id", "--matches", matches, "--out", out, "--name", "folk"]
    assert run(monkeypatch, *words, "--seed", 3, "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    task = load_task(out)
    assert list(figures) == ["task", "relation", "fingerprint", "out", "splits", "fields", "report"]
    assert (figures["task"], figures["relation"], figures["out"]) == ("folk", "equivalence", str(out))
    assert figures["fingerprint"] == task.fingerprint
    assert figures["splits"]["train"] == {
        "left": 4,
        "right": 4,
        "pairs": 6,
        "positives": 2,
        "ratio": 3.0,
        "stated_negatives": 0,
    }
    assert figures["report"]["known_matches"] == 4


def test_two_tables_with_their_own_options(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = tmp_path / "right.csv"
    right.write_text("nr;a;b\n1;x;y\n", encoding="utf-8")
    labels = tmp_path / "labels.csv"
    labels.write_text("left_id,right_id,label\n3,1,0\n4,1,1\n")
    out = tmp_path / "task"
    words = ["--right", right, "--right-key", "nr", "--right-template", "{b}-{a}", "--right-delimiter", ";"]
    words += ["--left-text", "text", "--left-key", "id", "--labels", labels, "--relation", "directed"]
    assert run(monkeypatch, "tables", "--from", table, *words, "--out", out) == 0
    split = load_task(out).splits["all"]
    assert split.space.shape == (8, 1)
    assert split.right.texts == ("y-x ␞ y | x",)  # as it is read, and the values that are compared
    assert (len(split.positives), len(split.stated_negatives), split.has_truth) == (1, 1, False)
    assert "8 × 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spoil", "words", "message"),
    [
        ("", ["--text", "txt"], "there is no column 'txt' (--text). Did you mean 'text'? Known: id, text."),
        ("semicolons", ["--delimiter", "tab"], "looks semicolon-separated. Pass --delimiter semicolon."),
        ("no header", [], "Pass --no-header if there is no header, --header if this is one."),
        ("latin", [], "Pass --encoding latin-1, or save the file as UTF-8."),
        ("empty key", ["--key", "id"], "row 10, column 'id': the key is empty."),
        ("same key", ["--key", "id"], "the key '1' stands in rows 3 and 10."),
        ("empty text", [], "row 10, column 'text': the text is empty."),
        ("cut", [], "the gzip archive is truncated or damaged."),
        ("label", ["--key", "id"], "row 2, column 'label': the label is '7'."),
        ("unknown", ["--key", "id"], "row 2, column 'id_a': the key '99' is not in people.csv."),
        ("self", ["--key", "id"], "the row pairs '1' with itself."),
        ("one match", ["--key", "id"], "the split train would have no positive pair."),
        ("gone", [], "there is no such file."),
    ],
)
def test_bad_input_exits_2_and_writes_nothing(
    spoil: str,
    words: list[str],
    message: str,
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = table.read_text()
    pairs = {"label": "1,2,7", "unknown": "99,1,1", "self": "1,1,1"}
    if spoil == "semicolons":
        table.write_text(text.replace(",", ";"))
    elif spoil == "no header":
        table.write_text("0,zero\n1,one\n")
    elif spoil == "latin":
        table.write_bytes(text.encode() + b"8,caf\xe9\n")
    elif spoil in ("empty key", "same key", "empty text"):
        table.write_text(text + {"empty key": ",x\n", "same key": "1,x\n", "empty text": "8,\n"}[spoil])
    elif spoil == "cut":
        table = tmp_path / "people.csv.gz"
        table.write_bytes(gzip.compress(text.encode())[:-12])
    elif spoil == "gone":
        table.unlink()
    elif spoil in pairs:
        (tmp_path / "labels.csv").write_text(f"id_a,id_b,label\n{pairs[spoil]}\n")
        words = [*words, "--labels", str(tmp_path / "labels.csv")]
    elif spoil == "one match":
        (tmp_path / "m.csv").write_text("id_a,id_b\n1,2\n")
        words = [*words, "--matches", str(tmp_path / "m.csv")]
    before = sorted(tmp_path.rglob("*"))
    out = tmp_path / "deep" / "task"
    assert run(monkeypatch, "tables", "--from", table, *words, "--out", out) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("pairsieve: ")
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_is_no_task_is_left_alone(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "notes.txt").write_text("keep")
    assert run(monkeypatch, "tables", "--from", table, "--out", out) == 2
    assert "something other than a task" in capsys.readouterr().err
    assert [file.name for file in out.iterdir()] == ["notes.txt"]


def test_the_other_loaders_are_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for loader, message in (
        ("qqp", "this is a folder, not a file."),
        ("wikiqa", "the split WikiQA-train.tsv, WikiQA-dev.tsv, WikiQA-test.tsv is missing."),
        ("matching", "the folder is laid out in no known way."),
    ):
        assert run(monkeypatch, loader, "--from", tmp_path, "--out", tmp_path / "out") == 2
        assert message in capsys.readouterr().err
    assert run(monkeypatch, "matching", "--out", tmp_path / "out") == 2
    assert "either a benchmark folder, or both tables and their mapping" in capsys.readouterr().err


def test_ratios_as_in_the_paper() -> None:
    assert ratio_in_words(55_639_860 / 1_040) == "1:53K"
    assert ratio_in_words(38_000_000_000 / 124_625) == "1:300K"
    assert ratio_in_words(1076.07) == "1:1.1K"
    assert ratio_in_words(4_200_000) == "1:4.2M"
    assert ratio_in_words(539.0) == "1:540"
    assert ratio_in_words(3.0) == "1:3"
    assert ratio_in_words(None) == "-"


def test_the_report_leaves_out_what_did_not_happen() -> None:
    report = {"pairs_stated_both_ways": 0, "negatives_inside_closure": 2, "repeated_rows": 0}
    assert report_in_words(report) == ["2 stated negatives follow from matches; they count as matches."]
    report = {"negatives_inside_closure": 1, "rows_without_label": 1, "first_row_without_label": "row 4"}
    assert report_in_words(report) == [
        "1 stated negative follows from matches; it counts as a match.",
        "1 row of the labels has no label, or an unsure one, and is left out: row 4.",
    ]


@pytest.mark.shared
def test_wikiqa_prints_the_papers_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not (SHARED / "wikiqa").exists():
        pytest.skip("wikiqa is not beside the repository (shared/data)")
    assert run(monkeypatch, "wikiqa", "--from", SHARED / "wikiqa", "--out", tmp_path / "t") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert lines == [
        ["train", "2,118", "×", "26,270", "1,040", "55,639,860", "1:53K", "19,320"],
        ["dev", "296", "×", "26,270", "140", "7,775,920", "1:56K", "2,593"],
        ["test", "633", "×", "26,270", "293", "16,628,910", "1:57K", "5,872"],
    ]

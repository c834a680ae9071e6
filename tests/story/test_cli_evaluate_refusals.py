"""What `evaluate` and `draw` refuse: exit code 2, the reason in words, nothing written."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evaluating import Pairsieve, runner, write_task
from pairsieve.pairs import AllPairs, CrossPairs

ONE, TWO = AllPairs(5), CrossPairs(3, 4)


@pytest.fixture
def pairsieve(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pairsieve:
    return runner(monkeypatch, capsys)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders `one` (5 texts) and `two` (3 × 4), each with two positives."""
    folder = tmp_path_factory.mktemp("tasks")
    write_task(folder / "one", ONE, ONE.ids([0, 1], [1, 2]))
    write_task(folder / "two", TWO, TWO.ids([0, 1], [0, 1]))
    return folder


def rows(count: int, width: int = 3) -> Any:
    return np.random.default_rng(0).normal(size=(count, width)).astype(np.float32)


def with_value(row: int, column: int, value: float, kind: Any = np.float32) -> Any:
    made = rows(5).astype(kind)
    made[row, column] = value
    return made


def saved(**arrays: Any) -> bytes:
    """The bytes of an .npz."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def saved_single() -> bytes:
    file = io.BytesIO()
    np.save(file, rows(5))
    return file.getvalue()


def damaged() -> bytes:
    """One byte inside the array's data is another: the archive's checksum tells."""
    whole = bytearray(saved(texts=rows(5)))
    whole[len(whole) // 2] ^= 0xFF
    return bytes(whole)


ZERO_ROW = np.where(np.arange(5)[:, None] == 3, np.float32(0), rows(5))
BAD_EMBEDDINGS = [
    ("one", None, "there is no such file. Give an .npz file"),
    ("one", b"", "this is not an .npz file."),
    ("one", bytes(range(256)) * 4, "this is not an .npz file. An .npz is a zip archive of arrays"),
    ("one", saved(texts=rows(5))[:-40], "this is not an .npz file."),
    ("one", saved_single(), "Write it with numpy.savez(FILE, texts=…)."),
    ("one", damaged(), "the .npz file cannot be read."),
    ("one", saved(texts=np.array([[1.0], "a"] * 5, object)), "Object arrays cannot be loaded"),
    ("one", saved(left=rows(5), right=rows(5)), "the array 'texts' is missing; the file holds left, right."),
    ("one", saved(left=rows(5)), "This split needs 'texts' (5 rows), rows as in the task folder."),
    ("two", saved(left=rows(3)), "the array 'right' is missing; the file holds left."),
    ("two", saved(texts=rows(3)), "This split needs 'left' (3 rows) and 'right' (4 rows)"),
    ("one", saved(texts=rows(4)), "array 'texts': its shape is (4, 3). The split has 5 texts there"),
    ("two", saved(left=rows(3), right=rows(3)), "array 'right': its shape is (3, 3). The split has 4 texts"),
    ("one", saved(texts=rows(5)[0]), "its shape is (3,)."),
    ("one", saved(texts=np.empty((5, 0), np.float32)), "its shape is (5, 0)."),
    (
        "one",
        saved(texts=np.ones((5, 2), np.int64)),
        "it holds int64, not floating-point numbers. Save float32.",
    ),
    ("one", saved(texts=np.ones((5, 2), np.complex64)), "it holds complex64, not floating-point numbers."),
    ("two", saved(left=rows(3), right=rows(4, 2)), "'left' has 3 dimensions, 'right' has 2."),
    ("one", saved(texts=with_value(2, 1, np.nan)), "array 'texts': row 2, dimension 1 (from 0) is nan."),
    ("one", saved(texts=with_value(4, 0, -np.inf)), "row 4, dimension 0 (from 0) is -inf."),
    ("one", saved(texts=with_value(4, 2, 1e300, float)), "row 4, dimension 2 (from 0) is 1e+300."),
    ("one", saved(texts=ZERO_ROW), "row 3 (from 0) is all zeros. A vector without length has no cosine."),
]


@pytest.mark.parametrize(
    ("task", "content", "message"), BAD_EMBEDDINGS, ids=[b[2][:50] for b in BAD_EMBEDDINGS]
)
def test_bad_embeddings(
    task: str, content: bytes | None, message: str, tasks: Path, tmp_path: Path, pairsieve: Pairsieve
) -> None:
    path = tmp_path / "mine.npz"
    if content is not None:
        path.write_bytes(content)
    check_refused(tasks / task, "--embeddings", path, message, pairsieve)
    out = tmp_path / "sample.parquet"  # of the other command that reads them
    said = pairsieve("draw", tasks / task, "--embeddings", path, "--out", out)
    assert (said.code, said.out, out.exists()) == (2, "", False) and message in said.err


def check_refused(task: Path, option: str, path: Path, message: str, pairsieve: Pairsieve) -> None:
    """Exit code 2, the file and the reason in words, nothing on stdout, nothing written."""
    before = sorted(path.parent.rglob("*")), sorted(task.parent.rglob("*"))
    picture = path.parent / "pictures" / "curve.png"
    said = pairsieve("evaluate", task, option, path, "--plot", picture, "--json")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"pairsieve: {path}")
    assert message in said.err
    assert "Traceback" not in said.err
    assert (sorted(path.parent.rglob("*")), sorted(task.parent.rglob("*"))) == before


def listed(**columns: Any) -> dict[str, Any]:
    """Three scored pairs of the task `one`, with some columns replaced."""
    return {"left": [0, 1, 2], "right": [1, 2, 4], "score": [0.5, 0.4, 0.3], **columns}


BAD_SCORES = [
    (None, "there is no such file. Give a Parquet file with left, right, score."),
    (b"left,right,score\n0,1,0.5\n", "this cannot be read as Parquet."),
    ({"left": [0], "right": [1], "scores": [0.5]}, "there is no column 'score'. Did you mean 'scores'?"),
    ({"lef": [0], "right": [1], "score": [0.5]}, "there is no column 'left'. Did you mean 'lef'?"),
    (listed(left=[0.0, 1.0, 2.0]), "the column 'left' holds double, not whole numbers."),
    (listed(right=["1", "2", "4"]), "the column 'right' holds string, not whole numbers."),
    (listed(left=[0, 1, 5]), "row 2 (from 0), column 'left': row number 5 is outside 0..4."),
    (listed(right=[1, -2, 4]), "row 1 (from 0), column 'right': row number -2 is outside 0..4."),
    (listed(left=[0, 1, 4]), "row 2 (from 0) pairs text 4 with itself."),
    (listed(left=[0, 0, 2], right=[1, 1, 4]), "rows 0 and 1 (from 0) hold the same pair (0, 1)."),
    (listed(left=[0, 1, 1], right=[1, 2, 0]), "rows 0 and 2 (from 0) hold the same pair (1, 0)."),
    (listed(score=[0.5, np.nan, 0.3]), "row 1 (from 0), column 'score' is nan."),
    (listed(score=[0.5, 0.4, np.inf]), "row 2 (from 0), column 'score' is inf."),
    (listed(score=[0.5, None, 0.3]), "row 1 (from 0), column 'score' is empty."),
    (listed(left=[None, 1, 2]), "row 0 (from 0), column 'left' is empty."),
    (listed(score=["0.5", "0.4", "0.3"]), "the column 'score' holds string, not numbers."),
    (
        listed(inclusion_probability=[1, 1, 0.0]),
        "row 2 (from 0), column 'inclusion_probability' is 0, outside",
    ),
    (listed(inclusion_probability=[1, 1.5, 1]), "column 'inclusion_probability' is 1.5, outside (0, 1]."),
    (listed(inclusion_probability=[1, 1, None]), "row 2 (from 0), column 'inclusion_probability' is empty."),
    (
        listed(left=[0, 0, 2], right=[1, 2, 4], inclusion_probability=[1, 0.2, 0.2]),
        "1 of 2 positives have no score, first (left 1, right 2). Recall is counted over all positives.",
    ),
    (listed(inclusion_probability=[1, 1, 1.0]), "the listed negatives stand for 1 pairs, the split has 8."),
]


@pytest.mark.parametrize(("content", "message"), BAD_SCORES, ids=[message[:50] for _, message in BAD_SCORES])
def test_bad_scores(
    content: dict[str, Any] | bytes | None, message: str, tasks: Path, tmp_path: Path, pairsieve: Pairsieve
) -> None:
    path = tmp_path / "mine.parquet"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        pq.write_table(pa.table(content), path)
    check_refused(tasks / "one", "--scores", path, message, pairsieve)


def test_a_truncated_parquet_file(tasks: Path, tmp_path: Path, pairsieve: Pairsieve) -> None:
    path = tmp_path / "mine.parquet"
    pq.write_table(pa.table(listed()), path)
    path.write_bytes(path.read_bytes()[:-20])
    check_refused(tasks / "one", "--scores", path, "this cannot be read as Parquet.", pairsieve)


def test_right_rows_are_checked_against_their_own_side(
    tasks: Path, tmp_path: Path, pairsieve: Pairsieve
) -> None:
    """In a space of 3 × 4 row 3 exists on the right only, and (1, 1) is an honest pair."""
    path = tmp_path / "mine.parquet"
    pq.write_table(pa.table(listed(left=[0, 1, 2], right=[0, 1, 3])), path)
    assert pairsieve("evaluate", tasks / "two", "--scores", path).code == 0
    pq.write_table(pa.table(listed(left=[0, 1, 3], right=[0, 1, 2])), path)
    message = "row 2 (from 0), column 'left': row number 3 is outside 0..2."
    check_refused(tasks / "two", "--scores", path, message, pairsieve)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("tset", "no split 'tset'. Did you mean 'test'? Known: bare, open, test."),
        ("bare", "split 'bare' has no positive pairs. Average precision over its 10 pairs is not defined"),
        ("open", "split 'open' has no truth. Without the label of every pair, nobody can count"),
    ],
)
def test_splits_that_cannot_be_measured(
    split: str, message: str, tasks: Path, tmp_path: Path, pairsieve: Pairsieve
) -> None:
    (tmp_path / "e.npz").write_bytes(saved(texts=rows(5)))
    for words in (["evaluate"], ["draw", "--out", tmp_path / "s.parquet"]):
        said = pairsieve(*words, tasks / "one", "--split", split, "--embeddings", tmp_path / "e.npz")
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith(f"pairsieve: {tasks / 'one'}: {message}")
    assert [file.name for file in tmp_path.iterdir()] == ["e.npz"]


def test_folders_that_are_no_task(tasks: Path, tmp_path: Path, pairsieve: Pairsieve) -> None:
    def refused(folder: Path) -> str:
        said = pairsieve("evaluate", folder, "--embeddings", "e.npz", "--plot", tmp_path / "c.png")
        assert (said.code, said.out) == (2, "") and not (tmp_path / "c.png").exists()
        return said.err

    assert "there is no such task folder" in refused(tmp_path / "gone")
    assert "It has no task.json" in refused(tmp_path)
    torn = tmp_path / "torn"
    shutil.copytree(tasks / "one", torn)
    file = torn / "test" / "positives.parquet"
    file.write_bytes(file.read_bytes()[:-1])
    assert "Its sha256 is not the one noted in task.json: it was altered or cut short." in refused(torn)
    (torn / "task.json").write_text("{")
    assert "the task folder is damaged. It is not JSON" in refused(torn)


def test_options_that_contradict_each_other(
    tasks: Path, tmp_path: Path, pairsieve: Pairsieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    npz, scores = tmp_path / "e.npz", tmp_path / "s.parquet"
    npz.write_bytes(saved(texts=rows(5)))
    pq.write_table(pa.table(listed()), scores)
    (tmp_path / "campaign").mkdir()
    (tmp_path / "campaign" / "campaign.toml").write_text("")
    one = tasks / "one"
    for words, message in (
        ([one], "give either --embeddings or --scores. "),
        ([one, "--embeddings", npz, "--scores", scores], "give either --embeddings or --scores, not both."),
        ([one, "--embeddings", npz, "--device", "cpus"], "unknown --device 'cpus'. Did you mean 'cpu'?"),
        ([one, "--embeddings", npz, "--device", "cuda"], "there is no CUDA GPU here."),
        ([one, "--embeddings", npz, "--plot", tmp_path / "c.txt"], "no plot is written as .txt."),
        ([one, "--embeddings", npz, "--plot", tmp_path], "no plot can be written there. It is a folder."),
        ([one, "--embeddings", npz, "--plot", npz / "c.png"], f"{npz} is a file."),
        ([tmp_path / "campaign", "--embeddings", npz], "measured by its own model."),
    ):
        said = pairsieve("evaluate", *words)
        assert (said.code, said.out) == (2, "")
        assert message in said.err and "Traceback" not in said.err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["campaign", "e.npz", "s.parquet"]


def test_a_sample_that_cannot_be_written(tasks: Path, tmp_path: Path, pairsieve: Pairsieve) -> None:
    (tmp_path / "e.npz").write_bytes(saved(texts=rows(5)))
    (tmp_path / "folder").mkdir()
    for out in (tmp_path / "e.npz" / "s.parquet", tmp_path / "folder"):
        said = pairsieve("draw", tasks / "one", "--embeddings", tmp_path / "e.npz", "--out", out)
        assert (said.code, said.out) == (2, "")
        assert f"{out}: the sample cannot be written." in said.err
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["e.npz", "folder"]

"""The task folder: readable without us, whole or absent, and never written over somebody's files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pairsieve.errors import InputError
from pairsieve.pairs import AllPairs, CrossPairs
from pairsieve.tasks import Collection, Split, Task, folder, load_task, save_task

NONE = np.empty(0, np.int64)


def duplicates(name: str = "made") -> Task:
    texts = Collection(["a", "b", "c"], ["one", "ONE", "two — ÿ"])
    positives, negatives = AllPairs(3).ids([1], [0]), AllPairs(3).ids([0], [2])
    split = Split("train", AllPairs(3), texts, texts, positives, negatives, True)
    return Task(name, "equivalence", {"train": split}, {"files": []}, {"rows": 2})


def answers() -> Task:
    right = Collection(["s1", "s2"], ["yes", "no"])
    splits = {}
    for name in ("train", "test"):
        left = Collection([f"q-{name}"], ["why?"])
        splits[name] = Split(name, CrossPairs(1, 2), left, right, CrossPairs(1, 2).ids([0], [1]), NONE, True)
    return Task("qa", "directed", splits, {}, {})


def files_of(root: Path) -> dict[str, bytes]:
    return {str(f.relative_to(root)): f.read_bytes() for f in sorted(root.rglob("*")) if f.is_file()}


def test_a_task_comes_back_as_it_was(tmp_path: Path) -> None:
    for task in (duplicates(), answers()):
        save_task(task, tmp_path / "deep" / task.name)
        back = load_task(tmp_path / "deep" / task.name)
        assert back.fingerprint == task.fingerprint
        assert (back.name, back.relation, back.report) == (task.name, task.relation, task.report)
        assert list(back.splits) == list(task.splits)
        for name, split in task.splits.items():
            assert back.splits[name].left == split.left
            assert back.splits[name].right == split.right
            assert back.splits[name].positives.tolist() == split.positives.tolist()
            assert back.splits[name].stated_negatives.tolist() == split.stated_negatives.tolist()


def test_splits_that_share_a_collection_share_it_again(tmp_path: Path) -> None:
    save_task(answers(), tmp_path / "t")
    splits = load_task(tmp_path / "t").splits
    assert splits["train"].right is splits["test"].right


def test_plain_parquet_with_plain_columns(tmp_path: Path) -> None:
    save_task(duplicates(), tmp_path / "t")
    train = tmp_path / "t" / "train"
    texts = pq.read_table(train / "texts.parquet").to_pydict()
    assert texts == {"key": ["a", "b", "c"], "text": ["one", "ONE", "two — ÿ"]}
    assert pq.read_table(train / "positives.parquet").to_pydict() == {"left": [0], "right": [1]}
    assert pq.read_table(train / "stated_negatives.parquet").to_pydict() == {"left": [0], "right": [2]}
    assert str(pq.read_schema(train / "positives.parquet").field("left").type) == "int64"
    about = json.loads((tmp_path / "t" / "task.json").read_text())
    assert about["relation"] == "equivalence"
    assert about["splits"]["train"]["pairs"] == 3
    assert sorted(about["splits"]["train"]["files"]) == [
        "positives.parquet",
        "stated_negatives.parquet",
        "texts.parquet",
    ]


def test_same_task_same_bytes(tmp_path: Path) -> None:
    save_task(duplicates(), tmp_path / "one")
    save_task(duplicates(), tmp_path / "two")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


def test_the_fingerprint_tells_contents_apart() -> None:
    texts = Collection(["a", "b"], ["xy", "z"])
    moved = Collection(["a", "b"], ["x", "yz"])  # the same letters, cut elsewhere
    assert texts.fingerprint != moved.fingerprint
    assert duplicates("one").fingerprint == duplicates("two").fingerprint
    assert duplicates().fingerprint != answers().fingerprint


def test_an_older_task_is_replaced_and_nothing_is_left_behind(tmp_path: Path) -> None:
    save_task(duplicates(), tmp_path / "t")
    save_task(answers(), tmp_path / "t")
    assert load_task(tmp_path / "t").name == "qa"
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    save_task(duplicates(), tmp_path / "t")
    assert load_task(tmp_path / "t").name == "made"


def test_somebody_elses_files_are_left_alone(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "thesis.txt").write_text("do not lose")
    with pytest.raises(InputError, match=r"notes: the folder holds something other than a task"):
        save_task(duplicates(), notes)
    assert files_of(notes) == {"thesis.txt": b"do not lose"}
    with pytest.raises(InputError, match="this is a file, not a folder"):
        save_task(duplicates(), notes / "thesis.txt")
    save_task(duplicates(), tmp_path / "t")
    (tmp_path / "t" / "mine.txt").write_text("x")
    before = files_of(tmp_path / "t")
    with pytest.raises(InputError, match=r"also holds mine\.txt.*would delete what it did not write"):
        save_task(answers(), tmp_path / "t")
    assert files_of(tmp_path / "t") == before


def test_a_failure_while_writing_leaves_the_old_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_task(duplicates(), tmp_path / "t")
    before = files_of(tmp_path / "t")

    def full(path: Path, *_: object) -> None:
        path.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(folder, "write_table", full)
    with pytest.raises(InputError, match=r"cannot be written.*No space left"):
        save_task(answers(), tmp_path / "t")
    assert files_of(tmp_path / "t") == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]


def test_the_old_task_comes_back_if_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_task(duplicates(), tmp_path / "t")
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self.name.endswith(".unfinished"):
            raise OSError("no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(InputError, match="cannot be written"):
        save_task(answers(), tmp_path / "t")
    assert load_task(tmp_path / "t").name == "made"
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]


EDITS = {  # of task.json, with its checksum made again
    "newer": ('"version": 2', '"version": 99'),
    "no splits": ('"splits"', '"spilt"'),
    "count": ('"positives": 1', '"positives": 7'),
    "fingerprint": (duplicates().fingerprint, "0" * 64),
    "escape": ('"train"', '"../train"'),
    "parent": ('"train"', '".."'),
}


def damaged(tmp_path: Path, change: str) -> Path:
    root = tmp_path / "t"
    save_task(duplicates(), root)
    texts, about = root / "train" / "texts.parquet", root / "task.json"
    if change == "cut":
        texts.write_bytes(texts.read_bytes()[:-20])
    elif change == "gone":
        texts.unlink()
    elif change == "no json":
        about.write_text("{")
    elif change == "no task":
        about.write_text('{"format": "else"}')
    elif change == "no about":
        about.unlink()
    elif change == "a byte":
        about.write_text(about.read_text().replace('"name": "made"', '"name": "lade"'))
    else:
        written = json.loads(about.read_text().replace(*EDITS[change]))
        del written["sha256"]
        digest = hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()
        about.write_text(json.dumps({**written, "sha256": digest}))
    return root


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("cut", r"texts\.parquet: the task folder is damaged\. Its sha256 .* altered or cut short"),
        ("gone", r"texts\.parquet.*The file is missing"),
        ("no json", r"task\.json.*not JSON"),
        ("no task", r"task\.json: this is not a pairsieve task"),
        ("no about", "this is not a task folder. It has no task.json"),
        ("newer", "version 99.*reads version 2"),
        ("a byte", "do not have the sha256 noted there: it was edited or damaged"),
        ("no splits", "The entry 'splits' is missing"),
        ("count", "notes positives = 7, the files hold 1"),
        ("fingerprint", "fingerprint of the contents is not the one noted"),
        ("escape", "leads out of the folder"),
        ("parent", "leads out of the folder"),
    ],
)
def test_a_damaged_folder_says_what_is_wrong_with_it(tmp_path: Path, change: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        load_task(damaged(tmp_path, change))
    assert "pairsieve data" in str(caught.value)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such task folder"):
        load_task(tmp_path / "nowhere")

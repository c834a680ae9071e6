"""Artifacts: there whole or not at all, found again by their key, and never used once altered."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairsieve.artifacts import FORMATS, ArtifactStore, key_digest, load_array, save_array
from pairsieve.errors import ArtifactError

KEY = {"model": "abc", "texts": [1, 2], "rate": 1e-4}


class Builder:
    """Writes two files and counts how often it was asked to."""

    def __init__(self) -> None:
        self.builds = 0

    def __call__(self, folder: Path) -> None:
        self.builds += 1
        save_array(folder / "rows.npy", np.arange(6.0).reshape(2, 3))
        (folder / "model").mkdir()
        (folder / "model" / "config.json").write_text('{"layers": 6}')


def contents(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def half_built(store: ArtifactStore) -> list[Path]:
    return [path for path in store.folder.glob("*/.*") if path.is_dir()]


def test_built_once_and_found_again(tmp_path: Path) -> None:
    build = Builder()
    store = ArtifactStore(tmp_path / "artifacts")
    assert store.find("embeddings", KEY) is None
    folder = store.get("embeddings", KEY, build)
    assert contents(folder) == ["manifest.json", "model/config.json", "rows.npy"]
    assert load_array(folder / "rows.npy").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert store.get("embeddings", KEY, build) == folder == store.find("embeddings", KEY)
    # another process, another order of the key's names: the same artifact
    again = ArtifactStore(tmp_path / "artifacts")
    assert again.get("embeddings", {"rate": 1e-4, "texts": (1, 2), "model": "abc"}, build) == folder
    assert build.builds == 1
    assert again.get("embeddings", KEY | {"rate": 2e-4}, build) != folder
    assert build.builds == 2
    assert half_built(store) == []


def test_the_manifest_says_what_made_it(tmp_path: Path) -> None:
    folder = ArtifactStore(tmp_path).get("embeddings", KEY, Builder())
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["kind"] == "embeddings" and manifest["key"] == KEY
    assert manifest["files"]["model/config.json"]["size"] == len('{"layers": 6}')


def test_another_format_number_finds_nothing_older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed algorithm does not read what an earlier version computed under the same key."""
    build, store = Builder(), ArtifactStore(tmp_path)
    older = store.get("embeddings", KEY, build)
    monkeypatch.setitem(FORMATS, "embeddings", FORMATS["embeddings"] + 1)
    assert store.find("embeddings", KEY) is None
    newer = store.get("embeddings", KEY, build)
    assert newer != older and build.builds == 2
    assert json.loads((newer / "manifest.json").read_text())["format"] == FORMATS["embeddings"]


def test_every_kind_in_use_has_a_format_number() -> None:
    root = Path(__file__).parents[2]
    calls = re.compile(r'(?:store|shared|ArtifactStore\(.*?\))\.(?:get|find|place)\(\s*"([^"]+)"')
    files = [file for folder in ("src", "experiments") for file in (root / folder).rglob("*.py")]
    used = {kind for file in files for kind in calls.findall(file.read_text(encoding="utf-8"))}
    assert "embeddings" in used and used <= FORMATS.keys()


def cut(folder: Path) -> None:
    os.truncate(folder / "rows.npy", 40)


def flip(folder: Path) -> None:
    body = bytearray((folder / "rows.npy").read_bytes())
    body[-1] ^= 1
    (folder / "rows.npy").write_bytes(body)


def lose(folder: Path) -> None:
    (folder / "model" / "config.json").unlink()


def add(folder: Path) -> None:
    (folder / "model" / "weights.bin").write_bytes(b"stranger")


def lose_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def cut_manifest(folder: Path) -> None:
    os.truncate(folder / "manifest.json", 30)


def other_key(folder: Path) -> None:
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"abc"', '"abd"'))


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (cut, "rows.npy has 40 bytes instead of 176"),
        (flip, "the contents of the file rows.npy were altered"),
        (lose, "the file model/config.json is missing"),
        (add, "the file model/weights.bin does not belong to it"),
        (lose_manifest, "manifest.json is missing"),
        (cut_manifest, "manifest.json cannot be read"),
        (other_key, "manifest.json names another key"),
    ],
)
@pytest.mark.parametrize("same_process", [True, False])
def test_what_was_damaged_is_built_again(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], None],
    complaint: str,
    same_process: bool,
) -> None:
    build = Builder()
    store = ArtifactStore(tmp_path)
    folder = store.get("embeddings", KEY, build)
    damage(folder)
    if not same_process:
        store = ArtifactStore(tmp_path)  # nothing remembered about files that were checked
    assert store.find("embeddings", KEY) is None
    with caplog.at_level(logging.WARNING, logger="pairsieve"):
        assert store.get("embeddings", KEY, build) == folder
    assert complaint in caplog.text and "built again" in caplog.text
    assert build.builds == 2
    assert load_array(folder / "rows.npy").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert half_built(store) == []


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "half").write_text("…")
        raise KeyboardInterrupt

    store = ArtifactStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        store.get("embeddings", KEY, build)
    assert store.find("embeddings", KEY) is None and half_built(store) == []


def full_disk(folder: Path) -> None:
    (folder / "first").write_bytes(b"x" * 2**20)
    with Path("/dev/full").open("wb") as file:  # the system's own "no space left"
        file.write(b"x" * 2**20)


def full_disk_as_numpy_says_it(folder: Path) -> None:
    (folder / "first").write_bytes(b"x" * 2**20)
    raise OSError("262144 requested and 8192 written")


@pytest.mark.parametrize("build", [full_disk, full_disk_as_numpy_says_it])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_disk_is_said_in_words(tmp_path: Path, build: Callable[[Path], None]) -> None:
    store = ArtifactStore(tmp_path)
    with pytest.raises(
        ArtifactError, match=r"the disk is full: 1.0 MiB .* \(embeddings\).*Free some space"
    ) as caught:
        store.get("embeddings", KEY, build)
    assert str(store.place("embeddings", KEY)) in str(caught.value)
    assert store.find("embeddings", KEY) is None and half_built(store) == []
    assert store.get("embeddings", KEY, Builder()).is_dir()  # with space again, it goes on


def test_two_builders_at_once_one_wins(tmp_path: Path) -> None:
    store, inner = ArtifactStore(tmp_path), Builder()

    def build(folder: Path) -> None:
        (folder / "slow").write_text("mine")
        ArtifactStore(tmp_path).get("embeddings", KEY, inner)  # somebody faster, meanwhile

    folder = store.get("embeddings", KEY, build)
    assert contents(folder) == ["manifest.json", "model/config.json", "rows.npy"]
    assert inner.builds == 1 and half_built(store) == []


def test_a_faster_builder_whose_work_is_broken_does_not_win(tmp_path: Path) -> None:
    store, built = ArtifactStore(tmp_path), list[Path]()

    def build(folder: Path) -> None:
        built.append(folder)
        save_array(folder / "rows.npy", np.arange(3.0))
        if len(built) == 1:  # somebody faster, whose disk lost the manifest
            place = store.place("embeddings", KEY)
            place.mkdir(parents=True)
            (place / "rows.npy").write_text("torn")

    assert contents(store.get("embeddings", KEY, build)) == ["manifest.json", "rows.npy"]
    assert len(built) == 2 and half_built(store) == []


def test_a_disk_that_is_full_when_forced_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store writes by `files.atomic_folder`, which forces everything to disk after the build."""

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    store = ArtifactStore(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(ArtifactError, match=r"the disk is full: 0\.0 MiB .* \(embeddings\) were written"):
            store.get("embeddings", KEY, Builder())
    assert store.find("embeddings", KEY) is None and half_built(store) == []
    assert store.get("embeddings", KEY, Builder()).is_dir()


RACE = """
import sys
from pathlib import Path
from pairsieve.artifacts import ArtifactStore

def build(folder):
    (folder / "data").write_bytes(b"x" * 100_000)

store = ArtifactStore(Path(sys.argv[1]))
sys.stdin.readline()
for number in range(30):
    folder = store.get("model", {"number": number}, build)
    assert (folder / "data").stat().st_size == 100_000
"""


@pytest.mark.slow
def test_processes_that_build_the_same_things_do_not_hurt_each_other(tmp_path: Path) -> None:
    racers = [
        subprocess.Popen([sys.executable, "-c", RACE, str(tmp_path)], stdin=subprocess.PIPE) for _ in range(3)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(b"go\n")
        racer.stdin.close()
    assert [racer.wait(timeout=60) for racer in racers] == [0, 0, 0]
    assert len([path for path in (tmp_path / "model").iterdir() if path.name[0] != "."]) == 30
    assert half_built(ArtifactStore(tmp_path)) == []


KILLED = """
import sys, time
from pathlib import Path
from pairsieve.artifacts import ArtifactStore

def build(folder):
    (folder / "data").write_bytes(b"x" * 1000)
    print("building", flush=True)
    time.sleep(60)

ArtifactStore(Path(sys.argv[1])).get("model", {"number": 1}, build)
"""


@pytest.mark.slow
def test_what_a_killed_process_left_is_cleaned(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"building\n"
        assert len(half_built(ArtifactStore(tmp_path))) == 1  # the process lives: its work is left alone
        process.send_signal(signal.SIGKILL)
        process.wait()
    elsewhere = tmp_path / "model" / f".building-{'0' * 32}-other-host-{process.pid}-abcdef01"
    elsewhere.mkdir()  # of another machine, whose processes cannot be seen from here
    assert socket.gethostname() != "other-host"
    store = ArtifactStore(tmp_path)
    assert half_built(store) == [elsewhere]
    assert store.find("model", {"number": 1}) is None


def test_keys_hold_json_only(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    for key in ({"path": Path("x")}, {"value": float("nan")}):
        with pytest.raises(ValueError, match="JSON values only"):
            store.place("model", key)
    for kind in ("", "../up", ".hidden", "modle"):
        with pytest.raises(ValueError, match=r"no artifact is of kind.*Known: .*model"):
            store.place(kind, {})


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3) | st.booleans() | st.none()))
def test_the_order_of_a_key_does_not_matter(key: dict[str, object]) -> None:
    assert key_digest(key) == key_digest(dict(reversed(key.items())))
    assert key_digest(key) != key_digest(key | {"one more": 1})


def test_arrays_without_pickle(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    with pytest.raises(ArtifactError, match="Python objects"):
        save_array(path, np.array([{}, None]))
    save_array(path, np.arange(4, dtype=np.float32))
    mapped = load_array(path, mmap=True)
    assert isinstance(mapped, np.memmap) and mapped.sum() == 6 and not mapped.flags.writeable
    os.truncate(path, 100)
    with pytest.raises(ArtifactError, match=r"rows.npy: cannot be read"):
        load_array(path)

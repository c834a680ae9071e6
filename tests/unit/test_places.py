"""A table is read from and written to a store by URL as it is by path, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pairsieve.cli import all_commands
from pairsieve.errors import InputError, MissingExtra
from pairsieve.places import _local, open_place, written
from pairsieve.tasks import load_task
from pairsieve.tasks.reading import read_table


@pytest.fixture
def bucket():
    """An empty store in memory, named by URL."""
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    store.store.clear()
    yield "memory://bucket"
    store.store.clear()


def test_what_is_a_url() -> None:
    """Path() drops a slash, which must not turn a URL into a path; a drive letter is none."""
    urls = ["s3://bucket/a.csv", Path("s3://bucket/a.csv"), "memory://x", "gs://b/c"]
    paths = ["a.csv", "/tmp/a.csv", "C:/texts/a.csv", "odd:name.csv", "./s3:x"]
    assert [_local(place) for place in urls] == [None] * 4
    assert [_local(place) for place in paths] == [Path(place) for place in paths]


@pytest.mark.parametrize("kind", ["memory", "file", "path"])
def test_what_was_written_is_read(kind: str, bucket: str, tmp_path: Path) -> None:
    place = {
        "memory": f"{bucket}/deep/a.bin",
        "file": f"file://{tmp_path}/deep/a.bin",
        "path": tmp_path / "deep/a.bin",
    }[kind]
    with open_place(place, "wb") as file:
        file.write(b"one")
    for name in (place, Path(place)):
        with open_place(name) as file:
            assert file.read() == b"one"
    with written(place) as path:
        path.write_bytes(b"two")
    with open_place(place) as file:
        assert file.read() == b"two"
    with pytest.raises(FileNotFoundError), open_place(str(place) + "x") as file:
        pass


@pytest.mark.parametrize("how", [open_place, written])
@pytest.mark.parametrize("kind", ["memory", "path"])
def test_a_failure_leaves_what_was_there(how, kind: str, bucket: str, tmp_path: Path) -> None:
    place = f"{bucket}/a.bin" if kind == "memory" else tmp_path / "a.bin"
    with open_place(place, "wb") as file:
        file.write(b"old")

    def fail() -> None:
        if how is open_place:
            with open_place(place, "wb") as file:
                file.write(b"half of the n")
                raise KeyError
        else:
            with written(place) as path:
                path.write_bytes(b"half of the n")
                raise KeyError

    with pytest.raises(KeyError):
        fail()
    with open_place(place) as file:
        assert file.read() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == (["a.bin"] if kind == "path" else [])


def test_a_task_is_made_from_parquet_in_a_store(bucket: str, tmp_path: Path) -> None:
    texts = pa.table({"id": ["a", "b", "c"], "title": ["open a bank account", "open an account", "a cave"]})
    with written(f"{bucket}/texts.parquet") as path:
        pq.write_table(texts, path)
    with open_place(f"{bucket}/pairs.csv", "wb") as file:
        file.write(b"left,right\na,b\n")
    arguments = ["--key", "id", "--text", "title", "--matches", f"{bucket}/pairs.csv", "--split", "none"]
    command = [
        "data",
        "tables",
        "--from",
        f"{bucket}/texts.parquet",
        *arguments,
        "--out",
        str(tmp_path / "t"),
    ]
    done = CliRunner().invoke(all_commands(), command)
    assert done.exit_code == 0, done.output
    (split,) = load_task(tmp_path / "t").splits.values()
    assert list(split.left.keys) == ["a", "b", "c"] and len(split.positives) == 1


def test_a_place_that_cannot_be_opened_says_why(bucket: str) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_table(Path(f"{bucket}/missing.csv"))
    with (
        pytest.raises(InputError, match="'cloudy' is no kind of place that fsspec knows"),
        open_place("cloudy://a"),
    ):
        pass
    try:
        import s3fs  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtra, match="pip install s3fs"), open_place("s3://bucket/a.csv"):
            pass

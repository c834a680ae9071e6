"""How does a task lie on disk? A folder of Parquet files that anybody can read; see docs/task-folder.md."""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pairsieve.errors import InputError, PairsieveError
from pairsieve.pairs import Ids, pair_ids, pair_rows
from pairsieve.tasks.task import Collection, Split, Task, one_collection, two_collections

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "pairsieve task"
VERSION = 1
_AGAIN = "Make the task again with 'pairsieve data …'"


def save_task(task: Task, folder: Path | str) -> None:
    """Write the task folder whole or not at all; only a folder this function wrote is ever replaced."""
    folder = Path(folder).resolve()
    check_replaceable(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder.parent / f".{folder.name}.{uuid.uuid4().hex}.part"
    try:
        _write(task, fresh)
        _swap_in(fresh, folder)
    except OSError as error:
        raise InputError(
            "the task cannot be written",
            where=str(folder),
            why=str(error),
            remedy="Free space or choose --out",
        ) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def load_task(folder: Path | str) -> Task:
    """Read a task folder; every file is checked against its fingerprint and the counts of task.json."""
    folder = Path(folder)
    about = _read_about(folder)
    collections: dict[str, Collection] = {}  # by file fingerprint: splits may share a collection
    splits = {name: _read_split(folder, name, entry, collections) for name, entry in about["splits"].items()}
    try:
        task = Task(about["name"], about["relation"], splits, about["provenance"], about["report"])
    except ValueError as error:
        raise _damaged(folder / "task.json", str(error)) from error
    if task.fingerprint != about["fingerprint"]:
        raise _damaged(folder / "task.json", "the fingerprint of the contents is not the one noted there")
    return task


def check_replaceable(folder: Path) -> None:
    """An error unless `folder` is absent, empty, or holds a task and nothing else."""
    if not folder.exists():
        return
    remedy = "Choose another folder for --out, or remove this one yourself"
    if not folder.is_dir():
        raise InputError("this is a file, not a folder", where=str(folder), remedy=remedy)
    present = {str(file.relative_to(folder)) for file in folder.rglob("*") if not file.is_dir()}
    if not present:
        return
    try:
        entries = _read_about(folder)["splits"].items()
    except PairsieveError as error:
        raise InputError(
            "the folder holds something other than a task and is left as it is",
            where=str(folder),
            remedy=remedy,
        ) from error
    ours = {"task.json"} | {str(Path(name) / file) for name, entry in entries for file in entry["files"]}
    foreign = sorted(present - ours)
    if foreign:
        raise InputError(
            f"the task folder also holds {', '.join(foreign[:3])}{' …' if len(foreign) > 3 else ''}",
            where=str(folder),
            why="replacing the task would delete what it did not write",
            remedy=remedy,
        )


def _write(task: Task, folder: Path) -> None:
    folder.mkdir()
    entries = {}
    for name, split in task.splits.items():
        (folder / name).mkdir()
        files = {
            file: _write_parquet(folder / name / file, columns) for file, columns in _tables(split).items()
        }
        entries[name] = {
            "space": "all" if split.space.symmetric else "cross",
            "has_truth": split.has_truth,
            **split.counts(),
            "files": files,
        }
    about = {
        "format": FORMAT,
        "version": VERSION,
        "name": task.name,
        "relation": task.relation,
        "fingerprint": task.fingerprint,
        "provenance": task.provenance,
        "report": task.report,
        "splits": entries,
    }
    words = json.dumps(about, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "task.json").write_text(words + "\n", encoding="utf-8", newline="\n")


def _tables(split: Split) -> dict[str, dict[str, Any]]:
    def pairs(ids: Ids) -> dict[str, Any]:
        left, right = pair_rows(ids)
        return {"left": left, "right": right}

    def texts(collection: Collection) -> dict[str, Any]:
        return {"key": collection.keys, "text": collection.texts}

    if split.space.symmetric:
        sides = {"texts.parquet": texts(split.left)}
    else:
        sides = {"left.parquet": texts(split.left), "right.parquet": texts(split.right)}
    return sides | {
        "positives.parquet": pairs(split.positives),
        "stated_negatives.parquet": pairs(split.stated_negatives),
    }


def _write_parquet(path: Path, columns: dict[str, Any]) -> str:
    """Write one table; the sha256 of the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = pa.string() if "key" in columns else pa.int64()
    table = pa.table({name: pa.array(values, type=kind) for name, values in columns.items()})
    pq.write_table(table, path, compression="zstd")
    return _sha256(path)


def _swap_in(fresh: Path, folder: Path) -> None:
    """Put `fresh` in the place of `folder`; the old one comes back if that fails."""
    old = fresh.with_suffix(".old")
    replaced = folder.exists()
    if replaced:
        folder.rename(old)
    try:
        fresh.rename(folder)
    except OSError:
        if replaced:
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / "task.json"
    if not folder.exists():
        raise InputError("there is no such task folder", where=str(folder), remedy=_AGAIN)
    if not path.is_file():
        raise InputError(
            "this is not a task folder", where=str(folder), why="it has no task.json", remedy=_AGAIN
        )
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _damaged(path, f"it is not JSON ({error})") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InputError(
            "this is not a pairsieve task", where=str(path), why=f"'format' is not {FORMAT!r}", remedy=_AGAIN
        )
    if about.get("version") != VERSION:
        raise InputError(
            f"task folder version {about.get('version')!r}",
            where=str(path),
            why=f"this pairsieve reads version {VERSION}",
            remedy=_AGAIN,
        )
    needed = {"name": str, "relation": str, "fingerprint": str, "provenance": dict, "report": dict}
    for key, kind in (needed | {"splits": dict}).items():
        if not isinstance(about.get(key), kind):
            raise _damaged(path, f"the entry {key!r} is missing or of the wrong kind")
    for name, entry in about["splits"].items():
        if not isinstance(entry, dict) or not isinstance(entry.get("files"), dict):
            raise _damaged(path, f"the entry of split {name!r} names no files")
    return about


def _read_split(folder: Path, name: str, entry: dict[str, Any], collections: dict[str, Collection]) -> Split:
    where = folder / name
    if Path(name).name != name:
        raise _damaged(folder / "task.json", f"the split name {name!r} leads out of the folder")

    def collection(file: str) -> Collection:
        path = where / file
        table = _read_parquet(path, entry, ("key", "text"), "string")
        fingerprint = entry["files"][file]
        if fingerprint not in collections:
            columns = [table.column(column).to_pylist() for column in ("key", "text")]
            collections[fingerprint] = Collection(columns[0], columns[1])
        return collections[fingerprint]

    def pairs(file: str) -> Ids:
        table = _read_parquet(where / file, entry, ("left", "right"), "int64")
        left, right = (np.asarray(table.column(side).to_numpy(), np.int64) for side in ("left", "right"))
        return pair_ids(left, right)

    truth = bool(entry.get("has_truth"))
    try:
        if entry.get("space") == "all":
            known = pairs("positives.parquet"), pairs("stated_negatives.parquet")
            split = one_collection(name, collection("texts.parquet"), *known, truth)
        else:
            sides = collection("left.parquet"), collection("right.parquet")
            known = pairs("positives.parquet"), pairs("stated_negatives.parquet")
            split = two_collections(name, *sides, *known, truth)
    except ValueError as error:
        raise _damaged(where, str(error)) from error
    for count, value in split.counts().items():
        if entry.get(count) != value:
            raise _damaged(where, f"task.json notes {count} = {entry.get(count)}, the files hold {value}")
    return split


def _read_parquet(path: Path, entry: dict[str, Any], columns: tuple[str, ...], kind: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise _damaged(path, "the file is missing")
    if _sha256(path) != entry["files"].get(path.name):
        raise _damaged(path, "its sha256 is not the one noted in task.json: it was altered or cut short")
    try:
        table = pq.read_table(path)
    except pa.ArrowException as error:
        raise _damaged(path, f"it cannot be read as Parquet ({error})") from error
    found = {field.name: str(field.type) for field in table.schema}
    if found != dict.fromkeys(columns, kind):
        raise _damaged(path, f"its columns are {found}, not {', '.join(columns)} of type {kind}")
    if any(column.null_count for column in table.columns):
        raise _damaged(path, "it holds empty values")
    return table


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(path: Path, why: str) -> InputError:
    return InputError("the task folder is damaged", where=str(path), why=why, remedy=_AGAIN)

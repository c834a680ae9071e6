"""Saving and loading a task as a folder of Parquet files; see docs/task-folder.md."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pairsieve.artifacts import file_digest
from pairsieve.errors import InputError, PairsieveError
from pairsieve.files import atomic_folder, load_json, write_errors
from pairsieve.pairs import Ids, pair_ids, pair_rows
from pairsieve.tables import read_columns, write_table
from pairsieve.tasks.fields import Fields, StoredFields
from pairsieve.tasks.task import Collection, Split, Task, split_of

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "pairsieve task"
VERSION = 2  # with a checksum of task.json
SEAL = "sha256"  # the entry of task.json with the checksum of all its others
SOURCES = "sources.parquet"
_NOTED = {"name": str, "relation": str, "fingerprint": str, "provenance": dict, "report": dict}
_AGAIN = "Make the task again with 'pairsieve data …'"


def save_task(task: Task, folder: Path | str) -> None:
    """Write the task folder whole or not at all; only a folder this function wrote is ever replaced."""
    folder = Path(folder).resolve()
    check_replaceable(folder)
    explained = write_errors("the task", folder, "Free space or choose another folder")
    with explained, atomic_folder(folder, replace=True) as new:
        _write(task, new)


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
    remedy = "Choose another folder, or remove this one yourself"
    if not folder.is_dir():
        raise InputError("this is a file, not a folder", where=str(folder), remedy=remedy)
    present = {str(file.relative_to(folder)) for file in folder.rglob("*") if not file.is_dir()}
    if not present:
        return
    try:
        entries = _read_about(folder)["splits"].items()
    except PairsieveError as error:
        what = "the folder holds something other than a task and is left as it is"
        raise InputError(what, where=str(folder), remedy=remedy) from error
    ours = {"task.json"} | {str(Path(name) / file) for name, entry in entries for file in entry["files"]}
    foreign = sorted(present - ours)
    if foreign:
        what = f"the task folder also holds {', '.join(foreign[:3])}{' …' if len(foreign) > 3 else ''}"
        why = "replacing the task would delete what it did not write"
        raise InputError(what, where=str(folder), why=why, remedy=remedy)


def _write(task: Task, folder: Path) -> None:
    entries = {}
    for name, split in task.splits.items():
        (folder / name).mkdir()
        files = {}
        for file, columns in _tables(split).items():
            kind = "string" if "key" in columns else "int64"  # sources and pairs are numbers
            write_table(folder / name / file, dict.fromkeys(columns, kind), columns)
            files[file] = file_digest(folder / name / file)
        fields = {}
        for file, side in _sides(split).items():
            if side.fields is not None:
                table, path = side.fields.table, folder / name / _fields_file(file)
                write_table(path, dict.fromkeys(table.column_names, "string"), table.to_pydict())
                files[path.name] = file_digest(path)
                fields[file] = {"kinds": side.kinds, "fingerprint": side.fields.fingerprint}
        space = "all" if split.space.symmetric else "cross"
        entries[name] = {"space": space, "has_truth": split.has_truth, **split.counts(), "files": files}
        if fields:
            entries[name]["fields"] = fields
    noted = {key: getattr(task, key) for key in _NOTED}
    about = {"format": FORMAT, "version": VERSION, **noted, "splits": entries}
    about[SEAL] = _sha256(about)
    words = json.dumps(about, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "task.json").write_text(words + "\n", encoding="utf-8", newline="\n")


def _sides(split: Split) -> dict[str, Collection]:
    """The collections of a split by the file of their texts."""
    if split.space.symmetric:
        return {"texts.parquet": split.left}
    return {"left.parquet": split.left, "right.parquet": split.right}


def _fields_file(texts: str) -> str:
    """The file of the fields beside that of the texts: fields.parquet, left_fields.parquet."""
    return "fields.parquet" if texts == "texts.parquet" else texts.replace(".parquet", "_fields.parquet")


def _tables(split: Split) -> dict[str, dict[str, Any]]:
    def pairs(ids: Ids) -> dict[str, Any]:
        left, right = pair_rows(ids)
        return {"left": left, "right": right}

    def texts(collection: Collection) -> dict[str, Any]:
        return {"key": collection.keys, "text": collection.texts}

    sources = {} if split.left.sources is None else {SOURCES: {"source": split.left.sources}}
    return {file: texts(side) for file, side in _sides(split).items()} | {
        **sources,
        "positives.parquet": pairs(split.positives),
        "stated_negatives.parquet": pairs(split.stated_negatives),
    }


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / "task.json"
    if not folder.exists():
        raise InputError("there is no such task folder", where=str(folder), remedy=_AGAIN)
    if not path.is_file():
        what, why = "this is not a task folder", "it has no task.json"
        raise InputError(what, where=str(folder), why=why, remedy=_AGAIN)
    try:
        about = load_json(path)
    except ValueError as error:
        raise _damaged(path, f"it is not JSON ({error})") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        what, why = "this is not a pairsieve task", f"'format' is not {FORMAT!r}"
        raise InputError(what, where=str(path), why=why, remedy=_AGAIN)
    if about.get("version") != VERSION:
        what, why = f"task folder version {about.get('version')!r}", f"this pairsieve reads version {VERSION}"
        raise InputError(what, where=str(path), why=why, remedy=_AGAIN)
    if about.pop(SEAL, None) != _sha256(about):
        raise _damaged(path, f"its contents do not have the {SEAL} noted there: it was edited or damaged")
    for key, kind in (_NOTED | {"splits": dict}).items():
        if not isinstance(about.get(key), kind):
            raise _damaged(path, f"the entry {key!r} is missing or of the wrong kind")
    for name, entry in about["splits"].items():
        if not isinstance(entry, dict) or not isinstance(entry.get("files"), dict):
            raise _damaged(path, f"the entry of split {name!r} names no files")
    return about


def _read_split(folder: Path, name: str, entry: dict[str, Any], collections: dict[str, Collection]) -> Split:
    where = folder / name
    if Path(name).name != name or name in ("", ".", ".."):
        raise _damaged(folder / "task.json", f"the split name {name!r} leads out of the folder")

    def collection(file: str) -> Collection:
        table = _read_parquet(where / file, entry, ("key", "text"), "string")
        fields = _stored_fields(where / _fields_file(file), entry, file)
        fingerprint = entry["files"][file] + ("" if fields is None else fields.fingerprint)
        fingerprint += entry["files"].get(SOURCES, "")
        if fingerprint not in collections:
            keys, texts = (column.to_pylist() for column in table.columns)
            sources = None
            if SOURCES in entry["files"]:
                sources = _read_parquet(where / SOURCES, entry, ("source",), "int64").column(0).to_numpy()
            collections[fingerprint] = Collection(keys, texts, fields, sources)
        return collections[fingerprint]

    def pairs(file: str) -> Ids:
        table = _read_parquet(where / file, entry, ("left", "right"), "int64")
        return pair_ids(*(column.to_numpy() for column in table.columns))

    try:
        files = ("texts.parquet",) if entry.get("space") == "all" else ("left.parquet", "right.parquet")
        known = pairs("positives.parquet"), pairs("stated_negatives.parquet")
        split = split_of(name, [collection(file) for file in files], *known, bool(entry.get("has_truth")))
    except ValueError as error:
        raise _damaged(where, str(error)) from error
    for count, value in split.counts().items():
        if entry.get(count) != value:
            raise _damaged(where, f"task.json notes {count} = {entry.get(count)}, the files hold {value}")
    return split


def _stored_fields(path: Path, entry: dict[str, Any], texts: str) -> StoredFields | None:
    """The fields that task.json notes for a collection; their file is read when they are asked for."""
    noted = entry.get("fields", {}).get(texts)
    if noted is None:
        return None
    if not isinstance(noted, dict) or not isinstance(noted.get("kinds"), dict):
        raise _damaged(path, "task.json does not say what its columns are")
    if not path.is_file():
        raise _damaged(path, "the file is missing")
    kinds: dict[str, str] = noted["kinds"]

    def load() -> Fields:
        fields = Fields(kinds, _read_parquet(path, entry, tuple(kinds), "string", complete=False))
        if fields.fingerprint != noted.get("fingerprint"):
            raise _damaged(path, "the fingerprint of the fields is not the one noted in task.json")
        return fields

    return StoredFields(kinds, str(noted.get("fingerprint")), load)


def _read_parquet(
    path: Path, entry: dict[str, Any], columns: tuple[str, ...], kind: str, complete: bool = True
) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise _damaged(path, "the file is missing")
    if file_digest(path) != entry["files"].get(path.name):
        raise _damaged(path, "its sha256 is not the one noted in task.json: it was altered or cut short")
    try:
        with pq.ParquetFile(path) as file:
            table = read_columns(file, file.schema_arrow.names, path.stat().st_size, path)
    except pa.ArrowException as error:
        raise _damaged(path, f"it cannot be read as Parquet ({error})") from error
    found = {field.name: str(field.type) for field in table.schema}
    if found != dict.fromkeys(columns, kind):
        raise _damaged(path, f"its columns are {found}, not {', '.join(columns)} of type {kind}")
    if complete and any(column.null_count for column in table.columns):
        raise _damaged(path, "it holds empty values")
    return table.select(list(columns))


def _sha256(about: dict[str, Any]) -> str:
    """Of what task.json notes, its own checksum left out; however it is indented or sorted."""
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _damaged(path: Path, why: str) -> InputError:
    return InputError("the task folder is damaged", where=str(path), why=why, remedy=_AGAIN)

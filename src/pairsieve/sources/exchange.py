"""How do questions travel to people in files, and their answers back? CSV, JSON Lines, Parquet, Label Studio.

A batch has one row per pair: left_key, right_key, left_text, right_text, and empty columns label, who and
comment. People fill in the label: 1 / yes / match, 0 / no / no match, or unsure; empty means unanswered. Rows
are numbered as a spreadsheet shows them: the header of a CSV file is row 1; in JSON Lines the row is the
line; in Parquet the first record is row 1.
"""

from __future__ import annotations

import csv
import io
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pairsieve.contracts import Answer
from pairsieve.errors import InputError, nearest
from pairsieve.pairs import Ids

COLUMNS = ("left_key", "right_key", "left_text", "right_text", "label", "who", "comment")
FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet", ".json": "label-studio"}
LABELS: dict[str, int | None] = {
    **dict.fromkeys(("1", "1.0", "yes", "y", "match", "true"), 1),
    **dict.fromkeys(("0", "0.0", "no", "n", "no match", "nomatch", "false"), 0),
    **dict.fromkeys(("unsure", "u", "?", "maybe"), None),
}
_DELIMITERS = ",;\t"  # spreadsheets of some countries save CSV with semicolons


@dataclass(frozen=True)
class Batch:
    """Questions with the texts to read; all columns have the same length."""

    ids: Ids
    left_keys: Sequence[str]
    right_keys: Sequence[str]
    left_texts: Sequence[str]
    right_texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self) -> Iterator[dict[str, str]]:
        """One dict per question, the label still empty."""
        told = zip(self.left_keys, self.right_keys, self.left_texts, self.right_texts, strict=True)
        return (dict(zip(COLUMNS, [*row, "", "", ""])) for row in told)


@dataclass(frozen=True)
class Asked:
    """What a file may answer: the id of each asked pair of keys; all keys tell a slip from a stranger."""

    ids: Mapping[tuple[str, str], int]
    left_keys: frozenset[str]
    right_keys: frozenset[str]

    @staticmethod
    def of(
        ids: Ids,
        left_keys: Sequence[str],
        right_keys: Sequence[str],
        all_left: Sequence[str],
        all_right: Sequence[str],
        symmetric: bool,
    ) -> Asked:
        """In a symmetric space (b, a) names the same pair as (a, b)."""
        named = dict(zip(zip(left_keys, right_keys), ids.tolist(), strict=True))
        if symmetric:
            named |= {(right, left): id for (left, right), id in list(named.items())}
        return Asked(named, frozenset(all_left), frozenset(all_right))

    def id(self, left: str, right: str, where: str) -> int:
        """The id of the asked pair, or an error that says what is wrong with it."""
        found = self.ids.get((left, right))
        if found is not None:
            return found
        for side, key, known in (("left", left, self.left_keys), ("right", right, self.right_keys)):
            if key not in known:
                numeric = key.lstrip("0") in {other.lstrip("0") for other in known} and key != ""
                raise InputError(
                    f"there is no text with the {side} key {key!r}",
                    where=where,
                    why="a spreadsheet may have dropped the zeros in front of it" if numeric else "",
                    remedy="Keep the keys as they are in the batch; import key columns as text",
                )
        raise InputError(
            f"the pair ({left!r}, {right!r}) was never asked",
            where=where,
            why="only questions in the ledger take answers",
            remedy="Answer the rows of a batch written by pairsieve ask, and add none",
        )


@dataclass(frozen=True)
class Said:
    """One answer in a file: what, by whom, and where it stands."""

    id: int
    label: int | None
    who: str
    comment: str
    where: str


@dataclass(frozen=True)
class AnswerFile:
    """The answers of a file, one per person and pair; rows without a label and cancelled ones are counted."""

    said: tuple[Said, ...]
    unanswered: int
    cancelled: int = 0

    def by_person(self) -> dict[str, tuple[list[Answer], list[str]]]:
        """{who: (answers, comments)} in the order of the file."""
        found: dict[str, tuple[list[Answer], list[str]]] = {}
        for each in self.said:
            given, comments = found.setdefault(each.who, ([], []))
            given.append(Answer(each.id, each.label))
            comments.append(each.comment)
        return found


def format_of(path: Path, named: str | None = None) -> str:
    """The format named, or the one that the file's name tells."""
    known = set(FORMATS.values())
    if named is not None and named not in known:
        raise InputError(f"unknown format {named!r}", where="--format", remedy=nearest(named, known))
    if named is None and path.suffix not in FORMATS:
        raise InputError(
            f"cannot tell the format of a {path.suffix or 'suffix-less'} file",
            where=str(path),
            remedy=f"Choose a name that ends in {', '.join(FORMATS)}, or pass --format",
        )
    return named or FORMATS[path.suffix]


def write_batch(path: Path, batch: Batch, format: str | None = None, guideline: str = "") -> list[Path]:
    """Write the questions, whole or not at all; returns the files written.

    Label Studio gets two: the tasks, and beside them the labelling configuration, with `guideline` on top.
    """
    form = format_of(path, format)
    if form == "label-studio":
        from pairsieve.sources.label_studio import labelling_config, tasks_json

        config = path.with_suffix(".xml")
        _replace(path, lambda file: file.write_text(tasks_json(batch), encoding="utf-8"))
        _replace(config, lambda file: file.write_text(labelling_config(guideline), encoding="utf-8"))
        return [path, config]
    writers = {"csv": _write_csv, "jsonl": _write_jsonl, "parquet": _write_parquet}
    _replace(path, lambda file: writers[form](file, batch))
    return [path]


def read_answers(path: Path, asked: Asked, who: str | None = None, format: str | None = None) -> AnswerFile:
    """The answers in a file; `who` answers where the file names nobody. Any fault names file, row and key.

    Refused: unknown keys, pairs never asked, labels outside the vocabulary, and two rows by one person that
    contradict each other. The same row twice counts once.
    """
    form = format_of(path, format)
    if not path.is_file():
        raise InputError("there is no such file", where=str(path), remedy="Check the name")
    if form == "label-studio":
        from pairsieve.sources.label_studio import read_export

        return read_export(path, asked, who)
    readers = {"csv": _read_csv, "jsonl": _read_jsonl, "parquet": _read_parquet}
    said: dict[tuple[str, int], Said] = {}
    unanswered = 0
    for row, cells in readers[form](path):
        left, right = (_required(cells, side, f"{path}, row {row}") for side in ("left_key", "right_key"))
        where = f"{path}, row {row}, pair ({left!r}, {right!r})"
        text = as_text(cells.get("label"))
        id = asked.id(left, right, where)
        if text == "":
            unanswered += 1
            continue
        name = as_text(cells.get("who")) or (who or "")
        if not name:
            raise InputError(
                "nobody is named for this answer",
                where=where,
                remedy="Fill in the column 'who', or pass --who",
            )
        new = Said(id, read_label(text, where), name, as_text(cells.get("comment")), where)
        before = said.setdefault((name, id), new)
        if before.label != new.label:
            raise InputError(
                f"{name} says {spoken(new.label)} here, and {spoken(before.label)} at {before.where}",
                where=where,
                remedy="Keep one of the two rows",
            )
    return AnswerFile(tuple(said.values()), unanswered)


def read_label(text: str, where: str) -> int | None:
    """1, 0 or None (unsure), as people write them."""
    plain = " ".join(text.replace("_", " ").replace("-", " ").lower().split())
    if plain not in LABELS:
        raise InputError(
            f"the label is {text!r}",
            where=where,
            remedy="Write 1, yes or match; 0, no or no match; unsure; or leave it empty",
        )
    return LABELS[plain]


def spoken(label: int | None) -> str:
    return {1: "match", 0: "no match", None: "unsure"}[label]


def as_text(cell: Any) -> str:
    """A typed cell as text: whole numbers without ".0", null and NaN as ""."""
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def _required(cells: Mapping[str, Any], name: str, where: str) -> str:
    if name not in cells:
        raise InputError(f"there is no column {name!r}", where=where, remedy=nearest(name, map(str, cells)))
    cell = cells[name]
    return cell if isinstance(cell, str) else as_text(cell)


# ── the tables ──────────────────────────────────────────────────────────────────────────────────


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")
    try:
        write(beside)
        beside.replace(path)
    except OSError as error:
        raise InputError(
            "the file cannot be written", where=str(path), why=error.strerror or str(error)
        ) from error
    finally:
        beside.unlink(missing_ok=True)


def _write_csv(path: Path, batch: Batch) -> None:
    # With a byte-order mark, as a spreadsheet would otherwise take the texts for another encoding.
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(batch.rows())


def _write_jsonl(path: Path, batch: Batch) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in batch.rows():
            file.write(json.dumps(row | {"label": None}, ensure_ascii=False) + "\n")


def _write_parquet(path: Path, batch: Batch) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in COLUMNS])
    pq.write_table(pa.Table.from_pylist(list(batch.rows()), schema=schema), path)


def read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            "the text is not UTF-8",
            where=str(path),
            why=f"byte 0x{error.object[error.start]:02x} at offset {error.start:,} does not fit",
            remedy="Save it as UTF-8 (in a spreadsheet: CSV UTF-8)",
        ) from error


def _read_csv(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    text = read_text(path)
    header = text.lstrip("\r\n").split("\n", 1)[0]
    mark = max(_DELIMITERS, key=header.count)
    limit = csv.field_size_limit(2**31 - 1)  # texts of any length; the limit is global, so it is put back
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True))
    except csv.Error as error:
        raise InputError("the quotes do not add up", where=str(path), why=str(error)) from error
    finally:
        csv.field_size_limit(limit)
    if not rows:
        raise InputError("the file is empty", where=str(path), remedy="Give the batch with its header")
    names = [name.strip() for name in rows[0]]
    for number, row in enumerate(rows[1:], start=2):
        if not any(row):
            continue
        if len(row) != len(names):
            raise InputError(
                f"the row has {len(row)} fields, the header has {len(names)}",
                where=f"{path}, row {number}",
                remedy='Quote a text that holds the delimiter with "…"',
            )
        yield number, dict(zip(names, row))


def _read_jsonl(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                cells = json.loads(line)
            except ValueError as error:
                raise InputError(
                    "the line is not JSON", where=f"{path}, row {number}", why=str(error)
                ) from error
            if not isinstance(cells, dict):
                raise InputError("the line is not a JSON object", where=f"{path}, row {number}")
            yield number, cells


def _read_parquet(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            "the file is not whole Parquet", where=str(path), why=str(error).splitlines()[0]
        ) from error
    yield from enumerate(rows, start=1)

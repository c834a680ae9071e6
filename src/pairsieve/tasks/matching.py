"""Which records of two tables describe the same thing? Benchmark folders, recognised by what they hold.

Two layouts are known. *Mapping* (Leipzig): two tables and a file whose two columns hold the ids of every
match. *Labelled pairs* (DeepMatcher): tableA, tableB, and train/valid/test with ltable_id, rtable_id, label;
the union of its positives is taken as the truth. Files may lie in subfolders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pairsieve.contracts import generator_for
from pairsieve.errors import InputError
from pairsieve.pairs import CrossPairs, Ids, pair_ids, pair_rows
from pairsieve.tasks.archives import TABLE_SUFFIXES
from pairsieve.tasks.reading import Table, read_table
from pairsieve.tasks.records import from_template, joined_columns, keys_of, rows_of_keys
from pairsieve.tasks.stated import read_stated
from pairsieve.tasks.task import Collection, Task, two_collections
from pairsieve.tasks.truth import need_positives, resolve, split_two

SHARES = (50, 25, 25)
LABELLED_PARTS = ("train", "valid", "validation", "dev", "test")
_MAPPING_WORDS = ("mapping", "perfect", "gold", "matches", "truth")
_PACKED = (".gz", ".bz2", ".xz", ".zip")


@dataclass(frozen=True)
class _Layout:
    """Two tables with their id columns, and the stated pairs as row numbers."""

    kind: str
    left: Table
    right: Table
    left_key: str
    right_key: str
    files: list[Table]
    positives: Ids
    negatives: Ids
    stated_rows: int


def matching_task(
    folder: Path | None = None,
    *,
    left: Path | None = None,
    right: Path | None = None,
    mapping: Path | None = None,
    template: str | None = None,
    text: Sequence[str] = (),
    encoding: str | None = None,
    seed: int = 0,
    name: str | None = None,
) -> Task:
    """A task from a benchmark folder, or from two tables and a mapping named one by one.

    Splits: train/dev/test by components of the matches, 50/25/25 of the records; and `all`, the whole
    product of both tables. A record's text is its non-empty values joined by " | ", without the id and
    without a column that gives the matches away (numbers, each once per table, equal in every match).
    """
    if folder is not None and not (left or right or mapping):
        folder = Path(folder)
        files = _table_files(folder)
        layout = _labelled_layout(files, encoding) or _mapping_layout(folder, files, encoding)
        where, default_name = str(folder), folder.resolve().name
    elif folder is None and left and right and mapping:
        paths = [Path(left), Path(right)]
        tables = [read_table(path, encoding=encoding, lenient=True) for path in paths]
        ends = _pointed_into(read_table(Path(mapping), lenient=True), tables)
        layout = _resolve(*ends.ends)
        where, default_name = str(mapping), "matching"
    else:
        raise InputError(
            "name either a benchmark folder, or both tables and their mapping",
            where="matching",
            remedy="Pass the folder alone, or left, right and mapping together",
        )
    giveaways = [] if template or text else _giveaways(layout)
    sides = [
        _collection(table, key, giveaways, template, text)
        for table, key in ((layout.left, layout.left_key), (layout.right, layout.right_key))
    ]
    stated, contradictions = resolve(layout.positives, layout.negatives, layout.positives)
    rng = generator_for(seed, 0, "split")
    splits, found = split_two(sides[0], sides[1], layout.positives, stated, layout.positives, SHARES, rng)
    splits["all"] = two_collections("all", sides[0], sides[1], layout.positives, stated, True)
    need_positives(splits, where, "Give a set with at least four separate matches")
    report = {
        "stated_rows": layout.stated_rows,
        "pairs_stated_both_ways": contradictions["pairs_stated_both_ways"],
        "repeated_rows": layout.stated_rows - len(layout.positives) - len(layout.negatives),
        "empty_texts": sum(1 for side in sides for words in side.texts if not words.strip()),
        "columns_left_out": giveaways,
        **found,
    }
    provenance = {
        "loader": "matching",
        "layout": layout.kind,
        "seed": seed,
        "split": "50/25/25 of the records, by components of the matches; all: both whole tables",
        "template": template or (" | ".join(f"{{{column}}}" for column in text) if text else "all columns"),
        "keys": [layout.left_key, layout.right_key],
        "files": [table.provenance() for table in layout.files],
    }
    return Task(name or default_name, "match", splits, provenance, report)


def _collection(
    table: Table, key: str, left_out: Sequence[str], template: str | None, text: Sequence[str]
) -> Collection:
    keys = keys_of(table, key)
    if template:
        return Collection(keys, from_template(table, template))
    columns = list(text) or [column for column in table.names if column not in (key, *left_out)]
    if not columns:
        raise InputError(
            f"there is no column for the text besides {', '.join(table.names)}",
            where=str(table.path),
            remedy="Name the columns with --text",
        )
    return Collection(keys, joined_columns(table, columns, "--text" if text else ""))


def _giveaways(layout: _Layout) -> list[str]:
    """Columns of both tables that are ids in disguise: whole numbers, none twice, equal in every match."""
    left_rows, right_rows = pair_rows(layout.positives)
    found = []
    for column in sorted(set(layout.left.names) & set(layout.right.names)):
        if column in (layout.left_key, layout.right_key):
            continue
        left, right = layout.left.strings(column), layout.right.strings(column)
        numbers = all(len(set(side)) == len(side) and all(map(str.isdecimal, side)) for side in (left, right))
        pairs = zip(left_rows.tolist(), right_rows.tolist())
        if numbers and all(left[one] == right[other] for one, other in pairs):
            found.append(column)
    return found


def _table_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InputError(
            "there is no such folder" if not folder.exists() else "this is a file, not a folder",
            where=str(folder),
            remedy="Name the folder that holds the two tables and their matches",
        )
    known = set(TABLE_SUFFIXES) - {".txt"}  # beside a benchmark a .txt is its README
    return [file for file in sorted(folder.rglob("*")) if file.is_file() and _suffix(file) in known]


def _suffix(file: Path) -> str:
    return (Path(file.stem) if file.suffix.lower() in _PACKED else file).suffix.lower()


def _stem(file: Path) -> str:
    return file.name.split(".", 1)[0].lower()


def _labelled_layout(files: Sequence[Path], encoding: str | None) -> _Layout | None:
    """DeepMatcher's layout, where one folder holds tableA, tableB and labelled pairs."""
    for table_a in (file for file in files if _stem(file) == "tablea"):
        beside = {_stem(file): file for file in files if file.parent == table_a.parent}
        parts = [beside[part] for part in LABELLED_PARTS if part in beside]
        if "tableb" not in beside or not parts:
            continue
        left = read_table(table_a, encoding=encoding, lenient=True)
        right = read_table(beside["tableb"], encoding=encoding, lenient=True)
        keys = [_named_id(left), _named_id(right)]
        left_ids, right_ids = keys_of(left, keys[0]), keys_of(right, keys[1])
        labelled = [read_table(part, lenient=True) for part in parts]
        for table in labelled:
            table.values("label")  # without it each listed pair would pass for a match
        space = CrossPairs(len(left), len(right))
        owners = (left.path.name, right.path.name)
        stated = [read_stated(table, space, left_ids, right_ids, owners) for table in labelled]
        every = np.concatenate([pairs.ids for pairs in stated])
        is_match = np.concatenate([pairs.labels for pairs in stated])
        return _Layout(
            "labelled pairs (DeepMatcher)",
            left,
            right,
            keys[0],
            keys[1],
            [left, right, *labelled],
            np.unique(every[is_match]),
            np.unique(every[~is_match]),
            len(every),
        )
    return None


def _named_id(table: Table) -> str:
    """The column called id in any case, or the first column whose name starts or ends with it."""
    lowered = {name.lower(): name for name in reversed(table.names)}
    if "id" in lowered:
        return lowered["id"]
    for name in table.names:
        if name.lower().startswith("id") or name.lower().endswith("id"):
            return name
    table.values("id")  # there is none: the error names the nearest and lists the columns
    raise AssertionError("unreachable")


def _mapping_layout(folder: Path, files: Sequence[Path], encoding: str | None) -> _Layout:
    """The Leipzig layout: the mapping is known by its name, else by two columns that are ids elsewhere."""
    tables = {file: read_table(file, encoding=encoding, lenient=True) for file in files}
    named = [file for file in files if any(word in _stem(file) for word in _MAPPING_WORDS)]
    candidates = named or [file for file in files if len(tables[file].names) == 2]
    if not candidates or len(files) < 3:
        raise InputError(
            "the folder is laid out in no known way",
            where=str(folder),
            why=f"it holds {', '.join(file.name for file in files[:6]) or 'no table'}",
            remedy="A benchmark has two tables and one mapping file (…mapping….csv), or tableA, tableB and "
            "train/valid/test; for one table, or other layouts, use 'pairsieve data tables'",
        )
    layouts = [
        _pointed_into(tables[mapping], [tables[file] for file in files if file != mapping])
        for mapping in candidates
    ]
    return _resolve(*max(layouts, key=lambda ends: ends.fit).ends)


@dataclass(frozen=True)
class _Ends:
    """A mapping and where its two columns point; `fit` is larger the better the ids resolve there."""

    fit: float
    ends: tuple[Table, Table, Table, str, str]


def _pointed_into(mapping: Table, tables: Sequence[Table]) -> _Ends:
    """The two tables that the mapping's first two columns point into, told by values, then by names."""
    if len(mapping.names) < 2:
        raise InputError(
            f"the mapping has the single column {mapping.names[0]!r}",
            where=str(mapping.path),
            remedy="Give two columns: the id in the left table and the id in the right table",
        )
    fits = [
        [_id_column(table, mapping.names[side], mapping.strings(mapping.names[side])) for table in tables]
        for side in (0, 1)
    ]
    found = [
        _Ends(fits[0][i][0] + fits[1][j][0], (mapping, left, right, fits[0][i][1], fits[1][j][1]))
        for i, left in enumerate(tables)
        for j, right in enumerate(tables)
        if i != j
    ]
    return max(found, key=lambda ends: ends.fit)  # the first of equals: tables in the order of their names


def _resolve(mapping: Table, left: Table, right: Table, left_key: str, right_key: str) -> _Layout:
    left_ids, right_ids = keys_of(left, left_key), keys_of(right, right_key)
    left_rows = rows_of_keys(mapping, mapping.names[0], left_ids, left.path.name, right_ids)
    right_rows = rows_of_keys(mapping, mapping.names[1], right_ids, right.path.name, left_ids)
    positives = np.unique(pair_ids(left_rows, right_rows))
    none = np.empty(0, np.int64)
    files = [left, right, mapping]
    return _Layout(
        "tables and mapping", left, right, left_key, right_key, files, positives, none, len(mapping)
    )


def _id_column(table: Table, named: str, wanted: Sequence[str]) -> tuple[float, str]:
    """How well the best column of a table serves as the ids `wanted`, and that column.

    The share of ids found counts first, then that no value comes twice, then the names: a column called
    id, and a table whose name stands in the mapping's column (idAbt and Abt.csv).
    """
    distinct = set(wanted)
    stem, named = _stem(table.path).rstrip("0123456789"), named.lower()
    akin = stem in named or (named.removeprefix("id") or "?") in stem
    best = (-1.0, "")
    for column in table.names:
        values = table.strings(column)
        name = column.lower()
        fit = len(distinct & set(values)) / len(distinct)
        fit += 0.1 * (len(set(values)) == len(values))
        fit += 0.02 * (name == "id") + 0.01 * (name.startswith("id") or name.endswith("id"))
        if fit > best[0]:
            best = (fit, column)
    return best[0] + 0.001 * akin, best[1]

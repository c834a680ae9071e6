"""Loader of entity-matching benchmarks: two tables and their matches, in the layouts they come in.

Two layouts are known, under many names. *Mapping* (Leipzig): two tables and a file that lists every match by
the ids of both. *Labelled pairs* (DeepMatcher, Magellan): two tables and files of pairs with a label, such as
train/valid/test with ltable_id, rtable_id, label; the union of their positives is taken as the truth. Files
may lie in subfolders. Which columns are ids is decided by their values, then by their names; ids are compared
as they are, and, where that fails, as numbers ("7.0" and "007" are 7).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path

import numpy as np

from pairsieve.contracts import generator_for
from pairsieve.errors import InputError
from pairsieve.pairs import Ids, pair_ids, pair_rows
from pairsieve.tasks.archives import TABLE_SUFFIXES, check_folder, unpacked_suffix
from pairsieve.tasks.labelled_pairs import (
    LABEL_COLUMNS,
    MOST_COLUMNS,
    key_rows,
    label_column,
    pair_columns,
    plain_key,
    with_first_row,
)
from pairsieve.tasks.reading import Table, read_labels, read_table
from pairsieve.tasks.records import (
    ALL_COLUMNS,
    TextColumns,
    columns_of,
    fields_of,
    from_template,
    joined_columns,
    keys_of,
    shared_columns,
    shared_kinds,
)
from pairsieve.tasks.task import Collection, Task, split_of
from pairsieve.tasks.truth import need_positives, resolve, split_by_components

SHARES = (50, 25, 25)
LABELLED_PARTS = ("train", "valid", "validation", "dev", "test")
_MAPPING_WORDS = ("mapping", "perfect", "gold", "matches", "truth")


@dataclass(frozen=True)
class _Layout:
    """Two tables with their id columns, and the stated pairs as row numbers."""

    kind: str
    tables: tuple[Table, Table]
    keys: tuple[str, str]
    pair_files: list[Table]
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
    kinds: Mapping[str, str] | None = None,
    encoding: str | None = None,
    seed: int = 0,
    name: str | None = None,
) -> Task:
    """A task from a benchmark folder, or from two tables and a mapping named one by one.

    Splits: train/dev/test by components of the matches, 50/25/25 of the records; and `all`, the whole
    product of both tables. A record's text is its values joined by " | ", without the id and
    without a column that gives the matches away (numbers, each once per table, equal in every match).
    """
    if folder is not None and not (left or right or mapping):
        folder = Path(folder)
        layout = _folder_layout(folder, encoding)
        where, default_name = str(folder), folder.resolve().name
    elif folder is None and left and right and mapping:
        tables = [read_table(Path(path), encoding=encoding, lenient=True) for path in (left, right)]
        layout = _resolve([_pointed_into(read_table(Path(mapping), lenient=True), tables)])
        where, default_name = str(mapping), "matching"
    else:
        what = "name either a benchmark folder, or both tables and their mapping"
        remedy = "Pass the folder alone, or left, right and mapping together"
        raise InputError(what, where="matching", remedy=remedy)
    giveaways = [] if template or text else _giveaways(layout)
    own = zip(layout.tables, layout.keys)
    found_kinds = shared_kinds(shared_columns(layout.tables), layout.keys, kinds or {})
    sides = [_collection(table, key, giveaways, template, text, found_kinds) for table, key in own]
    stated, contradictions = resolve(layout.positives, layout.negatives, layout.positives)
    rng = generator_for(seed, 0, "split")
    splits, found = split_by_components(sides, layout.positives, stated, layout.positives, SHARES, rng)
    splits["all"] = split_of("all", sides, layout.positives, stated, True)
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
        "template": template or (TextColumns(tuple(text)).template if text else ALL_COLUMNS),
        "keys": list(layout.keys),
        "files": [table.provenance() for table in (*layout.tables, *layout.pair_files)],
    }
    return Task(name or default_name, "match", splits, provenance, report)


def _collection(
    table: Table,
    key: str,
    left_out: Sequence[str],
    template: str | None,
    text: Sequence[str],
    kinds: dict[str, str],
) -> Collection:
    keys = keys_of(table, key)
    fields = fields_of(columns_of(table), key, kinds | dict.fromkeys(left_out, "ignore"))
    if template:
        return Collection(keys, from_template(table, template), fields)
    columns = list(text) or [column for column in table.names if column not in (key, *left_out)]
    if not columns:
        what = f"there is no column for the text besides {', '.join(table.names)}"
        raise table.error(what, remedy="Name the columns with `text`")
    texts = joined_columns(table, TextColumns(tuple(columns)), "`text`" if text else "")
    return Collection(keys, texts, fields)


def _giveaways(layout: _Layout) -> list[str]:
    """Columns of both tables that are ids in disguise: whole numbers, none twice, equal in every match."""
    left_rows, right_rows = (rows.tolist() for rows in pair_rows(layout.positives))

    def gives_away(column: str) -> bool:
        left, right = (table.strings(column) for table in layout.tables)
        numbers = all(len(set(side)) == len(side) and all(map(str.isdecimal, side)) for side in (left, right))
        return numbers and all(left[one] == right[other] for one, other in zip(left_rows, right_rows))

    shared = set(layout.tables[0].names) & set(layout.tables[1].names) - set(layout.keys)
    return [column for column in sorted(shared) if gives_away(column)]


def _files(folder: Path) -> list[Path]:
    """The files of a folder without what systems hide there (.DS_Store, ._table.csv, __MACOSX)."""

    def hidden(file: Path) -> bool:
        return any(part.startswith((".", "__MACOSX")) for part in file.relative_to(folder).parts)

    return [file for file in sorted(folder.rglob("*")) if file.is_file() and not hidden(file)]


def _stem(file: Path) -> str:
    return file.name.split(".", 1)[0].lower()


@dataclass(frozen=True)
class _Ends:
    """A file of pairs and where its two id columns point; `fit` is larger the better the ids resolve."""

    fit: float
    pairs: Table
    columns: tuple[str, str]
    tables: tuple[Table, Table]
    keys: tuple[str, str]


def _folder_layout(folder: Path, encoding: str | None) -> _Layout:
    """Labelled pairs where a file has their columns; else a mapping, known by its name or by its values."""
    check_folder(folder, "Name the folder that holds the two tables and their matches")
    kinds = set(TABLE_SUFFIXES) - {".txt"}  # beside a benchmark a .txt is its README
    files = [file for file in _files(folder) if unpacked_suffix(file) in kinds]
    tables = {file: read_table(file, encoding=encoding, lenient=True) for file in files}
    labelled = [file for file in files if pair_columns(tables[file])]
    named = [file for file in labelled if _stem(file) in LABELLED_PARTS]
    if named:  # beside them an unlabelled list of candidates may lie
        home = _home(named[0], files)
        labelled = [file for file in named if _home(file, files) == home]
        for file in labelled:
            _need_label(tables[file])  # without it each listed pair would pass for a match
    records = [file for file in files if file not in labelled and _stem(file) not in LABELLED_PARTS]
    if named and home is not None:
        records = [file for file in records if file.parent == home]
    if labelled and len(records) >= 2:
        both = [tables[file] for file in records]
        ends = [_pointed_into(tables[file], both) for file in labelled]
        first = max(ends, key=lambda each: each.fit)  # they all speak of the same two tables
        return _resolve([_pointed_into(tables[file], first.tables) for file in labelled])
    names = [file for file in files if any(word in _stem(file) for word in _MAPPING_WORDS)]
    mappings = names or [file for file in files if len(tables[file].names) in (2, 3)]
    if not mappings or len(files) < 3:
        raise _unknown_layout(folder, files, tables)
    ends = [_pointed_into(tables[one], [tables[file] for file in files if file != one]) for one in mappings]
    return _resolve([max(ends, key=lambda each: each.fit)])


def _home(file: Path, files: Sequence[Path]) -> Path | None:
    """The folder at or above a file of labelled pairs that holds tableA and tableB; None where none does."""
    beside: dict[Path, set[str]] = {}
    for each in files:
        beside.setdefault(each.parent, set()).add(_stem(each))
    above = (folder for folder in file.parents if {"tablea", "tableb"} <= beside.get(folder, set()))
    return next(above, None)


def _unknown_layout(folder: Path, files: Sequence[Path], tables: dict[Path, Table]) -> InputError:
    held = ", ".join(file.name for file in files[:6]) or "no table"
    other = [file.name for file in _files(folder) if file not in files][:6]
    joined = [file.name for file in files if _is_joined(tables[file])]
    why = f"it holds {held}" + (f"; not read as tables: {', '.join(other)}" if other else "")
    if joined:
        why += f"; {joined[0]} holds pairs of whole records (left_…, right_…), not ids into two tables"
    return InputError(
        "the folder is laid out in no known way",
        where=str(folder),
        why=why,
        remedy="A benchmark has two tables (CSV, TSV, JSON Lines or Parquet) and one mapping file "
        "(…mapping….csv), or tableA, tableB and train/valid/test with ltable_id, rtable_id, label; name them "
        "one by one with `left`, `right` and `mapping`; for one table, or other layouts, use "
        "'pairsieve data tables'",
    )


def _is_joined(table: Table) -> bool:
    names = [name.lower() for name in table.names]
    return all(any(name.startswith(side) for name in names) for side in ("left_", "right_"))


def _need_label(table: Table) -> None:
    if label_column(table) is None:
        raise InputError(
            "no column holds labels",
            where=f"{table.path}, row 1",
            why=f"the columns are {', '.join(table.names)}; without labels each listed pair would be a match",
            remedy=f"Call it {' or '.join(map(repr, LABEL_COLUMNS[:3]))}; a file that lists matches only is "
            "a mapping: `left`, `right` and `mapping`",
        )


def _pointed_into(pairs: Table, tables: Sequence[Table]) -> _Ends:
    """The two columns of a file of pairs that hold ids, and the two tables and columns they point into.

    Told by values, then by names. The column that stands first points into the left table.
    """
    if len(pairs.names) < 2:
        remedy = "Give two columns: the id in the left table and the id in the right table"
        raise pairs.error(f"the mapping has the single column {pairs.names[0]!r}", remedy=remedy)
    known = pair_columns(pairs)
    label = label_column(pairs)
    columns = [name for name in pairs.names if name != label or len(pairs.names) == 2][:MOST_COLUMNS]
    choices = [known] if known else list(combinations(columns, 2))
    fits = {
        column: [_id_column(table, column, pairs.strings(column)) for table in tables]
        for column in {column for both in choices for column in both}
    }
    # A small table of records may seem to map one column onto ids and one onto names: a mapping has no more.
    spare = 0.05 * (len(columns) - 2)
    found = []
    for a, b in choices:
        for (i, one), (j, other) in permutations(enumerate(tables), 2):
            (left_fit, left_key), (right_fit, right_key) = fits[a][i], fits[b][j]
            fit = left_fit + right_fit - spare
            found.append(_Ends(fit, pairs, (a, b), (one, other), (left_key, right_key)))
    # The first of equals: columns in their order, tables in the order of their names.
    return max(found, key=lambda ends: ends.fit)


def _resolve(files: Sequence[_Ends]) -> _Layout:
    """Rows and labels of every pair listed; each file points into the same two tables."""
    (left, right), (left_key, right_key) = files[0].tables, files[0].keys
    _need_header(left, left_key)
    _need_header(right, right_key)
    ids = keys_of(left, left_key), keys_of(right, right_key)
    every, is_match = [], []
    for ends in files:
        pairs = with_first_row(ends.pairs, *ids)
        columns = ends.columns
        if pairs is not ends.pairs:
            one, other = (pairs.names[ends.pairs.names.index(column)] for column in ends.columns)
            columns = one, other
        left_rows = key_rows(pairs, columns[0], ids[0], left.path.name, ids[1])
        right_rows = key_rows(pairs, columns[1], ids[1], right.path.name, ids[0])
        label = label_column(pairs)
        matching = read_labels(pairs, label) if label not in (None, *columns) else [True] * len(pairs)
        every.append(pair_ids(left_rows, right_rows))
        is_match.append(np.array(matching, dtype=bool))
    stated, labels = np.concatenate(every), np.concatenate(is_match)
    kind = "labelled pairs" if label_column(files[0].pairs) else "tables and mapping"
    pair_files = [ends.pairs for ends in files]
    positives, negatives = np.unique(stated[labels]), np.unique(stated[~labels])
    tables, keys = (left, right), (left_key, right_key)
    return _Layout(kind, tables, keys, pair_files, positives, negatives, len(stated))


def _need_header(table: Table, key: str) -> None:
    """Refuse a table whose first row is a record: its key has an id's shape, another cell is no name."""
    shapes = Counter(_shape(value) for value in table.strings(key)[:1000])
    if not table.delimiter or _shape(key) != shapes.most_common(1)[0][0] or not re.search(r"\d", key):
        return
    others = [name for name in table.names if name != key]
    if not any(name and (plain_key(name).isdecimal() or name in table.strings(name)) for name in others):
        return
    what, why = "the first row is a record, not a header", f"it begins {', '.join(table.names[:3])}"
    remedy = "Put the column names in the first row"
    raise InputError(what, where=f"{table.path}, row 1", why=why, remedy=remedy)


def _shape(key: str) -> str:
    """The kinds of characters in a row: "a" for letters, "9" for digits, all else as it is."""
    return re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", key.strip()))


def _id_column(table: Table, named: str, wanted: Sequence[str]) -> tuple[float, str]:
    """How well the best column of a table serves as the ids `wanted`, and that column.

    The share of ids found counts first, then that no value comes twice, then the names: a column called
    id, and a table whose name stands in the mapping's column (idAbt and Abt.csv).
    """
    distinct = {plain_key(key) for key in wanted}
    stem, named = _stem(table.path).rstrip("0123456789"), named.lower()
    akin = stem in named or (named.removeprefix("id") or "?") in stem
    # ltable_id points into tableA, rtable_id into tableB.
    akin = akin or (stem, named[:1]) in (("tablea", "l"), ("tableb", "r"), ("a", "l"), ("b", "r"))
    best = (-1.0, "")
    for column in dict.fromkeys(table.names):
        values = table.strings(column) if table.names.count(column) == 1 else []
        name = column.lower()
        fit = len(distinct & {plain_key(value) for value in values}) / max(len(distinct), 1)
        fit += 0.1 * (len(set(values)) == len(values) > 0)
        fit += 0.02 * (name == "id") + 0.01 * (name.startswith("id") or name.endswith("id"))
        if fit > best[0]:
            best = (fit, column)
    return best[0] + 0.001 * akin, best[1]

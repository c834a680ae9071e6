"""Loader of a user's own data: one table (find its duplicates) or two (match them), with matches or labels.

Unlike the benchmarks, a user's own table is read strictly: whatever is in doubt is an error that names the
file, the row, the column or key, and the way out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.contracts import generator_for
from pairsieve.errors import InputError
from pairsieve.pairs import AcrossPairs, AllPairs, CrossPairs, Ids, PairSpace
from pairsieve.tasks.frames import UNNAMED_INDEX
from pairsieve.tasks.labelled_pairs import LabelledPairs, names_keys, read_labelled_pairs
from pairsieve.tasks.opening import Ways, described, is_place, open_pairs, open_table, stacked
from pairsieve.tasks.reading import Table
from pairsieve.tasks.records import (
    collection_of,
    compared_only,
    keys_of,
    shared_columns,
    shared_kinds,
    text_columns,
)
from pairsieve.tasks.task import RELATIONS, Task, split_of
from pairsieve.tasks.truth import (
    closure,
    components,
    need_positives,
    read_shares,
    resolve,
    split_by_components,
)


@dataclass(frozen=True)
class Side:
    """How to read one table: `text` columns or a `template`, a `key` column, and the file's own ways.

    path: a file, a URL, a database, or any shape in memory that `frames.table_in_memory` takes.
    """

    path: Any
    text: Sequence[str] = ()
    template: str | None = None
    key: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    quotes: bool = True
    header: bool | None = None
    sheet: str | None = None
    query: str | None = None

    @property
    def ways(self) -> Ways:
        return Ways(self.encoding, self.delimiter, self.quotes, self.header, self.sheet, self.query)


def tables_task(
    left: Any,
    right: Any = None,
    *,
    text: Sequence[str] | str = (),
    template: str | None = None,
    key: str | None = None,
    kinds: Mapping[str, str] | None = None,
    source: str | None = None,
    also: Any = (),
    within_sources: bool = False,
    matches: Any = None,
    labels: Any = None,
    relation: str | None = None,
    split: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    quotes: bool = True,
    header: bool | None = None,
    sheet: str | None = None,
    query: str | None = None,
    matches_query: str | None = None,
    labels_query: str | None = None,
    seed: int = 0,
    name: str | None = None,
) -> Task:
    """A task from a user's own table or two; a `Side` in place of a table has its own columns and ways.

    A table is a file (CSV, TSV, JSON Lines, Parquet, Excel), its URL, a database's URL with `query`, or in
    memory a pandas or polars frame, an Arrow table or stream, a Hugging Face Dataset, a list of dictionaries
    or a dictionary of columns. Matches and labels have these shapes too, or are pairs of keys.

    text: columns of the text, joined by " | "; "all" is every column but the key and those to ignore, of
    which categories that say little for their length are compared and not read by the encoder; without it,
    the column `text`, else all. kinds: {column: kind} for fields that are guessed
    wrongly. key: its column; without it that of a frame's index or of the matches, else the row numbers.
    source: the column that names where each row is from; also: further tables, each a source like the first.
    Pairs within one source are then no pairs, unless `within_sources`.
    matches: every matching pair (the truth; closed transitively within one table). labels: some pairs with
    labels. split: shares such as "50/25/25", or "none" for one split `all`; the default is 50/25/25 with
    matches and none without. Splits never separate a stated pair.
    """
    text = (text,) if isinstance(text, str) else tuple(text)
    shared = Side(None, text, template, key, encoding, delimiter, quotes, header, sheet, query)
    sides = [_side(side, shared) for side in (left, right) if side is not None]
    kind = _relation(relation, len(sides))
    _check_different(sides)
    tables = [open_table(side.path, name, side.ways) for side, name in zip(sides, ("table", "right table"))]
    if also:
        _check_also(right, source)
        more = [open_table(each, f"table {at}", sides[0].ways) for at, each in enumerate(also, 2)]
        joined_table, source = stacked([tables[0], *more], sides[0].key)
        tables = [joined_table]
    elif source is not None and len(sides) == 2:
        remedy = "Leave `source` out: pairs are between the two tables anyway"
        raise InputError("`source` with two tables", remedy=remedy)
    stated_in = {
        what: open_pairs(source, what, Ways(query=its_query))
        for what, source, its_query in (("matches", matches, matches_query), ("labels", labels, labels_query))
        if source is not None
    }
    pair_files = list(stated_in.values())
    sides = [
        _with_columns(side, table, pair_files, None if len(sides) == 1 else at)
        for at, (side, table) in enumerate(zip(sides, tables))
    ]
    values = shared_columns(tables)
    chosen = shared_kinds(values, [side.key for side in sides], kinds or {})
    unreadable = [name for name in dict.fromkeys(tables[0].names + tables[-1].names) if name not in values]
    left_out = [name for name, kind in chosen.items() if kind == "ignore" or name == source] + unreadable
    across = None if within_sources else source
    beside = compared_only(values, chosen)
    columns = [
        text_columns(table, side.text, side.key, left_out, beside) for table, side in zip(tables, sides)
    ]
    collections = [
        collection_of(table, text, side.template, side.key, chosen, across)
        for table, text, side in zip(tables, columns, sides)
    ]
    one, other = collections[0], collections[-1]
    space: PairSpace = CrossPairs(len(one), len(other)) if len(sides) == 2 else AllPairs(len(one))
    if one.sources is not None:
        space = AcrossPairs(len(one), one.sources)
    if space.size == 0:
        what, remedy = "the table has one row, and a pair needs two", "Give a table with at least two rows"
        raise InputError(what, where=described(tables[0], "table"), remedy=remedy)
    owners = (tables[0].path.name, tables[-1].path.name)
    stated = [
        read_labelled_pairs(stated_in[what], space, one.keys, other.keys, owners, what == "matches")
        if what in stated_in
        else LabelledPairs.none()
        for what in ("matches", "labels")
    ]
    has_truth = matches is not None
    where = next((described(each, what) for what, each in stated_in.items()), described(tables[0], "table"))
    positives = np.union1d(stated[0].positives, stated[1].positives)
    negatives = stated[1].negatives
    closed = closure(len(one), positives, where) if has_truth and space.symmetric else positives
    stated_negatives, contradictions = resolve(positives, negatives, closed)
    all_closed, closed = len(closed), closed[space.contains(closed)]
    stated_negatives = stated_negatives[space.contains(stated_negatives)]
    shares = split or ("50/25/25" if has_truth else "none")
    joined = np.union1d(positives, negatives)
    known = closed, stated_negatives
    found: dict[str, Any] = {}
    if shares == "none":
        splits = {"all": split_of("all", collections, *known, has_truth)}
    else:
        rng = generator_for(seed, 0, "split")
        splits, found = split_by_components(collections, *known, joined, read_shares(shares), rng, has_truth)
    if has_truth or (labels is not None and shares != "none"):
        need_positives(splits, where, _remedy(space, joined))
    report: dict[str, Any] = {"texts": [len(collection) for collection in collections]}
    if any(unreadable):
        report["columns_without_texts"] = [name for name in unreadable if name]
    if has_truth:
        report["known_matches"] = len(stated[0].positives)
        report["matches_added_by_closure"] = all_closed - len(positives)
    if one.sources is not None:
        report["sources"] = int(one.sources.max()) + 1
        report["matches_within_a_source"] = all_closed - len(closed)
    if labels is not None:
        report["labelled_pairs"] = len(np.unique(stated[1].ids))
        report["rows_without_label"] = stated[1].unlabelled
        if stated[1].unlabelled:
            report["first_row_without_label"] = stated[1].first_unlabelled
        report |= contradictions
    if has_truth and labels is not None:
        report["labelled_matches_not_among_known"] = len(positives) - len(stated[0].positives)
    rows = sum(len(pairs.ids) for pairs in stated)
    report["repeated_rows"] = (
        rows - len(stated[0].positives) - len(stated[1].positives) - len(stated[1].negatives)
    )
    provenance = {
        "loader": "tables",
        "seed": seed,
        "split": shares,
        "text": [side.template or text.template for side, text in zip(sides, columns)],
        "keys": [side.key or "row number from 0" for side in sides],
        **({"source": source, "within_sources": within_sources} if source is not None else {}),
        "files": [table.provenance() for table in (*tables, *pair_files)],
    }
    default_name = tables[0].path.name.split(".", 1)[0] or "tables"
    return Task(name or default_name, kind, splits, provenance, report | found)


def _side(side: Any, shared: Side) -> Side:
    """A side with what it leaves open filled in from the options that hold for both."""
    if not isinstance(side, Side):
        side = Side(side, quotes=shared.quotes)
    own = bool(side.text) or side.template is not None
    text = side.text if own else shared.text
    template = side.template if own else shared.template
    if text and template:
        what = "a text is made of columns or of a template, not of both"
        remedy = 'Name the columns in the template, as "{title} by {author}"'
        raise InputError(what, where="`text`, `template`", remedy=remedy)
    return Side(
        side.path,
        text,
        template,
        side.key if side.key is not None else shared.key,
        side.encoding or shared.encoding,
        side.delimiter or shared.delimiter,
        side.quotes and shared.quotes,
        side.header if side.header is not None else shared.header,
        side.sheet or shared.sheet,
        side.query or shared.query,
    )


def _check_also(right: Any, source: str | None) -> None:
    for name, given in (("right", right), ("source", source)):
        if given is not None:
            why = "with `also` every table is a source, and all of them are one collection"
            raise InputError(f"`also` and `{name}` together", why=why, remedy=f"Leave `{name}` out")


def _with_columns(side: Side, table: Table, pair_files: Sequence[Table], at: int | None) -> Side:
    """A side with its key and text columns, where it leaves them open.

    The key is what the source itself calls so, or the column called id whose values the stated pairs name, or
    the only column with their values. The text is the column `text`, or, where there is none, all columns.
    at: 0 or 1 of two tables, None of one.
    """

    def named(keys: Sequence[str]) -> bool:
        return all(names_keys(pairs, {*keys}, at) for pairs in pair_files)

    key = side.key or table.key
    counted = key == UNNAMED_INDEX and side.key is None  # numbers that a filtered or sorted frame has left
    if pair_files and (key is None or counted):
        by_name = _id_column(table)
        if by_name is not None and _distinct(table, by_name) and named(table.strings(by_name)):
            if counted and named(table.strings(UNNAMED_INDEX)):
                what = f"the pairs may name the frame's index or its column {by_name!r}"
                raise table.error(what, remedy=f"Pass `key={by_name!r}`, or `key='index'`")
            key = by_name
        elif key is None and not named(keys_of(table, None)):
            fitting = [name for name in table.names if _distinct(table, name) and named(table.strings(name))]
            key = fitting[0] if len(fitting) == 1 else None
    text = side.text or (() if side.template else ("text",) if "text" in table.names else ("all",))
    return replace(side, key=key, text=text)


def _distinct(table: Table, column: str) -> bool:
    return len({*table.strings(column)}) == len(table)


def _id_column(table: Table) -> str | None:
    """The one column called id, key or unique_id, or after the table (book_id in books.csv)."""
    stem = table.path.name.split(".", 1)[0].lower().rstrip("s")
    known = ("id", "key", "unique_id", "uid", f"{stem}_id", f"{stem}id")
    found = [name for name in table.names if name.lower().replace(" ", "_") in known]
    return found[0] if len(found) == 1 else None


def _relation(relation: str | None, tables: int) -> str:
    fitting = ("equivalence",) if tables == 1 else ("match", "directed")
    chosen = relation or fitting[0]
    if chosen not in fitting:
        given, other = ("one table", "two tables")[:: 1 if tables == 1 else -1]
        needs = f"the relation {chosen!r} needs {other}"
        raise InputError(
            needs if chosen in RELATIONS else f"there is no relation {chosen!r}",
            where="`relation`",
            why="; ".join(f"{name}: {meaning}" for name, meaning in RELATIONS.items()),
            remedy=f"With {given} use {' or '.join(fitting)}",
        )
    return chosen


def _check_different(sides: Sequence[Side]) -> None:
    one, other = sides[0], sides[-1]
    if len(sides) == 2 and is_place(one.path) and is_place(other.path):
        same = Path(one.path).resolve() == Path(other.path).resolve()
        same = same and (one.sheet, one.query) == (other.sheet, other.query)
    else:
        same = len(sides) == 2 and one.path is other.path
    if same:
        what = f"both tables are the same{' file' if is_place(one.path) else ''}"
        where = described(one.path, "table")
        why = "the pairs within one table are unordered, and a row is no pair with itself"
        remedy = "Leave `right` out to find the duplicates of one table"
        raise InputError(what, where=where, why=why, remedy=remedy)


def _remedy(space: PairSpace, joined: Ids) -> str:
    """What to do about a split without positives: it depends on whether one group holds them all."""
    count = sum(space.shape) if not space.symmetric else space.shape[0]
    offset = 0 if space.symmetric else space.shape[0]
    sizes = np.bincount(components(count, joined >> 32, (joined & (2**32 - 1)) + offset), minlength=1)
    return (
        f"The stated pairs join up to {int(sizes.max()):,} of {count:,} texts into one group, and a group is "
        "never parted. State more pairs, or pass `split='none'`"
    )

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
from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace
from pairsieve.tasks.canonical import canonical_table
from pairsieve.tasks.labelled_pairs import LabelledPairs, read_labelled_pairs
from pairsieve.tasks.reading import Table, read_table
from pairsieve.tasks.records import collection_of, joined_template, shared_kinds, text_columns
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
    """How to read one table: `text` columns or a `template`, a `key` column, and the file's own ways."""

    path: Path | str | Table
    text: Sequence[str] = ()
    template: str | None = None
    key: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    quotes: bool = True


def tables_task(
    left: Path | str | Side,
    right: Path | str | Side | None = None,
    *,
    text: Sequence[str] = (),
    template: str | None = None,
    key: str | None = None,
    kinds: Mapping[str, str] | None = None,
    matches: Path | str | Table | None = None,
    labels: Path | str | Table | None = None,
    relation: str | None = None,
    split: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    quotes: bool = True,
    seed: int = 0,
    name: str | None = None,
) -> Task:
    """A task from a user's own table or two; a `Side` in place of a path has its own columns and ways.

    text: columns of the text, joined by " | "; ["all"] is every column but the key. kinds: {column: kind} for
    fields whose kind is guessed wrongly.
    matches: every matching pair (the truth; closed transitively within one table). labels: some pairs with
    labels. split: shares such as "50/25/25", or "none" for one split `all`; the default is 50/25/25 with
    matches and none without. Splits never separate a stated pair.
    """
    shared = Side(Path(), tuple(text), template, key, encoding, delimiter, quotes)
    sides = [_side(side, shared) for side in (left, right) if side is not None]
    kind = _relation(relation, len(sides))
    _check_different(sides)
    tables = [
        _opened(side.path, encoding=side.encoding, delimiter=side.delimiter, quotes=side.quotes)
        for side in sides
    ]
    sides = [_with_text(side, table) for side, table in zip(sides, tables)]
    chosen = shared_kinds(tables, [side.key for side in sides], kinds or {})
    left_out = [name for name, kind in chosen.items() if kind == "ignore"]
    columns = [text_columns(table, side.text, side.key, left_out) for table, side in zip(tables, sides)]
    collections = [
        collection_of(table, text, side.template, side.key, chosen)
        for table, text, side in zip(tables, columns, sides)
    ]
    one, other = collections[0], collections[-1]
    space: PairSpace = CrossPairs(len(one), len(other)) if len(sides) == 2 else AllPairs(len(one))
    owners = (tables[0].path.name, tables[-1].path.name)
    files = list(tables)
    stated = []
    for path, only_matches in ((matches, True), (labels, False)):
        if path is None:
            stated.append(LabelledPairs(np.empty(0, np.int64), np.empty(0, bool)))
        else:
            table = _opened(path, lenient=True)
            files.append(table)
            stated.append(read_labelled_pairs(table, space, one.keys, other.keys, owners, only_matches))
    has_truth = matches is not None
    where = _words(matches or labels or sides[0].path)
    positives = np.union1d(stated[0].positives, stated[1].positives)
    negatives = stated[1].negatives
    closed = closure(len(one), positives, where) if has_truth and space.symmetric else positives
    stated_negatives, contradictions = resolve(positives, negatives, closed)
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
    if has_truth:
        report["known_matches"] = len(stated[0].positives)
        report["matches_added_by_closure"] = len(closed) - len(positives)
    if labels is not None:
        report["labelled_pairs"] = len(np.unique(stated[1].ids))
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
        "text": [side.template or joined_template(text) for side, text in zip(sides, columns)],
        "keys": [side.key or "row number from 0" for side in sides],
        "files": [table.provenance() for table in files],
    }
    default_name = tables[0].path.name.split(".", 1)[0] or "tables"
    return Task(name or default_name, kind, splits, provenance, report | found)


def _opened(source: Path | str | Table, **ways: Any) -> Table:
    return canonical_table(source if isinstance(source, Table) else read_table(Path(source), **ways))


def _with_text(side: Side, table: Table) -> Side:
    """A side that says nothing of its text reads the column `text`, or, where there is none, every column."""
    if side.text or side.template:
        return side
    return replace(side, text=("text",) if "text" in table.names else ("all",))


def _words(source: Path | str | Table) -> str:
    return str(source.path if isinstance(source, Table) else source)


def _side(side: Path | str | Side, shared: Side) -> Side:
    """A side with what it leaves open filled in from the options that hold for both."""
    if not isinstance(side, Side):
        side = Side(Path(side), quotes=shared.quotes)
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
    )


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
    files = [Path(side.path).resolve() for side in sides if not isinstance(side.path, Table)]
    if len(files) == 2 and files[0] == files[1]:
        what, where = "both tables are the same file", _words(sides[0].path)
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

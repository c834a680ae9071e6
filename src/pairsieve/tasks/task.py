"""Task, split and collection: one pair space per split, its texts, and what is known about its pairs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pairsieve.pairs import AcrossPairs, AllPairs, CrossPairs, Ids, PairSpace, Rows, is_member, pair_rows
from pairsieve.tasks.fields import Fields, StoredFields
from pairsieve.tasks.joined import without_gaps

RELATIONS = {
    "equivalence": "one collection; matching is symmetric and transitive (duplicates)",
    "match": "two collections of records; a pair matches when both describe the same thing",
    "directed": "two collections; the left asks, the right answers",
}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Collection:
    """Texts with keys, in order: row number r has key `keys[r]` and text `texts[r]`.

    `fields` are the columns of the table that the texts were rendered from; None for plain texts. sources:
    (n,) the number of each text's source, where pairs within one source are no pairs.
    """

    keys: Sequence[str]
    texts: Sequence[str]
    columns: Fields | StoredFields | None = field(default=None, compare=False)
    sources: Rows | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(self.keys))
        object.__setattr__(self, "texts", tuple(self.texts))
        if len(self.keys) != len(self.texts):
            raise ValueError(f"{len(self.keys):,} keys but {len(self.texts):,} texts")
        if isinstance(self.columns, Fields) and len(self.columns) != len(self.keys):
            raise ValueError(f"{len(self.keys):,} keys but {len(self.columns):,} rows of fields")

    def __repr__(self) -> str:
        fields = "" if self.columns is None else f", fields {', '.join(self.columns.kinds)}"
        return f"<Collection of {len(self):,} texts{fields}>"

    @cached_property
    def fields(self) -> Fields | None:
        """The fields, read from disk the first time they are asked for."""
        return self.columns.load() if isinstance(self.columns, StoredFields) else self.columns

    @property
    def kinds(self) -> dict[str, str]:
        """{column: kind} of the fields; empty for plain texts."""
        return {} if self.columns is None else dict(self.columns.kinds)

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: Ids) -> Collection:
        """The rows given, in that order."""
        numbers = rows.tolist()
        fields = None if self.fields is None else self.fields.take(rows)
        sources = None if self.sources is None else self.sources[rows]
        return Collection([self.keys[r] for r in numbers], [self.texts[r] for r in numbers], fields, sources)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over keys, texts (each preceded by its length) and sources; fields have their own."""
        digest = hashlib.sha256()
        for strings in (self.keys, self.texts):
            encoded = [string.encode() for string in strings]
            digest.update(np.array([len(encoded), *map(len, encoded)], dtype="<i8").tobytes())
            digest.update(b"".join(encoded))
        if self.sources is not None:
            digest.update(b"sources" + self.sources.astype("<i8").tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Split:
    """One pair space and what is known of it. `left` and `right` are one object in `AllPairs`.

    `positives` and `stated_negatives`: sorted, distinct ids without a common pair. With `has_truth` every
    pair outside `positives` is a negative; without it, it is unknown.
    """

    name: str
    space: PairSpace
    left: Collection
    right: Collection
    positives: Ids
    stated_negatives: Ids
    has_truth: bool

    def __post_init__(self) -> None:
        if not _PLAIN_NAME.fullmatch(self.name):
            raise ValueError(f"the split name {self.name!r} cannot name a folder: use letters and digits")
        if self.space.shape != (len(self.left), len(self.right)):
            raise ValueError(
                f"split {self.name}: a space of {self.space.shape[0]:,} × {self.space.shape[1]:,} "
                f"over {len(self.left):,} × {len(self.right):,} texts"
            )
        if self.space.symmetric and self.left is not self.right:
            raise ValueError(f"split {self.name}: all pairs of one collection need one collection, not two")
        for known in ("positives", "stated_negatives"):
            ids = getattr(self, known)
            if len(ids) and not (self.space.contains(ids).all() and (np.diff(ids) > 0).all()):
                raise ValueError(f"split {self.name}: {known} must be sorted, distinct pairs of its space")
        if is_member(self.stated_negatives, self.positives).any():
            raise ValueError(f"split {self.name}: a pair stands in positives and in stated_negatives")

    def __repr__(self) -> str:
        sides = f"{len(self.left):,}" + ("" if self.space.symmetric else f" × {len(self.right):,}")
        known = f", {len(self.positives):,} positive" if self.has_truth or len(self.positives) else ""
        return f"<Split {self.name}: {sides} texts, {self.space.size:,} pairs{known}>"

    def keys(self, ids: Ids) -> tuple[list[str], list[str]]:
        """Left and right keys of pairs, in the order given."""
        sides = zip((self.left, self.right), pair_rows(ids))
        left, right = ([side.keys[row] for row in rows.tolist()] for side, rows in sides)
        return left, right

    def texts(self, ids: Ids) -> tuple[list[str], list[str]]:
        """Left and right texts of pairs for a person, in the order given: no gaps for missing values."""
        sides = zip((self.left, self.right), pair_rows(ids))
        left, right = ([without_gaps(side.texts[row]) for row in rows.tolist()] for side, rows in sides)
        return left, right

    @property
    def ratio(self) -> float | None:
        """All pairs per positive pair: the N of "1:N"; None without positives."""
        return self.space.size / len(self.positives) if len(self.positives) else None

    def counts(self) -> dict[str, Any]:
        """The row of the data table: texts, pairs, positives, ratio, stated negatives."""
        return {
            "left": len(self.left),
            "right": len(self.right),
            "pairs": self.space.size,
            "positives": len(self.positives),
            "ratio": self.ratio,
            "stated_negatives": len(self.stated_negatives),
        }


@dataclass(frozen=True, eq=False)
class Task:
    """Splits under one relation, where they came from (`provenance`), and what was found (`report`)."""

    name: str
    relation: str
    splits: dict[str, Split]
    provenance: dict[str, Any]
    report: dict[str, Any]

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise ValueError(f"unknown relation {self.relation!r}; known: {', '.join(RELATIONS)}")
        for name, split in self.splits.items():
            if name != split.name:
                raise ValueError(f"the split called {name!r} calls itself {split.name!r}")
            if split.space.symmetric != (self.relation == "equivalence"):
                raise ValueError(f"split {name}: the relation {self.relation} does not fit its pair space")

    def __repr__(self) -> str:
        splits = "; ".join(repr(split)[7:-1] for split in self.splits.values())
        return f"<Task {self.name} ({self.relation}): {splits}>"

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over the relation and the contents of the splits; the task's name is not part of it."""
        digest = hashlib.sha256(f"{self.relation}\n".encode())
        for name in sorted(self.splits):
            split = self.splits[name]
            head = [name, split.space, split.has_truth, split.left.fingerprint, split.right.fingerprint]
            head += [side.columns.fingerprint for side in (split.left, split.right) if side.columns]
            digest.update(f"{head}\n".encode())
            for ids in (split.positives, split.stated_negatives):
                digest.update(f"{len(ids)}\n".encode() + ids.astype("<i8").tobytes())
        return digest.hexdigest()


def one_collection(name: str, texts: Collection, positives: Ids, negatives: Ids, has_truth: bool) -> Split:
    """A split over all pairs of one collection, or those between its sources."""
    count, sources = len(texts), texts.sources
    space = AllPairs(count) if sources is None else AcrossPairs(count, sources)
    return Split(name, space, texts, texts, positives, negatives, has_truth)


def two_collections(
    name: str, left: Collection, right: Collection, positives: Ids, negatives: Ids, has_truth: bool
) -> Split:
    """A split over the cross product of two collections."""
    return Split(name, CrossPairs(len(left), len(right)), left, right, positives, negatives, has_truth)


def split_of(
    name: str, collections: Sequence[Collection], positives: Ids, negatives: Ids, has_truth: bool
) -> Split:
    """A split over one collection or two."""
    if len(collections) == 1:
        return one_collection(name, collections[0], positives, negatives, has_truth)
    return two_collections(name, collections[0], collections[1], positives, negatives, has_truth)


def held_out_dev(task: Task, own: Split) -> Split | None:
    """The dev split, if its truth is known, it has matches, and no pair of it can be asked about in `own`."""
    dev = task.splits.get("dev")
    if dev is None or dev is own or not dev.has_truth or not len(dev.positives):
        return None
    return None if shared_pairs(own, dev) else dev


def non_match_factor(here: Split, there: Split) -> float:
    """How many times as many non-matches a match has in a split as in another one whose texts match alike:
    (pairs / pairs there) / (texts / texts there); as many where two collections share a side.
    """
    if not here.space.symmetric and (
        here.left.fingerprint == there.left.fingerprint or here.right.fingerprint == there.right.fingerprint
    ):
        return 1.0  # as many more matches as pairs
    return (here.space.size / there.space.size) / (sum(here.space.shape) / sum(there.space.shape))


def shared_pairs(one: Split, other: Split) -> int:
    """How many pairs of texts stand in both splits: the same keys with the same texts on either side."""
    both = [
        len(set(zip(a.keys, a.texts)) & set(zip(b.keys, b.texts)))
        for a, b in ((one.left, other.left), (one.right, other.right))
    ]
    if one.space.symmetric != other.space.symmetric:
        return 0
    return AllPairs(both[0]).size if one.space.symmetric else both[0] * both[1]

"""Loads what a service answers by: a scorer over its collection, with the recorded changes laid over it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pairsieve.serving.index import Index
from pairsieve.serving.opening import LEAST_AGREEMENT, Served, agreement, make_index
from pairsieve.serving.record import Change, Record


@dataclass(frozen=True, eq=False)
class Loaded:
    """A scorer over its collection and all changes, ready to search."""

    served: Served
    index: Index
    fingerprint: str  # of the rows; it takes a while to compute
    alike: bool  # whether a query is embedded as a held text is
    own_keys: frozenset[str]  # of the collection itself
    changes: tuple[int, int, frozenset[str]]  # laid over it: how many, the last one's number, added keys


def load(served: Served, record: Record) -> Loaded:
    """A scorer over its collection, with the recorded changes laid over it."""
    matcher = served.scorer.matcher
    encoder = matcher.encoder_for("left")
    read_alike = matcher.shared and encoder.left_prefix == encoder.right_prefix
    alike = served.side == served.query_side or read_alike
    index, fingerprint = make_index(served), matcher.fingerprint
    changes = embedded(record.read(), served, fingerprint, record)
    index.apply(changes)
    added = frozenset(change.key for change in changes if change.text is not None)
    applied = (len(changes), max((change.number for change in changes), default=0), added)
    return Loaded(served, index, fingerprint, alike, frozenset(served.texts.keys), applied)


def embedded(changes: list[Change], served: Served, model: str, record: Record) -> list[Change]:
    """Changes with rows of a model; what another model embedded is embedded anew, and kept so."""
    matcher, side, width = served.scorer.matcher, served.side, served.rows.shape[1]
    held = [c for c in changes if c.text is not None]
    stale = [c for c in held if c.model != model or c.row is None or len(c.row) != width]
    if held and not stale:  # a fingerprint is what a folder says of itself: some rows are compared too
        rows = np.stack([c.row for c in held if c.row is not None])
        if agreement(matcher, [c.text or "" for c in held], rows, side) < LEAST_AGREEMENT:
            stale = held
    if stale:
        rows = matcher.embed([c.text or "" for c in stale], side)
        fresh = {c.key: replace(c, row=row, model=model) for c, row in zip(stale, rows)}
        record.set_rows(fresh.values())
        changes = [fresh.get(c.key, c) for c in changes]
    return changes

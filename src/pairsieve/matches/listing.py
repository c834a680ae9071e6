"""Lists of matches on disk, however long: collected in bands of scores, each finished band kept.

Pass one counts all pairs by score and cuts the list into bands of a few million pairs. Each band is
collected, sorted (best first, equal scores by smaller id) and kept as an artifact; a run that was killed
finds them again. Then the bands are written out one after the other into a file beside its place, which is
renamed at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve.artifacts import ArtifactStore
from pairsieve.errors import InputError
from pairsieve.files import write_errors
from pairsieve.matches.ranking import Ranking
from pairsieve.pairs import Ids, ScoredPairs, Scores, is_member, pair_rows
from pairsieve.progress import tracked
from pairsieve.tables import read_rows, table_suffix, table_writer
from pairsieve.tasks import Split

BAND = 4_000_000  # pairs of a band, unless more share one fine step of scores
ROWS_AT_ONCE = 100_000  # rows turned into keys and texts together
UNLIKELY = 0.05  # a probability below which a listed pair is counted as one to look at
# The columns of lists and groups that are no strings.
NUMBERS = {"score": "float32", "probability": "float64", "label": "int8", "cluster": "int64", "size": "int64"}
NO_ROOM = "Make room there, or choose another `out`; what was found is kept"


@dataclass(frozen=True)
class WrittenRows:
    """How many pairs a list has, and of which kinds."""

    pairs: int = 0
    true: int = 0  # 0 where no truth is known
    labelled: int = 0  # as matches
    unstated: int = 0  # without a probability
    unlikely: int = 0  # without a label, with a probability below `UNLIKELY`: they are there by their group

    def __add__(self, other: WrittenRows) -> WrittenRows:
        return WrittenRows(*(one + more for one, more in zip(astuple(self), astuple(other))))


@dataclass(frozen=True, eq=False)
class Known:
    """Labelled pairs of the split listed, sorted by id: matches stay in the list, the rest never do."""

    ids: Ids
    labels: NDArray[np.bool_]

    @staticmethod
    def nothing() -> Known:
        return Known(np.empty(0, np.int64), np.empty(0, bool))

    def without(self, ids: Ids) -> Known:
        """Less the pairs `ids` (sorted)."""
        kept = ~is_member(self.ids, ids)
        return Known(self.ids[kept], self.labels[kept])

    @property
    def matches(self) -> Ids:
        return self.ids[self.labels]

    @property
    def others(self) -> Ids:
        return self.ids[~self.labels]


def check_out(path: Path) -> None:
    """Say so before the work is done where the list's file cannot be one."""
    table_suffix(path, "`out`")
    if path.is_dir():
        raise InputError("this is a folder", where=str(path), remedy="Name a file for `out`")


def list_bands(
    store: ArtifactStore, key: Mapping[str, Any], ranking: Ranking, threshold: float, known: Known
) -> Iterator[ScoredPairs]:
    """The list from `threshold` up in bands, best first; inside a band by score, equal scores by smaller id.

    Labelled matches below the threshold come last. `key` names everything the ranking depends on. Unlike
    elsewhere, the ids of these `ScoredPairs` are in the order of the list.
    """
    cuts = band_cuts(ranking, threshold)
    for high, low in zip([np.inf, *cuts], cuts):
        # The upper end belongs to the band before: one float32 step below it is the last score of this one.
        top = np.nextafter(np.float32(high), np.float32(-np.inf)) if np.isfinite(high) else np.float32(1e30)
        band = {**key, "from": float(low), "below": float(high) if np.isfinite(high) else None}

        def build(low: float = low, top: np.float32 = top) -> dict[str, NDArray[Any]]:
            pieces: list[tuple[Ids, Scores]] = []
            ranking.collect(low, float(top), lambda ids, scores: pieces.append((ids, scores)))
            ids = np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in pieces)])
            scores = np.concatenate([np.empty(0, np.float32), *(scores for _, scores in pieces)])
            kept = ~is_member(ids, known.others)
            ids, scores = ids[kept], scores[kept]
            order = np.lexsort((ids, -scores))
            return {"ids": ids[order], "scores": scores[order]}

        yield ScoredPairs(**store.arrays("matches", band, build, mmap=True))
    scores = ranking.scores(known.matches)
    below = scores < np.float32(threshold)
    if below.any():
        order = np.lexsort((known.matches[below], -scores[below]))
        yield ScoredPairs(known.matches[below][order], scores[below][order])


def band_cuts(ranking: Ranking, threshold: float, most: int = BAND) -> list[float]:
    """Lower ends of the bands, descending, the last being the threshold; each holds at most `most` pairs.

    More only where a single fine step of scores holds more.
    """
    edges, reaching = ranking.counts()
    inside = edges > np.float32(threshold)
    edges, reaching = edges[inside][::-1], reaching[inside][::-1]
    cuts: list[float] = []
    done = 0
    for at in range(len(edges)):
        after = int(reaching[at + 1]) if at + 1 < len(edges) else int(reaching[at])
        if after - done > most and int(reaching[at]) > done:
            cuts.append(float(edges[at]))
            done = int(reaching[at])
    return [*cuts, float(np.float32(threshold))]


def first_pairs(bands: Iterator[ScoredPairs], count: int) -> Iterator[ScoredPairs]:
    """The list cut after `count` pairs."""
    for band in bands:
        if count <= 0:
            return
        yield ScoredPairs(band.ids[:count], band.scores[:count])
        count -= len(band)


def list_types(split: Split, texts: bool, columns: bool) -> dict[str, str]:
    """{column: Arrow type} of a list; the columns of both records come last, side by side, without keys."""
    names = [
        "left",
        "right",
        *(["left_text", "right_text"] if texts else []),
        "score",
        "probability",
        "label",
    ]
    types = {name: NUMBERS.get(name, "string") for name in names}
    if columns:
        sides = {"left": split.left.fields, "right": split.right.fields}
        both = dict.fromkeys(name for fields in sides.values() if fields for name in fields.names)
        for name in both:
            for side, fields in sides.items():
                if fields is not None and fields.kinds.get(name, "key") != "key":
                    types.setdefault(f"{side}_{name}", fields.types[name])
    return types


def write_list(
    out: Path,
    bands: Iterator[ScoredPairs],
    split: Split,
    probability: Callable[[Scores], NDArray[np.float64]] | None,
    known: Known,
    texts: bool,
    types: Mapping[str, str],
) -> WrittenRows:
    """Write rows: left, right (keys), texts on request, score, probability (empty where `probability` is
    None, nothing calibrates the score, or gives nan), label where it was given, and the columns of both
    records.

    types: those of `list_types`. Whole or not at all.
    """
    rows = WrittenRows()
    records = [
        (name, side, column)
        for side, collection in (("left", split.left), ("right", split.right))
        for column in collection.kinds
        if (name := f"{side}_{column}") in types and name not in ("left_text", "right_text")[: 2 * texts]
    ]
    with write_errors("the table", out, NO_ROOM), table_writer(out, types) as write:
        for band in tracked(bands, "writing matches"):
            for first in range(0, len(band), ROWS_AT_ONCE):
                ids = np.asarray(band.ids[first : first + ROWS_AT_ONCE])
                scores = np.asarray(band.scores[first : first + ROWS_AT_ONCE])
                left, right = pair_rows(ids)
                columns: dict[str, Sequence[Any]] = dict(zip(("left", "right"), split.keys(ids)))
                if texts:
                    columns |= zip(("left_text", "right_text"), split.texts(ids))
                columns["score"] = [None if np.isneginf(score) else score for score in scores.tolist()]
                labelled = is_member(ids, known.matches)
                unknown = np.full(len(ids), np.nan) if probability is None else probability(scores)
                given = np.where(labelled, 1.0, unknown).tolist()
                columns["probability"] = [None if np.isnan(each) else each for each in given]
                columns["label"] = [1 if sure else None for sure in labelled.tolist()]
                for name, side, column in records:
                    fields = (split.left if side == "left" else split.right).fields
                    assert fields is not None
                    there = left if side == "left" else right
                    columns[name] = fields.typed.column(column).take(there).to_pylist()
                write(columns)
                rows += WrittenRows(
                    len(ids),
                    int(is_member(ids, split.positives).sum()) if split.has_truth else 0,
                    int(labelled.sum()),
                    columns["probability"].count(None),
                    int((~labelled & (unknown < UNLIKELY)).sum()),
                )
    return rows


def read_list(
    path: Path, most: int | None = None, types: Mapping[str, str] = NUMBERS
) -> Iterator[dict[str, Any]]:
    """The first `most` rows (or all) of a written list or table of groups, one dictionary a row, as a stream.

    Numbers are numbers, an empty cell is None, whatever kind of file it is.
    """
    return itertools.islice(read_rows(Path(path), types), most)

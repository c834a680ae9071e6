"""How does a list of matches get to disk, however long it is? In bands of scores, each finished band kept.

Pass one counts all pairs by score and cuts the list into bands of a few million pairs. Each band is
collected, sorted (best first, equal scores by smaller id) and kept as an artifact; a run that was killed
finds them again. Then the bands are written out one after the other into a file beside its place, which is
renamed at the end.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from pairsieve.artifacts import ArtifactStore, load_array, save_array
from pairsieve.errors import InputError
from pairsieve.matches.ranking import Ranking
from pairsieve.pairs import Ids, ScoredPairs, Scores, is_member, pair_rows
from pairsieve.progress import tracked
from pairsieve.tasks import Split

BAND = 4_000_000  # pairs of a band, unless more share one fine step of scores
ROWS_AT_ONCE = 100_000  # rows turned into keys and texts together
KINDS = (".parquet", ".csv", ".jsonl")


@dataclass(frozen=True, eq=False)
class Known:
    """Labelled pairs of the split listed, sorted by id: matches stay in the list, the rest never do."""

    ids: Ids
    labels: NDArray[np.bool_]

    @staticmethod
    def nothing() -> Known:
        return Known(np.empty(0, np.int64), np.empty(0, bool))

    @property
    def matches(self) -> Ids:
        return self.ids[self.labels]

    @property
    def others(self) -> Ids:
        return self.ids[~self.labels]


def check_out(path: Path) -> None:
    """Say so before the work is done where the list's file cannot be one."""
    if path.suffix.lower() not in KINDS:
        raise InputError(
            f"{path.name}: unknown kind of file",
            where="--out",
            remedy=f"Let it end in {', '.join(KINDS)}",
        )
    if path.is_dir():
        raise InputError("this is a folder", where=str(path), remedy="Name a file for --out")


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

        def build(place: Path, low: float = low, top: np.float32 = top) -> None:
            pieces: list[tuple[Ids, Scores]] = []
            ranking.collect(low, float(top), lambda ids, scores: pieces.append((ids, scores)))
            ids = np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in pieces)])
            scores = np.concatenate([np.empty(0, np.float32), *(scores for _, scores in pieces)])
            kept = ~is_member(ids, known.others)
            ids, scores = ids[kept], scores[kept]
            order = np.lexsort((ids, -scores))
            save_array(place / "ids.npy", ids[order])
            save_array(place / "scores.npy", scores[order])

        place = store.get("matches", band, build)
        yield ScoredPairs(
            load_array(place / "ids.npy", mmap=True), load_array(place / "scores.npy", mmap=True)
        )
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


def write_list(
    out: Path,
    bands: Iterator[ScoredPairs],
    part: Split,
    probability: Callable[[Scores], NDArray[np.float64]],
    known: Known,
    texts: bool,
) -> tuple[int, int]:
    """Write rows: left, right (keys), texts on request, score, probability, and label where it was given.

    Returns (rows, true matches among them; 0 without truth). Whole or not at all.
    """
    rows = found = 0
    names = [
        "left",
        "right",
        *(["left_text", "right_text"] if texts else []),
        "score",
        "probability",
        "label",
    ]
    with table_writer(out, names, {"score": "float32", "probability": "float64", "label": "int8"}) as write:
        for band in tracked(bands, "writing matches"):
            for first in range(0, len(band), ROWS_AT_ONCE):
                ids = np.asarray(band.ids[first : first + ROWS_AT_ONCE])
                scores = np.asarray(band.scores[first : first + ROWS_AT_ONCE])
                left, right = (side.tolist() for side in pair_rows(ids))
                columns: dict[str, Sequence[Any]] = {
                    "left": [part.left.keys[row] for row in left],
                    "right": [part.right.keys[row] for row in right],
                }
                if texts:
                    columns["left_text"] = [part.left.texts[row] for row in left]
                    columns["right_text"] = [part.right.texts[row] for row in right]
                columns["score"] = [None if np.isneginf(score) else score for score in scores.tolist()]
                labelled = is_member(ids, known.matches)
                chance = np.where(labelled, 1.0, probability(scores))
                columns["probability"] = chance.tolist()
                columns["label"] = [1 if sure else None for sure in labelled.tolist()]
                write(columns)
                rows += len(ids)
                found += int(is_member(ids, part.positives).sum()) if part.has_truth else 0
    return rows, found


def read_list(path: Path, most: int | None = None) -> Iterator[dict[str, Any]]:
    """The first `most` rows (or all) of a table that `table_writer` wrote, one dictionary a row, as a stream.

    Numbers are numbers, an empty cell is None, whatever kind of file it is.
    """
    return itertools.islice(_rows_from(Path(path)), most)


def _rows_from(path: Path) -> Iterator[dict[str, Any]]:
    check_out(path)
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as parquet:
            for batch in parquet.iter_batches(ROWS_AT_ONCE):
                yield from batch.to_pylist()
        return
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix.lower() == ".jsonl":
            yield from map(json.loads, file)
            return
        for row in csv.DictReader(file):
            yield {name: _number(name, cell) for name, cell in row.items()}


def _number(name: str, cell: str) -> Any:
    """A CSV cell as it was given to the writer; keys and texts stay what they are."""
    if name in ("score", "probability"):
        return float(cell) if cell else None
    if name in ("label", "cluster", "size"):
        return int(cell) if cell else None
    return cell


@contextmanager
def table_writer(
    out: Path, names: Sequence[str], kinds: Mapping[str, str]
) -> Iterator[Callable[[dict[str, Sequence[Any]]], None]]:
    """Takes columns, piece by piece, to a table that is at `out` whole or not at all.

    `kinds` are the Arrow types of the columns that are no strings; None is an empty cell, or null.
    """
    unfinished = out.with_name(f".{out.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.unfinished")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.suffix.lower() == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            schema = pa.schema([(name, pa.type_for_alias(kinds.get(name, "string"))) for name in names])
            with pq.ParquetWriter(unfinished, schema, compression="zstd") as parquet:
                yield lambda columns: parquet.write_table(pa.table(columns, schema=schema))
        else:
            with unfinished.open("w", encoding="utf-8", newline="") as file:
                yield _rows_into(file, out.suffix.lower(), names)
                file.flush()
                os.fsync(file.fileno())
        unfinished.replace(out)
    except OSError as error:
        raise InputError(
            "the table cannot be written",
            where=str(out),
            why=error.strerror or str(error),
            remedy="Make room there, or choose another --out; what was found is kept",
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _rows_into(file: TextIO, kind: str, names: Sequence[str]) -> Callable[[dict[str, Sequence[Any]]], None]:
    if kind == ".csv":
        table = csv.writer(file, lineterminator="\n")
        table.writerow(names)
        return lambda columns: table.writerows(zip(*(columns[name] for name in names)))

    def lines(columns: dict[str, Sequence[Any]]) -> None:
        for row in zip(*(columns[name] for name in names)):
            file.write(json.dumps(dict(zip(names, row)), ensure_ascii=False) + "\n")

    return lines

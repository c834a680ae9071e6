"""A selection round over a million texts on two cores by a Faiss index, with its measured recall.

    python -m experiments.bench.million [--texts 1000000] [--width 384] [--neighbours 100] [--batch 2048]
        [--json]

A synthetic collection; each text is averaged with its nearest, found by an IVF index; the neighbours of each
by an index over the rows so made; its recall against an exact scan of sampled rows; then the batch nearest to
a boundary and the batch of the best, pairs already asked left out. Seconds by phase and the process's peak
memory, embeddings and index included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any
from unittest.mock import patch

import numpy as np

from experiments.bench.synthetic_rows import synthetic_rows
from pairsieve.pairs import AllPairs, Ids, is_member
from pairsieve.scan import open_scan
from pairsieve.scorer.corrections import (
    SMOOTHING_STRENGTH,
    similarity_floor,
    smoothed_all,
    weights_by_nearness,
)
from pairsieve.search import NeighbourSearch, index_neighbours, neighbour_recall

BOUNDARY = 0.6  # where the boundary of a trained matcher would lie
ASKED = 10_000


def main() -> None:
    asked_for = arguments()
    import faiss

    faiss.omp_set_num_threads(asked_for.threads)
    result: dict[str, Any] = {
        key: vars(asked_for)[key] for key in ("texts", "width", "neighbours", "batch", "probes", "threads")
    }
    clock = Clock()
    collection = synthetic_rows(asked_for.texts, asked_for.width, asked_for.texts)
    space = AllPairs(asked_for.texts)
    rng = np.random.default_rng(1)
    asked = asked_pairs(space, collection.positives, rng)
    clock.lap("make the collection")

    def tracked(items: Iterable[Any], words: str) -> Iterable[Any]:
        if words == "searching the index":
            clock.lap("build the index")
        return items

    asked_of = {"lists": asked_for.lists, "probes": asked_for.probes}
    closest, cosines = index_neighbours(space, collection.rows, collection.rows, 1, **asked_of)
    cosines = cosines.reshape(-1)
    weights = weights_by_nearness(cosines, similarity_floor(cosines), SMOOTHING_STRENGTH)
    rows = smoothed_all(collection.rows, collection.rows, closest.reshape(-1), weights)
    clock.lap("smooth with the nearest")
    # The index is built and searched in one call; its progress bar tells where one ends.
    with patch("pairsieve.search.neighbours.tracked", tracked):
        columns, scores = index_neighbours(space, rows, rows, asked_for.neighbours, **asked_of)
    clock.lap("search the index")
    scan = open_scan(space, rows, device="cpu", threads=asked_for.threads)
    recall = neighbour_recall(scan, columns, rng, asked_for.recall_rows)
    clock.lap("measure its recall")
    method = f"Faiss IVF, {asked_for.neighbours} neighbours a row"
    search = NeighbourSearch(space, columns, scores, method, recall)
    near = search.closest(BOUNDARY, asked_for.batch, asked).pairs
    clock.lap("select by boundary")
    best = search.best(asked_for.batch, asked).pairs
    clock.lap("select the best")

    for found in (near, best):
        if len(found) != asked_for.batch or is_member(found.ids, asked).any():
            raise SystemExit("The selection is short, or holds pairs already asked.")
    result |= {
        "pairs": space.size,
        "asked": len(asked),
        "recall": asdict(recall),
        "matches": {
            "boundary": int(is_member(near.ids, collection.positives).sum()),
            "best": int(is_member(best.ids, collection.positives).sum()),
        },
        "seconds": clock.laps,
        "peak_memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,  # Linux counts in KiB
    }
    print(json.dumps(result, indent=2) if asked_for.json else as_table(result))


def asked_pairs(space: AllPairs, positives: Ids, rng: np.random.Generator) -> Ids:
    """Half of them matches, which a search would otherwise find again; half drawn from all pairs."""
    known = rng.choice(positives, min(ASKED // 2, len(positives) // 2), replace=False)
    return np.union1d(known, space.sample(ASKED // 2, rng))


class Clock:
    """Seconds since the last lap, under a name."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._since = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self._since
        self._since = now


def as_table(result: dict[str, Any]) -> str:
    recall, matches = result["recall"], result["matches"]
    size = f"{result['texts']:,} texts, {result['pairs']:,} pairs, {result['width']} dimensions"
    work = f"{result['neighbours']} neighbours a row, {result['batch']:,} pairs selected"
    interval = f"95 % interval {recall['low']:.4f} to {recall['high']:.4f}, {recall['n']} sampled rows"
    lines = [
        f"{size}: {work}, {result['asked']:,} asked before",
        f"  recall of the index           {recall['value']:9.4f}    {interval}",
        *(f"  {name:28}  {seconds:9.1f} s" for name, seconds in result["seconds"].items()),
        f"  all of it                     {sum(result['seconds'].values()):9.1f} s",
        f"  peak resident memory          {result['peak_memory_gib']:9.2f} GiB",
        f"  matches nearest the boundary  {matches['boundary']:9,}    among the best {matches['best']:,}",
    ]
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--neighbours", type=int, default=100)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--lists", type=int, default=0, help="of the index; 0: its default, 4·√texts")
    # The index's own default, a sixteenth of its lists, reads 100 TB at a million texts: hours on two cores.
    parser.add_argument("--probes", type=int, default=8, help="lists looked at for a text; 0: its default")
    parser.add_argument("--recall-rows", type=int, default=500, help="rows whose recall is measured")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Exact nearest neighbours on a CPU beside Faiss's flat index, on the same rows in one run.

    python -m experiments.bench.neighbours_cpu [--texts 43600 100000] [--count 100] [--two-sides]
        [--json FILE]
    python -m experiments.bench.neighbours_cpu --kinds synthetic random [--embeddings FILE.npy …]

`synthetic` rows are like a real collection's; `random` ones have no direction before another, which leaves
the least to pass over by integers. `--embeddings` adds rows of files, cut to the largest number of `--texts`.
Both find, for every row of a collection, its `count` nearest others by the cosine. Faiss finds a text itself
too and is asked for one more. Where a collection has more than `--faiss-rows` rows, Faiss searches for so
many of them, evenly spread, and its time is scaled to all: its work is the same for every row. With
`--two-sides` the collection is searched for the neighbours of another as large, and no pair serves twice. The
answers of 500 rows are compared: they may differ where two cosines are equal to float32's rounding.

A second line has Faiss as fast as its settings make it here: the sizes of the blocks that it multiplies
(`TUNED`), tried on a sample of the rows, each with both of its ways to keep the best.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.bench.claims import Claim, Side, busy, finish, in_turns, parser
from experiments.bench.synthetic_rows import synthetic_rows
from pairsieve.pairs import AllPairs, CrossPairs, PairSpace

ALLOWED_TIMES = 5.0  # as fast as Faiss
COMPARED = 500
TUNED = ((4096, 1024), (1024, 1024), (1024, 4096), (256, 4096), (512, 2048))  # rows asking, rows searched
TRIED = 1024  # rows that ask in trying them
SPARE_GIB = 1.0  # interpreter, libraries and tiles, whatever the size


def main() -> None:
    asked = arguments()
    claims = []
    wanted: list[tuple[str | Path, int]] = [(kind, texts) for kind in asked.kinds for texts in asked.texts]
    wanted += [(file, max(asked.texts)) for file in asked.embeddings]
    for kind, texts in wanted:
        n, width = embeddings(kind, texts, asked.width).shape
        step = max(1, -(-n // asked.faiss_rows))
        source = (kind, texts, asked.width, asked.two_sides)
        sides = [
            Side(ours, source, asked.count, asked.threads),
            Side(faiss_flat, source, asked.count, asked.threads, step, False),
            Side(faiss_flat, source, asked.count, asked.threads, step, True),
        ]
        our_seconds, *peers_seconds = in_turns(sides, asked.repeats)
        scale = n / len(range(0, n, step))
        found, busy_s, _ = sides[0].result
        peer_found = sides[1].result[0]
        same = np.mean([np.isin(a, b).mean() for a, b in zip(found, peer_found)])
        peak, *peers = (side.close() for side in sides)
        # Embeddings as made, as unit rows, shuffled and as integers; candidates; answers (scan/screen.py).
        bound = SPARE_GIB + n * (14 * width * (1 + asked.two_sides) + 8 * (4 * asked.count + 128)) / 2**30
        bound += n * 24 * asked.count / 2**30
        for side, peer_seconds, peers_peak in zip(sides[1:], peers_seconds, peers):
            _, peer_busy_s, settings = side.result
            claims.append(
                Claim(
                    f"Exact {asked.count} nearest of every row, {Path(kind).stem} rows"
                    + (", two collections" if asked.two_sides else ""),
                    "exact scan",
                    our_seconds,
                    f"Faiss IndexFlatIP{settings}" + (f", every {step}th row, scaled" if step > 1 else ""),
                    scale * peer_seconds,
                    scale * peer_seconds / our_seconds,
                    f"at least {ALLOWED_TIMES:.0f}",
                    peak,
                    f"{n:,} texts × {width}, {asked.threads} threads",
                    f"processor seconds {busy_s:.1f} and {scale * peer_busy_s:.1f}, "
                    f"ratio {scale * peer_busy_s / busy_s:.1f}; "
                    f"{same:.4%} of the neighbours of {COMPARED} rows the same; "
                    f"memory bounded by {bound:.2f} GiB, peer's peak {peers_peak:.2f} GiB; {busy()}",
                )
            )
        if peak > bound:
            raise SystemExit(f"Peak memory {peak:.2f} GiB is above the bound of {bound:.2f} GiB.")
        if same < 0.999:
            raise SystemExit(f"Only {same:.4%} of the neighbours are those that Faiss found.")
    finish(claims, asked.json)


def ours(source: tuple[Any, ...], count: int, threads: int) -> Callable[[], Any]:
    """Our exact neighbours: the scan of a pair space."""
    from pairsieve.scan.cpu import CpuScan

    left, right, space = both_sides(source)
    few = left[:5000]
    CpuScan(AllPairs(len(few)), few, few, double=False, threads=threads).neighbours(count)  # compiles
    scan = CpuScan(space, left, right, double=False, threads=threads)

    clock = Clock()

    def work() -> tuple[NDArray[np.int64], float, str]:
        columns, _ = clock(lambda: scan.neighbours(count))
        return columns[compared(len(left))], clock.best, ""

    return work


def faiss_flat(
    source: tuple[Any, ...], count: int, threads: int, step: int, tuned: bool
) -> Callable[[], Any]:
    """Faiss's flat index over the same rows, with its own settings or the fastest of those tried."""
    import faiss

    left, right, space = both_sides(source)
    faiss.omp_set_num_threads(threads)
    index = faiss.IndexFlatIP(right.shape[1])
    index.add(right)
    rows = np.ascontiguousarray(left[::step])
    shown = compared(len(left))

    answers = index.search(left[shown], count + space.symmetric)[1]
    settings = ""
    if tuned:
        few = np.ascontiguousarray(left[:: max(1, len(left) // TRIED)])
        costs = {}
        for asking, searched in TUNED:
            for reservoir in (1, 1000):  # from this many wanted on a reservoir keeps them, below it a heap
                way = asking, searched, reservoir
                faiss_settings(*way)
                trial = Clock()
                for _ in range(2):
                    trial(lambda: index.search(few, count + space.symmetric))
                costs[way] = trial.best
        best = min(costs, key=lambda way: costs[way])
        faiss_settings(*best)
        settings = f" tuned: blocks of {best[0]} × {best[1]}, {'reservoir' if best[2] == 1 else 'heap'}"
    clock = Clock()

    def work() -> tuple[NDArray[np.int64], float, str]:
        clock(lambda: index.search(rows, count + space.symmetric))
        return np.asarray(answers), clock.best, settings

    return work


def faiss_settings(asking: int, searched: int, reservoir: int) -> None:
    import faiss

    faiss.cvar.distance_compute_blas_query_bs = asking
    faiss.cvar.distance_compute_blas_database_bs = searched
    faiss.cvar.distance_compute_min_k_reservoir = reservoir


class Clock:
    """The fewest processor seconds that some work took: on a busy machine they tell more than the wall's."""

    def __init__(self) -> None:
        self.best = float("inf")

    def __call__(self, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = work()
        self.best = min(self.best, time.process_time() - start)
        return result


def both_sides(source: tuple[Any, ...]) -> tuple[NDArray[np.float32], NDArray[np.float32], PairSpace]:
    kind, texts, width, two_sides = source
    left = embeddings(kind, texts, width)
    if not two_sides:
        return left, left, AllPairs(len(left))
    right = embeddings(kind, texts, width, 1) if isinstance(kind, str) else np.ascontiguousarray(left[::-1])
    return left, right, CrossPairs(len(left), len(right))


def embeddings(kind: str | Path, texts: int, width: int, seed: int = 0) -> NDArray[np.float32]:
    """Unit rows: synthetic ones, random ones, or the first `texts` of a file."""
    from pairsieve.scan import unit_rows

    if kind == "synthetic":
        return synthetic_rows(texts, width, texts, seed).rows
    if kind == "random":
        rows = np.random.default_rng(seed).standard_normal((texts, width), dtype=np.float32)
    else:
        rows = np.load(kind, mmap_mode="r", allow_pickle=False)[:texts]
    unit: NDArray[np.float32] = unit_rows(rows)
    return unit


def compared(rows: int) -> NDArray[np.int64]:
    """The rows whose answers are compared."""
    return np.linspace(0, rows - 1, min(rows, COMPARED)).astype(np.int64)


def arguments() -> argparse.Namespace:
    arguments = parser(__doc__)
    arguments.add_argument("--texts", type=int, nargs="+", default=[43_600])
    arguments.add_argument("--width", type=int, default=384)
    arguments.add_argument("--count", type=int, default=100)
    arguments.add_argument(
        "--two-sides", action="store_true", help="two collections, so that no pair serves twice"
    )
    arguments.add_argument("--kinds", nargs="*", choices=("synthetic", "random"), default=["synthetic"])
    arguments.add_argument("--embeddings", type=Path, nargs="*", default=[], help="npy files of float rows")
    arguments.add_argument("--faiss-rows", type=int, default=50_000)
    return arguments.parse_args()


if __name__ == "__main__":
    main()

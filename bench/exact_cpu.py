"""What does exactness cost on a CPU? Exact evaluation beside the bare product, Faiss and scikit-learn.

    python bench/exact_cpu.py [--texts 43600] [--width 384] [--positives 57000] [--threads 2] [--json]
    python bench/exact_cpu.py --task FOLDER --split test --embeddings FILE.npz

Without a task it makes a collection of the size of qqp-174k's test split. The bare product is `torch.mm`
over the same 1024 × 1024 tiles, each pair once, timed in two halves around the evaluation, as a machine
shared with others does not keep one speed. Peak memory is the process's own, read when the evaluation
ends: the interpreter, torch and the embeddings are in it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from made_rows import made_rows
from pairsieve.measure.exact import measure_exactly
from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, pair_rows
from pairsieve.scan import open_scan, unit_rows

TILE = 1024
NEIGHBOURS = 100


@dataclass(frozen=True)
class Data:
    """A pair space, its embeddings (`right` is `left` for one collection) and its positives."""

    name: str
    space: PairSpace
    left: NDArray[np.float32]
    right: NDArray[np.float32]
    positives: Ids

    def part(self, most: int) -> Data:
        """At most `most` texts a side, those of the first positives foremost."""
        mine, yours = pair_rows(self.positives)
        if self.space.symmetric:
            rows = columns = _first_distinct(np.stack([mine, yours], 1).ravel(), len(self.left), most)
        else:
            rows = _first_distinct(mine, len(self.left), most)
            columns = _first_distinct(yours, len(self.right), most)
        place, across = np.full(len(self.left), -1), np.full(len(self.right), -1)
        place[rows], across[columns] = np.arange(len(rows)), np.arange(len(columns))
        kept = (place[mine] >= 0) & (across[yours] >= 0)
        left = self.left[rows]
        right = left if self.space.symmetric else self.right[columns]
        space: PairSpace = (
            AllPairs(len(rows)) if self.space.symmetric else CrossPairs(len(rows), len(columns))
        )
        ids = np.sort(space.ids(place[mine[kept]], across[yours[kept]]))
        return Data(self.name, space, left, right, ids)


def main() -> None:
    asked = arguments()
    data = from_task(asked) if asked.task else made(asked)
    warm_up(asked.threads)
    result: dict[str, Any] = {
        "data": data.name,
        "pairs": data.space.size,
        "width": data.left.shape[1],
        "positives": len(data.positives),
        "threads": asked.threads,
        "evaluation": evaluation(data, asked.threads),
        "neighbours": against_faiss(data.part(asked.faiss_texts), asked.threads),
        "average_precision": against_scikit_learn(data.part(asked.sklearn_texts), asked.threads),
    }
    print(json.dumps(result, indent=2) if asked.json else as_table(result))


def evaluation(data: Data, threads: int) -> dict[str, float]:
    """Seconds of the exact evaluation and of the bare product, and the peak memory of the evaluation."""
    tiles = [
        (r, c)
        for r in range(0, data.space.shape[0], TILE)
        for c in range(r if data.space.symmetric else 0, data.space.shape[1], TILE)
    ]
    before = bare_product(data, tiles[::2], threads)
    ours, measures = timed(
        lambda: measure_exactly(
            open_scan(data.space, data.left, data.right, device="cpu", threads=threads), data.positives
        )
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux counts in KiB
    bare = before + bare_product(data, tiles[1::2], threads)
    return {
        "seconds": ours,
        "bare_product_seconds": bare,
        "ratio": ours / bare,
        "peak_memory_gib": peak,
        "average_precision": measures.curve.average_precision(),
    }


def bare_product(data: Data, tiles: list[tuple[int, int]], threads: int) -> float:
    """Seconds of nothing but the products of the tiles, a thread to a tile: the faster way to spread them."""
    import torch

    left, right = torch.as_tensor(data.left), torch.as_tensor(data.right)
    torch.set_num_threads(1)

    def some(mine: list[tuple[int, int]]) -> None:
        torch.set_num_threads(1)
        out = torch.empty(TILE, TILE)
        for r, c in mine:
            rows, columns = left[r : r + TILE], right[c : c + TILE]
            torch.mm(rows, columns.T, out=out[: len(rows), : len(columns)])

    with ThreadPoolExecutor(threads) as pool:
        seconds, _ = timed(lambda: list(pool.map(some, [tiles[k::threads] for k in range(threads)])))
    torch.set_num_threads(threads)
    return seconds


def against_faiss(data: Data, threads: int) -> dict[str, float]:
    """Exact nearest neighbours of every row, by our scan and by Faiss's flat index."""
    import faiss

    faiss.omp_set_num_threads(threads)
    count = min(NEIGHBOURS, data.space.shape[1] - 1)
    own = int(data.space.symmetric)  # Faiss finds a text itself: ask it for one more
    left, right = unit_rows(data.left), unit_rows(data.right)
    scan = open_scan(data.space, data.left, data.right, device="cpu", threads=threads)
    ours, (columns, _) = timed(lambda: scan.neighbours(count))

    def flat() -> NDArray[np.int64]:
        index = faiss.IndexFlatIP(right.shape[1])
        index.add(right)
        found: NDArray[np.int64] = index.search(left, count + own)[1]
        return found

    theirs, found = timed(flat)
    shared = np.mean([np.isin(mine, row).mean() for mine, row in zip(columns, found)])
    return {
        "rows": len(left),
        "columns": len(right),
        "count": count,
        "seconds": ours,
        "faiss_seconds": theirs,
        "shared": float(shared),
    }


def against_scikit_learn(data: Data, threads: int) -> dict[str, float]:
    """AP over all pairs, by one pass and by scikit-learn over every pair written out."""
    from sklearn.metrics import average_precision_score

    ours, value = timed(
        lambda: measure_exactly(
            open_scan(data.space, data.left, data.right, device="cpu", threads=threads), data.positives
        ).curve.average_precision()
    )

    def enumerated() -> float:
        cosines = unit_rows(data.left, np.float64) @ unit_rows(data.right, np.float64).T
        match = np.zeros(cosines.shape, bool)
        match[pair_rows(data.positives)] = True
        pairs = np.triu_indices(len(cosines), 1) if data.space.symmetric else np.indices(cosines.shape)
        at = tuple(pairs)
        return float(average_precision_score(match[at].ravel(), cosines[at].ravel()))

    theirs, expected = timed(enumerated)
    return {
        "pairs": data.space.size,
        "positives": len(data.positives),
        "seconds": ours,
        "sklearn_seconds": theirs,
        "value": value,
        "sklearn_value": expected,
        "difference": abs(value - expected),
    }


def made(asked: argparse.Namespace) -> Data:
    whole = made_rows(asked.texts, asked.width, asked.positives)
    return Data(
        f"made, {asked.texts:,} texts", AllPairs(asked.texts), whole.rows, whole.rows, whole.positives
    )


def from_task(asked: argparse.Namespace) -> Data:
    from pairsieve.tasks import load_task

    if asked.embeddings is None:
        raise SystemExit("--task needs --embeddings FILE.npz (float32 `texts`, or `left` and `right`).")
    split = load_task(asked.task).splits[asked.split]
    with np.load(asked.embeddings, allow_pickle=False) as file:
        left = file["texts" if split.space.symmetric else "left"]
        right = left if split.space.symmetric else file["right"]
    return Data(f"{asked.task.name}, {asked.split}", split.space, left, right, split.positives)


def warm_up(threads: int) -> None:
    """Compile the kernels, or load them from their cache, before the clock runs."""
    from pairsieve.scan.cpu import CpuScan

    small = made_rows(2 * TILE, 64, 1000)
    for double in (False, True):
        scan = CpuScan(AllPairs(2 * TILE), small.rows, small.rows, double=double, threads=threads)
        measure_exactly(scan, small.positives)
        scan.neighbours(5)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def _first_distinct(rows: NDArray[np.int64], texts: int, most: int) -> NDArray[np.int64]:
    """The first `most` distinct of `rows`, then of all texts."""
    everyone = np.concatenate([rows, np.arange(texts)])
    values, first = np.unique(everyone, return_index=True)
    chosen: NDArray[np.int64] = np.sort(values[np.argsort(first)[:most]])
    return chosen


def as_table(result: dict[str, Any]) -> str:
    whole, near, ap = result["evaluation"], result["neighbours"], result["average_precision"]
    head = f"{result['data']}: {result['pairs']:,} pairs, {result['width']} dimensions, "
    lines = [
        head + f"{result['positives']:,} positives, {result['threads']} threads",
        f"  exact evaluation              {whole['seconds']:9.2f} s    AP {whole['average_precision']:.6f}",
        f"  bare product, same tiles      {whole['bare_product_seconds']:9.2f} s",
        f"  ratio                         {whole['ratio']:9.2f}",
        f"  peak resident memory          {whole['peak_memory_gib']:9.2f} GiB",
        f"{near['count']} nearest of {near['rows']:,} rows among {near['columns']:,}",
        f"  exact scan                    {near['seconds']:9.2f} s",
        f"  Faiss IndexFlatIP             {near['faiss_seconds']:9.2f} s    {near['shared']:.4%} the same",
        f"AP over {ap['pairs']:,} pairs, {ap['positives']:,} positives",
        f"  exact evaluation              {ap['seconds']:9.2f} s    AP {ap['value']:.9f}",
        f"  scikit-learn, enumerated      {ap['sklearn_seconds']:9.2f} s    AP {ap['sklearn_value']:.9f}",
        f"  difference                    {ap['difference']:9.1e}",
    ]
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", type=Path, help="task folder; made data without one")
    parser.add_argument("--split", default="test")
    parser.add_argument("--embeddings", type=Path, help="npz with `texts`, or `left` and `right`")
    parser.add_argument("--texts", type=int, default=43_600)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--positives", type=int, default=57_000)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--faiss-texts", type=int, default=20_000)
    parser.add_argument("--sklearn-texts", type=int, default=3_000)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()

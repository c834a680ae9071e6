"""Exact average precision over all pairs on a CPU, beside the bare product of the same tiles.

    python -m experiments.bench.exact_cpu [--texts 43600] [--width 384] [--positives 57000] [--threads 2]
        [--json FILE]
    python -m experiments.bench.exact_cpu --task FOLDER --split test --embeddings FILE.npz

Without a task it makes a collection of the size of qqp-174k's test split. Two cases: the collection's own
positives, most of which score above nearly all pairs, and as many pairs drawn at random, whose scores lie
scattered among all others': then every score must be placed among thousands of thresholds around it. The
bare product is `torch.mm` over the same 1024 × 1024 tiles, each pair once, a thread to a tile. The time of
ours begins with the embeddings and ends with the curve.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.bench.claims import Claim, Side, busy, finish, in_turns, parser
from experiments.bench.neighbours_cpu import Clock
from experiments.bench.synthetic_rows import synthetic_rows
from pairsieve.pairs import AllPairs, Ids, PairSpace

TILE = 1024
ALLOWED_TIMES = 2.0  # of the bare product
SPARE_GIB = 1.0  # interpreter, libraries, tiles and counts, whatever the size


@dataclass(frozen=True)
class Asked:
    """What to measure: a synthetic collection, or a split of a task with its embeddings."""

    texts: int
    width: int
    positives: int
    threads: int
    task: Path | None
    split: str
    embeddings: Path | None


@dataclass(frozen=True)
class Data:
    """A pair space, its embeddings (`right` is `left` for one collection) and its positives."""

    name: str
    space: PairSpace
    left: NDArray[np.float32]
    right: NDArray[np.float32]
    positives: Ids


def main() -> None:
    asked = arguments()
    # Each side is a process of its own, so that one's memory is not counted as the other's.
    kept = {name: value for name, value in vars(asked).items() if name in Asked.__dataclass_fields__}
    wanted = Asked(**kept)
    bare, own, scattered = (
        Side(bare_product, wanted),
        Side(evaluation, wanted, False),
        Side(evaluation, wanted, True),
    )
    bare_s, own_s, scattered_s = in_turns([bare, own, scattered], asked.repeats)
    size, bound, bare_busy_s = bare.result
    bare.close()
    claims = []
    for side, seconds, words in (
        (own, own_s, "its positives"),
        (scattered, scattered_s, "scattered positives"),
    ):
        value, positives, busy_s = side.result
        peak = side.close()
        claims.append(
            Claim(
                f"AP over all pairs beside the bare product, {words}",
                "exact evaluation",
                seconds,
                "torch.mm of the same tiles",
                bare_s,
                bare_s / seconds,
                f"at least {1 / ALLOWED_TIMES} (at most {ALLOWED_TIMES:.0f} times the bare product)",
                peak,
                f"{size}, {positives:,} positives, {asked.threads} threads",
                f"{seconds / bare_s:.2f} times the bare product, {busy_s / bare_busy_s:.2f} times "
                f"its processor seconds; AP {value:.6f}; "
                f"memory bounded by {bound:.2f} GiB; {busy()}",
            )
        )
    finish(claims, asked.json)
    over = [claim for claim in claims if claim.peak_gib and claim.peak_gib > bound]
    if over:
        raise SystemExit(f"Peak memory {over[0].peak_gib:.2f} GiB is above the bound of {bound:.2f} GiB.")


def evaluation(asked: Asked, scattered: bool) -> Callable[[], Any]:
    """The exact evaluation, from embeddings to the curve."""
    from pairsieve.measure.curve import measure_exactly
    from pairsieve.scan import open_scan
    from pairsieve.scan.cpu import CpuScan

    data = collection(asked)
    positives = data.positives
    if scattered:
        positives = data.space.sample(len(positives), np.random.default_rng(0))
    small = synthetic_rows(2 * TILE, data.left.shape[1], 1000)  # compile the kernels before the clock runs
    scan = CpuScan(AllPairs(2 * TILE), small.rows, small.rows, double=False, threads=asked.threads)
    measure_exactly(scan, small.positives)

    clock = Clock()

    def whole() -> float:
        scan = open_scan(data.space, data.left, data.right, device="cpu", threads=asked.threads)
        return measure_exactly(scan, positives).curve.average_precision()

    def work() -> tuple[float, int, float]:
        return clock(whole), len(positives), clock.best

    return work


def bare_product(asked: Asked) -> Callable[[], Any]:
    """Nothing but the products of the tiles, a thread to a tile: the faster way to spread them."""
    import torch

    data = collection(asked)
    rows, columns = data.space.shape
    tiles = [
        (r, c) for r in range(0, rows, TILE) for c in range(r if data.space.symmetric else 0, columns, TILE)
    ]
    left, right = torch.as_tensor(data.left), torch.as_tensor(data.right)
    torch.set_num_threads(1)
    bound = SPARE_GIB + 4 * (data.left.nbytes + (right is not left) * data.right.nbytes) / 2**30

    def some(assigned: list[tuple[int, int]]) -> None:
        torch.set_num_threads(1)
        out = torch.empty(TILE, TILE)
        for r, c in assigned:
            band, across = left[r : r + TILE], right[c : c + TILE]
            torch.mm(band, across.T, out=out[: len(band), : len(across)])

    def every() -> None:
        with ThreadPoolExecutor(asked.threads) as pool:
            list(pool.map(some, [tiles[k :: asked.threads] for k in range(asked.threads)]))

    clock = Clock()

    def work() -> tuple[str, float, float]:
        clock(every)
        return f"{data.name}: {data.space.size:,} pairs × {left.shape[1]}", bound, clock.best

    return work


def collection(asked: Asked) -> Data:
    """The synthetic collection, or the task's split."""
    if asked.task is None:
        collection = synthetic_rows(asked.texts, asked.width, asked.positives)
        return Data(
            f"synthetic, {asked.texts:,} texts",
            AllPairs(asked.texts),
            collection.rows,
            collection.rows,
            collection.positives,
        )
    from pairsieve.tasks import load_task

    if asked.embeddings is None:
        raise SystemExit("--task needs --embeddings FILE.npz (float32 `texts`, or `left` and `right`).")
    split = load_task(asked.task).splits[asked.split]
    with np.load(asked.embeddings, allow_pickle=False) as file:
        left = file["texts" if split.space.symmetric else "left"]
        right = left if split.space.symmetric else file["right"]
    return Data(f"{asked.task.name}, {asked.split}", split.space, left, right, split.positives)


def arguments() -> argparse.Namespace:
    arguments = parser(__doc__)
    arguments.add_argument("--task", type=Path, help="task folder; synthetic data without one")
    arguments.add_argument("--split", default="test")
    arguments.add_argument("--embeddings", type=Path, help="npz with `texts`, or `left` and `right`")
    arguments.add_argument("--texts", type=int, default=43_600)
    arguments.add_argument("--width", type=int, default=384)
    arguments.add_argument("--positives", type=int, default=57_000)
    return arguments.parse_args()


if __name__ == "__main__":
    main()

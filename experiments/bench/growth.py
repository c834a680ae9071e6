"""Cost by size, from a thousand texts to a million, on this machine.

    python -m experiments.bench.growth [--kinds index "index on Ray"] [--sizes 1000 1000000]
        [--most-seconds 60] [--json FILE]

Embedding of synthetic questions (linear), an exact pass over all pairs (AP; quadratic), each text's 100
nearest exactly (quadratic), by inverted lists (`ivf`: 4·√texts lists, so about texts^1.5), and by inverted
lists on a Ray cluster of two node processes of one core, in two shards that every text asks. A size is
measured while it is expected to stay below `--most-seconds`; beyond, the largest measured time is carried on
by the exponent, and said to be. Peaks are measured: of the process, and on Ray of the largest worker too,
the shared memory that it reads included. Other kinds and sizes in FILE are kept, so that one can be measured
after the other. `million.py` runs whole rounds of a million.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.util import Finalize
from typing import Any

import numpy as np

from experiments.bench.claims import Side, busy, machine, parser, peak_gib
from experiments.bench.synthetic_rows import synthetic_rows
from pairsieve.files import write_json
from pairsieve.pairs import AllPairs

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
WIDTH, NEIGHBOURS = 384, 100
NODES = 2


@dataclass(frozen=True)
class Cost:
    """Seconds and peak memory of one kind of work at one size; `measured` False: carried on by `exponent`."""

    what: str
    texts: int
    seconds: float
    peak_gib: float | None
    measured: bool
    exponent: float
    machine: str
    note: str


def embedding(texts: int, threads: int) -> Callable[[], Any]:
    import torch

    from experiments.synthetic import many_questions
    from pairsieve.models import encoder_named
    from pairsieve.models.folders import BUNDLED

    torch.set_num_threads(threads)
    # As a new campaign has it by default, where the processor multiplies bfloat16 by itself.
    precision = "bfloat16" if texts >= 20_000 else "float32"
    encoder = encoder_named(BUNDLED, device="cpu", precision=precision)
    questions = many_questions(texts).texts
    encoder.embed(questions[:32])
    return lambda: len(encoder.embed(questions))


def exact_pass(texts: int, threads: int) -> Callable[[], Any]:
    from pairsieve.measure.curve import measure_exactly
    from pairsieve.scan import open_scan

    collection, small = synthetic_rows(texts, WIDTH, texts), synthetic_rows(3000, WIDTH, 1000)
    measure_exactly(open_scan(AllPairs(3000), small.rows, device="cpu"), small.positives)  # compiles

    def work() -> float:
        scan = open_scan(AllPairs(texts), collection.rows, device="cpu", threads=threads)
        return measure_exactly(scan, collection.positives).curve.average_precision()

    return work


def exact_neighbours(texts: int, threads: int) -> Callable[[], Any]:
    from pairsieve.scan import open_scan

    rows, few = synthetic_rows(texts, WIDTH, texts).rows, synthetic_rows(6000, WIDTH, 3000).rows
    open_scan(AllPairs(6000), few, device="cpu", threads=threads).neighbours(NEIGHBOURS)  # compiles
    open_scan(AllPairs(600), few[:600], device="cpu", threads=threads).neighbours(NEIGHBOURS)

    def work() -> int:
        scan = open_scan(AllPairs(texts), rows, device="cpu", threads=threads)
        return int(np.count_nonzero(scan.neighbours(NEIGHBOURS)[0] >= 0))

    return work


def index(texts: int, threads: int) -> Callable[[], Any]:
    from pairsieve.search import index_neighbours

    rows, few = synthetic_rows(texts, WIDTH, texts).rows, synthetic_rows(6000, WIDTH, 3000).rows
    index_neighbours(AllPairs(6000), few, few, NEIGHBOURS)  # compiles

    def work() -> int:
        return int(np.count_nonzero(index_neighbours(AllPairs(texts), rows, rows, NEIGHBOURS)[0] >= 0))

    return work


def index_on_ray(texts: int, threads: int) -> Callable[[], Any]:
    """Inverted lists in a shard for each node process; `work` returns the largest worker's peak GiB."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    from experiments.bench.distributed import Nodes
    from pairsieve.distributed import RayShards, index_neighbours
    from pairsieve.search import neighbours

    rows, few = synthetic_rows(texts, WIDTH, texts).rows, synthetic_rows(6000, WIDTH, 3000).rows
    nodes = Nodes(NODES, store_gib=max(1.0, 6 * rows.nbytes / 2**30 / NODES))
    Finalize(None, nodes.close, exitpriority=0)  # when this process ends, outside the clock
    shards = RayShards()
    index_neighbours(shards, AllPairs(6000), few, few, NEIGHBOURS)  # compiles, and starts the workers
    neighbours.ROWS_PER_INDEX = -(-texts // NODES)

    def work() -> float:
        found, _ = index_neighbours(shards, AllPairs(texts), rows, rows, NEIGHBOURS)
        assert np.count_nonzero(found >= 0) > 0.9 * found.size
        return max(peak for _, peak in shards.map(peak_gib, [()] * (4 * NODES)))

    return work


KINDS: dict[str, tuple[Callable[..., Callable[[], Any]], float]] = {
    "embedding": (embedding, 1.0),
    "exact pass": (exact_pass, 2.0),
    "exact neighbours": (exact_neighbours, 2.0),
    "index": (index, 1.5),
    "index on Ray": (index_on_ray, 1.5),
}


def grown(what: str, sizes: list[int], most: float, threads: int) -> list[Cost]:
    """Measured as far as `most` seconds go, then carried on."""
    prepare, exponent = KINDS[what]
    costs: list[Cost] = []
    for texts in sizes:
        last = costs[-1] if costs else None
        expected = last.seconds * (texts / last.texts) ** exponent if last else 0.0
        if last is not None and (not last.measured or expected > most):
            base = [cost for cost in costs if cost.measured][-1]
            seconds = base.seconds * (texts / base.texts) ** exponent
            note = f"{base.texts:,} texts' time × {texts / base.texts:g}^{exponent:g}"
            costs.append(Cost(what, texts, seconds, None, False, exponent, machine(), note))
            continue
        side = Side(prepare, texts, threads)
        side.run()
        spent = busy(side)
        if what == "index on Ray":
            spent = f"the driver's {spent}; {NODES} nodes of one core, largest worker {side.result:.2f} GiB"
        seconds = side.seconds[0]
        costs.append(Cost(what, texts, seconds, side.close(), True, exponent, machine(), spent))
        print(line(costs[-1]), flush=True)
    return costs


def line(cost: Cost) -> str:
    how = "measured" if cost.measured else "by arithmetic"
    peak = f"{cost.peak_gib:6.2f} GiB" if cost.peak_gib else " " * 10
    return f"{cost.what:16} {cost.texts:>10,} texts {cost.seconds:12.1f} s  {peak}  {how}: {cost.note}"


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    arguments.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    arguments.add_argument("--most-seconds", type=float, default=60.0)
    asked = arguments.parse_args()
    kept: dict[tuple[str, int], dict[str, Any]] = {}
    if asked.json and asked.json.exists():
        kept = {(cost["what"], cost["texts"]): cost for cost in json.loads(asked.json.read_text())}
    for what in asked.kinds:
        for cost in grown(what, sorted(asked.sizes), asked.most_seconds, asked.threads):
            if not cost.measured:
                print(line(cost))
            kept[what, cost.texts] = asdict(cost)
        if asked.json:
            write_json(asked.json, [kept[at] for at in sorted(kept, key=in_order)])


def in_order(at: tuple[str, int]) -> tuple[int, int]:
    return list(KINDS).index(at[0]), at[1]


if __name__ == "__main__":
    main()

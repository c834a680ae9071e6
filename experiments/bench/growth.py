"""Cost by size, from a thousand texts to a million, on this machine.

    python -m experiments.bench.growth [--most-seconds 60] [--json FILE]

For each size: embedding (linear: the rate of some hundred synthetic questions times the texts), an exact pass
over all pairs (AP; quadratic), each text's 100 nearest exactly (quadratic), and by inverted lists (`ivf`:
4·√texts lists, so about texts^1.5). A size is measured while it is expected to stay below `--most-seconds`;
beyond, the largest measured time is carried on by the exponent, and said to be. Memory is embeddings (float32
× 384), which dominate; peaks are measured. `million.py` runs a whole round of the last line's index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from experiments.bench.claims import Side, busy, machine, parser
from experiments.bench.synthetic_rows import synthetic_rows
from pairsieve.files import write_json
from pairsieve.pairs import AllPairs

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
WIDTH, NEIGHBOURS = 384, 100


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

    from experiments.synthetic import synthetic_questions
    from pairsieve.models import encoder_named
    from pairsieve.models.folders import BUNDLED

    torch.set_num_threads(threads)
    encoder, questions = encoder_named(BUNDLED, device="cpu"), synthetic_questions(texts).texts
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


def grown(
    what: str, prepare: Callable[..., Callable[[], Any]], exponent: float, most: float, threads: int
) -> list[Cost]:
    """Measured as far as `most` seconds go, then carried on."""
    costs: list[Cost] = []
    for texts in SIZES:
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
        seconds = side.seconds[0]
        costs.append(Cost(what, texts, seconds, side.close(), True, exponent, machine(), spent))
    return costs


def embedded(texts: int, threads: int) -> list[Cost]:
    """Linear in the texts: by arithmetic from one measured rate."""
    side = Side(embedding, texts, threads)
    side.run()
    note = f"{texts / side.seconds[0]:.0f} texts a second over {texts:,} synthetic questions; {busy(side)}"
    per_text, peak = side.seconds[0] / texts, side.close()
    kinds = [(size, peak + size * WIDTH * 4 / 2**30) for size in SIZES]
    return [Cost("embedding", size, per_text * size, gib, False, 1.0, machine(), note) for size, gib in kinds]


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--most-seconds", type=float, default=60.0)
    arguments.add_argument("--embedded-texts", type=int, default=500)
    asked = arguments.parse_args()
    costs = embedded(asked.embedded_texts, asked.threads)
    costs += grown("exact pass", exact_pass, 2.0, asked.most_seconds, asked.threads)
    costs += grown("exact neighbours", exact_neighbours, 2.0, asked.most_seconds, asked.threads)
    costs += grown("index", index, 1.5, asked.most_seconds, asked.threads)
    for cost in costs:
        how = "measured" if cost.measured else "by arithmetic"
        peak = f"{cost.peak_gib:6.2f} GiB" if cost.peak_gib else " " * 10
        print(f"{cost.what:12} {cost.texts:>10,} texts {cost.seconds:12.1f} s  {peak}  {how}: {cost.note}")
    if asked.json:
        write_json(asked.json, [asdict(cost) for cost in costs])


if __name__ == "__main__":
    main()

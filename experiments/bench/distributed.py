"""A Ray cluster of node processes beside one process on the same cores: seconds, and equal results.

    python -m experiments.bench.distributed [--texts 40000] [--embed 4096] [--nodes 2] [--json FILE]

An exact pass over all pairs, the nearest of every row, exactly and by inverted lists, and the embedding of
synthetic texts: in this process on so many threads, then on so many node processes of one core; the results
must be equal to the bit. Then the pass once more, with a node killed in the middle. At last the rates of this
run carried on by arithmetic to a million, a hundred million and a billion texts.
"""

from __future__ import annotations

import logging
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pairsieve.models.cached as cached
from experiments.bench.claims import Claim, busy, finish, parser
from experiments.bench.synthetic_rows import synthetic_rows
from experiments.synthetic import synthetic_questions
from pairsieve.artifacts import ArtifactStore
from pairsieve.distributed import LocalShards, RayShards, ShardedScan, cached_embeddings, index_neighbours
from pairsieve.models import encoder_named
from pairsieve.pairs import AllPairs
from pairsieve.scan import open_scan

EDGES = np.linspace(-1, 1, 4097, dtype=np.float32)
SIZES = {"a million": 10**6, "a hundred million": 10**8, "a billion": 10**9}


def main() -> None:
    asked = arguments()
    os.environ["OMP_NUM_THREADS"] = str(asked.nodes)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import torch

    torch.set_num_threads(asked.nodes)
    rows = synthetic_rows(asked.texts, asked.width, asked.texts // 10).rows
    space = AllPairs(asked.texts)
    nodes = Nodes(asked.nodes)
    shards = RayShards()
    size = f"{asked.texts:,} × {asked.width}"
    whole = open_scan(space, rows, device="cpu", threads=asked.nodes)
    parts = ShardedScan(shards, space, rows, device="cpu")
    claims = []

    def compare(claim: str, here: Callable[[], Any], there: Callable[[], Any], about: str) -> float:
        """Both in turn; unequal results end the bench."""
        both = [here(), there()]  # once unmeasured: compiling, and starting workers
        if not all(np.array_equal(one, other) for one, other in zip(*both)):
            raise SystemExit(f"{claim}: the cluster's results differ from those of one process.")
        best, core_seconds = [float("inf")] * 2, float("inf")
        for _ in range(asked.repeats):
            for side, work in enumerate((here, there)):
                spent = time.process_time()
                best[side] = min(best[side], seconds(work))
                if side == 0:  # all its threads together: what others do on this machine hardly moves it
                    core_seconds = min(core_seconds, time.process_time() - spent)
        claims.append(
            Claim(
                claim,
                f"{asked.nodes} node processes of one core",
                best[1],
                f"one process, {asked.nodes} threads",
                best[0],
                best[0] / best[1],
                "",
                peak(),
                about,
                f"equal to the bit; {busy()}",
            )
        )
        return core_seconds

    counting = compare(
        "exact pass over all pairs",
        lambda: (whole.count_reaching(EDGES),),
        lambda: (parts.count_reaching(EDGES),),
        f"{size}, {space.size:,} pairs",
    )
    compare("100 nearest of every row", lambda: whole.neighbours(100), lambda: parts.neighbours(100), size)
    compare(
        "100 nearest of every row by inverted lists",
        lambda: index_neighbours(None, space, rows, rows, 100),
        lambda: index_neighbours(shards, space, rows, rows, 100),
        size,
    )
    cached.TEXTS_PER_SHARD = max(1, asked.embed // (4 * asked.nodes))  # several, though the texts are few
    encoder = encoder_named("all-MiniLM-L6-v2", device="cpu")
    texts = synthetic_questions(asked.embed, seed=1).texts
    embedding = compare(
        "embedding, bundled encoder",
        lambda: (embedded(encoder, texts, LocalShards()),),
        lambda: (embedded(encoder, texts, shards),),
        f"{len(texts):,} synthetic questions, shards of {cached.TEXTS_PER_SHARD:,}",
    )
    claims.append(loss(nodes, space, rows, whole, size, seconds(lambda: parts.count_reaching(EDGES))))
    nodes.close()
    finish(claims, asked.json)
    rates = space.size * asked.width / counting, len(set(texts)) / embedding
    print(table(*rates, asked.width))


def embedded(encoder: Any, texts: list[str], shards: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return np.array(
            cached_embeddings(shards, ArtifactStore(Path(folder)), {"bench": 1}, encoder, texts, "left")
        )


class Losing(RayShards):
    """A cluster that loses a node after its first result."""

    def __init__(self, lose: Callable[[], None]) -> None:
        super().__init__()
        self._lose = lose

    def map(self, *args: Any, **more: Any) -> Iterator[tuple[int, Any]]:
        for number, result in enumerate(super().map(*args, **more)):
            if number == 0:
                self._lose()
            yield result


def loss(nodes: Nodes, space: AllPairs, rows: Any, whole: Any, size: str, usual: float) -> Claim:
    scan = ShardedScan(Losing(nodes.kill), space, rows, device="cpu")
    began = time.perf_counter()
    found = scan.count_reaching(EDGES)
    spent = time.perf_counter() - began
    if not np.array_equal(found, whole.count_reaching(EDGES)):
        raise SystemExit("With a node lost, the counts differ.")
    words = f"equal to the bit; the rest ran on {len(nodes.living)} node; {busy()}"
    return Claim(
        "exact pass, one node killed in the middle", "with the loss", spent, "without", usual, usual / spent,
        "", peak(), size, words,
    )  # fmt: skip


class Nodes:
    """A head that only drives, and node processes of one core each."""

    def __init__(self, count: int, store_gib: float = 1.0) -> None:
        import ray
        from ray.cluster_utils import Cluster

        store = {"object_store_memory": int(store_gib * 2**30)}
        self._cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **store}
        )
        self.living = [self._cluster.add_node(num_cpus=1, **store) for _ in range(count)]
        ray.init(address=self._cluster.address, logging_level=logging.CRITICAL, log_to_driver=False)

    def kill(self) -> None:
        self._cluster.remove_node(self.living.pop(), allow_graceful=False)

    def close(self) -> None:
        import ray

        ray.shutdown()
        self._cluster.shutdown()


def table(products: float, texts: float, width: int) -> str:
    """Arithmetic, and said so: core-hours, from the multiply-adds and texts one core does in a second."""
    lines = [
        "",
        f"One core (processor time): {products / 1e9:.1f} billion products, {texts:,.0f} texts a second",
        "By arithmetic from these rates (not measured):",
        "",
        f"| texts | pairs | embedding, core-hours | exact pass, core-hours | rows at {width} × 4 bytes |",
        "| --- | --- | --- | --- | --- |",
    ]
    for words, count in SIZES.items():
        pairs = count * (count - 1) // 2
        embed, scan = count / texts / 3600, pairs * width / products / 3600
        gigabytes = count * width * 4 / 1e9
        lines.append(f"| {words} | {pairs:.1e} | {embed:,.1f} | {scan:,.1f} | {gigabytes:,.1f} GB |")
    return "\n".join(lines)


def seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # of the driver; Linux counts in KiB


def arguments() -> Any:
    arguments = parser(__doc__)
    arguments.add_argument("--texts", type=int, default=40_000)
    arguments.add_argument("--width", type=int, default=384)
    arguments.add_argument("--embed", type=int, default=4096, help="texts to embed")
    arguments.add_argument("--nodes", type=int, default=2)
    return arguments.parse_args()


if __name__ == "__main__":
    main()

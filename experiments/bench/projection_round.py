"""A round of the projection learner on cached embeddings, and the selection after it: seconds.

    python -m experiments.bench.projection_round [--texts 100000] [--labels 10000] [--json FILE]

A synthetic collection of 384 dimensions. Half of the labels are matches, half are the nearest non-matches
found among sampled rows: what a campaign has asked by then. The round fits the map and the head and maps
every row; then the next batch is chosen over all pairs, exactly, and timed apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.bench.claims import Claim, Side, busy, finish, in_turns, parser
from experiments.bench.synthetic_rows import SyntheticRows, synthetic_rows
from pairsieve.pairs import AllPairs, Ids, is_member

BATCH = 2048
LIMIT_SECONDS = 20.0


def labelled(
    collection: SyntheticRows, labels: int, rng: np.random.Generator
) -> tuple[Ids, NDArray[np.bool_]]:
    """Matches at random, and as many of the highest-scoring non-matches of sampled rows."""
    space = AllPairs(len(collection.rows))
    matches = rng.choice(collection.positives, labels // 2, replace=False)
    rows = rng.choice(len(collection.rows), 400, replace=False)
    cosines = collection.rows[rows] @ collection.rows.T
    cosines[np.arange(len(rows)), rows] = -1.0
    near = np.argpartition(-cosines, 40, axis=1)[:, :40]
    ids = np.unique(space.ids(np.repeat(rows, 40), near.ravel()))
    others = rng.permutation(ids[~is_member(ids, collection.positives)])[: labels - len(matches)]
    both = np.concatenate([matches, others])
    order = np.argsort(both)
    return both[order], np.isin(both, matches)[order]


def training(texts: int, labels: int, threads: int) -> Callable[[], Any]:
    import torch

    from pairsieve.models import encoder_named
    from pairsieve.models.folders import BUNDLED
    from pairsieve.models.projection import ProjectionLearner

    torch.set_num_threads(threads)
    collection = synthetic_rows(texts, 384, texts)
    ids, answers = labelled(collection, labels, np.random.default_rng(1))
    learner = ProjectionLearner(encoder_named(BUNDLED, device="cpu"))
    rows = collection.rows, collection.rows
    learner.fit(([], []), ids[:600], answers[:600], np.random.default_rng(0), rows)  # warm

    def work() -> Any:
        matcher = learner.fit(([], []), ids, answers, np.random.default_rng(0), rows)
        mapped = matcher.transform(collection.rows)
        return len(ids), float(mapped[0] @ mapped[1])

    return work


def selection(texts: int, threads: int) -> Callable[[], Any]:
    from pairsieve.scan import open_scan
    from pairsieve.search import ExactSearch

    collection = synthetic_rows(texts, 384, texts)
    small = synthetic_rows(3000, 384, 1000)
    none = np.empty(0, np.int64)
    ExactSearch(open_scan(AllPairs(3000), small.rows, device="cpu")).closest(0.6, 10, none)  # compiles

    def work() -> Any:
        scan = open_scan(AllPairs(texts), collection.rows, device="cpu", threads=threads)
        return len(ExactSearch(scan).closest(0.6, BATCH, none).pairs)

    return work


def bare_product(texts: int, threads: int) -> Callable[[], Any]:
    """Nothing but the products of the tiles, each pair once."""
    from concurrent.futures import ThreadPoolExecutor

    import torch

    rows = torch.from_numpy(synthetic_rows(texts, 384, texts).rows)
    tiles = [(r, c) for r in range(0, texts, 1024) for c in range(r, texts, 1024)]

    def some(worker: int) -> None:
        torch.set_num_threads(1)
        out = torch.empty(1024, 1024)
        for r, c in tiles[worker::threads]:
            one, other = rows[r : r + 1024], rows[c : c + 1024]
            torch.mm(one, other.T, out=out[: len(one), : len(other)])

    def work() -> None:
        torch.set_num_threads(1)
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(some, range(threads)))

    return work


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--texts", type=int, default=100_000)
    arguments.add_argument("--labels", type=int, default=10_000)
    arguments.add_argument(
        "--no-selection", action="store_true", help="only the round, not the choice after it"
    )
    asked = arguments.parse_args()
    size = f"{asked.texts:,} cached embeddings × 384, {asked.labels:,} labels, {asked.threads} threads"
    fit = Side(training, asked.texts, asked.labels, asked.threads)
    (seconds,) = in_turns([fit], asked.repeats)
    claims = [
        Claim(
            "A projection round on a CPU: training and mapping",
            "fit the map and the head, map all rows",
            seconds,
            "the limit",
            LIMIT_SECONDS,
            LIMIT_SECONDS / seconds,
            "under 20 s",
            fit.close(),
            size,
            busy(fit),
        )
    ]
    if not asked.no_selection:
        sides = [Side(selection, asked.texts, asked.threads), Side(bare_product, asked.texts, asked.threads)]
        our_seconds, bare = in_turns(sides, 1)
        peak = sides[0].close()
        sides[1].close()
        claims.append(
            Claim(
                "The choice after it: exact, over all pairs",
                f"the {BATCH:,} pairs nearest the boundary",
                our_seconds,
                "bare product of the same tiles, once",
                bare,
                bare / our_seconds,
                "",
                peak,
                f"{AllPairs(asked.texts).size:,} pairs, {asked.threads} threads",
                busy(*sides),
            )
        )
    finish(claims, asked.json)


if __name__ == "__main__":
    main()

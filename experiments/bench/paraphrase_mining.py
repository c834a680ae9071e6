"""The best pairs of a collection beside sentence-transformers' paraphrase_mining: seconds, pairs missed.

    python -m experiments.bench.paraphrase_mining [--texts 20000] [--pairs 10000] [--json FILE]

Both start from the same embeddings of a synthetic collection and are asked for the same number of best pairs.
Ours is exact over all pairs. The peer takes each text's 100 nearest (its default) and cuts a list in which
a pair can stand twice; how many of the asked-for pairs it gives, and how many of the best are among them,
is printed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.bench.claims import Claim, Side, busy, finish, in_turns, parser
from experiments.bench.synthetic_rows import synthetic_rows
from pairsieve.pairs import AllPairs


def ours(texts: int, pairs: int, threads: int) -> Callable[[], Any]:
    from pairsieve.scan import open_scan
    from pairsieve.search import ExactSearch

    collection, small = synthetic_rows(texts, 384, texts), synthetic_rows(3000, 384, 1000)
    none = np.empty(0, np.int64)
    ExactSearch(open_scan(AllPairs(3000), small.rows, device="cpu")).best(10, none)  # compiles

    def work() -> Any:
        scan = open_scan(AllPairs(texts), collection.rows, device="cpu", threads=threads)
        return ExactSearch(scan).best(pairs, none).pairs.ids

    return work


def mining(texts: int, pairs: int, threads: int) -> Callable[[], Any]:
    import torch
    from sentence_transformers.util import paraphrase_mining_embeddings

    torch.set_num_threads(threads)
    rows = torch.from_numpy(synthetic_rows(texts, 384, texts).rows)

    def work() -> Any:
        found = paraphrase_mining_embeddings(rows, max_pairs=pairs)
        return AllPairs(texts).ids([one[1] for one in found], [one[2] for one in found])

    return work


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--texts", type=int, default=20_000)
    arguments.add_argument("--pairs", type=int, default=10_000)
    asked = arguments.parse_args()
    sides = [Side(one, asked.texts, asked.pairs, asked.threads) for one in (ours, mining)]
    our_seconds, peer_seconds = in_turns(sides, asked.repeats)
    best, found = sides[0].result, np.unique(sides[1].result)
    peaks = [side.close() for side in sides]
    finish(
        [
            Claim(
                "The best pairs of a collection beside paraphrase_mining",
                "exact over all pairs",
                our_seconds,
                "sentence-transformers paraphrase_mining_embeddings",
                peer_seconds,
                peer_seconds / our_seconds,
                "",
                peaks[0],
                f"{asked.texts:,} texts × 384, {asked.pairs:,} pairs asked for, {asked.threads} threads",
                f"peer gives {len(found):,} distinct pairs, {np.isin(found, best).sum():,} of the best "
                f"{len(best):,}; peer's peak {peaks[1]:.2f} GiB; {busy(*sides)}",
            )
        ],
        asked.json,
    )


if __name__ == "__main__":
    main()

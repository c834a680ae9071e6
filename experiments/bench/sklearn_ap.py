"""Average precision over all pairs beside scikit-learn's: seconds and equality.

    python -m experiments.bench.sklearn_ap [--texts 4000] [--json FILE]

The peer scores every pair of a synthetic collection, writes the scores out, sorts them and sums up; ours
passes once over the tiles and counts. scikit-learn's definition (tied scores enter together) is ours too, so
the values must agree to the rounding of scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.bench.claims import Claim, Side, busy, finish, in_turns, parser
from experiments.bench.synthetic_rows import synthetic_rows
from pairsieve.pairs import AllPairs, pair_rows


def ours(texts: int, positives: int, threads: int) -> Callable[[], Any]:
    from pairsieve.measure.curve import measure_exactly
    from pairsieve.scan import open_scan

    collection, small = synthetic_rows(texts, 384, positives), synthetic_rows(3000, 384, 1000)
    measure_exactly(open_scan(AllPairs(3000), small.rows, device="cpu"), small.positives)  # compiles

    def work() -> float:
        scan = open_scan(AllPairs(texts), collection.rows, device="cpu", threads=threads)
        return measure_exactly(scan, collection.positives).curve.average_precision()

    return work


def scikit_learn(texts: int, positives: int, threads: int) -> Callable[[], Any]:
    import torch
    from sklearn.metrics import average_precision_score

    torch.set_num_threads(threads)
    collection = synthetic_rows(texts, 384, positives)

    def work() -> float:
        rows = collection.rows.astype(np.float64)
        upper = np.triu_indices(texts, 1)
        scores = (rows @ rows.T)[upper]
        match = np.zeros((texts, texts), bool)
        match[pair_rows(collection.positives)] = True
        return float(average_precision_score(match[upper], scores))

    return work


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--texts", type=int, default=4000)
    asked = arguments.parse_args()
    positives = asked.texts
    sides = [Side(one, asked.texts, positives, asked.threads) for one in (ours, scikit_learn)]
    our_seconds, peer_seconds = in_turns(sides, asked.repeats)
    off = abs(sides[0].result - sides[1].result)
    if off > 1e-6:
        raise SystemExit(f"The two values differ by {off}: {sides[0].result} and {sides[1].result}.")
    peaks = [side.close() for side in sides]
    finish(
        [
            Claim(
                "Average precision over all pairs beside scikit-learn",
                "exact pass",
                our_seconds,
                "scikit-learn, every pair written out",
                peer_seconds,
                peer_seconds / our_seconds,
                "equal values",
                peaks[0],
                f"{AllPairs(asked.texts).size:,} pairs × 384, {positives:,} matches, {asked.threads} threads",
                f"AP {sides[0].result:.9f}, difference {off:.0e}; peer's peak {peaks[1]:.2f} GiB; "
                f"{busy(*sides)}",
            )
        ],
        asked.json,
    )


if __name__ == "__main__":
    main()

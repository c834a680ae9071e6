"""Embedding in bfloat16 beside float32 on a CPU: seconds, cosines, and AP over all pairs before any label.

    python -m experiments.bench.precision [--data ../shared/data] [--tables abt-buy cora settlements wikiqa]
        [--encoder NAME] [--json FILE]

Plain cosines of the encoder as it came, over all pairs of the table (WikiQA: of dev). Tables as in
`experiments.bench.strangers`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.claims import Claim, busy, finish, parser
from experiments.bench.strangers_tables import TABLES
from pairsieve.measure.figures import exact_figures
from pairsieve.models import encoder_named
from pairsieve.scan import open_scan
from pairsieve.tasks import Split

COMPARED = 1000  # texts whose cosines are compared


def main() -> None:
    asked = arguments()
    claims = []
    for name in asked.tables:
        task = TABLES[name].make(asked.data)
        split = task.splits["dev" if "dev" in task.splits else "all"]
        exact, half = (measured(split, asked.encoder, of) for of in ("float32", "bfloat16"))
        rows = [of["left"][:COMPARED] for of in (exact, half)]
        off = np.abs(rows[0] @ rows[0].T - rows[1] @ rows[1].T)
        claims.append(
            Claim(
                f"Embedding in bfloat16, {name}",
                "pairsieve, bfloat16",
                half["seconds"],
                "pairsieve, float32",
                exact["seconds"],
                exact["seconds"] / half["seconds"],
                "AP within 0.002",
                None,
                f"{sum(split.space.shape) if not split.space.symmetric else split.space.shape[0]:,} texts, "
                f"{asked.encoder}",
                f"AP over all pairs before any label {half['ap']:.4f}, in float32 {exact['ap']:.4f}; "
                f"cosines off by {off.mean():.5f} on average, {off.max():.4f} at most; processor seconds "
                f"{half['cpu']:.2f} and {exact['cpu']:.2f}; {busy()}",
            )
        )
    finish(claims, asked.json)


def measured(split: Split, name: str, precision: str) -> dict[str, Any]:
    """Seconds of embedding a split, its left rows, and the AP of plain cosines."""
    encoder = encoder_named(name, device="cpu", precision=precision)
    encoder.embed(split.left.texts[:64])
    wall, cpu = time.perf_counter(), time.process_time()
    left = encoder.embed(split.left.texts)
    right = None if split.space.symmetric else encoder.embed(split.right.texts, "right")
    seconds = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    figures, _ = exact_figures(open_scan(split.space, left, right), split.positives, split.stated_negatives)
    return {**seconds, "left": left, "ap": figures.average_precision.value}


def arguments() -> Any:
    from pairsieve.models.folders import BUNDLED

    arguments = parser(__doc__)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--tables", nargs="+", default=["abt-buy", "cora", "settlements", "wikiqa"])
    arguments.add_argument("--encoder", default=BUNDLED)
    return arguments.parse_args()


if __name__ == "__main__":
    main()

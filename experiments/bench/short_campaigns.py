"""Short campaigns with and without what saves time: bfloat16, and first questions before embedding.

    python -m experiments.bench.short_campaigns [--data ../shared/data] [--tables abt-buy cora ...]
        [--change bfloat16 first-part] [--labels 120] [--seeds 0 1 2] [--cache FOLDER] [--json FILE]

Default options and rounds of 40, answered by the truth; AP and best F1 over all pairs after the last round,
each against the same seed in float32 and without a first part. Tables as in `experiments.bench.strangers`.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.claims import Claim, busy, finish, parser
from experiments.bench.strangers_tables import TABLES
from pairsieve import create_campaign
from pairsieve.campaign import selecting

BATCH = 40
WORDS = {"bfloat16": "in bfloat16", "first-part": "with first questions before embedding"}


def main() -> None:
    asked = arguments()
    claims = []
    for name in asked.tables:
        task = TABLES[name].make(asked.data)
        usual = [outcome(task, seed, "", asked) for seed in asked.seeds]
        for change in asked.change:
            changed = [outcome(task, seed, change, asked) for seed in asked.seeds]
            claims.append(compared(name, change, changed, usual, asked))
    finish(claims, asked.json)


def outcome(task: Any, seed: int, change: str, asked: Any) -> dict[str, float]:
    """AP, best F1 and seconds of one campaign."""
    selecting.FIRST_FROM = 0 if change == "first-part" else 10**9
    precision = "bfloat16" if change == "bfloat16" else "float32"
    options: dict[str, Any] = {"labels": asked.labels, "rounds": asked.labels // BATCH, "seed": seed}
    with tempfile.TemporaryDirectory() as folder:
        campaign = create_campaign(
            Path(folder) / "mine", task, cache=asked.cache, device="cpu", precision=precision, **options
        )
        start = time.perf_counter()
        campaign.run()
        seconds = time.perf_counter() - start
        last = max(campaign.figures().items())[1]
        campaign.ledger.close()
    assert last.first is not None
    figures = {"ap": last.first.average_precision.value, "f1": last.first.best_f1.value}
    return {**figures, "seconds": seconds}


def compared(
    name: str, change: str, changed: list[dict[str, float]], usual: list[dict[str, float]], asked: Any
) -> Claim:
    notes = []
    for key, words in (("ap", "AP"), ("f1", "best F1")):
        one, other = (np.array([each[key] for each in side]) for side in (changed, usual))
        off = one - other
        error = off.std(ddof=1) / np.sqrt(len(off)) if len(off) > 1 else float("nan")
        both = f"{one.mean():.4f}, without {other.mean():.4f}"
        notes.append(f"{words} {both}, difference {off.mean():+.4f} ± {error:.4f}")
    ours, peer = (float(np.mean([each["seconds"] for each in side])) for side in (changed, usual))
    size = f"{asked.labels} labels, seeds {' '.join(map(str, asked.seeds))}"
    asked_for = "AP within two standard errors"
    words = f"Campaigns {WORDS[change]}, {name}"
    note = "; ".join([*notes, busy()])
    return Claim(words, change, ours, "without", peer, peer / ours, asked_for, None, size, note)


def arguments() -> Any:
    arguments = parser(__doc__)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--tables", nargs="+", default=["abt-buy", "cora", "settlements", "qqp-5k"])
    arguments.add_argument("--change", nargs="+", choices=WORDS, default=list(WORDS))
    arguments.add_argument("--labels", type=int, default=120)
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments.add_argument("--cache", type=Path)
    return arguments.parse_args()


if __name__ == "__main__":
    main()

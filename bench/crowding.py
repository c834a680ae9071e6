"""How much should near rivals count against a pair? AP over all pairs of dev, by strength.

    python bench/crowding.py --task TASK [--encoder NAME] [--left-prefix P] [--right-prefix P]
        [--cache FOLDER]
    python bench/crowding.py --campaign DIR [--round N] [--cache FOLDER]

The first takes the encoder as it came, the second a campaign's model. For each strength of
`search/crowding.py` it prints exact AP and precision at recall 0.2; 0 is the plain cosine. Strengths are
chosen on dev: the test split is not read.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pairsieve.artifacts import ArtifactStore
from pairsieve.campaign import Campaign
from pairsieve.cluster import embedded_rows
from pairsieve.measure import measure_exactly
from pairsieve.models import encoder_named
from pairsieve.scan import open_scan
from pairsieve.search.crowding import crowds, lengths, shared
from pairsieve.tasks import Split, load_task

STRENGTHS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def untrained(args: argparse.Namespace) -> tuple[Split, Any, Any]:
    part = load_task(args.task).splits["dev"]
    encoder = encoder_named(args.encoder, 128, args.left_prefix, args.right_prefix)
    store = ArtifactStore(args.cache or Path("crowding-cache"))
    made: list[Any] = []
    for side, texts in (("left", part.left), ("right", part.right)):
        if side == "right" and part.space.symmetric:
            made.append(None)
            continue
        key = {
            "encoder": encoder.fingerprint,
            "texts": texts.fingerprint,
            "prefix": encoder.prefix(side),
        }
        made.append(embedded_rows(store, key, encoder, texts.texts, side))
    return part, made[0], made[1]


def trained(args: argparse.Namespace) -> tuple[Split, Any, Any]:
    campaign = Campaign(args.campaign, args.cache)
    number = args.round or campaign.latest()
    part = campaign.task.splits["dev"]
    return part, *campaign.plain_embeddings(campaign.plain_matcher(number), part, number)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", type=Path)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--left-prefix", default="")
    parser.add_argument("--right-prefix", default="")
    parser.add_argument("--campaign", type=Path)
    parser.add_argument("--round", type=int, default=0)
    parser.add_argument("--cache", type=Path)
    args = parser.parse_args()
    if (args.task is None) == (args.campaign is None):
        parser.error("give --task or --campaign")
    part, left, right = untrained(args) if args.task else trained(args)
    near = crowds(open_scan, part.space, left, right)
    print(f"{'strength':>8}{'AP':>9}{'P@R20':>9}")
    for strength in STRENGTHS:
        each = shared(part.space, strength)
        mine, yours = (lengths(side, power)[:, None] for side, power in zip(near, each))
        rows = left * mine, None if right is None else right * yours
        curve = measure_exactly(open_scan(part.space, *rows, lengths=True), part.positives).curve
        print(
            f"{strength:>8.1f}{curve.average_precision():>9.4f}{curve.precision_at_recall(0.2):>9.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()

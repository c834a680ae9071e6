"""How much should neighbours count? AP over all pairs of dev, by how much texts lean and rivals count.

    python bench/crowding.py --task TASK [--encoder NAME] [--left-prefix P] [--right-prefix P]
        [--cache FOLDER]
    python bench/crowding.py --campaign DIR [--round N] [--cache FOLDER]

The first takes the encoder as it came, the second a campaign's model. For each strength of
`search/leaning.py` and of `search/crowding.py` it prints exact AP and precision at recall 0.2; 0 and 0 is the
plain cosine. Strengths are chosen on dev: the test split is not read.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import Any

from pairsieve.artifacts import ArtifactStore
from pairsieve.campaign import Campaign
from pairsieve.distributed import embedded_rows
from pairsieve.measure import measure_exactly
from pairsieve.models import encoder_named
from pairsieve.scan import open_scan
from pairsieve.search.crowding import crowds, lengths, shared
from pairsieve.search.leaning import leans, nearest
from pairsieve.tasks import Split, load_task

STRENGTHS = (0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5)
LEANINGS = (0.0, 0.5, 1.0, 2.0)


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
    parser.add_argument("--leaning", type=float, nargs="*", help="[0, 0.5, 1, 2]")
    parser.add_argument("--crowding", type=float, nargs="*", help="[0 to 0.5]")
    args = parser.parse_args()
    if (args.task is None) == (args.campaign is None):
        parser.error("give --task or --campaign")
    part, left, right = untrained(args) if args.task else trained(args)
    closest = nearest(open_scan, part.space, left, right)
    print(f"{'leaning':>8}{'crowding':>9}{'AP':>9}{'P@R20':>9}")
    for leaning, strength in product(args.leaning or LEANINGS, args.crowding or STRENGTHS):
        leant = leans(part.space, closest, leaning)
        first = leant[0].all_mixed(left, left if right is None else right)
        second = None if right is None else leant[1].all_mixed(right, left)
        near = crowds(open_scan, part.space, first, second)
        each = shared(part.space, strength)
        mine, yours = (lengths(side, power)[:, None] for side, power in zip(near, each))
        rows = first * mine, None if second is None else second * yours
        curve = measure_exactly(open_scan(part.space, *rows, lengths=True), part.positives).curve
        ap, top = curve.average_precision(), curve.precision_at_recall(0.2)
        print(f"{leaning:>8.2f}{strength:>9.2f}{ap:>9.4f}{top:>9.4f}", flush=True)


if __name__ == "__main__":
    main()

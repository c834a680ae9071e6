"""AP over all dev pairs by the strength of neighbour smoothing and of hubness correction.

    python -m experiments.bench.hubness --task TASK [--encoder NAME] [--left-prefix P] [--right-prefix P]
        [--cache FOLDER]
    python -m experiments.bench.hubness --campaign DIR [--round N] [--cache FOLDER]

The first takes the encoder as it came, the second a campaign's model. For each strength of
either correction (`scorer/corrections.py`) it prints exact AP and precision at recall 0.2; 0 and 0 is the
plain cosine. Strengths are chosen on dev: the test split is not read.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import Any

from experiments.setup import Setup
from pairsieve.campaign import Campaign
from pairsieve.measure import measure_exactly
from pairsieve.scan import open_scan
from pairsieve.scorer import ExactNeighbours, correct_rows, make_corrections
from pairsieve.scorer.corrections import similarity_floor
from pairsieve.tasks import Split

STRENGTHS = (0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5)
SMOOTHINGS = (0.0, 0.5, 1.0, 2.0)


def untrained(args: argparse.Namespace) -> tuple[Split, Any, Any]:
    setup = Setup(
        task_folder=args.task,
        encoder_name=args.encoder,
        out=Path("hubness-cache"),
        cache=args.cache,
        left_prefix=args.left_prefix,
        right_prefix=args.right_prefix,
    )
    split = setup.task.splits["dev"]
    return split, *setup.rows(split)


def trained(args: argparse.Namespace) -> tuple[Split, Any, Any]:
    campaign = Campaign(args.campaign, args.cache)
    labels = campaign.labels(args.round or campaign.latest())
    matcher, model = campaign.trainer.matcher(labels), campaign.trainer.model_key(labels)
    split = campaign.task.splits["dev"]
    return split, *campaign.trainer.scores.unit_rows(matcher, split, model)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", type=Path)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--left-prefix", default=None, help="[as encoders named e5-… want it]")
    parser.add_argument("--right-prefix", default=None)
    parser.add_argument("--campaign", type=Path)
    parser.add_argument("--round", type=int, default=0)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--smoothing", type=float, nargs="*", help="[0, 0.5, 1, 2]")
    parser.add_argument("--hubness", type=float, nargs="*", help="[0 to 0.5]")
    args = parser.parse_args()
    if (args.task is None) == (args.campaign is None):
        parser.error("give --task or --campaign")
    split, left, right = untrained(args) if args.task else trained(args)
    finder = ExactNeighbours(open_scan)
    floor = similarity_floor(finder.nearest(split.space, left, right)["cosine-0"])
    print(f"{'smoothing':>10}{'hubness':>9}{'AP':>9}{'P@R20':>9}")
    for smoothing, hubness in product(args.smoothing or SMOOTHINGS, args.hubness or STRENGTHS):
        corrections = make_corrections(split.space, hubness, smoothing, floor)
        rows = correct_rows(corrections, split.space, (left, right), finder).rows
        scan = open_scan(split.space, *rows, lengths=hubness > 0)
        curve = measure_exactly(scan, split.positives).curve
        ap, top = curve.average_precision(), curve.precision_at_recall(0.2)
        print(f"{smoothing:>10.2f}{hubness:>9.2f}{ap:>9.4f}{top:>9.4f}", flush=True)


if __name__ == "__main__":
    main()

"""Non-matches that rank above the score where a share of all matches is found.

    python -m experiments.bench.top_errors CAMPAIGN [--split dev] [--recall 0.2] [--show 0] [--cache FOLDER]

Counts them by whether the left text has a match elsewhere in the split, or none at all (a question nobody
answered: whatever ranks first for it is counted as wrong). `--show 20` prints the first twenty.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from pairsieve.campaign import Campaign
from pairsieve.measure import measure_exactly
from pairsieve.pairs import is_member, pair_rows
from pairsieve.search import ExactSearch


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("campaign", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--recall", type=float, default=0.2)
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("--cache", type=Path)
    args = parser.parse_args()

    campaign = Campaign(args.campaign, args.cache)
    number = campaign.latest()
    part = campaign.task.splits[args.split]
    scan = campaign.score(part, number).scan
    curve = measure_exactly(scan, part.positives).curve
    at = curve.at_recall(args.recall)
    above = int(curve.true_positives[at] + curve.false_positives[at])
    pairs = ExactSearch(scan).best(above, np.empty(0, np.int64)).pairs
    ids = pairs.ids[np.argsort(-pairs.scores, kind="stable")]
    wrong = ids[~is_member(ids, part.positives)]
    matched = np.unique(pair_rows(part.positives)[0])
    if part.space.symmetric:
        matched = np.unique(np.concatenate(pair_rows(part.positives)))
    left, right = pair_rows(wrong)
    elsewhere = np.isin(left, matched)
    if part.space.symmetric:
        elsewhere |= np.isin(right, matched)
    print(
        f"{args.split}, round {number}: {above:,} pairs above recall {args.recall:g}, "
        f"{above - len(wrong):,} of them matches (precision {1 - len(wrong) / above:.3f})\n"
        f"of {len(wrong):,} non-matches {int((~elsewhere).sum()):,} have a text without any match, "
        f"{int(elsewhere.sum()):,} one that matches another\n"
        f"texts without any match: {1 - len(matched) / part.space.shape[0]:.0%} of the split's"
    )
    for one, other, known in zip(left[: args.show], right[: args.show], elsewhere[: args.show]):
        words = "matches another" if known else "has no match"
        print(f"- {words}: {part.left.texts[one]} | {part.right.texts[other]}")


if __name__ == "__main__":
    main()

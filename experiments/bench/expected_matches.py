"""Precision and recall that `match` expects of a list, beside what they are.

Takes campaigns whose split has its truth. For the best F1 and for a precision of 0.9, by the campaign's
scorer and by its bi-encoder alone, it prints what was expected (95 % intervals) beside what is true, and
whether the interval holds it (`OFF` in `matches/remaining.py` was set by such intervals).

    python -m experiments.bench.expected_matches --cache CACHE CAMPAIGN [CAMPAIGN …]
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from pairsieve.campaign import Campaign
from pairsieve.errors import InputError
from pairsieve.matches.find import ListOptions, find_matches
from pairsieve.matches.threshold import Target


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("campaigns", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path)
    given = parser.parse_args()
    heads = f"{'precision expected':>22} {'true':>6}   {'recall expected':>22} {'true':>6}"
    print(f"{'campaign':14} {'target':10} {'scorer':12} {heads}")
    held = dict.fromkeys(("precision", "recall"), 0)
    lists = 0
    for folder in given.campaigns:
        own, alone = (Campaign(folder, given.cache) for _ in range(2))
        alone.settings = replace(alone.settings, reranker="off")
        for target in (Target(), Target("precision", 0.9)):
            for campaign in (own, alone):
                found = _found(campaign, target)
                if found is None or not found["matches"]:
                    continue
                lists += 1
                expected, true = found["threshold"], found["truth"]["list"]
                cells = []
                for name in held:
                    value, low, high = (expected[name][key] for key in ("value", "low", "high"))
                    inside = low - 1e-9 <= true[name] <= high + 1e-9
                    held[name] += inside
                    interval = f"{value:.3f} [{low:.3f}, {high:.3f}]"
                    cells.append(f"{interval:>22} {true[name]:6.3f}{' ' if inside else '!'}")
                scorer = "re-ranker" if found["scorer"]["reranked"] else "bi-encoder"
                print(f"{folder.name:14} {target.kind:10} {scorer:12} {'  '.join(cells)}", flush=True)
    counts = ", ".join(f"{name} {count}" for name, count in held.items())
    print(f"Of {lists} lists the interval holds the truth: {counts}.")


def _found(campaign: Campaign, target: Target) -> dict[str, Any] | None:
    """The figures of one list; None where the target cannot be reached."""
    with tempfile.TemporaryDirectory() as place:
        try:
            options = ListOptions(source="labels")
            return find_matches(campaign, campaign.split, Path(place) / "m.csv", target, options)
        except InputError as error:
            print(f"{campaign.folder.name:14} {target.kind:10} {error.what}")
            return None


if __name__ == "__main__":
    main()

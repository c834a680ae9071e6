"""Precision and recall that `match` expects of a list, beside what they are.

Takes campaigns whose split has its truth, and prints for the best F1 and for a precision of 0.9, by both
looks, what was expected (95 % intervals) beside what is true, whether the interval holds it, and how many
matches nobody had labelled beside their number by the labels' own word (`matches/unseen.py`, `OFF`).

    python -m experiments.bench.expected_matches --cache CACHE CAMPAIGN [CAMPAIGN …]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from pairsieve.matches.finding import Ways, find_matches
from pairsieve.matches.wish import Wish

from pairsieve.campaign import Campaign
from pairsieve.errors import InputError


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("campaigns", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path)
    given = parser.parse_args()
    heads = f"{'precision expected':>22} {'true':>6}   {'recall expected':>22} {'true':>6}"
    print(f"{'campaign':14} {'wish':10} {'look':12} {heads}")
    held = dict.fromkeys(("precision", "recall"), 0)
    lists = 0
    for folder in given.campaigns:
        campaign = Campaign(folder, given.cache)
        for wish in (Wish(), Wish("precision", 0.9)):
            for again in (True, False):
                found = _found(campaign, wish, again)
                if found is None:
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
                print(
                    f"{folder.name:14} {wish.kind:10} {found['look']['used']:12} {'  '.join(cells)}",
                    flush=True,
                )
    counts = ", ".join(f"{name} {count}" for name, count in held.items())
    print(f"Of {lists} lists the interval holds the truth: {counts}.")


def _found(campaign: Campaign, wish: Wish, again: bool) -> dict[str, Any] | None:
    """The figures of one list; None where the wish cannot be had."""
    with tempfile.TemporaryDirectory() as place:
        try:
            ways = Ways(source="labels", again=again)
            return find_matches(campaign, campaign.split, Path(place) / "m.csv", wish, ways)
        except InputError as error:
            print(f"{campaign.folder.name:14} {wish.kind:10} {error.what}")
            return None


if __name__ == "__main__":
    main()

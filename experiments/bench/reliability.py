"""Whether a stated probability is one: stated and true rates over all pairs that nobody labelled.

    python -m experiments.bench.reliability --kept FOLDER [FOLDER ...] [--jobs 1] [--out FILE.json]
    python -m experiments.bench.reliability --campaign DIR [DIR ...] [--cache FOLDER] [--split test] [--serve]

Takes finished campaigns whose truth is known: those that `strangers --out FOLDER --keep` left, or any that
are named, as those of `split_campaigns`. Of one with several splits, its own and test are looked at. The
probability is that of `match`'s column, `/match`, `explain` and `export`: by dev's truth where there is a
held-out dev split, else by drawn labels. By tenths of stated probability: how many pairs, the mean stated,
the true share of matches. A bin with at least 100 pairs should differ by at most 0.1; the largest such
difference is printed. Then the pairs for which none is stated, and the share of matches among them. "no
probability": too few labels were drawn, and none is stated at all. --serve asks a service over the split for
the best 50 of every text instead of computing what it would answer (one collection).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from experiments.bench.kept import KeptCampaign, add_options, for_each
from pairsieve.audit.calibrate import reliability
from pairsieve.campaign import Campaign
from pairsieve.campaign.probability import calibrated_scorer, reliability_over_all
from pairsieve.matches.find import labelled_pairs, split_named
from pairsieve.pairs import is_member

FEWEST_PAIRS, MOST_OFF = 100, 0.1


def table_of(campaign: Campaign, split_name: str | None) -> dict[str, Any]:
    """The reliability table of a split, and the pairs without a probability; no bins where none is stated."""
    split, round = split_named(campaign, split_name), campaign.trained_round()
    scored = campaign.score(split, round)
    scorer = calibrated_scorer(campaign, round, split=split)
    drawn = 0 if scorer.calibration is None else scorer.calibration.drawn
    if not scorer.calibrated:
        return {"drawn": drawn, "worst": None, "bins": [], "none": None}
    known = np.sort(labelled_pairs(campaign, split).ids)
    bins = reliability_over_all(scorer, scored.scan, split.positives, known)
    rows = [each.as_json() for each in bins]
    matches = len(split.positives) - int(is_member(split.positives, known).sum())
    none = {
        "pairs": split.space.size - len(known) - int(sum(row["pairs"] for row in rows)),
        "matches": matches - int(np.round(sum(row["pairs"] * row["true"] for row in rows))),
        "of": matches,
    }
    return {"drawn": drawn, "worst": worst(rows), "bins": rows, "none": none}


def served_table(campaign: KeptCampaign, split_name: str, count: int = 50) -> list[dict[str, float]]:
    """The reliability table of what `/match` answers for every text of a split, each pair once."""
    from pairsieve.serving import Service

    opened = Campaign(campaign.folder, campaign.cache)
    split, known = (
        split_named(opened, split_name),
        labelled_pairs(opened, split_named(opened, split_name)).ids,
    )
    row_of, found = {key: at for at, key in enumerate(split.left.keys)}, dict[int, float]()
    with (
        TemporaryDirectory() as state,
        Service.open(campaign.folder, split_name, state=Path(state), cache=campaign.cache) as service,
    ):
        for key, row in row_of.items():
            for match in service.match_key(key, count):
                pair = sorted((row, row_of[match.key]))
                if match.probability is not None:
                    found[pair[0] << 32 | pair[1]] = match.probability
    ids = np.array(sorted(found), np.int64)
    ids = ids[~is_member(ids, np.sort(known))]
    stated = np.array([found[each] for each in ids.tolist()])
    found_bins = reliability(stated, np.ones(len(ids)), is_member(ids, split.positives))
    return [each.as_json() for each in found_bins]


def worst(rows: list[dict[str, float]]) -> float | None:
    """The largest difference of a bin with enough pairs."""
    off = [abs(row["stated"] - row["true"]) for row in rows if row["pairs"] >= FEWEST_PAIRS]
    return max(off) if off else None


def stated(campaign: KeptCampaign, split_name: str | None, serve: bool = False) -> list[dict[str, Any]]:
    """The rows of a campaign: one of each split."""
    if serve:
        rows = served_table(campaign, split_name or "all")
        asked = {"campaign": campaign.name, "split": split_name, "drawn": 0}
        return [{**asked, "worst": worst(rows), "bins": rows, "none": None}]
    opened = Campaign(campaign.folder, campaign.cache)
    held_out = ["test"] if "test" in opened.task.splits else []
    splits = [split_name] if split_name else [opened.settings.split, *held_out]
    return [{"campaign": campaign.name, "split": split, **table_of(opened, split)} for split in splits]


def words(row: dict[str, Any]) -> str:
    """A row as a table."""
    head = f"{row['campaign']} {row['split']}, {row['drawn']} labels drawn"
    if row["worst"] is None:
        return f"{head}: " + ("no bin of 100 pairs" if row["bins"] else "no probability")
    lines = [f"{head}, worst {row['worst']:.3f}"]
    for bin in row["bins"]:
        ends = f"{bin['from']:.1f}-{bin['to']:.1f}"
        lines.append(f"  {ends:8}{bin['pairs']:14,.0f}{bin['stated']:9.3f}{bin['true']:9.3f}")
    if none := row["none"]:
        lines.append(f"  none    {none['pairs']:14,}, with {none['matches']:,} of {none['of']:,} matches")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_options(parser)
    parser.add_argument("--split", default=None)
    parser.add_argument("--serve", action="store_true", help="ask a service")
    asked = parser.parse_args()
    sys.exit(for_each(asked, stated, asked.split, asked.serve, say=words) > 0)


if __name__ == "__main__":
    main()

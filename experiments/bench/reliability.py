"""Whether a stated probability is one: stated and true rates over all pairs that nobody labelled.

    python -m experiments.bench.reliability --kept FOLDER [FOLDER ...] [--jobs 1] [--out FILE.json]
    python -m experiments.bench.reliability --campaign DIR [DIR ...] [--cache FOLDER] [--split test] [--serve]

Takes finished campaigns whose truth is known: those that `strangers --out FOLDER --keep` left, or any that
are named. Of one with several splits, its own and test are looked at. Two probabilities are looked at: the
column that `match` writes (from the drawn labels of the split, or dev's truth) and that of `/match`,
`explain` and `export` (dev's truth where there is a held-out dev split, else drawn labels). By tenths of
stated probability: how many pairs, the mean stated, the true share of matches. A bin with at least 100 pairs
should differ by at most 0.1; the largest such difference is printed. "no probability": too few labels were
drawn, and none is stated. --serve asks a service over the split for the best 50 of every text instead of
computing what it would answer (one collection).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from experiments.bench.kept import KeptCampaign, add_options, for_each
from pairsieve.audit.calibrate import reliability
from pairsieve.audit.run import asked_pairs
from pairsieve.campaign import Campaign
from pairsieve.campaign.audits import split_ledger
from pairsieve.campaign.probability import calibration_of, reliability_over_all
from pairsieve.matches.calibration import from_labels
from pairsieve.matches.find import labelled_pairs, split_named
from pairsieve.matches.ranking import rank
from pairsieve.pairs import is_member
from pairsieve.scorer.calibration import Calibration

FEWEST_PAIRS, MOST_OFF = 100, 0.1


def calibrations(campaign: Campaign, split_name: str | None) -> dict[str, Callable[[], Calibration | None]]:
    """Where each stated probability comes from."""
    split, round = split_named(campaign, split_name), campaign.trained_round()

    def of_list() -> Calibration | None:
        if split is not campaign.split and "dev" in campaign.task.splits:
            return calibration_of(campaign, round)
        ranking = rank(campaign.score(split, round), split, "exact", np.random.default_rng(0))
        asked = asked_pairs(split_ledger(campaign, split.name).ledger, ranking.scored.scan)
        known = labelled_pairs(campaign, split)
        return from_labels(ranking, campaign.out_of_fold(round), known, asked).calibration

    return {"match": of_list, "/match": lambda: calibration_of(campaign, round)}


def table_of(campaign: Campaign, split_name: str | None, curve: Calibration | None) -> list[dict[str, float]]:
    """The reliability table under a calibration; empty where it states no probability."""
    split, round = split_named(campaign, split_name), campaign.trained_round()
    if curve is None or not curve.calibrated:
        return []
    scored = campaign.score(split, round)
    known = np.sort(labelled_pairs(campaign, split).ids)
    scorer = replace(scored.scorer, calibration=curve)
    return [each.as_json() for each in reliability_over_all(scorer, scored.scan, split.positives, known)]


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
    """The rows of a campaign: each probability that is stated, over each split."""
    if serve:
        rows = served_table(campaign, split_name or "all")
        asked = {"campaign": campaign.name, "split": split_name, "probability": "/match, served", "drawn": 0}
        return [{**asked, "worst": worst(rows), "bins": rows}]
    opened, found = Campaign(campaign.folder, campaign.cache), list[dict[str, Any]]()
    held_out = ["test"] if "test" in opened.task.splits else []
    for split in [split_name] if split_name else [opened.settings.split, *held_out]:
        for name, curve in calibrations(opened, split).items():
            made = curve()
            rows = table_of(opened, split, made)
            row: dict[str, Any] = {"campaign": campaign.name, "split": split, "probability": name}
            row |= {"drawn": 0 if made is None else made.drawn, "worst": worst(rows), "bins": rows}
            found.append(row)
    return found


def words(row: dict[str, Any]) -> str:
    """A row as a table."""
    head = f"{row['campaign']} {row['split']} {row['probability']}, {row['drawn']} labels drawn"
    if row["worst"] is None:
        return f"{head}: " + ("no bin of 100 pairs" if row["bins"] else "no probability")
    lines = [f"{head}, worst {row['worst']:.3f}"]
    for bin in row["bins"]:
        ends = f"{bin['from']:.1f}-{bin['to']:.1f}"
        lines.append(f"  {ends:8}{bin['pairs']:14,.0f}{bin['stated']:9.3f}{bin['true']:9.3f}")
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

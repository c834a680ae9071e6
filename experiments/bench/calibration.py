"""How well drawn labels calibrate a scorer, on simulated score spaces of 56 million unlabelled pairs.

    python -m experiments.bench.calibration [--repeats 100] [--drawn 0 20 40 100 300] [--out FILE.json]

A space has ranks that grow by a factor of 1.8 with each unit the log-odds fall. The labels that a strategy
chose say a probability of one half at a log-odds of 0, with a slope of their own; the truth of the pairs
nobody asked about is another logistic curve (or one with matches that no score shows). Drawn labels are
spread as a campaign spreads them: half evenly over log rank, half where the curve of the labels so far is in
doubt. Printed: the largest difference between stated and true rate in any bin of a tenth with at least 100
pairs (median and 90 % quantile over repeats), the share of matches for which none is stated, expected over
true matches, and F1 of the list at the threshold of the best expected F1 over the best possible F1.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.audit.calibrate import calibrate, expected_curve, reliability
from pairsieve.numeric import sigmoid
from pairsieve.scorer.calibration import Calibration

PAIRS, FIRST, TOP, BOTTOM = 56_000_000, 300, 8.0, -12.0


@dataclass(frozen=True)
class Space:
    """True rates along the log-odds, and the curve that the chosen labels follow."""

    name: str
    boundary: float  # log-odds at which half of the unlabelled pairs match
    slope: float
    chosen_slope: float
    hidden: float = 0.0  # rate of matches that no score shows

    def population(self) -> tuple[Any, Any, Any]:
        z = np.linspace(TOP, BOTTOM, 2001)
        rank = FIRST * (PAIRS / FIRST) ** ((TOP - z) / (TOP - BOTTOM))
        counts = np.diff(rank, prepend=0.0)
        return z, counts, self.hidden + (1 - self.hidden) * sigmoid(self.slope * (z - self.boundary))


SPACES = (
    Space("as the labels say", 0.0, 1.5, 1.5),
    Space("boundary 2 higher", 2.0, 1.5, 1.2),
    Space("boundary 2 lower", -2.0, 1.5, 1.2),
    Space("far too optimistic", 4.0, 2.0, 0.3),
    Space("steeper than said", 0.0, 3.0, 1.0),
    Space("hidden matches", 1.0, 1.5, 1.0, 1e-5),
)


def once(space: Space, drawn: int, rng: np.random.Generator) -> dict[str, float]:
    z, counts, rate = space.population()
    chosen_z = rng.normal(0.0, 1.5, 300)
    chosen = chosen_z, rng.random(300) < sigmoid(space.chosen_slope * chosen_z)
    have_z, have_y = np.empty(0), np.empty(0, bool)
    curve = calibrate(chosen, (have_z, have_y), (z, counts))
    batches = max(1, drawn // 10)
    for part in np.array_split(np.arange(drawn), batches):
        if not len(part):
            continue
        p = sigmoid(curve.log_odds(z))
        doubt = counts * np.sqrt(p * (1 - p)) * (z > curve.inverse(-3.0))
        even = counts / np.maximum(np.cumsum(counts), 32.0)
        chance = 0.5 * even / even.sum() + 0.5 * doubt / max(doubt.sum(), 1e-300)
        at = rng.choice(len(z), len(part), p=chance / chance.sum())
        have_z, have_y = np.append(have_z, z[at]), np.append(have_y, rng.random(len(at)) < rate[at])
        curve = calibrate(chosen, (have_z, have_y), (z, counts))
    return figures(space, curve)


def figures(space: Space, curve: Calibration) -> dict[str, float]:
    z, counts, rate = space.population()
    p = curve.probabilities(z)
    bins = [row for row in reliability(p, counts, counts * rate) if row.pairs >= 100]
    none = np.isnan(p)
    nothing = np.zeros(len(z))
    expected = expected_curve(z, counts, sigmoid(curve.log_odds(z)), nothing, nothing)
    exact = expected_curve(z, counts, rate, nothing, nothing)
    at = int(np.argmax(2 * expected.true_positives / (np.cumsum(counts) + expected.positives)))
    f1 = 2 * exact.true_positives / (np.cumsum(counts) + exact.positives)
    return {
        "off": max(abs(row.stated - row.true) for row in bins),
        "none": float((counts * rate)[none].sum() / (counts * rate).sum()),
        "matches": expected.positives / exact.positives,
        "f1": float(f1[at] / f1.max()),
        "precision": float(exact.precision[at]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--drawn", type=int, nargs="*", default=[0, 20, 40, 100, 300])
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    results: list[dict[str, Any]] = []
    print(
        f"{'space':22}{'drawn':>7}{'off':>8}{'90 %':>8}{'none':>7}{'matches':>10}{'F1/best':>9}{'10 %':>8}"
        f"{'precision':>11}"
    )
    for space in SPACES:
        for drawn in asked.drawn:
            rng = np.random.default_rng(asked.seed)
            rows = [once(space, drawn, rng) for _ in range(asked.repeats)]
            column = {name: np.array([row[name] for row in rows]) for name in rows[0]}
            result = {
                "space": space.name,
                "drawn": drawn,
                "off": float(np.median(column["off"])),
                "off_90": float(np.quantile(column["off"], 0.9)),
                "none": float(np.median(column["none"])),
                "matches": float(np.median(column["matches"])),
                "f1": float(np.median(column["f1"])),
                "f1_10": float(np.quantile(column["f1"], 0.1)),
                "precision": float(np.median(column["precision"])),
            }
            results.append(result)
            print(
                f"{space.name:22}{drawn:7}{result['off']:8.3f}{result['off_90']:8.3f}{result['none']:7.2f}{result['matches']:10.3g}"
                f"{result['f1']:9.3f}{result['f1_10']:8.3f}{result['precision']:11.3f}",
                flush=True,
            )
    if asked.out:
        asked.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

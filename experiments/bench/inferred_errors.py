"""Whether the stated error of inferred labels covers the true one, where answers are wrong.

    python -m experiments.bench.inferred_errors [--repeats 200] [--wrong 0.01 0.05 0.1] [--labels 400 2000]
        [--out FILE.json]

Texts lie in groups of 2 to 6, or of 10 to 30. Rounds of a tenth of the labels ask pairs of which half match;
an answer is wrong with the chance given; what follows is inferred before each eighth of a round, as a
campaign does. Printed: inferred labels, their true error, the same if one "no match" were enough to keep two
groups apart and nothing were asked twice ("one negative"), the mean 95 % limit that `status` states, and the
share of repeats in which it covers the true error.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.campaign.questions import asked_all_the_same, errors_of_checks
from pairsieve.pairs import AllPairs, Ids, pair_rows
from pairsieve.transitivity import MIN_NEGATIVES, OPEN, implied

GROUPS = {"2 to 6": (2, 6), "10 to 30": (10, 30)}
TEXTS, ROUNDS, PARTS = 300, 10, 8


def made_groups(sizes: tuple[int, int], rng: np.random.Generator) -> Any:
    """(texts,) the group of each text."""
    count = rng.integers(sizes[0], sizes[1] + 1, TEXTS)
    return np.repeat(np.arange(TEXTS), count)[:TEXTS]


def asked_pairs(space: AllPairs, group: Any, count: int, rng: np.random.Generator) -> Ids:
    """Pairs in the order of asking, about half of them matches, as far as there are so many."""
    every = rng.permutation(space.unrank(np.arange(space.size)))
    left, right = pair_rows(every)
    match = group[left] == group[right]
    half = min(count // 2, int(match.sum()))
    return rng.permutation(np.concatenate([every[match][:half], every[~match][: count - half]]))


def once(
    sizes: tuple[int, int],
    labels: int,
    wrong: float,
    min_negatives: int,
    checked: bool,
    rng: np.random.Generator,
) -> dict[str, float]:
    """One campaign: its inferred labels, their error, and what is stated of it."""
    space, group = AllPairs(TEXTS), made_groups(sizes, rng)
    pairs = asked_pairs(space, group, labels, rng)
    left, right = pair_rows(pairs)
    truth = dict(zip(pairs.tolist(), (group[left] == group[right]).tolist()))
    given_ids, given_labels = list[int](), list[bool]()
    waiting = np.empty(0, np.int64)

    def following(ids: Ids) -> Any:
        ids_, said = np.array(given_ids, np.int64), np.array(given_labels, bool)
        return implied(space, ids, ids_[said], ids_[~said], min_negatives).labels

    inferred = np.empty(0, np.int64)
    for batch in np.array_split(pairs, ROUNDS):
        for part in np.array_split(batch, PARTS):
            waiting = np.union1d(inferred, part)  # what no longer follows is asked
            follows = following(waiting) != OPEN
            if checked:
                follows &= ~(asked_all_the_same(waiting) & np.isin(waiting, part))
            inferred = waiting[follows]
            for pair in part[~np.isin(part, inferred)].tolist():
                given_ids.append(pair)
                given_labels.append(truth[pair] ^ (rng.random() < wrong))
    said = following(inferred)
    stands = said != OPEN
    right_labels = np.array([truth[pair] for pair in inferred[stands].tolist()], bool)
    error = float((said[stands].astype(bool) != right_labels).mean()) if stands.any() else np.nan
    found = errors_of_checks(
        space, np.array(given_ids, np.int64), np.array(given_labels, bool), int(stands.sum())
    )
    return {"inferred": float(stands.sum()), "error": error, "high": found.high, "asked": found.asked}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--wrong", type=float, nargs="*", default=[0.01, 0.05, 0.1])
    parser.add_argument("--labels", type=int, nargs="*", default=[400, 2000])
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    rows = []
    print(
        f"{'groups':10}{'labels':>8}{'wrong':>8}{'inferred':>10}{'asked':>8}{'error':>8}{'one negative':>13}"
        f"{'limit':>8}{'covered':>9}"
    )
    for name, sizes in GROUPS.items():
        for labels in asked.labels:
            for wrong in asked.wrong:
                rng = np.random.default_rng(0)
                found = [once(sizes, labels, wrong, MIN_NEGATIVES, True, rng) for _ in range(asked.repeats)]
                plain = [
                    once(sizes, labels, wrong, 1, False, rng) for _ in range(max(asked.repeats // 10, 5))
                ]
                covered = [row["error"] <= row["high"] for row in found if not np.isnan(row["error"])]
                row = {
                    "groups": name,
                    "labels": labels,
                    "wrong": wrong,
                    **{key: float(np.nanmean([each[key] for each in found])) for key in found[0]},
                    "one_negative": float(np.nanmean([each["error"] for each in plain])),
                    "covered": float(np.mean(covered)),
                }
                rows.append(row)
                print(
                    f"{name:10}{labels:8,}{wrong:8.2f}{row['inferred']:10.0f}{row['asked']:8.1f}"
                    f"{row['error']:8.3f}{row['one_negative']:13.3f}{row['high']:8.3f}{row['covered']:9.3f}",
                    flush=True,
                )
    if asked.out:
        asked.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

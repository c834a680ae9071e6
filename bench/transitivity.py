"""How many labels does transitivity save? Nearest pairs first, asked with the truth at hand.

    python bench/transitivity.py --task TASK [--pool 20000] [--labels 16640] [--cache FOLDER]
        [--rows FILE.npy] [--json FILE]

Takes whole groups of matching texts up to `--pool` (all texts with `--pool 0`), retrieves the nearest pairs
by the frozen encoder, and walks them in batches of the paper's schedule, so that what one batch teaches is
known to the next. A pair that follows from the answers so far is not asked. Prints how many pairs were asked
and how many followed, by label, for three orders inside a batch: likeliest match first, at random, least
likely first. Every inferred label is held against the truth; a wrong one ends the bench with an error.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from advice import kept, rows_of, whole_groups
from pairsieve.pairs import AllPairs, Ids, is_member
from pairsieve.scan import open_scan
from pairsieve.search import ExactSearch
from pairsieve.tasks import load_task
from pairsieve.transitivity import Joined, ask_one_by_one, asking_order

ORDERS = ("likeliest first", "at random", "least likely first")


def batches(ids: Ids, scores: np.ndarray, first: int, growth: float) -> list[tuple[Ids, np.ndarray]]:
    """The pairs from the nearest down, cut as a schedule cuts them."""
    order = np.lexsort((ids, -scores))
    cut, sizes = 0, []
    while cut < len(ids):
        sizes.append(math.floor(first * growth ** len(sizes) + 0.5))
        cut += sizes[-1]
    ends = np.cumsum(sizes)[:-1]
    return list(zip(np.split(ids[order], ends), np.split(scores[order], ends)))


def walked(space: AllPairs, parts: list[tuple[Ids, np.ndarray]], truth: Ids, order: str) -> dict[str, Any]:
    """Pairs asked and inferred over all batches in one order."""
    joined, rng = Joined(space), np.random.default_rng(0)
    asked = inferred_matches = inferred_others = wrong = 0
    began = time.perf_counter()
    for ids, scores in parts:
        weights = {
            "likeliest first": scores,
            "least likely first": -scores,
            "at random": rng.random(len(ids)),
        }
        queue = asking_order(ids, weights[order])
        answers = dict(zip(queue.tolist(), is_member(queue, truth).astype(int).tolist()))
        for id, label, was_asked in ask_one_by_one(space, queue, answers.__getitem__, joined):
            asked += was_asked
            inferred_matches += not was_asked and label == 1
            inferred_others += not was_asked and label == 0
            wrong += label != answers[id]
    pairs = asked + inferred_matches + inferred_others
    return {
        "order": order,
        "pairs": pairs,
        "asked": asked,
        "inferred_matches": inferred_matches,
        "inferred_others": inferred_others,
        "saved": (pairs - asked) / pairs,
        "wrong": wrong,
        "seconds": round(time.perf_counter() - began, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", type=Path, required=True)
    parser.add_argument("--split", default="train")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--pool", type=int, default=20000, help="texts; 0 takes all")
    parser.add_argument("--labels", type=int, action="append", default=[])
    parser.add_argument("--first-batch", type=int, default=2048)
    parser.add_argument("--growth", type=float, default=1.5)
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--rows", type=Path, default=None, help="rows of the split's texts, in its order")
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    cache = args.cache or Path(tempfile.mkdtemp(prefix="transitivity-"))
    split = load_task(args.task).splits[args.split]
    pool = whole_groups(split, args.pool or len(split.left), 0)
    if args.rows:
        rows = np.load(args.rows, mmap_mode="r")[pool].astype(np.float32)
    else:
        rows = rows_of(split.left.take(pool), args.encoder, "left", cache)
    space = AllPairs(len(pool))
    truth = kept(split.positives, space, pool, pool)
    search = ExactSearch(open_scan(space, rows))
    print(f"{args.task.name}, {len(pool):,} texts, {space.size:,} pairs, {len(truth):,} matches")
    heads = ("pairs", "asked", "matches", "others", "saved", "wrong")
    print(f"{'order in a batch':<20}" + "".join(f"{head:>9}" for head in heads))
    found = []
    for count in args.labels or [5120, 16640, 50000]:
        best = search.best(count, np.empty(0, np.int64)).pairs
        parts = batches(best.ids, best.scores.astype(np.float64), args.first_batch, args.growth)
        for order in ORDERS:
            row = walked(space, parts, truth, order)
            found.append(row)
            counts = (row["pairs"], row["asked"], row["inferred_matches"], row["inferred_others"])
            shown = "".join(f"{number:>9,}" for number in counts)
            print(f"{order:<20}{shown}{row['saved']:>9.1%}{row['wrong']:>9}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))
    if any(row["wrong"] for row in found):
        raise SystemExit("an inferred label contradicts the truth")


if __name__ == "__main__":
    main()

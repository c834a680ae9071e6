"""Labels that transitivity saves on a collection of duplicates: nearest pairs first, truth at hand.

    python -m experiments.bench.transitivity --task TASK [--pool 20000] [--labels 16640] [--cache FOLDER]
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.artifacts import ArtifactStore, load_array, save_array
from pairsieve.models import encoder_named
from pairsieve.pairs import AllPairs, Ids, PairSpace, is_member, pair_rows
from pairsieve.scan import open_scan
from pairsieve.search import ExactSearch
from pairsieve.tasks import Collection, Split, load_task
from pairsieve.tasks.truth import components
from pairsieve.transitivity import MATCH, NO_MATCH, OPEN, check_transitive

ORDERS = ("likeliest first", "at random", "least likely first")


def rows_of(texts: Collection, encoder_name: str, side: str, cache: Path) -> np.ndarray:
    """The frozen encoder's rows, kept in `cache` under the key that campaigns use too."""
    encoder = encoder_named(encoder_name)
    key = {"encoder": encoder.fingerprint, "texts": texts.fingerprint, "prefix": encoder.prefix(side)}
    place = ArtifactStore(cache).get(
        "embeddings", key, lambda folder: save_array(folder / "rows.npy", encoder.embed(texts.texts, side))
    )
    return load_array(place / "rows.npy")


def whole_groups(split: Split, texts: int, seed: int) -> np.ndarray:
    """Rows of about `texts` texts of one collection, group of matches by group, in their own order."""
    group = components(len(split.left), *pair_rows(split.positives))
    order = np.random.default_rng(seed).permutation(int(group.max()) + 1)[group]
    return np.sort(np.argsort(order, kind="stable")[:texts])


def kept(positives: Ids, space: PairSpace, left: np.ndarray, right: np.ndarray) -> Ids:
    """Positives between the rows kept, renumbered."""
    one, other = pair_rows(positives)
    inside = np.isin(one, left) & np.isin(other, right)
    return np.sort(space.ids(np.searchsorted(left, one[inside]), np.searchsorted(right, other[inside])))


def batches(ids: Ids, scores: np.ndarray, first: int, growth: float) -> list[tuple[Ids, np.ndarray]]:
    """The pairs from the nearest down, cut as a schedule cuts them."""
    order = np.lexsort((ids, -scores))
    cut, sizes = 0, list[int]()
    while cut < len(ids):
        sizes.append(math.floor(first * growth ** len(sizes) + 0.5))
        cut += sizes[-1]
    ends = np.cumsum(sizes)[:-1]
    return list(zip(np.split(ids[order], ends), np.split(scores[order], ends)))


def asking_order(ids: Ids, logits: np.ndarray) -> Ids:
    """A batch with the likeliest matches first; equal logits by smaller id.

    Matches join groups, and one later "no match" between groups then speaks for every pair between them, so
    asking matches early saves most labels.
    """
    return ids[np.lexsort((ids, -np.asarray(logits, dtype=np.float64)))]


@dataclass
class Joined:
    """The same two rules while answers arrive one by one: `says(id)`, then `add(id, label)`.

    Groups merge into the larger one, so n answers cost O(n log n) together. An answer against what was said
    is kept in `against`, not applied to the groups; from then on the groups it touches say nothing.
    """

    space: PairSpace
    against: list[int] = field(default_factory=list)
    _group: dict[int, int] = field(default_factory=dict)  # text -> group
    _members: dict[int, list[int]] = field(default_factory=dict)
    _apart: dict[int, set[int]] = field(default_factory=dict)  # group -> groups known to be others
    _torn: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        check_transitive(self.space)

    def says(self, id: int) -> int:
        """1 match, 0 no match, -1 open."""
        left_group, right_group = self._group.get(id >> 32), self._group.get(id & 0xFFFFFFFF)
        if left_group is None or right_group is None or left_group in self._torn or right_group in self._torn:
            return OPEN
        if left_group == right_group:
            return MATCH
        return NO_MATCH if right_group in self._apart[left_group] else OPEN

    def add(self, id: int, label: int) -> None:
        """An answer: 1 or 0."""
        left_group, right_group = self._of(id >> 32), self._of(id & 0xFFFFFFFF)
        if (label == NO_MATCH and left_group == right_group) or (
            label == MATCH and right_group in self._apart[left_group]
        ):
            self.against.append(id)
            self._torn |= {left_group, right_group}
        elif label == NO_MATCH:
            self._apart[left_group].add(right_group)
            self._apart[right_group].add(left_group)
        elif left_group != right_group:
            self._merge(left_group, right_group)

    def _of(self, text: int) -> int:
        if text not in self._group:
            self._group[text], self._members[text], self._apart[text] = text, [text], set()
        return self._group[text]

    def _merge(self, kept: int, gone: int) -> None:
        cost = {group: len(self._members[group]) + len(self._apart[group]) for group in (kept, gone)}
        if cost[kept] < cost[gone]:
            kept, gone = gone, kept
        for text in self._members[gone]:
            self._group[text] = kept
        self._members[kept] += self._members.pop(gone)
        for other in self._apart.pop(gone):
            self._apart[other].discard(gone)
            self._apart[other].add(kept)
            self._apart[kept].add(other)
        if gone in self._torn:
            self._torn.discard(gone)
            self._torn.add(kept)


def ask_one_by_one(
    space: PairSpace, ids: Ids, ask: Callable[[int], int], known: Joined | None = None
) -> Iterator[tuple[int, int, bool]]:
    """Walk a batch in order, asking only what does not follow yet: yields (id, label, was asked).

    `known` carries what earlier batches taught, and learns along.
    """
    joined = Joined(space) if known is None else known
    for id in ids.tolist():
        label = joined.says(id)
        if label == OPEN:
            label = ask(id)
            joined.add(id, label)
            yield id, label, True
        else:
            yield id, label, False


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

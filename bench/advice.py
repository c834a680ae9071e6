"""Does the advice hold? Campaigns with the truth at hand: what was predicted of each batch, and what came.

    python bench/advice.py --task TASK [--texts 12000] [--first-batch 256] [--rounds 7] [--seeds 3]
        [--strategy uncertainty --strategy adaptive] [--cache FOLDER] [--verbose] [--json FILE]

Each seed is another part of the task: of one collection, whole groups of matching texts up to `--texts`; of
two, six in ten left texts and every second right text besides those that match. The frozen encoder embeds
once (`--cache` keeps it), the projection learner trains each round, search is exact. Prints how often what
came lay within the 90 % interval: of the next batch's positives (must be at least 85 %), of the positives
left, and of AP over all pairs of the part.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.artifacts import ArtifactStore, load_array, save_array
from pairsieve.contracts import generator_for
from pairsieve.measure import measure_exactly
from pairsieve.measure.advice import Advice, Batch, Scored, Unasked, advise
from pairsieve.models import encoder_named
from pairsieve.models.head import fit_head
from pairsieve.models.projection import ProjectionSettings, fit_maps
from pairsieve.pairs import AllPairs, CrossPairs, Ids, PairSpace, is_member, pair_rows
from pairsieve.scan import open_scan, unit_rows
from pairsieve.search import ExactSearch
from pairsieve.tasks import Collection, Split, load_task
from pairsieve.tasks.truth import components

EDGES = np.linspace(-1.001, 1.001, 801, dtype=np.float32)


@dataclass(frozen=True)
class Part:
    """A part of a task: frozen rows of both sides (one array twice for one collection) and its positives."""

    space: PairSpace
    left: np.ndarray
    right: np.ndarray
    positives: Ids


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


def part_of(
    split: Split, rows: tuple[np.ndarray, np.ndarray], pool: np.ndarray, texts: int, seed: int
) -> Part:
    """The part of a seed; `pool` are the rows of one collection that were embedded."""
    rng = np.random.default_rng(seed)
    if split.space.symmetric:
        group = components(len(split.left), *pair_rows(split.positives))[pool]
        order = rng.permutation(int(group.max()) + 1)[group]
        mine = np.sort(np.argsort(order, kind="stable")[:texts])
        space: PairSpace = AllPairs(len(mine))
        chosen = pool[mine]
        return Part(space, rows[0][mine], rows[0][mine], kept(split.positives, space, chosen, chosen))
    left = np.sort(rng.permutation(len(split.left))[: len(split.left) * 6 // 10])
    one, other = pair_rows(split.positives)
    right = rng.permutation(len(split.right))[: len(split.right) // 2]
    right = np.union1d(right, other[np.isin(one, left)])
    space = CrossPairs(len(left), len(right))
    return Part(space, rows[0][left], rows[1][right], kept(split.positives, space, left, right))


def campaign(part: Part, strategy: str, sizes: list[int], seed: int) -> list[dict[str, Any]]:
    """One simulated campaign: for every round after the first, the advice before it and what came."""
    asked, labels = np.empty(0, np.int64), np.empty(0, bool)
    scan = open_scan(part.space, part.left, part.right, device="cpu")
    history: list[Batch] = []
    curve: list[tuple[int, float]] = []
    rows: list[dict[str, Any]] = []
    weight, bias, said = 1.0, 0.0, None
    for number, size in enumerate(sizes, start=1):
        search = ExactSearch(scan)
        if number == 1 or strategy == "adaptive":
            pairs = search.best(size, asked).pairs
        else:
            pairs = search.closest(float(np.clip(-bias / weight, -2, 2)), size, asked).pairs
        chosen = Scored(pairs.scores, weight, bias)
        came = is_member(pairs.ids, part.positives)
        if number > 1:
            left = int(len(part.positives) - labels.sum())
            taken = np.histogram(scan.scores(asked), EDGES)[0]
            by_score = -np.diff(scan.count_reaching(EDGES)) - taken
            said = advise(
                history,
                chosen,
                unasked=Unasked(EDGES, by_score),
                space=part.space,
                found=asked[labels],
                curve=curve,
            )
        history.append(Batch(came, chosen if number > 1 else None))
        order = np.argsort(np.concatenate([asked, pairs.ids]))
        asked, labels = np.concatenate([asked, pairs.ids])[order], np.concatenate([labels, came])[order]
        weight, bias, scan = _trained(part, asked, labels, generator_for(seed, number, "train"))
        ap = measure_exactly(scan, part.positives).curve.average_precision()
        curve.append((len(asked), ap))
        if said is not None:
            rows.append(_row(said, number, int(came.sum()), left, ap))
    return rows


def _trained(
    part: Part, asked: Ids, labels: np.ndarray, rng: np.random.Generator
) -> tuple[float, float, Any]:
    one, other = pair_rows(asked)
    maps = fit_maps(part.left[one], part.right[other], labels, ProjectionSettings(), rng)
    left = unit_rows(part.left @ maps[0].T)
    right = left if part.space.symmetric else unit_rows(part.right @ maps[1].T)
    weight, bias = fit_head(np.einsum("nd,nd->n", left[one], right[other]), labels)
    return weight, bias, open_scan(part.space, left, right, device="cpu")


def _row(said: Advice, number: int, came: int, left: int, ap: float) -> dict[str, Any]:
    row: dict[str, Any] = {"round": number, "labels": said.next_labels, "sentence": said.sentence}
    for name, figure, truth in (
        ("next", said.next_positives, came),
        ("left", said.left, left),
        ("ap", said.ap_after, ap),
    ):
        if figure is not None:
            row[name] = {
                "came": truth,
                "value": figure.value,
                "low": figure.low,
                "high": figure.high,
                "within": bool(figure.low <= truth <= figure.high),
            }
    if said.left_at_least is not None:
        row["floor"] = {"came": left, "value": said.left_at_least.value, "low": said.left_at_least.low}
        row["floor"]["within"] = bool(said.left_at_least.low <= left)
    return row


def _coverage(rows: list[dict[str, Any]], name: str) -> str:
    known = [row[name]["within"] for row in rows if name in row]
    return f"{100 * np.mean(known):.0f} % of {len(known)}" if known else "-"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", type=Path, required=True)
    parser.add_argument("--split", default="train")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--pool", type=int, default=20000, help="texts of one collection that are embedded")
    parser.add_argument("--texts", type=int, default=12000, help="texts of one collection in a seed's part")
    parser.add_argument("--strategy", action="append", default=[])
    parser.add_argument("--first-batch", type=int, default=256)
    parser.add_argument("--growth", type=float, default=1.5)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, default=None)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    cache = args.cache or Path(tempfile.mkdtemp(prefix="advice-"))
    split = load_task(args.task).splits[args.split]
    if split.space.symmetric:
        pool = whole_groups(split, args.pool, 0)
        mine = rows_of(split.left.take(pool), args.encoder, "left", cache)
        rows = (mine, mine)
    else:
        pool = np.arange(len(split.left))
        rows = (
            rows_of(split.left, args.encoder, "left", cache),
            rows_of(split.right, args.encoder, "right", cache),
        )
    sizes = [math.floor(args.first_batch * args.growth**i + 0.5) for i in range(args.rounds)]
    every: list[dict[str, Any]] = []
    print(f"{args.task.name}, {args.seeds} seeds, batches {sizes}")
    print(f"{'strategy':<14}{'next batch':>16}{'left':>16}{'AP':>16}{'floor held':>16}{'seconds':>9}")
    for strategy in args.strategy or ["uncertainty", "adaptive"]:
        began, found = time.perf_counter(), []
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            part = part_of(split, rows, pool, args.texts, seed)
            for row in campaign(part, strategy, sizes, seed):
                found.append({"strategy": strategy, "seed": seed, **row})
                if args.verbose:
                    print(
                        f"  seed {seed} round {row['round']}: came {row['next']['came']}. {row['sentence']}"
                    )
        spent = time.perf_counter() - began
        columns = "".join(f"{_coverage(found, name):>16}" for name in ("next", "left", "ap", "floor"))
        print(f"{strategy:<14}{columns}{spent:>9.0f}", flush=True)
        every += found
        if args.json:
            args.json.write_text(json.dumps(every, indent=1))
    print(
        f"{'together':<14}" + "".join(f"{_coverage(every, n):>16}" for n in ("next", "left", "ap", "floor"))
    )


if __name__ == "__main__":
    main()

"""Does the advice hold? Campaigns with the truth at hand: what was predicted of each batch, and what came.

    python bench/advice.py --campaigns DIR... [--again] [--verbose] [--json FILE]
    python bench/advice.py --task TASK [--texts 12000] [--first-batch 256] [--rounds 7] [--seeds 3]
        [--strategy uncertainty --strategy adaptive] [--cache FOLDER] [--verbose] [--json FILE]

The first reads campaign folders, whatever learner trained them: what the sealed advice said after each
round (with `--again`: what today's code says, from the same ledger and selections), and what the next round
brought. The second simulates campaigns on parts of a task. Each seed is another part: of one collection,
whole groups of matching texts up to `--texts`; of two, six in ten left texts and every second right text
besides those that match. The frozen encoder embeds once (`--cache` keeps it), the projection learner trains
each round, search is exact.

Prints how often what came lay within the 90 % interval: of the next batch's positives (must be at least
85 %), of the positives left, and of AP over all pairs; how often the interval said nothing (as wide as the
batch, or nearly: it counts as neither); and how wide the others were, as a share of the batch and as high /
low (medians).
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
from pairsieve.campaign import Campaign
from pairsieve.campaign.figures import read_sealed
from pairsieve.campaign.guidance import advice_after
from pairsieve.contracts import generator_for
from pairsieve.measure import measure_exactly
from pairsieve.measure.advice import Batch, Scored, Unasked, advise, depth_of
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
            unasked = Unasked(EDGES, -np.diff(scan.count_reaching(EDGES)) - taken)
            said = advise(
                history,
                chosen,
                unasked=unasked,
                space=part.space,
                found=asked[labels],
                curve=curve,
            )
        depth = depth_of(pairs.scores, unasked) if number > 1 else float(np.log1p(size / 2.0))
        history.append(Batch(came, chosen if number > 1 else None, depth))
        order = np.argsort(np.concatenate([asked, pairs.ids]))
        asked, labels = np.concatenate([asked, pairs.ids])[order], np.concatenate([labels, came])[order]
        weight, bias, scan = _trained(part, asked, labels, generator_for(seed, number, "train"))
        ap = measure_exactly(scan, part.positives).curve.average_precision()
        curve.append((len(asked), ap))
        if said is not None:
            rows.append(_row(said.as_json(), number, int(came.sum()), left, ap))
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


def read_campaign(folder: Path, again: bool) -> list[dict[str, Any]]:
    """A campaign folder: for every round after the first that has answers, advice before it and what came.

    `again` asks today's code, from the ledger and the selections as they were saved.
    """
    held = Campaign(folder)
    split, counts, figures = held.split, {c.round: c for c in held.ledger.counts()}, held.figures()
    curve = {
        n: (row["labels"], row["average_precision"]["value"])
        for n, row in figures.items()
        if "average_precision" in row
    }
    places = _selections(held) if again else {}
    rows = []
    for number in sorted(counts)[1:]:
        if counts[number].open or number - 1 not in counts:
            continue
        if again and set(range(1, number + 1)) <= set(places):
            batch = len(load_array(places[number] / "ids.npy"))
            known = [curve[n] for n in sorted(curve) if n < number]
            chosen = [places[n] for n in range(1, number)]
            said = advice_after(held.ledger, split.space, chosen, places[number], batch, known).as_json()
        else:
            said = read_sealed(folder / "rounds" / f"advice-{number - 1:03d}.json") or {}
        if not said:
            continue
        found = sum(count.positives for n, count in counts.items() if n < number)
        left = len(split.positives) - found if split.has_truth else None
        row = _row(said, number, counts[number].positives, left, curve.get(number, (0, None))[1])
        rows.append({"campaign": folder.name, "task": held.task.name, **row})
    return rows


def _selections(held: Campaign) -> dict[int, Path]:
    """Where the selection of each round was saved, found by its pairs."""
    by_pairs = {
        load_array(place).tobytes(): place.parent
        for place in sorted((held.folder / "artifacts" / "selection").glob("*/ids.npy"))
    }
    asked = {number: held.ledger.questions(number, "train").ids for number in held.ledger.rounds()}
    return {n: by_pairs[ids.tobytes()] for n, ids in asked.items() if ids.tobytes() in by_pairs}


def _row(said: dict[str, Any], number: int, came: int, left: int | None, ap: float | None) -> dict[str, Any]:
    """One round: what the advice (as JSON) said of it, and what came."""
    row: dict[str, Any] = {"round": number, "labels": said["next_labels"], "sentence": said["sentence"]}
    for name, key, truth in (
        ("next", "next_positives", came),
        ("left", "left", left),
        ("ap", "ap_after", ap),
    ):
        figure = said[key]
        if figure is not None and truth is not None:
            within = bool(figure["low"] <= truth <= figure["high"])
            row[name] = {"came": truth, **figure, "within": within}
    if "next" in row and row["next"]["high"] - row["next"]["low"] >= 0.95 * row["labels"]:
        row["unknown"] = row.pop("next")
    if said["left_at_least"] is not None and left is not None:
        floor = said["left_at_least"]
        row["floor"] = {"came": left, "value": floor["value"], "within": bool(floor["low"] <= left)}
    return row


HEADS = ("next batch", "says nothing", "width", "high / low", "left", "AP", "floor held")


def _columns(rows: list[dict[str, Any]]) -> str:
    """The figures of some rounds, in the order of HEADS."""
    known = [row for row in rows if "next" in row]
    wide = [(row["next"]["high"] - row["next"]["low"]) / max(row["labels"], 1) for row in known]
    times = [(row["next"]["high"] + 1) / (row["next"]["low"] + 1) for row in known]
    cells = [
        _coverage(rows, "next"),
        f"{sum('unknown' in row for row in rows)} of {len(rows)}",
        f"{np.median(wide):.0%}" if wide else "-",
        f"{np.median(times):.1f}" if times else "-",
        *(_coverage(rows, name) for name in ("left", "ap", "floor")),
    ]
    return "".join(f"{cell:>15}" for cell in cells)


def _coverage(rows: list[dict[str, Any]], name: str) -> str:
    known = [row[name]["within"] for row in rows if name in row]
    return f"{100 * np.mean(known):.0f} % of {len(known)}" if known else "-"


def _tell(row: dict[str, Any]) -> None:
    came = row.get("next", row.get("unknown", {})).get("came", "?")
    more = "".join(f", {name} {row[name]['came']:.4g}" for name in ("left", "ap") if name in row)
    print(f"  round {row['round']}: came {came}{more}. Said: {row['sentence']}")


def compare_campaigns(folders: list[Path], again: bool, verbose: bool) -> list[dict[str, Any]]:
    """Print what finished campaigns say, one line each and one together."""
    every: list[dict[str, Any]] = []
    print(f"{'campaign':<34}" + "".join(f"{head:>15}" for head in HEADS))
    for folder in folders:
        rows = read_campaign(folder, again)
        if rows:
            print(f"{rows[0]['task'] + ' ' + folder.name:<34}" + _columns(rows), flush=True)
        for row in rows if verbose else ():
            _tell(row)
        every += rows
    for task in sorted({row["task"] for row in every}):
        print(f"{'all of ' + task:<34}" + _columns([row for row in every if row["task"] == task]))
    return every


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--campaigns", type=Path, nargs="+", default=[], help="campaign folders")
    parser.add_argument("--again", action="store_true", help="advise anew instead of reading what was said")
    parser.add_argument("--task", type=Path, default=None)
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
    if args.campaigns:
        every = compare_campaigns(args.campaigns, args.again, args.verbose)
        if args.json:
            args.json.write_text(json.dumps(every, indent=1))
        return
    if args.task is None:
        parser.error("give --campaigns or --task")
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
    simulated: list[dict[str, Any]] = []
    print(f"{args.task.name}, {args.seeds} seeds, batches {sizes}")
    print(f"{'strategy':<14}" + "".join(f"{head:>15}" for head in (*HEADS, "seconds")))
    for strategy in args.strategy or ["uncertainty", "adaptive"]:
        began, found = time.perf_counter(), []
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            part = part_of(split, rows, pool, args.texts, seed)
            for row in campaign(part, strategy, sizes, seed):
                found.append({"strategy": strategy, "seed": seed, **row})
                if args.verbose:
                    _tell(row)
        spent = time.perf_counter() - began
        print(f"{strategy:<14}{_columns(found)}{spent:>15.0f}", flush=True)
        simulated += found
        if args.json:
            args.json.write_text(json.dumps(simulated, indent=1))
    print(f"{'together':<14}{_columns(simulated)}")


if __name__ == "__main__":
    main()

"""Coverage and width of the advice's predictions: matches expected in each next batch, and those found.

    python -m experiments.bench.advice --campaigns DIR... [--again] [--cache FOLDER] [--encoder NAME]
        [--words-only] [--verbose] [--json FILE]
    python -m experiments.bench.advice --task TASK [--texts 12000] [--first-batch 256] [--rounds 7]
        [--seeds 3] [--strategy uncertainty --strategy adaptive] [--cache FOLDER] [--verbose] [--json FILE]

The first reads campaign folders, whatever learner trained them: what the sealed advice said after each
round, and what the next round brought. `--again` asks today's code instead, from the same ledger, and from
the selections where they were saved. Text-similarity features need the rows of the campaign's frozen encoder;
where that encoder is not here, those of `--encoder` if they are in `--cache` (nothing is embedded), with the
campaign's prefixes. A folder without a ledger is judged by the counts of its rounds alone.

The second simulates campaigns on parts of a task. Each seed is another part: of one collection, whole groups
of matching texts up to `--texts`; of two, six in ten left texts and every second right text besides those
that match. The frozen encoder embeds once (`--cache` keeps it), the projection learner trains each round,
search is exact. `steered` is uncertainty with the boundary of the best recipe.

Prints how often what came lay within the 90 % interval: of the next batch's positives (must be at least
85 %), of the positives left, and of AP over all pairs; how often the interval spans so much of the batch that
the sentence says "not known yet"; and its width as a share of the batch (medians: of all rounds, and from the
third batch on).
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

from pairsieve.advice.advice import UNINFORMATIVE, SavedSelection, advise, advise_after
from pairsieve.advice.batch_yield import LabelledBatch
from pairsieve.advice.features import Rows, frozen_rows, similarity_features
from pairsieve.advice.remaining import ScoreCounts
from pairsieve.artifacts import ArtifactStore, load_array, save_array
from pairsieve.campaign import Campaign
from pairsieve.campaign.figures import read_sealed
from pairsieve.contracts import generator_for
from pairsieve.errors import PairsieveError
from pairsieve.measure import measure_exactly
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
    texts: tuple[list[str], list[str]] | None = None

    def features(self, ids: Ids) -> np.ndarray:
        """Text similarity of pairs; without texts, only the cosine of the frozen rows."""
        texts = self.texts or ([""] * len(self.left), [""] * len(self.right))
        return similarity_features(self.space, texts, ids, (self.left, self.right))


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
        kept_texts = np.sort(np.argsort(order, kind="stable")[:texts])
        space: PairSpace = AllPairs(len(kept_texts))
        chosen = pool[kept_texts]
        words = [split.left.texts[row] for row in chosen.tolist()]
        inside = kept(split.positives, space, chosen, chosen)
        return Part(space, rows[0][kept_texts], rows[0][kept_texts], inside, (words, words))
    left = np.sort(rng.permutation(len(split.left))[: len(split.left) * 6 // 10])
    one, other = pair_rows(split.positives)
    right = rng.permutation(len(split.right))[: len(split.right) // 2]
    right = np.union1d(right, other[np.isin(one, left)])
    space = CrossPairs(len(left), len(right))
    both = (
        [split.left.texts[row] for row in left.tolist()],
        [split.right.texts[row] for row in right.tolist()],
    )
    return Part(space, rows[0][left], rows[1][right], kept(split.positives, space, left, right), both)


def campaign(part: Part, strategy: str, sizes: list[int], seed: int) -> list[dict[str, Any]]:
    """One simulated campaign: for every round after the first, the advice before it and what came."""
    asked, labels = np.empty(0, np.int64), np.empty(0, bool)
    scan = open_scan(part.space, part.left, part.right, device="cpu")
    history: list[SavedSelection] = []
    curve: list[tuple[int, float]] = []
    rows: list[dict[str, Any]] = []
    weight, bias, boundary, advised = 1.0, 0.0, 0.0, None
    for number, size in enumerate(sizes, start=1):
        search = ExactSearch(scan)
        if number == 1 or strategy == "adaptive":
            pairs = search.best(size, asked).pairs
        else:
            pairs = search.closest(float(np.clip((boundary - bias) / weight, -2, 2)), size, asked).pairs
        chosen = SavedSelection(pairs.ids)
        came = is_member(pairs.ids, part.positives)
        if number > 1:
            left = int(len(part.positives) - labels.sum())
            taken = np.histogram(scan.scores(asked), EDGES)[0]
            unasked = ScoreCounts(EDGES, -np.diff(scan.count_reaching(EDGES)) - taken)
            chosen = SavedSelection(pairs.ids, pairs.scores, unasked)
            advised = advise_after(
                part.space, asked, labels, history, chosen, curve=curve, features=part.features
            )
        if strategy == "steered" and number > 1:
            rate = float(np.clip((came.sum() + 0.5) / (size + 1.0), 0.02, 0.98))
            boundary -= math.log(rate / (1.0 - rate))
        history.append(chosen)
        order = np.argsort(np.concatenate([asked, pairs.ids]))
        asked, labels = np.concatenate([asked, pairs.ids])[order], np.concatenate([labels, came])[order]
        weight, bias, scan = _trained(part, asked, labels, generator_for(seed, number, "train"))
        ap = measure_exactly(scan, part.positives).curve.average_precision()
        curve.append((len(asked), ap))
        if advised is not None:
            rows.append(_row(advised.as_json(), number, int(came.sum()), left, ap))
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


@dataclass(frozen=True)
class Eyes:
    """Whose frozen rows stand in the features of a stored campaign."""

    cache: Path | None
    encoder: str
    words_only: bool

    def rows(self, held: Campaign) -> tuple[Rows, Rows] | None:
        if self.words_only:
            return None
        try:
            found = frozen_rows(held._shared, held.trainer.learner.encoder, held.split)
        except PairsieveError:  # the campaign was run elsewhere: its encoder is not here
            found = None
        if found is None and self.cache is not None:
            settings = held.settings
            prefixes = (settings.left_prefix, settings.right_prefix)
            encoder = encoder_named(self.encoder, settings.max_length, *prefixes)
            found = frozen_rows(ArtifactStore(self.cache), encoder, held.split)
        return found


def read_campaign(folder: Path, again: bool, eyes: Eyes) -> list[dict[str, Any]]:
    """A campaign folder: for every round after the first that has answers, advice before it and what came.

    `again` asks today's code, from the ledger and the selections as they were saved.
    """
    held = Campaign(folder, cache=eyes.cache)
    split, figures = held.split, held.figures()
    curve = {
        n: (row["labels"], row["average_precision"]["value"])
        for n, row in figures.items()
        if "average_precision" in row
    }
    brought, chosen = _rounds(held)
    part, seen = split, eyes.rows(held) if again else None

    def features(ids: Ids) -> np.ndarray:
        return similarity_features(part.space, (part.left.texts, part.right.texts), ids, seen)

    rows = []
    for number in sorted(brought)[1:]:
        if number - 1 not in brought:
            continue
        size, came = brought[number]
        known = [curve[n] for n in sorted(curve) if n < number]
        if not again:
            advised = read_sealed(folder / "rounds" / f"advice-{number - 1:03d}.json") or {}
        elif chosen:
            before = [chosen[n] for n in range(1, number)]
            labels = held.ledger.labels(through=number - 1)
            advised = advise_after(
                split.space, *labels, before, chosen[number], size, known, features
            ).as_json()
        else:
            counts = [LabelledBatch(np.arange(n) < m) for n, m in (brought[k] for k in range(1, number))]
            advised = advise(counts, size, curve=known).as_json()
        if not advised:
            continue
        left = None
        if split.has_truth:
            left = len(split.positives) - sum(m for n, (_, m) in brought.items() if n < number)
        row = _row(advised, number, came, left, curve.get(number, (0, None))[1])
        rows.append({"campaign": folder.name, "task": held.task.name, **row})
    return rows


def _rounds(held: Campaign) -> tuple[dict[int, tuple[int, int]], dict[int, SavedSelection]]:
    """(labels, matches) of every round that is answered, and its pairs; without a ledger only the counts."""
    place = held.settings.ledger_place(held.folder)
    if isinstance(place, Path) and not place.exists():
        batches = {n: row["batch"] for n, row in held.figures().items()}
        return {n: (batch["labels"], batch["positives"]) for n, batch in batches.items()}, {}
    counts = {c.round: (c.labelled, c.positives) for c in held.ledger.counts() if not c.open}
    saved = {
        np.sort(load_array(place)).tobytes(): place.parent
        for place in sorted((held.folder / "artifacts" / "selection").glob("*/ids.npy"))
    }
    chosen = {}
    for number in counts:
        ids = np.sort(held.ledger.questions(number, "train").ids)
        there = saved.get(ids.tobytes())
        chosen[number] = SavedSelection.load(there) if there else SavedSelection(ids)
    return counts, chosen


def _row(
    advised: dict[str, Any], number: int, came: int, left: int | None, ap: float | None
) -> dict[str, Any]:
    """One round: the advice (as JSON) before it, and what came."""
    row: dict[str, Any] = {"round": number, "labels": advised["next_labels"], "sentence": advised["sentence"]}
    for name, key, truth in (
        ("next", "next_positives", came),
        ("left", "left", left),
        ("ap", "ap_after", ap),
    ):
        figure = advised[key]
        if figure is not None and truth is not None:
            within = bool(figure["low"] <= truth <= figure["high"])
            row[name] = {"came": truth, **figure, "within": within}
    return row


HEADS = ("next batch", "not known yet", "width", "from batch 3", "left", "AP")


def _columns(rows: list[dict[str, Any]]) -> str:
    """The figures of some rounds, in the order of HEADS."""
    wide = [
        (row["round"], (row["next"]["high"] - row["next"]["low"]) / max(row["labels"], 1))
        for row in rows
        if "next" in row
    ]
    later = [width for number, width in wide if number > 2]
    cells = [
        _coverage(rows, "next"),
        f"{sum(width > UNINFORMATIVE for _, width in wide)} of {len(wide)}",
        f"{np.median([width for _, width in wide]):.0%}" if wide else "-",
        f"{np.median(later):.0%}" if later else "-",
        *(_coverage(rows, name) for name in ("left", "ap")),
    ]
    return "".join(f"{cell:>15}" for cell in cells)


def _coverage(rows: list[dict[str, Any]], name: str) -> str:
    known = [row[name]["within"] for row in rows if name in row]
    return f"{100 * np.mean(known):.0f} % of {len(known)}" if known else "-"


def _tell(row: dict[str, Any]) -> None:
    came = row.get("next", {}).get("came", "?")
    more = "".join(f", {name} {row[name]['came']:.4g}" for name in ("left", "ap") if name in row)
    print(f"  round {row['round']}: came {came}{more}. Said: {row['sentence']}")


def compare_campaigns(folders: list[Path], again: bool, eyes: Eyes, verbose: bool) -> list[dict[str, Any]]:
    """Print what finished campaigns say, one line each and one together."""
    every: list[dict[str, Any]] = []
    print(f"{'campaign':<34}" + "".join(f"{head:>15}" for head in HEADS))
    for folder in folders:
        rows = read_campaign(folder, again, eyes)
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
    parser.add_argument("--words-only", action="store_true", help="features without an encoder's rows")
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
        eyes = Eyes(args.cache, args.encoder, args.words_only)
        every = compare_campaigns(args.campaigns, args.again, eyes, args.verbose)
        if args.json:
            args.json.write_text(json.dumps(every, indent=1))
        return
    if args.task is None:
        parser.error("give --campaigns or --task")
    cache = args.cache or Path(tempfile.mkdtemp(prefix="advice-"))
    split = load_task(args.task).splits[args.split]
    if split.space.symmetric:
        pool = whole_groups(split, args.pool, 0)
        left = rows_of(split.left.take(pool), args.encoder, "left", cache)
        rows = (left, left)
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

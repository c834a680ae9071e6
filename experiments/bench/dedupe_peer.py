"""Beside dedupe on a matching benchmark: the same labels, seconds, memory, F1 over all pairs.

    python -m experiments.bench.dedupe_peer [--folder FOLDER] [--json FILE]

Fodors-Zagats (restaurants, 533 × 331) in the layout of its benchmark: `train.csv` gives both sides their
labels; F1 is counted over all pairs of the two tables but those labelled. dedupe compares fields, joins one
to one and cuts at one half; ours embeds each record once, trains a map, and takes pairs whose probability
reaches one half (and, beside it, only those where each record is the other's best, which is one to one).
Needs the extra `bench`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.claims import Claim, Side, busy, finish, parser
from pairsieve.pairs import CrossPairs, Ids, is_member, pair_ids

FOLDER = Path(__file__).parents[3] / "shared/data/matching/fodors-zagats/deepmatcher"
Table = list[dict[str, str]]


def read(folder: Path) -> tuple[Table, Table, dict[str, tuple[Ids, Any]]]:
    """The two tables, and (ids, labels) of each part; ids number the tables' rows."""
    left, right = (list(csv.DictReader((folder / name).open())) for name in ("tableA.csv", "tableB.csv"))
    places = [{record["id"]: row for row, record in enumerate(table)} for table in (left, right)]
    parts = {}
    for name in ("train", "valid", "test"):
        rows = list(csv.DictReader((folder / f"{name}.csv").open()))
        ids = pair_ids(
            [places[0][row["ltable_id"]] for row in rows], [places[1][row["rtable_id"]] for row in rows]
        )
        order = np.argsort(ids)
        parts[name] = ids[order], np.array([row["label"] == "1" for row in rows])[order]
    return left, right, parts


def f1(found: Ids, parts: dict[str, tuple[Ids, Any]]) -> tuple[float, float, float]:
    """F1, precision and recall over all pairs but those of the train part."""
    truth = np.unique(np.concatenate([ids[labels] for ids, labels in parts.values()]))
    known = parts["train"][0]
    truth, found = truth[~is_member(truth, known)], np.unique(found)
    found = found[~is_member(found, known)]
    hits = int(is_member(found, truth).sum())
    precision, recall = hits / max(1, len(found)), hits / len(truth)
    return 2 * hits / max(1, len(found) + len(truth)), precision, recall


def ours(folder: Path, threads: int) -> Callable[[], Any]:
    import torch

    from pairsieve.models import learner_named
    from pairsieve.models.folders import BUNDLED

    torch.set_num_threads(threads)
    left, right, parts = read(folder)
    one_texts, other_texts = (
        [" ".join(v for k, v in record.items() if k != "id") for record in table] for table in (left, right)
    )
    learner = learner_named("projection", BUNDLED, "cpu")

    def work() -> Any:
        one, other = learner.encoder.embed(one_texts), learner.encoder.embed(other_texts)
        ids, labels = parts["train"]
        matcher = learner.fit((one_texts, other_texts), ids, labels, np.random.default_rng(0), (one, other))
        cosines = matcher.transform(one) @ matcher.transform(other, "right").T
        reach = matcher.weight * cosines + matcher.bias >= 0
        best = reach & (cosines == cosines.max(1, keepdims=True)) & (cosines == cosines.max(0, keepdims=True))
        return f1(pair_ids(*np.nonzero(reach)), parts), f1(pair_ids(*np.nonzero(best)), parts)

    return work


def dedupe_linker(folder: Path, threads: int) -> Callable[[], Any]:
    import dedupe
    from dedupe import variables

    left, right, parts = read(folder)
    fields = [name for name in left[0] if name != "id"]
    tables = [
        {row: {name: record[name].strip().lower() or None for name in fields} for row, record in enumerate(t)}
        for t in (left, right)
    ]

    def work() -> Any:
        linker = dedupe.RecordLink(
            [variables.String(name, has_missing=True) for name in fields], num_cores=threads
        )
        ids, labels = parts["train"]
        pairs = [(tables[0][int(i >> 32)], tables[1][int(i & 0xFFFFFFFF)]) for i in ids]
        linker.prepare_training(*tables)
        linker.mark_pairs(
            {
                "match": [pair for pair, label in zip(pairs, labels) if label],
                "distinct": [pair for pair, label in zip(pairs, labels) if not label],
            }
        )
        linker.train()
        joined = linker.join(*tables, threshold=0.5, constraint="one-to-one")
        rows = np.array([pair for pair, _ in joined], dtype=np.int64).reshape(-1, 2)
        return f1(pair_ids(rows[:, 0], rows[:, 1]), parts)

    return work


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--folder", type=Path, default=FOLDER)
    asked = arguments.parse_args()
    if not asked.folder.is_dir():
        raise SystemExit(f"{asked.folder} is not there. Give the benchmark's folder with --folder.")
    left, right, parts = read(asked.folder)
    sides = [Side(one, asked.folder, asked.threads) for one in (ours, dedupe_linker)]
    our_seconds, peer_seconds = (side.run() for side in sides)
    spent = busy(*sides)
    (plain, mutual), peer = sides[0].result, sides[1].result
    peaks = [side.close() for side in sides]
    words = "F1 {:.3f} (precision {:.3f}, recall {:.3f})"
    finish(
        [
            Claim(
                "Matching two tables beside dedupe",
                "pairsieve: embed, train a map, score all pairs",
                our_seconds,
                "dedupe: train, block, join one to one",
                peer_seconds,
                peer_seconds / our_seconds,
                "",
                peaks[0],
                f"fodors-zagats, {CrossPairs(len(left), len(right)).size:,} pairs, "
                f"{len(parts['train'][0]):,} labels, {asked.threads} threads",
                f"Ours {words.format(*plain)}; each other's best only: {words.format(*mutual)}. dedupe "
                f"{words.format(*peer)}, peak {peaks[1]:.2f} GiB; {spent}",
            )
        ],
        asked.json,
    )


if __name__ == "__main__":
    main()

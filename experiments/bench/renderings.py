"""AP before any label by how a record is rendered for the encoder: its values alone, or with column names.

    python -m experiments.bench.renderings [--tables cora,settlements,…] [--data FOLDER] [--cache FOLDER]

*plain* joins the values of a record by " | ", *named* writes "column: value; column: value". The same columns
are in both. AP is over all pairs, with the corrections by neighbours, by the bundled encoder. Real tables are
those of the bench of strangers; the others are synthetic.

Beside them stand criteria that could choose between the two without the truth, as named minus plain: *copies*
and *contrast* need no label (`label_free`); *40 labels* and *400 labels* are how many of 20 draws of labels
speak for names, and in brackets how many surely (`by_labels`).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from experiments.bench.strangers_tables import NOTHING, SHARED, TABLES
from experiments.synthetic.records import table_of
from pairsieve import create_campaign
from pairsieve.measure.figures import exact_figures
from pairsieve.models.encoder import Encoder, encoder_named
from pairsieve.models.folders import BUNDLED
from pairsieve.pairs import AllPairs, Ids, is_member
from pairsieve.reranker.fields import columns_of
from pairsieve.synthetic import Draw, Roughness, group_sizes, mistyped, same_cluster
from pairsieve.tasks import Collection, Split, Task
from pairsieve.tasks.fields import make_fields
from pairsieve.tasks.joined import BETWEEN, joined_rows, rendered, taken_apart

REAL = ("abt-buy", "amazon-google", "dblp-acm", "fodors-zagats", "cora", "settlements")
DRAWN = 400  # records that a label-free criterion looks at
Scores = NDArray[np.float32]
SYNTHETIC = ("products", "people", "places", "citations")


def synthetic_table(kind: str, records: int = 2_000) -> Task:
    """A synthetic table that keeps its columns."""
    sizes = group_sizes(records, {2: 0.4, 4: 0.2})
    table = table_of(kind, sizes, 15, Roughness(typo=0.3, missing=0.2))
    keys = [f"r{row}" for row in range(records)]
    side = Collection(keys, joined_rows(list(table.columns.values())), make_fields(table.columns))
    split = Split("all", AllPairs(records), side, side, same_cluster(table.entity), NOTHING, True)
    return Task(kind, "equivalence", {"all": split}, {"source": "synthetic"}, {})


def named(side: Collection) -> Collection:
    """The same records as "column: value", without the missing ones."""
    names = [name for name, _ in columns_of(side)]
    rows = [taken_apart(text) for text in side.texts]
    texts = [rendered(named_text(names, row), row) for row in rows]
    return Collection(side.keys, texts, side.fields, side.sources)


def named_text(names: Sequence[str], values: Sequence[str]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in zip(names, values) if value)


# ── criteria that need no truth ─────────────────────────────────────────────────────────────────


def drawn_records(split: Split) -> list[tuple[list[str], list[str]]]:
    """Column names and values of `DRAWN` records, half of them from either side of two."""
    sides = [split.left] if split.left is split.right else [split.left, split.right]
    found = []
    for side in sides:
        names = [name for name, _ in columns_of(side)]
        rows = np.random.default_rng(0).permutation(len(side))[: DRAWN // len(sides)].tolist()
        found += [(names, taken_apart(side.texts[row])) for row in rows]
    return found


def corrupted(draw: Draw, values: Sequence[str]) -> list[str]:
    """A copy with a typing error in half of the values and three tenths of them missing, never all."""
    copy = [mistyped(draw, value, 0.5) if value else value for value in values]
    for place in [at for at, value in enumerate(copy) if value]:
        if draw.chance(0.3) and sum(map(bool, copy)) > 1:
            copy[place] = ""
    return copy


def label_free(split: Split, encoder: Encoder) -> dict[str, float]:
    """Named minus plain: AP of records with their own corrupted copies among the copies of all, and contrast.

    Contrast is how far a record's nearest is above the mean cosine, in standard deviations.
    """
    records = drawn_records(split)
    draw = Draw(7)
    copies = [(names, corrupted(draw, values)) for names, values in records]
    same = np.array([[one[1] == other[1] for other in records] for one in records])
    own = np.eye(len(records), dtype=bool)
    found: dict[str, float] = {}
    for sign, render in ((-1, lambda _, values: BETWEEN.join(filter(None, values))), (1, named_text)):
        one, other = (encoder.embed([render(*each) for each in part]) for part in (records, copies))
        figure = average_precision_score(own[own | ~same], (one @ other.T)[own | ~same])
        cosines = one @ one.T
        others = cosines[~own]
        np.fill_diagonal(cosines, -1.0)
        contrast = (cosines.max(1).mean() - others.mean()) / others.std()
        for name, value in (("copies", figure), ("contrast", contrast)):
            found[name] = found.get(name, 0.0) + sign * float(value)
    return found


def by_labels(ids: Ids, plain: Scores, other: Scores, split: Split, labels: int) -> tuple[int, int]:
    """How many of 20 draws of labels have a higher AP by names; and how many surely (95 %, bootstrap).

    Labels lie at log-spaced ranks of the plain rendering, as those of a campaign's first batch do.
    """
    truth, most = is_member(ids, split.positives), min(len(ids), 20 * max(split.space.shape))
    order = np.argpartition(-plain, most - 1)[:most]
    order = order[np.argsort(-plain[order], kind="stable")]
    better = surely = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        steps = (np.arange(labels) + rng.random(labels)) / labels
        at = order[np.unique(np.minimum(np.exp(steps * np.log(most)).astype(int), most - 1))]

        def gain(rows: Ids) -> float:
            label = truth[rows]
            if not 0 < label.sum() < len(label):
                return 0.0
            return float(
                average_precision_score(label, other[rows]) - average_precision_score(label, plain[rows])
            )

        better += gain(at) > 0
        again = [gain(at[rng.integers(0, len(at), len(at))]) for _ in range(200)]
        surely += bool(np.percentile(again, 2.5) > 0)
    return better, surely


def scored(task: Task, split: Split, folder: Path, cache: Path) -> tuple[float, Ids, Scores]:
    """AP before any label, and the score of every pair."""
    whole = Task(task.name, task.relation, {"all": replace(split, name="all")}, task.provenance, task.report)
    campaign = create_campaign(folder, whole, labels=100, cache=cache)
    own = campaign.task.splits["all"]
    scan = campaign.score(own, 0).scan
    figures, _ = exact_figures(scan, split.positives, split.stated_negatives)
    left, right = np.indices(own.space.shape).reshape(2, -1)
    if own.space.symmetric:
        left, right = left[left < right], right[left < right]
    ids = np.sort(own.space.ids(left, right))
    return figures.average_precision.value, ids, scan.scores(ids)


def compare(name: str, data: Path, folder: Path, cache: Path) -> str:
    """A line of the table."""
    task = TABLES[name].make(data) if name in REAL else synthetic_table(name)
    split = task.splits["all"]
    left = named(split.left)
    right = left if split.left is split.right else named(split.right)
    plain, ids, scores = scored(task, split, folder / "plain", cache)
    other, _, others = scored(task, replace(split, left=left, right=right), folder / "named", cache)
    free = label_free(split, encoder_named(BUNDLED))
    labels = ["{} ({})".format(*by_labels(ids, scores, others, split, count)) for count in (40, 400)]
    figures = [f"{plain:.3f}", f"{other:.3f}", f"{free['copies']:+.3f}", f"{free['contrast']:+.2f}"]
    return f"| {name} | {' | '.join([*figures, *labels])} |"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", default=",".join((*REAL, *SYNTHETIC)))
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--cache", type=Path)
    asked = parser.parse_args(words)
    print("| table | plain | named | copies | contrast | 40 labels | 400 labels |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for name in asked.tables.split(","):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            print(compare(name, asked.data, place, asked.cache or place / "cache"), flush=True)


if __name__ == "__main__":
    main()

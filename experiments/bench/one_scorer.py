"""Whether what is measured is what is exported and served, over all pairs of a split.

    python -m experiments.bench.one_scorer [--task FOLDER --split test] [--labels 100] [--cache FOLDER]
        [--json FILE]

One campaign, answered by the truth: the bundled encoder, a given number of labels. Then average precision
over all pairs, three times: by `evaluate`; from the scores of `load_scorer` on the exported folder; from the
answers of the service, collected for every text of the split. And one threshold, as `match` prints it for the
best F1: precision and recall there over all pairs, by `match`, and by the answers of the service to the same
threshold. Without --task: the task of `pairsieve demo`. Exit status 1 where two figures are more than 1e-6
apart.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairsieve import create_campaign, evaluate_model, export_model, find_matches, load_scorer
from pairsieve.demo import CITATIONS, ROUGHNESS, SIZES
from pairsieve.measure.curve import curve_from_scores
from pairsieve.pairs import pair_rows
from pairsieve.serving import Service
from pairsieve.serving.service import MOST_MATCHES
from pairsieve.synthetic import group_sizes, records_task, synthetic_records
from pairsieve.tasks import Split, save_task

CLOSE = 1e-6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--task", type=Path, help="a task folder with truth")
    parser.add_argument("--split", default="test")
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if asked.task is None:
            table = synthetic_records(CITATIONS, group_sizes(1000, SIZES), 0, ROUGHNESS)
            save_task(records_task("synthetic-citations", table, True), folder / "task")
            asked.task, asked.split = folder / "task", "all"
        found = compared(asked.task, asked.split, asked.labels, folder, asked.cache)
    print(in_words(found))
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    sys.exit(0 if found["farthest"] <= CLOSE else 1)


def compared(task: Path, name: str, labels: int, folder: Path, cache: Path | None) -> dict[str, Any]:
    campaign = create_campaign(folder / "campaign", task, labels=labels, cache=cache)
    campaign.run()
    split = campaign.task.splits[name]
    measured = evaluate_model(campaign, name)
    export_model(campaign, folder / "model")
    right = None if split.space.symmetric else split.right.texts
    exported = load_scorer(folder / "model").scores(split.left.texts, right)
    listed = find_matches(campaign, folder / "matches.csv", split=name, f1=True).as_json()
    threshold, by_match = listed["threshold"]["threshold"], listed["truth"]["scores_alone"]
    with Service.open(campaign.folder, name, state=folder / "serving", cache=cache) as service:
        served, reached = answers(service, split, None), answers(service, split, threshold)
        words = {key: service.about()[key] for key in ("corrections", "reranker")}
    ap = {
        "evaluate": measured.average_precision.value,
        "load_scorer": average_precision(split, exported),
        "serve": average_precision(split, served),
    }
    positive = truth_of(split)[all_pairs(split)]
    over = np.isfinite(reached[all_pairs(split)])
    hits = int((over & positive).sum())
    at = {
        "match": {which: by_match[which] for which in ("precision", "recall")},
        "serve": {"precision": hits / int(over.sum()), "recall": hits / int(positive.sum())},
    }
    apart = [value - ap["evaluate"] for value in ap.values()]
    apart += [at["serve"][which] - at["match"][which] for which in ("precision", "recall")]
    return {
        "task": campaign.task.name,
        "split": name,
        "pairs": split.space.size,
        "labels": labels,
        **words,
        "average_precision": ap,
        "threshold": threshold,
        "at_threshold": at,
        "farthest": max(map(abs, apart)),
        "farthest_score": float(np.abs(exported - served)[all_pairs(split)].max()),
    }


def answers(service: Service, split: Split, threshold: float | None) -> NDArray[np.float64]:
    """(left, right) scores that the service gives for every left text by its key; nan: no answer."""
    column = {key: at for at, key in enumerate(split.right.keys)}
    found = np.full(split.space.shape, np.nan)
    for row, key in enumerate(split.left.keys):
        for match in service.match_key(key, MOST_MATCHES, threshold):
            found[row, column[match.key]] = match.score
    return found


def average_precision(split: Split, matrix: NDArray[Any]) -> float:
    """Exact, from a score of every pair."""
    scores, truth = matrix[all_pairs(split)].astype(np.float32), truth_of(split)[all_pairs(split)]
    assert np.isfinite(scores).all(), "a pair has no score"
    return curve_from_scores(scores[truth], scores[~truth]).average_precision()


def truth_of(split: Split) -> NDArray[np.bool_]:
    positive = np.zeros(split.space.shape, bool)
    positive[pair_rows(split.positives)] = True
    return positive


def all_pairs(split: Split) -> NDArray[np.bool_]:
    """Each pair once: of one collection those above the diagonal."""
    whole = np.ones(split.space.shape, bool)
    return np.triu(whole, 1) if split.space.symmetric else whole


def in_words(found: dict[str, Any]) -> str:
    lines = [
        f"{found['task']}, {found['split']}: {found['pairs']:,} pairs, {found['labels']:,} labels",
        f"  corrections: {found['corrections']}; re-ranker: {found['reranker']}",
        *(f"  average precision by {who:12} {ap:.9f}" for who, ap in found["average_precision"].items()),
        f"  at the threshold {found['threshold']:.9g} of match --f1:",
        *(
            f"  precision and recall by {who:6} {figures['precision']:.9f}  {figures['recall']:.9f}"
            for who, figures in found["at_threshold"].items()
        ),
        f"  farthest figures {found['farthest']:.1e}, farthest scores {found['farthest_score']:.1e} apart",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()

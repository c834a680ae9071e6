"""The demo: three strategies spend the same labels on a synthetic collection of questions, in minutes.

Half of the clusters are the pool to ask about, the other half is the test nobody learns from. Three
strategies spend the same budget; the table shows what each one's labels were worth over ALL test pairs,
and what a balanced sample of pairs would have claimed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pairsieve.campaign import Campaign, create_campaign
from pairsieve.measure.figures import exact_figures
from pairsieve.pairs import AllPairs, Ids, ScoredPairs, pair_rows
from pairsieve.report.plots import learning_curves
from pairsieve.scorer import score_space
from pairsieve.settings import Schedule
from pairsieve.synthetic import SyntheticQuestions, synthetic_questions
from pairsieve.tables import write_table
from pairsieve.tasks import Collection, Split, Task, load_task, save_task

STRATEGIES = ("uncertainty", "static", "random")
SCHEDULE = Schedule(first_batch=256, growth=1.5, rounds=7)  # 8,236 labels


def synthetic_task(texts: int, seed: int) -> Task:
    """The synthetic questions as a task: clusters shuffled, half of the questions each for train and test."""
    questions = synthetic_questions(texts, seed)
    clusters = np.random.default_rng([seed, 1]).permutation(int(questions.cluster.max()) + 1)
    place = np.empty(len(clusters), np.int64)
    place[clusters] = np.arange(len(clusters))
    sizes = np.bincount(questions.cluster, minlength=len(clusters))[clusters]
    in_train = (np.cumsum(sizes) - sizes / 2 <= len(questions.texts) / 2)[place][questions.cluster]
    splits = {
        "train": _split("train", questions, np.flatnonzero(in_train)),
        "test": _split("test", questions, np.flatnonzero(~in_train)),
    }
    provenance = {"source": "pairsieve.synthetic", "texts": len(questions.texts), "seed": seed}
    return Task("synthetic-questions", "equivalence", splits, provenance, {})


def _split(name: str, questions: SyntheticQuestions, rows: Ids) -> Split:
    keys, texts = ([column[row] for row in rows.tolist()] for column in (questions.keys, questions.texts))
    side = Collection(keys, texts)
    space = AllPairs(len(rows))
    at = np.full(len(questions.texts), -1)
    at[rows] = np.arange(len(rows))
    stated = at[np.array(questions.stated_negatives)]
    inside = (stated >= 0).all(axis=1)
    negatives = np.unique(space.ids(*stated[inside].T))
    return Split(name, space, side, side, same_cluster(questions.cluster[rows]), negatives, True)


def same_cluster(cluster: Ids) -> Ids:
    """Sorted ids of all pairs of one collection whose texts share a cluster."""
    order = np.argsort(cluster, kind="stable")
    starts = np.flatnonzero(np.diff(cluster[order], prepend=-1))
    pieces = [np.empty(0, np.int64)]
    for members in np.split(order, starts[1:]):
        one, other = np.triu_indices(len(members), 1)
        pieces.append(AllPairs(len(cluster)).ids(members[one], members[other]))
    return np.sort(np.concatenate(pieces))


def run_demo(
    out: Path,
    texts: int,
    seed: int,
    say: Callable[[str], None],
    schedule: Schedule = SCHEDULE,
    **settings: Any,
) -> dict[str, Any]:
    """Write the task, run the campaigns, write the plot and the matches; returns what the table shows."""
    if not (out / "task" / "task.json").exists():
        save_task(synthetic_task(texts, seed), out / "task")
    task = load_task(out / "task")
    train, test = task.splits["train"], task.splits["test"]
    total = AllPairs(len(train.left) + len(test.left))
    positives = len(train.positives) + len(test.positives)
    say(
        f"{total.texts:,} synthetic questions: {total.size:,} pairs, one in {total.size / positives:,.0f} "
        f"matches. {train.space.size:,} pairs to ask about, {test.space.size:,} to measure on."
    )
    runs: dict[str, list[dict[str, Any]]] = {}
    campaigns: dict[str, Campaign] = {}
    for strategy in STRATEGIES:
        folder = out / strategy
        if not (folder / "campaign.toml").exists():
            create_campaign(
                folder,
                out / "task",
                strategy=strategy,
                schedule=schedule,
                seed=seed,
                measure_splits=("test",),
                seed_set="random" if strategy == "random" else "static",
                reranker="off",  # strategies are compared by the bi-encoder that chooses
                **settings,
            )
        campaigns[strategy] = Campaign(folder, out / "cache")
        say(f"{strategy}: {schedule.budget():,} labels in {schedule.rounds} rounds")
        campaigns[strategy].run(lambda words: say(f"  {words}"))
        runs[strategy] = [_row(row) for row in campaigns[strategy].status()["rounds"]]
    best = campaigns["uncertainty"]
    scan = best.score(test, 0).scan
    frozen = exact_figures(scan, test.positives, test.stated_negatives)[0].as_json()
    one_in = test.space.size / len(test.positives)
    title = f"{test.space.size:,} synthetic pairs, one in {one_in:,.0f} matches"
    learning_curves(runs, out / "learning-curves.png", title, frozen["average_precision"]["value"])
    found = _matches(best, train, test)
    _write_matches(out / "matches.csv", train, test, found)
    return {
        "texts": total.texts,
        "pairs": total.size,
        "positives": positives,
        "test_pairs": test.space.size,
        "test_positives": len(test.positives),
        "frozen": _row({**frozen, "measures": {"test": frozen}, "labels": 0, "positives": 0}),
        "strategies": runs,
        "matches": len(found),
        "matches_file": str(out / "matches.csv"),
        "plot": str(out / "learning-curves.png"),
    }


def _row(row: dict[str, Any]) -> dict[str, Any]:
    balanced = row["measures"]["test"]["balanced"]
    return {
        "labels": row["labels"],
        "positives": row["positives"],
        "average_precision": row["average_precision"]["value"],
        "precision_at_recall_0.2": row["precision_at_recall"]["0.2"]["value"],
        "balanced_average_precision": balanced["average_precision"],
        "balanced_f1": balanced["best_f1"]["value"],
    }


def _matches(campaign: Campaign, train: Split, test: Split) -> ScoredPairs:
    """Every pair of the whole collection that the last model gives a probability of at least one half."""
    scorer, scores = campaign.scorer(), campaign.trainer.scores
    model = campaign.trainer.model_key(campaign.labels(campaign.latest()))
    rows = np.concatenate([scores.unit_rows(scorer.matcher, split, model)[0] for split in (train, test)])
    texts = (*train.left.texts, *test.left.texts)
    scored = score_space(scorer, AllPairs(len(rows)), (texts, texts), (rows, None), scores.open_scan)
    pieces: list[tuple[Ids, Any]] = []
    scored.scan.collect(scorer.even_odds, 2.0, lambda ids, values: pieces.append((ids, values)))
    ids = np.concatenate([np.empty(0, np.int64), *(piece[0] for piece in pieces)])
    found = np.concatenate([np.empty(0, np.float32), *(piece[1] for piece in pieces)])
    return ScoredPairs.of(ids, scorer.probabilities(found))


def _write_matches(path: Path, train: Split, test: Split, found: ScoredPairs) -> None:
    keys, texts = (*train.left.keys, *test.left.keys), (*train.left.texts, *test.left.texts)
    order = np.lexsort((found.ids, -found.scores))
    a, b = (rows[order].tolist() for rows in pair_rows(found.ids))
    columns = {"probability": [f"{probability:.4f}" for probability in found.scores[order].tolist()]}
    for name, values in (("key", keys), ("text", texts)):
        for side, rows in (("a", a), ("b", b)):
            columns[f"{name}_{side}"] = [values[row] for row in rows]
    write_table(path, dict.fromkeys(columns, "string"), columns)


def demo_table(result: dict[str, Any]) -> str:
    """The result for a person."""
    one_in = result["test_pairs"] / result["test_positives"]
    lines = [
        f"Test: {result['test_pairs']:,} pairs, one in {one_in:,.0f} matches. Every figure below is exact.",
        "",
        "                                 matches   all test pairs     what a balanced sample",
        "                        labels     found       AP    P@R20    would claim: AP     F1",
        _line("before any label", result["frozen"]),
    ]
    lines += [_line(name, rows[-1]) for name, rows in result["strategies"].items()]
    adaptive, random = (result["strategies"][name][-1] for name in ("uncertainty", "random"))
    chosen = f"{adaptive['positives']:,} were matches when the model chose"
    lines += [
        "",
        f"Of {adaptive['labels']:,} labels, {chosen}, {random['positives']:,} at random.",
        f"Learning curves: {result['plot']}",
        f"{result['matches']:,} matches among {result['pairs']:,} pairs: {result['matches_file']}",
    ]
    return "\n".join(lines)


def _line(name: str, row: dict[str, Any]) -> str:
    return (
        f"  {name:<18}{row['labels']:>10,}{row['positives']:>10,}{row['average_precision']:>9.3f}"
        f"{row['precision_at_recall_0.2']:>9.3f}{row['balanced_average_precision']:>19.3f}{row['balanced_f1']:>7.3f}"
    )

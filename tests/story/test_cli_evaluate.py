"""`pairsieve evaluate` and `pairsieve draw` as a person uses them: figures that can be checked by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import average_precision_score

from evaluating import Pairsieve, runner, write_scores, write_task
from pairsieve.pairs import AllPairs, CrossPairs, PairSpace, pair_rows
from pairsieve.scan import unit_rows


@pytest.fixture
def pairsieve(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Pairsieve:
    return runner(monkeypatch, capsys)


@dataclass(frozen=True)
class Made:
    """A space small enough to enumerate: every id, its cosine as the scan defines it, and its label."""

    space: PairSpace
    arrays: dict[str, Any]
    ids: Any
    scores: Any
    positive: Any


def made_space(symmetric: bool, kind: str, seed: int = 0) -> Made:
    """`tied` rows are corners of a cube: 45 × 60 texts, five distinct cosines."""
    rng = np.random.default_rng(seed)
    space: PairSpace = AllPairs(60) if symmetric else CrossPairs(45, 60)

    def rows(count: int) -> Any:
        made = rng.integers(0, 2, (count, 4)) * 2.0 - 1.0 if kind == "tied" else rng.normal(size=(count, 6))
        return made.astype(np.float32)

    arrays = {"texts": rows(60)} if symmetric else {"left": rows(45), "right": rows(60)}
    sides = list(arrays.values())
    ids = space.unrank(np.arange(space.size))
    left, right = pair_rows(ids)
    scores = np.einsum("ij,ij->i", unit_rows(sides[0], float)[left], unit_rows(sides[-1], float)[right])
    scores = scores.round(9)
    positive = rng.random(len(ids)) < 0.6 / (1 + np.exp(8 * (0.8 - scores)))
    return Made(space, arrays, ids, scores, positive)


def check_figures(found: dict[str, Any], scores: Any, positive: Any) -> None:
    """AP against scikit-learn, precision at recall and F1 against their definitions."""
    assert found["average_precision"]["value"] == pytest.approx(
        average_precision_score(positive, scores), abs=1e-6
    )
    descending = -np.sort(-scores[positive])
    for recall, estimate in found["precision_at_recall"].items():
        threshold = descending[int(np.ceil(float(recall) * len(descending) - 1e-9)) - 1]
        assert estimate["value"] == pytest.approx(positive[scores >= threshold].mean(), abs=1e-6)
    called = [scores >= threshold for threshold in np.unique(scores)]
    f1 = [2 * (positive & these).sum() / (these.sum() + positive.sum()) for these in called]
    assert found["best_f1"]["value"] == pytest.approx(max(f1), abs=1e-6)
    at = scores >= found["best_f1"]["threshold"] - 1e-6
    assert found["best_f1"]["precision"] == pytest.approx(positive[at].mean())
    assert found["best_f1"]["recall"] == pytest.approx(at[positive].mean())


# --- what comes out ---------------------------------------------------------------------------------------


@pytest.fixture
def four(tmp_path: Path) -> tuple[Path, Path]:
    """Four texts at 0, 10, 60 and 90 degrees; (0, 1) and (1, 2) match, (2, 3) is stated not to.

    Cosines: (0,1) .98 match, (2,3) .87, (1,2) .64 match, (0,2) .50, (1,3) .17, (0,3) 0.
    """
    space = AllPairs(4)
    task = write_task(tmp_path / "task", space, space.ids([0, 1], [1, 2]), space.ids([2], [3]))
    angles = np.radians([0, 10, 60, 90])
    np.savez(tmp_path / "four.npz", texts=np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32))
    return task, tmp_path / "four.npz"


def test_json_worked_by_hand(four: tuple[Path, Path], pairsieve: Pairsieve) -> None:
    """AP = ½ · 1/1 + ½ · 2/3 = 5/6. F1 is 2/3 after one pair and 2 · 2/(3 + 2) = 0.8 after three."""
    task, embeddings = four
    found = pairsieve("evaluate", task, "--embeddings", embeddings, "--json").json
    assert list(found)[:8] == [
        *("task", "split", "pairs", "positives", "method"),
        *("average_precision", "precision_at_recall", "best_f1"),
    ]
    assert (found["task"], found["split"], found["pairs"], found["positives"]) == ("made", "test", 6, 2)
    assert found["method"] == "exact"
    ap = found["average_precision"]
    assert ap["value"] == ap["low"] == ap["high"] == pytest.approx(5 / 6)
    assert {recall: p["value"] for recall, p in found["precision_at_recall"].items()} == {
        "0.1": 1.0,
        "0.2": 1.0,
        "0.5": 1.0,
    }
    assert found["best_f1"] == {
        "value": pytest.approx(0.8),
        "threshold": pytest.approx(np.cos(np.radians(50))),
        "precision": pytest.approx(2 / 3),
        "recall": 1.0,
    }
    # On the stated pairs alone: match .98, no match .87, match .64, so the same 5/6.
    assert found["balanced"]["pairs"] == 3
    assert found["balanced"]["average_precision"] == pytest.approx(5 / 6)


def test_the_table_a_person_sees(four: tuple[Path, Path], pairsieve: Pairsieve, tmp_path: Path) -> None:
    task, embeddings = four
    picture = tmp_path / "new" / "curve.png"
    said = pairsieve("evaluate", task, "--split", "test", "--embeddings", embeddings, "--plot", picture)
    assert said.code == 0
    claim = "average precision 0.8333, best F1 0.8000, accuracy 0.6667"
    assert said.out.splitlines() == [
        "made, split test: 6 pairs, 2 positive (one in 3); exact",
        "",
        "  average precision        0.8333",
        "  precision at recall 0.1  1.0000",
        "  precision at recall 0.2  1.0000",
        "  precision at recall 0.5  1.0000",
        "  best F1                  0.8000   at score 0.6428: precision 0.6667, recall 1.0000",
        "",
        f"  On its 3 stated pairs alone the same scores would claim: {claim}.",
    ]
    assert said.err.splitlines() == [f"Precision-recall curve: {picture}"]
    from matplotlib.image import imread

    pixels = imread(picture)
    assert pixels.shape[0] > 400 and pixels.shape[1] > 600
    blue = np.array([0x1B, 0x6C, 0xA8]) / 255
    assert (np.abs(pixels[..., :3] - blue).max(axis=2) < 0.02).sum() > 500  # the curve is drawn
    assert [file.name for file in picture.parent.iterdir()] == ["curve.png"]


@pytest.mark.parametrize("symmetric", [True, False], ids=["one collection", "two"])
@pytest.mark.parametrize("kind", ["continuous", "tied"])
def test_exact_figures_equal_scikit_learn(
    symmetric: bool, kind: str, tmp_path: Path, pairsieve: Pairsieve
) -> None:
    made = made_space(symmetric, kind)
    task = write_task(tmp_path / "task", made.space, made.ids[made.positive])
    np.savez(tmp_path / "e.npz", **made.arrays)
    exact = pairsieve("evaluate", task, "--embeddings", tmp_path / "e.npz", "--json").json
    assert (exact["pairs"], exact["positives"]) == (made.space.size, made.positive.sum())
    check_figures(exact, made.scores, made.positive)
    # The same as a list of scores: in any order and, in one collection, either way round.
    rng = np.random.default_rng(1)
    order = rng.permutation(len(made.ids))
    left, right = pair_rows(made.ids[order])
    if symmetric:
        turned = rng.random(len(order)) < 0.5
        left, right = np.where(turned, right, left), np.where(turned, left, right)
    pq.write_table(
        pa.table({"right": right, "score": made.scores[order], "left": left}), tmp_path / "s.parquet"
    )
    listed = pairsieve("evaluate", task, "--scores", tmp_path / "s.parquet", "--json").json
    assert listed["method"] == "exact"
    check_figures(listed, made.scores, made.positive)


def test_other_float_kinds_and_extra_arrays_are_taken(tmp_path: Path, pairsieve: Pairsieve) -> None:
    made = made_space(False, "tied")
    task = write_task(tmp_path / "task", made.space, made.ids[made.positive])
    left, right = made.arrays["left"].astype(np.float64), made.arrays["right"].astype(np.float16)
    np.savez_compressed(tmp_path / "e.npz", left=left, right=right, notes=np.arange(3))
    check_figures(
        pairsieve("evaluate", task, "--embeddings", tmp_path / "e.npz", "--json").json,
        made.scores,
        made.positive,
    )


def test_stated_pairs_of_questions(tmp_path: Path, pairsieve: Pairsieve) -> None:
    """What an evaluation on the stated pairs alone would claim, by pair and by question."""
    made = made_space(False, "continuous")
    negative = np.flatnonzero(~made.positive)[::7]
    task = write_task(tmp_path / "task", made.space, made.ids[made.positive], made.ids[negative])
    np.savez(tmp_path / "e.npz", **made.arrays)
    found = pairsieve("evaluate", task, "--embeddings", tmp_path / "e.npz", "--json").json["balanced"]
    stated = np.concatenate([np.flatnonzero(made.positive), negative])
    labels, scores, questions = made.positive[stated], made.scores[stated], made.ids[stated] >> 32
    assert found["average_precision"] == pytest.approx(average_precision_score(labels, scores), abs=1e-6)
    assert (found["pairs"], found["positives"]) == (len(stated), made.positive.sum())
    clean = [q for q in np.unique(questions) if 0 < labels[questions == q].mean() < 1]
    by_question = [average_precision_score(labels[questions == q], scores[questions == q]) for q in clean]
    assert found["by_question"]["questions"] == len(clean) > 5
    assert found["by_question"]["mean_average_precision"] == pytest.approx(np.mean(by_question), abs=1e-6)


def test_scores_that_float32_would_tie_stay_apart(tmp_path: Path, pairsieve: Pairsieve) -> None:
    """Probabilities of a sure scorer: 1 - 1e-12 (match), 1 - 2e-12 (none), 1 - 3e-12 (match): AP 5/6."""
    space = AllPairs(3)
    task = write_task(tmp_path / "task", space, space.ids([0, 1], [1, 2]))
    scores = 1.0 - np.array([1e-12, 2e-12, 3e-12])
    path = write_scores(tmp_path / "s.parquet", space.unrank(np.arange(3)), scores)
    found = pairsieve("evaluate", task, "--scores", path, "--json").json
    assert found["average_precision"]["value"] == pytest.approx(5 / 6)
    assert found["best_f1"]["threshold"] == scores[2]


def test_unlisted_pairs_rank_last_and_tied(tmp_path: Path, pairsieve: Pairsieve) -> None:
    """Of 10 pairs three are listed: match .9, none .8, match .7; one match is not.

    AP = 1/3 · (1/1 + 2/3 + 3/10).
    """
    space = AllPairs(5)
    task = write_task(tmp_path / "task", space, space.ids([0, 0, 0], [1, 2, 3]))
    listed = space.ids([0, 3, 0], [1, 4, 2])
    path = write_scores(tmp_path / "s.parquet", listed, [0.9, 0.8, 0.7])
    said = pairsieve("evaluate", task, "--scores", path, "--json")
    assert said.json["method"] == "exact, unlisted pairs last"
    assert said.json["average_precision"]["value"] == pytest.approx((1 + 2 / 3 + 3 / 10) / 3)
    assert "lists 3 of 10 pairs, 2 of 3 positives among them: the others rank last, tied" in said.err
    assert "inclusion_probability (see pairsieve draw)" in said.err


def test_no_listed_pair_matches(tmp_path: Path, pairsieve: Pairsieve) -> None:
    """The only match is unlisted: it is found with every pair or not at all, so AP = 1/10, F1 = 2/11."""
    space = AllPairs(5)
    task = write_task(tmp_path / "task", space, space.ids([0], [1]))
    path = write_scores(tmp_path / "s.parquet", space.ids([2], [3]), [5.0])
    found = pairsieve("evaluate", task, "--scores", path, "--json").json
    assert found["average_precision"]["value"] == pytest.approx(0.1)
    assert found["best_f1"]["value"] == pytest.approx(2 / 11)
    assert found["best_f1"]["threshold"] is None
    assert (
        "best F1                  0.1818   with every pair: precision 0.1000"
        in pairsieve("evaluate", task, "--scores", path).out
    )


# --- a sample in place of every pair -----------------------------------------------------------------------


def sampled_task(tmp_path: Path, symmetric: bool) -> tuple[Path, Made, Any]:
    """A task, its enumerated pairs, and every pair's score by a scorer unlike the reference embedding."""
    made = made_space(symmetric, "continuous", seed=5)
    task = write_task(tmp_path / "task", made.space, made.ids[made.positive])
    np.savez(tmp_path / "e.npz", **made.arrays)
    noise = np.random.default_rng(7).normal(size=len(made.ids))
    return task, made, 3 * made.scores + 0.3 * noise + made.positive


def add_scores(sample: Path, made: Made, scores: Any) -> None:
    table = pq.read_table(sample)
    ids = made.space.ids(table["left"].to_numpy(), table["right"].to_numpy())
    pq.write_table(table.append_column("score", pa.array(scores[np.searchsorted(made.ids, ids)])), sample)


@pytest.mark.parametrize("symmetric", [True, False], ids=["one collection", "two"])
def test_draw_score_evaluate(symmetric: bool, tmp_path: Path, pairsieve: Pairsieve) -> None:
    task, made, scores = sampled_task(tmp_path, symmetric)
    sample = tmp_path / "deep" / "sample.parquet"
    words = ["draw", task, "--embeddings", tmp_path / "e.npz", "--neighbours", 4, "--random", 300]
    counts = pairsieve(*words, "--out", sample, "--json").json
    table = pq.read_table(sample)
    assert table.column_names == ["left", "right", "stratum", "inclusion_probability"]
    # The near pairs are the negatives among each text's four nearest.
    rows, columns = made.space.shape
    cosines = np.full((rows, columns), -np.inf)
    left, right = pair_rows(made.ids)
    cosines[left, right] = made.scores
    if symmetric:
        cosines[right, left] = made.scores
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :4]
    near = np.unique(made.space.ids(np.repeat(np.arange(rows), 4), nearest.ravel()))
    near = np.setdiff1d(near, made.ids[made.positive])
    assert counts == {
        "out": str(sample),
        "pairs": len(table),
        "positive": made.positive.sum(),
        "near": len(near),
        "random": 300,
    }
    ids = made.space.ids(table["left"].to_numpy(), table["right"].to_numpy())
    stratum, chance = table["stratum"].to_numpy(), table["inclusion_probability"].to_numpy()
    assert ids[stratum == "near"].tolist() == near.tolist()
    far = made.space.size - len(near) - made.positive.sum()
    assert chance[stratum == "random"] == pytest.approx(300 / far)
    assert (chance[stratum != "random"] == 1).all()

    assert "there is no column 'score'" in pairsieve("evaluate", task, "--scores", sample).err
    add_scores(sample, made, scores)
    found = pairsieve("evaluate", task, "--scores", sample, "--json").json
    assert (found["method"], found["scored_pairs"]) == ("estimated", len(table))
    assert (found["pairs"], found["positives"]) == (made.space.size, made.positive.sum())
    ap = found["average_precision"]
    exact = average_precision_score(made.positive, scores)
    assert 0.1 < ap["low"] < exact < ap["high"] < 1
    assert ap["value"] == pytest.approx(exact, abs=0.1)
    descending = -np.sort(-scores[made.positive])
    for recall in ("0.1", "0.2", "0.5"):
        threshold = descending[int(np.ceil(float(recall) * len(descending))) - 1]
        precision = found["precision_at_recall"][recall]
        assert precision["low"] <= made.positive[scores >= threshold].mean() <= precision["high"]
    # The threshold is one of the user's own scores, not a stand-in.
    assert found["best_f1"]["threshold"] in scores[made.positive]
    assert found["best_f1"]["low"] <= found["best_f1"]["value"] <= found["best_f1"]["high"]

    shown = pairsieve("evaluate", task, "--scores", sample, "--plot", tmp_path / "c.png").out
    assert f"average precision        {ap['value']:.4f}   [{ap['low']:.4f}, {ap['high']:.4f}]" in shown
    assert (tmp_path / "c.png").stat().st_size > 10_000


def test_the_same_seed_draws_the_same_pairs(tmp_path: Path, pairsieve: Pairsieve) -> None:
    task, _, _ = sampled_task(tmp_path, True)
    drawn = []
    for seed in (1, 1, 2):
        out = tmp_path / f"{len(drawn)}.parquet"
        words = ["--neighbours", 2, "--random", 50, "--seed", seed, "--out", out]
        assert pairsieve("draw", task, "--embeddings", tmp_path / "e.npz", *words).code == 0
        drawn.append(out.read_bytes())
    assert drawn[0] == drawn[1] != drawn[2]


def test_drawing_every_pair_makes_the_figures_exact(tmp_path: Path, pairsieve: Pairsieve) -> None:
    """More neighbours and random pairs than there are: the list is complete, and nothing is in doubt."""
    task, made, scores = sampled_task(tmp_path, True)
    sample = tmp_path / "all.parquet"
    said = pairsieve("draw", task, "--embeddings", tmp_path / "e.npz", "--neighbours", 9, "--out", sample)
    assert said.out.startswith(f"{sample}: 1,770 pairs to score ({made.positive.sum()} positive, ")
    add_scores(sample, made, scores)
    found = pairsieve("evaluate", task, "--scores", sample, "--json").json
    assert found["method"] == "exact"
    check_figures(found, scores, made.positive)


# --- manual labels ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verified:
    """40 texts, 780 pairs: 4 positives, 10 near negatives, and 383 of the other 766, each standing for 2.

    Positives score 1, .9, .8, .7. At recall 0.5 the threshold is .9; 4 near and 3 random negatives reach it.
    """

    task: Path
    scores: Path
    positives: Any
    near: Any  # the first four reach the threshold
    random: Any  # the first three do


@pytest.fixture
def verified(tmp_path: Path) -> Verified:
    space = AllPairs(40)
    positives = space.ids([0, 0, 0, 0], [1, 2, 3, 4])
    near = space.ids(np.full(10, 1), np.arange(10, 20))
    random = space.sample(383, np.random.default_rng(0), outside=np.union1d(positives, near))
    scores = np.concatenate([[1, 0.9, 0.8, 0.7], np.full(4, 0.95), np.full(6, 0.1)])
    scores = np.concatenate([scores, np.full(3, 0.92), np.full(380, 0.05)])
    ids, chance = np.concatenate([positives, near, random]), np.repeat([1.0, 0.5], [14, 383])
    path = write_scores(tmp_path / "scores.parquet", ids, scores, inclusion_probability=chance)
    return Verified(write_task(tmp_path / "task", space, positives), path, positives, near, random)


def write_labels(path: Path, ids: Any, labels: Any, column: str = "label") -> Path:
    left, right = pair_rows(np.asarray(ids))
    pq.write_table(pa.table({"left": right, "right": left, column: labels}), path)  # either way round
    return path


def test_manual_labels_correct_the_precision(
    verified: Verified, tmp_path: Path, pairsieve: Pairsieve
) -> None:
    """Of 2 labelled near pairs 1 is an error, of 3 random ones 2 are.

    FP = 1/2 · 4 + 2/3 · 6 = 6, so precision is 2/(2 + 6) = 0.25 instead of 2/(2 + 4 + 6) = 0.17.
    """
    ids = [*verified.near[:2], *verified.random[:3]]
    manual = write_labels(tmp_path / "manual.parquet", ids, [0, 1, 0, 0, 1])
    words = ["evaluate", verified.task, "--scores", verified.scores, "--manual", manual, "--at-recall", 0.5]
    found = pairsieve(*words, "--json").json["corrected_precision"]
    assert found["value"] == pytest.approx(0.25)
    assert 0 < found["low"] < 0.25 < found["high"] < 1
    assert (found["recall"], found["threshold"], found["n"]) == (0.5, 0.9, 5)
    assert "1 of 2 near and 2 of 3 random" in found["method"]
    assert "  corrected precision      0.2500   [" in pairsieve(*words).out
    assert pairsieve(*words).out == pairsieve(*words).out  # the interval's resampling is seeded


def test_pairs_to_verify_are_the_putative_false_positives(
    verified: Verified, tmp_path: Path, pairsieve: Pairsieve
) -> None:
    """All 4 near and 3 random ones are written, with texts; found to be errors, they change nothing: 2/12."""
    drawn = tmp_path / "verify.parquet"
    words = ["evaluate", verified.task, "--scores", verified.scores, "--at-recall", 0.5]
    assert "7 putative false positives at recall 0.5" in pairsieve(*words, "--to-verify", drawn).err
    table = pq.read_table(drawn)
    assert table.column_names == ["left", "right", "left_text", "right_text"]
    ids = AllPairs(40).ids(table["left"].to_numpy(), table["right"].to_numpy())
    assert sorted(ids) == sorted([*verified.near[:4], *verified.random[:3]])
    manual = tmp_path / "manual.parquet"
    pq.write_table(table.append_column("label", pa.array([0] * 7)), manual)
    found = pairsieve(*words, "--manual", manual, "--json").json["corrected_precision"]
    assert found["value"] == pytest.approx(2 / 12)


def test_manual_labels_on_a_complete_list(tmp_path: Path, pairsieve: Pairsieve) -> None:
    """Matches at .9 and .5, others at .8, .7 and .1: precision 2/4 at recall 1; one error is none: 2/3."""
    space = CrossPairs(1, 5)
    task = write_task(tmp_path / "task", space, space.ids([0, 0], [0, 3]))
    scores = write_scores(tmp_path / "s.parquet", space.unrank(np.arange(5)), [0.9, 0.8, 0.7, 0.5, 0.1])
    path = tmp_path / "m.parquet"
    pq.write_table(pa.table({"left": [0, 0], "right": [1, 2], "label": [0, 1]}), path)
    words = ["--scores", scores, "--manual", path, "--at-recall", 1]
    found = pairsieve("evaluate", task, *words, "--json").json
    assert found["precision_at_recall"]["0.5"]["value"] == 1.0
    fixed = found["corrected_precision"]
    assert (fixed["value"], fixed["low"], fixed["high"]) == tuple([pytest.approx(2 / 3)] * 3)
    assert fixed["threshold"] == 0.5


@pytest.mark.parametrize(
    ("ids", "labels", "column", "words", "message"),
    [
        ("near", [0], "lable", [], "there is no column 'label'. Did you mean 'lable'?"),
        ("near", [2], "label", [], "row 0 (from 0), column 'label' is 2, not 0 or 1."),
        ("two", [0, None], "label", [], "row 1 (from 0), column 'label' is empty."),
        ("near", ["yes"], "label", [], "the column 'label' holds string, not whole numbers."),
        ("twice", [0, 0], "label", [], "rows 0 and 1 (from 0) hold the same pair (10, 1)."),
        ("positive", [1], "label", [], "first (left 0, right 1) in row 0 (from 0). It is a known positive."),
        ("low", [0], "label", [], "1 of 1 labelled pairs are no putative false positives at recall 0.2"),
        ("low", [0], "label", [], "It scores below the threshold."),
        ("unlisted", [0], "label", [], "It is not among the scored pairs."),
        ("near", [0], "label", ["--at-recall", "1.5"], "recall 1.5 is outside (0, 1]."),
        ("near", [0], "label", ["--at-recall", "0.5"], "no labels for the random stratum."),
    ],
)
def test_labels_that_cannot_correct(
    ids: str,
    labels: list[Any],
    column: str,
    words: list[str],
    message: str,
    verified: Verified,
    tmp_path: Path,
    pairsieve: Pairsieve,
) -> None:
    space = AllPairs(40)
    scored = np.concatenate([verified.positives, verified.near, verified.random])
    chosen = {
        "near": verified.near[:1],
        "two": verified.near[:2],
        "twice": np.repeat(verified.near[:1], 2),
        "positive": verified.positives[:1],
        "low": verified.near[-1:],
        "unlisted": np.setdiff1d(space.unrank(np.arange(space.size)), scored)[:1],
    }[ids]
    manual = write_labels(tmp_path / "manual.parquet", chosen, labels, column)
    said = pairsieve("evaluate", verified.task, "--scores", verified.scores, "--manual", manual, *words)
    assert (said.code, said.out) == (2, "")
    assert message in said.err and "Traceback" not in said.err


def test_manual_needs_scores_that_speak_for_every_pair(
    verified: Verified, tmp_path: Path, pairsieve: Pairsieve
) -> None:
    manual = write_labels(tmp_path / "manual.parquet", verified.near[:1], [0])
    np.savez(tmp_path / "e.npz", texts=np.eye(40, dtype=np.float32))
    said = pairsieve("evaluate", verified.task, "--embeddings", tmp_path / "e.npz", "--manual", manual)
    assert said.code == 2 and "--manual and --to-verify need --scores." in said.err
    part = write_scores(tmp_path / "part.parquet", verified.near, np.arange(10.0))
    said = pairsieve("evaluate", verified.task, "--scores", part, "--manual", manual)
    assert said.code == 2
    assert "lists 10 of 780 pairs, without the column inclusion_probability." in said.err

"""The bench of strangers: F1 of a list from its file, wrong answers, what is reported as a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.bench.strangers import Cell, cells, complaint, list_figures, stored
from experiments.bench.strangers_page import Summary, as_text, chance_outside, failures, outside, page_text
from experiments.bench.strangers_tables import TABLES, wrong_answers
from experiments.synthetic.records import table_of
from pairsieve.pairs import AllPairs
from pairsieve.synthetic import records_task


def a_row(**more: Any) -> dict[str, Any]:
    row = {"table": "cora", "labels": 400, "seed": 0, "edge": False, "outcome": "ok", "texts": [10, 10]}
    row |= {"one_table": True, "pairs": 45, "matches": 5, "batches": [[4, 4], [4, 2], [4, 1]], "listed": 5}
    row |= {"ap_before": 0.5, "ap_after": 0.9, "precision": 1.0, "recall": 1.0, "f1": 0.95, "seconds": 3.0}
    return row | more


def test_f1_is_counted_from_the_file(tmp_path: Path) -> None:
    task = records_task("names", table_of("names", [3, 1], 0))  # 3 matches
    split = task.splits["all"]
    true = [(int(id) >> 32, int(id) & 0xFFFFFFFF) for id in split.positives]
    other = next((a, b) for a in range(4) for b in range(a + 1, 4) if (a, b) not in true)
    keys = split.left.keys
    path = tmp_path / "list.csv"
    # Two matches, one of them the other way round and twice, and one non-match.
    pairs = [true[0], true[1], true[1][::-1], other]
    path.write_text("left,right,score\n" + "".join(f"{keys[a]},{keys[b]},1\n" for a, b in pairs))
    figures = list_figures(path, split)
    assert figures["listed"] == 3
    assert figures["precision"] == pytest.approx(2 / 3)
    assert figures["recall"] == pytest.approx(2 / 3)
    assert figures["f1"] == pytest.approx(2 / 3)
    path.write_text("left,right,score\n")
    assert list_figures(path, split) == {"listed": 0, "precision": None, "recall": 0.0, "f1": 0.0}


def test_one_answer_in_twenty_is_wrong_and_always_the_same() -> None:
    space = AllPairs(300)
    left, right = np.triu_indices(300, 1)
    ids = np.sort(space.ids(left, right))
    positives = ids[::10]
    answers = np.array(wrong_answers(ids, positives, seed=1))
    wrong = answers != np.isin(ids, positives)
    assert 0.04 < wrong.mean() < 0.06
    assert 0.03 < wrong[::10].mean() < 0.07
    assert np.array_equal(answers[5:9], wrong_answers(ids[5:9], positives, seed=1))


def test_cells_with_budgets_of_their_own_do_not_follow_the_common_ones() -> None:
    found = cells(["cora", "five-labels"], [50, 100], [0, 1])
    assert found == [
        *(Cell("cora", labels, seed) for seed in (0, 1) for labels in (50, 100)),
        *(Cell("five-labels", 5, seed) for seed in (0, 1)),
    ]


def test_what_does_not_hold_is_named() -> None:
    assert failures([a_row()]) == []
    assert failures([a_row(f1=0.9)]) == ["cora, 400 labels: F1 0.900, asked 0.93"]
    below = failures([a_row(f1=0.5)])
    assert below[0].startswith("cora, 400 labels: F1 0.500, dedupe 0.") and len(below) == 2
    assert failures([a_row(ap_after=0.4)]) == ["cora, 400 labels: AP fell from 0.500 to 0.400"]
    assert failures([a_row(batches=[[4, 4], [4, 0], [4, 4]])]) == [
        "cora, 400 labels: matches 100 % in batch 3"
    ]
    broken = a_row(table="people", outcome="traceback", words="ValueError()")
    assert failures([broken]) == ["people, 400 labels, seed 0: traceback (ValueError())"]
    refused = a_row(table="no-match", edge=True, outcome="refused", words="all labels are non-matches")
    assert failures([refused]) == []
    assert failures([{**refused, "edge": False}]) != []


def test_a_list_of_all_pairs_and_an_absurd_threshold_are_no_success() -> None:
    fine = a_row(threshold=0.4)
    assert complaint(fine) == ""
    assert complaint(fine | {"threshold": -4779122.0}) == "absurd threshold"
    assert complaint(fine | {"listed": 40, "precision": 0.05}) == "list of all pairs"
    assert complaint(fine | {"listed": 40, "precision": 0.9}) == ""  # nearly all of them match


def test_a_seed_without_a_list_counts_as_nothing_found() -> None:
    rows = [a_row(), {**a_row(seed=1, outcome="refused"), "f1": None, "precision": None}]
    summary = Summary("cora", 400, rows)
    assert summary.mean("f1") == pytest.approx(0.475)
    assert summary.mean("precision") == 1.0
    assert summary.batch_shares() == [1.0, 0.5, 0.25]


def test_the_page_and_the_text_show_every_cell() -> None:
    rows = [a_row(), a_row(table="no-match", edge=True, outcome="refused", words="only non-matches")]
    for shown in (as_text(rows), page_text(rows)):
        assert "100 50 25" in shown
        assert "only non-matches" in shown
    assert "0.880" in page_text(rows)  # dedupe beside it


def test_stored_rows_come_in_the_order_of_the_tables(tmp_path: Path) -> None:
    import json

    (tmp_path / "cells").mkdir()
    for table in ("people", "cora", "gone"):
        row = json.dumps(a_row(table=table))
        (tmp_path / "cells" / f"{table}.400.0.json").write_text(row)
    assert [row["table"] for row in stored(tmp_path)] == ["cora", "people"]


@pytest.mark.parametrize(("name", "one_in"), [("citations-1-in-20", 20), ("products-1-in-500000", 500_000)])
def test_tables_have_the_share_of_matches_in_their_names(name: str, one_in: int) -> None:
    split = TABLES[name].make(Path()).splits["all"]
    assert split.ratio == pytest.approx(one_in, rel=0.02)


def test_two_tables_match_across_alone() -> None:
    task = TABLES["two-tables"].make(Path())
    split = task.splits["all"]
    assert (len(split.left), len(split.right), len(split.positives)) == (2_500, 22_000, 1_100)


def test_a_batch_of_nine_is_outside_with_none_or_nine_matches():
    """Of nine labels one match is 11 %: by chance 2 of 512 batches are outside at a share of one half."""
    assert [matches for matches in range(10) if outside(9, matches)] == [0, 9]
    assert chance_outside(9, 0.5) == pytest.approx(2 / 512)
    assert chance_outside(9, 0.8) == pytest.approx(0.8**9, abs=1e-6)

"""What was drawn for a reader to verify is kept, and corrects the precision without the model."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from experiments import manual_verification
from experiments.definitions import experiment_named
from experiments.manual_verification import MEASURE, Drawn
from experiments.results import Row, read_file, write_rows
from experiments.tables import tables
from pairsieve.pairs import pair_ids
from pairsieve.tasks import load_task

STORED = Path(__file__).parents[2] / "experiments" / "results"


def test_a_run_is_corrected_from_what_was_drawn(
    task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """60 of 100 pairs above the threshold are positives; of 4 putative errors read 3 are matches."""
    split = load_task(task).splits["dev"]
    near = [int(pair_ids(0, other)) for other in (1, 2, 3, 4)]
    drawn = Drawn(near, [], 60.0, 40.0, 0.0, 1.0, 100)
    (tmp_path / "drawn.json").write_text(json.dumps(asdict(drawn)))
    lines = [f"{split.left.keys[0]},{split.left.keys[other]},{int(other > 1)}" for other in (1, 2, 3, 4)]
    (tmp_path / "labels.csv").write_text("left,right,label\n" + "\n".join(lines) + "\n")
    names = dict.fromkeys(("experiment", "task", "task_fingerprint", "encoder", "encoder_fingerprint"), "x")
    names |= dict.fromkeys(("learner", "recipe", "strategy", "seed_set", "schedule", "made_at"), "x")
    figure = {"round": 1, "labels": 9, "split": "dev", "counting": "distinct", "n": 9, "method": "imputed"}
    value = {"value": 0.6, "low": 0.6, "high": 0.6, "device": "cpu", "source": "the run", "seed": 0}
    rows = tmp_path / "rows.parquet"
    write_rows(rows, [Row(model="manual", measure=MEASURE, **names, **figure, **value)])  # type: ignore[arg-type]
    given = ["--task", task, "--drawn", tmp_path / "drawn.json", "--labels", tmp_path / "labels.csv"]
    for _ in range(2):  # once more replaces the figure
        words = [*map(str, given), "--rows", str(rows), "--reader", "a language model"]
        monkeypatch.setattr(sys, "argv", ["manual", *words])
        manual_verification.main()
        imputed, corrected = sorted(read_file(rows), key=lambda row: row.measure)
        assert imputed.value == 0.6
        assert corrected.value == pytest.approx(60 / (60 + 40 / 4))  # one in four is an error
        assert corrected.method.endswith("; read by a language model")
    said = capsys.readouterr().out
    assert "near: 4 shown, 3 match, 1 do not" in said
    stated = [int(i > near[0]) for i in near if i in split.stated_negatives]
    assert f"stated non-matches among them: {len(stated)}, of which {sum(stated)} read" in said


def test_stored_labels_are_those_of_the_stored_figure_and_hold_no_texts() -> None:
    """Qqp-174k: drawn, labelled and corrected agree, and the page names the reader."""
    name = "qqp-174k.e5-small"
    with (STORED / f"manual-labels.{name}.csv").open(newline="") as file:
        head, *lines = csv.reader(file)
    assert head == ["left", "right", "label"]
    assert all(left.isdigit() and right.isdigit() and label in ("0", "1") for left, right, label in lines)
    drawn = Drawn(**json.loads((STORED / f"manual-drawn.{name}.json").read_text()))
    assert len(lines) == len(drawn.near) + len(drawn.random)
    rows = read_file(STORED / f"manual.{name}.parquet")
    imputed, corrected = sorted(rows, key=lambda row: row.measure)
    assert imputed.value == pytest.approx(drawn.true_positives / drawn.reaching)
    errors = drawn.false_near * sum(label == "0" for *_, label in lines) / len(lines)
    assert corrected.value == pytest.approx(drawn.true_positives / (drawn.true_positives + errors))
    (table,) = tables(experiment_named("manual"), rows)
    assert table.as_json()["rows"][0]["read by"] == "a language model"  # type: ignore[index]
